"""Where the log of a partition begins whose older records are in remote storage: for readers, who open no log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.log.tiering import read_starts

if TYPE_CHECKING:
    from engine.files import ReadOnlyFiles


def remote_log_start(files: ReadOnlyFiles, directory: str) -> int | None:
    """The log start offset of the tiered partition in `directory`, if its first local segment begins later; else None.

    Reads the metadata log beside the partition only where the files leave it open. Raises UnreadableFile.
    """
    starts = read_starts(files, directory)
    if not starts.differ:
        return None
    # what knows the settings of topics takes a while to load, and is asked by few readers
    from engine.log.logdir.log_dirs import find_log_dirs
    from engine.log.logdir.log_manager import LogManager
    from engine.log.logdir.settings import Settings
    from engine.log.logdir.startup import survey
    from engine.overlay import OverlayFiles

    log_dirs = find_log_dirs(files, [directory])
    overlay = OverlayFiles(files, 0)
    manager = LogManager(lambda _log_dir: overlay, survey(files, log_dirs), Settings(), 0)
    topic = log_dirs[0].places[0].name.topic
    return starts.line or 0 if starts.are_of_tiered(manager.tiering(topic)) else None

"""What `verify-index --rebuild` needs besides verifying: locks, quarantines, a question."""

from __future__ import annotations

from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from engine.files import acting_as_root, nameless_file
from engine.layout import is_log_file_name, parent_of
from engine.log.quarantine.stamps import list_files
from kafkalog_cli.asking import Declined, agreed, names_of
from kafkalog_cli.imports import load_everything
from kafkalog_cli.interruption import INTERRUPTION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.config import LogConfig
    from engine.errors import KafkalogError
    from engine.files import Files, ReadOnlyFiles
    from engine.findings import Finding
    from engine.log.tiering import Tiering
    from kafkalog_cli.quarantining import Quarantines


class Begun(NamedTuple):
    """What rebuilds one of the partitions: path, settings, tiering, findings → names of files. `files`: with them."""

    files: ReadOnlyFiles
    rebuild: Callable[[str, LogConfig, Tiering, list[Finding]], list[str]]


class Rebuild:
    """How broken files are rebuilt.

    now  ms since 1970        quarantines  None: what is replaced is not kept        asks  there may be a question
    """

    def __init__(self, now: int, quarantines: Quarantines | None, *, dry_run: bool, asks: bool) -> None:
        self.now, self.dry_run = now, dry_run
        self._quarantines, self._asks = quarantines, asks

    def ask(self, files: ReadOnlyFiles, directories: list[str]) -> None:
        """Ask, where it cannot be undone or partitions lie in several log dirs. Raises Declined."""
        log_dirs = sorted({parent_of(files.absolute(directory)) for directory in directories})
        is_final = self._quarantines is None
        if not self._asks or self.dry_run or not (is_final or len(log_dirs) > 1):
            return
        undo = "; it cannot be undone" if is_final else ""
        size = sum(
            stamp.size for directory in directories for name, stamp in list_files(files, directory).items()
            if not is_log_file_name(name)
        )  # fmt: skip
        what = f"{names_of(log_dirs)}, {len(directories)} partitions, bytes to go: at most {size} (--dry-run tells)"
        if not agreed(f"verify-index --rebuild: {what}{undo}"):
            raise Declined

    @contextmanager
    def begun(
        self, reader: ReadOnlyFiles, disk: Files | None, directories: list[str], errors: list[KafkalogError]
    ) -> Iterator[Begun]:
        """Hold the log dirs of the partitions in `directories`, and rebuild in here.

        disk    None in a dry run
        errors  takes those of quarantines that can not be closed
        Raises LogDirLocked, UnwritableFile.
        """
        from engine.log.logdir.locking import locked, not_permitted
        from engine.log.verify.rebuild import Rebuilder
        from engine.overlay import OverlayFiles
        from engine.overlay.spill import Spill

        with ExitStack() as stack:
            files = OverlayFiles(reader, self.now, stack.enter_context(closing(Spill(nameless_file)))) if disk is None else disk
            log_dir_of = {directory: files.resolve(parent_of(files.absolute(directory))) for directory in directories}
            log_dirs = list(dict.fromkeys(log_dir_of.values()))
            load_everything(files, [*log_dirs, *directories])
            stack.enter_context(locked(files, log_dirs, directories))
            if disk is None:
                errors += not_permitted(reader, log_dirs, directories)
            seams = dict.fromkeys(log_dirs, files)
            try:
                if self._quarantines is not None:
                    with acting_as_root():  # the owner of a log dir may not be allowed to make something beside it
                        seams = {log_dir: self._quarantines.around(files, log_dir) for log_dir in log_dirs}

                def rebuild(directory: str, config: LogConfig, tiering: Tiering, findings: list[Finding]) -> list[str]:
                    seam = seams[log_dir_of[directory]]
                    return list(Rebuilder(seam, directory, config, findings, self.now, tiering).run())

                yield Begun(files, rebuild)
            finally:
                INTERRUPTION.pardon()
                if self._quarantines is not None:
                    self._quarantines.finish(errors)

    def say(self) -> None:
        """Where it is kept."""
        if self._quarantines is not None:
            self._quarantines.say()

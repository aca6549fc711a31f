"""Was the log cleaner here? Then offsets may be missing, and nothing is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.checkpoint.offsets import known_offsets
from engine.errors import KafkalogError, UnreadableFile
from engine.kernels.select import next_cleaned
from engine.layout import INTERNAL_TOPICS, FileKind, parent_of, partition_of
from engine.record.windows import LogWalk

if TYPE_CHECKING:
    from engine.files import ReadOnlyFiles
    from engine.layout import FileName

_LOOKED_AT = 128 << 20  # bytes of logs that are searched for traces


def has_traces(files: ReadOnlyFiles, paths: list[str]) -> bool:
    """Did the cleaner leave its traces in the batches of one of these logs? Where they are long, not all is looked at."""
    left = _LOOKED_AT
    for path in paths:
        try:
            with files.open(path) as file:
                for window in LogWalk(file, 0, min(file.size(), left)):
                    left -= len(window.data)
                    if next_cleaned(window.batches.table, 0, window.rows) < window.rows:
                        return True
        except KafkalogError:
            continue  # what can not be read says nothing
        if left <= 0:
            break
    return False


def was_cleaned(files: ReadOnlyFiles, path: str, name: FileName) -> bool:
    """Do the file, the topic or the cleaner's checkpoint of the log dir say that the cleaner was in this segment?

    path  absolute: the directories above tell
    """
    if ".cleaned" in name.suffix or ".swap" in name.suffix:
        return True
    partition = partition_of(path)
    if partition is None:
        return False
    if partition.topic in INTERNAL_TOPICS:
        return True
    checkpoint_path = f"{parent_of(parent_of(path))}/{FileKind.CLEANER_CHECKPOINT.value}"
    if not files.exists(checkpoint_path):
        return False
    try:
        cleaned_up_to, _ = known_offsets(files, checkpoint_path)
    except UnreadableFile:
        return False
    return cleaned_up_to.get((partition.topic, partition.partition), 0) > (name.base_offset or 0)

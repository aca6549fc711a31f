"""Was the log cleaner here? Then offsets may be missing, and nothing is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.checkpoint.offsets import by_partition, read_offset_checkpoint
from engine.errors import UnreadableFile
from engine.layout import FileKind, parent_of, partition_of

if TYPE_CHECKING:
    from engine.files import ReadOnlyFiles
    from engine.layout import FileName

_COMPACTED_TOPICS = frozenset(("__consumer_offsets", "__transaction_state", "__share_group_state"))


def was_cleaned(files: ReadOnlyFiles, path: str, name: FileName) -> bool:
    """Do the file, the topic or the cleaner's checkpoint of the log dir say that the cleaner was in this segment?

    path  absolute: the directories above tell
    """
    if ".cleaned" in name.suffix or ".swap" in name.suffix:
        return True
    partition = partition_of(path)
    if partition is None:
        return False
    if partition.topic in _COMPACTED_TOPICS:
        return True
    checkpoint_path = f"{parent_of(parent_of(path))}/{FileKind.CLEANER_CHECKPOINT.value}"
    if not files.exists(checkpoint_path):
        return False
    try:
        checkpoint = read_offset_checkpoint(files, checkpoint_path)
    except UnreadableFile:
        return False
    cleaned_up_to = by_partition(checkpoint.entries).get((partition.topic, partition.partition), 0)
    return cleaned_up_to > (name.base_offset or 0)

"""High watermarks after a log was truncated: none lies beyond its log, as a starting broker has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.checkpoint.offsets import PartitionOffset, encode_offset_checkpoint, known_offsets
from engine.files import replace
from engine.layout import FileKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.files import Files

NAME = FileKind.REPLICATION_CHECKPOINT.value


def lower_high_watermarks(files: Files, log_dir: str, ends: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
    """Lower the high watermarks of partitions to the ends of their logs → those that were lowered, as they were before.

    A checkpoint that no broker can read stays as it is. Raises UnreadableFile, UnwritableFile.
    """
    path = f"{log_dir}/{NAME}"
    if not ends or not files.exists(path):
        return {}
    known, fault = known_offsets(files, path)
    before = {key: known[key] for key, end in ends.items() if known.get(key, 0) > end}
    if fault is not None or not before:
        return {}
    lines = {**known, **{key: ends[key] for key in before}}
    replace(files, path, [encode_offset_checkpoint(PartitionOffset(*key, offset) for key, offset in lines.items())])
    return before

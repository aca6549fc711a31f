"""Lines of checkpoints that lie beyond a log which is truncated: a starting broker lowers them as well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.checkpoint.offsets import PartitionOffset, encode_offset_checkpoint, known_offsets
from engine.discovery.names import FileKind
from engine.files import replace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.files import Files

_KINDS = (FileKind.REPLICATION_CHECKPOINT, FileKind.RECOVERY_POINT_CHECKPOINT)


def lower_checkpoints(files: Files, log_dir: str, ends: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
    """Lower high watermarks and recovery points of partitions to the ends of their logs.

    Returns the high watermarks that were lowered, as they were before. A checkpoint that no broker can read stays as it is.
    Raises UnreadableFile, UnwritableFile.
    """
    watermarks, _ = (_lower(files, f"{log_dir}/{kind.value}", ends) for kind in _KINDS)
    return watermarks


def _lower(files: Files, path: str, ends: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
    if not ends or not files.exists(path):
        return {}
    known, fault = known_offsets(files, path)
    before = {key: known[key] for key, end in ends.items() if known.get(key, 0) > end}
    if fault is not None or not before:
        return {}
    lines = {**known, **{key: ends[key] for key in before}}
    replace(files, path, [encode_offset_checkpoint(PartitionOffset(*key, offset) for key, offset in lines.items())])
    return before

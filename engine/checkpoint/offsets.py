"""Checkpoints of a log dir: an offset for each partition. Mirrors OffsetCheckpointFile.

Recovery points, high watermarks (replication), log start offsets and the cleaner's first uncleaned offsets have the
same form; their names are in `layout.FileKind`.
"""

from __future__ import annotations

from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from engine.checkpoint.text import (
    MAX_CHECKPOINT_SIZE,
    Checkpoint,
    Faults,
    decode_checkpoint,
    encode_checkpoint,
)
from engine.discovery.names import FileKind, parse_int, parse_long
from engine.files import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from engine.files import Files, ReadOnlyFiles

_KINDS = (FileKind.REPLICATION_CHECKPOINT, FileKind.RECOVERY_POINT_CHECKPOINT)


class PartitionOffset(NamedTuple):
    """A line: the offset of a partition."""

    topic: str
    partition: int
    offset: int


def read_offset_checkpoint(files: ReadOnlyFiles, path: str) -> Checkpoint[PartitionOffset]:
    """Read the file at `path`. Raises UnreadableFile, also for more than MAX_CHECKPOINT_SIZE bytes."""
    return decode_offset_checkpoint(files.read(path, MAX_CHECKPOINT_SIZE), path)


def decode_offset_checkpoint(data: bytes, path: str) -> Checkpoint[PartitionOffset]:
    """The partitions in the bytes of an offset checkpoint. Never raises."""
    return decode_checkpoint(data, path, _parse, doubt=_doubt)


def known_offsets(files: ReadOnlyFiles, path: str) -> tuple[Mapping[tuple[str, int], int], str | None]:
    """The offset of each partition, and why Kafka cannot read the file at `path`: None where it can. Raises UnreadableFile.

    A log dir may have ten thousand partitions, of which each asks: while its bytes are the same the file is parsed once.
    """
    return _known(files.read(path, MAX_CHECKPOINT_SIZE), path)


@lru_cache(maxsize=12)  # the checkpoints of some log dirs
def _known(data: bytes, path: str) -> tuple[Mapping[tuple[str, int], int], str | None]:
    checkpoint = decode_offset_checkpoint(data, path)
    return MappingProxyType(by_partition(checkpoint.entries)), checkpoint.fault


def _parse(words: list[str]) -> PartitionOffset | None:
    if len(words) != 3:
        return None
    partition, offset = parse_int(words[1]), parse_long(words[2])
    return None if partition is None or offset is None else PartitionOffset(words[0], partition, offset)


def _doubt(entries: list[PartitionOffset], faults: Faults) -> None:
    seen: set[tuple[str, int]] = set()
    for topic, partition, offset in entries:
        if not topic:
            faults.add(f"partition {partition}, offset {offset}: the topic is missing")
        elif partition < 0 or offset < 0:
            faults.add(f"{topic} {partition} {offset}: neither may be negative")
        elif (topic, partition) in seen:
            faults.add(f"{topic} {partition} is there twice: the broker uses the last one")
        seen.add((topic, partition))


def by_partition(entries: Iterable[PartitionOffset]) -> dict[tuple[str, int], int]:
    """(topic, partition) → offset; of equal partitions the last one counts, as for the broker."""
    return {(topic, partition): offset for topic, partition, offset in entries}


def encode_offset_checkpoint(entries: Iterable[PartitionOffset]) -> bytes:
    """The bytes of an offset checkpoint."""
    return encode_checkpoint(f"{topic} {partition} {offset}" for topic, partition, offset in entries)


def checkpoint_fault(files: ReadOnlyFiles, path: str) -> str | None:
    """Why Kafka cannot read the offset checkpoint at `path`; None where it can."""
    return read_offset_checkpoint(files, path).fault


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

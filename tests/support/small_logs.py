"""Small logs for tests of rules: batches of a few records, and what walks over them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.record.assembly import BatchSpec, empty_batch
from engine.record.builder import NewRecord, build_batch
from engine.record.reader import Chunk, ChunkReader
from engine.record.windows import LogWalk
from tests.support.memory_files import MemoryFile, MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.record.windows import Window

PARTITION = "data/t-0"
LOG = f"{PARTITION}/00000000000000000000.log"


def batch(first: int, count: int = 1, value: bytes = b"v", **options: Any) -> bytes:
    """Records first … first + count − 1, each with its offset as timestamp and `k<offset>` as key."""
    records = [NewRecord(offset, offset, b"k%d" % offset, value) for offset in range(first, first + count)]
    return build_batch(records, **{"base_offset": first, **options})


def records_at(*offsets: int, **options: Any) -> bytes:
    """A batch of records at these offsets."""
    return build_batch([NewRecord(offset, offset, b"k%d" % offset, b"v") for offset in offsets], **options)


def emptied(first: int, last: int) -> bytes:
    """A batch that the cleaner left without records."""
    return empty_batch(BatchSpec(first), last)


def with_wrong_checksum(data: bytes) -> bytes:
    """A batch of format 2 with another last byte of its last value: its records can be read."""
    return data[:-2] + bytes([data[-2] ^ 1]) + data[-1:]


def opened(data: bytes) -> MemoryFile:
    return MemoryFiles({LOG: data}).open(LOG)


def windows(data: bytes, window_size: int = 1 << 20) -> Iterator[Window]:
    """The batches of a log."""
    return iter(LogWalk(opened(data), window_size=window_size))


def chunks(data: bytes, window_size: int = 1 << 20) -> Iterator[tuple[Chunk, int]]:
    """The records of a log: (chunk, file position that its batches count from)."""
    reader = ChunkReader(LOG, lambda _: None)
    for window in windows(data, window_size):
        for chunk in reader.chunks(window):
            yield chunk, window.base

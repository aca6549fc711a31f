"""What recovery reads in a segment, and why the indexes may refuse a batch. Mirrors the reading part of LogSegment.recover.

Nothing is changed here, so segments can be scanned in parallel; LogSegment.recover then applies the results in order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from engine.formats import NO_TIMESTAMP
from engine.index.time import TimestampOffset
from engine.kernels.walk import Placed, Placing, Walk
from engine.log.epochs.runs import EpochRuns
from engine.log.errors import IndexFull, IndexOffsetOverflow, InvalidOffset, SegmentOffsetOverflow
from engine.log.segment.recovery_walk import RecoveryWalk, ScanStop, read_marker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.errors import KafkalogError
    from engine.files import ReadOnlyFiles
    from engine.log.segment.producer_rows import ProducerRow, RowChunk

__all__ = ["Disorder", "Producers", "ScanStop", "SegmentScan", "read_marker", "refusal", "scan_segment"]

_UNKNOWN = TimestampOffset(NO_TIMESTAMP, -1)
_MOST_ROWS = 1 << 15  # producer rows that a scan keeps in memory: 2.5 MiB; several scans may run in parallel


class Producers:
    """The producer rows of a scan. They can be iterated repeatedly; `chunks` returns many at a time.

    A scan with very many rows does not keep them: each iteration reads the segment again, so memory is bounded.
    """

    def __init__(self, again: Callable[[], Iterator[RowChunk]]) -> None:
        self._chunks: list[RowChunk] | None = []
        self._again = again
        self._count = 0

    def keep(self, chunk: RowChunk) -> None:
        """Store rows while the segment is read."""
        self._count += chunk.count
        if self._count > _MOST_ROWS:
            self._chunks = None
        elif self._chunks is not None:
            self._chunks.append(chunk)

    def chunks(self) -> Iterator[RowChunk]:
        """All rows."""
        return self._again() if self._chunks is None else iter(self._chunks)

    def __iter__(self) -> Iterator[ProducerRow]:
        for chunk in self.chunks():
            yield from chunk


def _nothing() -> Iterator[RowChunk]:
    return iter(())


class Disorder(NamedTuple):
    """The first batch whose base offset is below `expected`: its byte `position` and `offset`; and the number of such batches.

    No checksum covers base offsets. Recovery, like Kafka, keeps such batches unless an index refuses them.
    """

    position: int
    offset: int
    expected: int
    batches: int


class UnknownMagic(NamedTuple):
    """The first batch with an unknown magic, at byte `position`, and the number of such batches.

    No checksum covers the magic. Recovery, like Kafka, treats a magic above 2 as 2 and keeps the batch; consumers stop there.
    """

    position: int
    offset: int
    magic: int
    batches: int


@dataclass(slots=True)
class SegmentScan:
    """What recovery reads in a segment. Offsets are absolute, positions and sizes bytes of the .log."""

    size: int  # of the file
    valid_size: int = 0  # bytes of sound batches, from the start
    batches: int = 0
    records: int = 0  # from the headers of batches of format 2; a v0/v1 entry counts as one
    next_offset: int | None = None  # offset after the last sound batch; None: there is none
    map_end_offset: int | None = None  # offset after the last batch of format 2
    offset_entries: bytearray = field(default_factory=bytearray)
    time_entries: bytearray = field(default_factory=bytearray)
    largest: TimestampOffset = _UNKNOWN
    epochs: EpochRuns = field(default_factory=EpochRuns)  # not finished: batches of the next segment decide too
    # rows for producer snapshots, in order: see kernels.recovery.recover_batches
    producers: Producers = field(default_factory=lambda: Producers(_nothing))
    stop: ScanStop = ScanStop.END
    holes: int = 0  # batches after a gap, or with fewer records than offsets, as after cleaning
    disorder: Disorder | None = None
    unknown_magic: UnknownMagic | None = None
    error: KafkalogError | None = None  # LogSegment.recover applies the batches before it, then raises it

    def end_offset(self, base_offset: int) -> int:
        """The offset after the last sound batch of the segment that begins at `base_offset`."""
        return base_offset if self.next_offset is None else self.next_offset


def scan_segment(
    files: ReadOnlyFiles, path: str, base_offset: int, *, index_interval: int, max_index_size: int, size: int | None = None
) -> SegmentScan:
    """Read the .log at `path`, up to `size` bytes (default: all), as LogSegment.recover does. Changes nothing.

    Raises UnreadableFile, FileChangedWhileReading.
    """
    with files.open(path) as file:
        end = file.size() if size is None else size
        walk = RecoveryWalk(file, end, base_offset, index_interval, max_index_size)
        scan = SegmentScan(end)

        def again() -> Iterator[RowChunk]:
            with files.open(path) as second:
                yield from RecoveryWalk(second, scan.valid_size, base_offset, index_interval, max_index_size).chunks()

        scan.producers = producers = Producers(again)
        for chunk in walk.chunks():
            producers.keep(chunk)
    state = walk.state
    scan.valid_size = state[Placing.POSITION]
    scan.batches, scan.records = state[Walk.BATCHES], state[Walk.RECORDS]
    scan.next_offset = state[Walk.NEXT_OFFSET] if scan.batches else None
    scan.map_end_offset = state[Walk.MAP_END] if state[Walk.HAS_MAP_END] else None
    scan.largest = TimestampOffset(state[Placing.MAX_TIMESTAMP], state[Placing.MAX_TIMESTAMP_OFFSET])
    scan.offset_entries, scan.time_entries, scan.epochs = walk.offset_entries, walk.time_entries, walk.epochs
    scan.stop = walk.stop
    scan.holes = state[Walk.HOLES]
    if state[Walk.DISORDERS]:
        scan.disorder = Disorder(*(state[at] for at in (Walk.DISORDER_AT, Walk.DISORDER_OFFSET, Walk.DISORDER_EXPECTED,
                                                        Walk.DISORDERS)))
    if state[Walk.UNKNOWN_MAGICS]:
        first = (Walk.UNKNOWN_MAGIC_AT, Walk.UNKNOWN_MAGIC_OFFSET, Walk.UNKNOWN_MAGIC, Walk.UNKNOWN_MAGICS)
        scan.unknown_magic = UnknownMagic(*(state[at] for at in first))
    if walk.stop is ScanStop.REFUSED:
        scan.error = refusal(walk.refused, path, state, walk.refused_offset)
    return scan


def refusal(status: int, path: str, state: memoryview, last_offset: int) -> KafkalogError:
    """The error for a batch, with its last offset, that `place_entries` refused with `status`."""
    placed = Placed(status)
    if placed is Placed.OVERFLOW:
        return SegmentOffsetOverflow(path, state[Placing.BASE_OFFSET], last_offset)
    if placed is Placed.OFFSETS_FULL:
        return IndexFull(f"{path}: Attempt to append to a full index (size = {state[Placing.OFFSETS]}).")
    if placed is Placed.TIMES_FULL:
        return IndexFull(f"{path}: Attempt to append to a full time index (size = {state[Placing.TIMES]}).")
    if placed is Placed.OFFSET_ORDER:
        what = f"Attempt to append an offset {last_offset} to position {state[Placing.OFFSETS]} no larger than the last offset"
        return InvalidOffset(f"{path}: {what} appended ({state[Placing.LAST_OFFSET]})")
    offset = state[Placing.MAX_TIMESTAMP_OFFSET]
    if placed is Placed.TIME_ORDER:
        what = f"Attempt to append an offset ({offset}) to slot {state[Placing.TIMES]} no larger than the last offset appended"
        return InvalidOffset(f"{path}: {what} ({state[Placing.LAST_TIME_OFFSET]})")
    return IndexOffsetOverflow(f"{path}: Integer overflow for offset: {offset}")

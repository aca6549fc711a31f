"""The sound batches of a .log, as runs of neighbours: where they are, and which offsets they hold. Changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.formats import LONG_MAX, MAGIC_V2, BatchField
from engine.record.windows import LogWalk, Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.files import OpenFile


_ALL_BITS = (1 << 64) - 1


class Batch(NamedTuple):
    """A sound batch at bytes [start, end) of a .log, with its offsets, the end exclusive.

    record_count  records by its header, −1 for formats 0 and 1
    restored_from the base offset that the file has, where that is wrong by one bit and `first_offset` is what it was
    """

    start: int
    end: int
    first_offset: int
    end_offset: int
    crc: int
    record_count: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    restored_from: int | None = None

    @property
    def identity(self) -> tuple[int, int, int]:
        """Equal for copies of one batch."""
        return self.first_offset, self.end_offset, self.crc


class Run(NamedTuple):
    """Bytes [start, end) of a .log: sound batches one after the other, whose offsets ascend, the end exclusive.

    records        by the headers of its batches, one for each entry of formats 0 and 1
    restored_from  see Batch; such a run has a single batch
    """

    start: int
    end: int
    first_offset: int
    end_offset: int
    records: int
    restored_from: int | None = None


def sound_batches(file: OpenFile, gave_up: Callable[[int], object]) -> Iterator[Batch]:
    """Those of `checked_batches` whose base offset can be one."""
    return (batch for batch in checked_batches(file, gave_up) if batch.first_offset >= 0)


def checked_batches(file: OpenFile, gave_up: Callable[[int], object]) -> Iterator[Batch]:
    """Every batch with a right checksum and a known magic that leaves an offset for the next batch, in file order.

    No checksum covers base offsets: that of a batch may be negative, where its sign is wrong.
    gave_up  takes the byte from which on nothing was read, where the search after damage used up its work limit
    """
    walk, damaged = LogWalk(file), None
    while True:
        for is_sound, batch in _batches(walk):
            if not is_sound:
                damaged = damaged or batch
                continue
            if damaged is not None and batch.first_offset > damaged.end_offset:
                yield from _hidden(file, damaged.start, batch.start, gave_up)
            damaged = None
            yield batch
        if (walk.stop is Stop.END and damaged is None) or walk.resynchronise() is None:
            if walk.gave_up is not None:
                gave_up(walk.gave_up)
            return
        damaged = None


def _hidden(file: OpenFile, start: int, end: int, gave_up: Callable[[int], object]) -> Iterator[Batch]:
    """The sound batches in bytes [start, end), which damaged ones claim: a wrong size may end where a batch begins."""
    walk = LogWalk(file, start, end)
    found: int | None = start
    while found is not None:
        yield from (batch for is_sound, batch in _batches(walk) if is_sound)
        found = walk.resynchronise()
    if walk.gave_up is not None:
        gave_up(walk.gave_up)


def _batches(walk: LogWalk) -> Iterator[tuple[bool, Batch]]:
    """(is it sound?, batch)"""
    for window in walk:
        table = window.batches.table
        for row in range(window.rows):
            base, last = table[BatchField.BASE_OFFSET, row], table[BatchField.LAST_OFFSET, row]
            start = window.base + table[BatchField.POSITION, row]
            is_known = 0 <= table[BatchField.MAGIC, row] <= MAGIC_V2  # no checksum covers it, and consumers end there
            is_sound = table[BatchField.VALID, row] == 1 and is_known and base <= last < LONG_MAX and (base < 0) == (last < 0)
            yield is_sound, Batch(
                start, start + table[BatchField.SIZE, row], base, last + 1, table[BatchField.CRC, row],
                table[BatchField.COUNT, row], table[BatchField.LEADER_EPOCH, row], table[BatchField.PRODUCER_ID, row],
                table[BatchField.PRODUCER_EPOCH, row], table[BatchField.BASE_SEQUENCE, row],
            )  # fmt: skip


def with_offsets_restored(batches: Iterator[Batch], base_offset: int, following: int | None) -> Iterator[Batch]:
    """`batches` of one file, where a base offset with one wrong bit is replaced by the right one. Other negative ones go.

    The batches before and after it prove it: exactly the offsets that its header counts are free between them. No checksum
    covers base offsets, and none is negative: for a wrong sign it is enough that the offset fits between them. `base_offset` is
    that of the segment, `following` that of the next one, or where the log is known to end; None: that is not known.
    """
    end_offset, end = base_offset, 0
    batch = next(batches, None)
    while batch is not None:
        after = next(batches, None)
        next_offset = following if after is None else after.first_offset if after.start == batch.end else None
        size = batch.end_offset - batch.first_offset
        is_wrong = ((batch.first_offset ^ end_offset) & _ALL_BITS).bit_count() == 1 and batch.start == end
        if is_wrong and batch.record_count == size and next_offset == end_offset + size:
            batch = _restored(batch, end_offset)
        elif batch.first_offset < 0:
            first, limit = batch.first_offset & LONG_MAX, end_offset + size if next_offset is None else next_offset
            fits = batch.start == end and end_offset <= first <= limit - size
            batch = _restored(batch, first) if fits else None
        if batch is not None:
            yield batch
            end_offset, end = batch.end_offset, batch.end
        batch = after


def _restored(batch: Batch, first: int) -> Batch:
    end_offset = batch.end_offset - batch.first_offset + first
    return batch._replace(first_offset=first, end_offset=end_offset, restored_from=batch.first_offset)


def as_runs(batches: Iterator[Batch]) -> Iterator[Run]:
    """The runs that `batches`, in file order, are made of; one whose offset was restored is a run of its own."""
    run: Run | None = None
    for batch in batches:
        records = max(1, batch.record_count)
        joins = run is not None and run.end == batch.start and run.end_offset <= batch.first_offset
        if run is not None and joins and run.restored_from is None and batch.restored_from is None:
            run = run._replace(end=batch.end, end_offset=batch.end_offset, records=run.records + records)
            continue
        if run is not None:
            yield run
        run = Run(batch.start, batch.end, batch.first_offset, batch.end_offset, records, batch.restored_from)
    if run is not None:
        yield run


def batches_in(file: OpenFile, run: Run) -> Iterator[Batch]:
    """The batches of `run` in `file`, one by one."""
    for _, batch in _batches(LogWalk(file, run.start, run.end)):
        if run.restored_from is None:
            yield batch
        else:
            yield batch._replace(first_offset=run.first_offset, end_offset=run.end_offset, restored_from=run.restored_from)

"""The sound batches of a .log, as runs of neighbours: where they are, and which offsets they hold. Changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.formats import LONG_MAX, MAGIC_V2, BatchField
from engine.record.windows import LogWalk, Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

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


def with_offsets_restored(
    batches: Iterator[Batch], base_offset: int, following: int | None, is_held: Callable[[Batch], bool] = lambda _: False,
    claimed: Collection[int] = (), is_copy: Callable[[Batch], bool] = lambda _: False,
) -> Iterator[Batch]:
    """`batches` of one file, where a base offset with one wrong bit is replaced by the right one. Other negative ones go.

    base_offset  of the segment         following  of the next one, or where the log is known to end; None: that is not known
    is_held      does another batch of the file hold the same offsets?
    claimed      where files beside it say that the log ended, if `following` is the highest of these
    is_copy      does the same batch stand in another file?

    No checksum covers base offsets. One is taken for wrong if it does not fit between its neighbours, and replaced if of all
    that differ in one bit only one fits there. Names of files do not prove where a log begins and ends: beside them a batch
    must have exactly the offsets between its neighbours, or begin the file and get the offset of its name. Where its offset
    is one of this segment, it may have been moved, unless exactly its offsets are missing where it stands. And the neighbour
    may be the wrong one, if one bit puts that right: beside exactly missing offsets, the last one only if it then ends where
    one of `claimed` says so; or follows at once, and none of them says that the log ends with it as it is.
    """
    earlier: Batch | None = None
    before: Batch | None = None
    batch, after = next(batches, None), next(batches, None)
    while batch is not None:
        later = next(batches, None)
        end_offset, end = (base_offset, 0) if before is None else (before.end_offset, before.end)
        limit = following if after is None else after.first_offset
        near = one_bit_off(batch, end_offset, limit) if batch.start == end else []
        first = near[0] if len(near) == 1 and (batch.first_offset < 0 or limit is not None) else None
        if first is not None and (is_held(restored(batch, first)) or is_copy(batch)):
            first = None  # not where it was: it is in another place
        elif first is not None and batch.first_offset >= 0:
            size = batch.end_offset - batch.first_offset
            is_exact = limit == end_offset + size and batch.record_count == size
            is_after = first == base_offset if before is None else before.leader_epoch <= batch.leader_epoch
            is_between = is_after and after is not None and batch.leader_epoch <= after.leader_epoch
            is_of_segment = base_offset <= batch.first_offset < (LONG_MAX if following is None else following)
            if before is not None and batch.first_offset < before.end_offset:
                start = base_offset if earlier is None else earlier.end_offset
                is_other = bool(one_bit_off(before, start, batch.first_offset))
            else:
                bound = following if later is None else later.first_offset
                others = [] if after is None else one_bit_off(after, batch.end_offset, bound or batch.end_offset + 1)
                if is_exact and later is None and after is not None and claimed:
                    length = after.end_offset - after.first_offset
                    others = [other for other in others if other + length in claimed
                              or (other == batch.end_offset and after.end_offset not in claimed)]
                is_other = bool(others) or (
                    after is not None and bound is None and after.first_offset >= batch.first_offset)
            if is_other or (not is_exact and (is_of_segment or not is_between)):
                first = None
        if first is not None:
            batch = restored(batch, first)
        if batch.first_offset >= 0:
            yield batch
            earlier, before = before, batch
        batch, after = after, later


def one_bit_off(batch: Batch, start: int, limit: int | None) -> list[int]:
    """The base offsets that differ in one bit from that of `batch` and with which it lies in offsets [start, limit); none if it
    lies there as it is. `limit` None: there is none.
    """
    highest = (LONG_MAX if limit is None else limit) - (batch.end_offset - batch.first_offset)
    if start <= batch.first_offset <= highest:
        return []
    near = (_signed(batch.first_offset & _ALL_BITS ^ 1 << bit) for bit in range(64))
    return [first for first in near if start <= first <= highest]


def _signed(offset: int) -> int:
    return offset - (1 << 64) if offset > LONG_MAX else offset


def restored(batch: Batch, first: int) -> Batch:
    """`batch` with the base offset `first`."""
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

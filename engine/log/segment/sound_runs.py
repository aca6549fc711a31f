"""The sound batches of a .log, in runs of neighbours, with positions and offsets. Changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.formats import CODEC_MASK, CONTROL_FLAG, INT_MAX, LONG_MAX, MAGIC_V2, NO_SEQUENCE, BatchField
from engine.record.control import increment_sequence
from engine.record.windows import LogWalk, Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from engine.files import OpenFile


_ALL_BITS = (1 << 64) - 1


class Batch(NamedTuple):
    """A sound batch at bytes [start, end) of a .log, with its offsets, the end exclusive.

    record_count  records by its header, −1 for formats 0 and 1
    restored_from the base offset in the file, if one wrong bit of it was corrected; `first_offset` is the corrected one
    attributes    their low byte
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
    attributes: int = 0

    @property
    def codec(self) -> int:
        """A number of Codec."""
        return self.attributes & CODEC_MASK

    @property
    def is_control(self) -> bool:
        """Is it a marker of a transaction?"""
        return bool(self.attributes & CONTROL_FLAG)

    @property
    def identity(self) -> tuple[int, int, int]:
        """Equal for copies of the same batch."""
        return self.first_offset, self.end_offset, self.crc


class Run(NamedTuple):
    """Consecutive sound batches in bytes [start, end) of a .log, whose offsets ascend, the end exclusive.

    records        from the headers of its batches; one for each entry of formats 0 and 1
    restored_from  see Batch; then the run has a single batch
    """

    start: int
    end: int
    first_offset: int
    end_offset: int
    records: int
    restored_from: int | None = None


def sound_batches(file: OpenFile, gave_up: Callable[[int], object]) -> Iterator[Batch]:
    """The `checked_batches` with a base offset that is not negative."""
    return (batch for batch in checked_batches(file, gave_up) if batch.first_offset >= 0)


def checked_batches(file: OpenFile, gave_up: Callable[[int], object]) -> Iterator[Batch]:
    """Every batch with a valid checksum and a known magic that leaves an offset for the next batch, in file order.

    No checksum covers base offsets: one may be negative, if its sign bit is wrong.
    gave_up  called with a byte position if the search after damage reached its work limit: nothing after it was read
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
    """Sound batches in bytes [start, end) that a damaged batch claims, because its size is wrong."""
    walk = LogWalk(file, start, end)
    found: int | None = start
    while found is not None:
        yield from (batch for is_sound, batch in _batches(walk) if is_sound)
        found = walk.resynchronise()
    if walk.gave_up is not None:
        gave_up(walk.gave_up)


def _batches(walk: LogWalk) -> Iterator[tuple[bool, Batch]]:
    """Yield (is it sound?, batch)."""
    for window in walk:
        table = window.batches.table
        for row in range(window.rows):
            base, last = table[BatchField.BASE_OFFSET, row], table[BatchField.LAST_OFFSET, row]
            start = window.base + table[BatchField.POSITION, row]
            is_known = 0 <= table[BatchField.MAGIC, row] <= MAGIC_V2  # no checksum covers it, and consumers stop there
            is_sound = table[BatchField.VALID, row] == 1 and is_known and base <= last < LONG_MAX and (base < 0) == (last < 0)
            yield is_sound, Batch(
                start, start + table[BatchField.SIZE, row], base, last + 1, table[BatchField.CRC, row],
                table[BatchField.COUNT, row], table[BatchField.LEADER_EPOCH, row], table[BatchField.PRODUCER_ID, row],
                table[BatchField.PRODUCER_EPOCH, row], table[BatchField.BASE_SEQUENCE, row],
                attributes=table[BatchField.ATTRIBUTES, row],
            )  # fmt: skip


def with_offsets_restored(
    batches: Iterator[Batch], base_offset: int, following: int | None, is_held: Callable[[Batch], bool] = lambda _: False,
    claimed: Collection[int] = (), is_copy: Callable[[Batch], bool] = lambda _: False,
) -> Iterator[Batch]:
    """Yield `batches` of one file, with corrected base offsets where one bit was wrong. Drops other negative base offsets.

    base_offset  of the segment         following  of the next segment, or the known end of the log; None: not known
    is_held      (the corrected batch) does another batch hold its offsets, and is this one in the place of that?
    claimed      ends of the log according to other files, if `following` is the highest of them
    is_copy      is the same batch in another file?

    No checksum covers base offsets. A base offset is wrong if it does not fit between its neighbours. It is corrected if
    exactly one of the 64 offsets that differ in one bit fits there, and does not contradict the sequence numbers of its
    producer. Further conditions:
    - Names of files do not prove where a log begins and ends. Next to a file's beginning or end, a batch must fill exactly the
      offsets between its neighbours, or be the first of the file and get the offset of its name.
    - If its offset belongs to this segment, the batch may have been moved: then too it must fill exactly the missing offsets.
    - If changing one bit of a neighbour makes both fit, the neighbour may be the wrong one, and nothing is corrected. If
      exactly the missing offsets fit, this does not apply to a neighbour that is the last batch, unless it would then end at
      one of `claimed`; or follow at once, and none of `claimed` is its end as it is.
    """
    earlier: Batch | None = None
    before: Batch | None = None
    batch, after = next(batches, None), next(batches, None)
    while batch is not None:
        later = next(batches, None)
        end_offset, end = (base_offset, 0) if before is None else (before.end_offset, before.end)
        limit = following if after is None else after.first_offset
        near = one_bit_off(batch, end_offset, limit) if batch.start == end else []
        near = [first for first in near if not _contradicts_sequences(before, restored(batch, first), after)]
        first = near[0] if len(near) == 1 and (batch.first_offset < 0 or limit is not None) else None
        if first is not None and (is_held(restored(batch, first)) or is_copy(batch)):
            first = None  # the batch belongs in another place
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


def _contradicts_sequences(before: Batch | None, batch: Batch, after: Batch | None) -> bool:
    return (before is not None and follows(before, batch) is False) or (after is not None and follows(batch, after) is False)


def follows(one: Batch, other: Batch) -> bool | None:
    """Does the sequence number of `other` follow that of `one`, which is before it in the log? It may be higher after missing
    offsets. None: not comparable (`skipped_sequences`).
    """
    skipped = skipped_sequences(one, other)
    return None if skipped is None else skipped == 0 or (one.end_offset != other.first_offset and skipped <= INT_MAX // 2)


def skipped_sequences(one: Batch, other: Batch) -> int | None:
    """Number of sequence numbers between two batches. None: they are not of the same producer and epoch, have no sequence
    numbers, or both have 0: a group coordinator writes that into all its transactional batches.
    """
    if (one.producer_id, one.producer_epoch) != (other.producer_id, other.producer_epoch):
        return None
    if NO_SEQUENCE in (one.base_sequence, other.base_sequence) or one.base_sequence == other.base_sequence == 0:
        return None
    following = increment_sequence(one.base_sequence, one.end_offset - one.first_offset)
    return (other.base_sequence - following) & INT_MAX


def one_bit_off(batch: Batch, start: int, limit: int | None) -> list[int]:
    """The base offsets that differ from that of `batch` in one bit and with which it fits in offsets [start, limit). Empty if
    it fits as it is. `limit` None: no limit.
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
    """Combine `batches`, in file order, to runs. A batch whose offset was corrected is a run of its own."""
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

"""Compare two replicas of a partition and find where they fork: bytes first, then batches, then records, as far as needed.

Equal bytes are not decoded, and their checksums are not checked: they are equal, not proven sound. From the first difference
on, batches are aligned by offset. Two batches with the same offsets, length, checksum and epoch are the same. The records of
other batches are compared one by one, because the cleaner and other versions of Kafka write the same records in other batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.compare.missing import MissingRecords
from engine.compare.replica import Place
from engine.compare.result import Comparison, Difference, Extent, Kind
from engine.compare.same_bytes import SameBytes
from engine.findings import Finding, Where
from engine.formats import CODEC_MASK, MAGIC_V2

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.compare.replica import Batch, Replica
    from engine.compare.result import Side
    from engine.record.batch import Record

_BACK_TO_BYTES = 64  # same batches in a row after which bytes are compared again


def compare(one: Replica, other: Replica, report: Callable[[Finding], None]) -> Comparison:
    """Compare two replicas of a partition. Memory: a few windows of each, and the keys of records that only one of them has.

    report  called with damage of offsets, which only the comparison shows
    Raises UnreadableFile, FileChangedWhileReading.
    """
    return _Walk(one, other, report).run()


class _Stream:
    """The batches of a replica from a place on: the next one, the one after it, and the records of the next one.

    end_offset  after the batch before the place
    """

    def __init__(self, replica: Replica, place: Place, end_offset: int) -> None:
        self.replica = replica
        self._batches = replica.batches(place)
        self._records: list[Record] | None = None
        self.next: Batch | None = None
        self.following: Batch | None = next(self._batches, None)
        self._take(end_offset)

    def advance(self) -> None:
        """Go to the next batch."""
        self._take(0 if self.next is None else self.next.last_offset + 1)

    def _take(self, end_offset: int) -> None:
        self._records = None
        self.next, self.following = self.following, next(self._batches, None)
        if self.next is not None and self.next.magic < MAGIC_V2 and self.next.attributes & CODEC_MASK:
            first = min(end_offset, self.next.last_offset)  # a compressed message has the offset of its last record
            self.next = self.next._replace(base_offset=first)

    def skip_below(self, offset: int) -> None:
        """Go to the first batch that ends at or after `offset`, at most by one."""
        if self.next is not None and self.next.last_offset < offset:
            self.advance()

    def records(self, first: int, last: int) -> list[Record]:
        """The records of the next batch with offsets `first` to `last`."""
        assert self.next is not None
        if self._records is None:
            self._records = self.replica.records(self.next)
        return [record for record in self._records if first <= record.offset <= last]

    def place(self) -> Place:
        """The place of the next batch; the end of the log if there is none."""
        segments = self.replica.segments
        if self.next is None:
            return Place(len(segments) - 1, segments[-1].size)
        return Place(segments.index(self.next.segment), self.next.position)


class _Walk:
    """Walks through two replicas at the same time.

    low  offsets below it are compared
    """

    def __init__(self, one: Replica, other: Replica, report: Callable[[Finding], None]) -> None:
        self._found = Comparison(one, other)
        self._replicas, self._report = (one, other), report
        self._low = self._found.start
        self._missing = MissingRecords(), MissingRecords()  # records that only this side has

    def run(self) -> Comparison:
        """Compare everything."""
        found, (one, other) = self._found, self._replicas
        places, bytes_of = (one.place_of(self._low), other.place_of(self._low)), SameBytes(one, other)
        is_done = False
        while not is_done:
            skipped = bytes_of.skip(*places)
            end_offset = self._low if skipped.end_offset is None else skipped.end_offset
            streams = _Stream(one, skipped.places[0], end_offset), _Stream(other, skipped.places[1], end_offset)
            self._note_skipped(skipped.end_offset, is_moved=skipped.places != places, streams=streams)
            is_done = self._compare_batches(*streams)
            places = streams[0].place(), streams[1].place()
        found.common_end = self._low
        nexts = [stream.next for stream in streams if stream.next is not None]
        if len(nexts) > 1 and found.by_epochs is not None and self._low <= found.by_epochs <= min(
                batch.base_offset for batch in nexts):  # fmt: skip
            found.common_end = found.by_epochs
        for side, stream in zip(found.sides, streams, strict=True):
            side.place = stream.place()
        self._add_repeated(*streams)
        for side, stream in zip(found.sides, streams, strict=True):
            while stream.next is not None:
                self._add_after(side, stream)
        for number, side in enumerate(found.sides):
            self._missing[number].judge(side, self._replicas[1 - number])
        return found

    def _note_skipped(self, end_offset: int | None, *, is_moved: bool, streams: tuple[_Stream, _Stream]) -> None:
        """Set `low` after equal bytes."""
        nexts = [stream.next for stream in streams if stream.next is not None]
        bases = [batch.base_offset if batch.magic >= MAGIC_V2 else batch.last_offset for batch in nexts]
        if not bases:  # both ended
            self._low = max(self._low, *(replica.end for replica in self._replicas))
        elif len(bases) == 1:
            ended = next(stream.replica for stream in streams if stream.next is None)
            self._low = max(self._low, min(ended.end, bases[0]))
        elif is_moved:
            self._low = max(self._low, min(bases) if end_offset is None else end_offset)

    def _compare_batches(self, one: _Stream, other: _Stream) -> bool:
        """Compare batch by batch. Returns whether it is the end: of a log, or of what they have in common.

        False: many batches in a row were the same.
        """
        same = 0
        while one.next is not None and other.next is not None:
            if one.next.is_same(other.next) and one.next.last_offset >= self._low:
                self._low = one.next.last_offset + 1
                one.advance()
                other.advance()
                same += 1
                if same == _BACK_TO_BYTES:
                    return False
                continue
            same = 0
            if not self._skip_misplaced(one, other):
                if self._is_fork(one, other):
                    return True
                self._compare_next(one, other)
        return True

    # ---- batches that are not the same

    def _skip_misplaced(self, one: _Stream, other: _Stream) -> bool:
        """Report a batch with an offset that it cannot have, and skip it. Returns whether there was one."""
        a, b = one.next, other.next
        assert a is not None
        assert b is not None
        for stream, batch, right in ((one, a, b), (other, b, a)):
            is_below = batch.last_offset < self._low
            is_early = batch.base_offset < self._low  # it is that of another batch only if its content is the same
            following = stream.following
            is_above = following is not None and following.magic >= MAGIC_V2 and following.base_offset <= batch.last_offset
            is_above |= one.following is None is other.following  # the last ones
            if not is_early and not (is_above and batch.base_offset > right.base_offset):
                continue
            where = Where(batch.segment.log_path, batch.position, batch.base_offset)
            if batch.has_same_content(right) and right.base_offset >= self._low:
                what = f"the same batch has offset {right.base_offset} in {right.segment.log_path}"
                self._report(Finding("offset-order", where, what))
                self._found.differences.take(Difference(Kind.OFFSET, right.base_offset, right.last_offset + 1, (a, b)))
                self._low = right.last_offset + 1
                one.advance()
                other.advance()
            elif is_below:
                what = f"a batch up to offset {batch.last_offset} follows offset {self._low - 1}"
                self._report(Finding("offset-order", where, what))
                stream.advance()
            else:
                continue
            return True
        return False

    def _is_fork(self, one: _Stream, other: _Stream) -> bool:
        """Do the histories fork here? By the epochs of the logs; without them by those of the batches, and by their records."""
        a, b = one.next, other.next
        assert a is not None
        assert b is not None
        by_epochs = self._found.by_epochs
        first, last = max(a.base_offset, b.base_offset, self._low), min(a.last_offset, b.last_offset)
        if by_epochs is not None and (self._low >= by_epochs or min(a.base_offset, b.base_offset) >= by_epochs):
            return True
        if first > last or not (a.is_valid and b.is_valid) or a.has_same_content(b):
            return False
        if a.leader_epoch >= 0 <= b.leader_epoch and a.leader_epoch != b.leader_epoch:
            return True
        return by_epochs is None and bool(_conflicts(one.records(first, last), other.records(first, last)))

    def _compare_next(self, one: _Stream, other: _Stream) -> None:
        """Compare the next batches up to the end of the shorter one."""
        a, b = one.next, other.next
        assert a is not None
        assert b is not None
        if a.last_offset < b.base_offset or b.last_offset < a.base_offset:  # the other has nothing at these offsets
            first = 0 if a.last_offset < b.base_offset else 1
            stream, batch = (one, a) if first == 0 else (other, b)
            self._missing[first].add(batch, stream.records(self._low, batch.last_offset))
            self._low = batch.last_offset + 1
            stream.advance()
        elif not (a.is_valid and b.is_valid):
            right = a if a.is_valid or not b.is_valid else b
            self._found.differences.take(Difference(Kind.DAMAGE, right.base_offset, right.last_offset + 1, (a, b)))
            self._low = right.last_offset + 1
            for stream, batch in ((one, a), (other, b)):
                if not batch.is_valid or batch.last_offset < self._low:
                    stream.advance()
        elif a.has_same_content(b) and a.base_offset == b.base_offset:
            self._found.differences.take(Difference(Kind.EPOCH, a.base_offset, a.last_offset + 1, (a, b)))
            self._low = a.last_offset + 1
            one.advance()
            other.advance()
        else:
            self._compare_records(one, a, other, b)

    def _compare_records(self, one: _Stream, a: Batch, other: _Stream, b: Batch) -> None:
        last = min(a.last_offset, b.last_offset)
        ours, theirs = one.records(self._low, last), other.records(self._low, last)
        conflicts = _conflicts(ours, theirs)
        if conflicts:
            self._found.differences.take(Difference(Kind.RECORDS, conflicts[0], conflicts[-1] + 1, (a, b)))
        for number, batch, records, others in ((0, a, ours, theirs), (1, b, theirs, ours)):
            there = {record.offset for record in others}
            only = [record for record in records if record.offset not in there]
            if only:
                self._missing[number].add(batch, only)
        self._found.rebatched += not conflicts and len(ours) == len(theirs)
        self._low = last + 1
        one.skip_below(self._low)
        other.skip_below(self._low)

    # ---- the rest of a log

    def _add_repeated(self, one: _Stream, other: _Stream) -> None:
        """Add batches that both have right after the fork: a producer sent them again, and they got the same offsets."""
        while one.next is not None and other.next is not None and one.next.base_offset == other.next.base_offset and (
                one.next.has_same_content(other.next)):  # fmt: skip
            self._found.repeated += one.replica.count(one.next)
            for side, stream in zip(self._found.sides, (one, other), strict=True):
                self._add_after(side, stream)

    def _add_after(self, side: Side, stream: _Stream) -> None:
        """Add the next batch to what only this side has, and advance."""
        batch = stream.next
        assert batch is not None
        if side.after is None:
            side.after = Extent(max(self._found.common_end, batch.base_offset))
        is_whole = batch.base_offset >= self._low
        count = stream.replica.count(batch) if is_whole else len(stream.records(self._low, batch.last_offset))
        side.after.add(batch, count, side.replica.high_watermark)
        stream.advance()


def _conflicts(ours: list[Record], theirs: list[Record]) -> list[int]:
    """The offsets at which both have a record, but not the same."""
    known = {record.offset: record for record in theirs}
    return [record.offset for record in ours if record.offset in known and not _is_same(record, known[record.offset])]


def _is_same(one: Record, other: Record) -> bool:
    """Have both the same content? In format 0 records have no timestamp, in 0 and 1 no headers."""
    if (one.key, one.value) != (other.key, other.value):
        return False
    older = min(one.batch.magic, other.batch.magic)
    return (older == 0 or one.timestamp == other.timestamp) and (older < MAGIC_V2 or one.headers == other.headers)

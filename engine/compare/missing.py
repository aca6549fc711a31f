"""Records that only one of two replicas has: has the cleaner removed them from the other?

It removes records of which a later one has the same key, records without a value (tombstones) and transaction markers after
some time, and empty batches. The module stands alone: these are the rules of the cleaner.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from engine.compare.result import Extent
from engine.formats import RecordField

if TYPE_CHECKING:
    from engine.compare.replica import Batch, Replica
    from engine.compare.result import Side
    from engine.record.batch import Record

_MOST = 300_000  # records whose keys are remembered, as hashes: about 40 MB; further ones are not explained


class MissingRecords:
    """Records that one replica has and the other does not have, in order of their offsets."""

    def __init__(self) -> None:
        self._offsets, self._hashes = array("q"), array("q")  # of records with a key
        self._last: dict[int, int] = {}  # hash of a key → its last missing offset; −1 if that is a tombstone
        self._lost = array("q")  # offsets of records that the cleaner does not remove
        self._more = 0  # further records of these
        self._removed = 0  # markers

    def add(self, batch: Batch, records: list[Record]) -> None:
        """Add records of a batch."""
        if batch.is_control:
            self._removed += len(records)
            return
        for record in records:
            if record.key is None or len(self._offsets) >= _MOST:
                if len(self._lost) < _MOST:
                    self._lost.append(record.offset)
                else:
                    self._more += 1
                continue
            digest = hash(record.key)
            self._offsets.append(record.offset)
            self._hashes.append(digest)
            self._last[digest] = -1 if record.value is None else record.offset

    def judge(self, side: Side, other: Replica) -> None:
        """Set `compacted`, `missing` and `gaps` of `side`, whose records these are. Reads the other replica if it must."""
        if self._offsets:
            self._search(other)
        lost = sorted([*self._lost, *(
            offset for offset, digest in zip(self._offsets, self._hashes, strict=True) if offset == self._last.get(digest))])
        side.compacted = self._removed + len(self._offsets) + len(self._lost) - len(lost)
        if not lost:
            return
        side.missing = Extent(lost[0], records=self._more)
        begin = end = lost[0]
        for offset in (*lost, None):
            if offset is None or offset > end:
                side.gaps.take((begin, end))
                begin = end if offset is None else offset
            end = end if offset is None else offset + 1
        for first, last in side.gaps:
            _add_gap(side, side.missing, first, last)
        side.missing.end = lost[-1] + 1

    def _search(self, other: Replica) -> None:
        """Search the other replica for later records with these keys, and mark their keys."""
        wanted = {digest: offset for digest, offset in self._last.items() if offset >= 0}
        if not wanted:
            return
        for chunk in other.chunks(other.place_of(self._offsets[0])):
            offsets = chunk.records.field(RecordField.OFFSET)
            for record in () if chunk.control else range(chunk.first, chunk.end):
                key, offset = chunk.key(record), offsets[record]
                if key is not None and wanted.get(hash(key), offset) < offset:
                    del wanted[hash(key)]
                    self._last[hash(key)] = -1


def _add_gap(side: Side, extent: Extent, first: int, end: int) -> None:
    replica = side.replica
    for batch in replica.batches(replica.place_of(first)):
        if batch.base_offset >= end:
            return
        count = sum(first <= record.offset < end for record in replica.records(batch))
        if count:
            extent.add(batch, count, replica.high_watermark)

"""What `__remote_log_metadata` says of the remote segments of each partition.

Mirrors RemoteLogMetadataCache and RemoteLogLeaderEpochState: the same records in the same order give the same answers as a
broker's. A partition may have had millions of segments, so a segment is a row of numbers, and becomes an object when it is
asked for.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from itertools import pairwise
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from engine.kernels.tables import RemoteKind, RemoteRow
from engine.remote.records import (
    PartitionRecord,
    PartitionState,
    SegmentRecord,
    State,
    UpdateRecord,
    partition_number,
    uuid_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from engine.remote.records import Record

Epochs = tuple[tuple[int, int], ...]  # (leader epoch, its first offset), ascending

# a segment as RemoteRow has it, without the key: id; what stays: start and end offset, largest timestamp, size, first leader
# epoch, is the transaction index empty; and what changes: broker, time of the event, state
_KEYED, _ROW, _FIXED, _CHANGES = Struct(">20s16s33s13s"), Struct(">16sqqqii?iqb"), Struct(">qqqii?"), Struct(">iqb")
_START, _PLACE = Struct(">q"), Struct(">qq12xi")  # of a row, from _FIXED_AT on: start offset; start and end offset, epoch
_FIXED_AT, _CHANGES_AT, _STATE_AT = (at - RemoteRow.ID for at in (RemoteRow.OFFSETS, RemoteRow.BROKER, RemoteRow.STATE))
_UPDATE = int(RemoteKind.UPDATE)
_STATES = tuple(State)
_STARTED, _FINISHED, _DELETING, _DELETED = map(int, State)
# by state, what may follow. Mirrors RemoteLogSegmentState.isValidTransition
_FOLLOWING = ((_FINISHED, _DELETING), (_FINISHED, _DELETING), (_DELETING, _DELETED), ())
_REBUILT_AT = 1024  # entries that were removed from the front of a list, from which on it is made shorter


class RemoteSegment(NamedTuple):
    """A remote segment as its metadata has it. Mirrors RemoteLogSegmentMetadata.

    id               16 bytes
    leader_epochs    (epoch, its first offset in the segment), ascending
    txn_index_empty  False before Kafka 3.9 means that nobody knows
    custom           of the RemoteStorageManager
    """

    id: bytes
    state: State
    start_offset: int
    end_offset: int
    size: int
    max_timestamp_ms: int
    broker_id: int
    event_timestamp_ms: int
    txn_index_empty: bool
    leader_epochs: Epochs
    custom: bytes | None

    @property
    def name(self) -> str:
        """The id as Kafka writes it."""
        return uuid_text(self.id)

    def last_offset_of(self, epoch: int) -> int:
        """The last offset that a leader epoch has in the segment."""
        return _last_offset(self.leader_epochs, epoch, self.end_offset)


def records_of(segment: RemoteSegment, topic: str, key: bytes) -> tuple[SegmentRecord, UpdateRecord]:
    """The records of a copy that is complete. `key`: of the partition."""
    name, event = topic.encode(), segment.event_timestamp_ms
    started = SegmentRecord(
        key, name, segment.id, segment.start_offset, segment.end_offset, segment.broker_id, segment.max_timestamp_ms, event,
        segment.leader_epochs, segment.size, None, _STARTED, segment.txn_index_empty,
    )  # fmt: skip
    return started, UpdateRecord(key, name, segment.id, segment.broker_id, event, segment.custom, _FINISHED)


def _last_offset(epochs: Epochs, epoch: int, end_offset: int) -> int:
    if len(epochs) == 1:
        return end_offset
    return next((start - 1 for other, start in epochs if other > epoch), end_offset)


class _EpochState:
    """The segments of one leader epoch. Mirrors RemoteLogLeaderEpochState.

    starts, rows  of the segments that readers find, ascending; those before `first` were removed
    highest       the highest offset that was ever copied; None: none was
    """

    __slots__ = ("first", "highest", "rows", "starts")

    def __init__(self) -> None:
        self.starts, self.rows = array("q"), array("q")
        self.first = 0
        self.highest: int | None = None

    def finish(self, start: int, row: int, end: int) -> None:
        """The copy of a segment is complete, which has offsets start … end of this epoch.

        Those that begin no earlier are copies of the same records that a former leader made.
        """
        starts, rows = self.starts, self.rows
        while len(starts) > self.first and starts[-1] >= start and (self.highest is None or self.highest <= end):
            starts.pop()
            rows.pop()
        if len(starts) == self.first or starts[-1] < start:  # mostly it is the newest
            starts.append(start)
            rows.append(row)
        else:
            at = bisect_left(starts, start, self.first)
            if at < len(starts) and starts[at] == start:
                rows[at] = row
            else:
                starts.insert(at, start)
                rows.insert(at, row)
        if self.highest is None or end > self.highest:
            self.highest = end

    def begin_deletion(self, start: int, row: int) -> None:
        """The segment is about to be deleted."""
        at, starts, rows = self.first, self.starts, self.rows
        if at < len(rows) and rows[at] == row and starts[at] == start:  # mostly it is the oldest
            self._remove_first()
            return
        at = bisect_left(starts, start, at)
        if at < len(starts) and starts[at] == start and rows[at] == row:
            del starts[at], rows[at]

    def _remove_first(self) -> None:
        self.first += 1
        if self.first >= _REBUILT_AT and 2 * self.first >= len(self.starts):
            del self.starts[: self.first], self.rows[: self.first]
            self.first = 0

    def floor(self, offset: int) -> int | None:
        """The row of the last segment that begins at or below `offset`."""
        at = bisect_right(self.starts, offset, self.first)
        return None if at == self.first else self.rows[at - 1]


class PartitionMetadata:
    """The remote segments of one partition. Mirrors RemoteLogMetadataCache.

    metadata_partition  the partition of the topic that its records are in
    refused  records that a broker drops: changes of segments that it does not know, or that do not follow their state
    deletion  of the partition itself; Kafka 4.3.1 never writes it
    """

    def __init__(self, topic: str, key: bytes, metadata_partition: int) -> None:
        self.topic, self.topic_id, self.partition = topic, uuid_text(key[:16]), partition_number(key)
        self.metadata_partition = metadata_partition
        self.refused = 0
        self.deletion: int | None = None
        self._rows: dict[bytes, int] = {}  # by segment id
        self._table = bytearray()  # _ROW, row by row
        self._free: list[int] = []  # rows of deleted segments
        self._former: dict[int, set[int]] = {}  # of a row that was begun again: the epochs that it was in before
        self._listed: dict[int, list[int]] | None = None  # by epoch the rows that are not deleted, once somebody asks
        self._epochs: dict[int, _EpochState] = {}
        self._several: dict[int, Epochs] = {}  # leader epochs of a row that has not one from its start on
        self._custom: dict[int, bytes] = {}

    @property
    def name(self) -> str:
        """As a directory is named."""
        return f"{self.topic}-{self.partition}"

    def __len__(self) -> int:
        return len(self._rows)

    # ---- records

    def apply(self, record: Record) -> bool:
        """Take the next record of the partition; False: a broker drops it."""
        if isinstance(record, PartitionRecord):
            self.deletion, self._listed = record.state, None
            if record.state == PartitionState.DELETE_PARTITION_FINISHED:
                self._rows.clear()
                self._epochs.clear()
            return True
        changes = _CHANGES.pack(record.broker_id, record.event_timestamp_ms, record.state)
        if isinstance(record, UpdateRecord):
            return self.update(record.segment_id, changes, record.custom)
        fixed = _FIXED.pack(
            record.start_offset, record.end_offset, record.max_timestamp_ms, record.size, record.leader_epochs[0][0],
            record.txn_index_empty,
        )  # fmt: skip
        return self.begin_copy(record.segment_id, fixed, changes, record.leader_epochs, record.custom)

    def begin_copy(
        self, segment_id: bytes, fixed: bytes, changes: bytes, epochs: Epochs | None = None, custom: bytes | None = None
    ) -> bool:
        """Take a SegmentRecord in the parts of a row. `epochs`: None is the one of the row, from the segment's start on.

        Mirrors RemoteLogMetadataCache.addCopyInProgressSegment.
        """
        row = self._rows.get(segment_id)
        if changes[-1] != _STARTED or (row is not None and self._table[row * _ROW.size + _STATE_AT] != _STARTED):
            self.refused += 1
            return False
        start, _, epoch = _PLACE.unpack_from(fixed, 0)
        if row is None:
            row = self._rows[segment_id] = self._free.pop() if self._free else len(self._table) // _ROW.size
        else:  # it began before, perhaps in other epochs, which go on listing it
            self._former.setdefault(row, set()).update(one for one, _ in self._epochs_of(row))
        at = row * _ROW.size
        self._table[at : at + _ROW.size] = segment_id + fixed + changes
        if epochs is None or epochs == ((epoch, start),):
            if epoch not in self._epochs:
                self._epochs[epoch] = _EpochState()
            if self._several:
                self._several.pop(row, None)
        else:
            self._several[row] = epochs
            for one, _ in epochs:
                self._epochs.setdefault(one, _EpochState())
        if custom is not None or self._custom:
            self._put_custom(row, custom)
        self._listed = None
        return True

    def update(self, segment_id: bytes, changes: bytes, custom: bytes | None = None) -> bool:
        """Take an UpdateRecord; `changes`: a part of a row. Mirrors RemoteLogMetadataCache.updateRemoteLogSegmentMetadata."""
        row, state, table = self._rows.get(segment_id), changes[-1], self._table
        at = -1 if row is None else row * _ROW.size
        if row is None or state not in _FOLLOWING[table[at + _STATE_AT]]:
            self.refused += 1
            return False
        self._listed = None
        if state == _DELETED:
            del self._rows[segment_id]
            self._several.pop(row, None)
            self._custom.pop(row, None)
            self._former.pop(row, None)
            self._free.append(row)
            return True
        start, end, epoch = _PLACE.unpack_from(table, at + _FIXED_AT)
        epochs = self._several.get(row) if self._several else None
        if epochs is None and state == _FINISHED:
            self._epochs[epoch].finish(start, row, end)
        elif epochs is None:
            self._epochs[epoch].begin_deletion(start, row)
        else:
            for one, first in epochs:
                if state == _FINISHED:
                    self._epochs[one].finish(first, row, _last_offset(epochs, one, end))
                else:
                    self._epochs[one].begin_deletion(first, row)
        table[at + _CHANGES_AT : at + _ROW.size] = changes
        if custom is not None or self._custom:
            self._put_custom(row, custom)
        return True

    def _put_custom(self, row: int, custom: bytes | None) -> None:
        if custom is not None:
            self._custom[row] = custom
        else:
            self._custom.pop(row, None)

    # ---- questions

    def _epochs_of(self, row: int) -> Epochs:
        start, _, epoch = _PLACE.unpack_from(self._table, row * _ROW.size + _FIXED_AT)
        return self._several.get(row) or ((epoch, start),)

    def _segment(self, row: int) -> RemoteSegment:
        segment_id, start, end, max_timestamp, size, epoch, is_txn_index_empty, broker, event, state = (
            _ROW.unpack_from(self._table, row * _ROW.size)
        )
        epochs = self._several.get(row) or ((epoch, start),)
        fields = (
            segment_id, _STATES[state], start, end, size, max_timestamp, broker, event, is_txn_index_empty, epochs,
            self._custom.get(row),
        )  # fmt: skip
        return tuple.__new__(RemoteSegment, fields)

    def _in_order(self, rows: Iterable[int]) -> Iterator[RemoteSegment]:
        table = self._table
        found = sorted([(_START.unpack_from(table, row * _ROW.size + _FIXED_AT)[0], row) for row in rows])
        if any(one[0] == following[0] for one, following in pairwise(found)):
            found.sort(key=lambda one: (one[0], uuid_text(_ROW.unpack_from(table, one[1] * _ROW.size)[0])))
        for _, row in found:
            yield self._segment(row)

    def segments(self) -> Iterator[RemoteSegment]:
        """All that are not deleted, in the order of their offsets, then of their ids (listAllRemoteLogSegments)."""
        return self._in_order(self._rows.values())

    def epochs(self) -> list[int]:
        """The leader epochs of all segments that there ever were."""
        return sorted(self._epochs)

    def segments_of(self, epoch: int) -> Iterator[RemoteSegment]:
        """Those with records of a leader epoch that are not deleted, in the same order (listRemoteLogSegments)."""
        if self._listed is None:
            self._listed = {}
            for row in self._rows.values():
                for one in {epoch for epoch, _ in self._epochs_of(row)} | self._former.get(row, set()):
                    self._listed.setdefault(one, []).append(row)
        return self._in_order(self._listed.get(epoch, ()))

    def highest_offset(self, epoch: int) -> int | None:
        """The highest offset of a leader epoch that was ever copied (highestOffsetForEpoch)."""
        state = self._epochs.get(epoch)
        return None if state is None else state.highest

    def segment(self, epoch: int, offset: int) -> RemoteSegment | None:
        """The segment that a leader of the lineage reads `offset` of `epoch` from (remoteLogSegmentMetadata)."""
        state = self._epochs.get(epoch)
        row = None if state is None else state.floor(offset)
        if row is None:
            return None
        found = self._segment(row)
        return None if offset > found.last_offset_of(epoch) else found

    def segment_with_txn_index(self, epoch: int, offset: int) -> RemoteSegment | None:
        """The first segment from `offset` on that may have aborted transactions (nextSegmentWithTxnIndex)."""
        found = self.segment(epoch, offset)
        while found is not None and found.txn_index_empty:
            found = self.segment(epoch, found.end_offset + 1)
        return found


class RemoteLogMetadata:
    """The remote segments of all partitions, by what the records of the topic say so far."""

    def __init__(self) -> None:
        self._partitions: dict[bytes, PartitionMetadata] = {}

    def of(self, record: Record, metadata_partition: int) -> PartitionMetadata:
        """The partition that a record belongs to, which is in that partition of the topic; known from then on."""
        partition = self._partitions.get(record.key)
        if partition is None:
            topic = record.topic.decode("utf-8", "replace")
            partition = self._partitions[record.key] = PartitionMetadata(topic, record.key, metadata_partition)
        return partition

    def apply_rows(
        self, kinds: memoryview, rows: memoryview, metadata_partition: int, record_at: Callable[[int], Record | None]
    ) -> None:
        """Take records that `engine.kernels.remote` has decoded, in their order.

        record_at  decodes the one of that number by other means; None: it cannot be decoded
        """
        known = self._partitions.get
        for number, (kind, parts) in enumerate(zip(kinds, _KEYED.iter_unpack(rows), strict=True)):
            key, segment_id, fixed, changes = parts
            partition = known(key) if kind else None
            if partition is None:  # it is unusual, or names its topic for the first time
                record = record_at(number)
                if record is not None:
                    self.of(record, metadata_partition).apply(record)
            elif kind == _UPDATE:
                partition.update(segment_id, changes)
            else:
                partition.begin_copy(segment_id, fixed, changes)

    def partitions(self) -> list[PartitionMetadata]:
        """In the order of topics, numbers, topic ids: a topic that was made again has a new id."""
        return sorted(self._partitions.values(), key=lambda one: (one.topic, one.partition, one.topic_id))

    def find(self, topic_id: str, partition: int) -> PartitionMetadata | None:
        """The partition of a topic by its id."""
        return next((one for one in self._partitions.values() if (one.topic_id, one.partition) == (topic_id, partition)), None)

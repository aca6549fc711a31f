"""The remote segments of each partition, from the records of `__remote_log_metadata`.

Mirrors RemoteLogMetadataCache and RemoteLogLeaderEpochState: the same records in the same order give the same answers as in a
broker. A partition may have had millions of segments, so a segment is stored as a row of bytes, and becomes an object only when
a caller asks for it.
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

# a segment in the form of RemoteRow without the key: id; fixed: start and end offset, largest timestamp, size, first leader
# epoch, is the transaction index empty; changing: broker, time of the event, state
_KEYED, _ROW, _FIXED, _CHANGES = Struct(">20s16s33s13s"), Struct(">16sqqqii?iqb"), Struct(">qqqii?"), Struct(">iqb")
_START, _EXTENT = Struct(">q"), Struct(">qq12xi")  # of a row, from _FIXED_AT on: start offset; start and end offset, epoch
_FIXED_AT, _CHANGES_AT, _STATE_AT = (at - RemoteRow.ID for at in (RemoteRow.OFFSETS, RemoteRow.BROKER, RemoteRow.STATE))
_UPDATE = int(RemoteKind.UPDATE)
_STATES = tuple(State)
_STARTED, _FINISHED, _DELETING, _DELETED = map(int, State)
# by state: valid next states. Mirrors RemoteLogSegmentState.isValidTransition
_FOLLOWING = ((_FINISHED, _DELETING), (_FINISHED, _DELETING), (_DELETING, _DELETED), ())
_REBUILT_AT = 1024  # removed entries at the front of a list from which on the list is shortened


class RemoteSegment(NamedTuple):
    """The metadata of a remote segment. Mirrors RemoteLogSegmentMetadata.

    id               16 bytes
    leader_epochs    (epoch, its first offset in the segment), ascending
    txn_index_empty  False: not empty; or unknown, before Kafka 3.9
    custom           metadata of the RemoteStorageManager
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
        """The id in Kafka's text form."""
        return uuid_text(self.id)

    def last_offset_of(self, epoch: int) -> int:
        """Return the last offset of a leader epoch in the segment."""
        return _last_offset(self.leader_epochs, epoch, self.end_offset)


def records_of(segment: RemoteSegment, topic: str, key: bytes) -> tuple[SegmentRecord, UpdateRecord]:
    """Return the records of a complete copy. `key`: of the partition."""
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

    starts, rows  start offset and row of the segments for readers, ascending; those before index `first` are removed
    highest       the highest offset that was ever copied; None: none
    """

    __slots__ = ("first", "highest", "rows", "starts")

    def __init__(self) -> None:
        self.starts, self.rows = array("q"), array("q")
        self.first = 0
        self.highest: int | None = None

    def finish(self, start: int, row: int, end: int) -> None:
        """Add a segment with a complete copy, which has offsets [start, end] of this epoch.

        It replaces segments with the same or a later start: copies of the same records by a former leader.
        """
        starts, rows = self.starts, self.rows
        while len(starts) > self.first and starts[-1] >= start and (self.highest is None or self.highest <= end):
            starts.pop()
            rows.pop()
        if len(starts) == self.first or starts[-1] < start:  # the usual case: the newest segment
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
        """Remove a segment whose deletion begins."""
        at, starts, rows = self.first, self.starts, self.rows
        if at < len(rows) and rows[at] == row and starts[at] == start:  # the usual case: the oldest segment
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
        """Return the row of the last segment that begins at or before `offset`; None: there is no such segment."""
        at = bisect_right(self.starts, offset, self.first)
        return None if at == self.first else self.rows[at - 1]


class PartitionMetadata:
    """The remote segments of one partition. Mirrors RemoteLogMetadataCache.

    metadata_partition  the partition of __remote_log_metadata with its records
    refused   number of records that a broker drops: changes of unknown segments, and invalid changes of the state
    deletion  state of the deletion of the partition (PartitionState); Kafka 4.3.1 never writes it
    """

    def __init__(self, topic: str, key: bytes, metadata_partition: int) -> None:
        self.topic, self.topic_id, self.partition = topic, uuid_text(key[:16]), partition_number(key)
        self.metadata_partition = metadata_partition
        self.refused = 0
        self.deletion: int | None = None
        self._rows: dict[bytes, int] = {}  # by segment id
        self._table = bytearray()  # _ROW, row by row
        self._free: list[int] = []  # rows of deleted segments
        self._former: dict[int, set[int]] = {}  # by row of a copy that began again: its earlier epochs
        self._listed: dict[int, list[int]] | None = None  # rows by epoch; None: not computed yet
        self._epochs: dict[int, _EpochState] = {}
        self._several: dict[int, Epochs] = {}  # by row, unless it has one leader epoch that begins at its start
        self._custom: dict[int, bytes] = {}

    @property
    def name(self) -> str:
        """TOPIC-PARTITION."""
        return f"{self.topic}-{self.partition}"

    def __len__(self) -> int:
        return len(self._rows)

    # ---- records

    def apply(self, record: Record) -> bool:
        """Apply the next record of the partition; False: a broker drops it."""
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
        """Apply a SegmentRecord, given as the parts of a row; False: a broker drops it.

        epochs  None: only the epoch of the row, from the segment's start on
        Mirrors RemoteLogMetadataCache.addCopyInProgressSegment.
        """
        row = self._rows.get(segment_id)
        if changes[-1] != _STARTED or (row is not None and self._table[row * _ROW.size + _STATE_AT] != _STARTED):
            self.refused += 1
            return False
        start, _, epoch = _EXTENT.unpack_from(fixed, 0)
        if row is None:
            row = self._rows[segment_id] = self._free.pop() if self._free else len(self._table) // _ROW.size
        else:  # the copy began before, perhaps with other epochs, which continue to list the segment
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
        """Apply an UpdateRecord; False: a broker drops it. Mirrors RemoteLogMetadataCache.updateRemoteLogSegmentMetadata."""
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
        start, end, epoch = _EXTENT.unpack_from(table, at + _FIXED_AT)
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

    # ---- queries

    def _epochs_of(self, row: int) -> Epochs:
        start, _, epoch = _EXTENT.unpack_from(self._table, row * _ROW.size + _FIXED_AT)
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
        """Return all segments, sorted by start offset and id (listAllRemoteLogSegments)."""
        return self._in_order(self._rows.values())

    def epochs(self) -> list[int]:
        """Return the leader epochs of all segments, including deleted ones."""
        return sorted(self._epochs)

    def segments_of(self, epoch: int) -> Iterator[RemoteSegment]:
        """Return the segments with records of a leader epoch, in the order of `segments` (listRemoteLogSegments)."""
        if self._listed is None:
            self._listed = {}
            for row in self._rows.values():
                for one in {epoch for epoch, _ in self._epochs_of(row)} | self._former.get(row, set()):
                    self._listed.setdefault(one, []).append(row)
        return self._in_order(self._listed.get(epoch, ()))

    def highest_offset(self, epoch: int) -> int | None:
        """Return the highest offset of a leader epoch that was ever copied (highestOffsetForEpoch)."""
        state = self._epochs.get(epoch)
        return None if state is None else state.highest

    def segment(self, epoch: int, offset: int) -> RemoteSegment | None:
        """Return the segment from which a leader reads `offset` of `epoch` (remoteLogSegmentMetadata)."""
        state = self._epochs.get(epoch)
        row = None if state is None else state.floor(offset)
        if row is None:
            return None
        found = self._segment(row)
        return None if offset > found.last_offset_of(epoch) else found

    def segment_with_txn_index(self, epoch: int, offset: int) -> RemoteSegment | None:
        """Return the first segment from `offset` on that may have aborted transactions (nextSegmentWithTxnIndex)."""
        found = self.segment(epoch, offset)
        while found is not None and found.txn_index_empty:
            found = self.segment(epoch, found.end_offset + 1)
        return found


class RemoteLogMetadata:
    """The remote segments of all partitions, after the records that were applied so far."""

    def __init__(self) -> None:
        self._partitions: dict[bytes, PartitionMetadata] = {}

    def of(self, record: Record, metadata_partition: int) -> PartitionMetadata:
        """Return the partition of a record; create it if it is new.

        metadata_partition  the partition of __remote_log_metadata that has the record
        """
        partition = self._partitions.get(record.key)
        if partition is None:
            topic = record.topic.decode("utf-8", "replace")
            partition = self._partitions[record.key] = PartitionMetadata(topic, record.key, metadata_partition)
        return partition

    def apply_rows(
        self, kinds: memoryview, rows: memoryview, metadata_partition: int, record_at: Callable[[int], Record | None]
    ) -> None:
        """Apply records that `engine.kernels.remote` decoded, in their order.

        record_at  decodes the record with a given index without the kernel; None: it cannot be decoded
        """
        known = self._partitions.get
        for number, (kind, parts) in enumerate(zip(kinds, _KEYED.iter_unpack(rows), strict=True)):
            key, segment_id, fixed, changes = parts
            partition = known(key) if kind else None
            if partition is None:  # an unusual form, or the first record of its partition
                record = record_at(number)
                if record is not None:
                    self.of(record, metadata_partition).apply(record)
            elif kind == _UPDATE:
                partition.update(segment_id, changes)
            else:
                partition.begin_copy(segment_id, fixed, changes)

    def partitions(self) -> list[PartitionMetadata]:
        """Return all partitions, sorted by topic, number and topic id. A topic that was created again has a new id."""
        return sorted(self._partitions.values(), key=lambda one: (one.topic, one.partition, one.topic_id))

    def find(self, topic_id: str, partition: int) -> PartitionMetadata | None:
        """Return a partition of the topic with this id; None: no record names it."""
        return next((one for one in self._partitions.values() if (one.topic_id, one.partition) == (topic_id, partition)), None)

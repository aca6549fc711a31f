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

from engine.remote.records import PartitionState, SegmentRecord, State, UpdateRecord, partition_number, uuid_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.remote.records import Record

Epochs = tuple[tuple[int, int], ...]  # (leader epoch, its first offset), ascending

# a segment: id, start and end offset, largest timestamp, size, first leader epoch, is the transaction index empty; and what
# changes: state, time of the event, broker
_ROW, _CHANGES, _START = Struct("<16sqqqii?bqi"), Struct("<bqi"), Struct("<q")
_START_AT = 16  # behind the id
_STATE = _ROW.size - _CHANGES.size
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

    __slots__ = ("first", "highest", "rows", "starts", "unreferenced")

    def __init__(self) -> None:
        self.starts, self.rows = array("q"), array("q")
        self.first = 0
        self.highest: int | None = None
        self.unreferenced: set[int] = set()

    def finish(self, start: int, row: int, end: int) -> None:
        """The copy of a segment is complete, which has offsets start … end of this epoch.

        Those that begin no earlier are copies of the same records that a former leader made.
        """
        starts, rows = self.starts, self.rows
        if len(starts) == self.first or starts[-1] < start:  # mostly it is the newest
            starts.append(start)
            rows.append(row)
            self.unreferenced.discard(row)
            self.highest = end if self.highest is None else max(self.highest, end)
            return
        while len(starts) > self.first and starts[-1] >= start and (self.highest is None or self.highest <= end):
            starts.pop()
            self.unreferenced.add(rows.pop())
        at = bisect_left(starts, start, self.first)
        if at < len(starts) and starts[at] == start:
            self.unreferenced.add(rows[at])
            rows[at] = row
        else:
            starts.insert(at, start)
            rows.insert(at, row)
        self.unreferenced.discard(row)
        self.highest = end if self.highest is None else max(self.highest, end)

    def begin_deletion(self, start: int, row: int) -> None:
        """The segment is about to be deleted."""
        at = bisect_left(self.starts, start, self.first)
        if at < len(self.starts) and self.starts[at] == start and self.rows[at] == row:
            if at == self.first:
                self._remove_first()
            else:
                del self.starts[at], self.rows[at]
        self.unreferenced.add(row)

    def _remove_first(self) -> None:
        self.first += 1
        if self.first >= _REBUILT_AT and 2 * self.first >= len(self.starts):
            del self.starts[: self.first], self.rows[: self.first]
            self.first = 0

    def floor(self, offset: int) -> int | None:
        """The row of the last segment that begins at or below `offset`."""
        at = bisect_right(self.starts, offset, self.first)
        return None if at == self.first else self.rows[at - 1]

    def all(self) -> Iterator[int]:
        """Rows of all segments that are not deleted."""
        yield from self.rows[self.first :]
        yield from self.unreferenced


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
        self._begun_again: set[int] = set()
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
        if type(record) is SegmentRecord:
            is_taken = self._begin_copy(record)
        elif type(record) is UpdateRecord:
            is_taken = self._update(record)
        else:
            self.deletion, is_taken = record.state, True
            if record.state == PartitionState.DELETE_PARTITION_FINISHED:
                self._rows.clear()
                self._epochs.clear()
        self.refused += not is_taken
        return is_taken

    def _begin_copy(self, record: SegmentRecord) -> bool:
        """Mirrors RemoteLogMetadataCache.addCopyInProgressSegment."""
        if record.state != _STARTED:
            return False
        row = self._rows.get(record.segment_id)
        if row is None:
            row = self._rows[record.segment_id] = self._new_row()
        elif self._table[row * _ROW.size + _STATE] != _STARTED:
            return False
        else:  # it began before, perhaps in other epochs, which go on listing it
            self._begun_again.add(row)
        epochs, start = record.leader_epochs, record.start_offset
        _ROW.pack_into(
            self._table, row * _ROW.size, record.segment_id, start, record.end_offset, record.max_timestamp_ms, record.size,
            epochs[0][0], record.txn_index_empty, record.state, record.event_timestamp_ms, record.broker_id,
        )  # fmt: skip
        if len(epochs) > 1 or epochs[0][1] != start:
            self._several[row] = epochs
        elif self._several:
            self._several.pop(row, None)
        self._put_custom(row, record.custom)
        for epoch, _ in epochs:
            self._of(epoch).unreferenced.add(row)
        return True

    def _update(self, record: UpdateRecord) -> bool:
        """Mirrors RemoteLogMetadataCache.updateRemoteLogSegmentMetadata."""
        row, state = self._rows.get(record.segment_id), record.state
        if row is None:
            return False
        at = row * _ROW.size
        if state not in _FOLLOWING[self._table[at + _STATE]]:
            return False
        _, first, end, _, _, only, _, _, _, _ = _ROW.unpack_from(self._table, at)
        epochs = self._several.get(row) or ((only, first),)
        if state == _FINISHED:
            for epoch, start in epochs:
                self._of(epoch).finish(start, row, _last_offset(epochs, epoch, end))
        elif state == _DELETED:
            for epoch, _ in epochs:
                self._of(epoch).unreferenced.discard(row)
            del self._rows[record.segment_id]
            self._several.pop(row, None)
            self._custom.pop(row, None)
            self._table[at + _STATE] = state
            if row not in self._begun_again:
                self._free.append(row)
            return True
        else:
            for epoch, start in epochs:
                self._of(epoch).begin_deletion(start, row)
        _CHANGES.pack_into(self._table, at + _STATE, state, record.event_timestamp_ms, record.broker_id)
        self._put_custom(row, record.custom)
        return True

    def _new_row(self) -> int:
        if self._free:
            return self._free.pop()
        row = len(self._table) // _ROW.size
        self._table += bytes(_ROW.size)
        return row

    def _put_custom(self, row: int, custom: bytes | None) -> None:
        if custom is not None:
            self._custom[row] = custom
        elif self._custom:
            self._custom.pop(row, None)

    def _of(self, epoch: int) -> _EpochState:
        state = self._epochs.get(epoch)
        if state is None:
            state = self._epochs[epoch] = _EpochState()
        return state

    # ---- questions

    def _segment(self, row: int) -> RemoteSegment:
        segment_id, start, end, max_timestamp, size, epoch, is_txn_index_empty, state, event, broker = (
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
        found = sorted([(_START.unpack_from(table, row * _ROW.size + _START_AT)[0], row) for row in rows])
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
        state = self._epochs.get(epoch)
        rows = () if state is None else state.all()
        return self._in_order(row for row in rows if self._table[row * _ROW.size + _STATE] != _DELETED)

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

    def partitions(self) -> list[PartitionMetadata]:
        """In the order of topics, numbers, topic ids: a topic that was made again has a new id."""
        return sorted(self._partitions.values(), key=lambda one: (one.topic, one.partition, one.topic_id))

    def find(self, topic_id: str, partition: int) -> PartitionMetadata | None:
        """The partition of a topic by its id."""
        return next((one for one in self._partitions.values() if (one.topic_id, one.partition) == (topic_id, partition)), None)

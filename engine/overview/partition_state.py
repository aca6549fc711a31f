"""The state of a partition's directory: offsets, sizes, times and flags, from few reads of a few bytes each.

Read are the names and sizes of all files, the last entries of two indexes, the batch headers after the last index entry, the
first batch header, and the small files. A broker may be writing meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from engine.checkpoint.checkpoints import read_leader_epochs
from engine.checkpoint.identity import decode_partition_metadata, read_identity
from engine.checkpoint.producer_snapshot import ProducerSnapshot
from engine.discovery.names import (
    METADATA_TOPIC,
    SWAP,
    FileKind,
    PartitionKind,
    file_name,
    log_file_name,
    offset_index_file_name,
    offset_of_brokers,
    producer_snapshot_file_name,
    time_index_file_name,
)
from engine.discovery.paths import are_of_07
from engine.errors import KafkalogError, UnreadableFile
from engine.files import look
from engine.findings import ignore
from engine.formats import (
    BATCH_HEADER,
    DELETE_HORIZON_FLAG,
    LONG_MAX,
    MAGIC_V2,
    OFFSET_INDEX_ENTRY,
    PRODUCER_SNAPSHOT_HEADER,
    TIME_INDEX_ENTRY,
    TIMESTAMP_TYPE_FLAG,
    BatchField,
)
from engine.index.sparse import read_last_used
from engine.log.errors import CorruptRecord
from engine.log.fetch.segment_view import SegmentView
from engine.log.fetch.view import PartitionView, logs_in_use
from engine.log.logdir.log_dirs import LIVE
from engine.log.segment.batch_search import heads
from engine.log.tiering import Starts, Tiering
from engine.record.columns import BatchColumns
from engine.record.heads import HeadWalk
from engine.record.soundness import too_large
from engine.record.windows import MAX_LOG_SIZE, Stop

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from engine.files import FileInfo, OpenFile, ReadOnlyFiles
    from engine.findings import Finding
    from engine.formats import OffsetIndexEntry
    from engine.log.logdir.log_dirs import PartitionPath

_ATTEMPTS = 5  # to read a directory in which files come and go
_ROWS = 520  # batches that one kernel call describes
_WALKED = 64 << 20  # bytes after the last producer snapshot in which open transactions are searched
_LOG, _SNAPSHOT = FileKind.LOG.value, FileKind.PRODUCER_SNAPSHOT.value
_EPOCHS, _METADATA = FileKind.LEADER_EPOCH_CHECKPOINT.value, FileKind.PARTITION_METADATA.value


class Flag(Enum):
    """What is unusual about a partition, or what its records wait for."""

    FUTURE = "future"  # a copy in progress, to another log dir
    DELETED = "deleted"  # a broker deletes the directory
    STRAY = "stray"  # a broker keeps the directory and ignores it
    UNASSIGNED = "unassigned"  # the metadata log does not assign it to this broker: a start makes it a stray
    OPEN_TRANSACTION = "open-transaction"
    TIERED = "tiered"  # older segments may be in remote storage
    MISSING_INDEX = "missing-index"  # a segment without .index or .timeindex: a start reads the segment
    BAD_END = "bad-end"  # bytes that are not a batch, after the last index entry
    TOO_LARGE = "too-large"  # a .log with more bytes than Kafka opens
    KAFKA_07 = "kafka-0.7"  # offsets are byte positions
    NO_LOG = "no-log"  # no segment
    UNREADABLE = "unreadable"


_OF_KIND = {PartitionKind.FUTURE: Flag.FUTURE, PartitionKind.DELETE: Flag.DELETED, PartitionKind.STRAY: Flag.STRAY}


@dataclass(slots=True)
class PartitionState:
    """The state of the partition at `partition`. None: not known.

    log_size      bytes of the .log files in use: the size that kafka-log-dirs prints (UnifiedLog.size); of a directory that is
                  deleted or stray 0, because a broker does not count it
    size          bytes of all files of the directory
    start, end    log start offset, and offset after the last whole batch
    stable        last stable offset: the first offset of the oldest open transaction, else `end`
    first_time    ms: of the first batch; of a batch of format 0 or 1 its largest timestamp
    last_time     ms: the largest timestamp of the newest segment that has records
    leader_epoch  the last one of leader-epoch-checkpoint
    error         why it could not be read
    too_large     a .log with more bytes than Kafka opens
    """

    partition: PartitionPath
    log_size: int = 0
    size: int = 0
    segments: int = 0
    start: int | None = None
    end: int | None = None
    stable: int | None = None
    first_time: int | None = None
    last_time: int | None = None
    leader_epoch: int | None = None
    topic_id: str | None = None
    flags: set[Flag] = field(default_factory=set)
    error: KafkalogError | None = None
    too_large: Finding | None = None

    @property
    def offsets(self) -> int:
        """The number of offsets: at least the number of records, which compaction and transaction markers reduce."""
        return 0 if self.start is None or self.end is None else max(0, self.end - self.start)


class Totals(NamedTuple):
    """The sums over several partitions; of times the latest, of flags all. See PartitionState."""

    partitions: int = 0
    offsets: int = 0
    log_size: int = 0
    size: int = 0
    last_time: int | None = None
    flags: tuple[Flag, ...] = ()

    @classmethod
    def of(cls, states: Iterable[PartitionState]) -> Totals:
        """Return the sums over `states`."""
        found = list(states)
        flags = set().union(*(state.flags for state in found))
        return cls(
            len(found), sum(state.offsets for state in found), sum(state.log_size for state in found),
            sum(state.size for state in found),
            max((state.last_time for state in found if state.last_time is not None), default=None),
            tuple(flag for flag in Flag if flag in flags),
        )


class Known(NamedTuple):
    """What other files say about a partition.

    line     its log start offset in log-start-offset-checkpoint; None: it has no line
    tiering  what the settings of its topic say
    """

    line: int | None = None
    tiering: Tiering = Tiering.UNKNOWN


class StateReader:
    """Reads the states of many partitions, one after the other, with the same buffers."""

    def __init__(self, files: ReadOnlyFiles) -> None:
        self._files = files
        self._columns = BatchColumns(_ROWS)

    def read(self, partition: PartitionPath, known: Known) -> PartitionState | None:
        """Read the state of the partition at `partition`; None: a running broker has removed it. Errors become a flag.

        It is read again if files were removed meanwhile.
        """
        for _ in range(_ATTEMPTS):
            state = PartitionState(partition)
            if partition.name.kind in _OF_KIND:
                state.flags.add(_OF_KIND[partition.name.kind])
            before: set[str] = set()
            try:
                before.update(present := self._list(partition.path))
                self._read(state, known, present)
            except KafkalogError as error:
                state.error = error
                state.flags.add(Flag.UNREADABLE)
                if look(self._files, partition.path) is None:
                    return None
                if before and isinstance(error, UnreadableFile) and before - set(self._list(partition.path)):
                    continue
            break
        return state

    def _read(self, state: PartitionState, known: Known, present: dict[str, FileInfo]) -> None:
        directory = state.partition.path
        state.size = sum(info.size for info in present.values())
        if _METADATA in present:
            decoded = read_identity(self._files, f"{directory}/{_METADATA}", decode_partition_metadata).value
            state.topic_id = None if decoded is None else decoded.topic_id.rstrip("=")
        epochs = read_leader_epochs(self._files, f"{directory}/{_EPOCHS}").entries if _EPOCHS in present else []
        state.leader_epoch = epochs[-1].epoch if epochs else None
        logs = _logs(present)
        if not logs:
            state.flags.add(Flag.KAFKA_07 if are_of_07(present) else Flag.NO_LOG)
            return
        state.segments = len(logs)
        if state.partition.name.kind in LIVE:
            state.log_size = sum(present[log_file_name(base, suffix)].size for base, suffix in logs.items())
        for base, suffix in logs.items():
            name = log_file_name(base, suffix)
            if present[name].size > MAX_LOG_SIZE:
                state.flags.add(Flag.TOO_LARGE)
                state.too_large = too_large(f"{directory}/{name}", present[name].size)
        if any(index(base, suffix) not in present
               for base, suffix in logs.items() for index in (offset_index_file_name, time_index_file_name)):
            state.flags.add(Flag.MISSING_INDEX)
        first = next(iter(logs))
        starts = Starts(known.line, first, epochs[0].start_offset if epochs else None)
        is_remote = starts.differ and starts.are_of_tiered(known.tiering)
        if is_remote or known.tiering is Tiering.TIERED:
            state.flags.add(Flag.TIERED)
        state.start = (known.line or 0) if is_remote else max(first, known.line or 0)
        self._read_end(state, logs, present)
        self._read_first_time(state, logs, present)
        if state.partition.name.topic == METADATA_TOPIC:
            state.stable = state.end
        else:
            self._read_stable(state, logs, present)

    def _list(self, directory: str) -> dict[str, FileInfo]:
        """The plain files of the directory."""
        found = {}
        for name in self._files.list(directory):
            info = look(self._files, f"{directory}/{name}")
            if info is not None and info.is_file:
                found[name] = info
        return found

    def _read_end(self, state: PartitionState, logs: dict[int, str], present: dict[str, FileInfo]) -> None:
        """Find the log end, and the largest timestamp of the newest segment with records."""
        for base in reversed(logs):
            paths = [f"{state.partition.path}/{name(base, logs[base])}"
                     for name in (log_file_name, offset_index_file_name, time_index_file_name)]
            log, index, times = (present.get(file_name(path)) for path in paths)
            largest = -1
            if state.end is None and log is not None:
                entry = None if index is None else read_last_used(self._files, paths[1], OFFSET_INDEX_ENTRY, index.size)
                state.end, largest = self._walk_end(state, paths[0], base, log.size, entry)
            if times is not None and log is not None and log.size:
                latest = read_last_used(self._files, paths[2], TIME_INDEX_ENTRY, times.size)
                largest = max(largest, -1 if latest is None else latest.timestamp)
            if largest >= 0:
                state.last_time = largest
                return

    def _walk_end(
        self, state: PartitionState, path: str, base: int, size: int, entry: OffsetIndexEntry | None
    ) -> tuple[int, int]:
        """Read headers from the index entry on, or all of them if it leads to no batch: (log end, largest timestamp)."""
        end, largest, position = base, -1, 0
        if not size:
            return end, largest
        if entry is not None and 0 < entry.position < size:
            position = entry.position
        with self._files.open(path) as file:
            walk = HeadWalk(file, position, size, batches=self._columns)
            for window in walk:
                table, rows = window.batches.table, window.rows
                if end == base and position and entry is not None and (
                    not base <= table[BatchField.BASE_OFFSET, 0] <= base + entry.relative_offset
                ):
                    return self._walk_end(state, path, base, size, None)
                last = table[BatchField.LAST_OFFSET, rows - 1]
                if not base <= last < LONG_MAX:  # no offset of this segment, or none is left after it
                    state.flags.add(Flag.BAD_END)
                    break
                end = last + 1
                largest = max(largest, *window.batches.field(BatchField.MAX_TIMESTAMP)[:rows])
        if walk.stop is not Stop.END:
            if position and end == base:
                return self._walk_end(state, path, base, size, None)
            state.flags.add(Flag.BAD_END)
        return end, largest

    def _read_first_time(self, state: PartitionState, logs: dict[int, str], present: dict[str, FileInfo]) -> None:
        """Find the time of the batch at the log start."""
        start = state.start or 0
        base = max((one for one in logs if one <= start), default=next(iter(logs)))
        if not present[log_file_name(base, logs[base])].size:
            return
        if start <= base:
            with self._files.open(f"{state.partition.path}/{log_file_name(base, logs[base])}") as file:
                state.first_time = _first_time(file, 0)
            return
        segment = SegmentView(self._files, state.partition.path, base, logs[base], has_txn_index=False)
        try:
            head = segment.find_offset(start)
            state.first_time = None if head is None else _first_time(segment.log_file, head.position)
        finally:
            segment.close_handlers()

    def _read_stable(self, state: PartitionState, logs: dict[int, str], present: dict[str, FileInfo]) -> None:
        """Find open transactions: in the snapshot at the log end, or in the batches after the newest one."""
        start, end, directory = state.start or 0, state.end or 0, state.partition.path
        if start >= end:
            state.stable = end
            return
        taken = (offset_of_brokers(name, _SNAPSHOT) for name in present if name.endswith(_SNAPSHOT))
        newest = max((offset for offset in taken if offset is not None and offset <= end), default=-1)
        if newest == end:
            name = producer_snapshot_file_name(end)
            snapshot = None
            if present[name].size > PRODUCER_SNAPSHOT_HEADER.size:
                snapshot = ProducerSnapshot.read(self._files, f"{directory}/{name}")
            if snapshot is None or not snapshot.sanity():
                open_since = [one.current_txn_first_offset for one in snapshot or () if one.current_txn_first_offset >= 0]
                state.stable = max(start, min(open_since, default=end))
        if state.stable is None:
            after = max((base for base in logs if base <= max(newest, start)), default=0)
            if sum(present[log_file_name(base, logs[base])].size for base in logs if base >= after) > _WALKED:
                return
            # damage at the end of the log is a flag
            view = PartitionView(self._files, directory, ignore, log_start_offset=start)
            try:
                state.stable = max(start, min(view.open_transactions().values(), default=end))
            finally:
                view.close()
        if state.stable < end:
            state.flags.add(Flag.OPEN_TRANSACTION)


def _logs(present: Collection[str]) -> dict[int, str]:
    """Base offset of each .log in use, ascending → the suffix of its files."""
    if any(name.endswith(SWAP) for name in present):
        return logs_in_use(present)
    found = (offset_of_brokers(name, _LOG) for name in present if name.endswith(_LOG))  # faster, and nearly always enough
    return dict.fromkeys(sorted(base for base in found if base is not None), "")


def _first_time(file: OpenFile, position: int) -> int | None:
    """The timestamp of the first record of the batch at byte `position`; None: it has none."""
    data = bytearray(BATCH_HEADER.size)
    if file.read_into(memoryview(data), position) < len(data) or BATCH_HEADER.field("magic", data) < MAGIC_V2:
        try:
            head = next(heads(file, position, file.size()), None)
        except CorruptRecord:
            head = None
        timestamp = -1 if head is None else head.max_timestamp
    else:
        header = BATCH_HEADER.read(data)
        timestamp = header.base_timestamp
        if header.attributes & DELETE_HORIZON_FLAG:  # the base timestamp is not that of a record
            timestamp = -1
        elif header.attributes & TIMESTAMP_TYPE_FLAG:
            timestamp = header.max_timestamp
    return timestamp if timestamp >= 0 else None

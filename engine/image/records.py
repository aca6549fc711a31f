"""The records of a metadata log and its snapshots, each with its place.

A checksum covers neither the offset nor the epoch of a batch, so both are checked here: the offsets of a metadata log have no
gap, and its epochs never decrease.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from engine.discovery.names import FileKind, parse_file_name
from engine.findings import Finding, Where
from engine.formats import ControlType
from engine.record.control import MARKERS, ControlRecordInvalid, control_type, known_control_type

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator

    from engine.files import ReadOnlyFiles
    from engine.record.batch import Record

# codes of findings after which the reading continues
READ_ON = frozenset(("metadata-record-invalid", "control-record-invalid", "epoch-order"))
_NOTHING_LOST = READ_ON | {"zero-tail"}  # zeros that end a segment: if records were there, the next segment shows a gap
_TOPIC = 2  # ConfigResource.Type
BEGIN, END, ABORT = "BEGIN_TRANSACTION_RECORD", "END_TRANSACTION_RECORD", "ABORT_TRANSACTION_RECORD"


class MetadataRecord(NamedTuple):
    """A record of a metadata log or of a snapshot.

    epoch     of the leader that appended it; in a snapshot that of its last record
    time_ms   ms: of the record in a log
    position  of its batch in the file `path`
    type      of MetadataRecordType, or of ControlType if it is_control; empty: not decoded
    data      its fields under Kafka's names
    """

    offset: int
    epoch: int
    time_ms: int
    path: str
    position: int
    type: str
    version: int
    data: dict[str, Any]
    is_control: bool = False

    @property
    def where(self) -> Where:
        """The place of the record."""
        return Where(self.path, self.position, self.offset)


class SnapshotFile(NamedTuple):
    """A snapshot of the metadata log: the state after all records before `end_offset`; `epoch` is that of the last one."""

    end_offset: int
    epoch: int
    path: str


class MetadataLog:
    """The files of a metadata log.

    directory  __cluster_metadata-0
    report     called with damage, and with what does not end the reading (READ_ON)
    types      ids of MetadataRecordType: other records are not decoded, and have no type; None: all are
    snapshots  complete ones, the oldest first         logs  base offset and path of each segment, in order
    end_offset, last_epoch   after and of the last record that `records` has returned; 0 before
    last_time_ms   the latest time of these records
    is_damaged   the reading ended at damage
    Raises UnreadableFile.
    """

    def __init__(
        self, files: ReadOnlyFiles, directory: str, report: Callable[[Finding], None], types: Container[int] | None = None
    ) -> None:
        self._files, self._report, self._types = files, report, types
        self.snapshots: list[SnapshotFile] = []
        self.logs: list[tuple[int, str]] = []
        for name in files.list(directory):
            parsed = parse_file_name(name)
            if parsed is None or parsed.suffix or parsed.base_offset is None:
                continue
            if parsed.kind is FileKind.KRAFT_SNAPSHOT and parsed.epoch is not None:
                self.snapshots.append(SnapshotFile(parsed.base_offset, parsed.epoch, f"{directory}/{name}"))
            elif parsed.kind is FileKind.LOG:
                self.logs.append((parsed.base_offset, f"{directory}/{name}"))
        self.snapshots.sort()
        self.logs.sort()
        self.end_offset, self.last_epoch, self.last_time_ms, self.is_damaged = 0, 0, 0, False

    def snapshot(self, path: str) -> Iterator[MetadataRecord]:
        """Yield the records of a snapshot, also control records, up to damage. Raises UnreadableFile."""
        return read_metadata_records(self._files, path, self._note, self._types)

    def records(self, start: int = 0, end: int | None = None) -> Iterator[MetadataRecord]:
        """Yield the records of the log, also control records, with offsets from `start` up to, not including, `end`.

        The reading ends at the first damage, which is reported. Raises UnreadableFile.
        """
        order = Order()
        for number, (base, path) in enumerate(self.logs):
            following = self.logs[number + 1][0] if number + 1 < len(self.logs) else None
            if following is not None and following <= start:
                continue  # it ends before `start`
            if (gap := order.gap_to_segment(base)) is not None:
                self._note(Finding("metadata-gap", Where(path, 0, base), gap))
            if self.is_damaged:
                return
            for record in read_metadata_records(self._files, path, self._note, self._types, order):
                if end is not None and record.offset >= end:
                    return
                self.end_offset, self.last_epoch = record.offset + 1, record.epoch
                self.last_time_ms = max(self.last_time_ms, record.time_ms)
                if record.offset >= start:
                    yield record

    def _note(self, finding: Finding) -> None:
        self.is_damaged |= finding.code not in _NOTHING_LOST
        self._report(finding)


def read_metadata_records(
    files: ReadOnlyFiles, path: str, report: Callable[[Finding], None], types: Container[int] | None = None,
    order: Order | None = None,
) -> Iterator[MetadataRecord]:  # fmt: skip
    """Yield the records of one file, a segment or a snapshot, up to damage. A record that cannot be decoded has no type.

    Parameters as for MetadataLog; order: of the file before it. Raises UnreadableFile.
    """
    from engine.record.batch import read_records  # not imported if there is no metadata log

    order = Order() if order is None else order
    damage: list[int] = []  # bytes: the damage of a window is reported before its records are returned

    def note(finding: Finding) -> None:
        if finding.where.position is not None:
            damage.append(finding.where.position)
        report(finding)

    with files.open(path) as file:
        for record in read_records(file, note):
            if not record.batch.is_valid:
                return
            where = Where(path, record.batch.position, record.offset)
            if (gap := order.gap_to(record)) is not None:
                if not any(position < record.batch.position for position in damage):
                    report(Finding("metadata-gap", where, gap))
                return
            if (fault := order.fault_of_epoch(record)) is not None:
                report(Finding("epoch-order", where, fault))
            yield _decoded(path, record, report, types)


def _decoded(
    path: str, record: Record, report: Callable[[Finding], None], types: Container[int] | None
) -> MetadataRecord:  # fmt: skip
    """The record, without a type if it is not wanted or was reported."""
    batch, value = record.batch, record.value
    nothing = MetadataRecord(record.offset, batch.partition_leader_epoch, record.timestamp, path, batch.position, "", 0, {})
    if batch.is_control:
        return _control(nothing, record, report)
    if types is not None and (value is None or len(value) < 2 or value[1] not in types):
        return nothing
    from engine.schema.decode import decoder

    decoded = cast("dict[str, Any]", decoder("cluster-metadata").data(record.offset, record.key, value))
    if decoded["value"] is None:
        report(Finding("metadata-record-invalid", nothing.where, decoded["problem"]))
        return nothing
    return nothing._replace(**decoded["value"])


def _control(nothing: MetadataRecord, record: Record, report: Callable[[Finding], None]) -> MetadataRecord:
    """A control record, without a type if Kafka 4.3.1 does not know it or it was reported."""
    from engine.schema.decode import SchemaError, control_data

    try:
        kind = control_type(record.key)
        if kind in MARKERS or known_control_type(kind) is None:
            return nothing._replace(is_control=True)
        data = control_data(kind, record.value)
    except (SchemaError, ControlRecordInvalid) as error:
        report(Finding("control-record-invalid", nothing.where, str(error)))
        return nothing._replace(is_control=True)
    return nothing._replace(type=ControlType(kind).name, data=data, is_control=True)


class Order:
    """The next offset and the epoch so far, across the files of a log.

    start   the first offset; None: any          epoch   of all records in a snapshot; None: in a log, epochs grow
    """

    def __init__(self, start: int | None = None, epoch: int | None = None) -> None:
        self._next, self._fixed, self._epoch = start, epoch, -1

    def gap_to_segment(self, base: int) -> str | None:
        """Why a segment with this base offset cannot follow; None: it can."""
        if self._next is not None and base != self._next:
            return f"the segment begins at offset {base}, the log before it ends at {self._next}"
        self._next = base
        return None

    def gap_to(self, record: Record) -> str | None:
        """Why a record with this offset cannot follow; None: it can."""
        if self._next is not None and record.offset != self._next:
            return f"the batch has offset {record.offset}, expected {self._next}"
        self._next = record.offset + 1
        return None

    def fault_of_epoch(self, record: Record) -> str | None:
        """Why a record cannot have this epoch; None: it can. A leader begins its epoch with a LeaderChange record."""
        epoch, so_far = record.batch.partition_leader_epoch, self._epoch
        if self._fixed is not None:
            return None if epoch == self._fixed else f"epoch {epoch} in a snapshot of epoch {self._fixed}"
        if epoch < so_far:
            return f"epoch {epoch} after epoch {so_far}"
        if epoch > so_far >= 0 and not _is_leader_change(record):
            return f"epoch {epoch} begins without a LeaderChange record, after epoch {so_far}"
        self._epoch = epoch
        return None


def _is_leader_change(record: Record) -> bool:
    try:
        return record.batch.is_control and control_type(record.key) == ControlType.LEADER_CHANGE
    except ControlRecordInvalid:
        return False


def committed(records: Iterable[MetadataRecord], report: Callable[[Finding], None]) -> Iterator[MetadataRecord]:
    """Yield records in the order in which they take effect: those of a metadata transaction at its end, if it is not aborted.

    Mirrors MetadataBatchLoader, also in what it does with a transaction record out of place: it reports it, and continues.
    """
    held: list[MetadataRecord] | None = None
    for record in records:
        if record.type == BEGIN:
            if held is not None:
                report(Finding("metadata-record-invalid", record.where, "a transaction begins within a transaction"))
            else:
                held = []
        elif record.type in (END, ABORT):
            if held is None:
                report(Finding("metadata-record-invalid", record.where, "a transaction ends that has not begun"))
            elif record.type == END:
                yield from held
            held = None
        elif held is None or record.is_control:
            yield record
        else:
            held.append(record)


def topic_of(record: MetadataRecord, names: dict[str, str]) -> str | None:
    """The name of the topic that a record is about; None: of none, or its name is not known.

    names  topics by id so far; a record that creates a topic adds its name
    """
    data = record.data
    if record.type == "TOPIC_RECORD":
        names[data["topicId"]] = data["name"]
    if record.type == "CONFIG_RECORD":
        return str(data["resourceName"]) if data["resourceType"] == _TOPIC else None
    if record.type == "CLEAR_ELR_RECORD":
        return data["topicName"] or None
    return names.get(data.get("topicId", ""))

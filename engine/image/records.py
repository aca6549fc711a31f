"""The records of a metadata log and its snapshots, each with its place.

A checksum covers neither the offset nor the epoch of a batch, so both are checked here: the offsets of a metadata log have no
gap, and its epochs never decrease.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from engine.discovery.names import FileKind, parse_file_name
from engine.findings import Finding, Where
from engine.formats import ControlType
from engine.record.control import MARKERS, ControlRecordInvalid, control_type

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator

    from engine.files import ReadOnlyFiles
    from engine.record.batch import Record

BEGIN, END, ABORT = "BEGIN_TRANSACTION_RECORD", "END_TRANSACTION_RECORD", "ABORT_TRANSACTION_RECORD"


class MetadataRecord(NamedTuple):
    """A record of a metadata log or of a snapshot.

    epoch     of the leader that appended it; in a snapshot that of its last record
    time_ms   ms: of the record in a log
    position  of its batch in the file `path`
    type      of MetadataRecordType, or of ControlType if it is_control
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
    report     called with damage and with records that cannot be decoded
    types      ids of MetadataRecordType: other records are not decoded and not returned; None: all are
    snapshots  complete ones, the oldest first         logs  base offset and path of each segment, in order
    end_offset, last_epoch   after and of the last record that `records` has returned; 0 before
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
        self.end_offset, self.last_epoch, self.is_damaged = 0, 0, False

    def snapshot(self, path: str) -> Iterator[MetadataRecord]:
        """Yield the records of a snapshot, also the control records. Raises UnreadableFile."""
        yield from self._read(path, _Order())

    def records(self, start: int = 0, end: int | None = None) -> Iterator[MetadataRecord]:
        """Yield the records of the log, also control records, with offsets from `start` up to, not including, `end`.

        The reading ends at the first damage, which is reported. Raises UnreadableFile.
        """
        order = _Order()
        for number, (base, path) in enumerate(self.logs):
            following = self.logs[number + 1][0] if number + 1 < len(self.logs) else None
            if following is not None and following <= start:
                continue  # it ends before `start`
            if (fault := order.fault_of_segment(base)) is not None:
                self._end(Finding("metadata-gap", Where(path, 0, base), fault))
                return
            for record in self._read(path, order):
                if end is not None and record.offset >= end:
                    return
                self.end_offset, self.last_epoch = record.offset + 1, record.epoch
                if record.offset >= start:
                    yield record
            if self.is_damaged:
                return

    def _end(self, finding: Finding) -> None:
        self.is_damaged = True
        self._report(finding)

    def _read(self, path: str, order: _Order) -> Iterator[MetadataRecord]:
        from engine.record.batch import read_records  # not imported if there is no metadata log

        with self._files.open(path) as file:
            for record in read_records(file, self._end):
                if not record.batch.is_valid:
                    return
                if (fault := order.fault_of(record)) is not None:
                    code, what = fault
                    self._end(Finding(code, Where(path, record.batch.position, record.offset), what))
                    return
                decoded = self._decoded(path, record)
                if decoded is not None:
                    yield decoded

    def _decoded(self, path: str, record: Record) -> MetadataRecord | None:
        """The record; None: its type is not wanted, or it was reported."""
        batch = record.batch
        place = (record.offset, batch.partition_leader_epoch, record.timestamp, path, batch.position)
        if batch.is_control:
            return _control(place, record, self._report)
        value = record.value
        if self._types is not None and (value is None or len(value) < 2 or value[1] not in self._types):
            return MetadataRecord(*place, "", 0, {})
        from engine.schema.decode import decoder

        decoded = cast("dict[str, Any]", decoder("cluster-metadata").data(record.offset, record.key, value))
        if decoded["value"] is None:
            self._report(Finding("metadata-record-invalid", Where(path, batch.position, record.offset), decoded["problem"]))
            return None
        return MetadataRecord(*place, decoded["value"]["type"], decoded["value"]["version"], decoded["value"]["data"])


def _control(place: tuple[int, int, int, str, int], record: Record, report: Callable[[Finding], None]) -> MetadataRecord | None:
    """A control record; None: it was reported, or is of a type that Kafka 4.3.1 does not know."""
    from engine.schema.decode import SchemaError, control_data

    try:
        kind = control_type(record.key)
        if kind in MARKERS or kind not in ControlType.__members__.values():
            return None
        data = control_data(kind, record.value)
    except (SchemaError, ControlRecordInvalid) as error:
        report(Finding("control-record-invalid", Where(place[3], place[4], record.offset), str(error)))
        return None
    return MetadataRecord(*place, ControlType(kind).name, 0, data, is_control=True)


class _Order:
    """The next offset, and the epoch so far."""

    def __init__(self) -> None:
        self._next: int | None = None
        self._epoch = -1

    def fault_of_segment(self, base: int) -> str | None:
        """Why a segment with this base offset cannot follow; None: it can."""
        if self._next is not None and base != self._next:
            return f"the segment begins at offset {base}, the log before it ends at {self._next}"
        self._next = base
        return None

    def fault_of(self, record: Record) -> tuple[str, str] | None:
        """The code and the reason why a record cannot follow; None: it can."""
        epoch = record.batch.partition_leader_epoch
        if self._next is not None and record.offset != self._next:
            return "metadata-gap", f"offset {record.offset} after {self._next - 1}"
        if epoch < self._epoch:
            return "epoch-order", f"epoch {epoch} after {self._epoch}"
        self._next, self._epoch = record.offset + 1, epoch
        return None


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

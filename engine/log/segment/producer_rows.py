"""The fields of a producer's batch that the producer state needs."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple, Protocol

from engine.findings import Finding, Where
from engine.formats import BatchField, ControlType
from engine.kernels.walk import PRODUCER_FIELDS, Kind, ProducerField
from engine.record.columns import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from engine.record.control import ControlRecordInvalid
    from engine.record.windows import Window


class TxnMarker(NamedTuple):
    """The first record of a control batch: the end of a transaction. Mirrors EndTransactionMarker."""

    control_type: ControlType  # ABORT or COMMIT
    coordinator_epoch: int
    timestamp: int  # of the record, ms


class ProducerRow(NamedTuple):
    """A batch with a producer id.

    Rows are in file order, with one exception. Consecutive data batches of one producer with the same epoch and transactional
    flag may be reduced to the first one, in its place, and the last one, which may come later, but before any other batch
    of that producer and before the end. Applied one by one, the rows give the same snapshots as all batches.
    """

    producer_id: int
    producer_epoch: int
    base_sequence: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    is_transactional: bool
    is_control: bool
    marker: TxnMarker | None  # of a control batch; None if it is empty, or does not end a transaction


class ReportedRows(Table):
    """Rows as kernels return them, see kernels.walk.ProducerField, a limited number at a time."""

    __slots__ = ()

    def __init__(self, capacity: int) -> None:
        super().__init__(PRODUCER_FIELDS, capacity)

    def note_marker(self, row: int, marker: TxnMarker | None) -> None:
        """Set the marker of `row`, a control batch."""
        if marker is not None:
            table = self.table
            table[ProducerField.KIND, row] |= Kind.HAS_MARKER
            table[ProducerField.MARKER, row] = marker.control_type
            table[ProducerField.COORDINATOR_EPOCH, row] = marker.coordinator_epoch
            table[ProducerField.MARKER_TIMESTAMP, row] = marker.timestamp


class RowChunk:
    """At least one row, compact. `fields` has `count` integers for each field of kernels.walk.ProducerField."""

    __slots__ = ("_fields", "count")

    def __init__(self, count: int, fields: array[int]) -> None:
        self.count, self._fields = count, fields

    @classmethod
    def reported(cls, rows: ReportedRows, count: int) -> RowChunk:
        """A copy of the first `count` of `rows`, which will be overwritten."""
        fields = array("q")
        for field in range(PRODUCER_FIELDS):
            fields.frombytes(rows.field(field)[:count].cast("B"))
        return cls(count, fields)

    @classmethod
    def of(cls, rows: Sequence[ProducerRow]) -> RowChunk:
        """`rows` as a chunk."""
        columns = zip(*map(_fields_of, rows), strict=True)
        return cls(len(rows), array("q", (field for column in columns for field in column)))

    @property
    def table(self) -> memoryview:
        """The fields as kernels expect them: table[ProducerField, row]."""
        return memoryview(self._fields).cast("B").cast("q", (PRODUCER_FIELDS, self.count))

    def row(self, column: int) -> ProducerRow:
        """One row."""
        producer_id, producer_epoch, base_sequence, base_offset, last_offset, max_timestamp, kind, *end = (
            self._fields[column :: self.count]
        )
        marker = TxnMarker(ControlType(end[0]), end[1], end[2]) if kind & Kind.HAS_MARKER else None
        transactional, control = bool(kind & Kind.TRANSACTIONAL), bool(kind & Kind.CONTROL)
        return ProducerRow(
            producer_id, producer_epoch, base_sequence, base_offset, last_offset, max_timestamp, transactional, control, marker
        )

    def __iter__(self) -> Iterator[ProducerRow]:
        return map(self.row, range(self.count))


def _fields_of(row: ProducerRow) -> tuple[int, ...]:
    """The fields of a row, by kernels.walk.ProducerField."""
    kind = Kind.TRANSACTIONAL * row.is_transactional | Kind.CONTROL * row.is_control
    marker = (-1, 0, -1) if row.marker is None else row.marker
    return (
        row.producer_id, row.producer_epoch, row.base_sequence, row.base_offset, row.last_offset, row.max_timestamp,
        kind if row.marker is None else kind | Kind.HAS_MARKER, *marker,
    )  # fmt: skip


class CompletedTxn(Protocol):
    """A transaction that has ended."""

    @property
    def producer_id(self) -> int:
        """The producer of the transaction."""

    @property
    def first_offset(self) -> int:
        """First offset of its data."""

    @property
    def last_offset(self) -> int:
        """Offset of its marker."""

    @property
    def is_aborted(self) -> bool:
        """Was it aborted, not committed?"""


class RecoveringProducers(Protocol):
    """The producer state as recovery uses it (ProducerStateManager)."""

    def update_recovered(self, chunks: Iterable[RowChunk], on_aborted: Callable[[memoryview], object]) -> None:
        """Add rows. `on_aborted` is called with entries of the transaction index, as bytes of that file."""

    def update_map_end_offset(self, last_offset: int) -> None:
        """Set the offset up to which the state includes all batches."""


class RecoveringEpochs(Protocol):
    """The epoch cache as recovery uses it (LeaderEpochFileCache)."""

    refuses_doubtful: bool  # do not use epochs of batches that other batches contradict

    @property
    def latest_epoch(self) -> int | None:
        """The newest epoch; None: there is none."""

    def knows_from(self, offset: int) -> bool:
        """Does an epoch begin at or after `offset`?"""

    def assign(self, epoch: int, start_offset: int) -> object:
        """Add `epoch`, which begins at `start_offset`."""


def unreadable_marker(window: Window, row: int, path: str, error: ControlRecordInvalid) -> Finding:
    """The finding about the control batch in column `row` of a window of the log at `path`."""
    table = window.batches.table
    where = Where(path, window.base + table[BatchField.POSITION, row], table[BatchField.BASE_OFFSET, row])
    producer = table[BatchField.PRODUCER_ID, row]
    what = f"{error}: unknown whether producer {producer} committed or aborted here"
    return Finding("control-record-invalid", where, what)

"""The fields of a producer's batch that producer state is made of, without the batch itself."""

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
    timestamp: int  # of that record, ms


class ProducerRow(NamedTuple):
    """A batch with a producer id.

    Rows come in file order, with one freedom: of a run of data batches of one producer with the same epoch and
    transactional flag, the first comes in its place; of the others only the last comes, later, but before any other batch
    of that producer and before the end. Applied one by one, they make the same snapshots as all batches do.
    """

    producer_id: int
    producer_epoch: int
    base_sequence: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    is_transactional: bool
    is_control: bool
    marker: TxnMarker | None  # of a control batch; None where it is empty, or no end of a transaction


class ReportedRows(Table):
    """Rows as kernels report them, see kernels.walk.ProducerField, a number at a time."""

    __slots__ = ()

    def __init__(self, capacity: int) -> None:
        super().__init__(PRODUCER_FIELDS, capacity)

    def note_marker(self, row: int, marker: TxnMarker | None) -> None:
        """Let `row`, a control batch, have this marker."""
        if marker is not None:
            table = self.table
            table[ProducerField.KIND, row] |= Kind.HAS_MARKER
            table[ProducerField.MARKER, row] = marker.control_type
            table[ProducerField.COORDINATOR_EPOCH, row] = marker.coordinator_epoch
            table[ProducerField.MARKER_TIMESTAMP, row] = marker.timestamp


class RowChunk:
    """Some rows, compact; `fields` are runs of `count` integers each, see kernels.walk.ProducerField. There is one at least."""

    __slots__ = ("_fields", "count")

    def __init__(self, count: int, fields: array[int]) -> None:
        self.count, self._fields = count, fields

    @classmethod
    def reported(cls, rows: ReportedRows, count: int) -> RowChunk:
        """The first `count` of `rows`, which are going to be overwritten."""
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
        """The fields as kernels take them: table[ProducerField, row]."""
        return memoryview(self._fields).cast("B").cast("q", (PRODUCER_FIELDS, self.count))

    def row(self, column: int) -> ProducerRow:
        """One of them."""
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
    """A transaction that its marker ended."""

    @property
    def producer_id(self) -> int:
        """Whose it was."""

    @property
    def first_offset(self) -> int:
        """Of its data."""

    @property
    def last_offset(self) -> int:
        """Of its marker."""

    @property
    def is_aborted(self) -> bool:
        """Was it aborted, not committed?"""


class RecoveringProducers(Protocol):
    """What recovery needs of the producer state (ProducerStateManager)."""

    def update_recovered(self, chunks: Iterable[RowChunk], on_aborted: Callable[[memoryview], object]) -> None:
        """Apply rows; `on_aborted` takes entries of the transaction index, in its own bytes."""

    def update_map_end_offset(self, last_offset: int) -> None:
        """The state reaches up to this offset."""


class RecoveringEpochs(Protocol):
    """What recovery needs of the epoch cache (LeaderEpochFileCache)."""

    refuses_doubtful: bool  # no epoch comes from batches that others contradict

    @property
    def latest_epoch(self) -> int | None:
        """The newest epoch, None without one."""

    def knows_from(self, offset: int) -> bool:
        """Does an epoch begin at or after `offset`?"""

    def assign(self, epoch: int, start_offset: int) -> object:
        """Note that `epoch` begins at `start_offset`."""


def unreadable_marker(window: Window, row: int, path: str, error: ControlRecordInvalid) -> Finding:
    """The finding about the control batch in column `row` of a window of the log at `path`."""
    table = window.batches.table
    where = Where(path, window.base + table[BatchField.POSITION, row], table[BatchField.BASE_OFFSET, row])
    producer = table[BatchField.PRODUCER_ID, row]
    what = f"{error}: unknown whether producer {producer} committed or aborted here"
    return Finding("control-record-invalid", where, what)

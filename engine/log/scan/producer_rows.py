"""What a batch of a producer tells its log: the little that producer state is made of, without the batch itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from engine.formats import ControlType


class TxnMarker(NamedTuple):
    """The first record of a control batch: the end of a transaction. Mirrors EndTransactionMarker."""

    control_type: ControlType  # ABORT or COMMIT
    coordinator_epoch: int
    timestamp: int  # of that record, ms


class ProducerRow(NamedTuple):
    """A batch with a producer id.

    Rows come in file order, with one freedom: of a run of data batches of one producer with the same epoch and
    transactional flag, the first comes in its place; of the others only the last five come, later, but before any other
    batch of that producer and before the end. Applied one by one, they make the same state as all batches do.
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

    def update_recovered(self, rows: Iterable[ProducerRow], on_completed: Callable[[CompletedTxn, int], None]) -> None:
        """Apply `rows`; `on_completed` takes each transaction that ended and the last stable offset at that point."""

    def update_map_end_offset(self, last_offset: int) -> None:
        """The state reaches up to this offset."""


class RecoveringEpochs(Protocol):
    """What recovery needs of the epoch cache (LeaderEpochFileCache)."""

    @property
    def latest_epoch(self) -> int | None:
        """The newest epoch, None without one."""

    def assign(self, epoch: int, start_offset: int) -> object:
        """Note that `epoch` begins at `start_offset`."""

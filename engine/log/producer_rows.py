"""What recovery hands to the producer state, and what it needs of it.

Rows come in file order, with one freedom: of a run of data batches of one producer with the same epoch and
transactional flag, the first comes in its place; of the others only the last five come, later, but before any other
batch of that producer and before the end. Applied one by one, they make the same state as all batches do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from engine.log.producer_entry import EndTxnMarker as TxnMarker
from engine.log.producer_entry import ProducerRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["CompletedTxn", "ProducerRow", "RecoveringProducers", "TxnMarker"]


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

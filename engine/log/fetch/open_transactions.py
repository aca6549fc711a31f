"""Transactions that are open at the end of a log: records that readers of committed records do not get, and how they will end.

A starting coordinator completes what was decided before: it commits transactions in state PREPARE_COMMIT, whose producers may
have received the answer already. It aborts all others when their timeout is over. Mirrors
TransactionStateManager.loadTransactionMetadata and TransactionCoordinator.abortTimedOutTransactions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.amounts import count_of
from engine.discovery.names import FileKind, parent_of
from engine.files import is_locked
from engine.findings import Finding, Where
from engine.formats import CONTROL_FLAG, BatchField
from engine.kernels.transactions import next_in_transaction
from engine.log.fetch.coordinator_logs import transaction_states
from engine.log.report import moment
from engine.log.segment.batch_search import first_timestamp
from engine.record.columns import BatchColumns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from engine.discovery.names import PartitionDir
    from engine.files import ReadOnlyFiles
    from engine.log.fetch.view import PartitionView
    from engine.record.windows import Window

_PREPARE_COMMIT = 2  # TransactionState


@dataclass(slots=True)
class OpenTransaction:
    """A transaction without a marker.

    first_offset  of its first batch        since_ms  timestamp of that batch; None: not known
    records       number of its data records
    size          bytes of its batches
    last_offset   of its last batch; last_ms  the largest timestamp of that batch; epoch  of the producer in it
    is_known      a log of __transaction_state has its state
    is_committed  the commit was decided, only the marker is missing
    """

    producer_id: int
    first_offset: int
    since_ms: int | None = None
    records: int = 0
    size: int = 0
    last_offset: int = -1
    last_ms: int = -1
    epoch: int = -1
    is_committed: bool = False
    is_known: bool = False


class HeldBack(NamedTuple):
    """Records that readers of committed records do not get.

    offset    the last stable offset: records from here on are held back
    records   number of data records of all producers from there to the high watermark
    transactions   the open ones, the oldest first
    """

    offset: int
    records: int
    transactions: tuple[OpenTransaction, ...]


def held_back(view: PartitionView) -> HeldBack | None:
    """What open transactions hold back; None: nothing. Raises UnreadableFile, FileChangedWhileReading."""
    end = view.high_watermark
    found = {producer: OpenTransaction(producer, first) for producer, first in view.open_transactions().items() if first < end}
    if not found:
        return None
    start = max(min(one.first_offset for one in found.values()), view.log_start_offset)
    records = 0
    for window in _windows(view, start):
        records += _count(window, end, found)
    for one in found.values():
        one.since_ms = _since(view, one.first_offset)
    return HeldBack(start, records, tuple(sorted(found.values(), key=lambda one: one.first_offset)))


def _windows(view: PartitionView, start: int) -> Iterator[Window]:
    """Yield the headers of the batches from the one that holds `start` on."""
    found, columns = view.locate(start), BatchColumns()
    for segment in view.segments.values(found.segment_base_offset or 0):
        position = found.position if segment.base_offset == found.segment_base_offset else 0
        yield from view.windows(segment, position or 0, columns)


def _count(window: Window, end: int, found: dict[int, OpenTransaction]) -> int:
    """Number of data records in the window below offset `end`; records of open transactions are added to `found`."""
    table, rows = window.batches.table, window.rows
    while rows and table[BatchField.BASE_OFFSET, rows - 1] >= end:
        rows -= 1
    counts: list[int] = window.batches.field(BatchField.COUNT)[:rows].tolist()
    records = sum(max(1, count) for count in counts)
    row = next_in_transaction(table, 0, rows)
    while row < rows:
        attributes, producer = table[BatchField.ATTRIBUTES, row], table[BatchField.PRODUCER_ID, row]
        if attributes & CONTROL_FLAG:
            records -= max(1, counts[row])
        elif producer in found and table[BatchField.VALID, row] and (
            table[BatchField.LAST_OFFSET, row] >= found[producer].first_offset
        ):
            _add(found[producer], table, row, counts[row])
        row = next_in_transaction(table, row + 1, rows)
    return records


def _add(one: OpenTransaction, table: Any, row: int, count: int) -> None:
    """Add a batch to its transaction."""
    one.records += count
    one.size += table[BatchField.SIZE, row]
    one.last_offset, one.last_ms = table[BatchField.LAST_OFFSET, row], table[BatchField.MAX_TIMESTAMP, row]
    one.epoch = table[BatchField.PRODUCER_EPOCH, row]


def _since(view: PartitionView, offset: int) -> int | None:
    segment = view.segments.floor_segment(offset)
    head = None if segment is None else segment.find_offset(offset)
    return None if segment is None or head is None else first_timestamp(segment.log_file, head)


def findings_of_wait(files: ReadOnlyFiles, directory: str, held: HeldBack) -> Iterator[Finding]:
    """Yield findings for a read that ended at open transactions: one for each; the oldest one's names all records.

    Not used beside a running broker, where open transactions are normal.
    """
    if is_locked(f"{parent_of(files.absolute(directory))}/{FileKind.LOCK.value}"):
        return
    for number, one in enumerate(held.transactions):
        own = f"it has {count_of(one.records, 'record')}"
        if not number:
            own = f"{count_of(held.records, 'record')} held back from offset {held.offset} on, {one.records} of them its own"
        yield Finding("open-transaction", Where(directory, None, one.first_offset), f"{_who(one)}; {own}")


def findings_of_ends(directory: str, held: HeldBack) -> Iterator[Finding]:
    """Yield findings for a read that treated open transactions as they will end."""
    for one in held.transactions:
        end = f"its {count_of(one.records, 'record')} skipped, as aborted"
        if not one.is_known:
            end += "; no __transaction_state in the log dirs that were read has its state; a commit may have been decided"
        if one.is_committed:
            end = f"its {count_of(one.records, 'record')} read, because __transaction_state says that it is committed"
        yield Finding("open-transaction-ended", Where(directory, None, one.first_offset), f"{_who(one)}; {end}")


def _who(one: OpenTransaction) -> str:
    since = "" if one.since_ms is None else f" since {moment(one.since_ms)}"
    return f"producer {one.producer_id} has an open transaction{since}"


# ---- how open transactions end


class TransactionStates:
    """The states of transactions in the logs of __transaction_state in `log_dirs`, all of one cluster. Read on first use.

    If there are several copies of a log, the best one is read. report  called with damage in these logs
    """

    def __init__(self, files: ReadOnlyFiles, log_dirs: Iterable[str], report: Callable[[Finding], None]) -> None:
        self._files, self._report = files, report
        self._log_dirs = list(log_dirs)
        self._states: list[dict[str, Any]] | None = None

    def of(self, partition: PartitionDir) -> dict[int, dict[str, Any]]:
        """The states of the partition's transactions, by producer. Raises UnreadableFile, FileChangedWhileReading."""
        if self._states is None:
            self._states = list(self._read().values())
        return {state["producerId"]: state for state in self._states if _concerns(state, partition)}

    def _read(self) -> dict[str, dict[str, Any]]:
        """The latest state of each transactional id."""
        states: dict[str, dict[str, Any]] = {}
        for name, value in transaction_states(self._files, self._log_dirs, self._report):
            states.pop(name, None)
            if value is not None:
                states[name] = value
        return states


def end_as_coordinator(
    view: PartitionView, held: HeldBack, states: TransactionStates
) -> tuple[tuple[int, int], ...]:
    """Let `view` read past open transactions. Returns (producer, first offset) of those whose records it leaves out.

    These are all except those with a decided commit in `states`. Raises UnreadableFile, FileChangedWhileReading.
    """
    known = {} if view.partition is None else states.of(view.partition)
    for one in held.transactions:
        one.is_known = one.producer_id in known
        one.is_committed = one.is_known and known[one.producer_id]["transactionStatus"] == _PREPARE_COMMIT
    left_out = tuple((one.producer_id, one.first_offset) for one in held.transactions if not one.is_committed)
    view.end_transactions(left_out)
    return left_out


def _concerns(state: dict[str, Any], partition: PartitionDir) -> bool:
    return any(one["topic"] == partition.topic and partition.partition in one["partitionIds"]
               for one in state["transactionPartitions"] or ())

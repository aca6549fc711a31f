"""The logs of a coordinator's topic in log dirs: `__consumer_offsets`, `__transaction_state`."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from engine.discovery.names import PartitionKind, is_log_file_name, log_file_name, parse_partition_dir
from engine.findings import Finding, Where
from engine.formats import INT_MIN, to_int
from engine.java.hash_maps import hash_of_text
from engine.log.fetch.replicas import best_first
from engine.record.batch import read_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from engine.files import ReadOnlyFiles
    from engine.record.batch import Record

TRANSACTION_TOPIC = "__transaction_state"
_BUMPED = 2  # transaction.version from which the record of a decision has the next epoch of the producer


def coordinator_logs(files: ReadOnlyFiles, log_dirs: Iterable[str], topic: str) -> dict[int, str]:
    """Return the directories of the topic's logs, by partition; of several copies the best one.

    log_dirs  all of one cluster
    Raises UnreadableFile.
    """
    return {number: directories[0] for number, directories in coordinator_replicas(files, log_dirs, topic).items()}


def coordinator_replicas(files: ReadOnlyFiles, log_dirs: Iterable[str], topic: str) -> dict[int, list[str]]:
    """Return the directories of all copies of the topic's logs, by partition, the best one first. See coordinator_logs."""
    copies: dict[int, list[str]] = {}
    for log_dir in {files.resolve(one): one.rstrip("/") for one in log_dirs}.values():
        for name in files.list(log_dir):
            parsed = parse_partition_dir(name)
            if parsed is not None and parsed.topic == topic and parsed.kind is PartitionKind.PLAIN:
                copies.setdefault(parsed.partition, []).append(f"{log_dir}/{name}")
    return {number: best_first(files, directories) for number, directories in sorted(copies.items())}


def coordinator_partition(key: str, partitions: int) -> int:
    """Return the partition of a coordinator's topic with the records of a group or transactional id.

    Mirrors GroupCoordinatorService.partitionFor and TransactionStateManager.partitionFor.
    """
    hashed = to_int(hash_of_text(key))
    return 0 if hashed == INT_MIN else abs(hashed) % partitions


def coordinator_records(files: ReadOnlyFiles, directory: str, report: Callable[[Finding], None]) -> Iterator[Record]:
    """Yield the records of one of these logs in order, also those of transactions and their markers; none of damaged batches.

    report  called with damage
    Raises UnreadableFile, FileChangedWhileReading.
    """
    bases = sorted(int(name[:20]) for name in files.plain(directory) if is_log_file_name(name))
    for base in bases:
        with files.open(f"{directory}/{log_file_name(base)}") as file:
            for record in read_records(file, report):
                if record.batch.is_valid:
                    yield record


class StateRecord(NamedTuple):
    """A record of __transaction_state. value: a TransactionLogValue; None: the transactional id was removed."""

    log: str
    offset: int
    time_ms: int
    transactional_id: str
    value: dict[str, Any] | None


class TransactionState(IntEnum):
    """Mirrors TransactionState, with its ids and names."""

    Empty = 0
    Ongoing = 1
    PrepareCommit = 2
    PrepareAbort = 3
    CompleteCommit = 4
    CompleteAbort = 5
    Dead = 6
    PrepareEpochFence = 7


class IdState(NamedTuple):
    """The state of a transactional id: the last record of `__transaction_state` about it.

    state       None: a number that Kafka 4.3.1 does not know
    start_ms    of the transaction; −1: none has begun
    partitions  of the transaction that is not complete
    version     of the transaction protocol of the client
    """

    record: StateRecord
    state: TransactionState | None
    producer_id: int
    epoch: int
    timeout_ms: int
    start_ms: int
    updated_ms: int
    partitions: tuple[tuple[str, int], ...]
    version: int

    @property
    def transactional_id(self) -> str:
        """The transactional id."""
        return self.record.transactional_id

    @classmethod
    def of(cls, record: StateRecord, value: dict[str, Any]) -> IdState:
        """Return the state that a record has."""
        number = value["transactionStatus"]
        state = TransactionState(number) if number in TransactionState.__members__.values() else None
        topics = value["transactionPartitions"] or ()
        partitions = tuple(sorted((one["topic"], each) for one in topics for each in one["partitionIds"]))
        return cls(
            record, state, value["producerId"], value["producerEpoch"], value["transactionTimeoutMs"],
            value["transactionStartTimestampMs"], value["transactionLastUpdateTimestampMs"], partitions,
            value.get("clientTransactionVersion", 0),
        )  # fmt: skip

    def decides(self, epoch: int) -> bool:
        """Return whether the record can be about the end of a transaction with this epoch of the producer."""
        return self.epoch == epoch + self.has_own_epoch

    @property
    def has_own_epoch(self) -> bool:
        """Whether each transaction of the producer has an epoch of its own (KIP-890)."""
        return self.version >= _BUMPED


def state_records(files: ReadOnlyFiles, directory: str, report: Callable[[Finding], None]) -> Iterator[StateRecord]:
    """Yield the records of one log of __transaction_state, in order. Parameters and errors as for `coordinator_records`."""
    from engine.schema.decode import decoder

    decode = decoder("transaction-log").data
    for record in coordinator_records(files, directory, report):
        if record.batch.is_control:
            continue
        decoded = cast("dict[str, Any]", decode(record.offset, record.key, record.value))
        problem = decoded["problem"]
        if problem is not None and not str(problem).startswith("unknown record type"):
            what = f"the record of the transaction coordinator is skipped: {problem}"
            report(Finding("record-undecodable", Where(directory, None, record.offset), what))
        elif decoded["key"] is not None:
            value = decoded["value"]
            yield StateRecord(directory, record.offset, record.timestamp, decoded["key"]["data"]["transactionalId"],
                              None if value is None else value["data"])  # fmt: skip


def transaction_states(
    files: ReadOnlyFiles, log_dirs: Iterable[str], report: Callable[[Finding], None]
) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Yield (transactional id, TransactionLogValue) of each record of __transaction_state, in order; None: it was removed.

    Parameters and errors as for the functions above.
    """
    for directory in coordinator_logs(files, log_dirs, TRANSACTION_TOPIC).values():
        for record in state_records(files, directory, report):
            yield record.transactional_id, record.value


class TransactionalIds:
    """The transactional ids of producers, from the logs of __transaction_state in log dirs of one cluster. Read on first use.

    report  called with damage in these logs
    """

    def __init__(self, files: ReadOnlyFiles, log_dirs: Iterable[str], report: Callable[[Finding], None]) -> None:
        self._files, self._log_dirs, self._report = files, list(log_dirs), report
        self._names: dict[int, str] | None = None

    def of(self, producer_id: int) -> str | None:
        """Return the transactional id that last had this producer id; None: none is known. Raises UnreadableFile."""
        if self._names is None:
            states = transaction_states(self._files, self._log_dirs, self._report)
            self._names = {value["producerId"]: name for name, value in states if value is not None}
        return self._names.get(producer_id)

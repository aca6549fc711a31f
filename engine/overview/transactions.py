"""Transactions: what the coordinators have, what is open in the partitions, and why an open one does not end.

Two sources are joined: the states in the logs of `__transaction_state`, and the open transactions in the partitions. A log of
`__transaction_state` that is not on these disks, is damaged or has lost records leaves its transactions unknown. So does damage
in a partition from the first open transaction or the last producer snapshot on.
"""

from __future__ import annotations

from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import part_of, time_text
from engine.discovery.names import METADATA_TOPIC, PartitionKind
from engine.errors import KafkalogError
from engine.findings import Finding, Severity, Where
from engine.formats import NO_PRODUCER_ID
from engine.log.fetch.coordinator_logs import TRANSACTION_TOPIC, IdState, TransactionState, coordinator_replicas, state_records
from engine.log.fetch.open_transactions import held_back
from engine.log.fetch.replicas import best_first
from engine.log.fetch.view import PartitionView
from engine.log.finding_limits import MAX_FINDINGS
from engine.overview.log_losses import of_compacted, proven_losses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from engine.files import ReadOnlyFiles
    from engine.log.fetch.coordinator_logs import StateRecord
    from engine.log.fetch.open_transactions import HeldBack, OpenTransaction
    from engine.log.logdir.cluster_metadata import ClusterMetadata
    from engine.log.logdir.log_dirs import LogDir

TopicPartition = tuple[str, int]  # topic, partition
_COMMITS = (TransactionState.PrepareCommit, TransactionState.CompleteCommit)
_ABORTS = (TransactionState.PrepareAbort, TransactionState.CompleteAbort)


class Verdict(Enum):
    """Why a transaction is open."""

    ONGOING = "ongoing"  # its coordinator has it, and aborts it after the timeout
    PREPARED = "prepared"  # its end is decided: the coordinator writes the marker
    HANGING = "hanging"  # no coordinator will end it
    HANGING_COMMITTED = "hanging-committed"  # the same, and the coordinator confirmed to the producer that it is committed
    HANGING_ABORTED = "hanging-aborted"  # the same, and the coordinator confirmed to the producer that it is aborted
    UNKNOWN = "unknown"


HANGING = (Verdict.HANGING, Verdict.HANGING_COMMITTED, Verdict.HANGING_ABORTED)


class Coordinators:
    """The states in the logs of `__transaction_state` in `log_dirs`, all of one cluster.

    logs        by partition; of several replicas the best one
    partitions  of the topic; None: not known, because the metadata log is not here
    damage      by partition: the first finding about a log that is damaged or lost records
    Raises UnreadableFile, FileChangedWhileReading.
    """

    def __init__(
        self, files: ReadOnlyFiles, log_dirs: Iterable[str], metadata: ClusterMetadata | None, report: Callable[[Finding], None]
    ) -> None:
        self._files, self._report = files, report
        self._reported: set[Finding] = set()
        replicas = coordinator_replicas(files, log_dirs, TRANSACTION_TOPIC)
        self.logs = {number: directories[0] for number, directories in replicas.items()}
        topic = None if metadata is None else metadata.named.get(TRANSACTION_TOPIC)
        self.partitions = None if metadata is None else 0 if topic is None else len(topic.replicas)
        self.damage: dict[int, Finding] = {}
        for number, directories in replicas.items():
            for finding in proven_losses(files, directories, of_compacted):
                self._note(number, finding)
        self.ids: dict[str, IdState] = {}
        # the last decision about a producer's transaction in a partition
        self._decided: dict[tuple[int, TopicPartition], IdState] = {}
        for record in self.records():
            self.ids.pop(record.transactional_id, None)
            if record.value is not None:
                state = self.ids[record.transactional_id] = IdState.of(record, record.value)
                if state.state in (TransactionState.PrepareCommit, TransactionState.PrepareAbort):
                    self._decided.update({(state.producer_id, partition): state for partition in state.partitions})
        self._by_producer = {one.producer_id: one for one in self.ids.values()}
        for one in self.ids.values():  # while the epochs of a producer run out, markers have its previous id
            self._by_producer.setdefault((one.record.value or {}).get("previousProducerId", NO_PRODUCER_ID), one)

    def records(self) -> Iterator[StateRecord]:
        """Yield all records, those of one transactional id in order."""
        for number, directory in self.logs.items():
            yield from state_records(self._files, directory, partial(self._note, number))

    def _note(self, number: int, finding: Finding) -> None:
        """Report damage in the log of a partition, each once: the records may be read again."""
        if finding.severity is not Severity.INFO:
            self.damage.setdefault(number, finding)
        if finding not in self._reported:
            self._report(finding)
            if len(self._reported) < MAX_FINDINGS:
                self._reported.add(finding)

    @property
    def are_complete(self) -> bool:
        """Return whether all logs of the topic are here."""
        return self.partitions is not None and set(range(self.partitions)) <= self.logs.keys()

    def id_of(self, producer_id: int) -> IdState | None:
        """Return the state of the transactional id that has this producer id."""
        return self._by_producer.get(producer_id)

    def _damaged(self, number: int) -> str:
        return f"{TRANSACTION_TOPIC}-{number} is damaged or has lost records ({self.damage[number].code})"

    def judge(self, found: OpenIn, before: int) -> tuple[Verdict, str]:
        """Return why a transaction is open, and a sentence.

        before  ms: as for Kafka, only one whose last batch is older can be hanging (TransactionsCommand)
        """
        one = found.transaction
        verdict, why = self._judge(one, (found.topic, found.partition))
        if found.damage is not None:
            return Verdict.UNKNOWN, f"the log is damaged or has lost records ({found.damage.code}): a marker may be missing"
        if verdict in HANGING and one.last_ms >= before:
            return Verdict.UNKNOWN, f"its last batch is of {time_text(one.last_ms)}; from then on {why}"
        return verdict, why

    def _judge(self, one: OpenTransaction, partition: TopicPartition) -> tuple[Verdict, str]:
        state = self._by_producer.get(one.producer_id)
        if state is None:
            if not self.are_complete:
                logs = part_of(len(self.logs), self.partitions, "log")
                return Verdict.UNKNOWN, f"of {TRANSACTION_TOPIC} there are {logs} here: none has its producer"
            if self.damage:
                return Verdict.UNKNOWN, f"{self._damaged(next(iter(self.damage)))}, and its transactional id may be there"
            return Verdict.HANGING, "no transactional id has its producer"
        for number in self.damage:
            if self.logs[number] == state.record.log:
                return Verdict.UNKNOWN, f"{self._damaged(number)}, and a later state of {state.transactional_id} may be there"
        name, shown = state.transactional_id, "an unknown state" if state.state is None else state.state.name
        if partition in state.partitions:
            if state.state is TransactionState.Ongoing:
                ends = time_text(state.start_ms + state.timeout_ms)
                return Verdict.ONGOING, f"{name}: Ongoing: its coordinator aborts it after {ends}"
            if state.state in (TransactionState.PrepareCommit, TransactionState.PrepareAbort):
                return Verdict.PREPARED, f"{name}: {shown}: its coordinator writes the marker when both are running"
            return Verdict.UNKNOWN, f"{name}: {shown}"
        decided = self._decided.get((one.producer_id, partition), state)
        if decided.decides(one.epoch) and decided.state in (*_COMMITS, *_ABORTS):
            verdict = Verdict.HANGING_COMMITTED if decided.state in _COMMITS else Verdict.HANGING_ABORTED
            end = "committed" if decided.state in _COMMITS else "aborted"
            what = "it" if decided.has_own_epoch else "its last transaction with this epoch"
            said = f"the coordinator confirmed to the producer that {what} is {end}"
            return verdict, f"{name}: {shown}: {said}; the marker is missing here"
        return Verdict.HANGING, f"{name}: {shown}: it does not list the partition"


class OpenIn(NamedTuple):
    """An open transaction in a partition.

    stable   the last stable offset; held: records from there on, of all producers
    damage   a finding about the part of the log that decides whether it is open; None: it is sound
    """

    path: str
    topic: str
    partition: int
    transaction: OpenTransaction
    stable: int
    held: int
    damage: Finding | None

    def unjudged(self, why: str) -> Finding:
        """Return the finding that it is not known whether the transaction hangs."""
        return Finding("open-transaction-unjudged", Where(self.path, None, self.transaction.first_offset), why)


def open_transactions(
    files: ReadOnlyFiles, log_dirs: Iterable[LogDir], report: Callable[[Finding], None], fail: Callable[[KafkalogError], None]
) -> Iterator[OpenIn]:
    """Yield the open transactions in the partitions of `log_dirs`; of several replicas of one the best is read.

    report, fail  called with damage, and with the error of a partition that cannot be read
    """
    copies: dict[TopicPartition, list[str]] = {}
    for partition in (partition for log_dir in log_dirs for partition in log_dir.partitions(PartitionKind.PLAIN)):
        if partition.name.topic != METADATA_TOPIC:
            copies.setdefault(partition.key, []).append(partition.path)
    for (topic, number), paths in sorted(copies.items()):
        try:
            replicas = best_first(files, paths)
            held, damage = _held_back(files, replicas, report)
        except KafkalogError as error:
            fail(error)
            continue
        if held is not None:
            yield from (OpenIn(replicas[0], topic, number, one, held.offset, held.records, damage) for one in held.transactions)


def _held_back(
    files: ReadOnlyFiles, replicas: list[str], report: Callable[[Finding], None]
) -> tuple[HeldBack | None, Finding | None]:
    """Return what is held back in the first replica, and damage in the part of the log that says so, or a loss at its end."""
    losses = list(proven_losses(files, replicas, None))
    view = PartitionView(files, replicas[0], report)
    view.checks_producers = True
    try:
        held = held_back(view)
        for finding in losses:
            report(finding)
        return held, view.damage or next(iter(losses), None)
    finally:
        view.close()

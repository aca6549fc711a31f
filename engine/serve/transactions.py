"""Producer ids and transactions of one node, in memory: idempotent and transactional producers, transaction.version 1 and 2.

Mirrors TransactionCoordinator of a cluster with one broker, without its log: open transactions stay open when the server ends,
as after the death of a broker. Offsets in transactions are kept by the group coordinator.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol

from engine.errors import KafkalogError
from engine.files import now_ms
from engine.formats import ControlType
from engine.java.hash_maps import hash_of_text
from engine.log.append.intake import end_transaction
from engine.log.fetch.coordinator_logs import TransactionState
from engine.log.fetch.stored_groups import OFFSETS_TOPIC
from engine.protocol.error_codes import Error
from engine.record.assembly import BatchSpec
from engine.serve.transaction_states import TransactionalId

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.serve.catalogue import Partition
    from engine.serve.group_common import Body, Client

FIRST_WITH_OWN_EPOCH = 5  # version of EndTxn from which on each transaction has an epoch of its own (KIP-890)
_FIRST_FENCED = 2  # version of AddPartitionsToTxn, AddOffsetsToTxn, EndTxn whose clients know PRODUCER_FENCED
_FIRST_FENCED_INIT = 4  # the same of InitProducerId
_FIRST_WITHOUT_ADD_OFFSETS = 5  # version of TxnOffsetCommit that adds its group to the transaction (KIP-890)
_LAST_EPOCH = 2**15 - 1
_MOST_IDS = 1000  # transactional ids in memory
_OFFSETS_PARTITIONS = 50  # of __consumer_offsets: offsets.topic.num.partitions


class TransactionalOffsets(Protocol):
    """The group coordinator, which keeps offsets until their transaction ends."""

    def txn_offset_commit(self, body: Body, client: Client) -> Body:
        """Answer TxnOffsetCommit of a producer whose transaction is open."""

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        """Commit or forget the offsets of a producer's transaction."""


def offsets_partition(group_id: str) -> int:
    """Return the partition of `__consumer_offsets` that a group has (GroupMetadataManager.partitionFor)."""
    return (hash_of_text(group_id) & 0x7FFFFFFF) % _OFFSETS_PARTITIONS


@dataclass
class _Transaction:
    """The producer of a transactional id.

    partitions, offsets  of its open transaction: of topics, of `__consumer_offsets`; both empty: none is open
    ended                how the last one ended: id and epoch of the producer that ended it, is it committed; None: none did
    timeout_ms           that the producer asked for; it is only shown
    start_ms             of the transaction; −1: none has begun
    """

    producer_id: int
    epoch: int = 0
    partitions: set[Partition] = field(default_factory=set)
    offsets: set[int] = field(default_factory=set)
    ended: tuple[int, int, bool] | None = None
    state: TransactionState = TransactionState.Empty
    timeout_ms: int = 0
    start_ms: int = -1

    def begin(self) -> None:
        """Begin a transaction, if none is open."""
        if self.state is not TransactionState.Ongoing:
            self.state, self.start_ms = TransactionState.Ongoing, now_ms()


class Transactions:
    """The producers of one node. May be used by several threads.

    next_id  returns a producer id that no log has
    find     returns the partition of a topic, or an error
    offsets  the group coordinator; set before the first request
    """

    offsets: TransactionalOffsets

    def __init__(self, next_id: Callable[[], int], find: Callable[[str, int], Partition | Error]) -> None:
        self._next_id, self._find = next_id, find
        self._known: dict[str, _Transaction] = {}
        self._lock = RLock()

    def init_producer_id(self, version: int, body: dict[str, Any]) -> dict[str, Any]:
        """Answer InitProducerId: a new id, or the next epoch of a transactional id, whose open transaction is aborted."""
        name = body["transactionalId"]
        with self._lock:
            if name is None:
                return _producer(self._next_id(), 0)
            if not name:
                return _producer(-1, -1, Error.INVALID_REQUEST)
            known = self._known.get(name)
            if known is None:
                if len(self._known) >= _MOST_IDS:
                    return _producer(-1, -1, Error.COORDINATOR_NOT_AVAILABLE)
                known = self._known[name] = _Transaction(self._next_id(), timeout_ms=body["transactionTimeoutMs"])
                return _producer(known.producer_id, 0)
            own = body.get("producerId", -1), body.get("producerEpoch", -1)
            if own[0] != -1 and own != (known.producer_id, known.epoch):
                is_known = version >= _FIRST_FENCED_INIT
                return _producer(-1, -1, Error.PRODUCER_FENCED if is_known else Error.INVALID_PRODUCER_EPOCH)
            known.epoch = min(known.epoch + 1, _LAST_EPOCH)  # the marker fences the producer of the earlier epoch
            error = self._end(known, ControlType.ABORT)
            if error is not Error.NONE:
                return _producer(-1, -1, error)
            known.state, known.start_ms, known.timeout_ms = TransactionState.Empty, -1, body["transactionTimeoutMs"]
            return _producer(known.producer_id, known.epoch)

    def check(self, name: str, producer_id: int, epoch: int) -> Error:
        """Return NONE if the producer is that of the transactional id."""
        with self._lock:
            known = self._known.get(name)
            if known is None or known.producer_id != producer_id:
                return Error.INVALID_PRODUCER_ID_MAPPING
            return Error.NONE if known.epoch == epoch else Error.INVALID_PRODUCER_EPOCH

    def add(self, name: str, partition: Partition) -> None:
        """Add a partition to the open transaction, as Produce does from version 12 on."""
        with self._lock:
            self._known[name].begin()
            self._known[name].partitions.add(partition)

    def has(self, name: str, partition: Partition) -> bool:
        """Return whether the partition is part of the open transaction."""
        with self._lock:
            known = self._known.get(name)
            return known is not None and partition in known.partitions

    def states(self) -> dict[str, TransactionalId]:
        """Return the transactional ids by name."""
        with self._lock:
            return {name: _shown(one) for name, one in self._known.items()}

    def _check(self, version: int, name: str, producer_id: int, epoch: int) -> Error:
        """As `check`, for a request to the coordinator."""
        error = self.check(name, producer_id, epoch)
        is_fenced = error is Error.INVALID_PRODUCER_EPOCH and version >= _FIRST_FENCED
        return Error.PRODUCER_FENCED if is_fenced else error

    def add_partitions(self, version: int, body: dict[str, Any]) -> dict[str, Any]:
        """Answer AddPartitionsToTxn of a client (up to version 3)."""
        name = body["v3AndBelowTransactionalId"]
        error = self._check(version, name, body["v3AndBelowProducerId"], body["v3AndBelowProducerEpoch"])
        results = []
        for topic in body["v3AndBelowTopics"]:
            parts = [{"partitionIndex": index, "partitionErrorCode": int(self._added(error, name, topic["name"], index))}
                     for index in topic["partitions"]]  # fmt: skip
            results.append({"name": topic["name"], "resultsByPartition": parts})
        return {"throttleTimeMs": 0, "resultsByTopicV3AndBelow": results}

    def _added(self, error: Error, name: str, topic: str, index: int) -> Error:
        if error is not Error.NONE:
            return error
        partition = self._find(topic, index)
        if isinstance(partition, Error):
            return partition
        self.add(name, partition)
        return Error.NONE

    def add_offsets(self, version: int, body: dict[str, Any]) -> dict[str, Any]:
        """Answer AddOffsetsToTxn."""
        name = body["transactionalId"]
        with self._lock:
            error = self._check(version, name, body["producerId"], body["producerEpoch"])
            if error is Error.NONE:
                self._known[name].begin()
                self._known[name].offsets.add(offsets_partition(body["groupId"]))
        return {"throttleTimeMs": 0, "errorCode": int(error)}

    def commit_offsets(self, body: Body, client: Client) -> Body:
        """Answer TxnOffsetCommit: the offsets count when the transaction is committed."""
        name, partition = body["transactionalId"], offsets_partition(body["groupId"])
        with self._lock:
            error = self.check(name, body["producerId"], body["producerEpoch"])
            if error is Error.NONE:
                added = self._known[name].offsets
                if client.version >= _FIRST_WITHOUT_ADD_OFFSETS:
                    self._known[name].begin()
                    added.add(partition)
                if partition in added:
                    return self.offsets.txn_offset_commit(body, client)
                error = Error.INVALID_TXN_STATE
        topics = [{"name": topic["name"], "partitions": [
            {"partitionIndex": one["partitionIndex"], "errorCode": int(error)} for one in topic["partitions"]]}
            for topic in body["topics"]]  # fmt: skip
        return {"throttleTimeMs": 0, "topics": topics}

    def end_txn(self, version: int, body: dict[str, Any]) -> dict[str, Any]:
        """Answer EndTxn: write the markers into all partitions of the transaction. A repeated request succeeds again."""
        name, is_committed = body["transactionalId"], body["committed"]
        asked = body["producerId"], body["producerEpoch"], is_committed
        has_own_epoch = version >= FIRST_WITH_OWN_EPOCH
        with self._lock:
            known = self._known.get(name)
            error = self._check(version, name, body["producerId"], body["producerEpoch"])
            if known is not None and error is not Error.NONE and known.ended == asked:
                error = Error.NONE
            elif known is not None and error is Error.NONE:
                error = self._end_open(known, is_committed=is_committed, has_own_epoch=has_own_epoch)
            answer: dict[str, Any] = {"throttleTimeMs": 0, "errorCode": int(error)}
            if has_own_epoch and known is not None and error is Error.NONE:
                answer |= {"producerId": known.producer_id, "producerEpoch": known.epoch}
            return answer

    def _end_open(self, one: _Transaction, *, is_committed: bool, has_own_epoch: bool) -> Error:
        asked = one.producer_id, one.epoch, is_committed
        if not (one.partitions or one.offsets) and not (has_own_epoch and not is_committed):
            return Error.NONE if one.ended == asked else Error.INVALID_TXN_STATE
        one.epoch += has_own_epoch
        error = self._end(one, ControlType.COMMIT if is_committed else ControlType.ABORT)
        if error is Error.NONE:
            one.ended = asked
            one.state = TransactionState.CompleteCommit if is_committed else TransactionState.CompleteAbort
        else:
            one.epoch -= has_own_epoch  # the client repeats its request, which writes the markers that are missing
        return error

    def _end(self, one: _Transaction, kind: ControlType) -> Error:
        """Write the markers of an open transaction. A partition whose marker cannot be written stays part of it.

        The last epoch of a producer id is in markers only: the transactional id then gets another producer id.
        """
        spec = BatchSpec(transactional=True, producer_id=one.producer_id, producer_epoch=one.epoch, base_sequence=-1)
        for partition in list(one.partitions):
            try:
                with partition.open_log() as log:
                    log.now = now_ms()
                    epoch = log.leader_epoch_cache.latest_epoch or 0
                    end_transaction(log, kind, spec, coordinator_epoch=0, leader_epoch=epoch)
            except KafkalogError as error:
                partition.note(error)
                return Error.KAFKA_STORAGE_ERROR
            one.partitions.discard(partition)
        self.offsets.end_transaction(one.producer_id, is_committed=kind is ControlType.COMMIT)
        one.offsets.clear()
        if one.epoch == _LAST_EPOCH:
            one.producer_id, one.epoch = self._next_id(), 0
        return Error.NONE


def _shown(one: _Transaction) -> TransactionalId:
    partitions = {(each.topic, each.index) for each in one.partitions} | {(OFFSETS_TOPIC, number) for number in one.offsets}
    return TransactionalId(one.state, one.producer_id, one.epoch, one.timeout_ms, one.start_ms, tuple(sorted(partitions)))


def _producer(producer_id: int, epoch: int, error: Error = Error.NONE) -> dict[str, Any]:
    return {"throttleTimeMs": 0, "errorCode": int(error), "producerId": producer_id, "producerEpoch": epoch}

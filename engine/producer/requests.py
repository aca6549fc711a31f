"""The requests that a producer sends: drained batches as Produce, and those of idempotence and transactions.

Mirrors ProduceRequest, InitProducerIdRequest, AddPartitionsToTxnRequest, FindCoordinatorRequest, EndTxnRequest and their
builders.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.formats import INT_MAX
from engine.java.hash_maps import hash_of_text, hash_order
from engine.producer.cluster import hash_of_partition
from engine.protocol.frames import RequestHeader, encode_request
from engine.protocol.messages import Api

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence, Sized

    from engine.producer.batch import ProducerBatch, ProducerIdAndEpoch
    from engine.producer.cluster import Cluster, TopicPartition
    from engine.producer.config import ProducerConfig

_NEWEST = {Api.PRODUCE: 13, Api.FIND_COORDINATOR: 6, Api.INIT_PRODUCER_ID: 5, Api.ADD_PARTITIONS_TO_TXN: 3, Api.END_TXN: 5}
_NEWEST_V1 = {Api.PRODUCE: 11, Api.END_TXN: 4}  # with transactions of version 1
_TRANSACTION = 1  # FindCoordinatorRequest.CoordinatorType


class Request(NamedTuple):
    """A request to a node.

    newest     the newest version that the producer may use; the node may know only older ones
    body       values as in engine.protocol
    batches    those of a Produce request
    is_silent  no response comes (acks=0)
    """

    api_key: Api
    newest: int
    body: dict[str, Any]
    node: int = -1
    batches: Sequence[ProducerBatch] = ()
    is_silent: bool = False

    def pieces(self, version: int, correlation_id: int, client_id: str) -> list[Sized]:
        """Return the bytes of the request in pieces, their size first; batches are not copied. Raises SchemaError."""
        return encode_request(RequestHeader(self.api_key, version, correlation_id, client_id), self.body)


def produce(config: ProducerConfig, cluster: Cluster, node: int, batches: Sequence[ProducerBatch], *, with_v1: bool) -> Request:
    """Return the Produce request with one batch for each partition.

    with_v1  the producer has a transactional id, and the brokers have transactions of version 1
    """
    topics: dict[str, dict[str, Any]] = {}
    for batch in batches:
        name, partition = batch.partition
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = {"name": name, "topicId": uuid_of(cluster.topics[name].id), "partitionData": []}
        topic["partitionData"].append({"index": partition, "records": batch.encoded})
    body = {
        "transactionalId": config.transactional_id, "acks": config.acks, "timeoutMs": config.request_timeout_ms,
        "topicData": list(topics.values()),
    }  # fmt: skip
    newest = _NEWEST_V1[Api.PRODUCE] if with_v1 else _NEWEST[Api.PRODUCE]
    return Request(Api.PRODUCE, newest, body, node, batches, is_silent=config.acks == 0)


def init_producer_id(transactional_id: str | None, timeout_ms: int, producer: ProducerIdAndEpoch) -> Request:
    """Return the request for a producer id, or for a new epoch of `producer`."""
    body = {
        "transactionalId": transactional_id, "transactionTimeoutMs": INT_MAX if transactional_id is None else timeout_ms,
        "producerId": producer.producer_id, "producerEpoch": producer.epoch,
    }  # fmt: skip
    return Request(Api.INIT_PRODUCER_ID, _NEWEST[Api.INIT_PRODUCER_ID], body)


def find_coordinator(transactional_id: str) -> Request:
    """Return the request for the coordinator of a transactional id."""
    body = {"keyType": _TRANSACTION, "coordinatorKeys": [transactional_id]}
    return Request(Api.FIND_COORDINATOR, _NEWEST[Api.FIND_COORDINATOR], body)


def add_partitions_to_txn(transactional_id: str, producer: ProducerIdAndEpoch, partitions: Iterable[TopicPartition]) -> Request:
    """Return the request that adds partitions to a transaction, in the order of Java's HashSet and HashMap."""
    topics: dict[str, list[int]] = {}
    for one in hash_order(partitions, hash_of_partition):
        topics.setdefault(one.topic, []).append(one.partition)
    names = hash_order(reversed(topics), hash_of_text)  # HashMap.compute puts a new key before the others of its bucket
    body = {
        "v3AndBelowTransactionalId": transactional_id, "v3AndBelowProducerId": producer.producer_id,
        "v3AndBelowProducerEpoch": producer.epoch,
        "v3AndBelowTopics": [{"name": name, "partitions": topics[name]} for name in names],
    }  # fmt: skip
    return Request(Api.ADD_PARTITIONS_TO_TXN, _NEWEST[Api.ADD_PARTITIONS_TO_TXN], body)


def end_txn(transactional_id: str, producer: ProducerIdAndEpoch, *, commit: bool, with_v2: bool) -> Request:
    """Return the request that ends a transaction. `with_v2`: the brokers have transactions of version 2."""
    body = {
        "transactionalId": transactional_id, "producerId": producer.producer_id, "producerEpoch": producer.epoch,
        "committed": commit,
    }  # fmt: skip
    return Request(Api.END_TXN, _NEWEST[Api.END_TXN] if with_v2 else _NEWEST_V1[Api.END_TXN], body)


def uuid_of(topic_id: bytes) -> str:
    """Return a topic id as text, as Kafka prints it."""
    return urlsafe_b64encode(topic_id).decode().rstrip("=")

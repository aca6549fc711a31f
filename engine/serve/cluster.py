"""Answers about the cluster that the log dirs make: brokers, topics, coordinators, log dirs. Mirrors KafkaApis.

One broker has everything: the node of the log dirs, at the address to which the client connected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from engine.discovery.names import FileKind, is_topic_name, parse_file_name
from engine.errors import KafkalogError
from engine.protocol.error_codes import Error
from engine.protocol.layout import ZERO_ID
from engine.serve.group_common import UNKNOWN_OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.files import ReadOnlyFiles
    from engine.serve.catalogue import Catalogue, Partition, Topic

_FIRST_BY_ID = 12  # version of Metadata that finds topics by their ids
_TOPIC_OPERATIONS, _CLUSTER_OPERATIONS = 3576, 7936  # all, as a broker without an authorizer answers
_GROUP, _TRANSACTION = 0, 1  # FindCoordinatorRequest.CoordinatorType
_NO_COORDINATOR = "share groups are not served"


class Address(NamedTuple):
    """Where a client reaches the server."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return HOST:PORT, with an IPv6 address in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ClusterAnswers:
    """Answers of the node `node_id`. They raise nothing: a partition that cannot be read is answered with an error code."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        known = catalogue.cluster.node_id
        self.node_id = 1 if known is None else known
        self._cluster_id = catalogue.cluster.cluster_id

    def _broker(self, address: Address) -> dict[str, Any]:
        return {"nodeId": self.node_id, "host": address.host, "port": address.port, "rack": None}

    def metadata(self, version: int, body: dict[str, Any], address: Address) -> dict[str, Any]:
        """Answer Metadata: topics None asks for all, an empty list for none (in version 0 for all)."""
        operations = _TOPIC_OPERATIONS if body.get("includeTopicAuthorizedOperations") else UNKNOWN_OPERATIONS
        cluster = _CLUSTER_OPERATIONS if body.get("includeClusterAuthorizedOperations") else UNKNOWN_OPERATIONS
        return {
            "throttleTimeMs": 0, "brokers": [self._broker(address)], "clusterId": self._cluster_id,
            "controllerId": self.node_id,
            "topics": [one | {"topicAuthorizedOperations": operations} for one in self._topics(version, body["topics"])],
            "clusterAuthorizedOperations": cluster, "errorCode": 0,
        }  # fmt: skip

    def _topics(self, version: int, asked: Sequence[dict[str, Any]] | None) -> Iterator[dict[str, Any]]:
        if asked is None or (not asked and version == 0):
            yield from map(self._topic, self._catalogue.topics.values())
            return
        if version < _FIRST_BY_ID and any(one["name"] is None or one.get("topicId", ZERO_ID) != ZERO_ID for one in asked):
            yield from (_no_topic(one["name"] or "", one["topicId"], Error.INVALID_REQUEST) for one in asked)
            return
        for name, topic_id in dict.fromkeys((one.get("name"), one.get("topicId", ZERO_ID)) for one in asked):
            topic = self._catalogue.by_id(topic_id) if name is None else self._catalogue.topics.get(name)
            if topic is not None:
                yield self._topic(topic)
            else:
                error = Error.UNKNOWN_TOPIC_ID if name is None else unknown_topic(name)
                yield _no_topic(name, topic_id, error)

    def _topic(self, topic: Topic) -> dict[str, Any]:
        partitions = [self._partition(one) for one in topic.partitions.values()]
        return {
            "errorCode": 0, "name": topic.name, "topicId": topic.id, "isInternal": topic.is_internal, "partitions": partitions,
        }  # fmt: skip

    def _partition(self, partition: Partition) -> dict[str, Any]:
        error, epoch = Error.NONE, -1
        try:
            epoch = partition.leader_epoch
        except KafkalogError as failure:
            partition.note(failure)
            error = Error.KAFKA_STORAGE_ERROR
        return {
            "errorCode": int(error), "partitionIndex": partition.index, "leaderId": self.node_id, "leaderEpoch": epoch,
            "replicaNodes": [self.node_id], "isrNodes": [self.node_id], "offlineReplicas": [],
        }  # fmt: skip

    def describe_topic_partitions(self, body: dict[str, Any]) -> dict[str, Any]:
        """Answer DescribeTopicPartitions; all topics if none is named, as many partitions as the client wants."""
        topics: list[dict[str, Any]] = []
        left, cursor = max(1, body["responsePartitionLimit"]), body.get("cursor")
        names = sorted({one["name"] for one in body["topics"]} or self._catalogue.topics)
        first = ("", 0) if cursor is None else (cursor["topicName"], cursor["partitionIndex"])
        for name in (name for name in names if name >= first[0]):
            topic = self._catalogue.topics.get(name)
            if topic is None:
                topics.append(_described(name, ZERO_ID, [], unknown_topic(name)))
                continue
            wanted = [one for one in topic.partitions.values() if name > first[0] or one.index >= first[1]]
            shown = [self._partition(one) | {"eligibleLeaderReplicas": [], "lastKnownElr": []} for one in wanted[:left]]
            topics.append(_described(name, topic.id, shown, Error.NONE, is_internal=topic.is_internal))
            if len(wanted) > left:
                following = {"topicName": name, "partitionIndex": wanted[left].index}
                return {"throttleTimeMs": 0, "topics": topics, "nextCursor": following}
            left -= len(shown)
            if not left:
                break
        return {"throttleTimeMs": 0, "topics": topics, "nextCursor": None}

    def describe_cluster(self, body: dict[str, Any], address: Address) -> dict[str, Any]:
        """Answer DescribeCluster."""
        operations = _CLUSTER_OPERATIONS if body.get("includeClusterAuthorizedOperations") else UNKNOWN_OPERATIONS
        broker = {"brokerId": self.node_id, "host": address.host, "port": address.port, "rack": None, "isFenced": False}
        return {
            "throttleTimeMs": 0, "errorCode": 0, "errorMessage": None, "endpointType": body.get("endpointType", 1),
            "clusterId": self._cluster_id or "", "controllerId": self.node_id, "brokers": [broker],
            "clusterAuthorizedOperations": operations,
        }  # fmt: skip

    def find_coordinator(self, version: int, body: dict[str, Any], address: Address) -> dict[str, Any]:
        """Answer FindCoordinator: this node coordinates every group and transactional id, and no share group."""
        is_here = body.get("keyType", 0) in (_GROUP, _TRANSACTION)
        found = {"nodeId": self.node_id, "host": address.host, "port": address.port, "errorCode": 0}
        none = {"nodeId": -1, "host": "", "port": -1, "errorCode": int(Error.COORDINATOR_NOT_AVAILABLE)}
        answer = {**(found if is_here else none)}
        if version < 4:
            return {"throttleTimeMs": 0, "errorMessage": "NONE" if is_here else _NO_COORDINATOR, **answer}
        text = "" if is_here else _NO_COORDINATOR
        keys = [{"key": key, "errorMessage": text, **answer} for key in body["coordinatorKeys"]]
        return {"throttleTimeMs": 0, "coordinators": keys}

    def describe_log_dirs(self, body: dict[str, Any]) -> dict[str, Any]:
        """Answer DescribeLogDirs: the bytes of each partition's logs in each log dir."""
        asked = None if body["topics"] is None else {one["topic"]: set(one["partitions"]) for one in body["topics"]}
        results = []
        for log_dir in self._catalogue.log_dirs:
            topics: dict[str, list[dict[str, Any]]] = {}
            for found in log_dir.partitions():
                topic, index = found.key
                if topic in self._catalogue.topics and (asked is None or index in asked.get(topic, ())):
                    size = _size_of_logs(self._catalogue.files, found.path)
                    part = {"partitionIndex": index, "partitionSize": size, "offsetLag": 0, "isFutureKey": False}
                    topics.setdefault(topic, []).append(part)
            named = [{"name": topic, "partitions": parts} for topic, parts in topics.items()]
            path = self._catalogue.files.absolute(log_dir.path)
            results.append({"errorCode": 0, "logDir": path, "topics": named, **_space(self._catalogue.files, path)})
        return {"throttleTimeMs": 0, "errorCode": 0, "results": results}

    def list_partition_reassignments(self) -> dict[str, Any]:
        """Answer ListPartitionReassignments: there are none."""
        return {"throttleTimeMs": 0, "errorCode": 0, "errorMessage": None, "topics": []}


def unknown_topic(name: str) -> Error:
    """Return the error for a topic that is not served; another one if no topic can have the name (Topic.validate)."""
    return Error.UNKNOWN_TOPIC_OR_PARTITION if is_topic_name(name) else Error.INVALID_TOPIC_EXCEPTION


def _no_topic(name: str | None, topic_id: str, error: Error) -> dict[str, Any]:
    return {"errorCode": int(error), "name": name, "topicId": topic_id, "isInternal": False, "partitions": []}


def _described(
    name: str, topic_id: str, partitions: list[dict[str, Any]], error: Error, *, is_internal: bool = False
) -> dict[str, Any]:
    return {
        "errorCode": int(error), "name": name, "topicId": topic_id, "isInternal": is_internal, "partitions": partitions,
        "topicAuthorizedOperations": _TOPIC_OPERATIONS if error is Error.NONE else UNKNOWN_OPERATIONS,
    }  # fmt: skip


def _size_of_logs(files: ReadOnlyFiles, directory: str) -> int:
    """Return the bytes of the logs in a partition directory (UnifiedLog.size); −1: unreadable."""
    try:
        names = [name for name in files.plain(directory) if _is_log(name)]
        return sum(files.info(f"{directory}/{name}").size for name in names)
    except KafkalogError:
        return -1


def _is_log(name: str) -> bool:
    parsed = parse_file_name(name)
    return parsed is not None and parsed.kind is FileKind.LOG and not parsed.suffix


def _space(files: ReadOnlyFiles, path: str) -> dict[str, Any]:
    space = files.space(path)
    return {"totalBytes": space.total, "usableBytes": space.free, "isCordoned": False}

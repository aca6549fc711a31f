"""The metadata image: the state of a cluster after a record. Mirrors MetadataImage and MetadataDelta."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from engine.image.partition import PartitionState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.image.records import MetadataRecord

METADATA_VERSION, KRAFT_VERSION = "metadata.version", "kraft.version"
TOPIC, BROKER = 2, 4  # ConfigResource.Type
_Fields = dict[str, Any]


class ReplayError(ValueError):
    """The record does not fit the state before it: a broker reports an error and continues without it."""


@dataclass(slots=True)
class Topic:
    """A topic with its partitions by number."""

    name: str
    topic_id: str
    partitions: dict[int, PartitionState] = field(default_factory=dict)


class DeletedTopic(NamedTuple):
    """A topic that a record of the log deleted, as it was before."""

    topic: Topic
    offset: int
    time_ms: int


class Image:
    """The state of a cluster.

    features         levels by name                            producer_ids  the next block begins there; −1: none was given
    topics           by id            topic_ids    by name     configs       by type of the resource and its name
    brokers, controllers   registrations by node id            quotas        by entity: (type, name or None for the default)
    acls             by id            scram        by mechanism and user     tokens  delegation tokens by id
    voters           of the quorum (KIP-853), None: they are not in the log  kraft_version   None: not in the log
    deleted          topics that applied records deleted
    """

    def __init__(self) -> None:
        self.features: dict[str, int] = {}
        self.topics: dict[str, Topic] = {}
        self.topic_ids: dict[str, str] = {}
        self.brokers: dict[int, _Fields] = {}
        self.controllers: dict[int, _Fields] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.quotas: dict[tuple[tuple[str, str | None], ...], dict[str, Any]] = {}
        self.acls: dict[str, _Fields] = {}
        self.scram: dict[tuple[int, str], _Fields] = {}
        self.tokens: dict[str, _Fields] = {}
        self.producer_ids = -1
        self.voters: list[_Fields] | None = None
        self.kraft_version: int | None = None
        self.deleted: list[DeletedTopic] = []

    def apply(self, record: MetadataRecord) -> None:
        """Apply one record. Raises ReplayError; the image is unchanged then."""
        method = self._METHODS.get(record.type)
        if method is not None:
            try:
                method(self, record)
            except ReplayError:
                raise
            except (ValueError, TypeError) as error:
                raise ReplayError(str(error)) from None

    def partition_of(self, data: _Fields) -> PartitionState | None:
        """The partition that a PartitionRecord or PartitionChangeRecord is about."""
        topic = self.topics.get(data["topicId"])
        return None if topic is None else topic.partitions.get(data["partitionId"])

    # ---- topics

    def _topic(self, record: MetadataRecord) -> None:
        name, topic_id = record.data["name"], record.data["topicId"]
        self.topics[topic_id] = Topic(name, topic_id)
        self.topic_ids[name] = topic_id

    def _remove_topic(self, record: MetadataRecord) -> None:
        topic = self.topics.pop(record.data["topicId"], None)
        if topic is None:
            raise ReplayError(f"Unable to delete topic with id {record.data['topicId']}: no such topic found.")
        if self.topic_ids.get(topic.name) == topic.topic_id:
            del self.topic_ids[topic.name]
        self.configs.pop((TOPIC, topic.name), None)
        self.deleted.append(DeletedTopic(topic, record.offset, record.time_ms))

    def _partition(self, record: MetadataRecord) -> None:
        topic = self.topics.get(record.data["topicId"])
        if topic is None:
            raise ReplayError(f"no topic has the id {record.data['topicId']}")
        topic.partitions[record.data["partitionId"]] = PartitionState.of(record.data)

    def _partition_change(self, record: MetadataRecord) -> None:
        data, now = record.data, self.partition_of(record.data)
        if now is None:
            raise ReplayError(f"Unable to find partition {data['topicId']}:{data['partitionId']}")
        self.topics[data["topicId"]].partitions[data["partitionId"]] = now.changed(data)

    def _clear_elr(self, record: MetadataRecord) -> None:
        name = record.data["topicName"]
        if name and name not in self.topic_ids:
            raise ReplayError(f"Unable to clear elr for topic with name {name}: no such topic found.")
        for topic in [self.topics[self.topic_ids[name]]] if name else self.topics.values():
            topic.partitions.update({number: one.without_elr() for number, one in topic.partitions.items()})

    # ---- nodes and features

    def _register_broker(self, record: MetadataRecord) -> None:
        self.brokers[record.data["brokerId"]] = record.data

    def _unregister_broker(self, record: MetadataRecord) -> None:
        self.brokers.pop(record.data["brokerId"], None)

    def _broker(self, broker_id: int, epoch: int, action: str) -> _Fields:
        broker = self.brokers.get(broker_id)
        if broker is None:
            raise ReplayError(f"Tried to {action} broker {broker_id}, but that broker was not registered.")
        if broker["brokerEpoch"] != epoch:
            raise ReplayError(f"Tried to {action} broker {broker_id}, but the given epoch, {epoch}, did not match the current "
                              f"broker epoch, {broker['brokerEpoch']}")  # fmt: skip
        return broker

    def _fence(self, record: MetadataRecord) -> None:
        data = record.data
        self.brokers[data["id"]] = {**self._broker(data["id"], data["epoch"], "fence"), "fenced": True}

    def _unfence(self, record: MetadataRecord) -> None:
        data = record.data
        self.brokers[data["id"]] = {**self._broker(data["id"], data["epoch"], "unfence"), "fenced": False}

    def _change_broker(self, record: MetadataRecord) -> None:
        data = record.data
        broker = dict(self._broker(data["brokerId"], data["brokerEpoch"], "change"))
        for name in ("fenced", "inControlledShutdown"):  # −1: false, 1: true, 0: unchanged
            change = data.get(name, 0)
            if change not in (-1, 0, 1):
                raise ReplayError(f"unknown value for {name} field: {change}")
            if change:
                broker[name] = change > 0
        if data.get("logDirs"):
            broker["logDirs"] = data["logDirs"]
        if data.get("cordonedLogDirs") is not None:
            broker["cordonedLogDirs"] = data["cordonedLogDirs"]
        self.brokers[data["brokerId"]] = broker

    def _register_controller(self, record: MetadataRecord) -> None:
        self.controllers[record.data["controllerId"]] = record.data

    def _feature(self, record: MetadataRecord) -> None:
        name, level = record.data["name"], record.data["featureLevel"]
        if level or name == METADATA_VERSION:
            self.features[name] = level
        else:
            self.features.pop(name, None)
        self.features.pop(KRAFT_VERSION, None)  # its level is in a control record (KAFKA-18979)

    def _voters(self, record: MetadataRecord) -> None:
        self.voters = record.data["voters"]

    def _kraft_version(self, record: MetadataRecord) -> None:
        self.kraft_version = record.data["kRaftVersion"]

    # ---- settings and rights

    def _config(self, record: MetadataRecord) -> None:
        data = record.data
        _set(self.configs, (data["resourceType"], data["resourceName"]), data["name"], data.get("value"))

    def _quota(self, record: MetadataRecord) -> None:
        data = record.data
        entity = tuple(sorted((one["entityType"], one["entityName"]) for one in data["entity"]))
        _set(self.quotas, entity, data["key"], None if data["remove"] else data["value"])

    def _producer_ids(self, record: MetadataRecord) -> None:
        self.producer_ids = record.data["nextProducerId"]

    def _acl(self, record: MetadataRecord) -> None:
        self.acls[record.data["id"]] = record.data

    def _remove_acl(self, record: MetadataRecord) -> None:
        if self.acls.pop(record.data["id"], None) is None:
            raise ReplayError(f"Failed to find existing ACL with ID {record.data['id']} in either image or changes")

    def _scram(self, record: MetadataRecord) -> None:
        self.scram[record.data["mechanism"], record.data["name"]] = record.data

    def _remove_scram(self, record: MetadataRecord) -> None:
        self.scram.pop((record.data["mechanism"], record.data["name"]), None)

    def _token(self, record: MetadataRecord) -> None:
        self.tokens[record.data["tokenId"]] = record.data

    def _remove_token(self, record: MetadataRecord) -> None:
        self.tokens.pop(record.data["tokenId"], None)

    # ---- as records

    def records(self) -> Iterator[tuple[str, _Fields]]:
        """Yield (type, data) of the records that a snapshot of this image has. Mirrors MetadataImage.write."""
        for name, level in self.features.items():
            yield "FEATURE_LEVEL_RECORD", {"name": name, "featureLevel": level}
        for broker in self.brokers.values():
            yield "REGISTER_BROKER_RECORD", broker
        for controller in self.controllers.values():
            yield "REGISTER_CONTROLLER_RECORD", controller
        for topic in self.topics.values():
            yield "TOPIC_RECORD", {"name": topic.name, "topicId": topic.topic_id}
            for number, one in topic.partitions.items():
                yield "PARTITION_RECORD", {"partitionId": number, "topicId": topic.topic_id, **one.fields()}
        for (kind, resource), values in self.configs.items():
            for name, value in values.items():
                yield "CONFIG_RECORD", {"resourceType": kind, "resourceName": resource, "name": name, "value": value}
        for entity, limits in self.quotas.items():
            parts = [{"entityType": kind, "entityName": name} for kind, name in entity]
            for key, limit in limits.items():
                yield "CLIENT_QUOTA_RECORD", {"entity": parts, "key": key, "value": limit, "remove": False}
        if self.producer_ids >= 0:
            yield "PRODUCER_IDS_RECORD", {"brokerId": -1, "brokerEpoch": -1, "nextProducerId": self.producer_ids}
        yield from (("ACCESS_CONTROL_ENTRY_RECORD", one) for one in self.acls.values())
        yield from (("USER_SCRAM_CREDENTIAL_RECORD", one) for one in self.scram.values())
        yield from (("DELEGATION_TOKEN_RECORD", one) for one in self.tokens.values())

    _METHODS: ClassVar[dict[str, Callable[[Image, MetadataRecord], None]]] = {
        "TOPIC_RECORD": _topic, "REMOVE_TOPIC_RECORD": _remove_topic, "PARTITION_RECORD": _partition,
        "PARTITION_CHANGE_RECORD": _partition_change, "CLEAR_ELR_RECORD": _clear_elr,
        "REGISTER_BROKER_RECORD": _register_broker, "UNREGISTER_BROKER_RECORD": _unregister_broker,
        "FENCE_BROKER_RECORD": _fence, "UNFENCE_BROKER_RECORD": _unfence,
        "BROKER_REGISTRATION_CHANGE_RECORD": _change_broker, "REGISTER_CONTROLLER_RECORD": _register_controller,
        "FEATURE_LEVEL_RECORD": _feature, "KRAFT_VOTERS": _voters, "KRAFT_VERSION": _kraft_version,
        "CONFIG_RECORD": _config, "CLIENT_QUOTA_RECORD": _quota, "PRODUCER_IDS_RECORD": _producer_ids,
        "ACCESS_CONTROL_ENTRY_RECORD": _acl, "REMOVE_ACCESS_CONTROL_ENTRY_RECORD": _remove_acl,
        "USER_SCRAM_CREDENTIAL_RECORD": _scram, "REMOVE_USER_SCRAM_CREDENTIAL_RECORD": _remove_scram,
        "DELEGATION_TOKEN_RECORD": _token, "REMOVE_DELEGATION_TOKEN_RECORD": _remove_token,
    }  # fmt: skip


def _set(of: dict[Any, dict[str, Any]], key: Any, name: str, value: Any) -> None:
    """Set or, if it is None, remove a value; a resource without values is removed."""
    values = of.setdefault(key, {})
    if value is None:
        values.pop(name, None)
    else:
        values[name] = value
    if not values:
        del of[key]

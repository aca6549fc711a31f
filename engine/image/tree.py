"""An image as a tree of nodes, such as /topics/orders/0, and the differences between two of them."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.image.image import BROKER, KRAFT_VERSION, TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from engine.image.image import Image

Node = tuple[str, ...]
Fields = dict[str, Any]
DEFAULT = "<default>"  # as kafka-configs prints the name of a default entity
HIDDEN = "(hidden)"
_RESOURCES = {TOPIC: "topic", BROKER: "broker", 8: "broker-logger", 16: "client-metrics", 32: "group"}  # ConfigResource.Type
_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}  # ScramMechanism
_CREDENTIALS = frozenset(("salt", "storedKey", "serverKey", "tokenId"))
_SECRET_SETTINGS = ("password", "sasl.jaas.config", "ssl.keystore.key", "secret")  # ends of the names of settings


def nodes(image: Image) -> dict[Node, Fields]:
    """The nodes with their fields under Kafka's names; lists of named things are in the order of their names."""
    found: dict[Node, Fields] = {("features", name): {"featureLevel": level} for name, level in image.features.items()}
    if image.kraft_version is not None:
        found["features", KRAFT_VERSION] = {"featureLevel": image.kraft_version}
    for voter in image.voters or ():
        found["voters", str(voter["voterId"])] = _sorted(voter, "voterId")
    for node_id, broker in image.brokers.items():
        found["brokers", str(node_id)] = {
            "isMigratingZkBroker": False, "inControlledShutdown": False, "logDirs": [], **_sorted(broker, "brokerId"),
        }  # fmt: skip
    for node_id, controller in image.controllers.items():
        found["controllers", str(node_id)] = _sorted(controller, "controllerId")
    for topic in image.topics.values():
        name = topic.name if image.topic_ids.get(topic.name) == topic.topic_id else f"{topic.name} {topic.topic_id}"
        found["topics", name] = {"topicId": topic.topic_id}
        found |= {("topics", name, str(number)): one.fields() for number, one in topic.partitions.items()}
    for (kind, resource), values in image.configs.items():
        found["configs", _RESOURCES.get(kind, str(kind)), resource or DEFAULT] = dict(sorted(values.items()))
    for entity, limits in image.quotas.items():
        key = ",".join(f"{kind}={DEFAULT if name is None else name}" for kind, name in reversed(entity))
        found["quotas", key] = dict(sorted(limits.items()))
    found |= {("acls", one): _sorted(data, "id") for one, data in image.acls.items()}
    for (mechanism, user), data in image.scram.items():
        found["scram", _MECHANISMS.get(mechanism, str(mechanism)), user] = _sorted(data, "name", "mechanism")
    found |= {("tokens", one): _sorted(data, "tokenId") for one, data in image.tokens.items()}
    if image.producer_ids >= 0:
        found["producer-ids",] = {"nextProducerId": image.producer_ids}
    return found


def _sorted(data: Fields, *without: str) -> Fields:
    """The fields, except those in the name of the node; lists of named things by name, as they are maps in Kafka."""
    return {
        name: sorted(value, key=lambda one: str(one["name"])) if _has_names(value) else value
        for name, value in data.items() if name not in without
    }  # fmt: skip


def _has_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) and "name" in one for one in value)


def path_of(node: Node) -> str:
    """/topics/orders/0"""
    return "/" + "/".join(node)


def order_of(node: Node) -> tuple[tuple[int, str], ...]:
    """Sort key: numbers as numbers."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in node)


def is_chosen(node: Node, pattern: str | None) -> bool:
    """Does a glob such as /topics/order*/0 match the node, or one above it? `*` stays between two slashes."""
    parts = (pattern or "").strip("/")
    if not parts:
        return True
    words = parts.split("/")
    return len(words) <= len(node) and all(fnmatchcase(part, word) for part, word in zip(node, words, strict=False))


def concealed(fields: Mapping[str, Any]) -> Fields:
    """Fields of a record or a node without credentials: keys of SCRAM, ids of delegation tokens, passwords in settings."""
    found = {name: HIDDEN if name in _CREDENTIALS or is_secret(name) else value for name, value in fields.items()}
    if {"name", "value"} <= found.keys() and is_secret(str(found["name"])):  # a ConfigRecord
        found["value"] = HIDDEN
    return found


def is_secret(setting: str) -> bool:
    """Is it a setting of Kafka's type PASSWORD?"""
    return setting.endswith(_SECRET_SETTINGS)


def concealed_node(node: Node) -> Node:
    """The node without the id of a delegation token."""
    return ("tokens", HIDDEN) if node[0] == "tokens" else node


class Difference(NamedTuple):
    """A node that differs. before, after: its fields; None: the node is not there. fields: names of those that differ."""

    node: Node
    before: Fields | None
    after: Fields | None
    fields: tuple[str, ...]


def differences(before: Mapping[Node, Fields], after: Mapping[Node, Fields]) -> Iterator[Difference]:
    """Yield the nodes that differ, in order."""
    for node in sorted(before.keys() | after.keys(), key=order_of):
        old, new = before.get(node), after.get(node)
        if old != new:
            names = dict.fromkeys([*(old or ()), *(new or ())])
            yield Difference(node, old, new, tuple(one for one in names if (old or {}).get(one) != (new or {}).get(one)))

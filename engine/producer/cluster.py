"""What a producer knows of a cluster: nodes, topics, leaders, in the order of Java's hash maps.

The order decides which partition a random number means, and which batch enters a request first. Mirrors Cluster and
MetadataSnapshot.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from engine.java.hash_maps import hash_of_text, hash_order, table_for

if TYPE_CHECKING:
    from collections.abc import Iterable


class TopicPartition(NamedTuple):
    """A partition of a topic, by name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Node(NamedTuple):
    """A broker."""

    id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Topic:
    """The partitions of a topic.

    leaders        id of the leader of each partition; None: it has none
    leader_epochs  of each partition; empty: unknown
    id             16 bytes; zeros: unknown
    """

    leaders: tuple[int | None, ...]
    leader_epochs: tuple[int | None, ...] = ()
    id: bytes = bytes(16)


@dataclass(frozen=True)
class Cluster:
    """A snapshot of the metadata."""

    nodes: tuple[Node, ...]
    topics: dict[str, Topic]
    by_node: dict[int, list[TopicPartition]] = field(init=False)
    available: dict[str, list[int]] = field(init=False)  # partitions with a leader, in the order of a random choice

    def __post_init__(self) -> None:
        by_node: dict[int, list[TopicPartition]] = {node.id: [] for node in self.nodes}
        available: dict[str, list[int]] = {name: [] for name in self.topics}
        partitions = [TopicPartition(name, one) for name, topic in self.topics.items() for one in range(len(topic.leaders))]
        for one in hash_order(partitions, hash_of_partition, table_for(len(partitions))):
            leader = self.leader(one)
            if leader is not None:
                by_node[leader].append(one)
                available[one.topic].append(one.partition)
        object.__setattr__(self, "by_node", by_node)
        object.__setattr__(self, "available", available)

    def partition_count(self, topic: str) -> int | None:
        """Return the number of partitions of a topic; None: the topic does not exist."""
        known = self.topics.get(topic)
        return None if known is None else len(known.leaders)

    def leader(self, partition: TopicPartition) -> int | None:
        """Return the leader's id; None: it is unknown."""
        topic = self.topics.get(partition.topic)
        if topic is None or not 0 <= partition.partition < len(topic.leaders):
            return None
        return topic.leaders[partition.partition]

    def leader_epoch(self, partition: TopicPartition) -> int | None:
        """Return the leader epoch; None: it is unknown."""
        topic = self.topics.get(partition.topic)
        if topic is None or not 0 <= partition.partition < len(topic.leader_epochs):
            return None
        return topic.leader_epochs[partition.partition]

    def in_hash_order(self, ids: Iterable[int]) -> list[int]:
        """Return ids of nodes in the order of a HashSet of their Nodes."""
        nodes = {node.id: node for node in self.nodes}
        return hash_order(ids, lambda one: hash_of_node(nodes[one]))


def hash_of_partition(one: TopicPartition) -> int:
    """Return TopicPartition.hashCode, up to multiples of 2^32."""
    return 31 * (31 + one.partition) + hash_of_text(one.topic)


def hash_of_node(node: Node) -> int:
    """Return Node.hashCode, up to multiples of 2^32."""
    number = 31 * (31 + hash_of_text(node.host)) + node.id
    number = 31 * (31 * number + node.port) + (0 if node.rack is None else hash_of_text(node.rack))
    return 31 * number + 1237  # Boolean.FALSE: not fenced

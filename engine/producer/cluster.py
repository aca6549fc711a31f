"""What a producer knows of a cluster: nodes, topics, leaders; and the order in which Java's hash maps return them.

The order decides which partition a random number means, and which batch enters a request first. Mirrors Cluster and
MetadataSnapshot.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Hashed = TypeVar("Hashed")
_LEAST_TABLE = 16  # HashMap.DEFAULT_INITIAL_CAPACITY


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
        for one in hash_order(partitions, hash_of_partition, _table_for(len(partitions))):
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


class GrowingOrder(Generic[Hashed]):
    """The keys of a CopyOnWriteMap in its order, which copies its HashMap with every new key."""

    def __init__(self, hash_of: Callable[[Hashed], int]) -> None:
        self.keys: list[Hashed] = []
        self._hash_of, self._table = hash_of, _LEAST_TABLE

    def add(self, key: Hashed) -> None:
        """Add a new key."""
        table = _copied_table(len(self.keys))
        if table == self._table:
            self.keys.insert(bisect_right(self.keys, self._bucket(key), key=self._bucket), key)
        else:
            self._table = table
            self.keys.append(key)
            self.keys.sort(key=self._bucket)

    def _bucket(self, key: Hashed) -> int:
        return _bucket(self._hash_of(key), self._table)


def hash_order(keys: Iterable[Hashed], hash_of: Callable[[Hashed], int], table: int = _LEAST_TABLE) -> list[Hashed]:
    """Return keys in the order of a HashMap into which they were put one after the other.

    table  the size of its table at first. Buckets are lists: a HashMap with eight keys in one bucket is not mirrored.
    """
    listed = list(dict.fromkeys(keys))
    while len(listed) > table * 3 // 4:
        table *= 2
    return sorted(listed, key=lambda one: _bucket(hash_of(one), table))


def _bucket(number: int, table: int) -> int:
    bits = number & 0xFFFFFFFF
    return (bits ^ bits >> 16) & (table - 1)


def _table_for(size: int) -> int:
    """Return the size of the table of a HashMap with this initial capacity (HashMap.tableSizeFor)."""
    return 1 << max(0, size - 1).bit_length()


def _copied_table(size: int) -> int:
    """Return the size of the table after one key was put into a copy of a HashMap of `size` keys."""
    if size == 0:
        return _LEAST_TABLE
    table = _table_for(int(size / 0.75 + 1.0))
    return table if size + 1 <= table * 3 // 4 else 2 * table


def hash_of_text(text: str) -> int:
    """Return String.hashCode, as 32 unsigned bits."""
    number = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        number = (31 * number + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return number


def hash_of_partition(one: TopicPartition) -> int:
    """Return TopicPartition.hashCode, up to multiples of 2^32."""
    return 31 * (31 + one.partition) + hash_of_text(one.topic)


def hash_of_node(node: Node) -> int:
    """Return Node.hashCode, up to multiples of 2^32."""
    number = 31 * (31 + hash_of_text(node.host)) + node.id
    number = 31 * (31 * number + node.port) + (0 if node.rack is None else hash_of_text(node.rack))
    return 31 * number + 1237  # Boolean.FALSE: not fenced

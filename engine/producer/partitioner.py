"""Choose the partition of a record: by its key, sticky, adaptive to the lengths of queues, or in turn.

Mirrors BuiltInPartitioner and RoundRobinPartitioner.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING

from engine.formats import INT_MAX
from engine.kernels.accumulate import murmur2

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.producer.cluster import Cluster

    Random = Callable[[], int]  # a number of 31 bits

UNKNOWN_PARTITION = -1  # RecordMetadata.UNKNOWN_PARTITION


def partition_for_key(key: bytes, count: int) -> int:
    """Return the partition of a key in a topic with `count` partitions."""
    return int(murmur2(key) & INT_MAX) % count


class Sticky:
    """The partition that records without a key use now, and the bytes that it got. A new object means that it was changed."""

    __slots__ = ("partition", "produced")

    def __init__(self, partition: int) -> None:
        self.partition, self.produced = partition, 0


class BuiltInPartitioner:
    """Keeps one partition of a topic until it got `sticky_size` bytes, then chooses another at random."""

    def __init__(self, topic: str, sticky_size: int, random: Random) -> None:
        self._topic, self._random = topic, random
        self.sticky_size = sticky_size
        self._current: Sticky | None = None
        self._sums: list[int] = []  # running sums of the weights of the partitions; empty: all are equal
        self._ids: Sequence[int] = ()

    def current(self, cluster: Cluster) -> Sticky:
        """Return the current partition; chooses the first one."""
        if self._current is None:
            self._current = Sticky(self._next(cluster))
        return self._current

    def update(self, sticky: Sticky, appended: int, cluster: Cluster, *, switch: bool) -> bool:
        """Count bytes that the current partition got, and perhaps choose another one; returns whether it did.

        switch  whether the last batch of the partition is full. Otherwise it gets up to twice the bytes, to fill the batch.
        """
        sticky.produced += appended
        if (switch and sticky.produced >= self.sticky_size) or sticky.produced >= 2 * self.sticky_size:
            self._current = Sticky(self._next(cluster))
            return True
        return False

    def update_load(self, queues: list[int], ids: Sequence[int], count: int) -> None:
        """Prefer partitions with short queues (partitioner.adaptive.partitioning.enable).

        queues  batches of each partition that has a queue      ids  the partition of each queue
        count   how many of them are available: the first ones
        """
        self._sums = []
        if count < 1 or len(queues) < 2:
            return
        used = queues[:count]
        most = max(used) + 1
        if len(set(used)) == 1 and count == len(queues):
            return
        self._sums, self._ids = list(accumulate(most - one for one in used)), ids

    def forget_load(self) -> None:
        """Choose with equal chances."""
        self._sums = []

    def _next(self, cluster: Cluster) -> int:
        number = self._random()
        if self._sums:
            return self._ids[bisect_right(self._sums, number % self._sums[-1])]
        available = cluster.available[self._topic]
        if available:
            return available[number % len(available)]
        return number % len(cluster.topics[self._topic].leaders)


class RoundRobinPartitioner:
    """Uses the partitions with a leader in turn, also for records with a key (`partitioner.class`)."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def partition(self, topic: str, cluster: Cluster) -> int:
        """Return the partition of the next record."""
        number = self._next.get(topic, 0)
        self._next[topic] = (number + 1) & 0xFFFFFFFF
        available = cluster.available[topic]
        if available:
            return available[(number & INT_MAX) % len(available)]
        return (number & INT_MAX) % len(cluster.topics[topic].leaders)

"""The server-side assignors of consumer groups: `uniform` and `range`. Mirror UniformAssignor and RangeAssignor.

An assignment is a dict: member → topic id → set of partitions. Kafka's order follows hashes; here members are in the order in
which they joined, topics and partitions are sorted. So a partition may be given to another member than in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

Partitions = dict[str, set[int]]  # by topic id
Assignment = dict[str, Partitions]  # by member id

_MOST_ROUNDS = 16  # of balancing, for subscriptions that overlap; mirrors MAX_ITERATION_COUNT


class Subscriber(NamedTuple):
    """A member, as an assignor sees it: the ids of its topics, and what the last target assignment gave it."""

    instance_id: str | None
    topics: frozenset[str]
    target: Mapping[str, set[int]]


Members = dict[str, Subscriber]
Topics = dict[str, list[int]]  # id → partition indexes


def assign_ranges(members: Members, topics: Topics) -> Assignment:
    """Give each member a range of the partitions of each of its topics."""
    order = sorted(members, key=lambda one: (members[one].instance_id is None, members[one].instance_id or one))
    result: Assignment = {member: {} for member in order}
    for topic, partitions in sorted(topics.items()):
        subscribed = [member for member in order if topic in members[member].topics]
        start = 0
        for number, member in enumerate(subscribed):
            size = len(partitions) // len(subscribed) + (number < len(partitions) % len(subscribed))
            if size:
                result[member][topic] = set(partitions[start : start + size])
            start += size
    return result


def assign_uniformly(members: Members, topics: Topics) -> Assignment:
    """Give all members equally many partitions, or one more, and let them keep as many of theirs as possible."""
    result, free = _kept(members, topics)
    if len({one.topics for one in members.values()}) <= 1:
        _balance_equal(result, free)
    else:
        _Balancer(members, topics, result).balance(free)
    return {member: {topic: held for topic, held in sorted(own.items()) if held} for member, own in result.items()}


def _kept(members: Members, topics: Topics) -> tuple[Assignment, list[tuple[str, int]]]:
    """Return what members can keep of their target, and the partitions that nobody has."""
    result: Assignment = {}
    taken: set[tuple[str, int]] = set()
    for member, one in members.items():
        own = {topic: one.target.get(topic, set()) & set(topics.get(topic, ())) for topic in one.topics}
        result[member] = {topic: held for topic, held in own.items() if held}
        taken.update(_partitions_of(result[member]))
    wanted = {topic for one in members.values() for topic in one.topics}
    every = ((topic, partition) for topic in sorted(wanted) for partition in topics.get(topic, ()))
    return result, [one for one in every if one not in taken]


def _partitions_of(own: Partitions) -> Iterator[tuple[str, int]]:
    for topic in sorted(own):
        for partition in sorted(own[topic]):
            yield topic, partition


def _balance_equal(result: Assignment, free: list[tuple[str, int]]) -> None:
    """Balance members with the same topics: take what exceeds their share, and fill up the others."""
    total = len(free) + sum(len(held) for own in result.values() for held in own.values())
    share, extra = divmod(total, len(result))
    shares: dict[str, int] = {}
    for number, (member, own) in enumerate(result.items()):
        held = list(_partitions_of(own))
        has_extra = extra > 0 and (len(held) > share or len(result) - number <= extra)
        extra -= has_extra
        shares[member] = share + has_extra
        for topic, partition in held[shares[member] :]:
            own[topic].discard(partition)
            free.append((topic, partition))
    missing = iter(free)
    for member, own in result.items():
        for _ in range(shares[member] - sum(map(len, own.values()))):
            topic, partition = next(missing)
            own.setdefault(topic, set()).add(partition)


class _Balancer:
    """Balances members that have different topics. Mirrors UniformHeterogeneousAssignmentBuilder."""

    def __init__(self, members: Members, topics: Topics, result: Assignment) -> None:
        self._topics, self._result = topics, result
        self._loads = {member: sum(map(len, own.values())) for member, own in result.items()}
        every = sorted({topic for one in members.values() for topic in one.topics})
        self._subscribers = {topic: [member for member, one in members.items() if topic in one.topics] for topic in every}

    def balance(self, free: Sequence[tuple[str, int]]) -> None:
        """Assign the free partitions, those of topics with few subscribers first; then move partitions while that helps."""
        def rank(topic: str) -> tuple[float, int, str]:
            return -len(self._topics.get(topic, ())) / len(self._subscribers[topic]), len(self._subscribers[topic]), topic

        for topic, partition in sorted(free, key=lambda one: (*rank(one[0]), one[1])):
            self._give(topic, partition, min(self._subscribers[topic], key=self._loads.__getitem__))
        order = sorted((topic for topic, known in self._subscribers.items() if len(known) > 1), key=rank)
        for _ in range(_MOST_ROUNDS):
            if not [topic for topic in order if self._balance_topic(topic)]:
                return

    def _give(self, topic: str, partition: int, member: str) -> None:
        self._result[member].setdefault(topic, set()).add(partition)
        self._loads[member] += 1

    def _balance_topic(self, topic: str) -> bool:
        """Move partitions of the topic from members with many to members with few. Returns whether any was moved."""
        has_moved = False
        while True:
            owners = [member for member in self._subscribers[topic] if self._result[member].get(topic)]
            most = max(owners, key=self._loads.__getitem__, default=None)
            least = min(self._subscribers[topic], key=self._loads.__getitem__)
            if most is None or self._loads[most] - self._loads[least] <= 1:
                return has_moved
            partition = max(self._result[most][topic])
            self._result[most][topic].discard(partition)
            self._loads[most] -= 1
            self._give(topic, partition, least)
            has_moved = True


ASSIGNORS: dict[str, Callable[[Members, Topics], Assignment]] = {"uniform": assign_uniformly, "range": assign_ranges}

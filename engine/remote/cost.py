"""The size of the objects in a store by topic: those that brokers read, and the others with the reason.

Every object counts once, so the sums match a listing. This is a separate module because it needs the logs of the partitions,
which determine the history of a leader; `inventory` and `orphans` do not read them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.remote.records import State

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.remote.metadata import PartitionMetadata, RemoteLogMetadata, RemoteSegment
    from engine.remote.orphans import Found
    from engine.remote.partitions import TieredPartitions

READ = "read"  # by brokers; the other values are reasons why a segment is not read


class Amount(NamedTuple):
    """Number of segments and of their objects, bytes of the objects."""

    segments: int
    objects: int
    size: int


_NOTHING = Amount(0, 0, 0)


class TopicCost:
    """The amounts of a topic by reason. `topic`, `topic_id`: None for objects of no segment."""

    def __init__(self, topic: str | None, topic_id: str | None) -> None:
        self.topic, self.topic_id = topic, topic_id
        self.amounts: dict[str, Amount] = {}

    def add(self, why: str, amount: Amount) -> None:
        """Add an amount to those with the same reason."""
        before = self.amounts.get(why, _NOTHING)
        self.amounts[why] = Amount(*map(sum, zip(before, amount, strict=True)))

    @property
    def total(self) -> Amount:
        """The sum of all amounts."""
        return Amount(*map(sum, zip(_NOTHING, *self.amounts.values(), strict=True)))

    def unread(self) -> list[tuple[str, Amount]]:
        """Return (reason, amount) of what brokers do not read, sorted by reason."""
        return sorted((why, amount) for why, amount in self.amounts.items() if why != READ)


def sum_of(topics: Iterable[TopicCost]) -> TopicCost:
    """Return the sum of several topics."""
    total = TopicCost(None, None)
    for one in topics:
        for why, amount in one.amounts.items():
            total.add(why, amount)
    return total


def costs(found: Found, metadata: RemoteLogMetadata, partitions: TieredPartitions) -> list[TopicCost]:
    """Return the amounts of each topic, sorted by name; objects of no segment come last. Raises UnreadableFile, CorruptRecord.

    If no log dir has a partition, its copied segments count as read unless a later copy replaced them.
    """
    topics: dict[tuple[str | None, str | None], TopicCost] = {}

    def topic(name: str | None, topic_id: str | None) -> TopicCost:
        return topics.setdefault((name, topic_id), TopicCost(name, topic_id))

    orphaned: set[str] = set()
    for orphan in found.orphans:
        names = (None, None) if orphan.partition is None else orphan.partition[:2]
        amount = Amount(orphan.segment_id is not None, len(orphan.objects), orphan.size)
        topic(*names).add(orphan.why.value, amount)
        orphaned.update(one.key for one in orphan.objects)
    by_partition: dict[tuple[str, int], dict[str, str]] = {}
    for stored in found.segments:
        if orphaned.isdisjoint(one.key for one in stored.objects.values()):
            name = stored.partition
            key = (name.topic_id, name.partition)
            if key not in by_partition:
                known = metadata.find(*key)
                by_partition[key] = {} if known is None else _reasons(known, partitions)
            why = by_partition[key].get(stored.named.segment_id, READ)
            topic(name.topic, name.topic_id).add(why, Amount(1, len(stored.objects), stored.size))
    return [topics[key] for key in sorted(topics, key=lambda key: (key[0] is None, key))]


def _reasons(known: PartitionMetadata, partitions: TieredPartitions) -> dict[str, str]:
    """Return by segment name why brokers do not read a segment; they read the segments that are missing in the result."""
    found = {one.name: why for one in known.segments() if (why := _why_by_records(known, one)) is not None}
    directory = partitions.directories.get((known.topic, known.partition))
    if directory is None:
        return found
    with partitions.open(directory) as log:
        if log.topic_id != known.topic_id:
            return found
        for one in known.segments():
            if one.name not in found:
                if one.end_offset < log.log_start_offset:
                    found[one.name] = "before-start"
                elif not log.lineage.has(one):
                    found[one.name] = "not-in-lineage"
    return found


def _why_by_records(known: PartitionMetadata, segment: RemoteSegment) -> str | None:
    if segment.state is State.COPY_SEGMENT_STARTED:
        return "copying"
    if segment.state is State.DELETE_SEGMENT_STARTED:
        return "deleting"
    found = (known.segment(epoch, start) for epoch, start in segment.leader_epochs)
    return None if any(one is not None and one.id == segment.id for one in found) else "replaced"

"""Which partitions a command works on: --topic and --partition, the same in every command."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from engine.discovery.names import METADATA_TOPIC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.discovery.names import PartitionDir

_MAGIC = frozenset("*?[")  # characters of patterns that no topic name has


def is_chosen_topic(topic: str, patterns: Sequence[str]) -> bool:
    """Return whether `topic` matches one of the names or patterns (`*`, `?`, `[…]`). Without any, every topic does."""
    return not patterns or any(fnmatchcase(topic, pattern) for pattern in patterns)


class PartitionChoice(NamedTuple):
    """The partitions of certain topics, with certain numbers. The metadata log is chosen only by its own name.

    topics   names, or patterns with `*`, `?`, `[…]`; none: all topics
    numbers  of partitions; none: all numbers
    """

    topics: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()

    @property
    def is_all(self) -> bool:
        """Return whether every partition is chosen, also files that belong to no partition."""
        return not self.topics and not self.numbers

    @property
    def names_one(self) -> bool:
        """Return whether it can choose only one partition: one topic without a pattern, and one number."""
        return len(self.topics) == 1 and len(self.numbers) == 1 and _MAGIC.isdisjoint(self.topics[0])

    def includes(self, name: PartitionDir) -> bool:
        """Return whether the partition of this directory name is chosen."""
        if name.topic == METADATA_TOPIC and name.topic not in self.topics:
            return self.is_all
        return (not self.numbers or name.partition in self.numbers) and is_chosen_topic(name.topic, self.topics)

    def __str__(self) -> str:
        parts = ["topic " + " or ".join(self.topics)] if self.topics else []
        return ", ".join(parts + (["partition " + " or ".join(map(str, self.numbers))] if self.numbers else []))


EVERY_PARTITION = PartitionChoice()

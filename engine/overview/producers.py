"""Idempotent and transactional producers of partitions, as their brokers have them: `txn producers`.

The module stands alone: unlike `transactions` it needs no coordinator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.discovery.names import METADATA_TOPIC, PartitionKind
from engine.errors import KafkalogError
from engine.log.fetch.producer_states import producers_of
from engine.log.fetch.replicas import best_replica

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from engine.files import ReadOnlyFiles
    from engine.findings import Finding
    from engine.log.logdir.log_dirs import LogDir
    from engine.log.producers.entry import ProducerStateEntry


class ProducerIn(NamedTuple):
    """A producer in a partition; `path` is the replica that was read."""

    path: str
    topic: str
    partition: int
    state: ProducerStateEntry


def producers_in(
    files: ReadOnlyFiles, log_dirs: Iterable[LogDir], report: Callable[[Finding], None], fail: Callable[[KafkalogError], None]
) -> Iterator[ProducerIn]:
    """Yield the producers of the partitions of `log_dirs`, by id; of several replicas of one the best is read.

    A broker forgets a producer after producer.id.expiration.ms (a day); here none expires.
    report, fail  called with damage, and with the error of a partition that cannot be read
    """
    copies: dict[tuple[str, int], list[str]] = {}
    for partition in (partition for log_dir in log_dirs for partition in log_dir.partitions(PartitionKind.PLAIN)):
        if partition.name.topic != METADATA_TOPIC:
            copies.setdefault(partition.key, []).append(partition.path)
    for (topic, number), paths in sorted(copies.items()):
        try:
            path = best_replica(files, paths)
            found = producers_of(files, path, report)
        except KafkalogError as error:
            fail(error)
            continue
        for one in sorted(found.values(), key=lambda one: one.producer_id):
            yield ProducerIn(path, topic, number, one)

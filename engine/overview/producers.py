"""Idempotent and transactional producers of partitions, as their brokers have them: `txn producers`.

The module stands alone: unlike `transactions` it needs no coordinator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.discovery.names import METADATA_TOPIC, PartitionKind
from engine.errors import KafkalogError
from engine.formats import INT_MAX, LONG_MAX
from engine.log.fetch.replicas import best_replica
from engine.log.fetch.view import PartitionView
from engine.log.finding_limits import FindingLimiter
from engine.log.producers.state_manager import ProducerStateManager, producer_chunks
from engine.overlay import OverlayFiles

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
            found = _producers(files, path, report)
        except KafkalogError as error:
            fail(error)
            continue
        yield from (ProducerIn(path, topic, number, one) for one in found)


def _producers(files: ReadOnlyFiles, directory: str, report: Callable[[Finding], None]) -> list[ProducerStateEntry]:
    """The newest valid snapshot and the sound batches after it. Mirrors UnifiedLog.rebuildProducerState."""
    limited = FindingLimiter(report)
    view = PartitionView(files, directory, limited)
    try:
        overlay = OverlayFiles(files, 0)  # loading removes snapshots that are not valid
        state = ProducerStateManager(overlay, directory, producer_id_expiration_ms=LONG_MAX, for_snapshots=True)
        state.truncate_and_reload(view.log_start_offset, view.log_end_offset, 0)
        for segment in view.segments.values(state.map_end_offset):
            read = segment.read(max(segment.base_offset, state.map_end_offset, view.log_start_offset), INT_MAX, segment.size)
            if read is not None:
                state.load_batches(producer_chunks(segment, read.position, read.position + read.size, limited))
            segment.release_log()
        limited.finish()
        return sorted(state.producers.values(), key=lambda one: one.producer_id)
    finally:
        view.close()

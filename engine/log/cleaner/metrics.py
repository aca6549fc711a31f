"""What the cleaner did in this run, under the names of Kafka's own metrics. Mirrors the gauges of LogCleaner(Manager)."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from engine.layout import parent_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.log.cleaner.compaction import Compaction
    from engine.log.cleaner.stats import CleanerStats
    from engine.log.partition.unified_log import UnifiedLog

_CLEANER, _MANAGER = "kafka_log_logcleaner_", "kafka_log_logcleanermanager_"


class CleanerMetrics:
    """Collects over all logs and rounds of a run. A broker's gauges speak of the last round of each of its threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._rounds: list[CleanerStats] = []
        self._dirtiest = self._delay_ms = 0.0
        self._uncleanable: dict[str, tuple[int, int]] = {}  # by log dir: partitions, bytes

    def expect(self, log_dirs: Iterable[str]) -> None:
        """These are looked at: each has numbers of its own, also where they are 0."""
        self._uncleanable |= dict.fromkeys(log_dirs, (0, 0))

    def note_round(self, stats: CleanerStats) -> None:
        """A round was done, or a part of one."""
        with self._lock:
            self._rounds.append(stats)

    def note(self, done: Compaction) -> None:
        """A log was compacted, or left."""
        with self._lock:
            self._dirtiest = max(self._dirtiest, done.target.cleanable_ratio)
            self._delay_ms = max(self._delay_ms, done.target.max_compaction_delay_ms)

    def note_uncleanable(self, log: UnifiedLog) -> None:
        """A log could not be cleaned: a batch is damaged."""
        with self._lock:
            partitions, size = self._uncleanable.get(parent_of(log.directory), (0, 0))
            self._uncleanable[parent_of(log.directory)] = partitions + 1, size + sum(one.size for one in log.segments)

    def gauges(self) -> Iterator[tuple[str, str, dict[str, str], float]]:
        """(name, what it is, labels, value) of each. Percents and seconds are whole numbers, as a broker has them."""
        rounds = self._rounds
        read, written = sum(one.bytes_read for one in rounds), sum(one.bytes_written for one in rounds)
        yield _CLEANER + "cleaner_recopy_percent", "bytes written by bytes read", {}, 100 * written // max(read, 1)
        fullest = max((one.buffer_utilization for one in rounds), default=0.0)
        yield _CLEANER + "max_buffer_utilization_percent", "how full offset maps were, at most", {}, int(100 * fullest)
        longest = max((one.seconds for one in rounds), default=0.0)
        yield _CLEANER + "max_clean_time_secs", "the longest round", {}, int(longest)
        yield _CLEANER + "max_compaction_delay_secs", "beyond max.compaction.lag.ms, at most", {}, int(self._delay_ms / 1000)
        yield _MANAGER + "max_dirty_percent", "of the dirtiest log, before this run", {}, int(100 * self._dirtiest)
        for log_dir, (partitions, size) in sorted(self._uncleanable.items()):
            labels = {"logDirectory": log_dir}
            yield _MANAGER + "uncleanable_partitions_count", "logs that can not be cleaned", labels, partitions
            yield _MANAGER + "uncleanable_bytes", "their size", labels, size

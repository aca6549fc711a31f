"""The operation `compact`: chooses logs, divides the memory, writes the cleaner's checkpoint and counts metrics.

Mirrors the parts of LogCleaner and LogCleanerManager that handle several logs. The choice depends only on the sizes of their
files.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

from engine.amounts import part_of
from engine.discovery.names import (
    METADATA_TOPIC,
    FileKind,
    PartitionKind,
    file_name,
    parent_of,
    parse_file_name,
    parse_partition_dir,
)
from engine.errors import UnreadableFile, UnwritableFile
from engine.files import is_full
from engine.findings import Severity
from engine.formats import LONG_MAX
from engine.log.cleaner.checkpoint import CheckpointFile, CleanerCheckpoint, clean_offsets
from engine.log.cleaner.compaction import compact, refuse_compaction
from engine.log.cleaner.explain import explain_compaction
from engine.log.cleaner.offset_map import refuse_too_small
from engine.log.cleaner.outcome import Uncleanable
from engine.log.errors import CompactionRefused, IndexFull
from engine.log.operations.operation import Operation
from engine.log.report import Action, Report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from engine.files import ReadOnlyFiles
    from engine.log.cleaner.compaction import Compaction, CompactionOptions
    from engine.log.cleaner.outcome import CleanerStats
    from engine.log.logdir.log_dirs import LogDir, PartitionPath
    from engine.log.logdir.log_manager import LogManager
    from engine.log.partition.unified_log import UnifiedLog

_CLEANER, _MANAGER = "kafka_log_logcleaner_", "kafka_log_logcleanermanager_"


class CleanerMetrics:
    """The metrics of all logs and rounds of a run. A broker's gauges describe the last round of each cleaner thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._rounds: list[CleanerStats] = []
        self._dirtiest = self._delay_ms = 0.0
        self._uncleanable: dict[str, tuple[int, int]] = {}  # by log dir: partitions, bytes

    def expect(self, log_dirs: Iterable[str]) -> None:
        """Add log dirs, so that each has its own numbers, even if they are 0."""
        self._uncleanable |= dict.fromkeys(log_dirs, (0, 0))

    def note_round(self, stats: CleanerStats) -> None:
        """Add the statistics of a round, or of a part of one."""
        with self._lock:
            self._rounds.append(stats)

    def note(self, done: Compaction) -> None:
        """Add a log that was compacted, or that needed no compaction."""
        with self._lock:
            self._dirtiest = max(self._dirtiest, done.target.cleanable_ratio)
            self._delay_ms = max(self._delay_ms, done.target.max_compaction_delay_ms)

    def note_uncleanable(self, log: UnifiedLog) -> None:
        """Add a log that could not be cleaned, because a batch is damaged."""
        with self._lock:
            partitions, size = self._uncleanable.get(parent_of(log.directory), (0, 0))
            self._uncleanable[parent_of(log.directory)] = partitions + 1, size + sum(one.size for one in log.segments)

    def gauges(self) -> Iterator[tuple[str, str, dict[str, str], float]]:
        """Yield (name, description, labels, value) of each gauge. Percents and seconds are whole numbers, as in a broker."""
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
            yield _MANAGER + "uncleanable_partitions_count", "logs that cannot be cleaned", labels, partitions
            yield _MANAGER + "uncleanable_bytes", "their size", labels, size


_ROOM = "free some space; --jobs 1 and a smaller --config segment.bytes=N need less space at a time"


class Compact(Operation):
    """Compacts logs, several at a time, or explains what it would do.

    options   for every log. Logs that are compacted at the same time share its dedupe buffer. If its first dirty offset is
              None, it is read from the checkpoint of the log dir
    on_bytes  called with the number of bytes read, see Cleaner      clock  returns seconds, to measure rounds
    on_share  an attribute: called with (directory, share of the work on its log that is done), see Headway
    `metrics` has the statistics.
    """

    name = "compact"
    for_snapshots = False
    accepts_metadata_log = True

    def __init__(
        self, options: CompactionOptions, *, explain: bool, on_bytes: Callable[[int], None], clock: Callable[[], float]
    ) -> None:
        self._options, self._explain, self._on_bytes, self._clock = options, explain, on_bytes, clock
        self._manager: LogManager | None = None
        self.on_share: Callable[[str, float], object] = lambda _directory, _share: None
        self._checkpoints: dict[str, CheckpointFile] = {}  # by log dir: one file for all logs of it
        self._checkpoint_lock = Lock()
        self.metrics = CleanerMetrics()

    def choose(self, manager: LogManager, jobs: int, memory: int | None = None) -> list[Report]:
        """Limit the manager's log dirs to the logs that are due, the dirtiest first. Divide the memory among `jobs`.

        memory  bytes for all jobs; None: the dedupe buffer of the options
        If logs are only explained, the others stay too. Returns a report for each log dir without any log to compact.
        Raises UsageError if a share of the memory is too small; nothing was changed then.
        """
        which = Which.ALL if self._explain else Which.DIRTY if self._options.force else Which.DUE
        self._manager, all_of_them = manager, manager.cluster.log_dirs
        self.metrics.expect(log_dir.path for log_dir in all_of_them)
        log_dirs = tuple(dirtiest_first(manager, log_dir, self._options.min_dirty_ratio, which) for log_dir in all_of_them)
        reported: list[Report] = []
        for before, log_dir in zip(all_of_them, log_dirs, strict=True):
            if not log_dir.directories:
                reported.append(report := Report(log_dir.path, "compact"))
                report.add(Action.EXPLAINED, "", f"nothing to compact: {why_none(manager, before, which)}")
        manager.cluster = replace(manager.cluster, log_dirs=log_dirs)
        at_once = max(1, min(jobs, max((len(log_dir.directories) for log_dir in log_dirs), default=1)))
        whole = self._options.dedupe_buffer_size if memory is None else memory
        self._options = replace(self._options, dedupe_buffer_size=whole // at_once)
        refuse_too_small(self._options.dedupe_buffer_size)
        return reported

    def refuse(self, log: UnifiedLog) -> None:
        """Raise CompactionRefused."""
        if self._explain:
            return
        refuse_compaction(log)
        named = parse_partition_dir(file_name(log.directory))
        if self._manager is not None and named is not None and _has_only_default(self._manager, named.topic):
            what = "not compacted: cleanup.policy of the topic is not known, only the broker's default"
            do = f"name the log dir with {METADATA_TOPIC}-0 too, or add --config cleanup.policy=compact"
            raise CompactionRefused(f"{what}; {do}")

    def work(self, log: UnifiedLog) -> None:
        """Compact one open log, whose high watermark is set. A problem that prevents cleaning is added to its report."""
        checkpoint, options = CleanerCheckpoint(log.local_log.files, log.directory, self._checkpoint_of), self._options
        if options.first_dirty_offset is None:
            with self._checkpoint_lock:
                options = replace(options, first_dirty_offset=checkpoint.read())
            if checkpoint.fault is not None:
                log.report.add(
                    Action.EXPLAINED, "", f"{checkpoint.fault}; the whole log counts as dirty, as for a broker",
                    severity=Severity.WARNING,
                )  # fmt: skip
        on_share = partial(self.on_share, log.directory)
        if self._explain:
            explain_compaction(log, options, self._on_bytes, on_share)
            return

        def note(offset: int) -> None:
            with self._checkpoint_lock:
                checkpoint.write(log.local_log.files, offset)

        try:
            done = compact(
                log, options, self._on_bytes, note, clock=self._clock, on_share=on_share,
                on_stats=self.metrics.note_round,
            )  # fmt: skip
        except Uncleanable as error:
            log.report.findings.append(error.finding)
            log.report.add(Action.REFUSED, "", f"{_how_far(log, error)}: {error}; {error.do}", severity=Severity.ERROR)
            self.metrics.note_uncleanable(log)
        except IndexFull as error:
            do = "use a larger --config segment.index.bytes=N or index.interval.bytes=N"
            what = f"not compacted to the end, the rest is unchanged: the index of a new segment is full: {error}; {do}"
            log.report.add(Action.REFUSED, "", what, severity=Severity.ERROR)
            self.metrics.note_uncleanable(log)
        except UnwritableFile as error:
            if is_full(error):
                error.do = _ROOM
            raise
        else:
            self.metrics.note(done)

    def _checkpoint_of(self, files: ReadOnlyFiles, log_dir: str) -> CheckpointFile:
        """The checkpoint of a log dir, read once. The caller holds the lock."""
        if log_dir not in self._checkpoints:
            self._checkpoints[log_dir] = CheckpointFile(files, log_dir)
        return self._checkpoints[log_dir]


def _how_far(log: UnifiedLog, error: Uncleanable) -> str:
    """Say how much of a damaged log was compacted."""
    if error.cleaned_below is not None:
        return f"not compacted from offset {error.cleaned_below} on; that part is unchanged"
    if any(event.action is Action.COMPACTED for event in log.report.events):
        return "not compacted further, the rest is unchanged"
    return "not compacted, unchanged"


class Which(Enum):
    """Which logs of compacted topics to compact."""

    DUE = "due"  # logs above their dirty ratio, and logs that may be overdue
    DIRTY = "dirty"  # logs with a dirty segment besides the active one
    ALL = "all"


def dirtiest_first(manager: LogManager, log_dir: LogDir, min_ratio: float | None, which: Which) -> LogDir:
    """Return the log dir with only the partitions to compact, the dirtiest first. Partitions that were named stay as named.

    min_ratio  None: from the topic's settings
    A partition that cannot be read comes last: the work on it reports the error, after the others are done.
    """
    if not log_dir.is_whole:
        return log_dir
    files = manager.files_of(log_dir.path)
    clean_until, _ = clean_offsets(files, log_dir.path)
    found: list[tuple[float, PartitionPath]] = []
    for partition in compacted(manager, log_dir):
        config = manager.config(partition.name.topic)
        try:
            ratio = cleanable_ratio_at_most(files, partition, clean_until.get(partition.key, 0))
        except UnreadableFile:
            found.append((0.0, partition))
            continue
        least = config.min_cleanable_ratio if min_ratio is None else min_ratio
        is_due = ratio > least or config.max_compaction_lag_ms < LONG_MAX
        if which is Which.ALL or (ratio > 0 and (which is Which.DIRTY or is_due)):
            found.append((ratio, partition))
    found.sort(key=lambda pair: -pair[0])
    return replace(log_dir, directories=tuple(partition for _, partition in found))


def compacted(manager: LogManager, log_dir: LogDir) -> list[PartitionPath]:
    """The partitions of the log dir whose topics are compacted."""
    return [partition for partition in log_dir.partitions(PartitionKind.PLAIN) if _is_compacted(manager, partition.name.topic)]


def _is_compacted(manager: LogManager, topic: str) -> bool:
    return manager.config(topic).compact and not _has_only_default(manager, topic)


def _has_only_default(manager: LogManager, topic: str) -> bool:
    """Is only the broker's default known of cleanup.policy? The topic's own is in a metadata log elsewhere."""
    return manager.cluster.metadata is None and manager.why_unknown(topic, "cleanup.policy") is not None


def why_none(manager: LogManager, log_dir: LogDir, which: Which) -> str:
    """Say why `dirtiest_first` chose no log of a log dir, and what to do."""
    partitions, count = log_dir.partitions(PartitionKind.PLAIN), len(compacted(manager, log_dir))
    if not partitions:
        return "it contains no partition"
    if count:
        topics = "belongs to a compacted topic" if count == 1 else "belong to compacted topics"
        share = f"{part_of(count, len(partitions), 'partition')} {topics}"
        if which is Which.DIRTY:
            return f"{share}, and none has dirty records before its active segment"
        do = "kafkalog compact --explain shows why, --force compacts all that are dirty"
        return f"{share}, and none exceeds the dirty ratio; {do}"
    whole = "the partition does not belong" if len(partitions) == 1 else f"none of {len(partitions)} partitions belongs"
    what = f"{whole} to a compacted topic"
    if manager.cluster.metadata is not None:
        return what
    return (f"{what}, as far as known: the topic settings are in the metadata log, which is in none of the given log dirs; "
            "name its log dir too, or a partition with --config cleanup.policy=compact")


def cleanable_ratio_at_most(files: ReadOnlyFiles, partition: PartitionPath, first_dirty_offset: int) -> float:
    """Dirty bytes divided by all bytes of the inactive segments: 0 … 1. Raises UnreadableFile."""
    sizes: dict[int, int] = {}
    for name in files.list(partition.path):
        parsed = parse_file_name(name)
        if parsed is not None and parsed.kind is FileKind.LOG and not parsed.suffix and parsed.base_offset is not None:
            sizes[parsed.base_offset] = files.info(f"{partition.path}/{name}").size
    if sizes and first_dirty_offset > max(sizes):
        first_dirty_offset = 0  # a cleaner never cleans the active segment: the line is stale, and a broker discards it too
    bases = sorted(sizes)[:-1]
    clean_bases = [base for base in bases if base < first_dirty_offset]
    if clean_bases and _ends_after(sorted(sizes), clean_bases[-1], first_dirty_offset):
        clean_bases.pop()  # a part of it is dirty
    total = sum(sizes[base] for base in bases)
    return 1 - sum(sizes[base] for base in clean_bases) / total if total else 0.0


def _ends_after(bases: list[int], base: int, offset: int) -> bool:
    return bases[bases.index(base) + 1] > offset

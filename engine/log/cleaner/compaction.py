"""Compact a log round by round until everything that may be cleaned is clean, or say why nothing can be cleaned.

Mirrors the loop of the cleaner threads around Cleaner and LogCleanerManager. A broker does one round on a log at a time; here
rounds follow each other until the log is clean or the limit `rounds` is reached.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import count_of
from engine.discovery.names import METADATA_TOPIC, file_name, parse_partition_dir
from engine.log.cleaner.checkpoint import LogToClean, log_to_clean
from engine.log.cleaner.cleaner import Cleaner, LogCleaningAborted
from engine.log.cleaner.offset_map import DEDUPE_BUFFER_SIZE, SkimpyOffsetMap
from engine.log.errors import CompactionRefused
from engine.log.report import Action

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from engine.log.cleaner.outcome import CleanerStats
    from engine.log.partition.unified_log import UnifiedLog


METADATA_LOG = "it is the cluster's metadata log, which is never compacted"
INSTEAD = "controllers replace its records with snapshots"
OUTSIDE = "the offset in the cleaner checkpoint is outside the log: the whole log counts as dirty"


@dataclass(frozen=True, slots=True)
class CompactionOptions:
    """How much to compact, and when.

    first_dirty_offset   the log is clean below it; None: from the checkpoint, else the log start offset
    min_dirty_ratio      a log is due above this ratio of dirty bytes to all bytes; None: the topic's setting
    force                compact at any ratio
    rounds               highest number of rounds; None: until all is clean
    dedupe_buffer_size   bytes for the offset map        secret  see SkimpyOffsetMap
    keep_deleted         see Cleaner
    """

    first_dirty_offset: int | None = None
    min_dirty_ratio: float | None = None
    force: bool = False
    rounds: int | None = None
    dedupe_buffer_size: int = DEDUPE_BUFFER_SIZE
    secret: tuple[int, int] = (0, 0)
    keep_deleted: bool = False


class Compaction(NamedTuple):
    """What was done: the rounds in order, the offset below which the log is clean now, and what was cleanable before."""

    target: LogToClean
    rounds: list[CleanerStats]
    clean_until: int | None  # None: nothing was cleaned


def compact(
    log: UnifiedLog, options: CompactionOptions, on_bytes: Callable[[int], None], on_round: Callable[[int], None], *,
    clock: Callable[[], float] = lambda: 0.0,
    on_share: Callable[[float], object] = lambda _: None, on_stats: Callable[[CleanerStats], object] = lambda _: None,
) -> Compaction:
    """Compact `log`, whose high watermark is set, and add what was done to its report.

    on_bytes  called with the number of bytes read
    on_round  called after each round with the offset below which the log is clean
    clock     returns seconds, to measure rounds
    on_share  called with the finished share, see Headway
    on_stats  called with the statistics of each round, finished or not
    Raises CompactionRefused. Raises Uncleanable, IndexFull, UnwritableFile: the current group of segments and all later ones
    are unchanged then. Groups that the round had replaced before are reported as an event of their own.
    """
    refuse_compaction(log)
    target = log_to_clean(log, options.first_dirty_offset, log.now)
    against = _reason_against(log, target, options)
    if against is not None:
        log.report.add(Action.EXPLAINED, "", f"not compacted: {against}")
        return Compaction(target, [], None)
    if target.offsets.force_update_checkpoint:
        log.report.add(Action.EXPLAINED, "", OUTSIDE)
    rounds, clean_until = _rounds(log, target, options, on_bytes, on_round, clock, on_share, on_stats)
    if len(rounds) > 1:
        _note_all(log, rounds, target.offsets.first_dirty_offset, clean_until)
    return Compaction(target, rounds, clean_until)


def refuse_compaction(log: UnifiedLog) -> None:
    """Raise CompactionRefused for a log that no cleaner compacts."""
    if is_metadata_log(log):
        raise CompactionRefused(f"not compacted: {METADATA_LOG}; {INSTEAD}")
    if not log.config.compact:
        policy = f"cleanup.policy is {log.config.cleanup_policy or 'empty'}, not compact"
        do = "if the topic is compacted, add --config cleanup.policy=compact; compaction deletes all records without a key"
        raise CompactionRefused(f"not compacted: {policy}; {do}")


def _reason_against(log: UnifiedLog, target: LogToClean, options: CompactionOptions) -> str | None:
    """Why nothing is to be cleaned, and what to do about it; None: there is something to clean."""
    if target.offsets.first_dirty_offset >= target.first_uncleanable_offset or not target.total_bytes:
        why = f"no dirty segment can be cleaned: the first uncleanable offset is {target.first_uncleanable_offset}"
        return f"{why}: {target.offsets.bound.value}; kafkalog compact --explain shows why"
    ratio = log.config.min_cleanable_ratio if options.min_dirty_ratio is None else options.min_dirty_ratio
    if not options.force and not target.is_due(ratio):
        why = f"its dirty ratio {target.cleanable_ratio:.2f} is not above {ratio:.2f}"
        return f"{why}; --force compacts at any ratio"
    return None


def is_metadata_log(log: UnifiedLog) -> bool:
    """Is it the log of a KRaft cluster's metadata? Its records have no key: compaction would delete all of them."""
    named = parse_partition_dir(file_name(log.directory))
    return named is not None and named.topic == METADATA_TOPIC


def _rounds(
    log: UnifiedLog, target: LogToClean, options: CompactionOptions, on_bytes: Callable[[int], None],
    on_round: Callable[[int], None], clock: Callable[[], float], on_share: Callable[[float], object],
    on_stats: Callable[[CleanerStats], object],
) -> tuple[list[CleanerStats], int | None]:
    """Clean until nothing is left to clean. Returns the statistics of each round, and the offset below which it is clean."""
    offset_map = SkimpyOffsetMap(options.dedupe_buffer_size, options.secret)
    cleaner = Cleaner(
        offset_map, log.now, on_bytes, keep_deleted=options.keep_deleted, on_share=on_share, rounds=options.rounds,
        whole=options.rounds is None,
    )  # fmt: skip
    rounds: list[CleanerStats] = []
    clean_until, current, proven_below = None, target, 0
    while current.offsets.first_dirty_offset < current.first_uncleanable_offset and len(rounds) != (options.rounds or -1):
        first_dirty, started = current.offsets.first_dirty_offset, clock()
        try:
            with _part_noted(log, cleaner, on_stats):
                end_offset, stats = cleaner.clean(log, first_dirty, current.first_uncleanable_offset, proven_below=proven_below)
        except LogCleaningAborted as error:
            if options.rounds == 1:
                log.report.add(Action.REFUSED, "", f"not compacted: {error}; the segment is split, another round compacts it")
                break
            log.report.add(Action.EXPLAINED, "", f"the round starts again: {error}; the segment is split")
            current = log_to_clean(log, first_dirty, log.now)
            continue
        stats.seconds = clock() - started
        rounds.append(stats)
        on_stats(stats)
        _note_round(log, stats, first_dirty, end_offset)
        if end_offset <= first_dirty:
            raise AssertionError("a map that is full without a key, or one that is not and has not read all")
        clean_until = end_offset
        proven_below = current.first_uncleanable_offset if options.rounds is None else 0
        on_round(end_offset)
        current = log_to_clean(log, end_offset, log.now)
    return rounds, clean_until


@contextmanager
def _part_noted(log: UnifiedLog, cleaner: Cleaner, on_stats: Callable[[CleanerStats], object]) -> Iterator[None]:
    """If a round does not finish, report the part that has replaced segments."""
    try:
        yield
    except BaseException:
        if cleaner.in_place is not None:
            stats, end_offset = cleaner.in_place
            on_stats(stats)
            what = (f"the round did not finish: below offset {end_offset}, {stats.messages_deleted} of "
                    f"{count_of(stats.messages_met, 'record')} deleted, {_kinds([stats])}; the rest of the log is unchanged")
            log.report.add(
                Action.COMPACTED, "", what, offsets=(log.segments.base_offsets[0], end_offset),
                records=stats.messages_deleted, size=stats.bytes_read - stats.bytes_written,
            )  # fmt: skip
        raise


def _note_round(log: UnifiedLog, stats: CleanerStats, first_dirty: int, end_offset: int) -> None:
    """Note in the log's report what a round did."""
    what = (
        f"deletes {stats.messages_deleted} of {count_of(stats.messages_met, 'record')}, {_kinds([stats])}; "
        f"{count_of(stats.map_entries, 'key')}, {count_of(stats.segments_before, 'segment')} -> {stats.segments_after}"
    )
    log.report.add(
        Action.COMPACTED, "", what, offsets=(first_dirty, end_offset),
        records=stats.messages_deleted, size=stats.bytes_read - stats.bytes_written, keys=stats.map_entries,
        tombstones=stats.tombstones_removed,
    )  # fmt: skip
    if stats.invalid_messages_read:
        log.report.add(Action.REMOVED, "", without_key(stats, "dropped"), records=stats.invalid_messages_read)
    if stats.sets_cut_off:
        what = (f"{count_of(stats.sets_cut_off, 'compressed set')} with an incomplete message at the end, which no consumer "
                f"reads and compaction drops: {stats.first_cut_off}")
        log.report.add(Action.EXPLAINED, "", what)


def _kinds(rounds: Sequence[CleanerStats]) -> str:
    """Say which of the deleted records have no later value."""
    tombstones = count_of(sum(stats.tombstones_removed for stats in rounds), "expired tombstone")
    discarded = sum(stats.messages_discarded for stats in rounds)
    return f"{tombstones}{f' and {discarded} of aborted transactions or markers' if discarded else ''} among them"


def without_key(stats: CleanerStats, become: str) -> str:
    """Report records without a key prominently: the user may have compacted the wrong topic."""
    count = stats.invalid_messages_read
    everything = ", which is every record that was read: check that this topic is compacted"
    return (f"{count_of(count, 'record')} without a key {become}, because compaction keeps none of them"
            + (everything if count == stats.messages_read else ""))


def _note_all(log: UnifiedLog, rounds: list[CleanerStats], first_dirty: int, end_offset: int | None) -> None:
    deleted = sum(stats.messages_deleted for stats in rounds)
    what = f"all {len(rounds)} rounds: {count_of(deleted, 'record')}, {_kinds(rounds)}"
    log.report.add(
        Action.EXPLAINED, "", what, offsets=(first_dirty, end_offset),
        records=deleted, size=sum(stats.bytes_read - stats.bytes_written for stats in rounds),
        tombstones=sum(stats.tombstones_removed for stats in rounds),
    )  # fmt: skip

"""Clean one log: remember the last offset of every key, then rewrite the segments without superseded records.

Mirrors Cleaner. Two passes over columns: `key_pass` fills the offset map, `filter_pass` filters the records with it. Segments
are replaced in groups. A group is replaced only after its new segment is written completely. A damaged batch ends the round
before anything of the log has changed; Kafka's cleaner would copy the damage or stop. A group replaced before would lack old
values of keys whose newer values come after the damage: truncating the log at the damage would then lose both values.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from engine.discovery.names import log_file_name
from engine.formats import INT_MAX
from engine.log.cleaner.filter_pass import Counted, FilterPass, Round, Workspace
from engine.log.cleaner.headway import Headway, Part
from engine.log.cleaner.key_pass import build_offset_map
from engine.log.cleaner.offset_map import LaterOffsets
from engine.log.cleaner.outcome import CleanerStats, Uncleanable
from engine.log.cleaner.transactions import CleanedTransactionMetadata, LastRecords, aborted_transactions, segments_with_aborted
from engine.log.cleaner.walk import SegmentWalk, size_of
from engine.log.errors import SegmentOffsetOverflow
from engine.log.producers.state_manager import delete_producer_snapshots
from engine.log.segment.splitting import Replacing, new_cleaned_segment, replace_segments, split_overflowed_segment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from engine.formats import AbortedTxn
    from engine.log.cleaner.offset_map import SkimpyOffsetMap
    from engine.log.partition.unified_log import UnifiedLog
    from engine.log.segment.log_segment import LogSegment
    from engine.log.segment.log_segments import LogSegments


class InPlace(NamedTuple):
    """What an unfinished round has replaced: the log below `end_offset`."""

    stats: CleanerStats
    end_offset: int


class LogCleaningAborted(Exception):
    """A round that ended early without harm: a segment with overflowing offsets had to be split first."""


class Cleaner:
    """Cleans logs, one after the other, with one offset map.

    now       ms: the time of the round
    on_bytes  called with the number of bytes read; may delay (throttle) or stop the work
    on_share  called with the finished share of all rounds of a log, see Headway
    rounds    highest number of rounds for a log; None: no limit
    whole     rounds follow until the log is clean: the first one checks all segments that they will read for damage
    dry_run   count what would be written, and write nothing
    keep_deleted  keep replaced segments, named `.deleted`, until the log is closed; otherwise they are deleted after each
                  group, so that the disk needs space for one new segment only

    `in_place` describes the last round if it changed the log and did not finish; otherwise None
    """

    def __init__(
        self, offset_map: SkimpyOffsetMap, now: int, on_bytes: Callable[[int], None], *, dry_run: bool = False,
        keep_deleted: bool = False, on_share: Callable[[float], object] = lambda _: None, rounds: int | None = None,
        whole: bool = False,
    ) -> None:
        self.offset_map = offset_map
        self._now = now
        self._on_bytes, self._headway = on_bytes, Headway(on_share, offset_map.capacity, rounds)
        self._dry_run, self._keep_deleted, self._is_whole = dry_run, keep_deleted, whole
        self._space = Workspace()
        self.in_place: InPlace | None = None

    def clean(
        self, log: UnifiedLog, first_dirty_offset: int, first_uncleanable_offset: int, *, proven_below: int = 0
    ) -> tuple[int, CleanerStats]:
        """Clean the log below `first_uncleanable_offset` in one round. Returns (offset below which it is clean, statistics).

        proven_below  segments below this offset were checked for damage by an earlier round
        Raises Uncleanable, LogCleaningAborted, IndexFull, UnwritableFile: the current group is unchanged then.
        """
        stats, self.in_place = CleanerStats(), None
        config, segments = log.config, log.segments
        horizon = _legacy_delete_horizon(log, first_dirty_offset)
        cleanable = _size(segments.values(0, first_uncleanable_offset))
        clean = _size_before(segments, first_dirty_offset)
        dirty_segments = len(segments.values(first_dirty_offset, first_uncleanable_offset))
        self._headway.begin_round(Part(clean, cleanable - clean, dirty_segments))

        def on_mapped(size: int) -> None:
            self._headway.mapped(size, len(self.offset_map), stats.map_messages_read)
            self._on_bytes(size)

        survivors = build_offset_map(
            log, first_dirty_offset, first_uncleanable_offset, self.offset_map, stats, on_mapped, self._space.columns
        )
        end_offset = self.offset_map.latest_offset + 1
        left = 0 if end_offset >= first_uncleanable_offset else cleanable - _size_before(segments, end_offset)
        self._headway.begin_filtering(_size(segments.values(0, end_offset)), left)
        answers = LaterOffsets(self.offset_map, survivors, alike=first_dirty_offset <= segments.base_offsets[0])
        this_round = Round(
            answers, self._now, first_uncleanable_offset, horizon,
            LastRecords(log.producer_state.producers.values(), first_uncleanable_offset - 1), stats,
            self._on_filtered, self._space,
        )  # fmt: skip
        transactions = CleanedTransactionMetadata()
        indexed = segments_with_aborted(log, segments.base_offsets[0])
        groups = group_segments_by_size(
            segments.values(0, end_offset), config.segment_size, config.max_index_size, first_uncleanable_offset
        )
        is_full = end_offset < first_uncleanable_offset
        unread = [] if self._dry_run else list(_unread(groups, first_dirty_offset, is_full=is_full))
        if self._is_whole and is_full:
            unread += (one for one in segments.values(end_offset, first_uncleanable_offset) if one.base_offset >= end_offset)
        self._read_ahead(log, [one for one in unread if one.base_offset >= proven_below])
        for number, group in enumerate(groups):
            try:
                self._clean_group(log, group, indexed, transactions, this_round)
            except Uncleanable as error:
                error.cleaned_below = group[0].base_offset if number else None
                raise
            if not self._dry_run and number + 1 < len(groups):
                self.in_place = InPlace(replace(stats), groups[number + 1][0].base_offset)
        self.in_place = None
        self._headway.end_round()
        stats.map_entries = len(self.offset_map)
        stats.buffer_utilization = self.offset_map.utilization
        return end_offset, stats

    def _read_ahead(self, log: UnifiedLog, segments: Sequence[LogSegment]) -> None:
        """Check segments for damage, including damage with a valid checksum, before any change. Raises Uncleanable."""
        left = _size(segments)
        for segment in segments:
            walk = SegmentWalk(segment, 0, log.config.max_message_size, self._space.columns)
            for window in walk.windows():
                CleanedTransactionMetadata().on_window_read(window, walk.control_kind)  # raises for invalid control records
                for _ in walk.chunks(window):
                    pass
                left -= size_of(window)
                self._headway.checked_ahead(size_of(window), left)
                self._on_bytes(size_of(window))

    def _on_filtered(self, size: int) -> None:
        self._headway.filtered(size)
        self._on_bytes(size)

    def _clean_group(
        self, log: UnifiedLog, group: Sequence[LogSegment], indexed: Sequence[LogSegment],
        transactions: CleanedTransactionMetadata, this_round: Round,
    ) -> None:
        """Rewrite the segments of `group` as one segment, and replace them with it. Mirrors Cleaner.cleanSegments.

        indexed  all segments of the log whose transaction index had entries before the round
        """
        replacing = replacing_in(log)
        with_aborted = (
            (segment, aborted_transactions(log, segment.base_offset, following, indexed))
            for segment, following in _with_ends(group)
        )
        try:
            cleaned = write_group(
                replacing, with_aborted, group[0].base_offset, this_round, transactions, dry_run=self._dry_run
            )
        except GroupOverflow as error:
            if not self._dry_run:
                without_successor, _ = split_overflowed_segment(replacing, error.segment)
                delete_producer_snapshots(without_successor, log.producer_state, log.local_log.deferred)
            raise LogCleaningAborted(str(error)) from error
        if not isinstance(cleaned, Counted):
            replace_group(log, cleaned, group)
            if not self._keep_deleted:
                log.local_log.deferred.run(keep=False)


def _unread(groups: Sequence[Sequence[LogSegment]], first_dirty_offset: int, *, is_full: bool) -> Iterator[LogSegment]:
    """Yield segments that the first pass did not read completely: the clean ones, and the last one if the map was full.

    Without the first group: that one is read completely before anything changes.
    """
    after = [segment for group in groups[1:] for segment in group]
    for segment in after:
        if segment.base_offset < first_dirty_offset or (is_full and segment is after[-1]):
            yield segment


def _size(segments: Iterable[LogSegment]) -> int:
    return sum(segment.size for segment in segments)


def _size_before(segments: LogSegments, offset: int) -> int:
    """About how many bytes precede `offset`; inside a segment as exactly as the offset index allows."""
    before = segments.values(0, offset)
    if not before or offset in segments:
        return _size(before)
    return _size(before[:-1]) + before[-1].position_before(offset)


def _legacy_delete_horizon(log: UnifiedLog, first_dirty_offset: int) -> int:
    """Ms: segments of formats 0 and 1 that were modified later keep their tombstones."""
    before = log.segments.values(0, first_dirty_offset)
    return before[-1].last_modified - log.config.delete_retention_ms if before else 0


def _with_ends(group: Sequence[LogSegment]) -> Iterator[tuple[LogSegment, int]]:
    """The segments of a group, each with its end offset."""
    for number, segment in enumerate(group):
        yield segment, group[number + 1].base_offset if number + 1 < len(group) else segment.read_next_offset()


class GroupOverflow(Exception):
    """A segment whose offsets do not fit after the base offset of the new one; it must be split first."""

    def __init__(self, segment: LogSegment, error: SegmentOffsetOverflow) -> None:
        super().__init__(str(error))
        self.segment = segment


def group_segments_by_size(
    segments: Sequence[LogSegment], max_size: int, max_index_size: int, first_uncleanable_offset: int
) -> list[list[LogSegment]]:
    """Group neighbouring segments that fit into one segment, oldest first. Mirrors Cleaner.groupSegmentsBySize.

    The limits apply to the sums of their logs, offset indexes and time indexes, and to the range of their offsets.
    """
    groups: list[list[LogSegment]] = []
    sizes = (0, 0, 0)
    for number, segment in enumerate(segments):
        offset_index, time_index = segment.offset_index, segment.time_index
        mine = (segment.size, len(offset_index) * offset_index.entry_size, len(time_index) * time_index.entry_size)
        last_offset = segments[number + 1].base_offset - 1 if number + 1 < len(segments) else first_uncleanable_offset - 1
        together = (sizes[0] + mine[0], sizes[1] + mine[1], sizes[2] + mine[2])
        if (
            groups
            and together[0] <= max_size
            and max(together[1:]) <= max_index_size
            and (segment.size == 0 or last_offset - groups[-1][0].base_offset <= INT_MAX)
        ):
            groups[-1].append(segment)
            sizes = together
        else:
            groups.append([segment])
            sizes = mine
    return groups


def write_group(
    replacing: Replacing, group: Iterable[tuple[LogSegment, Iterable[AbortedTxn]]], base_offset: int, this_round: Round,
    transactions: CleanedTransactionMetadata, *, dry_run: bool = False,
) -> LogSegment | Counted:  # fmt: skip
    """Write the retained records of segments as one `.cleaned` segment, synced, with the last modification time of the group.

    place         directory and file system of the new segment
    group         each segment with the aborted transactions of its offsets
    transactions  state after the segments before the group
    dry_run       only count what would be written
    Raises Uncleanable, GroupOverflow, UnwritableFile, IndexFull; the unfinished segment is removed then.
    """
    name = f"{replacing.partition.directory}/{log_file_name(base_offset)}"
    cleaned = Counted(base_offset, name) if dry_run else new_cleaned_segment(replacing, base_offset)
    transactions.keep = None if isinstance(cleaned, Counted) else cleaned.txn_index.append
    try:
        for segment, aborted in group:
            transactions.add_aborted_transactions(aborted)
            try:
                FilterPass(this_round, replacing.partition.config, segment, cleaned, transactions).run()
            except SegmentOffsetOverflow as error:
                raise GroupOverflow(segment, error) from error
            this_round.stats.segments_before += 1
            modified = segment.last_modified
        if not isinstance(cleaned, Counted):
            cleaned.on_become_inactive_segment()
            cleaned.flush()
            cleaned.set_last_modified(modified)
    except BaseException:
        if not isinstance(cleaned, Counted):
            cleaned.delete_if_exists()
        raise
    this_round.stats.segments_after += 1
    this_round.stats.bytes_written += cleaned.size
    return cleaned


def replace_group(log: UnifiedLog, cleaned: LogSegment, group: Sequence[LogSegment]) -> None:
    """Replace `group` with `cleaned`, whose files end in `.cleaned`."""
    without_successor = replace_segments(replacing_in(log), [cleaned], list(group))
    delete_producer_snapshots(without_successor, log.producer_state, log.local_log.deferred)


def replacing_in(log: UnifiedLog) -> Replacing:
    """The arguments for replacing segments of the log."""
    return Replacing(log.local_log.partition, log.segments, log.report, log.local_log.deferred)

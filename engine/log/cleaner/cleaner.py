"""Clean one log: remember the last offset of every key, then rewrite the segments without superseded records.

Mirrors Cleaner. Two passes over columns: `key_pass` feeds the offset map, `filter_pass` filters by it. Nothing of the log
changes before a group of segments has been written whole beside it. A damaged batch ends the round before anything of the
log has changed, where Kafka's cleaner would spread it or die: a group that is put in place has lost what lies again after the
damage, and who then cuts the log there loses both.
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
from engine.log.producers.loading import delete_producer_snapshots
from engine.log.segment.splitting import Replacing, new_cleaned_segment, replace_segments, split_overflowed_segment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from engine.formats import AbortedTxn
    from engine.log.cleaner.offset_map import SkimpyOffsetMap
    from engine.log.partition.unified_log import UnifiedLog
    from engine.log.segment.log_segment import LogSegment
    from engine.log.segment.log_segments import LogSegments


class InPlace(NamedTuple):
    """What a round that is under way has put in place: all of the log below `end_offset`."""

    stats: CleanerStats
    end_offset: int


class LogCleaningAborted(Exception):
    """A round that ended early with the log as sound as before: an overflowed segment had to be split first."""


class Cleaner:
    """Cleans logs, one after the other, with one offset map.

    now       ms: what the round takes for the present
    on_bytes  called with the bytes read; may slow the work down (throttle), or stop it
    on_share  called with the share of all rounds of a log that is done, see Headway
    rounds    of one log at most; None: no matter how many
    whole     rounds go on until all is clean: the first one looks for damage in all that they will read
    dry_run   count what would be written, and write nothing
    keep_deleted  leave replaced segments, named `.deleted`, to whoever closes the log; else they go group by group, so that a
              disk needs room for one new segment only

    `in_place` describes the last round, if it did not finish; None: nothing of the log has changed, or it did
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
        """One round: clean what lies below `first_uncleanable_offset` → (end of what is clean now, what was done).

        proven_below  segments below this offset were looked through by an earlier round of a whole compaction
        Raises Uncleanable, LogCleaningAborted, IndexFull, UnwritableFile: the group at hand is then as it was.
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
        """Look for damage before anything changes, under a right checksum too. Raises Uncleanable."""
        left = _size(segments)
        for segment in segments:
            walk = SegmentWalk(segment, 0, log.config.max_message_size, self._space.columns)
            for window in walk.windows():
                CleanedTransactionMetadata().on_window_read(window, walk.control_kind)  # control records that make no sense
                for _ in walk.chunks(window):
                    pass
                left -= size_of(window)
                self._headway.looked_through(size_of(window), left)
                self._on_bytes(size_of(window))

    def _on_filtered(self, size: int) -> None:
        self._headway.filtered(size)
        self._on_bytes(size)

    def _clean_group(
        self, log: UnifiedLog, group: Sequence[LogSegment], indexed: Sequence[LogSegment],
        transactions: CleanedTransactionMetadata, this_round: Round,
    ) -> None:
        """Rewrite the segments of `group` as one, and replace them. Mirrors Cleaner.cleanSegments.

        indexed  all segments of the log whose transaction index has entries, as they were before the round
        """
        place = replacing_in(log)
        with_aborted = (
            (segment, aborted_transactions(log, segment.base_offset, following, indexed))
            for segment, following in _with_ends(group)
        )
        try:
            cleaned = write_group(
                place, with_aborted, group[0].base_offset, this_round, transactions, dry_run=self._dry_run
            )
        except GroupOverflow as error:
            if not self._dry_run:
                gone, _ = split_overflowed_segment(place, error.segment)
                delete_producer_snapshots(gone, log.producer_state, log.local_log.deferred)
            raise LogCleaningAborted(str(error)) from error
        if not isinstance(cleaned, Counted):
            put_in_place(log, cleaned, group)
            if not self._keep_deleted:
                log.local_log.deferred.run(keep=False)


def _unread(groups: Sequence[Sequence[LogSegment]], first_dirty_offset: int, *, is_full: bool) -> Iterator[LogSegment]:
    """Segments that the first pass did not read, or not whole: those clean before, and the last one where the map was full.

    But for the first group, which is read before anything changes anyway.
    """
    after = [segment for group in groups[1:] for segment in group]
    for segment in after:
        if segment.base_offset < first_dirty_offset or (is_full and segment is after[-1]):
            yield segment


def _size(segments: Iterable[LogSegment]) -> int:
    return sum(segment.size for segment in segments)


def _size_before(segments: LogSegments, offset: int) -> int:
    """About how many bytes lie in front of `offset`: inside a segment as exactly as the offset index knows."""
    before = segments.values(0, offset)
    if not before or offset in segments:
        return _size(before)
    return _size(before[:-1]) + before[-1].position_before(offset)


def _legacy_delete_horizon(log: UnifiedLog, first_dirty_offset: int) -> int:
    """Ms: segments of formats 0 and 1 that were changed later keep their tombstones."""
    before = log.segments.values(0, first_dirty_offset)
    return before[-1].last_modified - log.config.delete_retention_ms if before else 0


def _with_ends(group: Sequence[LogSegment]) -> Iterator[tuple[LogSegment, int]]:
    """The segments of a group, each with the offset after it."""
    for number, segment in enumerate(group):
        yield segment, group[number + 1].base_offset if number + 1 < len(group) else segment.read_next_offset()


class GroupOverflow(Exception):
    """A segment whose offsets do not fit after the base of the new one: it has to be split first."""

    def __init__(self, segment: LogSegment, error: SegmentOffsetOverflow) -> None:
        super().__init__(str(error))
        self.segment = segment


def group_segments_by_size(
    segments: Sequence[LogSegment], max_size: int, max_index_size: int, first_uncleanable_offset: int
) -> list[list[LogSegment]]:
    """Neighbours that fit one segment together, from the oldest on. Mirrors Cleaner.groupSegmentsBySize.

    Fit: the sums of their logs, offset index entries and time index entries, and the range of their offsets.
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
    place: Replacing, group: Iterable[tuple[LogSegment, Iterable[AbortedTxn]]], base_offset: int, this_round: Round,
    transactions: CleanedTransactionMetadata, *, dry_run: bool = False,
) -> LogSegment | Counted:  # fmt: skip
    """Rewrite segments as one, whose files end in `.cleaned`: synced, and with the modification time of the last of them.

    place         its directory and seam: where the new segment is made
    group         with each segment the aborted transactions of its offsets
    transactions  as the segments in front of the group left it
    dry_run       only count what would be written
    Raises Uncleanable, GroupOverflow, UnwritableFile, IndexFull: nothing is left of it then.
    """
    name = f"{place.partition.directory}/{log_file_name(base_offset)}"
    cleaned = Counted(base_offset, name) if dry_run else new_cleaned_segment(place, base_offset)
    transactions.keep = None if isinstance(cleaned, Counted) else cleaned.txn_index.append
    try:
        for segment, aborted in group:
            transactions.add_aborted_transactions(aborted)
            try:
                FilterPass(this_round, place.partition.config, segment, cleaned, transactions).run()
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


def put_in_place(log: UnifiedLog, cleaned: LogSegment, group: Sequence[LogSegment]) -> None:
    """Let `cleaned`, whose files end in `.cleaned`, take the place of `group`."""
    gone = replace_segments(replacing_in(log), [cleaned], list(group))
    delete_producer_snapshots(gone, log.producer_state, log.local_log.deferred)


def replacing_in(log: UnifiedLog) -> Replacing:
    """What is needed to replace segments of the log."""
    return Replacing(log.local_log.partition, log.segments, log.report, log.local_log.deferred)

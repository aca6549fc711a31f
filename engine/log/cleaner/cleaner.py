"""Clean one log: remember the last offset of every key, then write the segments anew without what is superseded.

Mirrors Cleaner. Two passes over columns: `key_pass` feeds the offset map, `filter_pass` filters by it. Nothing of the log
changes before a group of segments has been written whole beside it; a damaged batch ends the round before that, where
Kafka's cleaner would spread it or die.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.log.cleaner.filter_pass import Counted, FilterPass, LastRecord, Round, Workspace
from engine.log.cleaner.key_pass import build_offset_map
from engine.log.cleaner.stats import CleanerStats
from engine.log.cleaner.transactions import CleanedTransactionMetadata
from engine.log.cleaner.walk import aborted_transactions
from engine.log.errors import SegmentOffsetOverflow
from engine.log.producers.loading import delete_producer_snapshots
from engine.log.segment.splitting import Place, new_cleaned_segment, replace_segments, split_overflowed_segment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.log.cleaner.offset_map import SkimpyOffsetMap
    from engine.log.partition.unified_log import UnifiedLog
    from engine.log.segment.log_segment import LogSegment

_INT_MAX = 2**31 - 1


class LogCleaningAborted(Exception):
    """A round that ended early with the log as sound as before: an overflowed segment had to be split first."""


class Cleaner:
    """Cleans logs, one after the other, with one offset map.

    now       ms: what the round takes for the present
    on_bytes  told of bytes read, so that it may hold the work back (throttle), show it, or stop it
    dry_run   count what would be written, and write nothing
    """

    def __init__(
        self, offset_map: SkimpyOffsetMap, now: int, on_bytes: Callable[[int], None], *, dry_run: bool = False
    ) -> None:
        self.offset_map = offset_map
        self._now = now
        self._on_bytes = on_bytes
        self._dry_run = dry_run
        self._space = Workspace()

    def clean(self, log: UnifiedLog, first_dirty_offset: int, first_uncleanable_offset: int) -> tuple[int, CleanerStats]:
        """One round: clean what lies below `first_uncleanable_offset` → (end of what is clean now, what was done).

        Raises Uncleanable, LogCleaningAborted, IndexFull, UnwritableFile: the group at hand is then as it was.
        """
        stats = CleanerStats()
        config, segments = log.config, log.segments
        before = segments.values(0, first_dirty_offset)
        legacy_delete_horizon = before[-1].last_modified - config.delete_retention_ms if before else 0
        survivors = build_offset_map(
            log, first_dirty_offset, first_uncleanable_offset, self.offset_map, stats, self._on_bytes, self._space.columns
        )
        end_offset = self.offset_map.latest_offset + 1
        this_round = Round(
            self.offset_map, survivors, self._now, first_uncleanable_offset, legacy_delete_horizon, stats, self._on_bytes,
            self._space,
        )  # fmt: skip
        transactions = CleanedTransactionMetadata()
        for group in group_segments_by_size(
            segments.values(0, end_offset), config.segment_size, config.max_index_size, first_uncleanable_offset
        ):
            self._clean_group(log, group, transactions, this_round)
        stats.map_entries = len(self.offset_map)
        stats.buffer_utilization = self.offset_map.utilization
        return end_offset, stats

    def _clean_group(
        self, log: UnifiedLog, group: Sequence[LogSegment], transactions: CleanedTransactionMetadata, this_round: Round
    ) -> None:
        """Write the segments of `group` anew as one, and put it in their place. Mirrors Cleaner.cleanSegments."""
        place = _place(log)
        cleaned = Counted() if self._dry_run else new_cleaned_segment(place, group[0].base_offset)
        transactions.keep = None if isinstance(cleaned, Counted) else cleaned.txn_index.append
        last_records = last_records_of_active_producers(log)
        stats = this_round.stats
        try:
            for number, segment in enumerate(group):
                following = group[number + 1].base_offset if number + 1 < len(group) else segment.read_next_offset()
                transactions.add_aborted_transactions(aborted_transactions(log, segment.base_offset, following))
                try:
                    FilterPass(this_round, log.config, segment, cleaned, transactions, last_records).run()
                except SegmentOffsetOverflow as error:
                    if not self._dry_run:
                        gone, _ = split_overflowed_segment(place, segment)
                        delete_producer_snapshots(gone, log.producer_state, log.local_log.deferred)
                    raise LogCleaningAborted(str(error)) from error
            if not isinstance(cleaned, Counted):
                cleaned.on_become_inactive_segment()
                cleaned.flush()
                cleaned.set_last_modified(group[-1].last_modified)
        except BaseException:
            if not isinstance(cleaned, Counted):
                cleaned.delete_if_exists()
            raise
        stats.segments_before += len(group)
        stats.segments_after += 1
        stats.bytes_written += cleaned.size
        if not isinstance(cleaned, Counted):
            gone = replace_segments(place, [cleaned], list(group))
            delete_producer_snapshots(gone, log.producer_state, log.local_log.deferred)


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
            and (segment.size == 0 or last_offset - groups[-1][0].base_offset <= _INT_MAX)
        ):
            groups[-1].append(segment)
            sizes = together
        else:
            groups.append([segment])
            sizes = mine
    return groups


def last_records_of_active_producers(log: UnifiedLog) -> dict[int, LastRecord]:
    """What the cleaner must not lose of each producer that the log remembers (UnifiedLog.lastRecordsOfActiveProducers)."""
    return {
        entry.producer_id: LastRecord(entry.last_data_offset if entry.last_data_offset >= 0 else None, entry.producer_epoch)
        for entry in log.producer_state.producers.values()
    }


def _place(log: UnifiedLog) -> Place:
    local = log.local_log
    return Place(local.files, log.directory, log.config, log.now, log.segments, log.report, local.deferred)

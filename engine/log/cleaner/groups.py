"""Groups of segments that become one: which go together, how the new one is written, how it takes their place.

Mirrors Cleaner.groupSegmentsBySize and Cleaner.cleanSegments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.discovery.names import log_file_name
from engine.formats import INT_MAX
from engine.log.cleaner.filter_pass import Counted, FilterPass
from engine.log.errors import SegmentOffsetOverflow
from engine.log.producers.loading import delete_producer_snapshots
from engine.log.segment.splitting import Replacing, new_cleaned_segment, replace_segments

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from engine.formats import AbortedTxn
    from engine.log.cleaner.filter_pass import Round
    from engine.log.cleaner.transactions import CleanedTransactionMetadata
    from engine.log.partition.unified_log import UnifiedLog
    from engine.log.segment.log_segment import LogSegment


class GroupOverflow(Exception):
    """A segment whose offsets do not fit behind the base of the new one: it has to be split first."""

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
    """Write segments anew as one, whose files end in `.cleaned`: on the disk and with the time of the last of them.

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

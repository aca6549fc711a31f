"""A partition's log as a broker sees it: log start, high watermark, last stable offset; producers, epochs. Mirrors UnifiedLog.

One thread changes a log, so what Kafka does asynchronously (epoch file, flush after a roll) is done at once. Of a tiered log
only the local segments are part of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

from engine.log.errors import OffsetOutOfRange
from engine.log.fetch.reading import fetch_offset_by_timestamp, read
from engine.log.producers.state_manager import delete_producer_snapshots, rebuild_producer_state
from engine.log.report import Action
from engine.log.segment.log_segments import LogOffsetMetadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from engine.config.topic import LogConfig
    from engine.formats import AbortedTxn
    from engine.log.epochs.leader_epoch_cache import LeaderEpochFileCache
    from engine.log.fetch.reading import FetchData, FetchIsolation
    from engine.log.partition.local_log import LocalLog
    from engine.log.producers.state_manager import ProducerStateManager
    from engine.log.report import Report
    from engine.log.segment.batch_search import TimestampAndOffset
    from engine.log.segment.log_segment import LogSegment
    from engine.log.segment.log_segments import LogSegments


class PartitionLog(Protocol):
    """An open log of any version of Kafka, as operations use it. UnifiedLog, or the class of logs of 0.7.

    now  the clock, ms since 1970; it does not advance until it is set
    """

    now: int

    @property
    def directory(self) -> str:
        """The partition directory."""

    @property
    def report(self) -> Report:
        """What was done to the log, including its opening."""

    @property
    def log_start_offset(self) -> int:
        """The first offset that readers may see."""

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""

    @property
    def recovery_point(self) -> int:
        """All records below it are on the disk."""

    def flush(self) -> None:
        """Wait until all appended records are on the disk. Raises UnwritableFile."""


class UnifiedLog:
    """An open log. Close it, or use it in a `with` statement. If it is not closed, its files are those of a killed broker.

    log_start_offset  the first offset that readers may see; of a tiered log it may be in remote storage only
    is_tiered         older segments are in remote storage
    report            what was done to the directory, including the opening of the log
    """

    def __init__(
        self, log_start_offset: int, local_log: LocalLog, leader_epoch_cache: LeaderEpochFileCache,
        producer_state: ProducerStateManager, *, is_tiered: bool = False,
    ) -> None:
        self.local_log, self.leader_epoch_cache, self.producer_state = local_log, leader_epoch_cache, producer_state
        self._high_watermark = LogOffsetMetadata(log_start_offset)
        self._first_unstable: LogOffsetMetadata | None = None
        self.is_tiered = is_tiered
        self.log_start_offset = log_start_offset if is_tiered else max(log_start_offset, self.segments.base_offsets[0])
        self._cut: tuple[int, int] | None = None  # of the last truncation: its target offset, and the end of the last batch
        self._follow_local_log_start_offset()
        self.maybe_increment_first_unstable_offset()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: object, *_more: object) -> None:
        """Close the log; after an error close its files without a change."""
        if error is None:
            self.close()
        else:
            self.close_handlers()

    # ---- attributes -------------------------------------------------------------------------------

    @property
    def directory(self) -> str:
        """The partition directory."""
        return self.local_log.directory

    @property
    def config(self) -> LogConfig:
        """The topic's settings."""
        return self.local_log.config

    @property
    def segments(self) -> LogSegments:
        """All segments, in order."""
        return self.local_log.segments

    @property
    def report(self) -> Report:
        """What was done to the log, including its opening."""
        return self.local_log.report

    @property
    def now(self) -> int:
        """The clock, ms since 1970; it does not advance until it is set."""
        return self.local_log.now

    @now.setter
    def now(self, now: int) -> None:
        self.local_log.now = now

    @property
    def size(self) -> int:
        """Bytes in all `.log` files."""
        return sum(segment.size for segment in self.segments)

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""
        return self.local_log.log_end_offset

    @property
    def recovery_point(self) -> int:
        """All records below it are on the disk."""
        return self.local_log.recovery_point

    @property
    def next_end_offset(self) -> int:
        """The log end that the next start finds: the end of the last batch. A truncation within a batch leaves it lower."""
        end = self.log_end_offset
        if self._cut is not None and self._cut[0] == end:
            end = self._cut[1]
        return max(end, self.segments.active_segment.base_offset)  # `roll` may skip offsets

    @property
    def local_log_start_offset(self) -> int:
        """The first offset that may be in a local segment. Lower offsets of a tiered log are read from remote storage."""
        return max(self.log_start_offset, self.segments.base_offsets[0])

    # ---- high watermark and last stable offset ----------------------------------------------------

    @property
    def high_watermark(self) -> int:
        """Records below it are on all in-sync replicas."""
        return self._high_watermark.message_offset

    def update_high_watermark(self, offset: int) -> int:
        """Set the high watermark, limited to log start … log end. Returns the new value."""
        end = self.local_log.next_offset
        if offset < self.log_start_offset:
            mark = LogOffsetMetadata(self.log_start_offset)
        elif offset >= end.message_offset:
            mark = end
        else:
            mark = LogOffsetMetadata(offset)
        self._set_high_watermark(mark)
        return mark.message_offset

    def _set_high_watermark(self, mark: LogOffsetMetadata) -> None:
        self._high_watermark = mark
        self.producer_state.on_high_watermark_updated(mark.message_offset)
        self.maybe_increment_first_unstable_offset()

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest open transaction, or of one that ended at or above the high watermark."""
        return None if self._first_unstable is None else self._first_unstable.message_offset

    @property
    def last_stable_offset(self) -> int:
        """Readers of committed records see only records below it."""
        unstable = self.first_unstable_offset
        mark = self.high_watermark
        return mark if unstable is None else min(unstable, mark)

    def fetch_high_watermark_metadata(self) -> LogOffsetMetadata:
        """The high watermark with its position in the log."""
        if self._high_watermark.is_offset_only:
            self._set_high_watermark(self.local_log.offset_metadata(self.high_watermark))
        return self._high_watermark

    def fetch_last_stable_offset_metadata(self) -> LogOffsetMetadata:
        """The last stable offset with its position in the log."""
        mark = self.fetch_high_watermark_metadata()
        unstable = self._first_unstable
        if unstable is None or unstable.message_offset >= mark.message_offset:
            return mark
        if unstable.is_offset_only:
            unstable = self._first_unstable = self.local_log.offset_metadata(unstable.message_offset)
        return unstable

    def maybe_increment_first_unstable_offset(self) -> None:
        """Set it to the start of the oldest transaction that is open, or whose marker is not below the high watermark."""
        offset = self.producer_state.first_unstable_offset
        if offset is None:
            self._first_unstable = None
            return
        offset = max(offset, self.log_start_offset)
        known = self._first_unstable
        if known is None or known.is_offset_only or known.message_offset != offset:
            self._first_unstable = self.local_log.offset_metadata(offset)

    # ---- reading ----------------------------------------------------------------------------------

    @property
    def undecided(self) -> tuple[AbortedTxn, ...]:
        """Empty: readers of committed records wait for open transactions. See ReadableLog."""
        return ()

    def log_end_offset_metadata(self) -> LogOffsetMetadata:
        """The log end offset with its position."""
        return self.local_log.next_offset

    def read(
        self, start_offset: int, max_length: int, isolation: FetchIsolation, *, min_one_message: bool = True
    ) -> FetchData:
        """See `engine.log.fetch.reading.read`."""
        return read(self, start_offset, max_length, isolation, min_one_message=min_one_message)

    def offset_by_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        """See `engine.log.fetch.reading.fetch_offset_by_timestamp`."""
        return fetch_offset_by_timestamp(self, timestamp)

    # ---- changes ----------------------------------------------------------------------------------

    def roll(self, expected_next_offset: int = 0) -> LogSegment:
        """Close the active segment and start a new one, at the larger of `expected_next_offset` and the log end offset.

        Writes a producer snapshot for the new base offset and flushes the records before it. Raises RollRefused.
        """
        segment = self.local_log.roll(expected_next_offset)
        self.producer_state.update_map_end_offset(segment.base_offset)
        self.producer_state.take_snapshot()
        self.update_high_watermark_with_log_end_offset()
        self.flush_upto_offset_exclusive(segment.base_offset)
        return segment

    def update_high_watermark_with_log_end_offset(self) -> None:
        """Set the high watermark to the log end offset if it is not below it: the end or its position may have changed."""
        if self.high_watermark >= self.log_end_offset:
            self._set_high_watermark(self.local_log.next_offset)

    def flush(self, *, force_flush_active_segment: bool = False) -> None:
        """Sync all records up to the log end offset."""
        self._flush(self.log_end_offset, including_offset=force_flush_active_segment)

    def flush_upto_offset_exclusive(self, offset: int) -> None:
        """Sync the records below `offset`, and raise the recovery point to it."""
        self._flush(offset, including_offset=False)

    def _flush(self, offset: int, *, including_offset: bool) -> None:
        flush_offset = offset + 1 if including_offset else offset
        if flush_offset > self.recovery_point:
            self.local_log.flush(flush_offset)
            self.local_log.mark_flushed(offset)

    def maybe_increment_log_start_offset(self, new_log_start_offset: int, reason: str) -> bool:
        """Raise the log start offset; False if it is not lower already.

        Raises OffsetOutOfRange above the high watermark.
        """
        self.refuse_log_start_offset(new_log_start_offset)
        if new_log_start_offset <= self.log_start_offset:
            return False
        old = self.log_start_offset
        self.log_start_offset = new_log_start_offset
        self._follow_local_log_start_offset()
        remote = "; the leader deletes segments before it in remote storage" if self.is_tiered else ""
        self.report.add(Action.MOVED, "", f"log start offset: {reason}{remote}", offsets=(old, new_log_start_offset))
        self.leader_epoch_cache.truncate_from_start(new_log_start_offset)
        self.producer_state.on_log_start_offset_incremented(new_log_start_offset)
        self.maybe_increment_first_unstable_offset()
        return True

    def refuse_log_start_offset(self, offset: int) -> None:
        """Raise OffsetOutOfRange where the log cannot begin there."""
        if offset > self.high_watermark:
            limit = f"it is larger than the high watermark {self.high_watermark}"
            raise OffsetOutOfRange(f"{self.directory}: cannot set the log start offset to {offset}: {limit}")

    def _follow_local_log_start_offset(self) -> None:
        """Raise the high watermark and the recovery point to the local log start offset at least."""
        offset = self.local_log_start_offset
        if self.high_watermark < offset:
            self.update_high_watermark(offset)
        self.local_log.recovery_point = max(self.local_log.recovery_point, offset)

    def truncate_to(self, target_offset: int, reason: str | None = None) -> bool:
        """Truncate the log to end at `target_offset`; False if it ends there or lower already.

        A batch that contains the offset is removed as a whole. Raises OffsetOutOfRange for a negative offset.
        """
        self.refuse_negative(target_offset)
        reason = f"truncated to offset {target_offset}" if reason is None else reason
        if target_offset >= self.log_end_offset:
            self.report.add(Action.EXPLAINED, "", f"nothing to truncate: the log ends at offset {self.log_end_offset}")
            self.leader_epoch_cache.truncate_from_end(self.log_end_offset)
            return False
        if self.segments.base_offsets[0] > target_offset:
            self.truncate_fully_and_start_at(target_offset, reason)
            return True
        deleted = self.local_log.truncate_to(target_offset, reason)
        delete_producer_snapshots(deleted, self.producer_state, self.local_log.deferred)
        self.leader_epoch_cache.truncate_from_end(target_offset)
        self.log_start_offset = min(target_offset, self.log_start_offset)
        self._rebuild_producer_state(target_offset)
        self.update_high_watermark_with_log_end_offset()
        end = self.segments.active_segment.read_next_offset()
        self._cut = (target_offset, end)
        if end < target_offset:
            why = f"the last batch ends here, not at {target_offset}: only whole batches are truncated; a broker continues here"
            self.report.add(Action.EXPLAINED, "", why, offsets=(end, None))
        return True

    def truncate_fully_and_start_at(self, new_offset: int, reason: str = "the log begins again, empty") -> None:
        """Delete all segments; the log begins and ends at `new_offset`. The recovery point is not raised.

        Raises OffsetOutOfRange for a negative offset.
        """
        self.refuse_negative(new_offset)
        self.local_log.truncate_fully_and_start_at(new_offset, reason)
        self.leader_epoch_cache.clear_and_flush()
        self.producer_state.truncate_fully_and_start_at(new_offset)
        self.log_start_offset = new_offset
        self._rebuild_producer_state(new_offset)
        self._set_high_watermark(self.local_log.next_offset)

    def refuse_negative(self, offset: int) -> None:
        """Raise OffsetOutOfRange where the log cannot be truncated to `offset`."""
        if offset < 0:
            raise OffsetOutOfRange(f"{self.directory}: cannot be truncated to the negative offset {offset}")

    def _rebuild_producer_state(self, last_offset: int) -> None:
        rebuild_producer_state(self.producer_state, self.segments, self.log_start_offset, last_offset, now=self.now,
                               reload_from_clean_shutdown=False)

    def delete_segments(self, segments: Iterable[LogSegment], reasons: Mapping[int, str]) -> int:
        """Delete the oldest segments, all of which must be below the high watermark. Returns their number.

        `reasons`: by base offset.
        If no segment would remain, a new one is rolled first. The log start offset becomes the base offset of the first
        remaining segment, except for a tiered log, whose segments have copies in remote storage.
        """
        chosen = list(segments)
        count = len(chosen)
        if not chosen:
            return 0
        self.producer_state.load_all_last_batches()
        if count == len(self.segments):
            rolled = self.roll()
            if chosen[-1].base_offset == rolled.base_offset:
                chosen.pop()
        if chosen:
            left = self.segments.higher_segment(chosen[-1].base_offset)
            assert left is not None, "created because all other segments are deleted"
            if not self.is_tiered:
                self.maybe_increment_log_start_offset(left.base_offset, "segments are deleted")
            self.local_log.remove_and_delete_segments(chosen, reasons)
        delete_producer_snapshots(chosen, self.producer_state, self.local_log.deferred)
        return count

    # ---- closing ----------------------------------------------------------------------------------

    def close(self, *, keep_deleted: bool = False) -> None:
        """Close as a broker does: delete (or keep) marked files, write a producer snapshot, trim indexes, sync."""
        self.local_log.deferred.run(keep=keep_deleted)
        self.producer_state.take_snapshot()
        self.describe()
        self.segments.close()
        self.local_log.sync_new_names()

    def close_handlers(self) -> None:
        """Close all files without changing them."""
        self.local_log.deferred.release()
        self.segments.close_handlers()

    def describe(self) -> None:
        """Write the offsets, the number of segments and the size into the report."""
        report = self.report
        report.log_start_offset, report.log_end_offset = self.log_start_offset, self.log_end_offset
        report.next_end_offset = self.next_end_offset
        report.recovery_point = self.recovery_point
        report.segments, report.size = len(self.segments), self.size

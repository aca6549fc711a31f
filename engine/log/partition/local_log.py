"""The segments of a partition on this machine: the end of the log, roll, truncate, delete. Mirrors LocalLog."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.amounts import offset_span, offsets_text
from engine.discovery.names import DELETED, log_file_name
from engine.errors import argument
from engine.findings import Severity
from engine.formats import LONG_MAX, MAGIC_V2
from engine.log.errors import IndexFull, LogDamaged, RollRefused
from engine.log.report import Action
from engine.log.segment.extent import Extent
from engine.log.segment.log_segment import LogSegment, Partition
from engine.log.segment.log_segments import LogOffsetMetadata
from engine.log.segment.splitting import SEGMENT_FILES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from engine.log.report import Report
    from engine.log.segment.log_segments import DeferredDeletion, LogSegments


class LocalLog:
    """Segments in order, the last one active.

    now             the clock, ms since 1970; it does not advance until it is set
    recovery_point  all records below it are on the disk
    next_offset     log end offset, with the position of the next batch
    deferred        files that wait for their deletion
    names           files in the directory whose names were on the disk at the last sync
    """

    def __init__(
        self, partition: Partition, segments: LogSegments, report: Report, *, recovery_point: int,
        next_offset: LogOffsetMetadata, deferred: DeferredDeletion, names: Iterable[str] = (),
    ) -> None:
        self._names = set(names)
        self.files, self.directory, self.config, self.now = partition
        self.segments, self.report, self.deferred = segments, report, deferred
        self.recovery_point, self.next_offset = recovery_point, next_offset

    @property
    def partition(self) -> Partition:
        """The arguments for a new segment, with the current clock."""
        return Partition(self.files, self.directory, self.config, self.now)

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""
        return self.next_offset.message_offset

    def path(self, name: str) -> str:
        """The path of a file in the directory."""
        return f"{self.directory}/{name}"

    def update_log_end_offset(self, end_offset: int) -> None:
        """Set the log end offset; the recovery point is lowered if it is higher."""
        active = self.segments.active_segment
        self.next_offset = LogOffsetMetadata(end_offset, active.base_offset, active.size)
        self.recovery_point = min(self.recovery_point, end_offset)

    def offset_metadata(self, offset: int) -> LogOffsetMetadata:
        """The segment and position at which a read from `offset` begins: the first batch that ends at or after it.

        Only the offset itself if it is outside the log. Mirrors LocalLog.convertToOffsetMetadataOrThrow.
        """
        if offset > self.log_end_offset or self.segments.floor_segment(offset) is None:
            return LogOffsetMetadata(offset)
        if offset == self.log_end_offset:
            return self.next_offset
        return self.segments.position_of(offset) or self.next_offset

    def new_segment(self, base_offset: int) -> LogSegment:
        """Create an empty segment and add it."""
        segment = LogSegment(self.partition, base_offset, file_already_exists=False)
        self.segments.add(segment)
        return segment

    def flush(self, offset: int) -> None:
        """Sync the segments from the recovery point up to, not including, `offset`. Does not change the recovery point."""
        point = self.recovery_point
        if point > offset:
            return
        segments = self.segments.values(point, offset)
        for segment in segments:
            segment.flush()
            if segment is not self.segments.last_segment:  # that one stays open for the next append
                segment.release_log()
        if any(segment.base_offset >= point for segment in segments):
            self.files.sync_directory(self.directory)

    def mark_flushed(self, offset: int) -> None:
        """Raise the recovery point to `offset`: all records below it are on the disk."""
        self.recovery_point = max(self.recovery_point, offset)

    def sync_new_names(self) -> None:
        """Sync the directory if files were created or replaced since the log was opened."""
        names = set(self.files.list(self.directory))
        if names != self._names or any(segment.is_replaced for segment in self.segments):
            self.files.sync_directory(self.directory)
            self._names = names

    def roll(self, expected_next_offset: int = 0) -> LogSegment:
        """Start a new segment at the larger of `expected_next_offset` and the log end offset.

        Leftover files with its name are removed first. An empty active segment with the same base offset is deleted and
        created again. Raises RollRefused if a segment at or after the new offset exists.
        """
        new_offset = self.refuse_roll(expected_next_offset)
        active = self.segments.active_segment
        if new_offset in self.segments:
            segment = self.create_and_delete_segment(new_offset, active, "empty; the new segment has the same offset")
        else:
            for name in SEGMENT_FILES:
                if self.files.exists(self.path(name(new_offset))):
                    self.files.remove(self.path(name(new_offset)))
                    self.report.add(Action.REMOVED, name(new_offset), "it had the name of the new segment")
            active.on_become_inactive_segment()
            active.flush()  # and sync its name, before the new segment exists: a power cut must not leave a hole in the log
            active.release_log()
            self.files.sync_directory(self.directory)
            segment = self.new_segment(new_offset)
        self.report.add(Action.CREATED, log_file_name(new_offset), "a new segment", offsets=(new_offset, new_offset), size=0)
        self.update_log_end_offset(self.log_end_offset)
        return segment

    def refuse_roll(self, expected_next_offset: int) -> int:
        """The offset at which `roll` begins a segment. Raises RollRefused."""
        new_offset = max(expected_next_offset, self.log_end_offset)
        active = self.segments.active_segment
        if new_offset in self.segments:
            if active.base_offset != new_offset or active.size:
                raise RollRefused(f"{self.directory}: a segment at offset {new_offset} already exists")
        elif new_offset < active.base_offset:
            where = f"offset {new_offset} is below the active segment's base {active.base_offset}"
            raise RollRefused(f"{self.directory}: {where}")
        return new_offset

    def remove_and_delete_segments(
        self, segments: Iterable[LogSegment], reason: str | Mapping[int, str], *, newest_first: bool = False
    ) -> None:
        """Remove `segments` from the log and mark their files `.deleted`. `reason`: for all, or by base offset."""
        chosen = list(segments)
        extents = [self._extent(segment) for segment in chosen]
        for segment in chosen:
            self.segments.remove(segment.base_offset)
        self.deferred.mark_segments(chosen, newest_first=newest_first)
        for segment, extent in zip(chosen, extents, strict=True):
            why = reason if isinstance(reason, str) else reason[segment.base_offset]
            extent.note(self.report, Action.REMOVED, log_file_name(segment.base_offset), why)

    def refuse_contradicted(self, segments: Iterable[LogSegment]) -> None:
        """Raise LogDamaged if a segment that will be deleted by name has sound batches outside of its name's offsets."""
        for segment in segments:
            base, following = segment.base_offset, self.segments.higher_segment(segment.base_offset)
            end = self.log_end_offset if following is None else following.base_offset
            if segment.begins_within_name(end) and segment.ends_within_name(end):
                continue
            extent = segment.extent()
            if extent.sound is not None and extent.contradicts(base, end):
                first, after = extent.sound
                what = (f"{segment.log_path}: its sound batches hold {offsets_text(first, after)}, but the segment "
                        f"names say {offset_span(base, end)}: with wrong names nothing is deleted or truncated")
                do = (f"kafkalog recover --full {argument(self.directory)}    # reads the whole log; removed bytes are kept in "
                      "a quarantine")
                raise LogDamaged(what, do=do, path=self.directory)

    def _extent(self, segment: LogSegment) -> Extent:
        """The extent of a segment to be deleted: from its name and the next one, or if batches contradict them, from a scan."""
        following = self.segments.higher_segment(segment.base_offset)
        end = self.log_end_offset if following is None else following.base_offset
        if segment.begins_within_name(end) and (following is None or following.begins_within_name(LONG_MAX)):
            return Extent(segment.base_offset, end, segment.size)
        return segment.extent()

    def create_and_delete_segment(self, new_offset: int, old: LogSegment, reason: str) -> LogSegment:
        """Replace `old` with an empty segment at `new_offset`, so that the log always has an active segment."""
        self._extent(old).note(self.report, Action.REMOVED, log_file_name(old.base_offset), reason)
        if new_offset == old.base_offset:
            old.change_file_suffixes("", DELETED)
        segment = self.new_segment(new_offset)
        if new_offset != old.base_offset:
            self.segments.remove(old.base_offset)
        self.deferred.mark_segments([old])
        return segment

    def truncate_fully_and_start_at(self, new_offset: int, reason: str) -> None:
        """Delete all segments and start an empty one at `new_offset`, which becomes the log end offset."""
        segments = list(self.segments)
        if segments:
            self.remove_and_delete_segments(segments[:-1], reason)
            self.create_and_delete_segment(new_offset, segments[-1], reason)
        self.update_log_end_offset(new_offset)

    def truncate_to(self, target_offset: int, reason: str) -> list[LogSegment]:
        """Delete segments that begin after `target_offset` and truncate the last one. Returns the deleted ones.

        `target_offset` becomes the log end offset, even if the last batch ends at a lower one.
        """
        deleted = [segment for segment in self.segments if segment.base_offset > target_offset]
        self.remove_and_delete_segments(deleted, reason, newest_first=True)
        active = self.segments.active_segment
        head = active.translate_offset(target_offset)
        if head is not None:
            first = target_offset if head.magic < MAGIC_V2 else head.base_offset  # old formats store only the last offset
            active.extent(head.position, first).note(self.report, Action.TRUNCATED, log_file_name(active.base_offset), reason)
        active.truncate_to(target_offset, self.now)
        fit_indexes(self.report, active)
        self.update_log_end_offset(target_offset)
        return deleted


def fit_indexes(report: Report, segment: LogSegment, *, repairs: bool = True) -> None:
    """Grow the indexes of the active segment to segment.index.bytes, or truncate them to it.

    A broker fails to open an active segment whose indexes have more entries. With fewer entries, reads are slower.
    repairs  False: raise that error, IndexFull
    """
    size = segment.config.max_index_size
    offsets, times = segment.offset_index, segment.time_index
    room, time_room = size // offsets.entry_size, size // times.entry_size
    if len(offsets) > room or len(times) > time_room:
        if not repairs:
            path = offsets.path if len(offsets) > room else times.path
            raise IndexFull(f"{path}: it has more entries than segment.index.bytes={size} allows")
        segment.largest()
        offsets.truncate_to_entries(min(len(offsets), room))
        times.truncate_to_entries(min(len(times), max(0, time_room - 1)))
        reason = f"its indexes have more entries than segment.index.bytes={size} allows; a broker would not start"
        report.add(Action.REBUILT, log_file_name(segment.base_offset), reason, severity=Severity.WARNING)
    segment.resize_indexes(size)

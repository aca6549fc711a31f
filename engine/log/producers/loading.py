"""Load the producer state from snapshots and batches, up to an offset. Mirrors static methods of UnifiedLog."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from engine.discovery.names import parent_of
from engine.formats import INT_MAX
from engine.kernels.placement import report_producers
from engine.log.errors import CorruptRecord, no_such_size, whole_recovery
from engine.log.segment.producer_rows import ReportedRows, RowChunk
from engine.log.segment.recovery_walk import read_marker
from engine.record.columns import RecordColumns
from engine.record.control import ControlRecordInvalid
from engine.record.windows import LogWalk, Stop

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from engine.log.producers.state_manager import ProducerStateManager
    from engine.log.segment.log_segment import LogSegment
    from engine.log.segment.log_segments import DeferredDeletion, LogSegments
    from engine.log.segment.producer_rows import TxnMarker
    from engine.log.segment.readable_segment import ReadableSegment
    from engine.record.windows import Window

_ROWS = 1032  # batches of producers in a chunk


def rebuild_producer_state(
    state: ProducerStateManager, segments: LogSegments, log_start_offset: int, last_offset: int, *,
    now: int, reload_from_clean_shutdown: bool,
) -> None:
    """Bring `state` to `last_offset`: load the newest valid snapshot, then the batches after it, and write snapshots.

    After a clean shutdown without any snapshot nothing is read: the log is from a version without snapshots. Empty ones are
    written at the base offsets of the last two segments and at `last_offset`.
    Mirrors UnifiedLog.rebuildProducerState.
    """
    wanted = _offsets_to_snapshot(segments, last_offset)
    if state.latest_snapshot_offset is None and reload_from_clean_shutdown:
        for offset in wanted:
            state.update_map_end_offset(offset)
            state.take_snapshot()
        _set_batch_sources(state, segments, last_offset, now)
        return
    nothing_to_lose = state.is_empty and state.map_end_offset >= last_offset
    state.truncate_and_reload(log_start_offset, last_offset, now)
    _set_batch_sources(state, segments, max(state.map_end_offset, log_start_offset), now)
    if last_offset > state.map_end_offset and not nothing_to_lose:
        advance_producer_state(state, segments, log_start_offset, last_offset, wanted)
    state.update_map_end_offset(last_offset)
    state.take_snapshot()


def advance_producer_state(
    state: ProducerStateManager, segments: LogSegments, log_start_offset: int, last_offset: int, wanted: Collection[int] = ()
) -> None:
    """Load the batches from the offset of `state` up to `last_offset`; write snapshots at the base offsets in `wanted`."""
    last = segments.floor_segment(last_offset)
    for segment in segments.values(state.map_end_offset, last_offset):
        start_offset = max(segment.base_offset, state.map_end_offset, log_start_offset)
        state.update_map_end_offset(start_offset)
        if segment.base_offset in wanted:
            state.take_snapshot()
        _load_segment(state, segment, start_offset, last_offset if segment is last else None)


def _offsets_to_snapshot(segments: LogSegments, last_offset: int) -> list[int]:
    """The base offsets of the last two segments, and `last_offset`."""
    last = segments.last_segment
    if last is None:
        return [last_offset]
    lower = segments.lower_segment(last.base_offset)
    return [*([] if lower is None else [lower.base_offset]), last.base_offset, last_offset]


def _load_segment(state: ProducerStateManager, segment: LogSegment, start_offset: int, end_offset: int | None) -> None:
    """Load the batches of `segment` from `start_offset` on, up to the batch that holds `end_offset`."""
    end_position = segment.size
    if end_offset is not None:
        found = segment.translate_offset(end_offset)
        if found is not None:
            end_position = found.position
    slice_ = segment.read(start_offset, INT_MAX, end_position)
    if slice_ is not None:
        end_position = slice_.position + slice_.size
        state.load_batches(producer_chunks(segment, slice_.position, end_position))
    segment.release_log()


def _set_batch_sources(state: ProducerStateManager, segments: LogSegments, start_offset: int, now: int) -> None:
    """Let `state`, loaded at `start_offset`, read later batches of the log again, including those that are appended."""
    active = segments.last_segment
    grows = (-1, 0) if active is None else (active.base_offset, active.size)
    state.set_batch_sources(partial(_chunks_from, segments, start_offset, *grows), now)


def _chunks_from(segments: LogSegments, start_offset: int, active: int, size: int) -> Iterator[RowChunk]:
    """Yield the batches of producers from `start_offset` to the end of the log.

    active, size  base offset and size of the last segment when it was opened: appended batches begin there, even if the
                  bytes before are not a batch
    """
    for segment in segments.values(start_offset):
        end = min(size, segment.size) if segment.base_offset == active else segment.size
        slice_ = segment.read(max(segment.base_offset, start_offset), INT_MAX, end)
        if slice_ is not None:
            yield from producer_chunks(segment, slice_.position, slice_.position + slice_.size)
        yield from producer_chunks(segment, end, segment.size)
        segment.release_log()


def producer_chunks(segment: ReadableSegment, start: int, end: int) -> Iterator[RowChunk]:
    """Yield every batch with a producer id in bytes [start, end) of the log, as columns. Checksums are not verified.

    Raises CorruptRecord for an invalid batch size and for an unreadable marker.
    """
    walk = LogWalk(segment.log_file, start, end)
    records, reported, count = RecordColumns(8), ReportedRows(_ROWS), 0
    for window in walk:
        table, row = window.batches.table, 0
        while row < window.rows:
            row, count, is_control = report_producers(table, row, window.rows, reported.table, count)
            if is_control:
                reported.note_marker(count - 1, _marker(segment, window, row - 1, records))
            if count == _ROWS:
                yield RowChunk.reported(reported, count)
                count = 0
    if count:
        yield RowChunk.reported(reported, count)
    if walk.stop is Stop.BAD_SIZE:
        raise no_such_size(segment.log_file, walk.position)


def _marker(segment: ReadableSegment, window: Window, row: int, records: RecordColumns) -> TxnMarker | None:
    """See read_marker. Raises CorruptRecord."""
    try:
        return read_marker(window, row, records)
    except ControlRecordInvalid as error:
        raise CorruptRecord(f"{segment.log_path}: {error}", do=whole_recovery(parent_of(segment.log_path))) from error


def delete_producer_snapshots(
    segments: Iterable[LogSegment], state: ProducerStateManager, deferred: DeferredDeletion
) -> None:
    """Mark the snapshots at the bases of `segments` `.deleted`. Mirrors UnifiedLog.deleteProducerSnapshots."""
    for segment in segments:
        path = state.remove_and_mark_snapshot_for_deletion(segment.base_offset)
        if path is not None:
            deferred.add_path(path)

"""The cleaner's first pass: the last offset of every key of the dirty part. Mirrors Cleaner.buildOffsetMap."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from engine.formats import BatchField, RecordField
from engine.kernels.cleaning import check_order
from engine.kernels.mapping import OUT_OF_ORDER
from engine.kernels.verdicts import skip_removable
from engine.log.cleaner.offset_map import NO_SURVIVORS, NOBODY
from engine.log.cleaner.transactions import CleanedTransactionMetadata, aborted_transactions, segments_with_aborted
from engine.log.cleaner.walk import SegmentWalk, size_of
from engine.record.columns import BATCH_ROWS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.log.cleaner.offset_map import SkimpyOffsetMap, Survivors
    from engine.log.cleaner.outcome import CleanerStats
    from engine.log.cleaner.walk import WalkColumns
    from engine.log.partition.unified_log import UnifiedLog
    from engine.log.segment.log_segment import LogSegment
    from engine.record.reader import Chunk
    from engine.record.windows import Window

_ROOM = 256 << 10  # bytes of records that are decompressed at once, so that they stay in the CPU cache


def build_offset_map(
    log: UnifiedLog, start: int, end: int, offset_map: SkimpyOffsetMap, stats: CleanerStats, on_bytes: Callable[[int], None],
    columns: WalkColumns,
) -> Survivors:  # fmt: skip
    """Fill `offset_map` with the keys of the records from `start` up to, not including, `end`.

    Aborted records and control batches are skipped. If the map is full the pass ends early, possibly in the middle of a batch;
    `offset_map.latest_offset` is the last offset that it covers. Raises Uncleanable.
    Returns the offsets that survive, or NO_SURVIVORS if an offset does not identify one record.
    """
    offset_map.clear(end - start)
    one = _KeyPass(offset_map, start, stats, on_bytes)
    dirty = log.segments.values(start, end)
    transactions = CleanedTransactionMetadata(concerned_from=start)
    transactions.add_aborted_transactions(aborted_transactions(log, start, end, segments_with_aborted(log, start)))
    for number, segment in enumerate(dirty):
        walk = SegmentWalk(segment, segment.position_before(start), log.config.max_message_size, columns)
        if not one.read(walk, transactions):
            _refuse_later_aborts(log, dirty[number:], one.position, start, transactions, columns)
            break
        following = dirty[number + 1].base_offset if number + 1 < len(dirty) else end
        offset_map.update_latest_offset(following - 1)
    return offset_map.survivors(start) if one.is_regular else NO_SURVIVORS


class _KeyPass:
    """Reads segments into the map. `is_regular`: all offsets so far are in the order in which brokers write them."""

    def __init__(
        self, offset_map: SkimpyOffsetMap, start: int, stats: CleanerStats, on_bytes: Callable[[int], None]
    ) -> None:
        self._map, self._start, self._stats, self._on_bytes = offset_map, start, stats, on_bytes
        self._skipped_counts = memoryview(array("q", bytes(8 * BATCH_ROWS + 8)))  # records, by batch of a window
        self._room = memoryview(bytearray(_ROOM))
        self._last = -1  # offset
        self.position = 0  # byte after the last window that was read

    @property
    def is_regular(self) -> bool:
        """See check_order."""
        return self._last != OUT_OF_ORDER

    def read(self, walk: SegmentWalk, transactions: CleanedTransactionMetadata) -> bool:
        """Read one segment; returns False if the map is full."""
        before = -1  # last offset of the batch before the window
        for window in walk.windows():
            table, stats, skipped = window.batches.table, self._stats, self._skipped_counts
            self.position = window.base + table[BatchField.POSITION, window.rows - 1] + table[BatchField.SIZE, window.rows - 1]
            dropped = transactions.on_window_read(window, walk.control_kind)
            if transactions.unlisted_abort >= self._start:
                walk.refuse_unlisted_abort(window, transactions.unlisted_abort)
            if not skip_removable(table, window.rows, dropped, skipped):
                raise AssertionError("batches and flags do not match")
            for chunk in walk.chunks(window, self._ordinary(walk, window)):
                self._check_order(chunk)
                at = self._map.put(chunk, self._start, NOBODY)
                stats.map_messages_read += at - chunk.first
                if at < chunk.end:
                    stats.map_messages_read += skipped[chunk.records.table[RecordField.BATCH, at]]
                    _set_latest(self._map, self._start, _before(window, chunk, at, before))
                    return False
            stats.map_messages_read += skipped[window.rows]
            before = table[BatchField.LAST_OFFSET, window.rows - 1]
            _set_latest(self._map, self._start, before)
            self._on_bytes(size_of(window))
        return True

    def _ordinary(self, walk: SegmentWalk, window: Window) -> int:
        """Map the ordinary batches at the start of a window in one call. Returns the first batch that was not read."""
        row, read, self._last = self._map.put_batches(window, self._start, walk.records, self._room, self._last)
        self._stats.map_messages_read += read
        return row

    def _check_order(self, chunk: Chunk) -> None:
        """Check that the records of the chunk follow the earlier ones."""
        if self.is_regular and chunk.first < chunk.end and not chunk.control:
            last = check_order(chunk.batches.table, chunk.records.table, chunk.first, chunk.end, self._last)
            self._last = OUT_OF_ORDER if last < 0 else last


def _refuse_later_aborts(
    log: UnifiedLog, segments: Sequence[LogSegment], position: int, start: int, transactions: CleanedTransactionMetadata,
    columns: WalkColumns,
) -> None:  # fmt: skip
    """The map is full: raise Uncleanable if a transaction with records in it is aborted later, and no index lists it.

    position  byte in the first of `segments` from which to read
    """
    undecided = transactions.undecided()
    for segment in segments:
        walk = SegmentWalk(segment, position, log.config.max_message_size, columns)
        windows = walk.windows()
        while undecided and (window := next(windows, None)) is not None:
            transactions.on_window_read(window, walk.control_kind)
            if transactions.unlisted_abort >= start:
                walk.refuse_unlisted_abort(window, transactions.unlisted_abort)
            undecided &= transactions.undecided()
        position = 0


def _before(window: Window, chunk: Chunk, at: int, before: int) -> int:
    """The last offset of the batch before the one that holds record `at`."""
    row = chunk.records.table[RecordField.BATCH, at]
    return window.batches.table[BatchField.LAST_OFFSET, row - 1] if row else before


def _set_latest(offset_map: SkimpyOffsetMap, start: int, last_offset: int) -> None:
    """Record that a batch up to `last_offset` was read completely: the map covers it, even if it has no key."""
    if last_offset >= start:
        offset_map.update_latest_offset(max(offset_map.latest_offset, last_offset))

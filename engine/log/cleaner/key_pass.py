"""The cleaner's first pass: the last offset of every key of the dirty part. Mirrors Cleaner.buildOffsetMap."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from engine.formats import BatchField, RecordField
from engine.kernels.cleaning import check_order
from engine.kernels.transactions import pass_over
from engine.log.cleaner.offset_map import NO_SURVIVORS
from engine.log.cleaner.transactions import CleanedTransactionMetadata
from engine.log.cleaner.walk import SegmentWalk, aborted_transactions, segments_with_aborted, size_of
from engine.record.columns import BATCH_ROWS

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.log.cleaner.offset_map import SkimpyOffsetMap, Survivors
    from engine.log.cleaner.stats import CleanerStats
    from engine.log.cleaner.walk import WalkColumns
    from engine.log.partition.unified_log import UnifiedLog
    from engine.record.reader import Chunk
    from engine.record.windows import Window


def build_offset_map(
    log: UnifiedLog, start: int, end: int, offset_map: SkimpyOffsetMap, stats: CleanerStats, on_bytes: Callable[[int], None],
    columns: WalkColumns,
) -> Survivors:  # fmt: skip
    """Fill `offset_map` with the keys of the records from `start` up to, not including, `end`.

    Aborted data and control batches are passed over. Where the map is full it ends early, in the middle of a batch if
    need be: `offset_map.latest_offset` says how far it came. Raises Uncleanable.
    Returns the offsets that survive, as far as the records are such that an offset stands for one of them.
    """
    offset_map.clear(end - start)
    order = _Order()
    dirty = log.segments.values(start, end)
    transactions = CleanedTransactionMetadata()
    transactions.add_aborted_transactions(aborted_transactions(log, start, end, segments_with_aborted(log, start)))
    for number, segment in enumerate(dirty):
        walk = SegmentWalk(segment, segment.offset_index.lookup(start).position, log.config.max_message_size, columns)
        if not _map_segment(walk, start, offset_map, order, transactions, stats, on_bytes):
            break
        following = dirty[number + 1].base_offset if number + 1 < len(dirty) else end
        offset_map.update_latest_offset(following - 1)
    return offset_map.survivors(start) if order.is_regular else NO_SURVIVORS


class _Order:
    """Are all records as producers and brokers write them (see check_order)?"""

    def __init__(self) -> None:
        self._last, self.is_regular = -1, True

    def check(self, chunk: Chunk) -> None:
        """Records that follow those before."""
        if self.is_regular and chunk.first < chunk.end and not chunk.control:
            self._last = check_order(chunk.batches.table, chunk.records.table, chunk.first, chunk.end, self._last)
            self.is_regular = self._last >= 0


def _map_segment(
    walk: SegmentWalk, start: int, offset_map: SkimpyOffsetMap, order: _Order, transactions: CleanedTransactionMetadata,
    stats: CleanerStats, on_bytes: Callable[[int], None],
) -> bool:  # fmt: skip
    """One segment; False: the map is full."""
    before = -1  # last offset of the batch before the window
    by_row = memoryview(array("q", bytes(8 * BATCH_ROWS + 8)))  # records that were passed over
    nobody = bytes(BATCH_ROWS)
    for window in walk.windows():
        table = window.batches.table
        goes = transactions.on_window_read(window, walk.control_kind)
        if not pass_over(table, window.rows, goes, by_row):
            raise AssertionError("batches and flags that do not fit each other")
        for chunk in walk.chunks(window):
            order.check(chunk)
            at = offset_map.put(chunk, start, nobody)
            stats.map_messages_read += at - chunk.first
            if at < chunk.end:
                stats.map_messages_read += by_row[chunk.records.table[RecordField.BATCH, at]]
                _settle_latest(offset_map, start, _before(window, chunk, at, before))
                return False
        stats.map_messages_read += by_row[window.rows]
        before = table[BatchField.LAST_OFFSET, window.rows - 1]
        _settle_latest(offset_map, start, before)
        on_bytes(size_of(window))
    return True


def _before(window: Window, chunk: Chunk, at: int, before: int) -> int:
    """The last offset of the batch in front of the one that holds record `at`."""
    row = chunk.records.table[RecordField.BATCH, at]
    return window.batches.table[BatchField.LAST_OFFSET, row - 1] if row else before


def _settle_latest(offset_map: SkimpyOffsetMap, start: int, last_offset: int) -> None:
    """A batch that ends with `last_offset` was read whole: the map speaks for it, whether or not it gave a key."""
    if last_offset >= start:
        offset_map.update_latest_offset(max(offset_map.latest_offset, last_offset))

"""The cleaner's second pass: copy the records that remain, with the tombstones and markers still needed, into a new segment.

Mirrors Cleaner.cleanInto. Retention is decided for batches first, then for records. Batches of aborted transactions are dropped
as a whole. Markers are dropped once the records of their transaction are deleted and their delete horizon has passed. A batch
without retained records is dropped, except the last batch of an active producer and the last batch of the round, which remain
as a header.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

from engine.formats import CODEC_MASK, INT_MAX, LONG_MAX, MAGIC_V2, NO_TIMESTAMP, BatchField, RecordField
from engine.kernels.blocks import TABLE
from engine.kernels.retained import CountedWindow, Writer, write_retained
from engine.kernels.retained import Marked as MarkedRecords
from engine.kernels.tables import COUNTS, Count
from engine.kernels.verdicts import count_deleted, judge_transactions, skip_decided, stays_empty, total
from engine.log.cleaner.rewriting import BatchRewriter, Marked, empty_in_place, has_delete_horizon
from engine.log.cleaner.walk import SegmentWalk, WalkColumns, size_of
from engine.log.errors import SegmentOffsetOverflow
from engine.record.codecs.libzstd import calls_for
from engine.record.codecs.lz4 import written_header
from engine.record.columns import BATCH_ROWS, RECORD_ROWS, Table
from engine.record.legacy import RemarkKind
from engine.record.reader import Chunk
from engine.record.windows import CASTAGNOLI_TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from engine.config.topic import LogConfig
    from engine.findings import Finding
    from engine.log.cleaner.offset_map import LaterOffsets
    from engine.log.cleaner.outcome import CleanerStats
    from engine.log.cleaner.transactions import CleanedTransactionMetadata, LastRecords
    from engine.log.segment.log_segment import LogSegment
    from engine.record.columns import BatchColumns
    from engine.record.windows import Window

_PENDING = 1 << 20  # bytes that are collected before they are appended
_BODY = 1 << 20  # uncompressed bytes of a batch that the kernel writes; `_write_alone` writes larger batches
_FRAME_HEADER = memoryview(written_header())
_ZEROS = memoryview(array("q", bytes(8 * BATCH_ROWS)))


class Workspace:
    """Buffers that all passes reuse."""

    def __init__(self) -> None:
        self.columns = WalkColumns()
        self.rewriter = BatchRewriter()
        self.keep = memoryview(bytearray(RECORD_ROWS))
        self.counts = Table(COUNTS, BATCH_ROWS)  # of a window: what `mark_retained` counts for each batch
        self.pending = memoryview(bytearray(_PENDING))
        self.body = memoryview(bytearray(_BODY))
        self.matches = memoryview(array("H", bytes(2 * TABLE)))


class Round(NamedTuple):
    """The parameters that all segments of a round share."""

    later: LaterOffsets
    now: int
    first_uncleanable_offset: int
    legacy_delete_horizon: int  # ms: segments of formats 0 and 1 that were changed later keep their tombstones
    last_records: LastRecords
    stats: CleanerStats
    on_bytes: Callable[[int], None]
    space: Workspace


class Counted:
    """Stands in for a new segment in a dry run: counts the bytes that would be appended."""

    def __init__(self, base_offset: int, log_path: str) -> None:
        self.base_offset, self.log_path = base_offset, log_path
        self.size = 0

    def append(self, largest_offset: int, data: bytes | memoryview) -> None:
        """Count `data`. Raises SegmentOffsetOverflow like LogSegment.append."""
        if not 0 <= largest_offset - self.base_offset <= INT_MAX:
            raise SegmentOffsetOverflow(self.log_path, self.base_offset, largest_offset)
        self.size += len(data)


class FilterPass:
    """Filters `segment` into `cleaned`. Use it once."""

    def __init__(
        self, this_round: Round, config: LogConfig, segment: LogSegment, cleaned: LogSegment | Counted,
        transactions: CleanedTransactionMetadata,
    ) -> None:  # fmt: skip
        self._round, self._config, self._transactions = this_round, config, transactions
        self._walk = SegmentWalk(segment, 0, config.max_message_size, this_round.space.columns, self._note_remark)
        self._retain_legacy_deletes = segment.last_modified > this_round.legacy_delete_horizon
        self._last_records = this_round.last_records.columns
        self._rewriter, self._keep, self._counts = this_round.space.rewriter, this_round.space.keep, this_round.space.counts
        self._verdicts = memoryview(b"")  # of the window, by batch
        self._skipped_records = 0  # of the window: records of batches that are dropped as a whole, which Kafka does not count
        horizon = this_round.now + config.delete_retention_ms
        self._new_horizon = NO_TIMESTAMP if horizon > LONG_MAX else horizon  # Kafka's sum overflows: no horizon is written
        self._out = _Output(cleaned, this_round.space.pending)

    def run(self) -> None:
        """Filter the whole segment. Raises Uncleanable, SegmentOffsetOverflow."""
        stats = self._round.stats
        for window in self._walk.windows():
            self._filter(window, is_read=self._decide_batches(window))
            fields = (Count.READ, Count.KEPT, Count.WITHOUT_KEY, Count.EXPIRED)
            read, kept, without_key, expired = (total(self._counts.table, field, window.rows) for field in fields)
            stats.messages_read += read - self._skipped_records
            stats.messages_discarded += self._skipped_records
            stats.messages_written += kept
            stats.invalid_messages_read += without_key
            stats.tombstones_removed += expired
            size = size_of(window)
            stats.bytes_read += size
            self._round.on_bytes(size)
        self._out.flush()

    def _note_remark(self, remark: Finding, kind: RemarkKind) -> None:
        """Count a compressed set that ends inside a message: Kafka drops that part silently."""
        if kind is RemarkKind.CUT_OFF:
            stats = self._round.stats
            stats.first_cut_off = stats.first_cut_off or f"{remark.where.file} at byte {remark.where.position}: {remark.what}"
            stats.sets_cut_off += 1

    def _decide_batches(self, window: Window) -> bool:
        """Decide which batches of the window are kept or dropped as a whole. Returns whether any others remain."""
        table = window.batches.table
        self._verdicts = memoryview(bytearray(window.rows))
        for field in range(COUNTS):
            self._counts.field(field)[: window.rows] = _ZEROS[: window.rows]
        dropped = self._transactions.on_window_read(window, self._walk.control_kind)
        counts, verdicts = self._counts.table, self._verdicts
        if not judge_transactions(table, window.rows, dropped, self._round.now, verdicts, counts):
            raise AssertionError("batches, flags and counts do not match")
        self._round.later.judge(window.batches, window.rows, verdicts)
        left: int = skip_decided(table, window.rows, verdicts, counts)
        self._skipped_records = count_deleted(table, window.rows, verdicts, self._last_records)
        return left > 0

    def _filter(self, window: Window, *, is_read: bool) -> None:
        """Write the retained batches of the window, in order. `is_read`: some of its batches are decided by record."""
        written = 0
        for chunk in self._walk.chunks(window) if is_read else ():
            first = bisect_left(chunk.records.field(RecordField.BATCH), written, chunk.first, chunk.end)
            rest = chunk._replace(first=first)  # do not mark the rest of a batch that is written already
            keep = self._mark(window, rest)
            last = chunk.last_row - 1
            if last < written:
                continue
            whole = chunk.last_row if self._is_whole(chunk, last) else last
            self._write(window, written, whole, rest, keep)
            written = whole
            if whole == last:
                self._write_large(window, last)
                written = last + 1
        if written < window.rows:
            nothing = Chunk(window.data, window.batches, written, window.rows, self._walk.records, 0, 0, control=False)
            self._write(window, written, window.rows, nothing, self._keep)

    def _mark(self, window: Window, chunk: Chunk) -> memoryview:
        keep = self._keep[: chunk.end - chunk.first]
        self._round.later.mark(
            chunk, window.batches, self._verdicts, self._round.now, self._retain_legacy_deletes, keep, self._counts.table
        )
        return keep

    def _is_whole(self, chunk: Chunk, row: int) -> bool:
        """Are all records of the batch in this chunk and earlier ones? May return False although they are."""
        table = chunk.batches.table
        if table[BatchField.MAGIC, row] >= MAGIC_V2:
            return bool(self._counts.table[Count.READ, row] >= table[BatchField.COUNT, row])
        return chunk.end < chunk.records.capacity or not table[BatchField.ATTRIBUTES, row] & CODEC_MASK

    def _write(self, window: Window, row: int, end: int, chunk: Chunk, keep: memoryview) -> None:
        """Write what is retained of the batches row … end − 1, all of whose records are in `chunk`."""
        batches, batch_of, out, space = window.batches, chunk.records.field(RecordField.BATCH), self._out, self._round.space
        first = chunk.first
        while row < end:
            first = bisect_left(batch_of, row, first, chunk.end)
            counted = CountedWindow(window.data, batches.table, self._counts.table)
            records = MarkedRecords(chunk.data, chunk.records.table, first, chunk.end, keep[first - chunk.first :],
                                    self._new_horizon)  # fmt: skip
            writer = Writer(_FRAME_HEADER, calls_for(batches.table, row, end), CASTAGNOLI_TABLES, space.body, space.matches)
            row, filled, last_row = write_retained(
                counted, row, end, self._last_records, records, writer, out.buffer, out.filled
            )
            if last_row >= 0:
                out.note(filled, batches.table[BatchField.LAST_OFFSET, last_row])
            if row < end:
                first = bisect_left(batch_of, row, first, chunk.end)
                after = bisect_left(batch_of, row + 1, first, chunk.end)
                mine = Marked(chunk, first, after, keep[first - chunk.first :])
                self._write_alone(window, row, (mine,), whole=mine)
                row += 1

    def _write_large(self, window: Window, row: int) -> None:
        """Write what is retained of a batch with more records than the columns hold: it is read twice, in pieces."""
        for field in range(COUNTS):
            self._counts.field(field)[row] = 0
        marks = bytearray()
        for chunk in self._walk.chunks_of(window, row):
            marks += self._mark(window, chunk)
        self._write_alone(window, row, self._marked_again(window, row, memoryview(marks)))

    def _marked_again(self, window: Window, row: int, marks: memoryview) -> Iterator[Marked]:
        at = 0
        for chunk in self._walk.chunks_of(window, row):
            yield Marked(chunk, chunk.first, chunk.end, marks[at : at + chunk.end - chunk.first])
            at += chunk.end - chunk.first

    def _write_alone(self, window: Window, row: int, marked: Iterable[Marked], whole: Marked | None = None) -> None:
        """Write one batch: unchanged, rewritten, as an empty header, or not at all. Mirrors filterTo.

        whole  the same as `marked`, if that is one piece
        """
        batches, counts = window.batches, self._counts.table
        table, kept = batches.table, counts[Count.KEPT, row]
        if not kept:
            if not stays_empty(table, row, self._last_records):
                return
            what: bytes | memoryview = empty_in_place(batches, row)
        else:
            has_horizon = has_delete_horizon(batches, row)
            needs_horizon = not has_horizon and counts[Count.TOMBSTONES, row] > 0
            if table[BatchField.MAGIC, row] >= MAGIC_V2 and kept == counts[Count.READ, row] and not needs_horizon:
                what = window.data[table[BatchField.POSITION, row] : _end(batches, row)]
            else:
                horizon = table[BatchField.BASE_TIMESTAMP, row] if has_horizon else NO_TIMESTAMP
                if needs_horizon:
                    horizon = self._new_horizon
                rewritten = None if whole is None else self._rewriter.rewrite_whole(window, row, whole, horizon)
                what = self._rewriter.rewrite(batches, row, marked, horizon) if rewritten is None else rewritten
        self._out.add(what, table[BatchField.LAST_OFFSET, row])


class _Output:
    """Collects batches and appends many of them to the new segment at once.

    The first `filled` bytes of `buffer` are in use. Code that writes after them must call `note`.
    """

    def __init__(self, cleaned: LogSegment | Counted, buffer: memoryview) -> None:
        self._cleaned = cleaned
        self.buffer, self.filled = buffer, 0
        self._largest_offset = -1

    def note(self, filled: int, largest_offset: int) -> None:
        """Record that the buffer holds whole batches up to `filled`, the last of which ends with `largest_offset`."""
        self.filled, self._largest_offset = filled, largest_offset

    def add(self, data: bytes | memoryview, largest_offset: int) -> None:
        """Add whole batches, the last of which ends with `largest_offset`."""
        if len(data) > len(self.buffer) - self.filled:
            self.flush()
        if len(data) > len(self.buffer):
            self._cleaned.append(largest_offset, data)
            return
        end = self.filled + len(data)
        self.buffer[self.filled : end] = data
        self.note(end, largest_offset)

    def flush(self) -> None:
        """Append the collected batches to the segment."""
        if self.filled:
            self._cleaned.append(self._largest_offset, self.buffer[: self.filled])
            self.filled = 0


def _end(batches: BatchColumns, row: int) -> int:
    """End position of the batch in its window."""
    return int(batches.table[BatchField.POSITION, row] + batches.table[BatchField.SIZE, row])

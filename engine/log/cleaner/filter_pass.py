"""The cleaner's second pass: one segment into a new one, with the records that stay. Mirrors Cleaner.cleanInto.

Retention is decided for batches and then for records. Batches of aborted transactions go as a whole; markers go once
their transaction's data are gone and their delete horizon has passed; a batch left empty goes, but for the last one of an
active producer and the last one of the round, which stay as a header.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

from engine.formats import CODEC_MASK, MAGIC_V2, NO_PRODUCER_ID, NO_TIMESTAMP, BatchField, RecordField
from engine.kernels.cleaning import COPY, DROP, KEEP_ALL, KEEP_NONE, SUPERSEDED, end_of_run, next_run
from engine.kernels.offset_map import COUNTS, EXPIRED, KEPT, READ, TOMBSTONES, WITHOUT_KEY
from engine.log.cleaner.later_offsets import Marking
from engine.log.cleaner.rewriting import BatchRewriter, Marked, empty_in_place, has_delete_horizon
from engine.log.cleaner.walk import SegmentWalk, WalkColumns, can_discard, is_control, transactional_rows
from engine.record.columns import BATCH_ROWS, RECORD_ROWS, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from engine.config import LogConfig
    from engine.log.cleaner.later_offsets import LaterOffsets
    from engine.log.cleaner.stats import CleanerStats
    from engine.log.cleaner.transactions import CleanedTransactionMetadata
    from engine.log.segment.log_segment import LogSegment
    from engine.record.columns import BatchColumns
    from engine.record.reader import Chunk
    from engine.record.windows import Window

_PENDING = 1 << 20  # bytes that are collected before they are appended
_ZEROS = memoryview(array("q", bytes(8 * BATCH_ROWS)))


class Workspace:
    """What one pass after the other uses."""

    def __init__(self) -> None:
        self.columns = WalkColumns()
        self.rewriter = BatchRewriter()
        self.keep = memoryview(bytearray(RECORD_ROWS))
        self.counts = Table(COUNTS, BATCH_ROWS)  # of a window: what `mark_retained` counts for each batch


class Round(NamedTuple):
    """What holds for all segments of a round."""

    later: LaterOffsets
    now: int
    first_uncleanable_offset: int
    legacy_delete_horizon: int  # ms: segments of formats 0 and 1 that were changed later keep their tombstones
    stats: CleanerStats
    on_bytes: Callable[[int], None]
    space: Workspace


class LastRecord(NamedTuple):
    """The last batch of a producer; `last_data_offset` None: only markers are known of it. Mirrors LastRecord."""

    last_data_offset: int | None
    producer_epoch: int


class Counted:
    """Takes what a segment would take, and only counts it."""

    def __init__(self) -> None:
        self.size = 0

    def append(self, _largest_offset: int, data: bytes) -> None:
        """Count `data`."""
        self.size += len(data)


class FilterPass:
    """Filters `segment` into `cleaned`. Use it once."""

    def __init__(
        self, this_round: Round, config: LogConfig, segment: LogSegment, cleaned: LogSegment | Counted,
        transactions: CleanedTransactionMetadata, last_records: Mapping[int, LastRecord],
    ) -> None:  # fmt: skip
        self._round, self._config, self._transactions = this_round, config, transactions
        self._last_records = last_records
        self._walk = SegmentWalk(segment, 0, config.max_message_size, this_round.space.columns)
        self._how = Marking(this_round.now, segment.last_modified > this_round.legacy_delete_horizon)
        ends = {record.last_data_offset for record in last_records.values() if record.last_data_offset is not None}
        self._precious = memoryview(array("q", sorted(ends | {this_round.first_uncleanable_offset - 1})))
        self._rewriter, self._keep, self._counts = this_round.space.rewriter, this_round.space.keep, this_round.space.counts
        self._verdicts = memoryview(b"")  # of the window, by batch
        self._idle_markers: set[int] = set()  # of the window: markers of transactions that have no data left
        self._passed_over = 0  # of the window: records of batches that go as a whole, which Kafka does not count
        self._out = _Output(cleaned)

    def run(self) -> None:
        """Filter the whole segment. Raises Uncleanable, SegmentOffsetOverflow."""
        stats = self._round.stats
        for window in self._walk.windows():
            self._judge(window)
            self._filter(window)
            fields = (READ, KEPT, WITHOUT_KEY, EXPIRED)
            read, kept, without_key, expired = (sum(self._counts.field(field)[: window.rows]) for field in fields)
            stats.messages_read += read - self._passed_over
            stats.messages_written += kept
            stats.invalid_messages_read += without_key
            stats.tombstones_removed += expired
            size = _end(window.batches, window.rows - 1) - window.batches.table[BatchField.POSITION, 0]
            stats.bytes_read += size
            self._round.on_bytes(size)
            self._out.keep_pending()
        self._out.flush()

    def _judge(self, window: Window) -> None:
        """Prepare the window: which batches stay or go as a whole because of their transactions."""
        table = window.batches.table
        self._verdicts = memoryview(bytearray(window.rows))
        self._idle_markers.clear()
        self._passed_over = 0
        for field in range(COUNTS):
            self._counts.field(field)[: window.rows] = _ZEROS[: window.rows]
        for row in transactional_rows(window):
            discard = can_discard(self._walk, window, row, self._transactions)
            if is_control(window.batches, row):
                if discard:
                    self._idle_markers.add(row)
                    horizon = table[BatchField.BASE_TIMESTAMP, row]
                    discard = has_delete_horizon(window.batches, row) and horizon <= self._round.now
                self._verdicts[row] = KEEP_NONE if discard else KEEP_ALL
            elif discard:
                self._verdicts[row] = KEEP_NONE
            if self._verdicts[row] == KEEP_NONE and not self._stays_empty(window.batches, row):
                self._passed_over += table[BatchField.COUNT, row]
        self._round.later.judge(window.batches, window.rows, self._verdicts)

    def _filter(self, window: Window) -> None:
        """Hand on what stays of the window, in order."""
        row = 0
        while row < window.rows:
            behind = end_of_run(self._verdicts, row, window.rows)
            if self._verdicts[row] == SUPERSEDED:
                self._pass_over(window, row, behind)
            else:
                self._read(window, row, behind)
            row = behind

    def _pass_over(self, window: Window, row: int, end: int) -> None:
        """Batches row … end − 1, no record of which survives: none is read, a few leave a header."""
        self._counts.field(READ)[row:end] = window.batches.field(BatchField.COUNT)[row:end]
        while row < end:
            kind, behind = next_run(window.batches.table, self._counts.table, row, end, self._precious)
            if kind != DROP:
                self._settle_alone(window, row, ())
            row = behind

    def _read(self, window: Window, row: int, end: int) -> None:
        """Batches row … end − 1, by their records."""
        settled = row
        for chunk in self._walk.chunks(window, row, end):
            first = bisect_left(chunk.records.field(RecordField.BATCH), settled, chunk.first, chunk.end)
            rest = chunk._replace(first=first)  # the rest of a batch that was settled already is not marked again
            keep = self._mark(window, rest)
            last = chunk.last_row - 1
            if last < settled:
                continue
            whole = chunk.last_row if self._is_whole(chunk, last) else last
            self._settle(window, settled, whole, rest, keep)
            settled = whole
            if whole == last:
                self._settle_large(window, last)
                settled = last + 1

    def _mark(self, window: Window, chunk: Chunk) -> memoryview:
        keep = self._keep[: chunk.end - chunk.first]
        self._round.later.mark(chunk, window.batches, self._verdicts, self._how, keep, self._counts.table)
        return keep

    def _is_whole(self, chunk: Chunk, row: int) -> bool:
        """Have all records of the batch been in this chunk and those before? It may say no where they have."""
        table = chunk.batches.table
        if table[BatchField.MAGIC, row] >= MAGIC_V2:
            return bool(self._counts.table[READ, row] >= table[BatchField.COUNT, row])
        return chunk.end < chunk.records.capacity or not table[BatchField.ATTRIBUTES, row] & CODEC_MASK

    def _settle(self, window: Window, row: int, end: int, chunk: Chunk, keep: memoryview) -> None:
        """Hand on what stays of the batches row … end − 1, all of whose records are in `chunk`."""
        batches, batch_of = window.batches, chunk.records.field(RecordField.BATCH)
        while row < end:
            kind, behind = next_run(batches.table, self._counts.table, row, end, self._precious)
            if kind == COPY:
                self._out.add(window.data[batches.table[BatchField.POSITION, row] : _end(batches, behind - 1)])
                self._out.note(batches.table[BatchField.LAST_OFFSET, behind - 1])
            elif kind != DROP:
                first = bisect_left(batch_of, row, chunk.first, chunk.end)
                behind_records = bisect_left(batch_of, behind, first, chunk.end)
                mine = Marked(chunk, first, behind_records, keep[first - chunk.first :])
                self._settle_alone(window, row, (mine,), whole=mine)
            row = behind

    def _settle_large(self, window: Window, row: int) -> None:
        """Hand on what stays of a batch with more records than the columns take: it is read twice, piece by piece."""
        for field in range(COUNTS):
            self._counts.field(field)[row] = 0
        marks = bytearray()
        for chunk in self._walk.chunks_of(window, row):
            marks += self._mark(window, chunk)
        self._settle_alone(window, row, self._marked_again(window, row, memoryview(marks)))

    def _marked_again(self, window: Window, row: int, marks: memoryview) -> Iterator[Marked]:
        at = 0
        for chunk in self._walk.chunks_of(window, row):
            yield Marked(chunk, chunk.first, chunk.end, marks[at : at + chunk.end - chunk.first])
            at += chunk.end - chunk.first

    def _settle_alone(self, window: Window, row: int, marked: Iterable[Marked], whole: Marked | None = None) -> None:
        """Hand on one batch: as it is, written anew, as an empty header, or not at all. Mirrors filterTo.

        whole  all that is `marked`, where it is in one piece
        """
        batches, counts = window.batches, self._counts.table
        table, kept = batches.table, counts[KEPT, row]
        if not kept:
            if not self._stays_empty(batches, row):
                return
            self._out.add(empty_in_place(batches, row))
        else:
            has_horizon = has_delete_horizon(batches, row)
            needs_horizon = not has_horizon and (counts[TOMBSTONES, row] > 0 or row in self._idle_markers)
            if table[BatchField.MAGIC, row] >= MAGIC_V2 and kept == counts[READ, row] and not needs_horizon:
                self._out.add(window.data[table[BatchField.POSITION, row] : _end(batches, row)])
            else:
                horizon = table[BatchField.BASE_TIMESTAMP, row] if has_horizon else NO_TIMESTAMP
                if needs_horizon:
                    horizon = self._round.now + self._config.delete_retention_ms
                anew = None if whole is None else self._rewriter.rewrite_whole(window, row, whole, horizon)
                self._out.add(self._rewriter.rewrite(batches, row, marked, horizon) if anew is None else anew)
        self._out.note(table[BatchField.LAST_OFFSET, row])

    def _stays_empty(self, batches: BatchColumns, row: int) -> bool:
        """Is it the last batch of an active producer, or the last one of the round? Mirrors checkBatchRetention."""
        table = batches.table
        producer_id, last_offset = table[BatchField.PRODUCER_ID, row], table[BatchField.LAST_OFFSET, row]
        last = self._last_records.get(producer_id) if producer_id > NO_PRODUCER_ID else None
        if last is not None:
            if last.last_data_offset is not None:
                is_last = last_offset == last.last_data_offset
            else:
                is_last = is_control(batches, row) and table[BatchField.PRODUCER_EPOCH, row] == last.producer_epoch
            if is_last:
                return True
        return bool(last_offset + 1 == self._round.first_uncleanable_offset)


class _Output:
    """Collects batches and appends them to the new segment, many at a time."""

    def __init__(self, cleaned: LogSegment | Counted) -> None:
        self._cleaned = cleaned
        self._parts: list[bytes | memoryview] = []
        self._size = 0
        self._largest_offset = -1

    def add(self, data: bytes | memoryview) -> None:
        """Whole batches; a view need only last until `keep_pending`."""
        self._parts.append(data)
        self._size += len(data)

    def note(self, largest_offset: int) -> None:
        """The last offset of what was added."""
        self._largest_offset = largest_offset

    def keep_pending(self) -> None:
        """The window behind the views is about to be used again."""
        if self._size >= _PENDING:
            self.flush()
        elif self._parts:
            self._parts = [b"".join(self._parts)]

    def flush(self) -> None:
        """Append what was collected."""
        if self._parts:
            self._cleaned.append(self._largest_offset, b"".join(self._parts))
            self._parts, self._size = [], 0


def _end(batches: BatchColumns, row: int) -> int:
    """Where the batch ends in its window."""
    return int(batches.table[BatchField.POSITION, row] + batches.table[BatchField.SIZE, row])

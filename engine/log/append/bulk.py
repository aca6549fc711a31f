"""Append many batches at a time, with the same result as one produce request after the other, but one write for a run.

A run ends where Kafka would roll or flush, or before a batch that needs more checks. That batch is appended alone, in the
usual way.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING

from engine.formats import BATCH_HEADER, NO_TIMESTAMP, BatchField, Codec, Status
from engine.kernels.admission import Leader, judge_records, stamp_batches
from engine.kernels.decode import decode_records
from engine.kernels.tables import TRAITS, Flaw, Trait
from engine.log.append.analysis import ProducerChanges, append_as_leader, check_producer, producer_row
from engine.log.append.frames import Appended, Frame
from engine.log.append.validator import renew_checksum, target_codec, timestamp_bounds, timestamp_type
from engine.log.append_errors import AppendRefused
from engine.log.producers.entry import TRANSACTION_VERSION_UNKNOWN, AppendOrigin
from engine.log.segment.log_segment import Appending
from engine.record.assembly import LOG_APPEND_TIME
from engine.record.columns import BatchColumns, RecordColumns, Table
from engine.record.windows import check_large_batches, scan_range

if TYPE_CHECKING:
    from engine.log.append.frames import Appends
    from engine.log.partition.unified_log import UnifiedLog
    from engine.log.segment.log_segment import LogSegment

_FEWEST = 16  # lowest limit for the batches of a run


class BulkAppender:
    """Appends batches of clients to `log`. `leader_epoch`: of its leader."""

    def __init__(self, log: UnifiedLog, leader_epoch: int) -> None:
        self._log, self._leader_epoch = log, leader_epoch
        self._batches, self._records = BatchColumns(), RecordColumns()
        self._most = self._batches.capacity  # limit for the next run; lower if duplicates ended the last one
        self._traits = Table(TRAITS, self._batches.capacity)
        self._fill = {trait: memoryview(array("q", [0]) * self._batches.capacity) for trait in Trait}
        self._fill[Trait.LARGEST] = memoryview(array("q", [NO_TIMESTAMP]) * self._batches.capacity)

    def append(self, data: bytearray, appended: Appends) -> int:
        """Append the whole batches in `data`, each as its own request. Returns the position after the last one.

        data      base offsets are 0, as producers send them; its bytes are changed
        appended  receives the results, in order. Batches that were written together are one entry, because there may be very
                  many of them
        Raises AppendRefused for the first batch that is refused; those before it are in the log and in `appended`.
        """
        view, at = memoryview(data), 0
        while True:
            rows = scan_range(view, at, len(data), self._batches)
            if not rows:
                Frame(data, self._batches, 0, at).check_end()
                return at
            check_large_batches(view, self._batches, rows)
            self._determine_traits(view, rows)
            row = 0
            while row < rows:
                end = self._append_run(view, row, rows, appended)
                if end == row:
                    self._append_one(data, row, appended)
                    end = row + 1
                row = end
            table = self._batches.table
            at = table[BatchField.POSITION, rows - 1] + table[BatchField.SIZE, rows - 1]

    def _determine_traits(self, view: memoryview, rows: int) -> None:
        """Determine the traits of the records in uncompressed batches."""
        table, traits = self._batches.table, self._traits
        for trait in Trait:
            traits.field(trait)[:rows] = self._fill[trait][:rows]
        low, high = timestamp_bounds(self._log.config, self._log.now)
        row, at, done = 0, 0, 0
        while row < rows:
            count, row, at, done, status = decode_records(view, table, row, rows, at, done, self._records.table, 0)
            judge_records(self._records.table, count, table, low, high, traits.table)
            if status not in (Status.END, Status.FULL):  # compressed or damaged batches: they are appended alone
                traits.table[Trait.FLAWS, row] |= Flaw.BROKEN
                row, at, done = row + 1, 0, 0

    def _append_run(self, view: memoryview, row: int, rows: int, appended: Appends) -> int:
        """Append the batches from column `row` on that fit into the active segment together. Returns the next column."""
        log, config, table = self._log, self._log.config, self._batches.table
        if target_codec(config, Codec.NONE)[0] != Codec.NONE:
            return row
        segment, first = log.segments.active_segment, log.log_end_offset
        is_append_time = timestamp_type(config) == LOG_APPEND_TIME
        limit = self._fitting(segment, row, min(rows, row + self._most), log.now if is_append_time else None)
        heads = self._heads_of_producers(view, row, limit)
        refused = Flaw.BROKEN | (Flaw.NULL_KEY if config.compact else 0) | (0 if is_append_time else Flaw.TIMESTAMP)
        leader = Leader(self._leader_epoch, log.now if is_append_time else NO_TIMESTAMP, refused, config.max_message_size)
        end, _ = stamp_batches(view, table, row, limit, self._traits.table, first, leader)
        if end == row:
            return row
        for changed in range(row, end):
            if self._traits.table[Trait.CHANGED, changed]:
                renew_checksum(view, table[BatchField.POSITION, changed], table[BatchField.SIZE, changed])
        log.leader_epoch_cache.assign(self._leader_epoch, first)
        after, refusal, there = self._check_producers(view, row, end) if heads else (end, None, None)
        self._most = min(self._batches.capacity, max(_FEWEST, 2 * (after - row)))
        if after < end:
            self._take_back(view, after, heads[after - row : end - row])
        self._write(segment, view, row, after, appended)
        if refusal is not None:
            raise refusal
        if there is None:
            return after
        appended.append(there)
        return after + 1

    def _fitting(self, segment: LogSegment, row: int, rows: int, append_time: int | None) -> int:
        """The column after the last batch that the segment accepts without a roll or flush before it (shouldRoll)."""
        log, config = self._log, self._log.config
        rows = max(row, min(rows, row + segment.offset_index.room, row + segment.time_index.room))
        sizes = self._batches.field(BatchField.SIZE)[row:rows].tolist()
        counts = self._batches.field(BatchField.COUNT)[row:rows].tolist()
        stamps = self._traits.field(Trait.LARGEST)[row:rows].tolist()
        ends = list(accumulate(counts, initial=log.log_end_offset))[1:]
        appends = [
            Appending(size, end - 1, stamp if append_time is None else append_time)
            for size, end, stamp in zip(sizes, ends, stamps, strict=True)
        ]
        count = segment.count_fitting(appends, config.segment_size, config.max_segment_ms, log.now)
        before_flush = bisect_left(ends, log.recovery_point + config.flush_messages) + 1
        return row + min(count, before_flush)

    def _check_producers(self, view: memoryview, row: int, end: int) -> tuple[int, AppendRefused | None, Appended | None]:
        """Check and apply batches to the producer state, one by one. Returns the first batch that must not be written, and why.

        Either it is refused, or it is a duplicate. (`end`, None, None): all must be written.
        """
        ids = self._batches.field(BatchField.PRODUCER_ID)[row:end].tolist()
        state, origin = self._log.producer_state, AppendOrigin.CLIENT
        frame = Frame(view, self._batches, end, 0)
        state.load_last_batches(ids)
        for number, producer_id in enumerate(ids, row):
            if producer_id <= -1:
                continue
            changes = ProducerChanges({}, [])
            try:
                there = check_producer(self._log, producer_row(frame, number), origin, TRANSACTION_VERSION_UNKNOWN, changes)
            except AppendRefused as error:
                return number, error, None
            if there is not None:
                return number, None, Appended(there.first_offset, there.last_offset, is_duplicate=True)
            for info in changes.updated.values():
                state.update(info)
        return end, None, None

    def _heads_of_producers(self, view: memoryview, row: int, end: int) -> list[bytes]:
        """Copies of the headers before they change; empty if no batch has a producer, because none is reset then."""
        if row == end or max(self._batches.field(BatchField.PRODUCER_ID)[row:end]) <= -1:
            return []
        positions = self._batches.field(BatchField.POSITION)[row:end].tolist()
        return [bytes(view[at : at + BATCH_HEADER.size]) for at in positions]

    def _take_back(self, view: memoryview, row: int, heads: list[bytes]) -> None:
        """Reset the batches from column `row` on to their state before they got offsets."""
        table = self._batches.table
        for number, head in enumerate(heads, row):
            at, original = table[BatchField.POSITION, number], BATCH_HEADER.read(head)
            view[at : at + BATCH_HEADER.size] = head
            table[BatchField.BASE_OFFSET, number] = original.base_offset
            table[BatchField.LAST_OFFSET, number] = original.base_offset + original.last_offset_delta
            table[BatchField.ATTRIBUTES, number] = original.attributes & 0xFF
            table[BatchField.MAX_TIMESTAMP, number] = original.max_timestamp

    def _write(self, segment: LogSegment, view: memoryview, row: int, end: int, appended: Appends) -> None:
        if end == row:
            return
        log, table = self._log, self._batches.table
        start = table[BatchField.POSITION, row]
        stop = table[BatchField.POSITION, end - 1] + table[BatchField.SIZE, end - 1]
        last_offset = table[BatchField.LAST_OFFSET, end - 1]
        segment.append(last_offset, view[start:stop], self._batches, end, row)
        log.local_log.update_log_end_offset(last_offset + 1)
        log.update_high_watermark_with_log_end_offset()
        log.producer_state.update_map_end_offset(last_offset + 1)
        log.maybe_increment_first_unstable_offset()
        appended.append(Appended(table[BatchField.BASE_OFFSET, row], last_offset))
        if log.log_end_offset - log.recovery_point >= log.config.flush_messages:
            log.flush()

    def _append_one(self, data: bytearray, row: int, appended: Appends) -> None:
        at = self._batches.table[BatchField.POSITION, row]
        one = data[at : at + self._batches.table[BatchField.SIZE, row]]
        info = append_as_leader(self._log, one, self._leader_epoch)
        appended.append(Appended(info.first_offset, info.last_offset, info.is_duplicate, info.cut_off))

"""Append input to a log: lines become batches as from a client, raw batches are appended as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from engine.amounts import count_of
from engine.formats import INT_MAX, MAGIC_V2, NO_PRODUCER_ID, BatchField, Codec, ControlType
from engine.log.append.analysis import append_as_follower, append_as_leader
from engine.log.append.bulk import BulkAppender
from engine.log.append.frames import Appended, LineEnds, Outcome, broken_batches, is_whole_batch
from engine.log.append_errors import CorruptRecord, RecordBatchTooLarge, RecordTooLarge
from engine.log.producers.entry import AppendOrigin
from engine.record.builder import end_txn_batch
from engine.record.columns import BatchColumns, RecordColumns
from engine.record.control import increment_sequence
from engine.record.windows import scan_range

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.log.append.analysis import LogAppendInfo
    from engine.log.append.frames import BrokenBatch
    from engine.log.partition.unified_log import UnifiedLog
    from engine.record.assembly import BatchSpec
    from engine.record.lines import LineReader
    from engine.record.packing import Packer


class Intake(Protocol):
    """Appends parts of an input.

    appended  results of the batches so far
    """

    appended: Outcome

    def is_whole(self, data: bytearray, seen: int, filled: int) -> bool:
        """Is there something complete in data[:filled] that `take` can append? There was nothing in its first `seen` bytes.

        Raises AppendRefused and LineInvalid if the input there cannot be appended, for example because it is too long.
        """

    def take(self, data: bytearray, *, is_last: bool) -> int:
        """Append everything complete in `data`. Returns the number of bytes used. `is_last`: no more input follows.

        Raises AppendRefused and LineInvalid; what came before the error is in the log.
        """


class LineIntake:
    """Packs lines into batches and appends them as from a client.

    timestamp  of records without one; None: the log's clock
    """

    def __init__(
        self, log: UnifiedLog, reader: LineReader, packer: Packer, leader_epoch: int, timestamp: int | None = None
    ) -> None:
        self.appended = Outcome()
        self._log, self._reader, self._packer, self._timestamp = log, reader, packer, timestamp
        self._appender = BulkAppender(log, leader_epoch)
        self._records = RecordColumns()
        self._ends = LineEnds(reader, log.config.max_message_size, is_compressed=packer.spec.codec != Codec.NONE)

    def is_whole(self, data: bytearray, seen: int, filled: int) -> bool:
        """See Intake."""
        return self._ends.is_whole(data, seen, filled)

    def take(self, data: bytearray, *, is_last: bool) -> int:
        """See Intake. A line is complete with its line feed."""
        end = len(data) if is_last else data.rfind(b"\n") + 1
        view, at, done = memoryview(data), 0, end == 0
        timestamp = self._log.now if self._timestamp is None else self._timestamp
        while not done:
            filled, at, done = self._reader.read(view, at, end, timestamp, self._records)
            batches = bytearray().join(self._packer.pack(view, self._records, filled))
            self._appender.append(batches, self.appended)
        return end


class BatchIntake:
    """Appends batches in the format of a log, each as from a client: they get new offsets."""

    def __init__(self, log: UnifiedLog, leader_epoch: int) -> None:
        self.appended = Outcome()
        self._log, self._appender = log, BulkAppender(log, leader_epoch)
        self._batches = BatchColumns()

    def is_whole(self, data: bytearray, _seen: int, filled: int) -> bool:
        """See Intake."""
        return is_whole_batch(data, filled, self._check_size)

    def take(self, data: bytearray, *, is_last: bool) -> int:
        """See Intake."""
        at, producers = 0, set[int]()
        while rows := scan_range(memoryview(data), at, len(data), self._batches):
            at = self._reset_offsets(data, rows)
            producers.update(self._batches.field(BatchField.PRODUCER_ID)[:rows])
        self._log.producer_state.load_last_batches(producers)  # for all at once: it may read the log
        done = self._appender.append(data, self.appended)
        if is_last and done < len(data):
            raise CorruptRecord(f"incomplete batch at the end of the input: {count_of(len(data) - done, 'byte')}")
        return done

    def _check_size(self, size: int) -> None:
        RecordTooLarge.check(str(self._log.producer_state.topic_partition), size, self._log.config.max_message_size)

    def _reset_offsets(self, data: bytearray, rows: int) -> int:
        """Set base offsets to 0, as producers send them (no checksum covers them). Returns the end of the last batch."""
        table = self._batches.table
        at = size = 0
        for row in range(rows):
            at, size = table[BatchField.POSITION, row], table[BatchField.SIZE, row]
            if table[BatchField.MAGIC, row] >= MAGIC_V2:
                data[at : at + 8] = bytes(8)
        return at + size


class FollowerIntake:
    """Appends batches in the format of a log, with their own offsets.

    leader_epoch  the first batch with a higher epoch and all batches after it are skipped
    """

    def __init__(self, log: UnifiedLog, leader_epoch: int = INT_MAX) -> None:
        self.appended = Outcome()
        self._log, self._leader_epoch = log, leader_epoch
        self._batches, self._records = BatchColumns(), RecordColumns()

    def is_whole(self, data: bytearray, _seen: int, filled: int) -> bool:
        """See Intake."""
        return is_whole_batch(data, filled, self._check_size)

    def take(self, data: bytearray, *, is_last: bool) -> int:
        """See Intake. As many batches as a segment holds are appended together."""
        at = 0
        while at < len(data):
            rows, end = self._group(data, at)
            if not rows:
                break
            info = append_as_follower(self._log, memoryview(data)[at:end], self._leader_epoch)
            if info.valid_size:
                self._note(info, broken_batches(data, self._batches, rows, at + info.valid_size, self._records))
            at = end
        if is_last and at < len(data):
            raise CorruptRecord(f"incomplete batch at the end of the input: {count_of(len(data) - at, 'byte')}")
        return at

    def _check_size(self, size: int) -> None:
        RecordBatchTooLarge.check(str(self._log.producer_state.topic_partition), size, self._log.config.segment_size)

    def _group(self, data: bytearray, start: int) -> tuple[int, int]:
        """Number of batches from byte `start` on for one append, and the end of the last one."""
        rows = scan_range(memoryview(data), start, len(data), self._batches)
        positions = self._batches.field(BatchField.POSITION)[:rows].tolist()
        sizes = self._batches.field(BatchField.SIZE)[:rows].tolist()
        limit, end = start + self._log.config.segment_size, start
        for row, (at, size) in enumerate(zip(positions, sizes, strict=True)):
            if end > start and at + size > limit:
                return row, end
            end = at + size
        return rows, end

    def _note(self, info: LogAppendInfo, broken: Iterable[BrokenBatch]) -> None:
        """Add the result of one append to `appended`; its `broken` batches get entries of their own."""
        first = info.first_or_last_offset_of_first_batch
        for one in broken:
            if first < one.first_offset:
                self.appended.append(Appended(first, one.first_offset - 1))
            self.appended.append(Appended(one.first_offset, one.last_offset, cut_off=one.what))
            first = one.last_offset + 1
        if first <= info.last_offset:
            self.appended.append(Appended(first, info.last_offset))


def end_transaction(
    log: UnifiedLog, kind: ControlType, spec: BatchSpec, *, coordinator_epoch: int, leader_epoch: int
) -> Appended:
    """Write the marker that ends the transaction of the producer of `spec`. Raises AppendRefused."""
    marker = end_txn_batch(
        kind, coordinator_epoch, base_offset=0, timestamp=log.now, producer_id=spec.producer_id,
        producer_epoch=spec.producer_epoch,
    )  # fmt: skip
    info = append_as_leader(log, marker, leader_epoch, AppendOrigin.COORDINATOR, 0)
    return Appended(info.first_offset, info.last_offset)


def with_producer(
    log: UnifiedLog, spec: BatchSpec, producer_id: int, producer_epoch: int | None, sequence: int | None
) -> BatchSpec:
    """Return `spec` for batches of a producer. If epoch or sequence is None, it continues from the log's producer state."""
    if producer_id == NO_PRODUCER_ID:
        return spec
    entry = log.producer_state.last_entry(producer_id)
    if producer_epoch is None:
        producer_epoch = 0 if entry is None else max(0, entry.producer_epoch)
    if sequence is None:
        goes_on = entry is not None and not entry.is_empty and entry.producer_epoch == producer_epoch
        sequence = increment_sequence(entry.last_seq, 1) if entry is not None and goes_on else 0
    return spec._replace(producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=sequence)

"""One append to an open log, as leader or as follower: size limits, offsets, sequences and duplicates of producers, the write.

Mirrors UnifiedLog.append and the methods it calls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from engine.formats import (
    CODEC_MASK,
    CODEC_NAMES,
    CONTROL_FLAG,
    INT_MAX,
    LONG_MAX,
    MAGIC_V2,
    NO_PARTITION_LEADER_EPOCH,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    BatchField,
    Codec,
)
from engine.log.append.frames import Frame, check_magic
from engine.log.append.validator import LogValidator, timestamp_type
from engine.log.append_errors import (
    CorruptRecord,
    IllegalArgument,
    InvalidProducerEpoch,
    InvalidRecord,
    OffsetsOutOfOrder,
    RecordBatchTooLarge,
    RecordTooLarge,
    UnexpectedAppendOffset,
)
from engine.log.errors import IndexFull
from engine.log.producers.entry import TRANSACTION_VERSION_UNKNOWN, AppendOrigin
from engine.log.segment.log_segment import RollParams
from engine.log.segment.producer_rows import ProducerRow
from engine.log.segment.recovery_walk import read_marker
from engine.record.assembly import LOG_APPEND_TIME
from engine.record.columns import RecordColumns
from engine.record.control import ControlRecordInvalid
from engine.record.windows import Window

if TYPE_CHECKING:
    from engine.files import Buffer
    from engine.log.partition.unified_log import UnifiedLog
    from engine.log.producers.entry import BatchMetadata, CompletedTxn, ProducerAppendInfo
    from engine.log.segment.log_segment import LogSegment
    from engine.record.columns import BatchColumns

UNKNOWN_OFFSET = -1
_SHOWN_OFFSETS = 10


@dataclass(slots=True)
class LogAppendInfo:
    """Result of an append. Offsets of −1: nothing was written. Mirrors LogAppendInfo.

    first_offset, last_offset  of its records; of a duplicate those of the batch in the log. On a follower
                               `first_offset` stays −1 for formats 0 and 1
    max_timestamp              largest timestamp, ms; `log_append_time` −1 unless the topic has LogAppendTime
    source_codec               codec of the batches as sent; `valid_size` bytes in whole batches
    last_leader_epoch          of the last batch as sent, None if it had none
    cut_off                    see Validated
    """

    first_offset: int = UNKNOWN_OFFSET
    last_offset: int = UNKNOWN_OFFSET
    max_timestamp: int = NO_TIMESTAMP
    log_append_time: int = NO_TIMESTAMP
    log_start_offset: int = 0
    source_codec: int = Codec.NONE
    valid_size: int = 0
    last_leader_epoch: int | None = None
    last_offset_of_first_batch: int = UNKNOWN_OFFSET
    is_duplicate: bool = False
    cut_off: str | None = None

    @property
    def first_or_last_offset_of_first_batch(self) -> int:
        """The first offset, if it is known without decompression; else the last offset of the first batch."""
        return self.first_offset if self.first_offset >= 0 else self.last_offset_of_first_batch

    @property
    def source_compression(self) -> str:
        """Name of the source codec."""
        return CODEC_NAMES[self.source_codec]


class ProducerChanges(NamedTuple):
    """Changes of the producer state by an append, not applied yet. `duplicate`: the batch in the log that it repeats."""

    updated: dict[int, ProducerAppendInfo]
    completed: list[CompletedTxn]
    duplicate: BatchMetadata | None = None


def append_as_leader(
    log: UnifiedLog,
    data: Buffer,
    leader_epoch: int,
    origin: AppendOrigin = AppendOrigin.CLIENT,
    transaction_version: int = TRANSACTION_VERSION_UNKNOWN,
) -> LogAppendInfo:
    """Check `data`, one batch or an old message set, give it offsets and append it. Raises AppendRefused.

    transaction_version  of markers, which only coordinators write
    Batches from a raft leader have their offsets already.
    """
    assign = origin is not AppendOrigin.RAFT_LEADER
    frame = Frame.of(bytearray(data))
    info = analyze_and_validate(log, frame, origin, ignore_size=False, require_order=not assign, leader_epoch=leader_epoch)
    if info.valid_size <= 0:
        return info
    if assign:
        frame = _assign_offsets(log, _trimmed(frame, info.valid_size), info, leader_epoch, origin)
    else:
        _check_first_offset(log, frame, info)
    _append(log, frame, info, origin, transaction_version)
    return info


def append_as_follower(log: UnifiedLog, data: Buffer, leader_epoch: int) -> LogAppendInfo:
    """Append the batches in `data` with their own offsets, up to the first with a higher epoch than `leader_epoch`.

    Raises AppendRefused.
    """
    frame = Frame.of(bytearray(data))
    info = analyze_and_validate(
        log, frame, AppendOrigin.REPLICATION, ignore_size=True, require_order=True, leader_epoch=leader_epoch
    )
    if info.valid_size > 0:
        _check_first_offset(log, frame, info)
        trimmed = _trimmed(frame, info.valid_size)
        try:
            _append(log, trimmed, info, AppendOrigin.REPLICATION, TRANSACTION_VERSION_UNKNOWN)
        except IndexFull:
            log.segments.active_segment.truncate_to(log.log_end_offset, log.now)
            _append_each(log, trimmed, leader_epoch)
    return info


def _append_each(log: UnifiedLog, frame: Frame, leader_epoch: int) -> None:
    """Append batch by batch, so that a segment is rolled when its indexes are full. A broker's append would fail there."""
    table = frame.batches.table
    for row in range(frame.rows):
        at = table[BatchField.POSITION, row]
        append_as_follower(log, frame.data[at : at + table[BatchField.SIZE, row]], leader_epoch)


def analyze_and_validate(
    log: UnifiedLog, frame: Frame, origin: AppendOrigin, *, ignore_size: bool, require_order: bool, leader_epoch: int
) -> LogAppendInfo:
    """Check the headers: sizes, checksums, order of offsets. Raises AppendRefused (analyzeAndValidateRecords)."""
    info = LogAppendInfo(log_start_offset=log.log_start_offset)
    table, name = frame.batches.table, _name(log)
    is_first, in_order, skipped = True, True, False
    for row in range(frame.rows):
        magic, size, base, last, epoch = (table[field, row] for field in _ANALYZED)
        check_magic(magic)
        if origin is AppendOrigin.RAFT_LEADER and epoch != leader_epoch:
            what = f"expected {leader_epoch} but the batch has {epoch}"
            raise InvalidRecord(f"Append from Raft leader did not set the batch epoch correctly, {what}")
        if magic >= MAGIC_V2 and origin is AppendOrigin.CLIENT and base != 0:
            raise InvalidRecord(f"The baseOffset of the record batch in the append to {name} should be 0, but it is {base}")
        if origin is AppendOrigin.REPLICATION and epoch != NO_PARTITION_LEADER_EPOCH and epoch > leader_epoch:
            skipped = True  # the leader lost its leadership in between (KAFKA-18723)
        if skipped:
            continue
        if is_first:
            info.first_offset = base if magic >= MAGIC_V2 else UNKNOWN_OFFSET
            info.last_offset_of_first_batch, is_first = last, False
        in_order &= info.last_offset < last
        info.last_offset = last
        info.last_leader_epoch = None if epoch == NO_PARTITION_LEADER_EPOCH else epoch
        if not ignore_size:
            RecordTooLarge.check(name, size, log.config.max_message_size)
        if table[BatchField.VALID, row] != 1:
            crc = table[BatchField.CRC, row]
            raise CorruptRecord(f"Record is corrupt (stored crc = {crc}) in topic partition {name}.")
        info.max_timestamp = max(info.max_timestamp, table[BatchField.MAX_TIMESTAMP, row])
        info.valid_size += size
        codec = table[BatchField.ATTRIBUTES, row] & CODEC_MASK
        if codec >= len(CODEC_NAMES):
            raise IllegalArgument(f"Unknown compression type id: {codec}")
        info.source_codec = codec or info.source_codec
        if require_order and not in_order:
            offsets = ",".join(map(str, frame.offsets()))
            raise OffsetsOutOfOrder(f"Out of order offsets found in append to {name}: {offsets}")
        if require_order and last == LONG_MAX:  # Kafka accepts it, and its log end offset overflows to a negative number
            raise InvalidRecord(f"The record batch in the append to {name} ends at offset {last}: no offset is left for "
                                "another batch")
    frame.check_end()
    return info


_ANALYZED = (BatchField.MAGIC, BatchField.SIZE, BatchField.BASE_OFFSET, BatchField.LAST_OFFSET, BatchField.LEADER_EPOCH)


def _trimmed(frame: Frame, size: int) -> Frame:
    """The first `size` bytes of `frame`, which are whole batches (trimInvalidBytes)."""
    return frame if size == len(frame.data) else Frame.of(frame.data[:size])


def _assign_offsets(log: UnifiedLog, frame: Frame, info: LogAppendInfo, leader_epoch: int, origin: AppendOrigin) -> Frame:
    """Validate the records, give them offsets from the log end on, and return the batches to write."""
    name, config = _name(log), log.config
    info.first_offset = log.log_end_offset
    validator = LogValidator(name, config, log.now, source_codec=info.source_codec, leader_epoch=leader_epoch, origin=origin)
    valid = validator.validate(frame, log.log_end_offset)
    info.max_timestamp, info.last_offset, info.cut_off = valid.max_timestamp, valid.next_offset - 1, valid.cut_off
    if timestamp_type(config) == LOG_APPEND_TIME:
        info.log_append_time = log.now
    for row in range(valid.frame.rows if valid.is_rebuilt else 0):
        size = valid.frame.batches.table[BatchField.SIZE, row]
        if size > config.max_message_size:
            raise RecordTooLarge(
                f"Message batch size is {size} bytes in append topartition {name} which exceeds the maximum configured "
                f"size of {config.max_message_size}."
            )
    return valid.frame


def _check_first_offset(log: UnifiedLog, frame: Frame, info: LogAppendInfo) -> None:
    first = info.first_or_last_offset_of_first_batch
    if first >= log.log_end_offset:
        return
    offsets: list[str] = []
    for offset in frame.offsets():
        offsets.append(str(offset))
        if len(offsets) == _SHOWN_OFFSETS:
            break
    what = "First offset" if info.first_offset != UNKNOWN_OFFSET else "Last offset of the first batch"
    raise UnexpectedAppendOffset(
        f"Unexpected offset in append to {_name(log)}. {what} {first} is less than the next offset {log.log_end_offset}. "
        f"First 10 offsets in append: {', '.join(offsets)}, last offset in append: {info.last_offset}. "
        f"Log start offset = {log.log_start_offset}"
    )


def _append(log: UnifiedLog, frame: Frame, info: LogAppendInfo, origin: AppendOrigin, transaction_version: int) -> None:
    """Assign epochs, roll if necessary, check producers and write. `frame` was validated."""
    assign_epochs(log, frame.batches, frame.rows)
    size = len(frame.data)
    RecordBatchTooLarge.check(_name(log), size, log.config.segment_size)
    flushed = log.recovery_point  # before a roll moves it: a broker flushes later after a roll
    segment = maybe_roll(log, size, info)
    changes = check_producers(log, frame, origin, transaction_version)
    if changes.duplicate is not None:
        there = changes.duplicate
        info.first_offset, info.last_offset, info.log_append_time = there.first_offset, there.last_offset, there.timestamp
        info.is_duplicate = True
        return
    segment.append(info.last_offset, frame.data, frame.batches, frame.rows)
    log.local_log.update_log_end_offset(info.last_offset + 1)
    log.update_high_watermark_with_log_end_offset()
    apply_producers(log, segment, changes, info.last_offset + 1)
    if log.log_end_offset - flushed >= log.config.flush_messages:
        log.flush()


def assign_epochs(log: UnifiedLog, batches: BatchColumns, rows: int) -> None:
    """Assign the epochs of batches; a batch of format 0 or 1 removes all epochs. Raises IllegalArgument."""
    table, cache = batches.table, log.leader_epoch_cache
    for row in range(rows):
        if table[BatchField.MAGIC, row] >= MAGIC_V2:
            cache.assign(table[BatchField.LEADER_EPOCH, row], table[BatchField.BASE_OFFSET, row])
        elif not cache.is_empty:
            cache.clear_and_flush()


def maybe_roll(log: UnifiedLog, size: int, info: LogAppendInfo) -> LogSegment:
    """The segment for an append of `size` bytes: the active one, or a new one."""
    segment, config = log.segments.active_segment, log.config
    params = RollParams(
        config.max_segment_ms, config.segment_size, info.max_timestamp, info.last_offset, size, log.now,
    )  # fmt: skip
    if not segment.should_roll(params):
        return segment
    known = info.first_offset != UNKNOWN_OFFSET
    return log.roll(info.first_offset if known else info.last_offset - INT_MAX)


def check_producers(log: UnifiedLog, frame: Frame, origin: AppendOrigin, transaction_version: int) -> ProducerChanges:
    """Check batches against the producer state. Raises AppendRefused (analyzeAndValidateProducerState)."""
    changes = ProducerChanges({}, [])
    ids = frame.batches.field(BatchField.PRODUCER_ID)
    log.producer_state.load_last_batches(ids[: frame.rows])
    for row in range(frame.rows):
        if ids[row] <= -1:
            continue
        producer = producer_row(frame, row)
        duplicate = check_producer(log, producer, origin, transaction_version, changes)
        if duplicate is not None:
            return changes._replace(duplicate=duplicate)
    return changes


def check_producer(
    log: UnifiedLog, row: ProducerRow, origin: AppendOrigin, transaction_version: int, changes: ProducerChanges
) -> BatchMetadata | None:
    """Check a batch and add it to `changes`. Returns the batch in the log that it repeats. Raises AppendRefused.

    The producer's last batches were loaded before, see `load_last_batches`.
    """
    state = log.producer_state
    entry = state.last_entry(row.producer_id)
    if entry is not None and origin is AppendOrigin.CLIENT:
        duplicate = entry.find_duplicate(row)
        if duplicate is not None:
            return duplicate
    if entry is not None and row.is_transactional and origin in (AppendOrigin.CLIENT, AppendOrigin.COORDINATOR):
        ongoing = entry.current_txn_first_offset is not None and entry.producer_epoch == row.producer_epoch
        if not ongoing and row.producer_epoch < entry.producer_epoch:
            raise InvalidProducerEpoch(
                f"Epoch of producer {row.producer_id} is {row.producer_epoch}, which is smaller than the last seen epoch "
                f"{entry.producer_epoch}"
            )
    info = changes.updated.get(row.producer_id)
    if info is None:
        info = changes.updated[row.producer_id] = state.prepare_update(row.producer_id, origin)
    completed = info.append(row, transaction_version)
    if completed is not None:
        changes.completed.append(completed)
    return None


def producer_row(frame: Frame, row: int) -> ProducerRow:
    """The fields that the producer state needs. Raises InvalidRecord for an invalid control batch."""
    table = frame.batches.table
    attributes = table[BatchField.ATTRIBUTES, row]
    marker = None
    if attributes & CONTROL_FLAG:
        try:
            marker = read_marker(Window(memoryview(frame.data), 0, frame.batches, frame.rows), row, RecordColumns(2))
        except ControlRecordInvalid as error:
            raise InvalidRecord(str(error)) from error
    return ProducerRow(
        table[BatchField.PRODUCER_ID, row], table[BatchField.PRODUCER_EPOCH, row], table[BatchField.BASE_SEQUENCE, row],
        table[BatchField.BASE_OFFSET, row], table[BatchField.LAST_OFFSET, row], table[BatchField.MAX_TIMESTAMP, row],
        bool(attributes & TRANSACTIONAL_FLAG), bool(attributes & CONTROL_FLAG), marker,
    )  # fmt: skip


def apply_producers(log: UnifiedLog, segment: LogSegment, changes: ProducerChanges, end_offset: int) -> None:
    """Apply the written batches to producer state, transaction index and last stable offset."""
    state = log.producer_state
    for info in changes.updated.values():
        state.update(info)
    for txn in changes.completed:
        segment.update_txn_index(txn, state.last_stable_offset(txn))
        state.complete_txn(txn)
    state.update_map_end_offset(end_offset)
    log.maybe_increment_first_unstable_offset()


def _name(log: UnifiedLog) -> str:
    return str(log.producer_state.topic_partition)

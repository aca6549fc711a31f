"""Check the records of a leader's append (keys, timestamps, codec), assign offsets, and update or rebuild the batches.

Mirrors LogValidator. A batch of format 2 with the target codec is kept, except for a few fields of its header. All other
batches are rebuilt as one new batch of format 2.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

from engine.formats import (
    BATCH_HEADER,
    CODEC_NAMES,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    LONG_MAX,
    LONG_MIN,
    MAGIC_V2,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    BatchField,
    Codec,
    RecordField,
    to_long,
)
from engine.kernels.admission import judge_records
from engine.kernels.select import largest_timestamp
from engine.kernels.tables import TRAITS, Flaw, Trait
from engine.log.append.frames import Frame, FrameRecords, decode_batch
from engine.log.append_errors import (
    BrokenCompression,
    CorruptRecord,
    IllegalArgument,
    InvalidRecord,
    InvalidTimestamp,
    RecordValidationFailed,
    UnsupportedOperation,
)
from engine.log.producers.entry import AppendOrigin
from engine.record.assembly import CREATE_TIME, LOG_APPEND_TIME, BatchSpec, UnbuildableBatch, encode_batch
from engine.record.builder import NewRecord, stage
from engine.record.columns import Table
from engine.record.windows import crc32c

if TYPE_CHECKING:
    from engine.config.topic import LogConfig
    from engine.files import Buffer
    from engine.record.columns import RecordColumns

_FIXED = TRANSACTIONAL_FLAG | CONTROL_FLAG | DELETE_HORIZON_FLAG  # attributes that a rebuilt batch keeps
_SHOWN_ERRORS = 3
_AT = BATCH_HEADER.positions


class Validated(NamedTuple):
    """The result of a validation.

    max_timestamp  the largest of all records, or the append time
    is_rebuilt     the batches were rebuilt: their sizes may have changed
    cut_off        description of the incomplete message at the end of a compressed set, which Kafka drops silently
    """

    frame: Frame
    next_offset: int
    max_timestamp: int
    is_rebuilt: bool
    cut_off: str | None = None


class LogValidator:
    """Checks one append to the partition `topic_partition` against `config`, at `now` (ms).

    source_codec  codec of the append (LogAppendInfo.source_compression)
    """

    def __init__(
        self,
        topic_partition: str,
        config: LogConfig,
        now: int,
        *,
        source_codec: int,
        leader_epoch: int,
        origin: AppendOrigin,
    ) -> None:
        self._topic_partition, self._config, self._now = topic_partition, config, now
        self._source, self._leader_epoch, self._origin = source_codec, leader_epoch, origin
        self._target, self._level = target_codec(config, source_codec)
        self._type = timestamp_type(config)

    def validate(self, frame: Frame, next_offset: int) -> Validated:
        """Check the batches of `frame` and give their records offsets from `next_offset` on. Their bytes may be changed.

        Raises InvalidRecord, CorruptRecord, RecordValidationFailed, IllegalArgument, UnsupportedOperation.
        """
        table = frame.batches.table
        plain = self._source == Codec.NONE and self._target == Codec.NONE
        matching = all(table[BatchField.MAGIC, row] == MAGIC_V2 for row in range(frame.rows))
        if frame.rows > 1 and (self._source != Codec.NONE or table[BatchField.MAGIC, 0] >= MAGIC_V2):
            raise InvalidRecord("Compressed outer record has more than one batch")
        in_place = matching if plain else self._may_stay(frame)
        found: list[FrameRecords] = []
        consecutive = True
        for row in range(frame.rows):
            self._check_batch(frame, row)
            records = decode_batch(frame, row)
            consecutive &= self._check_records(frame, row, records, sum(one.count for one in found))
            found.append(records)
        if next_offset > LONG_MAX - sum(one.count for one in found):
            raise InvalidRecord(f"{self._topic_partition} ends at offset {next_offset}: there are not enough offsets left for "
                                "the records")
        if in_place and (plain or consecutive):
            return self._stamp(frame, found, next_offset)
        if in_place and self._source != Codec.NONE:  # a broker has skipped keys and values, and cannot write the batch again
            where = f"in topic partition {self._topic_partition}"
            raise UnsupportedOperation(f"The offsets in a compressed batch are not consecutive {where}")
        cut_off = next((one.cut_off for one in found if one.cut_off is not None), None)
        return self._rebuild(frame, found, next_offset)._replace(cut_off=cut_off)

    def _may_stay(self, frame: Frame) -> bool:
        table = frame.batches.table
        if table[BatchField.MAGIC, 0] != MAGIC_V2:
            return False
        is_plain_control = self._source == Codec.NONE and table[BatchField.ATTRIBUTES, 0] & CONTROL_FLAG
        return self._source == self._target or bool(is_plain_control)  # control records are not compressed

    # ---- checks -----------------------------------------------------------------------------------

    def _check_batch(self, frame: Frame, row: int) -> None:
        """Raise InvalidRecord for a batch that clients must not send (validateBatch)."""
        table = frame.batches.table
        magic, where = table[BatchField.MAGIC, row], f"in topic partition {self._topic_partition}"
        if magic != table[BatchField.MAGIC, 0]:
            first = table[BatchField.MAGIC, 0]
            raise InvalidRecord(f"Batch magic {magic} is not the same as the first batch's magic byte {first} {where}")
        if self._origin is not AppendOrigin.CLIENT or magic < MAGIC_V2:
            return
        base, last, count = (table[field, row] for field in (BatchField.BASE_OFFSET, BatchField.LAST_OFFSET, BatchField.COUNT))
        if last - base + 1 <= 0:
            raise InvalidRecord(f"Batch has an invalid offset range: [{base}, {last}] {where}")
        if count <= 0:
            raise InvalidRecord(f"Invalid reported count for record batch: {count} {where}")
        if last - base + 1 != count:
            raise InvalidRecord(f"Inconsistent batch offset range [{base}, {last}] and count of records {count} {where}")
        if table[BatchField.ATTRIBUTES, row] & CONTROL_FLAG:
            raise InvalidRecord(f"Clients are not allowed to write control records {where}")
        producer_id, sequence = table[BatchField.PRODUCER_ID, row], table[BatchField.BASE_SEQUENCE, row]
        if producer_id > -1 and sequence < 0:
            raise InvalidRecord(f"Invalid sequence number {sequence} in record batch with producerId {producer_id} {where}")

    def _check_records(self, frame: Frame, row: int, records: FrameRecords, before: int) -> bool:
        """Are the offsets relative to the batch as expected, after `before` records? Raises RecordValidationFailed."""
        if records.broken is not None:
            what = f"{records.broken} in topic partition {self._topic_partition}"
            if frame.batches.table[BatchField.MAGIC, row] < MAGIC_V2:
                raise CorruptRecord(what)
            raise InvalidRecord(what) if records.is_inflated else BrokenCompression(what)
        low, high = timestamp_bounds(self._config, self._now)
        traits = Table(TRAITS, frame.batches.capacity)
        traits.field(Trait.LARGEST)[row] = NO_TIMESTAMP
        judge_records(records.columns.table, records.count, frame.batches.table, low, high, traits.table)
        flaws = traits.table[Trait.FLAWS, row]
        refused = Flaw.TIMESTAMP | (Flaw.NULL_KEY if self._config.compact else 0)
        if flaws & refused or self._is_append_time(frame, row):
            self._check_each_record(frame, row, records)
        if frame.batches.table[BatchField.MAGIC, row] >= MAGIC_V2:
            return frame.batches.table[BatchField.BASE_OFFSET, row] == before and not flaws & Flaw.OFFSETS
        return False

    def _check_each_record(self, frame: Frame, row: int, records: FrameRecords) -> None:
        """Raise RecordValidationFailed with every invalid record (validateKey, validateTimestamp)."""
        table = records.columns.table
        append_time = self._is_append_time(frame, row)
        errors: list[tuple[int, str]] = []
        is_timestamp = False
        for index in range(records.count):
            timestamp = table[RecordField.TIMESTAMP, index]
            if self._config.compact and table[RecordField.KEY_SIZE, index] < 0:
                where = f"in topic partition {self._topic_partition}"
                errors.append((index, f"Compacted topic cannot accept message without key {where}"))
            elif self._type == CREATE_TIME and timestamp != NO_TIMESTAMP:
                if self._is_out_of_bounds(timestamp):
                    errors.append((index, self._bounds_text(timestamp, table[RecordField.OFFSET, index])))
                    is_timestamp = True
            elif append_time:
                errors.append((index, _append_time_text(records.columns, index)))
                is_timestamp = True
        if is_timestamp:
            text = "One or more records have been rejected due to invalid timestamp"
            raise RecordValidationFailed(InvalidTimestamp(text), errors)
        if errors:
            raise RecordValidationFailed(InvalidRecord(_errors_text(errors)), errors)

    def _is_append_time(self, frame: Frame, row: int) -> bool:
        """Has the producer set the timestamp type LogAppendTime?"""
        table = frame.batches.table
        return bool(table[BatchField.MAGIC, row] and table[BatchField.ATTRIBUTES, row] & TIMESTAMP_TYPE_FLAG)

    def _is_out_of_bounds(self, timestamp: int) -> bool:
        difference = to_long(self._now - timestamp)
        before, after = self._config.message_timestamp_before_max_ms, self._config.message_timestamp_after_max_ms
        return difference > before or to_long(-difference) > after

    def _bounds_text(self, timestamp: int, offset: int) -> str:
        low = to_long(self._now - self._config.message_timestamp_before_max_ms)
        high = to_long(self._now + self._config.message_timestamp_after_max_ms)
        return (
            f"Timestamp {timestamp} of message with offset {offset} is out of range. "
            f"The timestamp should be within [{low}, {high}]"
        )

    # ---- results ----------------------------------------------------------------------------------

    def _stamp(self, frame: Frame, found: list[FrameRecords], next_offset: int) -> Validated:
        """The batches with new offsets, epoch and timestamps (setLastOffset, setMaxTimestamp)."""
        largest = NO_TIMESTAMP
        for row, records in enumerate(found):
            batch_largest = largest_timestamp(records.columns.table, 0, records.count)
            if self._type == LOG_APPEND_TIME:
                batch_largest = self._now
            next_offset += records.count
            self._stamp_one(frame, row, next_offset - 1, batch_largest)
            largest = max(largest, batch_largest)
        if self._type == LOG_APPEND_TIME:
            largest = self._now
        return Validated(Frame.of(frame.data), next_offset, largest, is_rebuilt=False)

    def _stamp_one(self, frame: Frame, row: int, last_offset: int, largest: int) -> None:
        data, table = frame.data, frame.batches.table
        at, size = table[BatchField.POSITION, row], table[BatchField.SIZE, row]
        delta = table[BatchField.LAST_OFFSET, row] - table[BatchField.BASE_OFFSET, row]
        BATCH_HEADER.put("base_offset", data, at, last_offset - delta)
        BATCH_HEADER.put("partition_leader_epoch", data, at, self._leader_epoch)
        attributes = table[BatchField.ATTRIBUTES, row]
        if bool(attributes & TIMESTAMP_TYPE_FLAG) == self._type and table[BatchField.MAX_TIMESTAMP, row] == largest:
            return
        new = (attributes & (_FIXED | 0x07)) | (TIMESTAMP_TYPE_FLAG if self._type == LOG_APPEND_TIME else 0)
        BATCH_HEADER.put("attributes", data, at, new)
        BATCH_HEADER.put("max_timestamp", data, at, largest)
        renew_checksum(data, at, size)

    def _rebuild(self, frame: Frame, found: list[FrameRecords], next_offset: int) -> Validated:
        """All records in one new batch with the target codec (buildRecordsAndAssignOffsets)."""
        data, columns, count = _gathered(found)
        columns.field(RecordField.OFFSET)[:count] = memoryview(array("q", range(next_offset, next_offset + count)))
        least = min(columns.field(RecordField.TIMESTAMP)[:count], default=NO_TIMESTAMP)
        if least < NO_TIMESTAMP:
            raise IllegalArgument(f"Invalid negative timestamp {least}")
        table = frame.batches.table
        spec = BatchSpec(
            base_offset=next_offset, codec=Codec(self._target), level=self._level, timestamp_type=self._type,
            log_append_time=self._now if self._type == LOG_APPEND_TIME else NO_TIMESTAMP,
            producer_id=table[BatchField.PRODUCER_ID, 0], producer_epoch=table[BatchField.PRODUCER_EPOCH, 0],
            base_sequence=table[BatchField.BASE_SEQUENCE, 0],
            transactional=bool(table[BatchField.MAGIC, 0] >= MAGIC_V2 and table[BatchField.ATTRIBUTES, 0] & TRANSACTIONAL_FLAG),
            partition_leader_epoch=self._leader_epoch,
        )  # fmt: skip
        if spec.producer_id > -1 and spec.base_sequence < 0:
            raise IllegalArgument("Invalid negative sequence number used")
        try:
            batch = encode_batch(spec, data, columns, count) if count else b""
        except UnbuildableBatch as error:
            raise IllegalArgument(str(error)) from error
        largest = max(columns.field(RecordField.TIMESTAMP)[:count], default=NO_TIMESTAMP)
        if self._type == LOG_APPEND_TIME:
            largest = self._now
        return Validated(Frame.of(bytearray(batch)), next_offset + count, largest, is_rebuilt=True)


def target_codec(config: LogConfig, source: int) -> tuple[int, int | None]:
    """Codec and level for batches that were sent with the codec `source`. Mirrors BrokerCompressionType.targetCompression."""
    name = config.compression_type.lower()
    if name == "producer":
        return source, None
    if name in ("uncompressed", "none"):
        return Codec.NONE, None
    codec = Codec(CODEC_NAMES.index(name))
    levels = {Codec.GZIP: config.gzip_level, Codec.LZ4: config.lz4_level, Codec.ZSTD: config.zstd_level}
    return codec, levels.get(codec)


def timestamp_type(config: LogConfig) -> int:
    """CREATE_TIME or LOG_APPEND_TIME."""
    return LOG_APPEND_TIME if config.message_timestamp_type == "LogAppendTime" else CREATE_TIME


def timestamp_bounds(config: LogConfig, now: int) -> tuple[int, int]:
    """Timestamps in this range are valid without further checks. With LogAppendTime all are."""
    if timestamp_type(config) == LOG_APPEND_TIME:
        return LONG_MIN, LONG_MAX
    low = max(now - config.message_timestamp_before_max_ms, 0)
    return low, min(now + config.message_timestamp_after_max_ms, LONG_MAX)


def renew_checksum(data: bytearray | memoryview, at: int, size: int) -> None:
    """Compute and write the checksum of the batch at byte `at`."""
    crc = crc32c(memoryview(data)[at + _AT["attributes"] : at + size])
    BATCH_HEADER.put("crc", data, at, crc)


def _gathered(found: list[FrameRecords]) -> tuple[Buffer, RecordColumns, int]:
    """The records of several batches in one buffer."""
    if len(found) == 1 and found[0].is_own:
        return found[0].data, found[0].columns, found[0].count
    records: list[NewRecord] = []
    for part in found:
        timestamps = part.columns.field(RecordField.TIMESTAMP)
        records += [
            NewRecord(0, timestamps[index], part.key(index), part.value(index)) for index in range(part.count)
        ]  # formats 0 and 1 have no headers
    data, columns = stage(records)
    return data, columns, len(records)


def _append_time_text(columns: RecordColumns, index: int) -> str:
    table = columns.table
    key, value = (max(0, table[field, index]) for field in (RecordField.KEY_SIZE, RecordField.VALUE_SIZE))
    record = (
        f"DefaultRecord(offset={table[RecordField.OFFSET, index]}, timestamp={table[RecordField.TIMESTAMP, index]}, "
        f"key={key} bytes, value={value} bytes)"
    )
    return f"Invalid timestamp type in message {record}. Producer should not set timestamp type to LogAppendTime."


def _errors_text(errors: list[tuple[int, str]]) -> str:
    shown = ", ".join(f"RecordError(batchIndex={index}, message='{text}')" for index, text in errors[:_SHOWN_ERRORS])
    return (
        f"One or more records have been rejected due to {len(errors)} record errors in total, "
        f"and only showing the first three errors at most: [{shown}]"
    )

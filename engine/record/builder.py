"""Build batches of every format from records: in one call, or one by one up to a size limit. Mirrors MemoryRecordsBuilder."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.formats import (
    INT_MAX,
    LOG_OVERHEAD,
    LONG_MAX,
    MAGIC_V2,
    NO_PARTITION_LEADER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    Codec,
    ControlType,
    RecordField,
    to_float,
)
from engine.kernels.encode import put_varint, varint_size
from engine.record.assembly import (
    BatchSpec,
    UnbuildableBatch,
    check_spec,
    encode_batch,
    legacy_overhead,
)
from engine.record.columns import RecordColumns
from engine.record.control import MARKERS, encode_control_key, encode_end_txn_marker, increment_sequence

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


_POSITIONS = (RecordField.KEY_POSITION, RecordField.VALUE_POSITION, RecordField.HEADERS_POSITION)


class NewRecord(NamedTuple):
    """A record to be written. None is null, b"" is empty; header keys are UTF-8 bytes."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[bytes, bytes | None]] = ()


def build_batch(records: Iterable[NewRecord], *, last_offset: int | None = None, **fields: Any) -> bytes:
    """Return one batch (magic 2), one wrapper (magic 0 or 1 with a codec), or a message set (without).

    fields       of its BatchSpec; the base offset is the first record's unless given
    last_offset  beyond the last record's, as after compaction
    Without records the result is empty, as in Kafka (see `empty_batch`). Raises UnbuildableBatch.
    """
    chosen = list(records)
    if fields.get("base_offset") is None:
        fields["base_offset"] = chosen[0].offset if chosen else 0
    spec = BatchSpec(**fields)
    spec = spec._replace(codec=Codec(spec.codec))
    check_spec(spec)
    check_records(spec, chosen)
    if not chosen:
        return b""
    data, columns = stage(chosen)
    return encode_batch(spec, data, columns, len(chosen), last_offset=last_offset)


def check_records(spec: BatchSpec, records: Sequence[NewRecord]) -> None:
    """Raise UnbuildableBatch if offsets do not grow from the base, or a timestamp is below −1."""
    last_offset = spec.base_offset - 1
    for record in records:
        if record.offset <= last_offset:
            raise UnbuildableBatch(f"offset {record.offset} follows {last_offset}: offsets must increase within a batch")
        if record.timestamp < NO_TIMESTAMP:
            raise UnbuildableBatch(f"offset {record.offset}: timestamp {record.timestamp} is negative")
        if record.offset > LONG_MAX or record.timestamp > LONG_MAX:
            raise UnbuildableBatch(f"offset {record.offset}, timestamp {record.timestamp}: more than 64 bits")
        if record.headers and spec.magic < MAGIC_V2:
            raise UnbuildableBatch(f"offset {record.offset}: message format {spec.magic} has no headers")
        last_offset = record.offset
    if last_offset - spec.base_offset > INT_MAX:
        raise UnbuildableBatch(f"offset {last_offset} is more than 2^31 - 1 after base offset {spec.base_offset}")


def stage(records: Sequence[NewRecord]) -> tuple[bytes, RecordColumns]:
    """Return the records as columns over one buffer, with headers in wire form, for kernels."""
    columns = RecordColumns(max(1, len(records)))
    parts: list[bytes] = []
    fields: dict[RecordField, list[int]] = {field: [] for field in _POSITIONS}
    key_at, value_at, headers_at = (fields[field].append for field in _POSITIONS)
    at = 0
    for record in records:
        key, value, headers = record.key, record.value, record.headers
        key_at(at)
        if key:
            parts.append(key)
            at += len(key)
        value_at(at)
        if value:
            parts.append(value)
            at += len(value)
        headers_at(at)
        for name, content in headers:
            pair = wire_field(name) + wire_field(content)
            parts.append(pair)
            at += len(pair)
    fields[RecordField.OFFSET] = [record.offset for record in records]
    fields[RecordField.TIMESTAMP] = [record.timestamp for record in records]
    fields[RecordField.KEY_SIZE] = [-1 if record.key is None else len(record.key) for record in records]
    fields[RecordField.VALUE_SIZE] = [-1 if record.value is None else len(record.value) for record in records]
    fields[RecordField.HEADER_COUNT] = [len(record.headers) for record in records]
    for field, numbers in fields.items():
        columns.field(field)[: len(records)] = memoryview(array("q", numbers))
    return b"".join(parts), columns


def end_txn_batch(
    kind: ControlType,
    coordinator_epoch: int,
    *,
    base_offset: int,
    timestamp: int,
    producer_id: int,
    producer_epoch: int,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
) -> bytes:
    """Return the control batch that ends a transaction. Mirrors MemoryRecords.withEndTransactionMarker."""
    if kind not in MARKERS:
        raise UnbuildableBatch(f"a transaction ends with an abort or a commit, not with {kind.name}")
    marker = NewRecord(base_offset, timestamp, encode_control_key(kind), encode_end_txn_marker(coordinator_epoch))
    return build_batch(
        [marker], producer_id=producer_id, producer_epoch=producer_epoch, transactional=True, control=True,
        partition_leader_epoch=partition_leader_epoch,
    )  # fmt: skip


class BatchBuilder:
    """Collects records while they fit, then makes one batch of them. Mirrors MemoryRecordsBuilder.

    write_limit   bytes that a batch should not exceed; its first record may be of any size
    ratio         expected compressed size by uncompressed size, for codecs (see CompressionRatioEstimator)
    """

    _SAFETY = to_float(1.05)  # MemoryRecordsBuilder.COMPRESSION_RATE_ESTIMATION_FACTOR

    def __init__(self, spec: BatchSpec, write_limit: int = INT_MAX, ratio: float = 1.0) -> None:
        check_spec(spec)
        self.spec = spec
        self.write_limit = write_limit
        self.ratio = ratio
        self.records: list[NewRecord] = []
        self._written = 0  # bytes of the records, uncompressed

    @property
    def estimated_size(self) -> int:
        """The size of the batch so far in bytes: exact without a codec."""
        if self.spec.codec == Codec.NONE:
            return self.spec.header_size + self._written
        scaled = to_float(to_float(self._written) * to_float(self.ratio))
        return self.spec.header_size + int(to_float(scaled * self._SAFETY))

    @property
    def is_full(self) -> bool:
        """Whether no further record is accepted, whatever its size."""
        return bool(self.records) and self.write_limit <= self.estimated_size

    @property
    def next_offset(self) -> int:
        """The offset after the last record."""
        return self.records[-1].offset + 1 if self.records else self.spec.base_offset

    def has_room_for(self, record: NewRecord) -> bool:
        """Return whether the batch stays below the limit with this record. Always true for the first one."""
        return not self.records or (
            not self.is_full and self.write_limit >= self.estimated_size + self._size_of(record)
        )

    def append(self, record: NewRecord) -> None:
        """Add a record, even beyond the limit. Raises UnbuildableBatch (see check_records)."""
        following = self.spec._replace(base_offset=self.next_offset)
        check_records(following, [record])
        if record.offset - self.spec.base_offset > INT_MAX:
            raise UnbuildableBatch(f"offset {record.offset} is more than 2^31 - 1 after {self.spec.base_offset}")
        self._written += self._size_of(record)
        self.records.append(record)

    def build(self, last_offset: int | None = None) -> bytes:
        """Return the batch; b"" without records."""
        if not self.records:
            return b""
        data, columns = stage(self.records)
        return encode_batch(self.spec, data, columns, len(self.records), last_offset=last_offset)

    def _size_of(self, record: NewRecord) -> int:
        if self.spec.magic < MAGIC_V2:
            overhead = LOG_OVERHEAD + legacy_overhead(self.spec.magic)
            return overhead + len(record.key or b"") + len(record.value or b"")
        base_timestamp = self.records[0].timestamp if self.records else record.timestamp
        if self.spec.delete_horizon_ms >= 0:
            base_timestamp = self.spec.delete_horizon_ms
        return record_size(record, self.spec.base_offset, base_timestamp)


def record_size(record: NewRecord, base_offset: int, base_timestamp: int) -> int:
    """Return the size in bytes of a record in an uncompressed batch of magic 2. Mirrors DefaultRecord.sizeInBytes."""
    size = 1 + varint_size(record.offset, base_offset) + varint_size(record.timestamp, base_timestamp)
    size += _field_size(record.key) + _field_size(record.value) + varint_size(len(record.headers))
    for key, value in record.headers:
        size += _field_size(key) + _field_size(value)
    return int(size + varint_size(size))


def split(records: Iterable[NewRecord], spec: BatchSpec, write_limit: int) -> Iterator[bytes]:
    """Return batches of at most `write_limit` bytes, estimated before compression; a single record may exceed it.

    Every batch begins at its first record's offset; sequences continue in the next batch (ProducerBatch.split).
    """
    builder: BatchBuilder | None = None
    for record in records:
        if builder is None or not builder.has_room_for(record):
            sequence = spec.base_sequence
            if builder is not None:
                yield builder.build()
                if builder.spec.base_sequence != NO_SEQUENCE:
                    sequence = increment_sequence(builder.spec.base_sequence, len(builder.records))
            builder = BatchBuilder(spec._replace(base_offset=record.offset, base_sequence=sequence), write_limit)
        builder.append(record)
    if builder is not None:
        yield builder.build()


def wire_field(field: bytes | None) -> bytes:
    """Return a header's key or value with its length, as in a record."""
    scratch = bytearray(5)
    size = put_varint(memoryview(scratch), 0, -1 if field is None else len(field))
    return bytes(scratch[:size]) + (field or b"")


def _field_size(field: bytes | None) -> int:
    return 1 if field is None else int(varint_size(len(field))) + len(field)

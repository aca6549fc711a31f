"""Every byte layout and wire constant of Kafka's files, declared once.

A layout is a NamedTuple whose fields are annotated with their wire type. `Layout` derives struct codes, size and positions
from it for kernels, readers, writers and `docs/formats.md`. All integers are big-endian.
"""

import re
import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

i8 = Annotated[int, "b"]
i16 = Annotated[int, "h"]
i32 = Annotated[int, "i"]
i64 = Annotated[int, "q"]
u8 = Annotated[int, "B"]
u32 = Annotated[int, "I"]

_KINDS = {"b": "int8", "h": "int16", "i": "int32", "q": "int64", "B": "uint8", "I": "uint32"}
_FIELD = re.compile(r"^ {4}(\w+): (\w+)  # +(\d+) *(.*)$", re.MULTILINE)

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1


def to_int(value: int) -> int:
    """Wrap `value` to 32 bits, as Java's arithmetic does."""
    return value if INT_MIN <= value <= INT_MAX else (value - INT_MIN) % 2**32 + INT_MIN


_FLOAT = struct.Struct("<f")


def to_float(number: float) -> float:
    """Return a number rounded as Java's float."""
    return float(_FLOAT.unpack(_FLOAT.pack(number))[0])


def to_long(value: int) -> int:
    """Wrap `value` to 64 bits, as Java's arithmetic does."""
    return value if LONG_MIN <= value <= LONG_MAX else (value - LONG_MIN) % 2**64 + LONG_MIN


def can_be_followed(base_offset: int, last_offset: int) -> bool:
    """Return whether a batch can follow one with these offsets: 2^63 − 1 is the last offset, and Java's sums wrap above it."""
    return last_offset < LONG_MAX and (last_offset >= 0 or base_offset <= INT_MAX)


Header = TypeVar("Header", bound=tuple[Any, ...])


class Layout(Generic[Header]):
    """A fixed byte layout: `size` in bytes, `positions` by field name, `read` and `pack`.

    struct  all fields as one struct.Struct, which reads plain tuples in loops
    fields  a struct.Struct for each field, by name
    """

    __slots__ = ("fields", "kind", "positions", "size", "struct")

    def __init__(self, kind: type[Header]) -> None:
        self.kind = kind
        self.positions: dict[str, int] = {}
        self.fields: dict[str, struct.Struct] = {}
        codes, at = ">", 0
        for name in kind._fields:  # type: ignore[attr-defined]  # every NamedTuple has this attribute
            code = kind.__annotations__[name].__metadata__[0]
            self.positions[name] = at
            self.fields[name] = struct.Struct(">" + code)
            codes += code
            at += self.fields[name].size
        self.struct = struct.Struct(codes)
        self.size: int = self.struct.size

    def read(self, buffer: bytes | bytearray | memoryview, at: int = 0) -> Header:
        """Return the fields at byte position `at`. Raises struct.error if fewer than `size` bytes are left."""
        return self.kind(*self.struct.unpack_from(buffer, at))

    def field(self, name: str, buffer: bytes | bytearray | memoryview, at: int = 0) -> int:
        """Return one field of the layout that begins at byte position `at`. Raises struct.error if its bytes are not there."""
        value: int
        (value,) = self.fields[name].unpack_from(buffer, at + self.positions[name])
        return value

    def put(self, name: str, buffer: bytearray | memoryview, at: int, value: int) -> None:
        """Write one field of the layout that begins at byte position `at`. Raises struct.error if `value` does not fit."""
        self.fields[name].pack_into(buffer, at + self.positions[name], value)

    def described(self) -> Iterator[tuple[int, str, str, str]]:
        """Return (position in its comment, field, wire type, meaning) of each field, read from the source."""
        import inspect  # slow, and not needed to read files

        for name, code, position, meaning in _FIELD.findall(inspect.getsource(self.kind)):
            yield int(position), name, _KINDS[globals()[code].__metadata__[0]], meaning

    def pack(self, header: Header) -> bytes:
        """Return the bytes of `header`. Raises struct.error if a value does not fit."""
        return self.struct.pack(*header)


class BatchHeader(NamedTuple):
    """RecordBatch v2, 61 bytes. Mirrors DefaultRecordBatch (KIP-98; delete horizon KIP-534)."""

    base_offset: i64  #  0  first offset; compaction keeps it when it removes records
    batch_length: i32  #  8  bytes after this field, so batch size − LOG_OVERHEAD (12)
    partition_leader_epoch: i32  # 12  outside the CRC: the broker stamps it on append
    magic: i8  # 16  2
    crc: u32  # 17  CRC-32C of everything from `attributes` to the end
    attributes: i16  # 21  0–2 codec · 3 timestamp type · 4 transactional · 5 control · 6 delete horizon
    last_offset_delta: i32  # 23  last offset − base offset, kept by compaction
    base_timestamp: i64  # 27  ms; the delete horizon if attribute bit 6 is set
    max_timestamp: i64  # 35  ms; the append time of every record if attribute bit 3 is set
    producer_id: i64  # 43  −1 without idempotence
    producer_epoch: i16  # 51  −1 without idempotence
    base_sequence: i32  # 53  −1 without idempotence
    record_count: i32  # 57  0 for a batch that the cleaner emptied


class LegacyHeaderV0(NamedTuple):
    """Entry of message format 0, up to the key size. Mirrors LegacyRecord."""

    offset: i64  #  0  of a compressed wrapper: the offset of its last inner message
    message_size: i32  #  8  bytes after this field
    crc: u32  # 12  CRC-32 of everything from `magic` to the end
    magic: i8  # 16  0
    attributes: u8  # 17  0–2 codec
    key_size: i32  # 18  −1: null


class LegacyHeaderV1(NamedTuple):
    """Entry of message format 1, up to the key size. Mirrors LegacyRecord (KIP-31, KIP-32)."""

    offset: i64  #  0  inner messages count from 0 relative to their wrapper
    message_size: i32  #  8  bytes after this field
    crc: u32  # 12  CRC-32 of everything from `magic` to the end
    magic: i8  # 16  1
    attributes: u8  # 17  0–2 codec · 3 timestamp type
    timestamp: i64  # 18  ms
    key_size: i32  # 26  −1: null


class Entry07V0(NamedTuple):
    """Entry of Kafka 0.7, magic 0, up to the payload."""

    size: i32  #  0  bytes after this field
    magic: i8  #  4  0
    crc: u32  #  5  CRC-32 of the payload


class Entry07(NamedTuple):
    """Entry of Kafka 0.7, magic 1, up to the payload."""

    size: i32  #  0  bytes after this field
    magic: i8  #  4  1
    attributes: u8  #  5  0–1 codec
    crc: u32  #  6  CRC-32 of the payload


class OffsetIndexEntry(NamedTuple):
    """Entry of an .index file. Mirrors OffsetIndex."""

    relative_offset: i32  # 0  offset − base offset of the segment
    position: i32  # 4  byte position of a batch in the .log


class TimeIndexEntry(NamedTuple):
    """Entry of a .timeindex file. Mirrors TimeIndex (KIP-33)."""

    timestamp: i64  # 0  largest timestamp of the segment up to here, ms
    relative_offset: i32  # 8  offset of that record − base offset of the segment


class AbortedTxn(NamedTuple):
    """Entry of a .txnindex file, 34 bytes. Mirrors AbortedTxn."""

    version: i16  #  0  0
    producer_id: i64  #  2
    first_offset: i64  # 10  of the transaction
    last_offset: i64  # 18  offset of the abort marker
    last_stable_offset: i64  # 26  when the marker was written


class ControlKey(NamedTuple):
    """Key of a control record, 4 bytes; later versions may add fields at the end. Mirrors ControlRecordType."""

    version: i16  # 0  0
    type: i16  # 2  see ControlType


class EndTxnMarker(NamedTuple):
    """Value of an abort or commit marker, 6 bytes; later versions may add fields. Mirrors EndTransactionMarker."""

    version: i16  # 0  0
    coordinator_epoch: i32  # 2  of the transaction coordinator that wrote it


class ProducerSnapshotHeader(NamedTuple):
    """Head of a producer .snapshot, 10 bytes. Mirrors ProducerStateManager."""

    version: i16  # 0  1
    crc: u32  # 2  CRC-32C of everything after this field
    entry_count: i32  # 6


class ProducerSnapshotEntry(NamedTuple):
    """One producer of a .snapshot. Mirrors ProducerStateEntry."""

    producer_id: i64  #  0
    producer_epoch: i16  #  8
    last_sequence: i32  # 10
    last_offset: i64  # 14  −1: only a marker was seen
    offset_delta: i32  # 22  last offset − first offset of the last batch
    timestamp: i64  # 26  of the last batch, ms
    coordinator_epoch: i32  # 34  −1: no marker was seen
    current_txn_first_offset: i64  # 38  −1: no open transaction


BATCH_HEADER = Layout(BatchHeader)
LEGACY_V0 = Layout(LegacyHeaderV0)
LEGACY_V1 = Layout(LegacyHeaderV1)
ENTRY_07_V0 = Layout(Entry07V0)
ENTRY_07 = Layout(Entry07)
OFFSET_INDEX_ENTRY = Layout(OffsetIndexEntry)
TIME_INDEX_ENTRY = Layout(TimeIndexEntry)
ABORTED_TXN = Layout(AbortedTxn)
CONTROL_KEY = Layout(ControlKey)
END_TXN_MARKER = Layout(EndTxnMarker)
PRODUCER_SNAPSHOT_HEADER = Layout(ProducerSnapshotHeader)
PRODUCER_SNAPSHOT_ENTRY = Layout(ProducerSnapshotEntry)

LOG_OVERHEAD = 12  # bytes of the offset and size fields, which the size does not count
HEADER_SIZE_UP_TO_MAGIC = 17
MIN_RECORD_SIZE = 14  # smallest legal size field of any format: LegacyRecord.RECORD_OVERHEAD_V0
LEGACY_OVERHEAD_V0 = 14  # crc, magic, attributes, key size, value size
LEGACY_OVERHEAD_V1 = 22

MAGIC_V0, MAGIC_V1, MAGIC_V2 = 0, 1, 2

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_PARTITION_LEADER_EPOCH = -1

CODEC_MASK = 0x07
TIMESTAMP_TYPE_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40


class Codec(IntEnum):
    """Compression codec ids (CompressionType)."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
LAST_LEGACY_CODEC = Codec.LZ4  # of formats 0 and 1

LZ4_FRAME_BLOCK = 1 << 16  # bytes of a block in an LZ4 frame as Kafka writes it
LZ4_STORED = 0x80000000  # flag in the size of a block: its bytes are not compressed


class ControlType(IntEnum):
    """Types of control records (ControlRecordType)."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class Status(IntEnum):
    """Why a kernel stopped. Compare with `==`: kernels return plain ints."""

    END = 0  # the whole input was used
    TORN = 1  # the next entry extends beyond the window
    BAD_SIZE = 2  # a size field below the smallest valid one
    FULL = 3  # the output is full: call again
    BAD_START = 4  # an argument is outside its buffer
    BAD_VARINT = 5  # a varint longer than its type
    BAD_RECORD = 6  # a length inside a record that does not fit
    BAD_COUNT = 7  # the size of the batch does not match its records
    BAD_VALUE = 8  # a value extends beyond its message; everything else in the message is there
    BAD_CODEC = 9  # a compressed message inside a compressed one


class BatchField(IntEnum):
    """Columns of a BatchColumns table, which has a row for each batch or legacy entry."""

    POSITION = 0  # byte position in the buffer that was scanned
    SIZE = 1  # whole size in bytes
    MAGIC = 2
    VALID = 3  # 1: checksum matches · 0: it does not · −1: not computed yet (large batches)
    CRC = 4  # as stored, unsigned
    ATTRIBUTES = 5  # the low byte
    BASE_OFFSET = 6  # magic below 2: the entry's offset
    LAST_OFFSET = 7
    COUNT = 8  # −1 for magic below 2
    MAX_TIMESTAMP = 9
    BASE_TIMESTAMP = 10
    PRODUCER_ID = 11
    PRODUCER_EPOCH = 12
    BASE_SEQUENCE = 13
    LEADER_EPOCH = 14
    BODY = 15  # position of the records in the buffer that holds them; LEFT_OUT: the records are not needed
    BODY_END = 16


LEFT_OUT = -2  # value of BatchField.BODY for a batch of format 2


class RecordField(IntEnum):
    """Columns of a RecordColumns table, which has a row for each record. A size of −1 is null."""

    BATCH = 0  # row in BatchColumns
    OFFSET = 1
    TIMESTAMP = 2
    KEY_POSITION = 3  # byte position in the buffer that holds the records
    KEY_SIZE = 4
    VALUE_POSITION = 5
    VALUE_SIZE = 6
    HEADERS_POSITION = 7  # of the first header's key size
    HEADER_COUNT = 8
    CRC = 9  # magic below 2: the message's own, as stored
    VALID = 10  # magic below 2: 1 if that checksum matches


BATCH_FIELDS = len(BatchField)
RECORD_FIELDS = len(RecordField)

"""Columns → text for builds without a compiler: plain twins of the kernels in `text`. Made to be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.formats import (
    CODEC_MASK,
    CODEC_NAMES,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    INT_MAX,
    MAGIC_V2,
    RECORD_FIELDS,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    BatchField,
    RecordField,
    Status,
    to_int,
)
from engine.java_text import java_utf8
from engine.kernels.bounds import BLOCK, batches_are_there, contents_are_there
from engine.kernels.escapes import terminal_safe
from engine.kernels.fields import BATCH_LINE_LIMIT, CONTENTS, ESCAPE, META, OPEN, RECORD_LINE_LIMIT, TEXT_GROWTH
from engine.kernels.numbers import capacity_of, varint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.kernels.numbers import Room
    from engine.kernels.reference import Row

About = tuple[int, str, int, int]  # see about_batch
Header = tuple[bytes, bytes | None]


def print_batches(
    out: Room, at: int, batches: memoryview, row: int, last_row: int, base: int,
) -> tuple[int, int, Status]:  # fmt: skip
    """See text.print_batches."""
    if row < 0 or last_row > capacity_of(batches) or at < 0:
        return at, row, Status.BAD_START
    capacity, flat = capacity_of(batches), batches.cast("B").cast("q")
    while row < last_row:
        if len(out) - at < BATCH_LINE_LIMIT:
            return at, row, Status.FULL
        at = put(out, at, _batch_line(flat[row::capacity].tolist(), base))
        row += 1
    return at, row, Status.END


def print_records(
    out: Room, at: int, data: memoryview, batches: memoryview, row: int, last_row: int, records: memoryview, record: int,
    last_record: int, flags: int, base: int,
) -> tuple[int, int, int, Status]:  # fmt: skip
    """See text.print_records."""
    if row < 0 or last_row > capacity_of(batches) or at < 0 or record < 0 or last_record > capacity_of(records):
        return at, row, record, Status.BAD_START
    capacity, flat = capacity_of(batches), batches.cast("B").cast("q")
    shown: int | None = None  # the batch that `about` tells of
    about: About = (0, "", 0, 0)
    while record < last_record:
        behind = min(last_record, record + BLOCK)
        if not believable(data, records, record, behind, capacity, flags):
            return at, row, record, Status.BAD_START
        for one in rows(records, record, behind):
            batch = one[RecordField.BATCH]
            while row < last_row and row <= batch:
                if len(out) - at < BATCH_LINE_LIMIT:
                    return at, row, record, Status.FULL
                at = put(out, at, _batch_line(flat[row::capacity].tolist(), base))
                row += 1
            headers = headers_of(data, one) if flags & META else []
            if headers is None:
                return at, row, record, Status.BAD_START
            if batch != shown:
                shown, about = batch, about_batch(flat[batch::capacity].tolist())
            if _room(one, headers, flags) > len(out) - at:
                return at, row, record, Status.FULL
            at = put(out, at, _record_line(data, one, headers, about, flags))
            record += 1
    at, row, status = print_batches(out, at, batches, row, max(row, last_row), base)
    return at, row, record, status


def put(out: Room, at: int, text: bytes) -> int:
    """Write `text` to out[at:] → behind it."""
    end = at + len(text)
    out[at:end] = text
    return end


def rows(records: memoryview, start: int, end: int) -> Iterator[Row]:
    """Records start … end − 1 as tuples in the order of RecordField."""
    capacity, flat = capacity_of(records), records.cast("B").cast("q")
    fields = (flat[field * capacity + start : field * capacity + end].tolist() for field in range(RECORD_FIELDS))
    return zip(*fields, strict=True)


# ---- lines


def boolean(value: int) -> str:
    """As Java and JSON write it."""
    return "true" if value else "false"


def timestamp_type(magic: int, attributes: int) -> str:
    """Kafka's name of a batch's kind of timestamps."""
    if magic == 0:
        return "NoTimestampType"
    return "LogAppendTime" if attributes & TIMESTAMP_TYPE_FLAG else "CreateTime"


def advance(sequence: int, last: int, first: int) -> int:
    """The sequence of offset `last` where `first` has `sequence`: 0 follows 2^31 − 1, in Java's 32-bit arithmetic."""
    increment = to_int(last - first)
    if sequence > to_int(INT_MAX - increment):
        return to_int(increment - (INT_MAX - sequence) - 1)
    return to_int(sequence + increment)


def _batch_line(batch: list[int], base: int) -> bytes:
    (
        position, size, magic, valid, crc, attributes, base_offset, last_offset, count, max_timestamp, base_timestamp,
        producer_id, producer_epoch, sequence, leader_epoch, _, _,
    ) = batch  # fmt: skip  # the order of BatchField
    if magic >= MAGIC_V2:
        last_sequence = -1 if sequence == -1 else advance(sequence, last_offset, base_offset)
        horizon = f"[{base_timestamp}]" if attributes & DELETE_HORIZON_FLAG else ".empty"
        head = (
            f"baseOffset: {base_offset} lastOffset: {last_offset} count: {count} baseSequence: {sequence}"
            f" lastSequence: {last_sequence} producerId: {producer_id} producerEpoch: {producer_epoch}"
            f" partitionLeaderEpoch: {leader_epoch} isTransactional: {boolean(attributes & TRANSACTIONAL_FLAG)}"
            f" isControl: {boolean(attributes & CONTROL_FLAG)} deleteHorizonMs: OptionalLong{horizon}"
        )
    else:
        head = f"offset: {last_offset}"
    codec = attributes & CODEC_MASK
    name = CODEC_NAMES[codec] if codec < len(CODEC_NAMES) else f"unknown({codec})"
    return (
        f"{head} position: {base + position} {timestamp_type(magic, attributes)}: {max_timestamp} size: {size}"
        f" magic: {magic} compresscodec: {name} crc: {crc} isvalid: {boolean(valid == 1)}\n"
    ).encode()


def about_batch(batch: list[int]) -> About:
    """What a batch says about its records: (magic, name of their timestamps, base sequence, base offset)."""
    magic = batch[BatchField.MAGIC]
    name = timestamp_type(magic, batch[BatchField.ATTRIBUTES])
    return magic, name, batch[BatchField.BASE_SEQUENCE], batch[BatchField.BASE_OFFSET]


def _room(one: Row, headers: list[Header], flags: int) -> int:
    """Bytes that the line of a record may need."""
    needed = RECORD_LINE_LIMIT
    if flags & CONTENTS:
        for size in (one[RecordField.KEY_SIZE], one[RecordField.VALUE_SIZE]):
            if size > 0:
                needed += TEXT_GROWTH * size
    for key, _ in headers:
        needed += TEXT_GROWTH * len(key) + 1
    return needed


def _record_line(data: memoryview, one: Row, headers: list[Header], about: About, flags: int) -> bytes:
    _, offset, timestamp, key_at, key_size, value_at, value_size, _, _, crc, valid = one
    line, start = b"", b"| "
    if flags & META:
        magic, name, sequence, base_offset = about
        head = f"| offset: {offset} {name}: {timestamp} keySize: {key_size} valueSize: {value_size}"
        if magic < MAGIC_V2:
            line = f"{head} isValid: {boolean(valid == 1)} crc: {crc}".encode()
        else:
            sequence = advance(sequence, offset, base_offset) if sequence >= 0 else -1
            line = f"{head} sequence: {sequence} headerKeys: [".encode()
            line += b",".join([_payload(key, flags) for key, _ in headers]) + b"]"
        start = b" "
    if flags & CONTENTS:
        if key_size >= 0:
            line += start + b"key: " + _payload(bytes(data[key_at : key_at + key_size]), flags)
            start = b" "
        if value_size >= 0:
            line += start + b"payload: " + _payload(bytes(data[value_at : value_at + value_size]), flags)
    return line if flags & OPEN else line + b"\n"


# ---- payloads


def _payload(data: bytes, flags: int) -> bytes:
    """Bytes as Java's UTF-8 text, escaped where the flags say so."""
    text = java_utf8(data)
    return terminal_safe(text.decode()).encode() if flags & ESCAPE else text


def believable(data: memoryview, records: memoryview, first: int, end: int, batches: int, flags: int) -> bool:
    """Are the batches of the records first … end − 1 there, and what is shown of their bytes?"""
    there = batches_are_there(records, first, end, batches)
    return there and (not flags & CONTENTS or contents_are_there(data, records, first, end))


def headers_of(data: memoryview, one: Row) -> list[Header] | None:
    """A record's headers; None: they are not where its columns say."""
    headers: list[Header] = []
    at = one[RecordField.HEADERS_POSITION]
    for _ in range(one[RecordField.HEADER_COUNT]):
        size, key_at = varint(data, at, len(data))
        if key_at < 0 or size < 0 or size > len(data) - key_at:
            return None
        value_size, at = varint(data, key_at + size, len(data))
        if at < 0 or value_size > len(data) - at:
            return None
        value = bytes(data[at : at + value_size]) if value_size >= 0 else None
        headers.append((bytes(data[key_at : key_at + size]), value))
        at += max(value_size, 0)
    return headers

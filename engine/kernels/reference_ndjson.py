"""Columns → JSON objects for builds without a compiler: plain twins of the kernels in `ndjson`. Made to be read."""

from __future__ import annotations

from base64 import b64encode
from json.encoder import encode_basestring
from typing import TYPE_CHECKING

from engine.formats import (
    CODEC_MASK,
    CODEC_NAMES,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    MAGIC_V2,
    TRANSACTIONAL_FLAG,
    RecordField,
    Status,
)
from engine.kernels.bounds import BLOCK
from engine.kernels.escapes import terminal_safe_json
from engine.kernels.fields import ARRAY, BATCH_OBJECT_LIMIT, CONTENTS, ESCAPE, META, OPEN
from engine.kernels.numbers import capacity_of
from engine.kernels.reference_text import (
    about_batch,
    advance,
    believable,
    boolean,
    headers_of,
    put,
    rows,
    timestamp_type,
)

if TYPE_CHECKING:
    from engine.kernels.numbers import Room
    from engine.kernels.reference import Row
    from engine.kernels.reference_text import About, Header


def batch_objects(
    out: Room, at: int, batches: memoryview, row: int, last_row: int, flags: int, base: int,
) -> tuple[int, int, Status]:  # fmt: skip
    """See ndjson.batch_objects."""
    if row < 0 or last_row > capacity_of(batches) or at < 0:
        return at, row, Status.BAD_START
    capacity, flat = capacity_of(batches), batches.cast("B").cast("q")
    while row < last_row:
        if len(out) - at < BATCH_OBJECT_LIMIT:
            return at, row, Status.FULL
        at = put(out, at, _batch_object(flat[row::capacity].tolist(), base, flags))
        row += 1
    return at, row, Status.END


def record_objects(
    out: Room, at: int, data: memoryview, batches: memoryview, row: int, last_row: int, records: memoryview, record: int,
    last_record: int, flags: int, base: int,
) -> tuple[int, int, int, Status]:  # fmt: skip
    """See ndjson.record_objects."""
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
            at, row, status = batch_objects(out, at, batches, row, max(row, min(last_row, batch + 1)), flags, base)
            if status != Status.END:
                return at, row, record, status
            if batch != shown:
                shown, about = batch, about_batch(flat[batch::capacity].tolist())
            headers = headers_of(data, one) if flags & META and about[0] >= MAGIC_V2 else []
            if headers is None:
                return at, row, record, Status.BAD_START
            text = _record_object(data, one, headers, about, flags)
            if len(text) > len(out) - at:
                return at, row, record, Status.FULL
            at = put(out, at, text)
            record += 1
    at, row, status = batch_objects(out, at, batches, row, max(row, last_row), flags, base)
    return at, row, record, status


def _batch_object(batch: list[int], base: int, flags: int) -> bytes:
    (
        position, size, magic, valid, crc, attributes, base_offset, last_offset, count, max_timestamp, base_timestamp,
        producer_id, producer_epoch, sequence, leader_epoch, _, _,
    ) = batch  # fmt: skip  # the order of BatchField
    first = of_v2 = ""
    if magic >= MAGIC_V2:
        last_sequence = -1 if sequence == -1 else advance(sequence, last_offset, base_offset)
        first = f',"base_offset":{base_offset}'
        of_v2 = (
            f',"count":{count},"base_sequence":{sequence},"last_sequence":{last_sequence},"producer_id":{producer_id}'
            f',"producer_epoch":{producer_epoch},"partition_leader_epoch":{leader_epoch}'
            f',"is_transactional":{boolean(attributes & TRANSACTIONAL_FLAG)},"is_control":{boolean(attributes & CONTROL_FLAG)}'
            f',"delete_horizon_ms":{base_timestamp if attributes & DELETE_HORIZON_FLAG else "null"}'
            f',"base_timestamp":{base_timestamp}'
        )
    codec = attributes & CODEC_MASK
    name = CODEC_NAMES[codec] if codec < len(CODEC_NAMES) else f"unknown({codec})"
    return (
        f'{_comma(flags)}{{"type":"batch","schema":1,"position":{base + position},"size":{size},"magic":{magic}{first}'
        f',"last_offset":{last_offset}{of_v2},"max_timestamp":{max_timestamp}'
        f',"timestamp_type":"{timestamp_type(magic, attributes)}","compression":"{name}","crc":{crc}'
        f',"is_valid":{boolean(valid == 1)}}}\n'
    ).encode()


def _record_object(data: memoryview, one: Row, headers: list[Header], about: About, flags: int) -> bytes:
    _, offset, timestamp, key_at, key_size, value_at, value_size, _, _, crc, valid = one
    text = f'{_comma(flags)}{{"type":"record","schema":1,"offset":{offset}'
    if flags & META:
        magic, name, sequence, base_offset = about
        text += f',"timestamp":{timestamp},"timestamp_type":"{name}","key_size":{key_size},"value_size":{value_size}'
        if magic < MAGIC_V2:
            text += f',"crc":{crc},"is_valid":{boolean(valid == 1)}'
        else:
            sequence = advance(sequence, offset, base_offset) if sequence >= 0 else -1
            text += f',"sequence":{sequence},"headers":[{_headers(headers, flags)}]'
    if flags & CONTENTS:
        key = None if key_size < 0 else bytes(data[key_at : key_at + key_size])
        value = None if value_size < 0 else bytes(data[value_at : value_at + value_size])
        text += f",{_field('key', key, flags)},{_field('value', value, flags)}"
    return (text if flags & OPEN else text + "}\n").encode()


def _comma(flags: int) -> str:
    return "," if flags & ARRAY else ""


def _headers(headers: list[Header], flags: int) -> str:
    return ",".join([f"{{{_field('key', key, flags)},{_field('value', value, flags)}}}" for key, value in headers])


def _field(name: str, field: bytes | None, flags: int) -> str:
    """`"key":null`, `"key":"text"` or `"key_b64":"base64"`."""
    if field is None:
        return f'"{name}":null'
    try:
        text = encode_basestring(field.decode())
    except UnicodeDecodeError:
        return f'"{name}_b64":"{b64encode(field).decode()}"'
    if flags & ESCAPE:
        text = terminal_safe_json(text)
    return f'"{name}":{text}'

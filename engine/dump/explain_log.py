"""The fields of batches and records of every format, in order, up to where damaged bytes stop making sense."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from engine.amounts import count_of
from engine.dump.explained import Source, crc_note, none_note, time_note
from engine.formats import (
    BATCH_HEADER,
    CODEC_MASK,
    CODEC_NAMES,
    CONTROL_FLAG,
    CONTROL_KEY,
    DELETE_HORIZON_FLAG,
    END_TXN_MARKER,
    HEADER_SIZE_UP_TO_MAGIC,
    LAST_LEGACY_CODEC,
    LEGACY_V0,
    LEGACY_V1,
    LOG_OVERHEAD,
    MAGIC_V0,
    MAGIC_V2,
    MIN_RECORD_SIZE,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    BatchField,
    Codec,
    ControlType,
)
from engine.kernels.decode import read_varint
from engine.record.codecs.codecs import InflateStatus, inflate
from engine.record.control import known_control_type
from engine.record.damage import Problem
from engine.record.legacy import Wrapper, open_wrapper, read_wrapper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from engine.dump.explained import Field
    from engine.formats import Layout
    from engine.record.windows import Window

_INT = 4  # bytes of a size of formats 0 and 1
_VARLONG = 10  # most bytes of a varint of 64 bits
_TYPES = {0: "CreateTime", 1: "LogAppendTime"}
_FLAGS = (("transactional", 4, TRANSACTIONAL_FLAG), ("control", 5, CONTROL_FLAG), ("delete_horizon", 6, DELETE_HORIZON_FLAG))


class RecordChoice(NamedTuple):
    """Which records are explained field by field. at, offset: only the one at this byte or with this offset; None: all."""

    at: int | None = None
    offset: int | None = None


class _Stop(Exception):  # not an error: the bytes from here on make no sense
    """The position at which bytes stop making sense, and why."""

    def __init__(self, at: int, why: str) -> None:
        super().__init__(why)
        self.at = at


def batch_fields(window: Window, row: int, records: RecordChoice | None, limit: int) -> Iterator[Field]:
    """Return the fields of the batch in `row` of a window. records: None: their bytes are one field.

    limit  decompressed bytes of a batch
    """
    table = window.batches.table
    at, size = table[BatchField.POSITION, row], table[BatchField.SIZE, row]
    source = Source(window.data, window.base, ("batch", window.base + at))
    end = min(at + size, len(window.data))
    if table[BatchField.MAGIC, row] < MAGIC_V2:
        yield from _message(source, at, end, bool(table[BatchField.VALID, row]), records, limit)
        return
    is_valid = bool(table[BatchField.VALID, row])
    yield from _header(source, at, min(end, at + BATCH_HEADER.size), is_valid, table, row)
    body, count = at + BATCH_HEADER.size, table[BatchField.COUNT, row]
    if body >= end:
        if size > BATCH_HEADER.size:  # larger than the limit for batches: only its header was read
            note = "not read: the batch is too large"
            yield source.field("records", body, size - BATCH_HEADER.size, "bytes", None, note=note)
        return
    codec = table[BatchField.ATTRIBUTES, row] & CODEC_MASK
    base = table[BatchField.BASE_OFFSET, row]
    is_control = bool(table[BatchField.ATTRIBUTES, row] & CONTROL_FLAG)
    if codec == Codec.NONE and records is not None:
        yield from _chosen(_records(source, body, end, count, is_control=is_control), records, base)
        return
    if codec == Codec.NONE:
        yield source.field("records", body, end - body, "bytes", None, note=count_of(count, "record"))
        return
    inflated = inflate(codec, window.data[body:end], limit)
    name = CODEC_NAMES[codec] if codec < len(CODEC_NAMES) else f"codec {codec}"
    note = f"{count_of(count, 'record')}, {name}, {count_of(len(inflated.data), 'byte')} decompressed"
    if inflated.status != InflateStatus.OK:
        note = inflated.problem or "cannot be decompressed"
    is_damaged = inflated.status != InflateStatus.OK
    yield source.field("records", body, end - body, "bytes", None, note=note, is_damaged=is_damaged)
    if records is not None and inflated.status != InflateStatus.OVER_LIMIT:
        inner = Source(memoryview(inflated.data), 0, source.unit, inflated=True)
        by_offset = records._replace(at=None) if records.at is not None else records
        yield from _chosen(_records(inner, 0, len(inflated.data), count, is_control=is_control), by_offset, base)


# ---- format 2


def _header(source: Source, at: int, end: int, is_valid: bool, table: memoryview, row: int) -> Iterator[Field]:
    """Return the fields of a header of format 2, and after `attributes` its bits."""
    size, count = table[BatchField.SIZE, row], table[BatchField.COUNT, row]
    first, base = source.base + at + BATCH_HEADER.positions["attributes"], table[BatchField.BASE_OFFSET, row]
    covered = f"CRC-32C of bytes {first} to {source.base + at + size - 1}"
    has_horizon = table[BatchField.ATTRIBUTES, row] & DELETE_HORIZON_FLAG
    notes: Mapping[str, Callable[[int], tuple[str, bool]]] = {
        "batch_length": lambda _: (f"the batch has {size} bytes", size < BATCH_HEADER.size),
        "magic": lambda magic: ("" if magic == MAGIC_V2 else "unknown format", magic != MAGIC_V2),
        "partition_leader_epoch": none_note,
        "crc": lambda crc: (crc_note(crc, is_valid, covered), not is_valid),
        "attributes": lambda bits: (f"0x{bits & 0xFFFF:04x}", False),
        "last_offset_delta": lambda delta: (f"last offset {base + delta}", delta < 0 or delta < count - 1),
        "base_timestamp": lambda ms: (time_note(ms)[0] + (", the delete horizon" if has_horizon else ""), False),
        "max_timestamp": time_note, "producer_id": none_note, "producer_epoch": none_note, "base_sequence": none_note,
        "record_count": lambda number: ("", number < 0),
    }  # fmt: skip
    for field in source.layout(BATCH_HEADER, at, end, notes=notes):
        yield field
        if field.name == "attributes" and isinstance(field.value, int):
            yield from _bits(field, field.value, with_flags=True)


def _bits(field: Field, bits: int, *, with_flags: bool, last_codec: int = Codec.ZSTD) -> Iterator[Field]:
    """Return the parts of the attributes of a batch or message."""
    codec = bits & CODEC_MASK
    is_known = codec <= last_codec
    part = field._replace(meaning="", note="", is_damaged=False)
    yield part._replace(name="attributes.compression", bits="0–2", value=codec, is_damaged=not is_known,
                        note=CODEC_NAMES[codec] if is_known else "unknown")
    kind = int(bool(bits & TIMESTAMP_TYPE_FLAG))
    yield part._replace(name="attributes.timestamp_type", bits="3", value=kind, note=_TYPES[kind])
    if with_flags:
        for name, bit, flag in _FLAGS:
            yield part._replace(name=f"attributes.{name}", bits=str(bit), value=int(bool(bits & flag)))


def _records(source: Source, at: int, end: int, count: int, *, is_control: bool) -> Iterator[list[Field]]:
    """Return the fields of each record; the last list is of bytes that make no sense, if there are any."""
    number = 0
    while number < count and at < end:
        fields: list[Field] = []
        try:
            at = _record(source, at, end, f"records[{number}].", fields, is_control=is_control)
        except _Stop as stop:
            fields += source.damaged(f"records[{number}]", stop.at, end, str(stop))
            yield fields
            return
        yield fields
        number += 1
    if at < end:
        yield list(source.damaged("records", at, end, f"bytes after the last of {count_of(count, 'record')}"))


def _record(source: Source, at: int, end: int, prefix: str, fields: list[Field], *, is_control: bool) -> int:
    """Add the fields of one record, and return the position after it. Raises _Stop."""
    length, at = _varint(source, at, end, prefix + "length", fields, meaning="bytes after this field")
    if length < 1 or length > end - at:
        raise _Stop(at, f"a record of {length} bytes does not fit in the {end - at} bytes that are left")
    end = at + length
    fields.append(source.field(prefix + "attributes", at, 1, "int8", source.data[at], meaning="unused"))
    _, at = _varint(source, at + 1, end, prefix + "timestamp_delta", fields, "varlong", meaning="ms since base_timestamp")
    _, at = _varint(source, at, end, prefix + "offset_delta", fields, meaning="offset − base_offset")
    key, at = _sized(source, at, end, prefix + "key", fields, is_control=is_control)
    _, at = _sized(source, at, end, prefix + "value", fields, is_control=is_control, control_key=key)
    count, at = _varint(source, at, end, prefix + "header_count", fields)
    if count < 0 or count > end - at:
        raise _Stop(at, f"{count} headers do not fit in the {end - at} bytes that are left")
    for number in range(count):
        _, at = _sized(source, at, end, f"{prefix}headers[{number}].key", fields)
        _, at = _sized(source, at, end, f"{prefix}headers[{number}].value", fields)
    if at != end:
        raise _Stop(at, f"{count_of(end - at, 'byte')} after the fields of the record")
    return at


def _varint(
    source: Source, at: int, end: int, name: str, fields: list[Field], kind: str = "varint", meaning: str = ""
) -> tuple[int, int]:
    """Add a zigzag varint, and return (value, position after it). Raises _Stop."""
    value, after = _read_varlong(source.data, at, end) if kind == "varlong" else read_varint(source.data, at, end)
    if after < 0:
        raise _Stop(at, "a varint is cut off or too long")
    stored = (value << 1) ^ (value >> 63)
    note = f"zigzag of {stored}" if after - at > 1 or value < 0 else ""
    fields.append(source.field(name, at, after - at, kind, value, note=note, meaning=meaning))
    return value, after


def _read_varlong(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """Read a zigzag varint of 64 bits in data[at:end] → (value, position after it); (0, −1): it is cut off or too long."""
    raw = 0
    for number in range(min(_VARLONG, end - at)):
        byte = data[at + number]
        raw |= (byte & 127) << (7 * number)
        if byte < 128:
            raw &= 2**64 - 1
            return (raw >> 1) ^ -(raw & 1), at + number + 1
    return 0, -1


def _sized(
    source: Source, at: int, end: int, name: str, fields: list[Field], *, is_control: bool = False,
    control_key: tuple[int, int] | None = None,
) -> tuple[tuple[int, int], int]:
    """Add the size of a field and its bytes; return ((start, end) of the bytes, position after them). Raises _Stop."""
    size, at = _varint(source, at, end, f"{name}_size", fields, meaning="−1: null")
    if size > end - at:
        raise _Stop(at, f"{size} bytes do not fit in the {end - at} bytes that are left")
    after = at + max(size, 0)
    if is_control and size > 0:
        fields += _control(source, at, after, f"{name}.", control_key)
    elif size > 0:
        fields.append(source.bytes_field(name, at, size))
    return (at, after), after


def _control(source: Source, at: int, end: int, prefix: str, key: tuple[int, int] | None) -> Iterator[Field]:
    """Return the fields of the key of a control record, or of the value that belongs to the key in these bytes."""
    if key is None:
        yield from source.layout(CONTROL_KEY, at, end, prefix, {"type": _control_type})
        size = CONTROL_KEY.size
    else:
        kind = CONTROL_KEY.field("type", source.data, key[0]) if key[1] - key[0] >= CONTROL_KEY.size else -1
        size = 0
        if known_control_type(kind) in (ControlType.ABORT, ControlType.COMMIT):
            yield from source.layout(END_TXN_MARKER, at, end, prefix)
            size = END_TXN_MARKER.size
    if at + size < end:
        yield source.bytes_field(f"{prefix}rest" if size else prefix.rstrip("."), at + size, end - at - size)


def _control_type(kind: int) -> tuple[str, bool]:
    known = known_control_type(kind)
    return ("unknown" if known is None else known.name), False


def _chosen(records: Iterator[list[Field]], wanted: RecordChoice, base_offset: int) -> Iterator[Field]:
    """Return the fields of the wanted records, and those of bytes that make no sense."""
    for fields in records:
        first, last = fields[0].at, fields[-1].at + fields[-1].size
        if wanted.at is not None and not first <= wanted.at < last:
            continue
        if wanted.offset is not None:
            deltas = [field.value for field in fields if field.name.endswith(".offset_delta")]
            if deltas and base_offset + int(deltas[0] or 0) != wanted.offset:
                continue
        yield from fields


# ---- formats 0 and 1


def _message(
    source: Source, at: int, end: int, is_valid: bool, records: RecordChoice | None, limit: int, prefix: str = ""
) -> Iterator[Field]:
    """Return the fields of one message, and of the messages inside its value."""
    magic = source.data[at + HEADER_SIZE_UP_TO_MAGIC - 1]
    layout = LEGACY_V0 if magic == MAGIC_V0 else LEGACY_V1
    first = source.base + at + layout.positions["magic"]
    covered = f"CRC-32 of bytes {first} to {source.base + end - 1}"
    notes: Mapping[str, Callable[[int], tuple[str, bool]]] = {
        "message_size": lambda size: (f"the message has {size + LOG_OVERHEAD} bytes", size < MIN_RECORD_SIZE),
        "magic": lambda number: ("" if 0 <= number < MAGIC_V2 else "unknown format", not 0 <= number < MAGIC_V2),
        "crc": lambda crc: (crc_note(crc, is_valid, covered), not is_valid),
        "timestamp": time_note, "key_size": none_note,
    }  # fmt: skip
    for field in source.layout(layout, at, end, prefix, notes):
        yield field
        if field.name == f"{prefix}attributes" and isinstance(field.value, int):
            for part in _bits(field, field.value, with_flags=False, last_codec=LAST_LEGACY_CODEC):
                yield part._replace(name=prefix + part.name)
    here = at + layout.size
    if here > end:
        return
    size = layout.field("key_size", source.data, at)
    for name in ("key", "value"):
        if name == "value":
            if end - here < _INT:
                yield from source.damaged(f"{prefix}value_size", here, end, f"incomplete: {end - here} of {_INT} bytes")
                return
            size = int.from_bytes(source.data[here : here + _INT], "big", signed=True)
            yield source.field(f"{prefix}value_size", here, _INT, "int32", size, note=none_note(size)[0], meaning="−1: null")
            here += _INT
        if size > end - here:
            note = f"{size} bytes do not fit in the {end - here} that are left"
            yield from source.damaged(f"{prefix}{name}", here, end, note)
            return
        if size > 0 and name == "value" and source.data[at + layout.positions["attributes"]] & CODEC_MASK:
            yield from _inner_messages(source, at, (here, size), records, limit)
        elif size > 0:
            yield source.bytes_field(f"{prefix}{name}", here, size)
        here += max(size, 0)
    yield from source.damaged(f"{prefix}rest", here, end, "bytes after the value")


def _inner_messages(
    source: Source, at: int, value: tuple[int, int], records: RecordChoice | None, limit: int
) -> Iterator[Field]:
    """Return the field of the value of the compressed message at `at`, and the fields of the messages in it.

    value  its (position, size)
    """
    wrapper = read_wrapper(source.data, at, sum(value))
    opened = open_wrapper(wrapper, limit) if isinstance(wrapper, Wrapper) else wrapper
    if isinstance(opened, Problem):
        yield source.field("value", *value, "bytes", None, note=opened.what, is_damaged=True)
        return
    note = f"messages, {count_of(len(opened.data), 'byte')} decompressed"
    yield source.field("value", *value, "bytes", None, note=note if opened.remark is None else opened.remark.what)
    inner, here, number = Source(opened.data, 0, source.unit, inflated=True), 0, 0
    while records is not None and len(opened.data) - here >= LOG_OVERHEAD + MIN_RECORD_SIZE:
        size = LEGACY_V1.field("message_size", opened.data, here) + LOG_OVERHEAD
        after = min(here + size, len(opened.data))
        offset = opened.base + LEGACY_V1.field("offset", opened.data, here)
        if records.offset is None or offset == records.offset:
            is_valid = _is_valid(opened.data[here:after])
            yield from _message(inner, here, after, is_valid, None, limit, f"messages[{number}].")
        here, number = after, number + 1


def _is_valid(message: memoryview) -> bool:
    from zlib import crc32

    return crc32(message[HEADER_SIZE_UP_TO_MAGIC - 1 :]) == LEGACY_V1.field("crc", message)


def torn_fields(source: Source, at: int, end: int, note: str) -> Iterator[Field]:
    """Return the fields of bytes at which no batch begins, as far as they look like a header, and the others as one field."""
    data = source.data
    if end - at <= HEADER_SIZE_UP_TO_MAGIC:
        yield from source.damaged("unknown", at, end, note)
        return
    magic = data[at + HEADER_SIZE_UP_TO_MAGIC - 1]
    layouts: dict[int, Layout[Any]] = {0: LEGACY_V0, 1: LEGACY_V1, 2: BATCH_HEADER}
    layout = layouts.get(magic)
    if layout is None:
        yield from source.damaged("unknown", at, end, note)
        return
    here = at
    for field in source.layout(layout, at, end):
        here = field.at - source.base + field.size
        yield field
    yield from source.damaged("unknown", here, end, note)

"""Laws of the encode kernel."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.formats import RECORD_FIELDS, Status
from engine.kernels import encode
from engine.record.builder import NewRecord, stage
from engine.record.columns import RecordColumns
from tests.support.strategies import LONG_MAX, WILD, edges, examples, record_lists

SENTINEL = 0xA5


def plain_varint(value: int) -> bytes:
    """Zigzag of 64 bits, seven bits a byte: the format's own words."""
    value = ((value << 1) ^ (value >> 63)) & (2**64 - 1)
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def plain_field(field: bytes | None) -> bytes:
    return plain_varint(-1) if field is None else plain_varint(len(field)) + field


def plain_record(record: NewRecord, base_offset: int, base_timestamp: int) -> bytes:
    delta = (record.timestamp - base_timestamp + 2**63) % 2**64 - 2**63
    body = b"\0" + plain_varint(delta) + plain_varint(record.offset - base_offset)
    body += plain_field(record.key) + plain_field(record.value) + plain_varint(len(record.headers))
    for key, value in record.headers:
        body += plain_field(key) + plain_field(value)
    return plain_varint(len(body)) + body


def plain_entry(record: NewRecord, magic: int) -> bytes:
    body = bytes(4) + bytes([magic, 0]) + (record.timestamp.to_bytes(8, "big", signed=True) if magic else b"")
    for field in (record.key, record.value):
        body += b"\xff" * 4 if field is None else len(field).to_bytes(4, "big") + field
    return record.offset.to_bytes(8, "big") + len(body).to_bytes(4, "big") + body


def column(size: int) -> memoryview:
    return memoryview(array("q", bytes(8 * size)))


def room(size: int) -> tuple[bytearray, memoryview]:
    """A buffer of `size` bytes before sentinels, which must not change."""
    store = bytearray([SENTINEL]) * (size + 64)
    return store, memoryview(store)[:size]


@given(record_lists(), st.integers(-1, 2**40) | edges(-1, LONG_MAX))
@settings(deadline=None)
def test_records_are_as_the_format_says(records, base_timestamp):
    data, columns = stage(records)
    base = records[0].offset if records else 0
    expected = [plain_record(record, base, base_timestamp) for record in records]
    sizes = column(len(records))
    assert encode.measure_records(
        memoryview(data), columns.table, 0, len(records), 2, base, base_timestamp, sizes,
    ) == (len(records), sum(map(len, expected)), Status.END)  # fmt: skip
    assert list(sizes) == list(map(len, expected))
    store, out = room(3 + sum(sizes))
    assert encode.encode_records(
        memoryview(data), columns.table, 0, len(records), base, base_timestamp, out, 3,
    ) == (len(records), len(out), Status.END)  # fmt: skip
    assert bytes(out[3:]) == b"".join(expected)
    assert set(store[len(out) :]) == {SENTINEL}


@pytest.mark.parametrize("magic", [0, 1])
@given(data=st.data())
@settings(deadline=None)
def test_entries_are_as_the_format_says(magic, data):
    records = data.draw(record_lists(magic))
    buffer, columns = stage(records)
    expected = b"".join(plain_entry(record, magic) for record in records)
    sizes, ends = column(len(records)), column(len(records))
    measured = encode.measure_records(memoryview(buffer), columns.table, 0, len(records), magic, 0, 0, sizes)
    assert measured == (len(records), len(expected), Status.END)
    store, out = room(len(expected))
    written = encode.encode_legacy(
        memoryview(buffer), columns.table, 0, len(records), encode.LegacyForm(magic, 0, 0, -1), out, 0, ends,
    )  # fmt: skip
    assert written == (len(records), len(expected), Status.END)
    assert bytes(out) == expected
    assert [end - start for start, end in zip([0, *ends], ends, strict=False)] == list(sizes)
    assert set(store[len(out) :]) == {SENTINEL}


@given(record_lists(min_size=1, max_size=4), st.data())
@settings(deadline=None)
def test_a_record_that_does_not_fit_is_not_begun(records, data):
    buffer, columns = stage(records)
    base = records[0].offset
    whole = [plain_record(record, base, 0) for record in records]
    size = data.draw(st.integers(0, sum(map(len, whole)) - 1))
    store, out = room(size)
    done, at, status = encode.encode_records(memoryview(buffer), columns.table, 0, len(records), base, 0, out, 0)
    assert status == Status.FULL
    assert bytes(out[:at]) == b"".join(whole[:done])
    assert at + len(whole[done]) > size
    assert set(store[at:]) == {SENTINEL}


@st.composite
def wild_columns(draw):
    columns = RecordColumns(draw(st.integers(1, 3)))
    for field in range(RECORD_FIELDS):
        for row in range(columns.capacity):
            columns.table[field, row] = draw(WILD)
    return columns


@given(st.binary(max_size=64), wild_columns(), WILD, WILD, st.integers(-2, 5), st.integers(-2, 5), st.integers(-1, 3))
@examples(500)
def test_any_columns_are_a_status(data, columns, base_offset, base_timestamp, first, count, magic):
    sizes, ends = column(3), column(3)
    store, out = room(200)
    known = {Status.END, Status.FULL, Status.BAD_RECORD, Status.BAD_START}
    view, table = memoryview(data), columns.table
    done, total, status = encode.measure_records(view, table, first, count, magic, base_offset, base_timestamp, sizes)
    assert status in known
    assert total == sum(sizes[:done])
    for done, at, status in (
        encode.encode_records(view, table, first, count, base_offset, base_timestamp, out, 0),
        encode.encode_legacy(view, table, first, count, encode.LegacyForm(magic, 0, base_offset, base_timestamp), out, 0, ends),
    ):
        assert status in known
        assert status == Status.BAD_START or (status == Status.END) == (done == count)
        assert 0 <= at <= len(out)
    assert set(store[len(out) :]) == {SENTINEL}


@pytest.mark.parametrize("start", [-1, 11, 2**40])
def test_a_start_outside_is_refused(start):
    _, columns = stage([NewRecord(0, 0, None, None)])
    out = memoryview(bytearray(10))
    assert encode.encode_records(memoryview(b""), columns.table, 0, 1, 0, 0, out, start)[2] == Status.BAD_START
    assert encode.put_varint(out, start, 1) == -1


@pytest.mark.parametrize(("headers", "count"), [
    (b"", 1), (b"\x02", 1), (b"\x01\x01", 1), (b"\x00", 1), (b"\x00\x03", 1), (b"\x00\x80\x80\x80\x80\x80\x00", 1),
    (b"\x00\x00", 2), (b"\x00\xfe\xff\xff\xff\x0f", 1), (b"\x00\x80", 1), (b"\x00\x00", 2**62), (b"\x00\x00", -1),
])  # fmt: skip
def test_headers_that_are_none_are_refused(headers, count):
    from engine.formats import RecordField

    _, columns = stage([NewRecord(0, 0, None, None)])
    columns.table[RecordField.HEADER_COUNT, 0] = count
    out = memoryview(bytearray(100))
    assert encode.encode_records(memoryview(headers), columns.table, 0, 1, 0, 0, out, 0)[2] == Status.BAD_RECORD


@given(edges(-LONG_MAX - 1, LONG_MAX))
def test_varints_are_as_the_format_says(value):
    plain = plain_varint(value)
    store, out = room(len(plain))
    assert encode.varint_size(value) == len(plain)
    assert encode.put_varint(out, 0, value) == len(plain)
    assert bytes(out) == plain
    assert encode.put_varint(out[1:], 0, value) == -1
    assert set(store[len(out) :]) == {SENTINEL}

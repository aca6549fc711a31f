"""Laws of the JSON kernel: what it writes is what Python's own json and base64 say."""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.formats import BATCH_FIELDS, CODEC_NAMES, RECORD_FIELDS, BatchField, RecordField, Status
from engine.index.sparse import OffsetIndex, TimeIndex
from engine.kernels import ndjson
from engine.kernels.decoded import Decoded
from engine.kernels.fields import ARRAY, BATCH_OBJECT_LIMIT, CONTENTS, ESCAPE, META, OPEN
from engine.record.builder import NewRecord, stage
from engine.record.columns import BatchColumns
from tests.support.strategies import INT_MAX, LONG_MAX, edges, examples, record_lists, wild_tables
from tests.support.wild_columns import CHANGES, wild_record

SENTINEL = 0xA5
LONG = edges(-LONG_MAX - 1, LONG_MAX)
INT = edges(-INT_MAX - 1, INT_MAX)
ODD = "a\"\\/\0\x01\b\t\n\x0b\f\r\x1f\x7f\x80\x9f\u00e9\u061c\u202e\u2028\ufeff\uffff\U0001f600\U0010ffff"
BYTES = st.one_of(
    st.none(), st.binary(max_size=20), st.text(ODD, max_size=12).map(str.encode), st.text(max_size=12).map(str.encode),
    st.text("\ud800\udfffa", max_size=3).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.sampled_from([b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xe0\x9f\xbf", b"\xf0\x8f\xbf\xbf", b"\xc3", b"a\xe2\x82", b"x" * 9000]),
)  # fmt: skip
HEADERS = st.lists(st.tuples(BYTES.filter(lambda key: key is not None), BYTES), max_size=3)


class Case(NamedTuple):
    """Records of one batch, as a kernel takes them."""

    records: list[NewRecord]
    data: memoryview
    table: memoryview
    batches: memoryview


@st.composite
def cases(draw, contents=BYTES):
    magic = draw(st.sampled_from([0, 1, 2]))
    records = [
        record._replace(key=draw(contents), value=draw(contents), headers=draw(HEADERS) if magic == 2 else [])
        for record in draw(record_lists(max_size=4))
    ]  # fmt: skip
    data, columns = stage(records)
    batches = BatchColumns(2)
    for field in BatchField:
        for row in range(2):
            batches.table[field, row] = draw(INT)
    for row in range(2):
        batches.table[BatchField.MAGIC, row] = magic
        batches.table[BatchField.VALID, row] = draw(st.sampled_from([0, 1]))
        batches.table[BatchField.ATTRIBUTES, row] = draw(st.integers(0, 255))
        batches.table[BatchField.CRC, row] = draw(st.integers(0, 2**32 - 1))
        for field in (BatchField.MAX_TIMESTAMP, BatchField.BASE_TIMESTAMP, BatchField.PRODUCER_ID):
            batches.table[field, row] = draw(LONG)
        last = max([record.offset for record in records], default=0)
        batches.table[BatchField.BASE_OFFSET, row] = min([record.offset for record in records], default=0)
        batches.table[BatchField.LAST_OFFSET, row] = last
        batches.table[BatchField.BASE_SEQUENCE, row] = draw(st.sampled_from([-1, 0, INT_MAX]))
    middle = draw(st.integers(0, len(records)))
    for number in range(len(records)):
        columns.table[RecordField.BATCH, number] = int(number >= middle)
        columns.table[RecordField.CRC, number] = draw(st.integers(0, 2**32 - 1))
        columns.table[RecordField.VALID, number] = draw(st.sampled_from([0, 1]))
    return Case(records, memoryview(data + b"\0"), columns.table, batches.table)  # what holds a record is never empty


def field(name: str, data: bytes | None) -> dict[str, object]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_b64": b64encode(data).decode()}


def sequence(batches: memoryview, row: int, offset: int) -> int:
    """Sequence numbers of a batch, for offsets at or after its first."""
    first = batches[BatchField.BASE_SEQUENCE, row]
    return -1 if first < 0 else (first + offset - batches[BatchField.BASE_OFFSET, row]) % 2**31


def timestamp_type(batches: memoryview, row: int) -> str:
    if batches[BatchField.MAGIC, row] == 0:
        return "NoTimestampType"
    return "LogAppendTime" if batches[BatchField.ATTRIBUTES, row] & 8 else "CreateTime"


def plain_batch(batches: memoryview, row: int, base: int) -> dict[str, object]:
    values = {name: batches[name, row] for name in BatchField}
    attributes = values[BatchField.ATTRIBUTES]
    codec = attributes & 7
    only_v2 = {
        "base_offset": values[BatchField.BASE_OFFSET], "count": values[BatchField.COUNT],
        "base_sequence": values[BatchField.BASE_SEQUENCE],
        "last_sequence": sequence(batches, row, values[BatchField.LAST_OFFSET]),
        "producer_id": values[BatchField.PRODUCER_ID], "producer_epoch": values[BatchField.PRODUCER_EPOCH],
        "partition_leader_epoch": values[BatchField.LEADER_EPOCH], "is_transactional": bool(attributes & 16),
        "is_control": bool(attributes & 32), "base_timestamp": values[BatchField.BASE_TIMESTAMP],
        "delete_horizon_ms": values[BatchField.BASE_TIMESTAMP] if attributes & 64 else None,
    }  # fmt: skip
    return {
        "type": "batch", "position": base + values[BatchField.POSITION], "size": values[BatchField.SIZE],
        "magic": values[BatchField.MAGIC], "last_offset": values[BatchField.LAST_OFFSET],
        "max_timestamp": values[BatchField.MAX_TIMESTAMP], "timestamp_type": timestamp_type(batches, row),
        "compression": CODEC_NAMES[codec] if codec < 5 else f"unknown({codec})", "crc": values[BatchField.CRC],
        "is_valid": values[BatchField.VALID] == 1, **(only_v2 if values[BatchField.MAGIC] == 2 else {}),
    }  # fmt: skip


def plain_record(case: Case, number: int, flags: int) -> dict[str, object]:
    record, row = case.records[number], case.table[RecordField.BATCH, number]
    plain: dict[str, object] = {"type": "record", "offset": record.offset}
    if flags & META:
        plain |= {
            "timestamp": record.timestamp, "timestamp_type": timestamp_type(case.batches, row),
            "key_size": -1 if record.key is None else len(record.key),
            "value_size": -1 if record.value is None else len(record.value),
        }  # fmt: skip
        if case.batches[BatchField.MAGIC, row] == 2:
            plain["sequence"] = sequence(case.batches, row, record.offset)
            plain["headers"] = [field("key", key) | field("value", value) for key, value in record.headers]
        else:
            plain["crc"] = case.table[RecordField.CRC, number]
            plain["is_valid"] = case.table[RecordField.VALID, number] == 1
    if flags & CONTENTS:
        plain |= field("key", record.key) | field("value", record.value)
    return plain


def written(kernel, case: Case, flags: int, base: int, size: int = 1 << 20) -> bytes:
    """Everything that the kernel writes, through a buffer that begins with `size` bytes."""
    store = bytearray([SENTINEL]) * (size + 64)
    text, at, row, record, status = b"", 0, 0, 0, int(Status.FULL)
    while status == Status.FULL:
        view = memoryview(store)[: len(store) - 64]
        at, row, record, status = kernel.record_objects(
            view, at, Decoded(case.data, case.batches, case.table, base), row, 2, record, len(case.records), flags
        )
        assert 0 <= at <= len(view)
        assert set(store[len(view) :]) == {SENTINEL}
        if at == 0 and status == Status.FULL:
            store = bytearray([SENTINEL]) * (2 * len(view) + 64)
        text += bytes(view[:at])
        at = 0
    assert status == Status.END
    return text


@given(cases(), st.integers(0, 7), edges(0, 2**40))
@settings(deadline=None)
def test_objects_say_what_the_columns_say(case, flags, base):
    rows = [case.table[RecordField.BATCH, number] for number in range(len(case.records))]
    wanted = [plain_batch(case.batches, 0, base)]
    wanted += [plain_record(case, number, flags) for number, row in enumerate(rows) if row == 0]
    wanted += [plain_batch(case.batches, 1, base)]
    wanted += [plain_record(case, number, flags) for number, row in enumerate(rows) if row == 1]
    lines = written(ndjson, case, flags, base).split(b"\n")
    assert lines.pop() == b""
    assert [json.loads(line.decode()) for line in lines] == wanted


@given(cases(), st.integers(0, 7), st.integers(1, 3000))
@settings(deadline=None)
def test_a_small_buffer_makes_no_difference(case, flags, size):
    assert written(ndjson, case, flags, 0, size) == written(ndjson, case, flags, 0)


@given(cases(), st.integers(0, 3))
@settings(deadline=None)
def test_objects_of_an_array_have_commas_in_front(case, flags):
    lines = written(ndjson, case, flags, 0).splitlines()
    assert written(ndjson, case, flags | ARRAY, 0).splitlines() == [b"," + line for line in lines]


@given(cases(), st.integers(0, 7))
@settings(deadline=None)
def test_an_open_record_lacks_its_end(case, flags):
    closed = written(ndjson, case, flags, 0).replace(b"\n", b"")
    opened = written(ndjson, case, flags | OPEN, 0).replace(b"\n", b"")
    assert opened.count(b'{"type":"record"') == len(case.records)
    assert len(closed) == len(opened) + len(case.records)


@given(cases())
@settings(deadline=None)
def test_a_terminal_obeys_nothing(case):
    text = written(ndjson, case, META | CONTENTS | ESCAPE, 0).decode()
    unsafe = {*map(chr, range(32)), *map(chr, range(0x7F, 0xA0)), *"\u061c\u200b\u200f\u2028\u202e\u2060\u206f\ufeff"}
    assert not unsafe & set(text) - {"\n"}


@given(cases(), edges(0, 2**40))
@settings(deadline=None)
def test_batches_alone(case, base):
    out = memoryview(bytearray(3000))
    at, row, status = ndjson.batch_objects(out, 0, case.batches, 0, 2, 0, base)
    assert (row, status) == (2, Status.END)
    assert [json.loads(line) for line in bytes(out[:at]).splitlines()] == [
        plain_batch(case.batches, row, base) for row in (0, 1)
    ]  # fmt: skip


@pytest.mark.parametrize("value", [-(2**63), 2**63 - 1])
def test_the_longest_objects_fit_their_limits(value):
    batches = BatchColumns(1)
    for field_number in range(BATCH_FIELDS):
        batches.table[field_number, 0] = value
    batches.table[BatchField.POSITION, 0] = 0
    batches.table[BatchField.MAGIC, 0] = 2
    batches.table[BatchField.ATTRIBUTES, 0] = 0b1100111
    batches.table[BatchField.BASE_SEQUENCE, 0] = -1
    out = memoryview(bytearray(BATCH_OBJECT_LIMIT))
    assert ndjson.batch_objects(out, 0, batches.table, 0, 1, ARRAY, value)[2] == Status.END
    assert ndjson.batch_objects(out, 1, batches.table, 0, 1, ARRAY, value)[2] == Status.FULL


@given(st.lists(st.tuples(LONG, INT, INT), max_size=5), LONG, st.sampled_from([0, ARRAY]))
def test_the_objects_of_index_entries(entries, base_offset, flags):
    offsets = OffsetIndex(b"".join(struct.pack(">ii", offset, position) for _, offset, position in entries), base_offset, "x")
    times = TimeIndex(b"".join(struct.pack(">qi", time, offset) for time, offset, _ in entries), base_offset, "x")
    for kind, index in (("offset-index-entry", offsets), ("time-index-entry", times)):
        out, count = bytearray(112 * len(entries)), len(entries)
        at, row, status = ndjson.entry_objects(out, 0, index.whole, 0, count, base_offset, index is times, flags)
        assert (row, status) == (count, Status.END)
        head = "," if flags else ""
        expected = [head + json.dumps({"type": kind, **entry._asdict()}, separators=(",", ":")) for entry in index]
        assert out[:at].decode().splitlines() == expected


def test_index_entries_without_room_and_outside():
    assert ndjson.entry_objects(bytearray(223), 112, bytes(24), 1, 2, 0, True, 0) == (112, 1, Status.FULL)
    for at, row, last_row in ((-1, 0, 1), (0, -1, 1), (0, 0, 3)):
        assert ndjson.entry_objects(bytearray(640), at, bytes(24), row, last_row, 0, True, 0) == (at, row, Status.BAD_START)


@pytest.mark.parametrize(("row", "last_row", "record", "last_record"), [(-1, 1, 0, 0), (0, 2, 0, 0), (0, 1, -1, 0), (0, 1, 0, 2)])
def test_rows_outside_are_refused(row, last_row, record, last_record):
    _, columns = stage([NewRecord(0, 0, None, None)])
    batches, out = BatchColumns(1).table, memoryview(bytearray(2000))
    answer = ndjson.record_objects(
        out, 0, Decoded(memoryview(b""), batches, columns.table), row, last_row, record, last_record, 0
    )
    assert answer[3] == Status.BAD_START


@given(st.binary(max_size=64), wild_tables(BATCH_FIELDS), wild_tables(RECORD_FIELDS), st.integers(0, 31))
@examples(200)
def test_any_columns_are_a_status(data, batches, records, flags):
    store = bytearray([SENTINEL]) * (8000 + 64)
    out, count = memoryview(store)[:8000], records.capacity
    at, row, record, status = ndjson.record_objects(
        out, 0, Decoded(memoryview(data), batches.table, records.table), 0, batches.capacity, 0, count, flags
    )
    assert status in {Status.END, Status.BAD_START}
    assert 0 <= at <= len(out)
    assert (status == Status.END) == (record == count and row == batches.capacity)
    assert set(store[len(out) :]) == {SENTINEL}


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_record_of_what_is_not_there_is_refused(change):
    data, batches, records = wild_record(change)
    out = memoryview(bytearray(2000))
    answer = ndjson.record_objects(out, 0, Decoded(data, batches, records), 1, 1, 0, 1, META | CONTENTS)
    assert answer == (0, 1, 0, Status.BAD_START)

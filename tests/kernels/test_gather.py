"""What is gathered is what the records hold; whatever does not fit is refused, whatever the columns hold."""

from __future__ import annotations

import mmap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.formats import BATCH_FIELDS, INT_MAX, RECORD_FIELDS, BatchField, RecordField
from engine.kernels import gather as kernel
from engine.record.builder import stage
from engine.record.columns import BatchColumns, RecordColumns
from tests.support.strategies import LONG_MAX, edges, examples, record_lists

WILD = st.integers(-2, 30) | edges(-(2**63), 2**63 - 1)
ROWS = st.lists(st.lists(WILD, min_size=RECORD_FIELDS, max_size=RECORD_FIELDS), max_size=4)
AT = st.integers(-1, 6)
SENTINEL = 0xA5


def columns(rows):
    records = RecordColumns(max(1, len(rows)))
    for column, row in enumerate(rows):
        for field, value in enumerate(row):
            records.table[field, column] = value
    return records.table


def view(size):
    return memoryview(bytearray(size))


def ends(size):
    return memoryview(bytearray(4 * size)).cast("i")


def words(size):
    return memoryview(bytearray(8 * size)).cast("q")


def tables():
    batches = BatchColumns(3)
    for field in range(BATCH_FIELDS):
        for row in range(3):
            batches.table[field, row] = 100 * field + row
    return batches.table


def values_of(data, stops, valid, count):
    """The elements of an array of bytes."""
    return [bytes(data[stops[row] : stops[row + 1]]) if valid[row >> 3] >> (row & 7) & 1 else None for row in range(count)]


@given(record_lists(max_size=9), st.integers(0, 3), st.integers(0, 9), st.integers(0, 9))
@examples(200)
def test_arrays_hold_what_the_records_hold(records, skipped, first, row):
    data, staged = stage(records)
    data, table, end = memoryview(data), staged.table, max(0, len(records) - skipped)
    first = min(first, end)
    chosen, count = records[first:end], end - first
    for field, wanted in (
        (RecordField.KEY_POSITION, [record.key for record in chosen]), (RecordField.VALUE_POSITION, [record.value for record in chosen]),
    ):  # fmt: skip
        size = sum(len(one or b"") for one in wanted)
        out, stops, valid = view(size), ends(row + count + 1), view((row + count + 7) // 8)
        assert kernel.gather(data, table, field, first, end, kernel.Blobs(out, stops, valid), 0, row) == (size, wanted.count(None))
        assert values_of(out, stops, valid, row + count)[row:] == wanted
        assert not size or kernel.gather(data, table, field, first, end, kernel.Blobs(out[1:], stops, valid), 0, row) == (-1, 0)
    headers = [header for record in chosen for header in record.headers]
    sizes = [sum(len(header[part] or b"") for header in headers) for part in (0, 1)]
    assert kernel.measure_headers(data, table, first, end) == (len(headers), *sizes)
    lists, lists_valid, valid = ends(row + count + 1), view((row + count + 7) // 8), view((len(headers) + 7) // 8)
    keys, values, key_ends, value_ends = view(sizes[0]), view(sizes[1]), ends(len(headers) + 1), ends(len(headers) + 1)
    got = kernel.gather_headers(data, table, first, end, kernel.Headers(lists, lists_valid, keys, key_ends, kernel.Blobs(values, value_ends, valid)), row, 0)
    assert got == (len(headers), sum(not one.headers for one in chosen), sum(value is None for _, value in headers))
    all_valid = b"\xff" * len(valid)
    found = list(zip(*(values_of(*one, len(headers)) for one in ((keys, key_ends, all_valid), (values, value_ends, valid))), strict=True))
    assert found == headers
    filled = [found[lists[at] : lists[at + 1]] for at in range(row, row + count)]
    assert filled == [record.headers for record in chosen]


@given(record_lists(max_size=9), st.lists(st.integers(0, 2), min_size=9, max_size=9), st.integers(0, 3), WILD)
@examples(100)
def test_numbers_are_those_of_the_record_or_of_its_batch(records, batch_of, row, added):
    _, staged = stage(records)
    table, batches, count = staged.table, tables(), len(records)
    for at in range(count):
        table[RecordField.BATCH, at] = batch_of[at]
    out = words(row + count)
    assert kernel.spread(batches, BatchField.POSITION, table, 0, count, out, row, added)
    assert list(out)[row:] == [(batches[BatchField.POSITION, one] + added + 2**63) % 2**64 - 2**63 for one in batch_of[:count]]
    for one, (magic, attributes) in enumerate(((0, 8), (1, 8), (2, 7))):
        batches[BatchField.MAGIC, one], batches[BatchField.ATTRIBUTES, one] = magic, attributes
    kinds = ends(row + count)
    assert kernel.timestamp_types(batches, table, 0, count, kinds, row)
    assert list(kinds)[row:] == [(-1, 1, 0)[one] for one in batch_of[:count]]
    out, valid = words(row + count), view((row + count + 7) // 8)
    wanted = [one.timestamp * 1000 if abs(one.timestamp) <= LONG_MAX // 1000 else None for one in records]
    assert kernel.microseconds(table, 0, count, out, valid, row) == wanted.count(None)
    assert [out[at] if valid[at >> 3] >> (at & 7) & 1 else None for at in range(row, row + count)] == wanted


@given(st.binary(max_size=40), ROWS, AT, AT, AT, st.integers(0, 40), WILD)
@examples(300)
def test_any_columns_are_gathered_or_refused(data, rows, first, end, row, room, limit):
    table, data = columns(rows), memoryview(data)
    for column in range(len(rows)):
        count = table[RecordField.HEADER_COUNT, column]
        table[RecordField.HEADER_COUNT, column] = min(count, 50)  # a count is bounded by the bytes where records are decoded
    store = bytearray([SENTINEL]) * (room + 64)
    for field in (RecordField.KEY_POSITION, RecordField.VALUE_POSITION, RecordField.VALID, -1):
        at, _ = kernel.gather(data, table, field, first, end, kernel.Blobs(memoryview(store)[:room], ends(room + 1), view((room + 7) // 8)), 0, row)
        assert -1 <= at <= room
        assert set(store[room:]) == {SENTINEL}
    stop, keys, values = kernel.fitting(table, first, end, limit)
    assert min(first, end) <= stop <= max(first, end)
    assert keys >= 0 <= values
    kernel.spread(tables(), BatchField.POSITION, table, first, end, words(room), row, limit)
    kernel.timestamp_types(tables(), table, first, end, ends(room), row)
    assert kernel.microseconds(table, first, end, words(room), view((room + 7) // 8), row) >= -1
    count, _, _ = kernel.measure_headers(data, table, first, end)
    assert count >= -1
    key_ends, value_ends, keys = ends(room + 1), ends(room + 1), memoryview(store)[:room]
    headers = kernel.Headers(ends(room + 1), view(room), keys, key_ends, kernel.Blobs(view(room), value_ends, view(room)))
    got = kernel.gather_headers(data, table, first, end, headers, row, 0)
    assert got[0] <= room
    assert set(store[room:]) == {SENTINEL}


def test_a_record_too_large_for_the_room_comes_alone():
    rows = [[0] * RECORD_FIELDS for _ in range(3)]
    for row, size in zip(rows, (9, 4, 1), strict=True):
        row[RecordField.VALUE_SIZE] = size
    table = columns(rows)
    assert kernel.fitting(table, 0, 3, 5) == (1, 0, 9)
    assert kernel.fitting(table, 1, 3, 5) == (3, 0, 5)
    assert kernel.fitting(table, 1, 3, 4) == (2, 0, 4)
    assert kernel.fitting(table, 0, 4, 5) == (0, 0, 0)  # there are three


def test_a_time_beyond_microseconds_is_null():
    table, out, valid = columns([[0] * RECORD_FIELDS] * 2), words(2), view(1)
    table[RecordField.TIMESTAMP, 0] = 2**63 - 1
    table[RecordField.TIMESTAMP, 1] = -1
    assert kernel.microseconds(table, 0, 2, out, valid, 0) == 1
    assert (list(out), valid[0]) == ([0, -1000], 2)


@pytest.mark.parametrize("full", ["keys", "values"])
def test_no_header_goes_beyond_what_an_end_of_32_bits_reaches(full):
    data = memoryview(b"\x06key\x0avalue")  # a header as a record holds it
    table = columns([[0] * RECORD_FIELDS])
    table[RecordField.HEADER_COUNT, 0], table[RecordField.HEADERS_POSITION, 0] = 1, 0
    with mmap.mmap(-1, (1 << 31) + 4096) as much:  # of which only the pages that are written exist
        for left, fits in ((2, False), (5, True)):
            key_ends, value_ends = ends(2), ends(2)
            (key_ends if full == "keys" else value_ends)[0] = INT_MAX - left
            large, small = memoryview(much), view(10)
            keys, values = (large, small) if full == "keys" else (small, large)
            headers = kernel.Headers(ends(2), view(1), keys, key_ends, kernel.Blobs(values, value_ends, view(1)))
            got = kernel.gather_headers(data, table, 0, 1, headers, 0, 0)
            del headers
            assert got == ((1, 0, 0) if fits else (-1, 0, 0))
            large.release()

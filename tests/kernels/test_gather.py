"""Gathering gives the same in both builds, and refuses whatever does not fit, whatever the columns hold."""

from __future__ import annotations

import mmap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.formats import BATCH_FIELDS, INT_MAX, RECORD_FIELDS, BatchField, RecordField
from engine.record.columns import BatchColumns, RecordColumns
from tests.support.load_kernel import load_kernel
from tests.support.once import BOTH_BUILDS
from tests.support.strategies import edges

pytestmark = BOTH_BUILDS

WILD = st.integers(-2, 30) | edges(-(2**63), 2**63 - 1)
ROWS = st.lists(st.lists(WILD, min_size=RECORD_FIELDS, max_size=RECORD_FIELDS), max_size=4)
AT = st.integers(-1, 6)


@pytest.fixture(scope="module")
def both():
    return load_kernel("gather", "compiled"), load_kernel("gather", "interpreted")


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


def calls(kernel, data, table, first, end, row, room, limit):
    """What every function of the kernel makes of these columns, and of its buffers."""
    for field in (RecordField.KEY_POSITION, RecordField.VALUE_POSITION, RecordField.VALID, -1):
        out, stops, valid = view(room), ends(room + 1), view((room + 7) // 8)
        yield kernel.gather(data, table, field, first, end, out, 0, stops, valid, row), bytes(out), list(stops), bytes(valid)
    yield kernel.fitting(table, first, end, limit)
    out = words(room)
    yield kernel.spread(tables(), BatchField.POSITION, table, first, end, out, row, limit), list(out)
    kinds = ends(room)
    yield kernel.timestamp_types(tables(), table, first, end, kinds, row), list(kinds)
    valid = view((room + 7) // 8)
    yield kernel.microseconds(table, first, end, out, valid, row), list(out), bytes(valid)
    yield kernel.measure_headers(data, table, first, end)
    lists, keys, values, bits = ends(room + 1), view(room), view(room), view(room)
    key_ends, value_ends = ends(room + 1), ends(room + 1)
    got = kernel.gather_headers(data, table, first, end, lists, valid, row, keys, key_ends, values, value_ends, bits, 0)
    yield got, list(lists), bytes(keys), list(key_ends), bytes(values), list(value_ends), bytes(bits)


@given(st.binary(max_size=40), ROWS, AT, AT, AT, st.integers(0, 40), WILD)
@settings(deadline=None, max_examples=300)
def test_both_builds_agree(both, data, rows, first, end, row, room, limit):
    table = columns(rows)
    count = RecordField.HEADER_COUNT
    for column in range(len(rows)):
        table[count, column] = min(table[count, column], 50)  # a count is bounded by the bytes where records are decoded
    compiled, plain = (list(calls(kernel, memoryview(data), table, first, end, row, room, limit)) for kernel in both)
    assert compiled == plain


def test_a_record_too_large_for_the_room_comes_alone(both):
    rows = [[0] * RECORD_FIELDS for _ in range(3)]
    for row, size in zip(rows, (9, 4, 1), strict=True):
        row[RecordField.VALUE_SIZE] = size
    table = columns(rows)
    for kernel in both:
        assert kernel.fitting(table, 0, 3, 5) == (1, 0, 9)
        assert kernel.fitting(table, 1, 3, 5) == (3, 0, 5)
        assert kernel.fitting(table, 1, 3, 4) == (2, 0, 4)
        assert kernel.fitting(table, 0, 4, 5) == (0, 0, 0)  # there are three


def test_a_time_beyond_microseconds_is_null(both):
    for kernel in both:
        table, out, valid = columns([[0] * RECORD_FIELDS] * 2), words(2), view(1)
        table[RecordField.TIMESTAMP, 0] = 2**63 - 1
        table[RecordField.TIMESTAMP, 1] = -1
        assert kernel.microseconds(table, 0, 2, out, valid, 0) == 1
        assert (list(out), valid[0]) == ([0, -1000], 2)


@pytest.mark.parametrize("full", ["keys", "values"])
def test_no_header_goes_behind_what_an_end_of_32_bits_reaches(both, full):
    data = memoryview(b"\x06key\x0avalue")  # a header as a record holds it
    table = columns([[0] * RECORD_FIELDS])
    table[RecordField.HEADER_COUNT, 0], table[RecordField.HEADERS_POSITION, 0] = 1, 0
    with mmap.mmap(-1, (1 << 31) + 4096) as much:  # of which only the pages that are written exist
        for kernel in both:
            for left, fits in ((2, False), (5, True)):
                key_ends, value_ends = ends(2), ends(2)
                (key_ends if full == "keys" else value_ends)[0] = INT_MAX - left
                large, small = memoryview(much), view(10)
                keys, values = (large, small) if full == "keys" else (small, large)
                got = kernel.gather_headers(data, table, 0, 1, ends(2), view(1), 0, keys, key_ends, values, value_ends, view(1), 0)
                assert got == ((1, 0, 0) if fits else (-1, 0, 0))
                large.release()

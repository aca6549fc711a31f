"""Rows of arrays become columns alike in both builds, whatever their buffers hold; keys choose partitions as in Kafka."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.formats import RECORD_FIELDS, RecordField
from engine.record.columns import RecordColumns
from tests.support.load_kernel import load_kernel
from tests.support.once import BOTH_BUILDS

pytestmark = BOTH_BUILDS

AT = st.integers(-2, 9)
STOPS = st.lists(st.integers(-1, 12), max_size=6)


@pytest.fixture(scope="module")
def both():
    return load_kernel("rows", "compiled"), load_kernel("rows", "interpreted")


def ints(numbers):
    view = memoryview(bytearray(4 * len(numbers))).cast("i")
    for at, number in enumerate(numbers):
        view[at] = number
    return view


def words(numbers):
    view = memoryview(bytearray(8 * len(numbers))).cast("q")
    for at, number in enumerate(numbers):
        view[at] = number
    return view


def table(records):
    return [list(records.field(field)) for field in range(RECORD_FIELDS)]


def calls(kernel, data, ends, valid, start, length, chosen, first, end, room, at, column, count):
    """What every function makes of these buffers, and of those that it writes."""
    data, ends, valid, chosen = memoryview(data), ints(ends), memoryview(valid), words(chosen)
    yield kernel.measure_rows(ends, valid, start, length, chosen, first, end)
    for field in (RecordField.KEY_POSITION, RecordField.VALID, -1):
        out, records = memoryview(bytearray(room)), RecordColumns(4)
        yield kernel.take_rows(data, ends, valid, start, length, chosen, first, end, out, at, records.table, column, field)
        yield bytes(out), table(records)
    rows = (chosen, first, end)
    yield kernel.measure_header_rows(ends, valid, start, length, ends, valid, start, ends, valid, 0, count, *rows)
    out, records = memoryview(bytearray(room)), RecordColumns(4)
    yield kernel.take_header_rows(
        ends, valid, start, length, data, ends, start, data, ends, valid, 0, count, *rows, out, at, records.table, column
    )
    yield bytes(out), table(records)
    for grows in (False, True):
        records = RecordColumns(4)
        yield kernel.take_numbers(chosen, valid, start, length, *rows, 3, -1, at, grows, records.table, column, RecordField.OFFSET)
        yield table(records)
    stops, order = words([7] * max(0, count)), words([7] * room)
    yield kernel.group_rows(ends, length, stops, order), list(stops)
    yield list(order) if 0 <= length <= len(ends) and all(0 <= code < count - 1 for code in ends[: max(0, length)]) else None
    out = ints([at] * room)
    yield kernel.choose_partitions(data, ends, valid, start, length, count, 5, out), list(out)


@given(
    st.binary(max_size=12), STOPS, st.binary(max_size=2), AT, AT, st.lists(AT, max_size=5), st.integers(0, 4), AT,
    st.integers(0, 30), AT, AT, AT,
)  # fmt: skip
@settings(deadline=None, max_examples=400)
def test_both_builds_agree(both, data, ends, valid, start, length, chosen, first, end, room, at, column, count):
    arguments = (data, ends, valid, start, length, chosen, first, end, room, at, column, count)
    compiled, plain = (list(calls(kernel, *arguments)) for kernel in both)
    assert compiled == plain


# org.apache.kafka.clients.producer.internals.BuiltInPartitioner.partitionForKey(key, 1000003)
KAFKAS = {
    b"": 645856, b"a": 100772, b"ab": 154486, b"abc": 468670, b"21": 547821, b"foobar": 147095,
    b"a-little-bit-long-string": 498629, "ключ".encode(): 336658, bytes([255, 254, 128, 0, 251]): 737167,
}  # fmt: skip


def test_keys_choose_partitions_as_in_kafka(both):
    keys = b"".join(KAFKAS)
    ends = [0]
    for key in KAFKAS:
        ends.append(ends[-1] + len(key))
    for kernel in both:
        out = ints([-1] * len(KAFKAS))
        assert kernel.choose_partitions(memoryview(keys), ints(ends), memoryview(b""), 0, len(KAFKAS), 1000003, 9, out)
        assert list(out) == list(KAFKAS.values())
        out = ints([-1, 4, -1])
        assert kernel.choose_partitions(memoryview(b"ab"), ints([0, 1, 2, 2]), memoryview(b"\3"), 0, 3, 1000003, 9, out)
        assert list(out) == [100772, 4, 9]  # one that was given stays, one without a key goes where those go

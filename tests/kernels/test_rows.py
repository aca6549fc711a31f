"""Rows of arrays become columns, whatever their buffers hold; keys choose partitions as in Kafka."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.formats import RecordField
from engine.kernels import rows as kernel
from engine.record.builder import wire_field
from engine.record.columns import RecordColumns
from tests.support.strategies import examples

AT = st.integers(-2, 9)
STOPS = st.lists(st.integers(-1, 12), max_size=6)
SENTINEL = 0xA5


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


def bits(values, start):
    """Which of the rows, that begin at row `start` of an array, are not null."""
    flags = sum((value is not None) << (start + at) for at, value in enumerate(values))
    return memoryview(flags.to_bytes((start + len(values) + 7) // 8 + 1, "little"))


def stops(values, start):
    """Where the rows end, from row 0 of the array on."""
    found = [0] * (start + 1)
    for value in values:
        found.append(found[-1] + len(value or b""))
    return ints(found)


FIELD = st.none() | st.binary(max_size=5)
LISTS = st.none() | st.lists(st.tuples(st.binary(max_size=5), FIELD), max_size=3)


@given(st.lists(FIELD, min_size=1, max_size=6), st.lists(st.integers(0, 5), max_size=6), st.integers(0, 9), st.integers(0, 5))
@examples(200)
def test_rows_become_fields_of_records(values, chosen, start, at):
    chosen = [one for one in chosen if one < len(values)]
    wanted, end = [values[one] for one in chosen], len(chosen)
    data, rows = memoryview(b"".join(one or b"" for one in values)), kernel.Chosen(words(chosen), 0, end)
    blobs = kernel.Blobs(data, stops(values, start), bits(values, start), start, len(values))
    size = sum(len(one or b"") for one in wanted)
    assert kernel.measure_rows(blobs, rows) == size
    out, records = memoryview(bytearray(at + size)), RecordColumns(end + 2)
    assert not size or kernel.take_rows(blobs, rows, out[1:], at, records.table, 1, RecordField.VALUE_POSITION) == -1
    assert kernel.take_rows(blobs, rows, out, at, records.table, 1, RecordField.VALUE_POSITION) == at + size
    places, sizes = records.field(RecordField.VALUE_POSITION)[1:], records.field(RecordField.VALUE_SIZE)[1:]
    assert [bytes(out[places[one] :][: sizes[one]]) if sizes[one] >= 0 else None for one in range(end)] == wanted


@given(st.lists(LISTS, min_size=1, max_size=5), st.lists(st.integers(0, 4), max_size=5), st.integers(0, 9))
@examples(200)
def test_lists_become_headers_of_records(lists, chosen, start):
    chosen = [one for one in chosen if one < len(lists)]
    headers = [header for one in lists for header in one or []]
    keys, values = [key for key, _ in headers], [value for _, value in headers]
    owners, rows = (stops(lists, start), bits(lists, start), start, len(lists)), kernel.Chosen(words(chosen), 0, len(chosen))
    data = [memoryview(b"".join(one or b"" for one in part)) for part in (keys, values)]
    value_blobs = kernel.Blobs(data[1], stops(values, 2), bits(values, 2), 2, len(headers))

    def given(key_bits):
        return kernel.HeaderLists(*owners, kernel.Blobs(data[0], stops(keys, 1), key_bits, 1, len(headers)), value_blobs)

    wanted = [b"".join(wire_field(key) + wire_field(value) for key, value in lists[one] or []) for one in chosen]
    size = kernel.measure_header_rows(given(bits(keys, 1)), rows)
    assert size == sum(map(len, wanted))
    out, records = memoryview(bytearray(size + 10)), RecordColumns(len(chosen) + 1)
    end = kernel.take_header_rows(given(bits(keys, 1)), rows, out, 0, records.table, 0)
    assert bytes(out[:end]) == b"".join(wanted)
    assert list(records.field(RecordField.HEADER_COUNT)[: len(chosen)]) == [len(lists[one] or []) for one in chosen]
    assert list(records.field(RecordField.HEADERS_POSITION)[: len(chosen)]) == [sum(map(len, wanted[:at])) for at in range(len(chosen))]
    if headers and chosen and wanted[0]:
        assert kernel.measure_header_rows(given(memoryview(bytes(9))), rows) == -2


@given(st.lists(st.none() | st.integers(-20, 20), min_size=1, max_size=6), st.lists(st.integers(0, 5), max_size=6), st.integers(0, 9),
       st.integers(1, 3), st.integers(-30, 5), st.booleans())  # fmt: skip
@examples(300)
def test_numbers_become_a_field_up_to_the_first_that_is_refused(values, chosen, start, unit, least, grows):
    chosen = [one for one in chosen if one < len(values)]
    records, wanted = RecordColumns(len(chosen) + 1), [-1 if values[one] is None else values[one] // unit for one in chosen]
    array = words([*[0] * start, *(value or 0 for value in values)])
    done, refused = kernel.take_numbers(
        kernel.Numbers(array, bits(values, start), start, len(values)), kernel.Chosen(words(chosen), 0, len(chosen)),
        kernel.NumberRule(unit, -1, least, grows), records.table, 1, RecordField.OFFSET,
    )  # fmt: skip
    bad = [at for at, one in enumerate(wanted) if one < least or (grows and at and one <= wanted[at - 1])]
    assert (done, refused) == ((bad[0], wanted[bad[0]]) if bad else (len(chosen), 0))
    assert list(records.field(RecordField.OFFSET)[1 : 1 + done]) == wanted[:done]


@given(st.lists(st.integers(-1, 4), max_size=9), st.integers(0, 5))
def test_rows_are_sorted_by_their_codes(codes, groups):
    ends, order = words([7] * (groups + 1)), words([7] * len(codes))
    fits = all(0 <= code < groups for code in codes)
    assert kernel.group_rows(ints(codes), len(codes), ends, order) == fits
    if fits:
        assert list(order) == sorted(range(len(codes)), key=lambda row: codes[row])
        assert list(ends[:groups]) == [sum(code <= group for code in codes) for group in range(groups)]


@given(
    st.binary(max_size=12), STOPS, st.binary(max_size=2), AT, AT, st.lists(AT, max_size=5), st.integers(0, 4), AT,
    st.integers(0, 30), AT, AT, AT,
)  # fmt: skip
@examples(400)
def test_any_buffers_are_taken_or_refused(data, ends, valid, start, length, chosen, first, end, room, at, column, count):
    data, ends, valid, chosen = memoryview(data), ints(ends), memoryview(valid), words(chosen)
    store = bytearray([SENTINEL]) * (room + 64)
    out, table, rows = memoryview(store)[:room], RecordColumns(4).table, kernel.Chosen(chosen, first, end)
    blobs = kernel.Blobs(data, ends, valid, start, length)
    assert kernel.measure_rows(blobs, rows) >= -1
    for field in (RecordField.KEY_POSITION, RecordField.VALID, -1):
        assert -1 <= kernel.take_rows(blobs, rows, out, at, table, column, field) <= max(room, at)
    parts = kernel.Blobs(data, ends, valid, start, count), kernel.Blobs(data, ends, valid, 0, count)
    headers = kernel.HeaderLists(ends, valid, start, length, *parts)
    assert kernel.measure_header_rows(headers, rows) >= -2
    assert -1 <= kernel.take_header_rows(headers, rows, out, at, table, column) <= max(room, at)
    for grows in (False, True):
        done, _ = kernel.take_numbers(kernel.Numbers(chosen, valid, start, length), rows, kernel.NumberRule(3, -1, at, grows), table, column, RecordField.OFFSET)
        assert min(-1, end - first) <= done <= max(0, end - first)
    kernel.group_rows(ends, length, words([7] * max(0, count)), words([7] * room))
    kernel.choose_partitions(data, ends, valid, start, length, count, 5, ints([at] * room))
    assert set(store[room:]) == {SENTINEL}


# org.apache.kafka.clients.producer.internals.BuiltInPartitioner.partitionForKey(key, 1000003)
KAFKAS = {
    b"": 645856, b"a": 100772, b"ab": 154486, b"abc": 468670, b"21": 547821, b"foobar": 147095,
    b"a-little-bit-long-string": 498629, "ключ".encode(): 336658, bytes([255, 254, 128, 0, 251]): 737167,
}  # fmt: skip


def test_keys_choose_partitions_as_in_kafka():
    keys = b"".join(KAFKAS)
    ends = [0]
    for key in KAFKAS:
        ends.append(ends[-1] + len(key))
    out = ints([-1] * len(KAFKAS))
    assert kernel.choose_partitions(memoryview(keys), ints(ends), memoryview(b""), 0, len(KAFKAS), 1000003, 9, out)
    assert list(out) == list(KAFKAS.values())
    out = ints([-1, 4, -1])
    assert kernel.choose_partitions(memoryview(b"ab"), ints([0, 1, 2, 2]), memoryview(b"\3"), 0, 3, 1000003, 9, out)
    assert list(out) == [100772, 4, 9]  # a given partition stays; a row without a key gets `keyless`

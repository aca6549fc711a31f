"""Laws of the offset map: it is a dict from key to last offset."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.formats import BatchField, RecordField, Status
from engine.kernels import offset_map as kernel
from engine.kernels.decoded import Decoded
from engine.record.columns import BatchColumns, RecordColumns
from tests.support.strategies import examples

NO_BITS = memoryview(array("Q", [0]))
NO_STATE = memoryview(array("q", [0, 0, -1]))
NONE_SKIPPED = memoryview(b"\0")
SECRET = (0x0123456789ABCDEF, 0xFEDCBA9876543210)
keys = st.none() | st.binary(max_size=40) | st.integers(0, 20).map(lambda number: b"key%d" % number)


def slots(count):
    return memoryview(bytearray(24 * count)).cast("Q")


def columns(records, batch_of=lambda _index: 0):
    """Columns of (offset, key, has a value)."""
    table, data = RecordColumns(len(records) + 8), bytearray()
    for index, (offset, key, has_value) in enumerate(records):
        table.table[RecordField.BATCH, index] = batch_of(index)
        table.table[RecordField.OFFSET, index] = offset
        table.table[RecordField.KEY_POSITION, index] = len(data)
        table.table[RecordField.KEY_SIZE, index] = -1 if key is None else len(key)
        table.table[RecordField.VALUE_SIZE, index] = 3 if has_value else -1
        data += key or b""
    return memoryview(bytes(data)), table.table


def put(kernel, records, capacity, count, start=0, skipped=NONE_SKIPPED, state=None, map_=None):
    data, table = columns(records)
    state = memoryview(array("q", [0, capacity, -1])) if state is None else state
    map_ = slots(count) if map_ is None else map_
    stop, status = kernel.put_keys(kernel.OffsetMap(map_, *SECRET, state), data, table, 0, len(records), start, skipped)
    return stop, status, list(state), map_


@given(st.lists(keys, max_size=120), st.integers(0, 40))
@examples(60)
def test_it_remembers_the_last_offset_of_every_key(given_keys, start):
    records = [(offset, key, True) for offset, key in enumerate(given_keys)]
    stop, status, state, map_ = put(kernel, records, 150, 170, start)
    model = {key: offset for offset, key, _ in records if key is not None and offset >= start}
    assert (stop, status) == (len(records), Status.END)
    assert state == [len(model), 150, max(model.values(), default=-1)]
    for key in set(given_keys) - {None} | {b"never put"}:
        assert kernel.find_key(kernel.OffsetMap(map_, *SECRET, NO_STATE), memoryview(key)) == model.get(key, -1)


@given(st.lists(st.binary(min_size=1, max_size=3), min_size=1, max_size=60), st.integers(1, 20))
@examples(60)
def test_a_full_map_stops_at_the_next_record_that_has_a_key(given_keys, capacity):
    records = [(offset, key, True) for offset, key in enumerate(given_keys)]
    stop, status, state, _ = put(kernel, records, capacity, capacity + 2)
    distinct, expected = set(), len(records)
    for index, key in enumerate(given_keys):
        if len(distinct) == capacity:
            expected = index
            break
        distinct.add(key)
    assert stop == expected
    assert status == (Status.END if expected == len(records) else Status.FULL)
    assert state[0] == len(distinct)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_every_slot_can_be_taken(count):
    records = [(offset, b"%d" % offset, True) for offset in range(count)]
    stop, status, state, map_ = put(kernel, records, count, count)
    assert (stop, status, state[0]) == (count, Status.END, count)
    assert [kernel.find_key(kernel.OffsetMap(map_, *SECRET, NO_STATE), memoryview(b"%d" % offset)) for offset in range(count)] == list(range(count))
    assert kernel.find_key(kernel.OffsetMap(map_, *SECRET, NO_STATE), memoryview(b"another")) == -1


def test_skipped_batches_are_passed_over():
    data, table = columns([(0, b"a", True), (1, b"a", True), (2, b"b", True)], batch_of=lambda index: index)
    state, map_ = memoryview(array("q", [0, 9, -1])), slots(10)
    assert kernel.put_keys(kernel.OffsetMap(map_, *SECRET, state), data, table, 0, 3, 0, memoryview(b"\0\1\1")) == (3, Status.END)
    assert kernel.find_key(kernel.OffsetMap(map_, *SECRET, NO_STATE), memoryview(b"a")) == 0
    assert kernel.find_key(kernel.OffsetMap(map_, *SECRET, NO_STATE), memoryview(b"b")) == -1


@given(st.lists(keys, max_size=60, unique=True))
@examples(30)
def test_entries_move_to_a_larger_map(given_keys):
    records = [(offset, key, True) for offset, key in enumerate(given_keys)]
    _, _, state, map_ = put(kernel, records, 80, 80)
    larger = slots(200)
    assert kernel.move_entries(map_, larger) == state[0]
    assert [kernel.find_key(kernel.OffsetMap(larger, *SECRET, NO_STATE), memoryview(key)) for key in given_keys if key is not None] == [
        offset for offset, key, _ in records if key is not None
    ]
    assert kernel.move_entries(larger, slots(1)) == (-1 if state[0] > 1 else state[0])


def test_arguments_that_do_not_fit_are_a_status():
    data, table = columns([(0, b"abc", True)])
    state = memoryview(array("q", [0, 5, -1]))
    assert kernel.put_keys(kernel.OffsetMap(slots(4), *SECRET, state), data, table, 0, 1, 0, memoryview(b"\0")) == (0, Status.BAD_START)  # capacity
    assert kernel.put_keys(kernel.OffsetMap(slots(9), *SECRET, state), data, table, 0, 1, -1, memoryview(b"\0")) == (0, Status.BAD_START)
    assert kernel.put_keys(kernel.OffsetMap(slots(9), *SECRET, state), data, table, 0, 1, 0, memoryview(b"")) == (0, Status.BAD_START)
    assert kernel.put_keys(kernel.OffsetMap(slots(9), *SECRET, state), data[:2], table, 0, 1, 0, memoryview(b"\0")) == (0, Status.BAD_START)
    assert kernel.put_keys(kernel.OffsetMap(slots(9), *SECRET, state), data, table[:5], 0, 1, 0, memoryview(b"\0")) == (0, Status.BAD_START)
    table[RecordField.KEY_POSITION, 0] = -1
    assert kernel.put_keys(kernel.OffsetMap(slots(9), *SECRET, state), data, table, 0, 1, 0, memoryview(b"\0")) == (0, Status.BAD_START)
    state[1] = 0  # a map without room, of which nothing may be asked
    assert kernel.put_keys(kernel.OffsetMap(slots(0), *SECRET, state), data, table, 0, 1, 0, memoryview(b"\0")) == (0, Status.BAD_START)
    assert kernel.find_key(kernel.OffsetMap(slots(0), *SECRET, NO_STATE), data) == -1
    assert kernel.move_entries(slots(3), slots(0)) == -1


@given(st.lists(st.tuples(keys, st.booleans()), max_size=60), st.integers(-1, 70), st.sampled_from([0, 1, 2]),
       st.sampled_from([None, 50, 51, 52]), st.sampled_from([1, 2]), st.booleans())
@examples(80)
def test_what_stays(given_records, latest, verdict, horizon, magic, retain_legacy):
    records = [(offset, key, has_value) for offset, (key, has_value) in enumerate(given_records)]
    _, _, _, map_ = put(kernel, [record for record in records if record[0] <= latest], 80, 90)
    batches = BatchColumns(8).table
    batches[BatchField.MAGIC, 0] = magic
    if horizon is not None:
        batches[BatchField.ATTRIBUTES, 0], batches[BatchField.BASE_TIMESTAMP, 0] = 64, horizon
    data, table = columns(records)
    keep, counts = memoryview(bytearray(len(records) or 1)), memoryview(array("q", bytes(40))).cast("B").cast("q", (5, 1))
    status = kernel.mark_retained(
        kernel.OffsetMap(map_, *SECRET, NO_STATE), Decoded(data, batches, table), 0, len(records),
        kernel.Retention(latest, 51, retain_legacy, NO_BITS, 0), memoryview(bytes([verdict])), keep, counts,
    )
    assert status == Status.END
    last = {key: offset for offset, key, _ in records if key is not None and offset <= latest}
    tombstones_stay = retain_legacy if magic == 1 else horizon is None or horizon > 51

    def stays(offset, key, has_value):
        if verdict:
            return verdict == 1
        if offset > latest:
            return True
        return key is not None and last[key] == offset and (has_value or tombstones_stay)

    assert list(keep[: len(records)]) == [stays(*record) for record in records]
    kept = [record for record in records if stays(*record)]
    asked = [record for record in records if not verdict and record[0] <= latest]
    assert [counts[field, 0] for field in range(5)] == [
        len(records), len(kept), sum(not has_value for _, _, has_value in kept), sum(key is None for _, key, _ in asked),
        sum(key is not None and last[key] == offset and not has_value and not tombstones_stay for offset, key, has_value in asked),
    ]  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=60), st.integers(0, 40))
@examples(60)
def test_survivors_say_the_same_as_the_map(given_records, start):
    records = [(start + offset, b"%d" % key, has_value) for offset, (key, has_value) in enumerate(given_records)]
    _, _, _, map_ = put(kernel, records, 80, 90, start)
    batches, (data, table) = BatchColumns(8).table, columns(records)
    batches[BatchField.MAGIC, 0] = 2
    last = {key: offset for offset, key, _ in records}
    bits = memoryview(array("Q", [0, 0]))
    for offset in last.values():
        bits[(offset - start) // 64] |= 1 << (offset - start) % 64
    found = []
    for verdict in (0, 3):
        keep, counts = memoryview(bytearray(len(records))), memoryview(array("q", bytes(40))).cast("B").cast("q", (5, 1))
        assert kernel.mark_retained(
        kernel.OffsetMap(map_, *SECRET, NO_STATE), Decoded(data, batches, table), 0, len(records),
        kernel.Retention(999, 51, False, bits, start), memoryview(bytes([verdict])), keep, counts,
    ) == Status.END
        found.append((bytes(keep), [counts[field, 0] for field in range(5)]))
    assert found[0] == found[1]
    assert found[0][0] == bytes(last[key] == offset for offset, key, _ in records)


def test_an_offset_outside_the_survivors_is_a_status():
    data, table = columns([(70, b"a", True)])
    batches, keep = BatchColumns(8).table, memoryview(bytearray(1))
    counts = memoryview(array("q", bytes(40))).cast("B").cast("q", (5, 1))
    for start in (5, 71):
        assert kernel.mark_retained(
        kernel.OffsetMap(slots(4), *SECRET, NO_STATE), Decoded(data, batches, table), 0, 1,
        kernel.Retention(999, 51, False, NO_BITS, start), memoryview(b"\3"), keep, counts,
    ) == Status.BAD_START


def test_twenty_thousand_keys_do_not_fall_together():
    records = [(offset, b"%d" % offset, True) for offset in range(20_000)]
    _, _, state, map_ = put(kernel, records, 22_000, 22_500)
    assert state[0] == 20_000
    assert all(kernel.find_key(kernel.OffsetMap(map_, *SECRET, NO_STATE), memoryview(b"%d" % offset)) == offset for offset in range(0, 20_000, 997))


def test_another_secret_finds_nothing():
    _, _, _, map_ = put(kernel, [(7, b"key", True)], 9, 10)
    assert kernel.find_key(kernel.OffsetMap(map_, *SECRET, NO_STATE), memoryview(b"key")) == 7
    assert kernel.find_key(kernel.OffsetMap(map_, SECRET[1], SECRET[0], NO_STATE), memoryview(b"key")) == -1

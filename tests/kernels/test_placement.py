"""Laws of placing index entries."""

from __future__ import annotations

import struct
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.formats import CONTROL_FLAG, TRANSACTIONAL_FLAG, BatchField
from engine.kernels import placement as kernel
from engine.kernels.walk import PLACE_FIELDS, PRODUCER_FIELDS, Kind, Placed, Placing
from engine.record.columns import BatchColumns, Table

LONG_MAX = 2**63 - 1


def state_of(base=0, interval=100, offsets_max=1000, times_max=1000):
    state = memoryview(array("q", bytes(8 * PLACE_FIELDS)))
    state[Placing.BASE_OFFSET] = state[Placing.MAX_TIMESTAMP_OFFSET] = state[Placing.LAST_TIME_OFFSET] = base
    state[Placing.INTERVAL] = interval
    state[Placing.MAX_TIMESTAMP] = state[Placing.LAST_TIME] = -1
    state[Placing.OFFSETS_MAX], state[Placing.TIMES_MAX] = offsets_max, times_max
    return state


def columns(rows):
    """(size, last offset, largest timestamp) each."""
    batches = BatchColumns(max(1, len(rows)))
    for row, (size, last, timestamp) in enumerate(rows):
        batches.table[BatchField.SIZE, row] = size
        batches.table[BatchField.LAST_OFFSET, row] = last
        batches.table[BatchField.MAX_TIMESTAMP, row] = timestamp
    return batches.table


def place(kernel, rows, state, room=64, step=None):
    """All rows, with outputs of `room` entries and `step` rows a call → (row, status, offset entries, time entries)."""
    table, offsets, times = columns(rows), bytearray(8 * room), bytearray(12 * room)
    row, status, found, found_times = 0, Placed.END, b"", b""
    while row < len(rows):
        until = min(len(rows), row + step) if step else len(rows)
        row, status = kernel.place_entries(table, row, until, state, memoryview(offsets), memoryview(times))
        found += offsets[: state[Placing.OFFSETS_AT]]
        found_times += times[: state[Placing.TIMES_AT]]
        state[Placing.OFFSETS_AT] = state[Placing.TIMES_AT] = 0
        if status not in (Placed.END, Placed.NO_ROOM):
            break
    return row, Placed(status), list(struct.iter_unpack(">ii", found)), list(struct.iter_unpack(">qi", found_times))


def test_the_first_batch_never_gets_an_entry_and_the_interval_is_strict():
    state = state_of(base=10, interval=100)
    rows = [(60, 10, 5), (40, 11, 7), (1, 12, 7), (100, 13, 6), (101, 14, 9), (1, 15, 8)]
    row, status, offsets, times = place(kernel, rows, state)
    assert (row, status) == (6, Placed.END)
    assert offsets == [(3, 101), (5, 302)]  # a batch of 100 bytes and the one before it: 101 bytes since the last entry
    assert times == [(7, 1), (9, 4)]
    assert (state[Placing.POSITION], state[Placing.SINCE_ENTRY]) == (303, 1)
    assert (state[Placing.MAX_TIMESTAMP], state[Placing.MAX_TIMESTAMP_OFFSET]) == (9, 14)


def test_batches_without_timestamps_leave_the_time_index_empty():
    _, status, offsets, times = place(kernel, [(10, i, -1) for i in range(5)], state_of(interval=0))
    assert (status, len(offsets), times) == (Placed.END, 4, [])


@pytest.mark.parametrize(("state", "rows", "wanted"), [
    ({"offsets_max": 1}, [(9, 0, 1), (9, 1, 1), (9, 2, 1)], (2, Placed.OFFSETS_FULL, 1, 1)),
    ({"times_max": 2}, [(9, 0, 1), (9, 1, 2), (9, 2, 3)], (2, Placed.TIMES_FULL, 2, 1)),
    ({"times_max": 1}, [(9, 0, -1), (9, 1, -1)], (1, Placed.TIMES_FULL, 1, 0)),  # full even for nothing
    ({}, [(9, 0, 1), (9, 5, 1), (9, 5, 1)], (2, Placed.OFFSET_ORDER, 1, 1)),
    ({}, [(9, 9, 7), (9, 0, 3), (9, 1, 3), (9, 2, 9), (9, 3, 11)], (3, Placed.TIME_ORDER, 3, 1)),
    ({"base": 5}, [(9, 4, 1)], (0, Placed.OVERFLOW, 0, 0)),
    ({"base": 5}, [(9, 5 + 2**31, 1)], (0, Placed.OVERFLOW, 0, 0)),
    ({"base": -(2**63)}, [(9, LONG_MAX, 1)], (0, Placed.OVERFLOW, 0, 0)),
])  # fmt: skip
def test_refusals(state, rows, wanted):
    row, status, offsets, times = place(kernel, rows, state_of(**{"interval": 0, **state}))
    assert (row, status, len(offsets), len(times)) == wanted


def test_a_time_entry_whose_offset_runs_backwards():
    rows = [(9, 50, 7), (9, 1, 3), (9, 2, 3), (9, 3, 20)]
    row, status, offsets, times = place(kernel, rows, state_of(interval=0))
    assert (row, status) == (3, Placed.TIME_ORDER)
    assert (offsets, times) == ([(1, 9), (2, 18), (3, 27)], [(7, 50)])


@given(
    st.lists(st.tuples(st.integers(1, 300), st.integers(0, 5), st.integers(-1, 50)), max_size=40),
    st.integers(0, 400), st.integers(1, 8), st.integers(1, 7),
)  # fmt: skip
def test_calls_of_any_length_and_room_give_the_same(steps, interval, room, step):
    last, rows = -1, []
    for size, gap, timestamp in steps:
        last += 1 + gap
        rows.append((size, last, timestamp))
    whole, pieces = state_of(interval=interval), state_of(interval=interval)
    assert place(kernel, rows, whole) == place(kernel, rows, pieces, room=room, step=step)
    assert list(whole) == list(pieces)


def test_arguments_that_do_not_fit_are_refused():
    table, out = columns([(9, 0, 0)]), memoryview(bytearray(8))
    short = memoryview(array("q", bytes(8)))
    assert kernel.place_entries(table, 0, 2, state_of(), out, out)[1] == Placed.BAD_START
    assert kernel.place_entries(table, -1, 1, state_of(), out, out)[1] == Placed.BAD_START
    assert kernel.place_entries(table, 0, 1, short, out, out)[1] == Placed.BAD_START


def test_searching_columns():
    batches = BatchColumns(4)
    for row, valid in enumerate([1, 1, 0, -1]):
        batches.table[BatchField.VALID, row] = valid
    table = batches.table
    assert (kernel.next_invalid(table, 0, 4), kernel.next_invalid(table, 3, 4), kernel.next_invalid(table, 0, 2)) == (2, 3, 2)


def tell(kernel, rows, room, capacity=64):
    """Report all rows, `room` in a call → (reported rows without markers, which of them are control batches)."""
    batches, reported = BatchColumns(capacity), Table(PRODUCER_FIELDS, room)
    for at, row in enumerate(rows):
        for field, value in row.items():
            batches.table[field, at] = value
    found, controls, row = [], [], 0
    while row < len(rows):
        row, count, is_control = kernel.report_producers(batches.table, row, len(rows), reported.table, 0)
        found += [tuple(reported.table[field, one] for field in range(PRODUCER_FIELDS)) for one in range(count)]
        if is_control:
            controls.append(len(found) - 1)
    return found, controls


@given(st.lists(st.tuples(st.sampled_from([0, 1, 2]), st.sampled_from([-1, 0, 7, LONG_MAX]), st.integers(0, 0x7F)), max_size=40),
       st.integers(1, 9))
def test_every_batch_with_a_producer_is_told_and_no_other(rows, room):
    rows = [{
        BatchField.MAGIC: magic, BatchField.PRODUCER_ID: producer, BatchField.ATTRIBUTES: attributes,
        BatchField.PRODUCER_EPOCH: at % 5, BatchField.BASE_SEQUENCE: at - 1, BatchField.BASE_OFFSET: 10 * at,
        BatchField.LAST_OFFSET: 10 * at + 9, BatchField.MAX_TIMESTAMP: 1000 - at,
    } for at, (magic, producer, attributes) in enumerate(rows)]  # fmt: skip
    wanted = [
        (row[BatchField.PRODUCER_ID], row[BatchField.PRODUCER_EPOCH], row[BatchField.BASE_SEQUENCE],
         row[BatchField.BASE_OFFSET], row[BatchField.LAST_OFFSET], row[BatchField.MAX_TIMESTAMP],
         bool(row[BatchField.ATTRIBUTES] & TRANSACTIONAL_FLAG) * Kind.TRANSACTIONAL
         + bool(row[BatchField.ATTRIBUTES] & CONTROL_FLAG) * Kind.CONTROL, -1, 0, -1)
        for row in rows if row[BatchField.MAGIC] == 2 and row[BatchField.PRODUCER_ID] >= 0
    ]  # fmt: skip
    found, controls = tell(kernel, rows, room)
    assert found == wanted
    assert controls == [at for at, row in enumerate(wanted) if row[6] & Kind.CONTROL]


def test_arguments_that_do_not_fit_tell_nothing():
    batches, reported = BatchColumns(2), Table(PRODUCER_FIELDS, 2)
    assert kernel.report_producers(batches.table, -1, 1, reported.table, 0) == (1, 0, False)
    assert kernel.report_producers(batches.table, 0, 3, reported.table, 0) == (3, 0, False)
    assert kernel.report_producers(batches.table, 0, 1, reported.table, -1) == (1, -1, False)
    assert kernel.report_producers(batches.table, 0, 1, Table(3, 2).table, 0) == (1, 0, False)

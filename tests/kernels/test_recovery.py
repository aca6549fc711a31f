"""The recovery kernel: the same law as tests/log/test_segment_scan.py, and its own edges."""

from __future__ import annotations

from array import array
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from engine.kernels import recovery as kernel
from engine.kernels.walk import PRODUCER_FIELDS, SLOT_FIELDS, WALK_FIELDS, Walk, Walked
from engine.log.segment.recovery_walk import scan_segment
from engine.record.columns import Table
from engine.record.windows import _TABLES
from tests.support import producer_logs, recovery_model
from tests.support.kernel_calls import mutate
from tests.support.memory_files import MemoryFiles
from tests.support.strategies import batches, examples

TABLES = tuple(memoryview(table) for table in _TABLES)


def found_in(data, interval=200):
    files = MemoryFiles({"x.log": data})
    scan = scan_segment(files, "x.log", 0, index_interval=interval, max_index_size=1 << 20)
    return scan, (
        scan.valid_size, bytes(scan.offset_entries), bytes(scan.time_entries), tuple(scan.largest), recovery_model.settled(scan.epochs),
        scan.batches, scan.records, scan.next_offset,
    )  # fmt: skip


def wanted_in(data, interval=200):
    model = recovery_model.recover(data, 0, interval, 1 << 20)
    return (
        model.valid_size, model.offsets, model.times, model.largest, recovery_model.settled(recovery_model.runs_of(model)),
        model.batches, model.records,
        model.next_offset,
    )  # fmt: skip


logs = st.lists(batches(), max_size=5).map(lambda cases: b"".join(case.build() for case in cases))


@given(logs, st.data())
@examples(60)
def test_it_agrees_with_the_plain_model(data, draw):
    assert found_in(data)[1] == wanted_in(data)
    if data:
        damaged = mutate(data, draw)
        with suppress(recovery_model.Unmodelled):
            assert found_in(damaged)[1] == wanted_in(damaged)


@given(producer_logs.events)
@examples(40)
def test_producers(events):
    data = b"".join(producer_logs.build(events))
    rows = list(found_in(data)[0].producers)
    wanted = recovery_model.recover(data, 0, 200, 1 << 20).rows
    assert set(rows) <= set(wanted)
    for producer in producer_logs.PRODUCERS:
        mine, all_of_them = ([row for row in some if row.producer_id == producer] for some in (rows, wanted))
        assert mine == [row for at, row in enumerate(all_of_them) if is_told(all_of_them, at)]
    assert [row for row in rows if row.is_control] == [row for row in wanted if row.is_control]


def is_told(rows, at):
    """Is row `at` of one producer the first or the last of its run?"""
    kind = [(row.producer_epoch, row.is_transactional, row.is_control) for row in rows]
    if rows[at].is_control or at == 0 or kind[at] != kind[at - 1]:
        return True
    return at + 1 == len(rows) or kind[at + 1] != kind[at]


def call(kernel, data, start=0, end=None, *, state=None, slots=None, epochs=8, rows=64):
    state = memoryview(array("q", bytes(8 * WALK_FIELDS))) if state is None else state
    slots = memoryview(array("q", bytes(8 * 4 * SLOT_FIELDS))).cast("B").cast("q", (4, SLOT_FIELDS)) if slots is None else slots
    out = memoryview(bytearray(96))
    return kernel.recover_batches(
        memoryview(data), start, len(data) if end is None else end, 0,
        kernel.Recovered(state, out, out, Table(4, epochs).table, Table(PRODUCER_FIELDS, rows).table, slots), *TABLES,
    )  # fmt: skip


def test_arguments_that_do_not_fit_are_refused():
    negative = memoryview(array("q", bytes(8 * WALK_FIELDS)))
    negative[Walk.REPORTED_AT] = -1
    odd = memoryview(array("q", bytes(8 * 3 * SLOT_FIELDS))).cast("B").cast("q", (3, SLOT_FIELDS))
    for options in (
        {"start": -1}, {"start": 3, "end": 2}, {"end": 1000}, {"state": memoryview(array("q", [0]))}, {"state": negative},
        {"slots": odd},
    ):  # fmt: skip
        assert call(kernel, bytes(20), **options)[1] == Walked.BAD_START


def test_no_room_is_said_before_anything_is_noted():
    data = producer_logs.build([producer_logs.Event(7, "plain", 1)])[0]
    state = memoryview(array("q", bytes(8 * WALK_FIELDS)))
    assert call(kernel, data, state=state, rows=1)[1] in (Walked.NO_ROOM, Walked.UNCHECKED)
    assert not any(state)

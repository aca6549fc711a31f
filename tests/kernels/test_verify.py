"""Laws of the kernels that compare indexes with batches: what a slow comparison finds, in one walk."""

from __future__ import annotations

import struct
from array import array
from itertools import pairwise
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from engine.formats import CONTROL_FLAG, LONG_MAX, TRANSACTIONAL_FLAG, BatchField, Status
from engine.kernels import verify as kernel
from engine.kernels.tables import DOUBT_FIELDS, Check
from engine.record.columns import BatchColumns, Table
from tests.support.row_models import SPAN, columns_of, first
from tests.support.strategies import examples

LONG_MIN = -(2**63)


class Batch(NamedTuple):
    first: int
    last: int
    size: int
    stamp: int
    magic: int
    codec: int


@st.composite
def logs(draw):
    """Consecutive batches of a log: increasing offsets, some missing."""
    offset, batches = draw(st.integers(0, 20)), []
    for _ in range(draw(st.integers(0, 12))):
        offset += draw(st.integers(0, 2))
        magic = draw(st.sampled_from([2, 2, 2, 1, 0]))
        last = offset + (draw(st.integers(0, 3)) if magic == 2 else 0)
        stamp = draw(st.integers(-1, 9)) if magic else -1
        batches.append(Batch(offset, last, draw(st.integers(1, 9)), stamp, magic, draw(st.sampled_from([0, 1]))))
        offset = last + 1
    return batches


def columns(batches, start):
    """A window of these batches, the first of which lies at byte `start` of the log."""
    table, at = BatchColumns(max(1, len(batches))), 0
    for row, batch in enumerate(batches):
        values = {
            BatchField.POSITION: at, BatchField.BASE_OFFSET: batch.first, BatchField.LAST_OFFSET: batch.last,
            BatchField.MAX_TIMESTAMP: batch.stamp, BatchField.MAGIC: batch.magic, BatchField.ATTRIBUTES: batch.codec,
            BatchField.COUNT: batch.last - batch.first + 1,
        }  # fmt: skip
        for field, value in values.items():
            table.table[field, row] = value
        at += batch.size
    return table.table, start, start + at


def walk(kernel, call, batches, cuts, capacity):
    """Run a check over windows that end at `cuts` → (rows of doubtful entries, state)."""
    state = memoryview(array("q", [0, LONG_MIN, -1, -1, -1]))
    doubtful = Table(DOUBT_FIELDS, capacity)
    found, used, start = [], 0, 0

    def drain():
        found.extend([doubtful.table[field, row] for field in range(DOUBT_FIELDS)] for row in range(used))

    edges = [0, *sorted(cut % (len(batches) + 1) for cut in cuts), len(batches)]
    for low, high in pairwise(edges):
        table, base, start = columns(batches[low:high], start)
        row, status = 0, Status.FULL
        while status == Status.FULL:
            row, used, status = call(table, row, high - low, base, state, doubtful.table, used)
            if status == Status.FULL:
                drain()
                used, state[Check.PENDING] = 0, -1
        assert (row, status) == (high - low, Status.END)
    drain()
    return found, state


@given(logs(), st.data(), st.lists(st.integers(0, 12), max_size=3), st.integers(1, 4))
def test_offset_entries(batches, data, cuts, capacity):
    positions = [sum(batch.size for batch in batches[:at]) for at in range(len(batches))]
    end = sum(batch.size for batch in batches)
    chosen = sorted(data.draw(st.lists(st.integers(0, end + 2) | st.sampled_from([*positions, 0]), max_size=8)))
    ends = [batch.last for batch in batches] + [batch.first for batch in batches] + [0]
    entries = [(data.draw(st.sampled_from(ends) | st.integers(0, 60)), position) for position in chosen]
    packed = memoryview(b"".join(struct.pack(">ii", *entry) for entry in entries))

    found, state = walk(
        kernel, lambda table, *rest: kernel.check_offset_entries(kernel.Entries(packed, 0), table, *rest), batches, cuts, capacity
    )

    expected, decided = [], -1
    reached = [number for number, (_, position) in enumerate(entries) if batches and position <= positions[-1]]
    for number in reached:
        offset, position = entries[number]
        row = next(at for at, place in enumerate(positions) if place >= position)
        batch, is_batch = batches[row], positions[row] == position
        if is_batch and batch.last == offset:
            decided = number if decided < 0 and batch.first != batch.last else decided
            continue
        following = [entries[other][1] for other in range(number + 1, len(entries))]
        until = len(batches)
        if is_batch and following:
            until = next((at for at, place in enumerate(positions) if place >= following[0] and at > row), until)
            until = row + 1 if following[0] <= position else until
        after = batches[row:until] if is_batch else [batch]
        previous = batches[row - 1].last if row else LONG_MIN
        meets = any(one.last == offset for one in after[1:])
        expected.append([
            number, is_batch, previous, batch.first, batch.last, batch.magic < 2 and batch.codec != 0, after[-1].last, meets,
        ])  # fmt: skip
    assert found == expected
    assert state[Check.NEXT] == len(reached)
    assert state[Check.DECIDED] == decided


@given(logs(), st.data(), st.lists(st.integers(0, 12), max_size=3), st.integers(1, 4))
def test_time_entries(batches, data, cuts, capacity):
    ends = [batch.last for batch in batches] + [0]
    offsets = sorted(data.draw(st.lists(st.sampled_from(ends) | st.integers(0, 60), max_size=8)))
    entries = [(data.draw(st.integers(-1, 9)), offset) for offset in offsets]
    packed = memoryview(b"".join(struct.pack(">qi", *entry) for entry in entries))

    found, state = walk(
        kernel, lambda table, row, last, _base, *rest: kernel.check_time_entries(kernel.Entries(packed, 0), table, row, last, *rest),
        batches, cuts, capacity,
    )

    expected = []
    reached = [number for number, (_, offset) in enumerate(entries) if batches and offset <= batches[-1].last]
    for number in reached:
        stamp, offset = entries[number]
        row = next(at for at, batch in enumerate(batches) if batch.last >= offset)
        batch = batches[row]
        before = max([-1, *(one.stamp for one in batches[:row])])
        if not (batch.last == offset and batch.stamp == stamp and stamp > before):
            previous = batches[row - 1].last if row else LONG_MIN
            wrapper = batch.magic < 2 and batch.codec != 0
            first = previous + 1 if wrapper else batch.first
            expected.append([number, 1, previous, first, batch.last, batch.magic == 0, batch.stamp, before])
    assert found == expected
    assert state[Check.LARGEST] == max([-1, *(batch.stamp for batch in batches)])
    assert state[Check.NEXT] == len(reached)


@given(logs(), st.integers(-1, 40))
def test_holes_and_places(batches, offset):
    table, _, _ = columns(batches, 0)
    rows = len(batches)
    assert kernel.first_from(table, 0, rows, offset) == next(
        (row for row, batch in enumerate(batches) if batch.first >= offset), rows
    )
    holes = (
        row for row in range(1, rows)
        if batches[row].first != batches[row - 1].last + 1 and not (batches[row].magic < 2 and batches[row].codec)
    )  # fmt: skip
    before = batches[0].first - 1 if batches else -1
    assert kernel.next_hole(table, 0, rows, before) == next(holes, rows)


SMALL = st.integers(-1, 3)
HEADS = st.lists(st.fixed_dictionaries({
    BatchField.LEADER_EPOCH: st.sampled_from([0, 0, 0, 1]), BatchField.BASE_OFFSET: SMALL,
    BatchField.LAST_OFFSET: SMALL | st.just(LONG_MAX),
    BatchField.PRODUCER_ID: st.sampled_from([-1, 0, 0, 5]), BatchField.PRODUCER_EPOCH: st.sampled_from([0, 0, 1]),
    BatchField.ATTRIBUTES: st.sampled_from([0, 0, 0, 1, 8, 16, 32, 48, 64]),
}), min_size=1, max_size=7)  # fmt: skip


@given(HEADS, SPAN, SMALL)
@examples(400)
def test_a_turn_is_another_epoch_or_an_offset_that_does_not_grow(rows, span, before):
    span = span or (0, len(rows))

    def turns(at):
        end = before if at == span[0] else rows[at - 1][BatchField.LAST_OFFSET]
        first_offset, last_offset = rows[at][BatchField.BASE_OFFSET], rows[at][BatchField.LAST_OFFSET]
        ends_badly = last_offset < first_offset or last_offset == LONG_MAX
        return rows[at][BatchField.LEADER_EPOCH] != 0 or first_offset <= end or ends_badly

    assert kernel.next_epoch_break(columns_of(BatchColumns(len(rows)), rows), *span, 0, before) == first(span, len(rows), turns)


@given(HEADS, SPAN)
@examples(400)
def test_batches_that_a_producers_state_needs(rows, span):
    span = span or (0, len(rows))

    def named(at):
        return [rows[at][field] for field in (BatchField.PRODUCER_ID, BatchField.PRODUCER_EPOCH)]

    def special(at):
        return rows[at][BatchField.ATTRIBUTES] & (TRANSACTIONAL_FLAG | CONTROL_FLAG) != 0

    def needed(at):
        is_last = at + 1 == span[1] or named(at + 1) != named(at) or special(at + 1)
        return named(at)[0] >= 0 and (special(at) or is_last)

    assert kernel.next_for_producer_state(columns_of(BatchColumns(len(rows)), rows), *span) == first(span, len(rows), needed)


def test_arguments_outside_their_buffers_are_refused():
    table, _, _ = columns([], 0)
    doubtful, state = Table(DOUBT_FIELDS, 1).table, memoryview(array("q", [0] * 5))
    empty = memoryview(b"")
    for row, last, short in ((-1, 1, state), (0, 2, state), (0, 1, memoryview(array("q", [0])))):
        assert kernel.check_offset_entries(kernel.Entries(empty, 0), table, row, last, 0, short, doubtful, 0)[2] == Status.BAD_START
        assert kernel.check_time_entries(kernel.Entries(empty, 0), table, row, last, short, doubtful, 0)[2] == Status.BAD_START
    assert kernel.next_epoch_break(table, -1, 1, 0, 0) == 1
    assert kernel.next_hole(table, 0, 2, 0) == 2


@given(HEADS, st.integers(-1, 9))
@examples(100)
def test_the_largest_last_offset(rows, count):
    wanted = max((row[BatchField.LAST_OFFSET] for row in rows[: max(count, 0)]), default=LONG_MIN)
    found = kernel.largest_last_offset(columns_of(BatchColumns(len(rows)), rows), count)
    assert found == (wanted if count <= len(rows) else LONG_MIN)

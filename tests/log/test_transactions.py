"""Transactions that ended: the answer is that of keeping all of them, and little is kept."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.log.producers.table import EndedTransactions

offsets = st.integers(0, 30)
steps = st.lists(st.one_of(st.tuples(offsets, st.integers(0, 5)), offsets), max_size=40)


@given(steps)
def test_the_oldest_that_ended_late_enough(log):
    ended, all_of_them = EndedTransactions(), []
    for step in log:
        if isinstance(step, int):
            ended.remove_ended_below(step)
            all_of_them = [(first, last) for first, last in all_of_them if last >= step]
        else:
            first, size = step
            ended.put(first, first + size)
            all_of_them.append((first, first + size))
        assert ended.first_offset == min((first for first, _ in all_of_them), default=None)
        assert bool(len(ended)) == bool(all_of_them)


def test_those_that_began_later_and_ended_before_are_not_kept():
    ended = EndedTransactions()
    for number in range(1, 100_000):
        ended.put(number, number + 1)
    assert len(ended) == 99_999  # one behind the other: each may be the answer
    ended.put(0, 200_000)
    assert len(ended) == 1
    ended.put(7, 150_000)
    assert len(ended) == 1
    assert ended.first_offset == 0

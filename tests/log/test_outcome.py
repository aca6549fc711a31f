"""What append remembers of its input: sums, and runs of offsets until somebody was told of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.log.append.frames import Appended, Outcome


def outcome_of(*batches):
    outcome = Outcome()
    for one in batches:
        outcome.append(one)
    return outcome


def test_batches_one_behind_the_other_are_one_run():
    outcome = outcome_of(*(Appended(at, at) for at in range(10_000)))
    assert len(outcome._waiting) == 1
    assert not outcome.is_full
    assert outcome.take(7) == [Appended(0, 6)]
    assert (outcome.amount, outcome.taken, outcome.is_waiting) == (10_000, 7, True)
    assert outcome.take(10_000) == [Appended(7, 9999)]
    assert (outcome.taken, outcome.is_waiting, outcome.last) == (10_000, False, Appended(9999, 9999))


def test_a_duplicate_and_a_gap_end_a_run():
    batches = [Appended(0, 3), Appended(0, 3, is_duplicate=True), Appended(0, 3, is_duplicate=True), Appended(4, 5), Appended(9, 9)]
    outcome = outcome_of(*batches)
    assert outcome.take(0) == []
    assert outcome.take(6) == batches[:4]
    assert outcome.take(10) == batches[4:]
    assert outcome.amount == outcome.taken == 15


def test_what_comes_behind_something_not_on_the_disk_waits():
    batches = [Appended(0, 3), Appended(8, 9), Appended(0, 3, is_duplicate=True)]
    outcome = outcome_of(*batches)
    assert outcome.take(8) == batches[:1]
    assert outcome.take(10) == batches[1:]


def test_what_is_cut_off_is_counted_and_the_first_is_known():
    outcome = outcome_of(Appended(0, 0), Appended(1, 1, cut_off="here"), Appended(2, 2, cut_off="there"), Appended(3, 3))
    assert (outcome.cut_off, outcome.first_cut_off) == (2, Appended(1, 1, cut_off="here"))
    assert [(one.first_offset, one.last_offset) for one in outcome.take(4)] == [(0, 3)]


def test_many_runs_ask_for_a_flush():
    outcome = outcome_of(*(Appended(2 * at, 2 * at) for at in range(4096)))
    assert not outcome.is_full
    outcome.append(Appended(10_000, 10_000))
    assert outcome.is_full


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5), st.booleans()), max_size=30), st.data())
def test_what_is_told_is_what_was_appended(steps, data):
    """In the same order, whatever was on the disk when somebody asked: every run ends where a batch ends."""
    outcome, batches, ends, told = Outcome(), [], [0], []
    for gap, size, is_duplicate in steps:
        first = ends[-1] + gap
        ends.append(first + size)
        batches.append(Appended(first, first + size - 1))
        if is_duplicate:
            batches.append(Appended(0, 0, is_duplicate=True))
        for one in batches[-1 - is_duplicate :]:
            outcome.append(one)
        told += outcome.take(data.draw(st.sampled_from(ends)))
    told += outcome.take(ends[-1])

    def offsets(some):
        return [(at, one.is_duplicate) for one in some for at in range(one.first_offset, one.last_offset + 1)]

    assert offsets(told) == offsets(batches)
    assert outcome.taken == outcome.amount == len(offsets(batches))

"""How much of a compaction is done: never back, never beyond its end, however many rounds there are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.log.cleaner.headway import Headway


@given(st.lists(st.tuples(st.integers(0, 100), st.lists(st.integers(0, 60)), st.integers(0, 200), st.lists(st.integers(0, 60))), max_size=8))
def test_whatever_is_read_it_stays_within_its_bounds(rounds):
    told = [0.0]
    headway = Headway(told.append)
    for dirty, mapped, whole, filtered in rounds:
        headway.begin_round(dirty)
        for size in mapped:
            headway.mapped(size)
        headway.begin_filtering(whole)
        for size in filtered:
            headway.filtered(size)
    assert all(0 <= share <= 1 for share in told)
    assert told == sorted(told)


def test_a_round_gets_of_the_rest_what_its_keys_have_of_the_dirty_bytes():
    told = []
    headway = Headway(told.append)
    for dirty, mapped, whole in ((100, 25, 25), (75, 25, 40), (50, 50, 90)):
        headway.begin_round(dirty)
        headway.mapped(mapped)
        headway.begin_filtering(whole)
        headway.filtered(whole)
    assert told == pytest.approx([0.125, 0.25, 0.375, 0.5, 0.75, 1])

"""Batches by offset: the same answers as a walk for each question, in a fraction of the steps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.dump import index_files
from engine.dump.batch_heads import BatchHeads
from engine.dump.index_files import OffsetSearch
from engine.record.builder import NewRecord, build_batch
from tests.support.small_logs import opened


def log_of(offsets):
    """A batch for each, all of one size."""
    return b"".join(build_batch([NewRecord(offset, 17, b"k", b"v")]) for offset in offsets)


def walked(heads, position, offset):
    """By looking at every batch."""
    while not isinstance(found := heads.at(position), str):
        if found.last_offset >= offset:
            return found
        position += found.size
    return None


class Counting(BatchHeads):
    """Counts the heads that are looked at."""

    looked_at = 0

    def at(self, position, limit=None):
        self.looked_at += 1
        return super().at(position, limit)


@given(
    st.lists(st.integers(0, 40), max_size=60), st.lists(st.tuples(st.integers(0, 4000), st.integers(-2, 42)), max_size=30),
    st.integers(0, 3), st.integers(6, 9), st.sampled_from([2, 100_000]), st.binary(max_size=40),
)  # fmt: skip
def test_every_question_has_the_answer_of_a_walk(offsets, questions, near, bits, kept, rest):
    """Offsets in any order, positions in the middle of batches and behind the end, zeros and rubbish behind the last batch."""
    heads = BatchHeads(opened(log_of(offsets) + rest))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("_NEAR", near), ("_SMALLEST_BLOCK", bits), ("_FANOUT", 1), ("_SUMMARIES_KEPT", kept)):
            patch.setattr(index_files, name, value)
        search = OffsetSearch(heads)
        size = len(log_of([0]))
        for position, offset in questions:
            at = position if position % 3 else position // size * size
            assert search.first(at, offset) == walked(heads, at, offset)


@pytest.mark.parametrize("offsets", [[0] * 1500, list(range(1500)), [10**6, *[0] * 1499], list(range(1500, 0, -1))])
@pytest.mark.parametrize("start", ["front", "everywhere"])
def test_no_part_of_a_log_is_walked_for_every_question(offsets, start):
    data = log_of(offsets)
    size = len(data) // len(offsets)
    heads = Counting(opened(data))
    search = OffsetSearch(heads)
    for number in range(1500):
        search.first(0 if start == "front" else number % 700 * size, number * 7919 % 1600)
    assert heads.looked_at < 1500 + 1500 * 100, "some near each question; 1500 for each would be 2,250,000"


def test_growing_offsets_take_one_walk_in_total():
    data = log_of([0] * 3000)
    heads = Counting(opened(data))
    search = OffsetSearch(heads)
    assert [search.first(0, offset) for offset in range(1, 2000)] == [None] * 1999
    assert heads.looked_at < 3200


def test_honest_questions_look_at_few_batches():
    data = log_of(range(3000))
    heads = Counting(opened(data))
    search = OffsetSearch(heads)
    size = len(data) // 3000
    places = [(number * size, number + 40) for number in range(0, 2900, 40)]
    assert all(search.first(position, offset).last_offset == offset for position, offset in places)
    assert heads.looked_at == 41 * len(places)

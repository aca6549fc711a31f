"""How much of a compaction is done: never back, never beyond its end, and the time left that of the work that is left."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.log.cleaner.headway import Headway, Part

KIB = 1 << 10
SIZES = st.lists(st.integers(0, 60))


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100), SIZES, st.integers(0, 200), st.integers(0, 120), SIZES), max_size=8),
    st.integers(1, 50), st.none() | st.integers(1, 8), st.integers(0, 70),
)  # fmt: skip
def test_whatever_is_read_it_stays_within_its_bounds(rounds, capacity, most, keys):
    reported = [0.0]
    headway = Headway(reported.append, capacity, most)
    for clean, dirty, mapped, whole, left, filtered in rounds:
        headway.begin_round(Part(clean, dirty, 1 + dirty // 40))
        for number, size in enumerate(mapped):
            headway.mapped(size, min(keys, number), number)
        headway.begin_filtering(whole, left)
        for size in filtered:
            headway.filtered(size)
        headway.end_round()
    assert all(0 <= share <= 1 for share in reported)
    assert reported == sorted(reported)


class Log:
    """Records of one byte in segments that never end in the middle of a map; what is read is reported as a cleaner tells it.

    keys  of the records in their order        capacity  keys that the map holds
    """

    def __init__(self, keys, capacity, *, clean=(), rounds=None, window=50):
        self.dirty, self.capacity, self.rounds, self.window = list(keys), capacity, rounds, window
        self.clean = list(clean)
        self.read = 0
        self.reported = []  # (bytes read, share)

    def compact(self):
        headway = Headway(lambda share: self.reported.append((self.read, share)), self.capacity, self.rounds)
        done = 0
        while self.dirty and done != self.rounds:
            headway.begin_round(Part(len(self.clean), len(self.dirty), len(self.dirty)))
            mapped = self.map(headway)
            whole = len(self.clean) + mapped
            headway.begin_filtering(whole, len(self.dirty) - mapped)
            self.pieces(whole, headway.filtered)
            self.clean = list(dict.fromkeys(reversed(self.clean + self.dirty[:mapped])))[::-1]
            del self.dirty[:mapped]
            headway.end_round()
            done += 1
        return self

    def map(self, headway):
        """Returns how many records the map takes."""
        seen, last = set(), 0
        for number, key in enumerate(self.dirty):
            if len(seen) == self.capacity and key not in seen:
                self.read += number - last  # the window in which the map was full is reported with the second pass
                return number
            seen.add(key)
            if number + 1 == last + self.window:
                self.read += self.window
                last = number + 1
                headway.mapped(self.window, len(seen), number + 1)
        self.read += len(self.dirty) - last
        headway.mapped(len(self.dirty) - last, len(seen), len(self.dirty))
        return len(self.dirty)

    def pieces(self, whole, tell):
        for at in range(0, whole, self.window):
            size = min(self.window, whole - at)
            self.read += size
            tell(size)

    def left(self, at):
        """When `at` of all was read: how much was left, by the pace of the share just then / how much it was in truth."""
        total = self.read
        near = [(read, share) for read, share in self.reported if abs(read - at * total) <= total / 50]
        (first, low), (last, high) = near[0], near[-1]
        return (1 - high) / (high - low) * (last - first) / (total - last)


def test_each_byte_takes_its_share_where_one_round_does():
    log = Log(range(1000), capacity=1000, clean=range(-500, 0)).compact()
    assert log.reported[-1] == (log.read, 1)
    assert [share for _, share in log.reported] == pytest.approx([read / log.read for read, _ in log.reported])


def test_more_than_half_of_a_broken_map_is_not_the_end():
    """A hundred rounds, each of which reads all that is clean by then: the first is less than a thousandth of the work."""
    log = Log(range(100 * KIB), capacity=KIB).compact()
    assert log.reported[-1] == (log.read, 1)
    first_round = max(share for read, share in log.reported if read <= 2 * KIB)
    assert first_round == pytest.approx(2 * KIB / log.read, rel=0.1)
    for at in (0.05, 0.2, 0.5, 0.9):
        assert log.left(at) == pytest.approx(1, rel=0.1)


@pytest.mark.parametrize("many", [3 * KIB, 20 * KIB])
def test_keys_that_come_again_make_rounds_that_grow_no_more(many):
    random = Random(7)
    log = Log((random.randrange(many) for _ in range(100 * KIB)), capacity=KIB).compact()
    assert log.reported[-1] == (log.read, 1)
    for at in (0.05, 0.2, 0.5, 0.9):
        assert log.left(at) == pytest.approx(1, rel=0.35)


def test_what_is_clean_already_is_read_in_every_round():
    log = Log(range(10 * KIB), capacity=KIB, clean=range(-100 * KIB, 0)).compact()
    for at in (0.02, 0.2, 0.5, 0.9):
        assert log.left(at) == pytest.approx(1, rel=0.1)


def test_rounds_that_are_not_done_are_not_waited_for():
    log = Log(range(100 * KIB), capacity=KIB, rounds=3).compact()
    assert log.reported[-1] == (log.read, 1)
    assert log.left(0.5) == pytest.approx(1, rel=0.1)


def test_what_is_looked_through_for_damage_counts():
    reported = []
    headway = Headway(reported.append, 1000)
    headway.begin_round(Part(100, 100, 1))
    headway.mapped(100, 10, 100)
    headway.begin_filtering(200, 0)
    before = reported[-1]
    headway.checked_ahead(50, 50)
    headway.checked_ahead(50, 0)
    headway.filtered(200)
    assert reported[-3:] == pytest.approx([before + (1 - before) / 6, before + (1 - before) / 3, 1])


def test_a_round_that_was_given_up_is_begun_again():
    reported = []
    headway = Headway(reported.append, 1000)
    headway.begin_round(Part(0, 100, 1))
    headway.mapped(100, 10, 100)
    headway.begin_filtering(100, 0)
    headway.filtered(40)  # a segment must be split
    headway.begin_round(Part(0, 100, 2))
    headway.mapped(100, 10, 100)
    headway.begin_filtering(100, 0)
    headway.filtered(100)
    assert reported == sorted(reported)
    assert reported[-1] == 1

"""LogSegments: which segment holds or neighbours an offset."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from engine.log.segment.log_segments import LogSegments


@pytest.fixture
def segments():
    found = LogSegments()
    for base in (40, 10, 30, 20):
        assert found.add(SimpleNamespace(base_offset=base, size=base)) is None
    return found


def base(segment):
    return None if segment is None else segment.base_offset


def test_order_and_neighbours(segments):
    assert [base(segment) for segment in segments] == segments.base_offsets == [10, 20, 30, 40]
    assert (base(segments.last_segment), base(segments.active_segment)) == (40, 40)
    asked = (9, 10, 15, 40, 99)
    assert [base(segments.floor_segment(offset)) for offset in asked] == [None, 10, 10, 40, 40]
    assert [base(segments.lower_segment(offset)) for offset in asked] == [None, None, 10, 30, 40]
    assert [base(segments.higher_segment(offset)) for offset in asked] == [10, 20, 20, None, None]
    assert segments.size == 100


@pytest.mark.parametrize(("first", "end", "found"), [
    (0, 100, [10, 20, 30, 40]), (15, 30, [10, 20]), (20, 31, [20, 30]), (5, 10, []), (25, 25, []), (99, 200, [40]),
])  # fmt: skip
def test_ranges(segments, first, end, found):
    assert [base(segment) for segment in segments.values(first, end)] == found


def test_ranges_without_an_end_or_a_beginning(segments):
    assert [base(segment) for segment in segments.values()] == [10, 20, 30, 40]
    assert [base(segment) for segment in segments.values(25)] == [20, 30, 40]
    assert [base(segment) for segment in segments.values(None, 30)] == [10, 20]
    assert [base(segment) for segment in segments.non_active_segments_from(25)] == [20, 30]
    assert segments.non_active_segments_from(41) == []
    with pytest.raises(ValueError, match="from offset 9 to 8"):
        segments.values(9, 8)


def test_replacing_and_removing(segments):
    new = SimpleNamespace(base_offset=20, size=1)
    assert base(segments.add(new)) == 20
    assert segments.get(20) is new
    for segment in segments:
        segments.remove(segment.base_offset)  # iteration goes over a copy
    segments.remove(99)
    assert (len(segments), 20 in segments, segments.floor_segment(99)) == (0, False, None)
    segments.add(new)
    segments.clear()
    assert list(segments) == []

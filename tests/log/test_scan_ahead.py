"""Scans that are begun before they are asked for."""

from __future__ import annotations

import threading

from engine.log.loading.shared import ScanAhead


class Segment:
    """What ScanAhead needs of a segment; `by` are the threads that scanned it."""

    def __init__(self, base_offset):
        self.base_offset, self.size, self.by = base_offset, 100, []

    def scan(self):
        self.by.append(threading.current_thread())
        return self


def ahead(segment):
    """Was it scanned once, by another thread than the one that asked for it?"""
    return len(segment.by) == 1 and segment.by[0] is not threading.current_thread()


def test_what_is_expected_is_scanned_once_and_before_it_is_asked_for():
    scans, segments = ScanAhead(2), [Segment(base) for base in range(5)]
    scans.expect(segments)
    assert [scans.take(segment) for segment in segments] == segments
    assert all(map(ahead, segments))
    scans.close()


def test_segments_that_were_opened_anew_are_read_ahead_as_well():
    """After a split all segments are opened once more, and nobody asks for those of before."""
    scans, old, new = ScanAhead(2), [Segment(base) for base in range(5)], [Segment(base) for base in range(5)]
    scans.expect(old)
    scans.take(old[0])
    scans.expect(new)
    assert [scans.take(segment) for segment in new] == new
    assert all(map(ahead, new))
    scans.close()


def test_what_is_expected_once_more_is_not_scanned_again():
    scans, segments = ScanAhead(2), [Segment(base) for base in range(4)]
    scans.expect(segments)
    scans.expect(segments[:3])
    for segment in segments[:3]:
        scans.take(segment)
    assert all(map(ahead, segments[:3]))
    scans.close()


def test_with_one_job_nothing_is_begun():
    scans, segment = ScanAhead(1), Segment(0)
    scans.expect([segment])
    assert scans.take(segment) is segment
    assert segment.by == [threading.current_thread()]

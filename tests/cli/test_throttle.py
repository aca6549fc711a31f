"""--max-bytes-per-second: no more is read, whatever happened before."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kafkalog_cli.commands import compact


class Clock:
    """Time that passes while somebody sleeps."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(compact, "time", SimpleNamespace(monotonic=clock.monotonic, sleep=clock.sleep))
    return clock


def seconds(clock, throttle, count):
    begun = clock.now
    for _ in range(count):
        throttle(100)
    return clock.now - begun


def test_the_rate_is_held(clock):
    assert seconds(clock, compact.Throttle(1000), 100) == pytest.approx(10, abs=0.4)


def test_time_in_which_nothing_is_read_is_no_credit(clock):
    throttle = compact.Throttle(1000)
    clock.sleep(600)  # a log is opened, which reads it
    assert seconds(clock, throttle, 100) == pytest.approx(10, abs=0.4)
    clock.sleep(600)
    assert seconds(clock, throttle, 100) == pytest.approx(10, abs=0.4)


def test_without_a_rate_nobody_waits(clock):
    assert seconds(clock, compact.Throttle(None), 100) == 0

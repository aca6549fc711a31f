"""Retention beyond the cases of the corpus: explanations, and space that must be freed."""

from __future__ import annotations

import pytest

from engine.config.topic import LogConfig
from engine.files import Files
from engine.log.loading.loader import open_log
from engine.log.report import Action
from engine.log.retention.freeing import free, plan_freeing
from engine.log.retention.rules import delete_old_segments, explain_retention
from tests.support.cases import case_named, cases

RETAIN = cases(frozenset(("retain",)))
DAY = 86_400_000


def find(name):
    return case_named(RETAIN, name)


def opened(case, directory, **settings):
    config = LogConfig.of({**case.settings(), **{name.replace("_", "."): str(value) for name, value in settings.items()}})
    log = open_log(Files(), str(directory), config, now=case.data["now"], clean_shutdown=True)
    log.update_high_watermark(log.log_end_offset)
    return log


def explained(log):
    explain_retention(log)
    return [event.reason for event in log.report.find(Action.EXPLAINED)]


def test_a_future_timestamp_shields_what_follows(tmp_path):
    case = find("retain-future")
    log = opened(case, case.stage(tmp_path))
    assert delete_old_segments(log) == 0
    reasons = explained(log)
    assert len(reasons) == len(log.segments) == 2
    assert "is in the future" in reasons[0]
    assert "of the record at offset 0" in reasons[0]
    assert "at least as long as the segment before it" in reasons[1]
    goes = [reason.rpartition("deletable by time at ")[2] for reason in reasons]
    assert goes[0] == goes[1]  # the second is older, but waits for the first
    log.close()


def test_a_segment_goes_at_the_moment_that_was_told(tmp_path):
    case = find("retain-time")
    told = opened(case, case.stage(tmp_path / "told"), retention_ms=DAY)
    reasons = explained(told)
    moment = int(reasons[0].rpartition("(")[2].split()[0])
    told.close()
    for now, deleted in ((moment - 1, 0), (moment, 1)):
        log = opened(case, case.stage(tmp_path / str(now)), retention_ms=DAY)
        log.now = now
        assert delete_old_segments(log) == deleted
        log.close()


@pytest.mark.parametrize(("factor", "word"), [(1000, "microseconds"), (1_000_000, "nanoseconds")])
def test_timestamps_of_another_unit_are_recognised(factor, word, tmp_path):
    from engine.log.retention.rules import _unit

    now = 1_700_003_600_000
    assert word in _unit(now * factor, now)
    assert _unit(now + DAY, now) is None


def test_what_is_not_deleted_by_time_says_so(tmp_path):
    case = find("retain-time")
    directory = case.stage(tmp_path)
    log = opened(case, directory, cleanup_policy="compact")
    assert all("cleanup.policy is compact" in reason for reason in explained(log))
    log.update_high_watermark(0)
    log.report.events.clear()
    assert all("high watermark" in reason for reason in explained(log))
    log.close()


def test_space_is_freed_from_the_oldest_of_all_logs(tmp_path):
    old, young = find("retain-time"), find("retain-future")
    one, two = old.stage(tmp_path / "one"), young.stage(tmp_path / "two")
    (two / "00000000000000000000.log.deleted").write_bytes(bytes(50))
    plan = plan_freeing(Files(), [str(two), str(one)], 60)
    assert plan.leftovers == 50
    assert list(plan.end_offsets) == [str(one)]
    first = opened(old, one)
    size = first.size
    assert free(first, plan) == 1
    assert first.log_start_offset == plan.end_offsets[str(one)]
    assert first.size < size
    first.close()
    second = opened(young, two)
    assert free(second, plan) == 0
    second.close()


def test_the_active_segment_and_what_is_not_replicated_stay(tmp_path):
    case = find("retain-time")
    directory = case.stage(tmp_path)
    plan = plan_freeing(Files(), [str(directory)], 10**9)
    assert plan.size < 10**9
    log = opened(case, directory)
    bases = log.segments.base_offsets
    log.update_high_watermark(bases[1])
    assert free(log, plan) == 1
    assert log.segments.base_offsets == bases[1:]
    log.update_high_watermark(log.log_end_offset)
    assert free(log, plan) == len(bases) - 2
    assert log.segments.base_offsets == bases[-1:]
    log.close()

"""Every compaction of the corpus through the engine: the same bytes as the real cleaner left, or untouched where it failed."""

from __future__ import annotations

import pytest

from engine.config.topic import LogConfig
from engine.files import Files
from engine.log.cleaner.checkpoint import CleanerCheckpoint
from engine.log.cleaner.compaction import CompactionOptions, compact
from engine.log.cleaner.outcome import Uncleanable
from tests.support.cases import cases, differences
from tests.support.floors import saw_enough
from tests.support.live_keys import last_records, lost_keys
from tests.support.logs import open_log

CASES = cases(frozenset(("compact",)))


def carry_out(case, directory):
    """One round, as the case says; returns what was done."""
    data, files = case.data, Files()
    log = open_log(
        files, str(directory), LogConfig.of(case.settings()), now=data["now"], clean_shutdown=True,
        recovery_point=data.get("recoveryPoint", 0), log_start_offset=data.get("start", 0),
    )
    try:
        log.update_high_watermark(data.get("highWatermark", log.log_end_offset))
        checkpoint = CleanerCheckpoint(files, str(directory))
        options = CompactionOptions(
            first_dirty_offset=data.get("dirty", checkpoint.read()), force=not data.get("respectRatio"), rounds=1,
            dedupe_buffer_size=data.get("mapBytes", 1 << 20), secret=(1, 2),
        )
        return compact(log, options, lambda _size: None, lambda offset: checkpoint.write(files, offset))
    finally:
        log.close(keep_deleted=bool(data.get("keepDeleted")))


@pytest.mark.parametrize("case", [case for case in CASES if not case.failed and not case.is_damaged], ids=lambda case: case.name)
def test_same_files_as_kafka(case, tmp_path):
    done = carry_out(case, case.stage(tmp_path))
    assert differences(case.expected, tmp_path) == []
    result = case.data["result"]
    assert done.target.offsets.first_dirty_offset == result["firstDirtyOffset"]
    assert done.target.offsets.first_uncleanable_dirty_offset == result["firstUncleanableDirtyOffset"]
    assert (done.target.clean_bytes, done.target.cleanable_bytes) == (result["cleanBytes"], result["cleanableBytes"])
    assert done.target.first_uncleanable_offset == result["firstUncleanableOffset"]
    assert done.target.max_compaction_delay_ms == result["maxCompactionDelay"]
    for stats in done.rounds:
        assert done.clean_until == result["endOffset"]
        assert stats.map_entries == result["stats"]["mapEntries"]
        assert stats.messages_written == result["stats"]["messagesWritten"]
        assert stats.map_messages_read == result["stats"]["mapMessagesRead"]


@pytest.mark.parametrize("case", [case for case in CASES if case.is_damaged], ids=lambda case: case.name)
def test_a_damaged_log_is_left_as_it_is(case, tmp_path):
    """Kafka's cleaner does not read what it need not, nor checksums; where it comes through, ours refuses or does the same."""
    directory = case.stage(tmp_path)
    before = logs_in(directory)
    try:
        carry_out(case, directory)
    except Uncleanable:
        assert logs_in(directory) == before
    else:
        assert not case.failed
        assert differences(case.expected, tmp_path) == []
    assert_nothing_is_left_over(directory)


@pytest.mark.parametrize("case", [case for case in CASES if case.failed and not case.is_damaged], ids=lambda case: case.name)
def test_a_sound_log_is_done_where_kafka_failed(case, tmp_path):
    """A sound set of an old format that Kafka cannot make empty goes as a whole."""
    directory = case.stage(tmp_path)
    before = logs_in(directory)
    done = carry_out(case, directory)
    after = logs_in(directory)
    assert done.clean_until == case.data["result"]["firstUncleanableOffset"]
    assert lost_keys(before, after) == []
    last = last_records(before)
    gone = last.keys() - last_records(after).keys()
    assert all(last[key].value is None for key in gone)
    [stats] = done.rounds
    assert stats.tombstones_removed >= len(gone) > 0
    assert sum(map(len, after.values())) < sum(map(len, before.values()))
    assert_nothing_is_left_over(directory)


def test_there_are_logs_of_each_kind():
    saw_enough("damaged logs to compact", sum(case.is_damaged for case in CASES), 2)
    saw_enough("sound logs that Kafka's cleaner fails on", sum(bool(case.failed) and not case.is_damaged for case in CASES))


def logs_in(directory):
    return {path.name: path.read_bytes() for path in directory.glob("*.log")}


def assert_nothing_is_left_over(directory):
    assert not [path for path in directory.iterdir() if path.name.endswith((".cleaned", ".swap"))]

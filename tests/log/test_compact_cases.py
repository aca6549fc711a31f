"""Every compaction of the corpus through the engine: the same bytes as the real cleaner left, or untouched where it failed."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from engine.config import LogConfig
from engine.files import Files
from engine.kernels import BUILD
from engine.log.cleaner.checkpoint import CleanerCheckpoint
from engine.log.cleaner.compaction import CompactionOptions, compact
from engine.log.cleaner.uncleanable import Uncleanable
from engine.log.loading.loader import open_log
from tests.support.cases import cases, differences
from tests.support.live_keys import last_records, lost_keys

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


@pytest.mark.parametrize("case", [case for case in CASES if not case.failed], ids=lambda case: case.name)
def test_same_files_as_kafka(case, tmp_path):
    done = carry_out(case, case.stage(tmp_path))
    assert differences(case.expected, tmp_path, inflated=BUILD == "interpreted") == []
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


@pytest.mark.parametrize("case", [case for case in CASES if case.failed], ids=lambda case: case.name)
def test_untouched_or_done_where_kafka_failed(case, tmp_path):
    """A damaged batch is refused; a set that Kafka can not make empty goes as a whole."""
    directory = case.stage(tmp_path)
    before = {path.name: path.read_bytes() for path in directory.glob("*.log")}
    is_damaged = case.name != "compact-v1-last-tombstone"
    with pytest.raises(Uncleanable) if is_damaged else nullcontext():
        done = carry_out(case, directory)
    after = {path.name: path.read_bytes() for path in directory.glob("*.log")}
    if is_damaged:
        assert after == before
    else:
        [stats], result = done.rounds, case.data["result"]
        assert done.clean_until == result["firstUncleanableOffset"]
        assert (stats.messages_read, stats.messages_written, stats.tombstones_removed) == (10, 3, 1)
        assert lost_keys(before, after) == []
        assert last_records(before).keys() - last_records(after).keys() == {b"z0"}  # its tombstone has been there for long
        assert sum(map(len, after.values())) < sum(map(len, before.values()))
    assert not list(directory.glob("*.cleaned"))
    assert not list(directory.glob("*.swap"))

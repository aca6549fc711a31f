"""Every append case of the corpus through the engine: the same files, offsets and errors as the real engine's."""

from __future__ import annotations

import pytest

from engine.config.topic import LogConfig
from engine.files import Files
from tests.support.append_steps import answer, frames, producers
from tests.support.cases import cases, differences
from tests.support.logs import open_log

CASES = cases(frozenset(("append",)))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_same_files_answers_and_state_as_kafka(case, tmp_path):
    directory = case.stage(tmp_path)
    data, result = case.data, case.data["result"]
    found = frames(case.folder / data["input"])
    log = open_log(
        Files(), str(directory), LogConfig.of(case.settings()), now=data["now"], clean_shutdown=True,
        recovery_point=data.get("recoveryPoint", 0), log_start_offset=data.get("start", 0),
    )  # fmt: skip
    defaults = {"follower": bool(data.get("follower")), "leader_epoch": data.get("leaderEpoch", 0)}
    assert [answer(log, step, found, **defaults) for step in data["steps"]] == result["appends"]
    assert (log.log_start_offset, log.log_end_offset) == (result["logStartOffset"], result["logEndOffset"])
    assert (log.high_watermark, log.last_stable_offset) == (result["highWatermark"], result["lastStableOffset"])
    assert log.recovery_point == result["recoveryPoint"]
    assert [list(entry) for entry in log.leader_epoch_cache.entries] == result["epochs"]
    assert producers(log) == sorted(result["producers"], key=lambda one: one["producerId"])
    log.close()
    assert differences(case.expected, tmp_path) == []

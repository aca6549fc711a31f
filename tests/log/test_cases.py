"""Every case of the corpus through the engine: the same bytes as the real engine left, or a repair where it failed."""

from __future__ import annotations

import pytest

from engine.config.topic import LogConfig
from engine.files import Files
from engine.log.errors import OffsetOutOfRange
from engine.log.retention.rules import delete_old_segments
from tests.support.cases import cases, differences
from tests.support.logs import open_log

OPERATIONS = frozenset(("recover", "open", "retain", "roll", "truncate", "truncate-fully", "delete-records"))
CASES = cases(OPERATIONS)
OF_OFFSETS = ("truncate", "truncate-fully", "delete-records")  # they fail over an offset that is asked for, not over the files


def carry_out(case, directory, *, clean=None):
    """The operation of `case` on `directory`; returns the closed log."""
    data = case.data
    log = open_log(
        Files(), str(directory), LogConfig.of(case.settings()), now=data["now"],
        clean_shutdown=case.operation != "recover" if clean is None else clean,
        recovery_point=data.get("recoveryPoint", 0), log_start_offset=data.get("start", 0),
    )
    try:
        apply(case, log)
    finally:
        log.close(keep_deleted=bool(data.get("keepDeleted")))
    return log


def apply(case, log):
    data = case.data
    if case.operation in ("retain", "delete-records"):
        log.update_high_watermark(data.get("highWatermark", log.log_end_offset))
    match case.operation:
        case "retain":
            delete_old_segments(log)
        case "roll":
            log.roll(data.get("to", 0))
        case "truncate":
            log.truncate_to(data["to"])
        case "truncate-fully":
            log.truncate_fully_and_start_at(data["at"])
        case "delete-records":
            log.maybe_increment_log_start_offset(data["beforeOffset"], "asked for")
            delete_old_segments(log)


@pytest.mark.parametrize("case", [case for case in CASES if not case.failed], ids=lambda case: case.name)
def test_same_files_as_kafka(case, tmp_path):
    directory = case.stage(tmp_path)
    log = carry_out(case, directory)
    assert differences(case.expected, tmp_path) == []
    result = case.data["result"]
    assert (log.log_start_offset, log.log_end_offset) == (result["logStartOffset"], result["logEndOffset"])
    assert (log.recovery_point, log.high_watermark) == (result["recoveryPoint"], result["highWatermark"])
    assert log.last_stable_offset == result["lastStableOffset"]
    assert [list(entry) for entry in log.leader_epoch_cache.entries] == result["epochs"]


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.failed and case.operation not in OF_OFFSETS], ids=lambda case: case.name
)
def test_repaired_where_kafka_failed(case, tmp_path):
    directory = case.stage(tmp_path)
    log = carry_out(case, directory)
    assert log.report.worst.value != "info"
    after = {path.name: path.read_bytes() for path in directory.iterdir()}
    again = carry_out(case, directory, clean=True)
    assert (again.log_start_offset, again.log_end_offset) == (log.log_start_offset, log.log_end_offset)
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == after


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.failed and case.operation in OF_OFFSETS], ids=lambda case: case.name
)
def test_refused_without_a_change(case, tmp_path):
    directory = case.stage(tmp_path)
    with pytest.raises(OffsetOutOfRange):
        carry_out(case, directory)
    assert differences(case.expected, tmp_path) == []

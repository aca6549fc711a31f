"""A slice of the corpus through the commands: same files as the real engine left, exit status, text and JSON."""

from __future__ import annotations

import pytest

from tests.support.cases import case_named, cases, differences
from tests.support.json_output import reports_of
from tests.support.run import kafkalog

COMMANDS = {
    "recover": ["recover", "--no-quarantine"], "open": ["recover", "--no-quarantine", "--clean-start"],
    "retain": ["retain", "--clean-start"], "roll": ["roll", "--clean-start"], "truncate": ["truncate", "--no-quarantine", "--clean-start"],
    "truncate-fully": ["truncate", "--no-quarantine", "--fully", "--clean-start"],
    "delete-records": ["delete-records", "--no-quarantine", "--clean-start"],
}  # fmt: skip
OPTIONS = {
    "now": "--now", "recoveryPoint": "--recovery-point", "start": "--log-start-offset", "highWatermark": "--high-watermark",
    "to": "--to", "at": "--to", "beforeOffset": "--before",
}  # fmt: skip
CASES = cases(frozenset(COMMANDS))
SLICE = [case for number, case in enumerate(CASES) if number % 8 == 0 or case.data.get("keepDeleted") or case.failed]


def arguments(case) -> list[str]:
    words = [*COMMANDS[case.operation]]
    if case.data.get("keepDeleted"):
        words += ["--keep-deleted"]
    for name, value in case.settings().items():
        words += ["--config", f"{name}={value}"]
    for field, option in OPTIONS.items():
        if field in case.data:
            words += [option, str(case.data[field])]
    return words


@pytest.mark.parametrize("case", SLICE, ids=lambda case: case.name)
def test_command_leaves_the_same_files(case, tmp_path):
    directory = case.stage(tmp_path)
    done = kafkalog(*arguments(case), "--format", "json", str(directory))
    assert [line for line in done.err.splitlines() if not line.startswith("kept in quarantine: ")] == []
    report = reports_of(done.out)[-1]  # before it the log dir, where a small file of it was mended
    assert report["exit_status"] == done.status
    if case.failed:
        assert done.status in (1, 4)
        return
    assert differences(case.expected, tmp_path) == []
    assert done.status in (0, 1, 4)
    result = case.data["result"]
    assert (report["log_start_offset"], report["log_end_offset"]) == (result["logStartOffset"], result["logEndOffset"])


def find(name):
    return case_named(CASES, name)


def test_text_says_what_was_cut(tmp_path):
    case = find("recover-flip-middle-segment")
    directory = case.stage(tmp_path)
    done = kafkalog(*arguments(case), str(directory))
    assert done.status == 1
    lines = done.out.decode().splitlines()
    assert any("truncated" in line and "wrong checksum" in line for line in lines)
    assert any("removed" in line and "after the damage" in line for line in lines)
    assert any(line.endswith("repaired, with loss of records") for line in lines)


def test_a_setting_that_does_not_exist_is_wrong_usage(tmp_path):
    done = kafkalog("recover", "--config", "no.such=1", str(tmp_path))
    assert (done.status, list(tmp_path.iterdir())) == (2, [])

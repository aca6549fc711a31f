"""--format json of the commands that change logs: every object is what the schema says."""

from __future__ import annotations

import json
import shutil

import pytest

from engine.findings import Severity
from engine.log.report import Action
from tests.support.json_output import SCHEMA, all_objects, objects_of
from tests.support.run import kafkalog

NOW = "1700681300000"


@pytest.fixture
def log_dir(own_corpus, tmp_path):
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/unclean/d0", tmp_path / "data")
    log = tmp_path / "data/u-rolls-0/00000000000000000173.log"
    damaged = bytearray(log.read_bytes())
    damaged[4000:4010] = b"garbled..."
    log.write_bytes(damaged)
    return tmp_path / "data"


def objects(*words, statuses):
    done = kafkalog(*words, "--format", "json")
    assert done.status in statuses, (words, done.err)
    return objects_of(done.out), done.status


def test_every_command_prints_what_the_schema_says(log_dir, tmp_path):
    partition, saved, records = str(log_dir / "u-rolls-0"), str(tmp_path / "saved"), tmp_path / "records"
    records.write_text('{"key":"a","value":"b"}\n')
    (*dry, would_keep), status = objects("recover", "--dry-run", "--quarantine", saved, "--now", NOW, str(log_dir), statuses=(1,))
    *real, kept = objects("recover", "--quarantine", saved, "--now", NOW, str(log_dir), statuses=(1,))[0]
    assert would_keep == {**kept, "dry_run": True, "undo": None}
    assert (kept["type"], kept["path"], kept["undo"]) == ("kept", saved, f"kafkalog restore {saved}")
    assert [{**one, "dry_run": False} for one in dry] == real
    assert max(one["exit_status"] for one in real) == status
    assert {"truncated", "removed"} <= {event["action"] for one in real for event in one["events"]}
    *steps, total = objects("restore", saved, statuses=(0,))[0]
    assert total["steps"] == len(steps) > 0
    objects("recover", "--no-quarantine", "--salvage", "--now", NOW, str(log_dir), statuses=(1,))
    [appended, commit, report], _ = objects("append", "--now", NOW, "--input", str(records), "--producer-id", "7",
                                            "--transaction", "commit", partition, statuses=(0,))  # fmt: skip
    assert (appended["type"], commit["control_type"], report["log_end_offset"]) == ("appended", "COMMIT", 340)
    for words in (["roll"], ["retain", "--explain"], ["compact", "--force", "--config", "cleanup.policy=compact"],
                  ["truncate", "--to", "300"], ["delete-records", "--before", "100"]):  # fmt: skip
        [report, *kept], _ = objects(*words, "--now", NOW, partition, statuses=(0, 1))
        assert all(one["type"] == "kept" for one in kept)
        assert report["operation"] == words[0]


def test_what_could_not_be_done_is_an_object_too(log_dir, tmp_path):
    partition, saved, nothing = str(log_dir / "u-rolls-0"), str(tmp_path / "saved"), str(tmp_path / "nothing")
    kafkalog("recover", "--quarantine", saved, "--now", NOW, str(log_dir))
    with (log_dir / "u-rolls-0/00000000000000000173.log").open("ab") as file:
        file.write(b"of later")
    for words, code, status in (
        (["restore", saved], "changed-since", 8), (["restore", nothing], "unreadable-file", 8), (["recover", nothing], "unreadable-file", 8),
        (["append", "--input", nothing, partition], "unreadable-file", 8), (["append", "--sequence", "1", partition], "usage", 2),
    ):  # fmt: skip
        [told], _ = objects(*words, statuses=(status,))
        assert (told["type"], told["code"]) == ("error", code)


def test_the_same_objects_stand_in_a_document_and_on_lines(log_dir, tmp_path):
    saved = str(tmp_path / "saved")
    assert kafkalog("recover", "--format", "jsonl", "--quarantine", saved, "--now", NOW, str(log_dir)).status == 1
    for words in (["restore", "--dry-run", saved], ["restore", "--list", str(tmp_path)], ["retain", "--dry-run", "--now", NOW, str(log_dir)]):
        lines, document = (kafkalog(*words, "--format", form).out for form in ("jsonl", "json"))
        assert lines.count(b"\n") == len(all_objects(lines))
        assert json.loads(document) == {"schema": "kafkalog/1", "objects": all_objects(lines)}


def test_the_schema_knows_every_action_and_severity():
    event = SCHEMA["$defs"]["report"]["properties"]["events"]["items"]["properties"]
    assert event["action"]["enum"] == [action.value for action in Action]
    assert event["severity"]["enum"] == [severity.value for severity in Severity]

"""`remote repair-metadata --replace-undecodable`: records at which a broker's consumer of the metadata topic stops."""

from __future__ import annotations

import json
from base64 import b64encode

import pytest

from engine.files import Files
from engine.record.batch import read_batches
from engine.remote.metadata import RemoteSegment, records_of
from engine.remote.records import State, encode_record, key_of
from tests.remote.corpus import SETS, stores
from tests.remote.test_orphans import objects as files_in
from tests.remote.test_orphans import writable
from tests.support.json_output import objects_of
from tests.support.run import kafkalog

pytestmark = pytest.mark.skipif("resumed" not in SETS, reason="changes this set")
LOG = "d0/__remote_log_metadata-0"
JUNK = [b"line %d" % number for number in range(6)]  # as a console producer sends them


def batches(top):
    """Return (first offset, last offset, leader epoch, records) of every batch."""
    found = []
    for path in sorted((top / LOG).glob("*.log")):
        with Files().open(str(path)) as file:
            found += [(one.base_offset, one.last_offset, one.partition_leader_epoch, one.record_count) for one in read_batches(file, print)]
    return found


def objects(top):
    return {name: data for name, data in files_in(top).items() if not name.endswith(".lock")}


def listed(top):
    done = kafkalog("remote", "list", "--format", "jsonl", str(top / "d0"), str(top / "d1"))
    rows = objects_of(done.out)
    return [row for row in rows if row["type"] != "finding"], [row["offset"] for row in rows if row["type"] == "finding"]


def append(top, tmp_path, values):
    lines = (json.dumps({"value_b64": b64encode(value).decode()}) for value in values)
    (tmp_path / "input").write_text("".join(f"{line}\n" for line in lines))
    done = kafkalog("append", "--input", str(tmp_path / "input"), str(top / LOG))
    assert done.status == 0, done.err


def a_record(top):
    """Return a record of a new segment, of a partition whose records are in this log."""
    [known, *_] = [row for row in listed(top)[0] if row["type"] == "remote-partition" and row["metadata_partition"] == 0]
    segment = RemoteSegment(b"n" * 16, State.COPY_SEGMENT_STARTED, 5000, 5009, 7, 0, 1, 1, True, ((9, 5000),), None)
    started, _ = records_of(segment, known["topic"], key_of(known["topic_id"], known["partition"]))
    return encode_record(started)


@pytest.fixture
def poisoned(tmp_path):
    """Return a copy of a set with six lines of text in a log of the topic, and a record after them."""
    top = writable("resumed", tmp_path)
    record = a_record(top)
    append(top, tmp_path, JUNK)
    append(top, tmp_path, [record])
    return top


def replace(top, *words):
    return kafkalog("remote", "repair-metadata", "--replace-undecodable", *words, str(top / "d0"), str(top / "d1"))


def test_a_consumer_skips_the_replacement(poisoned, tmp_path):
    before, (rows, findings) = batches(poisoned), listed(poisoned)
    junk = before[-2]
    assert findings == list(range(junk[0], junk[1] + 1))
    assert (junk[3], before[-1][3]) == (6, 1)
    kept = objects(poisoned)
    assert replace(poisoned, "-n").status == 1
    assert objects(poisoned) == kept
    done = replace(poisoned, "--quarantine", str(tmp_path / "q"))
    assert (done.status, "no broker can decode its records" in done.out.decode()) == (1, True), done.err
    assert batches(poisoned) == [*before[:-2], (*junk[:3], 0), before[-1]]
    assert [row | {"exit_status": 0} for row in listed(poisoned)[0]] == [row | {"exit_status": 0} for row in rows]
    assert listed(poisoned)[1] == []
    assert kafkalog("verify", str(poisoned / LOG)).status == 0
    assert replace(poisoned).status == 0
    for quarantine in sorted(tmp_path.glob("q*")):
        assert kafkalog("restore", "--force", str(quarantine)).status in (0, 1)
    assert objects(poisoned) == kept


def test_at_the_log_end_the_last_record_is_appended_again(tmp_path):
    """A broker waits for the record before the log end. So a batch without records must not be the last one."""
    top = writable("resumed", tmp_path)
    rows, before = listed(top)[0], batches(top)
    append(top, tmp_path, JUNK)
    assert replace(top, "--no-quarantine").status == 1
    found = batches(top)
    assert found[: len(before)] == before
    assert [one[3] for one in found[len(before) :]] == [0, 1]
    again, findings = listed(top)
    assert findings == []
    assert [{**row, "refused": 0} for row in again] == [{**row, "refused": 0} for row in rows]
    assert replace(top, "--no-quarantine").status == 0
    assert batches(top) == found


def test_a_log_without_decodable_records_is_left_unchanged(tmp_path):
    top = writable("resumed", tmp_path)
    [*_, last] = batches(top)
    assert kafkalog("delete-records", "--before", str(last[1] + 1), "--no-quarantine", str(top / LOG)).status == 0
    append(top, tmp_path, JUNK)
    done = replace(top, "--no-quarantine")
    assert (done.status, f"kafkalog delete-records --before {last[1] + 7}" in done.err) == (4, True)


def test_batches_with_decodable_records_are_left_unchanged(tmp_path):
    top = writable("resumed", tmp_path)
    append(top, tmp_path, [JUNK[0], a_record(top)])  # one batch
    before = objects(top)
    done = replace(top, "--no-quarantine")
    assert (done.status, "a broker can decode 1 of 2 records" in done.err) == (4, True)
    assert {name: data for name, data in objects(top).items() if name.endswith((".log", "index"))} == {
        name: data for name, data in before.items() if name.endswith((".log", "index"))}  # fmt: skip


def test_nothing_is_appended_after_an_undecodable_record(poisoned):
    before = objects(poisoned)
    done = kafkalog("remote", "repair-metadata", "--store", stores("resumed"), str(poisoned / "d0"), str(poisoned / "d1"))
    assert (done.status, "--replace-undecodable" in done.err) == (2, True)
    assert objects(poisoned) == before

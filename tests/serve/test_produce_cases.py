"""Requests of nine clients, appended by `append --input-format produce-request`: the log is the one that the broker wrote."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.support.corpus import wire_corpus
from tests.support.run import kafkalog

PRODUCE = wire_corpus() / "produce"
CASES = {case["case"]: case for case in json.loads((PRODUCE / "cases.json").read_text())}
CONTROL = 0x20


def accepted_requests(case):
    """The requests of a session that the broker did not refuse, in the order of its answers."""
    folder = PRODUCE / case
    data = (folder / "frames.bin").read_bytes()
    lines = [one for one in map(json.loads, (folder / "frames.jsonl").read_text().splitlines()) if "n" in one]
    frames = {one["n"]: one for one in lines}
    answers = {one["request"]: one for one in lines if one["direction"] == "response"}
    wanted = [n for n, one in frames.items() if one["direction"] == "request" and one.get("api") in ("Produce", "EndTxn")]
    for number in sorted(wanted, key=lambda n: answers[n]["n"] if n in answers else n):
        body = json.dumps(answers.get(number, {}).get("body", {}))
        if '"errorCode": 0' in body or number not in answers:
            one = frames[number]
            yield data[one["at"] : one["at"] + one["size"]]


def without_clock(log):
    """The batches of a log. The broker's clock is in markers and in batches with append time: those bytes are left out."""
    data, at, found = log.read_bytes(), 0, []
    while at < len(data):
        end = at + 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        batch = bytearray(data[at:end])
        if int.from_bytes(batch[21:23], "big") & (CONTROL | 0x08):
            batch[17:21] = bytes(4)  # the checksum
            batch[27:43] = bytes(16)
            if batch[22] & CONTROL:
                del batch[-6:]  # the coordinator's epoch in the value
        found.append(bytes(batch))
        at = end
    return found


@pytest.mark.parametrize("case", CASES)
def test_the_same_bytes_are_on_the_disk(case, tmp_path):
    theirs = PRODUCE / case / f"{case}-0"
    ours = tmp_path / theirs.name
    ours.mkdir()
    shutil.copy(theirs / "partition.metadata", ours)
    (tmp_path / "requests").write_bytes(b"".join(accepted_requests(case)))
    settings = [word for name, value in CASES[case]["configs"].items() for word in ("--config", f"{name}={value}")]
    done = kafkalog("append", "--input", str(tmp_path / "requests"), "--input-format", "produce-request", *settings, str(ours))
    assert done.status == 0, done.err
    logs = sorted(path.name for path in theirs.glob("*.log"))
    found = [batch for path in sorted(ours.glob("*.log")) for batch in without_clock(path)]
    expected = [batch for name in logs for batch in without_clock(theirs / name)]
    assert len(found) == len(expected)
    if "gzip" in case and "topic-to" in case:
        found, expected = ([batch[:8] + batch[12:17] + batch[21:61] for batch in one] for one in (found, expected))
    assert found == expected

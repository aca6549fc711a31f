"""Kafka's own storage engine on what `kafkalog remote download` made: it answers as the broker with remote storage did."""

from __future__ import annotations

import json

import pytest

from tests.remote.corpus import log_dirs, stores, truth
from tests.support.run import kafkalog

pytestmark = pytest.mark.oracle
ISOLATIONS = {"read_uncommitted": "high_watermark", "read_committed": "read_committed"}


def test_the_engine_gives_the_bytes_that_the_broker_gave(kafka_engine, tmp_path):
    into = tmp_path / "whole"
    assert kafkalog("remote", "download", "--into", str(into), "--store", stores("clean"), *log_dirs("clean")).status == 0
    asked = {}
    for row in truth("clean", "fetches.jsonl"):
        if row["error"] == "NONE":
            asked.setdefault(f"{row['topic']}-{row['partition']}", []).append(row)
    checked = with_aborted = partitions = 0
    for name, rows in asked.items():
        if not (into / name).is_dir():
            continue
        before = {path.name: path.read_bytes() for path in (into / name).glob("*.log")}
        queries = tmp_path / "queries"
        queries.write_text("".join(json.dumps({
            "offset": row["offset"], "maxBytes": row["max_bytes"], "isolation": ISOLATIONS[row["isolation"]],
        }) + "\n" for row in rows))  # fmt: skip
        found = kafka_engine("fetch", str(into / name), "--queries", str(queries))
        assert "failed" not in found, (name, found)
        for row, answer in zip(rows, found["answers"], strict=True):
            assert (answer.get("size"), answer.get("sha256")) == (row["bytes"], row["sha256"]), (row, answer)
            checked += 1
            if row.get("aborted"):
                pairs = {(one["producerId"], one["firstOffset"]) for one in answer["abortedTransactions"]}
                assert pairs == set(map(tuple, row["aborted"])), row
                with_aborted += 1
        assert {path.name: path.read_bytes() for path in (into / name).glob("*.log")} == before, name
        partitions += 1
    assert (partitions > 15, checked > 300, with_aborted > 0) == (True, True, True), (partitions, checked, with_aborted)

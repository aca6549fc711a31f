"""A damaged tree: what cannot be read fails the query in one sentence, or is left out, counted and reported. Without a session."""

from __future__ import annotations

import json
import logging
import re
import shutil

import pytest

from kafkalog_spark.errors import LogDirError
from kafkalog_spark.jobs.verify import check_split, splits_of
from kafkalog_spark.table.columns import LEVELS, level_schema
from kafkalog_spark.table.following import first_offsets, last_offsets, plan_between
from kafkalog_spark.table.levels import plan_level, read_level
from kafkalog_spark.table.options import Bounds, read_options
from tests.support.permissions import without_permission

GOING_ON = [{"onCorruption": "skip"}, {"onCorruption": "report"}, {"failOnDataLoss": "false"}]


@pytest.fixture
def tree(own_corpus, tmp_path):
    """Two log dirs of a broker below `tree`."""
    for name in ("d0", "d1"):
        shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean" / name, tmp_path / "tree/broker" / name)
    return tmp_path / "tree"


def rows(*paths, level="records", **options):
    asked = read_options({"paths": json.dumps([str(path) for path in paths]), "level": level, **options})
    schema = level_schema(level, [name for name in asked.columns if name not in ("timestamp", "maxTimestamp", "largestTimestamp", "modified")])
    return [row for split in plan_level(asked, Bounds()) for batch in read_level(split, schema, asked) for row in batch.to_pylist()]


def of(found):
    return {f"{row['topic']}-{row['partition']}" for row in found}


def refused(*paths, **options):
    with pytest.raises(LogDirError) as caught:
        rows(*paths, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("options", GOING_ON)
def test_partitions_that_can_not_be_read_are_left_out_and_counted(tree, options, caplog):
    """One without a log, one that may not be listed, one whose only log is a directory."""
    whole = rows(tree)
    gone, closed, odd = tree / "broker/d1/bulk-0", next(tree.glob("broker/*/multi-1")), next(tree.glob("broker/*/codec.lz4-0"))
    for path in gone.glob("*.log"):
        path.unlink()
    for path in odd.glob("*.log"):
        path.unlink()
        path.mkdir()
    with without_permission(closed):
        assert refused(tree).startswith("kafkalog: ")
        with caplog.at_level(logging.WARNING, logger="kafkalog"):
            found = rows(tree, **options)
    left = {"bulk-0", "multi-1", "codec.lz4-0"}
    assert found == [row for row in whole if f"{row['topic']}-{row['partition']}" not in left]
    for path in (gone, closed, odd):
        assert any(str(path) in message and message.endswith("left out") for message in caplog.messages), path
    assert re.search(r"3 of \d+ partitions are left out, because they cannot be read", caplog.text)


@pytest.mark.parametrize("options", GOING_ON)
@pytest.mark.parametrize("number", [0, 1, -1])
def test_of_a_partition_only_the_segment_that_can_not_be_opened_is_left_out(tree, options, number, caplog):
    [directory] = tree.glob("broker/*/small_segments-0")
    logs = sorted(directory.glob("*.log"))
    bases = [int(path.stem) for path in logs] + [10**9]
    at = range(len(logs))[number]
    whole = rows(directory)
    with without_permission(logs[number]):
        assert f"{logs[number]}: Permission denied" in refused(directory)
        with caplog.at_level(logging.WARNING, logger="kafkalog"):
            for more in ({}, {"splitBytes": "1k"}, {"kafka.isolation.level": "read_committed"}):
                assert rows(directory, **options, **more) == [row for row in whole if not bases[at] <= row["offset"] < bases[at + 1]]
    assert any(str(logs[number]) in message and message.endswith("left out") for message in caplog.messages)


@pytest.mark.parametrize("options", GOING_ON)
def test_an_index_that_can_not_be_opened_costs_no_record(tree, options):
    whole = rows(tree)
    [directory] = tree.glob("broker/*/small_segments-0")
    for index in directory.glob("*index"):
        index.unlink()
        index.mkdir()
    assert rows(tree, **options) == whole


@pytest.mark.parametrize("options", GOING_ON)
def test_log_dirs_that_can_not_be_read_are_left_out(tree, tmp_path, options, caplog):
    with_one = rows(tree / "broker/d0")
    with without_permission(tree / "broker/d1"):
        assert "Permission denied" in refused(tree)
        with caplog.at_level(logging.WARNING, logger="kafkalog"):
            assert rows(tree, **options) == rows(tree / "broker/*", **options) == with_one
            assert rows(tmp_path / "nowhere", tree, **options) == with_one
        assert f"{tree}/broker/d1: Permission denied: left out" in caplog.text
        assert f"{tmp_path}/nowhere: No such file" in caplog.text
        assert refused(tree / "broker/d1", **options) == f"kafkalog: {tree}/broker/d1: Permission denied"
        found = rows(tree, level="findings", **options)
    assert [(row["directory"], row["code"]) for row in found if row["code"] == "path-unreadable"] == [(f"{tree}/broker/d1", "path-unreadable")]


@pytest.mark.parametrize("level", [level for level in LEVELS if level not in ("records", "findings")])
@pytest.mark.parametrize("options", GOING_ON)
def test_other_levels_go_on_as_well(tree, options, level):
    whole = rows(tree, level=level)
    closed = next(tree.glob("broker/*/multi-1"))
    with without_permission(closed):
        refused(tree, level=level)
        assert rows(tree, level=level, **options) == [row for row in whole if (row["topic"], row["partition"]) != ("multi", 1)]


def test_findings_name_what_can_not_be_read(tree):
    closed = next(tree.glob("broker/*/multi-1"))
    asked = read_options({"path": str(tree)})
    with without_permission(closed):
        found = rows(tree, level="findings")
        by_job = [row for split in splits_of(asked) for batch in check_split(asked, split) for row in batch.to_pylist()]
    for one in (found, by_job):
        assert [(row["file"], row["what"]) for row in one if row["code"] == "path-unreadable"] == [(str(closed), "Permission denied")]


def test_a_stream_keeps_the_offset_of_a_partition_that_can_not_be_read_now(tree, caplog):
    """It is as one that is away: read on from there when it can be read again."""
    strict, lenient = (read_options({"path": str(tree), "startingOffsets": "earliest", **more}, streaming=True)
                       for more in ({}, {"failOnDataLoss": "false"}))  # fmt: skip
    closed, key = next(tree.glob("broker/*/multi-1")), ("multi", 1)
    start = first_offsets(lenient)
    ends = last_offsets(lenient, start)[0]
    with without_permission(closed), caplog.at_level(logging.WARNING, logger="kafkalog"):
        for work in (first_offsets, lambda options: last_offsets(options, start), lambda options: plan_between(options, start, ends)):
            with pytest.raises(LogDirError, match=f"^kafkalog: {closed}: Permission denied$"):
                work(strict)
        assert first_offsets(lenient) == {name: offset for name, offset in start.items() if name != key}
        assert last_offsets(lenient, start)[0] == {**ends, key: start[key]}
        assert key not in {(piece.topic, piece.partition) for split in plan_between(lenient, start, ends) for piece in split}
    assert f"{closed}: Permission denied: left out" in caplog.text
    assert last_offsets(lenient, start)[0] == ends

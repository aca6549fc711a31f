"""Tiered topics with their store are read whole: the rows that a consumer got from the broker. Without a session."""

from __future__ import annotations

import base64
import json
import logging

import pytest

from kafkalog_spark.errors import LogDirError, OptionError
from kafkalog_spark.table.columns import level_schema
from kafkalog_spark.table.levels import plan_level, read_level
from kafkalog_spark.table.options import Bounds, read_options
from tests.remote.corpus import SETS, TOP, brokers_log_dirs, consumed, damaged, log_dirs, private_keys, stores

pytestmark = pytest.mark.skipif("clean" not in SETS, reason="names topics of this set")
TYPES = {"CreateTime": 0, "LogAppendTime": 1, "NoTimestampType": -1}


def options_of(name, tmp_path, **more):
    keys = ",".join("=".join(item) for item in private_keys(tmp_path).items()) if name == "aiven" else ""
    given = {"paths": json.dumps(brokers_log_dirs(name)), "logDirs": ",".join(log_dirs(name)), "store": stores(name), **more}
    return read_options({**given, **({"storePrivateKeys": keys} if keys else {})})


def rows(options, bounds=None):
    schema = level_schema(options.level, options.columns)
    return [row for split in plan_level(options, bounds or Bounds()) for batch in read_level(split, schema, options) for row in batch.to_pylist()]


def shown(data):
    return None if data is None else base64.b64encode(data).decode()


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("name", [name for name in SETS if (TOP / name / "truth/consumed").is_dir()])
def test_rows_are_those_that_a_consumer_read(name, isolation, tmp_path):
    options = options_of(name, tmp_path, includeHeaders="true", **{"kafka.isolation.level": isolation})
    found = {}
    for row in rows(options):
        key, value = shown(row["key"]), shown(row["value"])
        headers = [[header["key"], shown(header["value"])] for header in row["headers"] or ()]
        moment = round(row["timestamp"].timestamp() * 1000)
        found.setdefault(f"{row['topic']}-{row['partition']}", []).append((row["offset"], moment, row["timestampType"], key, value, headers))
    compared = 0
    for partition, wanted in consumed(name, isolation):
        if wanted is None or partition.startswith("__"):
            continue
        for one, row in zip(found.get(partition, []), wanted, strict=True):
            names = ("offset", "timestamp", "timestampType", "key", "value", "headers")
            assert one == tuple(TYPES[row[name]] if name == "timestampType" else row[name] for name in names), partition
        compared += len(wanted)
    assert compared > 500


def counted(options, **more):
    found = {}
    for row in rows(options, **more):
        found.setdefault(f"{row['topic']}-{row['partition']}", []).append(row["offset"])
    return found


def test_offsets_and_times_select_remote_records(tmp_path):
    whole = counted(options_of("clean", tmp_path, columns="topic,partition,offset", subscribe="plain"))
    asked = {"columns": "topic,partition,offset", "assign": '{"plain":[0]}'}
    few = counted(options_of("clean", tmp_path, startingOffsets='{"plain":{"0":7}}', endingOffsets='{"plain":{"0":11}}', **asked))
    assert few == {"plain-0": [7, 8, 9, 10]}
    assert counted(options_of("clean", tmp_path, splitBytes="1k", minPartitions="5", **asked)) == {"plain-0": whole["plain-0"]}
    timed = rows(options_of("clean", tmp_path, columns="offset,timestamp", assign='{"plain":[0]}'))
    middle = round(timed[20]["timestamp"].timestamp() * 1000)
    late = options_of("clean", tmp_path, startingTimestamp=str(middle), columns="offset,timestamp", assign='{"plain":[0]}')
    first = next(row["offset"] for row in timed if round(row["timestamp"].timestamp() * 1000) >= middle)
    assert rows(late) == [row for row in timed if row["offset"] >= first]


def test_other_levels_have_the_remote_segments_too(tmp_path):
    def of(level):
        return rows(options_of("clean", tmp_path, level=level, subscribe="plain"))

    first = min(row["baseOffset"] for row in of("segments") if row["partition"] == 0)
    local = rows(read_options({"paths": json.dumps(brokers_log_dirs("clean")), "level": "segments", "subscribe": "plain"}))
    assert first < min(row["baseOffset"] for row in local if row["partition"] == 0)
    assert sum(row["recordCount"] for row in of("batches")) >= len(rows(options_of("clean", tmp_path, subscribe="plain")))
    assert [row for row in of("findings") if row["severity"] == "error"] == []


def test_a_broker_names_its_store(tmp_path):
    values = {
        "log.dirs": ",".join(log_dirs("clean")), "remote.log.storage.manager.impl.prefix": "rsm.config.", "rsm.config.dir": stores("clean"),
        "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
    }  # fmt: skip
    (tmp_path / "server.properties").write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    given = {"paths": json.dumps(brokers_log_dirs("clean")), "columns": "topic,partition,offset"}
    assert counted(read_options({**given, "configFile": str(tmp_path / "server.properties")})) == counted(options_of("clean", tmp_path, columns=given["columns"]))
    (tmp_path / "server.properties").write_text("log.dirs=/nowhere\n")
    assert read_options({**given, "configFile": str(tmp_path / "server.properties")}).store is None


@pytest.mark.parametrize("choice", ["fail", "skip", "report"])
def test_a_missing_object_is_a_matter_of_on_corruption(tmp_path, choice, caplog):
    top = damaged("missing-log", tmp_path / "top")
    [changed] = (TOP / "damaged/missing-log/changes.txt").read_text().splitlines()
    given = {"paths": json.dumps([str(top / "d0"), str(top / "d1")]), "store": str(top / "remote"), "columns": "topic,partition,offset"}
    asked = read_options({**given, "onCorruption": choice})
    missing = f"{top}/{changed.split(chr(9))[1]}"
    if choice == "fail":
        with pytest.raises(LogDirError, match=f"^kafkalog: .*{missing}: the object does not exist"):
            rows(asked)
        return
    with caplog.at_level(logging.WARNING, logger="kafkalog"):
        found = counted(asked)
    whole = counted(options_of("clean", tmp_path, columns=given["columns"]))
    assert {name: set(offsets) - set(found.get(name, ())) for name, offsets in whole.items() if offsets != found.get(name)}.keys() == {"plain-0"}
    assert missing in caplog.text


@pytest.mark.parametrize(("options", "what"), [
    ({"storeLayout": "x", "store": "/"}, "storeLayout is 'x', expected one of auto, local, aiven"), ({"storePrefix": "x"}, "storePrefix needs store"),
    ({"storePrivateKeys": "x", "store": "/"}, "storePrivateKeys: 'x' is not a key: write ID=FILE"),
    ({"configFile": "/nowhere/server.properties"}, "/nowhere/server.properties: No such file"), ({"logDirs": "hdfs://x/y"}, "hdfs://x/y: Hadoop's"),
])  # fmt: skip
def test_bad_options_are_one_sentence(options, what):
    with pytest.raises((OptionError, LogDirError), match=f"^kafkalog: {what}") as caught:
        read_options({"path": brokers_log_dirs("clean")[0], **options})
    assert "\n" not in str(caught.value)


def test_a_store_that_is_not_there_is_one_sentence(tmp_path):
    asked = read_options({"path": brokers_log_dirs("clean")[0], "store": str(tmp_path / "nowhere")})
    with pytest.raises(LogDirError, match=f"^kafkalog: {tmp_path}/nowhere: "):
        plan_level(asked, Bounds())


def test_tasks_of_a_later_minute_read_what_is_there_then(tmp_path, monkeypatch):
    """A data frame is used again: local segments were deleted since then, after they were copied."""
    from kafkalog_spark.table import partitions

    clock = [100.0]
    monkeypatch.setattr(partitions.time, "monotonic", lambda: clock[0])
    options = options_of("clean", tmp_path)
    first = partitions.paths_in_task(options)
    clock[0] += 59
    assert partitions.paths_in_task(options) is first
    assert partitions.paths_in_task(options_of("clean", tmp_path)) is not first
    again = partitions.paths_in_task(options)
    clock[0] += 61
    assert partitions.paths_in_task(options) is not again

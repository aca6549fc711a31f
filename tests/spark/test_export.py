"""What an export writes: the records that were asked for, and with a checkpoint each record once, wherever a run was stopped."""

from __future__ import annotations

import datetime as dt
import json
import re

import pytest
from click.testing import CliRunner

import kafkalog_spark
from engine.files import Files
from kafkalog_cli.main import cli
from kafkalog_spark.errors import DataLossError, LogDirError, OptionError
from kafkalog_spark.jobs import export as job
from kafkalog_spark.jobs.checkpoint import ExportCheckpoint
from kafkalog_spark.jobs.export import Export, export
from tests.support.permissions import without_permission
from tests.support.run import kafkalog
from tests.support.sink_runs import SinkRun, batch


def add(root, *numbers, topic="t", partition=0, codec="none"):
    """Append records to a partition, one an hour."""
    at = [dt.datetime.fromtimestamp(1_700_000_000 + 3600 * one, dt.UTC) for one in numbers]
    rows = batch(value=[b"%d" % one for one in numbers], timestamp=at, partition=[partition] * len(numbers))
    SinkRun(Files(), str(root), name=f"{topic}-{partition}-{numbers[0]}", topic=topic, keepTimestamps="true",
            kafka__compression__type=codec).write([rows])  # fmt: skip


def values(spark, path, kind="parquet"):
    return sorted(int(row.value) for row in spark.read.format(kind).load(str(path)).select("value").collect())


def command(*arguments):
    done = CliRunner().invoke(cli, ["spark", "export", *map(str, arguments)], standalone_mode=False)
    return done.return_value if done.exception is None else done.exception, done.stderr


@pytest.fixture
def logs(tmp_path):
    add(tmp_path / "logs", *range(40))
    add(tmp_path / "logs", *range(100, 130), topic="u", partition=1)
    return tmp_path / "logs"


def test_the_records_in_a_range_are_written_by_day_and_hour(spark, logs, tmp_path):
    """--time leaves out what --offset has, and the folders are of UTC, whatever the session's zone is."""
    begin = 1_700_000_000_000
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        status, said = command("--to", tmp_path / "out", "--table", "orc", "--topic", "t", "--offset", "5:30", "--time", f"{begin + 10 * 3_600_000}..{begin + 40 * 3_600_000}",
                               "--columns", "value,offset", "--partition-by", "hour", logs)  # fmt: skip
        assert status == 0
        assert re.search(r"^\d.* of batches read; \d+ batch(es)? skipped by filters$", said, re.MULTILINE)
        rows = spark.read.orc(str(tmp_path / "out")).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert sorted((int(row.value), row.offset) for row in rows) == [(one, one) for one in range(10, 30)]
    for row in rows:
        at = dt.datetime.fromtimestamp(1_700_000_000 + 3600 * row.offset, dt.UTC)
        assert (str(row.date), int(row.hour)) == (str(at.date()), at.hour)


def test_read_committed_leaves_out_what_was_aborted(spark, own_corpus, tmp_path):
    source = next((own_corpus / "kafka-4.3.1/logs/clean").glob("*/tx-0"))
    counts = {}
    for isolation in ("read_uncommitted", "read_committed"):
        assert command("--to", tmp_path / isolation, "--isolation", isolation, source)[0] == 0
        counts[isolation] = spark.read.parquet(str(tmp_path / isolation)).count()
        table = spark.read.format("kafkalog").option("kafka.isolation.level", isolation).load(str(source))
        assert counts[isolation] == table.count()
    assert counts["read_committed"] < counts["read_uncommitted"]


def test_files_have_about_the_size_that_was_asked_for(spark, logs, tmp_path):
    size = sum(path.stat().st_size for path in logs.glob("t-0/*.log"))
    export(spark, str(logs / "t-0"), to=str(tmp_path / "out"), target_file_size=size // 4, partition_by="")
    files = list((tmp_path / "out").glob("*.parquet"))
    assert 3 <= len(files) <= 6
    assert values(spark, tmp_path / "out") == list(range(40))


def test_decoded_columns_are_those_of_the_command_without_spark(spark, own_corpus, tmp_path):
    source = next((own_corpus / "kafka-4.3.1/logs/clean").glob("*/__consumer_offsets-*"))
    assert kafkalog("export", "--decode", "auto", "--as", "jsonl", "--to", str(tmp_path / "wanted"), str(source)).status == 0
    wanted = [json.loads(line) for line in (tmp_path / "wanted").read_text().splitlines()]
    assert command("--to", tmp_path / "out", "--decode", "auto", source)[0] == 0
    rows = spark.read.parquet(str(tmp_path / "out")).orderBy("offset").collect()
    found = [tuple(text and json.loads(text) for text in (row.decodedKey, row.decodedValue)) for row in rows]
    assert found == [(one["decodedKey"], one["decodedValue"]) for one in wanted]
    assert any(key for key, _ in found)


@pytest.mark.parametrize(("options", "said"), [
    ({"table": "csv"}, "table is 'csv'"), ({"partition_by": "day"}, "partition_by names 'day'"), ({"decode": "xml"}, "decode is 'xml'"),
    ({"checkpoint": "/x", "table": "delta"}, "a checkpoint is for"), ({"checkpoint": "/x", "mode": "overwrite"}, "a checkpoint excludes"),
    ({"checkpoint": "/x", "offsets": (0, 1)}, "a checkpoint excludes"),
])  # fmt: skip
def test_options_that_make_no_sense_are_one_sentence(options, said):
    with pytest.raises(OptionError, match=said):
        Export(**options)


def test_a_decoded_column_needs_to_be_decoded(logs, tmp_path):
    with pytest.raises(OptionError, match="the column decodedValue needs decode or schema"):
        export(None, str(logs), to=str(tmp_path / "out"), columns="value,decodedValue")


class Stopped(Exception):
    """The process ends here."""


@pytest.mark.parametrize("stop", ["before the write", "in the write", "after the write", "after the commit"])
def test_wherever_a_run_stops_no_record_is_lost_or_doubled(spark, logs, tmp_path, monkeypatch, stop):
    how = {"to": str(tmp_path / "out"), "checkpoint": str(tmp_path / "state")}
    export(spark, str(logs), **how)
    first = [*range(40), *range(100, 130)]
    assert values(spark, tmp_path / "out") == first
    add(logs, *range(40, 50))
    write, commit = job._write, ExportCheckpoint.commit

    def stopped_write(rows, to, *rest):
        if stop == "before the write":
            raise Stopped
        write(rows, to, *rest)
        if stop == "in the write":  # as Spark leaves it, when it is killed in the middle
            (tmp_path / "out/run=2/_SUCCESS").unlink()
            next((tmp_path / "out/run=2").rglob("*.parquet")).unlink()
            raise Stopped

    def stopped_commit(checkpoint):
        if stop == "after the commit":
            commit(checkpoint)
        raise Stopped

    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(job, "_write", stopped_write)
        patch.setattr(ExportCheckpoint, "commit", stopped_commit)
        export(spark, str(logs), **how)
    add(logs, *range(50, 55))  # what the log got meanwhile belongs to a later run
    export(spark, str(logs), **how)
    export(spark, str(logs), **how)
    assert values(spark, tmp_path / "out") == sorted([*first, *range(40, 55)])
    export(spark, str(logs), **how)  # nothing is new
    assert values(spark, tmp_path / "out") == sorted([*first, *range(40, 55)])


def test_records_that_were_deleted_before_they_were_exported_are_a_loss(spark, logs, tmp_path):
    how = {"to": str(tmp_path / "out"), "checkpoint": str(tmp_path / "state")}
    export(spark, str(logs), **how)
    for number in range(40, 44):
        add(logs, number)
    assert kafkalog("delete-records", "--topic", "t", "--partition", "0", "--before", "42", str(logs)).status in (0, 1)
    with pytest.raises(DataLossError, match="t-0 has offsets 42 to 43, and offset 40 is the next one to export"):
        export(spark, str(logs), **how)
    export(spark, str(logs), failOnDataLoss=False, **how)
    assert values(spark, tmp_path / "out") == sorted([*range(40), *range(100, 130), 42, 43])


def test_a_table_whose_checkpoint_is_lost_loses_no_run(spark, logs, tmp_path):
    """A new checkpoint would begin with run 1 again, and replace it."""
    export(spark, str(logs), to=str(tmp_path / "out"), checkpoint=str(tmp_path / "state"))
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    for _ in range(2):
        with pytest.raises(OptionError, match=r"run=1: exists, and the checkpoint does not know it"):
            export(spark, str(logs), to=str(tmp_path / "out"), checkpoint=str(tmp_path / "other"))
        with pytest.raises(Exception, match=r"ALREADY_EXISTS|already exists"):
            export(spark, str(logs), to=f"file:///{tmp_path}/out", checkpoint=str(tmp_path / "third"))
    assert {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()} == before


def test_a_checkpoint_belongs_to_one_table_and_one_run(spark, logs, tmp_path):
    from tests.support.other_process import lock_held

    export(spark, str(logs), to=str(tmp_path / "out"), checkpoint=str(tmp_path / "state"))
    with pytest.raises(OptionError, match="is the checkpoint of an export to"):
        export(spark, str(logs), to=str(tmp_path / "other"), checkpoint=str(tmp_path / "state"))
    with lock_held(tmp_path / "state/kafkalog-export.lock"), pytest.raises(OptionError, match="another export uses this checkpoint"):
        export(spark, str(logs), to=str(tmp_path / "out"), checkpoint=str(tmp_path / "state"))
    (tmp_path / "state/kafkalog-export.json").write_text("{")
    with pytest.raises(LogDirError, match="not JSON"):
        export(spark, str(logs), to=str(tmp_path / "out"), checkpoint=str(tmp_path / "state"))


def test_a_table_of_runs_comes_back(spark, logs, tmp_path):
    how = {"to": str(tmp_path / "out"), "checkpoint": str(tmp_path / "state")}
    export(spark, str(logs), **how)
    add(logs, *range(40, 45))
    export(spark, str(logs), **how)
    job.import_(spark, str(tmp_path / "out"), to=str(tmp_path / "back"))
    read = {place: spark.read.format("kafkalog").load(str(place)).select("topic", "partition", "offset", "value", "timestamp").collect()
            for place in (logs, tmp_path / "back")}  # fmt: skip
    assert sorted(read[logs]) == sorted(read[tmp_path / "back"])


@pytest.mark.parametrize("option", [{"onCorruption": "skip"}, {"failOnDataLoss": "false"}])
def test_what_cannot_be_read_now_does_not_count_as_exported(spark, logs, tmp_path, option):
    """Without a checkpoint it is left out. With one, the next run has it."""
    how = {"to": str(tmp_path / "out"), "checkpoint": str(tmp_path / "state")}
    partition = min(path for path in logs.rglob("*-*") if path.is_dir() and list(path.glob("*.log")))
    with without_permission(partition):
        with pytest.raises(LogDirError):
            export(spark, str(logs), **how, **option)
        export(spark, str(logs), to=str(tmp_path / "plain"), **option)
    export(spark, str(logs), **how, **option)
    left, whole = spark.read.parquet(str(tmp_path / "plain")), spark.read.parquet(str(tmp_path / "out"))
    assert left.count() < whole.count()
    assert whole.count() == kafkalog_spark.read(spark, str(logs)).count()

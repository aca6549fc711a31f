"""Jobs find what the engine finds, add up what is there, and say what went wrong in one line."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from contextlib import closing
from importlib.util import find_spec
from types import SimpleNamespace

import pyarrow as pa
import pytest
from click.testing import CliRunner

from engine.files import ReadOnlyFiles
from engine.log.fetch.reading import FetchIsolation
from engine.log.fetch.records import RecordFetcher
from engine.log.fetch.view import PartitionView
from engine.log.verify.partition import verify_partition
from kafkalog_cli.app import Outcome
from kafkalog_cli.commands.spark import stats as stats_command
from kafkalog_cli.commands.spark import verify as verify_command
from kafkalog_cli.main import cli
from kafkalog_cli.output import Lines, json_stream
from kafkalog_cli.spark_job import _sentence, rows_of, run_job
from kafkalog_cli.spark_session import Work
from kafkalog_spark.errors import CORRUPTION_ADVICE, DataLossError, LogDirError, OptionError
from kafkalog_spark.jobs.export import import_
from kafkalog_spark.jobs.upkeep import recover
from kafkalog_spark.tasks import run
from tests.support.json_output import objects_of
from tests.support.permissions import without_permission
from tests.support.run import kafkalog


def command(*arguments):
    """Within this process and its session → (exit status, stdout, stderr)."""
    done = CliRunner().invoke(cli, ["spark", *map(str, arguments)], standalone_mode=False)
    return done.return_value if done.exception is None else done.exception, done.stdout, done.stderr


@pytest.fixture
def brokers(own_corpus, tmp_path):
    """Two brokers' log dirs with the same three partitions; one copy is damaged, one has another story to tell."""
    top = own_corpus / "kafka-4.3.1/logs/clean"
    for broker in ("one", "two"):
        for name in ("bulk-0", "multi-1", "codec.lz4-0"):
            shutil.copytree(next(top.glob(f"*/{name}")), tmp_path / broker / name)
        (tmp_path / broker / "meta.properties").write_text(f"version=1\nnode.id={len(broker)}\ncluster.id=x\n")
    log = tmp_path / "two" / "bulk-0" / "00000000000000000000.log"
    data = bytearray(log.read_bytes())
    data[100] ^= 1
    log.write_bytes(data)
    epoch = tmp_path / "two" / "multi-1" / "00000000000000000000.log"
    data = bytearray(epoch.read_bytes())
    data[15] += 7  # outside the checksum
    epoch.write_bytes(data)
    return tmp_path


def test_verify_finds_what_the_engine_finds(spark, brokers):
    from kafkalog_spark.jobs.verify import verify

    rows = verify(spark, str(brokers), splitBytes="100k").collect()
    wanted = []
    for directory in sorted(brokers.glob("*/*-?")):
        verify_partition(ReadOnlyFiles(), str(directory), wanted.append)
    assert sorted((row.code, row.file, row.what) for row in rows if row.code != "replica-divergence") == sorted(
        (finding.code, finding.where.file, finding.what) for finding in wanted
    )
    [divergence] = [row for row in rows if row.code == "replica-divergence"]
    assert (divergence.topic, divergence.offset, divergence.directory) == ("multi", 0, str(brokers / "two" / "multi-1"))

    status, _, err = command("verify", brokers)
    assert status == 4
    assert re.search(r"^6 partitions: 4 sound, 2 with errors; [0-9.]+ [KM]iB in .*s$", err, re.MULTILINE), err
    status, out, err = command("verify", brokers, "--format", "jsonl")
    assert (status, err) == (4, "")
    assert sorted(one["code"] for one in objects_of(out)) == sorted(row.code for row in rows)


def test_a_partition_that_may_not_be_read_is_a_finding_among_the_others(own_corpus, tmp_path, monkeypatch):
    """Tasks run here, as somebody who may not enter one of three partitions."""
    from kafkalog_spark.jobs import verify as job

    for name in ("multi-0", "multi-1", "multi-2"):
        shutil.copytree(next(own_corpus.glob(f"kafka-4.3.1/logs/clean/*/{name}")), tmp_path / "logs" / name)
    (tmp_path / "logs" / "meta.properties").touch()
    (tmp_path / "logs" / "multi-2" / "00000000000000000099.log").symlink_to(tmp_path / "nowhere")
    monkeypatch.setattr(job, "run", lambda _spark, splits, _schema, work: [
        row for split in splits for batch in work(split) for row in batch.to_pylist()
    ])  # fmt: skip
    with without_permission(tmp_path / "logs" / "multi-1"):
        rows = job.verify(None, str(tmp_path))
    assert rows[0]["what"] == "Permission denied"  # of what, the column file says
    assert [(row["code"], row["directory"].rpartition("/")[2]) for row in rows] == [("path-unreadable", "multi-1"), ("path-unreadable", "multi-2")]
    monkeypatch.setattr(verify_command, "rows_of", lambda _frame: rows)
    monkeypatch.setattr(job, "verify", lambda *_, **__: None)
    assert verify_command.work(None, Outcome(), {"paths": (), "config": {}}) == 8


@pytest.fixture
def jobs_of_spark(spark):
    """How many jobs Spark was given since."""
    context = spark.sparkContext
    context.setJobGroup("counted", "")
    before = len(context.statusTracker().getJobIdsForGroup("counted"))
    yield lambda: len(context.statusTracker().getJobIdsForGroup("counted")) - before
    context.setLocalProperty("spark.jobGroup.id", None)


def test_tasks_run_side_by_side_on_all_cores(spark, jobs_of_spark, own_corpus, tmp_path, monkeypatch):
    """An iterator over what tasks do would be a job of Spark's for each, and no more than two of them at a time."""
    for name in ("multi-0", "multi-1", "multi-2"):
        shutil.copytree(next(own_corpus.glob(f"kafka-4.3.1/logs/clean/*/{name}")), tmp_path / name)
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    assert command("verify", "--split-bytes", "1", tmp_path)[:2] == (0, "")
    before = jobs_of_spark()
    events = recover(spark, str(tmp_path))
    assert jobs_of_spark() == before + 1  # for the tasks, before anybody asks for the table of events
    assert [row.action for row in events.collect()].count("recovered") == 3


def test_rows_come_one_by_one_though_tasks_work_once_and_side_by_side(spark, tmp_path):
    """An iterator of Spark's begins a task when the rows of the one before are read, and may do it again for each."""
    place = str(tmp_path)
    schema = pa.schema([("number", pa.int64())])

    def work(numbers):
        os.close(tempfile.mkstemp(dir=place)[0])
        until = time.monotonic() + 60
        while len(os.listdir(place)) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        if time.monotonic() < until:
            yield pa.record_batch({"number": pa.array(numbers * 3)}, schema)

    assert [row.number for row in rows_of(run(spark, [[0], [1]], schema, work))] == [0] * 3 + [1] * 3
    assert len(os.listdir(place)) == 2


def test_stats_add_up(spark, own_corpus):
    from kafkalog_spark.jobs.stats import stats

    top = own_corpus / "kafka-4.3.1/logs/clean"
    logs = {}
    for path in top.glob("*/*/*.log"):
        topic = path.parent.name.rpartition("-")[0]
        if path.parent.name.rpartition("-")[2].isdigit():
            logs[topic] = logs.get(topic, 0) + path.stat().st_size
    by_topic = {row.topic: row.bytes for row in stats(spark, str(top)).collect()}
    deleted = {name for name, size in logs.items() if by_topic.get(name, 0) != size}
    assert deleted <= {"records-deleted"}  # what lies before the log start offset is not read
    keys = stats(spark, str(next(top.glob("*/compacted-0"))), by="key", top=5).collect()
    assert len(keys) == 5
    assert [row.bytes for row in keys] == sorted((row.bytes for row in keys), reverse=True)
    assert all(0 <= row.shadowedBytes < row.bytes for row in keys)
    status, out, err = command("stats", "--by", "codec", "--topic", "codec.lz4", top)
    assert (status, err) == (0, "")  # no total of one partition
    assert out.splitlines()[1].split()[:2] == ["codec.lz4", "lz4"]


@pytest.mark.parametrize("form", ["text", "json"])
def test_stats_tell_times_that_pythons_do_not_reach(spark, tmp_path, form):
    """Of a producer that took microseconds for milliseconds; before that the command gave up at such a row."""
    times = [1_700_000_000_000_000, 1_700_000_000_012, 1_700_006_400_000, -62_200_000_000_000]
    rows = spark.createDataFrame([(time, b"v") for time in times], "ms bigint, value binary").coalesce(1)
    kept = rows.selectExpr("timestamp_millis(ms) timestamp", "value", "0 partition")
    kept.write.format("kafkalog").mode("append").options(topic="t", keepTimestamps=True).save(str(tmp_path))
    status, out, _ = command("stats", "--by", "hour", "--format", form, tmp_path)
    assert status == 0
    if form == "json":
        assert {one["hour"] for one in objects_of(out)} == {time - time % 3_600_000 for time in times}
    else:
        for hour in ("+55840-11-08 22:00:00", "2023-11-14 22:00:00", "2023-11-15 00:00:00", "-0002-12-17 14:00:00"):
            assert hour in out
    status, out, _ = command("stats", "--format", form, tmp_path)
    assert status == 0
    if form == "json":
        assert [one["last_timestamp"] for one in objects_of(out)] == [max(times)]
    else:
        assert "+55840-11-08 22:13:20" in out


def records_in(directory):
    with closing(PartitionView(ReadOnlyFiles(), str(directory), lambda _: None)) as view:
        return sum(1 for _ in RecordFetcher(view, view.log_start_offset, FetchIsolation.LOG_END, lambda _: None))


@pytest.mark.parametrize(("by", "names"), [
    ("topic", ["topic"]), ("codec", ["topic", "codec"]), ("producer", ["topic", "producerId", "producerEpoch"]),
])  # fmt: skip
def test_stats_of_batches_are_those_of_their_headers(spark, own_corpus, by, names):
    """Tasks add up what they read, of old formats as well, where records of compressed sets are counted."""
    import kafkalog_spark
    from kafkalog_spark.jobs.stats import stats

    paths = [str(own_corpus / "kafka-4.3.1/logs/clean/d0"), *map(str, own_corpus.glob("old/0.*/logs/clean"))]
    columns = [*names, "partition", "recordCount", "isControl", "sizeInBytes", "baseOffset", "lastOffset", "maxTimestamp"]
    heads = kafkalog_spark.read(spark, *paths, level="batches", columns=",".join(dict.fromkeys(columns))).collect()
    groups = {}
    for head in heads:
        groups.setdefault(tuple(head[name] for name in names), []).append(head)
    wanted = {
        key: (
            len({head.partition for head in group}), len(group),
            sum(head.recordCount for head in group if not head.isControl), sum(head.sizeInBytes for head in group),
            min(head.baseOffset for head in group), max(head.lastOffset for head in group),
            max((head.maxTimestamp for head in group if head.maxTimestamp is not None), default=None),
        )
        for key, group in groups.items()
    }  # fmt: skip
    rows = stats(spark, *paths, by=by).collect()
    for logs in ("old/0.8.2.2/logs/clean", "kafka-4.3.1/logs/clean/d0"):
        partitions = [one for one in (own_corpus / logs).glob("*-[0-9]") if "cluster_metadata" not in one.name]
        counted = stats(spark, *map(str, partitions), by=by).collect()
        assert sum(row.records for row in counted) == sum(map(records_in, partitions)) > 0
    assert {tuple(row[: len(names)]): tuple(row[len(names) :]) for row in rows} == wanted
    assert rows[0].__fields__[len(names) :] == [
        "partitions", "batches", "records", "bytes", "firstOffset", "lastOffset", "lastTimestamp",
    ]  # fmt: skip


def test_stats_by_header_count_a_record_once(spark, tmp_path):
    """Headers may stand in a record twice, also with nothing in them."""
    from kafkalog_spark.jobs.stats import stats

    rows = [(b"12345678", [("a", b"xx"), ("b", None), ("a", b"yyy")]), (b"1234", [("a", b"z")]), (b"1", None)]
    frame = spark.createDataFrame(rows, "value binary, headers array<struct<key:string,value:binary>>")
    frame.selectExpr("*", "0 partition").write.format("kafkalog").mode("append").option("topic", "t").save(str(tmp_path))
    assert [row.asDict() for row in stats(spark, str(tmp_path), by="header").collect()] == [
        {"topic": "t", "header": "a", "records": 2, "bytes": 12, "headerBytes": 6},
        {"topic": "t", "header": "b", "records": 1, "bytes": 8, "headerBytes": 0},
    ]


def test_a_task_tells_many_batches_of_a_partition_in_one_row(own_corpus):
    import pyarrow as pa

    from kafkalog_spark.jobs import stats as job
    from kafkalog_spark.table.columns import level_schema
    from kafkalog_spark.table.levels import plan_level, read_level
    from kafkalog_spark.table.options import Bounds
    from kafkalog_spark.tasks import options_of

    columns = "topic,partition,recordCount,isControl,sizeInBytes,baseOffset,lastOffset,maxTimestamp"
    asked = options_of([str(own_corpus / "kafka-4.3.1/logs/clean/d1/small_segments-0")], {"level": "batches", "columns": columns})
    schema = level_schema("batches", asked.columns)
    sums = pa.schema([*(schema.field(name) for name in ("topic", "partition")), *job._SUM_TYPES.items()])
    [split] = plan_level(asked, Bounds())
    heads = list(read_level(split, schema, asked))
    rows = [row for one in heads for batch in job.summed(one, sums) for row in batch.to_pylist()]
    assert len(rows) == len(heads)  # as they are read
    assert sum(row["records"] for row in rows) == 89
    assert sum(row["batches"] for row in rows) == sum(one.num_rows for one in heads) > len(heads)


def test_export_keeps_every_column(spark, own_corpus, tmp_path):
    top = next((own_corpus / "kafka-4.3.1/logs/clean").glob("*/edge-keys_and.headers-0"))
    assert command("export", "--to", tmp_path / "lake", top)[0] == 0
    there = spark.read.parquet(str(tmp_path / "lake"))
    source = spark.read.format("kafkalog").option("includeHeaders", "true").load(str(top))
    columns = source.columns
    assert there.select(columns).exceptAll(source).count() == source.select(columns).exceptAll(there.select(columns)).count() == 0
    status, _, err = command("export", "--to", tmp_path / "lake", top)
    assert status == 8
    assert "error[job-failed]" in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize(("arguments", "what"), [
    (("verify", "/no/such/dir"), "/no/such/dir"),
    (("stats", "--topic", "nothing", "{}"), "no such topic or partition: nothing"),
    (("recover", "--topic", "nothing", "{}"), "no such topic: nothing"), (("compact", "--topic", "nothing", "{}"), "no such topic: nothing"),
])  # fmt: skip
def test_one_line_for_what_is_wrong(spark, own_corpus, arguments, what):
    top = own_corpus / "kafka-4.3.1/logs/clean"
    status, out, err = command(*(one.format(top) for one in arguments))
    assert (status, out) == (8, "")
    assert what in err
    assert [line.lstrip()[:3] for line in err.strip().splitlines()] in (["err"], ["err", "do "])
    assert "failOnDataLoss" not in err  # which is an option of the data source, and not of the command


@pytest.mark.parametrize(("error", "said"), [
    (DataLossError("t-0: gone."), "t-0: gone. Some data may have been lost"), (LogDirError(f"x: bad; {CORRUPTION_ADVICE}"), "--on-corruption skip"),
])  # fmt: skip
def test_advice_is_that_of_the_command(error, said, monkeypatch, capsys):
    monkeypatch.setattr("kafkalog_cli.spark_session.Work", lambda *_: SimpleNamespace(wait=lambda: None, result=lambda: _raise(error)))
    assert run_job("stats", None, paths=(), form="text", master=None, settings=()) == 8
    err = capsys.readouterr().err
    assert said in err
    assert not {"failOnDataLoss", "onCorruption"} & {*re.findall(r"\w+", err)}


def _raise(error):
    raise error


@pytest.mark.parametrize("size", ["x", "0", "-1k"])
def test_a_size_that_is_none_is_wrong_usage_before_spark_starts(size, tmp_path):
    done = kafkalog("spark", "stats", "--split-bytes", size, str(tmp_path))
    assert (done.out, done.status) == (b"", 2)
    assert "Invalid value for '--split-bytes': " in done.err
    assert f"'{size}'" in done.err


@pytest.mark.parametrize("job", ["verify", "stats", "export", "recover", "compact"])
@pytest.mark.parametrize("name", ["no", "n*"])
def test_a_path_that_does_not_exist_is_reported_before_spark_starts(job, name, tmp_path, monkeypatch):
    monkeypatch.setattr("kafkalog_cli.spark_session.Work", None)
    done = kafkalog("spark", job, "--to", str(tmp_path), str(tmp_path), str(tmp_path / name)) if job == "export" else (
        kafkalog("spark", job, str(tmp_path), str(tmp_path / name)))
    assert (done.out, done.status) == (b"", 8)
    assert done.err.startswith(f"error[unreadable-file] {tmp_path / name}: No such file or directory\n")


@pytest.mark.parametrize("name", ["pyspark", "pyarrow"])
def test_a_package_that_is_missing_is_named_before_spark_starts(name, tmp_path, monkeypatch):
    monkeypatch.setattr("kafkalog_cli.spark_job.find_spec", lambda asked: None if asked == name else find_spec(asked))
    done = kafkalog("spark", "verify", str(tmp_path))
    assert (done.out, done.status) == (b"", 2)
    assert f"{name} is not installed: pip install 'kafkalog[spark]'" in done.err


@pytest.mark.parametrize(("job", "option", "what"), [
    ("compact", ("--salvage",), "No such option '--salvage'"), ("verify", ("--on-corruption", "skip"), "No such option '--on-corruption'"),
    ("recover", ("--force",), "No such option '--force'"), ("stats", ("--to", "x"), "No such option '--to'"),
    ("export", (), "Missing option '--to'"), ("import", (), "Missing option '--to'"),
])  # fmt: skip
def test_no_job_passes_over_an_option_in_silence(job, option, what, tmp_path):
    done = kafkalog("spark", job, *option, str(tmp_path))
    assert (done.out, done.status) == (b"", 2)
    assert what in done.err


@pytest.mark.parametrize("job", ["verify", "stats"])
@pytest.mark.usefixtures("sources")
def test_rows_are_written_as_they_come_and_kept_nowhere_here(job, monkeypatch, capsys):
    """A damaged fleet may have more findings than spark.driver.maxResultSize and a driver's memory take."""
    said, lines = [], []

    class Frame:
        """A table of which no list can be made."""

        dtypes = ()

        def persist(self, level):
            said.append(f"persist, on disks only: {level.useDisk and not level.useMemory}")
            return self

        def count(self):
            said.append("all tasks at once")

        def toLocalIterator(self):  # noqa: N802  # Spark's name
            for number in range(3):
                lines.append(capsys.readouterr().out)
                yield Row(number)
            said.append("end")

        def unpersist(self):
            said.append("unpersist")

    class Row(dict):
        def __init__(self, number):
            super().__init__(severity="error", code="torn-tail", directory="d", file="x", what="y", position=number, offset=None)

        def asDict(self, recursive):  # noqa: ARG002, N802  # Spark's method
            return dict(self)

    monkeypatch.setattr(f"kafkalog_spark.jobs.{job}.{job}", lambda *_, **__: Frame())
    work = {"verify": verify_command, "stats": stats_command}[job].work
    outcome = Outcome(stream=json_stream("jsonl", Lines()))
    assert work(None, outcome, {"paths": (), "config": {}, "by": "topic", "top": 1}) == (4 if job == "verify" else 0)
    assert said == ["persist, on disks only: True", "all tasks at once", "end", "unpersist"]
    assert ['"position":0' in lines[1], '"position":1' in lines[2]] == [True, True]


def test_a_topic_that_is_nowhere_is_not_found_sound(spark, own_corpus, tmp_path):
    source = next(own_corpus.glob("kafka-4.3.1/logs/clean/*/codec.none-0"))
    status, out, err = command("verify", "--topic", "nowhere", source)
    assert (status, out, "no such topic or partition: nowhere" in err) == (8, "", True)
    assert command("export", "--to", tmp_path / "lake", source)[0] == 0
    status, out, err = command("import", "--topic", "nowhere", "--to", tmp_path / "back", tmp_path / "lake")
    assert (status, out, "no topic nowhere" in err) == (8, "", True)
    assert not (tmp_path / "back").exists()


def test_a_whole_broker_comes_back_but_for_the_metadata_log(spark, own_corpus, tmp_path):
    for name in ("__cluster_metadata-0", "multi-1"):
        shutil.copytree(next(own_corpus.glob(f"kafka-4.3.1/logs/clean/*/{name}")), tmp_path / "logs" / name)
    assert command("export", "--to", tmp_path / "lake", tmp_path / "logs")[0] == 0
    status, out, err = command("import", "--to", tmp_path / "back", tmp_path / "lake")
    assert (status, out, err.splitlines()[0]) == (0, "", "not written: __cluster_metadata, which only controllers write")
    assert [path.name for path in (tmp_path / "back").iterdir() if path.is_dir() and path.name[0] != "."] == ["multi-1"]
    status, out, err = command("import", "--topic", "__cluster_metadata", "--to", tmp_path / "asked", tmp_path / "lake")
    assert (status, out, "only controllers write it" in err) == (8, "", True)


def test_what_is_no_table_is_not_brought_back(spark, own_corpus, tmp_path):
    logs = shutil.copytree(next(own_corpus.glob("kafka-4.3.1/logs/clean/*/codec.none-0")), tmp_path / "logs/codec.none-0").parent
    said = f"error[job-failed] {logs}: it contains no parquet table written by `export`\n"
    assert command("import", "--to", tmp_path / "back", logs) == (8, "", said)


def test_export_and_back(spark, own_corpus, tmp_path):
    top = own_corpus / "kafka-4.3.1/logs/clean"
    for name, source in (("007-0", "bulk-0"), ("edge-0", "edge-keys_and.headers-0"), ("edge-1", "multi-1")):
        shutil.copytree(next(top.glob(f"*/{source}")), tmp_path / "logs" / name)
    back = tmp_path / "back"
    status, _, err = command("export", "--to", tmp_path / "lake", tmp_path / "logs")
    assert status == 0
    assert re.fullmatch(r"written to .*\n[0-9.]+ KiB of batches read; 0 batches skipped by filters\n3 partitions: 3 exported; [0-9.]+ KiB in .*s\n", err), err
    assert re.fullmatch(r"3 partitions: 3 read; [0-9.]+ KiB in .*s\n", command("stats", tmp_path / "logs")[2])
    assert command("import", "--to", back, "--config", "compression.type=lz4", tmp_path / "lake")[0] == 0

    def rows(path):
        columns = ["topic", "partition", "offset", "timestamp", "key", "value", "headers"]
        frame = spark.read.format("kafkalog").option("includeHeaders", "true").load(str(path))
        return sorted(map(str, frame.select(*columns).collect()))

    assert rows(back) == rows(tmp_path / "logs")
    assert {path.name for path in back.glob("*-?")} == {"007-0", "edge-0", "edge-1"}
    codecs = spark.read.format("kafkalog").option("level", "batches").load(str(back)).select("codec").distinct().collect()
    assert [row.codec for row in codecs] == ["lz4"]
    status, _, err = command("import", "--to", back, tmp_path / "lake")
    assert (status, "already exists" in err) == (8, True)
    assert command("import", "--to", back, "--mode", "overwrite", "--topic", "edge", tmp_path / "lake")[0] == 0
    assert rows(back) == rows(tmp_path / "logs")
    status, _, err = command("import", "--to", back, "--table", "delta", tmp_path / "lake")
    assert status == 8
    assert len(err.strip().splitlines()) == 1


def test_import_says_which_pyspark_it_needs(monkeypatch, tmp_path):
    """On 3.5 there is no data source in Python to write by."""
    monkeypatch.setattr("kafkalog_spark.jobs.export.find_spec", lambda _name: None)
    with pytest.raises(OptionError, match="which needs pyspark 4"):
        import_(None, str(tmp_path), to=str(tmp_path / "back"))


@pytest.mark.parametrize(("said", "shown"), [
    ("An error occurred while calling o331.save.\n: java.io.IOException: No space left\n\tat a.b.C", "No space left"),
    ("An error occurred while calling o1.load.\n: org.apache.spark.SparkClassNotFoundException: [NO] Failed", "[NO] Failed"),
    ("Traceback\n  File x\nkafkalog_spark.errors.OptionError: kafkalog: level is 'x'\n", "level is 'x'"),
    ("An error occurred while calling o1.save.\n: java.io.IOException: Mkdirs failed to create file:/a b/_temporary/0/x=1 (exists=false, cwd=file:/c)",
     "/a b: nothing can be written there"),
    ("", "ValueError"),
])  # fmt: skip
def test_of_javas_pages_the_sentence_is_shown(said, shown):
    assert _sentence(ValueError(said)) == shown


class JavaError(Exception):
    """As py4j raises it: what it says is asked of Java, which has to run; Java knows what it came from."""

    is_over = False

    def __init__(self, *messages):
        super().__init__(messages[0])
        below = None
        for message in reversed(messages):
            below = SimpleNamespace(getMessage=lambda said=message: said, getCause=lambda one=below: one, toString=lambda: "Oops")
        self.java_exception = below

    def __str__(self):
        if self.is_over:
            raise ConnectionRefusedError
        return super().__str__()


@pytest.mark.parametrize(("messages", "shown"), [
    (("Exception thrown in awaitResult: ", "Job aborted.", "Cannot run program: error=13"), "Exception thrown in awaitResult: Cannot run program: error=13"),
    (("Task failed.", "Mkdirs failed\n\tat a.b"), "Task failed: Mkdirs failed"), (("Task failed.", None), "Task failed: Oops"),
    (("It failed: no room", "no room"), "It failed: no room"), (("one", "OptionError: kafkalog: level is 'x'", "two"), "level is 'x'"),
    (("alone",), "alone"), (("[TASK_WRITE_FAILED] Task failed", "Mkdirs failed to create file:/x/_temporary/0 (exists=false, cwd=file:/c)"), "/x: nothing can be written there"),
])  # fmt: skip
def test_of_javas_causes_the_first_is_shown(messages, shown):
    assert _sentence(JavaError(*messages)) == shown


def test_java_is_asked_while_it_runs(spark, monkeypatch):
    """What it raised can say nothing once its session is over: the user was told of the output, to which nothing had happened."""
    error = JavaError("Job aborted.", "no room")

    def fail(*_):
        raise error

    def wait(_work):
        error.is_over = True

    monkeypatch.setattr(stats_command, "work", fail)
    monkeypatch.setattr(Work, "wait", wait)
    assert command("stats", "/") == (8, "", "error[job-failed] Job aborted: no room\n")


def test_a_place_that_can_not_be_written_is_one_line(spark, own_corpus, tmp_path):
    shutil.copytree(next(own_corpus.glob("kafka-4.3.1/logs/clean/*/codec.none-0")), tmp_path / "codec.none-0")
    (tmp_path / "file").touch()
    status, _, err = command("export", "--to", tmp_path / "file/out", tmp_path / "codec.none-0")
    assert (status, len(err.splitlines())) == (8, 1), err
    assert f"{tmp_path}/file" in err

"""An export has the rows of `fetch` and of Spark's level `records`, in every format; what is there already is not harmed."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from base64 import b64decode, b64encode
from collections import defaultdict

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.arrow.columns import COLUMN_TYPES, RECORD_TYPES
from engine.export.rows import COLUMNS, RECORD_COLUMNS
from engine.export.tables import GROUP_ROWS, RANGES
from engine.export.target import JOURNAL
from kafkalog_cli.commands import export
from kafkalog_spark.table.columns import EXPORTED
from kafkalog_spark.table.levels import plan_level, read_level
from kafkalog_spark.table.options import Bounds
from kafkalog_spark.tasks import options_of
from tests.support.full_disk import full_disk
from tests.support.json_output import all_objects
from tests.support.run import kafkalog
from tests.support.small_logs import batch

FORMS = ("jsonl", "csv", "arrow", "parquet")
SMALL = "small_segments-0"


# ---- rows as (key, value, topic, partition, offset, timestamp in ms, timestampType, headers)


def table_rows(table):
    table = table.set_column(5, "timestamp", table.column("timestamp").cast("int64"))
    for row in table.to_pylist():
        headers = [(one["key"], one["value"]) for one in row["headers"] or ()]
        ms = None if row["timestamp"] is None else row["timestamp"] // 1000
        yield (row["key"], row["value"], row["topic"], row["partition"], row["offset"], ms, row["timestampType"], headers)


def member(found, name):
    if f"{name}_b64" in found:
        return b64decode(found[f"{name}_b64"])
    return None if found[name] is None else found[name].encode()


def json_row(found):
    kinds = {"CreateTime": 0, "LogAppendTime": 1, "NoTimestampType": -1}
    kind = found["timestampType"] if "timestampType" in found else kinds[found["timestamp_type"]]
    headers = [(member(one, "key").decode("utf-8", "replace"), member(one, "value")) for one in found["headers"]]
    ms = found["timestamp"] if abs(found["timestamp"]) <= 2**63 // 1000 else None  # Arrow counts microseconds
    return (member(found, "key"), member(found, "value"), found["topic"], found["partition"], found["offset"], ms, kind, headers)


def cell(row, name):
    if row[f"{name}_b64"] != r"\N":
        assert row[name] == r"\N"
        return b64decode(row[f"{name}_b64"], validate=True)
    return None if row[name] == r"\N" else row[name].encode()


def csv_row(row):
    headers = "[]" if row["headers"] == r"\N" else row["headers"]
    return json_row({
        **{name: int(row[name]) for name in ("partition", "offset", "timestamp", "timestampType")}, "topic": row["topic"],
        **{f"{name}_b64" if cell(row, name) is not None else name: None if cell(row, name) is None else b64encode(cell(row, name))
           for name in ("key", "value")},
        "headers": json.loads(headers),
    })  # fmt: skip


def read(path, form):
    if form == "parquet":
        return list(table_rows(pq.read_table(path)))
    if form == "arrow":
        return list(table_rows(pa.ipc.open_file(path).read_all()))
    if form == "jsonl":
        return [json_row(json.loads(line)) for line in path.read_bytes().splitlines()] if path.stat().st_size else []
    with path.open(newline="", encoding="utf-8") as file:
        return [csv_row(row) for row in csv.DictReader(file, strict=True)]


def by_partition(rows):
    found = defaultdict(list)
    for row in rows:
        found[f"{row[2]}-{row[3]}"].append(row)
    return dict(found)


def spark_rows(place, isolation):
    asked = options_of([str(place)], {"level": "records", "columns": ",".join(EXPORTED), "kafka.isolation.level": isolation})
    schema = pa.schema([pa.field(name, COLUMN_TYPES[name]) for name in EXPORTED])
    batches = [one for split in plan_level(asked, Bounds()) for one in read_level(split, schema, asked)]
    return by_partition(table_rows(pa.Table.from_batches(batches, schema)))


def fetched_rows(place, isolation):
    topics = [word for path in sorted(place.glob("*/*-[0-9]*")) for word in ("-t", path.name.rpartition("-")[0])]
    done = kafkalog("fetch", "--format", "jsonl", "--isolation", isolation, *topics, str(place))
    return by_partition(json_row(one) for one in all_objects(done.out) if one["type"] == "fetched-record")


# ---- the same rows


def test_the_columns_are_one_schema():
    assert list(COLUMNS) == list(COLUMN_TYPES)
    assert list(RECORD_COLUMNS) == list(RECORD_TYPES) == list(EXPORTED)


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("folder", ["clean", "unclean"])
def test_the_rows_are_those_of_fetch_and_spark(own_corpus, tmp_path, folder, isolation):
    place = own_corpus / "kafka-4.3.1/logs" / folder
    wanted = spark_rows(place, isolation)
    assert sum(map(len, wanted.values())) > 1500
    fetched = fetched_rows(place, isolation)
    assert {name: rows for name, rows in wanted.items() if name in fetched} == fetched
    assert len(fetched) > 5
    for form in FORMS if folder == "unclean" else ("jsonl", "parquet"):
        done = kafkalog("export", "--as", form, "--isolation", isolation, "--to", str(tmp_path / form), "--resume", str(place))
        assert done.status in (0, 4), done.err
        files = {path.name.removesuffix(f".{form}"): read(path, form) for path in (tmp_path / form).glob(f"*.{form}") if path.name != JOURNAL}
        assert {name: rows for name, rows in files.items() if rows} == wanted


def test_columns_are_those_of_arrow(own_corpus, tmp_path):
    place = str(next((own_corpus / "kafka-4.3.1/logs/clean").glob("*/idempotent-0")))
    names = [name for name in COLUMN_TYPES if name not in ("timestamp", "headers", "key", "value")]
    for form in ("jsonl", "parquet"):
        assert kafkalog("export", "--as", form, "--columns", ",".join(names), "--to", str(tmp_path / form), place).status == 0
    table = pq.read_table(tmp_path / "parquet")
    assert table.schema.equals(pa.schema([pa.field(name, COLUMN_TYPES[name]) for name in names]))
    assert [json.loads(line) for line in (tmp_path / "jsonl").read_bytes().splitlines()] == table.to_pylist()


def test_one_file_stdout_and_a_selection(own_corpus, tmp_path):
    place = own_corpus / "kafka-4.3.1/logs/clean"
    for form in FORMS:
        one = tmp_path / f"one.{form}"
        words = ("export", "--as", form, "-t", "tx", "--offset", "3:9", str(place))
        done = kafkalog(*words, "--to", str(one))
        assert (done.status, done.out.decode().splitlines()[0]) == (0, "tx-0: 4 records, offsets 3 to 8")
        rows = read(one, form)
        assert [(row[3], row[4]) for row in rows] == sorted((row[3], row[4]) for row in rows)
        assert {row[3] for row in rows} == {0, 1}
        printed = kafkalog(*words, "--to", "-")
        if form == "arrow":
            assert list(table_rows(pa.ipc.open_stream(printed.out).read_all())) == rows
        else:
            assert printed.out == one.read_bytes()
    late = kafkalog("export", "--as", "jsonl", "-t", "tx", "-p", "0", "--time", "2023-11-22T19:11Z:2023-11-22T19:12Z", "--to", "-", str(place))
    fetched = kafkalog("fetch", "--format", "jsonl", "-t", "tx", "-p", "0", "--time", "2023-11-22T19:11Z:2023-11-22T19:12Z", str(place))
    wanted = [json_row(one) for one in all_objects(fetched.out) if one["type"] == "fetched-record"]
    assert [json_row(json.loads(line)) for line in late.out.splitlines()] == wanted


def test_jsonl_can_be_appended(own_corpus, tmp_path):
    place = next((own_corpus / "kafka-4.3.1/logs/clean").glob(f"*/{SMALL}"))
    lines = kafkalog("export", "--as", "jsonl", "--to", "-", str(place)).out
    (tmp_path / "in").write_bytes(lines)
    again = tmp_path / "again-0"
    assert kafkalog("append", "--create", "--input", str(tmp_path / "in"), str(again)).status == 0
    moved = [json.loads(line) for line in kafkalog("export", "--as", "jsonl", "--to", "-", str(again)).out.splitlines()]
    kept = ("key", "value", "timestamp", "headers")
    assert [[one[name] for name in kept] for one in moved] == [[json.loads(line)[name] for name in kept] for line in lines.splitlines()]


# ---- CSV

NASTY = [None, b"", rb"\N", b'a "quote", and\r\nlines', b"\x00", b"\xff\xfe", b"=1+1", b"-1", b"'x", b"+", b"@x", "größe".encode(), b"\t=1"]


@pytest.fixture
def nasty(tmp_path):
    partition = tmp_path / "log" / "nasty-0"
    partition.mkdir(parents=True)
    log = b"".join(batch(offset, value=value) for offset, value in enumerate(NASTY) if value is not None)
    (partition / "00000000000000000001.log").write_bytes(log)
    return partition


def test_csv_keeps_null_empty_and_bytes_apart(nasty, tmp_path):
    out = tmp_path / "x.csv"
    assert kafkalog("export", "--as", "csv", "--to", str(out), str(nasty)).status == 0
    assert [row[1] for row in read(out, "csv")] == NASTY[1:]
    assert out.read_bytes().startswith(b"key,key_b64,value,value_b64,topic,partition,offset,timestamp,timestampType,headers\r\nk1,\\N,,\\N,nasty,")


def test_csv_safe_has_no_formulas_and_loses_nothing(nasty, tmp_path):
    out = tmp_path / "x.csv"
    assert kafkalog("export", "--as", "csv", "--csv-safe", "--to", str(out), "--columns", "value,topic", str(nasty)).status == 0
    with out.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert not [row for row in rows for value in row.values() if value[:1] in tuple("=+-@\t\r")]
    for row in rows:
        for name in ("value", "value_b64"):
            row[name] = row[name].removeprefix("'")
    assert [cell(row, "value") for row in rows] == NASTY[1:]


# ---- Parquet

RECORDS = GROUP_ROWS + 1000


@pytest.fixture(scope="module")
def long_log(tmp_path_factory):
    top = tmp_path_factory.mktemp("long")
    (top / "in").write_text("".join(f"{number % 97}:value-{number}\n" for number in range(RECORDS)))
    partition = top / "data" / "long-0"
    partition.parent.mkdir()
    made = kafkalog("append", "--create", "--input-format", "text", "--input", str(top / "in"), "--now", "1700000000000", str(partition))
    assert made.status == 0, made.err
    return partition


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_row_groups_and_offsets_in_the_metadata(long_log, tmp_path, jobs):
    out = tmp_path / "x.parquet"
    assert kafkalog("export", "--as", "parquet", "--to", str(out), "--jobs", jobs, str(long_log)).status == 0
    found = pq.ParquetFile(out)
    assert [found.metadata.row_group(number).num_rows for number in range(found.num_row_groups)] == [GROUP_ROWS, 1000]
    [noted] = json.loads(found.metadata.metadata[RANGES.encode()])
    assert noted == {"topic": "long", "partition": 0, "first_offset": 0, "next_offset": RECORDS, "records": RECORDS}
    column = found.schema_arrow.names.index("offset")
    limits = [found.metadata.row_group(number).column(column).statistics for number in (0, 1)]
    assert [(one.min, one.max) for one in limits] == [(0, GROUP_ROWS - 1), (GROUP_ROWS, RECORDS - 1)]
    values = found.read(["value"]).column("value")
    assert values[GROUP_ROWS].as_py() == b"value-%d" % GROUP_ROWS


# ---- resume

KILLED = """
import os, signal, sys
from engine.export import target
from kafkalog_cli.main import main
whom, name = {"before": (target.ExportDirectory, "commit"), "noted": (target.Destination, "commit")}[sys.argv[1]]
left, real = [2], getattr(whom, name)
def commit(*given, **options):
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*given, **options)
setattr(whom, name, commit)
main(sys.argv[2:])
"""


def files_in(place):
    return {path.name: path.read_bytes() for path in place.iterdir() if path.name != JOURNAL}


@pytest.mark.parametrize(("when", "form"), [("before", "jsonl"), ("before", "parquet"), ("noted", "csv"), ("noted", "arrow")])
def test_after_a_kill_the_files_are_the_same(own_corpus, tmp_path, form, when):
    place = own_corpus / "kafka-4.3.1/logs/unclean/d0"
    words = ("export", "--as", form, "--jobs", "1", "-t", "u-*", str(place))
    killed = subprocess.run([sys.executable, "-c", KILLED, when, *words, "--to", f"{tmp_path}/out/"], check=False, capture_output=True)
    assert killed.returncode == -9
    assert len(list((tmp_path / "out").glob(f"[!_]*.{form}"))) == 1
    refused = kafkalog(*words, "--to", str(tmp_path / "out"))
    assert (refused.status, "holds an export already" in refused.err, "--resume" in refused.err) == (8, True, True)
    assert kafkalog(*words, "--to", str(tmp_path / "out"), "--resume").status in (0, 4)
    assert kafkalog(*words, "--to", str(tmp_path / "whole") + "/").status in (0, 4)
    assert files_in(tmp_path / "out") == files_in(tmp_path / "whole")


@pytest.mark.parametrize("form", FORMS)
def test_resume_adds_what_was_appended_since(own_corpus, tmp_path, form):
    model = next((own_corpus / "kafka-4.3.1/logs/clean").glob(f"*/{SMALL}"))
    log, out = shutil.copytree(model, tmp_path / "data" / SMALL), tmp_path / "out"
    words = ("export", "--as", form, "--to", str(out), str(log))
    assert kafkalog(*words, "--resume").status == 0
    first = read(out / f"{SMALL}.{form}", form)
    assert "complete before" in kafkalog(*words, "--resume").out.decode()
    (tmp_path / "in").write_text("a:b\nc:d\n")
    assert kafkalog("append", "--clean-start", "--input-format", "text", "--input", str(tmp_path / "in"), str(log)).status == 0
    done = kafkalog(*words, "--resume", "--format", "jsonl")
    [noted] = [one for one in all_objects(done.out) if one["type"] == "exported"]
    assert (noted["records"], noted["new_records"]) == (len(first) + 2, 2)
    longer = read(out / f"{SMALL}.{form}", form)
    assert longer[:-2] == first
    assert [(row[0], row[1]) for row in longer[-2:]] == [(b"a", b"b"), (b"c", b"d")]
    if form in ("jsonl", "csv"):
        assert kafkalog("export", "--as", form, "--to", str(tmp_path / "whole"), str(log)).status == 0
        assert (tmp_path / "whole").read_bytes() == (out / f"{SMALL}.{form}").read_bytes()


def test_resume_refuses_what_it_did_not_write(own_corpus, tmp_path):
    log, out = next((own_corpus / "kafka-4.3.1/logs/clean").glob(f"*/{SMALL}")), tmp_path / "out"
    words = ("export", "--as", "jsonl", "--to", str(out), "--resume", str(log))
    out.mkdir()
    (out / f"{SMALL}.jsonl").write_text("mine")
    refused = kafkalog(*words)
    assert (refused.status, "not a file of this export" in refused.err) == (8, True)
    assert (out / f"{SMALL}.jsonl").read_text() == "mine"
    (out / f"{SMALL}.jsonl").unlink()
    assert kafkalog(*words).status == 0
    other = kafkalog(*words, "--isolation", "read_committed")
    assert (other.status, "--isolation read_uncommitted" in other.err) == (2, True)
    (out / JOURNAL).write_text("{}\n")
    broken = kafkalog(*words)
    assert (broken.status, "not the journal of an export" in broken.err) == (8, True)


def test_resume_remembers_damage(own_corpus, tmp_path):
    log = shutil.copytree(next((own_corpus / "kafka-4.3.1/logs/clean").glob(f"*/{SMALL}")), tmp_path / "data" / SMALL)
    segment = sorted(log.glob("*.log"))[1]
    data = bytearray(segment.read_bytes())
    data[900] ^= 1
    segment.write_bytes(data)
    words = ("export", "--as", "jsonl", "--to", str(tmp_path / "out"), "--resume", str(log))
    for _ in range(2):
        done = kafkalog(*words)
        assert done.status == 4
    assert b"complete before, 1 problem when they were read" in done.out


# ---- targets


@pytest.mark.parametrize("form", FORMS)
def test_nothing_is_written_into_logs(own_corpus, tmp_path, form):
    data = shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean/d0", tmp_path / "data")
    (tmp_path / "link").symlink_to(data)
    before = sorted(path.name for path in data.rglob("*"))
    for to in ("data/x", "data/tx-0/x", "data", "link/deeper/x", "data/tx-0/deeper/"):
        done = kafkalog("export", "--as", form, "--to", to, "data/tx-0", cwd=tmp_path)
        assert (done.status, "which holds logs" in done.err) == (2, True), to
    assert sorted(path.name for path in data.rglob("*")) == before


def test_an_existing_file_is_not_replaced(own_corpus, tmp_path):
    log = str(next((own_corpus / "kafka-4.3.1/logs/clean").glob(f"*/{SMALL}")))
    (tmp_path / "x").write_text("mine")
    (tmp_path / "y.part").write_text("mine")
    for to, status in (("x", 2), ("y", 8)):
        done = kafkalog("export", "--as", "jsonl", "--to", to, log, cwd=tmp_path)
        assert (done.status, done.err.count("error")) == (status, 1)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"x": "mine", "y.part": "mine"}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("to", ["out/", "x"])
def test_a_full_disk_is_one_sentence_and_leaves_nothing_half(own_corpus, tmp_path, form, to):
    place = str(own_corpus / "kafka-4.3.1/logs/clean/d0")
    with full_disk(tmp_path, room=3000):
        done = kafkalog("export", "--as", form, "--to", str(tmp_path / to), place)
    errors = [line for line in done.err.splitlines() if line.startswith("error")]
    assert (done.status, len(errors), "No space left on device" in errors[0]) == (8, 1, True)
    left = [path.name for path in tmp_path.rglob("*") if path.is_file() and not path.name.startswith("_") and path.suffix != f".{form}"]
    assert left == []
    assert not (tmp_path / "x").exists()


def test_an_unreadable_partition_fails_one_file_or_the_only_one(own_corpus, tmp_path):
    data = shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean/d0", tmp_path / "data")
    log = next((data / "tx-0").glob("*.log"))
    log.unlink()
    log.mkdir()
    words = ("export", "--as", "jsonl", "-t", "tx*", str(data))
    each = kafkalog(*words, "--to", str(tmp_path / "out") + "/")
    assert (each.status, (tmp_path / "out/tx-0.jsonl").exists(), len(list((tmp_path / "out").glob("tx-v1-*.jsonl")))) == (8, False, 1)
    assert kafkalog(*words, "--to", str(tmp_path / "x")).status == 8
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "out"]


@pytest.mark.parametrize("words", [
    ("--as", "csv", "--columns", "key,kye"), ("--as", "csv", "--columns", "key,key"), ("--as", "jsonl", "--csv-safe"), ("--as", "csv", "--resume"),
    ("--as", "csv", "--format", "json"), ("--as", "csv", "--columns", "decodedValue"), ("--as", "csv", "--columns", "key", "--decode", "auto"), (),
])  # fmt: skip
def test_wrong_options(own_corpus, words):
    log = str(next((own_corpus / "kafka-4.3.1/logs/clean").glob(f"*/{SMALL}")))
    assert kafkalog("export", "--to", "-", *words, log).status == 2


@pytest.mark.parametrize("form", FORMS)
def test_only_tables_need_pyarrow(own_corpus, monkeypatch, form):
    log = str(next((own_corpus / "kafka-4.3.1/logs/clean").glob(f"*/{SMALL}")))
    monkeypatch.setattr(export, "find_spec", lambda _name: None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for name in [name for name in sys.modules if name.startswith(("engine.arrow", "engine.export.tables"))]:
        monkeypatch.delitem(sys.modules, name)
    done = kafkalog("export", "--as", form, "--to", "-", log)
    assert (done.status, "pip install 'kafkalog[arrow]'" in done.err) == ((0, False) if form in ("jsonl", "csv") else (2, True))


def test_decoded_internal_topics(own_corpus, tmp_path):
    place = str(own_corpus / "kafka-4.3.1/logs/clean")
    words = ("export", "--decode", "auto", "-t", "__consumer_offsets", "-p", "0", "--columns", "offset,decodedKey,decodedValue", place)
    for form in ("jsonl", "parquet", "csv"):
        assert kafkalog(*words, "--as", form, "--to", str(tmp_path / form)).status == 0
    dumped = all_objects(kafkalog("dump-log", "--format", "jsonl", "--decode", "auto", next(
        str(path) for path in (own_corpus / "kafka-4.3.1/logs/clean").glob("*/__consumer_offsets-0"))).out)
    wanted = [(one["offset"], one["decoded_key"], one["decoded_value"]) for one in dumped if one["type"] == "record" and "decoded_key" in one]
    lines = [json.loads(line) for line in (tmp_path / "jsonl").read_bytes().splitlines()]
    assert [(one["offset"], one["decodedKey"], one["decodedValue"]) for one in lines] == wanted
    assert len(wanted) > 50

    def parsed(text):
        return None if text in (None, r"\N") else json.loads(text)

    rows = [(one["offset"], parsed(one["decodedKey"]), parsed(one["decodedValue"])) for one in pq.read_table(tmp_path / "parquet").to_pylist()]
    assert rows == wanted
    with (tmp_path / "csv").open(newline="") as file:
        assert [(int(one["offset"]), parsed(one["decodedKey"]), parsed(one["decodedValue"])) for one in csv.DictReader(file)] == wanted

"""What is read and how it is cut, without a session: options, ranges, splits."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import struct
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from engine.files import ReadOnlyFiles
from engine.findings import Finding, Where
from engine.formats import Codec
from engine.log.fetch.replicas import best_replica
from engine.record.builder import NewRecord, build_batch
from engine.record.columns import RecordColumns
from kafkalog_spark.errors import DataLossError, LogDirError, OptionError
from kafkalog_spark.schema import fitted, wanted_schema
from kafkalog_spark.table.columns import LEVELS, level_schema, types_for
from kafkalog_spark.table.following import first_offsets, last_offsets
from kafkalog_spark.table.levels import limited_findings, plan_level, read_level
from kafkalog_spark.table.options import Bounds, read_options
from kafkalog_spark.table.partitions import Piece
from kafkalog_spark.table.planning import plan
from tests.support.open_files import open_below


@pytest.fixture
def bulk(own_corpus):
    return next((own_corpus / "kafka-4.3.1/logs/clean").glob("*/bulk-0"))


def test_of_copies_that_can_not_be_compared_none_stays_open(bulk, tmp_path):
    for name in ("one", "two"):
        shutil.copytree(bulk, tmp_path / name / bulk.name)
    checkpoint = tmp_path / "two" / bulk.name / "leader-epoch-checkpoint"
    checkpoint.unlink()
    checkpoint.mkdir()
    copies = [f"{tmp_path}/{name}/{bulk.name}" for name in ("two", "one")]
    assert best_replica(ReadOnlyFiles(), copies) == copies[1]
    assert open_below(tmp_path) == []


def splits(path, bounds=None, **options):
    return plan(read_options({"path": str(path), **options}), bounds or Bounds())


@pytest.mark.parametrize(("options", "what"), [
    ({"startingOffsets": "latest"}, "starting offset can't be latest for batch queries"),
    ({"startingOffsets": '{"bulk":{"0":-1}}'}, "startingOffsets for bulk-0 can't be latest"),
    ({"endingOffsets": "earliest"}, "ending offset can't be earliest"),
    ({"startingOffsets": "soon"}, "got soon"),
    ({"startingOffsets": '{"bulk":{"0":0,"1":0}}'}, "you must specify all TopicPartitions"),
    ({"startingOffsets": '{"bulk":{"0":99999999}}'}, "are requested, but the log has [0,"),
    ({"startingOffsets": "{}"}, "you must specify all TopicPartitions"), ({"endingOffsets": '{"bulk":{}}'}, "Specified: {} Assigned: {bulk-0}"),
    ({"startingOffsetsByTimestamp": "{}"}, "you must specify all topics"), ({"endingOffsetsByTimestamp": "{}"}, "you must specify all topics"),
    ({"startingOffsets": '{"bulk":{"0":9223372036854775808}}'}, "startingOffsets: Expected e.g."),
    ({"startingOffsets": '{"bulk":{"0":"1_0"}}'}, "startingOffsets: Expected e.g."), ({"assign": '{"bulk":"01"}'}, "assign: Expected e.g."),
    ({"startingTimestamp": "99999999999999"}, "No offset matched"), ({"startingTimestamp": "1_000"}, "Expected a single long value"),
    ({"endingTimestamp": "9223372036854775808"}, "Expected a single long value"),
    ({"subscribe": "a", "assign": '{"a":[0]}'}, "Only one of the following options"),
    ({"subscribe": " ,"}, "No topics to subscribe to"),
    ({"subscribe": "nothing"}, "no such topic or partition: nothing"),
    ({"subscribePattern": "("}, "is not a pattern"), ({"subscribePattern": "[a-z&&[^b]]ulk"}, "is not a pattern: Possible set intersection"),
    ({"subscribePattern": " "}, "Pattern to subscribe is empty"),
    ({"startingOffsets": '{"bulk":{"0":9}}', "endingOffsets": '{"bulk":{"0":8}}'}, "start offset 9 is greater than the end offset 8"),
    ({"startingOffsetsByTimestamp": '{"bulk":{"0":9}}', "endingOffsetsByTimestamp": '{"bulk":{"0":8}}'}, "start timestamp 9 is"),
    ({"startingOffsetsByTimestamp": '{"bulk":{"0":0,"1":0}}'}, "you must specify all topics. Specified: {bulk-0, bulk-1} Assigned"),
    ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "minOffsetPerTrigger(5) is higher than the maxOffsetsPerTrigger(4)"),
    ({"level": "bits"}, "level is 'bits'"),
    ({"columns": "offzet"}, "no column 'offzet'"),
    ({"columns": "key, value,KEY"}, "columns names 'key' 2 times"),
    ({"splitBytes": "-1"}, "expected a positive number"),
    ({"minOffsetsPerTrigger": "few"}, "minOffsetsPerTrigger is 'few', expected a positive number"),
    ({"maxTriggerDelay": "soon"}, "maxTriggerDelay is 'soon', expected a time such as 15m"),
    ({"minPartitions": str(2**63)}, "which is more than 9223372036854775807"),
    ({"maxRecordsPerPartition": "0"}, "maxRecordsPerPartition is '0', expected a positive number"),
    ({"maxRecordsPerPartition": "9", "level": "batches"}, "level is 'batches': maxRecordsPerPartition is of records"),
    ({"paths": "/a,/b"}, "paths is '/a,/b', expected a JSON list of paths"),
    ({"paths": "[7]"}, "expected a JSON list of paths"),
    ({"kafka.auto.offset.reset": "earliest"}, "'auto.offset.reset' is not supported"),
    ({"ofset": "1"}, "unknown option 'ofset'"),
])  # fmt: skip
def test_bad_options_are_one_sentence(bulk, options, what):
    with pytest.raises(ValueError, match="kafkalog: ") as caught:
        splits(bulk, **options)
    assert what in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("options", "what"), [
    ({"endingOffsets": "latest"}, "ending offset not valid in streaming queries"),
    ({"endingOffsetsByTimestamp": '{"bulk":{"0":1}}'}, "ending timestamp not valid in streaming queries"),
    ({"endingTimestamp": "1"}, "ending timestamp not valid in streaming queries"),
])  # fmt: skip
def test_a_stream_has_no_end(bulk, options, what):
    with pytest.raises(OptionError, match=what):
        read_options({"path": str(bulk), **options}, streaming=True)


def test_a_pattern_names_topics_as_sparks_kafka_source_understands_it(bulk):
    """Found anywhere in a name, as Spark 4 looks for it; internal topics are none that it lists."""
    wants = read_options({"path": str(bulk), "subscribePattern": " ul|__ "}).wants
    assert [topic for topic in ("bulk", "pull", "un", "__consumer_offsets", "__transaction_state", "__mine") if wants(topic, 0)] == [
        "bulk", "pull", "__mine",
    ]  # fmt: skip
    assert read_options({"path": str(bulk), "subscribe": "__consumer_offsets"}).wants("__consumer_offsets", 3)


@pytest.mark.parametrize("level", ["segments", "indexes", "findings"])
def test_what_is_named_must_be_there_at_every_level(bulk, level):
    with pytest.raises(OptionError, match="no such topic or partition: bilk"):
        plan_level(read_options({"path": str(bulk), "level": level, "subscribe": "bulk,bilk"}), Bounds())
    lenient = read_options({"path": str(bulk), "level": level, "subscribe": "bulk,bilk", "failOnDataLoss": "false"})
    assert [piece.topic for split in plan_level(lenient, Bounds()) for piece in split] == ["bulk"]


def rows_of_level(path, level):
    options = read_options({"path": str(path), "level": level})
    schema = level_schema(level, options.columns)
    splits = plan_level(options, Bounds())
    batches = [batch for split in splits for batch in read_level(split, schema, options)]
    return pa.Table.from_batches(batches, schema).to_pylist()


def test_levels_tell_times_before_1970_and_none_that_no_record_has(own_corpus, tmp_path):
    [segment] = rows_of_level(own_corpus / "old/0.8.2.2/logs/clean/none-0", "segments")
    assert segment["largestTimestamp"] is None  # format 0 has none; it was that of the file
    copied = shutil.copytree(own_corpus / "old/0.8.2.2/logs/clean/none-0", tmp_path / "t-0")
    for path in copied.glob("*index"):
        path.unlink()
    [log] = copied.glob("*.log")
    os.utime(log, (-5, -5))
    log.with_suffix(".timeindex").write_bytes(struct.pack(">qi", -4000, 3))
    [segment] = rows_of_level(tmp_path, "segments")
    assert segment["modified"] == datetime(1969, 12, 31, 23, 59, 55, tzinfo=UTC)
    [entry] = rows_of_level(tmp_path, "indexes")
    assert (entry["offset"], entry["timestamp"]) == (3, datetime(1969, 12, 31, 23, 59, 56, tzinfo=UTC))


def test_timestamps_that_are_special_to_brokers(bulk):
    """In options they mean what they mean there; in a filter they are timestamps like others."""
    def bounds(**options):
        return [(piece.start, piece.end) for split in splits(bulk, **options) for piece in split]

    [(first, end)] = bounds()
    assert bounds(startingOffsetsByTimestamp='{"bulk":{"0":-1}}') == []
    assert bounds(startingOffsetsByTimestamp='{"bulk":{"0":-2}}', endingOffsetsByTimestamp='{"bulk":{"0":-1}}') == [(first, end)]
    for moment in range(-9, 1):
        assert [(piece.start, piece.end) for split in splits(bulk, Bounds(from_ms=moment)) for piece in split] == [(first, end)]


def test_a_filter_by_time_passes_over_nothing_that_no_index_knows(own_corpus, tmp_path):
    shutil.copytree(next((own_corpus / "kafka-4.3.1/logs/clean").glob("*/small_segments-0")), tmp_path / "t-0")
    options = read_options({"path": str(tmp_path)})
    rows = [row for split in splits(tmp_path) for one in read_level(split, level_schema("records", ("offset", "timestamp")), options) for row in one.to_pylist()]
    middle = rows[len(rows) // 2]
    late = Bounds(from_ms=int(middle["timestamp"].timestamp() * 1000))

    def start():
        return splits(tmp_path, late)[0][0].start

    assert start() == min(row["offset"] for row in rows if row["timestamp"] >= middle["timestamp"])
    [unknown] = (tmp_path / "t-0").glob("*22.timeindex")
    unknown.unlink()
    os.utime(unknown.with_suffix(".log"), (1, 1))  # what a broker takes instead
    assert start() == 22


def test_timestamps_are_found_without_time_indexes(own_corpus, tmp_path):
    shutil.copytree(next((own_corpus / "kafka-4.3.1/logs/clean").glob("*/small_segments-0")), tmp_path / "t-0")
    rows = planned(tmp_path, "records", columns="offset,timestamp")()
    late = rows[-9]["timestamp"]
    by_time = {"startingTimestamp": str(int(late.timestamp() * 1000)), "columns": "offset,timestamp"}
    before = planned(tmp_path, "records", **by_time)()
    for index in (tmp_path / "t-0").glob("*.timeindex"):
        index.unlink()
    assert planned(tmp_path, "records", **by_time)() == before == [row for row in rows if row["offset"] >= before[0]["offset"]]


def test_an_index_out_of_order_gives_no_record_twice(own_corpus, tmp_path):
    source = next(own_corpus.glob("kafka-4.3.1/logs/clean/*/dense-index-0"))
    shutil.copytree(source, tmp_path / "dense-index-0")
    index = tmp_path / "dense-index-0" / "00000000000000000000.index"
    data = index.read_bytes()
    entries = [data[at : at + 8] for at in range(0, len(data), 8)]
    assert len(entries) > 4
    offsets = [entry[:4] for entry in entries]
    index.write_bytes(b"".join(offset + entry[4:] for offset, entry in zip(reversed(offsets), entries, strict=True)))
    pieces = [piece for split in splits(tmp_path, splitBytes="1k") for piece in split]
    assert pieces[0].start == splits(source)[0][0].start
    assert all(one.end == after.start for one, after in itertools.pairwise(pieces))
    assert pieces[-1].end == splits(source)[0][0].end


def test_nulls_where_the_schema_says_none_are_one_sentence():
    wanted = pa.schema([pa.field("offset", pa.int64(), nullable=False), pa.field("value", pa.binary())])
    batch = pa.record_batch({"offset": pa.array([1, 2], pa.int64()), "value": pa.array([None, b""], pa.binary())})
    assert fitted(batch, wanted).schema == wanted
    with pytest.raises(LogDirError, match="kafkalog: column 'value' has nulls, and the schema says that it has none"):
        fitted(batch, pa.schema([wanted.field(0), wanted.field(1).with_nullable(False)]))


@pytest.mark.usefixtures("sources")
def test_a_schema_that_names_a_column_twice_is_one_sentence():
    from pyspark.sql.types import LongType, StructField, StructType

    with pytest.raises(OptionError, match="kafkalog: the schema has the column 'offset' 2 times"):
        wanted_schema(StructType([StructField("offset", LongType())] * 2))


def test_pieces_follow_each_other_without_a_hole(bulk):
    [[whole]] = splits(bulk, splitBytes="1g")
    for size in ("1k", "5k", "30k", "100k"):
        pieces = [piece for split in splits(bulk, splitBytes=size) for piece in split]
        assert pieces[0].start == whole.start
        assert pieces[-1].end == whole.end
        assert all(one.end == after.start for one, after in itertools.pairwise(pieces))
        assert sum(piece.size for piece in pieces) == whole.size


def test_many_small_partitions_come_together(own_corpus):
    top = own_corpus / "kafka-4.3.1/logs/clean"
    together, parted = splits(top), splits(top, minPartitions="7")
    assert len(together) == 1
    assert 7 <= len(parted) <= 14
    for splitted in (together, parted):
        assert sum(piece.end - piece.start for split in splitted for piece in split) == sum(one.end - one.start for one in together[0])


def test_bounds_leave_out_partitions_and_offsets(own_corpus):
    top = own_corpus / "kafka-4.3.1/logs/clean"
    [pieces] = splits(top, Bounds(topics=frozenset({"multi"}), partitions=frozenset({1}), first_offset=3, end_offset=5))
    assert [(piece.topic, piece.partition, piece.start, piece.end) for piece in pieces] == [("multi", 1, 3, 5)]


@pytest.mark.parametrize("checked", [False, True])
def test_each_batch_is_in_one_piece(own_corpus, checked):
    source = next((own_corpus / "kafka-4.3.1/logs/clean").glob("*/codec.lz4-0"))
    names = ["baseOffset", "lastOffset", "recordCount", "position", "segment", "sizeInBytes", *(["isValid"] if checked else [])]
    options = read_options({"path": str(source), "level": "batches", "columns": ",".join(names)})
    schema = level_schema("batches", options.columns)

    def rows(**more):
        planned = splits(source, level="batches", **more)
        return [row for split in planned for batch in read_level(split, schema, options) for row in batch.to_pylist()]

    whole = rows(splitBytes="1g")
    assert rows(splitBytes="5k") == rows(splitBytes="30k") == whole
    assert all(one["lastOffset"] < after["baseOffset"] for one, after in itertools.pairwise(whole))
    inside = whole[3]["baseOffset"] + 1
    late = rows(startingOffsets=f'{{"codec.lz4":{{"0":{inside}}}}}')
    assert late == whole[3:]
    assert all(row.get("isValid", True) for row in whole)


@pytest.mark.parametrize("level", ["records", "batches"])
@pytest.mark.parametrize("size", [b"\xff\xff\xff\xf0", b"\x7f\xff\xff\xf0"], ids=["negative", "behind-the-end"])
@pytest.mark.parametrize(("name", "segment"), [("compact_delete-0", 3), ("small_segments-0", 0), ("small_segments-0", -1)])
def test_damage_before_the_first_record_of_a_segment_is_a_matter_of_on_corruption(own_corpus, tmp_path, name, segment, size, level):
    """Not of planning, which looks for where pieces begin, nor of where the log ends: something sound stands behind it."""
    shutil.copytree(next((own_corpus / "kafka-4.3.1/logs/clean").glob(f"*/{name}")), tmp_path / "t-0")
    log = sorted((tmp_path / "t-0").glob("*.log"))[segment]
    offset = "baseOffset" if level == "batches" else "offset"

    def rows(choice):
        options = read_options({"path": str(tmp_path), "level": level, "onCorruption": choice, "splitBytes": "1k"})
        schema = level_schema(level, options.columns)
        splitted = plan_level(options, Bounds())
        return [row[offset] for split in splitted for one in read_level(split, schema, options) for row in one.to_pylist()]

    whole, data = rows("fail"), bytearray(log.read_bytes())
    base = int.from_bytes(data[:8], "big")
    last = base + int.from_bytes(data[23:27], "big")
    data[8:12] = size  # of the first batch
    log.write_bytes(data)
    with pytest.raises(ValueError, match=f"kafkalog: {log}.*set onCorruption to skip or report to continue without the damaged part"):
        rows("fail")
    assert rows("skip") == rows("report") == [one for one in whole if not base <= one <= last]


@pytest.mark.parametrize(("tail", "is_damage"), [(b"\xff" * 700, True), (bytes(700), False), (b"\0\0\0\0\0\0\0\x63\0\0\x20\0abc", False)])
@pytest.mark.parametrize("emptied", [False, True])
def test_what_stands_behind_the_last_batch(own_corpus, tmp_path, caplog, tail, is_damage, emptied):
    """A batch that is cut off and zeros are where a broker writes; anything else is damage that no task would meet."""
    shutil.copytree(next((own_corpus / "kafka-4.3.1/logs/clean").glob("*/small_segments-0")), tmp_path / "t-0")
    log = max((tmp_path / "t-0").glob("*.log"))
    log.write_bytes(tail if emptied else log.read_bytes() + tail)

    def planned(choice, **more):
        return [piece[3:5] for split in splits(tmp_path, onCorruption=choice, **more) for piece in split]

    if is_damage:
        with pytest.raises(ValueError, match=f"kafkalog: {log} at position .*: batch-size-invalid: .*set onCorruption"):
            planned("fail")
        follow = read_options({"path": str(tmp_path), "startingOffsets": "earliest"}, streaming=True)
        with pytest.raises(ValueError, match=f"kafkalog: {log} at position .*: batch-size-invalid: .*set onCorruption"):
            last_offsets(follow, first_offsets(follow))
        assert planned("fail", endingOffsets='{"t":{"0":40}}') == [(0, 40)]
        end = planned("skip")[-1][1]
        assert not caplog.messages
        assert planned("report") == planned("skip")
        assert "batch-size-invalid" in caplog.messages[0]
    else:
        end = planned("fail")[-1][1]
    assert end == (83 if emptied else 89)


def test_a_copy_that_is_damaged_at_its_end_is_not_the_longest(own_corpus, tmp_path):
    for broker in ("one", "two"):
        shutil.copytree(next((own_corpus / "kafka-4.3.1/logs/clean").glob("*/small_segments-0")), tmp_path / broker / "t-0")
    log = max((tmp_path / "one" / "t-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    data[8] = 0x7F  # the size of its first batch; there is a second one
    log.write_bytes(data)
    options = read_options({"paths": json.dumps([str(tmp_path / "one"), str(tmp_path / "two")])})
    assert {piece.directory for split in plan(options, Bounds()) for piece in split} == {str(tmp_path / "two" / "t-0")}


@pytest.mark.parametrize("level", LEVELS)
def test_a_partition_that_a_broker_has_just_made_holds_nothing(own_corpus, tmp_path, level):
    for name in ("small_segments-0", "multi-0"):
        shutil.copytree(next((own_corpus / "kafka-4.3.1/logs/clean").glob(f"*/{name}")), tmp_path / name)

    def rows(path):
        options = read_options({"path": str(path), "level": level})
        schema = level_schema(level, options.columns)
        return [row for split in plan_level(options, Bounds()) for one in read_level(split, schema, options) for row in one.to_pylist()]

    before = rows(tmp_path)
    (tmp_path / "new-0").mkdir()
    (tmp_path / "new-1").mkdir()
    (tmp_path / "new-1" / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    assert rows(tmp_path) == before
    if level in ("records", "batches", "segments"):  # the others look at files one by one
        with pytest.raises(ValueError, match="new-0: it does not contain the log of a partition"):
            rows(tmp_path / "new-0")
        (tmp_path / "new-1" / "00000000000000000000.index").write_bytes(b"")  # something was there
        with pytest.raises(ValueError, match="new-1: it does not contain the log of a partition"):
            rows(tmp_path)


def planned(path, level, **more):
    """A function that reads the rows which were planned when it was made."""
    options = read_options({"path": str(path), "level": level, **more})
    schema, splitted = level_schema(level, options.columns), plan_level(options, Bounds())
    return lambda: [row for split in splitted for one in read_level(split, schema, options) for row in one.to_pylist()]


@pytest.mark.parametrize(("most", "parts"), [(1, 1), (7, 1), (10, 40), (88, 1), (89, 1), (10**9, 1)])
def test_no_task_has_more_records_than_it_may(own_corpus, tmp_path, most, parts):
    for name in ("small_segments-0", "codec.zstd-0"):
        shutil.copytree(next((own_corpus / "kafka-4.3.1/logs/clean").glob(f"*/{name}")), tmp_path / name)
    options = read_options({"path": str(tmp_path), "columns": "topic,offset", "maxRecordsPerPartition": str(most), "minPartitions": str(parts)})
    tasks = [[row for batch in read_level(split, level_schema("records", options.columns), options) for row in batch.to_pylist()] for split in plan(options, Bounds())]
    assert max(map(len, tasks)) <= most
    assert len(tasks) >= parts
    rows = [row for task in tasks for row in task]
    assert rows == planned(tmp_path, "records", columns="topic,offset")()
    assert len(tasks) < 3 * (-(-len(rows) // most) + parts)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("magic", [1, 2])
def test_what_ends_inside_of_a_batch_is_read_committed_up_to_there(tmp_path, magic, codec):
    (tmp_path / "t-0").mkdir()
    made = [build_batch([NewRecord(offset, 1, None, b"v") for offset in range(first, first + 9)], magic=magic, codec=codec) for first in (0, 9, 30)]
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(b"".join(made[:2]))
    (tmp_path / "t-0" / f"{18:020}.log").write_bytes(made[2])
    committed = {"columns": "offset", "kafka.isolation.level": "read_committed"}
    rows = planned(tmp_path, "records", columns="offset")()
    assert len(rows) == 27
    for most in (1, 4, 10):
        assert planned(tmp_path, "records", maxRecordsPerPartition=str(most), **committed)() == rows
    for end in range(40):
        ending = json.dumps({"t": {"0": end}})
        assert planned(tmp_path, "records", endingOffsets=ending, **committed)() == [row for row in rows if row["offset"] < end]


def test_what_begins_inside_of_a_batch_behind_damage_is_read(tmp_path):
    (tmp_path / "t-0").mkdir()
    made = [bytearray(build_batch([NewRecord(offset, 1, None, b"v") for offset in range(first, first + 9)])) for first in (0, 9, 18, 27)]
    made[1][8:12] = bytes(4)  # its size: what comes behind has to be searched for
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(b"".join(made))
    skipping = {"columns": "offset", "onCorruption": "skip"}
    left = [{"offset": offset} for offset in (*range(9), *range(18, 36))]
    assert planned(tmp_path, "records", **skipping)() == left
    for most in (1, 4, 10):
        for isolation in ("read_committed", "read_uncommitted"):
            more = {"maxRecordsPerPartition": str(most), "kafka.isolation.level": isolation}
            assert planned(tmp_path, "records", **skipping, **more)() == left
    for start in range(37):
        starting = json.dumps({"t": {"0": start}})
        assert planned(tmp_path, "records", startingOffsets=starting, **skipping)() == [row for row in left if row["offset"] >= start]


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("changed", [1, 4])
@pytest.mark.parametrize("by", [2, 16, 1 << 10, 1 << 40, -2, -5, -(1 << 63)])
def test_a_batch_whose_offset_was_changed_hides_no_other_one(tmp_path, isolation, changed, by):
    """Its checksum does not cover the offset."""
    (tmp_path / "t-0").mkdir()
    made = [bytearray(build_batch([NewRecord(offset, 1, None, b"v") for offset in range(first, first + 5)])) for first in range(0, 60, 5)]
    made[changed][:8] = (5 * changed + by).to_bytes(8, "big", signed=True)
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(b"".join(made[:8]))
    (tmp_path / "t-0" / f"{40:020}.log").write_bytes(b"".join(made[8:]))
    level = {"columns": "offset", "kafka.isolation.level": isolation}
    for more in ({}, {"endingOffsets": '{"t":{"0":35}}'}, *({"maxRecordsPerPartition": str(most)} for most in (1, 5, 7, 10))):
        with pytest.raises(LogDirError, match="offset-order"):
            planned(tmp_path, "records", **level, **more)()
    left = {row["offset"] for row in planned(tmp_path, "records", onCorruption="skip", **level)()}
    assert left >= set(range(60)) - set(range(5 * changed, 5 * changed + 5))
    assert left <= set(range(60))


@pytest.mark.parametrize("level", ["records", "batches"])
@pytest.mark.parametrize(("rows", "to"), [(1, 3), (2, 3), (2, 5), (3, 5)])
def test_a_last_batch_that_lies_below_its_segment_is_told(tmp_path, rows, to, level):
    (tmp_path / "t-0").mkdir()
    made = [bytearray(build_batch([NewRecord(offset, 1, None, b"v")])) for offset in range(6 + rows)]
    made[-1][:8] = to.to_bytes(8)
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(b"".join(made[:6]))
    (tmp_path / "t-0" / f"{6:020}.log").write_bytes(b"".join(made[6:]))
    with pytest.raises(LogDirError, match="offset-order"):
        planned(tmp_path, level)()
    name = "offset" if level == "records" else "baseOffset"
    left = [row[name] for row in planned(tmp_path, level, columns=name, onCorruption="skip")()]
    assert set(left) >= set(range(5 + rows))


def test_a_log_of_many_offsets_is_not_cut_into_more_tasks_than_a_driver_can_hold(tmp_path):
    (tmp_path / "t-0").mkdir()
    made = [build_batch([NewRecord(offset, 1, None, b"v")]) for offset in (0, 1 << 40)]
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(made[0])
    (tmp_path / "t-0" / f"{1 << 40:020}.log").write_bytes(made[1])
    with pytest.raises(OptionError, match=r"maxRecordsPerPartition is 1, and 1099511627777 offsets are wanted: .* at least 10995117,"):
        planned(tmp_path, "records", maxRecordsPerPartition="1")
    rows = planned(tmp_path, "records", columns="offset", maxRecordsPerPartition=str(1 << 37))()
    assert [row["offset"] for row in rows] == [0, 1 << 40]


@pytest.mark.parametrize("columns", ["baseOffset", "baseOffset,isValid"])
@pytest.mark.parametrize("to", [2, 7, 1 << 40])
def test_a_batch_whose_offset_was_changed_hides_no_header_either(tmp_path, to, columns):
    (tmp_path / "t-0").mkdir()
    made = [bytearray(build_batch([NewRecord(first, 1, None, b"v")])) for first in range(12)]
    made[5][:8] = to.to_bytes(8)
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(b"".join(made[:9]))
    (tmp_path / "t-0" / f"{9:020}.log").write_bytes(b"".join(made[9:]))
    for ending in (6, 8, 12):
        asked = {"columns": columns, "endingOffsets": json.dumps({"t": {"0": ending}})}
        with pytest.raises(LogDirError, match="offset-order"):
            planned(tmp_path, "batches", **asked)()
        rows = planned(tmp_path, "batches", onCorruption="skip", **asked)()
        assert {row["baseOffset"] for row in rows} >= set(range(ending)) - {5}
        assert all(row.get("isValid", True) for row in rows)


@pytest.mark.parametrize("level", ["records", "batches"])
def test_what_retention_takes_between_planning_and_reading(own_corpus, tmp_path, level):
    for name in ("small_segments-0", "multi-0"):
        shutil.copytree(next((own_corpus / "kafka-4.3.1/logs/clean").glob(f"*/{name}")), tmp_path / name)

    offset = "offset" if level == "records" else "baseOffset"
    every = planned(tmp_path, level)()
    strict, lenient = planned(tmp_path, level), planned(tmp_path, level, failOnDataLoss="false")
    for path in (tmp_path / "small_segments-0").glob("00000000000000000000.*"):
        path.unlink()
    with pytest.raises(DataLossError, match="small_segments-0: offset 0 is due, and the log begins at 22"):
        strict()
    assert lenient() == [row for row in every if row["topic"] == "multi" or row[offset] >= 22]
    shutil.rmtree(tmp_path / "small_segments-0")
    with pytest.raises(LogDirError, match="small_segments-0: No such file or directory"):
        strict()
    assert lenient() == [row for row in every if row["topic"] == "multi"]


@pytest.mark.parametrize("level", ["records", "batches"])
def test_an_end_that_goes_between_planning_and_reading(own_corpus, tmp_path, level):
    """As where a leader cuts its log, or an executor sees an older state of a shared file system."""
    shutil.copytree(next((own_corpus / "kafka-4.3.1/logs/clean").glob("*/small_segments-0")), tmp_path / "t-0")
    last = max((tmp_path / "t-0").glob("*.log"))

    offset = "offset" if level == "records" else "baseOffset"
    every = planned(tmp_path, level)()
    strict, lenient = planned(tmp_path, level), planned(tmp_path, level, failOnDataLoss="false")
    for path in last.parent.glob(last.stem + "*"):
        path.unlink()
    with pytest.raises(DataLossError, match=f"t-0: offset 88 is due, and the log ends at {int(last.stem)}"):
        strict()
    assert lenient() == [row for row in every if row[offset] < int(last.stem)]


def test_of_many_findings_the_rest_is_counted():
    def work(report):
        for at in range(1005):
            report(Finding("crc-mismatch", Where("t-0/a.log", at), "…"))
            report(Finding("index-corrupt", Where(f"t-0/{at}.index"), "…"))

    rows = list(limited_findings(Piece("t-0", "t", 0, 0, 9, 1), work))
    assert [row["what"] for row in rows if row["file"] == "t-0/a.log"] == ["…"] * 1000 + ["5 more"]
    assert len([row for row in rows if row["code"] == "index-corrupt"]) == 1005


def test_of_a_small_partition_no_more_is_opened_than_its_end(own_corpus, tmp_path, monkeypatch):
    """What is read whole begins where its segments begin: where that is, no index has to say."""
    opened = []

    def open_noting(files, path):
        opened.append(path.removeprefix(f"{tmp_path}/"))
        return original(files, path)

    for number in range(2):
        shutil.copytree(next(own_corpus.glob("kafka-4.3.1/logs/clean/*/small_segments-0")), tmp_path / f"small-{number}")
    original = ReadOnlyFiles.open
    monkeypatch.setattr(ReadOnlyFiles, "open", open_noting)
    pieces = splits(tmp_path)
    assert opened == ["small-0/00000000000000000083.log", "small-1/00000000000000000083.log"]
    assert [(piece.start, piece.end) for split in pieces for piece in split] == [(0, 89), (0, 89)]
    opened.clear()
    options = read_options({"path": str(tmp_path)})
    assert sum(batch.num_rows for split in pieces for batch in read_level(split, level_schema("records", options.columns), options)) == 2 * 89
    assert not [name for name in opened if name.endswith("leader-epoch-checkpoint")]


def test_partitions_of_a_split_share_their_columns(own_corpus, tmp_path, monkeypatch):
    made = []

    def init_noting(table, *size):
        made.extend([] if size else [type(table)])  # small ones are for markers of transactions
        original(table, *size)

    for number in range(4):
        shutil.copytree(next(own_corpus.glob("kafka-4.3.1/logs/clean/*/small_segments-0")), tmp_path / f"small-{number}")
    original = RecordColumns.__init__
    monkeypatch.setattr(RecordColumns, "__init__", init_noting)
    options = read_options({"path": str(tmp_path)})
    [split] = splits(tmp_path)
    assert sum(batch.num_rows for batch in read_level(split, level_schema("records", options.columns), options)) == 4 * 89
    assert made == [RecordColumns]


def test_the_document_names_every_column_that_records_may_have():
    text = (Path(__file__).parents[2] / "docs" / "spark/reading.md").read_text()
    said = text[text.index("## Columns") : text.index("## Options")]
    assert {name for name in types_for("records") if f"`{name}`" not in said} == set()


@pytest.mark.parametrize("level", ["records", "batches"])
def test_tasks_plan_as_the_driver_does(spark, own_corpus, tmp_path, monkeypatch, caplog, level):
    """They tell of the same, too: what is logged and what fails."""
    from kafkalog_spark import tasks
    from kafkalog_spark.table import planning

    top = own_corpus / "kafka-4.3.1/logs/unclean"
    options = read_options({"path": str(top), "level": level, "kafka.isolation.level": "read_committed", "splitBytes": "20k"})
    with caplog.at_level("WARNING", logger="kafkalog"):
        wanted = plan_level(options, Bounds())
        said = caplog.messages.copy()
        caplog.clear()
        monkeypatch.setattr(planning, "_MANY", 1)
        monkeypatch.setattr(tasks, "_PLANNED", 7)
        assert plan_level(options, Bounds(), partial(tasks.plan_in_tasks, spark)) == wanted
    assert len({piece.directory for split in wanted for piece in split}) > 7
    assert sorted(caplog.messages) == sorted(said)
    assert said
    shutil.copytree(top, tmp_path / "logs")
    log = max((tmp_path / "logs").glob("*/u-rolls-0/*.log"))
    log.write_bytes(log.read_bytes() + b"\xff" * 700)
    damaged = read_options({"path": str(tmp_path / "logs"), "level": level})
    sentences = []
    for spread in (None, partial(tasks.plan_in_tasks, spark)):
        with pytest.raises(LogDirError) as caught:
            plan_level(damaged, Bounds(), spread)
        sentences.append(str(caught.value))
    assert sentences[0] == sentences[1]
    assert sentences[0].startswith(f"kafkalog: {log} at position ")

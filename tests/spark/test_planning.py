"""What is read and how it is cut, without a session: options, ranges, splits."""

from __future__ import annotations

import itertools
import shutil

import pytest

from kafkalog_spark.table.columns import level_schema
from kafkalog_spark.table.filters import Bounds
from kafkalog_spark.table.levels import plan_level, read_level
from kafkalog_spark.table.options import read_options
from kafkalog_spark.table.planning import plan


@pytest.fixture
def bulk(corpus):
    return next((corpus / "kafka-4.3.1/logs/clean").glob("*/bulk-0"))


def splits(path, bounds=None, **options):
    return plan(read_options({"path": str(path), **options}), bounds or Bounds())


@pytest.mark.parametrize(("options", "what"), [
    ({"startingOffsets": "latest"}, "starting offset can't be latest for batch queries"),
    ({"startingOffsets": '{"bulk":{"0":-1}}'}, "startingOffsets for bulk-0 can't be latest"),
    ({"endingOffsets": "earliest"}, "ending offset can't be earliest"),
    ({"startingOffsets": "soon"}, "got soon"),
    ({"startingOffsets": '{"bulk":{"0":0,"1":0}}'}, "you must specify all TopicPartitions"),
    ({"startingOffsets": '{"bulk":{"0":99999999}}'}, "are asked for and [0,"),
    ({"startingTimestamp": "99999999999999"}, "No offset matched"),
    ({"subscribe": "a", "assign": '{"a":[0]}'}, "Only one of the following options"),
    ({"subscribe": " ,"}, "No topics to subscribe to"),
    ({"subscribe": "nothing"}, "not there: nothing"),
    ({"subscribePattern": "("}, "is no pattern"),
    ({"level": "bits"}, "level is 'bits'"),
    ({"columns": "offzet"}, "no column 'offzet'"),
    ({"splitBytes": "-1"}, "no positive number"),
    ({"minOffsetsPerTrigger": "few"}, "minOffsetsPerTrigger is 'few', which is no positive number"),
    ({"maxTriggerDelay": "soon"}, "maxTriggerDelay is 'soon', which is no time such as 15m"),
    ({"minPartitions": str(2**63)}, "which is more than 9223372036854775807"),
    ({"paths": "/a,/b"}, "paths is '/a,/b', which is no list of paths in JSON"),
    ({"paths": "[7]"}, "which is no list of paths in JSON"),
    ({"kafka.auto.offset.reset": "earliest"}, "'auto.offset.reset' is not supported"),
    ({"ofset": "1"}, "unknown option 'ofset'"),
])  # fmt: skip
def test_bad_options_are_one_sentence(bulk, options, what):
    with pytest.raises(ValueError, match="kafkalog: ") as caught:
        splits(bulk, **options)
    assert what in str(caught.value)
    assert "\n" not in str(caught.value)


def test_pieces_follow_each_other_without_a_hole(bulk):
    [[whole]] = splits(bulk, splitBytes="1g")
    for size in ("1k", "5k", "30k", "100k"):
        pieces = [piece for split in splits(bulk, splitBytes=size) for piece in split]
        assert pieces[0].start == whole.start
        assert pieces[-1].end == whole.end
        assert all(one.end == after.start for one, after in itertools.pairwise(pieces))
        assert sum(piece.size for piece in pieces) == whole.size


def test_many_small_partitions_come_together(corpus):
    top = corpus / "kafka-4.3.1/logs/clean"
    together, parted = splits(top), splits(top, minPartitions="7")
    assert len(together) == 1
    assert 7 <= len(parted) <= 14
    for splitted in (together, parted):
        assert sum(piece.end - piece.start for split in splitted for piece in split) == sum(one.end - one.start for one in together[0])


def test_bounds_leave_out_partitions_and_offsets(corpus):
    top = corpus / "kafka-4.3.1/logs/clean"
    [pieces] = splits(top, Bounds(topics=frozenset({"multi"}), partitions=frozenset({1}), first_offset=3, end_offset=5))
    assert [(piece.topic, piece.partition, piece.start, piece.end) for piece in pieces] == [("multi", 1, 3, 5)]


@pytest.mark.parametrize("checked", [False, True])
def test_each_batch_is_in_one_piece(corpus, checked):
    source = next((corpus / "kafka-4.3.1/logs/clean").glob("*/codec.lz4-0"))
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
@pytest.mark.parametrize("segment", [0, 3])
def test_damage_before_the_first_record_of_a_segment_is_a_matter_of_on_corruption(corpus, tmp_path, segment, level):
    """Not of planning, which looks for where pieces begin."""
    shutil.copytree(next((corpus / "kafka-4.3.1/logs/clean").glob("*/compact_delete-0")), tmp_path / "t-0")
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
    data[8:12] = b"\xff\xff\xff\xf0"  # of the first batch
    log.write_bytes(data)
    with pytest.raises(ValueError, match=f"kafkalog: {log}.*set onCorruption to skip or report to go on"):
        rows("fail")
    if level == "records":
        assert rows("skip") == rows("report") == [one for one in whole if not base <= one <= last]
    else:
        left = rows("skip")
        assert base not in left
        assert set(left) < set(whole)

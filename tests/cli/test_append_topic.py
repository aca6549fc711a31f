"""kafkalog append --topic: records go to partitions in the batches of Kafka's producer."""

import json

import pytest

from engine.formats import BATCH_HEADER
from engine.producer.partitioner import partition_for_key
from tests.support.run import kafkalog


@pytest.fixture
def log_dir(tmp_path):
    (tmp_path / "logs").mkdir()
    return tmp_path / "logs"


def append(log_dir, lines, *options, status=0):
    source = log_dir.parent / "input"
    source.write_text("".join(line + "\n" for line in lines))
    done = kafkalog("append", "--topic", "orders", "--input", str(source), *options, str(log_dir))
    assert done.status == status, done.err
    return done


def objects(count, **more):
    return [json.dumps({"key": f"k{one % 17}", "value": f"{one:090}", **more}) for one in range(count)]


def batches(log_dir, partition, topic="orders"):
    data, found = (log_dir / f"{topic}-{partition}/00000000000000000000.log").read_bytes(), []
    at = 0
    while at < len(data):
        header = BATCH_HEADER.read(data, at)
        found.append(header)
        at += 12 + header.batch_length
    return found


def test_keys_choose_the_partition(log_dir):
    append(log_dir, objects(1000), "--create", "--partitions", "5", "--timestamp", "1000")
    expected = [0] * 5
    for one in range(1000):
        expected[partition_for_key(f"k{one % 17}".encode(), 5)] += 1
    assert [sum(batch.record_count for batch in batches(log_dir, one)) for one in range(5)] == expected
    found = batches(log_dir, 0)
    assert [batch.base_offset for batch in found] == [sum(one.record_count for one in found[:at]) for at in range(len(found))]
    assert {batch.base_timestamp for batch in found} == {1000}


def test_batches_are_those_that_a_producer_fills(log_dir):
    append(log_dir, objects(200), "--create", "--partitions", "1", "--batch-size", "1000", "--timestamp", "0")
    *full, last = batches(log_dir, 0)
    # a record of 90 bytes with a key of 2 or 3 takes 100 or 101 bytes from the second one on
    assert all(900 < batch.batch_length + 12 <= 1000 for batch in full)
    assert last.batch_length + 12 <= 1000


def test_partitions_that_exist_need_no_count(log_dir):
    append(log_dir, objects(50), "--create", "--partitions", "3")
    append(log_dir, objects(50))
    assert sum(batch.record_count for one in range(3) for batch in batches(log_dir, one)) == 100


def test_sticky_partitions_follow_the_seed(log_dir, tmp_path):
    lines = [json.dumps({"value": "v" * 200}) for _ in range(500)]
    (tmp_path / "other").mkdir()
    for where in (log_dir, tmp_path / "other"):
        append(where, lines, "--create", "--partitions", "4", "--seed", "7", "--batch-size", "2000", "--timestamp", "0")
    one, other = ([batches(where, number) for number in range(4)] for where in (log_dir, tmp_path / "other"))
    assert one == other
    assert sum(map(bool, one)) > 1
    assert all(batch.record_count >= 9 for found in one for batch in found[:-1])


def test_round_robin(log_dir):
    append(log_dir, objects(9), "--create", "--partitions", "3", "--partitioner", "round-robin")
    assert [sum(batch.record_count for batch in batches(log_dir, one)) for one in range(3)] == [3, 3, 3]


def test_linger_closes_batches_by_the_time_of_the_records(log_dir):
    lines = [json.dumps({"key": "k", "value": "v", "timestamp": one}) for one in (0, 5, 9, 10, 30)]
    append(log_dir, lines, "--create", "--partitions", "1", "--linger", "10")
    assert [batch.record_count for batch in batches(log_dir, 0)] == [3, 1, 1]


def test_text_and_a_codec(log_dir):
    append(log_dir, [f"k{one}:{'v' * 50}" for one in range(300)], "--create", "--partitions", "2", "--input-format", "text",
           "--compression", "lz4")  # fmt: skip
    found = [batch for one in range(2) for batch in batches(log_dir, one)]
    assert {batch.attributes for batch in found} == {3}
    assert sum(batch.record_count for batch in found) == 300


def test_a_bad_line_changes_nothing(log_dir):
    done = append(log_dir, [*objects(5), "{"], "--create", "--partitions", "2", status=8)
    assert "line 6" in done.err
    assert list(log_dir.iterdir()) == []


def test_a_record_that_no_producer_takes_changes_nothing(log_dir):
    done = append(log_dir, [json.dumps({"value": "v" * (34 << 20)})], "--create", "--partitions", "2", status=8)
    assert "larger than" in done.err
    assert list(log_dir.iterdir()) == []


def test_a_dry_run_changes_nothing(log_dir):
    append(log_dir, objects(50), "--create", "--partitions", "2", "--timestamp", "0")
    before = [batches(log_dir, one) for one in range(2)]
    append(log_dir, objects(50), "--dry-run")
    assert [batches(log_dir, one) for one in range(2)] == before


def test_offsets_are_printed_as_json_for_each_partition(log_dir):
    done = append(log_dir, objects(50), "--create", "--partitions", "2", "--format", "jsonl")
    shown = [json.loads(line) for line in done.out.splitlines()]
    assert sum(one["records"] for one in shown if one["type"] == "appended") == 50
    assert {one["partition"].rpartition("/")[2] for one in shown if one["type"] == "appended"} == {"orders-0", "orders-1"}


@pytest.mark.parametrize(("options", "what"), [
    (["--partitions", "2", "--input-format", "raw"], "raw batches"), (["--partitions", "2", "--producer-id", "3"], "--producer-id"),
    (["--partitions", "2", "--input-format", "produce-request"], "raw batches and requests have a partition"),
    (["--partitions", "2", "--follower", "--input-format", "raw"], "raw batches"), ([], "no partition of topic orders"),
    (["--partitions", "2"], "does not exist"),
])  # fmt: skip
def test_options_that_make_no_sense_are_refused(log_dir, options, what):
    assert what in append(log_dir, objects(1), *options, status=2).err


def test_fewer_partitions_than_there_are_is_refused(log_dir):
    append(log_dir, objects(5), "--create", "--partitions", "3")
    assert "too few" in append(log_dir, objects(5), "--partitions", "2", status=2).err


@pytest.mark.parametrize("option", ["--partitions", "--linger", "--seed"])
def test_options_that_need_a_topic(log_dir, option):
    done = kafkalog("append", "--input", "/dev/null", option, "1", str(log_dir / "orders-0"))
    assert done.status == 2
    assert "--topic" in done.err

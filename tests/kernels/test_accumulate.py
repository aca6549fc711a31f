"""Partitions of keys as Kafka computes them; records that are appended while they fit, compared with BatchBuilder."""

import base64
import json
import random
from array import array

import pytest

from engine.formats import BATCH_HEADER, Codec, RecordField, Status
from engine.kernels.accumulate import (
    OpenRecords,
    given_partitions,
    group_rows,
    key_partitions,
    murmur2,
    rows_of,
    same_kind,
    upper_bound,
    upper_bounds,
)
from engine.record.assembly import BatchSpec
from engine.record.builder import BatchBuilder, NewRecord, stage
from tests.producer.comparing import stored

VECTORS = [json.loads(line) for line in stored("murmur2")]


NONE = memoryview(array("q", [0] * 40))  # partitions: every record has one


def longs(*numbers):
    return memoryview(array("q", numbers))


def random_records(rng, count):
    texts = (None, b"", b"k", b"x" * 63, b"y" * 64, b"z" * 200)
    headers = ((), ((b"h", b"1"),), ((b"h", None), (b"", b"")))
    return [NewRecord(0, rng.choice([0, 5, 10**12, 7]), rng.choice(texts), rng.choice(texts), rng.choice(headers)) for _ in range(count)]


def test_murmur2_and_partitions_are_those_of_kafka():
    keys = [base64.b64decode(vector["key_b64"]) for vector in VECTORS]
    data, columns = stage([NewRecord(0, 0, key, None) for key in keys])
    assert [murmur2(key) for key in keys] == [vector["murmur2"] for vector in VECTORS]
    for count in VECTORS[0]["partitions"]:
        partitions = longs(*[-1] * len(keys))
        assert key_partitions(data, columns.table, 0, len(keys), int(count), partitions) == (len(keys), Status.END)
        assert list(partitions) == [vector["partitions"][count] for vector in VECTORS]


def test_null_keys_and_given_partitions_are_left():
    data, columns = stage([NewRecord(0, 0, None, b"v"), NewRecord(0, 0, b"", b"v"), NewRecord(0, 0, b"a", b"v")])
    partitions = longs(-1, -1, 7)
    assert key_partitions(data, columns.table, 0, 3, 3, partitions) == (3, Status.END)
    assert list(partitions) == [-1, 275646681 % 3, 7]


def test_given_partitions_stop_at_one_that_does_not_exist():
    partitions = longs(-1, -1, -1)
    assert given_partitions(longs(1, -1, 3), 0, 3, 3, partitions) == 2
    assert list(partitions) == [1, -1, -1]


def test_rows_are_grouped_in_order():
    rng = random.Random(1)
    partitions = longs(*(rng.randrange(5) for _ in range(100)))
    starts, rows = longs(*[0] * 6), longs(*[0] * 90)
    assert group_rows(partitions, 10, 100, -1, starts, rows)
    for partition in range(5):
        expected = [row for row in range(10, 100) if partitions[row] == partition]
        assert list(rows[starts[partition] : starts[partition + 1]]) == expected
    assert not group_rows(longs(5), 0, 1, -1, longs(*[0] * 6), rows)


def test_rows_without_a_partition_and_of_one_partition_are_left_out():
    partitions, starts, rows = longs(2, -1, 0, 1, -1, 0, 2), longs(0, 0, 0, 0), longs(*[9] * 7)
    assert group_rows(partitions, 0, 7, 0, starts, rows)
    assert (list(starts), list(rows[:3])) == ([0, 0, 1, 3], [3, 0, 6])
    assert rows_of(partitions, 1, 7, 0, rows) == 4
    assert list(rows[:4]) == [1, 2, 4, 5]


def test_only_records_without_a_partition_spend_the_budget():
    data, columns = stage([NewRecord(0, 0, None, bytes(91))] * 6)  # 101 bytes each
    records = OpenRecords(bytearray(1000), 1000, 0)
    partitions = longs(-1, 3, 3, -1, -1, -1)
    assert records.append(data, columns.table, partitions, longs(*range(6)), 0, 6, 250) == (4, Status.END)
    assert records.spent == 61 + 2 * records.written // 4


def test_runs_end_where_the_kind_changes():
    partitions = longs(-1, -1, 0, 4, -1)
    assert [same_kind(partitions, first, 5) for first in range(5)] == [2, 2, 4, 4, 5]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("limit", [100, 400, 3000])
def test_appends_what_the_builder_of_single_records_accepts(codec, limit):
    rng = random.Random(f"{codec} {limit}")
    for _ in range(50):
        records = random_records(rng, 40)
        data, columns = stage(records)
        one = BatchBuilder(BatchSpec(codec=codec), limit, 0.5)
        many = OpenRecords(bytearray(100_000), limit, 0 if codec == Codec.NONE else 0.5)
        done, status = many.append(data, columns.table, NONE, longs(*range(40)), 0, 40, 2**31)
        for record in records[:done]:
            assert one.has_room_for(record._replace(offset=one.next_offset))
            one.append(record._replace(offset=one.next_offset))
        assert status == Status.END
        assert done == 40 or not one.has_room_for(records[done]._replace(offset=one.next_offset))
        assert many.estimated_size == one.estimated_size
        assert bytes(many.body) == BatchBuilder.build(one)[BATCH_HEADER.size :] or codec != Codec.NONE


def test_estimated_sizes_are_floats_of_32_bits():
    data, columns = stage([NewRecord(0, 0, None, bytes(16_777_217 - 11))])
    records = OpenRecords(bytearray(17 << 20), 1 << 30, 0.1)
    records.append(data, columns.table, NONE, longs(0), 0, 1, 2**31)
    assert records.written == 16_777_219
    assert records.estimated_size == 61 + 1_761_608  # with numbers of 64 bits one less


def test_a_buffer_that_is_too_small_is_reported_and_can_be_replaced():
    data, columns = stage([NewRecord(0, 0, b"k", b"v" * 50)] * 2)
    records = OpenRecords(bytearray(70), 1000, 0)
    assert records.append(data, columns.table, NONE, longs(0, 1), 0, 2, 2**31) == (1, Status.FULL)
    before = bytes(records.body)
    records.grow(bytearray(200))
    assert records.append(data, columns.table, NONE, longs(0, 1), 1, 2, 2**31) == (2, Status.END)
    assert bytes(records.body).startswith(before)


def test_upper_bounds():
    records = [NewRecord(0, 0, None, bytes(size)) for size in (10, 914, 915, 10)]
    data, columns = stage(records)
    assert [upper_bound(data, columns.table, row) for row in range(4)] == [95, 1000, 1001, 95]
    assert upper_bounds(data, columns.table, 0, 4, 1000) == (2, 1000, 1095)
    assert upper_bounds(data, columns.table, 0, 4, 2000) == (4, 1001, 2191)
    assert upper_bound(data, columns.table, 4) == -1


def test_rows_that_do_not_exist_are_refused():
    data, columns = stage(random_records(random.Random(2), 3))
    records = OpenRecords(bytearray(1000), 1000, 0)
    assert records.append(data, columns.table, NONE, longs(9999999), 0, 1, 2**31)[1] == Status.BAD_START
    assert records.append(data, columns.table, NONE, longs(-1), 0, 1, 2**31)[1] == Status.BAD_START
    assert records.append(data, columns.table, NONE, longs(0), 0, 2, 2**31)[1] == Status.BAD_START
    assert key_partitions(data, columns.table, 0, 9999999, 3, longs(0))[1] == Status.BAD_START


@pytest.mark.parametrize("seed", range(200))
def test_wild_columns_are_refused(seed):
    rng = random.Random(seed)
    data, columns = stage(random_records(rng, 20))
    for field in RecordField:
        if rng.random() < 0.3:
            columns.field(field)[rng.randrange(20)] = rng.choice([-2, -(2**63), 2**31, 2**62, 2**63 - 1, len(data), len(data) + 1])
    records = OpenRecords(bytearray(2000), 1500, 0.7)
    at, status = records.append(data, columns.table, NONE, longs(*range(20)), 0, 20, 2**31)
    assert (status == Status.END) or (at < 20 and status in (Status.BAD_RECORD, Status.FULL))
    end, largest, total = upper_bounds(data, columns.table, 0, 20, 2**31)
    assert 0 <= end <= 20
    assert largest <= total
    key_partitions(data, columns.table, 0, 20, 7, longs(*[-1] * 20))

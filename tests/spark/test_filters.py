"""Filters that Spark pushes, or that `read` is given: exactly the rows that pass. Without a session, but for Spark's own classes."""

from __future__ import annotations

import operator
from datetime import UTC, datetime, timedelta, timezone

import pytest

from kafkalog_spark.errors import OptionError
from kafkalog_spark.table.columns import level_schema
from kafkalog_spark.table.levels import plan_level, read_level
from kafkalog_spark.table.options import Bounds, bounds_of, given_bounds, read_options

COLUMNS = ("topic", "partition", "offset", "timestamp")
COMPARE = {"=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
CLASSES = {"=": "EqualTo", "<": "LessThan", "<=": "LessThanOrEqual", ">": "GreaterThan", ">=": "GreaterThanOrEqual"}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def micros(moment):
    return (moment - EPOCH) // timedelta(microseconds=1)


def rows(top, bounds, **options):
    """Rows with timestamps in µs: some are beyond Python's calendar."""
    asked = read_options({"path": str(top), "columns": ",".join(COLUMNS), **options})
    schema = level_schema("records", asked.columns)
    return [tuple(row.values()) for split in plan_level(asked, bounds) for batch in read_level(split, schema, asked, bounds)
            for row in batch.set_column(3, "timestamp", batch.column(3).cast("int64")).to_pylist()]  # fmt: skip


@pytest.fixture(scope="module")
def top():
    from tests.support.corpus import own_corpus_directory

    return own_corpus_directory() / "kafka-4.3.1/logs/clean"


@pytest.fixture(scope="module")
def every(top):
    return rows(top, Bounds())


@pytest.mark.parametrize("sign", list(COMPARE))
@pytest.mark.parametrize("shift", [0, 1, 999, -1])
def test_times_select_exactly_the_rows_that_sql_selects(top, every, sign, shift):
    """To the microsecond; a timestamp that is null passes no filter."""
    known = sorted(row[3] for row in every if row[3] is not None and 0 < row[3] < 2**52)
    for at in (len(known) // 3, len(known) // 2, -1, 0):
        moment = EPOCH + timedelta(microseconds=known[at] + shift)
        bounds = given_bounds([("timestamp", sign, moment)], "records")
        assert rows(top, bounds) == [row for row in every if row[3] is not None and COMPARE[sign](row[3], micros(moment))]


@pytest.mark.parametrize("sign", list(COMPARE))
def test_offsets_select_exactly(top, every, sign):
    for offset in (0, 7, 99, 10**6):
        assert rows(top, given_bounds([("offset", sign, offset)], "records")) == [row for row in every if COMPARE[sign](row[2], offset)]


def test_several_filters_must_all_hold(top, every):
    times = sorted(row[3] for row in every if row[0] == "multi")
    first, last = (EPOCH + timedelta(microseconds=times[at]) for at in (len(times) // 4, len(times) // 2))
    filters = [("topic", "in", ["multi", "bulk"]), ("partition", "in", [0, 2]), ("timestamp", ">=", first), ("timestamp", "<", last), ("offset", ">", 1)]
    for options in ({}, {"splitBytes": "2k"}, {"kafka.isolation.level": "read_committed"}):
        found = rows(top, given_bounds(filters, "records"), **options)
        assert found == [row for row in every if row[0] in ("multi", "bulk") and row[1] in (0, 2) and row[2] > 1
                         and row[3] is not None and micros(first) <= row[3] < micros(last)]  # fmt: skip
        assert found
    assert rows(top, given_bounds([("topic", "=", "multi"), ("topic", "=", "bulk")], "records")) == []


@pytest.mark.usefixtures("sources")
def test_spark_applies_only_what_is_not_exact():
    from pyspark.sql import datasource as of

    moment = datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=2)))
    exact = [
        of.IsNotNull(("topic",)), of.EqualTo(("topic",), "t"), of.StringStartsWith(("topic",), "t"), of.In(("partition",), [1, None]),
        of.IsNotNull(("timestamp",)), of.GreaterThan(("timestamp",), moment), of.LessThanOrEqual(("offset",), 9), of.EqualNullSafe(("offset",), 3),
    ]  # fmt: skip
    left = [
        of.In(("offset",), [3, 5]), of.EqualTo(("key",), b"k"), of.Not(of.EqualTo(("topic",), "x")), of.IsNull(("topic",)), of.IsNotNull(("key",)),
        of.GreaterThan(("partition",), 1), of.StringEndsWith(("topic",), "t"), of.EqualTo(("timestampType",), 0), of.LessThan(("topic",), "z"),
    ]  # fmt: skip
    bounds, remaining = bounds_of([*exact, *left])
    assert [id(one) for one in remaining] == [id(one) for one in left]
    assert (bounds.first_offset, bounds.end_offset, bounds.topics, bounds.prefix) == (3, 4, {"t"}, "t")
    by_offset = of.GreaterThan(("offset",), 3)
    assert bounds_of([by_offset, exact[1]], "indexes") == (Bounds(topics=frozenset({"t"})), [by_offset])
    prefixes = [of.StringStartsWith(("topic",), "ab"), of.StringStartsWith(("topic",), "c")]
    assert not bounds_of(prefixes)[0].wants("cd", 0)


@pytest.mark.parametrize("one", [
    ("offset", "in", [1, 3]), ("key", "=", b"k"), ("offset", "~", 1), ("timestamp", ">", datetime(2026, 1, 1)), ("timestamp", ">", 7), "offset > 3",  # noqa: DTZ001  # refused
    ("offset",), ("offset", ">", "x"), ("offset", ">", None),
])  # fmt: skip
def test_a_filter_that_is_not_exact_is_refused(one):
    with pytest.raises(OptionError, match=r"kafkalog: filters: .* is not .column, operator, value."):
        given_bounds([one], "records")


def test_batches_outside_the_times_are_not_decoded(tmp_path, monkeypatch):
    """By their headers: the largest timestamp; with LogAppendTime it is that of all records."""
    from engine.record import reader
    from engine.record.builder import NewRecord, build_batch

    (tmp_path / "t-0").mkdir()
    batches = [build_batch([NewRecord(10 * number + one, 1000 * number, b"k", b"v") for one in range(10)], timestamp_type=1, log_append_time=1000 * number)
               for number in range(1, 40)]  # fmt: skip
    (tmp_path / "t-0/00000000000000000000.log").write_bytes(b"".join(batches))
    decoded = []
    before = reader.ChunkReader.chunks
    monkeypatch.setattr(reader.ChunkReader, "chunks", lambda self, window, first=0, end=None: decoded.append((window.rows if end is None else end) - first) or before(self, window, first, end))
    bounds = given_bounds([("timestamp", ">=", EPOCH + timedelta(seconds=20)), ("timestamp", "<", EPOCH + timedelta(seconds=23))], "records")
    assert sorted({row[3] for row in rows(tmp_path, bounds)}) == [20_000_000, 21_000_000, 22_000_000]
    assert sum(decoded) in (3, 4)  # one more to find the first offset


def test_spark_adds_up_what_tasks_read_and_skip(spark, top, tmp_path, caplog):
    from kafkalog_spark.tasks import Counters, read_mapped

    def counted(**given):
        counters = Counters(spark)
        with caplog.at_level("INFO", logger="kafkalog"):
            count = read_mapped(spark, (str(partition),), {"splitBytes": "5k", **given}, counters=counters).count()
        return count, counters.counts

    [partition] = top.glob("*/small_segments-0")
    every = rows(partition, Bounds())
    size = sum(path.stat().st_size for path in partition.glob("*.log"))
    count, counts = counted()
    assert (count, counts.bytes_read, counts.batches_skipped) == (len(every), size, 0)
    late = sorted(row[3] for row in every)[-20]
    count, counts = counted(filters=[("timestamp", ">=", EPOCH + timedelta(microseconds=late))])
    assert count == sum(row[3] >= late for row in every)
    assert 0 < counts.bytes_read < size
    skipped = [int(message.split()[-3]) for message in caplog.messages if "segments skipped" in message]
    assert skipped[0] == 0 < skipped[1] < len(list(partition.glob("*.log")))

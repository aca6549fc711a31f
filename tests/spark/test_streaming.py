"""A stream reads every record once: across restarts, limits, rolled and deleted segments."""

from __future__ import annotations

import itertools
import shutil

import pytest

from kafkalog_spark.errors import DataLossError, OptionError
from kafkalog_spark.table.following import first_offsets, from_stream, last_offsets, limited, plan_between, to_stream
from kafkalog_spark.table.options import read_options
from tests.support.needs import lacking


@pytest.fixture
def segments(own_corpus):
    return next((own_corpus / "kafka-4.3.1/logs/clean").glob("*/small_segments-0"))


@pytest.fixture
def grown(segments, tmp_path):
    """A partition that has the first two segments; `grow()` gives it the next one."""
    target = tmp_path / "logs" / segments.name
    target.mkdir(parents=True)
    names = sorted(path.name for path in segments.glob("*.log"))

    def grow(count=1):
        for name in [one for one in names if not (target / one).exists()][:count]:
            for path in segments.glob(name.removesuffix("log") + "*"):
                shutil.copy(path, target / path.name)

    grow(2)
    return target, grow


def options(path, **given):
    return read_options({"path": str(path), **given}, streaming=True)


def test_offsets_go_to_spark_and_back():
    offsets = {("a", 0): 3, ("a", 1): 0, ("b-1", 12): 2**62}
    assert from_stream(to_stream(offsets)) == offsets
    assert to_stream(offsets) == {"a": {"0": 3, "1": 0}, "b-1": {"12": 2**62}}


def test_a_limit_is_shared_out_by_what_is_due():
    begins, ends = {("a", 0): 0, ("a", 1): 10, ("b", 0): 5}, {("a", 0): 900, ("a", 1): 110, ("b", 0): 5}
    for most in (1, 2, 10, 99, 100, 500, 999):
        got = limited(begins, ends, most)
        assert sum(got[key] - begins[key] for key in got) <= most
        assert all(begins[key] <= got[key] <= ends[key] for key in got)
        assert got != begins
    assert limited(begins, ends, 1000) == ends
    assert limited(begins, ends, 100)["a", 0] == 90


@pytest.mark.parametrize("most", [1, 7, 10, 11, 15])
@pytest.mark.parametrize("busy", [1, 10, 40])
def test_a_limit_starves_nobody(most, busy):
    """Partitions that get a row each in every trigger, and one with a backlog."""
    large, small = ("t", 7), [("s", number) for number in range(busy)]
    at = dict.fromkeys([large, *small], 0)
    ends = {large: 1_000_000}
    first_of = {}
    for trigger in range(1000):
        ends |= dict.fromkeys(small, trigger + 1)
        following = limited(at, ends, most)
        assert sum(following[key] - at[key] for key in at) == min(most, sum(ends[key] - at[key] for key in at))
        for key in at:
            if following[key] > at[key]:
                first_of.setdefault(key, trigger)
        at = following
    assert max(first_of[key] for key in at) <= 2 * busy
    assert at[large] >= max(1000 * (most - busy), 1000 // (busy + 1) // 2)
    assert min(at[key] for key in small) >= 1000 // (busy + 1) // 2


def test_every_limit_comes_to_the_end(grown):
    target, grow = grown
    grow(3)
    asked = options(target, startingOffsets="earliest")
    for most in (1, 7, 50):
        at, read = first_offsets(asked), []
        while True:
            ends, begins = last_offsets(asked, at)
            following = limited(begins, ends, most)
            if following == at:
                break
            read += [(piece.start, piece.end) for split in plan_between(asked, at, following) for piece in split]
            at = following
        assert read[0][0] == 0
        assert all(one[1] == two[0] for one, two in itertools.pairwise(read))
        assert read[-1][1] == ends["small_segments", 0]


def test_what_is_gone_is_said(grown):
    target, _grow = grown
    asked, lenient = options(target, startingOffsets="earliest"), options(target, startingOffsets="earliest", failOnDataLoss="false")
    start = first_offsets(asked)
    first = min(target.glob("*.log"))
    for path in target.glob(first.stem + "*"):
        path.unlink()
    with pytest.raises(DataLossError, match="offset 0 is due"):
        last_offsets(asked, start)
    ends, begins = last_offsets(lenient, start)
    assert 0 < begins["small_segments", 0] < ends["small_segments", 0]
    with pytest.raises(DataLossError, match="no longer in the log dirs: other-3"):
        last_offsets(asked, {("other", 3): 7})
    ends, begins = last_offsets(lenient, {("other", 3): 7})
    assert ends.keys() == begins.keys() == {("small_segments", 0), ("other", 3)}
    assert ends["other", 3] == begins["other", 3] == 7


def test_what_goes_before_a_micro_batch_is_planned_is_said(grown):
    """Spark plans again what its checkpoint promised, after a restart as well: an end that is not reached counts as read."""
    target, grow = grown
    grow(2)
    asked, lenient = options(target, startingOffsets="earliest"), options(target, startingOffsets="earliest", failOnDataLoss="false")
    key, start = ("small_segments", 0), first_offsets(asked)
    end = last_offsets(asked, start)[0]
    assert [(piece.start, piece.end) for [piece] in plan_between(asked, start, end)] == [(0, end[key])]
    last = max(target.glob("*.log"))
    for path in target.glob(last.stem + "*"):
        path.unlink()
    base = int(last.stem)
    for begin in (start, {key: end[key]}):
        with pytest.raises(DataLossError, match=rf"offsets \[{begin[key]}, {end[key]}\) are due, but the log has \[0, {base}\)"):
            plan_between(asked, begin, end)
    assert [(piece.start, piece.end) for [piece] in plan_between(lenient, start, end)] == [(0, base)]
    with pytest.raises(DataLossError, match=rf"offsets \[{base}, 1\) are due"):
        plan_between(asked, {key: base}, {key: 1})  # as pyspark 4.1 plans a partition that was made anew
    shutil.rmtree(target)
    (target.parent / "other-0").mkdir()
    (target.parent / "other-0" / "00000000000000000000.log").touch()
    asked, lenient = options(target.parent), options(target.parent, failOnDataLoss="false")
    for begin in (start, {}):
        with pytest.raises(DataLossError, match="no longer in the log dirs: small_segments-0"):
            plan_between(asked, begin, end)
    assert plan_between(lenient, start, end) == []


@pytest.mark.parametrize("trigger", ["all", "limit", "available now"])
def test_a_partition_that_was_away_goes_on_where_it_was_read_to(grown, reader, trigger):
    """It was read once more from its start."""
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

    target, grow = grown
    other = shutil.copytree(target, target.parent / "other-0")
    stream = reader(target.parent, failOnDataLoss="false")
    limit = ReadMaxRows(10**6) if trigger == "limit" else ReadAllAvailable()

    def step(start):
        if trigger == "available now":
            stream.prepareForTriggerAvailableNow()
        end = stream.latestOffset(start, limit)
        pieces = [piece for split in stream.partitions(start, end) for piece in split.pieces]
        return end, {piece.topic: (piece.start, piece.end) for piece in pieces if piece.start < piece.end}

    start, read = step(stream.initialOffset())
    assert read.keys() == {"small_segments", "other"}
    away = other.rename(target.parent.parent / "away")
    grow(1)
    behind, read = step(start)
    assert read.keys() == {"small_segments"}
    assert behind["other"] == start["other"]
    away.rename(other)
    assert step(behind) == (behind, {})
    shutil.copytree(target, other, dirs_exist_ok=True)
    end, read = step(behind)
    assert read == {"other": (start["other"]["0"], end["other"]["0"])}

    for path in [path for path in other.iterdir() if path.stem > "0" * 20]:
        path.unlink()  # back, but shorter: it goes on at its end, as Kafka's source of Spark does
    shorter, read = step(end)
    assert read == {}
    assert 0 < shorter["other"]["0"] < start["other"]["0"]


def test_a_stream_is_of_records(grown):
    with pytest.raises(OptionError, match="level is 'batches': streams are of records"):
        options(grown[0], level="batches")


@pytest.fixture
def reader(sources):
    """reader(path, **options) as Spark makes one; limits are known."""
    from pyspark.sql.types import LongType, StructType

    from kafkalog_spark import readers as source

    if not source.HAS_LIMITS:
        lacking("limits need pyspark 4.2")

    def made(path, **given):
        given = {"path": str(path), "startingOffsets": "earliest"} | given
        return source.KafkaLogStreamReader(StructType().add("offset", LongType()), given)

    return made


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is set: clock[0] = seconds."""
    at = [1000.0]
    monkeypatch.setattr("kafkalog_spark.readers.time.monotonic", lambda: at[0])
    return at


@pytest.mark.parametrize("more", [{}, {"maxOffsetsPerTrigger": "60"}])
def test_a_trigger_waits_for_as_many_offsets_as_were_asked_for_and_not_for_ever(grown, reader, clock, more):
    target, grow = grown
    made = reader(target, minOffsetsPerTrigger="30", maxTriggerDelay="20s", **more)
    limit = made.getDefaultReadLimit()
    first = made.latestOffset(made.initialOffset(), limit)  # the first batch waits for nothing
    assert first == {"small_segments": {"0": 42}}
    grow(1)
    clock[0] += 19
    assert made.latestOffset(first, limit) == first  # 20 or so
    grow(1)
    second = made.latestOffset(first, limit)
    assert 30 <= second["small_segments"]["0"] - 42 <= 60
    grow(1)
    clock[0] += 19
    assert made.latestOffset(second, limit) == second
    clock[0] += 1
    assert made.latestOffset(second, limit)["small_segments"]["0"] == 89


def test_who_takes_all_there_is_waits_for_nothing(grown, reader, clock):
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    target, grow = grown
    once, now = (reader(target, minOffsetsPerTrigger="1000") for _ in range(2))
    first = once.latestOffset(once.initialOffset(), ReadAllAvailable())
    assert now.latestOffset(now.initialOffset(), now.getDefaultReadLimit()) == first
    grow(1)
    now.prepareForTriggerAvailableNow()
    after = once.latestOffset(first, ReadAllAvailable())
    assert after == now.latestOffset(first, now.getDefaultReadLimit()) != first


@pytest.mark.usefixtures("sources")
@pytest.mark.parametrize("name", ["maxOffsetsPerTrigger", "minOffsetsPerTrigger"])
def test_where_spark_knows_no_limits_they_are_refused(grown, monkeypatch, name):
    from pyspark.sql.types import LongType, StructType

    from kafkalog_spark import readers as source

    monkeypatch.setattr(source, "HAS_LIMITS", False)
    schema = StructType().add("offset", LongType())
    made = source.KafkaLogStreamReader(schema, {"path": str(grown[0]), name: "30"})
    for step in (made.initialOffset, made.latestOffset):
        with pytest.raises(OptionError, match=f"^kafkalog: {name} needs pyspark 4.2 or later: before that Spark does not tell"):
            step()
    made = source.KafkaLogStreamReader(schema, {"path": str(grown[0]), "maxTriggerDelay": "1m"})
    assert made.initialOffset() == made.latestOffset()


@pytest.mark.parametrize(("text", "seconds"), [("15m", 900), ("1500", 1.5), ("20 s", 20), ("2h", 7200), ("1d", 86400), ("500us", 0.0005)])
def test_a_delay_is_a_time_as_spark_writes_it(grown, text, seconds):
    assert options(grown[0], maxTriggerDelay=text).max_delay == seconds
    assert options(grown[0]).max_delay == 900


def test_exactly_once_across_restarts(spark, grown, tmp_path, segments):
    target, grow = grown
    limits = []

    def run(**given):
        frame = spark.readStream.format("kafkalog").option("startingOffsets", "earliest")
        for name, value in given.items():
            frame = frame.option(name, value)
        query = (
            frame.load(str(target.parent)).select("offset").writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint")).option("path", str(tmp_path / "out"))
            .trigger(availableNow=True).start()
        )  # fmt: skip
        query.awaitTermination()
        limits.append([progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]])
        return sorted(row.offset for row in spark.read.parquet(str(tmp_path / "out")).collect())

    every = sorted(row.offset for row in spark.read.format("kafkalog").load(str(segments)).select("offset").collect())
    after_two = run(minOffsetsPerTrigger="1000")
    assert after_two == every[: len(after_two)]
    grow(1)
    for path in list(target.glob(min(target.glob("*.log")).stem + "*")):
        path.unlink()  # read already
    grow(9)
    assert run(maxOffsetsPerTrigger="30") == every
    assert len(limits[1]) > 1
    assert max(limits[1]) <= 30
    assert run(minOffsetsPerTrigger="1000") == every

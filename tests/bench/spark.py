"""Segments in Spark against Parquet of the same rows, in one warm session: `make bench-spark`, or with BENCH="--records 100000".

    python -m tests.bench.spark [--records N] [--partitions N] [--runs N] [--only NAME] [--quick] [--update-docs]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

import kafkalog_spark
from kafkalog_cli.spark_session import session
from kafkalog_spark.jobs.stats import stats
from kafkalog_spark.jobs.verify import check_split, splits_of, verify
from kafkalog_spark.tasks import options_of, run
from tests.bench import compaction, consuming, spark_compaction, spark_planning
from tests.bench.measure import WrongRunError, in_turns
from tests.bench.setting import Bench
from tests.bench.spark_cores import verify_on
from tests.bench.spark_store import from_store, noop
from tests.oracle.jvm import class_path_of
from tests.support.corpus import own_corpus_directory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from kafkalog_spark.table.partitions import Piece

ROOT = Path(__file__).resolve().parents[2]
_BEGIN, _END = "<!-- bench-spark:begin -->", "<!-- bench-spark:end -->"
_NOT_LINEAR = 1.5  # times as long per record as at a quarter of the size
_SMALL_TARGET = 60.0  # seconds for 10,000 small partitions
_CORES = 2
_MOST_OF_IT = 0.5  # of the job's time is expected to be what it is for
_PEAK_LIMIT = 300_000_000  # bytes of a Python worker
_MANY = 20  # partitions that are counted
_VERIFIED = (2, 16)  # partitions whose check is timed on one core and on two: half a gigabyte each


class Row(NamedTuple):
    """`seconds` of ours against `rival`.

    most        how many times the rival's it may take        least_rate  records/s        limit  seconds
    peak_bytes  the most memory that a Python worker ever had          least  times the rival's that it must be
    """

    work: str
    seconds: float
    rival: str = ""
    rival_seconds: float | None = None
    most: float | None = None
    records: int | None = None
    least_rate: float | None = None
    limit: float | None = None
    peak_bytes: int | None = None
    least: float | None = None

    @property
    def met(self) -> bool:
        """Is everything that is expected true?"""
        share = None if self.rival_seconds is None else self.seconds / self.rival_seconds
        times = share is None or (self.least or 0.0) <= share <= (self.most or float("inf"))
        rate = self.least_rate is None or self.records is None or self.records / self.seconds >= self.least_rate
        memory = self.peak_bytes is None or self.peak_bytes <= _PEAK_LIMIT
        return times and rate and memory and (self.limit is None or self.seconds <= self.limit)

    def cells(self) -> tuple[str, ...]:
        """For a table."""
        times = "" if self.rival_seconds is None else f"{self.seconds / self.rival_seconds:.2f}"
        rival = "" if self.rival_seconds is None else f"{self.rival_seconds:.2f} s ({self.rival})"
        rate = "" if self.records is None else f"{self.records / self.seconds / 1e6:.1f} M/s"
        memory = "" if self.peak_bytes is None else f"{self.peak_bytes / 1e6:.0f} MB"
        return self.work, f"{self.seconds:.2f} s", rival, times, rate, memory, self._wanted()

    def _wanted(self) -> str:
        parts = [] if self.most is None else [f"≤ {self.most:.2g} times"]
        parts += [] if self.least is None else [f"≥ {self.least:.2g} times"]
        parts += [] if self.least_rate is None else [f"≥ {self.least_rate / 1e6:g} M/s"]
        parts += [] if self.limit is None else [f"≤ {self.limit:.3g} s"]
        parts += [] if self.peak_bytes is None else [f"≤ {_PEAK_LIMIT / 1e6:.0f} MB"]
        return ", ".join(parts) + ("" if self.met else " (missed)")


def reading(spark: SparkSession, home: Path, source: Path, records: int, runs: int) -> Iterator[Row]:
    """All columns, counts, and into Parquet."""
    parquet, copy = home / "spark-parquet", home / "spark-copy"
    path = str(source)

    def mapped() -> DataFrame:
        return kafkalog_spark.read(spark, path)

    def by_format() -> DataFrame:
        return spark.read.format("kafkalog").load(path)

    def from_parquet() -> DataFrame:
        return spark.read.parquet(str(parquet))

    def write(frame: DataFrame) -> None:
        frame.write.mode("overwrite").parquet(str(copy))

    mapped().write.mode("overwrite").parquet(str(parquet))
    ours, formatted, theirs = in_turns(
        runs, lambda: noop(mapped()), lambda: noop(by_format()), lambda: noop(from_parquet())
    )
    yield Row("kafkalog_spark.read, all columns", ours, "Parquet", theirs, 0.8, records)
    yield Row("data source, all columns", formatted, "Parquet", theirs, 1.1, records)
    [counted] = in_turns(runs, lambda: by_format().count())
    yield Row("count() of the data source", counted, records=records, least_rate=3e6)
    into, copied = in_turns(runs, lambda: write(mapped()), lambda: write(from_parquet()))
    yield Row("into Parquet", into, "Parquet to Parquet", copied, 1.4, records)
    target = home / "exported.parquet"

    def export() -> None:
        target.unlink(missing_ok=True)
        words = [sys.executable, "-m", "kafkalog_cli", "export", "--as", "parquet", "--jobs", str(_CORES), "--to", str(target)]
        subprocess.run([*words, path], check=True, stdout=subprocess.DEVNULL)

    [exported] = in_turns(runs, export)
    yield Row("kafkalog export --as parquet, a process", exported, "Spark, into Parquet", into, 1.0, records)
    target.unlink()
    for one in (parquet, copy):
        shutil.rmtree(one)


def _linked(source: Path, top: Path, count: int) -> Path:
    """`top` with so many partitions whose files are links to those of `source`."""
    shutil.rmtree(top, ignore_errors=True)
    for number in range(count):
        shutil.copytree(source, top / f"topic-{number}", copy_function=os.link)
    return top


def counting(spark: SparkSession, home: Path, source: Path, records: int, runs: int) -> Iterator[Row]:
    """Batch headers of many partitions, links to one: a query's own cost is no matter then."""
    top = _linked(source, home / "spark-many", _MANY)
    path = str(top)
    heads, summed = in_turns(
        runs, lambda: kafkalog_spark.read(spark, path, level="batches", columns="recordCount").agg({"recordCount": "sum"}).collect(),
        lambda: stats(spark, path).collect(),
    )  # fmt: skip
    yield Row(f"count by level batches, {_MANY} partitions", heads, records=_MANY * records, least_rate=70e6)
    yield Row(f"stats by topic, {_MANY} partitions", summed, records=_MANY * records, least_rate=70e6)
    shutil.rmtree(top)


def memory(spark: SparkSession, large: Path, runs: int) -> Iterator[Row]:
    """A segment as large as Kafka lets one be, read by one task."""
    [taken] = in_turns(runs, lambda: noop(kafkalog_spark.read(spark, str(large.parent), splitBytes="100g")))
    size = large.stat().st_size / 1e9
    yield Row(f"a segment of {size:.1f} GB in one task; largest Python worker so far", taken, peak_bytes=_largest_worker())


def _largest_worker() -> int:
    """Peak memory of the Python processes that Spark started below this one, in bytes."""
    parents, peaks = {}, {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            lines = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
            is_worker = b"pyspark.daemon" in status.with_name("cmdline").read_bytes()
        except OSError:  # it has ended
            continue
        process = int(lines["Pid"])
        parents[process] = int(lines["PPid"])
        if is_worker:
            peaks[process] = int(lines["VmHWM"].split()[0]) << 10

    def is_ours(process: int) -> bool:
        while process in parents:
            process = parents[process]
            if process == os.getpid():
                return True
        return False

    return max(peak for process, peak in peaks.items() if is_ours(process))


def verifying(spark: SparkSession, home: Path, source: Path, records: int, partitions: int, runs: int) -> Iterator[Row]:
    """Many small partitions; several gigabytes on one core and on two."""
    top = home / f"spark-small-{partitions}"
    if not top.exists():
        made = home / "spark-small.new"
        shutil.rmtree(made, ignore_errors=True)
        model = next(own_corpus_directory().glob("kafka-4.3.1/logs/clean/*/small_segments-0"))
        for number in range(partitions):
            shutil.copytree(model, made / f"d{number % 10}" / f"topic-{number}")
        made.rename(top)
    verify(spark, str(top / "d0" / "topic-0")).count()  # workers start and import what they need
    start = time.perf_counter()
    found = verify(spark, str(top)).count()
    seconds = time.perf_counter() - start
    yield Row(f"verify {partitions} partitions, {found} findings", seconds, limit=_SMALL_TARGET * partitions / 10_000)
    checks, whole = _checks_alone(spark, top)
    rival = f"{_CORES} cores, while the job ran"
    yield Row("the same again: its tasks within the checks", checks, rival, _CORES * whole, least=_MOST_OF_IT)
    for count in _VERIFIED:
        large = _linked(source, home / "spark-verify", count)
        one, two = (verify_on(cores, runs, home, large) for cores in (1, 2))
        yield Row(f"verify {count} partitions of {records} records, two cores", two, "one core", one, 1 / 1.7, count * records)
        shutil.rmtree(large)


def _checks_alone(spark: SparkSession, top: Path) -> tuple[float, float]:
    """Seconds that the tasks of `verify` are within the engine's checks, all together; and of the whole job."""
    asked = options_of([str(top)], {})

    def task(pieces: list[Piece]) -> Iterator[pa.RecordBatch]:
        start = time.perf_counter_ns()
        for _ in check_split(asked, pieces):
            pass
        yield pa.RecordBatch.from_pydict({"ns": [time.perf_counter_ns() - start]})

    start = time.perf_counter()
    frame = run(spark, splits_of(asked), pa.schema([("ns", pa.int64())]), task)
    checks = sum(row["ns"] for row in frame.collect()) / 1e9
    return checks, time.perf_counter() - start


def compacting(spark: SparkSession, bench: Bench) -> Iterator[Row]:
    """Cost against size; the middle size is held against Kafka's Cleaner.

    Memory is that of the largest Python worker until then, whatever it did.
    """
    per_record = 0.0
    middle = bench.records * 5_000_000 // 1_130_000
    for one in spark_compaction.compared(spark, bench):
        what, most = f"{one.records} records, {one.keys} keys", 1.0 if one.records == middle else None
        limit = _NOT_LINEAR * per_record * one.records if one.records > middle else None
        yield Row(f"compact {what}", one.seconds, "Kafka's Cleaner", one.kafka, most, one.records,
                  limit=limit, peak_bytes=_largest_worker())  # fmt: skip
        per_record = one.seconds / one.records


def against_kafkas_source(spark: SparkSession, home: Path, source: Path, records: int, runs: int) -> Iterator[Row]:
    """The same rows by Spark's Kafka source, two tasks, from a broker on this machine; by a Java consumer without Spark."""
    with consuming.broker_with(own_corpus_directory() / "kafka-4.3.1/logs/clean", source, home) as broker:
        options = {"kafka.bootstrap.servers": f"127.0.0.1:{broker.port}", "subscribe": consuming.TOPIC, "startingOffsets": "earliest",
                   "minPartitions": str(_CORES)}  # fmt: skip

        def theirs() -> DataFrame:
            return spark.read.format("kafka").options(**options).load()

        if theirs().count() != records:
            raise WrongRunError("Spark's Kafka source does not read every record")
        segments, kafka = in_turns(runs, lambda: noop(kafkalog_spark.read(spark, str(source))), lambda: noop(theirs()))
        fetched = consuming.fetched(broker.port, records)
    yield Row("kafkalog_spark.read, all columns", segments, "Spark's Kafka source, from a broker here", kafka, 0.2, records)
    yield Row("a Java consumer, from a broker here", fetched, records=records)


def store(home: Path, source: Path, records: int, runs: int) -> Iterator[Row]:
    """Both from an S3 server."""
    segments, parquet = from_store(home, source, runs)
    yield Row("kafkalog_spark.read, from an S3 server", segments, "Parquet, from it by s3a", parquet, 1.2, records)


def planning(home: Path) -> Iterator[Row]:
    """Partitions in an S3 server with latency, planned by the data source in its worker and by `read` in tasks."""
    count, latency = 5000, 20
    source, mapped = spark_planning.planned(home, count, latency)
    yield Row(f"plan {count} partitions in a store {latency} ms away, data source", source, limit=30.0)
    yield Row("the same by kafkalog_spark.read", mapped, limit=30.0)


def rows(bench: Bench, spark: SparkSession, partitions: int, only: str | None) -> Iterator[Row]:
    """Everything that is measured."""
    records = bench.records * 5_000_000 // 1_130_000
    source = compaction.generated(bench.engine, bench.home, "none", records, compaction.KEYS)  # the same data
    if only in (None, "reading"):
        yield from reading(spark, bench.home, source, records, bench.runs)
        yield from against_kafkas_source(spark, bench.home, source, records, bench.runs)
    if only in (None, "counting"):
        yield from counting(spark, bench.home, source, records, bench.runs)
    if only in (None, "verifying"):
        yield from verifying(spark, bench.home, source, records, partitions, bench.runs)
    if only in (None, "store"):
        yield from store(bench.home, source, records, bench.runs)
    if only in (None, "planning"):
        yield from planning(bench.home)
    if only in (None, "memory"):
        yield from memory(spark, bench.large_log(), bench.runs)
    if only in (None, "compacting"):
        yield from compacting(spark, bench)


def main() -> int:
    """Measure, print, and write the table into docs/spark/reading.md if that is asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=1_130_000, help="as for make bench: 5/1.13 times as many are read")
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", choices=["reading", "counting", "verifying", "store", "planning", "memory", "compacting"])
    parser.add_argument("--quick", action="store_true", help="a smaller large segment: to see that all of it runs")
    parser.add_argument("--update-docs", action="store_true")
    given = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    bench = Bench(ROOT / "build" / "bench" / str(given.records), given.records, given.runs, quick=given.quick)
    lines = ["| work | kafkalog | against | times its time | rate | memory | wanted |", "|---|---|---|---|---|---|---|"]
    missed = 0
    jars = class_path_of("spark.xml").replace(":", ",")
    with session(f"local[{_CORES}]", (("spark.driver.memory", "2g"), ("spark.jars", jars))) as spark:
        for row in rows(bench, spark, given.partitions, given.only):
            print("  ".join(row.cells()), flush=True)
            lines.append("| " + " | ".join(row.cells()) + " |")
            missed += not row.met
    if given.update_docs:
        path = ROOT / "docs/spark/reading.md"
        head, _, rest = path.read_text().partition(_BEGIN)
        text = "\n".join(lines)
        path.write_text(f"{head}{_BEGIN}\n{text}\n{_END}{rest.partition(_END)[2]}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

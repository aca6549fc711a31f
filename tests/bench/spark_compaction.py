"""Compaction on Spark against Kafka's own Cleaner, by size and keys.

Both start from a copy of the same partition; what they leave must be the same. Of Kafka the cleaning alone is timed, of Spark
the whole job: locks, opening the log twice, checkpoints.
"""

from __future__ import annotations

import shutil
import statistics
import time
from typing import TYPE_CHECKING, NamedTuple

from engine.log.cleaner.compaction import CompactionOptions
from kafkalog_spark.jobs.upkeep import DEDUPE_BUFFER_SIZE, compact
from tests.bench.compaction import KEYS, MAP, NOW, SETTINGS, generated, same_logs
from tests.bench.measure import WrongRunError, answer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.bench.setting import Bench

SIZES = (1_000_000, 5_000_000, 20_000_000)  # records, where a run has 1,130,000
_UNIT = 1_130_000
_CONFIG = dict(word.split("=") for word in SETTINGS if "=" in word)


class Compared(NamedTuple):
    """Seconds of the job and of Kafka, for a partition of so many records and keys."""

    records: int
    keys: int
    seconds: float
    kafka: float


def compared(spark: SparkSession, bench: Bench) -> Iterator[Compared]:
    """Each size with few keys, then the middle one with four keys in five records."""
    sizes = [bench.records * size // _UNIT for size in SIZES]
    _warm(spark, bench, sizes[0])
    for records, keys in (*((size, KEYS) for size in sizes), (sizes[1], sizes[1] * 4 // 5)):
        yield _compared(spark, bench, records, keys)


def _warm(spark: SparkSession, bench: Bench, records: int) -> None:
    source, target = _source(bench, records, KEYS), bench.home / "spark-compact/topic-0"
    _by_spark(spark, source, target)


def _source(bench: Bench, records: int, keys: int) -> Path:
    return generated(bench.engine, bench.home, "none", records, keys, name=f"spark-compact-{records}-{keys}")


def _compared(spark: SparkSession, bench: Bench, records: int, keys: int) -> Compared:
    source = _source(bench, records, keys)
    places = {name: bench.home / f"spark-compact-{name}/topic-0" for name in ("spark", "kafka")}
    taken: dict[str, list[float]] = {name: [] for name in places}
    for _ in range(bench.runs):
        taken["spark"].append(_by_spark(spark, source, places["spark"]))
        taken["kafka"].append(_by_kafka(bench, source, places["kafka"]))
    same_logs(places["spark"], places["kafka"])
    for place in places.values():
        shutil.rmtree(place.parent)
    return Compared(records, keys, *(statistics.median(taken[name]) for name in ("spark", "kafka")))


def _copied(source: Path, target: Path) -> None:
    shutil.rmtree(target.parent, ignore_errors=True)
    shutil.copytree(source, target)


def _by_spark(spark: SparkSession, source: Path, target: Path) -> float:
    _copied(source, target)
    options = CompactionOptions(force=True, rounds=1, dedupe_buffer_size=DEDUPE_BUFFER_SIZE)
    start = time.perf_counter()
    done = compact(spark, str(target), config=_CONFIG, options=options, clean_start=True, now=int(NOW)).collect()
    seconds = time.perf_counter() - start
    if [row.action for row in done] != ["compacted"]:
        raise WrongRunError(f"compact: {done}")
    return seconds


def _by_kafka(bench: Bench, source: Path, target: Path) -> float:
    _copied(source, target)
    command = [*bench.engine, "kafkalog.oracle.Main", "compact", str(target), "--now", NOW, *SETTINGS, "--map-bytes", str(MAP)]
    return answer(command, bench.home)["cleanMs"] / 1000

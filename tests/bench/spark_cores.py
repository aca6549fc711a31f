"""A job of Spark on one processor and on two, in a session of its own each: `python -m tests.bench.spark_cores CORES RUNS PATH…`.

A session with one task at a time has all processors all the same: the JVM, the worker's and the engine's threads take what is
there. So the whole program is bound to as many processors as it is said to have.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from typing import TYPE_CHECKING

from kafkalog_cli.spark_session import session
from kafkalog_spark.jobs.verify import verify
from tests.bench.measure import answer

if TYPE_CHECKING:
    from pathlib import Path

_WARM = 3  # runs until the JVM has compiled what it runs


def verify_on(cores: int, runs: int, home: Path, *paths: Path) -> float:
    """Seconds of `verify` in a warm session that has so many processors; the median."""
    command = [sys.executable, "-m", "tests.bench.spark_cores", str(cores), str(runs), *map(str, paths)]
    return answer(command, home)["seconds"]


def _measured(cores: int, runs: int, paths: list[str]) -> float:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    taken: list[float] = []
    with session(f"local[{cores}]", (("spark.driver.memory", "2g"),)) as spark:
        for _ in range(_WARM + runs):
            start = time.perf_counter()
            verify(spark, *paths).count()
            taken.append(time.perf_counter() - start)
    return statistics.median(taken[_WARM:])


if __name__ == "__main__":
    print(json.dumps({"seconds": _measured(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])}))

"""Planning of many partitions in a store far away: the S3 server of tests/s3 behind a proxy that adds latency.

It stands alone because it runs in a process of its own, whose workers have the server's address in the environment:
python -m tests.bench.spark_planning PARTITIONS MILLISECONDS prints the seconds that the data source and `read` take to plan.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from engine.record.builder import NewRecord, build_batch
from kafkalog_cli.spark_session import session
from kafkalog_spark.table.levels import plan_level
from kafkalog_spark.table.options import Bounds
from kafkalog_spark.tasks import options_of, read_mapped
from tests.bench.measure import answer
from tests.s3.server import Server

_FILES = ("index", "timeindex")


def planned(home: Path, partitions: int, latency: int) -> tuple[float, float]:
    """Seconds that the data source and `read` take to plan, with `latency` in ms, in a process of its own."""
    found = answer([sys.executable, "-m", "tests.bench.spark_planning", str(partitions), str(latency)], home)
    return found["source"], found["mapped"]


def _fill(partitions: int) -> None:
    """Put partitions with two segments each, and the small files of a broker, into the bucket `logs`."""
    from obstore import put
    from obstore.store import S3Store

    store = S3Store("logs", client_options={"allow_http": True})

    def one(number: int) -> None:
        top = f"d0/topic-{number}"
        for base in (0, 100):
            data = build_batch([NewRecord(base + at, 1000 + at, b"key", bytes(100)) for at in range(100)])
            put(store, f"{top}/{base:020d}.log", data)
            for kind in _FILES:
                put(store, f"{top}/{base:020d}.{kind}", b"")
        put(store, f"{top}/leader-epoch-checkpoint", b"0\n1\n0 0\n")
        put(store, f"{top}/partition.metadata", b"version: 0\ntopic_id: hYl3mU2kSAyXwS3rSSr8NA\n")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one, range(partitions)))
    put(store, "d0/meta.properties", b"version=1\nnode.id=1\ncluster.id=x\n")


def main() -> None:
    """Fill a bucket, and plan."""
    partitions, delay = int(sys.argv[1]), sys.argv[2]
    with tempfile.TemporaryDirectory() as top, Server(_with_bucket(Path(top))) as server:
        os.environ.update(server.environment)
        _fill(partitions)
        words = [sys.executable, "-m", "tests.bench.latency", str(server.port), delay]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as proxy:
            assert proxy.stdout is not None  # a pipe
            os.environ["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{proxy.stdout.readline().strip()}"
            start = time.perf_counter()
            splits = plan_level(options_of(["s3://logs"], {}), Bounds())
            on_driver = time.perf_counter() - start
            with session("local[2]", (("spark.log.level", "OFF"),)) as spark:
                spark.range(4).mapInArrow(lambda batches: batches, "id long").collect()
                start = time.perf_counter()
                read_mapped(spark, ("s3://logs",), {}, lambda found: splits.extend([] if found == splits else [[]]))
                in_tasks = time.perf_counter() - start
            proxy.terminate()
    if len({piece.directory for split in splits for piece in split}) != partitions or [] in splits:
        raise SystemExit("not all partitions were planned, or not in the same way")
    print(json.dumps({"source": on_driver, "mapped": in_tasks}))


def _with_bucket(top: Path) -> Path:
    (top / "data/logs").mkdir(parents=True)
    return top


if __name__ == "__main__":
    main()

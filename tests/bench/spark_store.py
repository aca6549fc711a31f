"""Segments in a bucket against Parquet of the same rows there, which Spark reads by s3a: both from the S3 server of tests/s3.

It stands alone because it runs in a process of its own, whose workers have the server's address in the environment:
python -m tests.bench.spark_store SOURCE RUNS prints the median seconds of both.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import kafkalog_spark
from kafkalog_cli.spark_session import session
from tests.bench.measure import answer, in_turns
from tests.oracle.jvm import class_path_of
from tests.s3.server import KEY, SECRET, Server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BUCKET = "bench"
_CORES = 2


def from_store(home: Path, source: Path, runs: int) -> tuple[float, float]:
    """Seconds that reading the segments of `source` from a bucket takes, and reading Parquet of the same rows by s3a."""
    found = answer([sys.executable, "-m", "tests.bench.spark_store", str(source), str(runs)], home)
    return found["segments"], found["parquet"]


def noop(frame: DataFrame) -> None:
    """Read every row and column."""
    frame.write.format("noop").mode("overwrite").save()


def _put(top: Path, prefix: str) -> None:
    """Put the files of a directory into the bucket."""
    from obstore import put
    from obstore.store import S3Store

    store = S3Store(_BUCKET, client_options={"allow_http": True, "timeout": "300s"})
    for path in sorted(top.rglob("*")):
        if path.is_file() and not path.name.startswith((".", "_")):
            put(store, f"{prefix}/{path.relative_to(top)}", path)


def main() -> None:
    """Fill a bucket, and read it both ways."""
    source, runs = Path(sys.argv[1]), int(sys.argv[2])
    jars = class_path_of("s3a.xml").replace(":", ",")
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as top:
        server = Server(Path(top) / "s3")
        server.make_bucket(_BUCKET)
        with server:
            os.environ.update(server.environment)
            settings = (
                ("spark.jars", jars), ("spark.log.level", "OFF"), ("spark.driver.memory", "2g"),
                ("spark.hadoop.fs.s3a.endpoint", server.url), ("spark.hadoop.fs.s3a.path.style.access", "true"),
                ("spark.hadoop.fs.s3a.access.key", KEY), ("spark.hadoop.fs.s3a.secret.key", SECRET),
                ("spark.hadoop.fs.s3a.endpoint.region", server.environment["AWS_REGION"]),
            )  # fmt: skip
            with session(f"local[{_CORES}]", settings) as spark:
                kafkalog_spark.read(spark, str(source)).write.parquet(f"{top}/parquet")
                _put(source, f"logs/{source.name}")
                _put(Path(top) / "parquet", "parquet")
                ours, theirs = in_turns(
                    runs, lambda: noop(kafkalog_spark.read(spark, f"s3://{_BUCKET}/logs")),
                    lambda: noop(spark.read.parquet(f"s3a://{_BUCKET}/parquet")),
                )  # fmt: skip
                if spark.read.parquet(f"s3a://{_BUCKET}/parquet").count() != kafkalog_spark.read(spark, str(source)).count():
                    raise SystemExit("not the same number of rows")
    print(json.dumps({"segments": ours, "parquet": theirs}))


if __name__ == "__main__":
    main()

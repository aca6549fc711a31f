"""Export into Iceberg by Spark itself, and back, where Spark is of a line that Iceberg has a runtime for.

Beside the newest Spark that is never so: `pip install 'pyspark==4.1.*'` in an environment of its own. The runtime comes from
Maven Central, so CI does without.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.spark.conftest import missing
from tests.support.needs import lacking

ROOT = Path(__file__).resolve().parents[2]
RUNTIMES = {"3.5": "3.5_2.12:1.11.0", "4.1": "4.1_2.13:1.11.0"}  # by line of Spark; those that were seen to work
LINE = ".".join(version("pyspark").split(".")[:2]) if find_spec("pyspark") else ""
PROGRAM = """
import sys
from pyspark.sql import SparkSession
from kafkalog_spark.jobs.export import import_, export

package, top, out = sys.argv[1:]
settings = {
    "spark.jars.packages": package, "spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1", "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "hadoop", "spark.sql.catalog.lake.warehouse": out + "/lake",
    "spark.sql.shuffle.partitions": "2",
}
builder = SparkSession.builder.master("local[2]")
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()

def count():
    return spark.read.format("iceberg").load("lake.kafka.records").count()

for mode in ("error", "append", "overwrite"):
    export(spark, top, to="lake.kafka.records", mode=mode, table="iceberg", subscribe="bulk,multi")
    print("rows", mode, count())
try:
    export(spark, top, to="lake.kafka.records", table="iceberg", subscribe="bulk,multi")
except Exception as error:
    print("refused", "ALREADY_EXISTS" in str(error))
if not spark.version.startswith("3."):
    import_(spark, "lake.kafka.records", to=out + "/back", table="iceberg")
    print("back", spark.read.format("kafkalog").load(out + "/back").count())
"""


@pytest.mark.xdist_group("spark elsewhere")
@pytest.mark.skipif(LINE not in RUNTIMES, reason=f"Iceberg has no runtime for Spark {LINE or '(not found)'}")
def test_into_iceberg_and_back(own_corpus, tmp_path):
    if gone := missing():
        lacking(f"this needs {', '.join(gone)}: not found")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    package = f"org.apache.iceberg:iceberg-spark-runtime-{RUNTIMES[LINE]}"
    command = [sys.executable, "-c", PROGRAM, package, str(own_corpus / "kafka-4.3.1/logs/clean"), str(tmp_path)]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=900, check=False)
    if "unresolved dependency" in done.stderr:
        pytest.skip(f"{package} cannot be had from Maven Central")
    assert done.returncode == 0, done.stderr[-3000:]
    said = [line for line in done.stdout.splitlines() if line.startswith(("rows", "refused", "back"))]
    rows = int(said[0].split()[-1])
    assert rows > 3000
    assert said[:4] == [f"rows error {rows}", f"rows append {2 * rows}", f"rows overwrite {rows}", "refused True"]
    assert said[4:] == ([] if LINE == "3.5" else [f"back {rows}"])

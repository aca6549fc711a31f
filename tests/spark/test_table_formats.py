"""Export into Iceberg and Delta by Spark itself, and back, where Spark is of a line that they have a package for.

Beside the newest Spark that is never so: `pip install 'pyspark==4.1.*'` in an environment of its own. The packages come from
Maven Central, so CI does without.
"""

from __future__ import annotations

import json
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
LINE = ".".join(version("pyspark").split(".")[:2]) if find_spec("pyspark") else ""
PACKAGES = {  # by line of Spark; those that were seen to work
    "iceberg": {"3.5": "org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.11.0", "4.1": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"},
    "delta": {"4.1": "io.delta:delta-spark_4.1_2.13:4.3.1"},
}  # fmt: skip
SETTINGS = {
    "iceberg": {"spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog", "spark.sql.catalog.lake.type": "hadoop"},
    "delta": {"spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
              "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog"},
}  # fmt: skip
PLACES = [("iceberg", "lake.kafka.records"), ("delta", "{out}/table"), ("delta", "records")]
PROGRAM = """
import json, sys
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from kafkalog_spark.jobs.export import import_, export

kind, settings, to, top, out = sys.argv[1:]
builder = SparkSession.builder.master("local[2]")
for name, value in json.loads(settings).items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
source = spark.read.format("kafkalog").option("includeHeaders", "true").option("subscribe", "bulk,multi").load(top) \\
    if not spark.version.startswith("3.") else None

def table():
    return spark.read.format(kind).load(to) if "/" in to else spark.table(to)

for mode in ("error", "append", "overwrite"):
    export(spark, top, to=to, mode=mode, table=kind, subscribe="bulk,multi")
    print("rows", mode, table().count())
try:
    export(spark, top, to=to, table=kind, subscribe="bulk,multi")
except AnalysisException as error:
    print("refused", "EXISTS" in str(error).upper())
if source is not None:
    print("same", table().select(source.columns).exceptAll(source).count(), source.exceptAll(table().select(source.columns)).count())
    import_(spark, to, to=out + "/back", table=kind)
    print("back", spark.read.format("kafkalog").load(out + "/back").count())
"""


@pytest.mark.xdist_group("spark elsewhere")
@pytest.mark.parametrize(("kind", "to"), PLACES)
def test_a_table_and_back(kind, to, own_corpus, tmp_path):
    if LINE not in PACKAGES[kind]:
        pytest.skip(f"{kind} has no package for Spark {LINE or '(not found)'}")
    if gone := missing():
        lacking(f"this needs {', '.join(gone)}: not found")
    settings = {
        "spark.jars.packages": PACKAGES[kind][LINE], "spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1", "spark.sql.shuffle.partitions": "2", "spark.sql.warehouse.dir": f"{tmp_path}/warehouse",
        "spark.sql.catalog.lake.warehouse": f"{tmp_path}/lake", **SETTINGS[kind],
    }  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    words = [kind, json.dumps(settings), to.format(out=tmp_path), str(own_corpus / "kafka-4.3.1/logs/clean"), str(tmp_path)]
    command = [sys.executable, "-c", PROGRAM, *words]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=900, check=False)
    if "unresolved dependency" in done.stderr:
        pytest.skip(f"{PACKAGES[kind][LINE]} cannot be had from Maven Central")
    assert done.returncode == 0, done.stderr[-3000:]
    said = [line for line in done.stdout.splitlines() if line.startswith(("rows", "refused", "same", "back"))]
    rows = int(said[0].split()[-1])
    assert rows > 3000
    assert said[:4] == [f"rows error {rows}", f"rows append {2 * rows}", f"rows overwrite {rows}", "refused True"]
    assert said[4:] == ([] if LINE == "3.5" else ["same 0 0", f"back {rows}"])

"""One Spark session for all tests of a process, on two cores of this machine; a task may fail once.

Most of what it works for is its own start and warm-up: it compiles as little as it can, of bytecode and of queries. That
queries that are compiled give the same is seen in test_elsewhere.
"""

from __future__ import annotations

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.needs import lacking

ROOT = Path(__file__).resolve().parents[2]


def missing():
    """What Spark needs and is not here."""
    programs = [name for name in ("java",) if shutil.which(name) is None and "JAVA_HOME" not in os.environ]
    return programs + [name for name in ("pyspark", "pyarrow", "pandas") if find_spec(name) is None]


def pytest_collection_modifyitems(items):
    ours = [item for item in items if "tests/spark/" in str(item.path)]
    for item in ours:
        item.add_marker(pytest.mark.spark)
        if "spark" in item.fixturenames and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group("spark"))  # one JVM, not one for each worker
    items.sort(key=lambda item: item.get_closest_marker("spark") is None)  # the longest group begins first, beside all others


@pytest.fixture
def sources():
    """What data sources in Python are made of is there, for tests of ours that need no session."""
    if gone := missing():
        lacking(f"Spark needs {', '.join(gone)}: not found")
    if find_spec("pyspark.sql.datasource") is None:
        lacking("data sources in Python need pyspark 4")


QUICK_TO_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"  # options of a JVM that lives for some tests


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    if gone := missing():
        lacking(f"Spark needs {', '.join(gone)}: not found")
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    place = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.ui.enabled": "false", "spark.sql.session.timeZone": "UTC", "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(place / "warehouse"), "spark.local.dir": str(place / "local"),
        "spark.python.unix.domain.socket.enabled": "true", "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.driver.extraJavaOptions": f"{QUICK_TO_START} -Dderby.system.home={place / 'derby'}", "spark.driver.memory": "1g",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.parquet.compression.codec": "zstd",  # after a write of ORC, Java's Snappy may take itself to be on musl
    }  # fmt: skip
    builder = SparkSession.builder.master("local[2,2]").appName("kafkalog")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def twins(own_corpus, tmp_path):
    """Two copies of a broker's log dirs that was killed: one for the command, one for the job."""
    for name in ("command", "job"):
        for directory in sorted((own_corpus / "kafka-4.3.1/logs/unclean").glob("d*")):
            shutil.copytree(directory, tmp_path / name / directory.name)
        log = max((tmp_path / name).glob("*/u-rolls-0/*.log"))
        log.write_bytes(log.read_bytes() + b"torn")
    return tmp_path / "command", tmp_path / "job"


@pytest.fixture
def no_session(monkeypatch):
    """Tasks run here, one after the other; jobs give their rows as dicts."""

    class Rows(list):
        def collect(self):
            return self

    class Row(dict):
        asDict = dict.copy  # noqa: N815  # Spark's name

    def run(_spark, splits, _schema, work):
        return Rows(Row(row) for split in splits for batch in work(split) for row in batch.to_pylist())

    monkeypatch.setattr("kafkalog_spark.jobs.upkeep.run", run)
    monkeypatch.setattr("kafkalog_spark.jobs.upkeep.frame_of", lambda _spark, rows: rows)


@pytest.fixture
def torn(own_corpus, tmp_path):
    """A log dir that a broker has left, with a torn log in it."""
    logs = tmp_path / "logs"
    shutil.copytree(next((own_corpus / "kafka-4.3.1/logs/clean").glob("*/small_segments-0")), logs / "small_segments-0")
    (logs / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    with max((logs / "small_segments-0").glob("*.log")).open("ab") as log:
        log.write(b"torn")
    return logs

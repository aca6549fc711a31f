"""The rows of kafkalog are those of Spark's own Kafka source, which reads them from a real broker on the same log dirs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.oracle.broker import Broker, copy
from tests.oracle.jvm import class_path_of
from tests.spark.conftest import missing
from tests.support.needs import lacking

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(os.environ.get("KAFKALOG_BROKER") != "all", reason="slow: a part of `make oracle`"),
]
ROOT = Path(__file__).parents[2]
LIMIT = 900  # seconds, on a machine that does much else
FLOORS = {"read_uncommitted": 3000, "read_committed": 3000}  # rows; each other comparison has some


def test_rows_and_schema_batch_and_stream(kafka, own_corpus, tmp_path):
    if gone := missing():
        lacking(f"Spark needs {', '.join(gone)}: not found")
    jars = class_path_of("spark.xml").replace(":", ",")
    top = copy(own_corpus / "kafka-4.3.1/logs/clean", tmp_path / "logs")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    with Broker(top) as broker:
        assert broker.has_started, broker.said[-3000:]
        words = [jars, f"127.0.0.1:{broker.port}", str(top), str(tmp_path / "streams")]
        command = [sys.executable, "-m", "tests.oracle.spark_rows", *words]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["differences"] == {}
    assert answer["schema"] == [True, True]
    assert answer["beyond"] == {"timestamps": True}  # Spark's source fails there; kafkalog reads the timestamp as null
    counts = answer["counts"]
    assert {name for name, count in counts.items() if count < FLOORS.get(name, 1)} == set()
    assert counts["read_committed"] < counts["read_uncommitted"]
    for isolation in ("read_uncommitted", "read_committed"):
        assert counts[f"stream 0, {isolation}"] == counts[isolation]
        assert counts[f"stream 1, {isolation}"] == counts[isolation] + 40

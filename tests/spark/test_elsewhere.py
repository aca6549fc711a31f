"""The same over Spark Connect, where a session has no JVM at hand, on executors that are processes of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from engine.files import ReadOnlyFiles
from engine.log.fetch.reading import FetchIsolation
from engine.log.fetch.records import RecordFetcher
from engine.log.fetch.view import PartitionView
from tests.spark.conftest import missing
from tests.support.needs import lacking

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("bulk-0", "multi-1", "codec.lz4-0")
MODULES = ("grpc", "grpc_status", "google.rpc", "zstandard")  # what Connect needs
LIMIT = 900  # seconds, on a machine that does much else


def count(directory):
    view = PartitionView(ReadOnlyFiles(), str(directory), pytest.fail)
    return sum(run.end - run.first for run in RecordFetcher(view, 0, FetchIsolation.HIGH_WATERMARK, pytest.fail).runs())


@pytest.mark.xdist_group("spark elsewhere")  # processes of their own: beside the session of the others
def test_reading_writing_and_jobs(own_corpus, tmp_path):
    gone = missing() or [name for name in MODULES if find_spec(name.partition(".")[0]) is None]
    if gone:
        lacking(f"this needs {', '.join(gone)}: not found")
    for name in NAMES:
        shutil.copytree(next((own_corpus / "kafka-4.3.1/logs/clean").glob(f"*/{name}")), tmp_path / "data" / name)
    wanted = {name: count(tmp_path / "data" / name) for name in NAMES}
    environment = {
        **os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
    }  # fmt: skip
    environment.pop("PYSPARK_GATEWAY_PORT", None)
    command = [sys.executable, "-m", "tests.spark.elsewhere", "local-cluster[2,1,1024]", str(tmp_path / "data"), str(tmp_path)]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer == {
        "session": "pyspark.sql.connect.session", "read": sum(wanted.values()), "alike": True, "written": True, "findings": {},
        "recovered": ["recovered"] * len(NAMES), "stats": {name.rpartition("-")[0]: records for name, records in wanted.items()},
    }  # fmt: skip

"""The same rows from a standalone cluster, a master and two workers, of which one is killed in the middle of the query.

One session does everything: processes of Java are what it costs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from engine.files import Files
from tests.spark.conftest import QUICK_TO_START, missing
from tests.support.needs import lacking
from tests.support.sink_runs import read

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("bulk-0", "multi-1", "codec.lz4-0")
PROGRAM = """
import json, os, signal, sys
from pyspark.sql import SparkSession
import kafkalog_spark

master, path, flag, options = sys.argv[1:]
builder = kafkalog_spark.configure(SparkSession.builder).master(master)
for name, value in json.loads(options).items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()

def parent(process):
    with open(f"/proc/{process}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[1])

def kills_once(batches):
    for batch in batches:
        try:
            os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            yield batch
        else:
            executor = parent(os.getppid())
            for process in (parent(executor), executor, os.getppid(), os.getpid()):  # the worker first: it would start another one
                os.kill(process, signal.SIGKILL)

columns = ["topic", "partition", "offset", "value"]
mapped = kafkalog_spark.read(spark, path, splitBytes="20k").select(*columns)
rows = mapped.mapInArrow(kills_once, mapped.schema).collect()
again = spark.read.format("kafkalog").option("splitBytes", "20k").load(path).select(*columns).collect()
found = {}
for topic, partition, offset, value in sorted(rows, key=lambda row: row[:3]):
    found.setdefault(f"{topic}-{partition}", []).append((offset, None if value is None else value.hex()))
print(json.dumps({
    "rows": found, "alike": sorted(rows, key=repr) == sorted(again, key=repr),
    "recovered": [row.action for row in kafkalog_spark.recover(spark, path).collect()],
}))
spark.stop()
"""


@contextmanager
def process(environment, directory, *arguments):
    """A process of Spark in a group of its own, killed at the end → (process, the first line that has `wanted`)."""
    command = [str(Path(spark_home()) / "bin/spark-class"), *arguments]
    with subprocess.Popen(command, env=environment, cwd=directory, start_new_session=True, stderr=subprocess.STDOUT,
                          stdout=subprocess.PIPE, text=True) as started:  # fmt: skip
        try:
            yield started
        finally:
            os.killpg(started.pid, signal.SIGKILL)


def spark_home():
    import pyspark

    return Path(pyspark.__file__).parent


def line_with(started, pattern):
    for line in started.stdout:
        if found := re.search(pattern, line):
            return found[0]
    raise AssertionError(f"{pattern}: it ended before")


@pytest.mark.xdist_group("spark elsewhere")  # processes of their own: beside the session of the others
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds its worker in /proc")
def test_rows_are_the_same_though_a_worker_is_killed(own_corpus, tmp_path):
    if gone := missing():
        lacking(f"this needs {', '.join(gone)}: not found")
    for name in NAMES:
        shutil.copytree(next((own_corpus / "kafka-4.3.1/logs/clean").glob(f"*/{name}")), tmp_path / "data" / name)
    wanted = {name: [[offset, None if value is None else value.hex()] for offset, value in rows]
              for name, rows in read(Files(), str(tmp_path / "data")).items()}  # fmt: skip
    environment = {
        **os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
        "SPARK_DAEMON_JAVA_OPTS": QUICK_TO_START, "SPARK_DAEMON_MEMORY": "256m",
    }  # fmt: skip
    environment.pop("PYSPARK_GATEWAY_PORT", None)
    options = {
        "spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "512m", "spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.cores.max": "2",
        "spark.driver.extraJavaOptions": QUICK_TO_START, "spark.executor.extraJavaOptions": QUICK_TO_START,
        "spark.executorEnv.PYTHONPATH": environment["PYTHONPATH"], "spark.sql.shuffle.partitions": "2",
    }  # fmt: skip
    with ExitStack() as stack:
        of_master = ("org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        master = stack.enter_context(process(environment, tmp_path, *of_master))
        url = line_with(master, r"spark://127\.0\.0\.1:\d+")
        for number in range(2):
            of_worker = ("org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0", "--cores", "1",
                         "--memory", "600m", "--work-dir", str(tmp_path / f"work-{number}"), url)  # fmt: skip
            worker = stack.enter_context(process(environment, tmp_path, *of_worker))
            line_with(worker, "Successfully registered with master")
        command = [sys.executable, "-c", PROGRAM, url, str(tmp_path / "data"), str(tmp_path / "killed"), json.dumps(options)]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    assert (tmp_path / "killed").exists()
    assert answer["rows"] == wanted
    assert (answer["alike"], answer["recovered"].count("recovered")) == (True, len(NAMES))

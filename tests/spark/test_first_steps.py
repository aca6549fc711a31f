"""What a script of a user prints where something is missing: one sentence that says what to do, and no pages of Java."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.spark.conftest import QUICK_TO_START, missing
from tests.support.needs import lacking

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.xdist_group("spark elsewhere")  # processes of their own: beside the session of the others
SCRIPT = """
import sys
from pyspark.sql import SparkSession
import kafkalog_spark

builder = SparkSession.builder.master("local[1]").config("spark.driver.extraJavaOptions", sys.argv[2])
for name, value in {"spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}.items():
    builder = builder.config(name, value)
spark = (kafkalog_spark.configure(builder) if sys.argv[3:] else builder).getOrCreate()
path = sys.argv[1]

def source():
    return spark.read.format("kafkalog").load(path).count()

def registered():
    spark.dataSource.register(kafkalog_spark.KafkaLogSource)
    return source()

def shown():
    spark.read.format("kafkalog").load(path).show(1)
    return kafkalog_spark.read(spark, path).limit(1).count()

for work in (source, lambda: kafkalog_spark.read(spark, path).count(), registered, shown):
    try:
        print("RESULT", work())
    except Exception as error:  # what a user sees, of whatever class Spark makes it
        print("RESULT", str(error).replace(chr(10), " "))
print("PUSHED", spark.conf.get("spark.sql.python.filterPushdown.enabled"))
"""


@pytest.fixture
def script(own_corpus, tmp_path):
    """script(*arguments, **environment) → (stdout, stderr) of a script on a partition, run by this Python."""
    if gone := missing():
        lacking(f"this needs {', '.join(gone)}: not found")
    if find_spec("pyspark.sql.datasource") is None:
        lacking("data sources in Python need pyspark 4")
    shutil.copytree(next((own_corpus / "kafka-4.3.1/logs/clean").glob("*/multi-1")), tmp_path / "multi-1")
    java = os.environ.get("JAVA_HOME") or str(Path(shutil.which("java")).resolve().parents[1])

    def run(*arguments, **changes):
        environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "JAVA_HOME": java, "PYTHONPATH": str(ROOT), **changes}
        command = [sys.executable, "-c", SCRIPT, str(tmp_path / "multi-1"), QUICK_TO_START, *arguments]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout, done.stderr

    return run


def results(out):
    return [line.partition(" ")[2] for line in out.splitlines() if line.startswith("RESULT")]


def test_a_configured_session_needs_no_environment_and_prints_no_more_than_rows(script):
    out, err = script("configured")
    counts = results(out)
    assert counts == [counts[0]] * 3 + ["1"]
    assert int(counts[0]) > 1
    assert "PUSHED true" in out
    assert [word for word in ("Traceback", "BrokenPipeError", "\tat ") if word in err] == []


def test_workers_without_pyarrow_are_named_with_what_to_do(script, tmp_path):
    """Spark takes the python3 of PATH; here it is one that has nothing installed."""
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    out, _ = script(PATH=f"{bare}/bin:/usr/bin:/bin")
    said = results(out)
    assert len(said) == 4
    for one in said:
        assert "kafkalog: Spark's Python workers run " in one
        assert "which cannot import pyarrow: pip install 'kafkalog[spark]' there; or set PYSPARK_PYTHON" in one
        assert len(one) < 700


def test_a_broken_install_breaks_no_other_format_and_says_why(tmp_path):
    """Spark imports every module whose name begins with pyspark_, and what one of them raises ends the lookup of all formats."""
    if find_spec("pyspark.sql.datasource") is None:
        lacking("data sources in Python need pyspark 4")
    (tmp_path / "kafkalog_spark").mkdir()
    (tmp_path / "kafkalog_spark/__init__.py").write_text("raise RuntimeError('the kernels are not compiled')\n")
    shutil.copytree(ROOT / "pyspark_kafkalog", tmp_path / "pyspark_kafkalog")
    program = """
from pyspark_kafkalog import DefaultSource
print(DefaultSource.name())
try:
    DefaultSource({})
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(tmp_path)}, cwd=tmp_path,
                          capture_output=True, text=True, check=True)  # fmt: skip
    said = f"kafkalog: cannot be imported in {sys.executable}: the kernels are not compiled; install it there: pip install 'kafkalog[spark]'"
    assert done.stdout.splitlines() == ["kafkalog", said]


def test_without_java_there_is_a_warning_that_says_what_to_do(monkeypatch, caplog):
    from kafkalog_spark import session

    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    builder = type("Builder", (), {"config": lambda self, *_: self})()
    session.configure(builder)
    assert "Java is not found: a session needs Java 17 or 21 (set JAVA_HOME)" in caplog.text

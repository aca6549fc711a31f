"""Settings of a session that reads log dirs, and a check of the Python of its workers."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress
from functools import lru_cache
from shutil import which
from subprocess import CalledProcessError, run
from typing import TYPE_CHECKING, Any

from kafkalog_spark.errors import cannot_import

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger("kafkalog")

SHARED = {
    "spark.sql.execution.pyspark.udf.hideTraceback.enabled": "true",  # errors are one sentence
    "spark.python.daemon.module": "kafkalog_spark.daemon",
    "spark.ui.showConsoleProgress": "false",
}
_CONFIGURED = {**SHARED, "spark.sql.python.filterPushdown.enabled": "true", "spark.log.level": "OFF"}


def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Set what reading log dirs needs in a session: `kafkalog_spark.configure(SparkSession.builder).getOrCreate()`.

    Python workers are started with the Python of this process, unless PYSPARK_PYTHON names one. An error is an exception with
    one sentence; Spark logs nothing. Filters on topic, partition, offset and timestamp are pushed down. Later settings override
    these.
    """
    if "JAVA_HOME" not in os.environ and which("java") is None:
        _LOG.warning("Java is not found: a session needs Java 17 or 21 (set JAVA_HOME), unless it is one of Spark Connect")
    choose_python()
    _quiet_pyspark()
    for name, value in _CONFIGURED.items():
        builder = builder.config(name, value)
    return builder


def _quiet_pyspark() -> None:
    """Turn off the logs of pyspark that repeat each exception as JSON, with the stack of Java."""
    with suppress(ImportError):  # pyspark before 4.0 has none
        from pyspark.logger import PySparkLogger

        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)


def choose_python() -> None:
    """Let workers run the Python of this process, unless the environment names another one."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def check_workers(spark: Any) -> None:
    """Raise OptionError if the session's Python workers, on this machine, run a Python that cannot import what they need."""
    context = getattr(spark, "_sc", None)  # Spark Connect has none
    if context is not None and context.master.startswith("local"):
        name = _missing_in(context.pythonExec)
        if name is not None:
            raise cannot_import(name, context.pythonExec)


@lru_cache(8)
def _missing_in(python: str) -> str | None:
    """Return the module that `python` cannot import; None: it has all."""
    there = which(python)
    if there is not None and os.path.realpath(os.path.dirname(there)) == os.path.realpath(os.path.dirname(sys.executable)):
        return None
    program = "try:\n import pyarrow, kafkalog_spark.table.levels\nexcept ImportError as error: print(error.name)"
    try:
        done = run([python, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603  # what Spark runs
    except (OSError, CalledProcessError):
        return "kafkalog"
    return done.stdout.strip() or None

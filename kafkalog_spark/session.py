"""The session of `kafkalog spark`: the one of spark-submit where there is one, else one on the cores of this machine."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from kafkalog_spark.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",  # halves what a task costs
    "spark.sql.execution.pyspark.udf.hideTraceback.enabled": "true",  # errors are one sentence
}
_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": f"-Dlog4j.configurationFile={os.path.dirname(__file__)}/log4j2.properties",
}


@contextmanager
def session(master: str | None = None, settings: tuple[tuple[str, str], ...] = ()) -> Iterator[SparkSession]:
    """A session, stopped in the end unless it was there before.

    master    where to run; None: as spark-submit says, else every core of this machine
    settings  of Spark, in addition
    Raises OptionError where pyspark or Java are missing.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise OptionError("pyspark is not installed: pip install 'kafkalog[spark]'") from None
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("kafkalog")
    chosen = dict(_SETTINGS)
    if not submitted:
        master = master or "local[*]"
        chosen |= _LOCAL if master.startswith("local") else {}
    if master is not None:
        builder = builder.master(master)
    for name, value in (chosen | dict(settings)).items():
        builder = builder.config(name, value)
    heeded = signal.getsignal(signal.SIGINT)
    logging.getLogger().addFilter(_is_news)
    try:
        before = SparkSession.getActiveSession()
        opened = before or builder.getOrCreate()
    except Exception as error:  # noqa: BLE001  # whatever Java says: missing, too old, no such master
        logging.getLogger().removeFilter(_is_news)
        what = str(error).strip().splitlines()[0]
        raise OptionError(f"no Spark session: {what}; it needs Java 17 or 21, and a master that can be reached") from None
    if before is None:
        _heed(heeded)
    try:
        yield opened
    except KeyboardInterrupt:
        _hush(opened)
        raise
    finally:
        if before is None:
            opened.stop()
        logging.getLogger().removeFilter(_is_news)


def _heed(handler: Any) -> None:
    """Do again on Ctrl-C what was done before pyspark came: its own handler talks to Java in the middle of another talk."""
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)


def _hush(opened: SparkSession) -> None:
    """Tasks that are cut off have much to say, and to sockets that are closed: none of it matters any more."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    with suppress(Exception):  # over Connect there is no such thing
        opened.sparkContext.setLogLevel("OFF")


def _is_news(record: logging.LogRecord) -> bool:
    """What py4j logs of its talk with Java, with tracebacks, it raises as well; Ctrl-C is one of those things."""
    return "while sending command" not in record.getMessage()

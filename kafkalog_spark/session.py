"""The session of `kafkalog spark`: the one of spark-submit where there is one, else one on the cores of this machine.

Work on it is done in a thread of its own. The main thread only waits, so that what a signal raises there never comes between
Python and Java, who would go on talking past each other; it cancels what runs on Spark, and work ends as it does when a task
fails for good.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import TYPE_CHECKING, Generic, TypeVar

from kafkalog_spark.errors import OptionError
from kafkalog_spark.java import Java

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

T = TypeVar("T")

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
_NO_LOCAL_DIR = 53  # the exit status of Spark's ExecutorExitCode.DISK_STORE_FAILED_TO_CREATE_DIR
_UNWRITABLE = (
    "no Spark session: none of its scratch directories is writable; name others in SPARK_LOCAL_DIRS, else with "
    "--conf spark.local.dir=DIR"
)
_ATTEMPTS = 4  # at each task, as on clusters: Spark by itself gives a local one none but the first
_AGAIN = 0.2  # seconds: work that was just between two jobs of Spark begins the next one


@contextmanager
def session(
    master: str | None = None, settings: tuple[tuple[str, str], ...] = (), *, on_java: Callable[[Java], None] | None = None
) -> Iterator[SparkSession]:
    """A session, stopped in the end with its JVM, unless it existed before.

    master    where to run; None: as spark-submit says, else every core of this machine
    settings  of Spark, in addition
    on_java   takes the JVM where one was started
    Raises OptionError where pyspark or Java are missing.
    """
    before = known_session()
    if before is not None:
        yield before
        return
    started: list[Java] = []
    try:
        opened = _open(master, settings, started)
    except Exception as error:  # noqa: BLE001  # whatever Java says: missing, too old, no such master
        for java in started:
            if java.died_of() == _NO_LOCAL_DIR:
                raise OptionError(_UNWRITABLE) from None
            java.hand_on()
        what = str(error).strip().splitlines()[0]
        raise OptionError(f"no Spark session: {what}; it needs Java 17 or 21, and a master that can be reached") from None
    if on_java is not None and started:
        on_java(started[0])
    try:
        yield opened
    finally:
        opened.stop()
        for java in started:
            java.end()


def known_session() -> SparkSession | None:
    """The session that this thread has already. Raises OptionError where pyspark is missing."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise OptionError("pyspark is not installed: pip install 'kafkalog[spark]'") from None
    return SparkSession.getActiveSession()


def _open(master: str | None, settings: tuple[tuple[str, str], ...], started: list[Java]) -> SparkSession:
    """A new session; the JVM that was started for it is added to `started`."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    chosen = {"spark.app.name": "kafkalog", **_SETTINGS}
    if not submitted:
        master = master or f"local[*,{_ATTEMPTS}]"
        chosen |= _LOCAL if master.startswith("local") else {}
    if master is not None:
        chosen["spark.master"] = master
    chosen |= dict(settings)
    if not submitted:
        conf = SparkConf().setAll(list(chosen.items()))
        started.append(Java(conf))
        SparkContext(conf=conf, gateway=started[0].gateway)
    builder = SparkSession.builder
    for name, value in chosen.items():
        builder = builder.config(name, value)
    opened = builder.getOrCreate()
    for java in started:
        java.hand_on(kept=False)
    return opened


class Work(Generic[T]):
    """`work` on a session of its own, in a thread of its own, from now on; where this thread has one, on that and at once.

    master, settings  see `session`
    Raises OptionError where pyspark is missing.
    """

    def __init__(
        self, work: Callable[[SparkSession], T], master: str | None = None, settings: tuple[tuple[str, str], ...] = ()
    ) -> None:
        self._work, self._master, self._settings = work, master, settings
        self._over = Event()
        self._is_cancelled = False
        self._session: SparkSession | None = None
        self._java: Java | None = None
        self._result: T | None = None
        self._error: BaseException | None = None
        if known_session() is not None:  # other threads know nothing of it
            self._run()
        else:
            Thread(target=self._run, name="kafkalog spark", daemon=True).start()

    def wait(self) -> None:
        """Until it is over. Signals raise here what they raise."""
        self._over.wait()

    def result(self) -> T:
        """What `work` gave, once it is over. Raises what it raised, and OptionError where Java is missing."""
        if self._error is not None:
            raise self._error
        assert self._over.is_set()
        return self._result  # type: ignore[return-value]  # None only where T is

    def cancel(self) -> bool:
        """Cancel what runs on Spark, and wait until work has cleared up behind it; False: it had not begun, no wait."""
        self._is_cancelled = True
        while self._session is not None and not self._over.wait(_AGAIN):
            if self._java is not None:
                self._java.hush()
            with suppress(Exception):  # over Connect there is no such thing
                self._session.sparkContext.cancelAllJobs()
        return self._over.is_set()

    def _run(self) -> None:
        try:
            with session(self._master, self._settings, on_java=self._note) as spark:
                self._session = spark
                if not self._is_cancelled:
                    self._result = self._work(spark)
        except BaseException as error:  # noqa: BLE001  # handed over to who waits
            self._error = error
        finally:
            self._over.set()

    def _note(self, java: Java) -> None:
        self._java = java

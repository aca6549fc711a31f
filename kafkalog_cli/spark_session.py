"""The session of `kafkalog spark`: the session of spark-submit if there is one, else one on the cores of this machine.

The work is done in a second thread; the main thread only waits. An exception that a signal handler raises in the main thread
therefore never interrupts a message between Python and the JVM, which would break their protocol. The main thread then cancels
the jobs of Spark, and the work ends as after a task that failed for good.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from subprocess import TimeoutExpired
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kafkalog_spark.errors import OptionError
from kafkalog_spark.session import SHARED, choose_python

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark import SparkConf
    from pyspark.sql import SparkSession

T = TypeVar("T")

_SETTINGS = {
    **SHARED,
    "spark.sql.session.timeZone": "UTC",
    # halves what a task costs; a session that is not stopped then ends with tracebacks of BrokenPipeError, but ours is stopped
    "spark.python.unix.domain.socket.enabled": "true",
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
_ATTEMPTS = 4  # at each task, as on clusters; Spark's default for a local master is 1
_AGAIN = 0.2  # seconds between attempts to cancel: work that was between two Spark jobs starts the next one
_STDERR = 2
_CHUNK = 64 << 10
_EXIT_WAIT = 2  # seconds to wait for a JVM that no longer answers
_END_TIMEOUT = 30  # seconds that a JVM may take to end
_MAX_BUFFERED = 1 << 20  # bytes of output that are buffered while it starts


class Java:
    """A JVM for the driver. Its stderr and that of its Python workers is copied to ours, from `forward` until `discard_output`.

    The warnings that it prints while it starts do not concern the user; they are shown only if the start fails.
    Raises the exceptions of pyspark if Java is missing or too old.
    """

    def __init__(self, conf: SparkConf) -> None:
        from pyspark.java_gateway import launch_gateway

        self._lock = Lock()
        self._buffered: bytes | None = b""  # None: output is forwarded
        self._is_discarding = False
        read_end, write_end = os.pipe()
        self._reader = Thread(target=self._read_output, args=(read_end,), daemon=True)
        self._reader.start()
        try:
            self.gateway: Any = launch_gateway(conf, {"stderr": write_end})  # type: ignore[no-untyped-call]  # pyspark has no types for it
        except BaseException:
            os.close(write_end)
            self._reader.join(_END_TIMEOUT)  # the JVM has ended: its output is complete
            self.forward()
            raise
        os.close(write_end)

    def forward(self, *, buffered: bool = True) -> None:
        """Forward the output from now on; `buffered`: the buffered output too."""
        with self._lock:
            output, self._buffered = self._buffered, None
        if buffered and output:
            _write(output)

    def exit_status(self) -> int | None:
        """Return the exit status of the JVM if it has ended, or ends within _EXIT_WAIT; None: it runs."""
        try:
            return int(self.gateway.proc.wait(_EXIT_WAIT))
        except TimeoutExpired:
            return None

    def discard_output(self) -> None:
        """Discard the output from now on: cancelled tasks print much that no longer matters."""
        self._is_discarding = True

    def end(self) -> None:
        """End the JVM, and wait for it. Its session must be stopped."""
        process = self.gateway.proc
        self.gateway.shutdown()
        with suppress(OSError):
            process.stdin.close()  # the JVM ends when its stdin is closed
        try:
            process.wait(_END_TIMEOUT)
        except TimeoutExpired:
            process.kill()
            process.wait()
        self._reader.join(_END_TIMEOUT)

    def _read_output(self, read_end: int) -> None:
        with os.fdopen(read_end, "rb", buffering=0) as pipe:
            while output := pipe.read(_CHUNK):
                self._add(output)

    def _add(self, output: bytes) -> None:
        with self._lock:
            if self._buffered is not None:
                self._buffered = (self._buffered + output)[-_MAX_BUFFERED:]
                return
        if output and not self._is_discarding:
            _write(output)


def _write(output: bytes) -> None:
    with suppress(OSError):  # closed or full: the program reports errors of its own output elsewhere
        os.write(_STDERR, output)


@contextmanager
def session(
    master: str | None = None, settings: tuple[tuple[str, str], ...] = (), *, on_java: Callable[[Java], None] | None = None
) -> Iterator[SparkSession]:
    """Open a session; at the end stop it and its JVM, unless it existed before.

    master    Spark's master; None: that of spark-submit, else every core of this machine
    settings  additional settings of Spark
    on_java   is called with the JVM if one was started
    Raises OptionError if Java is missing.
    """
    before = known_session()
    if before is not None:
        yield before
        return
    started: list[Java] = []
    try:
        opened = _open(master, settings, started)
    except Exception as error:  # noqa: BLE001  # any failure of Java: missing, too old, no such master
        for java in started:
            if java.exit_status() == _NO_LOCAL_DIR:
                raise OptionError(_UNWRITABLE) from None
            java.forward()
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
    """Return the active session of this thread, if any."""
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def _open(master: str | None, settings: tuple[tuple[str, str], ...], started: list[Java]) -> SparkSession:
    """Open a new session; a JVM that was started for it is appended to `started`."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    choose_python()
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
        java.forward(buffered=False)
    return opened


class Work(Generic[T]):
    """Runs `work` on a new session, in a new thread. If this thread already has a session, runs it there and at once.

    master, settings  see `session`
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
        if known_session() is not None:  # a session is active in one thread only
            self._run()
        else:
            Thread(target=self._run, name="kafkalog spark", daemon=True).start()

    def wait(self) -> None:
        """Wait until the work is done. Signal handlers may raise here."""
        self._over.wait()

    def result(self) -> T:
        """Return the result of `work`, after `wait`. Raises the exception of `work`, and OptionError if Java is missing."""
        if self._error is not None:
            raise self._error
        assert self._over.is_set()
        return self._result  # type: ignore[return-value]  # None only where T is

    def cancel(self) -> bool:
        """Cancel the jobs of Spark, and wait until `work` has cleaned up. False: it had not begun, nothing to wait for."""
        self._is_cancelled = True
        while self._session is not None and not self._over.wait(_AGAIN):
            if self._java is not None:
                self._java.discard_output()
            with suppress(Exception):  # Spark Connect has no SparkContext
                self._session.sparkContext.cancelAllJobs()
        return self._over.is_set()

    def _run(self) -> None:
        try:
            with session(self._master, self._settings, on_java=self._note) as spark:
                self._session = spark
                if not self._is_cancelled:
                    self._result = self._work(spark)
        except BaseException as error:  # noqa: BLE001  # `result` raises it
            self._error = error
        finally:
            self._over.set()

    def _note(self, java: Java) -> None:
        self._java = java

"""The processes of a session: the JVM that kafkalog starts, which ends with the session; the Python of the workers."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import lru_cache
from shutil import which
from subprocess import CalledProcessError, TimeoutExpired, run
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from kafkalog_spark.errors import cannot_import

if TYPE_CHECKING:
    from pyspark import SparkConf

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


def _write(output: bytes) -> None:
    with suppress(OSError):  # closed or full: the program reports errors of its own output elsewhere
        os.write(_STDERR, output)

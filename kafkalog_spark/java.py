"""The JVM of a session that kafkalog starts: its output is buffered during the start; it ends with the session."""

from __future__ import annotations

import os
from contextlib import suppress
from subprocess import TimeoutExpired
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkConf

_STDERR = 2
_CHUNK = 64 << 10
_EXIT_WAIT = 2  # seconds to wait for a JVM that no longer answers
_END_TIMEOUT = 30  # seconds that a JVM may take to end
_FIRST_LINE = b"Traceback (most recent call last):"
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
        tracebacks = DaemonTracebackFilter()
        with os.fdopen(read_end, "rb", buffering=0) as pipe:
            while output := pipe.read(_CHUNK):
                self._add(tracebacks.feed(output))
        self._add(tracebacks.rest())

    def _add(self, output: bytes) -> None:
        with self._lock:
            if self._buffered is not None:
                self._buffered = (self._buffered + output)[-_MAX_BUFFERED:]
                return
        if output and not self._is_discarding:
            _write(output)


class DaemonTracebackFilter:
    """Removes the tracebacks that Spark's Python daemon prints when the JVM closes its connection, after a failed task.

    Spark reports errors inside a task as the error of the job; they are not in this output.
    """

    def __init__(self) -> None:
        self._line = b""  # the incomplete last line
        self._traceback: list[bytes] = []  # the lines of an incomplete traceback

    def feed(self, output: bytes) -> bytes:
        """Add output, and return the complete lines to forward."""
        *lines, self._line = (self._line + output).split(b"\n")
        return b"".join(one + b"\n" for line in lines for one in self._next(line))

    def rest(self) -> bytes:
        """Return the incomplete rest, at the end. A traceback of only one line is the daemon's, which the JVM killed."""
        left = [*self._traceback, self._line]
        if b"".join(left) == _FIRST_LINE or (self._traceback and any(b"pyspark/daemon.py" in one for one in left)):
            return b""
        return b"\n".join(left)

    def _next(self, line: bytes) -> list[bytes]:
        if not self._traceback and not line.startswith(b"Traceback "):
            return [line]
        self._traceback.append(line)
        if len(self._traceback) == 1 or line.startswith(b" "):
            return []
        whole, self._traceback = self._traceback, []
        return [] if any(b"pyspark/daemon.py" in one for one in whole) else whole


def _write(output: bytes) -> None:
    with suppress(OSError):  # closed or full: the program reports errors of its own output elsewhere
        os.write(_STDERR, output)

"""The JVM of a session of ours: its output is held back; it ends with the session."""

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
_DYING = 2  # seconds that one takes that does not answer any more
_LEAVING = 30  # seconds that a JVM may take to end
_FIRST_LINE = b"Traceback (most recent call last):"
_KEPT = 1 << 20  # bytes of what it says while it starts


class Java:
    """A JVM for the driver. What it and its Python workers say on stderr comes to ours, from `hand_on` until `hush`.

    While it starts it warns of what is none of the user's business; that is shown only where it fails.
    Raises what pyspark raises where Java is missing or too old.
    """

    def __init__(self, conf: SparkConf) -> None:
        from pyspark.java_gateway import launch_gateway

        self._lock = Lock()
        self._kept: bytes | None = b""  # None: words are handed on
        self._is_hushed = False
        out, into = os.pipe()
        self._words = Thread(target=self._listen, args=(out,), daemon=True)
        self._words.start()
        try:
            self.gateway: Any = launch_gateway(conf, {"stderr": into})  # type: ignore[no-untyped-call]
        except BaseException:
            os.close(into)
            self._words.join(_LEAVING)  # it has ended, so there is no more to come
            self.hand_on()
            raise
        os.close(into)

    def hand_on(self, *, kept: bool = True) -> None:
        """From here on its words are ours; `kept`: those that were held back as well."""
        with self._lock:
            said, self._kept = self._kept, None
        if kept and said:
            _say(said)

    def died_of(self) -> int | None:
        """The exit status of a JVM that ended by itself, which it may be about to; None: it runs."""
        try:
            return int(self.gateway.proc.wait(_DYING))
        except TimeoutExpired:
            return None

    def hush(self) -> None:
        """From here on nothing is handed on: tasks that are cut off have much to say, and none of it matters any more."""
        self._is_hushed = True

    def end(self) -> None:
        """End the JVM, and wait for it. Its session must be stopped."""
        process = self.gateway.proc
        self.gateway.shutdown()
        with suppress(OSError):
            process.stdin.close()  # it ends when it sees that nobody can ask any more
        try:
            process.wait(_LEAVING)
        except TimeoutExpired:
            process.kill()
            process.wait()
        self._words.join(_LEAVING)

    def _listen(self, out: int) -> None:
        words_of_daemons = DaemonsTracebacks()
        with os.fdopen(out, "rb", buffering=0) as words:
            while said := words.read(_CHUNK):
                self._take(words_of_daemons.left_out_of(said))
        self._take(words_of_daemons.rest())

    def _take(self, said: bytes) -> None:
        with self._lock:
            if self._kept is not None:
                self._kept = (self._kept + said)[-_KEPT:]
                return
        if said and not self._is_hushed:
            _say(said)


class DaemonsTracebacks:
    """Leaves out what Spark's own daemon for Python says when Java cuts it off, which is how a failed task ends.

    Errors inside a task are not reported here: Spark hands them on as the error of its job.
    """

    def __init__(self) -> None:
        self._line = b""  # that has not come whole
        self._traceback: list[bytes] = []  # that has not come whole

    def left_out_of(self, said: bytes) -> bytes:
        """The whole lines that are to be handed on."""
        *lines, self._line = (self._line + said).split(b"\n")
        return b"".join(one + b"\n" for line in lines for one in self._next(line))

    def rest(self) -> bytes:
        """What is left at the end. A traceback that was cut off after its first line is the daemon's, as Java ends it."""
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


def _say(words: bytes) -> None:
    with suppress(OSError):  # closed or full: the program reports errors of its own output
        os.write(_STDERR, words)

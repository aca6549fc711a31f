"""The JVM of a session of ours: started where its words can be held back, gone when the session is."""

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
_LEAVING = 30  # seconds that a JVM may take to end
_KEPT = 1 << 20  # bytes of what it says while it starts


class Java:
    """A JVM for the driver. What it and its Python workers say on stderr comes to ours, from `hand_on` until `hush`.

    While it starts it warns of what is none of the user's business; that is told only where it fails.
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

    def hush(self) -> None:
        """From here on nothing is handed on: tasks that are cut off have much to say, and none of it matters any more."""
        self._is_hushed = True

    def end(self) -> None:
        """Let the JVM go, and wait until it is gone. Its session must be stopped."""
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
        with os.fdopen(out, "rb", buffering=0) as words:
            while said := words.read(_CHUNK):
                with self._lock:
                    if self._kept is not None:
                        self._kept = (self._kept + said)[-_KEPT:]
                        continue
                if not self._is_hushed:
                    _say(said)


def _say(words: bytes) -> None:
    with suppress(OSError):  # closed or full: of its own output the program tells
        os.write(_STDERR, words)

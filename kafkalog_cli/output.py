"""Standard output by a thread of its own: while the operating system copies one buffer, kernels fill the next."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any, TextIO

from engine.background import Background

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self


class BackgroundWriter:
    """Hands views to `write`, one at a time and in order.

    A view must not change until the next call of `write` or `drain` has returned. What `write` raises comes out of the
    next call; nothing is written behind it.
    """

    def __init__(self, write: Callable[[memoryview], object]) -> None:
        self._sink = write
        self._thread: Background[object] = Background("output")

    def write(self, view: memoryview) -> None:
        """Wait for the view before, then begin with this one. Raises what writing that one raised."""
        self.drain()
        self._thread.begin(lambda: self._sink(view))

    def drain(self) -> None:
        """Wait until everything is written. Raises what writing raised."""
        if self._thread.is_busy:
            self._thread.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: object, *_more: object) -> None:
        """End the thread; after an error, such as Ctrl-C, without waiting for a reader who may never come."""
        if error is None:
            self._thread.close()


def raw_stdout() -> Callable[[memoryview], object]:
    """What writes to standard output past Python's own buffer, whose lock a blocked thread would keep to the end."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        return sys.stdout.buffer.write  # no file behind it: a test's
    sys.stdout.flush()

    def write(view: memoryview) -> None:
        done = 0
        while done < len(view):
            done += os.write(descriptor, view[done:])

    return write


def outlive_reader() -> None:
    """From now on a reader of stdout that goes away (`| head`) ends the output, not the work on files."""
    if signal.getsignal(signal.SIGPIPE) is signal.SIG_DFL:  # as `main` left it: nobody else's process
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        sys.stdout = _Outliving(sys.stdout)


class _Outliving:
    """A text stream that goes on into nothing when nobody reads it any more."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write, or drop."""
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            self._go_on_into_nothing()
            return len(text)

    def flush(self) -> None:
        """Flush, or drop."""
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._go_on_into_nothing()

    def _go_on_into_nothing(self) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

"""Standard output by a thread: while the operating system copies one buffer, kernels fill the next.

Also the JSON of commands, from `begin` to `end`: docs/json.md describes the objects, schema.json defines them.
"""

from __future__ import annotations

import os
import signal
import stat
import sys
from queue import SimpleQueue
from threading import Semaphore, Thread
from typing import TYPE_CHECKING

import click

from engine.dump.json_stream import JsonStream
from engine.dump.text_buffer import WAITING, TextBuffer
from kafkalog_cli.streams import TolerantStream

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self, TextIO


class BackgroundWriter:
    """Passes views to `write` in a thread, one at a time and in order.

    A view must not change until WAITING further calls of `write`, or one of `drain`, return. After `write` failed, every call
    raises its error and nothing is written.
    """

    def __init__(self, write: Callable[[memoryview], object]) -> None:
        self._sink = write
        self._views: SimpleQueue[memoryview | None] = SimpleQueue()
        self._room = Semaphore(WAITING)
        self._error: BaseException | None = None
        self._thread: Thread | None = None

    def write(self, view: memoryview) -> None:
        """Wait until fewer than WAITING views are left to write, then add this one. Raises what writing raised."""
        if self._thread is None:
            self._thread = Thread(target=self._run, name="kafkalog-output", daemon=True)
            self._thread.start()
        self._room.acquire()
        self._views.put(view)
        self._check()

    def drain(self) -> None:
        """Wait until everything is written. Raises what writing raised."""
        for _ in range(WAITING):
            self._room.acquire()
        self._room.release(WAITING)
        self._check()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        while (view := self._views.get()) is not None:
            try:
                if self._error is None:
                    self._sink(view)
            except BaseException as error:  # noqa: BLE001  # `write` and `drain` raise it
                self._error = error
            self._room.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: object, *_more: object) -> None:
        """End the thread; after an error, such as Ctrl-C, without waiting for a blocked write."""
        if error is None and self._thread is not None:
            self._views.put(None)
            self._thread.join()


def raw_stdout() -> Callable[[memoryview], object]:
    """Return a function that writes to stdout without Python's own buffer, whose lock a blocked thread would hold."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        return sys.stdout.buffer.write  # not a file, in tests
    sys.stdout.flush()

    def write(view: memoryview) -> None:
        done = 0
        while done < len(view):
            done += os.write(descriptor, view[done:])

    return write


def tolerate_output_failure() -> None:
    """From here on, if output fails or its reader ends (`| head`), drop output instead of stopping work on files.

    See `output_failure`.
    """
    if signal.getsignal(signal.SIGPIPE) is signal.SIG_DFL:  # only if `main` set it, that is, in kafkalog's own process
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        sys.stdout, sys.stderr = TolerantStream(sys.stdout), TolerantStream(sys.stderr)


def output_failure() -> OSError | None:
    """Return why stdout could not be written since `tolerate_output_failure`; None: no failure, or its reader ended."""
    return getattr(sys.stdout, "failure", None)


def print_always(text: str, *, err: bool = False) -> None:
    """Print to stdout; if that fails or is a pipe, which may lose its reader, also to stderr if that is another file.

    err  print only to stderr
    """
    if not err:
        click.echo(text)
    if err or output_failure() is not None or (_is_pipe(sys.stdout) and not _is_one_file(sys.stdout, sys.stderr)):
        click.echo(text, err=True)


def _is_pipe(stream: TextIO | TolerantStream) -> bool:
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError):  # of a test's stream
        return False
    return stat.S_ISFIFO(mode) or (stat.S_ISCHR(mode) and not stream.isatty())


def _is_one_file(one: TextIO | TolerantStream, other: TextIO | TolerantStream) -> bool:
    try:
        return os.path.sameopenfile(one.fileno(), other.fileno())
    except (OSError, ValueError):
        return False


def tolerant(write: Callable[[memoryview], object]) -> Callable[[memoryview], object]:
    """Return a function that writes as `write` does, and after its first failure drops output."""

    def attempt(view: memoryview) -> None:
        if output_failure() is None:
            try:
                write(view)
            except OSError as error:
                stream = sys.stdout
                if not isinstance(stream, TolerantStream):
                    raise
                stream.give_up(error)

    return attempt


class Lines(TextBuffer):
    """Passes every complete line to `say` at once, for commands whose output must not wait."""

    def __init__(self, say: Callable[[str], object] = click.echo) -> None:
        self._pieces: list[bytes] = []
        super().__init__(lambda view: self._pieces.append(bytes(view)), 1 << 12)
        self.say = say

    def put(self, text: bytes | str) -> None:
        """Append text; complete lines are printed."""
        super().put(text)
        if text[-1:] in ("\n", b"\n"):
            self.flush()
            line = b"".join(self._pieces).decode()
            self._pieces.clear()
            self.say(line[:-1])


def json_stream(form: str, out: TextBuffer | None = None, command: str | None = None) -> JsonStream | None:
    """Return a stream into `out`; None if `form` is text.

    out      None: each object is printed at once, see `Lines`
    command  None: the command that runs
    """
    if form == "text":
        return None
    context = click.get_current_context(silent=True)
    name = command or (context.command_path.partition(" ")[2] if context else "")
    return JsonStream(Lines() if out is None else out, name, array=form == "json", ascii=sys.stdout.isatty())

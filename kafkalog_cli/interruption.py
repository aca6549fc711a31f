"""Ctrl-C and SIGTERM while files are changed: the work stops between two disk operations, never within one.

The files are then as after a crash at that point, and each such point is tested: the partition opens. Locks are released and
quarantines closed before the process ends.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import ExitStack, contextmanager
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any, Self

from engine.background import checked
from engine.files import Files, OpenFile, WritableFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.files import Buffer, FileInfo

AS_A_CRASH = "; unfinished files are as after a crash: run kafkalog recover, or start the broker"
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_ERASE_BAR = b"\r\x1b[K\x1b[?25h"  # erases the progress bar on a terminal, and shows the cursor again


class Interrupted(KeyboardInterrupt):
    """The work stopped because of a signal."""

    def __init__(self, number: int) -> None:
        super().__init__(f"interrupted by {signal.Signals(number).name}")
        self.number = number


class Interruption:
    """Handles the signals that end the process, from `with` on. A second signal ends it at once.

    number  of the signal that came, None before
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._is_announced = False
        self._is_waiting = False
        self._held = 0
        self._before: dict[int, Any] = {}
        self._opened = ExitStack()

    def __enter__(self) -> Self:
        self.number, self._is_announced, self._is_waiting, self._held = None, False, False, 0
        self._opened.enter_context(checked(self.check))
        if current_thread() is main_thread():
            for number in _SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:  # ignored under `nohup`, or with `&` in a script
                    self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_error: object) -> None:
        self._opened.close()
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    @property
    def name(self) -> str:
        """The name of the signal."""
        return "" if self.number is None else signal.Signals(self.number).name

    @property
    def status(self) -> int:
        """The exit status of a program that the signal ended; 0: none came."""
        return 0 if self.number is None else 128 + self.number

    def check(self) -> None:
        """Raise Interrupted if a signal came: in the main thread only once, since it must clean up, in others always."""
        if self.number is None or self._held:
            return
        if current_thread() is main_thread():
            if self._is_announced:
                return
            self._is_announced = True
        raise Interrupted(self.number)

    def defer_to_end(self) -> None:
        """Do not interrupt the work from here on: only cleaning up is left."""
        self._held += 1

    @contextmanager
    def held(self) -> Iterator[None]:
        """Do not interrupt the block: it checks `number` itself."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Let a signal raise Interrupted in this block, which waits for something."""
        self._is_waiting = True
        try:
            if self.number is not None:
                raise Interrupted(self.number)
            yield
        finally:
            self._is_waiting = False

    def _on_signal(self, number: int, _frame: object) -> None:
        if self.number is not None:
            try:
                if os.isatty(2):
                    os.write(2, _ERASE_BAR)
                os.write(2, b"interrupted again: left at once, as a crash would leave it\n")
            finally:
                os._exit(128 + number)
        self.number = number
        if self._is_waiting:
            self._is_waiting = False
            raise Interrupted(number)


INTERRUPTION = Interruption()  # a process has only one set of signal handlers


class _InterruptibleFile(OpenFile):
    """A file for reading that raises Interrupted after a signal."""

    __slots__ = ()

    def read_into(self, buffer: memoryview, position: int) -> int:
        INTERRUPTION.check()
        return super().read_into(buffer, position)


class _InterruptibleWritableFile(WritableFile):
    """A file for reading and writing that raises Interrupted after a signal."""

    __slots__ = ()

    def read_into(self, buffer: memoryview, position: int) -> int:
        INTERRUPTION.check()
        return super().read_into(buffer, position)

    def write_at(self, position: int, *parts: Buffer) -> None:
        INTERRUPTION.check()
        super().write_at(position, *parts)

    def truncate(self, size: int) -> None:
        INTERRUPTION.check()
        super().truncate(size)

    def sync(self) -> None:
        INTERRUPTION.check()
        super().sync()


class InterruptibleFiles(Files):
    """The file system; after a signal, reading a directory or a file, and every change, raises Interrupted."""

    _opened, _opened_writable = _InterruptibleFile, _InterruptibleWritableFile

    def info(self, path: str) -> FileInfo:
        """As Files does."""
        INTERRUPTION.check()
        return super().info(path)

    def plain(self, directory: str) -> list[str]:
        """As Files does."""
        INTERRUPTION.check()
        return super().plain(directory)

    def list(self, directory: str) -> list[str]:
        """As Files does."""
        INTERRUPTION.check()
        return super().list(directory)

    def open(self, path: str) -> OpenFile:
        """As Files does."""
        INTERRUPTION.check()
        return super().open(path)

    def open_writable(self, path: str, *, create: bool = False, mode: int | None = None) -> WritableFile:
        """As Files does."""
        INTERRUPTION.check()
        return super().open_writable(path, create=create, mode=mode)

    def rename(self, path: str, to: str, *, replaces: bool = False) -> None:
        """As Files does."""
        INTERRUPTION.check()
        super().rename(path, to, replaces=replaces)

    def remove(self, path: str) -> None:
        """As Files does."""
        INTERRUPTION.check()
        super().remove(path)

    def make_directory(self, path: str) -> None:
        """As Files does."""
        INTERRUPTION.check()
        super().make_directory(path)

    def remove_directory(self, path: str) -> None:
        """As Files does."""
        INTERRUPTION.check()
        super().remove_directory(path)

    def sync_directory(self, path: str) -> None:
        """As Files does."""
        INTERRUPTION.check()
        super().sync_directory(path)

    def set_modified(self, path: str, modified_ns: int) -> None:
        """As Files does."""
        INTERRUPTION.check()
        super().set_modified(path, modified_ns)


def print_interrupted(what: str) -> None:
    """Print one line to stderr, which may be closed."""
    try:
        sys.stderr.write(f"interrupted by {INTERRUPTION.name}: {what}\n")
        sys.stderr.flush()
    except OSError:
        return

"""How far the work is, on a terminal: bytes read of all bytes there are, with rate and time left."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, Any, Self

import click

from engine.discovery.names import parent_of
from engine.files import OpenFile, look
from engine.files.layered import ReadOnlyFilesAbove
from engine.log.logdir.metrics import FlushStats, MeasuringFiles
from kafkalog_cli.interruption import HeedingFiles
from kafkalog_cli.streams import colour_choice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rich.progress import ProgressColumn

    from engine.files import Files, ReadOnlyFiles
    from engine.log.logdir.log_dirs import LogDir, PartitionPath

_WORTH_SHOWING = 64 << 20  # bytes: less is read before anyone could look
_WORTH_WAITING = 2  # seconds, where the work is held back
_ROOMY = 70  # columns of a terminal that take all of it
_NOTHING_MOVES = ("dumb", "unknown")  # terminals that cannot go back
_OPENING = 0.25  # of the work on a log, at most: reading it twice after an unclean stop


@dataclass(slots=True)
class _Part:
    """How much of a log is done, 0 … 1. Only the thread that works on it changes it."""

    size: int
    read: int = 0
    opened: float | None = None  # the share that was done when the work itself began
    share: float = 0


class Progress:
    """A bar on stderr where that is a terminal and there is much to read; else nothing.

    It never exceeds its end, and never decreases while the whole work stays the same.
    """

    def __init__(self) -> None:
        self.is_shown = sys.stderr.isatty() and os.environ.get("TERM") not in _NOTHING_MOVES
        self._bar: Any = None
        self._task: Any = None
        self._left = 0  # bytes to the end of the bar
        self._parts: dict[str, _Part] = {}  # by directory; none: the bar shows what is read
        self._lock = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def expect(self, log_dirs: Iterable[LogDir], files_of: Callable[[str], ReadOnlyFiles]) -> None:
        """Begin, with the size of all logs as the whole of the work, and reading them as what is done."""
        if self.is_shown:
            self._expect(sum(_sizes(log_dirs, files_of).values()))

    def expect_shares(
        self, log_dirs: Iterable[LogDir], files_of: Callable[[str], ReadOnlyFiles], what: str, bytes_per_second: int | None
    ) -> None:
        """Begin again, with these logs as the whole work; `share` is the part of each that is done.

        what  the work on them      bytes_per_second  that it may read; None: as fast as it can
        """
        if self.is_shown:
            self._parts = {directory: _Part(size) for directory, size in _sizes(log_dirs, files_of).items()}
            worth = _WORTH_SHOWING if bytes_per_second is None else min(_WORTH_SHOWING, _WORTH_WAITING * bytes_per_second)
            self._expect(sum(part.size for part in self._parts.values()), what, worth)

    def expect_partitions(self, files: ReadOnlyFiles, directories: Iterable[str]) -> None:
        """As `expect`, for partitions by their paths."""
        if self.is_shown:
            self._expect(sum(_size(files, directory) for directory in directories))

    def _expect(self, total: int, what: str = "reading logs", worth: int | None = None) -> None:
        self._left = total
        if self._bar is not None:
            self._bar.reset(self._task, total=total, description=what)
            return
        if total < (_WORTH_SHOWING if worth is None else worth):
            return
        from rich.console import Console
        from rich.progress import Progress as Bar

        console = Console(stderr=True)
        self._bar = Bar(*_columns(console.width), console=console, transient=True)
        self._task = self._bar.add_task(what, total=total)
        self._bar.start()

    def advance(self, size: int, path: str = "") -> None:
        """Add the bytes that were read of the file at `path`."""
        if self._bar is None:
            return
        if not self._parts:
            self._move(size)
            return
        part = self._parts.get(parent_of(path))
        if part is not None and part.opened is None:
            part.read += size
            self._set(part, _OPENING * min(1, part.read / max(1, 2 * part.size)))

    def share(self, directory: str, share: float) -> None:
        """So much of the work on the log in `directory` is done, 0 … 1, besides opening it."""
        part = self._parts.get(directory)
        if part is not None:
            if part.opened is None:
                part.opened = part.share
            self._set(part, part.opened + (1 - part.opened) * share)

    def _set(self, part: _Part, share: float) -> None:
        if share > part.share:
            before, part.share = part.share, share
            self._move(int(part.size * share) - int(part.size * before))

    def _move(self, size: int) -> None:
        if self._bar is not None and size:
            with self._lock:
                size = min(size, self._left)
                self._left -= size
            self._bar.advance(self._task, size)

    def done(self, place: PartitionPath) -> None:
        """The work on a partition is finished."""
        self.done_with(place.path)

    def done_with(self, path: str) -> None:
        """The work on the partition at `path` is finished."""
        part = self._parts.get(path)
        if part is not None:
            self._set(part, 1)
        if self._bar is not None:
            self._bar.update(self._task, description=f"done: {path.rpartition('/')[2]}")

    def say(self, text: str) -> None:
        """Print on stdout; a bar that is on the same screen stays below."""
        if self._bar is not None and sys.stdout.isatty():
            self._bar.console.file.write("\r\x1b[K")
        click.echo(text, color=colour_choice())


def _columns(width: int) -> tuple[ProgressColumn, ...]:
    """What a bar shows on a terminal of that width, in one line whatever the names of partitions."""
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.table import Column

    def one_line(most: int | None = None) -> Column:
        return Column(no_wrap=True, max_width=most)

    left, text = TimeRemainingColumn(table_column=one_line()), "{task.description}"
    if width < _ROOMY:
        return TextColumn(text, markup=False, table_column=one_line(15)), BarColumn(None), TaskProgressColumn(), left
    what = TextColumn(text, markup=False, table_column=one_line(24))
    amounts = DownloadColumn(table_column=one_line()), TransferSpeedColumn(table_column=one_line())
    return what, BarColumn(), *amounts, left


def _sizes(log_dirs: Iterable[LogDir], files_of: Callable[[str], ReadOnlyFiles]) -> dict[str, int]:
    """Bytes of the logs in each partition directory."""
    return {place.path: _size(files_of(log_dir.path), place.path) for log_dir in log_dirs for place in log_dir.places}


def _size(files: ReadOnlyFiles, directory: str) -> int:
    """Bytes of all logs in a partition directory; one that is deleted meanwhile has none."""
    found = (look(files, f"{directory}/{name}") for name in files.list(directory) if name.endswith(".log"))
    return sum(info.size for info in found if info is not None)


class _CountedFile(OpenFile):
    """A file whose reading is counted."""

    __slots__ = ("_below", "_count")

    def __init__(self, below: OpenFile, count: Callable[[int, str], object]) -> None:
        super().__init__(below.path, -1)
        self._below, self._count = below, count

    def close(self) -> None:
        self._below.close()

    def size(self) -> int:
        return self._below.size()

    def read_into(self, buffer: memoryview, position: int) -> int:
        count = self._below.read_into(buffer, position)
        self._count(count, self.path)
        return count


class _CountingReader(ReadOnlyFilesAbove):
    """What is below, with logs whose reading is counted."""

    def __init__(self, below: ReadOnlyFiles, count: Callable[[int, str], object]) -> None:
        super().__init__(below)
        self._count = count

    def open(self, path: str) -> OpenFile:
        file = super().open(path)
        return _CountedFile(file, self._count) if path.endswith(".log") else file


class _MeasuringDisk(MeasuringFiles, HeedingFiles):
    """The disk, with logs whose syncs are counted."""


class _CountingFiles(_MeasuringDisk):
    """The disk, with logs whose reading is counted as well."""

    def __init__(self, count: Callable[[int, str], object], flushes: FlushStats) -> None:
        super().__init__(flushes)
        self._count = count

    def open(self, path: str) -> OpenFile:
        file = super().open(path)
        return _CountedFile(file, self._count) if path.endswith(".log") else file


def watched_reader(progress: Progress, files: ReadOnlyFiles) -> ReadOnlyFiles:
    """`files`; what is read of them is reported to `progress` if that is shown."""
    return _CountingReader(files, progress.advance) if progress.is_shown else files


def watched_disk(progress: Progress, flushes: FlushStats | None) -> Files:
    """The disk, which heeds signals; it reports what it reads to `progress` if that is shown, counts syncs if asked to."""
    if progress.is_shown:
        return _CountingFiles(progress.advance, flushes or FlushStats(perf_counter))
    return HeedingFiles() if flushes is None else _MeasuringDisk(flushes)

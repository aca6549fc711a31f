"""Progress on a terminal: bytes read, of all bytes, with rate and time left."""

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
from kafkalog_cli.interruption import InterruptibleFiles
from kafkalog_cli.streams import colour_choice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rich.progress import ProgressColumn

    from engine.files import Files, ReadOnlyFiles
    from engine.log.logdir.log_dirs import LogDir, PartitionPath

_WORTH_SHOWING = 64 << 20  # bytes: smaller work is done before anyone can read the bar
_WORTH_WAITING = 2  # seconds, if the work is throttled
_ROOMY = 70  # columns of a terminal that has room for all parts
_DUMB_TERMINALS = ("dumb", "unknown")  # terminals that cannot move the cursor
_OPENING = 0.25  # largest share of opening in the work on a log: reading it twice after an unclean stop


@dataclass(slots=True)
class _Part:
    """The progress of a log, 0 … 1. Only the thread that works on it changes it."""

    size: int
    read: int = 0
    opened: float | None = None  # progress when the work itself began
    share: float = 0


class Progress:
    """A bar on stderr if that is a terminal and there is much to read; else nothing.

    It never exceeds its end, and never decreases while the total stays the same.
    """

    def __init__(self) -> None:
        self.is_shown = sys.stderr.isatty() and os.environ.get("TERM") not in _DUMB_TERMINALS
        self._bar: Any = None
        self._task: Any = None
        self._left = 0  # bytes to the end of the bar
        self._parts: dict[str, _Part] = {}  # by directory; empty: the bar shows bytes read
        self._lock = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def expect(self, log_dirs: Iterable[LogDir], files_of: Callable[[str], ReadOnlyFiles]) -> None:
        """Begin; the total is the size of all logs, the progress is bytes read."""
        if self.is_shown:
            self._expect(sum(_sizes(log_dirs, files_of).values()))

    def expect_shares(
        self, log_dirs: Iterable[LogDir], files_of: Callable[[str], ReadOnlyFiles], what: str, bytes_per_second: int | None
    ) -> None:
        """Begin again with these logs as the total; `share` sets the progress of each.

        what  text for the bar      bytes_per_second  limit of reads; None: no limit
        """
        if self.is_shown:
            self._parts = {directory: _Part(size) for directory, size in _sizes(log_dirs, files_of).items()}
            worth = _WORTH_SHOWING if bytes_per_second is None else min(_WORTH_SHOWING, _WORTH_WAITING * bytes_per_second)
            self._expect(sum(part.size for part in self._parts.values()), what, worth)

    def expect_partitions(self, files: ReadOnlyFiles, directories: Iterable[str]) -> None:
        """As `expect`, for the partitions at these paths."""
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
        """Add bytes read from the file at `path`."""
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
        """Set the progress of the log in `directory`, 0 … 1, without its opening."""
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

    def done(self, partition: PartitionPath) -> None:
        """Mark the work on a partition as finished."""
        self.done_with(partition.path)

    def done_with(self, path: str) -> None:
        """Mark the work on the partition at `path` as finished."""
        part = self._parts.get(path)
        if part is not None:
            self._set(part, 1)
        if self._bar is not None:
            self._bar.update(self._task, description=f"done: {path.rpartition('/')[2]}")

    def say(self, text: str) -> None:
        """Print to stdout; a bar on the same screen stays below."""
        if self._bar is not None and sys.stdout.isatty():
            self._bar.console.file.write("\r\x1b[K")
        click.echo(text, color=colour_choice())


def _columns(width: int) -> tuple[ProgressColumn, ...]:
    """Return the columns of a bar for a terminal of that width, on one line whatever the names of partitions."""
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
    """Return the bytes of the logs in each partition directory."""
    return {one.path: _size(files_of(log_dir.path), one.path) for log_dir in log_dirs for one in log_dir.directories}


def _size(files: ReadOnlyFiles, directory: str) -> int:
    """Return the bytes of all logs in a partition directory; 0 if it is deleted meanwhile."""
    found = (look(files, f"{directory}/{name}") for name in files.list(directory) if name.endswith(".log"))
    return sum(info.size for info in found if info is not None)


class _CountedFile(OpenFile):
    """A file whose reads are counted."""

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
    """The files below; reads of logs are counted."""

    def __init__(self, below: ReadOnlyFiles, count: Callable[[int, str], object]) -> None:
        super().__init__(below)
        self._count = count

    def open(self, path: str) -> OpenFile:
        file = super().open(path)
        return _CountedFile(file, self._count) if path.endswith(".log") else file


class _MeasuringDisk(MeasuringFiles, InterruptibleFiles):
    """The file system; syncs of logs are counted."""


class _CountingFiles(_MeasuringDisk):
    """The file system; reads and syncs of logs are counted."""

    def __init__(self, count: Callable[[int, str], object], flushes: FlushStats) -> None:
        super().__init__(flushes)
        self._count = count

    def open(self, path: str) -> OpenFile:
        file = super().open(path)
        return _CountedFile(file, self._count) if path.endswith(".log") else file


def watched_reader(progress: Progress, files: ReadOnlyFiles) -> ReadOnlyFiles:
    """Return `files`; reads are reported to `progress` if that is shown."""
    return _CountingReader(files, progress.advance) if progress.is_shown else files


def watched_disk(progress: Progress, flushes: FlushStats | None) -> Files:
    """Return the file system, interruptible by signals; reports reads to `progress` if shown, counts syncs on request."""
    if progress.is_shown:
        return _CountingFiles(progress.advance, flushes or FlushStats(perf_counter))
    return InterruptibleFiles() if flushes is None else _MeasuringDisk(flushes)

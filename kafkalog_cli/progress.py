"""How far the work is, on a terminal: bytes read of all bytes there are, with rate and time left."""

from __future__ import annotations

import sys
from time import perf_counter
from typing import TYPE_CHECKING, Any, Self

import click

from engine.files import OpenFile, ReadOnlyFiles, look
from engine.log.logdir.metrics import FlushStats, MeasuringFiles
from kafkalog_cli.interruption import HeedingFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from engine.files import Files
    from engine.log.logdir.log_dirs import LogDir, Place

_WORTH_SHOWING = 64 << 20  # bytes: less is read before anyone could look


class Progress:
    """A bar on stderr where that is a terminal and there is much to read; else nothing."""

    def __init__(self) -> None:
        self.is_shown = sys.stderr.isatty()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def expect(self, log_dirs: Iterable[LogDir], files_of: Callable[[str], ReadOnlyFiles], *, passes: int = 1) -> None:
        """Begin, with the size of all logs as the whole of the work; again, where an operation knows better.

        passes  how often each log is read
        """
        if self.is_shown:
            sizes = (_size(files_of(log_dir.path), place.path) for log_dir in log_dirs for place in log_dir.places)
            self._expect(passes * sum(sizes))

    def expect_partitions(self, files: ReadOnlyFiles, directories: Iterable[str]) -> None:
        """As `expect`, for partitions by their paths."""
        if self.is_shown:
            self._expect(sum(_size(files, directory) for directory in directories))

    def _expect(self, total: int) -> None:
        if self._bar is not None:
            self._bar.update(self._task, total=total, completed=0)
            return
        if total < _WORTH_SHOWING:
            return
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
        from rich.progress import Progress as Bar

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(),
                   TimeRemainingColumn())
        self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("reading logs", total=total)
        self._bar.start()

    def advance(self, size: int) -> None:
        """So many bytes more were read."""
        if self._bar is not None:
            self._bar.advance(self._task, size)

    def done(self, place: Place) -> None:
        """The work on a partition is finished."""
        self.done_with(place.path)

    def done_with(self, path: str) -> None:
        """The work on the partition at `path` is finished."""
        if self._bar is not None:
            self._bar.update(self._task, description=path.rpartition("/")[2])

    def say(self, text: str) -> None:
        """Print on stdout; a bar that is on the same screen stays below."""
        if self._bar is not None and sys.stdout.isatty():
            self._bar.console.file.write("\r\x1b[K")
        click.echo(text)


def _size(files: ReadOnlyFiles, directory: str) -> int:
    """Bytes of all logs in a partition directory; one that goes meanwhile has none."""
    found = (look(files, f"{directory}/{name}") for name in files.list(directory) if name.endswith(".log"))
    return sum(info.size for info in found if info is not None)


class _CountedFile(OpenFile):
    """A file whose reading is counted."""

    __slots__ = ("_below", "_count")

    def __init__(self, below: OpenFile, count: Callable[[int], object]) -> None:
        super().__init__(below.path, -1)
        self._below, self._count = below, count

    def close(self) -> None:
        self._below.close()

    def size(self) -> int:
        return self._below.size()

    def read_into(self, buffer: memoryview, position: int) -> int:
        count = self._below.read_into(buffer, position)
        self._count(count)
        return count


class _CountingReader(ReadOnlyFiles):
    """The disk for looking, with logs whose reading is counted."""

    def __init__(self, count: Callable[[int], object]) -> None:
        self._count = count

    def open(self, path: str) -> OpenFile:
        file = super().open(path)
        return _CountedFile(file, self._count) if path.endswith(".log") else file


class _MeasuringDisk(MeasuringFiles, HeedingFiles):
    """The disk, with logs whose syncs are counted."""


class _CountingFiles(_MeasuringDisk):
    """The disk, with logs whose reading is counted as well."""

    def __init__(self, count: Callable[[int], object], flushes: FlushStats) -> None:
        super().__init__(flushes)
        self._count = count

    def open(self, path: str) -> OpenFile:
        file = super().open(path)
        return _CountedFile(file, self._count) if path.endswith(".log") else file


def watched_reader(progress: Progress) -> ReadOnlyFiles:
    """The disk for looking; it tells `progress` what it reads if someone looks on."""
    return _CountingReader(progress.advance) if progress.is_shown else ReadOnlyFiles()


def watched_disk(progress: Progress, flushes: FlushStats | None) -> Files:
    """The disk, which heeds signals; it tells `progress` what it reads if someone looks on, counts syncs if asked to."""
    if progress.is_shown:
        return _CountingFiles(progress.advance, flushes or FlushStats(perf_counter))
    return HeedingFiles() if flushes is None else _MeasuringDisk(flushes)

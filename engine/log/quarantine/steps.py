"""The order in which the changes of a manifest are undone, and the record of completed steps.

Changes of the same file are undone from the last to the first. Apart from that, steps that need no disk space come first: on a
full disk new files are removed and files are renamed before the first byte is copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.discovery.names import parent_of
from engine.log.quarantine.manifest import PROGRESS, Do

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.files import ReadOnlyFiles, WritableFile
    from engine.log.quarantine.manifest import Entry

_MAX_SIZE = 1 << 26  # bytes of the record
_BEGUN, _DONE, _NOT_DONE = b"+\n", b".\n", b"!\n"
_NOTHING, _A_NAME, _A_COPY = range(3)  # disk space that undoing an entry needs


class Progress(NamedTuple):
    """How many steps are completed.

    is_begun   the first step may be half done, if none is recorded
    steps      number of entries that are undone, in the order of `undo_order`; one more than all: the work is complete
    skipped    number of steps that could not be done
    is_as_before  if the work is complete: every file was as before the command
    """

    is_begun: bool
    steps: int = 0
    skipped: int = 0
    is_as_before: bool = False


def read_progress(files: ReadOnlyFiles, directory: str) -> Progress:
    """Read the record in the quarantine `directory`. Raises UnreadableFile."""
    path = f"{directory}/{PROGRESS}"
    data = files.read(path, _MAX_SIZE) if files.exists(path) else b""
    if not data.startswith(_BEGUN):
        return Progress(is_begun=False)
    marks, ends = data[len(_BEGUN) :: 2], data[len(_BEGUN) + 1 :: 2]
    steps = min(len(marks) - len(marks.lstrip(_DONE[:1] + _NOT_DONE[:1])), len(ends) - len(ends.lstrip(_DONE[1:])))
    return Progress(True, steps, marks.count(_NOT_DONE[:1], 0, steps), marks[:steps].endswith(_DONE[:1]))


class ProgressNotes:
    """Records each step in `file` before the next one begins."""

    def __init__(self, file: WritableFile, progress: Progress) -> None:
        self._file, self._count = file, progress.steps + 1
        if not progress.is_begun:
            self._note(0, _BEGUN)

    def done(self, *, is_undone: bool) -> None:
        """Record the next step. `is_undone`: it had the intended result."""
        self._note(self._count, _DONE if is_undone else _NOT_DONE)
        self._count += 1

    def _note(self, number: int, mark: bytes) -> None:
        self._file.write_at(number * len(mark), mark)
        self._file.sync()


def undo_order(entries: Sequence[Entry | None]) -> list[int]:
    """The numbers of `entries` in the order in which they are undone. Depends only on `entries`."""
    levels: dict[str, int] = {}  # by path: the highest level of its later entries
    inside: dict[str, int] = {}  # by directory: the highest level of later entries of files in it
    ranks: list[tuple[int, int]] = []
    for number in range(len(entries) - 1, -1, -1):
        entry = entries[number]
        level = _NOTHING
        if entry is not None:
            paths = [path for path in (entry.path, entry.to) if path is not None]
            level = max(_need(entry), *(_level_around(path, levels, inside) for path in paths))
            for path in paths:
                levels[path] = level
                for around in _around(path):
                    inside[around] = max(inside.get(around, _NOTHING), level)
        ranks.append((level, number))
    return [number for _level, number in sorted(ranks, key=lambda rank: rank[0])]


def _need(entry: Entry) -> int:
    if entry.stored is None:
        return _NOTHING
    return _A_COPY if entry.do is Do.CUT else _A_NAME


def _level_around(path: str, levels: dict[str, int], inside: dict[str, int]) -> int:
    """The highest level of later entries of `path`, of files in it, and of directories that contain it."""
    return max(levels.get(path, 0), inside.get(path, 0), *(levels.get(around, 0) for around in _around(path)))


def _around(path: str) -> Iterator[str]:
    """Yield the directories that contain `path`, from the innermost one on."""
    while (around := parent_of(path)) != path:
        yield around
        path = around

"""Apply a selection to the files of a dump: which files and batches are read, which records are printed."""

from __future__ import annotations

from bisect import bisect_right
from functools import partial
from typing import TYPE_CHECKING

from engine.discovery.names import FileKind, FileName, file_name, parent_of, parse_file_name
from engine.dump.batch_heads import BatchHeads
from engine.errors import UnreadableFile
from engine.formats import BatchField, RecordField
from engine.index.sparse import OffsetIndex, TimeIndex
from engine.record.selection import END, FIRST, RecordMatcher

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.files import OpenFile, ReadOnlyFiles
    from engine.findings import Finding
    from engine.record.reader import Chunk
    from engine.record.selection import Selection
    from engine.record.windows import Window


_AGREEING = 3  # consecutive batches after the selection before the walk may end: a single offset may be damaged


class Selector:
    """Applies a selection to the logs of one run, and counts the matches.

    skip  number of matches to skip first, for --tail
    """

    def __init__(self, selection: Selection, skip: int = 0) -> None:
        self.selection = selection
        self._skip = skip
        self._left = selection.limit if selection.limit is not None else END
        self._matcher = RecordMatcher(selection)
        self._shown = -1  # file position of the last batch that was printed
        self._after = 0  # consecutive batches that begin after the selection

    def next_file(self) -> None:
        """Start another file, whose positions count from 0 again."""
        self._shown = -1
        self._after = 0

    def is_past(self, window: Window) -> bool:
        """Return whether the last few batches begin after the selection, so that no match follows: offsets only grow.

        A single batch is not enough: its base offset is not covered by the checksum and may be damaged.
        """
        table, row = window.batches.table, window.rows
        while row and self.selection.is_after(table, row - 1):
            row -= 1
        self._after = window.rows - row if row else self._after + window.rows
        return self._after >= _AGREEING

    @property
    def finished(self) -> bool:
        """Return whether the limit is reached, so that nothing more is read. Never with --tail, which needs the end."""
        return self._left <= 0 and self.selection.tail is None

    def runs(self, window: Window) -> Iterator[tuple[int, int]]:
        """Iterate over (row, last_row) of consecutive batches that may hold a match."""
        return self.selection.runs(window, 0, window.rows)

    def batches(self, row: int, last_row: int) -> tuple[int, int]:
        """Return the part of these matching batches that a shallow walk prints."""
        skipped = min(self._skip, last_row - row)
        self._skip -= skipped
        row += skipped
        last_row = min(last_row, row + self._left)
        self._left -= last_row - row
        return row, last_row

    def is_past_entry(self, offset: int) -> bool:
        """Return whether no match follows the entry of 0.7 at `offset`. Its offset is its position, so it is reliable."""
        return self.finished or offset >= self.selection.end_offset

    def entry(self, offset: int) -> bool:
        """Count the entry of 0.7 at `offset`, and return whether to print it."""
        if offset < self.selection.first_offset:
            return False
        if self._skip:
            self._skip -= 1
            return False
        self._left -= 1
        return True

    def count(self, chunk: Chunk, base: int) -> tuple[int, int]:
        """Return (matching records of a chunk, batches with matches not counted before), regardless of skip and limit."""
        end, row = self._matcher.pack(chunk), -1
        batch_of, first, batches = chunk.records.field(RecordField.BATCH), 0, 0
        while first < end:
            row = batch_of[first]
            batches += bool(first) or self._shown != base + chunk.batches.table[BatchField.POSITION, row]
            first = bisect_right(batch_of, row, first, end)
        if end:
            self._shown = base + chunk.batches.table[BatchField.POSITION, row]
        return end, batches

    def records(self, chunk: Chunk, base: int) -> Iterator[Chunk]:
        """Iterate over the matching records of a chunk, one batch at a time, each after its batch's line."""
        end = self._matcher.pack(chunk)
        batch_of = chunk.records.field(RecordField.BATCH)
        first = min(self._skip, end)
        self._skip -= first
        end = min(end, first + self._left)
        self._left -= end - first
        while first < end:
            row = batch_of[first]
            after = bisect_right(batch_of, row, first, end)
            position = base + chunk.batches.table[BatchField.POSITION, row]
            due = row + 1 if self._shown == position else row
            self._shown = position
            yield chunk._replace(first_row=due, last_row=row + 1, first=first, end=after)
            first = after


def may_hold_matches(files: ReadOnlyFiles, path: str, name: FileName, selection: Selection) -> bool:
    """Return whether the segment at `path` may hold a matching offset, according to its name and that of the next segment."""
    if name.kind not in (FileKind.LOG, FileKind.LOG_07) or name.base_offset is None:
        return True
    if selection.end_offset <= name.base_offset:
        return False
    if selection.first_offset <= name.base_offset:
        return True
    _, following = segments_around(files, path, name)
    parsed = parse_file_name(file_name(following[0])) if following else None
    return parsed is None or parsed.base_offset is None or selection.first_offset < parsed.base_offset


def start_position(files: ReadOnlyFiles, path: str, name: FileName, log: OpenFile, selection: Selection) -> int:
    """Return a position at which a batch begins and before which nothing matches; 0 if the indexes do not help.

    An index entry is used only if a batch with matching offsets really begins at its position.
    """
    if name.kind is not FileKind.LOG or name.base_offset is None or name.suffix:
        return 0
    stem = path.removesuffix(".log")
    first_offset = selection.first_offset
    try:
        if selection.from_ms > FIRST:
            before = TimeIndex.read(files, stem + ".timeindex", name.base_offset).lookup(selection.from_ms - 1)
            first_offset = max(first_offset, before.offset + 1 if before.timestamp >= 0 else FIRST)
        if first_offset <= name.base_offset:
            return 0
        position = OffsetIndex.read(files, stem + ".index", name.base_offset).lookup(first_offset).position
    except UnreadableFile:
        return 0
    batch = BatchHeads(log).at(position)
    return position if not isinstance(batch, str) and name.base_offset <= batch.base_offset <= first_offset else 0


def segments_around(files: ReadOnlyFiles, path: str, name: FileName) -> tuple[list[str], list[str]]:
    """Return the paths of the segments before and after this one in its directory, in order."""
    if name.base_offset is None:
        return [], []
    prefix = path[: len(path) - len(file_name(path))]
    try:
        entries = files.list(prefix or ".")
    except UnreadableFile:
        return [], []
    paths = {}
    for entry in entries:
        other = parse_file_name(entry)
        if other and other.kind is name.kind and other.suffix == name.suffix and other.base_offset is not None:
            paths[other.base_offset] = prefix + entry
    bases = sorted(paths)
    return (
        [paths[base] for base in bases if base < name.base_offset],
        [paths[base] for base in bases if base > name.base_offset],
    )


class PassedSegments:
    """The segments that are read one after the other because their directories were named: what was lost between them?

    selection  only losses among its offsets are reported
    """

    def __init__(self, files: ReadOnlyFiles, selection: Selection | None) -> None:
        self._files = files
        self._first, self._end = (FIRST, END) if selection is None else (selection.first_offset, selection.end_offset)
        self._bases: dict[str, list[int]] = {}  # by directory

    def add(self, path: str, name: FileName) -> None:
        """Note a file that was read. Only current segments count."""
        if name.kind is FileKind.LOG and name.base_offset is not None and not name.suffix:
            self._bases.setdefault(parent_of(path), []).append(name.base_offset)

    def losses(self, *, is_stopped: bool) -> Iterator[Finding]:
        """Return a finding for each range of offsets that no segment holds. Raises UnreadableFile.

        is_stopped  reading ended before the end of the selection
        """
        from engine.log.fetch.lost_offsets import lost_offsets  # not needed for a single file
        from engine.log.logdir.topics import policy_beside

        for directory, bases in self._bases.items():
            wanted = max(self._first, min(bases)), max(bases) + 1 if is_stopped else self._end
            yield from lost_offsets(self._files, directory, wanted, partial(policy_beside, self._files, directory))

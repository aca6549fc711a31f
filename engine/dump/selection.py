"""A selection applied to the files of a dump: which files and batches are read, which of their records are shown."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from engine.discovery.names import FileKind, FileName, file_name, parse_file_name
from engine.dump.batch_heads import BatchHeads
from engine.errors import UnreadableFile
from engine.formats import BatchField, RecordField
from engine.index.offset import OffsetIndex
from engine.index.time import TimeIndex
from engine.record.selection import END, FIRST, RecordMatcher

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.files import OpenFile, ReadOnlyFiles
    from engine.record.reader import Chunk
    from engine.record.selection import Selection
    from engine.record.windows import Window


_AGREEING = 3  # batches in a row that lie after a selection before the walk trusts it: an offset may be damaged


class Selector:
    """Applies a selection to the logs of one run, and counts what passed.

    skip  number of matches to skip first: how --tail shows the last ones
    """

    def __init__(self, selection: Selection, skip: int = 0) -> None:
        self.selection = selection
        self._skip = skip
        self._left = selection.limit if selection.limit is not None else END
        self._matcher = RecordMatcher(selection)
        self._shown = -1  # file position of the last batch whose line is out
        self._behind = 0  # batches in a row that began after the selection

    def next_file(self) -> None:
        """Another file begins: its positions count from 0 again."""
        self._shown = -1
        self._behind = 0

    def is_past(self, window: Window) -> bool:
        """Have all of the last batches begun after the selection? Offsets only grow, so nothing that fits follows.

        One batch is not believed: its base offset lies outside the checksum and may be damaged.
        """
        table, row = window.batches.table, window.rows
        while row and self.selection.is_behind(table, row - 1):
            row -= 1
        self._behind = window.rows - row if row else self._behind + window.rows
        return self._behind >= _AGREEING

    @property
    def finished(self) -> bool:
        """Nothing more will be let through, nor is what follows looked at. --tail looks at the end whatever it shows."""
        return self._left <= 0 and self.selection.tail is None

    def runs(self, window: Window) -> Iterator[tuple[int, int]]:
        """(row, last_row) of batches in a row that may hold a match."""
        return self.selection.runs(window, 0, window.rows)

    def batches(self, row: int, last_row: int) -> tuple[int, int]:
        """The part of these matching batches that a shallow walk may show."""
        skipped = min(self._skip, last_row - row)
        self._skip -= skipped
        row += skipped
        last_row = min(last_row, row + self._left)
        self._left -= last_row - row
        return row, last_row

    def is_past_entry(self, offset: int) -> bool:
        """Does nothing fit from the entry of 0.7 at `offset` on? Its offset is its position, so it can be trusted."""
        return self.finished or offset >= self.selection.end_offset

    def entry(self, offset: int) -> bool:
        """Shall the entry of 0.7 at `offset` be shown? Counts it."""
        if offset < self.selection.first_offset:
            return False
        if self._skip:
            self._skip -= 1
            return False
        self._left -= 1
        return True

    def count(self, chunk: Chunk, base: int) -> tuple[int, int]:
        """(matching records of a chunk, batches that they are in and that were not counted before), without skip and limit."""
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
        """The matching records of a chunk, one batch at a time, each after its batch's line."""
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
    """Can the segment at `path` hold an offset that fits? Its own name and that of the next segment decide."""
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
    """A byte position where a batch begins and before which nothing fits; 0 if the indexes do not help.

    Indexes are only believed where a batch with fitting offsets really begins at the place they name.
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
    """Paths of the segments before and after this one in its directory, in order."""
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

"""Which batches and records a dump shows: ranges of offsets and times, keys, headers, producers, the first or last N."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from engine.discovery.names import FileKind, FileName, file_name, parse_file_name
from engine.dump.batch_heads import BatchHeads
from engine.errors import UnreadableFile
from engine.formats import CODEC_MASK, LONG_MAX, LONG_MIN, MAGIC_V2, TRANSACTIONAL_FLAG, BatchField, RecordField
from engine.index.offset import OffsetIndex
from engine.index.time import TimeIndex
from engine.kernels.select import ANY, mask_records, pack_records
from engine.record.columns import RECORD_ROWS

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

    from engine.files import OpenFile, ReadOnlyFiles
    from engine.record.reader import Chunk
    from engine.record.windows import Window


FIRST, END = LONG_MIN, LONG_MAX + 1  # half-open, as all ranges here
_AGREEING = 3  # batches in a row that lie behind a selection before the walk believes it: an offset may be damaged


class Selection(NamedTuple):
    """What to show. Every condition must hold; ranges are half-open.

    first_offset, end_offset   of records        from_ms, to_ms   of record timestamps
    keys          the key is one of these        key_regex        or found in the key
    headers       (name, value): every one is there; value None: whatever it is
    producer_id, leader_epoch   of the batch; ANY: whatever it is
    limit, tail   no more than that many, from the beginning, from the end
    count         only how many there are
    """

    first_offset: int = FIRST
    end_offset: int = END
    from_ms: int = FIRST
    to_ms: int = END
    keys: tuple[bytes, ...] = ()
    key_regex: re.Pattern[bytes] | None = None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    producer_id: int = ANY
    leader_epoch: int = ANY
    transactional: bool = False
    limit: int | None = None
    tail: int | None = None
    count: bool = False  # type: ignore[assignment]  # nobody asks a selection how often it holds a value

    @property
    def by_content(self) -> bool:
        """Does it look into records, so that a shallow walk would not do?"""
        return bool(self.keys or self.key_regex or self.headers)

    def unknown_to_07(self) -> list[str]:
        """The options that ask for what messages of 0.7 do not have: they have nothing but their offset."""
        options = {
            "--time": (self.from_ms, self.to_ms) != (FIRST, END),
            "--key": bool(self.keys),
            "--key-regex": self.key_regex is not None,
            "--header": bool(self.headers),
            "--producer-id": self.producer_id != ANY,
            "--partition-leader-epoch": self.leader_epoch != ANY,
            "--transactional-only": self.transactional,
        }
        return [option for option, is_given in options.items() if is_given]

    def may_match(self, table: memoryview, row: int) -> bool:
        """Can the batch in `row` of a BatchColumns table hold a record that fits? Headers alone decide."""
        if table[BatchField.LAST_OFFSET, row] < self.first_offset:
            return False
        if table[BatchField.MAGIC, row] < MAGIC_V2:
            return self._may_match_message(table, row)
        if table[BatchField.BASE_OFFSET, row] >= self.end_offset:
            return False
        if table[BatchField.MAX_TIMESTAMP, row] < self.from_ms and table[BatchField.VALID, row]:
            return False
        if self.transactional and not table[BatchField.ATTRIBUTES, row] & TRANSACTIONAL_FLAG:
            return False
        if self.producer_id not in (ANY, table[BatchField.PRODUCER_ID, row]):
            return False
        return self.leader_epoch in (ANY, table[BatchField.LEADER_EPOCH, row])

    def _may_match_message(self, table: memoryview, row: int) -> bool:
        """The same for formats 0 and 1. A compressed wrapper names its last offset and its largest time only."""
        if self.producer_id != ANY or self.leader_epoch != ANY or self.transactional:
            return False
        timestamp = table[BatchField.MAX_TIMESTAMP, row]
        if table[BatchField.MAGIC, row] != 0 and timestamp < self.from_ms:
            return False
        if table[BatchField.ATTRIBUTES, row] & CODEC_MASK:
            return True
        if table[BatchField.LAST_OFFSET, row] >= self.end_offset:
            return False
        return bool(self.from_ms <= timestamp < self.to_ms)

    def is_behind(self, table: memoryview, row: int) -> bool:
        """Does the batch begin behind the offsets that fit? A wrapper of formats 0 and 1 does not say."""
        is_wrapper = table[BatchField.MAGIC, row] < MAGIC_V2 and table[BatchField.ATTRIBUTES, row] & CODEC_MASK
        return not is_wrapper and bool(table[BatchField.BASE_OFFSET, row] >= self.end_offset)


EVERYTHING = Selection()


class Selector:
    """Applies a selection to the logs of one run, and counts what passed.

    skip  so many matches are left out first: how --tail shows the last ones
    """

    def __init__(self, selection: Selection, skip: int = 0) -> None:
        self.selection = selection
        self._skip = skip
        self._left = selection.limit if selection.limit is not None else END
        self._keep = memoryview(bytearray(RECORD_ROWS))
        self._shown = -1  # file position of the last batch whose line is out
        self._behind = 0  # batches in a row that began behind the selection

    def next_file(self) -> None:
        """Another file begins: its positions count from 0 again."""
        self._shown = -1
        self._behind = 0

    def is_past(self, window: Window) -> bool:
        """Have all of the last batches begun behind the selection? Offsets only grow, so nothing that fits follows.

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
        table, start = window.batches.table, -1
        for row in range(window.rows):
            if self.selection.may_match(table, row):
                if start < 0:
                    start = row
            elif start >= 0:
                yield start, row
                start = -1
        if start >= 0:
            yield start, window.rows

    def batches(self, row: int, last_row: int) -> tuple[int, int]:
        """The part of these matching batches that a shallow walk may show."""
        skipped = min(self._skip, last_row - row)
        self._skip -= skipped
        row += skipped
        last_row = min(last_row, row + self._left)
        self._left -= last_row - row
        return row, last_row

    def is_past_entry(self, offset: int) -> bool:
        """Does nothing fit from the entry of 0.7 at `offset` on? Its offset is where it stands, so it is believed."""
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

    def records(self, chunk: Chunk, base: int) -> Iterator[Chunk]:
        """The matching records of a chunk, one batch at a time, each behind its batch's line."""
        end = self._matching(chunk)
        batch_of = chunk.records.field(RecordField.BATCH)
        first = min(self._skip, end)
        self._skip -= first
        end = min(end, first + self._left)
        self._left -= end - first
        while first < end:
            row = batch_of[first]
            behind = bisect_right(batch_of, row, first, end)
            position = base + chunk.batches.table[BatchField.POSITION, row]
            due = row + 1 if self._shown == position else row
            self._shown = position
            yield chunk._replace(first_row=due, last_row=row + 1, first=first, end=behind)
            first = behind

    def _matching(self, chunk: Chunk) -> int:
        """Move the matching records of the chunk to the front → how many there are."""
        wanted, table = self.selection, chunk.records.table
        if chunk.end > len(self._keep):
            self._keep = memoryview(bytearray(chunk.end))
        keep = self._keep
        fitting: int = mask_records(
            table, chunk.end, chunk.batches.table, wanted.first_offset, max(wanted.end_offset - 1, FIRST), wanted.from_ms,
            max(wanted.to_ms - 1, FIRST), wanted.producer_id, wanted.leader_epoch, wanted.transactional, keep,
        )
        if fitting < 0:
            raise AssertionError("records and batches that do not fit each other")
        if wanted.by_content:
            for record in range(chunk.end):
                if keep[record]:
                    keep[record] = self._content_fits(chunk, record)
        kept: int = pack_records(table, chunk.end, keep)
        return kept

    def _content_fits(self, chunk: Chunk, record: int) -> bool:
        wanted = self.selection
        if wanted.keys or wanted.key_regex:
            key = chunk.key(record)
            if key is None:
                return False
            if wanted.keys and key not in wanted.keys:
                return False
            if wanted.key_regex and not wanted.key_regex.search(key):
                return False
        if not wanted.headers:
            return True
        headers = chunk.headers(record)
        return all(
            any(name == wanted_name and wanted_value in (None, value) for name, value in headers)
            for wanted_name, wanted_value in wanted.headers
        )


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
    """A byte position where a batch begins and before which nothing fits; 0 where the indexes do not help.

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
    """Paths of the segments before and behind this one in its directory, in order."""
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

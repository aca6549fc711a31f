"""Selections of batches and records: ranges of offsets and times, keys, headers, producers, the first or last N."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.formats import CODEC_MASK, LONG_MAX, LONG_MIN, MAGIC_V2, TRANSACTIONAL_FLAG, BatchField
from engine.kernels.select import ANY, Conditions, mask_records, pack_records
from engine.record.columns import RECORD_ROWS

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

    from engine.record.reader import Chunk
    from engine.record.windows import Window


FIRST, END = LONG_MIN, LONG_MAX + 1  # ranges here are half-open


class Selection(NamedTuple):
    """Conditions that records must all meet; ranges are half-open.

    first_offset, end_offset   of records        from_ms, to_ms   of record timestamps
    keys          the key is one of these        key_regex        or matches in the key
    headers       (name, value): each must be present; value None: any value
    producer_id, leader_epoch   of the batch; ANY: any
    limit, tail   at most this many from the start, from the end
    count         only count them
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
    count: bool = False  # type: ignore[assignment]  # a tuple's `count` method is not needed

    @property
    def by_content(self) -> bool:
        """Whether record contents are needed, so that a shallow walk is not enough."""
        return bool(self.keys or self.key_regex or self.headers)

    def unknown_to_07(self) -> list[str]:
        """Return the options that messages of 0.7 cannot meet: they have only an offset."""
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
        """Return whether the batch in `row` of a BatchColumns table may hold a match, according to its header."""
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
        """As `may_match` for formats 0 and 1. A compressed wrapper has only its last offset and its largest time."""
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

    def runs(self, window: Window, row: int, end: int) -> Iterator[tuple[int, int]]:
        """Return (row, last_row) of consecutive batches, among rows row … end − 1, that may hold a match."""
        if self._replace(limit=None, tail=None, count=False) == EVERYTHING:
            if row < end:
                yield row, end
            return
        table, start = window.batches.table, -1
        for each in range(row, end):
            if self.may_match(table, each):
                if start < 0:
                    start = each
            elif start >= 0:
                yield start, each
                start = -1
        if start >= 0:
            yield start, end

    def is_after(self, table: memoryview, row: int) -> bool:
        """Return whether the batch begins after the selected offsets. Unknown, so False, for a wrapper of formats 0 and 1."""
        is_wrapper = table[BatchField.MAGIC, row] < MAGIC_V2 and table[BatchField.ATTRIBUTES, row] & CODEC_MASK
        return not is_wrapper and bool(table[BatchField.BASE_OFFSET, row] >= self.end_offset)


EVERYTHING = Selection()


class RecordMatcher:
    """Applies the conditions of a selection to chunks of records; the caller applies `limit` and `tail`."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        offsets = selection.first_offset, max(selection.end_offset - 1, FIRST)
        times = selection.from_ms, max(selection.to_ms - 1, FIRST)
        self._conditions = Conditions(offsets, times, selection.producer_id, selection.leader_epoch, selection.transactional)
        self._keep = memoryview(bytearray(RECORD_ROWS))

    def pack(self, chunk: Chunk, first: int = 0) -> int:
        """Move the matching ones of records first … chunk.end − 1 to the front of the chunk, and return their number."""
        wanted, table = self._selection, chunk.records.table
        if chunk.end > len(self._keep):
            self._keep = memoryview(bytearray(chunk.end))
        keep = self._keep
        fitting: int = mask_records(table, chunk.end, chunk.batches.table, self._conditions, keep)
        if fitting < 0:
            raise AssertionError("records and batches do not match")
        keep[:first] = bytes(first)
        if wanted.by_content:
            for record in range(first, chunk.end):
                if keep[record]:
                    keep[record] = self._content_fits(chunk, record)
        kept: int = pack_records(table, chunk.end, keep)
        return kept

    def _content_fits(self, chunk: Chunk, record: int) -> bool:
        wanted = self._selection
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

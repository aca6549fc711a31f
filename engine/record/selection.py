"""Selections of batches and records: ranges of offsets and times, keys, headers, producers, the first or last N."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.formats import (
    CODEC_MASK,
    LONG_MAX,
    LONG_MIN,
    MAGIC_V2,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    BatchField,
    RecordField,
)
from engine.kernels.search import LARGEST_SET, mask_holding
from engine.kernels.select import ANY, Conditions, mask_records, pack_records
from engine.record.columns import RECORD_ROWS
from engine.record.patterns import Literals, rarest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TypeAlias

    from engine.kernels.search import Needles
    from engine.record.patterns import Pattern
    from engine.record.reader import Chunk
    from engine.record.windows import Window

    Field: TypeAlias = memoryview | bytes

FIRST, END = LONG_MIN, LONG_MAX + 1  # ranges here are half-open


class FieldPattern(NamedTuple):
    """A pattern that must match in one of these fields of a record; a null field does not match.

    in_headers  names and values of all headers         header  the values of the headers with this name; None: of none
    """

    pattern: Pattern
    in_keys: bool = False
    in_values: bool = False
    in_headers: bool = False
    header: bytes | None = None

    @property
    def has_headers(self) -> bool:
        """Whether the pattern may match in a header."""
        return self.in_headers or self.header is not None

    def matches(self, chunk: Chunk, record: int) -> bool:
        """Return whether one record of a chunk matches."""
        found_in = self.pattern.found_in
        if self.in_keys:
            key = chunk.slice(RecordField.KEY_POSITION, RecordField.KEY_SIZE, record)
            if key is not None and found_in(key):
                return True
        if self.in_values:
            value = chunk.slice(RecordField.VALUE_POSITION, RecordField.VALUE_SIZE, record)
            if value is not None and found_in(value):
                return True
        return self.has_headers and self.matches_fields(None, None, chunk.headers(record))

    def matches_fields(
        self, key: Field | None, value: Field | None, headers: Sequence[tuple[bytes, bytes | None]]
    ) -> bool:
        """Return whether a record with these fields matches."""
        return any(map(self.pattern.found_in, self.fields(key, value, headers)))

    def fields(
        self, key: Field | None, value: Field | None, headers: Sequence[tuple[bytes, bytes | None]]
    ) -> Iterator[Field]:
        """Return the fields of a record in which the pattern is searched for, in order."""
        if self.in_keys and key is not None:
            yield key
        if self.in_values and value is not None:
            yield value
        if not self.has_headers:
            return
        for name, field in headers:
            if self.in_headers:
                yield name
            if field is not None and (self.in_headers or name == self.header):
                yield field


class Selection(NamedTuple):
    """Conditions that records must all meet; ranges are half-open.

    first_offset, end_offset   of records        from_ms, to_ms   of record timestamps
    keys          the key is one of these        patterns         each one matches
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
    patterns: tuple[FieldPattern, ...] = ()
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    producer_id: int = ANY
    leader_epoch: int = ANY
    transactional: bool = False
    limit: int | None = None
    tail: int | None = None
    count: bool = False  # type: ignore[assignment]  # a tuple's `count` method is not needed

    def literals(self) -> tuple[Literals, ...]:
        """Return sets of byte strings: every batch of format 2 with a match holds a string of each set."""
        sets = [literals for one in self.patterns for literals in one.pattern.literals]
        if 0 < len(self.keys) <= LARGEST_SET and all(self.keys):
            sets.append(Literals(self.keys))
        sets += [Literals((text,)) for header in self.headers for text in header if text]
        return tuple(sets)

    def unknown_to_07(self) -> list[str]:
        """Return the options that messages of 0.7 cannot meet: they have only an offset."""
        options = {
            "--time": (self.from_ms, self.to_ms) != (FIRST, END),
            "--key": bool(self.keys),
            "--key-regex": bool(self.patterns),
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
        if table[BatchField.ATTRIBUTES, row] & TIMESTAMP_TYPE_FLAG and table[BatchField.MAX_TIMESTAMP, row] >= self.to_ms:
            return False  # LogAppendTime: all its records have this timestamp
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
        self._needles: dict[int, Needles] = {}  # by number of the pattern

    def pack(self, chunk: Chunk, first: int = 0) -> int:
        """Move the matching ones of records first … chunk.end − 1 to the front of the chunk, and return their number."""
        kept: int = pack_records(chunk.records.table, chunk.end, self.mask(chunk, first))
        return kept

    def mask(self, chunk: Chunk, first: int = 0) -> memoryview:
        """Return a byte for each record up to chunk.end, valid until the next call: 1 if it matches and is not before first."""
        if chunk.end > len(self._keep):
            self._keep = memoryview(bytearray(chunk.end))
        keep = self._keep
        fitting: int = mask_records(chunk.records.table, chunk.end, chunk.batches.table, self._conditions, keep)
        if fitting < 0:
            raise AssertionError("records and batches do not match")
        keep[:first] = bytes(first)
        for number in range(len(self._selection.patterns)):
            self._mask_pattern(chunk, first, number)
        if self._selection.keys or self._selection.headers:
            for record in self._kept(first, chunk.end):
                keep[record] = self._content_fits(chunk, record)
        return keep

    def _mask_pattern(self, chunk: Chunk, first: int, number: int) -> None:
        """Keep only records that match a pattern. Most of the others are found without looking at them one by one."""
        wanted, keep = self._selection.patterns[number], self._keep
        if wanted.pattern.literals and wanted.header is None and first < chunk.end:
            if number not in self._needles:
                self._needles[number] = rarest(wanted.pattern.literals, chunk.data)
            kept = mask_holding(
                chunk.data, chunk.records.table, first, self._needles[number], wanted.in_keys, wanted.in_values,
                wanted.in_headers, keep[: chunk.end],
            )  # fmt: skip
            if kept < 0:
                raise AssertionError("records and bytes do not match")
            if wanted.pattern.is_literal:
                return
        for record in self._kept(first, chunk.end):
            keep[record] = wanted.matches(chunk, record)

    def _kept(self, first: int, end: int) -> Iterator[int]:
        """Return the records that are kept so far; the caller may change the current one."""
        mask = bytes(self._keep[:end])
        record = mask.find(1, first)
        while record >= 0:
            yield record
            record = mask.find(1, record + 1)

    def _content_fits(self, chunk: Chunk, record: int) -> bool:
        wanted = self._selection
        if wanted.keys and chunk.key(record) not in wanted.keys:
            return False
        if not wanted.headers:
            return True
        headers = chunk.headers(record)
        return all(
            any(name == wanted_name and wanted_value in (None, value) for name, value in headers)
            for wanted_name, wanted_value in wanted.headers
        )

"""Select the records of raw batches that are appended.

Stands alone: no other input is selected from.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import count_of
from engine.formats import NO_SEQUENCE, NO_TIMESTAMP, BatchField, RecordField
from engine.log.append_errors import CorruptRecord
from engine.record.assembly import LOG_APPEND_TIME, encode_body, finish_batch, spec_of
from engine.record.columns import BatchColumns
from engine.record.control import increment_sequence
from engine.record.reader import ChunkReader
from engine.record.selection import END, EVERYTHING, RecordMatcher
from engine.record.windows import Window, check_large_batches, scan_range

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.findings import Finding
    from engine.log.append.intake import Intake
    from engine.record.reader import Chunk
    from engine.record.selection import Selection


class SelectedBatches:
    """An Intake that passes the selected records of raw batches to another one.

    keeps_offsets  records of a batch that is not selected as a whole keep their offsets; False: they are made consecutive

    A batch of which all records are selected is passed unchanged. Of the other batches a new one with the selected records is
    passed, of format 2, with the producer and the codec of the batch. With `tail`, batches are held until the input ends.
    Damaged batches that may have matches are passed unchanged: the other Intake refuses them.
    """

    def __init__(self, intake: Intake, selection: Selection, *, keeps_offsets: bool) -> None:
        self.appended = intake.appended
        self._intake, self._selection, self._keeps_offsets = intake, selection, keeps_offsets
        self._matcher, self._any = RecordMatcher(selection), RecordMatcher(EVERYTHING)
        self._left: int = END if selection.limit is None else selection.limit
        self._held: deque[_Selected] = deque()
        self._held_count = 0
        self._batches = BatchColumns()
        self._problems: list[Finding] = []
        self._reader = ChunkReader("", self._problems.append)

    def is_whole(self, data: bytearray, seen: int, filled: int) -> bool:
        """See Intake."""
        return self._intake.is_whole(data, seen, filled)

    def take(self, data: bytearray, *, is_last: bool) -> int:
        """See Intake."""
        chosen, at = bytearray(), 0
        while window := self._scan(data, at):
            table, last = self._batches.table, window.rows - 1
            at = table[BatchField.POSITION, last] + table[BatchField.SIZE, last]
            for row in range(window.rows):
                if self._left > 0 and self._selection.may_match(table, row):
                    self._add(self._select(window, row, self._matcher, 0), chosen)
        if not at:
            return self._intake.take(data, is_last=is_last)  # it refuses what is not a batch
        if is_last:
            self._release(chosen)
        if chosen:
            self._intake.take(chosen, is_last=False)
        if is_last and at < len(data):
            raise CorruptRecord(f"incomplete batch at the end of the input: {count_of(len(data) - at, 'byte')}")
        return at

    def _scan(self, data: bytearray, start: int) -> Window | None:
        view = memoryview(data)
        rows = scan_range(view, start, len(data), self._batches)
        check_large_batches(view, self._batches, rows)
        return Window(view, 0, self._batches, rows) if rows else None

    def _add(self, selected: _Selected, chosen: bytearray) -> None:
        """Add a batch to `chosen`, or hold it for --tail."""
        tail = self._selection.tail
        if tail is None:
            self._left -= selected.records
            chosen += selected.data
            return
        self._held.append(selected)
        self._held_count += selected.records
        while self._held and self._held_count - self._held[0].records >= tail:
            self._held_count -= self._held.popleft().records

    def _release(self, chosen: bytearray) -> None:
        """Add the last records of the batches that are held."""
        tail = self._selection.tail
        for number, held in enumerate(self._held):
            data, skip = held.data, self._held_count - tail if tail is not None and not number else 0
            if skip > 0:
                window = self._scan(bytearray(data), 0)
                assert window is not None  # it was a whole batch
                data = self._select(window, 0, self._any, skip).data
            chosen += data
        self._held.clear()

    def _select(self, window: Window, row: int, matcher: RecordMatcher, skip: int) -> _Selected:
        """Select from one batch. `skip`: without this many of the first matches."""
        table = self._batches.table
        at, size = table[BatchField.POSITION, row], table[BatchField.SIZE, row]
        body = table[BatchField.BODY, row], table[BatchField.BODY_END, row]  # the reader changes them
        self._problems.clear()
        count = matches = 0
        for chunk in self._reader.chunks(window, row, row + 1):
            count += chunk.end - chunk.first
            matches += matcher.pack(chunk, chunk.first)
        wanted = min(matches - skip, self._left)
        if self._problems or not table[BatchField.VALID, row]:
            return _Selected(bytes(window.data[at : at + size]), count)
        if wanted <= 0:
            return _Selected(b"", 0)
        if wanted == count:
            return _Selected(bytes(window.data[at : at + size]), count)
        table[BatchField.BODY, row], table[BatchField.BODY_END, row] = body
        return _Selected(self._rewritten(row, self._packed(window, row, matcher, skip, wanted)), wanted)

    def _packed(
        self, window: Window, row: int, matcher: RecordMatcher, skip: int, wanted: int
    ) -> Iterator[tuple[Chunk, int, int]]:
        """Decode the batch again; return (chunk, first, count) of its wanted records."""
        for chunk in self._reader.chunks(window, row, row + 1):
            matches = matcher.pack(chunk, chunk.first)
            first = min(skip, matches)
            count = min(matches - first, wanted)
            skip, wanted = skip - first, wanted - count
            if count:
                yield chunk, first, count

    def _rewritten(self, row: int, parts: Iterator[tuple[Chunk, int, int]]) -> bytes:
        """Return a batch with some records of the batch in `row`, of which there is at least one."""
        spec, body, done = spec_of(self._batches, row), bytearray(), 0
        largest = base_timestamp = NO_TIMESTAMP
        last_offset = spec.base_offset
        for chunk, first, count in parts:
            table = chunk.records.table
            if not done:
                offset = int(table[RecordField.OFFSET, first])
                sequence = spec.base_sequence
                if sequence != NO_SEQUENCE:
                    sequence = increment_sequence(sequence, offset - spec.base_offset)
                spec = spec._replace(base_offset=offset if self._keeps_offsets else 0, base_sequence=sequence)
                base_timestamp = int(table[RecordField.TIMESTAMP, first])
            for record in range(first, first + count):
                if not self._keeps_offsets:
                    table[RecordField.OFFSET, record] = done + record - first
                largest = max(largest, table[RecordField.TIMESTAMP, record])
            body += encode_body(spec, chunk.data, chunk.records, first, count, base_timestamp)
            done, last_offset = done + count, int(table[RecordField.OFFSET, first + count - 1])
        if spec.timestamp_type == LOG_APPEND_TIME:
            largest = spec.log_append_time
        return finish_batch(spec, body, last_offset, base_timestamp, largest, done)


class _Selected(NamedTuple):
    """A batch and the number of its selected records; without bytes if there are none."""

    data: bytes
    records: int

"""Convert runs of decoded records to Arrow record batches of bounded size, without a Python object per record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from engine.arrow.buffers import BadColumns, Blobs, Headers, TimestampTypes, Words
from engine.arrow.columns import COLUMN_TYPES, codec_names, has_flag, schema_of
from engine.formats import CONTROL_FLAG, INT_MAX, TRANSACTIONAL_FLAG, BatchField, RecordField
from engine.kernels.gather import fitting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from engine.log.fetch.records import Run

BATCH_ROWS = 10_000
BATCH_BYTES = 16 << 20
_FIRST_ROOM = 1 << 20

# values of a record's batch: column → field
_SPREAD = {
    "producerId": BatchField.PRODUCER_ID, "producerEpoch": BatchField.PRODUCER_EPOCH,
    "partitionLeaderEpoch": BatchField.LEADER_EPOCH, "position": BatchField.POSITION,
}  # fmt: skip
_POSITIONS = {"key": RecordField.KEY_POSITION, "value": RecordField.VALUE_POSITION}
_SIZES = {"keySize": RecordField.KEY_SIZE, "valueSize": RecordField.VALUE_SIZE}
_COPIED = {**_SIZES, "offset": RecordField.OFFSET}
_ATTRIBUTES = ("isTransactional", "isControl", "codec")


class BatchBuilder:
    """Collects the records of one partition, and returns them in batches of at most `rows` rows and `room` bytes.

    columns    names of columns.COLUMN_TYPES, in the order of the batches
    topic, partition, directory  constant values of these columns
    room       bytes of keys and values in a batch, and the same of headers; a larger record gets a batch of its own
    """

    def __init__(
        self, columns: Sequence[str], topic: str, partition: int, directory: str = "", *, rows: int = BATCH_ROWS,
        room: int = BATCH_BYTES,
    ) -> None:  # fmt: skip
        self.columns, self.schema = tuple(columns), schema_of(list(columns))
        self._rows, self._room = rows, room
        self._constants = {
            name: pa.repeat(pa.scalar(value, COLUMN_TYPES[name]), rows)
            for name, value in (("topic", topic), ("partition", partition), ("directory", directory)) if name in self.columns
        }  # fmt: skip
        self._words = _words_for(self.columns)
        self._begin()

    def _begin(self) -> None:
        self._row = self._bytes = self._header_bytes = 0
        self._out = {name: Words(self._rows) for name in self._words}
        room = min(_FIRST_ROOM, self._room)
        self._blobs = {name: Blobs(self._rows, room) for name in _POSITIONS if name in self.columns}
        self._headers = Headers(self._rows) if "headers" in self.columns else None
        self._types = TimestampTypes(self._rows) if "timestampType" in self.columns else None
        self._segments: list[tuple[str, int]] = []  # name, rows

    def batches(self, runs: Iterable[Run]) -> Iterator[pa.RecordBatch]:
        """Return all records of `runs`, including the last, partial batch."""
        for run in runs:
            yield from self.add(run)
        if self._row:
            yield self._finish()

    def add(self, run: Run) -> Iterator[pa.RecordBatch]:
        """Add the records of `run`, and return the batches that became full."""
        chunk, first = run.chunk, run.first
        while first < run.end:
            last = min(run.end, first + self._rows - self._row)
            end, keys, values = fitting(chunk.records.table, first, last, self._room - self._bytes)
            if end == first:
                raise BadColumns("a record too large for an array")
            headers = 0
            if self._headers is not None:
                end, headers = self._headers.fitting(chunk, first, end, self._room - self._header_bytes)
                _, keys, values = fitting(chunk.records.table, first, end, self._room - self._bytes)
            fullest = max(self._bytes + keys + values, self._header_bytes + headers)
            if self._row and fullest > self._room:  # a single record, too large for the remaining room
                yield self._finish()
                continue
            self._take(run, first, end, keys, values)
            self._header_bytes += headers
            first = end
            if self._row == self._rows or fullest >= self._room or end < last:
                yield self._finish()

    def _take(self, run: Run, first: int, end: int, keys: int, values: int) -> None:
        chunk, row = run.chunk, self._row
        for name, blobs in self._blobs.items():
            blobs.make_room(keys if name == "key" else values)
            blobs.gather(chunk, _POSITIONS[name], first, end, row)
        for name, words in self._out.items():
            if name == "timestamp":
                words.microseconds(chunk, first, end, row)
            elif name in _COPIED:
                words.copy(chunk.records.field(_COPIED[name]), first, end, row)
            else:
                words.spread(chunk, _WORDS[name], first, end, row, run.base if name == "position" else 0)
        if self._headers is not None:
            self._headers.gather(chunk, first, end, row)
        if self._types is not None:
            self._types.take(chunk, first, end, row)
        if "segment" in self.columns:
            self._segments.append((run.path.rpartition("/")[2], end - first))
        self._row += end - first
        self._bytes += keys + values

    def _finish(self) -> pa.RecordBatch:
        arrays = [self._array(name) for name in self.columns]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        self._begin()
        return batch

    def _array(self, name: str) -> pa.Array:
        rows, kind = self._row, COLUMN_TYPES[name]
        if name in self._constants:
            return self._constants[name].slice(0, rows)
        if name in self._blobs:
            return self._blobs[name].array(rows)
        if name == "headers":
            assert self._headers is not None
            return self._headers.array(rows)
        if name == "timestampType":
            assert self._types is not None
            return self._types.array(rows)
        if name == "segment":
            return pa.concat_arrays([pa.repeat(pa.scalar(path, kind), count) for path, count in self._segments])
        if name in ("timestamp", "offset"):
            return self._out[name].array(rows, kind)
        if name in _SIZES:
            sizes = self._word(name)
            return pc.if_else(pc.less(sizes, 0), None, sizes).cast(kind)
        if name in _SPREAD:
            return self._word(name).cast(kind)
        return self._derived(name).cast(kind)

    def _word(self, name: str) -> pa.Array:
        return self._out[name].array(self._row)

    def _derived(self, name: str) -> pa.Array:
        if name == "sequence":
            return self._sequences()
        attributes = self._word("attributes")
        if name == "codec":
            return codec_names(attributes)
        return has_flag(attributes, self._word("magic"), TRANSACTIONAL_FLAG if name == "isTransactional" else CONTROL_FLAG)

    def _sequences(self) -> pa.Array:
        """Return base sequence + delta, 0 after 2^31 − 1; −1 if the batch has none (DefaultRecord.readFrom)."""
        base = self._word("base_sequence")
        wide = pc.add(base, pc.subtract(self._word("offset"), self._word("base_offset")))
        wrapped = pc.if_else(pc.greater(wide, INT_MAX), pc.subtract(wide, INT_MAX + 1), wide)
        return pc.if_else(pc.less(base, 0), -1, wrapped)


_WORDS = {
    **_SPREAD, "attributes": BatchField.ATTRIBUTES, "magic": BatchField.MAGIC, "base_sequence": BatchField.BASE_SEQUENCE,
    "base_offset": BatchField.BASE_OFFSET,
}  # fmt: skip


def _words_for(columns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the numbers that must be kept for these columns."""
    words = {name for name in columns if name in _SPREAD or name in _COPIED or name == "timestamp"}
    if any(name in columns for name in _ATTRIBUTES):
        words |= {"attributes", "magic"}
    if "sequence" in columns:
        words |= {"base_sequence", "offset", "base_offset"}
    return tuple(sorted(words))

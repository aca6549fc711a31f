"""Rewrite one batch with the records that are retained, or as an empty header.

Mirrors MemoryRecords.filterTo, buildRetainedRecordsInto. The result always has message format 2.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

from engine.formats import (
    BATCH_HEADER,
    CODEC_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    LOG_OVERHEAD,
    MAGIC_V2,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    BatchField,
    Codec,
    RecordField,
    Status,
)
from engine.kernels.cleaning import copy_kept
from engine.kernels.encode import encode_records, measure_records
from engine.record.assembly import LOG_APPEND_TIME, empty_batch, encode_body, finish_batch, spec_of
from engine.record.codecs.codecs import deflate
from engine.record.columns import RECORD_ROWS, RecordColumns
from engine.record.windows import crc32c

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.record.columns import BatchColumns
    from engine.record.reader import Chunk
    from engine.record.windows import Window

_LARGEST_BODY = 16 << 20  # bytes: a larger buffer is not kept for reuse
_CHECKED_FROM = BATCH_HEADER.positions["attributes"]


class Marked(NamedTuple):
    """Records first … end − 1 of a chunk. `keep`: for each of them not 0 if it is retained."""

    chunk: Chunk
    first: int
    end: int
    keep: memoryview


def has_delete_horizon(batches: BatchColumns, row: int) -> bool:
    """Does the batch have a delete horizon?"""
    table = batches.table
    return table[BatchField.MAGIC, row] >= MAGIC_V2 and bool(table[BatchField.ATTRIBUTES, row] & DELETE_HORIZON_FLAG)


def empty_in_place(batches: BatchColumns, row: int) -> bytes:
    """The batch's header without records, codec and delete horizon. Offsets and producer state are kept."""
    table = batches.table
    last_offset = table[BatchField.LAST_OFFSET, row]
    return empty_batch(spec_of(batches, row), last_offset, table[BatchField.MAX_TIMESTAMP, row])


class BatchRewriter:
    """Rewrites batches, one after the other, and reuses its columns."""

    def __init__(self) -> None:
        self._kept = RecordColumns(RECORD_ROWS)
        self._sizes = memoryview(array("q", bytes(8 * RECORD_ROWS)))
        self._body = memoryview(bytearray(1 << 16))

    def rewrite_whole(self, window: Window, row: int, marked: Marked, delete_horizon_ms: int) -> bytes | None:
        """The result of `rewrite` for a batch of format 2 whose records are all in `marked`: the fast path for most batches.

        None: use `rewrite`, which also raises the error if there is one.
        """
        table, chunk, kept = window.batches.table, marked.chunk, self._kept.table
        if table[BatchField.MAGIC, row] < MAGIC_V2:
            return None
        copied, newest = copy_kept(chunk.records.table, marked.first, marked.end, marked.keep, kept)
        if copied < 1:
            return None
        base_offset = table[BatchField.BASE_OFFSET, row]
        base_timestamp = kept[RecordField.TIMESTAMP, 0] if delete_horizon_ms == NO_TIMESTAMP else delete_horizon_ms
        _, size, status = measure_records(chunk.data, kept, 0, copied, MAGIC_V2, base_offset, base_timestamp, self._sizes)
        if status != Status.END or size > _LARGEST_BODY:
            return None
        if size > len(self._body):
            self._body = memoryview(bytearray(2 * size))
        body = self._body[:size]
        if encode_records(chunk.data, kept, 0, copied, base_offset, base_timestamp, body, 0)[2] != Status.END:
            return None
        attributes = table[BatchField.ATTRIBUTES, row]
        codec = attributes & CODEC_MASK
        packed = bytes(body) if codec == Codec.NONE else deflate(codec, body)
        kept_flags = attributes & (CODEC_MASK | TIMESTAMP_TYPE_FLAG | TRANSACTIONAL_FLAG | CONTROL_FLAG)
        if delete_horizon_ms >= 0:
            kept_flags |= DELETE_HORIZON_FLAG
        largest = table[BatchField.MAX_TIMESTAMP, row] if attributes & TIMESTAMP_TYPE_FLAG else newest
        at = table[BatchField.POSITION, row]
        head = bytearray(window.data[at : at + BATCH_HEADER.size])  # producer, epoch and offsets stay as they are
        for name, value in (
            ("batch_length", len(head) - LOG_OVERHEAD + len(packed)),
            ("attributes", kept_flags),
            ("base_timestamp", base_timestamp),
            ("max_timestamp", largest),
            ("record_count", copied),
        ):
            BATCH_HEADER.put(name, head, 0, value)
        BATCH_HEADER.put("crc", head, 0, crc32c(packed, crc32c(memoryview(head)[_CHECKED_FROM:])))
        return bytes(head) + packed

    def rewrite(self, batches: BatchColumns, row: int, marked: Iterable[Marked], delete_horizon_ms: int) -> bytes:
        """Return the batch with its retained records (at least one), compressed with its own codec at the default level.

        delete_horizon_ms  written into the batch, or NO_TIMESTAMP
        Base and last offset are those of the batch; for formats 0 and 1 they are those of the retained records.
        """
        table = batches.table
        spec = spec_of(batches, row)._replace(delete_horizon_ms=delete_horizon_ms)
        is_v2 = table[BatchField.MAGIC, row] >= MAGIC_V2
        body, count, largest, base_timestamp = bytearray(), 0, NO_TIMESTAMP, delete_horizon_ms
        last_offset = table[BatchField.LAST_OFFSET, row]
        for chunk, first, end, keep in marked:
            copied, newest = copy_kept(chunk.records.table, first, end, keep, self._kept.table)
            if not copied:
                continue
            kept = self._kept.table
            if not count:
                if not is_v2:
                    spec = spec._replace(base_offset=kept[RecordField.OFFSET, 0])
                if base_timestamp == NO_TIMESTAMP:
                    base_timestamp = kept[RecordField.TIMESTAMP, 0]
            part = encode_body(spec, chunk.data, self._kept, 0, copied, base_timestamp)
            body = body + part if count else part
            count, largest = count + copied, max(largest, newest)
            if not is_v2:
                last_offset = kept[RecordField.OFFSET, copied - 1]
        if spec.timestamp_type == LOG_APPEND_TIME:
            largest = spec.log_append_time
        return finish_batch(spec, body, last_offset, base_timestamp, largest, count)

"""Batch headers as Arrow record batches: one row per batch, no record is decoded."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from engine.arrow.columns import LAST_MS, TIMESTAMP, codec_names, has_flag, timestamp_types
from engine.formats import (
    CODEC_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    MAGIC_V2,
    TRANSACTIONAL_FLAG,
    BatchField,
)
from engine.log.continuity.offset_order import OffsetOrder, stop_before
from engine.log.errors import CorruptRecord
from engine.record.codecs.bounded import MAX_DECOMPRESSED_BYTES
from engine.record.columns import BATCH_ROWS, BatchColumns
from engine.record.heads import HeadWalk
from engine.record.soundness import resume_after_damage
from engine.record.windows import LogWalk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from engine.files import OpenFile
    from engine.findings import Finding
    from engine.log.fetch.view import PartitionView
    from engine.log.segment.readable_segment import ReadableSegment
    from engine.record.windows import Window

HEAD_TYPES: dict[str, pa.DataType] = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "directory": pa.string(),
    "segment": pa.string(),  # name of the .log file
    "position": pa.int64(),  # in the segment, bytes
    "sizeInBytes": pa.int64(),
    "magic": pa.int32(),
    "baseOffset": pa.int64(),  # formats 0 and 1: the entry's own offset
    "lastOffset": pa.int64(),
    "recordCount": pa.int32(),  # of a compressed set of formats 0 and 1: counted, null if it cannot be read
    "codec": pa.string(),
    "timestampType": pa.int32(),  # −1 in format 0
    "baseTimestamp": TIMESTAMP,
    "maxTimestamp": TIMESTAMP,
    "deleteHorizon": TIMESTAMP,  # null if not set
    "producerId": pa.int64(),
    "producerEpoch": pa.int16(),
    "baseSequence": pa.int32(),
    "partitionLeaderEpoch": pa.int32(),
    "isTransactional": pa.bool_(),
    "isControl": pa.bool_(),
    "crc": pa.int64(),  # as stored, unsigned
    "isValid": pa.bool_(),  # on request: does the checksum match
}
_PLAIN = {
    "sizeInBytes": BatchField.SIZE, "magic": BatchField.MAGIC, "baseOffset": BatchField.BASE_OFFSET,
    "lastOffset": BatchField.LAST_OFFSET, "producerId": BatchField.PRODUCER_ID, "producerEpoch": BatchField.PRODUCER_EPOCH,
    "baseSequence": BatchField.BASE_SEQUENCE, "partitionLeaderEpoch": BatchField.LEADER_EPOCH, "crc": BatchField.CRC,
}  # fmt: skip


def head_batches(
    view: PartitionView, schema: pa.Schema, constants: Mapping[str, str | int], start: int, end: int,
    report: Callable[[Finding], None], *, limit: int = MAX_DECOMPRESSED_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Return the batches that begin at offsets start … end − 1, with the columns of `schema`, names of HEAD_TYPES.

    Bodies are read only for the column isValid, and for recordCount of compressed sets of formats 0 and 1, whose headers do not
    have it.
    constants  values of topic, partition and directory
    report     receives batches with a wrong size, after which reading continues with the next sound batch, and offset-order
    limit      decompressed bytes of one compressed set
    Raises UnreadableFile, FileChangedWhileReading.
    """
    heads, scanned = _Heads(schema, constants, limit), BatchColumns()
    kind = LogWalk if "isValid" in schema.names else HeadWalk
    for segment in view.segments.values(start):
        if segment.base_offset >= end:
            return
        position = _first_position(segment, start)
        if position is None:
            continue
        following = view.segments.higher_segment(segment.base_offset)
        reach = view.log_end_offset if following is None else following.base_offset
        try:
            heads.file = segment.log_file
            stop = stop_before(segment, end) if end < reach else None
            walk = kind(segment.log_file, position, segment.size if stop is None else stop, batches=scanned)
            order = OffsetOrder(segment, reach, report)
            yield from _of_segment(walk, heads, order, start, end, report)
        finally:
            segment.release_log()


def _of_segment(
    walk: LogWalk | HeadWalk, heads: _Heads, order: OffsetOrder, start: int, end: int, report: Callable[[Finding], None]
) -> Iterator[pa.RecordBatch]:
    resumes = True
    while resumes:
        for window in walk:
            heads.add(window)
            order.check(window)  # reports wrong order of batches; isValid has the result of checksums
            if order.is_past(end):
                resumes = False
                break
            if heads.rows >= BATCH_ROWS:
                yield from heads.between(start, end)
        yield from heads.between(start, end)
        if resumes:
            resumes, findings = resume_after_damage(walk)
            for finding in findings:
                report(finding)


def _first_position(segment: ReadableSegment, start: int) -> int | None:
    """Return where to start for the batch with `start`; None: after the segment. If damage is in the way, before the damage."""
    try:
        head = segment.translate_offset(start)
    except CorruptRecord:  # the walk from there finds the damage again, and reports it
        return segment.position_before(start)
    return None if head is None else head.position


class _Heads:
    """The headers of some windows of a file, at most 2 · BATCH_ROWS."""

    file: OpenFile  # the file of the rows

    def __init__(self, schema: pa.Schema, constants: Mapping[str, str | int], limit: int) -> None:
        self._schema, self._constants, self._limit = schema, constants, limit
        self._batches = BatchColumns(2 * BATCH_ROWS)
        self._bases: list[tuple[int, int]] = []  # rows of each window, and its file position
        self.rows = 0

    def add(self, window: Window) -> None:
        """Add the headers of a window."""
        for field in BatchField:
            self._batches.field(field)[self.rows : self.rows + window.rows] = window.batches.field(field)[: window.rows]
        self._bases.append((window.rows, window.base))
        self.rows += window.rows

    def between(self, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Return the rows with offsets from `start` on that begin before `end`, and clear all rows."""
        if not self.rows:
            return
        arrays = [self._column(name).cast(HEAD_TYPES[name]) for name in self._schema.names]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        bases, last = self._field(BatchField.BASE_OFFSET), self._field(BatchField.LAST_OFFSET)
        if bases[0].as_py() < start or bases[self.rows - 1].as_py() >= end:
            batch = batch.filter(pc.and_(pc.greater_equal(last, start), pc.less(bases, end)))
        self.rows = 0
        self._bases.clear()
        if batch.num_rows:
            yield batch

    def _field(self, field: BatchField) -> pa.Array:
        values = self._batches.field(field)[: self.rows].tobytes()
        return pa.Array.from_buffers(pa.int64(), self.rows, [None, pa.py_buffer(values)], 0)

    def _column(self, name: str) -> pa.Array:
        if name == "segment":
            return pa.repeat(pa.scalar(self.file.path.rpartition("/")[2], pa.string()), self.rows)
        if name in self._constants:
            return pa.repeat(pa.scalar(self._constants[name], HEAD_TYPES[name]), self.rows)
        if name in _PLAIN:
            return self._field(_PLAIN[name])
        if name == "position":
            return self._positions()
        if name == "recordCount":
            return self._record_counts()
        if name == "isValid":
            valid = self._field(BatchField.VALID)
            return pc.if_else(pc.less(valid, 0), None, pc.greater(valid, 0))
        if name in ("baseTimestamp", "maxTimestamp", "deleteHorizon"):
            return self._timestamp(name)
        return self._attribute(name)

    def _positions(self) -> pa.Array:
        bases = [pa.repeat(pa.scalar(base, pa.int64()), rows) for rows, base in self._bases]
        return pc.add(self._field(BatchField.POSITION), pa.concat_arrays(bases))

    def _record_counts(self) -> pa.Array:
        is_old, stored = pc.less(self._field(BatchField.MAGIC), MAGIC_V2), self._field(BatchField.COUNT)
        if not pc.any(is_old).as_py():
            return stored
        counts = pc.if_else(is_old, 1, stored)
        is_set = pc.and_(is_old, pc.not_equal(pc.bit_wise_and(self._field(BatchField.ATTRIBUTES), CODEC_MASK), 0))
        sets = pa.table({"at": self._positions(), "size": self._field(BatchField.SIZE)}).filter(is_set).to_pylist()
        if not sets:
            return counts
        inner = _inner_counts(self.file, sets, self._limit)
        found = pa.Array.from_buffers(pa.int64(), len(inner), [None, pa.py_buffer(inner)])  # pa.array of a list loads pandas
        return pc.replace_with_mask(counts, is_set, pc.if_else(pc.less(found, 0), None, found))

    def _timestamp(self, name: str) -> pa.Array:
        ms = self._field(BatchField.MAX_TIMESTAMP if name == "maxTimestamp" else BatchField.BASE_TIMESTAMP)
        known = pc.and_(pc.less_equal(ms, LAST_MS), pc.greater_equal(ms, -LAST_MS))
        if name != "maxTimestamp":
            has_horizon = self._flag(DELETE_HORIZON_FLAG)
            known = pc.and_(known, has_horizon if name == "deleteHorizon" else pc.invert(has_horizon))
        return pc.if_else(known, pc.multiply(pc.if_else(known, ms, 0), 1000), None)

    def _attribute(self, name: str) -> pa.Array:
        attributes = self._field(BatchField.ATTRIBUTES)
        if name == "codec":
            return codec_names(attributes)
        if name == "timestampType":
            return timestamp_types(attributes, self._field(BatchField.MAGIC))
        return self._flag(TRANSACTIONAL_FLAG if name == "isTransactional" else CONTROL_FLAG)

    def _flag(self, flag: int) -> pa.Array:
        return has_flag(self._field(BatchField.ATTRIBUTES), self._field(BatchField.MAGIC), flag)


def _inner_counts(file: OpenFile, sets: list[dict[str, int]], limit: int) -> array[int]:
    """Return the number of messages in each of these compressed sets of formats 0 and 1; −1: not all of it can be read."""
    from engine.record.reader import ChunkReader  # imports all codecs

    found: list[Finding] = []
    reader, scanned = ChunkReader(file.path, found.append, limit), BatchColumns(1)
    counts = array("q")
    for one in sets:
        found.clear()
        walk = LogWalk(file, one["at"], one["at"] + one["size"], window_size=one["size"], batches=scanned)
        count = sum(chunk.end - chunk.first for window in walk for chunk in reader.chunks(window))
        counts.append(-1 if found else count)
    return counts

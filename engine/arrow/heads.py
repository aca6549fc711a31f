"""Batch headers as Arrow record batches: a row for each batch, no record decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from engine.arrow.attributes import codec_names, has_flag, timestamp_types
from engine.arrow.columns import TIMESTAMP
from engine.formats import CONTROL_FLAG, DELETE_HORIZON_FLAG, TRANSACTIONAL_FLAG, BatchField
from engine.record.soundness import unsound_end
from engine.record.windows import LogWalk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.findings import Finding
    from engine.log.fetch.view import PartitionView
    from engine.record.windows import Window

HEAD_TYPES: dict[str, pa.DataType] = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "directory": pa.string(),
    "segment": pa.string(),  # name of the .log file
    "position": pa.int64(),  # in it, bytes
    "sizeInBytes": pa.int64(),
    "magic": pa.int32(),
    "baseOffset": pa.int64(),  # of formats 0 and 1 the entry's own
    "lastOffset": pa.int64(),
    "recordCount": pa.int32(),  # null in formats 0 and 1
    "codec": pa.string(),
    "timestampType": pa.int32(),  # −1 in format 0
    "baseTimestamp": TIMESTAMP,
    "maxTimestamp": TIMESTAMP,
    "deleteHorizon": TIMESTAMP,  # null where none is set
    "producerId": pa.int64(),
    "producerEpoch": pa.int16(),
    "baseSequence": pa.int32(),
    "partitionLeaderEpoch": pa.int32(),
    "isTransactional": pa.bool_(),
    "isControl": pa.bool_(),
    "crc": pa.int64(),  # as stored, unsigned
    "isValid": pa.bool_(),  # does the checksum fit; null above 64 MiB, where it is not computed
}
_PLAIN = {
    "sizeInBytes": BatchField.SIZE, "magic": BatchField.MAGIC, "baseOffset": BatchField.BASE_OFFSET,
    "lastOffset": BatchField.LAST_OFFSET, "producerId": BatchField.PRODUCER_ID, "producerEpoch": BatchField.PRODUCER_EPOCH,
    "baseSequence": BatchField.BASE_SEQUENCE, "partitionLeaderEpoch": BatchField.LEADER_EPOCH, "crc": BatchField.CRC,
}  # fmt: skip
_LAST_MS = (2**63 - 1) // 1000


def head_batches(
    view: PartitionView, schema: pa.Schema, constants: dict[str, str | int], start: int, end: int,
    report: Callable[[Finding], None],
) -> Iterator[pa.RecordBatch]:
    """The batches that begin at offsets start … end − 1, with the columns of `schema`, names of HEAD_TYPES.

    constants  what topic, partition and directory say
    report     takes what ends a segment's batches too early
    Raises UnreadableFile, FileChangedWhileReading.
    """
    for segment in view.segments.values(start):
        if segment.base_offset >= end:
            return
        head = segment.translate_offset(start)
        if head is None:
            continue
        walk = LogWalk(segment.log_file, head.position, segment.size)
        name = segment.log_file.path.rpartition("/")[2]
        for window in walk:
            table = _Heads(window, schema, {**constants, "segment": name})
            kept = table.rows_between(start, end)
            if kept.num_rows:
                yield kept
            if window.batches.table[BatchField.BASE_OFFSET, window.rows - 1] >= end:
                return
        damage = unsound_end(segment.log_file, segment.log_file.path, walk.stop, walk.position, walk.end)
        if damage is not None:
            report(damage)


class _Heads:
    """The rows of one window."""

    def __init__(self, window: Window, schema: pa.Schema, constants: dict[str, str | int]) -> None:
        self._window, self._schema, self._constants = window, schema, constants

    def rows_between(self, start: int, end: int) -> pa.RecordBatch:
        """Those whose base offsets are start … end − 1; the window's columns are copied."""
        batch = pa.RecordBatch.from_arrays([self._column(name).cast(HEAD_TYPES[name]) for name in self._schema.names],
                                           schema=self._schema)
        bases = self._field(BatchField.BASE_OFFSET)
        if bases[0].as_py() >= start and bases[len(bases) - 1].as_py() < end:
            return batch
        last = self._field(BatchField.LAST_OFFSET)
        return batch.filter(pc.and_(pc.greater_equal(last, start), pc.less(bases, end)))

    def _field(self, field: BatchField) -> pa.Array:
        values = self._window.batches.field(field)[: self._window.rows].tobytes()
        return pa.Array.from_buffers(pa.int64(), self._window.rows, [None, pa.py_buffer(values)], 0)

    def _column(self, name: str) -> pa.Array:
        if name in self._constants:
            return pa.repeat(pa.scalar(self._constants[name], HEAD_TYPES[name]), self._window.rows)
        if name in _PLAIN:
            return self._field(_PLAIN[name])
        if name == "position":
            return pc.add(self._field(BatchField.POSITION), self._window.base)
        if name == "recordCount":
            count = self._field(BatchField.COUNT)
            return pc.if_else(pc.less(self._field(BatchField.MAGIC), 2), None, count)
        if name == "isValid":
            valid = self._field(BatchField.VALID)
            return pc.if_else(pc.less(valid, 0), None, pc.greater(valid, 0))
        if name in ("baseTimestamp", "maxTimestamp", "deleteHorizon"):
            return self._timestamp(name)
        return self._attribute(name)

    def _timestamp(self, name: str) -> pa.Array:
        ms = self._field(BatchField.MAX_TIMESTAMP if name == "maxTimestamp" else BatchField.BASE_TIMESTAMP)
        known = pc.and_(pc.less_equal(ms, _LAST_MS), pc.greater_equal(ms, -_LAST_MS))
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

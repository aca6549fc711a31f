"""What recovery finds in a segment, read the plain way, batch by batch: the kernels are tested against it."""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

from crc32c import crc32c

from engine.formats import BATCH_HEADER, BatchHeader, ControlType
from engine.log.epochs.runs import EpochRun, EpochRuns
from engine.log.segment.producer_rows import ProducerRow, TxnMarker
from tests.support.plain_records import plain_records

INT_MAX = 2**31 - 1


class Unmodelled(Exception):
    """A control batch that Kafka's builder would not make."""


class Found(NamedTuple):
    valid_size: int
    stop: str
    offsets: bytes  # entries of the offset index
    times: bytes
    largest: tuple[int, int]
    epochs: list[tuple[int, int, int, int]]  # runs
    rows: list[ProducerRow]
    batches: int
    records: int
    next_offset: int | None


def runs_of(found: Found) -> EpochRuns:
    """The model's runs, not finished, as a scan has them."""
    runs = EpochRuns()
    for run in found.epochs:
        runs.add(EpochRun(*run))
    return runs


def settled(runs: EpochRuns) -> tuple[object, ...]:
    """What there is to know of `runs` once they are finished."""
    runs.finish(0)
    return runs.entries, runs.doubt


class Batch(NamedTuple):
    position: int
    size: int
    header: BatchHeader | None  # None: magic below 2
    base_offset: int
    last_offset: int
    timestamp: int
    marker: TxnMarker | None


def recover(data: bytes, base: int, interval: int, max_index_size: int) -> Found:
    """As LogSegment.recover in Kafka, one batch after the other."""
    offsets, times, epochs, rows = [], [], [], []
    largest, last_time = (-1, base), (-1, base)
    at = since = batches = records = 0
    next_offset, stop = None, "end"
    while True:
        batch, stop = read(data, at)
        if batch is None:
            break
        last = batch.last_offset
        if last == 2**63 - 1 or (last < 0 and batch.base_offset > INT_MAX):
            stop = "no-offset-left"
            break
        if not 0 <= last - base <= INT_MAX:
            stop = "overflow"
            break
        if since > interval:
            if len(offsets) >= max_index_size // 8:
                stop = "offsets full"
                break
            if offsets and last <= offsets[-1][0]:
                stop = "offset order"
                break
        largest = max(largest, (batch.timestamp, last), key=lambda pair: pair[0])
        if since > interval:
            offsets.append((last, at))
            if len(times) >= max_index_size // 12 - 1:
                stop = "times full"
                break
            if times and largest[1] < last_time[1]:
                stop = "time order"
                break
            if largest[0] > last_time[0]:
                times.append(largest)
                last_time = largest
            since = 0
        at, since, batches = at + batch.size, since + batch.size, batches + 1
        header, next_offset = batch.header, last + 1 if last < 2**63 - 1 else -(2**63)
        records += 1 if header is None else max(0, header.record_count)
        if header is None:
            continue
        if not epochs or header.partition_leader_epoch != epochs[-1][0]:
            epochs.append((header.partition_leader_epoch, batch.base_offset, batch.position, batches - 1))
        if header.producer_id >= 0:
            rows.append(row_of(batch, header))
    return Found(
        at,
        stop,
        b"".join(struct.pack(">ii", offset - base, position) for offset, position in offsets),
        b"".join(struct.pack(">qi", timestamp, offset - base) for timestamp, offset in times),
        largest,
        epochs,
        rows,
        batches,
        records,
        next_offset,
    )


def row_of(batch: Batch, header: BatchHeader) -> ProducerRow:
    is_transactional, is_control = bool(header.attributes & 16), bool(header.attributes & 32)
    return ProducerRow(
        header.producer_id, header.producer_epoch, header.base_sequence, batch.base_offset, batch.last_offset,
        header.max_timestamp, is_transactional, is_control, batch.marker,
    )  # fmt: skip


def read(data: bytes, at: int) -> tuple[Batch | None, str]:
    """The batch at `at`, or why there is none."""
    left = len(data) - at
    if left <= 17:
        return None, "end" if left == 0 else "torn"
    offset, size = struct.unpack_from(">qi", data, at)
    if size < 14:
        return None, "bad-size"
    if size > left - 12:
        return None, "torn"
    size += 12
    whole, magic = data[at : at + size], struct.unpack_from(">b", data, at + 16)[0]
    if magic < 2:
        if zlib.crc32(whole[16:]) != int.from_bytes(whole[12:16], "big"):
            return None, "invalid"
        timestamp = -1 if magic == 0 else struct.unpack_from(">q", whole, 18)[0]
        return Batch(at, size, None, offset, offset, timestamp, None), ""
    if size < BATCH_HEADER.size or crc32c(whole[21:]) != int.from_bytes(whole[17:21], "big"):
        return None, "invalid"
    header = BATCH_HEADER.read(whole)
    last = (offset + header.last_offset_delta + 2**63) % 2**64 - 2**63
    return Batch(at, size, header, offset, last, header.max_timestamp, marker(header, whole)), ""


def marker(header: BatchHeader, whole: bytes) -> TxnMarker | None:
    """Of a sound control batch that Kafka's builder made."""
    if not header.attributes & 32 or header.producer_id < 0 or not header.record_count:
        return None
    try:
        record = next(plain_records(whole))
    except (StopIteration, IndexError, AssertionError, struct.error):
        raise Unmodelled from None
    if not record.key or not record.value or len(record.key) < 4 or len(record.value) < 6 or header.record_count != 1:
        raise Unmodelled
    kind = struct.unpack(">hh", record.key)[1]
    return TxnMarker(ControlType(kind), struct.unpack(">hi", record.value[:6])[1], header.max_timestamp) if kind < 2 else None

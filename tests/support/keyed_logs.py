"""Random partitions for compaction: few keys, tombstones, every codec, transactions that end in every way, some segments."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from engine.formats import Codec, ControlType
from engine.record.builder import NewRecord, build_batch, end_txn_batch

if TYPE_CHECKING:
    from pathlib import Path

_CODECS = (Codec.NONE, Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)


def write_keyed_log(
    directory: Path, seed: int, *, now: int, batches: int = 150, keys: int = 25, segment_bytes: int = 3000, records: int = 12,
    once: float = 0,
) -> int:
    """Write segments of a log without indexes into `directory`; records are up to 1000 s older than `now` → log end offset.

    once  share of the keys that occur only once: 0 … 1
    """
    directory.mkdir(parents=True, exist_ok=True)
    random = Random(seed)
    offset, sequences, is_open = 0, {}, set()
    segment, base = b"", 0
    for number in range(batches):
        timestamp = now - 1_000_000 + number * 5000
        producer = random.choice((-1, -1, 5, 6, 7))
        if producer in is_open and random.random() < 0.4:
            kind = random.choice((ControlType.COMMIT, ControlType.ABORT))
            data = end_txn_batch(
                kind, 0, base_offset=offset, timestamp=timestamp, producer_id=producer, producer_epoch=0, partition_leader_epoch=0
            )
            is_open.discard(producer)
            count = 1
        else:
            count = random.randint(1, records)
            options = {}
            if producer >= 0:
                if producer == 7 or random.random() < 0.5:
                    is_open.add(producer)
                first = sequences.get(producer, 0)
                sequences[producer] = first + count
                options = {"producer_id": producer, "producer_epoch": 0, "base_sequence": first, "transactional": producer in is_open}
            gap = random.choice((0, 0, 0, 3)) if producer < 0 else 0  # gaps as after compaction
            offset += gap
            made = [
                NewRecord(offset + n, timestamp + n, b"key-%d" % (offset + n + keys if random.random() < once else random.randrange(keys)), random.choice((None, b"v" * random.randrange(60))))
                for n in range(count)
            ]
            data = build_batch(made, codec=random.choice(_CODECS), **options)
        if segment and len(segment) + len(data) > segment_bytes:
            (directory / f"{base:020}.log").write_bytes(segment)
            segment, base = b"", offset
        segment += data
        offset += count
    (directory / f"{base:020}.log").write_bytes(segment)
    return offset


def write_transactions(directory: Path, segments: int, transactions: int, *, now: int) -> int:
    """Write segments without indexes of `transactions` transactions of one record each, every second one aborted, and an open
    one → number of aborted ones.
    """
    directory.mkdir(parents=True, exist_ok=True)
    offset, sequences = 0, [0] * 5
    for _ in range(segments):
        base, data = offset, []
        for number in range(transactions):
            owner = number % len(sequences)
            record, producer = NewRecord(offset, now, b"k%d" % (offset % 97), b"v"), {"producer_id": 100 + owner, "producer_epoch": 0}
            data.append(build_batch([record], transactional=True, base_sequence=sequences[owner], **producer))
            sequences[owner] += 1
            kind = ControlType.ABORT if number % 2 else ControlType.COMMIT
            data.append(end_txn_batch(kind, 0, base_offset=offset + 1, timestamp=now, **producer))
            offset += 2
        (directory / f"{base:020}.log").write_bytes(b"".join(data))
    (directory / f"{offset:020}.log").write_bytes(build_batch([NewRecord(offset, now, b"k", b"v")]))
    return segments * (transactions // 2)

"""The producer's path against Kafka's own producer, and the decoding of captured requests against the clock.

Both producers partition, accumulate and compress the same records of 100 bytes without keys, as kafka-producer-perf-test sends
them, warm, each in a process of its own. Kafka's has its sender in a thread, and a broker that takes every request at once
without a network; ours has one thread.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
from typing import TYPE_CHECKING

from engine.formats import CODEC_NAMES, Codec, RecordField
from engine.producer.config import ProducerConfig
from engine.producer.offline import OfflineProducer
from engine.protocol.frames import RequestHeader, encode_request
from engine.record.assembly import BatchSpec
from engine.record.columns import RECORD_ROWS, RecordColumns
from tests.bench.measure import WrongRunError, answer, median, run
from tests.bench.report import Result

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.bench.setting import Bench

_SIZE = 100  # bytes of a record
_PARTITIONS, _ROUNDS = 12, 10
_FASTER = 2
_DECODED_PER_SECOND = 500_000_000  # bytes
_REQUESTS = 256 << 20  # bytes of batches
_PRODUCE, _VERSION = 0, 9
_WORDS = ("order", "invoice", "shipped", "pending", "warehouse", "customer", "returned", "express", "parcel", "refund")


def produce(bench: Bench) -> Iterator[Result]:
    """Both codecs."""
    source = _records(bench.home / f"producer-{_count(bench)}.records", _count(bench))
    for codec in ("none", "lz4"):
        ours, theirs = [], []
        for _ in range(bench.runs):
            ours.append(answer([sys.executable, "-m", "tests.bench.sending", str(source), codec], bench.home))
            java = [*bench.engine, "org.apache.kafka.clients.producer.Throughput", str(source), str(_SIZE), str(_PARTITIONS), codec,
                    str(_ROUNDS)]  # fmt: skip
            theirs.append(answer(java, bench.home))
        if not 0.9 < ours[0]["bytes"] / (theirs[0]["bytes"] / _ROUNDS) < 1.1:
            raise WrongRunError(f"producer, {codec}: {ours[0]['bytes']} bytes, Kafka made {theirs[0]['bytes'] / _ROUNDS}")
        our, their = (statistics.median(one["seconds"] for one in runs) for runs in (ours, theirs))
        work = f"partition, accumulate, compress: {_count(bench) / our / 1e6:.1f} M records/s"
        yield Result(f"{_count(bench)} records of {_SIZE} bytes, {codec}", work, our, their, _FASTER)


def requests(bench: Bench) -> Iterator[Result]:
    """Requests as a producer sends them: one batch of 16 KiB for each of 12 partitions."""
    source, size = _requests(bench)
    runs = [run([*bench.kafkalog, "requests", str(source)], bench.home, bench.out / "requests.out") for _ in range(bench.runs)]
    middle = median(runs)
    yield Result(f"{size / (1 << 20):.0f} MiB of Produce requests, uncompressed", f"requests: {size / middle.seconds / 1e6:.0f} MB/s",
                 middle.seconds, None, None, middle.peak_bytes, limit=size / _DECODED_PER_SECOND, peak_limit=100 << 20)  # fmt: skip


def _count(bench: Bench) -> int:
    return min(500_000, bench.records)


def _records(target: Path, count: int) -> Path:
    """Records one after the other, of text that a codec can compress."""
    if not target.exists():
        rng = random.Random(7)
        fresh = target.with_suffix(".tmp")
        with fresh.open("wb") as out:
            for number in range(count):
                value = f'{{"id":{number},"state":"{rng.choice(_WORDS)}","amount":{rng.randrange(10**6) / 100},"note":"'
                while len(value) < _SIZE:
                    value += rng.choice(_WORDS) + " "
                out.write(f'{value[: _SIZE - 2]}"}}'.encode())
        fresh.replace(target)
    return target


def _requests(bench: Bench) -> tuple[Path, int]:
    """A file of requests with batches of records, and its size."""
    target = bench.home / f"requests-{_count(bench)}.frames"
    if not target.exists():
        data = _records(bench.home / f"producer-{_count(bench)}.records", _count(bench)).read_bytes()
        waiting: dict[int, list[bytes]] = {}
        for partition, batch in _batches(memoryview(data), _columns(len(data) // _SIZE), "none"):
            waiting.setdefault(partition, []).append(batch)
        rounds = min(map(len, waiting.values()))
        fresh = target.with_suffix(".tmp")
        with fresh.open("wb") as out:
            number = 0
            while out.tell() < _REQUESTS:
                parts = [{"index": one, "records": batches[number % rounds]} for one, batches in sorted(waiting.items())]
                body = {"transactionalId": None, "acks": -1, "timeoutMs": 30_000, "topicData": [{"name": "orders", "partitionData": parts}]}
                out.writelines(encode_request(RequestHeader(_PRODUCE, _VERSION, number, "bench"), body))
                number += 1
        fresh.replace(target)
    return target, target.stat().st_size


def _columns(count: int) -> list[tuple[int, RecordColumns]]:
    """Where values are, in tables of the usual size: (rows, table)."""
    tables = []
    for first in range(0, count, RECORD_ROWS):
        rows, columns = min(RECORD_ROWS, count - first), RecordColumns()
        for row in range(rows):
            at = (first + row) * _SIZE
            for field, number in ((RecordField.TIMESTAMP, 1_700_000_000_000 + (first + row) // 1000), (RecordField.KEY_SIZE, -1),
                                  (RecordField.VALUE_POSITION, at), (RecordField.VALUE_SIZE, _SIZE)):  # fmt: skip
                columns.table[field, row] = number
        tables.append((rows, columns))
    return tables


def _batches(data: memoryview, tables: list[tuple[int, RecordColumns]], codec: str) -> Iterator[tuple[int, bytes]]:
    config = ProducerConfig(idempotence=False, spec=BatchSpec(codec=Codec(CODEC_NAMES.index(codec))))
    rng = random.Random(1)
    producer = OfflineProducer(config, "orders", _PARTITIONS, lambda: rng.getrandbits(31), rng.random)
    for rows, columns in tables:
        yield from producer.send(data, columns, rows)
    yield from producer.flush()


def main() -> None:
    """FILE CODEC: the best of some rounds over the records of a file, as JSON."""
    source, codec = sys.argv[1:]
    with open(source, "rb") as file:
        data = memoryview(file.read())
    tables, best, size = _columns(len(data) // _SIZE), float("inf"), 0
    for _ in range(_ROUNDS):
        begun = time.perf_counter()
        size = sum(len(batch) for _, batch in _batches(data, tables, codec))
        best = min(best, time.perf_counter() - begun)
    print(json.dumps({"seconds": best, "bytes": size}))


if __name__ == "__main__":
    main()

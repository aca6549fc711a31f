"""Recovery of partitions of many short transactions, and of many producers: producer state must stay small."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from engine.checkpoint.producer_snapshot import ProducerSnapshot
from engine.files import ReadOnlyFiles
from engine.formats import BATCH_HEADER, Codec, ControlType
from engine.record.builder import NewRecord, build_batch, end_txn_batch
from engine.record.windows import crc32c
from tests.bench.data import SEGMENT
from tests.bench.measure import WrongRunError, median, run
from tests.bench.report import Result

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from engine.formats import ProducerSnapshotEntry
    from tests.bench.measure import Run
    from tests.bench.setting import Bench

PRODUCERS, TRANSACTIONS = 3_000, 300_000
IDEMPOTENT, BATCHES = 1_000_000, 2  # producers, and batches of each
NOW = "1700000000000"
MEMORY_LIMIT = 100 << 20
FASTER = 3
SETTINGS = ("--now", NOW, "--recovery-point", "0")
_RECORDS = 3  # of a transaction, in one batch


def recover_transactions(bench: Bench) -> Iterator[Result]:
    """Open it after an unclean stop: every batch is checked, every transaction opened and ended."""
    log = _transactions(bench.home / f"transactions-0/{SEGMENT}.log")
    if not log.with_suffix(".index").exists():
        run([*bench.kafkalog, "recover", "--no-quarantine", *SETTINGS, str(log.parent)], bench.home, bench.out / "recover.out",
            (0, 1))  # fmt: skip
    ours, theirs = [], []
    for _ in range(bench.runs):
        partition = _copy(log.parent, bench.home / "theirs-0")
        command = [*bench.engine, "kafkalog.oracle.Main", "recover", str(partition), *SETTINGS]
        theirs.append(run(command, bench.home, bench.out / "recover.kafka"))
        ours.append(_recover(bench, log))
        if _producers(bench.home / "ours-0") != _producers(partition):
            raise WrongRunError("recover of transactions: the producer snapshots are not those that Kafka made")
    for name in ("ours-0", "theirs-0"):
        shutil.rmtree(bench.home / name)
    our, their = median(ours), median(theirs)
    yield Result(f"{TRANSACTIONS} transactions of {PRODUCERS} producers", "recover", our.seconds, their.seconds, FASTER,
                 our.peak_bytes, their.peak_bytes, None, MEMORY_LIMIT, our.cpu_seconds, their.cpu_seconds)  # fmt: skip


def _producers(partition: Path) -> dict[str, list[ProducerSnapshotEntry]]:
    """What the snapshots say, by name; in no order."""
    return {path.name: sorted(ProducerSnapshot.read(ReadOnlyFiles(), str(path))) for path in sorted(partition.glob("*.snapshot"))}


def recover_producers(bench: Bench) -> Iterator[Result]:
    """The same for very many idempotent producers: all of them are in memory, and in each snapshot.

    Kafka's time and memory are left out: its driver prints them all as JSON, which takes more than the recovery.
    """
    count = min(IDEMPOTENT, max(10_000, bench.records))
    log = _idempotent(bench.home / f"producers-{count}/{SEGMENT}.log", count)
    ours = [_recover(bench, log) for _ in range(bench.runs)]
    our = median(ours)
    yield Result(f"{BATCHES} batches of each of {count} producers", "recover", our.seconds, None, None, our.peak_bytes,
                 cpu=our.cpu_seconds, peak_limit=MEMORY_LIMIT)  # fmt: skip


def _recover(bench: Bench, log: Path) -> Run:
    partition = _copy(log.parent, bench.home / "ours-0")
    return run([*bench.kafkalog, "recover", "--no-quarantine", *SETTINGS, str(partition)], bench.home, bench.out / "recover.out",
               (0, 1))  # fmt: skip


def _copy(source: Path, partition: Path) -> Path:
    shutil.rmtree(partition, ignore_errors=True)
    shutil.copytree(source, partition)
    for snapshot in partition.glob("*.snapshot"):
        snapshot.unlink()
    return partition


def _transactions(target: Path) -> Path:
    """A log of so many transactions, one behind the other. Producers come again with the same sequences."""
    if target.exists():
        return target
    target.parent.mkdir(exist_ok=True)
    block = transactions([[(b"key", b"value")] * _RECORDS] * PRODUCERS, Codec.NONE)
    fresh = target.with_suffix(".tmp")
    with fresh.open("wb") as out:
        for number in range(TRANSACTIONS // PRODUCERS):
            out.writelines(shifted(block, number * PRODUCERS * (_RECORDS + 1)))
    fresh.replace(target)
    return target


def transactions(contents: Iterable[list[tuple[bytes, bytes]]], codec: Codec) -> list[tuple[int, bytes]]:
    """A batch of keys and values and a marker for each transaction, by producers in turn; every tenth is aborted: (offset, batch)."""
    stamp, offset = int(NOW), 0
    block: list[tuple[int, bytes]] = []
    for number, pairs in enumerate(contents):
        producer = number % PRODUCERS
        records = [NewRecord(offset + at, stamp, key, value, []) for at, (key, value) in enumerate(pairs)]
        block.append((offset, bytes(build_batch(records, base_offset=offset, codec=codec, producer_id=producer, producer_epoch=0,
                                                base_sequence=0, transactional=True))))  # fmt: skip
        offset += len(records)
        kind = ControlType.ABORT if number % 10 == 0 else ControlType.COMMIT
        marker = end_txn_batch(kind, 0, base_offset=offset, timestamp=stamp, producer_id=producer, producer_epoch=0)
        block.append((offset, bytes(marker)))
        offset += 1
    return block


def shifted(block: list[tuple[int, bytes]], by: int) -> Iterator[bytes]:
    """The batches, so many offsets later: base offsets stand outside the checksums."""
    return ((offset + by).to_bytes(8, "big") + batch[8:] for offset, batch in block)


def _idempotent(target: Path, count: int) -> Path:
    """A log of one record from each of so many producers, and then of another one from each."""
    if target.exists():
        return target
    target.parent.mkdir(exist_ok=True)
    batch = bytearray(build_batch([NewRecord(0, int(NOW), b"key", b"value", [])], producer_id=0, producer_epoch=0, base_sequence=0))
    fresh = target.with_suffix(".tmp")
    with fresh.open("wb") as out:
        for offset in range(count * BATCHES):
            BATCH_HEADER.put("base_offset", batch, 0, offset)
            BATCH_HEADER.put("producer_id", batch, 0, offset % count)
            BATCH_HEADER.put("base_sequence", batch, 0, offset // count)
            BATCH_HEADER.put("crc", batch, 0, crc32c(memoryview(batch)[BATCH_HEADER.positions["attributes"] :]))
            out.write(batch)
    fresh.replace(target)
    return target

"""Recovery of a partition of many short transactions: producer state must stay small."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from engine.formats import ControlType
from engine.record.builder import NewRecord, build_batch, end_txn_batch
from tests.bench.data import SEGMENT
from tests.bench.measure import median, run
from tests.bench.report import Result

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.bench.setting import Bench

PRODUCERS, TRANSACTIONS = 3_000, 300_000
NOW = "1700000000000"
MEMORY_LIMIT = 100 << 20
_RECORDS = 3  # of a transaction, in one batch


def recover_transactions(bench: Bench) -> Iterator[Result]:
    """Open it after an unclean stop: every batch is checked, every transaction opened and ended."""
    log = _transactions(bench.home / f"transactions-0/{SEGMENT}.log")
    settings = ("--now", NOW, "--recovery-point", "0")
    if not log.with_suffix(".index").exists():
        run([*bench.kafkalog, "recover", "--no-quarantine", *settings, str(log.parent)], bench.home, bench.out / "recover.out",
            (0, 1))  # fmt: skip
    ours, theirs = [], []
    for _ in range(bench.runs):
        partition = _copy(log.parent, bench.home / "theirs-0")
        command = [*bench.engine, "kafkalog.oracle.Main", "recover", str(partition), *settings]
        theirs.append(run(command, bench.home, bench.out / "recover.kafka"))
        partition = _copy(log.parent, bench.home / "ours-0")
        command = [*bench.kafkalog, "recover", "--no-quarantine", *settings, str(partition)]
        ours.append(run(command, bench.home, bench.out / "recover.out", (0, 1)))
    for name in ("ours-0", "theirs-0"):
        shutil.rmtree(bench.home / name)
    our, their = median(ours), median(theirs)
    yield Result(f"{TRANSACTIONS} transactions of {PRODUCERS} producers", "recover", our.seconds, their.seconds, None,
                 our.peak_bytes, their.peak_bytes, None, MEMORY_LIMIT, our.cpu_seconds, their.cpu_seconds)  # fmt: skip


def _copy(source: Path, partition: Path) -> Path:
    shutil.rmtree(partition, ignore_errors=True)
    shutil.copytree(source, partition)
    for snapshot in partition.glob("*.snapshot"):
        snapshot.unlink()
    return partition


def _transactions(target: Path) -> Path:
    """A log of so many transactions, one behind the other. Producers come again with the same sequences: the copies of a
    block differ only in their base offsets, which stand outside the checksums."""
    if target.exists():
        return target
    target.parent.mkdir(exist_ok=True)
    stamp = int(NOW)
    block: list[tuple[int, bytes]] = []  # offset in the block, batch
    for producer in range(PRODUCERS):
        offset = producer * (_RECORDS + 1)
        records = [NewRecord(at, stamp, b"key", b"value", []) for at in range(offset, offset + _RECORDS)]
        block.append((offset, bytes(build_batch(records, base_offset=offset, producer_id=producer, producer_epoch=0,
                                                base_sequence=0, transactional=True))))  # fmt: skip
        kind = ControlType.ABORT if producer % 10 == 0 else ControlType.COMMIT
        marker = end_txn_batch(kind, 0, base_offset=offset + _RECORDS, timestamp=stamp, producer_id=producer, producer_epoch=0)
        block.append((offset + _RECORDS, bytes(marker)))
    fresh = target.with_suffix(".tmp")
    with fresh.open("wb") as out:
        for number in range(TRANSACTIONS // PRODUCERS):
            shift = number * PRODUCERS * (_RECORDS + 1)
            out.writelines((offset + shift).to_bytes(8, "big") + batch[8:] for offset, batch in block)
    fresh.replace(target)
    return target

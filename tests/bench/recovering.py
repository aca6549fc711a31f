"""Opening logs: recovery of several segments beside Kafka's and beside cat, and a log dir of many partitions."""

from __future__ import annotations

import hashlib
import shutil
from typing import TYPE_CHECKING

from tests.bench.data import Workload
from tests.bench.measure import Run, WrongRunError, median, run
from tests.bench.report import Result

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.bench.setting import Bench

NOW = "1700000000000"
WORKLOADS = (
    Workload("segments-none-0", "uncompressed", 150, "none", 4.85, segment_share=1.0),
    Workload("segments-lz4-0", "lz4", 150, "lz4", 4.85, segment_share=0.38),
)
BEYOND_CAT = 0.250  # seconds
FASTER = 3
MEMORY_LIMIT = 100 << 20
OPEN_LIMIT = 5.0
PARTITIONS, SEGMENTS = 2000, 10


def recover(bench: Bench) -> Iterator[Result]:
    """A full recovery after an unclean stop: all batches checked, all indexes made anew, the same ones as Kafka makes."""
    for workload in WORKLOADS:
        directory = bench.partition(workload)
        logs = sorted(directory.glob("*.log"))
        size = f"{sum(path.stat().st_size for path in logs) / 1e6:.0f} MB in {len(logs)} segments, {workload.title}"
        settings = ("--now", NOW, "--config", "message.timestamp.after.max.ms=9223372036854775807")
        ours, theirs, cats = [], [], []
        for _ in range(bench.runs):
            theirs.append(run([*bench.engine, "kafkalog.oracle.Main", "recover", str(directory), *settings], bench.home,
                              bench.out / "recover.kafka"))  # fmt: skip
            expected = _indexes(directory)
            ours.append(_recover_anew(bench, directory, settings))
            if _indexes(directory) != expected:
                raise WrongRunError(f"recover {workload.name}: the indexes are not those that Kafka made")
            cats.append(run(["cat", *map(str, logs)], bench.home, bench.null))
        our, their, cat = median(ours), median(theirs), median(cats)
        yield Result(size, "recover", our.seconds, their.seconds, FASTER, our.peak_bytes, their.peak_bytes, None,
                     MEMORY_LIMIT, our.cpu_seconds, their.cpu_seconds)  # fmt: skip
        yield Result(size, "recover, beyond cat of the logs", max(0.0, our.seconds - cat.seconds), None, None, limit=BEYOND_CAT)


def _recover_anew(bench: Bench, directory: Path, settings: tuple[str, ...]) -> Run:
    """Recover without what an earlier run left but the logs."""
    for path in directory.glob("*.*index"):
        path.unlink()
    return run([*bench.kafkalog, "recover", "--no-quarantine", *settings, str(directory)], bench.home,
               bench.out / "recover.out", (0, 1))  # fmt: skip


def _indexes(directory: Path) -> dict[str, str]:
    """Name → digest of every index."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(directory.glob("*.*index"))}


def open_many(bench: Bench) -> Iterator[Result]:
    """Open and close every log of a cleanly stopped log dir."""
    count = min(PARTITIONS, max(20, bench.records // 565))
    log_dir = many_partitions(bench, count, SEGMENTS)
    for words in (("recover", "--no-quarantine"), ("retain",), ("roll", "--dry-run")):
        command = [*bench.kafkalog, *words, "--clean-start", "--now", NOW, str(log_dir)]
        runs = [run(command, bench.home, bench.out / "open.out") for _ in range(bench.runs)]
        middle = median(runs)
        yield Result(f"{count} partitions of {SEGMENTS} segments", f"{' '.join(words)} --clean-start", middle.seconds, None,
                     None, middle.peak_bytes, limit=OPEN_LIMIT, peak_limit=MEMORY_LIMIT)  # fmt: skip


def many_partitions(bench: Bench, count: int, segments: int) -> Path:
    """A log dir of so many equal partitions, each in so many segments."""
    log_dir = bench.home / f"many-{segments}"
    identity = log_dir / "meta.properties"  # the last file that is made
    if identity.exists() and len(list(log_dir.glob("many-*"))) == count:
        return log_dir
    shutil.rmtree(log_dir, ignore_errors=True)
    log_dir.mkdir()
    model = log_dir / "many-0"
    settings = ("--clean-start", "--now", NOW, "--config", "message.timestamp.after.max.ms=9223372036854775807")
    lines = bench.home / "many.jsonl"
    lines.write_text("".join(f'{{"value":"record {number}","timestamp":{NOW}}}\n' for number in range(10)))
    for number in range(segments):
        words = ("append", "--create", "--input", str(lines), *settings)
        run([*bench.kafkalog, *words, str(model)], bench.home, bench.out / "many.out", (0, 1))
        if number < segments - 1:
            run([*bench.kafkalog, "roll", *settings, str(model)], bench.home, bench.out / "many.out", (0, 1))
    (model / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg\n")
    for number in range(1, count):
        shutil.copytree(model, log_dir / f"many-{number}")
    identity.write_text("version=1\nnode.id=1\ncluster.id=bench\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n")
    return log_dir

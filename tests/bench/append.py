"""Appending: ready batches against Kafka's UnifiedLog, and lines of JSON against the clock."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

from engine.formats import BATCH_HEADER, LOG_OVERHEAD
from tests.bench.data import SEGMENT
from tests.bench.measure import median, run, same_output
from tests.bench.report import Result

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.bench.setting import Bench

LINES_PER_SECOND = 300_000
LINE = 100  # bytes, the line feed included
NOW = "1700000000000"
LARGE = ("--config", f"segment.bytes={2**30}", "--config", f"message.timestamp.after.max.ms={2**63 - 1}")


def append_results(bench: Bench) -> Iterator[Result]:
    """Both measurements."""
    yield ready_batches(bench)
    yield json_lines(bench)


def ready_batches(bench: Bench) -> Result:
    """The batches of a segment, each a request of its own, appended as a leader by both."""
    source = bench.home / bench.segment("none-0")
    frames = _frames(source, bench.home / "append.frames")
    ours, theirs, our_runs, their_runs = bench.home / "ours-0", bench.home / "theirs-0", [], []
    for _ in range(bench.runs):
        _fresh(ours, theirs)
        raw = ["append", "--clean-start", "--input-format", "raw", "--input", str(source), "--now", NOW, *LARGE]
        our_runs.append(run([*bench.kafkalog, *raw, str(ours)], bench.home, bench.out / "append.out"))
        engine = [*bench.engine, "kafkalog.oracle.Main", "append", str(theirs), "--input", str(frames), "--now", NOW, *LARGE]
        their_runs.append(run(engine, bench.home, bench.out / "append.kafka"))
    for name in (f"{SEGMENT}.log", f"{SEGMENT}.index", f"{SEGMENT}.timeindex"):
        same_output(ours / name, theirs / name, f"append: {name}")
    _remove(ours, theirs)
    our, their = median(our_runs), median(their_runs)
    return Result("uncompressed", "append of ready batches", our.seconds, their.seconds, 1.5, our.peak_bytes,
                  their.peak_bytes, None, 100 << 20, our.cpu_seconds, their.cpu_seconds)  # fmt: skip


def json_lines(bench: Bench) -> Result:
    """Lines of JSON from a file."""
    source, count, partition = bench.home / "lines.jsonl", max(1, bench.records), bench.home / "lines-0"
    _lines(source, count)
    runs = []
    for _ in range(bench.runs):
        _fresh(partition)
        command = ["append", "--clean-start", "--input", str(source), *LARGE, str(partition)]
        runs.append(run([*bench.kafkalog, *command], bench.home, bench.out / "append.out"))
    _remove(partition)
    middle = median(runs)
    title = f"{count} lines of {LINE} bytes"
    work = f"append of JSON lines, {count / middle.seconds:.0f} records/s"
    return Result(title, work, middle.seconds, None, None, middle.peak_bytes,
                  limit=count / LINES_PER_SECOND, peak_limit=100 << 20)  # fmt: skip


def _fresh(*directories: Path) -> None:
    _remove(*directories)
    for directory in directories:
        directory.mkdir()


def _remove(*directories: Path) -> None:
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)


def _frames(source: Path, target: Path) -> Path:
    """The batches of a log as requests: each with its length in front, and base offset 0."""
    with source.open("rb") as log, target.open("wb") as out:
        while head := log.read(BATCH_HEADER.size):
            size = BATCH_HEADER.read(head).batch_length + LOG_OVERHEAD
            batch = head + log.read(size - len(head))
            out.write(len(batch).to_bytes(4, "big") + bytes(8) + batch[8:])
    return target


def _lines(target: Path, count: int) -> None:
    if target.exists() and target.stat().st_size == count * LINE:
        return
    with target.open("w") as out:
        for number in range(count):
            line = json.dumps({"key": f"key-{number % 5000:08}", "value": "", "timestamp": 1_700_000_000_000 + number})
            fill = (f"{number:012} " * 8)[: LINE - 1 - len(line)]
            out.write(line.replace('"value": ""', f'"value": "{fill}"') + "\n")

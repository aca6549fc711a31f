"""Compaction against Kafka's own Cleaner, on the same partitions: the same bytes must be left."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING

from tests.bench.measure import Run, WrongRunError, median, run
from tests.bench.report import Result

if TYPE_CHECKING:
    from pathlib import Path

KEYS = 200_000
MAP = 128 << 20
NOW = "1700000500000"
CODECS = {"none": "uncompressed", "lz4": "lz4", "zstd": "zstd"}
TARGET = 3
PEAK_LIMIT = MAP + (100 << 20)
_SETTINGS = ("--config", "cleanup.policy=compact", "--config", "segment.bytes=200000000")


def compare(java: list[str], kafkalog: list[str], home: Path, codec: str, records: int, runs: int) -> Result:
    """Both clean a copy each of the same partition, in turn, in whole processes."""
    source = _generate(java, home, codec, records)
    ours, theirs = home / "compact-ours/topic-0", home / "compact-kafka/topic-0"
    our_runs: list[Run] = []
    their_runs: list[Run] = []
    for _ in range(runs):
        for target in (ours, theirs):
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(source, target)
        options = ["--force", "--rounds", "1", "--dedupe-buffer-size", str(MAP), "--clean-start"]
        our_runs.append(run([*kafkalog, "compact", "--now", NOW, *_SETTINGS, *options, str(ours)], home, home / "compact.out"))
        command = [*java, "kafkalog.oracle.Main", "compact", str(theirs), "--now", NOW, *_SETTINGS, "--map-bytes", str(MAP)]
        their_runs.append(run(command, home, home / "compact.out"))
        _same_logs(ours, theirs)
    our, their = median(our_runs), median(their_runs)
    for target in (ours, theirs):
        shutil.rmtree(target)
    work = f"compact {records} records, {KEYS} keys"
    return Result(CODECS[codec], work, our.seconds, their.seconds, TARGET, our.peak_bytes, their.peak_bytes, None, PEAK_LIMIT,
                  our.cpu_seconds, their.cpu_seconds)  # fmt: skip


def _same_logs(ours: Path, theirs: Path) -> None:
    found, wanted = ({path.name: path.read_bytes() for path in top.glob("*.log")} for top in (ours, theirs))
    if found != wanted:
        raise WrongRunError(f"compact: kafkalog and Kafka leave different logs; see {ours} and {theirs}")


def _generate(java: list[str], home: Path, codec: str, records: int) -> Path:
    directory, done = home / f"compact-{codec}/topic-0", home / f"compact-{codec}.json"
    if done.exists() and json.loads(done.read_text())["records"] == records:
        return directory
    shutil.rmtree(directory, ignore_errors=True)
    print(f"Kafka writes compact-{codec}: {records} records", flush=True)
    command = [*java, "kafkalog.oracle.Main", "gen", str(directory), "--records", str(records), "--keys", str(KEYS),
               "--key-width", "12", "--value-size", "62:102", "--batch", "100", "--codec", codec,
               "--config", f"segment.bytes={min(200_000_000, 8 * records)}"]  # fmt: skip
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode or "failed" in json.loads(answer.stdout):
        raise WrongRunError(f"the generator failed: {answer.stdout[:500]}{answer.stderr[-500:]}")
    done.write_text(json.dumps({"records": records}))
    return directory

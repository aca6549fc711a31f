"""The files that are measured: written by real Kafka once, kept in build/bench."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING, NamedTuple

from engine.formats import BATCH_HEADER, LOG_OVERHEAD

if TYPE_CHECKING:
    from pathlib import Path

SEGMENT = "00000000000000000000"
RECORD = 119  # bytes of an uncompressed record, about
LARGEST_SEGMENT = 2**31 - 1  # Kafka's limit for one file


class Workload(NamedTuple):
    """A partition. `share`: its records as a share of the run's; `segment_share`: its segments' size as a share of what
    the run's records take uncompressed; 0: one segment."""

    name: str
    title: str
    batch: int
    codec: str
    share: float = 1.0
    segment_share: float = 0


WORKLOADS = (
    Workload("none-0", "uncompressed", 150, "none"),
    Workload("lz4-0", "lz4", 150, "lz4"),
    Workload("zstd-0", "zstd", 150, "zstd"),
    Workload("single-0", "one record per batch", 1, "none"),
    Workload("several-0", "several segments, uncompressed", 150, "none", 1.0, 0.25),
    Workload("small-0", "a small segment", 10, "none", 0.0001),
)


def generate(java: list[str], home: Path, workload: Workload, records: int) -> Path:
    """The directory of one workload, made by Kafka's UnifiedLog where it is not there yet."""
    count = max(1, int(records * workload.share))
    directory = home / workload.name
    done = home / f"{workload.name}.json"
    if done.exists() and json.loads(done.read_text())["records"] == count:
        return directory
    shutil.rmtree(directory, ignore_errors=True)
    done.unlink(missing_ok=True)
    print(f"Kafka writes {workload.name}: {count} records, {workload.title}", flush=True)
    segment = int(RECORD * records * workload.segment_share) or 2**30
    command = [
        *java, "kafkalog.oracle.Main", "gen", directory, "--records", count, "--keys", 200000, "--key-width", 12,
        "--value-size", "62:102", "--batch", workload.batch, "--codec", workload.codec,
        "--config", f"segment.bytes={segment}",
    ]  # fmt: skip
    answer = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    result = json.loads(answer.stdout) if answer.stdout else {"failed": answer.stderr}
    if "failed" in result:
        raise RuntimeError(f"the generator failed: {result['failed']}")
    if not (directory / f"{SEGMENT}.log").exists() or (len(result["segments"]) == 1) == (segment < 2**30):
        raise RuntimeError(f"{workload.name} is {'one segment' if segment < 2**30 else 'several segments'}")
    done.write_text(json.dumps({"records": count}))
    return directory


def enlarge(source: Path, target: Path, size: int) -> Path:
    """A log of at most `size` bytes: the batches of `source` again and again, with offsets that go on.

    The base offset stands outside a batch's checksum, so every copy is a sound batch.
    """
    if target.exists() and target.stat().st_size <= size < target.stat().st_size + source.stat().st_size:
        return target
    target.parent.mkdir(exist_ok=True)
    left = min(size, LARGEST_SEGMENT)
    fresh = target.with_suffix(".tmp")
    with source.open("rb") as original, fresh.open("wb") as out:  # batch by batch: what is held here would be measured
        shift = end = 0
        while batch := original.read(BATCH_HEADER.size):
            header = BATCH_HEADER.read(batch)
            batch += original.read(header.batch_length + LOG_OVERHEAD - len(batch))
            if len(batch) > left:
                break
            out.write((header.base_offset + shift).to_bytes(8, "big") + batch[8:])
            left -= len(batch)
            end = header.base_offset + shift + header.last_offset_delta + 1
            if original.tell() == source.stat().st_size:
                original.seek(0)
                shift = end
    fresh.replace(target)
    return target

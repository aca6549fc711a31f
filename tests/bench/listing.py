"""`ls` of many partitions; `remote list` of many records of `__remote_log_metadata`."""

from __future__ import annotations

import json
import random
import shutil
import struct
from itertools import count
from typing import TYPE_CHECKING

from engine.config.topic import LogConfig
from engine.files import Files
from engine.log.append.intake import BatchIntake
from engine.log.loading.loader import open_log
from engine.record.assembly import BatchSpec
from engine.record.builder import NewRecord, split
from engine.remote.records import SegmentRecord, State, UpdateRecord, encode_record, metadata_partition_of
from tests.bench.measure import WrongRunError, median, run
from tests.bench.recovering import many_partitions
from tests.bench.report import Result

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.bench.setting import Bench

SECONDS_LIMIT, PEAK_LIMIT = 5.0, 300 << 20
PARTITIONS, SEGMENTS, LS_LIMIT, LS_PEAK_LIMIT = 10_000, 3, 3.0, 150 << 20
_METADATA_PARTITIONS, _PARTITIONS, _LIVE = 50, 400, 150  # segments of a partition before retention deletes the first
_NOW, _SEGMENT_RECORDS = 1_700_000_000_000, 900_000
_BATCH = 16384  # bytes, as a producer's batch.size


def metadata_records(total: int, seed: int = 1) -> Iterator[SegmentRecord | UpdateRecord]:
    """What brokers write: copies in many partitions, deletions of the oldest segments, leaders that change, some custom
    metadata, some copies that were never complete.
    """
    rng = random.Random(seed)
    keys = [rng.randbytes(16) + struct.pack(">i", number % 40) for number in range(_PARTITIONS)]
    topics = [b"topic-%d" % (number // 40) for number in range(_PARTITIONS)]
    ends, epochs = [0] * _PARTITIONS, [0] * _PARTITIONS
    live: list[list[bytes]] = [[] for _ in range(_PARTITIONS)]
    written, now = 0, _NOW
    while written < total:
        one = rng.randrange(_PARTITIONS)
        key, topic, start, broker = keys[one], topics[one], ends[one], 1 + (one + epochs[one]) % 3
        end, ident, now = start + rng.randrange(1, _SEGMENT_RECORDS), rng.randbytes(16), now + rng.randrange(300)
        own = [(epochs[one], start)]
        if rng.random() < 0.05:
            epochs[one] += rng.randrange(1, 3)
            own.append((epochs[one], rng.randrange(start, end) + 1))
        yield SegmentRecord(key, topic, ident, start, end, broker, now - 1000, now, tuple(own), rng.randrange(1 << 30), None,
                            State.COPY_SEGMENT_STARTED, rng.random() < 0.9)  # fmt: skip
        written += 1
        if rng.random() < 0.01:  # the copy failed: its leader deletes what is there, and copies again under a new id
            changes = [(ident, State.DELETE_SEGMENT_STARTED), (ident, State.DELETE_SEGMENT_FINISHED)]
        else:
            ends[one] = end + 1
            live[one].append(ident)
            changes = [(ident, State.COPY_SEGMENT_FINISHED)]
            if len(live[one]) > _LIVE:
                oldest = live[one].pop(0)
                changes += [(oldest, State.DELETE_SEGMENT_STARTED), (oldest, State.DELETE_SEGMENT_FINISHED)]
        for which, state in changes:
            custom = rng.randbytes(12) if one % 10 == 0 and state == State.COPY_SEGMENT_FINISHED else None
            yield UpdateRecord(key, topic, which, broker, now + 5, custom, state)
            written += 1


def write_metadata(log_dir: Path, total: int) -> None:
    """The logs of the topic with so many records, appended as their leaders do."""
    if (log_dir / "complete").exists() and json.loads((log_dir / "complete").read_text()) == total:
        return
    shutil.rmtree(log_dir, ignore_errors=True)
    values: dict[int, list[bytes]] = {number: [] for number in range(_METADATA_PARTITIONS)}
    for record, _ in zip(metadata_records(total), range(total), strict=False):
        values[metadata_partition_of(record.key, _METADATA_PARTITIONS)].append(encode_record(record))
    for number, own in values.items():
        directory = log_dir / f"__remote_log_metadata-{number}"
        directory.mkdir(parents=True)
        log = open_log(Files(), str(directory), LogConfig(), now=_NOW, clean_shutdown=True)
        intake, offsets = BatchIntake(log, 0), count()
        for batch in split((NewRecord(next(offsets), _NOW, None, value) for value in own), BatchSpec(), _BATCH):
            intake.take(bytearray(batch), is_last=True)
        log.close()
    (log_dir / "complete").write_text(json.dumps(total))


def remote_list(bench: Bench) -> Iterator[Result]:
    """Text and JSON lines, whole processes."""
    total = 1_000_000 if bench.records >= 1_000_000 else 100_000
    home = bench.home / "remote-list"
    write_metadata(home, total)
    for form in ("text", "jsonl"):
        runs = [run([*bench.kafkalog, "remote", "list", "--format", form, str(home)], bench.home, bench.out / "list.out")
                for _ in range(bench.runs)]  # fmt: skip
        if not (bench.out / "list.out").stat().st_size:
            raise WrongRunError("remote list shows nothing")
        middle = median(runs)
        yield Result(f"{total} records of __remote_log_metadata", f"remote list --format {form}", middle.seconds, None, None,
                     middle.peak_bytes, limit=SECONDS_LIMIT, peak_limit=PEAK_LIMIT, cpu=middle.cpu_seconds)  # fmt: skip


def ls(bench: Bench) -> Iterator[Result]:
    """Every partition of a log dir, as text and as JSON lines; whole processes, files in the cache."""
    count = min(PARTITIONS, max(20, bench.records // 113))
    log_dir = many_partitions(bench, count, SEGMENTS)
    for form in ("text", "jsonl"):
        runs = [run([*bench.kafkalog, "ls", "--format", form, str(log_dir)], bench.home, bench.out / "ls.out")
                for _ in range(bench.runs)]  # fmt: skip
        if (bench.out / "ls.out").read_text().count("many") < count:
            raise WrongRunError("ls leaves out partitions")
        middle = median(runs)
        yield Result(f"{count} partitions of {SEGMENTS} segments", f"ls --format {form}", middle.seconds, None, None,
                     middle.peak_bytes, limit=LS_LIMIT, peak_limit=LS_PEAK_LIMIT, cpu=middle.cpu_seconds)  # fmt: skip

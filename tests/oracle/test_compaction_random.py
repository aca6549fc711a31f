"""Random partitions, cleaned round after round by the real Cleaner and by ours: the same files must be left.

Where Kafka's cleaner fails ours goes on, or leaves the partition as it is. Of every round a model of ten lines says which
records must still be there. More seeds than the suite runs:

    python -m tests.oracle.test_compaction_random FIRST COUNT
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import traceback
from pathlib import Path
from random import Random

import pytest

from engine.config.topic import LogConfig
from engine.files import Files
from engine.index.entries import IndexFull
from engine.log.cleaner.checkpoint import CleanerCheckpoint
from engine.log.cleaner.compaction import CompactionOptions, compact
from engine.log.cleaner.outcome import Uncleanable
from engine.log.loading.loader import open_log
from tests.support.cases import differences
from tests.support.live_keys import lost_keys

NOW = 1_700_000_000_000
CODECS = ["none", "none", "none", "gzip", "snappy", "lz4", "zstd", "none,lz4", "none,gzip,snappy,lz4,zstd"]
LEGACY_CODECS = ["none", "none", "gzip", "snappy", "lz4", "none,gzip,snappy,lz4"]


class Scenario:
    """What `seed` stands for: settings, a workload, rounds of cleaning with more records between them."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random = Random(seed)
        self.settings = {
            "cleanup.policy": random.choice(["compact", "compact", "compact,delete"]),
            "segment.bytes": str(random.choice([300, 1000, 2000, 5000, 20000])),
            "segment.index.bytes": str(random.choice([96, 1200, 10_000])),
            "index.interval.bytes": str(random.choice([0, 64, 256, 4096])),
            "delete.retention.ms": str(random.choice([0, 1000, 86_400_000])),
        }
        if random.random() < 0.2:
            self.settings["min.compaction.lag.ms"] = str(random.choice([1, 300, 1000]))
        if random.random() < 0.1:
            self.settings["message.timestamp.type"] = "LogAppendTime"
        self.magic = random.choice([0, 1]) if random.random() < 0.15 else 2
        self.map_bytes = random.choice([1 << 20, 1 << 20, 24 * 200, 24 * 30, 24 * 12])
        self.producer_id = 1000
        self.was_misled = False  # was told that what is dirty is clean: then older values may come up again

    def workload(self, number: int) -> list[object]:
        """Arguments of `gen` for the records before round `number`."""
        random = self.random
        words = [
            "--seed", self.seed * 10 + number, "--records", random.choice([10, 60, 150, 300]),
            "--keys", random.choice([1, 5, 20, 100, 1000]), "--batch", random.choice(["1", "1:5", "3", "10", "1:40"]),
            "--value-size", random.choice(["0:5", "10:40", "40", "0:300"]),
            "--codec", random.choice(CODECS if self.magic == 2 else LEGACY_CODECS),
            "--tombstones", random.choice([0, 0.05, 0.3, 0.9]), "--ts-jitter", random.choice(["0", "0:5000"]),
            "--ts-start", NOW + number * 100_000, "--headers", random.choice([0, 0, 0.3]),
        ]  # fmt: skip
        if random.random() < 0.15:
            words += ["--null-keys", random.choice([0.02, 0.5])]
        if random.random() < 0.1:
            words += ["--no-timestamp", 0.5]
        if self.magic < 2:
            return [*words, "--magic", self.magic]
        words += ["--epochs", random.choice([1, 1, 3]), "--leader-epoch", 3 * number]
        if random.random() < 0.7:
            words += ["--producers", random.choice([0, 1, 3, 20]), "--producer-id", self.producer_id]
            words += ["--txn", random.choice([0, 0.3, 0.8]), "--txn-producers", random.choice([1, 3]), "--aborts", random.choice([0, 0.5, 1])]
            self.producer_id += random.choice([0, 100])
            if random.random() < 0.3:
                words += ["--open-txn"]
        if random.random() < 0.2:
            words += ["--gaps", 0.3]
        if number == 0 and random.random() < 0.1:
            words += ["--first-offset", random.choice([5, 1000, 2**31])]
        return words

    def config(self) -> list[object]:
        return [word for name, value in self.settings.items() for word in ("--config", f"{name}={value}")]


class Round:
    """One round of cleaning: its clock, and up to where the log counts as replicated."""

    def __init__(self, scenario: Scenario, number: int, end: int) -> None:
        random = scenario.random
        self.scenario = scenario
        self.now = NOW + number * 100_000 + random.choice([0, 1500, 5000, 200_000_000])
        self.high_watermark = random.randrange(end + 1) if random.random() < 0.15 else None
        self.first_dirty = random.randrange(end + 2) if random.random() < 0.1 else None
        scenario.was_misled |= self.first_dirty is not None

    def arguments(self) -> list[object]:
        words = ["--now", self.now, "--checkpoint", "--map-bytes", self.scenario.map_bytes, *self.scenario.config()]
        if self.high_watermark is not None:
            words += ["--high-watermark", self.high_watermark]
        if self.first_dirty is not None:
            words += ["--first-dirty-offset", self.first_dirty]
        return words

    def ours(self, directory: Path) -> dict[str, object]:
        """The round by our engine; what Kafka says of its own."""
        files = Files()
        log = open_log(
            files, str(directory), LogConfig.of(self.scenario.settings), now=self.now, clean_shutdown=True,
        )  # fmt: skip
        try:
            log.update_high_watermark(log.log_end_offset if self.high_watermark is None else self.high_watermark)
            checkpoint = CleanerCheckpoint(files, str(directory))
            options = CompactionOptions(
                first_dirty_offset=checkpoint.read() if self.first_dirty is None else self.first_dirty, force=True, rounds=1,
                dedupe_buffer_size=self.scenario.map_bytes, secret=(1, 2),
            )  # fmt: skip
            target = None
            done = compact(log, options, lambda _size: None, lambda offset: checkpoint.write(files, offset))
            target = done.target
        finally:
            log.close()
        told = {
            "firstDirtyOffset": target.offsets.first_dirty_offset,
            "firstUncleanableDirtyOffset": target.offsets.first_uncleanable_dirty_offset,
            "firstUncleanableOffset": target.first_uncleanable_offset,
            "forceUpdateCheckpoint": target.offsets.force_update_checkpoint,
            "maxCompactionDelay": target.max_compaction_delay_ms,
            "cleanBytes": target.clean_bytes, "cleanableBytes": target.cleanable_bytes,
        }  # fmt: skip
        if done.rounds:
            stats = done.rounds[0]
            told |= {
                "endOffset": done.clean_until, "mapMessagesRead": stats.map_messages_read, "mapEntries": stats.map_entries,
                "messagesRead": stats.messages_read, "messagesWritten": stats.messages_written,
                "invalidMessagesRead": stats.invalid_messages_read,
            }
        return told


def logs_in(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.glob("*.log")}


def times_in(directory: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns // 1_000_000 for path in directory.glob("*.log")}


def one_round(this: Round, engine, state: Path, work: Path) -> tuple[list[str], str | None]:
    """Clean the log dir `state` by both; what Kafka left becomes `state`. → (how they differ, what Kafka failed with)."""
    theirs, ours = work / "theirs", work / "ours"
    for target in (theirs, ours):
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(state, target)
    before = logs_in(ours / "topic-0")
    answer = engine("compact", theirs / "topic-0", *this.arguments())
    failed = answer.get("failed")
    try:
        told = this.ours(ours / "topic-0")
    except (Uncleanable, IndexFull) as error:
        shutil.rmtree(state)
        shutil.copytree(theirs, state)
        wrong = [] if failed else [f"ours refuses: {error}"]
        return [*wrong, *lost_keys(before, logs_in(ours / "topic-0"))], failed
    except Exception:  # noqa: BLE001  # the seed is what the reader needs
        return [traceback.format_exc()], failed
    wrong = [] if this.scenario.was_misled else lost_keys(before, logs_in(ours / "topic-0"))
    shutil.rmtree(state)
    if failed is not None:
        shutil.copytree(ours, state)
        return wrong, failed
    if not answer["cleanableBytes"]:  # a broker would not come so far; the real Cleaner ends such a round at offset 0
        shutil.copy2(ours / "cleaner-offset-checkpoint", theirs)
    shutil.copytree(theirs, state)
    answer |= answer.get("stats", {})
    wrong += differences(theirs, ours)
    wrong += [f"{name}: {answer.get(name)} wanted, {value} got" for name, value in told.items() if answer.get(name) != value]
    if times_in(theirs / "topic-0") != times_in(ours / "topic-0"):
        wrong.append(f"times {times_in(theirs / 'topic-0')} wanted, {times_in(ours / 'topic-0')} got")
    return wrong, failed


def play(seed: int, engine, work: Path) -> tuple[list[str], list[str]]:
    """How the two engines differ for `seed`, and what Kafka failed with."""
    scenario = Scenario(seed)
    state = work / "state"
    shutil.rmtree(work, ignore_errors=True)
    (state / "topic-0").mkdir(parents=True)
    (state / "cleaner-offset-checkpoint").write_bytes(b"0\n1\nother 3 17\n")
    notes, failures, end = [str(scenario.settings), f"map {scenario.map_bytes}"], [], 0
    for number in range(scenario.random.choice([1, 2, 3, 4])):
        if number == 0 or scenario.random.random() < 0.6:
            workload = scenario.workload(number)
            made = engine("gen", state / "topic-0", *scenario.config(), *workload)
            notes.append(f"gen {' '.join(map(str, workload))} {made.get('failed', '')}")
            end = made.get("logEndOffset", end)
            for file in (state / "topic-0").glob("*"):
                at = (NOW - scenario.random.choice([0, 0, 500, 100_000_000])) // 1000
                os.utime(file, (at, at))
        this = Round(scenario, number, end)
        notes.append(f"round {number}: {' '.join(map(str, this.arguments()))}")
        wrong, failed = one_round(this, engine, state, work)
        if failed:
            failures.append(failed)
            notes.append(failed)
        if wrong:
            return [*notes, *wrong], failures
    return [], failures


@pytest.mark.oracle
@pytest.mark.parametrize("block", range(4))
def test_same_files_as_kafka(block, kafka_engine, tmp_path):
    for seed in range(block * 8, block * 8 + 8):
        wrong, _ = play(seed, kafka_engine, tmp_path / "work")
        assert not wrong, "\n".join([f"seed {seed}", *wrong])


def main() -> None:
    from tests.oracle.jvm import Kafka

    first, count = int(sys.argv[1]), int(sys.argv[2])
    kafka = Kafka()
    failures: list[str] = []
    differ = 0
    with tempfile.TemporaryDirectory() as work:
        for seed in range(first, first + count):
            wrong, failed = play(seed, kafka.engine, Path(work) / "work")
            failures += failed
            if wrong:
                differ += 1
                print(f"---- seed {seed}", *wrong, sep="\n", flush=True)
    print(f"{count} scenarios, Kafka failed {len(failures)} times, {differ} differ")
    for failure in sorted(set(failures)):
        print(failures.count(failure), failure)
    kafka.close()


if __name__ == "__main__":
    main()

"""Random appends through the real storage engine and through ours: the same answers, the same files.

More seeds than the suite runs: python -m tests.oracle.test_append_random FIRST COUNT
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
import traceback
from pathlib import Path
from random import Random

import pytest

from engine.config.topic import LogConfig
from engine.files import Files
from engine.formats import Codec, ControlType
from engine.log.loading.loader import open_log
from engine.record.builder import NewRecord, build_batch, end_txn_batch
from tests.support.append_steps import answer, producers
from tests.support.cases import differences

NOW = 1_700_003_600_000
PRODUCERS = (7, 8, 1000, 1016)
SETTINGS = (
    ("segment.bytes", ["400", "1000", "3000", "20000"]),
    ("segment.index.bytes", ["36", "48", "1200", "10000"]),
    ("index.interval.bytes", ["0", "100", "256", "4096"]),
    ("segment.ms", ["604800000", "604800000", "500", "60000"]),
    ("compression.type", ["producer", "producer", "producer", "uncompressed", "gzip", "lz4", "snappy", "zstd"]),
    ("message.timestamp.type", ["CreateTime", "CreateTime", "LogAppendTime"]),
    ("message.timestamp.before.max.ms", ["9223372036854775807", "9223372036854775807", "5000000"]),
    ("message.timestamp.after.max.ms", ["3600000", "1000"]),
    ("cleanup.policy", ["delete", "delete", "delete", "compact"]),
    ("max.message.bytes", ["1048588", "1048588", "500"]),
    ("flush.messages", ["9223372036854775807", "5"]),
)


class Workload:
    """What `seed` stands for: settings, frames, steps."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.settings = {name: self.random.choice(values) for name, values in SETTINGS}
        self.follower = self.random.random() < 0.25
        self.sequences = dict.fromkeys(PRODUCERS, 0)
        self.epochs = dict.fromkeys(PRODUCERS, 0)
        self.open = set()
        self.next_offset = self.random.choice([0, 0, 0, 5])
        self.leader_epoch = 0
        self.now = NOW
        self.timestamp = NOW - 4_000_000
        self.frames: list[bytes] = []
        self.steps: list[dict[str, object]] = []
        for _ in range(self.random.choice([3, 12, 12, 40])):
            self.step()

    def chance(self, part: float) -> bool:
        return self.random.random() < part

    def step(self) -> None:
        """One more step: mostly an append."""
        step: dict[str, object] = {}
        if self.chance(0.2):
            self.now += self.random.choice([0, 1, 700, 100_000])
        step["now"] = self.now
        if self.chance(0.05):
            step[self.random.choice(["roll", "flush"])] = True
        elif self.chance(0.04):
            step["highWatermark"] = self.random.randrange(60)
        else:
            if self.chance(0.05):
                self.leader_epoch += self.random.choice([1, 1, 2, -1]) if self.leader_epoch else 1
            step["leaderEpoch"] = self.leader_epoch
            step["frame"] = len(self.frames)
            self.frames.append(self.frame(step))
        self.steps.append(step)

    def frame(self, step: dict[str, object]) -> bytes:
        """The bytes of one append."""
        if self.open and self.chance(0.3):
            return self.marker(step)
        if self.chance(0.05) and self.frames:
            step.pop("as", None)
            return self.random.choice(self.frames)
        parts = [self.batch() for _ in range(self.random.choice([1, 1, 1, 3]) if self.follower else 1)]
        data = b"".join(parts)
        if self.chance(0.06):
            data = self.damaged(data)
        return data

    def records(self, base: int) -> list[NewRecord]:
        random = self.random
        found, offset = [], base
        for _ in range(random.choice([1, 1, 2, 5, 12])):
            self.timestamp += random.choice([0, 1, 10, 1000])
            stamp = self.timestamp + random.choice([0, 0, 0, -50, 70])
            if self.chance(0.05):
                stamp = random.choice([-1, -1, self.now + 2000, self.now + 4_000_000, 0])
            key = None if self.chance(0.1) else b"k%d" % random.randrange(9)
            value = None if self.chance(0.1) else random.choice([b"", b"v" * random.randrange(200), random.randbytes(40)])
            headers = [(b"h", None), (b"", b"x")] if self.chance(0.1) else []
            found.append(NewRecord(offset, stamp, key, value, headers))
            offset += 1
        return found

    def batch(self) -> bytes:
        random = self.random
        base = 0
        if self.follower:
            if self.chance(0.2):
                self.next_offset += random.choice([1, 9, -2, 5000])
            base = max(0, self.next_offset)
        magic = 2 if self.chance(0.93) else random.choice([0, 1])
        codec = Codec(random.choice([0, 0, 0, 1, 2, 3, 4] if magic == 2 else [0, 0, 1, 3]))
        records = self.records(base)
        if magic < 2:
            records = [record._replace(headers=(), timestamp=-1 if magic == 0 else record.timestamp) for record in records]
        self.next_offset = base + len(records)
        fields: dict[str, object] = {}
        if self.follower and magic == 2:
            fields["partition_leader_epoch"] = self.leader_epoch if self.chance(0.95) else self.leader_epoch + 1
        if magic == 2 and self.chance(0.5):
            fields |= self.producer(len(records))
        if self.chance(0.04) and magic:
            fields |= {"timestamp_type": 1, "log_append_time": self.timestamp}
        return build_batch(records, base_offset=base, codec=codec, magic=magic, **fields)

    def producer(self, count: int) -> dict[str, object]:
        producer_id = self.random.choice(PRODUCERS)
        if self.chance(0.05):
            self.epochs[producer_id] += self.random.choice([1, 1, -1]) if self.epochs[producer_id] else 1
            self.sequences[producer_id] = 0
        sequence = self.sequences[producer_id]
        if self.chance(0.06):
            sequence += self.random.choice([1, -1, 5, -count]) if sequence else 3
        sequence = max(0, sequence)
        self.sequences[producer_id] = (sequence + count) % 2**31
        transactional = producer_id in self.open or self.chance(0.4)
        if self.chance(0.03):
            transactional = not transactional
        if transactional:
            self.open.add(producer_id)
        return {
            "producer_id": producer_id, "producer_epoch": self.epochs[producer_id], "base_sequence": sequence,
            "transactional": transactional,
        }  # fmt: skip

    def marker(self, step: dict[str, object]) -> bytes:
        producer_id = self.random.choice(sorted(self.open))
        self.open.discard(producer_id)
        epoch = self.epochs[producer_id]
        if not self.follower and self.chance(0.95):
            step["as"] = "coordinator"
        if self.chance(0.15):
            step["transactionVersion"] = 2
            epoch += self.random.choice([0, 1])
            self.epochs[producer_id] = epoch
            self.sequences[producer_id] = 0 if self.chance(0.8) else self.sequences[producer_id]
        base = max(0, self.next_offset) if self.follower else 0
        self.next_offset = base + 1
        kind = self.random.choice([ControlType.ABORT, ControlType.COMMIT])
        leader_epoch = self.leader_epoch if self.follower else -1
        return end_txn_batch(
            kind, self.random.choice([0, 0, 0, 1]), base_offset=base, timestamp=self.timestamp, producer_id=producer_id,
            producer_epoch=epoch, partition_leader_epoch=leader_epoch,
        )  # fmt: skip

    def damaged(self, data: bytes) -> bytes:
        """Cut off, with a changed byte, with more behind it, or with another count."""
        way = self.random.randrange(4)
        if way == 0:
            return data[: self.random.randrange(len(data))]
        if way == 1:
            at = self.random.randrange(len(data))
            return data[:at] + bytes([data[at] ^ (1 << self.random.randrange(8))]) + data[at + 1 :]
        if way == 2:
            return data + data
        return data + self.random.randbytes(self.random.randrange(30))


def play(seed: int, engine, work: Path) -> list[str]:
    """How the two engines differ for `seed`."""
    shutil.rmtree(work, ignore_errors=True)
    load, theirs, ours = Workload(seed), work / "theirs" / "topic-0", work / "ours" / "topic-0"
    for directory in (theirs, ours):
        directory.mkdir(parents=True)
    frames, steps = work / "frames", work / "steps"
    frames.write_bytes(b"".join(len(frame).to_bytes(4, "big") + frame for frame in load.frames))
    steps.write_text(json.dumps(load.steps))
    words = ["--now", NOW, "--input", frames, "--steps", steps, *(["--follower"] if load.follower else [])]
    settings = [word for name, value in load.settings.items() for word in ("--config", f"{name}={value}")]
    wanted = engine("append", theirs, *words, *settings)
    if "failed" in wanted:
        return [f"Kafka failed: {wanted['failed']}"]
    if any("full" in step.get("error", "") for step in wanted["appends"]):
        return []  # Kafka fails half-way where an index is full; ours begins another segment
    log = open_log(Files(), str(ours), LogConfig.of(load.settings), now=NOW, clean_shutdown=True)
    wrong = []
    for number, (step, want) in enumerate(zip(load.steps, wanted["appends"], strict=True)):
        try:
            got = answer(log, step, load.frames, follower=load.follower)
        except Exception:  # noqa: BLE001  # the seed is what the reader needs
            return [f"step {number} {step}: {want} wanted", traceback.format_exc()]
        if not same(want, got):
            wrong.append(f"step {number} {step}:\n  {want} wanted\n  {got} got")
    state = {
        "logEndOffset": log.log_end_offset, "highWatermark": log.high_watermark, "lastStableOffset": log.last_stable_offset,
        "recoveryPoint": log.recovery_point, "epochs": [list(entry) for entry in log.leader_epoch_cache.entries],
        "producers": producers(log),
    }  # fmt: skip
    wanted["producers"].sort(key=lambda one: one["producerId"])
    wrong += [f"{name}: {wanted[name]} wanted, {value} got" for name, value in state.items() if wanted[name] != value]
    log.close()
    wrong += differences(theirs, ours)
    return [str(load.settings), *wrong] if wrong else []


SHOWN = re.compile(r"in message .*\)\. ")
LOOSE = ("CorruptRecordException", "InvalidRecordException", "IndexOutOfBounds", "KafkaException", "IllegalArgument")


def same(want: dict[str, object], got: dict[str, object]) -> bool:
    """The same answer; of bytes that are no records, only that they are refused: Java's readers have words of their own.

    How Java shows a record is its affair as well.
    """
    for one in (want, got):
        for error in one.get("recordErrors", []):
            error["message"] = SHOWN.sub("in message RECORD. ", error["message"])
    if want == got:
        return True
    theirs, ours = str(want.get("error", "")), str(got.get("error", ""))
    return bool(ours) and any(name in theirs.partition(": ")[0] for name in LOOSE) and "RecordValidation" not in theirs


@pytest.mark.oracle
@pytest.mark.parametrize("block", range(8))
def test_same_answers_and_files_as_kafka(block, kafka_engine, tmp_path):
    for seed in range(block * 25, block * 25 + 25):
        wrong = play(seed, kafka_engine, tmp_path / "work")
        assert not wrong, "\n".join([f"seed {seed}", *wrong])


def main() -> None:
    from tests.oracle.jvm import Kafka

    first, count = int(sys.argv[1]), int(sys.argv[2])
    kafka, differ = Kafka(), 0
    with tempfile.TemporaryDirectory() as work:
        for seed in range(first, first + count):
            wrong = play(seed, kafka.engine, Path(work) / "work")
            if wrong:
                differ += 1
                print(f"---- seed {seed}", *wrong, sep="\n", flush=True)
    print(f"{count} workloads, {differ} differ")
    kafka.close()


if __name__ == "__main__":
    main()

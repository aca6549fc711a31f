"""Random partitions with a segment whose offsets do not fit its index, some or all indexes lost, through both engines.

More seeds than the suite runs: python -m tests.oracle.test_split_random FIRST COUNT
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from random import Random

import pytest

from engine.config.topic import LogConfig
from engine.files import Files
from engine.log.operations.operation import work_on
from engine.log.report import Report
from tests.support.cases import differences
from tests.support.logs import open_log

NOW = 1_700_003_600_000
MTIME_S = 1_699_996_400
FAR = 2**31  # offsets that a segment's index cannot span


class Scenario:
    """What `seed` stands for: settings, transactions, how the partition is opened."""

    def __init__(self, seed: int) -> None:
        self.seed, self.random = seed, Random(seed)
        choice = self.random.choice
        self.settings = {
            "segment.bytes": str(choice([1000, 3000, 20000])), "segment.index.bytes": "10000",
            "index.interval.bytes": str(choice([0, 256])),
        }  # fmt: skip
        self.is_clean = choice([True, True, True, False])
        self.recovery_point = choice([0, 10, 2**40]) if self.is_clean else choice([0, 0, FAR])
        self.leaps = choice([1, 1, 2])

    @property
    def layout(self) -> list[str]:
        return [word for name, value in self.settings.items() for word in ("--config", f"{name}={value}")]

    def make(self, engine, top: Path) -> None:
        """A partition in `top`/topic-0 that leaps ahead inside of a segment, once or twice."""
        directory = top / "topic-0"
        end = self._log(engine, directory, self.random.choice([0, 5]), self.seed)
        for number in range(self.leaps):
            behind = top / "behind-0"
            last = max(directory.glob("*.log"))
            end = self._log(engine, behind, end + FAR + self.random.randrange(100), self.seed * 10 + number + 1)
            first, *others = sorted(behind.glob("*.log"))
            with last.open("ab") as joined:
                joined.write(first.read_bytes())
            for log in others:
                for file in behind.glob(f"{log.stem}.*[!t]"):  # but snapshots
                    file.rename(directory / file.name)
            shutil.rmtree(behind)
        lost = {"index": self.random.choice([0.5, 1]), "snapshot": 0.6, "checkpoint": 0.3}
        for file in sorted(directory.iterdir()):
            kind = next((kind for kind in lost if file.name.endswith(kind)), None)
            if kind is not None and self.random.random() < lost[kind]:
                file.unlink()

    def _log(self, engine, directory: Path, first_offset: int, seed: int) -> int:
        choice = self.random.choice
        directory.mkdir(parents=True)
        words = [
            "--seed", seed, "--first-offset", first_offset, "--records", choice([10, 30, 60]), "--batch", choice(["1", "1:5"]),
            "--value-size", "0:20", "--producers", choice([1, 3]), "--txn", choice([0.3, 0.8]), "--aborts", choice([0.5, 1]),
            "--txn-producers", choice([1, 3]), *choice([(), ("--open-txn",)]),
        ]  # fmt: skip
        return engine("gen", directory, *self.layout, *words)["logEndOffset"]

    def ours(self, directory: Path) -> None:
        work_on(
            lambda clean: open_log(
                Files(), str(directory), LogConfig.of(self.settings), now=NOW, clean_shutdown=clean,
                recovery_point=self.recovery_point, report=Report(str(directory), "open"),
            ), self.is_clean, lambda _log: None,
        ).close()  # fmt: skip


def play(seed: int, engine, work: Path) -> list[str] | None:
    """How the two engines differ for `seed`; None where Kafka failed."""
    scenario = Scenario(seed)
    shutil.rmtree(work, ignore_errors=True)
    scenario.make(engine, work / "start")
    theirs, ours = work / "theirs", work / "ours"
    for target in (theirs, ours):
        shutil.copytree(work / "start", target)
        for file in target.rglob("*"):
            os.utime(file, (MTIME_S, MTIME_S))
    words = [*scenario.layout, "--now", NOW, "--recovery-point", scenario.recovery_point]
    answer = engine("open" if scenario.is_clean else "recover", theirs / "topic-0", *words)
    if "failed" in answer:  # its splits can lose the beginning of a transaction
        return None
    scenario.ours(ours / "topic-0")
    return differences(theirs, ours)


@pytest.mark.oracle
@pytest.mark.parametrize("block", range(4))
def test_the_same_pieces_as_kafka(block, kafka_engine, tmp_path):
    compared = 0
    for seed in range(block * 15, block * 15 + 15):
        wrong = play(seed, kafka_engine, tmp_path / "work")
        assert not wrong, "\n".join([f"seed {seed}", *wrong])
        compared += wrong is not None
    assert compared > 8


def main() -> None:
    from tests.oracle.jvm import Kafka

    first, count = int(sys.argv[1]), int(sys.argv[2])
    kafka = Kafka()
    differ = failed = 0
    with tempfile.TemporaryDirectory() as work:
        for seed in range(first, first + count):
            wrong = play(seed, kafka.engine, Path(work) / "work")
            failed += wrong is None
            if wrong:
                differ += 1
                print(f"---- seed {seed}", *wrong, sep="\n", flush=True)
    print(f"{count} scenarios, Kafka failed in {failed}, {differ} differ")
    kafka.close()


if __name__ == "__main__":
    main()

"""Random partitions, randomly damaged, through the real storage engine and through ours: the same files must be left.

Where Kafka itself fails ours must repair, so that Kafka opens the result both ways. More seeds than the suite runs:

    python -m tests.oracle.test_engine_random FIRST COUNT
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
from engine.log.operations.operation import work_on
from engine.log.report import Action, Report
from engine.log.retention.rules import delete_old_segments
from tests.support.cases import differences
from tests.support.damage import damage
from tests.support.logs import open_log

NOW = 1_700_003_600_000
MTIME_S = 1_699_996_400
OPERATIONS = ["recover"] * 6 + ["open"] * 4 + ["retain", "roll", "truncate", "truncate", "truncate-fully", "delete-records"]


class Scenario:
    """What `seed` stands for: settings, a workload, damage, an operation."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.settings = {
            "segment.bytes": str(random.choice([400, 1000, 2000, 5000, 20000])),
            "segment.index.bytes": str(random.choice([96, 1200, 1200, 10_000])),
            "index.interval.bytes": str(random.choice([0, 64, 256, 256, 4096])),
        }
        if random.random() < 0.15:
            self.settings["preallocate"] = "true"
        self.workload = [
            "--seed", seed, "--records", random.choice([0, 10, 60, 60, 150]), "--batch", random.choice(["1", "1:5", "3", "10"]),
            "--value-size", random.choice(["0:5", "10:40", "40"]), "--codec", random.choice(["none", "none,gzip", "lz4", "zstd"]),
            "--ts-jitter", random.choice(["0", "0:5000"]), "--epochs", random.choice([1, 1, 3]),
        ]  # fmt: skip
        if random.random() < 0.6:
            self.workload += ["--producers", random.choice([1, 3, 20]), "--txn", random.choice([0, 0.3, 0.8]),
                              "--aborts", random.choice([0, 0.5]), "--txn-producers", random.choice([1, 3])]  # fmt: skip
            if random.random() < 0.5:
                self.workload += ["--open-txn"]
        if random.random() < 0.2:
            self.workload += ["--gaps", 0.3]
        if random.random() < 0.1:
            self.workload += ["--magic", random.choice([0, 1])]
        if random.random() < 0.2:
            self.workload += ["--first-offset", random.choice([5, 1000, 2**31])]
        if random.random() < 0.2:
            self.workload += ["--no-timestamp", 0.5]
        if random.random() < 0.3:
            self.workload += ["--no-close"]
        self.steps = random.choice([1, 1, 2, 3])
        self.next_step()

    def next_step(self) -> None:
        """Another operation, with the settings that it looks at."""
        random = self.random
        self.operation = random.choice(OPERATIONS)
        self.keep_deleted = random.random() < 0.15
        if self.operation == "retain":
            self.settings["retention.ms"] = str(random.choice([-1, 1, 3_500_000, 3_599_500, 10**9]))
            self.settings["retention.bytes"] = str(random.choice([-1, -1, 0, 500, 3000]))
            self.settings["cleanup.policy"] = random.choice(["delete", "delete", "compact", "compact,delete"])

    def choose(self, end: int) -> None:
        """The numbers that depend on how long the log is."""
        random = self.random

        def offset():
            return random.choice([0, end, end + 1, random.randrange(end + 2), random.randrange(end + 2), max(0, end - 1), end + 50])

        self.recovery_point = offset() if random.random() < 0.5 else 0
        self.start = offset() if random.random() < 0.3 else 0
        self.high_watermark = offset() if random.random() < 0.2 else None
        self.target = offset()

    def layout(self) -> list[str]:
        """The settings that the files follow from, as options."""
        names = [name for name in self.settings if name.startswith(("segment", "index", "preallocate"))]
        return [word for name in names for word in ("--config", f"{name}={self.settings[name]}")]

    def arguments(self) -> list[object]:
        words = ["--now", NOW, "--recovery-point", self.recovery_point, "--log-start-offset", self.start]
        for name, value in self.settings.items():
            words += ["--config", f"{name}={value}"]
        if self.high_watermark is not None:
            words += ["--high-watermark", self.high_watermark]
        if self.keep_deleted:
            words += ["--keep-deleted"]
        option = {"roll": "--to", "truncate": "--to", "truncate-fully": "--at", "delete-records": "--before"}.get(self.operation)
        return [*words, option, self.target] if option else words

    def ours(self, directory: Path) -> dict[str, object]:
        """The operation by our engine; what the log says of itself."""
        report = Report(str(directory), self.operation)
        log = work_on(
            lambda clean: open_log(
                Files(), str(directory), LogConfig.of(self.settings), now=NOW, clean_shutdown=clean,
                recovery_point=self.recovery_point, log_start_offset=self.start, report=report,
            ), self.operation != "recover", self._apply,
        )  # fmt: skip
        log.close(keep_deleted=self.keep_deleted)
        refused = next((event.reason for event in report.find(Action.REFUSED)), None)
        return {
            "logStartOffset": log.log_start_offset, "logEndOffset": log.log_end_offset, "highWatermark": log.high_watermark,
            "lastStableOffset": log.last_stable_offset, "recoveryPoint": log.recovery_point,
            "epochs": [list(entry) for entry in log.leader_epoch_cache.entries], "refused": refused,
        }  # fmt: skip

    def _apply(self, log) -> None:
        if self.high_watermark is not None:
            log.update_high_watermark(self.high_watermark)
        elif self.operation in ("retain", "delete-records"):
            log.update_high_watermark(log.log_end_offset)
        match self.operation:
            case "retain":
                delete_old_segments(log)
            case "roll":
                log.roll(self.target)
            case "truncate":
                log.truncate_to(self.target)
            case "truncate-fully":
                log.truncate_fully_and_start_at(self.target)
            case "delete-records":
                log.maybe_increment_log_start_offset(self.target, "asked for")
                delete_old_segments(log)


def play(seed: int, engine, work: Path) -> tuple[list[str], str | None]:
    """How the two engines differ for `seed`, and what Kafka failed with."""
    scenario = Scenario(seed)
    start = work / "start" / "topic-0"
    shutil.rmtree(work, ignore_errors=True)
    start.mkdir(parents=True)
    made = engine("gen", start, *scenario.layout(), *scenario.workload)
    notes = [f"{scenario.workload} {scenario.settings}"]
    if scenario.random.random() < 0.2:
        engine("open", start, *scenario.layout(), "--now", NOW)
    theirs, ours = work / "theirs", work / "ours"
    for target in (theirs, ours):
        shutil.copytree(start.parent, target)
    end = made.get("logEndOffset", 0)
    for step in range(scenario.steps):
        for _ in range(scenario.random.choice([0, 1, 1, 1, 2, 3])):
            state = scenario.random.getstate()
            notes.append(damage(theirs / "topic-0", scenario.random))
            scenario.random.setstate(state)
            damage(ours / "topic-0", scenario.random)
        if step:
            scenario.next_step()
        scenario.choose(end)
        wrong, failed, end = _step(scenario, engine, theirs, ours, notes)
        if wrong or failed:
            return [*notes, str(failed), *wrong] if wrong else [], failed
    return [], None


def _step(scenario: Scenario, engine, theirs: Path, ours: Path, notes: list[str]) -> tuple[list[str], str | None, int]:
    """One operation on both copies: (differences, what Kafka failed with, log end offset)."""
    notes.append(f"{scenario.operation} {' '.join(map(str, scenario.arguments()))}")
    for target in (theirs, ours):
        for file in target.rglob("*"):
            os.utime(file, (MTIME_S, MTIME_S))
    answer = engine(scenario.operation, theirs / "topic-0", *scenario.arguments())
    failed, end = answer.get("failed"), answer.get("logEndOffset", 0)
    try:
        found = scenario.ours(ours / "topic-0")
    except Exception as error:  # noqa: BLE001  # the seed is what the reader needs
        if isinstance(error.__cause__, FileExistsError):
            return [], "Kafka replaces a file that nobody has read; kafkalog refuses", end
        return [traceback.format_exc()], failed, end
    if failed and (found["refused"] is None or "logEndOffset" not in answer):
        return reopened(engine, ours / "topic-0", scenario, scenario.layout()), failed, end
    # a mapped index keeps the bytes of entries that were taken back; nobody reads them behind .deleted
    wrong = [line for line in differences(theirs, ours) if "index.deleted differs" not in line]
    wrong += [f"{name}: {answer.get(name)} wanted, {value} got" for name, value in found.items()
              if name != "refused" and answer.get(name) != value]
    return wrong, failed, end


def reopened(engine, directory: Path, scenario: Scenario, settings: list[str]) -> list[str]:
    """What Kafka says to a directory that we repaired: it must open, and recover if it was a recovery that failed."""
    wrong = []
    points = ["--recovery-point", scenario.recovery_point, "--log-start-offset", scenario.start]
    for operation in ("open", "recover") if scenario.operation == "recover" else ("open",):
        copy = directory.parent.parent / operation / directory.name
        shutil.copytree(directory, copy)
        answer = engine(operation, copy, "--now", NOW, *points, *settings)
        too_small = operation == "recover" and "Attempt to append to a full" in answer.get("failed", "")  # segment.index.bytes
        if "failed" in answer and not too_small:
            wrong.append(f"Kafka cannot {operation} what we repaired: {answer['failed']}")
    return wrong


@pytest.mark.oracle
@pytest.mark.parametrize("block", range(8))
def test_same_files_as_kafka(block, kafka_engine, tmp_path):
    for seed in range(block * 25, block * 25 + 25):
        wrong, _ = play(seed, kafka_engine, tmp_path / "work")
        assert not wrong, "\n".join([f"seed {seed}", *wrong])


def main() -> None:
    from tests.oracle.jvm import Kafka

    first, count = int(sys.argv[1]), int(sys.argv[2])
    kafka = Kafka()
    failures, differ = 0, 0
    with tempfile.TemporaryDirectory() as work:
        for seed in range(first, first + count):
            wrong, failed = play(seed, kafka.engine, Path(work) / "work")
            failures += failed is not None
            if wrong:
                differ += 1
                print(f"---- seed {seed}", *wrong, sep="\n", flush=True)
    print(f"{count} scenarios, Kafka failed in {failures}, {differ} differ")
    kafka.close()


if __name__ == "__main__":
    main()

"""Kill commands with SIGKILL at random moments: real processes on real files. `make crash` takes 1,200 moments.

A moment counts if the process was still running. After each one a broker starts on a copy of what is left (Kafka's own storage
module in `make crash`, `recover` in the suite's slice), the command is run again and completes, and the quarantine of a killed
repair restores everything.
"""

from __future__ import annotations

import os
import shutil
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.crash.killed_commands import (
    COMMANDS,
    COMMON,
    CONFIG,
    NOW,
    acknowledged_end,
    all_records,
    logs_in,
    recovery_points,
    unfinished,
)
from tests.crash.killing import Program
from tests.oracle.conftest import kafka  # noqa: F401  # a fixture
from tests.support.cases import differences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.crash.killed_commands import Command, Logs
    from tests.crash.killing import Run

FULL = os.environ.get("KAFKALOG_CRASH") == "full"
BLOCKS, MOMENTS = (6, 25) if FULL else (1, 5)  # for each command
MISSES = 40  # most consecutive moments at which the process had already ended
DONE = (0, 1, 4)  # statuses of a command that completed its work


@pytest.fixture(scope="session")
def program() -> Iterator[Program]:
    with Program() as running:
        yield running


@pytest.fixture
def start(request, program) -> Callable[[Path], None]:
    """Return a function that starts on the log dir `data` of a directory as a broker would."""
    if FULL:
        engine = request.getfixturevalue("kafka").engine
        return lambda top: _kafka_starts(engine, top)
    return lambda top: _recover(program, top)


def _kafka_starts(engine: Callable[..., dict[str, object]], top: Path) -> None:
    points = recovery_points(top / "data")
    for partition in sorted((top / "data").glob("t-*")):
        answer = engine("recover", partition, "--now", NOW, "--recovery-point", points.get(partition.name, 0), *CONFIG)
        assert "failed" not in answer, f"{partition.name}: a broker does not start: {answer['failed']}"


def _recover(program: Program, top: Path) -> None:
    done = program.run(["recover", "--no-quarantine", *COMMON, "data"], top)
    assert done.status in DONE, done.stderr


class Scene:
    """A command, and the directory in which it is killed repeatedly: always the same path, since a quarantine stores it."""

    def __init__(self, program: Program, command: Command, start: Callable[[Path], None], top: Path) -> None:
        self._program, self._command, self._start, self._top = program, command, start, top
        self.work = top / "work"
        self.work.mkdir()
        command.prepare(program, self.work)
        self.before = self.kept("before")
        done = self.run(command.words)
        assert done.status in DONE, done.stderr
        self.seconds, self.status = done.seconds, done.status
        self.whole = self.kept("whole")
        self.run(command.again)
        self.twice = self.kept("twice")
        self.broker_before, self.broker_whole = self.broker_finds(self.before), self.broker_finds(self.whole)

    def kept(self, name: str) -> Path:
        """Copy the current directory."""
        shutil.rmtree(self._top / name, ignore_errors=True)
        return shutil.copytree(self.work, self._top / name)

    def go_back(self, to: Path) -> None:
        """Replace the directory by a copy."""
        shutil.rmtree(self.work)
        shutil.copytree(to, self.work)

    def run(self, words: list[str], **options: float) -> Run:
        stdin = self._command.stdin
        return self._program.run(words, self.work, stdin=self.work / stdin if stdin else None, **options)

    def broker_finds(self, top: Path) -> Logs:
        """Return the logs after a start on a copy of `top`."""
        copy = self._top / "started"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(top, copy)
        self._start(copy)
        return logs_in(copy / "data")

    def kill(self, random: Random) -> tuple[Path, Run]:
        """Run the command and kill it at a random moment → (copy of the directory, run)."""
        for _ in range(MISSES):
            self.go_back(self.before)
            done = self.run(self._command.words, kill_after=random.uniform(0, self.seconds))
            if done.status is None:
                return self.kept("killed"), done
            self.seconds = min(self.seconds, done.seconds)
        raise AssertionError(f"it ended {MISSES} times before it was killed")

    def check(self, killed: Path, done: Run) -> list[str]:
        """Return the problems after a kill."""
        command = self._command
        found = self.broker_finds(killed)
        wrong = [f"a broker starts: {line}" for line in command.lost(self.broker_before, self.broker_whole, found)]
        if command.stdin:
            end = acknowledged_end(done)
            has = [offset for offset, _ in all_records(found["t-0"])]
            if not has or has[-1] + 1 < end:
                wrong.append(f"acknowledged up to offset {end}, a broker finds {has[-1] + 1 if has else 0}")
        again = self.run(command.again)
        if again.status not in (0, 1, self.status):
            wrong.append(f"run again: status {again.status}: {again.stderr}")
        wrong += [f"run again: {line}" for line in self._incomplete()]
        if command.restores and (killed / "q" / "manifest.jsonl").exists():
            self.go_back(killed)
            restored = self.run(["restore", "--salvage", "q"])
            wrong += [f"restore, status {restored.status}: {line}" for line in differences(self.before / "data", self.work / "data")]
        return wrong

    def _incomplete(self) -> list[str]:
        """Return how the log dir differs from that after one complete run, or two: the killed run may have completed its work."""
        data = self.work / "data"
        wrong = unfinished(data)
        if self._command.name == "restore":
            return wrong + differences(self.whole / "data", data)
        found, whole, twice = (logs_in(top) for top in (data, self.whole / "data", self.twice / "data"))
        if self._command.stdin:  # the same records once more, after those of the first run
            sent = [value for _, value in all_records(whole["t-0"])][len(all_records(logs_in(self.before / "data")["t-0"])) :]
            return wrong if [value for _, value in all_records(found["t-0"])][-len(sent) :] == sent else [*wrong, "not all records"]
        return wrong + [f"{name}: not what an undisturbed run leaves" for name, batches in found.items()
                        if all_records(batches) not in (all_records(whole[name]), all_records(twice[name]))]


@pytest.mark.crash
@pytest.mark.parametrize("block", range(BLOCKS))
@pytest.mark.parametrize("command", COMMANDS, ids=[command.name for command in COMMANDS])
def test_nothing_is_lost_by_a_kill(command, block, program, start, tmp_path):
    scene, random = Scene(program, command, start, tmp_path), Random(block)
    for number in range(MOMENTS):
        killed, done = scene.kill(random)
        wrong = scene.check(killed, done)
        assert not wrong, "\n".join([f"moment {number} of block {block}; what was left: {killed}", *wrong])

"""Runs of whole processes: seconds, processor time and peak memory, by wait4."""

from __future__ import annotations

import filecmp
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

LAUNCH = Path(__file__).with_name("launch.py")


class Run(NamedTuple):
    seconds: float
    cpu_seconds: float
    peak_bytes: int  # largest resident set


class WrongRunError(Exception):
    """A program failed, or two programs that should print the same do not."""


def run(command: list[str], cwd: Path, output: Path, statuses: tuple[int, ...] = (0,), *, cores: int = 0) -> Run:
    """Run to the end on `cores` processors (0: all) with stdout in the file `output`. Raises WrongRunError for any other status."""
    errors = output.with_suffix(".stderr")
    with output.open("wb") as out, errors.open("wb") as err:
        reading, writing = os.pipe()
        launched = [sys.executable, "-I", "-S", str(LAUNCH), str(writing), str(cores), *command]
        with subprocess.Popen(launched, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=err, pass_fds=(writing,)):
            os.close(writing)
            with open(reading, "rb") as report:
                status, seconds, cpu_seconds, peak = json.loads(report.read() or b"[256, 0, 0, 0]")  # 256: never started
    returned = os.waitstatus_to_exitcode(status)
    if returned not in statuses:
        last = errors.read_text(errors="replace")[-2000:]
        raise WrongRunError(f"{' '.join(command[-4:])}: status {returned}\n{last}")
    return Run(seconds, cpu_seconds, peak * 1024)


def seconds_side_by_side(commands: list[list[str]], cwd: Path) -> float:
    """Until the last of these programs has ended, all begun at once. Raises WrongRunError where one fails."""
    start = time.perf_counter()
    processes = [subprocess.Popen(one, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) for one in commands]
    statuses = [process.wait() for process in processes]
    if any(statuses):
        raise WrongRunError(f"{' '.join(commands[0][-4:])} and others side by side: statuses {statuses}")
    return time.perf_counter() - start


def answer(command: list[str], cwd: Path) -> dict[str, float]:
    """The JSON object that a program prints. Raises WrongRunError where it fails."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    try:
        found: dict[str, float] = json.loads(done.stdout)
    except ValueError:
        raise WrongRunError(f"{' '.join(command[-4:])}: status {done.returncode}\n{done.stderr[-2000:]}") from None
    if "failed" in found:
        raise WrongRunError(f"{' '.join(command[-4:])}: {found['failed']}")
    return found


def in_turns(runs: int, *works: Callable[[], object]) -> list[float]:
    """Each of the works in turn, `runs` times after a first one; medians in seconds."""
    for work in works:
        work()
    taken: list[list[float]] = [[] for _ in works]
    for _ in range(runs):
        for number, work in enumerate(works):
            start = time.perf_counter()
            work()
            taken[number].append(time.perf_counter() - start)
    return [statistics.median(one) for one in taken]


def median(runs: list[Run]) -> Run:
    """The medians of time, the largest peak."""
    seconds, cpu_seconds, peaks = zip(*runs, strict=True)
    return Run(statistics.median(seconds), statistics.median(cpu_seconds), max(peaks))


def same_output(ours: Path, theirs: Path, what: str) -> None:
    """Raises WrongRunError where the two files differ: work that differs is not compared."""
    if not filecmp.cmp(ours, theirs, shallow=False):
        raise WrongRunError(f"{what}: kafkalog and Kafka differ; see {ours} and {theirs}")

"""The results as a table, as JSON and in the documents."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"
_MIB = 1 << 20


class Result(NamedTuple):
    """One line of the table. What was not measured or is not asked for is None."""

    file: str
    work: str
    ours: float  # seconds
    kafka: float | None  # seconds
    target: float | None  # how many times faster than Kafka, at least
    peak: int | None = None  # bytes
    kafka_peak: int | None = None
    limit: float | None = None  # seconds, at most
    peak_limit: int | None = None
    cpu: float | None = None  # seconds of all processors, less moved by what else a machine does
    kafka_cpu: float | None = None
    rival: str = "Kafka"  # which program `kafka` is about

    @property
    def ratio(self) -> float | None:
        return None if self.kafka is None else self.kafka / self.ours

    @property
    def met(self) -> bool:
        """Everything that is asked for is reached."""
        return ((self.target is None or self.ratio is None or self.ratio >= self.target)
                and (self.limit is None or self.ours <= self.limit)
                and (self.peak_limit is None or self.peak is None or self.peak <= self.peak_limit))  # fmt: skip

    def as_json(self) -> dict[str, Any]:
        return {**self._asdict(), "ratio": self.ratio, "met": self.met}

    @classmethod
    def of_json(cls, document: dict[str, Any]) -> Result:
        return cls(**{name: document[name] for name in cls._fields if name in document})


class Measured(NamedTuple):
    """What one group of measurements gave. `load` of the machine before it; `failed`: why there is nothing."""

    results: list[Result]
    load: float
    failed: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {"results": [one.as_json() for one in self.results], "load": self.load, "failed": self.failed}

    @classmethod
    def of_json(cls, document: dict[str, Any]) -> Measured:
        return cls([Result.of_json(one) for one in document["results"]], document["load"], document["failed"])


def _seconds(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value * 1000:.1f} ms" if value < 0.01 else f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"


def _megabytes(value: int | None) -> str:
    return "" if value is None else f"{value / _MIB:.0f} MiB"


def _wanted(result: Result) -> str:
    parts = [f"≥ {result.target:.2g}x" if result.target < 1 else f"≥ {result.target:g}x"] if result.target else []
    parts += [f"≤ {_seconds(result.limit)}"] if result.limit else []
    parts += [f"≤ {_megabytes(result.peak_limit)}"] if result.peak_limit else []
    return ", ".join(parts)


def _theirs(result: Result) -> str:
    return _seconds(result.kafka) + ("" if result.kafka is None or result.rival == "Kafka" else f" ({result.rival})")


def _ratio(result: Result) -> str:
    return "" if result.ratio is None else f"{result.ratio:.2f}" if result.ratio < 1 else f"{result.ratio:.1f}"


def table(results: Iterable[Result]) -> str:
    """For a terminal, with what is asked for."""
    head = ("file", "work", "kafkalog", "Kafka", "times faster", "wanted", "", "memory", "Kafka's")
    lines = [head] + [
        (one.file, one.work, _seconds(one.ours), _theirs(one), _ratio(one), _wanted(one),
         "" if not _wanted(one) else "yes" if one.met else "NO", _megabytes(one.peak), _megabytes(one.kafka_peak))
        for one in results
    ]  # fmt: skip
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    padded = ([cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines)
    return "\n".join("  ".join(cells).rstrip() for cells in padded)


def markdown(results: Iterable[Result], *, with_wanted: bool) -> str:
    """For the documents: what was measured, and beside it what is asked for."""
    head = ["work", "on", "kafkalog", "Kafka", "times faster", "memory", "Kafka's", *(["wanted"] if with_wanted else [])]
    lines = [head, ["---"] * len(head)]
    for one in results:
        cells = [one.work, one.file, _seconds(one.ours), _theirs(one), _ratio(one), _megabytes(one.peak), _megabytes(one.kafka_peak)]
        lines.append([*cells, *([_wanted(one) + ("" if one.met else " (missed)")] if with_wanted else [])])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def machine_facts(java_options: list[str], records: int, runs: int, loads: list[float]) -> list[str]:
    """What a reader needs to know to repeat this; no names of machines or directories."""
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr.splitlines()[0]
    cpu = ""
    if Path("/proc/cpuinfo").exists():
        model = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        cpu = f", {model[1]}" if model else ""
    load = f"; load before each row {min(loads):.1f} to {max(loads):.1f}" if loads else ""
    return [
        f"{os.cpu_count()} cores{cpu}, {platform.system()}{load}",
        f"Python {platform.python_version()}; Kafka 4.3.1 on {java}",
        f"{records} records in each file; {runs} runs of each program in turn, {3 * runs} of dump-log; medians; largest resident set",
        f"Kafka's tool as kafka-run-class starts it: java {' '.join(java_options)}",
    ]


def update(path: Path, text: str) -> bool:
    """Put `text` between the markers of a document; False where it has none."""
    before = path.read_text() if path.exists() else ""
    if BEGIN not in before or END not in before:
        return False
    head, _, rest = before.partition(BEGIN)
    path.write_text(f"{head}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}")
    return True

"""The results as a table, as JSON and in the documents."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

from engine.kernels import BUILD

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

    @property
    def ratio(self) -> float | None:
        return None if self.kafka is None else self.kafka / self.ours

    @property
    def met(self) -> bool:
        """Everything that is asked for is reached."""
        return ((self.target is None or self.ratio is None or self.ratio >= self.target)
                and (self.limit is None or self.ours <= self.limit)
                and (self.peak_limit is None or self.peak is None or self.peak <= self.peak_limit))  # fmt: skip

    def as_json(self) -> dict[str, object]:
        return {**self._asdict(), "ratio": self.ratio, "met": self.met}


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"


def _megabytes(value: int | None) -> str:
    return "" if value is None else f"{value / _MIB:.0f} MiB"


def _wanted(result: Result) -> str:
    parts = [f"≥ {result.target:g}"] if result.target else []
    parts += [f"≤ {_seconds(result.limit)}"] if result.limit else []
    parts += [f"≤ {_megabytes(result.peak_limit)}"] if result.peak_limit else []
    return ", ".join(parts)


HEAD = ("file", "work", "kafkalog", "Kafka", "times faster", "wanted", "", "memory", "Kafka's")


def rows(results: list[Result]) -> list[tuple[str, ...]]:
    return [
        (one.file, one.work, _seconds(one.ours), _seconds(one.kafka), "" if one.ratio is None else f"{one.ratio:.1f}",
         _wanted(one), "" if not _wanted(one) else "yes" if one.met else "NO", _megabytes(one.peak),
         _megabytes(one.kafka_peak))
        for one in results
    ]  # fmt: skip


def table(results: list[Result]) -> str:
    """For a terminal."""
    lines = [HEAD, *rows(results)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    padded = ([cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines)
    return "\n".join("  ".join(cells).rstrip() for cells in padded)


def markdown(results: list[Result], facts: list[str]) -> str:
    """For the documents."""
    lines = ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    lines += ["| " + " | ".join(row) + " |" for row in rows(results)]
    return "\n".join([*lines, "", *(f"- {fact}" for fact in facts)])


def machine_facts(java_options: list[str], records: int, runs: int) -> list[str]:
    """What a reader needs to know to repeat this; no names of machines or directories."""
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr.splitlines()[0]
    cpu = ""
    if Path("/proc/cpuinfo").exists():
        model = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        cpu = f", {model[1]}" if model else ""
    load = os.getloadavg()[0]
    return [
        f"{os.cpu_count()} cores{cpu}, {platform.system()}; load {load:.1f} at the end",
        f"Python {platform.python_version()}, {BUILD} kernels; Kafka 4.3.1 on {java}",
        f"{records} records; {runs} runs of each, taken in turn; medians of wall time; largest resident set",
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

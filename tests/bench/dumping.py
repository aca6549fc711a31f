"""dump-log beside Kafka's DumpLogSegments, records into columns beside kafka-clients, start and memory."""

from __future__ import annotations

import json
import statistics
import sys
from typing import TYPE_CHECKING, NamedTuple

from tests.bench.measure import WrongRunError, answer, median, run, same_output
from tests.bench.report import Result

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.bench.setting import Bench

MEMORY_LIMIT = 80 << 20
HELP_LIMIT, START_LIMIT = 0.100, 0.150  # seconds
COLUMNS_OF = ("none-0", "lz4-0", "zstd-0", "single-0")


class Case(NamedTuple):
    """One command line of dump-log on one file."""

    workload: str
    name: str
    options: tuple[str, ...]
    target: float
    suffix: str = "log"
    kafka_options: tuple[str, ...] | None = None  # None: the same options, the same text
    kafka_runs: int | None = None  # where one takes long enough


PRINT, DEEP, VERIFY = ("--print-data-log",), ("--deep-iteration",), ("--verify-index-only",)
JSON = ("--format", "jsonl", "--print-data-log")
CASES = (
    Case("none-0", "print", PRINT, 20),
    Case("lz4-0", "print", PRINT, 12),
    Case("zstd-0", "print", PRINT, 12),
    Case("single-0", "print", PRINT, 20),
    Case("none-0", "deep", DEEP, 20),
    Case("lz4-0", "deep", DEEP, 12),
    Case("zstd-0", "deep", DEEP, 12),
    Case("single-0", "deep", DEEP, 20),
    Case("none-0", "shallow", (), 2.5),
    Case("single-0", "shallow", (), 2.5),
    Case("none-0", "jsonl", JSON, 12, kafka_options=PRINT),
    Case("none-0", "timeindex", VERIFY, 100, "timeindex", kafka_runs=1),
)


_OURS = 3  # runs of kafkalog for one of Kafka: it is done before a pause of the machine evens out


def dumps(bench: Bench, name: str) -> Iterator[Result]:
    """The cases of that name."""
    for case in CASES:
        if case.name == name:
            yield _compare(bench, case)


def _compare(bench: Bench, case: Case) -> Result:
    """Both programs in turn, on the same file, each with its output in a file."""
    path = bench.segment(case.workload, case.suffix)
    ours, theirs = bench.out / "kafkalog.out", bench.out / "kafka.out"
    our_runs, their_runs = [], []
    for turn in range(bench.runs):
        command = [*bench.kafkalog, "dump-log", *case.options, "--files", path]
        our_runs += [run(command, bench.home, ours) for _ in range(_OURS)]
        if turn < (case.kafka_runs or bench.runs):
            options = case.options if case.kafka_options is None else case.kafka_options
            their_runs.append(run([*bench.tool, *options, "--files", path], bench.home, theirs))
            if case.kafka_options is None:
                same_output(ours, theirs, f"{case.name} {path}")
            elif turn == 0:
                _same_records(ours, theirs)
    our, their = median(our_runs), median(their_runs)
    work = " ".join(["dump-log", *case.options]) + (f", .{case.suffix}" if case.suffix != "log" else "")
    return Result(bench.title(case.workload), work, our.seconds, their.seconds, case.target, our.peak_bytes,
                  their.peak_bytes, None, MEMORY_LIMIT, our.cpu_seconds, their.cpu_seconds)  # fmt: skip


def _same_records(ours: Path, theirs: Path) -> None:
    """JSON lines hold the records that Kafka's text shows: offset, timestamp and sizes of each one."""
    with ours.open("rb") as lines, theirs.open("rb") as text:
        records = (json.loads(line) for line in lines if b'"type":"record"' in line.replace(b" ", b"")[:40])
        for line in text:
            if not line.startswith(b"| "):
                continue
            words = line.split(b" ", 9)  # | offset: 0 CreateTime: 17 keySize: 3 valueSize: 4 …
            wanted = tuple(map(int, words[2:9:2]))
            record = next(records, None)
            if record is None or tuple(record[name] for name in ("offset", "timestamp", "key_size", "value_size")) != wanted:
                raise WrongRunError(f"jsonl: {record} is not Kafka's record {line[:80]!r}")
        if next(records, None) is not None:
            raise WrongRunError("jsonl: more records than Kafka prints")


def columns(bench: Bench) -> Iterator[Result]:
    """Records into columns against kafka-clients' iteration, both warm, each in a process of its own."""
    for workload in COLUMNS_OF:
        path = bench.segment(workload)
        ours, theirs = [], []
        for _ in range(bench.runs):
            ours.append(answer([sys.executable, "-m", "tests.bench.columns", path, "20"], bench.home))
            theirs.append(answer([*bench.engine, "kafkalog.oracle.Main", "iterate", path, "--repeat", "20"], bench.home))
        for key in ("records", "checksum"):
            if ours[0][key] != theirs[0][key]:
                raise WrongRunError(f"columns {path}: {key} {ours[0][key]}, Kafka has {theirs[0][key]}")
        kafka = statistics.median(one["bestMs"] / 1000 for one in theirs)
        whole = statistics.median(one["bestMs"] / 1000 for one in ours)
        title = bench.title(workload)
        yield Result(title, "file into columns, warm", whole, kafka, None)
        if ours[0]["kernelsMs"] is not None:
            kernels = statistics.median(one["kernelsMs"] / 1000 for one in ours)
            yield Result(title, "kernels alone, warm", kernels, kafka, 3)


def starts(bench: Bench) -> Iterator[Result]:
    """Small runs, from the start of the process to its end."""
    small = ["dump-log", *PRINT, bench.segment("small-0")]
    for what, words, limit in (("no file", ["--help"], HELP_LIMIT), ("a small segment", small, START_LIMIT)):
        run([*bench.kafkalog, *words], bench.home, bench.out / "start.out")
        runs = [run([*bench.kafkalog, *words], bench.home, bench.out / "start.out") for _ in range(max(9, bench.runs))]
        middle = median(runs)
        yield Result(what, f"kafkalog {words[0]}", middle.seconds, None, None, middle.peak_bytes, limit=limit)


def memory(bench: Bench) -> Iterator[Result]:
    """Peak memory on a file as large as Kafka lets one be."""
    path = bench.large_log()
    for options in (PRINT, DEEP, ()):
        once = run([*bench.kafkalog, "dump-log", *options, "--files", str(path)], bench.home, bench.null)
        name = f"{path.stat().st_size / (1 << 30):.1f} GiB, to /dev/null"
        yield Result(name, " ".join(["dump-log", *options]), once.seconds, None, None, once.peak_bytes, peak_limit=MEMORY_LIMIT)

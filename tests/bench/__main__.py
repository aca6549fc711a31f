"""Measure kafkalog against Kafka. `make bench`, or `make bench BENCH="--quick --only print"`."""

from __future__ import annotations

import argparse
import atexit
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.bench import compaction, reading, recovering
from tests.bench.append import append_results
from tests.bench.data import LARGEST_SEGMENT, SEGMENT, WORKLOADS, enlarge, generate
from tests.bench.measure import WrongRunError, median, run, same_output
from tests.bench.report import Result, machine_facts, markdown, table, update
from tests.oracle.jvm import class_path, missing_programs

ROOT = Path(__file__).resolve().parents[2]
# heap and performance options of kafka-run-class.sh 4.3.1, which kafka-dump-log.sh calls
TOOL_OPTIONS = [
    "-Xmx256M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent", "-XX:MaxInlineLevel=15", "-Djava.awt.headless=true",
]  # fmt: skip
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
MEMORY_LIMIT = 80 << 20
START_LIMIT = 0.150


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
    Case("none-0", "deep", DEEP, 20),
    Case("none-0", "shallow", (), 2.5),
    Case("none-0", "timeindex", VERIFY, 100, "timeindex", kafka_runs=1),
    Case("none-0", "jsonl", JSON, 12, kafka_options=PRINT),
    Case("lz4-0", "print", PRINT, 12),
    Case("lz4-0", "deep", DEEP, 12),
    Case("zstd-0", "print", PRINT, 12),
    Case("zstd-0", "deep", DEEP, 12),
    Case("single-0", "print", PRINT, 20),
    Case("single-0", "deep", DEEP, 20),
    Case("single-0", "shallow", (), 2.5),
)


def outputs_directory(home: Path) -> Path:
    """Where both programs print to: in memory where there is room, or the disk's write-back decides who is faster."""
    memory = Path("/dev/shm")
    above = memory if memory.is_dir() and shutil.disk_usage(memory).free > 4 << 30 else home
    directory = Path(tempfile.mkdtemp(dir=above, prefix="kafkalog-bench-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


class Bench:
    """All measurements of one run. Data and outputs live in `home`."""

    def __init__(self, home: Path, records: int, runs: int, large: int) -> None:
        self.home, self.records, self.runs, self.large = home, records, runs, large
        self.classes = class_path()
        self.out = outputs_directory(home)
        self.null = self.out / "null"
        self.null.symlink_to(os.devnull)
        script = Path(sys.executable).with_name("kafkalog")
        self.kafkalog = [str(script)] if script.exists() else [sys.executable, "-m", "kafkalog_cli.main"]
        self.tool = ["java", *TOOL_OPTIONS, QUIET, "-cp", self.classes, "org.apache.kafka.tools.DumpLogSegments"]
        self.engine = ["java", "-Xmx1g", QUIET, "-cp", self.classes]
        self.titles = {workload.name: workload.title for workload in WORKLOADS}
        for workload in WORKLOADS:
            generate(self.engine, home, workload, records)

    def compare(self, case: Case) -> Result:
        """Both programs in turn, on the same file, each with its output in a file."""
        path = f"{case.workload}/{SEGMENT}.{case.suffix}"
        ours, theirs = self.out / "kafkalog.out", self.out / "kafka.out"
        our_runs, their_runs = [], []
        for turn in range(self.runs):
            our_runs.append(run([*self.kafkalog, "dump-log", *case.options, "--files", path], self.home, ours))
            if turn < (case.kafka_runs or self.runs):
                options = case.options if case.kafka_options is None else case.kafka_options
                their_runs.append(run([*self.tool, *options, "--files", path], self.home, theirs))
                if case.kafka_options is None:
                    same_output(ours, theirs, f"{case.name} {path}")
                else:
                    same_records(ours, theirs)
        our, their = median(our_runs), median(their_runs)
        work = " ".join([f".{case.suffix}", *case.options]) if case.options else "shallow"
        return Result(self.titles[case.workload], work, our.seconds, their.seconds, case.target, our.peak_bytes,
                      their.peak_bytes, None, MEMORY_LIMIT, our.cpu_seconds, their.cpu_seconds)  # fmt: skip

    def columns(self, workload: str) -> list[Result]:
        """Records into columns against kafka-clients' iteration, both warm, each in a process of its own."""
        path = f"{workload}/{SEGMENT}.log"
        ours, theirs = [], []
        for _ in range(self.runs):
            ours.append(_json([sys.executable, "-m", "tests.bench.columns", path, "20"], self.home))
            command = [*self.engine, "kafkalog.oracle.Main", "iterate", path, "--repeat", "20"]
            theirs.append(_json(command, self.home))
        for key in ("records", "checksum"):
            if ours[0][key] != theirs[0][key]:
                raise WrongRunError(f"columns {path}: {key} {ours[0][key]}, Kafka has {theirs[0][key]}")
        kafka = statistics.median(one["bestMs"] / 1000 for one in theirs)
        whole = statistics.median(one["bestMs"] / 1000 for one in ours)
        title = self.titles[workload]
        results = [Result(title, "file into columns, warm", whole, kafka, None)]
        if ours[0]["kernelsMs"] is not None:
            kernels = statistics.median(one["kernelsMs"] / 1000 for one in ours)
            results.append(Result(title, "kernels alone, warm", kernels, kafka, 3))
        return results

    def start(self, what: str, words: list[str]) -> Result:
        """A small run, from the start of the process to its end."""
        run([*self.kafkalog, *words], self.home, self.out / "start.out")
        runs = [run([*self.kafkalog, *words], self.home, self.out / "start.out") for _ in range(max(9, self.runs))]
        middle = median(runs)
        return Result(what, f"kafkalog {words[0]}", middle.seconds, None, None, middle.peak_bytes, limit=START_LIMIT)

    def large_log(self) -> Path:
        """A log as large as Kafka lets one be."""
        return enlarge(self.home / f"none-0/{SEGMENT}.log", self.home / f"large-0/{SEGMENT}.log", self.large)

    def memory(self) -> list[Result]:
        """Peak memory on a file as large as Kafka lets one be."""
        path = self.large_log()
        results = []
        for options in (PRINT, DEEP, ()):
            command = [*self.kafkalog, "dump-log", *options, "--files", str(path)]
            once = run(command, self.home, self.null)
            name = f"{path.stat().st_size / (1 << 30):.1f} GiB, to /dev/null"
            work = " ".join([".log", *options]) if options else "shallow"
            results.append(Result(name, work, once.seconds, None, None, once.peak_bytes, peak_limit=MEMORY_LIMIT))
        return results


def same_records(ours: Path, theirs: Path) -> None:
    """JSON lines hold the records that Kafka's text shows: offset, timestamp and sizes of each one."""
    with ours.open("rb") as lines, theirs.open("rb") as text:
        records = (json.loads(line) for line in lines if b'"type":"record"' in line.replace(b" ", b"")[:40])
        for line in text:
            if not line.startswith(b"| "):
                continue
            words = line.split(b" ", 9)  # | offset: 0 CreateTime: 17 keySize: 3 valueSize: 4 …
            record = next(records, None)
            if record is None or (record["offset"], record["timestamp"]) != (int(words[2]), int(words[4])):
                raise WrongRunError(f"jsonl: {record} is not Kafka's record {line[:80]!r}")
        if next(records, None) is not None:
            raise WrongRunError("jsonl: more records than Kafka prints")


def _json(command: list[str], cwd: Path) -> dict[str, float]:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    try:
        answer: dict[str, float] = json.loads(done.stdout)
    except ValueError:
        raise WrongRunError(f"{' '.join(command[-4:])}: status {done.returncode}\n{done.stderr[-2000:]}") from None
    if "failed" in answer:
        raise WrongRunError(f"{' '.join(command[-4:])}: {answer['failed']}")
    return answer


def has_json(bench: Bench) -> bool:
    """Does dump-log know --format jsonl?"""
    command = [*bench.kafkalog, "dump-log", *JSON, f"small-0/{SEGMENT}.log"]
    return subprocess.run(command, cwd=bench.home, capture_output=True, check=False).returncode != 2


def measure(bench: Bench, only: list[str]) -> list[Result]:
    """Everything that is asked for, each result printed when it is there."""
    results: list[Result] = []

    def add(*fresh: Result) -> None:
        results.extend(fresh)
        for one in fresh:
            print(f"  {table([one]).splitlines()[1]}", flush=True)

    def wanted(name: str) -> bool:
        return not only or name in only

    for case in CASES:
        if wanted(case.name):
            if case.options == JSON and not has_json(bench):
                print("  SKIPPED jsonl: this kafkalog has no --format", flush=True)
                continue
            add(bench.compare(case))
    if wanted("columns"):
        for workload in ("none-0", "lz4-0", "zstd-0", "single-0"):
            add(*bench.columns(workload))
    if wanted("verify-index"):
        add(reading.verify_index(bench))
    if wanted("compact"):
        for codec in compaction.CODECS:
            count = bench.records * 5_000_000 // 1_130_000
            add(compaction.compare(bench.engine, bench.kafkalog, bench.home, codec, count, bench.runs))
    if wanted("start"):
        add(bench.start("no file", ["--help"]))
        add(bench.start("a small segment", ["dump-log", *PRINT, f"small-0/{SEGMENT}.log"]))
    if wanted("memory"):
        add(*bench.memory())
    if wanted("raw"):
        bench.large_log()
        add(reading.raw(bench))
    if wanted("lookup"):
        add(*reading.lookup(bench))
    if wanted("recover"):
        add(*recovering.recover(bench))
    if wanted("open"):
        add(*recovering.open_many(bench))
    if wanted("append"):
        add(*append_results(bench))
    return results


def arguments() -> argparse.Namespace:
    names = sorted({case.name for case in CASES} | {"columns", "compact", "start", "memory", "append", *reading.NAMES, *recovering.NAMES})
    parser = argparse.ArgumentParser(prog="tests.bench", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="runs of each program per case (3)")
    parser.add_argument("--records", type=int, default=1_130_000, help="records of each segment (1130000, 128 MiB)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the records, a large file of 256 MiB")
    parser.add_argument("--only", action="append", choices=names, help="only these cases; may be given again")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to FILE")
    parser.add_argument("--update-docs", action="store_true", help="write the table into docs/benchmarks.md, README.md")
    return parser.parse_args()


def main() -> int:
    """Measure and report → exit status: 1 where a target is missed, 2 where nothing could be compared."""
    options = arguments()
    if missing := missing_programs():
        print(f"bench compares with real Kafka and needs {', '.join(missing)}", file=sys.stderr)
        return 2
    os.environ["PYTHONPATH"] = str(ROOT)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # installed programs have their byte code
    os.environ["LC_ALL"] = "C.UTF-8"
    records = options.records // 10 if options.quick else options.records
    home = ROOT / "build" / "bench" / str(records)
    try:
        bench = Bench(home, records, options.runs, (256 << 20) if options.quick else LARGEST_SEGMENT)
        results = measure(bench, options.only or [])
    except WrongRunError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(home / "out", ignore_errors=True)
    facts = machine_facts(TOOL_OPTIONS, records, options.runs)
    print("\n" + table(results) + "\n\n" + "\n".join(facts))
    if options.json:
        document = {"results": [one.as_json() for one in results], "facts": facts}
        options.json.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    if options.update_docs:
        text = markdown(results, facts)
        for path in (ROOT / "docs" / "benchmarks.md", ROOT / "README.md"):
            print(f"{path.name}: {'updated' if update(path, text) else 'has no markers, left as it is'}")
    if options.quick:
        print("quick: start-up counts for more than the work here; the targets are for full size")
    missed = [one for one in results if not one.met]
    print(f"{len(missed)} targets missed" if missed else "every target is met")
    return 0


if __name__ == "__main__":
    sys.exit(main())

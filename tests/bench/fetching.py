"""fetch beside dump-log and beside a client of a broker; text and JSON on one core and on two."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from tests.bench import consuming
from tests.bench.dumping import MEMORY_LIMIT
from tests.bench.measure import WrongRunError, median, run, same_output
from tests.bench.report import Result
from tests.support.corpus import own_corpus_directory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.setting import Bench

_DATA, _JSON = ("--print-data-log",), ("--format", "jsonl", "--print-data-log")
_AS_DUMP = 1 / 1.3  # of the speed of dump-log
_BY_TWO = 1.6  # times the speed of one core
_TIMES = 4  # a segment is dumped, so that the start of the process counts little
_AS_CLIENT = 3
_TEMPLATE = r"%k %s\n"


def beside_dump_log(bench: Bench) -> Iterator[Result]:
    """The same records by both commands."""
    bench.partition("none-0")
    for fetched, dumped in ((("-f", r"%o %T %k %s\n"), _DATA), (("--format", "jsonl"), _JSON)):
        ours, theirs = [], []
        for _ in range(max(5, bench.runs)):
            ours.append(run([*bench.kafkalog, "fetch", *fetched, "none-0"], bench.home, bench.out / "fetch.out"))
            theirs.append(run([*bench.kafkalog, "dump-log", *dumped, "none-0"], bench.home, bench.out / "dump.out"))
        our, dump = median(ours), median(theirs)
        yield Result(bench.title("none-0"), f"fetch {' '.join(fetched)}", our.seconds, dump.seconds, _AS_DUMP, our.peak_bytes,
                     dump.peak_bytes, None, MEMORY_LIMIT, our.cpu_seconds, dump.cpu_seconds, rival="dump-log")  # fmt: skip


def by_two(bench: Bench) -> Iterator[Result]:
    """Several segments, text and JSON: two threads on two cores beside one core, where nothing runs at the same time."""
    bench.partition("several-0")
    for options in (_DATA, _JSON):
        runs = {1: [], 2: []}
        for _ in range(max(5, bench.runs)):
            for cores, done in runs.items():
                command = [*bench.kafkalog, "dump-log", *options, "--jobs", str(cores), *["several-0"] * _TIMES]
                done.append(run(command, bench.home, bench.out / f"by-{cores}.out", cores=cores))
        same_output(bench.out / "by-2.out", bench.out / "by-1.out", "dump-log --jobs")
        two, one = median(runs[2]), median(runs[1])
        yield Result(f"{bench.title('several-0')}, {_TIMES} times", " ".join(("dump-log --jobs 2 on two cores", *options)), two.seconds,
                     one.seconds, _BY_TWO, two.peak_bytes, one.peak_bytes, None, MEMORY_LIMIT, two.cpu_seconds, one.cpu_seconds,
                     "--jobs 1 on one core")  # fmt: skip


def beside_client(bench: Bench) -> Iterator[Result]:
    """fetch of a partition beside kcat, which is librdkafka, reading it from a broker on this machine: the same file comes out."""
    if shutil.which("kcat") is None:
        raise WrongRunError("there is no kcat: apt-get install kcat")
    log_dirs = own_corpus_directory() / "kafka-4.3.1/logs/clean"
    for workload in ("none-0", "lz4-0"):
        source = bench.partition(workload)
        with consuming.broker_with(log_dirs, source, bench.home) as broker:
            client = ["kcat", "-C", "-q", "-e", "-b", f"127.0.0.1:{broker.port}", "-t", consuming.TOPIC, "-p", "0", "-o", "beginning",
                      "-f", _TEMPLATE]  # fmt: skip
            ours, theirs = [], []
            for _ in range(max(5, bench.runs)):
                theirs.append(run(client, bench.home, bench.out / "kcat.out"))
                ours.append(run([*bench.kafkalog, "fetch", "-f", _TEMPLATE, workload], bench.home, bench.out / "fetch.out"))
            same_output(bench.out / "fetch.out", bench.out / "kcat.out", "fetch")
        our, their = median(ours), median(theirs)
        yield Result(bench.title(workload), f"fetch -f '{_TEMPLATE}'", our.seconds, their.seconds, _AS_CLIENT, our.peak_bytes,
                     their.peak_bytes, None, MEMORY_LIMIT, our.cpu_seconds, their.cpu_seconds, "kcat")  # fmt: skip

"""grep beside GNU grep, which searches the same bytes; and beside decompression alone. As a program: decompress a log."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from engine.files import ReadOnlyFiles
from engine.record.reader import ChunkReader
from engine.record.windows import LogWalk
from tests.bench.data import enlarge
from tests.bench.measure import WrongRunError, median, run
from tests.bench.report import Result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.measure import Run
    from tests.bench.setting import Bench

_ROOT = Path(__file__).parents[2]
TIMES = 4.35  # 534 MB of uncompressed batches
WORD, REGEX = "00000123456", "[0-9a-f]{5};zulux?="  # the first is in a few records
PEAK_LIMIT = 80 << 20


def search(bench: Bench) -> Iterator[Result]:
    """A word in plain batches and in compressed ones; a regular expression; two processors instead of one."""
    plain = _log(bench, "none-0")
    ours = _grep(bench, plain, "-F", WORD, jobs=1)
    gnu = shutil.which("grep")
    if gnu is None:
        raise WrongRunError("there is no grep")
    theirs = [run([gnu, "-c", "-a", "-F", WORD, str(plain)], bench.home, bench.out / "gnu.out") for _ in range(bench.runs)]
    yield _row("uncompressed", "grep -F -c", ours, median(theirs), 0.5, "grep -c -a -F")
    every = [run([*bench.kafkalog, "dump-log", "--jobs", "1", "--count", "--deep-iteration", str(plain)], bench.home,
                 bench.out / "count.out") for _ in range(bench.runs)]  # fmt: skip
    yield _row("uncompressed", f"grep -c '{REGEX}'", _grep(bench, plain, REGEX, jobs=1), median(every), None, "decoding alone")
    for workload in ("lz4-0", "zstd-0"):
        log = _log(bench, workload)
        alone = [run([sys.executable, "-m", "tests.bench.searching", str(log)], _ROOT, bench.out / "alone.out")
                 for _ in range(bench.runs)]  # fmt: skip
        ours = _grep(bench, log, "-F", WORD, jobs=1)
        yield _row(workload.removesuffix("-0"), "grep -F -c", ours, median(alone), 0.66, "decompressing alone")
    for workload in ("none-0", "lz4-0", "zstd-0"):
        log = _log(bench, workload)
        one, two = (_grep(bench, log, "-F", WORD, jobs=jobs) for jobs in (1, 2))
        yield _row(workload.removesuffix("-0"), "grep -F -c --jobs 2 on two cores", two, one, 1.7, "--jobs 1 on one core")


def _log(bench: Bench, workload: str) -> Path:
    """The log of a workload, several times as long."""
    source = bench.home / bench.segment(workload)
    return enlarge(source, bench.home / f"search-{workload}" / source.name, int(TIMES * source.stat().st_size))


def _grep(bench: Bench, log: Path, *words: str, jobs: int) -> Run:
    """kafkalog grep --count on as many processors as it has threads."""
    command = [*bench.kafkalog, "grep", "--jobs", str(jobs), "-c", *words, str(log)]
    runs = [run(command, bench.home, bench.out / "search.out", cores=jobs) for _ in range(bench.runs)]
    if (bench.out / "search.out").read_text().rstrip().endswith(":0"):
        raise WrongRunError("grep finds nothing")
    return median(runs)


def _row(file: str, work: str, ours: Run, theirs: Run, target: float | None, rival: str) -> Result:
    return Result(file, work, ours.seconds, theirs.seconds, target, ours.peak_bytes, theirs.peak_bytes, peak_limit=PEAK_LIMIT,
                  cpu=ours.cpu_seconds, kafka_cpu=theirs.cpu_seconds, rival=rival)  # fmt: skip


def decompress(path: str) -> int:
    """Decompress all batches of a log as every reader does; returns the bytes."""
    size = 0
    with ReadOnlyFiles().open(path) as file:
        reader = ChunkReader(path, print)
        for window in LogWalk(file):
            size += sum(len(arena.data) for arena in reader._arenas(window, 0, window.rows))
    return size


if __name__ == "__main__":
    print(decompress(sys.argv[1]))

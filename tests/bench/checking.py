"""`check` of a large partition beside the least that it must read: the headers of batches, every byte.

The start of the program, which does not depend on the size, is measured with an empty partition and subtracted.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tests.bench.measure import median, run
from tests.bench.recovering import WORKLOADS
from tests.bench.report import Result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.setting import Bench

PEAK_LIMIT = 150 << 20
SLOWER = {"quick": 1.3, "full": 1.2}  # at most, than reading alone
# what a simple program does that reads the header of every batch, and nothing else
_HEADERS = """
import os, struct, sys
for path in sys.argv[1:]:
    file, at, end = os.open(path, os.O_RDONLY), 0, os.stat(path).st_size
    while at < end:
        at += 12 + struct.unpack_from(">qi", os.pread(file, 61, at))[1]
"""


def check(bench: Bench) -> Iterator[Result]:
    """Levels quick and full, whole processes, files in the cache."""
    directory, empty = bench.partition(WORKLOADS[0]), bench.home / "empty-0"
    empty.mkdir(exist_ok=True)
    (empty / "00000000000000000000.log").touch()
    logs = [str(path) for path in sorted(directory.glob("*.log"))]
    size = sum(path.stat().st_size for path in directory.glob("*.log"))
    rivals = {"quick": [sys.executable, "-I", "-S", "-c", _HEADERS, *logs], "full": ["cat", *logs]}
    for level, rival in rivals.items():
        words = [*bench.kafkalog, "check", "--level", level]
        starts, ours, theirs = [], [], []
        for _ in range(bench.runs):
            theirs.append(run(rival, bench.home, bench.null))
            starts.append(run([*words, str(empty)], bench.home, bench.out / "check.out", (0, 4)))
            ours.append(run([*words, str(directory)], bench.home, bench.out / "check.out", (0, 4)))
        our, their = median(ours), median(theirs)
        beyond_start = max(1e-3, our.seconds - median(starts).seconds)
        yield Result(f"{size / 1e6:.0f} MB in {len(logs)} segments", f"check --level {level}, without its start", beyond_start,
                     their.seconds, 1 / SLOWER[level], our.peak_bytes, their.peak_bytes, None, PEAK_LIMIT, our.cpu_seconds, their.cpu_seconds,
                     rival="reading the headers" if level == "quick" else "cat")  # fmt: skip

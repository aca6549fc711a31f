"""diff beside cmp, which compares the same bytes."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from tests.bench.data import enlarge
from tests.bench.measure import WrongRunError, median, run
from tests.bench.report import Result

if TYPE_CHECKING:
    from tests.bench.setting import Bench

SIZE = 1_000_000_000  # bytes of each replica
PEAK_LIMIT = 150 << 20


def compare(bench: Bench) -> Result:
    """Two replicas with the same bytes, measured in turn."""
    program = shutil.which("cmp")
    if program is None:
        raise WrongRunError("there is no cmp")
    source = bench.home / bench.segment("none-0")
    for name in "ab":
        (bench.home / f"diff-{name}").mkdir(exist_ok=True)
    logs = [enlarge(source, bench.home / f"diff-{name}/none-0" / source.name, SIZE) for name in "ab"]
    ours, theirs = [], []
    for _ in range(bench.runs):
        ours.append(run([*bench.kafkalog, "diff", *(str(log.parent) for log in logs)], bench.home, bench.out / "diff.out", cores=1))
        theirs.append(run([program, *map(str, logs)], bench.home, bench.out / "cmp.out", cores=1))
    if b": same: " not in (bench.out / "diff.out").read_bytes():
        raise WrongRunError("the replicas are not the same")
    ours, theirs = median(ours), median(theirs)
    return Result("2 × 1 GB, uncompressed", "diff of two replicas", ours.seconds, theirs.seconds, 0.67, ours.peak_bytes,
                  theirs.peak_bytes, peak_limit=PEAK_LIMIT, cpu=ours.cpu_seconds, kafka_cpu=theirs.cpu_seconds, rival="cmp")  # fmt: skip

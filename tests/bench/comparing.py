"""Commands for operators on large logs: diff beside cmp, which compares the same bytes; export, report and metadata alone."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from tests.bench.data import enlarge
from tests.bench.measure import WrongRunError, median, run
from tests.bench.report import Result
from tests.support.metadata_records import batch, change, leader_change, partition, topic, write_log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.bench.setting import Bench

SIZE = 1_000_000_000  # bytes of each replica
PEAK_LIMIT = 150 << 20
_QUICK = 10  # --quick: a part of this size
_PARTITIONS, _CHANGES = 100, 10  # of the metadata log; changes in a batch


def _size(bench: Bench) -> int:
    return SIZE if bench.records >= 1_000_000 else SIZE // _QUICK


def _replica(bench: Bench, workload: str, name: str, size: int) -> Path:
    """The directory of a partition as a broker leaves it: a log of `size` bytes, its indexes and leader epochs."""
    source = bench.home / bench.segment(workload)
    directory = bench.home / f"{name}/{workload}"
    directory.parent.mkdir(exist_ok=True)
    log = enlarge(source, directory / source.name, size)
    epochs = source.parent / "leader-epoch-checkpoint"
    if epochs.exists():
        shutil.copy2(epochs, directory)
    if not log.with_suffix(".index").exists() or log.with_suffix(".index").stat().st_mtime < log.stat().st_mtime:
        words = ("verify", "--rebuild", "--no-quarantine", str(directory))
        run([*bench.kafkalog, *words], bench.home, bench.out / "rebuilt.out", (0, 1, 4))
    return directory


def compare(bench: Bench) -> Result:
    """Two replicas with the same bytes, measured in turn."""
    program = shutil.which("cmp")
    if program is None:
        raise WrongRunError("there is no cmp")
    size = _size(bench)
    directories = [_replica(bench, "none-0", f"diff-{name}", size) for name in "ab"]
    logs = [str(next(directory.glob("*.log"))) for directory in directories]
    ours, theirs = [], []
    for _ in range(bench.runs):
        ours.append(run([*bench.kafkalog, "diff", *map(str, directories)], bench.home, bench.out / "diff.out", cores=1))
        theirs.append(run([program, *logs], bench.home, bench.out / "cmp.out", cores=1))
    if b": same: " not in (bench.out / "diff.out").read_bytes():
        raise WrongRunError("the replicas are not the same")
    ours, theirs = median(ours), median(theirs)
    return Result(f"2 × {size / 1e6:.0f} MB, uncompressed", "diff of two replicas", ours.seconds, theirs.seconds, 0.67, ours.peak_bytes,
                  theirs.peak_bytes, peak_limit=PEAK_LIMIT, cpu=ours.cpu_seconds, kafka_cpu=theirs.cpu_seconds, rival="cmp")  # fmt: skip


def export(bench: Bench) -> Iterator[Result]:
    """One partition, in each format."""
    size = _size(bench) // 4
    directory = _replica(bench, "none-0", "export", size)
    for form in ("jsonl", "csv", "arrow", "parquet"):
        place, runs = bench.out / f"export-{form}", []
        for _ in range(bench.runs):
            shutil.rmtree(place, ignore_errors=True)
            words = ("export", "--as", form, "--to", f"{place}/", str(directory))
            runs.append(run([*bench.kafkalog, *words], bench.home, bench.out / "export.out"))
        if not (place / f"none-0.{form}").stat().st_size:
            raise WrongRunError("export wrote nothing")
        shutil.rmtree(place)
        yield _row(f"{size / 1e6:.0f} MB, uncompressed", f"export --as {form}", runs)


def report(bench: Bench) -> Iterator[Result]:
    """A log of batches with one record each: the largest number of headers for its size."""
    size = _size(bench)
    directory, page = _replica(bench, "single-0", "report", size), bench.out / "report.html"
    words = [*bench.kafkalog, "report", "-o", str(page), str(directory)]
    runs = [run(words, bench.home, bench.out / "report.out", (0, 4)) for _ in range(bench.runs)]
    if not page.stat().st_size:
        raise WrongRunError("report wrote nothing")
    yield _row(f"{size / 1e6:.0f} MB, one record per batch", "report", runs)


def metadata(bench: Bench) -> Iterator[Result]:
    """The replay of a metadata log whose partitions change their leaders all the time."""
    directory = bench.home / "metadata/__cluster_metadata-0"
    count = max(1000, bench.records // 50)
    if not directory.exists():
        head = [leader_change(0, 1), batch(1, 1, topic(), *(partition(number) for number in range(_PARTITIONS)))]
        first = 2 + _PARTITIONS
        batches = (
            batch(first + at * _CHANGES, 1, *(change((at + one) % _PARTITIONS, leader=1 + at % 2) for one in range(_CHANGES)))
            for at in range(count)
        )
        write_log(directory, *head, *batches)
    for action in ("tree", "verify"):
        words = [*bench.kafkalog, "metadata", action, str(directory)]
        runs = [run(words, bench.home, bench.out / "metadata.out", (0, 4)) for _ in range(bench.runs)]
        yield _row(f"{count * _CHANGES} records of __cluster_metadata", f"metadata {action}", runs)


def _row(what: str, work: str, runs: list) -> Result:
    middle = median(runs)
    return Result(what, work, middle.seconds, None, None, middle.peak_bytes, peak_limit=PEAK_LIMIT, cpu=middle.cpu_seconds)

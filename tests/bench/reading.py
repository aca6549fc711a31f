"""What reading takes: all indexes of a partition against its log, raw batches beside cat, a lookup in 10 GiB."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from engine.files import ReadOnlyFiles
from engine.log.fetch.reading import FetchIsolation, fetch_offset_by_timestamp, read
from engine.log.fetch.view import PartitionView
from engine.record.builder import NewRecord, build_batch
from engine.record.windows import crc32c
from tests.bench.measure import WrongRunError, median, run
from tests.bench.report import Result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.findings import Finding
    from tests.bench.setting import Bench

LOOKUP_LIMIT = 0.005
_SEGMENTS, _SEGMENT_BYTES, _EPOCH = 10, 1 << 30, 1_700_000_000_000
_RECORDS = 10  # of a batch


def verify_index(bench: Bench) -> Iterator[Result]:
    """Every index of one partition; Kafka's tool takes the offset and the time index in one run."""
    name = bench.segment("none-0").removesuffix(".log")
    ours = [run([*bench.kafkalog, "verify", "none-0"], bench.home, bench.out / "verify.out") for _ in range(bench.runs)]
    files = f"{name}.index,{name}.timeindex"
    theirs = run([*bench.tool, "--verify-index-only", "--files", files], bench.home, bench.out / "kafka.out")
    our = median(ours)
    yield Result(bench.title("none-0"), "verify of all indexes", our.seconds, theirs.seconds, 50, our.peak_bytes,
                  theirs.peak_bytes, None, 100 << 20, our.cpu_seconds, theirs.cpu_seconds)  # fmt: skip


def raw(bench: Bench) -> Iterator[Result]:
    """`fetch --raw` of a large segment beside `cat` of the same; the target is 1 / 1.3 of its speed."""
    log = bench.large_log()
    if not log.with_suffix(".index").exists():
        subprocess.run([*bench.kafkalog, "verify", "--rebuild", "large-0"], cwd=bench.home, check=False,
                       stdout=subprocess.DEVNULL)  # fmt: skip
    ours, cats = [], []
    out = bench.out / "raw.out"
    for _ in range(max(5, bench.runs)):
        ours.append(run([*bench.kafkalog, "fetch", "--raw", "large-0"], bench.home, out))
        if out.stat().st_size != log.stat().st_size:
            raise WrongRunError(f"fetch --raw gave {out.stat().st_size} bytes, the log has {log.stat().st_size}")
        cats.append(run(["cat", str(log)], bench.home, out))
    our, cat = median(ours), median(cats)
    yield Result(f"{log.stat().st_size / (1 << 30):.1f} GiB", "fetch --raw", our.seconds, cat.seconds, 1 / 1.3,
                 our.peak_bytes, cat.peak_bytes, rival="cat")  # fmt: skip


def lookup(bench: Bench) -> Iterator[Result]:
    """A lookup by offset and one by timestamp, opening the partition included, start of the process excluded."""
    directory = bench.home / "sparse-1"
    done = subprocess.run([sys.executable, "-m", "tests.bench.reading", str(directory)], capture_output=True, text=True,
                          check=False, cwd=Path(__file__).parents[2])  # fmt: skip
    if done.returncode:
        raise WrongRunError(f"lookup: {done.stderr[-2000:]}")
    for what, seconds in json.loads(done.stdout).items():
        yield Result("10 GiB, sparse", f"lookup by {what}", seconds, None, None, limit=LOOKUP_LIMIT)


def sparse_partition(directory: Path) -> Path:
    """Ten segments of a gibibyte: all index entries, but only the batches that a lookup meets."""
    if (directory / "complete").exists():
        return directory
    directory.mkdir(exist_ok=True)
    template = bytearray(build_batch([NewRecord(at, _EPOCH + at, b"k", b"v" * 400, []) for at in range(_RECORDS)], base_offset=0))
    size = len(template)
    count = _SEGMENT_BYTES // size
    for segment in range(_SEGMENTS):
        base = segment * count * _RECORDS
        path = directory / f"{base:020d}.log"
        with path.open("wb") as log:
            log.truncate(count * size)
            for number in (*range(count // 2, count // 2 + 20), *range(count - 20, count)):
                first = base + number * _RECORDS
                template[:8], template[27:43] = struct.pack(">q", first), struct.pack(">qq", _EPOCH + first, _EPOCH + first + 9)
                template[17:21] = struct.pack(">I", crc32c(template[21:]))
                log.seek(number * size)
                log.write(template)
        entries = [(number * _RECORDS + _RECORDS - 1, number * size) for number in range(1, count)]
        path.with_suffix(".index").write_bytes(b"".join(struct.pack(">ii", *entry) for entry in entries))
        stamps = ((_EPOCH + base + offset, offset) for offset, _ in entries)
        path.with_suffix(".timeindex").write_bytes(b"".join(struct.pack(">qi", *entry) for entry in stamps))
    (directory / "complete").touch()
    return directory


def _refuse(finding: Finding) -> None:
    raise WrongRunError(f"lookup: {finding}")


def main(directory: str) -> None:
    """Measure lookups in a `sparse_partition`, made here where this process alone pays: the best of several, as JSON."""
    sparse_partition(Path(directory))
    bases = sorted(int(path.stem) for path in Path(directory).glob("*.log"))
    middle = bases[5] + (bases[6] - bases[5]) // 2 + 33
    best: dict[str, float] = {}
    for _ in range(20):
        for what in ("offset", "timestamp"):
            start = time.perf_counter()
            view = PartitionView(ReadOnlyFiles(), directory, _refuse)
            if what == "offset":
                place = read(view, middle, 1 << 20, FetchIsolation.LOG_END).place.message_offset
            else:
                found = fetch_offset_by_timestamp(view, _EPOCH + middle)
                place = -1 if found is None else found.offset
            seconds = time.perf_counter() - start
            view.close()
            if not middle - _RECORDS < place <= middle:
                raise WrongRunError(f"lookup by {what} of {middle} found {place}")
            best[what] = min(best.get(what, seconds), seconds)
    print(json.dumps(best))


if __name__ == "__main__":
    main(sys.argv[1])

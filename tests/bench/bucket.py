"""Commands on the S3 server of tests/s3, beside a plain GET of the same objects by the client that kafkalog uses."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from engine.record.builder import NewRecord, build_batch
from engine.remote.layouts import INDEX_FILE_NAMES
from tests.bench.data import SEGMENT
from tests.bench.measure import Run, WrongRunError, median, run, same_output
from tests.bench.report import Result
from tests.s3.server import PROGRAM, Server
from tests.support.corpus import tiered_directory
from tests.support.run import kafkalog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.bench.setting import Bench

_AS_GET, _AS_GET_AND_DUMP = 0.8, 1 / 1.5  # of the speed
_MEMORY = 128 << 20
_TOPIC_ID = "hYl3mU2kSAyXwS3rSSr8NA"
_SMALL = 2000  # segments of five objects
# a whole object by one request, to stdout as its parts come
_GET = """
import sys
from obstore import get
from obstore.store import from_url
for part in get(from_url(sys.argv[1]), sys.argv[2]).stream(8 << 20):
    sys.stdout.buffer.write(part)
"""


def in_bucket(bench: Bench) -> Iterator[Result]:
    """All rows, on one server."""
    if not PROGRAM.exists():
        raise WrongRunError("there is no S3 server: make object-server")
    top = bench.out / "s3"
    _store_of(bench, top / "data/tiered")
    shutil.copytree(bench.partition("none-0"), top / "data/copies/none-0")
    _small_segments(top / "data/small")
    with Server(top) as server, _environment(server.environment):
        yield _through(bench, _restored(top / "data/tiered", "large", bench.out / "restored"))
        yield _by_url(bench)
        small = _restored(top / "data/small", "small", bench.out / "restored-small")
        yield _verified(bench, small)
    shutil.rmtree(top)


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _get(bench: Bench, bucket: str, key: str) -> Run:
    return run([sys.executable, "-c", _GET, f"s3://{bucket}", key], bench.home, bench.out / "get.out")


def _through(bench: Bench, log_dir: Path) -> Result:
    """`fetch --raw` of a partition all of whose records are remote."""
    key = f"kafka-tiered-storage/large-0-{_TOPIC_ID}/{SEGMENT}-{'A' * 22}.log"
    words = ["fetch", "--raw", "--store", "s3://tiered", str(log_dir / "large-0")]
    ours, gets = [], []
    for _ in range(max(5, bench.runs)):
        gets.append(_get(bench, "tiered", key))
        ours.append(run([*bench.kafkalog, *words], bench.home, bench.out / "through.out"))
    same_output(bench.out / "through.out", bench.out / "get.out", "fetch --raw --store")
    our, get = median(ours), median(gets)
    size = (bench.out / "get.out").stat().st_size
    return Result(f"{size / (1 << 30):.1f} GiB", "fetch --raw --store s3://", our.seconds, get.seconds, _AS_GET, our.peak_bytes, get.peak_bytes,
                  None, _MEMORY, our.cpu_seconds, get.cpu_seconds, "GET")  # fmt: skip


def _by_url(bench: Bench) -> Result:
    """`dump-log` of a segment in a bucket; the same by a GET, and dump-log of the file."""
    ours, both = [], []
    for _ in range(max(5, bench.runs)):
        get = _get(bench, "copies", f"none-0/{SEGMENT}.log")
        dump = run([*bench.kafkalog, "dump-log", "--print-data-log", f"none-0/{SEGMENT}.log"], bench.home, bench.out / "dump.out")
        both.append(Run(get.seconds + dump.seconds, get.cpu_seconds + dump.cpu_seconds, max(get.peak_bytes, dump.peak_bytes)))
        words = ["dump-log", "--print-data-log", f"s3://copies/none-0/{SEGMENT}.log"]
        ours.append(run([*bench.kafkalog, *words], bench.home, bench.out / "url.out"))
    heads = [(bench.out / name).read_bytes().partition(b"\n")[2] for name in ("url.out", "dump.out")]
    if heads[0] != heads[1]:
        raise WrongRunError("dump-log of the URL and of the file differ")
    our, other = median(ours), median(both)
    return Result(bench.title("none-0"), "dump-log --print-data-log s3://", our.seconds, other.seconds, _AS_GET_AND_DUMP, our.peak_bytes,
                  other.peak_bytes, None, _MEMORY, our.cpu_seconds, other.cpu_seconds, "GET, dump-log")  # fmt: skip


def _verified(bench: Bench, log_dir: Path) -> Result:
    """`remote verify` of many objects, by listings."""
    words = [*bench.kafkalog, "remote", "verify", "--store", "s3://small", str(log_dir)]
    one = median([run(words, bench.home, bench.out / "verify.out") for _ in range(bench.runs)])
    if f"{_SMALL} segments, {5 * _SMALL} objects" not in (bench.out / "verify.out").read_text():
        raise WrongRunError("remote verify did not find all objects")
    return Result(f"{5 * _SMALL} objects", "remote verify --store s3://", one.seconds, None, None, one.peak_bytes, cpu=one.cpu_seconds)


def _restored(bucket: Path, topic: str, into: Path) -> Path:
    """A log dir on which the metadata of what a bucket holds is."""
    into.mkdir()
    for name in ("meta.properties", "bootstrap.checkpoint"):
        shutil.copy(tiered_directory() / "clean/d0" / name, into)
    done = kafkalog("remote", "restore", topic, "--into", str(into), "--store", f"s3://{bucket.name}", "--no-quarantine")
    if done.status:
        raise WrongRunError(f"remote restore: {done.err}")
    return into


def _store_of(bench: Bench, bucket: Path) -> None:
    """The bucket with a large segment, as LocalTieredStorage arranges it."""
    partition = bench.large_log().parent
    if not (partition / f"{SEGMENT}.index").exists():
        subprocess.run([*bench.kafkalog, "verify", "--rebuild", partition.name], cwd=bench.home, check=False, stdout=subprocess.DEVNULL)
    folder = bucket / f"kafka-tiered-storage/large-0-{_TOPIC_ID}"
    folder.mkdir(parents=True)
    stem = f"{SEGMENT}-{'A' * 22}"
    shutil.copy(partition / f"{SEGMENT}.log", folder / f"{stem}.log")
    for name in INDEX_FILE_NAMES.values():
        path = partition / name(int(SEGMENT))
        if path.exists():
            shutil.copy(path, folder / f"{stem}{path.suffix}")
    _small_parts(folder / stem)


def _small_segments(bucket: Path) -> None:
    folder = bucket / f"kafka-tiered-storage/small-0-{_TOPIC_ID}"
    folder.mkdir(parents=True)
    for offset in range(_SMALL):
        stem = folder / f"{offset:020d}-{offset:021d}A"
        stem.with_suffix(".log").write_bytes(build_batch([NewRecord(offset, 1000 + offset, None, b"v")]))
        stem.with_suffix(".index").touch()
        stem.with_suffix(".timeindex").write_bytes((1000 + offset).to_bytes(8, "big") + bytes(4))
        _small_parts(stem)


def _small_parts(stem: Path) -> None:
    """No producers, one leader epoch."""
    shutil.copy(tiered_directory() / "clean/d0/plain-0/00000000000000000127.snapshot", stem.with_suffix(".snapshot"))
    stem.with_suffix(".leader_epoch_checkpoint").write_text("0\n1\n0 0\n")

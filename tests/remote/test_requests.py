"""The number of requests and the memory for reading large remote segments, in a store that counts requests."""

from __future__ import annotations

import os
import random
import shutil
import struct
import tracemalloc
from contextlib import redirect_stdout
from itertools import count
from pathlib import Path
from threading import Semaphore

import pytest

from engine.errors import UnreadableFile
from engine.files import Files
from engine.record.builder import NewRecord, build_batch
from engine.remote import access
from engine.remote.aiven_layout import AivenLayout, NewSegments
from engine.remote.layouts import IndexKind
from engine.remote.metadata import PartitionMetadata, RemoteSegment
from engine.remote.ranged_file import RangedFile
from engine.remote.records import State
from engine.remote.storage import WritableFolderStore
from kafkalog_cli.main import main
from tests.remote.corpus import SETS, brokers_log_dirs, consumed, private_keys, stores
from tests.support.corpus import tiered_directory
from tests.support.run import kafkalog

TOPIC_ID = "hYl3mU2kSAyXwS3rSSr8NA"
SEGMENTS, SEGMENT = 3, 28 << 20  # number of remote segments, and nearly the bytes of each
PART = 4 << 20  # smallest average size of a request, in bytes
LARGEST = 7 << 20  # largest request in bytes


class CountingStore(WritableFolderStore):
    """See WritableStore. `ranges`: (key, start, end) of the reads of logs; `requests`: number of calls."""

    requests = 0
    ranges: list[tuple[str, int, int]] = []  # noqa: RUF012  # replaced by each test

    def list(self, prefix=""):
        CountingStore.requests += 1
        return super().list(prefix)

    def find(self, key):
        CountingStore.requests += 1
        return super().find(key)

    def read(self, found, start, end):
        CountingStore.requests += 1
        if found.key.endswith(".log"):
            self.ranges.append((found.key, start, end))
        return WritableFolderStore(self._changing, self.name).read(found, start, end)

    def find_and_read(self, key, start, end):
        CountingStore.requests += 1
        if key.endswith(".log"):
            self.ranges.append((key, start, end))
        return WritableFolderStore(self._changing, self.name).find_and_read(key, start, end)

    def read_whole(self, key, limit):
        CountingStore.requests += 1
        return WritableFolderStore(self._changing, self.name).read_whole(key, limit)


def value(number):
    return b"%09d" % number * 1000


@pytest.fixture(scope="module")
def remote(tmp_path_factory):
    """Return (store with all records of a partition, directory of the partition, bytes of its logs in the store)."""
    top = tmp_path_factory.mktemp("large")
    lines = b"".join(b"k:%s\n" % value(number) for number in range(9900))
    (top / "lines").write_bytes(lines)
    local = top / "local/big-0"
    local.parent.mkdir()
    done = kafkalog("append", "--create", "--input", str(top / "lines"), "--input-format", "text", "--config",
                    f"segment.bytes={SEGMENT}", str(local))  # fmt: skip
    assert done.status == 0, done.err
    folder = top / f"store/kafka-tiered-storage/big-0-{TOPIC_ID}"
    folder.mkdir(parents=True)
    logs = sorted(local.glob("*.log"))
    assert len(logs) == SEGMENTS + 1
    for number, path in enumerate(logs[:-1]):
        name = f"{path.stem}-AAAAAAAAAAAAAAAAAAAA{number}A"
        for suffix in ("log", "index", "timeindex"):
            shutil.copy(path.with_suffix(f".{suffix}"), folder / f"{name}.{suffix}")
        shutil.copy(logs[number + 1].with_suffix(".snapshot"), folder / f"{name}.snapshot")
        (folder / f"{name}.leader_epoch_checkpoint").write_text("0\n1\n0 0\n")
    into = top / "new"
    into.mkdir()
    for name in ("meta.properties", "bootstrap.checkpoint"):
        shutil.copy(tiered_directory() / "clean/d0" / name, into)
    done = kafkalog("remote", "restore", "big", "--into", str(into), "--store", str(top / "store"))
    assert done.status == 0, done.err
    return top / "store", into / "big-0", b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))


@pytest.fixture
def counted(monkeypatch):
    monkeypatch.setattr(access, "FolderStore", CountingStore)
    monkeypatch.setattr(CountingStore, "requests", 0)
    monkeypatch.setattr(CountingStore, "ranges", [])
    return CountingStore


def fetched(tmp_path, *words):
    """Return the output of `kafkalog fetch WORDS…`, which is written into a file piece by piece."""
    out = tmp_path / "out"
    with out.open("w") as file, redirect_stdout(file), pytest.raises(SystemExit) as ended:
        main(["fetch", *words])
    assert ended.value.code == 0
    return out


@pytest.mark.parametrize("words", [("--raw",), ("-f", "%s")])
def test_a_whole_partition_is_read_in_few_large_requests(remote, counted, tmp_path, words):
    store, directory, logs = remote
    end = int(next(directory.glob("*.log")).stem)
    found = fetched(tmp_path, "--store", str(store), *words, str(directory)).read_bytes()
    assert found == (logs if words == ("--raw",) else b"".join(map(value, range(end))))
    assert len(counted.ranges) <= len(logs) / PART
    assert counted.requests <= len(counted.ranges) + 4 * SEGMENTS
    assert max(end - start for _, start, end in counted.ranges) <= LARGEST


@pytest.mark.parametrize("words", [("--offset", "4000"), ("--time", "2000-01-01"), ("--offset", "0")])
def test_a_lookup_takes_four_requests(remote, counted, tmp_path, words):
    store, directory, logs = remote
    found = fetched(tmp_path, "--raw", *words, "--max-bytes", "1", "--store", str(store), str(directory)).read_bytes()
    assert 0 < len(found) < 40_000
    assert found in logs
    assert counted.requests <= 4


def lookups(name, folder):
    """Yield (arguments of `fetch`, the offset that it must print, the allowed number of requests) for remote records of a set.

    All segments are small, so they are found without their indexes. A transaction that ends in a later segment also needs the
    indexes of that one.
    """
    keys = [word for item in private_keys(folder).items() for word in ("--private-key", "=".join(item))] if name == "aiven" else []
    tops = brokers_log_dirs(name)
    of = {path.name: path for top in tops for path in Path(top).glob("*-*") if path.is_dir()}
    committed = dict(consumed(name, "read_committed"))
    for partition, rows in consumed(name, "read_uncommitted"):
        first_local = min((int(path.stem) for path in of[partition].glob("*.log")), default=0)
        remote = [row for row in rows or () if row["offset"] < first_local]
        times = [row["timestamp"] for row in remote]
        if not remote or times != sorted(times):
            continue
        words = ["--store", stores(name), *keys, *(word for top in tops for word in ("--log-dir", top)), "--limit", "1", "-f", "%o", str(of[partition])]
        for isolation, readable in (("read_uncommitted", rows), ("read_committed", committed[partition])):
            of_manifest = 1 if name == "aiven" else 0
            for row in (remote[len(remote) // 3], remote[-1]):
                first = next(one["offset"] for one in remote if one["timestamp"] == row["timestamp"])
                for option, value, wanted in (("--offset", row["offset"], row["offset"]), ("--time", row["timestamp"], first)):
                    if option == "--time" and "tx" in partition:  # markers have the time of their broker, far after that of the records
                        continue
                    found = next(one["offset"] for one in readable if one["offset"] >= wanted)
                    is_later = "tx" in partition and isolation == "read_committed"
                    yield (option, str(value), "--isolation", isolation, *words), found, (4 if is_later else 2) + of_manifest


@pytest.mark.parametrize("name", [name for name in ("clean", "aiven") if name in SETS])
def test_lookups_in_both_layouts_take_few_requests(name, counted, tmp_path):
    done = 0
    for words, offset, most in lookups(name, tmp_path):
        counted.requests = 0
        assert fetched(tmp_path, *words).read_text() == str(offset)
        assert 2 <= counted.requests <= most, words
        done += 1
    assert done >= 16


NO_PRODUCERS = tiered_directory() / "clean/d0/plain-0/00000000000000000127.snapshot"
SMALL = 2000  # segments, of five objects each


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Return (store, log dir) of a partition with many small segments."""
    top = tmp_path_factory.mktemp("many")
    folder = top / f"store/kafka-tiered-storage/small-0-{TOPIC_ID}"
    folder.mkdir(parents=True)
    for offset in range(SMALL):
        stem = folder / f"{offset:020d}-{offset:021d}A"
        stem.with_suffix(".log").write_bytes(build_batch([NewRecord(offset, 1000 + offset, None, b"v")]))
        stem.with_suffix(".index").write_bytes(b"")
        stem.with_suffix(".timeindex").write_bytes(struct.pack(">qi", 1000 + offset, 0))
        shutil.copy(NO_PRODUCERS, stem.with_suffix(".snapshot"))
        stem.with_suffix(".leader_epoch_checkpoint").write_text("0\n1\n0 0\n")
    into = top / "new"
    into.mkdir()
    for name in ("meta.properties", "bootstrap.checkpoint"):
        shutil.copy(tiered_directory() / "clean/d0" / name, into)
    done = kafkalog("remote", "restore", "small", "--into", str(into), "--store", str(top / "store"))
    assert done.status == 0, done.err
    return top / "store", into


def test_ten_thousand_objects_are_verified_by_listings(many, counted, capsysbinary):
    store, log_dir = many
    with pytest.raises(SystemExit) as ended:
        main(["remote", "verify", "--store", str(store), str(log_dir)])
    assert ended.value.code == 0
    assert f"{SMALL} segments, {5 * SMALL} objects".encode() in capsysbinary.readouterr().out
    assert counted.requests <= 2


@pytest.mark.parametrize("words", [("--raw",), ("-f", "%s")])
def test_memory_does_not_grow_with_the_number_of_segments(remote, tmp_path, words):
    store, directory, logs = remote
    tracemalloc.start()
    try:
        fetched(tmp_path, *words, "--store", str(store), str(directory))
        assert tracemalloc.get_traced_memory()[1] < 6 * LARGEST < len(logs)
    finally:
        tracemalloc.stop()


DATA = random.Random(5).randbytes(40 << 20)


def test_reads_of_any_order_and_size_give_the_bytes():
    rng, position = random.Random(7), 0
    file = RangedFile("f", len(DATA), lambda start, end: DATA[start:end])
    for _ in range(300):
        if rng.random() < 0.1:
            position = rng.randrange(len(DATA))
        size = rng.choice((1, 500, 70_000, 3 << 20, 9 << 20))
        assert file.read(position, size) == DATA[position : position + size]
        position += size
        if rng.random() < 0.05:
            file.close()


def test_two_pieces_are_under_way_while_one_is_written(tmp_path):
    begun, ahead = Semaphore(0), []
    with (tmp_path / "out").open("wb") as out:

        def fetch(start, end):
            ahead.append(start - os.fstat(out.fileno()).st_size)
            if start:
                begun.release()
            else:  # the first piece comes after the next two were asked for
                assert begun.acquire(timeout=60)
                assert begun.acquire(timeout=60)
            return DATA[start:end]

        RangedFile("f", len(DATA), fetch).send(out.fileno(), 0, len(DATA))
    assert (tmp_path / "out").read_bytes() == DATA
    assert max(ahead) == 2 * LARGEST
    assert len(ahead) == -(-len(DATA) // LARGEST)


@pytest.mark.parametrize("broken", [0, 1, 2, 3])
def test_an_error_of_any_request_reaches_the_reader(broken):
    calls, numbers = {}, count()

    def fetch(start, end):  # by several threads
        number = next(numbers)
        calls[number] = start
        if number == broken:
            raise UnreadableFile("f: 503 Slow Down")
        return DATA[start:end]

    file, position = RangedFile("f", len(DATA), fetch), 0
    with pytest.raises(UnreadableFile, match="Slow Down"):
        while position < len(DATA):
            assert file.read(position, 1 << 20) == DATA[position : position + (1 << 20)]
            position += 1 << 20
    assert position <= calls[broken]
    assert file.read(position, 100) == DATA[position : position + 100]


class OneLog:
    """The parts of a segment with one log in memory and empty indexes. See SegmentParts."""

    def __init__(self, log):
        self.log = log

    def log_size(self, position=None):  # noqa: ARG002  # of the interface
        return len(self.log)

    def read_log(self, start, end):
        return self.log[start:end]

    def index(self, kind):
        return b"" if kind is not IndexKind.TRANSACTION else None


def test_chunks_in_memory_do_not_grow_with_the_number_of_segments(tmp_path):
    store = WritableFolderStore(Files(), str(tmp_path))
    layout = AivenLayout(store, "", {}, NewSegments(2 << 20, is_compressed=True))
    partition = PartitionMetadata("t", bytes(20), 0)
    all_parts = []
    for number in range(40):
        segment = RemoteSegment(number.to_bytes(16), State.COPY_SEGMENT_STARTED, number, number, 3 << 20, 0, 1, 0,
                                txn_index_empty=True, leader_epochs=((0, number),), custom=None)  # fmt: skip
        for key, size, parts in layout.objects(partition, segment, OneLog(bytes([number]) * (3 << 20))):
            store.put(key, size, parts)
        all_parts.append(layout.parts(partition, segment))
    tracemalloc.start()
    try:
        for number, parts in enumerate(all_parts):
            assert bytes(parts.read_log(10, 20)) == bytes([number]) * 10
        assert tracemalloc.get_traced_memory()[0] < 20 << 20
    finally:
        tracemalloc.stop()

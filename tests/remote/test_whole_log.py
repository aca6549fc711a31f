"""dump-log and verify with --store give the same results as for the output of `remote download`, and write nothing."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from engine.record.builder import NewRecord, build_batch
from engine.remote.metadata import RemoteSegment, records_of
from engine.remote.records import State, UpdateRecord, encode_record, key_of, random_id, uuid_bytes
from tests.remote.corpus import OWN_ONLY, SETS, TOP, brokers_log_dirs, consumed, damaged, log_dirs, private_keys, stores
from tests.support.json_output import all_objects, objects_of
from tests.support.run import kafkalog

pytestmark = pytest.mark.skipif("clean" not in SETS, reason="names topics of this set")
NAMES = [name for name in ("clean", "aiven") if name in SETS]


def options(name, tmp_path):
    keys = [word for item in private_keys(tmp_path).items() for word in ("--private-key", "=".join(item))] if name == "aiven" else []
    return ["--store", stores(name), *keys, *(word for top in log_dirs(name) for word in ("--log-dir", top))]


@pytest.mark.parametrize("name", NAMES)
def test_a_dump_is_that_of_the_downloaded_log(name, tmp_path):
    (tmp_path / "keys").mkdir()
    words = options(name, tmp_path / "keys")
    store = words[: words.index("--log-dir")]
    done = kafkalog("remote", "download", "--into", str(tmp_path / "whole"), *store, *log_dirs(name))
    assert done.status == 0, done.err
    of = {path.name: path for top in brokers_log_dirs(name) for path in sorted(Path(top).glob("*-*")) if path.is_dir()}
    wholes = sorted(path for path in (tmp_path / "whole").glob("*-*") if path.is_dir())
    assert wholes
    for whole in wholes:
        local = of[whole.name]
        one, other = (kafkalog("dump-log", "--print-data-log", *more, str(path)) for more, path in ((words, local), ((), whole)))
        said, expected = one.out.replace(bytes(local), b"DIR"), other.out.replace(bytes(whole), b"DIR")
        files = [part for part in said.split(b"Dumping ") if b".log\n" in part[:200]]
        assert files == [part for part in expected.split(b"Dumping ") if b".log\n" in part[:200]]
        for suffix in (b".index\n", b".timeindex\n", b".txnindex\n"):
            parts = {part for part in said.split(b"Dumping ") if suffix in part[:200]}
            assert parts >= {part for part in expected.split(b"Dumping ") if suffix in part[:200]}


@OWN_ONLY
def test_a_selection_covers_remote_and_local_segments(tmp_path):
    top = brokers_log_dirs("clean")[0]
    done = kafkalog("dump-log", "--print-data-log", "--offset", "120:130", *options("clean", tmp_path), f"{top}/plain-0")
    assert [int(line.split()[2]) for line in done.out.decode().splitlines() if line.startswith("| offset: ")] == list(range(120, 130))


@pytest.mark.parametrize("name", NAMES)
def test_all_segments_of_a_sound_store_are_sound(name, tmp_path):
    words = options(name, tmp_path)
    done = kafkalog("verify", "--format", "jsonl", *words, *brokers_log_dirs(name))
    assert done.status == 0, done.err
    found = [one for one in all_objects(done.out) if one["type"] == "verification"]
    assert {one["verdict"] for one in found} == {"sound"}
    assert sum(one["remote_segments"] for one in found) > 10
    text = kafkalog("verify", *words, *brokers_log_dirs(name)).out.decode()
    assert f"segments, {max(one['remote_segments'] for one in found)} of them remote" in text


def flip(path):
    data = bytearray(path.read_bytes())
    data[-1 if path.suffix == ".indexes" else len(data) // 2] ^= 1  # the last index of Aiven's is that of the leader epochs
    path.write_bytes(data)


@pytest.mark.parametrize(("name", "suffix"), [
    *(("clean", one) for one in ("log", "timeindex", "snapshot", "leader_epoch_checkpoint")), ("aiven", "indexes"), ("aiven", "log"),
])  # fmt: skip
@pytest.mark.parametrize("change", [flip, Path.unlink])
@pytest.mark.parametrize("which", [0, -1])
def test_a_damaged_object_of_any_kind_is_named(name, suffix, change, which, tmp_path):
    """Also those that are not a file of the whole log: leader epochs, and the snapshot where the local log begins."""
    if name not in NAMES:
        pytest.skip("reads this set")
    store = tmp_path / "store"
    shutil.copytree(stores(name), store)
    replica = next(path for top in brokers_log_dirs(name) for path in Path(top).glob("plain-0"))
    folder = "plain-0-*" if name == "clean" else "plain-*/0"
    path = sorted(store.rglob(f"{folder}/*.{suffix}"))[which]
    for one in (path.parent, path):
        one.chmod(one.stat().st_mode | 0o200)
    change(path)
    words = options(name, tmp_path)
    words[1] = str(store)
    done = kafkalog("verify", "--format", "jsonl", *words, str(replica))
    assert done.status in (4, 8)
    assert path.name in done.out.decode()


@pytest.mark.parametrize(("variant", "code"), [
    ("truncated-mid-batch", "remote-object-size"), ("flipped-in-record", None), ("flipped-in-length", None), ("missing-index", "remote-object-missing"),
    ("missing-log", None), ("swapped-logs", None),
])  # fmt: skip
def test_damage_is_reported_with_the_object(variant, code, tmp_path):
    try:
        top = damaged(variant, tmp_path / "top")
    except FileNotFoundError:
        pytest.skip("the corpus has no such variant")
    changed = [line.split("\t")[1] for line in (Path(stores("clean")).parent.parent / "damaged" / variant / "changes.txt").read_text().splitlines()]
    dirs = sorted(map(str, top.glob("d?")))
    words = ["--store", str(top / "remote"), *(word for one in dirs for word in ("--log-dir", one))]
    done = kafkalog("verify", *words, *dirs)
    assert done.status != 0
    assert any(name in done.err for name in changed if name.startswith("remote/")), done.err
    assert code is None or f"[{code}]" in done.err


@OWN_ONLY
def test_without_the_metadata_the_local_log_is_read_and_the_rest_is_an_error(tmp_path):
    top = next(top for top in brokers_log_dirs("clean") if (Path(top) / "plain-0").is_dir())
    other = next(path for path in Path(top).iterdir() if path.name == "plain-0")
    (tmp_path / "d").mkdir()
    (tmp_path / "d/plain-0").symlink_to(other)
    for name in ("log-start-offset-checkpoint", "meta.properties"):
        (tmp_path / "d" / name).write_bytes((Path(top) / name).read_bytes())
    done = kafkalog("dump-log", "--store", stores("clean"), str(tmp_path / "d/plain-0"))
    assert done.out == kafkalog("dump-log", str(tmp_path / "d/plain-0")).out
    assert done.status != 0
    assert "name the log dirs" in done.err


@pytest.mark.parametrize(("words", "said"), [
    (("verify", "--rebuild", "--store", "/", "/"), "leave out --store"), (("verify", "--log-dir", "/", "/"), "--log-dir needs --store"),
    (("dump-log", "--log-dir", "/", "/"), "--log-dir needs --store"), (("dump-log", "--key-prefix", "x", "/"), "--key-prefix needs --store"),
])  # fmt: skip
def test_options_that_exclude_each_other(words, said):
    done = kafkalog(*words)
    assert (done.status, said in done.err) == (2, True)


def test_an_invalid_store(tmp_path):
    for command in ("dump-log", "verify"):
        done = kafkalog(command, "--store", str(tmp_path / "none"), str(tmp_path))
        assert done.status not in (0, 1)
        assert f"{tmp_path}/none" in done.err


def size_of_batch(log, at):
    return 12 + int.from_bytes(log[at + 8 : at + 12])


class Copies:
    """A copy of `clean` in which leaders copied other segments of plain-0. known: its remote segments by start offset, as listed."""

    def __init__(self, tmp_path):
        self.top, self._work = tmp_path / "top", tmp_path / "local-0"
        shutil.copytree(TOP / "clean", self.top)
        for path in [self.top, *self.top.rglob("*")]:
            path.chmod(path.stat().st_mode | 0o200)
        listed = objects_of(kafkalog("remote", "list", "--topic", "plain", "--format", "jsonl", *self.dirs).out)
        self.known = {one["start_offset"]: one for one in listed if one["type"] == "remote-segment" and one["partition"] == 0}
        number = next(one["metadata_partition"] for one in listed if one["type"] == "remote-partition" and one["partition"] == 0)
        self._metadata = next(self.top.glob(f"d?/__remote_log_metadata-{number}"))
        self._folder = next((self.top / "remote/kafka-tiered-storage").glob("plain-0-*"))
        self._key = key_of(self.known[0]["topic_id"], 0)
        self._records = []

    @property
    def dirs(self):
        return sorted(str(path) for path in self.top.glob("d?"))

    def log(self, start):
        return (self._folder / f"{start:020d}-{self.known[start]['id']}.log").read_bytes()

    def add(self, start, end, log, like):
        """Add a segment with indexes of its own, and the other parts of the segment `like`; return its log."""
        old = self.known[like]
        made = RemoteSegment(random_id(), State.COPY_SEGMENT_STARTED, start, end, len(log), old["max_timestamp"], 1, old["event_timestamp"] + 1,
                             txn_index_empty=True, leader_epochs=((0, start),), custom=None)  # fmt: skip
        shutil.rmtree(self._work, ignore_errors=True)
        self._work.mkdir()
        (self._work / f"{start:020d}.log").write_bytes(log)
        (self._work / f"{end + 1:020d}.log").touch()
        assert kafkalog("verify", "--rebuild", str(self._work)).status in (0, 1)
        path = self._folder / f"{start:020d}-{made.name}.log"
        path.write_bytes(log)
        for suffix in (".index", ".timeindex"):
            shutil.copy(self._work / f"{start:020d}{suffix}", path.with_suffix(suffix))
        for suffix in (".snapshot", ".leader_epoch_checkpoint"):
            shutil.copy(self._folder / f"{like:020d}-{old['id']}{suffix}", path.with_suffix(suffix))
        self._records += records_of(made, "plain", self._key)
        return path

    def delete(self, start):
        for path in self._folder.glob(f"{start:020d}-{self.known[start]['id']}.*"):
            path.unlink()
        self._records += [UpdateRecord(self._key, b"plain", uuid_bytes(self.known[start]["id"]), 1, 1, None, state)
                          for state in (State.DELETE_SEGMENT_STARTED, State.DELETE_SEGMENT_FINISHED)]  # fmt: skip

    def commit(self):
        """Append the records, and return the partition and the options that name the store."""
        active = max(self._metadata.glob("*.log"))
        end = 1 + int(kafkalog("fetch", "-f", "%o ", str(self._metadata)).out.split()[-1])
        data = build_batch([NewRecord(end + at, 1_800_000_000_000, None, encode_record(record)) for at, record in enumerate(self._records)])
        active.write_bytes(active.read_bytes() + data)
        return next(self.top.glob("d?/plain-0")), ("--store", str(self.top / "remote"), *(word for one in self.dirs for word in ("--log-dir", one)))


def are_read_as_by_consumers(path, words):
    """`fetch` and `dump-log` print each record once, and the files are those of the first offsets of the segments."""
    rows = [row["offset"] for row in dict(consumed("clean", "read_uncommitted"))["plain-0"]]
    assert kafkalog("fetch", *words, "-f", "%o ", str(path)).out.decode().split() == list(map(str, rows))
    done = kafkalog("dump-log", "--print-data-log", *words, str(path))
    assert done.status == 0, done.err
    assert [int(name) for name in re.findall(r"/(\d{20})\.log$", done.out.decode(), re.MULTILINE)][:6] == [0, 26, 55, 78, 104, 127]
    offsets = [int(line.split()[2]) for line in done.out.decode().splitlines() if line.startswith("| offset: ")]
    assert offsets == rows
    done = kafkalog("verify", *words, str(path))
    assert done.err == ""
    assert "6 segments, 5 of them remote" in done.out.decode()


@OWN_ONLY
def test_overlapping_segments_are_read_as_consumers_read_them(tmp_path):
    copies = Copies(tmp_path)
    first, second = copies.log(26), copies.log(55)
    at = size_of_batch(first, 0)
    start = int.from_bytes(first[at : at + 8])
    assert 26 < start < 55
    made = copies.add(start, 77, first[at:] + second, 55)  # a new leader copied offset 55 with other segments
    copies.add(78, copies.known[78]["end_offset"], copies.log(78), 78)  # twice
    copies.delete(55)
    path, words = copies.commit()
    are_read_as_by_consumers(path, words)
    done = kafkalog("remote", "download", "--topic", "plain", "--into", str(tmp_path / "whole"), *words[:2], *copies.dirs)
    assert done.status == 4
    assert "overlap at offset 55" in done.err
    data = bytearray(made.read_bytes())
    data[-1] ^= 1
    made.write_bytes(data)
    at = last = 0
    while at < len(data):
        at, last = at + size_of_batch(data, at), at
    done = kafkalog("verify", *words, str(path))
    assert done.status == 4
    assert f"{made} at byte {last}, offset " in done.err


@OWN_ONLY
@pytest.mark.parametrize("batches", [1, 3])
def test_a_remote_segment_that_overlaps_the_local_log_is_read_up_to_it(batches, tmp_path):
    copies = Copies(tmp_path)
    local = next(copies.top.glob(f"d?/plain-0/{127:020d}.log")).read_bytes()
    at = last = 0
    for _ in range(batches):
        at, last = at + size_of_batch(local, at), at
    end = int.from_bytes(local[last : last + 8]) + int.from_bytes(local[last + 23 : last + 27])
    made = copies.add(104, end, copies.log(104) + local[:at], 104)
    copies.delete(104)
    path, words = copies.commit()
    are_read_as_by_consumers(path, words)
    done = kafkalog("remote", "download", "--topic", "plain", "--into", str(tmp_path / "whole"), *words[:2], *copies.dirs)
    assert done.status == 4
    assert "in the middle of the first local ones" in done.err
    made.write_bytes(made.read_bytes()[:-1])  # in a batch that is local too
    done = kafkalog("verify", *words, str(path))
    assert done.status == 4
    assert f"error[remote-object-size] {made}" in done.err


@OWN_ONLY
def test_segments_after_a_gap_are_read(tmp_path):
    top = tmp_path / "top"
    shutil.copytree(TOP / "clean", top)
    for path in [top, *top.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o200)
    path = next(top.glob("d?/plain-0"))
    (path / "leader-epoch-checkpoint").write_text("0\n1\n0 30\n")
    dirs = [word for one in sorted(top.glob("d?")) for word in ("--log-dir", str(one))]
    done = kafkalog("dump-log", "--print-data-log", "--store", str(top / "remote"), *dirs, str(path))
    assert done.status == 4
    assert "no leader epoch has offset 0: brokers do not read the records up to 29 either" in done.err
    assert [int(name) for name in re.findall(r"/(\d{20})\.log$", done.out.decode(), re.MULTILINE)] == [26, 55, 78, 104, 127]

"""Reading remote segments returns the records that a consumer read from the broker, and the bytes of its fetch requests."""

from __future__ import annotations

import hashlib
import json
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.config.server import Settings
from engine.files import ReadOnlyFiles
from engine.formats import PRODUCER_SNAPSHOT_ENTRY, PRODUCER_SNAPSHOT_HEADER, ProducerSnapshotEntry, ProducerSnapshotHeader
from engine.log.errors import OffsetOutOfRange
from engine.log.fetch.reading import FetchIsolation, read
from engine.record.windows import crc32c
from engine.remote.access import open_layout, open_store
from engine.remote.layouts import IndexKind
from engine.remote.metadata import RemoteSegment
from engine.remote.partitions import TieredPartitions
from engine.remote.reading import TieredView
from engine.remote.records import State
from engine.remote.segment_view import RemoteSegmentView
from tests.remote.corpus import (
    OWN_ONLY,
    SETS,
    TOP,
    as_consumed,
    brokers_log_dirs,
    consumed,
    damaged,
    private_keys,
    stores,
    truth,
)
from tests.support.run import kafkalog

ANSWERED = [name for name in SETS if (TOP / name / "truth/offsets.jsonl").exists()]
ISOLATIONS = {"read_uncommitted": FetchIsolation.HIGH_WATERMARK, "read_committed": FetchIsolation.READ_COMMITTED}


@contextmanager
def opened(name, tmp_path, report=lambda _finding: None):
    """Return a function that opens the log of a (topic, partition) of a set with its remote segments."""
    files = ReadOnlyFiles()
    partitions = TieredPartitions(files, brokers_log_dirs(name), Settings(), (), report)
    keys = private_keys(tmp_path) if name == "aiven" else {}
    layout = open_layout(open_store(files, stores(name)), "auto", None, keys)

    @contextmanager
    def of(key):
        with partitions.open(partitions.directories[key]) as log:
            view = TieredView(log, layout, report)
            yield view
            view.close()

    yield partitions, of


def by_partition(rows):
    found = {}
    for row in rows:
        found.setdefault((row["topic"], row["partition"]), []).append(row)
    return found


def fetched(log, row):
    """Return (error, bytes, aborted transactions) of a fetch request."""
    try:
        data = read(log, row["offset"], row["max_bytes"], ISOLATIONS[row["isolation"]])
    except OffsetOutOfRange:
        return "OFFSET_OUT_OF_RANGE", b"", None
    found = data.file.read_exactly(data.place.position, data.size) if data.file is not None else b""
    return "NONE", found, data.aborted


@pytest.mark.parametrize("name", ANSWERED)
def test_every_fetch_gives_the_bytes_that_the_broker_gave(name, tmp_path):
    checked = with_aborted = 0
    with opened(name, tmp_path) as (partitions, of):
        for key, rows in by_partition(truth(name, "fetches.jsonl")).items():
            if key not in partitions.directories:
                assert name == "pair"  # a topic without records whose log is on the third broker only
                continue
            with of(key) as log:
                for row in rows:
                    error, data, aborted = fetched(log, row)
                    assert error == row["error"], row
                    if error != "NONE":
                        continue
                    assert (len(data), hashlib.sha256(data).hexdigest()) == (row["bytes"], row["sha256"]), row
                    checked += 1
                    if row.get("aborted"):
                        pairs = set(map(tuple, row["aborted"]))
                        assert {(txn.producer_id, txn.first_offset) for txn in aborted} == pairs, row
                        with_aborted += 1
    assert checked > 100
    assert with_aborted


@pytest.mark.parametrize("name", ANSWERED)
def test_times_lead_to_the_offsets_that_the_broker_found(name, tmp_path):
    asked = 0
    with opened(name, tmp_path) as (partitions, of):
        for answer in truth(name, "offsets.jsonl"):
            key = (answer["topic"], answer["partition"])
            if key not in partitions.directories:
                continue
            with of(key) as log:
                for one in answer["timestamps"]:
                    found = log.offset_by_timestamp(one["at"])
                    got = {"offset": -1, "timestamp": -1, "leader_epoch": None} if found is None else found._asdict()
                    assert got == one["found"], (key, one["at"])
                    asked += 1
    assert asked > 50


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("name", ANSWERED)
def test_fetch_shows_what_a_consumer_read(name, isolation, tmp_path):
    dirs, shown = brokers_log_dirs(name), 0
    more = [word for path in dirs for word in ("--log-dir", path)]
    if name == "aiven":
        more += [word for item in private_keys(tmp_path).items() for word in ("--private-key", "=".join(item))]
    for directory, rows in consumed(name, isolation):
        [path] = [f"{path}/{directory}" for path in dirs if (TOP / path / directory).is_dir()][:1] or [None]
        if path is None or rows is None or directory.startswith("__"):
            continue
        done = kafkalog("fetch", "--store", stores(name), *more, "--isolation", isolation, "--format", "jsonl", path)
        found = [row for row in map(json.loads, done.out.splitlines()) if row["type"] == "fetched-record"]
        assert [as_consumed(row) for row in found] == rows, directory
        shown += len(rows)
    assert shown > 300


@pytest.mark.skipif("clean" not in SETS, reason="names topics of the set clean")
def test_export_has_the_rows_of_fetch_with_the_store(tmp_path):
    dirs, names = brokers_log_dirs("clean"), ("topic", "partition", "offset", "timestamp", "key", "value", "key_b64", "value_b64")
    more = ["--store", stores("clean"), *(word for path in dirs for word in ("--log-dir", path))]
    there = {path.name: path for top in dirs for path in Path(top).glob("[!_]*-?")}
    rows, local = {}, {}
    for found, options in ((rows, more), (local, [])):
        for name, path in there.items():
            done = kafkalog("fetch", "--format", "jsonl", *options, str(path))
            lines = [row for row in map(json.loads, done.out.splitlines()) if row["type"] == "fetched-record"]
            found[name] = [{one: row[one] for one in names if one in row} for row in lines]
    words = ("export", "--as", "jsonl", "--jobs", "3", "--to", f"{tmp_path}/out/", *dirs, *more)
    assert kafkalog(*words, "-t", "[!_]*").status == 0
    for name, wanted in rows.items():
        lines = map(json.loads, (tmp_path / f"out/{name}.jsonl").read_text().splitlines())
        assert [{one: row[one] for one in names if one in row} for row in lines] == wanted, name
    assert sum(map(len, rows.values())) > sum(map(len, local.values()))
    refused = kafkalog("export", "--as", "jsonl", "--resume", "--to", f"{tmp_path}/out", *dirs)
    assert (refused.status, "--store" in refused.err) == (2, True)  # without the store, it would have other records
    assert "complete before" in kafkalog(*words, "-t", "[!_]*", "--resume").out.decode()


@OWN_ONLY
def test_export_counts_a_damaged_object_as_a_problem(tmp_path):
    top = damaged("truncated-mid-batch", tmp_path / "top")
    words = ("--store", str(top / "remote"), "--log-dir", str(top / "d1"), str(top / "d0/clock-0"))
    done = kafkalog("export", "--as", "jsonl", "--to", f"{tmp_path}/out/", *words)
    assert (done.status, "remote-object-size" in done.err) == (4, True)
    again = kafkalog("export", "--as", "jsonl", "--resume", "--to", f"{tmp_path}/out", *words)
    assert (again.status, "2 problems when they were read" in again.out.decode()) == (4, True)


@OWN_ONLY
def test_raw_batches_are_those_of_the_objects_and_then_the_local_log():
    dirs = brokers_log_dirs("clean")
    done = kafkalog("fetch", "--raw", "--store", stores("clean"), "--log-dir", dirs[1], f"{dirs[0]}/plain-0")
    folder = next((TOP / "clean/remote/kafka-tiered-storage").glob("plain-0-*"))
    logs = [*sorted(folder.glob("*.log")), *sorted((TOP / "clean/d0/plain-0").glob("*.log"))]
    assert done.status == 0
    assert done.out == b"".join(path.read_bytes() for path in logs)


@OWN_ONLY
def test_a_missing_object_is_named(tmp_path):
    top = damaged("missing-log", tmp_path / "top")
    changed = (TOP / "damaged/missing-log/changes.txt").read_text().split("\t")[1].strip()
    done = kafkalog("fetch", "--store", str(top / "remote"), "--log-dir", str(top / "d1"), str(top / "d0/plain-0"))
    assert done.status == 8
    assert f"error[unreadable-file] {top}/{changed}: the object does not exist" in done.err


@OWN_ONLY
def test_a_shorter_object_is_a_finding(tmp_path):
    top = damaged("truncated-mid-batch", tmp_path / "top")
    done = kafkalog("fetch", "--store", str(top / "remote"), "--log-dir", str(top / "d1"), str(top / "d0/clock-0"))
    assert done.status in (4, 8)
    assert "remote-object-size" in done.err


@OWN_ONLY
def test_without_the_metadata_the_error_says_which_log_dirs_to_name():
    dirs = brokers_log_dirs("clean")
    done = kafkalog("fetch", "--store", stores("clean"), f"{dirs[1]}/codecs-0", f"{dirs[0]}/plain-0")
    assert "--log-dir DIR" in done.err or done.status == 0


@pytest.mark.parametrize("words", [("--key-prefix", "x"), ("--private-key", "k=f")])
def test_options_of_stores_need_one(words):
    done = kafkalog("fetch", *words, "x-0")
    assert (done.status, f"{words[0]} needs --store" in done.err) == (2, True)


class Together:
    """The parts of a segment of which one request reads all besides the log. asked: the kinds that were read."""

    def __init__(self, *, are_together, snapshot):
        self.are_indexes_together, self._snapshot, self.asked = are_together, snapshot, []

    def path(self, kind):
        return str(kind)

    def index(self, kind):
        self.asked.append(kind)
        return self._snapshot if kind is IndexKind.PRODUCER_SNAPSHOT else b""


def snapshot_of(*open_since):
    """Return the snapshot of producers with these first offsets of open transactions; −1: none is open."""
    entries = [PRODUCER_SNAPSHOT_ENTRY.pack(ProducerSnapshotEntry(number, 0, 1, 90, 0, 0, 0, first)) for number, first in enumerate(open_since)]
    head = PRODUCER_SNAPSHOT_HEADER.pack(ProducerSnapshotHeader(1, 0, len(entries)))
    data = b"".join((head, *entries))
    return PRODUCER_SNAPSHOT_HEADER.pack(ProducerSnapshotHeader(1, crc32c(data[6:]), len(entries))) + data[len(head) :]


@pytest.mark.parametrize(("are_together", "snapshot", "is_complete"), [
    (True, snapshot_of(), True), (True, snapshot_of(-1, -1), True), (True, snapshot_of(-1, 50), True), (True, snapshot_of(-1, 49), False),
    (True, snapshot_of()[:-1], False), (True, b"", False), (True, None, False), (False, snapshot_of(), False),
])  # fmt: skip
def test_later_segments_are_needed_only_for_transactions_that_are_open_in_the_snapshot(are_together, snapshot, is_complete):
    parts = Together(are_together=are_together, snapshot=snapshot)
    segment = RemoteSegment(bytes(16), State.COPY_SEGMENT_FINISHED, 40, 99, 1000, 0, 1, 0, txn_index_empty=False, leader_epochs=((0, 40),), custom=None)
    view = RemoteSegmentView(parts, segment, lambda _finding: None)
    assert view.collect_aborted_txns(45, 50) == ([], is_complete)
    assert (IndexKind.PRODUCER_SNAPSHOT in parts.asked) == are_together

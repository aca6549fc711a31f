"""A real broker on what `kafkalog remote restore` made of a store: it serves everything, takes new records, and copies on."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from tests.oracle.broker import Broker
from tests.remote.corpus import TOP, consumed, damaged, truth
from tests.remote.test_orphans import writable
from tests.remote.test_restore import NOT_LIMITED, lost
from tests.remote.test_upload import never_copied
from tests.support.run import kafkalog

pytestmark = pytest.mark.oracle
ALL = os.environ.get("KAFKALOG_BROKER") == "all"
PATIENCE = 60  # seconds


def store_of(name, tmp_path):
    """A copy of the store of a set, which a broker may change."""
    store = tmp_path / "remote"
    shutil.copytree(TOP / name / "remote", store)
    for path in [store, *store.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o200)
    return store


def restored(top, store, *words, topics=("*",)):
    done = kafkalog("remote", "restore", *topics, "--into", str(top / "d0"), "--log-dir", str(top / "d1"), "--store", str(store), *words)
    assert done.status == 0, done.err
    return {path.name: int(max(one.name for one in path.glob("*.log"))[:20])
            for path in (top / "d0").iterdir() if path.is_dir() and not path.name.startswith("__")}  # fmt: skip


def serves_what_was_copied(broker, name, ends):
    """Does a consumer get what it got from the brokers that are lost, up to where logs end now?"""
    # records that were deleted inside of the first segment can be read again
    starts = {f"{one['topic']}-{one['partition']}": one["earliest"]["offset"] for one in truth(name, "offsets.jsonl")}
    count = 0
    for isolation in ("read_uncommitted", "read_committed"):
        found = broker.read_all(isolation)
        for partition, rows in consumed(name, isolation):
            if partition not in ends:
                continue
            expected = [(row["offset"], row["timestamp"], row["key"], row["value"]) for row in rows if row["offset"] < ends[partition]]
            given = [row for row in found.get(partition, []) if starts[partition] <= row[0] < ends[partition]]
            assert given == expected, (isolation, partition)
            count += len(expected)
    assert count > 1000


def whole_logs(dirs, *without):
    """Return a bound above the end of every log, except of topics that begin with `without`, and of one whose transaction is open.

    The coordinator ends that transaction some time after the start.
    """
    return {path.name: 2**62 for log_dir in dirs for path in Path(log_dir).iterdir()
            if path.is_dir() and not path.name.startswith(("__", "open-tx", *without))}  # fmt: skip


def goes_on(broker, topic):
    """Does it take new records, and copy them?"""
    before, copied = broker.end_offsets(), broker.end_offsets(-5)
    for number in range(3):
        broker.produce(topic, [f"line {number}"] * 10)
        time.sleep(1.2)  # then a segment is old enough to be rolled
    after = broker.end_offsets()
    assert sum(after[name] - before[name] for name in after if name.startswith(topic)) == 30
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        latest = broker.end_offsets(-5)
        if any(latest[name] > copied[name] for name in latest if name.startswith(topic)):
            return
    pytest.fail("no new segment was copied")


def serves_and_goes_on(broker, ends):
    """Does it start, serve what was copied, take new records, and copy them? It runs already."""
    assert broker.has_started, broker.said[-2000:]
    serves_what_was_copied(broker, "clean", ends)
    goes_on(broker, "plain")


def makes_room(broker, top):
    """Does local retention delete what is remote now?"""
    assert broker.has_started, broker.said[-2000:]
    cold = top / "d0/cold-0/00000000000000000000.log"
    deadline = time.monotonic() + PATIENCE
    while cold.exists() and time.monotonic() < deadline:
        time.sleep(0.5)
    assert not cold.exists()


def test_a_new_cluster_serves_what_the_bucket_has(kafka, tmp_path):
    top, store = tmp_path / "top", store_of("clean", tmp_path)
    top.mkdir()
    objects = {path for path in store.rglob("*") if path.is_file()}
    broker = Broker(top, store=store)
    broker.format("AAAAAAAAAAAAAAAAAAAAAQ")
    ends = restored(top, store, "--metadata-partitions", "3")
    with broker:
        serves_and_goes_on(broker, ends)
        assert objects <= {path for path in store.rglob("*") if path.is_file()}
    assert not list(top.glob("d*/*-stray"))


@pytest.mark.skipif(not ALL, reason="one start suffices outside of make oracle")
@pytest.mark.parametrize("words", [(), ("--full",)])
@pytest.mark.parametrize("metadata", [False, True])
def test_a_cluster_whose_metadata_is_left_serves_it(words, metadata, kafka, tmp_path):
    top, store = tmp_path / "top", store_of("clean", tmp_path)
    lost("clean", top, metadata=metadata)
    ends = restored(top, store, *words, topics=("[!e]*", "epochs", "expired-time") if words else ("*",))  # not expired-size
    with Broker(top, store=store) as broker:
        serves_and_goes_on(broker, ends)
    assert not list(top.glob("d*/*-stray"))


@pytest.mark.skipif(not ALL, reason="one start suffices outside of make oracle")
def test_a_broker_reads_again_what_repair_metadata_made_known(kafka, tmp_path):
    """Without it, each leader moves the log start up to its first local segment, see the corpus."""
    top = damaged("metadata-gone", tmp_path / "top")
    dirs = [str(top / "d0"), str(top / "d1")]
    done = kafkalog("remote", "repair-metadata", "--no-quarantine", "--store", str(top / "remote"), *dirs)
    assert done.status == 0, done.err
    ends = whole_logs(dirs)
    with Broker(top, store=top / "remote") as broker:
        serves_and_goes_on(broker, ends)


@pytest.mark.skipif(not ALL, reason="one start suffices outside of make oracle")
def test_a_broker_reads_past_records_that_were_replaced(kafka, tmp_path):
    """Its consumer of the topic ends at them, and waits for the record before the log end."""
    top = writable("clean", tmp_path)
    dirs = [str(top / "d0"), str(top / "d1")]
    (tmp_path / "input").write_text('{"value": "a line"}\n' * 6)
    for log in sorted(path for log_dir in dirs for path in Path(log_dir).glob("__remote_log_metadata-*")):
        assert kafkalog("append", "--input", str(tmp_path / "input"), str(log)).status == 0
    done = kafkalog("remote", "repair-metadata", "--replace-undecodable", "--no-quarantine", *dirs)
    assert done.status == 1, done.err
    ends = whole_logs(dirs)
    with Broker(top, store=top / "remote") as broker:
        serves_and_goes_on(broker, ends)


@pytest.mark.skipif(not ALL, reason="one start suffices outside of make oracle")
def test_a_broker_reads_what_upload_copied(kafka, tmp_path):
    top, _ = never_copied("clean", tmp_path)
    store = tmp_path / "store"
    store.mkdir()
    dirs = [str(top / "d0"), str(top / "d1")]
    topics = [word for name in NOT_LIMITED for word in ("--topic", name)]
    layout = ("--layout", "local", "--key-prefix", "kafka-tiered-storage/", "--store", str(store))
    done = kafkalog("remote", "upload", "--no-quarantine", *layout, *topics, *dirs)
    assert done.status == 0, done.err
    ends = whole_logs(dirs, "expired-size")
    with Broker(top, store=store) as broker:
        makes_room(broker, top)
        serves_and_goes_on(broker, ends)

"""`kafkalog remote cost`: every object of a store counts once, and each segment that no broker reads has a reason."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import ClassVar

import pytest

from engine.remote.cost import Amount
from engine.remote.cost import costs as costs_of
from engine.remote.inventory import StoredSegment
from engine.remote.layouts import ObjectName
from engine.remote.metadata import RemoteLogMetadata, RemoteSegment, records_of
from engine.remote.orphans import Found
from engine.remote.records import State, key_of, random_id, uuid_text
from engine.remote.storage import Object
from tests.remote.corpus import OWN_ONLY, SETS, TOP, damaged, log_dirs, stores
from tests.support.json_output import objects_of
from tests.support.run import kafkalog


def costs(store, dirs, *words):
    done = kafkalog("remote", "cost", "--format", "jsonl", "--store", store, *words, *dirs)
    assert done.status in (0, 4)
    rows = [row for row in objects_of(done.out) if row["type"] == "remote-cost"]
    return rows[:-1], rows[-1]


def sizes(store):
    return [path.stat().st_size for path in Path(store).rglob("*") if path.is_file()]


def unread(rows):
    return {(row["topic"], why): amount["segments"] for row in rows for why, amount in row["unread"].items()}


@pytest.mark.parametrize("name", SETS)
def test_sums_are_those_of_a_listing(name):
    rows, total = costs(stores(name), log_dirs(name))
    found = sizes(stores(name))
    assert (total["scope"], total["size"], total["objects"]) == ("total", sum(found), len(found))
    for field in ("size", "objects", "segments"):
        assert sum(row[field] for row in rows) == total[field]
    for row in (*rows, total):
        assert sum(one["size"] for one in row["unread"].values()) <= row["size"]


VARIANTS = ("orphan-junk", "orphan-segment", "orphan-topic", "other-cluster", "metadata-behind", "epochs-cut", "missing-all")


@pytest.mark.skipif("clean" not in SETS, reason="variants are changes of this set")
@pytest.mark.parametrize("variant", VARIANTS)
def test_sums_of_damaged_stores_are_those_of_a_listing(variant, tmp_path):
    top = damaged(variant, tmp_path / "top")
    _, total = costs(str(top / "remote"), [str(top / "d0"), str(top / "d1")])
    found = sizes(top / "remote/kafka-tiered-storage")
    assert (total["size"], total["objects"]) == (sum(found), len(found))


EXPECTED = {
    "clean": {}, "resumed": {("cut-copy", "not-finished"): 1, ("cut-indexes", "not-finished"): 1},
    "killed": {("cut-copy", "copying"): 1, ("cut-indexes", "copying"): 1, ("cut-delete", "deleting"): 1},
    "pair": {("lost", "not-in-lineage"): 1},
}  # fmt: skip


@OWN_ONLY
@pytest.mark.skipif(not EXPECTED.keys() <= set(SETS), reason="names topics of these sets")
@pytest.mark.parametrize("name", EXPECTED)
def test_segments_that_no_broker_reads_have_a_reason(name):
    assert unread(costs(stores(name), log_dirs(name))[0]) == EXPECTED[name]


@pytest.mark.skipif("pair" not in SETS, reason="names a topic of this set")
def test_without_its_log_a_partition_has_no_history(tmp_path):
    shutil.copytree(TOP / "pair/n0/d0", tmp_path / "d0")  # the logs of __remote_log_metadata, and no log with remote storage
    assert unread(costs(stores("pair"), [str(tmp_path / "d0")])[0]) == {}


class _NoLogs:
    directories: ClassVar[dict] = {}


def test_a_later_copy_of_the_same_offsets_replaces_the_earlier_one():
    """A later leader copied two segments again, as in RemoteLogLeaderEpochState."""
    topic_id, metadata, stored = uuid_text(random_id()), RemoteLogMetadata(), []
    key = key_of(topic_id, 0)
    for start, end in ((0, 9), (10, 19), (10, 29)):
        segment = RemoteSegment(random_id(), State.COPY_SEGMENT_FINISHED, start, end, 7, 0, 1, 0, True, ((3, start),), None)
        for record in records_of(segment, "t", key):
            metadata.of(record, 0).apply(record)
        stem = f"t-{topic_id}/0/{start:020d}-{segment.name}"
        named = ObjectName("", "t", topic_id, 0, start, segment.name, stem, "log")
        stored.append(StoredSegment(named, {"log": Object(f"{stem}.log", 7 + end, None, 0)}))
    [cost] = costs_of(Found([], stored), metadata, _NoLogs())
    assert cost.amounts == {"read": Amount(2, 2, 16 + 36), "replaced": Amount(1, 1, 26)}


def test_prices():
    _, total = costs(stores(SETS[0]), log_dirs(SETS[0]), "--price-per-gib", "1073741824")
    assert total["price_per_month"] == total["size"]
    assert costs(stores(SETS[0]), log_dirs(SETS[0]))[1]["price_per_month"] is None
    for price in ("-1", "nan", "inf", "cheap"):
        done = kafkalog("remote", "cost", "--store", stores(SETS[0]), "--price-per-gib", price, *log_dirs(SETS[0]))
        assert (done.status, "is not a price" in done.err) == (2, True)

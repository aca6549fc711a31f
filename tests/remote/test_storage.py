"""Stores: a folder, read by FolderStore and through obstore."""

from __future__ import annotations

import json
import random

import pytest

from engine.errors import FileChangedWhileReading, KafkalogError, UnreadableFile, UnwritableFile, UsageError
from engine.files import Files, ReadOnlyFiles
from engine.remote.access import open_store
from engine.remote.layouts import recognise
from engine.remote.storage import FolderStore, WritableFolderStore
from tests.remote.corpus import SETS, stores
from tests.support.run import kafkalog


def folder(path):
    return FolderStore(ReadOnlyFiles(), str(path))


def obstore(path):
    pytest.importorskip("obstore")
    from engine.remote.object_store import ObjectStore

    return ObjectStore(f"file://{path}")


@pytest.fixture(params=[folder, obstore])
def store(request, tmp_path):
    for key in ("a/b/1", "a/b/2", "a/bc/3", "a/b-0", "z"):
        path = tmp_path / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(key.encode() * 10)
    return request.param(tmp_path)


@pytest.mark.parametrize(("prefix", "keys"), [
    ("", {"a/b/1", "a/b/2", "a/bc/3", "a/b-0", "z"}), ("a/b", {"a/b/1", "a/b/2", "a/bc/3", "a/b-0"}), ("a/b/", {"a/b/1", "a/b/2"}),
    ("z", {"z"}), ("y", set()), ("q/", set()),
])  # fmt: skip
def test_a_listing_has_the_keys_with_that_prefix(store, prefix, keys):
    found = list(store.list(prefix))
    assert {one.key for one in found} == keys
    assert all(one.size == 10 * len(one.key) for one in found)


def test_ranges_of_an_object(store):
    found = store.find("a/b/1")
    assert store.read(found, 0, 50) == b"a/b/1" * 10
    assert store.read(found, 3, 7) == b"/1a/"
    assert store.read(found, 7, 7) == b""
    assert store.find("a/b/9") is None


@pytest.mark.parametrize("content", [b"short", b"A/B/1" * 10])
def test_an_object_that_was_replaced_is_an_error(store, tmp_path, content):
    found = store.find("a/b/1")
    (tmp_path / "new").write_bytes(content)
    (tmp_path / "new").rename(tmp_path / "a/b/1")
    with pytest.raises(FileChangedWhileReading):
        store.read(found, 0, 5)


def test_an_object_that_was_removed_is_an_error(store, tmp_path):
    found = store.find("z")
    (tmp_path / "z").unlink()
    with pytest.raises(KafkalogError):
        store.read(found, 0, 5)


def test_the_depth_of_nested_folders_is_limited(tmp_path):
    path = tmp_path
    for _ in range(20):
        path = path / "d"
    path.mkdir(parents=True)
    with pytest.raises(UnreadableFile, match="nested folders"):
        list(folder(tmp_path).list())


@pytest.mark.parametrize(("name", "what"), [("ftp://x/y", "unknown scheme ftp"), ("/nowhere/at/all", "No such file")])
def test_names_that_are_not_stores(name, what):
    with pytest.raises(KafkalogError, match=what):
        open_store(ReadOnlyFiles(), name)


@pytest.mark.parametrize(("name", "layout"), [("clean", ("local", "kafka-tiered-storage/")), ("aiven", ("aiven", "cold/"))])
def test_stores_are_recognised_by_their_keys(name, layout):
    if name not in SETS:
        pytest.skip("another corpus")
    assert recognise(open_store(ReadOnlyFiles(), stores(name))) == layout


@pytest.mark.parametrize(("key", "what"), [
    ("0/dGVzdA/pZ9YCzUEQxyGVRzbdGVzdA/0/00000000000000000000_0_v0.segment", "Confluent"),
    ("1a2b3c4d/kafka/orders/0_17/0-1-v1.log.1", "Redpanda"), ("a/b/c.txt", "not an object of LocalTieredStorage"),
    (None, "holds no object"),
])  # fmt: skip
def test_other_stores_are_refused_by_name(tmp_path, key, what):
    if key is not None:
        (tmp_path / key).parent.mkdir(parents=True)
        (tmp_path / key).write_bytes(b"")
    with pytest.raises(UsageError, match=what):
        recognise(folder(tmp_path))


# ---- Aiven's manifests


@pytest.fixture(scope="module")
def manifests():
    store = open_store(ReadOnlyFiles(), stores("aiven"))
    return [store.read(one, 0, one.size) for one in store.list() if one.key.endswith(".rsm-manifest")]


@pytest.mark.skipif("aiven" not in SETS, reason="another corpus")
def test_changed_manifests_are_read_or_refused_in_words(manifests):
    from engine.remote.aiven_manifest import CorruptObject, parse_manifest

    rng, refused = random.Random(3), 0
    for _ in range(2000):
        data = bytearray(rng.choice(manifests))
        data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            manifest = parse_manifest(bytes(data), "m")
        except CorruptObject:
            refused += 1
        else:
            assert manifest.stored[0] == 0
            assert len(manifest.stored) == -(-manifest.original_size // manifest.chunk_size) + 1
    assert refused > 100


@pytest.mark.parametrize("index", [
    {"type": "fixed", "originalChunkSize": 0, "originalFileSize": 9, "transformedChunkSize": 1, "finalTransformedChunkSize": 1},
    {"type": "fixed", "originalChunkSize": 1, "originalFileSize": 2**31 - 1, "transformedChunkSize": 1, "finalTransformedChunkSize": 1},
    {"type": "variable", "originalChunkSize": 9, "originalFileSize": 9, "transformedChunks": "AAAA"},
    {"type": "other", "originalChunkSize": 9, "originalFileSize": 9}, {},
])  # fmt: skip
def test_invalid_chunks_are_refused(index):
    from engine.remote.aiven_manifest import CorruptObject, parse_manifest

    fields = {"version": "1", "chunkIndex": index, "compression": False,
              "segmentIndexes": dict.fromkeys(("offset", "timestamp", "producerSnapshot", "leaderEpoch", "transaction"))}  # fmt: skip
    with pytest.raises(CorruptObject, match="not a manifest"):
        parse_manifest(json.dumps(fields).encode(), "m")


@pytest.mark.skipif("aiven" not in SETS, reason="another corpus")
def test_encrypted_segments_without_their_key_name_it(tmp_path):
    top = stores("aiven").removesuffix("bucket")
    words = ("fetch", "--store", stores("aiven"), "--log-dir", f"{top}d0", "--log-dir", f"{top}d1", f"{top}d1/plain-0")
    done = kafkalog(*words)
    assert done.status in (2, 8)
    assert "give its private key: --private-key k1=FILE" in done.err or "do   give its private key" in done.err
    key = tmp_path / "k.pem"
    key.write_text("no key")
    done = kafkalog(*words, "--private-key", f"k1={key}")
    assert (done.status, "not an RSA private key" in done.err) == (8, True)


@pytest.mark.parametrize("size", [1000, 9 << 20, 20 << 20])
@pytest.mark.parametrize("difference", [-1, 1])
@pytest.mark.parametrize("through", [lambda path: WritableFolderStore(Files(), str(path)), obstore])
def test_no_object_is_created_from_bytes_of_another_size(through, difference, size, tmp_path):
    """The file was truncated, or has grown, while it was read."""
    store = through(tmp_path)
    with pytest.raises(UnwritableFile, match=f"{size + difference} bytes were read, not {size}"):
        store.put("new", size, (bytes(size // 2), bytes(size - size // 2 + difference)))
    assert store.find("new") is None

"""gs:// and az:// on servers of this machine: listings, ranges, writes."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from engine.errors import FileChangedWhileReading, UnwritableFile
from tests.remote.corpus import SETS, TOP, brokers_log_dirs, log_dirs, private_keys, stores
from tests.remote.test_orphans import check_orphans
from tests.remote.test_restore import lost
from tests.remote.test_upload import never_copied
from tests.s3.others import AZURITE, FAKE_GCS, Azurite, FakeGcs
from tests.support.needs import lacking
from tests.support.run import kafkalog

pytest.importorskip("obstore")
pytestmark = [
    pytest.mark.skipif(not {"clean", "resumed", "aiven"} <= set(SETS), reason="names topics of these sets"),
    pytest.mark.xdist_group("object stores"),  # one server of each kind, not one for each worker
]
SERVERS = {"az": (AZURITE, Azurite), "gs": (FAKE_GCS, FakeGcs)}


def below(top):
    return [(str(path.relative_to(top)), path) for path in sorted(Path(top).rglob("*")) if path.is_file()]


@pytest.fixture(scope="module", params=sorted(SERVERS))
def bucket(request):
    """The URL of a bucket with the store of a set, and a log dir below `copies`."""
    program, server = SERVERS[request.param]
    if not program.exists():
        lacking(f"no server for {request.param}://: `make object-server` builds one (Go, npm)")
    with server() as running, pytest.MonkeyPatch.context() as patch:
        for name, value in running.environment.items():
            patch.setenv(name, value)
        objects = below(stores("clean")) + [(f"copies/{name}", path) for name, path in below(TOP / "clean/d0")]
        running.put("tiered", [(f"in/{name}", path) for name, path in objects])
        for name in ("resumed", "aiven"):
            running.put(name, below(stores(name)))
        running.put("empty", [])
        yield f"{request.param}://tiered/in"


@pytest.mark.parametrize("words", [("--raw",), ("--offset", "40", "--limit", "3")])
def test_the_same_is_read_from_a_bucket_as_from_a_folder(bucket, words):
    dirs = [word for top in log_dirs("clean") for word in ("--log-dir", top)]
    for path in sorted(path for top in brokers_log_dirs("clean") for path in Path(top).glob("[pt][lx]*-0")):
        one, other = (kafkalog("fetch", *words, "--store", store, *dirs, str(path)) for store in (bucket, stores("clean")))
        assert (one.status, one.out, one.err) == (other.status, other.out, other.err)
        assert one.out


@pytest.mark.parametrize("words", [("verify", ""), ("dump-log", "--print-data-log", "plain-*"), ("fetch", "--raw", "plain-0")])
def test_a_log_dir_in_a_bucket_is_read_as_on_a_disk(bucket, words):
    one, other = (kafkalog(*words[:-1], f"{top}/{words[-1]}") for top in (f"{bucket}/copies", TOP / "clean/d0"))
    out, expected = (re.sub(r" in [0-9.]+ m?s\n", "", done.out.decode("latin-1")) for done in (one, other))
    assert out.replace(f"{bucket}/copies", str(TOP / "clean/d0")) == expected
    assert one.status == other.status


def other(bucket, name):
    """Return the URL of another bucket on the same server."""
    return f"{bucket[:5]}{name}"


def test_segments_are_uploaded_and_read_again(bucket, tmp_path):
    top, _ = never_copied("clean", tmp_path)
    dirs = sorted(str(path) for path in top.glob("d?"))
    store = ("--store", other(bucket, "empty"), "--layout", "local", "--key-prefix", "kafka-tiered-storage/")
    assert kafkalog("remote", "upload", *store, *dirs).status == 0
    done = kafkalog("remote", "verify", "--deep", *store, *dirs)
    assert (done.status, "all segments were read" in done.out.decode()) == (0, True), done.err


def test_partitions_are_restored_from_a_bucket(bucket, tmp_path):
    keys, trees = [word for item in private_keys(tmp_path).items() for word in ("--private-key", "=".join(item))], []
    for number, store in enumerate((other(bucket, "aiven"), stores("aiven"))):
        left = lost("aiven", tmp_path / str(number))
        done = kafkalog("remote", "restore", "*", "--into", left[0], "--log-dir", left[1], "--store", store, "--no-quarantine", *keys)
        assert done.status == 1, done.err  # a transaction whose end was not copied
        trees.append({name: path.read_bytes() for name, path in below(left[0])
                      if not path.parent.name.startswith("__") and path.name != ".lock"})  # fmt: skip
    assert trees[0] == trees[1]
    assert len(trees[0]) > 10


def test_orphans_are_deleted_and_put_back(bucket, tmp_path):
    check_orphans(other(bucket, "resumed"), tmp_path)


@pytest.mark.parametrize("size", [0, 1000, 17 << 20])
def test_no_object_is_replaced_or_deleted_by_mistake(bucket, size):
    from engine.remote.object_store import ObjectStore

    store, key, data = ObjectStore(other(bucket, "empty")), f"made/of {size}%20", random.Random(size).randbytes(size)
    store.put(key, size, (data[at : at + (5 << 20)] for at in range(0, size, 5 << 20)))
    found = store.find(key)
    assert found is not None
    assert (found.size, bytes(store.read(found, 0, size))) == (size, data)
    with pytest.raises(UnwritableFile, match="already exists"):
        store.put(key, 3, [b"new"])
    with pytest.raises(FileChangedWhileReading):
        store.delete(found._replace(etag="another"))
    assert store.read_whole(key, 32 << 20) == data
    store.delete(found)
    assert store.find(key) is None
    store.delete(found)


def test_a_missing_bucket(bucket):
    if bucket.startswith("gs:"):
        pytest.skip("fake-gcs-server answers 500")
    done = kafkalog("verify", "az://missing/x-0")
    assert done.status == 8
    assert "az://missing/x-0" in done.err
    assert "404" in done.err
    assert "AZURE_STORAGE_ACCOUNT_NAME" in done.err

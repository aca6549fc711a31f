"""gs:// and az:// on servers of this machine: listings, ranges, writes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.remote.corpus import SETS, TOP, brokers_log_dirs, log_dirs, stores
from tests.remote.test_upload import never_copied
from tests.s3.others import AZURITE, FAKE_GCS, Azurite, FakeGcs
from tests.support.run import kafkalog

pytest.importorskip("obstore")
pytestmark = pytest.mark.skipif("clean" not in SETS, reason="names topics of this set")
SERVERS = {"az": (AZURITE, Azurite), "gs": (FAKE_GCS, FakeGcs)}


def below(top):
    return [(str(path.relative_to(top)), path) for path in sorted(Path(top).rglob("*")) if path.is_file()]


@pytest.fixture(scope="module", params=sorted(SERVERS))
def bucket(request):
    """The URL of a bucket with the store of a set, and a log dir below `copies`."""
    program, server = SERVERS[request.param]
    if not program.exists():
        pytest.skip(f"no server for {request.param}://: `make object-server` builds one (Go, npm)")
    with server() as running, pytest.MonkeyPatch.context() as patch:
        for name, value in running.environment.items():
            patch.setenv(name, value)
        objects = below(stores("clean")) + [(f"copies/{name}", path) for name, path in below(TOP / "clean/d0")]
        running.put("tiered", [(f"in/{name}", path) for name, path in objects])
        running.put("empty", [])
        yield f"{request.param}://tiered/in"


def test_a_bucket_is_sound(bucket):
    done = kafkalog("remote", "verify", "--deep", "--store", bucket, "--key-prefix", "kafka-tiered-storage/", *log_dirs("clean"))
    assert (done.status, "all segments were read" in done.out.decode()) == (0, True), done.err


@pytest.mark.parametrize("words", [("--raw",), ("--isolation", "read_committed"), ("--offset", "40", "--limit", "3")])
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


def test_segments_are_uploaded(bucket, tmp_path):
    if bucket.startswith("gs:"):
        pytest.skip("fake-gcs-server takes no uploads of obstore")
    top, _ = never_copied("clean", tmp_path)
    dirs = sorted(str(path) for path in top.glob("d?"))
    store = ("--store", "az://empty", "--layout", "local", "--key-prefix", "kafka-tiered-storage/")
    assert kafkalog("remote", "upload", *store, *dirs).status == 0
    done = kafkalog("remote", "verify", "--deep", *store, *dirs)
    assert (done.status, "all segments were read" in done.out.decode()) == (0, True), done.err


def test_a_missing_bucket(bucket):
    if bucket.startswith("gs:"):
        pytest.skip("fake-gcs-server answers 500")
    done = kafkalog("verify", "az://missing/x-0")
    assert done.status == 8
    assert "az://missing/x-0" in done.err
    assert "404" in done.err
    assert "AZURE_STORAGE_ACCOUNT_NAME" in done.err

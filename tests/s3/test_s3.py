"""list, verify, fetch, restore, upload and orphans on a real S3 server."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.remote.corpus import SETS, TOP, brokers_log_dirs, log_dirs, private_keys, stores
from tests.remote.test_orphans import check_orphans
from tests.remote.test_requests import lookups
from tests.remote.test_restore import lost
from tests.remote.test_upload import never_copied
from tests.s3.server import PROGRAM, Server
from tests.support.needs import lacking
from tests.support.run import kafkalog

if not PROGRAM.exists():
    lacking("no S3 server: `make object-server` builds one (Go)", of_module=True)
obstore = pytest.importorskip("obstore")
pytestmark = [
    pytest.mark.skipif(not {"clean", "resumed", "aiven"} <= set(SETS), reason="names topics of these sets"),
    pytest.mark.xdist_group("s3"),  # one server, not one for each worker
]
BUCKETS = ("clean", "resumed", "aiven", "empty", "copies")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server with the stores of some sets."""
    from obstore.store import S3Store

    running = Server(tmp_path_factory.mktemp("s3"))
    for name in BUCKETS:
        running.make_bucket(name)
    with running, pytest.MonkeyPatch.context() as patch:
        for name, value in running.environment.items():
            patch.setenv(name, value)
        for name in BUCKETS[:3]:
            bucket, top = S3Store(name), Path(stores(name))
            for path in sorted(top.rglob("*")):
                if path.is_file():
                    obstore.put(bucket, str(path.relative_to(top)), path.read_bytes())
        yield running


def keys_of(tmp_path):
    return [word for item in private_keys(tmp_path).items() for word in ("--private-key", "=".join(item))]


@pytest.mark.parametrize("name", ["clean", "aiven"])
def test_a_bucket_is_sound(name, server, tmp_path):
    more = keys_of(tmp_path) if name == "aiven" else []
    done = kafkalog("remote", "verify", "--deep", "--store", f"s3://{name}", *more, *log_dirs(name))
    assert (done.status, "all segments were read" in done.out.decode()) == (0, True), done.err


@pytest.mark.parametrize("name", ["clean", "aiven"])
def test_the_same_is_read_from_a_bucket_as_from_a_folder(name, server, tmp_path):
    more = keys_of(tmp_path) if name == "aiven" else []
    for path in sorted(path for top in brokers_log_dirs(name) for path in Path(top).glob("[a-z]*-0")):
        dirs = [word for top in log_dirs(name) for word in ("--log-dir", top)]
        one, other = (kafkalog("fetch", "--raw", "--store", store, *dirs, *more, str(path)) for store in (f"s3://{name}", stores(name)))
        assert (one.status, one.out) == (other.status, other.out)


@pytest.mark.parametrize("name", ["clean", "aiven"])
def test_a_lookup_takes_few_requests(name, server, tmp_path):
    for number, (words, offset, most) in enumerate(lookups(name, tmp_path)):
        if number % 5 == 0:
            before = len(server.requests)
            assert kafkalog("fetch", *(f"s3://{name}" if word == stores(name) else word for word in words)).out.decode() == str(offset)
            assert 2 <= len(server.requests) - before <= most, server.requests[before:]


def test_a_broker_names_its_bucket(server, tmp_path, monkeypatch):
    """Endpoint, region and credentials of its settings override those of the environment."""
    backend = "io.aiven.kafka.tieredstorage.storage.s3.S3Storage"
    values = {
        "remote.log.storage.manager.class.name": "io.aiven.kafka.tieredstorage.RemoteStorageManager",
        "rsm.config.storage.backend.class": backend, "rsm.config.storage.s3.bucket.name": "aiven",
        "rsm.config.storage.s3.endpoint.url": server.environment["AWS_ENDPOINT_URL"],
        "rsm.config.storage.s3.region": server.environment["AWS_REGION"], "rsm.config.key.prefix": "cold/",
        "rsm.config.storage.aws.access.key.id": server.environment["AWS_ACCESS_KEY_ID"],
        "rsm.config.storage.aws.secret.access.key": server.environment["AWS_SECRET_ACCESS_KEY"],
    }  # fmt: skip
    (tmp_path / "server.properties").write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    done = kafkalog("remote", "verify", "--deep", "--config-file", str(tmp_path / "server.properties"), *keys_of(tmp_path), *log_dirs("aiven"))
    assert (done.status, "all segments were read" in done.out.decode()) == (0, True), done.err


def test_partitions_are_restored_from_a_bucket(server, tmp_path):
    trees = []
    for number, store in enumerate(("s3://aiven", stores("aiven"))):
        left = lost("aiven", tmp_path / str(number))
        done = kafkalog("remote", "restore", "*", "--into", left[0], "--log-dir", left[1], "--store", store, "--no-quarantine", *keys_of(tmp_path))
        assert done.status == 1, done.err  # a transaction whose end was not copied
        trees.append({str(path.relative_to(left[0])): path.read_bytes() for path in Path(left[0]).rglob("*")
                      if path.is_file() and not path.parent.name.startswith("__") and path.name != ".lock"})  # fmt: skip
    assert trees[0] == trees[1]
    assert len(trees[0]) > 10


def test_segments_are_uploaded_into_a_bucket(server, tmp_path):
    top, _ = never_copied("clean", tmp_path)
    dirs = sorted(str(path) for path in top.glob("d?"))
    store = ("--store", "s3://empty", "--layout", "local", "--key-prefix", "kafka-tiered-storage/")
    assert kafkalog("remote", "upload", *store, *dirs).status == 0
    done = kafkalog("remote", "verify", "--deep", *store, *dirs)
    assert (done.status, "all segments were read" in done.out.decode()) == (0, True), done.err


def test_orphans_of_a_bucket_are_deleted_and_put_back(server, tmp_path):
    check_orphans("s3://resumed", tmp_path)


@pytest.fixture
def backup(server, tmp_path):
    """A log dir in a bucket: (URL, folder with the same)."""
    from obstore.store import S3Store

    folder, bucket = TOP / "clean/d0", S3Store("copies")
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            obstore.put(bucket, f"of %2026/{path.relative_to(folder)}", path.read_bytes())
    return "s3://copies/of%20%252026", folder


@pytest.mark.parametrize("words", [
    ("dump-log", "--print-data-log", ""), ("dump-log", "--print-data-log", "plain-*"), ("verify", "tx-0/"), ("verify", "--format", "jsonl", ""),
    ("fetch", "--topic", "*", "--isolation", "read_committed", ""), ("fetch", "--raw", "plain-0"), ("dump-log", "plain-0/00000000000000000127.timeindex"),
])  # fmt: skip
def test_a_log_dir_in_a_bucket_is_read_as_on_a_disk(backup, words):
    (url, folder), (*options, path) = backup, words
    one, other = kafkalog(*options, f"{url}/{path}"), kafkalog(*options, f"{folder}/{path}")
    (out, err), expected = ([re.sub(r" in [0-9.]+ m?s\n", "", text) for text in (done.out.decode("latin-1"), done.err)] for done in (one, other))
    assert [out.replace("s3://copies/of %2026", str(folder)), err.replace("s3://copies/of %2026", str(folder))] == expected
    assert one.status == other.status


@pytest.mark.parametrize("command", ["dump-log", "verify", "fetch"])
def test_errors_name_bucket_and_key_and_what_to_check(server, command, monkeypatch):
    def said(path, **environment):
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            done = kafkalog(command, path)
        assert done.status != 0
        assert "Traceback" not in done.err
        return done.err

    assert "s3://no-such-bucket/x-0" in said("s3://no-such-bucket/x-0")
    assert "s3://clean/nothing-0" in said("s3://clean/nothing-0")
    denied = said("s3://clean/x-0", AWS_SECRET_ACCESS_KEY="wrong")
    assert "s3://clean/x-0" in denied
    assert "AWS_ACCESS_KEY_ID" in denied
    gone = said("s3://clean/x-0", AWS_ENDPOINT_URL="http://127.0.0.1:9")
    assert "s3://clean/x-0" in gone
    assert "AWS_ENDPOINT_URL" in gone

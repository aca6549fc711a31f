"""URLs as paths: commands that read give the same results as for a folder, with few requests; others refuse URLs."""

from __future__ import annotations

import re
import shutil
import sys
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from engine.discovery.patterns import expand
from engine.errors import FileChangedWhileReading, OversizedFile, UnreadableFile, UsageError
from engine.files import ReadOnlyFiles
from engine.remote import object_store, url_files
from engine.remote.ranged_file import RangedFile
from engine.remote.url_files import UrlFiles
from engine.remote.urls import spelled
from kafkalog_cli.options import files_for
from tests.remote.corpus import OWN_ONLY, TOP
from tests.support.folder_bucket import FolderBucket
from tests.support.json_output import all_objects
from tests.support.run import kafkalog

PIECE = 7 << 20  # bytes of the largest request
LOG = "00000000000000000000.log"


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    """Return a bucket s3://bucket whose objects are in a folder, and which records its requests."""
    found = FolderBucket(tmp_path / "bucket")
    (tmp_path / "bucket").mkdir()
    monkeypatch.setattr(object_store, "open_bucket", {"s3://bucket": found}.__getitem__)
    return found


def put(bucket, key, data=b""):
    path = Path(bucket.name) / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


# ---- the file system interface


def test_a_bucket_is_read_as_a_tree_of_directories(bucket):
    for key in ("a/x.log", "a/b/y", "c"):
        put(bucket, key, key.encode())
    files = files_for(["/tmp", "s3://bucket/a"])
    assert isinstance(files, UrlFiles)
    assert (files.list("s3://bucket/a"), files.plain("s3://bucket/a/"), files.special("s3://bucket/a")) == (["b", "x.log"], ["x.log"], {})
    assert files.list("s3://bucket") == files.list("s3://bucket/") == ["a", "c"]
    assert [files.info(f"s3://bucket/{key}").is_directory for key in ("a", "a/b", "c", "a/x.log", "")] == [True, True, False, False, True]
    info = files.info("s3://bucket/a//x.log")
    assert (info.is_file, info.size, info.modified_ms) == (True, 7, ReadOnlyFiles().info(f"{bucket.name}/a/x.log").modified_ms)
    assert [files.exists(f"s3://bucket/{key}") for key in ("a/b/y", "a/b/", "a/z", "z.log", "c/d")] == [True, True, False, False, False]
    assert files.resolve("s3://bucket//a/") == "s3://bucket/a"
    assert files.absolute("s3://bucket/a/") == "s3://bucket/a/"
    assert files.read("s3://bucket/a/b/y", 5) == b"a/b/y"
    with pytest.raises(OversizedFile):
        files.read("s3://bucket/a/b/y", 4)
    assert files.list("/") == ReadOnlyFiles().list("/")
    assert files.root("/tmp") == "/"
    assert type(files_for(["/tmp", "s3:/bucket"])) is ReadOnlyFiles


@pytest.mark.parametrize(("what", "key"), [("list", "z"), ("list", "c"), ("open", "a"), ("open", "z"), ("info", "z.log"), ("plain", "z"), ("resolve", "z"), ("space", "c")])
def test_a_missing_path_is_an_error_that_names_it(bucket, what, key):
    put(bucket, "a/x")
    put(bucket, "c")
    with pytest.raises(UnreadableFile, match=f"^s3://bucket/{key}: "):
        getattr(UrlFiles(), what)(f"s3://bucket/{key}")


def test_a_directory_is_listed_once_and_a_small_file_read_once(bucket):
    for number in range(30):
        put(bucket, f"d/{number:020d}.log", b"%d" % number)
    files = UrlFiles()
    for _ in range(3):
        assert len(files.list("s3://bucket/d")) == 30
        assert [files.read(f"s3://bucket/d/{number:020d}.log", 9) for number in range(30)] == [b"%d" % number for number in range(30)]
        assert not files.exists("s3://bucket/d/00000000000000000031.log")
    assert len(bucket.requests) == 31


def test_a_named_file_costs_one_lookup(bucket):
    put(bucket, f"d/{LOG}")
    files = UrlFiles()
    assert [files.exists(f"s3://bucket/d/{LOG}") for _ in range(3)] == [True] * 3
    assert bucket.requests == [("find", f"d/{LOG}")]


def test_old_listings_are_removed_and_requested_again(bucket, monkeypatch):
    monkeypatch.setattr(url_files, "_NAMES", 10)
    monkeypatch.setattr(url_files, "_LISTINGS", 1)
    for number in range(8):
        for name in "abc":
            put(bucket, f"d{number}/{name}")
    files = UrlFiles()
    for _ in range(2):
        for number in range(8):
            assert files.list(f"s3://bucket/d{number}") == ["a", "b", "c"]
    assert len(bucket.requests) == 16
    assert files.read("s3://bucket/d0/a", 1) == b""


def test_cached_pieces_take_little_memory(bucket, monkeypatch):
    monkeypatch.setattr(url_files, "_KEPT", 100)
    for number in range(20):
        put(bucket, f"d/{number}", b"x" * 30)
    files = UrlFiles()
    for _ in range(2):
        assert all(files.read(f"s3://bucket/d/{number}", 30) == b"x" * 30 for number in range(20))
    assert sum(len(data) for data in files._pieces._pieces.values()) <= 100


def test_an_object_that_is_replaced_is_an_error(bucket):
    put(bucket, "d/a", b"one")
    files = UrlFiles()
    assert files.list("s3://bucket/d") == ["a"]
    put(bucket, "d/a", b"three")
    with pytest.raises(FileChangedWhileReading, match="/d/a: it was replaced"):
        files.read("s3://bucket/d/a", 9)


def test_patterns(bucket):
    for key in ("d/orders-0/x", "d/orders-1/x", "d/other-0/x", "d/[a]/x"):
        put(bucket, key)
    files = UrlFiles()
    assert expand(files, "s3://bucket/d/orders-*") == ["s3://bucket/d/orders-0", "s3://bucket/d/orders-1"]
    assert expand(files, "s3://bucket/*/o*-0/x") == ["s3://bucket/d/orders-0/x", "s3://bucket/d/other-0/x"]
    assert expand(files, "s3://bucket/d/[a]") == ["s3://bucket/d/[a]"]
    assert expand(files, "s3://bucket/d/z*") == ["s3://bucket/d/z*"]


@pytest.mark.parametrize(("given", "path"), [
    ("s3://b/a%20b/c", "s3://b/a b/c"), ("s3://b/a%2520b", "s3://b/a%20b"), ("gs://b", "gs://b"), ("az://b/x/", "az://b/x/"),
    ("file:///tmp/a%20b", "/tmp/a b"), ("file://localhost/x", "/x"), ("http://h:80/x.log", "http://h:80/x.log"), ("/a%20b", "/a%20b"),
    ("s3:/x", "s3:/x"), ("a://b", None), ("s3:///x", None), ("https:///x", None), ("file://host/x", None), ("https://h/x.log?y=1", None),
])  # fmt: skip
def test_how_urls_are_spelled(given, path):
    if path is None:
        with pytest.raises(UsageError) as raised:
            spelled(given)
        assert given in str(raised.value)
        assert raised.value.do
    else:
        assert spelled(given) == path


# ---- commands


@pytest.fixture
def copied(bucket):
    """Return (folder, URL) of a log dir in the bucket, below a key with a space."""
    shutil.copytree(TOP / "clean/d0", Path(bucket.name) / "old logs/d0")
    return Path(bucket.name) / "old logs/d0", "s3://bucket/old%20logs/d0"


@OWN_ONLY
@pytest.mark.parametrize("words", [
    ("dump-log", "--print-data-log", ""), ("dump-log", "--format", "jsonl", "--print-data-log", "tx-0"), ("verify", ""),
    ("verify", "--verbose", "plain-*"), ("verify", "--format", "json", "tx-0"), ("fetch", "-f", "%o %k %s\n", "plain-0/"),
    ("fetch", "--isolation", "read_committed", "--format", "jsonl", "tx-0"), ("fetch", "--raw", "plain-0"), ("fetch", "--tail", "3", "-t", "plain", "/"),
    ("fetch", "-t", "p*", "--merge", ""), ("fetch", "--time", "2h ago:", "plain-0"), ("fetch", ""), ("dump-log", "nothing-0"), ("verify", "nothing"), ("fetch", "nothing-0"),
    ("dump-log", "--offset", "130:133", "--print-data-log", "plain-*"), ("dump-log", "--tail", "2", "--print-data-log", "plain-0"), ("dump-log", "--count", ""),
])  # fmt: skip
def test_a_url_gives_the_same_output_as_the_folder(copied, words):
    folder, url = copied
    *options, path = words
    one, other = kafkalog(*options, f"{url}/{path}"), kafkalog(*options, f"{folder}/{path}")
    said, expected = (re.sub(rb" in [0-9.]+ m?s\n", b"", done.out) for done in (one, other))
    assert (said.replace(b"s3://bucket/old logs/d0", bytes(folder)), one.status) == (expected, other.status)
    assert one.err.replace("s3://bucket/old logs/d0", str(folder)).splitlines()[:1] == other.err.splitlines()[:1]


def test_files_of_kafka_dump_log_may_be_urls(copied):
    folder, url = copied
    name = "plain-0/00000000000000000127.log"
    one, other = (kafkalog("dump-log", "--files", f"{top}/{name},{top}/plain-0/00000000000000000127.index") for top in (url, folder))
    assert one.out.decode().replace("s3://bucket/old logs/d0", str(folder)) == other.out.decode() != ""


def test_remote_segments_of_a_log_dir_in_a_bucket(copied):
    folder, url = copied
    store, other = ("--store", str(TOP / "clean/remote")), ("--log-dir", str(TOP / "clean/d1"))
    assert kafkalog("fetch", "--raw", *store, *other, f"{url}/plain-0").out == kafkalog("fetch", "--raw", *store, *other, f"{folder}/plain-0").out


@OWN_ONLY
@pytest.mark.parametrize("words", [
    ("list",), ("list", "--events", "--topic", "plain"), ("offsets",), ("offsets", "--format", "jsonl"),
    ("verify", "--store", str(TOP / "clean/remote")), ("cost", "--store", str(TOP / "clean/remote")),
])  # fmt: skip
def test_what_is_known_of_remote_segments_by_log_dirs_in_a_bucket(copied, words):
    folder, url = copied
    shutil.copytree(TOP / "clean/d1", folder.with_name("d1"))
    one, other = (kafkalog("remote", *words, top, f"{top.removesuffix('d0')}d1") for top in (url, str(folder)))
    assert (one.out, one.err, one.status) == (other.out, other.err, other.status)
    assert (one.out != b"", one.status) == (True, 0)


def test_a_log_of_07_in_a_bucket(bucket):
    put(bucket, "t-0/00000000000000000000.kafka", bytes.fromhex("00000008" "00" "8cdc1683" "616263"))
    assert kafkalog("fetch", "s3://bucket/t-0").out == kafkalog("fetch", f"{bucket.name}/t-0").out


def test_a_segment_is_read_in_large_requests(bucket, tmp_path):
    (tmp_path / "lines").write_bytes(b"".join(b"k:%09d\n" % number * 100 for number in range(25000)))
    done = kafkalog("append", "--create", "--input", str(tmp_path / "lines"), "--input-format", "text", f"{bucket.name}/big-0")
    assert done.status == 0, done.err
    path = Path(bucket.name) / "big-0" / LOG
    data = path.read_bytes()
    assert len(data) > 20 << 20
    one = kafkalog("dump-log", f"s3://bucket/big-0/{LOG}")
    assert one.out.decode().replace("s3://bucket", bucket.name) == kafkalog("dump-log", str(path)).out.decode()
    reads = [request for request in bucket.requests if request[0] == "read"]
    assert len(bucket.requests) <= len(data) / PIECE + 6
    assert max(end - start for _, _, start, end in reads) <= PIECE


WRITING = (
    ("append", "X"), ("compact", "X"), ("delete-records", "X"), ("recover", "X"), ("restore", "X"), ("retain", "X"), ("roll", "X"),
    ("truncate", "X"), ("verify", "--rebuild", "X"), ("remote", "download", "--store", "/", "--into", "X", "/"),
    ("remote", "restore", "t", "--store", "/", "--into", "X"), ("remote", "upload", "--store", "/", "X"), ("remote", "repair-metadata", "--store", "/", "X"),
    ("remote", "download", "--store", "/", "--into", "/", "X"), ("remote", "orphans", "--store", "/", "X"), ("recover", "--quarantine", "X", "/"), ("recover", "--config-file", "X", "/"), ("spark", "recover", "X"), ("spark", "compact", "X"),
)  # fmt: skip


@pytest.mark.parametrize("words", WRITING)
def test_commands_that_write_refuse_urls(words):
    done = kafkalog(*("s3://bucket/x" if word == "X" else word for word in words))
    assert done.status == 2
    assert "s3://bucket/x: only commands that change nothing read URLs; copy the directory" in done.err.replace("\n", " ")


def test_follow_is_refused_for_urls(bucket):
    done = kafkalog("fetch", "--follow", "s3://bucket/x-0")
    assert (done.status, "objects do not grow" in done.err) == (2, True)


def test_obstore_is_needed_for_urls_only(monkeypatch, tmp_path):
    for name in ("obstore", "obstore.store", "obstore.exceptions"):
        monkeypatch.setitem(sys.modules, name, None)
    done = kafkalog("dump-log", "s3://bucket/x-0")
    assert (done.status, "pip install 'kafkalog[remote]'" in done.err) == (2, True)
    put(FolderBucket(tmp_path), f"x-0/{LOG}")
    assert kafkalog("dump-log", str(tmp_path / "x-0")).status == 0


# ---- a server


class WithRanges(SimpleHTTPRequestHandler):
    """Serves files and ranges of files."""

    def log_message(self, *_words):
        """Quiet."""

    def do_GET(self):
        """Answer with a range if the request has one."""
        path, wanted = Path(self.translate_path(self.path)), self.headers["Range"]
        if wanted is None or not path.is_file():
            super().do_GET()
            return
        data = path.read_bytes()
        start, end = map(int, wanted.removeprefix("bytes=").split("-"))
        part = data[start : end + 1]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {start}-{start + len(part) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(part)))
        self.send_header("Last-Modified", self.date_time_string(path.stat().st_mtime))
        self.end_headers()
        self.wfile.write(part)


class WithoutRanges(SimpleHTTPRequestHandler):
    """Serves whole files only, as `python -m http.server` does."""

    def log_message(self, *_words):
        """Quiet."""


@pytest.fixture
def served(request, tmp_path):
    """Return the URL of a server, and the folder that it serves."""
    pytest.importorskip("obstore")
    server = ThreadingHTTPServer(("127.0.0.1", 0), lambda *words: request.param(*words, directory=str(tmp_path)))
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", tmp_path
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@OWN_ONLY
@pytest.mark.parametrize("served", [WithRanges], indirect=True)
def test_one_file_of_a_server(served):
    url, folder = served
    shutil.copytree(TOP / "clean/d0/plain-0", folder / "plain-0")
    name = "plain-0/00000000000000000127.log"
    one, other = kafkalog("dump-log", "--print-data-log", f"{url}/{name}"), kafkalog("dump-log", "--print-data-log", f"{folder}/{name}")
    assert one.out.decode().replace(url, str(folder)) == other.out.decode()
    assert (one.status, one.err) == (0, "")
    assert "No such file" in kafkalog("dump-log", f"{url}/plain-0/00000000000000000001.log").err
    for command in ("dump-log", "verify", "fetch"):
        assert "servers have no listings" in kafkalog(command, f"{url}/plain-0").err


@pytest.mark.parametrize("served", [WithoutRanges], indirect=True)
def test_a_server_that_sends_whole_files_only(served):
    url, folder = served
    (folder / LOG).write_bytes(b"x" * 100)
    done = kafkalog("dump-log", f"{url}/{LOG}")
    assert done.status != 0
    assert "curl -O" in done.err


def test_a_file_is_read_from_any_position():
    data = bytes(range(256)) * 1000
    file = RangedFile("f", len(data), lambda start, end: data[start:end])
    assert file.read(255_990, 100) == data[255_990:]


@pytest.mark.parametrize("words", [("ls",), ("du", "--by", "codec"), ("du", "--by", "kind"), ("du", "--recompress", "zstd"), ("groups",), ("txn", "list")], ids=" ".join)
def test_a_bucket_is_listed_like_a_disk(bucket, own_cluster_corpus, words):
    node = own_cluster_corpus / "ops/1-stopped/n1"
    shutil.copytree(node, Path(bucket.name) / "n1")

    def rows(path: str) -> list[dict]:
        done = kafkalog(*words, "--format", "jsonl", path)
        assert done.status == 0, done.err
        return [{name: value for name, value in one.items() if name not in ("path", "log", "allocated_bytes")} for one in all_objects(done.out)]

    assert rows("s3://bucket/n1") == rows(str(node))

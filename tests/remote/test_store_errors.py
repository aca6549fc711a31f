"""Errors of object stores: the store, the cause, what to check; within a bounded number of requests.

The servers are on this machine, and no other one is asked.
"""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from engine.record.builder import NewRecord, build_batch
from tests.remote.corpus import SETS, log_dirs
from tests.support.run import kafkalog

pytest.importorskip("obstore")
if "clean" not in SETS:
    pytest.skip("names log dirs of this set", allow_module_level=True)


class Quiet(BaseHTTPRequestHandler):
    def log_message(self, *_words):
        pass


@contextmanager
def serving(handler):
    """A server on this machine: its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def answering(status, code="", message=""):
    """A server with one answer to every request: (address, list of requests)."""
    seen = []

    class Handler(Quiet):
        def do_GET(self):
            seen.append(self.path)
            body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else body)

        do_HEAD = do_PUT = do_GET  # noqa: N815  # names of the base class

    with serving(Handler) as address:
        yield address, seen


@pytest.fixture
def closed():
    """An address that refuses connections."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{one.getsockname()[1]}"


@pytest.fixture
def environment(monkeypatch, closed):
    """Set variables of the client; without credentials it never asks a machine but this one."""
    def put(**values):
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_ALLOW_HTTP", "AWS_SKIP_SIGNATURE",
                     "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):  # fmt: skip
            monkeypatch.delenv(name, raising=False)
        for name, value in {"AWS_METADATA_ENDPOINT": f"http://{closed}", "AWS_REGION": "us-east-1", **values}.items():
            monkeypatch.setenv(name, value)

    return put


KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
COMMANDS = [("verify", "s3://tiered/x-0"), ("dump-log", "s3://tiered/x-0/00000000000000000000.log"),
            ("remote", "verify", "--store", "s3://tiered/", log_dirs("clean")[0])]  # fmt: skip


def said(words):
    done = kafkalog(*words)
    assert done.status in (2, 8)
    assert "Traceback" not in done.err
    assert "s3://tiered" in done.err
    return done.err


@pytest.mark.parametrize("words", COMMANDS)
@pytest.mark.parametrize(("status", "code", "message", "check"), [
    (403, "SignatureDoesNotMatch", "The request signature does not match", "AWS_SECRET_ACCESS_KEY"),
    (404, "NoSuchBucket", "The specified bucket does not exist", "the bucket's name"),
    (400, "AuthorizationHeaderMalformed", "the region &#34;eu-1&#34; is wrong", "AWS_REGION"),
])  # fmt: skip
def test_the_answer_of_the_server_and_what_to_check(status, code, message, check, words, environment):
    with answering(status, code, message) as (address, seen):
        environment(AWS_ENDPOINT_URL=f"http://{address}", AWS_ALLOW_HTTP="true", **KEYS)
        text = said(words)
    if words[0] != "dump-log":  # answers to HEAD have no text
        assert f"{status}" in text
        assert f"{code}: {message.replace('&#34;', chr(34))}" in text
    assert check in text
    assert len(seen) <= 3


@pytest.mark.parametrize("words", COMMANDS)
def test_servers_that_cannot_be_reached(words, environment, closed):
    environment(AWS_ENDPOINT_URL=f"http://{closed}", AWS_ALLOW_HTTP="true", **KEYS)
    text = said(words)
    assert f"http://{closed}" in text
    assert "Connection refused" in text
    assert "AWS_ENDPOINT_URL" in text


def test_a_bucket_of_the_settings(environment, closed, tmp_path):
    values = {
        "remote.log.storage.manager.class.name": "io.aiven.kafka.tieredstorage.RemoteStorageManager",
        "rsm.config.storage.backend.class": "io.aiven.kafka.tieredstorage.storage.s3.S3Storage", "rsm.config.storage.s3.bucket.name": "tiered",
        "rsm.config.storage.s3.endpoint.url": f"http://{closed}", "rsm.config.storage.s3.region": "us-east-1",
        "rsm.config.storage.aws.access.key.id": "a", "rsm.config.storage.aws.secret.access.key": "b",
    }  # fmt: skip
    path = tmp_path / "server.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    environment()
    text = said(("remote", "verify", "--config-file", str(path), log_dirs("clean")[0]))
    assert f"http://{closed}/tiered: Connection refused" in text
    assert "in the settings rsm.config.storage.*" in text


def test_servers_without_tls(environment):
    with answering(404) as (address, seen):
        environment(AWS_ENDPOINT_URL=f"http://{address}", **KEYS)
        assert "AWS_ALLOW_HTTP=true" in said(COMMANDS[0])
        environment(AWS_ENDPOINT_URL=f"https://{address}", **KEYS)
        text = said(COMMANDS[0])
    assert seen == []
    assert "does not use TLS" in text
    assert "AWS_ALLOW_HTTP=true" in text


@pytest.mark.parametrize("words", COMMANDS)
def test_without_credentials_a_cloud_is_not_asked_for_long(words, environment):
    environment()
    assert "AWS_ACCESS_KEY_ID" in said(words)
    environment(AWS_PROFILE="it's")
    assert """aws configure export-credentials --profile 'it'"'"'s' --format env""" in said(words)


def test_a_metadata_service_without_an_answer(environment):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        environment(AWS_METADATA_ENDPOINT=f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert "AWS_ACCESS_KEY_ID" in said(COMMANDS[0])


def test_a_metadata_service_with_credentials(environment):
    with answering(401) as (metadata, asked), answering(404) as (address, seen):
        environment(AWS_METADATA_ENDPOINT=f"http://{metadata}", AWS_ENDPOINT_URL=f"http://{address}", AWS_ALLOW_HTTP="true")
        text = said(COMMANDS[0])
    assert "/latest/api/token" in asked
    assert "401" in text
    assert seen == []


def test_a_public_bucket_needs_no_credentials(environment):
    with answering(404, "NoSuchBucket") as (address, seen):
        environment(AWS_SKIP_SIGNATURE="true", AWS_ENDPOINT_URL=f"http://{address}", AWS_ALLOW_HTTP="true")
        said(COMMANDS[0])
    assert seen


def test_a_busy_server_is_asked_seven_times(environment):
    with answering(503, "SlowDown", "Please reduce your request rate") as (address, seen):
        environment(AWS_ENDPOINT_URL=f"http://{address}", AWS_ALLOW_HTTP="true", **KEYS)
        text = said(COMMANDS[0])
    assert "503 Service Unavailable: SlowDown: Please reduce your request rate" in text
    assert len(seen) == 7


@pytest.mark.parametrize("words", [("remote", "verify", "--store", "s3://tiered", "--layout", "local", "--key-prefix", "", *log_dirs("clean")), ("verify", "s3://tiered/x")])
def test_a_listing_without_an_end(words, environment):
    class Handler(Quiet):
        def do_GET(self):
            body = (b"<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>again</NextContinuationToken><Contents>"
                    b"<Key>x/y</Key><LastModified>2026-01-02T03:04:05Z</LastModified><Size>1</Size></Contents></ListBucketResult>")  # fmt: skip
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with serving(Handler) as address:
        environment(AWS_ENDPOINT_URL=f"http://{address}", AWS_ALLOW_HTTP="true", **KEYS)
        assert "the listing repeats x/y: it has no end" in said(words)


@pytest.mark.parametrize("is_replaced", [False, True])
def test_listings_may_spell_an_object_otherwise_than_requests_for_it(is_replaced, environment):
    """Some servers list entity tags without quotes, and times with parts of seconds."""
    data, key = build_batch([NewRecord(0, 1, b"k", b"v")]), "x-0/00000000000000000000.log"
    listing = (
        f"<ListBucketResult><Contents><Key>{key}</Key><LastModified>2026-01-02T03:04:05.678Z</LastModified>"
        f"<ETag>tag</ETag><Size>{len(data)}</Size></Contents></ListBucketResult>"
    ).encode()

    class Handler(Quiet):
        def do_GET(self):
            is_list = "list-type" in self.path
            tag = "other" if is_replaced else "tag"
            if self.headers.get("If-Match", f'"{tag}"') != f'"{tag}"':
                self.send_error(412)
                return
            self.send_response(200 if is_list or "Range" not in self.headers else 206)
            if not is_list:
                self.send_header("ETag", f'"{tag}"')
                self.send_header("Last-Modified", "Fri, 02 Jan 2026 03:04:05 GMT")
                self.send_header("Content-Range", f"bytes 0-{len(data) - 1}/{len(data)}")
            body = data if not is_list else listing if "prefix=x-0" in self.path else b"<ListBucketResult/>"
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_HEAD(self):
            self.send_error(404)

    with serving(Handler) as address:
        environment(AWS_ENDPOINT_URL=f"http://{address}", AWS_ALLOW_HTTP="true", **KEYS)
        done = kafkalog("fetch", "--raw", "s3://tiered/x-0")
    assert done.status == (8 if is_replaced else 0), done.err
    assert done.out == (b"" if is_replaced else data)
    assert ("replaced while it was read" in done.err) == is_replaced

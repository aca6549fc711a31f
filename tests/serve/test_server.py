"""The server: what clients must not do, what it must not do to files, logs that change, damage, replicas, its end."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest

from engine.protocol.frames import RequestHeader, decode_response, encode_request
from engine.serve.catalogue import Wanted
from engine.serve.server import Connection
from tests.fuzz.requests import make_session
from tests.remote.corpus import log_dirs, stores
from tests.serve.serving import OWN_ONLY, copied_log_dirs, exchanges, received, serving, unchanged
from tests.support.run import kafkalog

FETCH, LIST_OFFSETS, METADATA, API_VERSIONS, PRODUCE = 1, 2, 3, 18, 0


@pytest.fixture(scope="module")
def dirs(tmp_path_factory):
    return copied_log_dirs(tmp_path_factory.mktemp("serve") / "logs")


class Client:
    """A connection."""

    def __init__(self, server):
        self._socket = socket.create_connection(server.address)
        self._socket.settimeout(30)

    def ask(self, api, version, body):
        """Send a request → the body of the answer."""
        header = RequestHeader(api, version, 7, "test")
        self._socket.sendall(b"".join(encode_request(header, body)))
        frame = received(self._socket)
        assert frame is not None
        return decode_response(header, memoryview(frame)[4:]).body

    def is_ended_by(self, data):
        """Send bytes → does the server end the connection without an answer?"""
        self._socket.sendall(data)
        self._socket.shutdown(socket.SHUT_WR)
        try:
            return self._socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def fetch(self, topic, offset, *, index=0, size=1 << 20, wait=0, least=0, committed=False):
        asked = {"partition": index, "fetchOffset": offset, "partitionMaxBytes": size}
        body = {"replicaId": -1, "maxWaitMs": wait, "minBytes": least, "maxBytes": size, "isolationLevel": int(committed),
                "topics": [{"topic": topic, "partitions": [asked]}]}  # fmt: skip
        return self.ask(FETCH, 11, body)["responses"][0]["partitions"][0]

    def fetch_by_id(self, topic_id, offset):
        asked = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": 1 << 20}
        body = {"maxWaitMs": 0, "minBytes": 0, "maxBytes": 1 << 20, "isolationLevel": 0,
                "topics": [{"topicId": topic_id, "partitions": [asked]}]}  # fmt: skip
        return self.ask(FETCH, 13, body)["responses"][0]["partitions"][0]

    def topics(self):
        return self.ask(METADATA, 12, {"topics": None})["topics"]

    def log_start(self, topic, index=0):
        asked = {"partitionIndex": index, "timestamp": -2}
        topics = [{"name": topic, "partitions": [asked]}]
        answer = self.ask(LIST_OFFSETS, 2, {"replicaId": -1, "isolationLevel": 0, "topics": topics})
        return answer["topics"][0]["partitions"][0]["offset"]

    def everything(self, topic, index=0):
        """All batches of a partition, from its log start on."""
        offset = self.log_start(topic, index)
        found = b""
        while True:
            part = self.fetch(topic, offset, index=index)
            assert part["errorCode"] == 0
            data = bytes(part["records"])
            if not data:
                return found
            at = 0
            while at < len(data):
                base, size, delta = *struct.unpack_from(">qi", data, at), int.from_bytes(data[at + 23 : at + 27], "big")
                if at + 12 + size > len(data):
                    break
                offset, at = base + delta + 1, at + 12 + size
            found += data[:at]


def test_what_no_client_sends_ends_its_connection_and_no_other(dirs):
    rng = random.Random(7)
    hello = bytes.fromhex("16030100c8010000c403035f")
    requests = [one.request for session in ("java-assign", "kcat-group", "tool-topics-describe") for one in exchanges(session)]
    with serving(dirs) as server:
        other = Client(server)
        odd = [hello, struct.pack(">i", -5), struct.pack(">i", 1 << 30), struct.pack(">ihh", 4, 999, 0), bytes(4), b"GET / HTTP/1.1\r\n\r\n"]
        assert all(Client(server).is_ended_by(data) for data in odd)
        for _ in range(300):
            data = bytearray(rng.choice(requests))
            for _ in range(rng.randrange(1, 4)):
                data[rng.randrange(4, len(data))] = rng.randrange(256)
            del data[rng.randrange(4, len(data) + 1) :]
            one = Client(server)
            one._socket.sendall(data)
            one._socket.close()
        answer = other.ask(METADATA, 5, {"topics": None, "allowAutoTopicCreation": False})
        assert len(answer["topics"]) == 9


def test_damaged_sessions_through_sockets(dirs):
    """Whole sessions, in pieces, from clients that leave at any time: another client is still served, and threads end."""
    rng = random.Random(8)
    threads = threading.active_count()
    with serving(dirs) as server:
        other = Client(server)
        for number in range(300):
            stream = b"".join(len(frame).to_bytes(4, "big") + frame for frame in make_session(9, number).frames)
            with socket.create_connection(server.address) as client, suppress(OSError):  # the server ends it
                while stream:
                    size = rng.choice((1, 3, 50, 1000, len(stream)))
                    client.sendall(stream[:size])
                    stream = stream[size:]
                if rng.random() < 0.5:
                    client.shutdown(socket.SHUT_WR)
                    client.settimeout(0.01)
                    client.recv(1 << 16)
            if number % 50 == 0:
                assert len(other.topics()) == 9
        assert len(other.topics()) == 9
    deadline = time.monotonic() + 30
    while threading.active_count() > threads and time.monotonic() < deadline:
        time.sleep(0.05)
    assert threading.active_count() <= threads


def test_api_versions_of_an_unknown_version_is_answered_in_version_0(dirs):
    with serving(dirs) as server:
        client = socket.create_connection(server.address)
        client.sendall(struct.pack(">ihhihb", 13, API_VERSIONS, 99, 1, -1, 0) + bytes(2))
        frame = received(client)
    assert frame == struct.pack(">iihihhh", 20 - 4, 1, 35, 1, API_VERSIONS, 0, 4)


def test_nothing_on_the_disk_changes(dirs):
    with unchanged(dirs), serving(dirs, Wanted(is_internal=True)) as server:
        client = Client(server)
        for topic, indexes in {"plain": (0, 1), "codecs": (0, 1), "tx": (0,), "compacted": (0,), "__consumer_offsets": (0, 1)}.items():
            for index in indexes:
                client.everything(topic, index)
        refused = client.ask(PRODUCE, 3, {"transactionalId": None, "acks": -1, "timeoutMs": 1, "topicData": [
            {"name": "plain", "partitionData": [{"index": 0, "records": b"x"}]}]})  # fmt: skip
        assert refused["responses"][0]["partitionResponses"][0]["errorCode"] == 44


def can_mount():
    words = ["unshare", "--mount", "sh", "-c", "mount --bind /proc /proc"]
    return shutil.which("unshare") is not None and subprocess.run(words, capture_output=True, check=False).returncode == 0


def test_the_command_serves_a_file_system_that_is_mounted_read_only(dirs):
    if not can_mount():
        pytest.skip("needs the right to mount")
    top = str(Path(dirs[0]).parent)
    mount = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && ! touch "$0/x" 2> /dev/null && exec "$@"'
    command = [sys.executable, "-m", "kafkalog_cli.main", "serve", "--listen", "127.0.0.1:0", *dirs]
    process = subprocess.Popen(["unshare", "--mount", "sh", "-c", mount, top, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    host, _, port = process.stdout.readline().decode().rpartition(" at ")[2].partition(",")[0].rpartition(":")
    with socket.create_connection((host, int(port))) as client:
        for one in exchanges("java-group"):
            client.sendall(one.request)
            if received(client) is None:
                break
    process.send_signal(signal.SIGTERM)
    assert (process.communicate(timeout=30)[1], process.returncode) == (b"", 0)


def test_internal_topics_are_served_on_request_only(dirs):
    with serving(dirs) as server:
        names = {one["name"] for one in Client(server).ask(METADATA, 5, {"topics": None, "allowAutoTopicCreation": False})["topics"]}
    assert not any(name.startswith("__") for name in names)
    with serving(dirs, Wanted(topics=["pl*", "__consumer_offsets"], is_internal=True)) as server:
        found = Client(server).ask(METADATA, 5, {"topics": None, "allowAutoTopicCreation": False})["topics"]
    assert {one["name"]: one["isInternal"] for one in found} == {"plain": False, "__consumer_offsets": True}


def test_a_followed_log_is_read_as_it_grows(dirs, tmp_path):
    partition = tmp_path / "plain-0"
    shutil.copytree(next(Path(one) for top in dirs for one in Path(top).glob("plain-0")), partition)
    log = max(partition.glob("*.log"))
    data = log.read_bytes()
    last = at = 0
    while at + 12 + int.from_bytes(data[at + 8 : at + 12], "big") < len(data):
        last, at = at, at + 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    offset = int.from_bytes(data[at : at + 8], "big")
    log.write_bytes(data[:at])
    with serving([str(partition)], is_followed=True) as server:
        client = Client(server)
        assert bytes(client.fetch("plain", offset)["records"]) == b""
        with log.open("ab") as file:
            file.write(data[at:])
        part = client.fetch("plain", offset, wait=20_000, least=1)
        assert bytes(part["records"]) == data[at:]
        assert last < at


def test_damage_is_an_error_to_the_client_and_is_reported_once(dirs, tmp_path, capsys):
    partition = tmp_path / "plain-0"
    shutil.copytree(next(Path(one) for top in dirs for one in Path(top).glob("plain-0")), partition)
    log = min(partition.glob("*.log"))
    data = bytearray(log.read_bytes())
    data[8:12] = struct.pack(">i", 7)  # a size below that of any batch
    log.write_bytes(data)
    with serving([str(partition)]) as server:
        client = Client(server)
        codes = [client.fetch("plain", 0)["errorCode"] for _ in range(3)]
    assert codes == [2, 2, 2]
    assert capsys.readouterr().out.count(str(log)) == 1


def test_names_that_no_topic_can_have_are_not_served(dirs, tmp_path):
    origin = next(Path(one) for top in dirs for one in Path(top).glob("plain-0"))
    for name in (b"plain-0", b"$(touch x)-0", b"bad\xff-0", b"two\nlines-0", b"..-0"):
        shutil.copytree(os.fsencode(origin), os.fsencode(tmp_path) + b"/" + name)
    process, first = started("--listen", "127.0.0.1:0", str(tmp_path))
    command = process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)
    assert first.startswith("serving 1 topic, 1 partition ")
    assert command.endswith(b" -t plain\n")
    assert process.returncode == 0
    assert [line.split(b" ")[0] for line in err.splitlines()] == [b"info[file-ignored]"] * 4
    with serving([str(tmp_path)]) as server:
        assert [one["name"] for one in Client(server).topics()] == ["plain"]


def test_a_copied_directory_is_not_served_in_place_of_the_topic_whose_id_it_has(dirs, tmp_path):
    origin = next(Path(one) for top in dirs for one in Path(top).glob("plain-0"))
    for name in ("plain-0", "zcopy-0"):
        shutil.copytree(origin, tmp_path / name)
    for path in (tmp_path / "zcopy-0").glob("0*"):
        path.unlink()
    (tmp_path / "zcopy-0/00000000000000000000.log").touch()
    with serving([str(tmp_path)]) as server:
        client = Client(server)
        ids = {one["name"]: one["topicId"] for one in client.topics()}
        assert len(set(ids.values())) == 2
        assert client.fetch_by_id(ids["plain"], 1 << 40)["errorCode"] == 1
        assert client.fetch_by_id(ids["zcopy"], 0)["highWatermark"] == 0
        assert client.fetch_by_id(ids["plain"], client.log_start("plain"))["highWatermark"] > 0


def test_a_log_of_kafka_07_is_an_error_with_a_reason(tmp_path, capsys):
    (tmp_path / "old-0").mkdir()
    (tmp_path / "old-0/00000000000000000000.kafka").touch()
    with serving([str(tmp_path)]) as server:
        assert Client(server).fetch("old", 0)["errorCode"] == 56
    assert "a log of Kafka 0.7" in capsys.readouterr().out


def test_a_client_that_gets_no_thread_does_not_end_the_server(dirs, monkeypatch, capsys):
    start = Thread.start

    def refuse(thread):
        if thread.name != "kafkalog-accept":
            raise RuntimeError("can't start new thread")
        start(thread)

    with serving(dirs) as server:
        with monkeypatch.context() as patched:
            patched.setattr(Thread, "start", refuse)
            with socket.create_connection(server.address) as client:
                client.settimeout(30)
                assert client.recv(1) == b""
        assert Client(server).topics()
    assert "can't start new thread" in capsys.readouterr().out


def test_an_ipv6_address_is_shown_in_brackets(dirs):
    process, first = started("--listen", "[::1]:0", *dirs)
    command = process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)
    assert " at [::1]:" in first
    assert command.startswith(b"  kcat -b '[::1]:")
    assert (process.returncode, err) == (0, b"")


@pytest.mark.parametrize(("options", "host"), [((), "::1"), (("--advertise", "[2001:db8::7]:9092"), "2001:db8::7")])
def test_an_ipv6_address_is_told_to_clients_without_brackets(dirs, options, host):
    """As a broker does: clients put the brackets there themselves."""
    process, first = started("--listen", "[::1]:0", *options, *dirs)
    port = int(first.rpartition(" at [::1]:")[2].partition(",")[0])
    with socket.create_connection(("::1", port)) as client:
        header = RequestHeader(METADATA, 5, 7, "test")
        client.sendall(b"".join(encode_request(header, {"topics": None, "allowAutoTopicCreation": False})))
        [broker] = decode_response(header, memoryview(received(client))[4:]).body["brokers"]
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert (broker["host"], broker["port"]) == (host, 9092 if options else port)


@pytest.mark.parametrize("address", ["x:0", "x" * 256 + ":9092", ":9092"])
def test_an_address_that_no_client_can_use_is_not_advertised(dirs, address):
    assert kafkalog("serve", "--listen", "127.0.0.1:0", "--advertise", address, dirs[0]).status == 2


def test_a_log_of_more_segments_than_files_may_be_open(tmp_path):
    (tmp_path / "in").write_text('{"value": "x"}\n' * 300)
    done = kafkalog("append", "--create", "--topic-id", "AAAAAAAAAAAAAAAAAAAAAQ", "--batch-size", "1", "--config", "segment.bytes=80",
                    "--input", str(tmp_path / "in"), str(tmp_path / "many-0"))
    assert done.status == 0
    with serving([str(tmp_path)]) as server:
        client = Client(server)
        first = len(os.listdir("/proc/self/fd"))
        assert len(client.everything("many")) == sum(path.stat().st_size for path in (tmp_path / "many-0").glob("*.log"))
        assert len(os.listdir("/proc/self/fd")) < first + 10


def test_a_reader_of_the_output_that_leaves_ends_it(dirs):
    process = subprocess.Popen([sys.executable, "-m", "kafkalog_cli.main", "serve", "--listen", "127.0.0.1:0", *dirs], stdout=subprocess.PIPE)
    process.stdout.close()
    assert process.wait(timeout=30) == -signal.SIGPIPE


def test_of_several_replicas_the_best_one_is_served(dirs, tmp_path):
    origin = next(Path(one) for top in dirs for one in Path(top).glob("plain-0"))
    for name in ("a", "b"):
        shutil.copytree(origin, tmp_path / name / "plain-0")
    for path in (tmp_path / "a/plain-0").glob("0000000000000000005*"):
        path.unlink()
    with serving([str(tmp_path / "a"), str(tmp_path / "b")]) as server:
        found = Client(server).everything("plain")
    assert found == b"".join(path.read_bytes() for path in sorted(origin.glob("*.log")))


def test_remote_segments_are_served(tmp_path):
    from engine.files import ReadOnlyFiles
    from engine.remote.access import RemoteAccess, StoreOptions

    where = log_dirs("clean")
    remote = RemoteAccess(ReadOnlyFiles(), lambda: StoreOptions(stores("clean")), lambda own: [own, *where], print)
    with serving(where, remote=remote) as server:
        client = Client(server)
        answer = client.ask(METADATA, 5, {"topics": None, "allowAutoTopicCreation": False})
        seen = 0
        for topic in answer["topics"]:
            for one in topic["partitions"]:
                name = f"{topic['name']}-{one['partitionIndex']}"
                directory = next(str(path) for top in where for path in Path(top).glob(name))
                more = [word for path in where for word in ("--log-dir", path)]
                done = kafkalog("fetch", "--raw", "--store", stores("clean"), *more, directory)
                assert client.everything(topic["name"], one["partitionIndex"]) == done.out, name
                seen += 1
    assert seen > 10


def test_remote_metadata_is_found_in_all_log_dirs():
    process, first = started("--listen", "127.0.0.1:0", "--store", stores("clean"), *log_dirs("clean"))
    host, _, port = first.rpartition(" at ")[2].partition(",")[0].rpartition(":")
    client = Client(SimpleNamespace(address=(host, int(port))))
    topics = [(topic["name"], one["partitionIndex"]) for topic in client.topics() for one in topic["partitions"]]
    starts = {(topic, index): client.log_start(topic, index) for topic, index in topics}
    found = {key: client.fetch(*key[:1], start, index=key[1]) for key, start in starts.items()}
    process.send_signal(signal.SIGTERM)
    assert (process.communicate(timeout=60)[1], process.returncode) == (b"", 0)
    assert {part["errorCode"] for part in found.values()} == {0}
    assert starts["plain", 0] == 0
    assert int.from_bytes(bytes(found["plain", 0]["records"])[:8], "big") == 0


def started(*words):
    process = subprocess.Popen([sys.executable, "-m", "kafkalog_cli.main", "serve", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    return process, process.stdout.readline().decode()


@OWN_ONLY
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(dirs, tmp_path, number):
    metrics = tmp_path / "serve.prom"
    process, first = started("--listen", "127.0.0.1:0", "--metrics-textfile", str(metrics), *dirs)
    assert first.startswith("serving 9 topics, 11 partitions of cluster kafkalogWireSeed42CCCC at 127.0.0.1:")
    host, _, port = first.rpartition(" at ")[2].partition(",")[0].rpartition(":")
    client = socket.create_connection((host, int(port)))
    client.sendall(exchanges("java-assign")[0].request)
    assert received(client) is not None
    time.sleep(0.1)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, b"")
    assert out.decode().splitlines()[-1].startswith("served 1 connection, 1 request, ")
    assert 'kafkalog_serve_requests{api="ApiVersions"} 1.0' in metrics.read_text()


def test_what_cannot_be_served(dirs, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = kafkalog("serve", "--listen", f"127.0.0.1:{taken.getsockname()[1]}", dirs[0])
    assert done.status == 8
    assert "error[cannot-listen]" in done.err
    done = kafkalog("serve", "--listen", "127.0.0.1:0", "-t", "nothing-*", dirs[0])
    assert done.status == 2
    assert "no topic matches nothing-*\n  do   name one of the topics found: " in done.err
    assert kafkalog("serve", "--listen", "9092", dirs[0]).status == 2
    assert kafkalog("serve", str(tmp_path / "none")).status == 8
    (tmp_path / "empty").mkdir()
    assert "error[" in kafkalog("serve", "--listen", "127.0.0.1:0", str(tmp_path / "empty")).err


def test_metrics_that_cannot_be_written_do_not_end_it(dirs, tmp_path):
    place = tmp_path / "metrics"
    place.mkdir()
    process, _ = started("--listen", "127.0.0.1:0", "--metrics-textfile", str(place / "serve.prom"), *dirs)
    place.rmdir()
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 8
    assert b"serve.prom" in err
    assert out.decode().splitlines()[-1].startswith("served 0 connections")


def test_nothing_waits_for_more_after_the_last_bytes():
    """An empty last piece, such as the records of an answer at the end of a log, does not send what waits before it."""

    class Recorder:
        def __init__(self):
            self.sent = []

        def sendall(self, data, flags):
            self.sent.append((bytes(data), bool(flags & socket.MSG_MORE)))

    for pieces in ([b"head", b""], [b"head", memoryview(b""), b"tail"], [b"head", b"records", b"", b""]):
        connection = object.__new__(Connection)
        connection._socket = recorder = Recorder()
        connection._send(pieces)
        assert b"".join(data for data, _ in recorder.sent) == b"".join(pieces)
        assert [waits for _, waits in recorder.sent] == [True] * (len(recorder.sent) - 1) + [False]

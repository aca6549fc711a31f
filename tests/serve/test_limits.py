"""What clients may take of the server: connections, time, open files."""

from __future__ import annotations

import shutil
import socket
import struct
from pathlib import Path
from time import sleep

import pytest

from engine.files import ReadOnlyFiles
from engine.log.logdir.log_dirs import find_log_dirs
from engine.protocol.frames import RequestHeader, encode_request
from engine.protocol.messages import api_key
from engine.serve import apis, fetching, server
from engine.serve.catalogue import Catalogue, Wanted
from engine.serve.cluster import Address
from tests.serve.serving import copied_log_dirs, large_partition, serving
from tests.serve.test_server import FETCH, METADATA, Client

_ALL = {"topics": None, "allowAutoTopicCreation": False}


@pytest.fixture(scope="module")
def dirs(tmp_path_factory):
    return copied_log_dirs(tmp_path_factory.mktemp("limits") / "logs")


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    return large_partition(tmp_path_factory.mktemp("large"))


def is_ended(connection):
    """Read until the server ends the connection; False: it does not within 30 seconds."""
    connection.settimeout(30)
    try:
        while connection.recv(1 << 20):
            pass
    except ConnectionResetError:
        pass
    except TimeoutError:
        return False
    return True


def fetch_request(topic, size):
    asked = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": size}
    body = {"replicaId": -1, "maxWaitMs": 0, "minBytes": 0, "maxBytes": size, "isolationLevel": 0,
            "topics": [{"topic": topic, "partitions": [asked]}]}  # fmt: skip
    return b"".join(encode_request(RequestHeader(FETCH, 4, 7, "test"), body))


def connected(served, receive_buffer=None):
    client = socket.socket()
    if receive_buffer is not None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    client.connect(served.address)
    return client


def test_a_connection_too_many_is_refused_reported_and_counted(dirs, monkeypatch, capsys):
    monkeypatch.setattr(server, "_MAX_CONNECTIONS", 3)
    with serving(dirs) as served:
        clients = [Client(served) for _ in range(3)]
        assert all(client.ask(METADATA, 5, _ALL)["topics"] for client in clients)
        assert all(is_ended(connected(served)) for _ in range(5))
        assert (served.totals.connections, served.totals.refused) == (3, 5)
        assert capsys.readouterr().out.count("3 connections are open; one from 127.0.0.1 was closed") == 1
        assert all(client.ask(METADATA, 5, _ALL)["topics"] for client in clients)
        clients.pop()._socket.close()
        while len(served.connections) == 3:
            pass
        assert Client(served).ask(METADATA, 5, _ALL)["topics"]


def test_an_idle_client_is_disconnected(dirs, monkeypatch):
    monkeypatch.setattr(server, "_IDLE_MS", 1000)
    with serving(dirs) as served:
        assert is_ended(connected(served))


def test_little_waits_in_the_socket_of_a_client_on_this_machine(dirs):
    with serving(dirs) as served, connected(served):
        while not served.connections:
            pass
        [connection] = served.connections
        buffer = connection._socket.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        assert buffer in (server._LOCAL_BUFFER, 2 * server._LOCAL_BUFFER)  # Linux counts what it keeps beside each packet, too


def test_a_request_that_does_not_end_is_not_waited_for(dirs, monkeypatch):
    monkeypatch.setattr(server, "_REQUEST_MS", 300)
    with serving(dirs) as served:
        with connected(served) as slow:
            slow.sendall(struct.pack(">i", 1000))
            sent = 0
            slow.settimeout(0.02)  # a byte in this time
            with pytest.raises((BrokenPipeError, ConnectionResetError)):
                while sent < 996:
                    slow.sendall(b"\0")
                    sent += 1
                    try:
                        assert slow.recv(1) == b""
                        raise BrokenPipeError
                    except TimeoutError:
                        continue
        with connected(served) as client:  # many requests on one connection take as long as they like
            client.settimeout(30)
            for _ in range(3):
                request = fetch_request("plain", 1 << 20)
                client.sendall(request[:20])
                client.sendall(request[20:])
                assert client.recv(4)


@pytest.mark.parametrize("size", [2, 20])
def test_a_client_that_stops_within_a_request_is_disconnected(dirs, monkeypatch, size):
    monkeypatch.setattr(server, "_REQUEST_MS", 300)
    with serving(dirs) as served, connected(served) as client:
        request = fetch_request("plain", 1 << 20)
        client.sendall(request + request[:size])  # only the second one is not whole
        client.settimeout(30)
        while client.recv(1 << 20):
            pass


def test_a_client_that_does_not_read_is_disconnected(large, monkeypatch):
    monkeypatch.setattr(server, "_SEND_MS", 1000)
    with serving([str(large)]) as served, connected(served, 4096) as slow:
        slow.sendall(fetch_request("large", 24 << 20))
        while not served.connections:
            pass
        others = Client(served)
        assert others.ask(METADATA, 5, _ALL)["topics"]
        slow.settimeout(30)
        assert len(slow.recv(1)) == 1
        while len(served.connections) > 1:
            assert len(slow.recv(1)) == 1  # a byte now and then does not help it
            others.ask(METADATA, 5, _ALL)
            sleep(0.1)  # else there are so many that the operating system takes more from the server
        assert is_ended(slow)


def test_few_files_are_open_for_an_answer_of_many_partitions(dirs, tmp_path, monkeypatch):
    monkeypatch.setattr(fetching, "_MOST_SLICES", 5)
    origin = next(Path(one) for top in dirs for one in Path(top).glob("plain-0"))
    for index in range(12):
        shutil.copytree(origin, tmp_path / f"plain-{index}")
    with serving([str(tmp_path)]) as served:
        client, left, seen = Client(served), list(range(12)), []
        while left:
            asked = [{"partition": index, "fetchOffset": 0, "partitionMaxBytes": 1 << 20} for index in left]
            body = {"replicaId": -1, "maxWaitMs": 0, "minBytes": 0, "maxBytes": 50 << 20, "isolationLevel": 0,
                    "topics": [{"topic": "plain", "partitions": asked}]}  # fmt: skip
            parts = client.ask(FETCH, 4, body)["responses"][0]["partitions"]
            assert all(part["errorCode"] == 0 for part in parts)
            found = [part["partitionIndex"] for part in parts if len(part["records"])]
            seen.append(len(found))
            left = [index for index in left if index not in found]
    assert seen == [5, 5, 2]


def test_a_request_about_very_many_partitions_is_refused(dirs):
    asked = [{"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1} for _ in range(21_000)]
    body = {"replicaId": -1, "maxWaitMs": 0, "minBytes": 0, "maxBytes": 1, "isolationLevel": 0,
            "topics": [{"topic": "plain", "partitions": asked}]}  # fmt: skip
    with serving(dirs) as served:
        other = Client(served)
        assert Client(served).is_ended_by(b"".join(encode_request(RequestHeader(FETCH, 4, 7, "test"), body)))
        assert other.ask(METADATA, 5, _ALL)["topics"]


def test_few_large_requests_are_answered_at_the_same_time(dirs):
    """A waiting Fetch of very many partitions keeps its turn; small requests, and those that wait for members, need none."""
    files, turns = ReadOnlyFiles(), []
    catalogue = Catalogue(files, find_log_dirs(files, dirs), Wanted(), print, failed=print)
    where = Address("127.0.0.1", 9092)

    def ask(request):
        return served.answer(memoryview(request)[4:], where, where.host)

    def wait(_milliseconds):
        if not turns:
            turns.append([served._large.acquire(blocking=False) for _ in range(apis._LARGE_AT_ONCE)])
            assert ask(metadata)

    metadata = b"".join(encode_request(RequestHeader(METADATA, 5, 7, "test"), _ALL))
    end = [{"partition": 0, "fetchOffset": 59, "partitionMaxBytes": 1} for _ in range(2000)]
    body = {"replicaId": -1, "maxWaitMs": 9, "minBytes": 1, "maxBytes": 1, "isolationLevel": 0, "topics": [{"topic": "plain", "partitions": end}]}
    served = apis.Apis(catalogue, iter(range(10**9)).__next__, wait, lambda: 1)
    assert ask(b"".join(encode_request(RequestHeader(FETCH, 4, 7, "test"), body)))
    assert turns == [[True] * (apis._LARGE_AT_ONCE - 1) + [False]]
    assert served._large.acquire(blocking=False)
    for _ in range(2):  # all turns are taken, and it is answered
        protocols = [{"name": "range", "metadata": bytes(20_000)}]
        ask(join_request(protocols))
    with pytest.raises(apis.Refused, match="too many elements"):
        ask(join_request([{"name": str(number), "metadata": b""} for number in range(1001)]))
    catalogue.close()


def join_request(protocols):
    body = {"groupId": "", "sessionTimeoutMs": 10_000, "rebalanceTimeoutMs": 10_000, "memberId": "", "protocolType": "consumer", "protocols": protocols}
    return b"".join(encode_request(RequestHeader(api_key("JoinGroup"), 2, 7, "test"), body))


def test_damage_inside_a_batch_is_served_as_a_broker_does(dirs, tmp_path):
    """A broker sends batches without a look at their records; clients compare the checksum."""
    partition = tmp_path / "plain-0"
    shutil.copytree(next(Path(one) for top in dirs for one in Path(top).glob("plain-0")), partition)
    log = min(partition.glob("*.log"))
    data = bytearray(log.read_bytes())
    data[70] ^= 0xFF
    log.write_bytes(data)
    with serving([str(partition)]) as served:
        part = Client(served).fetch("plain", 0)
    assert (part["errorCode"], bytes(part["records"])) == (0, bytes(data))

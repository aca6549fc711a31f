"""Sessions of nine clients and Kafka's tools with a broker, sent to a server over the same log dirs: the answers are the same."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any

import pytest

from engine.protocol.frames import RequestHeader, encode_request
from engine.serve.catalogue import Wanted
from tests.serve.serving import SESSIONS, body_of, copied_log_dirs, exchanges, received, serving

if TYPE_CHECKING:
    from engine.serve.server import Server

# ids, addresses and epochs of the run; every start of a broker raises leader epochs
MASKED = {
    "throttleTimeMs", "sessionId", "port", "host", "leaderEpoch", "finalizedFeaturesEpoch", "memberId", "clusterId",
    "currentLeaderEpoch", "heartbeatIntervalMs", "leader", "members", "generationId", "memberEpoch", "committedLeaderEpoch", "logDir", "totalBytes", "usableBytes",
}  # fmt: skip
JOIN_GROUP, API_VERSIONS = 11, 18


# DescribeQuorum is for controllers; tests/serve/test_group_sessions.py has the others, whose answers depend on all groups before
BEFORE = {"kafkajs-committed": ["kafkajs-assign"]}  # the same group
NOT_HERE = {"tool-quorum", "tool-groups-list", "tool-groups-describe"}


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items() if name not in MASKED}
    if isinstance(value, list):
        return sorted((plain(each) for each in value), key=lambda one: json.dumps(one, sort_keys=True))
    return value


def differences(expected: Any, found: Any, where: str = "") -> list[str]:
    if isinstance(expected, dict) and isinstance(found, dict):
        names = sorted(expected.keys() | found.keys())
        return [one for name in names for one in differences(expected.get(name), found.get(name), f"{where}.{name}")]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = enumerate(zip(expected, found, strict=True))
        return [one for number, (left, right) in pairs for one in differences(left, right, f"{where}[{number}]")]
    return [] if expected == found else [f"{where}: {json.dumps(expected)[:150]} expected, {json.dumps(found)[:150]} found"]


FROM_SERVER_PROPERTIES = 4  # a config source


def without_server_properties(expected: dict[str, Any], found: dict[str, Any]) -> None:
    """Leave out settings of server.properties, which is not on the log dirs."""
    for number, result in enumerate(expected.get("results", [])):
        given = {one["name"] for one in result.get("configs", []) if one["configSource"] == FROM_SERVER_PROPERTIES}
        for one in (result, found["results"][number]) if given else ():
            one["configs"] = [config for config in one["configs"] if config["name"] not in given]


@pytest.fixture(scope="module")
def dirs(tmp_path_factory):
    return copied_log_dirs(tmp_path_factory.mktemp("serve") / "logs")


@pytest.fixture
def server(dirs):
    with serving(dirs, Wanted(is_internal=True)) as running:
        yield running


@pytest.mark.parametrize("session", [one for one in SESSIONS if one not in NOT_HERE])
def test_session(server, session):
    differ = [one for name in (*BEFORE.get(session, ()), session) for one in played(server, name)]
    assert not differ, "\n".join(differ[:20])


def played(server: Server, session: str) -> list[str]:
    """Send the requests of a session → what is different in the answers."""
    connections: dict[int, socket.socket] = {}
    ids: dict[bytes, bytes] = {}  # of fetch sessions and members: the broker's → ours
    differ = []
    for number, (connection, request, answer) in enumerate(exchanges(session)):
        if connection not in connections:
            connections[connection] = socket.create_connection(server.address)
            connections[connection].settimeout(40)
        client = connections[connection]
        client.sendall(with_ids(request, ids))
        if answer is None:  # the client had left, or the broker ended the connection
            continue
        ours = received(client)
        assert ours is not None, (number, request)
        expected, found = body_of(request, answer), body_of(request, ours)
        if found["api"] == 1 and expected.get("sessionId"):
            ids[expected["sessionId"].to_bytes(4, "big")] = found["sessionId"].to_bytes(4, "big")
        if found["api"] == JOIN_GROUP and expected["memberId"]:
            ids[expected["memberId"].encode()] = found["memberId"].encode()
        if found["api"] == API_VERSIONS:
            continue
        without_server_properties(expected, found)
        differ += [f"request {number}, API {found['api']}{one}" for one in differences(plain(expected), plain(found))]
    for client in connections.values():
        client.close()
    return differ


def with_ids(request: bytes, ids: dict[bytes, bytes]) -> bytes:
    """Return the request with our ids in place of the broker's, which are as long."""
    for theirs, ours in ids.items():
        assert len(theirs) == len(ours)
        request = request.replace(theirs, ours)
    return request


def test_partitions_of_a_fetch_session_take_turns_after_its_first_answer(server):
    """As IncrementalFetchContext: a partition that was answered with records goes to the end, but not by the full first request."""
    client = socket.create_connection(server.address)
    number, answered = 0, []
    wanted = [{"partition": index, "currentLeaderEpoch": -1, "fetchOffset": 0, "lastFetchedEpoch": -1, "logStartOffset": -1, "partitionMaxBytes": 1}
              for index in (0, 1)]  # fmt: skip
    for epoch in range(5):
        topics = [{"topic": "plain", "partitions": wanted}] if epoch == 0 else []
        body = {"replicaId": -1, "maxWaitMs": 0, "minBytes": 0, "maxBytes": 1, "isolationLevel": 0, "sessionId": number,
                "sessionEpoch": epoch, "topics": topics, "forgottenTopicsData": [], "rackId": ""}  # fmt: skip
        request = b"".join(encode_request(RequestHeader(1, 12, epoch, "turns"), body))
        client.sendall(request)
        found = body_of(request, received(client))
        number = found["sessionId"]
        parts = [one for topic in found["responses"] for one in topic["partitions"]]
        answered.append([one["partitionIndex"] for one in parts if one["recordsSizeInBytes"]])
    client.close()
    assert answered == [[0], [0], [1], [0], [1]]

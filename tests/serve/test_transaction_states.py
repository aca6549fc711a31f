"""Transactional ids, producers of partitions and the quorum, as a read-only server answers about them.

tests/serve/test_beside_a_broker.py compares the output of Kafka's tools with a broker on the same log dirs.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from engine.files import ReadOnlyFiles
from engine.protocol.error_codes import Error
from engine.protocol.messages import api_key
from engine.record.batch import read_records
from engine.serve import transaction_states
from tests.serve.serving import CONSUME, copied_log_dirs, serving
from tests.serve.test_server import Client
from tests.support.run import kafkalog

LIST, DESCRIBE, PRODUCERS, QUORUM, FIND = map(
    api_key, ("ListTransactions", "DescribeTransactions", "DescribeProducers", "DescribeQuorum", "FindCoordinator")
)


@pytest.fixture(scope="module")
def dirs(tmp_path_factory):
    return copied_log_dirs(tmp_path_factory.mktemp("transactions") / "logs")


@pytest.fixture
def client(dirs):
    with serving(dirs) as server:
        yield Client(server)


def listed(dirs, *command):
    """The objects that a command prints about the log dirs."""
    lines = kafkalog(*command, *dirs, "--format", "jsonl").out.splitlines()
    return [one for one in map(json.loads, lines) if one["type"] not in ("begin", "end", "finding")]


def wanted(states=(), producers=(), duration=-1):
    return {"stateFilters": list(states), "producerIdFilters": list(producers), "durationFilter": duration}


def transactions(client, **filters):
    answer = client.ask(LIST, 1, wanted(**filters))
    assert answer["errorCode"] == 0
    return {one["transactionalId"]: (one["producerId"], one["transactionState"]) for one in answer["transactionStates"]}


def test_transactional_ids_are_those_of_the_command(client, dirs):
    expected = [one for one in listed(dirs, "txn", "list") if one["type"] == "transaction"]
    assert len({one["state"] for one in expected}) > 1
    assert transactions(client) == {one["transactional_id"]: (one["producer_id"], one["state"]) for one in expected}
    described = client.ask(DESCRIBE, 0, {"transactionalIds": [one["transactional_id"] for one in expected]})["transactionStates"]
    assert [
        (one["transactionalId"], one["transactionState"], one["producerId"], one["producerEpoch"], one["transactionTimeoutMs"],
         one["transactionStartTimeMs"], {(topic["topic"], index) for topic in one["topics"] for index in topic["partitions"]})
        for one in described
    ] == [
        (one["transactional_id"], one["state"], one["producer_id"], one["producer_epoch"], one["timeout_ms"],
         -1 if one["start_time"] is None else one["start_time"], {(each["topic"], each["partition"]) for each in one["partitions"]})
        for one in expected
    ]  # fmt: skip
    assert any(one["topics"] for one in described)


def test_filters_of_transactional_ids(client):
    everything = transactions(client)
    for state in {state for _, state in everything.values()}:
        assert transactions(client, states=[state]) == {name: one for name, one in everything.items() if one[1] == state}
    name, (producer, _) = next(iter(everything.items()))
    assert transactions(client, producers=[producer]) == {name: everything[name]}
    assert transactions(client, duration=0)
    assert transactions(client, duration=1 << 60) == {}
    answer = client.ask(LIST, 0, {"stateFilters": ["Sleeping"], "producerIdFilters": []})
    assert (answer["unknownStateFilters"], answer["transactionStates"]) == (["Sleeping"], [])
    assert client.ask(LIST, 2, wanted() | {"transactionalIdPattern": ".*"})["errorCode"] == Error.UNSUPPORTED_VERSION


def test_transactional_ids_that_are_not_there(client):
    described = client.ask(DESCRIBE, 0, {"transactionalIds": ["nobody", "", "nobody"]})["transactionStates"]
    assert [(one["transactionalId"], one["errorCode"]) for one in described] == [
        ("nobody", Error.TRANSACTIONAL_ID_NOT_FOUND), ("", Error.INVALID_REQUEST)
    ]  # fmt: skip


@pytest.mark.parametrize("follow", [False, True])
def test_transactional_ids_are_read_again_if_logs_are_followed(dirs, tmp_path, follow):
    paths = [str(tmp_path / Path(one).name) for one in dirs]
    for source, path in zip(dirs, paths, strict=True):
        shutil.copytree(source, path)
    with serving(paths, is_followed=follow) as server:
        client = Client(server)
        assert transactions(client)
        for path in paths:
            for log in Path(path).glob("__transaction_state-*/*.log"):
                log.write_bytes(b"")
        assert bool(transactions(client)) is not follow


def test_both_kinds_of_coordinators_are_here_and_no_other(client):
    for kind, error in ((0, 0), (1, 0), (2, Error.COORDINATOR_NOT_AVAILABLE)):
        found = client.ask(FIND, 4, {"keyType": kind, "coordinatorKeys": ["x"]})["coordinators"]
        assert [one["errorCode"] for one in found] == [error]


def producers(client, topic, *indexes):
    asked = {"topics": [{"name": topic, "partitionIndexes": list(indexes)}]}
    [found] = client.ask(PRODUCERS, 0, asked)["topics"]
    return found["partitions"]


def test_producers_are_those_of_the_command(client, dirs):
    expected = [one for one in listed(dirs, "txn", "producers") if not one["topic"].startswith("__")]
    assert any(one["start_offset"] is not None for one in expected)
    for topic, index in {(one["topic"], one["partition"]) for one in expected}:
        [part] = producers(client, topic, index, index)
        assert part["errorCode"] == 0
        found = sorted((one["producerId"], one["producerEpoch"], one["lastSequence"], one["lastTimestamp"], one["coordinatorEpoch"],
                        one["currentTxnStartOffset"]) for one in part["activeProducers"])  # fmt: skip
        assert found == [
            (one["producer_id"], one["producer_epoch"], *(-1 if one[name] is None else one[name] for name in (
                "last_sequence", "last_time", "coordinator_epoch", "start_offset")))
            for one in expected if (one["topic"], one["partition"]) == (topic, index)
        ]  # fmt: skip


def test_producers_of_unknown_partitions_and_too_many_of_them(client, monkeypatch):
    assert [one["errorCode"] for one in producers(client, "tx", 99)] == [Error.UNKNOWN_TOPIC_OR_PARTITION]
    assert [one["errorCode"] for one in producers(client, "nowhere", 0)] == [Error.UNKNOWN_TOPIC_OR_PARTITION]
    monkeypatch.setattr(transaction_states, "_MOST_PRODUCERS", 0)
    [part] = producers(client, "tx", 0)
    assert (part["errorCode"], part["activeProducers"]) == (Error.POLICY_VIOLATION, [])
    assert "kafkalog txn producers" in part["errorMessage"]


def quorum(client, topic="__cluster_metadata", index=0):
    answer = client.ask(QUORUM, 2, {"topics": [{"topicName": topic, "partitions": [{"partitionIndex": index}]}]})
    [part] = answer["topics"][0]["partitions"]
    return answer, part


def test_the_quorum_is_that_of_the_broker_that_wrote_the_disks(client, dirs):
    lines = (CONSUME / "sessions/tool-quorum/frames.jsonl").read_text().splitlines()
    [captured] = [one["body"] for one in map(json.loads, lines) if one.get("api") == "DescribeQuorum" and one["direction"] == "response"]
    [expected] = captured["topics"][0]["partitions"]
    answer, part = quorum(client)
    assert (part["errorCode"], part["leaderId"], part["observers"]) == (0, expected["leaderId"], [])
    assert [(one["replicaId"], one["replicaDirectoryId"]) for one in part["currentVoters"]] == [
        (one["replicaId"], one["replicaDirectoryId"]) for one in expected["currentVoters"]
    ]
    assert [one["logEndOffset"] for one in part["currentVoters"]] == [part["highWatermark"]]
    with ReadOnlyFiles().open(str(max((CONSUME / "logs").glob("*/__cluster_metadata-0/*.log")))) as log:
        assert part["highWatermark"] == [one.offset for one in read_records(log, print)][-1] + 1
    listeners = [(one["nodeId"], [(each["name"], each["host"]) for each in one["listeners"]]) for one in captured["nodes"]]
    assert [(one["nodeId"], [(each["name"], each["host"]) for each in one["listeners"]]) for one in answer["nodes"]] == listeners
    assert quorum(client, index=1)[1]["errorCode"] == Error.UNKNOWN_TOPIC_OR_PARTITION
    assert quorum(client, "plain")[1]["errorCode"] == Error.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(("state", "error"), [
    (None, Error.LEADER_NOT_AVAILABLE), ("{", Error.LEADER_NOT_AVAILABLE),
    ('{"leaderId":-1,"leaderEpoch":3,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}', Error.LEADER_NOT_AVAILABLE),
    ('{"leaderId":2,"leaderEpoch":3,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}', Error.NONE),
])  # fmt: skip
def test_the_leader_is_the_one_in_quorum_state(dirs, tmp_path, state, error):
    shutil.copytree(next(one for one in dirs if (Path(one) / "__cluster_metadata-0").exists()), tmp_path / "d")
    path = tmp_path / "d/__cluster_metadata-0/quorum-state"
    path.unlink()
    if state is not None:
        path.write_text(state)
    with serving([str(tmp_path / "d")]) as server:
        part = quorum(Client(server))[1]
    assert (part["errorCode"], part["leaderId"]) == (error, -1 if error else 2)

"""The server and a real broker on the same log dirs: tools print the same, groups and transactions go the same way.

A few rows in the suite; all of them with KAFKALOG_BROKER=all (`make oracle`): each starts Java twice.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time

import pytest

from engine.protocol.frames import RequestHeader, decode_response, encode_request
from engine.protocol.messages import api_key
from engine.serve.catalogue import Wanted
from tests.oracle.broker import Broker, tool
from tests.oracle.jvm import missing_programs
from tests.serve.serving import CONSUME, copied_log_dirs, received, serving
from tests.support.needs import lacking

pytestmark = [pytest.mark.oracle, pytest.mark.xdist_group("beside a broker")]  # one broker, not one for each worker
ALL = os.environ.get("KAFKALOG_BROKER") == "all"
PROTOCOLS = ["classic", "consumer"] if ALL else ["consumer"]
GROUP_TOPICS = ("plain", "codecs", "edges")


@pytest.fixture(scope="module")
def top(tmp_path_factory):
    """The log dirs that the broker has, and the server reads at the same time."""
    top = tmp_path_factory.mktemp("beside") / "broker"
    shutil.copytree(CONSUME / "logs", top)
    for path in [top, *top.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o200)
    return top


@pytest.fixture(scope="module")
def broker(top):
    """The address of a broker, after it has ended the transaction that was open."""
    if missing := missing_programs():
        lacking(f"real Kafka needs {', '.join(missing)}: not found")
    with Broker(top) as running:
        assert running.has_started, running.said[-3000:]
        where = f"127.0.0.1:{running.port}"
        while stable_end(where, 1) < stable_end(where, 0):
            time.sleep(0.5)
        yield where


def stable_end(where, isolation):
    """Where readers of an isolation find the end of the topic whose last transaction was open."""
    asked = [{"name": "tx", "partitions": [{"partitionIndex": 0, "timestamp": -1}]}]
    answer = ask(where, "ListOffsets", 2, {"replicaId": -1, "isolationLevel": isolation, "topics": asked})
    return answer["topics"][0]["partitions"][0]["offset"]


@pytest.fixture(scope="module")
def address(top, broker):
    with serving(sorted(map(str, top.glob("d?"))), Wanted(is_internal=True), is_followed=True) as server:
        yield str(server.address)


@pytest.mark.skipif(not ALL, reason="slow: a part of `make oracle`")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_members_join_and_leave(broker, address, protocol):
    theirs, ours = (tool("kafkalog.oracle.Members", where, protocol, f"members-{protocol}", *GROUP_TOPICS) for where in (broker, address))
    assert ours == theirs


def plain_text(text, address):
    """What a tool prints, without what differs between two servers: ports, order, topics that a broker goes on writing."""
    text = re.sub(rf"\b{address.rpartition(':')[2]}\b", "PORT", text)
    lines = [re.sub(r" +", " ", line).strip() for line in text.splitlines()]
    return sorted(line for line in lines if line and not re.search(r"\b__\w+", line))


WHERE = "…"  # the address, for tools that want it before the other words
TOOLS = {
    "offsets": ["GetOffsetShell"],
    **{f"offsets {time}": ["GetOffsetShell", "--time", time] for time in ("earliest", "max-timestamp", "earliest-local", "latest-tiered", "1700000050000")},
    "topics": ["TopicCommand", "--list"],
    "topics described": ["TopicCommand", "--describe"],
    "a topic that is not there": ["TopicCommand", "--describe", "--topic", "nowhere", "--if-exists"],
    "groups": ["consumer.group.ConsumerGroupCommand", "--list", "--state", "--type"],
    **{f"groups' {what}": ["consumer.group.ConsumerGroupCommand", "--describe", "--all-groups", f"--{what}", "--verbose"]
       for what in ("offsets", "members", "state")},
    "log dirs": ["LogDirsCommand", "--describe", "--topic-list", "plain,codecs,trimmed,large"],
    "configs": ["ConfigCommand", "--describe", "--all", "--entity-type", "topics", "--entity-name", "plain"],
    "cluster": ["ClusterTool", "cluster-id"],
    "endpoints": ["ClusterTool", "list-endpoints"],
    "transactions": ["TransactionsCommand", "--bootstrap-server", WHERE, "list"],
    "a transaction": ["TransactionsCommand", "--bootstrap-server", WHERE, "describe", "--transactional-id", "tx-b-1"],
    "console": ["consumer.ConsoleConsumer", "--topic", "tx", "--from-beginning", "--max-messages", "58", "--isolation-level", "read_committed",
                "--formatter-property", "print.offset=true", "--formatter-property", "print.headers=true",
                "--formatter-property", "print.timestamp=true"],
}  # fmt: skip


@pytest.mark.parametrize("name", TOOLS if ALL else ["topics described", "groups' offsets"])
def test_tools_print_the_same(broker, address, name):
    command, *words = TOOLS[name]
    package = "kafka.admin" if command == "ConfigCommand" else "org.apache.kafka.tools"
    if WHERE not in words:
        words += ["--bootstrap-server", WHERE]
    theirs, ours = (
        plain_text(tool(f"{package}.{command}", *(where if word == WHERE else word for word in words)), where) for where in (broker, address)
    )
    assert ours == theirs
    assert ours or name in ("a topic that is not there", "offsets latest-tiered")


def ask(where, api, version, body):
    """Send a request → the body of the answer; None: the connection was closed."""
    host, _, port = where.rpartition(":")
    with socket.create_connection((host, int(port))) as client:
        client.settimeout(60)
        header = RequestHeader(api_key(api), version, 7, "test")
        client.sendall(b"".join(encode_request(header, body)))
        frame = received(client)
        return None if frame is None else decode_response(header, memoryview(frame)[4:]).body


def partitions(where):
    """(topic, partition, leader epoch) of all topics."""
    topics = ask(where, "Metadata", 9, {"topics": None, "allowAutoTopicCreation": False, "includeClusterAuthorizedOperations": False,
                                        "includeTopicAuthorizedOperations": False})["topics"]  # fmt: skip
    return [(topic["name"], one["partitionIndex"], one["leaderEpoch"]) for topic in topics if not topic["name"].startswith("__")
            for one in topic["partitions"]]  # fmt: skip


def epoch_ends(where, current):
    """Where each leader epoch ends. `current`: what is added to the leader epoch that the client knows; None: it knows none."""
    topics = {}
    for topic, index, known in partitions(where):
        topics.setdefault(topic, []).extend(
            {"partition": index, "currentLeaderEpoch": -1 if current is None else known + current, "leaderEpoch": epoch} for epoch in range(-1, 4)
        )
    topics["nowhere"] = [{"partition": 0, "currentLeaderEpoch": -1, "leaderEpoch": 0}]
    topics["plain"].append({"partition": 7, "currentLeaderEpoch": -1, "leaderEpoch": 0})
    body = {"replicaId": -2, "topics": [{"topic": topic, "partitions": some} for topic, some in topics.items()]}
    answer = ask(where, "OffsetForLeaderEpoch", 4, body)
    return sorted((topic["topic"], one["partition"], one["leaderEpoch"], one["endOffset"], one["errorCode"])
                  for topic in answer["topics"] for one in topic["partitions"])  # fmt: skip


@pytest.mark.parametrize("current", [None, 0, -1, 1])
def test_ends_of_leader_epochs(broker, address, current):
    assert epoch_ends(address, current) == epoch_ends(broker, current)


def test_a_partition_that_is_asked_for_twice(broker, address):
    def offsets(where):
        asked = [{"partitionIndex": index, "timestamp": time} for index, time in ((0, -1), (1, -2), (0, -2))]
        answer = ask(where, "ListOffsets", 2, {"replicaId": -1, "isolationLevel": 0, "topics": [{"name": "plain", "partitions": asked}]})
        return sorted((one["partitionIndex"], one["errorCode"], one["offset"]) for topic in answer["topics"] for one in topic["partitions"])

    def records(where):
        asked = [{"partition": index, "fetchOffset": offset, "partitionMaxBytes": 500} for index, offset in ((0, 0), (1, 9), (0, 20))]
        body = {"replicaId": -1, "maxWaitMs": 0, "minBytes": 0, "maxBytes": 1 << 20, "isolationLevel": 0,
                "topics": [{"topic": "plain", "partitions": asked}]}  # fmt: skip
        answer = ask(where, "Fetch", 4, body)
        return [(one["partitionIndex"], bytes(one["records"])) for topic in answer["responses"] for one in topic["partitions"]]

    def described(where):
        topics = [{"name": name} for name in ("plain", "empty", "plain")]
        answer = ask(where, "Metadata", 5, {"topics": topics, "allowAutoTopicCreation": False})
        return sorted(topic["name"] for topic in answer["topics"])

    def configs(where):
        resources = [{"resourceType": 2, "resourceName": name, "configurationKeys": keys}
                     for name, keys in (("plain", ["segment.bytes"]), ("empty", []), ("plain", ["retention.ms"]))]  # fmt: skip
        answer = ask(where, "DescribeConfigs", 1, {"resources": resources, "includeSynonyms": False})
        return [(one["resourceName"], one["errorCode"], sorted(config["name"] for config in one["configs"])) for one in answer["results"]]

    for each in (offsets, records, described, configs):
        assert each(address) == each(broker), each


@pytest.fixture
def writing(tmp_path):
    """The address of a server to which producers may write."""
    command = [sys.executable, "-m", "kafkalog_cli.main", "serve", "--accept-produce", "--listen", "127.0.0.1:0", *copied_log_dirs(tmp_path / "logs")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield process.stdout.readline().rpartition(" at ")[2].partition(",")[0]
        process.terminate()
        process.communicate(timeout=60)
        assert process.returncode == 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_offsets_in_transactions(broker, writing, protocol):
    theirs, ours = (tool("kafkalog.oracle.SendOffsets", where, protocol, "edges", "appended") for where in (broker, writing))
    assert ours == theirs
    assert "committed 70" in ours

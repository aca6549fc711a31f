"""Clients of five libraries read from the server what they read from a broker, by assignment and in groups, in both isolations."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import shutil
import subprocess

import pytest

from tests.oracle.jvm import ENVIRONMENT, class_path, missing_programs
from tests.serve.serving import CONSUME, OWN_ONLY, copied_log_dirs, serving, unchanged

GROUP_TOPICS = ["plain", "codecs", "edges"]
SECONDS = 60

confluent = pytest.importorskip("confluent_kafka")
kafka_python = pytest.importorskip("kafka")
aiokafka = pytest.importorskip("aiokafka")


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    dirs = copied_log_dirs(tmp_path_factory.mktemp("clients") / "logs")
    with unchanged(dirs), serving(dirs) as server:
        yield f"{server.address.host}:{server.address.port}"


def printed(session):
    """What a client printed that read from a broker: {(topic, partition, offset): (key, value)}."""
    lines = gzip.decompress((CONSUME / "sessions" / session / "printed.gz").read_bytes()).splitlines()
    rows = [json.loads(line) for line in lines]
    decode = lambda text: None if text is None else base64.b64decode(text)  # noqa: E731  # one expression
    return {(one["topic"], one["partition"], one["offset"]): (decode(one["key"]), decode(one["value"])) for one in rows if "offset" in one}


ASSIGNED, COMMITTED, GROUPED = printed("java-assign"), printed("java-committed"), printed("java-group")
PARTITIONS = sorted({key[:2] for key in ASSIGNED})


def with_confluent(address, group, isolation, protocol="classic"):
    consumer = confluent.Consumer({
        "bootstrap.servers": address, "group.id": group or "none", "auto.offset.reset": "earliest", "isolation.level": isolation,
        "enable.partition.eof": True, "enable.auto.commit": False, "check.crcs": True, "group.protocol": protocol,
    })  # fmt: skip
    partitions = PARTITIONS if group is None else sorted({key[:2] for key in GROUPED})
    if group is None:
        consumer.assign([confluent.TopicPartition(topic, index, 0) for topic, index in partitions])
    else:
        consumer.subscribe(GROUP_TOPICS)
    rows, ended = {}, set()
    while len(ended) < len(partitions):
        message = consumer.poll(SECONDS)
        assert message is not None
        if message.error() is None:
            rows[message.topic(), message.partition(), message.offset()] = message.key(), message.value()
        elif message.error().code() == confluent.KafkaError._PARTITION_EOF:
            ended.add((message.topic(), message.partition()))
    if group is not None:
        consumer.commit(asynchronous=False)
        committed = consumer.committed([confluent.TopicPartition("plain", 0)])
        assert [one.offset for one in committed] == [59]
    consumer.close()
    return rows


def with_kafka_python(address, group, isolation):
    consumer = kafka_python.KafkaConsumer(
        *([] if group is None else GROUP_TOPICS), bootstrap_servers=address, group_id=group, auto_offset_reset="earliest",
        isolation_level=isolation, consumer_timeout_ms=3000, enable_auto_commit=False,
    )  # fmt: skip
    if group is None:
        consumer.assign([kafka_python.TopicPartition(*one) for one in PARTITIONS])
    rows = {(one.topic, one.partition, one.offset): (one.key, one.value) for one in consumer}
    consumer.close()
    return rows


def with_aiokafka(address, group, isolation):
    async def read():
        consumer = aiokafka.AIOKafkaConsumer(
            *([] if group is None else GROUP_TOPICS), bootstrap_servers=address, group_id=group, auto_offset_reset="earliest",
            isolation_level=isolation, enable_auto_commit=False,
        )  # fmt: skip
        if group is None:
            consumer.assign([aiokafka.TopicPartition(*one) for one in PARTITIONS])
        await consumer.start()
        rows = {}
        try:
            while found := await consumer.getmany(timeout_ms=3000):
                rows |= {(one.topic, one.partition, one.offset): (one.key, one.value) for many in found.values() for one in many}
        finally:
            await consumer.stop()
        return rows

    return asyncio.run(read())


LIBRARIES = {"confluent": with_confluent, "kafka-python": with_kafka_python, "aiokafka": with_aiokafka}


def of(rows, expected):
    """The rows of the partitions that the broker's client read, from where it began: twice in the middle."""
    starts = {}
    for topic, partition, offset in expected:
        starts[topic, partition] = min(offset, starts.get((topic, partition), offset))
    return {key: row for key, row in rows.items() if key[:2] in starts and key[2] >= starts[key[:2]]}


@pytest.mark.parametrize("library", LIBRARIES)
def test_assigned_partitions(address, library):
    assert of(LIBRARIES[library](address, None, "read_uncommitted"), ASSIGNED) == ASSIGNED


@pytest.mark.parametrize("library", LIBRARIES)
def test_committed_records(address, library):
    assert of(LIBRARIES[library](address, None, "read_committed"), COMMITTED) == COMMITTED


@OWN_ONLY
@OWN_ONLY
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_group(address, library):
    assert LIBRARIES[library](address, f"g-{library}", "read_uncommitted") == GROUPED


def test_a_group_of_the_consumer_protocol(address):
    assert with_confluent(address, "g-next", "read_committed", "consumer") == GROUPED


@pytest.mark.skipif(shutil.which("kcat") is None, reason="no kcat: apt-get install kcat")
@pytest.mark.parametrize(("topic", "isolation", "expected"), [("plain", "read_uncommitted", ASSIGNED), ("tx", "read_committed", COMMITTED)])
def test_kcat_from_an_offset(address, topic, isolation, expected):
    partition = max(key[1] for key in expected if key[0] == topic)
    wanted = {key: row for key, row in expected.items() if key[:2] == (topic, partition)}
    start = min(key[2] for key in wanted)
    command = ["kcat", "-b", address, "-C", "-q", "-e", "-t", topic, "-p", str(partition), "-o", str(start), "-X", f"isolation.level={isolation}", "-J"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS)
    rows = map(json.loads, done.stdout.splitlines())
    assert {(one["topic"], one["partition"], one["offset"]): (one["key"], one["payload"]) for one in rows} == {
        key: tuple(None if data is None else data.decode() for data in row) for key, row in wanted.items()
    }


@pytest.mark.skipif(shutil.which("kcat") is None, reason="no kcat: apt-get install kcat")
def test_kcat_in_a_group(address):
    command = ["kcat", "-b", address, "-q", "-e", "-X", "auto.offset.reset=earliest", "-f", "%t %p %o\n", "-G", "g-kcat", *GROUP_TOPICS]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS)
    found = {(topic, int(partition), int(offset)) for topic, partition, offset in map(str.split, done.stdout.splitlines())}
    assert found == set(GROUPED)


def tool(address, name, *words):
    command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-cp", class_path(),
               f"org.apache.kafka.tools.{name}", "--bootstrap-server", address, *words]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS, env=ENVIRONMENT).stdout


@pytest.mark.oracle
@pytest.mark.skipif(missing_programs() != [], reason="needs Java and Maven")
class TestKafkasTools:
    """The Java client in Kafka's own tools."""

    @pytest.mark.parametrize("protocol", ["classic", "consumer"])
    def test_console_consumer_in_a_group(self, address, protocol):
        words = ["--from-beginning", "--timeout-ms", "6000", "--consumer-property", f"group.protocol={protocol}", "--topic", "plain"]
        format_ = ["--formatter-property", "print.offset=true", "--formatter-property", "print.partition=true", "--formatter-property", "print.value=false"]
        lines = tool(address, "consumer.ConsoleConsumer", *words, *format_).split()
        assert len(lines) >= len([key for key in ASSIGNED if key[0] == "plain"])

    @OWN_ONLY
    def test_offsets_topics_groups_and_log_dirs(self, address):
        assert "plain:1:65" in tool(address, "GetOffsetShell").splitlines()
        assert "Topic: plain\tPartition: 1\tLeader: 1\tReplicas: 1\tIsr: 1" in tool(address, "TopicCommand", "--describe", "--topic", "plain")
        with_confluent(address, "g-tools", "read_uncommitted")
        described = tool(address, "consumer.group.ConsumerGroupCommand", "--describe", "--group", "g-tools")
        assert ["g-tools", "plain", "0", "59", "59", "0"] in [line.split()[:6] for line in described.splitlines()]
        assert '"partition":"plain-0","size":' in tool(address, "LogDirsCommand", "--describe")

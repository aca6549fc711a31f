"""--accept-produce: producers write, consumers read it, and after the end the log dirs are those of a clean stop."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.serve.serving import OWN_ONLY, copied_log_dirs
from tests.support.run import kafkalog

confluent = pytest.importorskip("confluent_kafka")
kafka_python = pytest.importorskip("kafka")
SECONDS = 30


@pytest.fixture
def served(tmp_path):
    dirs = copied_log_dirs(tmp_path / "logs")
    command = [sys.executable, "-m", "kafkalog_cli.main", "serve", "--accept-produce", "--listen", "127.0.0.1:0", *dirs]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    address = process.stdout.readline().rpartition(" at ")[2].partition(",")[0]

    def end(number=signal.SIGTERM):
        process.send_signal(number)
        process.communicate(timeout=SECONDS)
        return process.returncode

    yield address, dirs, end
    process.kill()
    process.communicate()


@OWN_ONLY
def values(address, topic, start, isolation):
    consumer = confluent.Consumer({
        "bootstrap.servers": address, "group.id": "none", "isolation.level": isolation, "enable.partition.eof": True,
    })  # fmt: skip
    consumer.assign([confluent.TopicPartition(topic, 0, start)])
    found = []
    while (message := consumer.poll(SECONDS)) is not None and message.error() is None:
        found.append(message.value())
    consumer.close()
    return found


def test_idempotent_and_transactional_producers(served):
    address, dirs, end = served
    producer = confluent.Producer({"bootstrap.servers": address, "enable.idempotence": True, "compression.type": "lz4"})
    for number in range(200):
        producer.produce("plain", value=b"%d" % number, partition=0)
    assert producer.flush(SECONDS) == 0
    transactional = confluent.Producer({"bootstrap.servers": address, "transactional.id": "one"})
    transactional.init_transactions(SECONDS)
    for name, finish in (("kept", transactional.commit_transaction), ("dropped", transactional.abort_transaction)):
        transactional.begin_transaction()
        for number in range(10):
            transactional.produce("edges", value=f"{name} {number}".encode(), partition=0)
        assert transactional.flush(SECONDS) == 0  # an abort forgets what was not sent
        finish(SECONDS)
    other = kafka_python.KafkaProducer(bootstrap_servers=address, acks="all")
    assert other.send("edges", b"last").get(SECONDS).offset == 20 + 11 + 11
    other.close()
    assert values(address, "plain", 59, "read_committed") == [b"%d" % number for number in range(200)]
    assert values(address, "edges", 20, "read_committed") == [*(f"kept {number}".encode() for number in range(10)), b"last"]
    assert len(values(address, "edges", 20, "read_uncommitted")) == 21
    assert end() == 0
    assert kafkalog("verify", *dirs).status == 0
    assert all(kafkalog("recover", "--dry-run", path).status == 0 for path in dirs)


def test_offsets_in_transactions(served):
    address, _, end = served
    consumer = confluent.Consumer({"bootstrap.servers": address, "group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe(["plain"])
    assert consumer.poll(SECONDS) is not None
    producer = confluent.Producer({"bootstrap.servers": address, "transactional.id": "offsets"})
    producer.init_transactions(SECONDS)
    for offset, finish in ((7, producer.commit_transaction), (9, producer.abort_transaction), (8, producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce("edges", value=b"%d" % offset, partition=0)
        assert producer.flush(SECONDS) == 0
        producer.send_offsets_to_transaction([confluent.TopicPartition("plain", 0, offset)], consumer.consumer_group_metadata(), SECONDS)
        finish(SECONDS)
        assert [one.offset for one in consumer.committed([confluent.TopicPartition("plain", 0)], SECONDS)] == [7 if offset == 9 else offset]
    consumer.close()
    assert values(address, "edges", 20, "read_committed") == [b"7", b"8"]
    assert end() == 0


@OWN_ONLY
def test_a_second_one_and_a_broker_are_kept_out(served):
    _, dirs, end = served
    done = kafkalog("serve", "--accept-produce", "--listen", "127.0.0.1:0", dirs[0])
    assert done.status == 8
    assert "error[" in done.err
    assert end() == 0


def test_a_killed_server_leaves_what_a_crash_leaves(served):
    address, dirs, end = served
    producer = confluent.Producer({"bootstrap.servers": address})
    for number in range(100):
        producer.produce("plain", value=b"%d" % number, partition=0)
    assert producer.flush(SECONDS) == 0
    assert end(signal.SIGKILL) == -signal.SIGKILL
    assert kafkalog("recover", "--mark-clean", "--no-quarantine", *dirs).status in (0, 1)
    partition = next(path for path in (f"{top}/plain-0" for top in dirs) if kafkalog("dump-log", "--count", path).status == 0)
    assert kafkalog("fetch", "--offset", "59", partition).out.split() == [b"%d" % number for number in range(100)]

"""Clients in Go, JavaScript and Java read from the server what they read from a broker: assigned, in groups, in both isolations."""

from __future__ import annotations

import gzip
import json

import confluent_kafka as confluent
import pytest

from tests.oracle.jvm import missing_programs
from tests.serve import other_clients
from tests.serve.serving import CONSUME, copied_log_dirs, serving, unchanged
from tests.support.needs import lacking

pytestmark = pytest.mark.clients
SESSIONS = {one["session"]: one for one in json.loads((CONSUME / "sessions.json").read_text())}
LIBRARIES = {"franz-go": "franz", "sarama": "sarama", "kafka-go": "segmentio", "kafkajs": "kafkajs", "java": "java"}
HOW = {"group": "group", "group848": "next"}
CASES = [(library, kind) for library, client in LIBRARIES.items() for kind in ("assign", "committed", "group", "group848")
         if f"{client}-{kind}" in SESSIONS]  # fmt: skip


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    dirs = copied_log_dirs(tmp_path_factory.mktemp("clients") / "logs")
    with unchanged(dirs), serving(dirs) as server:
        yield str(server.address)


def need(library):
    if library == "java":
        if missing := missing_programs():
            lacking(f"the Java client needs {', '.join(missing)}: not found")
    elif not other_clients.program(library).exists():
        reason = f"no client of {library}: `make clients` builds it (Go, npm)"
        lacking(reason) if library in ("franz-go", "kafkajs") else pytest.skip(reason)  # CI builds these


def by_place(rows):
    return {(one["topic"], one["partition"], one["offset"]): [one[name] for name in ("timestamp", "key", "value", "headers")] for one in rows}


def recorded(session):
    """What a client printed that read from a broker."""
    lines = gzip.decompress((CONSUME / "sessions" / SESSIONS[session].get("printed_as", session) / "printed.gz").read_bytes()).splitlines()
    return by_place(map(json.loads, lines))


def end_of_tx(address, isolation):
    consumer = confluent.Consumer({"bootstrap.servers": address, "group.id": "none", "isolation.level": isolation})
    try:
        return consumer.get_watermark_offsets(confluent.TopicPartition("tx", 0), timeout=30)[1]
    finally:
        consumer.close()


def ends(expected):
    found = {}
    for topic, partition, offset in expected:
        found[topic, partition] = max(found.get((topic, partition), 0), offset + 1)
    return found


def committed(address, group, partitions):
    consumer = confluent.Consumer({"bootstrap.servers": address, "group.id": group})
    try:
        found = consumer.committed([confluent.TopicPartition(*one) for one in partitions], timeout=30)
        return {(one.topic, one.partition): one.offset for one in found}
    finally:
        consumer.close()


@pytest.mark.parametrize(("library", "kind"), CASES)
def test_the_same_rows_as_from_a_broker(address, library, kind):
    need(library)
    expected = recorded(f"{LIBRARIES[library]}-{kind}")
    starts, last = {}, ends(expected)
    for topic, partition, offset in expected:
        starts[topic, partition] = min(starts.get((topic, partition), offset), offset)
    isolation = "read_committed" if kind == "committed" else "read_uncommitted"
    count = len(expected)
    if library == "kafka-go" and ("tx", 0) in last:  # shows markers and aborted records, too; it was recorded up to the same count
        complete = recorded(f"java-{kind}")
        count = sum(one[0] != "tx" for one in complete) + end_of_tx(address, isolation) - starts["tx", 0]
    if kind in HOW:
        group = f"{library}-{kind}"
        words = [f"{HOW[kind]}={group}", isolation, count, *sorted({topic for topic, _ in starts})]
    else:
        words = ["assign", isolation, count, *(f"{topic}:{partition}:{offset}" for (topic, partition), offset in starts.items())]
    found = by_place(other_clients.rows(library, address, *words))
    assert len(found) == count
    assert {place: row for place, row in found.items() if place in expected} == expected
    if kind in HOW:
        assert committed(address, group, last) == last

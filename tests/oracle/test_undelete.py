"""A real broker serves every record of a topic that it had deleted, after `kafkalog undelete`, and goes on with it."""

from __future__ import annotations

import os
import time

import pytest

from tests.oracle.broker import Broker, tool
from tests.support.run import kafkalog

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(os.environ.get("KAFKALOG_BROKER") != "all", reason="four starts of a broker; KAFKALOG_BROKER=all takes them"),
]
PATIENCE = 60  # seconds


def topics(broker, *words):
    tool("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", f"127.0.0.1:{broker.port}", *words)


def create(broker):
    topics(broker, "--create", "--topic", "orders", "--partitions", "2", "--replication-factor", "1", "--config", "retention.ms=-1")


def wait_for(top, pattern):
    deadline = time.monotonic() + PATIENCE
    while len(list(top.glob(pattern))) < 2:
        assert time.monotonic() < deadline, pattern
        time.sleep(0.2)


@pytest.mark.parametrize("is_copied", [True, False], ids=["from copies", "in place"])
def test_a_deleted_topic_is_served_again(is_copied, kafka, tmp_path):
    top, safe = tmp_path / "top", tmp_path / "safe"
    top.mkdir()
    broker = Broker(top)
    broker.format("AAAAAAAAAAAAAAAAAAAAAQ")
    for number in range(2):  # two leader epochs
        with broker:
            assert broker.has_started, broker.said[-2000:]
            if not number:
                create(broker)
            broker.produce("orders", [f"record {number} {line}" for line in range(40)])
            before = broker.read_all("read_uncommitted")
            if number:
                topics(broker, "--delete", "--topic", "orders")
                wait_for(top, "d*/orders-*-delete")
    assert sum(len(rows) for name, rows in before.items() if name.startswith("orders")) == 80
    if is_copied:
        assert kafkalog("undelete", "--to", str(safe), str(top)).status == 1
    with broker:
        create(broker)
        wait_for(top, "d*/orders-[01]")
    done = kafkalog("undelete", "--as-new-topic", *([str(safe)] if is_copied else []), str(top / "d0"), str(top / "d1"))
    assert done.status == 1, done.err
    with broker:
        assert broker.has_started, broker.said[-2000:]
        assert broker.read_all("read_uncommitted") == before
        broker.produce("orders", ["one more"] * 10)
        assert sum(end for name, end in broker.end_offsets().items() if name.startswith("orders")) == 90
    assert not list(top.glob("d*/*-stray"))
    assert kafkalog("check", "--level", "full", str(top)).status == 0

"""MirrorMaker 2 copies a dead broker's topics into a live cluster, with the settings of docs/serve.md."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.oracle.broker import Broker, read_all
from tests.oracle.jvm import ENVIRONMENT, class_path_of
from tests.serve.serving import copied_log_dirs, serving

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(os.environ.get("KAFKALOG_BROKER") != "all", reason="slow: a part of `make oracle`"),
]
PAGE = Path(__file__).parents[2] / "docs/serve.md"
PATIENCE = 240  # seconds
ONE_NODE = [f"{name}.replication.factor = 1" for name in
            ("checkpoints.topic", "offset-syncs.topic", "offset.storage", "status.storage", "config.storage")]  # fmt: skip
OF_THE_CORPUS = "config.properties.exclude = internal.segment.bytes"  # its segments are smaller than a batch of MirrorMaker


def settings(dead, live):
    """The example in the page, with our addresses, for a cluster of one node."""
    [block] = re.findall(r"\n((?:    .*\n)*    clusters = .*\n(?:    .*\n)*)", PAGE.read_text())
    text = "\n".join(line.strip() for line in block.splitlines())
    assert text.count("127.0.0.1:9092") == text.count("live-broker:9092") == 1
    text = text.replace("127.0.0.1:9092", dead).replace("live-broker:9092", live)
    return "\n".join([re.sub("replication.factor = .*", "replication.factor = 1", text), *ONE_NODE, OF_THE_CORPUS]) + "\n"


def without_offsets(rows):
    """Timestamp, key and value of each record; the target sets the timestamps of a topic with LogAppendTime."""
    return {name: [(None if name.startswith("appended-") else time_, key, value) for _, time_, key, value in some]
            for name, some in rows.items()}  # fmt: skip


def test_everything_is_copied(kafka, tmp_path):
    dirs = copied_log_dirs(tmp_path / "logs")
    (tmp_path / "live").mkdir()
    live = Broker(tmp_path / "live")
    live.format("AAAAAAAAAAAAAAAAAAAAAQ")
    with live, serving(dirs) as server:
        expected = without_offsets(read_all(str(server.address), "read_uncommitted"))
        assert sum(map(len, expected.values())) > 500
        (tmp_path / "mm2.properties").write_text(settings(str(server.address), f"127.0.0.1:{live.port}"))
        command = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", class_path_of("mirror.xml"),
                   "org.apache.kafka.connect.mirror.MirrorMaker", str(tmp_path / "mm2.properties")]  # fmt: skip
        with (tmp_path / "mm2.out").open("wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=ENVIRONMENT, cwd=tmp_path)
        try:
            deadline, found = time.monotonic() + PATIENCE, {}
            while found != expected and time.monotonic() < deadline and process.poll() is None:
                time.sleep(3)
                rows = without_offsets(live.read_all("read_uncommitted"))
                found = {name: some for name, some in rows.items() if name in expected}
        finally:
            process.terminate()
            process.wait(60)
        assert found == expected, (tmp_path / "mm2.out").read_text()[-3000:]

"""A real broker on compacted directories: a consumer reads the latest value of every key, and its own cleaner goes on."""

from __future__ import annotations

import json
import re

import pytest

from engine.discovery.names import FileKind
from tests.oracle.broker import Broker, copy
from tests.support.live_keys import last_records
from tests.support.run import kafkalog

pytestmark = pytest.mark.oracle
TOPIC, LOG_DIR = "compacted", "d0"
BYTES_A_SEGMENT = "2000"


def append(partition, numbers):
    """Many values of few keys, in small segments."""
    records = partition.parent.parent / "records.jsonl"
    lines = [json.dumps({"key": f"key-{number % 30}", "value": f"value {number}", "timestamp": 1_700_700_000_000 + number})
             for number in numbers]  # fmt: skip
    records.write_text("\n".join(lines) + "\n")
    done = kafkalog("append", "--clean-start", "--input", str(records), "--batch-size", "7", "--config",
                    f"segment.bytes={BYTES_A_SEGMENT}", str(partition))  # fmt: skip
    assert done.status in (0, 1), done.err


def logs(partition):
    return {path.name: path.read_bytes() for path in partition.glob("*.log")}


def live(partition):
    return {key: last.value for key, last in last_records(logs(partition)).items() if last.value is not None}


def clean_until(top):
    lines = (top / LOG_DIR / FileKind.CLEANER_CHECKPOINT.value).read_text().splitlines()[2:]
    return {line.rsplit(" ", 1)[0]: int(line.rsplit(" ", 1)[1]) for line in lines}[f"{TOPIC} 0"]


def test_a_broker_serves_what_was_compacted_and_its_cleaner_goes_on(kafka, own_corpus, tmp_path):
    top = copy(own_corpus / "kafka-4.3.1/logs/clean", tmp_path / "logs")
    partition = top / LOG_DIR / f"{TOPIC}-0"
    append(partition, range(600))
    before, size = live(partition), sum(map(len, logs(partition).values()))
    end = 189 + 600  # the checkpoint of high watermarks knows nothing of what was appended
    done = kafkalog("compact", "--force", "--format", "json", "--high-watermark", str(end), str(partition))
    assert done.status in (0, 1), done.err
    assert live(partition) == before
    assert sum(map(len, logs(partition).values())) < size / 2
    ours = clean_until(top)
    assert ours > 174, "the broker's own cleaner came to here"
    append(partition, range(600, 1000))
    wanted = live(partition)
    assert len(wanted) >= 30
    (top / LOG_DIR / FileKind.CLEAN_SHUTDOWN.value).unlink(missing_ok=True)
    with Broker(top, cleaner=True) as broker:
        assert broker.has_started, broker.said[-3000:]
        broker.wait_for(f"Log cleaner thread 0 cleaned log {TOPIC}-0")
        consumed = broker.consume(TOPIC, end + 400)
    assert {key: value for key, value in consumed.items() if value is not None} == wanted
    ranges = re.findall(rf"Building offset map for log {TOPIC}-0 for \d+ segments in offset range \[(\d+), (\d+)\)", broker.said)
    assert ranges, broker.said[-3000:]
    assert int(ranges[0][0]) == ours, "it begins where ours ended"
    assert clean_until(top) >= int(ranges[0][1]) > ours
    assert live(partition) == wanted

"""What the sink writes is to real Kafka a log that it closed itself: nothing is rebuilt, cut or written anew."""

from __future__ import annotations

import pytest

from engine.files import Files
from engine.formats import CODEC_NAMES
from tests.support.sink_runs import NOW, SinkRun, batch

SETTINGS = {"segment.bytes": "20000", "index.interval.bytes": "1000"}
ROWS = 400


@pytest.fixture(scope="module", params=["written", "continued"])
def logs(request, work):
    """A partition for every codec, of two tasks, the second piece moved behind the first; or continued by another job."""
    root = work / f"sink-{request.param}"
    settings = {f"topic__{name.replace('.', '__')}": value for name, value in SETTINGS.items()}
    for _ in range(1 + (request.param == "continued")):
        for codec in CODEC_NAMES:
            run = SinkRun(Files(), str(root), topic=codec, numPartitions="1", kafka__compression__type=codec,
                          kafka__batch__size="2000", **settings)  # fmt: skip
            run.write(*[[rows(task)] for task in range(2)])
    return root


def rows(task):
    numbers = range(task * ROWS, (task + 1) * ROWS)
    headers = [[{"key": "h", "value": None}, {"key": "h", "value": b"x"}] if one % 3 == 0 else None for one in numbers]
    return batch(
        key=[None if one % 7 == 0 else b"k%d" % one for one in numbers],
        value=[None if one % 11 == 0 else b"%d " % one * (one % 40) for one in numbers], headers=headers,
    )  # fmt: skip


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_real_kafka_opens_it_with_a_clean_start_and_changes_nothing(logs, kafka_engine):
    assert (logs / ".kafka_cleanshutdown").exists()
    for codec in CODEC_NAMES:
        directory = logs / f"{codec}-0"
        before = contents(directory)
        options = [part for setting in SETTINGS.items() for part in ("--config", "=".join(setting))]
        answer = kafka_engine("open", str(directory), "--now", str(NOW), *options)
        assert "failed" not in answer, answer
        assert contents(directory) == before, codec


def test_the_real_dump_tool_finds_nothing_wrong(logs, real_dump):
    for codec in CODEC_NAMES:
        directory = logs / f"{codec}-0"
        segments = sorted(path.name for path in directory.glob("*.log"))
        indexes = sorted(path.name for path in directory.iterdir() if path.suffix in (".index", ".timeindex"))
        assert len(indexes) == 2 * len(segments)
        ran = real_dump(["--deep-iteration", "--files", ",".join(segments)], directory)
        text = ran[0].decode()
        tasks = 4 if logs.name.endswith("continued") else 2
        assert text.count("| offset: ") == tasks * ROWS
        assert "isvalid: false" not in text
        assert f"compresscodec: {codec}" in text
        checked = real_dump(["--files", ",".join(indexes)], directory)
        assert checked[2] == 0, checked
        for fault in ("mismatch", "Found", "out of order"):
            assert fault not in checked[0].decode() + checked[1].decode()



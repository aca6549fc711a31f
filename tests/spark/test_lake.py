"""The stream of Arrow batches for tables of other libraries, without Spark."""

from __future__ import annotations

import shutil

import pytest

from kafkalog_spark.errors import LogDirError
from kafkalog_spark.lake import batches
from kafkalog_spark.table.columns import EXPORTED


@pytest.fixture
def top(own_corpus):
    return own_corpus / "kafka-4.3.1/logs/clean"


def test_columns_and_topics_as_asked_for(top):
    rows = batches(str(top), subscribe="bulk,edge-keys_and.headers").read_all()
    assert rows.schema.names == list(EXPORTED)
    assert rows.num_rows > 3000
    assert set(rows["topic"].to_pylist()) == {"bulk", "edge-keys_and.headers"}
    some = batches(str(top), subscribe="bulk", columns="topic,offset,value").read_all()
    assert some.schema.names == ["topic", "offset", "value"]
    assert 0 < some.num_rows < rows.num_rows


def test_damage_ends_the_stream(top, tmp_path):
    shutil.copytree(next(top.glob("*/small_segments-0")), tmp_path / "small_segments-0")
    log = max((tmp_path / "small_segments-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(data)
    with pytest.raises(LogDirError, match="crc-mismatch"):
        batches(str(tmp_path)).read_all()


def test_a_path_that_is_not_there(tmp_path):
    with pytest.raises(ValueError, match="nowhere"):
        batches(f"{tmp_path}/nowhere")

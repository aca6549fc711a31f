"""A leader-epoch-checkpoint that contradicts the batches, after Kafka's recovery of all segments and after ours."""

from __future__ import annotations

import shutil

import pytest

from engine.config.topic import LogConfig
from engine.files import Files
from engine.log.loading.loader import open_log

pytestmark = pytest.mark.oracle
NAME = "leader-epoch-checkpoint"
TEXTS = ["0\n2\n0 0\n2 40\n", "0\n1\n2 0\n", "0\n3\n0 0\n1 7\n2 7\n", "0\n2\n1 7\n2 7\n", "0\n1\n0 50\n", "0\n0\n"]


@pytest.mark.parametrize("text", TEXTS)
def test_kafka_believes_the_file(text, kafka_engine, own_corpus, tmp_path):
    left = []
    for top in ("theirs", "ours"):
        directory = tmp_path / top / "small_segments-0"
        shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean/d1/small_segments-0", directory)
        (directory / NAME).write_text(text)
        if top == "theirs":
            assert "failed" not in kafka_engine("recover", str(directory))
        else:
            open_log(Files(), str(directory), LogConfig.of({}), now=1_700_000_000_000, clean_shutdown=False).close()
        left.append((directory / NAME).read_text())
    assert left[0] == left[1]

"""The log of a KRaft cluster's metadata: only controllers write it, and no command changes it behind their back."""

from __future__ import annotations

import shutil

import pytest

from engine.files import ReadOnlyFiles
from tests.support.file_work import tree
from tests.support.run import kafkalog

METADATA = "data/__cluster_metadata-0"


@pytest.mark.parametrize("words", [
    ("truncate", "--to", "60"), ("delete-records", "--before", "20"), ("append", "--input-format", "text", "--input", "lines"),
    ("append", "--input-format", "raw", "--input", "lines"), ("retain", "--config", "retention.bytes=1"), ("roll",),
], ids=" ".join)  # fmt: skip
@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_what_would_stop_a_broker_or_make_it_forget_is_refused(own_corpus, tmp_path, words, dry):
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean/d0", tmp_path / "data")
    (tmp_path / "data/.lock").touch()
    (tmp_path / "lines").write_text("garbage\n")
    before = tree(ReadOnlyFiles(), str(tmp_path / "data"))
    done = kafkalog(*words, *dry, METADATA, cwd=tmp_path)
    assert done.status == 4, done.err
    assert "the cluster's metadata log" in done.out.decode() + done.err
    assert tree(ReadOnlyFiles(), str(tmp_path / "data")) == before


def test_none_is_made(tmp_path):
    done = kafkalog("append", "--create", "--input-format", "text", "--input", "/dev/null", METADATA, cwd=tmp_path)
    assert done.status in (4, 8)
    assert not (tmp_path / METADATA).exists()

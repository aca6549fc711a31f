"""What is not needed any more is gone: the memory of a log that was opened, files where something failed."""

from __future__ import annotations

import gc
import shutil
import weakref
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from engine.arrow.heads import HEAD_TYPES, head_batches
from engine.config.topic import LogConfig
from engine.discovery.names import FileKind
from engine.errors import UnreadableFile, UnwritableFile
from engine.files import Files, ReadOnlyFiles
from engine.findings import Finding, Where
from engine.log.fetch.view import PartitionView
from engine.log.loading.loader import open_log
from engine.log.verify.rebuild import Rebuilder
from tests.support.open_files import open_below


@pytest.fixture
def partition(own_corpus, tmp_path):
    source = next(own_corpus.glob("kafka-4.3.1/logs/clean/*/small_segments-0"))
    return Path(shutil.copytree(source, tmp_path / source.name))


def test_a_log_goes_with_its_last_reference(tmp_path):
    """It was opened in memory first, and is opened once more: its producers may take much memory."""
    gc.disable()
    try:
        log = open_log(Files(), str(tmp_path / "t-0"), LogConfig(), now=1, clean_shutdown=True)
        producers = weakref.ref(log.producer_state)
        log.close_handlers()
        del log
        assert producers() is None
    finally:
        gc.enable()


def test_a_view_that_can_not_be_made_leaves_no_file_open(partition):
    (partition.parent / FileKind.LOG_START_CHECKPOINT.value).mkdir()
    with pytest.raises(UnreadableFile):
        PartitionView(ReadOnlyFiles(), str(partition), pytest.fail)
    assert open_below(partition) == []


def test_rebuilding_that_fails_leaves_no_file_open(partition):
    class Full(Files):
        def open_writable(self, path, *, create=False, mode=None):  # noqa: ARG002  # as it is called
            raise UnwritableFile(f"{path}: no room")

    damaged = [Finding("snapshot-corrupt", Where(str(max(partition.glob("*.snapshot")))), "")]
    rebuilder = Rebuilder(Full(), str(partition), LogConfig(), damaged, 1)
    with pytest.raises(UnwritableFile):
        rebuilder.run()
    assert open_below(partition) == []


@pytest.mark.parametrize("end", [10**9, 30])
def test_headers_as_columns_leave_no_file_open(partition, end):
    with closing(PartitionView(ReadOnlyFiles(), str(partition), pytest.fail)) as view:
        assert len(view.segments) > 3
        before = open_below(partition)
        schema = pa.schema([("baseOffset", HEAD_TYPES["baseOffset"])])
        found = sum(batch.num_rows for batch in head_batches(view, schema, {}, 0, end, pytest.fail))
        assert found > 3
        assert set(map(str, open_below(partition))) <= set(map(str, before))

"""Headers as columns say of old formats what their records are."""

from __future__ import annotations

import shutil
from contextlib import closing

import pyarrow as pa
import pytest

from engine.arrow.heads import HEAD_TYPES, head_batches
from engine.files import ReadOnlyFiles
from engine.formats import LONG_MAX
from engine.log.fetch.reading import FetchIsolation
from engine.log.fetch.records import RecordFetcher
from engine.log.fetch.view import PartitionView

COLUMNS = ("baseOffset", "lastOffset", "codec", "magic", "recordCount")


def heads_of(directory, **options):
    schema = pa.schema([(name, HEAD_TYPES[name]) for name in COLUMNS])
    with closing(PartitionView(ReadOnlyFiles(), str(directory), pytest.fail)) as view:
        found = head_batches(view, schema, {}, 0, LONG_MAX, pytest.fail, **options)
        return [row for batch in found for row in batch.to_pylist()]


def records_of(directory):
    with closing(PartitionView(ReadOnlyFiles(), str(directory), pytest.fail)) as view:
        return sum(1 for _ in RecordFetcher(view, view.log_start_offset, FetchIsolation.LOG_END, pytest.fail))


@pytest.mark.parametrize("version", ["0.8.2.2", "0.10.2.2"])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_sets_of_old_formats_are_counted(own_corpus, version, codec):
    directory = own_corpus / "old" / version / "logs/clean" / f"{codec}-0"
    heads = heads_of(directory)
    assert {(head["codec"], head["magic"] < 2) for head in heads} == {(codec, True)}
    assert sum(head["recordCount"] for head in heads) == records_of(directory)
    assert (len(heads) < records_of(directory)) == (codec != "none")


def test_a_set_that_can_not_be_read_has_no_count(own_corpus, tmp_path):
    source = own_corpus / "old/0.10.2.2/logs/clean/gzip-0"
    directory = shutil.copytree(source, tmp_path / "gzip-0")
    log = min(directory.glob("*.log"))
    data = bytearray(log.read_bytes())
    first = 12 + int.from_bytes(data[8:12], "big")
    data[first - 30 : first] = bytes(30)  # of what gzip made
    log.write_bytes(data)
    counts = [head["recordCount"] for head in heads_of(directory)]
    assert counts == [None, *(head["recordCount"] for head in heads_of(source)[1:])]
    assert {head["recordCount"] for head in heads_of(source, limit=1)} == {None}

"""Producers behind a snapshot: what many batches at a time tell is what they tell one by one."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.log.errors import CorruptRecord
from engine.log.producers import loading
from engine.log.producers.loading import producer_chunks, producer_rows
from tests.support.producer_logs import build, events
from tests.support.run import kafkalog
from tests.support.small_logs import LOG, opened

NOW = "1700000000000"


def rows_of_chunks(segment, start, end):
    for chunk in producer_chunks(segment, start, end):
        yield from chunk


def both(data, room):
    """The rows that either way tells, and what ended it, if anything did."""
    segment = SimpleNamespace(log_file=opened(data), log_path=LOG)  # as much of one as is looked at
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "_ROWS", room)
        for way in (producer_rows, rows_of_chunks):
            rows = []
            try:
                rows.extend(way(segment, 0, len(data)))
            except CorruptRecord as error:
                rows.append(str(error))
            yield rows


@given(events, st.integers(1, 8))
def test_both_ways_tell_the_same(log, room):
    one_by_one, many = both(b"".join(build(log)), room)
    assert many == one_by_one


@given(events, st.integers(1, 8))
def test_both_ways_end_where_a_size_makes_no_sense(log, room):
    one_by_one, many = both(b"".join(build(log)) + bytes(61), room)
    assert many == one_by_one
    assert "no batch has the size found at byte" in many[-1]


@pytest.mark.parametrize("words", [("retain",), ("roll",), ("truncate", "--to", "3"), ("delete-records", "--before", "1")])
def test_what_does_not_append_makes_no_object_for_each_batch(tmp_path, monkeypatch, words):
    """Behind a snapshot that is old there may be a million."""
    source, partition = tmp_path / "in", tmp_path / "t-0"
    source.write_text("one\ntwo\n")
    append = ("append", "--create", "--now", NOW, "--input-format", "text", "--input", str(source), "--producer-id", "7")
    for more in (append, ("roll", "--now", NOW), append):
        assert kafkalog(*more, "--clean-start", str(partition)).status == 0
    newest = partition / f"{4:020}.snapshot"
    data = newest.read_bytes()
    newest.unlink()
    monkeypatch.setattr(loading, "producer_rows", None)
    done = kafkalog(*words, "--clean-start", "--now", NOW, str(partition))
    assert done.status == 0, done.err
    assert words[0] == "truncate" or newest.read_bytes() == data

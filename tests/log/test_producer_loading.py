"""Producers behind a snapshot: what many batches at a time make of them is what they make one by one."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config.topic import LogConfig
from engine.files import Files
from engine.formats import CONTROL_FLAG, LONG_MAX, MAGIC_V2, TRANSACTIONAL_FLAG, BatchField
from engine.log.append.analysis import append_as_leader
from engine.log.errors import CorruptRecord
from engine.log.loading.loader import open_log
from engine.log.producers import state_manager
from engine.log.producers.entry import ProducerStateEntry
from engine.log.producers.state_manager import ProducerStateManager, producer_chunks
from engine.log.segment.producer_rows import ProducerRow, RowChunk
from engine.log.segment.recovery_walk import read_marker
from engine.overlay import OverlayFiles
from engine.record.builder import NewRecord, build_batch
from engine.record.columns import RecordColumns
from engine.record.windows import LogWalk
from tests.support.memory_files import MemoryFiles
from tests.support.producer_logs import Event, build, events, take_one_by_one
from tests.support.run import kafkalog
from tests.support.small_logs import LOG, opened

NOW = "1700000000000"
PRODUCER_FIELDS = (
    BatchField.PRODUCER_ID, BatchField.PRODUCER_EPOCH, BatchField.BASE_SEQUENCE, BatchField.BASE_OFFSET, BatchField.LAST_OFFSET,
    BatchField.MAX_TIMESTAMP,
)  # fmt: skip


def plain_rows(data):
    """A row for each batch of a producer, batch by batch."""
    for window in LogWalk(opened(data)):
        table = window.batches.table
        for row in range(window.rows):
            if table[BatchField.MAGIC, row] < MAGIC_V2 or table[BatchField.PRODUCER_ID, row] < 0:
                continue
            attributes = table[BatchField.ATTRIBUTES, row]
            is_control = bool(attributes & CONTROL_FLAG)
            marker = read_marker(window, row, RecordColumns(8)) if is_control else None
            yield ProducerRow(
                *(table[field, row] for field in PRODUCER_FIELDS), bool(attributes & TRANSACTIONAL_FLAG), is_control, marker
            )


def reported(data, room):
    """The rows that are reported many at a time, and what ended it, if anything did."""
    segment = SimpleNamespace(log_file=opened(data), log_path=LOG)  # as much of one as is looked at
    rows = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_manager, "_ROWS", room)
        try:
            for chunk in producer_chunks(segment, 0, len(data)):
                rows.extend(chunk)
        except CorruptRecord as error:
            rows.append(str(error))
    return rows


@given(events, st.integers(1, 8))
def test_both_ways_tell_the_same(log, room):
    data = b"".join(build(log))
    assert reported(data, room) == list(plain_rows(data))


@given(events, st.integers(1, 8))
def test_a_size_that_makes_no_sense_ends_it(log, room):
    data = b"".join(build(log))
    *rows, error = reported(data + bytes(61), room)
    assert rows == list(plain_rows(data))
    assert "no batch has the size found at byte" in error


def from_snapshot(before):
    """A state that knows of `before` what a snapshot has of it."""
    state = ProducerStateManager(MemoryFiles({}), "/log/t-0")
    for entry in before.producers.values():
        state.producers.put(ProducerStateEntry.of_snapshot(entry.to_snapshot()))
    for txn in before.ongoing.below(LONG_MAX):
        state.ongoing.put(txn)
    return state


def entries(state):
    return sorted(one.to_snapshot() for one in state.producers.values())


@given(events, st.integers(1, 60), st.integers(1, 3))
@settings(max_examples=80)
def test_a_log_behind_an_old_snapshot_knows_what_one_knows_that_took_batch_by_batch(log, before, room):
    """Open transactions, those whose markers may not be replicated, and the last batches of each producer."""
    batches = build([Event(7, "plain", 1), *log, Event(7, "plain", 1)])
    before = 1 + before % (len(batches) - 1)
    data, files = b"".join(batches), OverlayFiles(MemoryFiles({}), 0)
    files.make_directory("/log")
    files.make_directory("/log/t-0")
    for suffix, content in ((".log", data), (".index", b"")):
        with files.open_writable(f"/log/t-0/{0:020}{suffix}", create=True) as out:
            out.write_at(0, content)
    old = ProducerStateManager(files, "/log/t-0")
    take_one_by_one(old, plain_rows(b"".join(batches[:before])))
    old.update_map_end_offset(int.from_bytes(batches[before][:8], "big"))
    old.take_snapshot()
    wanted = from_snapshot(old)
    take_one_by_one(wanted, plain_rows(b"".join(batches[before:])))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_manager, "_ROWS", room)
        found = open_log(files, "/log/t-0", LogConfig(), now=2000, clean_shutdown=True).producer_state
        found.load_last_batches(wanted.producers)
    assert entries(found) == entries(wanted)
    assert (found.first_undecided_offset, found.first_unstable_offset) == (
        wanted.first_undecided_offset, wanted.first_unstable_offset
    )  # fmt: skip
    for entry in wanted.producers.values():
        assert found.last_entry(entry.producer_id).batches == entry.batches


def test_very_many_producers_are_not_remembered_at_once(tmp_path, monkeypatch):
    """What is forgotten is found again, also what was appended since."""
    monkeypatch.setattr(state_manager, "_MOST_WITH_BATCHES", 3)
    log = open_log(Files(), str(tmp_path / "t-0"), LogConfig(), now=2000, clean_shutdown=True)
    requests = [
        build_batch([NewRecord(0, 1000, None, b"v")], producer_id=producer, producer_epoch=0, base_sequence=sequence)
        for sequence in range(3) for producer in range(5)
    ]  # fmt: skip
    for request in requests:
        assert not append_as_leader(log, bytearray(request), 0).is_duplicate
    for number, request in enumerate(requests):
        info = append_as_leader(log, bytearray(request), 0)
        assert (info.is_duplicate, info.first_offset) == (True, number)
    assert log.log_end_offset == len(requests)
    log.close()


@pytest.mark.parametrize(
    "words",
    [("retain",), ("roll",), ("truncate", "--to", "3"), ("delete-records", "--before", "1"), ("append", "--input-format", "text")],
)
def test_no_command_makes_an_object_for_each_batch(tmp_path, monkeypatch, words):
    """Behind a snapshot that is old there may be millions."""
    source, partition = tmp_path / "in", tmp_path / "t-0"
    source.write_text("one\ntwo\n")
    append = ("append", "--create", "--now", NOW, "--input-format", "text", "--input", str(source), "--producer-id", "7")
    for more in (append, ("roll", "--now", NOW), append):
        assert kafkalog(*more, "--clean-start", str(partition)).status == 0
    newest = partition / f"{4:020}.snapshot"
    data = newest.read_bytes()
    newest.unlink()
    source.write_text("")
    monkeypatch.setattr(RowChunk, "row", None)
    more = ("--input", str(source)) if words[0] == "append" else ()
    done = kafkalog(*words, *more, "--clean-start", "--now", NOW, str(partition))
    assert done.status == 0, done.err
    assert words[0] == "truncate" or newest.read_bytes() == data

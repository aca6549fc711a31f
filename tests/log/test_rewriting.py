"""A batch written anew in one go is the batch that is put together from its description."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engine.formats import NO_TIMESTAMP, BatchField, Codec
from engine.log.cleaner.rewriting import BatchRewriter, Marked
from engine.record.builder import NewRecord, build_batch
from engine.record.reader import ChunkReader
from engine.record.windows import LogWalk
from tests.support.memory_files import MemoryFile

texts = st.none() | st.binary(max_size=40)
records = st.lists(st.tuples(st.integers(1, 5), st.integers(-1, 2**41), texts, texts, st.lists(st.tuples(st.just(b"h"), texts), max_size=2)),
                   min_size=1, max_size=20)  # fmt: skip


def rewrite(batch, keep, horizon):
    """The batch as both ways write it, with the records that `keep` says."""
    rewriter, found = BatchRewriter(), []
    for window in LogWalk(MemoryFile("x.log", batch)):
        (chunk,) = ChunkReader("x.log", found.append).chunks(window)
        marked = Marked(chunk, chunk.first, chunk.end, memoryview(bytes(keep)))
        return rewriter.rewrite_whole(window, 0, marked, horizon), rewriter.rewrite(window.batches, 0, (marked,), horizon)
    raise AssertionError("no batch")


@given(records, st.data(), st.sampled_from(list(Codec)), st.booleans(), st.sampled_from([NO_TIMESTAMP, 0, 1_700_000_000_000]),
       st.sampled_from([(-1, -1, -1, False), (7, 3, 2**31 - 2, False), (7, 3, 9, True)]))
@settings(deadline=None, max_examples=150)
def test_both_ways_make_the_same_bytes(described, draw, codec, append_time, horizon, producer):
    offset, batch_records = 10, []
    for step, timestamp, key, value, headers in described:
        offset += step
        batch_records.append(NewRecord(offset, timestamp, key, value, headers))
    producer_id, epoch, sequence, transactional = producer
    batch = build_batch(
        batch_records, base_offset=10, codec=codec, timestamp_type=int(append_time), log_append_time=99 if append_time else -1,
        producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=transactional,
        partition_leader_epoch=5, last_offset=offset + 3,
    )  # fmt: skip
    keep = draw.draw(st.lists(st.booleans(), min_size=len(described), max_size=len(described)))
    assume(any(keep))
    at_once, pieced = rewrite(batch, keep, horizon)
    assert at_once == pieced


def test_a_batch_that_has_a_delete_horizon_keeps_it_or_gets_another():
    batch = build_batch([NewRecord(0, 5, b"a", None), NewRecord(1, 6, b"b", b"v")], delete_horizon_ms=77)
    for horizon in (77, 88):
        at_once, pieced = rewrite(batch, [1, 1], horizon)
        assert at_once == pieced
        (window,) = LogWalk(MemoryFile("x.log", at_once))
        assert window.batches.row(0)[BatchField.BASE_TIMESTAMP] == horizon
        assert window.batches.row(0)[BatchField.VALID] == 1


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_left_to_the_other_way(magic):
    batch = build_batch([NewRecord(0, 5, b"a", b"v"), NewRecord(1, 6, b"b", b"v")], magic=magic, codec=Codec.GZIP)
    at_once, pieced = rewrite(batch, [1, 0], NO_TIMESTAMP)
    assert at_once is None
    assert pieced


def test_nothing_that_stays_is_no_batch():
    assert _none_kept() is None


def _none_kept():
    batch = build_batch([NewRecord(0, 5, b"a", b"v")])
    for window in LogWalk(MemoryFile("x.log", batch)):
        (chunk,) = ChunkReader("x.log", [].append).chunks(window)
        return BatchRewriter().rewrite_whole(window, 0, Marked(chunk, 0, 1, memoryview(b"\0")), NO_TIMESTAMP)
    raise AssertionError("no batch")

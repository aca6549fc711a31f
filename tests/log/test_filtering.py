"""What a consumer of committed records gets, and for remote segments how many indexes are read to decide it."""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest

from engine.files import ReadOnlyFiles
from engine.formats import ABORTED_TXN, AbortedTxn
from engine.kernels.tables import TxnBatch
from engine.log.fetch.reading import FetchIsolation
from engine.log.fetch.records import RecordFetcher
from engine.log.fetch.segment_view import SegmentView
from engine.log.fetch.view import PartitionView
from tests.support.small_logs import batch, with_wrong_checksum
from tests.support.transaction_batches import batch_of

DATA, COMMIT, ABORT = TxnBatch.DATA, TxnBatch.COMMIT, TxnBatch.ABORT


class Made(NamedTuple):
    """A partition on the disk, the offsets of its committed records, and the base offsets of its segments."""

    directory: str
    committed: list[int]
    bases: list[int]


def make(folder, batches, *, rolls=(), damaged=()):
    """Write the batches, which are (kind, producer) or None for a batch without transaction.

    rolls    numbers of batches that begin a segment
    damaged  numbers of markers whose checksum is wrong; the transaction index has their transactions
    """
    directory = folder / "t-0"
    directory.mkdir(parents=True)
    began, records, aborted, logs, offset = {}, [], set(), {}, 0
    for number, one in enumerate(batches):
        if not logs or number in rolls:
            logs[offset] = (bytearray(), bytearray())
        log, index = logs[max(logs)]
        if one is None:
            data, count = batch(offset, 2), 2
            records += [(offset, None), (offset + 1, None)]
        else:
            kind, producer = one
            count = 2 if kind == DATA else 1
            data = batch_of(kind, offset, producer, count)
            if kind == DATA:
                first = began.setdefault(producer, offset)
                records += [(offset, (producer, first)), (offset + 1, (producer, first))]
            elif producer in began:
                first = began.pop(producer)
                if kind == ABORT:
                    aborted.add((producer, first))
                    index += ABORTED_TXN.pack(AbortedTxn(0, producer, first, offset, min(began.values(), default=offset + 1)))
        log += with_wrong_checksum(data) if number in damaged else data
        offset += count
    for base, (log, index) in logs.items():
        (directory / f"{base:020d}.log").write_bytes(log)
        if index:
            (directory / f"{base:020d}.txnindex").write_bytes(index)
    stable = min(began.values(), default=offset)
    return Made(str(directory), [at for at, txn in records if at < stable and txn not in aborted], sorted(logs))


@pytest.fixture
def read_indexes(monkeypatch):
    """Let segments be those of a store. Returns a list of base offsets: of the transaction indexes that were read."""
    read, collect = [], SegmentView.collect_aborted_txns

    def collected(segment, fetch_offset, upper_bound_offset):
        read.append(segment.base_offset)
        return collect(segment, fetch_offset, upper_bound_offset)

    monkeypatch.setattr(SegmentView, "needs_requests", True)
    monkeypatch.setattr(ReadOnlyFiles, "needs_requests", lambda _files, _path: True)
    monkeypatch.setattr(SegmentView, "aborted_are_unknown", False)  # as their metadata says
    monkeypatch.setattr(SegmentView, "collect_aborted_txns", collected)
    return read


def committed(made, start=0, *, limit=None):
    """Return the offsets of the records that a consumer of committed records gets."""
    view = PartitionView(ReadOnlyFiles(), made.directory, lambda _: None)
    try:
        if SegmentView.needs_requests:
            for base, following in zip(made.bases, made.bases[1:], strict=False):
                view.segments.get(base).next_offset = following
        found = []
        for record in RecordFetcher(view, start, FetchIsolation.READ_COMMITTED, lambda _: None):
            found.append(record.offset)
            if len(found) == limit:
                break
        return found
    finally:
        view.close()


def random_batches(rng):
    """Return the batches of a few producers, some with many transactions, and the numbers of those that begin a segment."""
    batches = [rng.choice([None, *((kind, rng.randrange(5)) for kind in (DATA, DATA, DATA, COMMIT, ABORT))])
               for _ in range(rng.randrange(2, 60))]  # fmt: skip
    return batches, {number for number in range(1, len(batches)) if rng.random() < 0.15}


@pytest.mark.parametrize("seed", range(40))
def test_random_logs_give_the_same_records_in_local_and_remote_segments(tmp_path, seed, request):
    rng = random.Random(seed)
    batches, rolls = random_batches(rng)
    made = make(tmp_path, batches, rolls=rolls)
    starts = [0, *(rng.randrange(2 * len(batches)) for _ in range(5))]
    starts = [start for start in starts if start <= max(made.committed, default=0)]
    wanted = {start: [at for at in made.committed if at >= start] for start in starts}
    assert {start: committed(made, start) for start in starts} == wanted
    request.getfixturevalue("read_indexes")
    assert {start: committed(made, start) for start in starts} == wanted


@pytest.mark.parametrize("seed", range(40))
def test_a_marker_that_cannot_be_read_leaves_the_decision_to_the_index(tmp_path, seed, request):
    rng = random.Random(seed)
    batches, rolls = random_batches(rng)
    batches += [(COMMIT, producer) for producer in range(5)]  # none is open at the end
    markers = [number for number, one in enumerate(batches[:-5]) if one is not None and one[0] == ABORT]
    made = make(tmp_path, batches, rolls=rolls, damaged=rng.sample(markers, min(len(markers), 2)))
    local = committed(made)
    request.getfixturevalue("read_indexes")
    assert committed(made) == local


def test_a_marker_in_the_window_decides_without_an_index(tmp_path, read_indexes):
    batches = [(DATA, 1), (DATA, 2), (ABORT, 1), (COMMIT, 2), (DATA, 3), (ABORT, 3), None]
    made = make(tmp_path, batches, rolls={6})
    assert committed(made) == [2, 3, 9, 10] == made.committed
    assert read_indexes == []


def test_an_index_of_a_later_segment_is_read_up_to_the_first_that_decides(tmp_path, read_indexes):
    batches = [(DATA, 1), None, (DATA, 2), (ABORT, 2), (ABORT, 1), None, (DATA, 3), (ABORT, 3), None]
    made = make(tmp_path, batches, rolls={2, 4, 6, 8})
    assert committed(made, limit=1) == [2]
    assert read_indexes == made.bases[1:3]  # not that of its own segment, whose markers were all seen


def test_batches_outside_transactions_need_no_index(tmp_path, read_indexes):
    made = make(tmp_path, [None, (DATA, 1), (ABORT, 1), None], rolls={1})
    assert committed(made, limit=2) == [0, 1]
    assert read_indexes == []


def test_only_the_part_that_is_read_needs_indexes(tmp_path, read_indexes):
    made = make(tmp_path, [(DATA, 1), None, (DATA, 2), (ABORT, 2), (ABORT, 1), None], rolls={2, 4, 5})
    assert committed(made, start=made.bases[-1]) == made.committed[-2:]
    assert read_indexes == []

"""Batches into a table of producers: as ProducerAppendInfo takes them one by one."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.checkpoint.producer_snapshot import write_producer_snapshot
from engine.formats import (
    ABORTED_TXN,
    INT_MAX,
    LONG_MAX,
    PRODUCER_SNAPSHOT_ENTRY,
    AbortedTxn,
    ControlType,
    ProducerSnapshotEntry,
    to_int,
)
from engine.kernels import producers as kernel
from engine.kernels.tables import Applied
from engine.log.append_errors import AppendRefused
from engine.log.producers import state_manager, table
from engine.log.producers.check import SeenProducers
from engine.log.producers.entry import AppendOrigin, ProducerAppendInfo, ProducerStateEntry, TxnMetadata
from engine.log.producers.state_manager import BatchSources, ProducerStateManager
from engine.log.producers.table import Transactions
from engine.log.segment.producer_rows import ProducerRow, RowChunk, TxnMarker
from engine.overlay import OverlayFiles
from tests.support.memory_files import MemoryFiles
from tests.support.strategies import examples


class Plain:
    """The same with an object for everything."""

    def __init__(self):
        self.producers, self.ongoing, self.aborted = {}, {}, []

    def take(self, row):
        current = self.producers.get(row.producer_id) or ProducerStateEntry(row.producer_id)
        info = ProducerAppendInfo("t-0", current, AppendOrigin.REPLICATION)
        completed = info.append(row)
        if completed is not None and completed.first_offset not in self.ongoing:
            raise AppendRefused("was not started")
        current.update(info.entry)
        self.producers[row.producer_id] = current
        self.ongoing |= {txn.first_offset: txn.producer_id for txn in info.started}
        if completed is None:
            return
        others = (first for first, producer in self.ongoing.items() if producer != row.producer_id)
        stable = min(others, default=completed.last_offset + 1)
        del self.ongoing[completed.first_offset]
        if completed.is_aborted:
            self.aborted.append(AbortedTxn(0, row.producer_id, completed.first_offset, completed.last_offset, stable))


offsets = st.integers(0, 40) | st.integers(0, 2**62)
rows = st.builds(
    lambda producer, epoch, sequence, offset, delta, timestamp, kind, marker: ProducerRow(
        producer, epoch, sequence, offset, offset + delta, timestamp, kind != "plain", kind in ("marker", "empty"),
        marker if kind == "marker" else None,
    ),
    st.sampled_from([0, 1, 7, 2**40, LONG_MAX]), st.integers(0, 2), st.sampled_from([-1, 0, 5, INT_MAX - 1, INT_MAX]), offsets,
    st.sampled_from([0, 0, 3, INT_MAX, -2]), st.integers(-1, 50),
    st.sampled_from(["plain", "transactional", "transactional", "marker", "marker", "empty"]),
    st.builds(TxnMarker, st.sampled_from([ControlType.ABORT, ControlType.COMMIT]), st.integers(-1, 9), st.integers(-1, 50)),
)  # fmt: skip


@given(st.lists(rows, max_size=60), st.integers(1, 20), st.sampled_from([1, 2, 1000]))
@examples(150)
def test_as_one_by_one(taken, size, aborted_at_once):
    plain, aborted = Plain(), bytearray()
    state = ProducerStateManager(MemoryFiles({}), "/log/t-0", for_snapshots=True)
    refused = wanted = None
    for row in taken:
        try:
            plain.take(row)
        except AppendRefused as error:
            wanted = error
            break
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_manager, "_ENDED_AT_ONCE", aborted_at_once)
        try:
            state.update_recovered([RowChunk.of(taken[at : at + size]) for at in range(0, len(taken), size)], aborted.extend)
        except AppendRefused as error:
            refused = error
    assert (refused is None) == (wanted is None)
    assert list(map(AbortedTxn._make, ABORTED_TXN.struct.iter_unpack(aborted))) == plain.aborted
    if refused is None:
        entries = map(ProducerSnapshotEntry._make, PRODUCER_SNAPSHOT_ENTRY.struct.iter_unpack(b"".join(state.producers.pieces())))
        found = {one.producer_id: one for one in entries}
        assert found == {producer: one.to_snapshot() for producer, one in plain.producers.items()}
        assert (len(state.ongoing), state.first_undecided_offset) == (len(plain.ongoing), min(plain.ongoing, default=None))


@given(st.lists(rows, max_size=60), st.integers(1, 20), st.integers(0, 60), st.booleans())
@examples(150)
def test_the_last_batches_are_found_again(taken, size, behind, has_snapshot):
    """The same as a simple model keeps, from a snapshot and the batches after it, or from all batches."""
    plain, sound, files = Plain(), [], OverlayFiles(MemoryFiles({}), 0)
    for row in taken:
        try:
            plain.take(row)
        except AppendRefused:
            break
        sound.append(row)
        if has_snapshot and len(sound) == behind:  # it has the last batch of each
            with files.open_writable("/s", create=True) as out:
                write_producer_snapshot(out, len(plain.producers), [b"".join(
                    PRODUCER_SNAPSHOT_ENTRY.pack(one.to_snapshot()) for one in plain.producers.values()
                )])  # fmt: skip
            for one in plain.producers.values():
                one.batches = one.batches[-1:]
    is_there = has_snapshot and 0 < behind <= len(sound)
    rest = sound[behind:] if is_there else sound
    chunks = [RowChunk.of(rest[at : at + size]) for at in range(0, len(rest), size)]
    where = BatchSources(files, "/s" if is_there else None, 0, LONG_MAX, lambda: iter(chunks))
    found = dict(where.find(list(plain.producers)))
    assert found == ({} if not rest else {
        producer: tuple((one.last_seq, one.last_offset, to_int(one.offset_delta), one.timestamp) for one in entry.batches)
        for producer, entry in plain.producers.items()
    })  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 15), st.integers(0, 3), st.booleans()), max_size=150))
@examples(60)
def test_open_transactions(steps):
    """A sorted dict from first offset to producer."""
    ongoing, wanted = Transactions(), {}
    for first, producer, opens in steps:
        if opens:
            ongoing.put(TxnMetadata(producer, first))
            wanted[first] = producer
        else:
            assert ongoing.take(first) == (wanted.pop(first, None) is not None)
        others = [key for key in sorted(wanted) if wanted[key] != producer]
        found = ongoing.first_of_others(producer)
        assert (None if found is None else found.first_offset) == (others[0] if others else None)
        lowest = min(wanted, default=None)
        assert ongoing.first() == (None if lowest is None else (wanted[lowest], lowest))
        assert len(ongoing) == len(wanted)


@given(st.lists(st.integers(0, 200) | st.integers(-(2**63), LONG_MAX), max_size=120))
@examples(40)
def test_a_table_finds_what_it_has(ids):
    """Also while it grows."""
    producers = table.ProducerTable()
    for number, one in enumerate(ids):
        producers.put(ProducerStateEntry(one, number))
    wanted = {one: number for number, one in enumerate(ids)}
    assert {one.producer_id: one.producer_epoch for one in producers.values()} == wanted
    assert all(producers.get(one).producer_epoch == epoch for one, epoch in wanted.items())


def test_recovery_takes_every_sound_batch_in_one_go(monkeypatch):
    """No object for each batch: there may be millions."""
    taken = [ProducerRow(7, 0, 0, 0, 2, 5, True, False, None)]
    taken.append(ProducerRow(7, 0, -1, 3, 3, 5, True, True, TxnMarker(ControlType.ABORT, 0, 5)))
    monkeypatch.setattr(RowChunk, "row", None)
    monkeypatch.setattr(ProducerStateEntry, "__init__", None)
    state = ProducerStateManager(MemoryFiles({}), "/log/t-0", for_snapshots=True)
    state.update_recovered([RowChunk.of(taken)])
    assert (len(state.producers), len(state.ongoing)) == (1, 0)


def test_transactions_one_after_another_need_no_more_room():
    """A stop of the kernel for each few transactions would cost more than the transactions."""
    marker = TxnMarker(ControlType.COMMIT, 0, 5)
    taken = []
    for offset in range(0, 400, 4):
        taken.append(ProducerRow(offset % 3, 0, 0, offset, offset + 1, 5, True, False, None))
        taken.append(ProducerRow((offset - 4) % 3, 0, -1, offset + 2, offset + 2, 5, True, True, marker))  # two are open at a time
    producers, ongoing = table.ProducerTable(), Transactions()
    rows, ended = RowChunk.of(taken).table, memoryview(bytearray(34 * len(taken)))
    ongoing.make_room()
    assert producers.add_rows(rows, 0, ongoing, ended, reports_all=True) == (len(taken), False, 34 * (len(taken) // 2 - 1))


def test_columns_that_do_not_fit_are_refused():
    """Before anything is read or written."""
    def views(*sizes, state=(0, 16), bounds=(0, 0)):
        entries, heads, links, offsets, producers = sizes
        chains = [memoryview(array("i", bytes(4 * size))) for size in (heads, links)]
        columns = [memoryview(array("q", bytes(8 * size))) for size in (offsets, producers)]
        table = kernel.Producers(memoryview(bytearray(entries)), *chains, memoryview(array("q", state)))
        return table, kernel.OpenTransactions(*columns, memoryview(array("q", bounds)))

    rows = RowChunk.of([ProducerRow(7, 0, 0, 0, 2, 5, True, False, None)]).table
    size = PRODUCER_SNAPSHOT_ENTRY.size
    aborted, whole = memoryview(bytearray(99)), views(2 * size, 4, 2, 3, 3)
    assert kernel.apply_batches(rows, 0, *whole, aborted, False)[:2] == (1, Applied.DONE)
    for misfit in (
        views(2 * size - 1, 4, 2, 3, 3), views(2 * size, 3, 2, 3, 3), views(2 * size, 0, 2, 3, 3), views(2 * size, 4, 2, 3, 2),
        views(2 * size, 4, 2, 3, 3, state=(3, 16)), views(2 * size, 4, 2, 3, 3, state=(-1, 16)),
        views(2 * size, 4, 2, 3, 3, state=(0,)), views(2 * size, 4, 2, 3, 3, bounds=(0, 4)),
        views(2 * size, 4, 2, 3, 3, bounds=(2, 1)), views(2 * size, 4, 2, 3, 3, bounds=(-1, 1)),
    ):  # fmt: skip
        assert kernel.apply_batches(rows, 0, *misfit, aborted, False)[:2] == (0, Applied.BAD_START)
        assert kernel.load_entries(memoryview(bytes(size)), 0, 0, 0, *misfit) == (0, Applied.BAD_START)
    assert kernel.apply_batches(rows, -1, *whole, aborted, False)[1] == Applied.BAD_START
    assert kernel.apply_batches(memoryview(bytes(8)).cast("q", (1, 1)), 0, *whole, aborted, False)[1] == Applied.BAD_START
    assert kernel.load_entries(memoryview(bytes(size)), -1, 0, 0, *whole)[1] == Applied.BAD_START


def test_the_first_entry_that_is_not_the_same_is_found():
    producers = SeenProducers()
    for producer in (7, 2**62, 0, -5):
        producers.append(producers.number_of(producer), 1, 10, 14, 3, 99)
    [same] = map(bytes, producers.pieces())
    size, views = PRODUCER_SNAPSHOT_ENTRY.size, producers._views[:3]

    def differing(data, at=0):
        return kernel.differing_entry(memoryview(data), at, *views)

    assert differing(same) == 4 * size
    assert differing(same + same[: size - 1], size) == 4 * size, "less than an entry is left"
    for at in range(4 * size):
        other = same[:at] + bytes((same[at] ^ 1,)) + same[at + 1 :]
        assert differing(other) == at // size * size
    assert differing(same, -1) == 4 * size
    changed = PRODUCER_SNAPSHOT_ENTRY.pack(PRODUCER_SNAPSHOT_ENTRY.read(same)._replace(producer_id=8))
    assert [entry.producer_id for entry in producers.differing([changed + same, same, changed])] == [8, 8]

"""What kernels know of transactions is what a model of sets and dicts knows."""

from __future__ import annotations

import tracemalloc
from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.formats import AbortedTxn, BatchField, ControlType, Status
from engine.kernels import transactions as kernel
from engine.kernels.tables import (
    EVENT_WORDS,
    TXN_FIELDS,
    TXN_WORDS,
    TxnBatch,
    TxnEvent,
    TxnFlag,
    TxnState,
)
from engine.log.cleaner.transactions import CleanedTransactionMetadata
from engine.record.batch import read_records
from engine.record.builder import NewRecord, build_batch
from tests.support.batch_tables import table_of
from tests.support.memory_files import MemoryFile
from tests.support.transaction_batches import NOW, batch_of, window_of


class Model:
    """CleanedTransactionMetadata as Kafka has it."""

    def __init__(self, transactions):
        self.ahead = sorted(transactions, key=lambda txn: txn.first_offset)
        self.aborted, self.observed, self.committed, self.kept = {}, set(), set(), []
        self.untold = -1

    def add(self, transactions):
        self.ahead = sorted([*self.ahead, *transactions], key=lambda txn: txn.first_offset)

    def met(self, producer_id, last_offset, kind):
        while self.ahead and self.ahead[0].first_offset <= last_offset:
            txn = self.ahead.pop(0)
            self.aborted.setdefault(txn.producer_id, txn)
        if kind == TxnBatch.DATA:
            if producer_id in self.aborted:
                self.observed.add(producer_id)
                return True
            self.committed.add(producer_id)
            return False
        if kind == TxnBatch.COMMIT:
            seen = producer_id in self.committed
            self.committed.discard(producer_id)
            return not seen
        txn = self.aborted.pop(producer_id, None)
        if txn is None and producer_id in self.committed:
            self.untold = last_offset
        if txn is None or producer_id not in self.observed:
            return True
        self.observed.discard(producer_id)
        self.kept.append(txn)
        return False


kinds = st.sampled_from([TxnBatch.DATA, TxnBatch.DATA, TxnBatch.COMMIT, TxnBatch.ABORT])
steps = st.lists(st.tuples(kinds, st.integers(0, 200)), min_size=1, max_size=300)
transactions = st.lists(st.builds(lambda first, producer: AbortedTxn(0, producer, first, first + 9, first), st.integers(0, 300), st.integers(0, 200)))  # fmt: skip


@given(steps, transactions, transactions, st.integers(0, 300))
@settings(deadline=None, max_examples=60)
def test_what_may_go_is_what_the_model_says(log, first, more, middle):
    kept = []
    met, model = CleanedTransactionMetadata(kept.append), Model(first)
    met.add_aborted_transactions(first)
    for number, part in enumerate((log[:middle], log[middle:])):
        if not part:
            continue
        start = middle if number else 0
        window = window_of(*(batch_of(kind, start + n, producer) for n, (kind, producer) in enumerate(part)))
        copied, told = met.pack().unpack(), met.pack(start + len(part)).unpack()
        goes = met.on_window_read(window, lambda *_: pytest.fail("plain markers"))
        expected = [model.met(producer, start + n, kind) for n, (kind, producer) in enumerate(part)]
        assert list(goes) == expected
        assert met.untold == model.untold
        told.on_events_read(events_of(kernel, window, start + len(part) // 2))
        assert told.untold == model.untold
        assert under_way(told) == under_way(met)
        for n, (kind, producer) in enumerate(part):
            control = {TxnBatch.COMMIT: ControlType.COMMIT, TxnBatch.ABORT: ControlType.ABORT}.get(kind)
            alone = copied.on_data_read(producer, start + n) if control is None else copied.on_control_batch_read(producer, start + n, control)
            assert alone == expected[n]
        met.add_aborted_transactions(more)
        model.add(more)
    assert kept == model.kept


def events_of(kernel, window, border, room=3):
    """What `tell_rows` tells of a window of plain markers, in as many calls as it takes; the border: a position, by batch."""
    border = window.batches.table[BatchField.POSITION, min(border, window.rows - 1)]
    events, row, status = array("q"), 0, Status.FULL
    while status == Status.FULL:
        some = memoryview(array("q", bytes(8 * EVENT_WORDS * room)))
        row, count, status = kernel.tell_rows(window.data, window.batches.table, row, window.rows, 0, border, some, 0)
        events.extend(some[: EVENT_WORDS * count])
    assert (row, status) == (window.rows, Status.END)
    return memoryview(events)


def under_way(met):
    """By producer: flags, and what of an aborted transaction is known."""
    packed = met.pack(-1)
    words, columns = (array("q", packed.producers), [array("q", column) for column in packed.aborted])
    aborted = [AbortedTxn(*numbers) for numbers in zip(*columns, strict=True)]
    return {
        words[at]: (words[at + 1], aborted[words[at + 2]] if words[at + 1] & TxnFlag.ABORTED else None)
        for at in range(0, len(words), TXN_WORDS)
    }


def test_what_is_packed_is_what_is_under_way_and_lies_ahead():
    met = CleanedTransactionMetadata()
    met.add_aborted_transactions(AbortedTxn(0, n, 10 * n, 10 * n + 5, 10 * n) for n in range(1000))
    for n in range(500):
        assert met.on_data_read(n, 10 * n)
        if n != 7:
            assert not met.on_control_batch_read(n, 10 * n + 5, ControlType.ABORT)
    packed = met.pack(5100)
    assert [len(column) for column in packed.aborted] == [8 * 11] * len(AbortedTxn._fields)
    assert len(packed.producers) == 8 * TXN_WORDS
    other = packed.unpack()
    assert not other.on_control_batch_read(7, 5000, ControlType.ABORT)
    assert other.on_data_read(500, 5000)
    assert other.on_data_read(509, 5090)
    assert not other.on_data_read(510, 5100), "it lies behind what was packed"
    many = CleanedTransactionMetadata()
    for n in range(5000):
        many.on_data_read(n, n)
    assert many.pack().unpack().undecided() == many.undecided() == set(range(5000))


def test_many_aborted_transactions_are_let_go_of(monkeypatch):
    monkeypatch.setattr("engine.log.cleaner.transactions._MANY", 10)
    kept = []
    met = CleanedTransactionMetadata(kept.append)
    open_one = AbortedTxn(0, 999, 0, 10**6, 0)
    met.add_aborted_transactions([open_one])
    assert met.on_data_read(999, 0)
    offset = 1
    for number in range(200):
        txn = AbortedTxn(0, number, offset, offset + 1, offset)
        met.add_aborted_transactions([txn])
        assert met.on_data_read(number, offset)
        assert not met.on_control_batch_read(number, offset + 1, ControlType.ABORT)
        offset += 2
    assert {len(column) < 20 for column in met._aborted} == {True}
    assert not met.on_control_batch_read(999, offset, ControlType.ABORT)
    assert kept[-1] == open_one
    assert len(kept) == 201


@pytest.mark.parametrize("step", [1, -1])
def test_aborted_transactions_take_little_memory_each(step):
    """An index may have a million of them, in an order of its own."""
    count = 20_000
    met = CleanedTransactionMetadata()
    tracemalloc.start()
    met.add_aborted_transactions(AbortedTxn(0, 2**40 + n, 2**40 + n, 2**41 + n, n) for n in range(count)[::step])
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 60 * count
    assert met.on_data_read(2**40 + 7, 2**41)
    assert not met.on_control_batch_read(2**40 + 7, 2**41 + 7, ControlType.ABORT)



def empty(places=8):
    return [memoryview(array("q", bytes(8 * size))) for size in (TXN_WORDS * places, TXN_FIELDS, 0, 0, 4)]


def test_it_says_where_there_is_no_room():
    memory = empty()
    answers = [kernel.decide(*memory, producer, producer, TxnBatch.DATA) for producer in range(6)]
    assert answers == [0, 0, 0, 0, -1, -1]
    assert kernel.decide(*memory[:2], memory[2], memoryview(array("q", (1,))), memory[4], 1, 9, TxnBatch.DATA) == -2, "a column too long"
    larger = memoryview(array("q", bytes(8 * TXN_WORDS * 16)))
    assert kernel.decide(*memory, 1, 9, TxnBatch.COMMIT) == -1, "room for one more is asked for first"
    assert kernel.move_producers(memory[0], larger) == 4
    assert kernel.move_producers(larger, memory[0]) == -1
    memory[0], memory[1][TxnState.PRODUCERS] = larger, 4
    assert [kernel.decide(*memory, producer, 9, TxnBatch.COMMIT) for producer in (0, 1, 1, 7)] == [0, 0, 1, 1]
    again = memoryview(array("q", bytes(8 * TXN_WORDS * 16)))
    assert kernel.move_producers(larger, again) == 2, "two have nothing under way any more"


def test_arguments_that_do_not_fit_each_other():
    window = window_of(batch_of(TxnBatch.DATA, 0, 1))
    memory, goes = empty(), memoryview(bytearray(1))
    table = window.batches.table
    assert kernel.decide_rows(window.data, table, -1, 1, *memory, goes)[1] == Status.BAD_START
    assert kernel.decide_rows(window.data, table, 0, 2, *memory, goes)[1] == Status.BAD_START
    assert kernel.decide_rows(window.data, table, 0, 1, memory[0][:3], *memory[1:], goes)[1] == Status.BAD_START
    assert kernel.decide_rows(window.data, table, 0, 1, memory[0], memory[1][:1], *memory[2:], goes)[1] == Status.BAD_START
    events = memoryview(array("q", bytes(8 * EVENT_WORDS)))
    assert kernel.tell_rows(window.data, table, -1, 1, 0, 0, events, 0)[2] == Status.BAD_START
    assert kernel.tell_rows(window.data, table, 0, 1, 0, 0, events, 2)[2] == Status.BAD_START
    assert kernel.decide_events(events[1:], 0, *memory)[1] == Status.BAD_START
    assert kernel.decide_events(events, -1, *memory)[1] == Status.BAD_START


@pytest.mark.parametrize("at", range(61, 78))
def test_only_sound_markers_are_known_by_their_bytes(at):
    sound = batch_of(TxnBatch.COMMIT, 0, 1)
    for byte in range(256):
        data = bytearray(sound)
        data[at] = byte
        window = window_of(bytes(data))
        memory, goes = empty(), memoryview(bytearray(1))
        row, status = kernel.decide_rows(window.data, window.batches.table, 0, 1, *memory, goes)
        assert (row, status) in ((1, Status.END), (0, Status.BAD_RECORD))
        if status == Status.END:
            found = []
            (marker,) = read_records(MemoryFile("x.log", bytes(data)), found.append)
            assert [finding.code for finding in found] in ([], ["crc-mismatch"])
            assert marker.key[2:] in (b"\0\0", b"\0\1")


def test_producers_are_packed_where_there_is_room():
    memory = empty(16)
    for producer in (5, 6, 7):
        assert kernel.decide(*memory, producer, 1, TxnBatch.DATA) == 0
    assert kernel.decide(*memory, 6, 2, TxnBatch.COMMIT) == 0
    room, numbers = (memoryview(array("q", bytes(8 * size))) for size in (2 * TXN_WORDS, 1))
    assert kernel.pack_producers(memory[0], room, numbers) == (2, 0)
    assert sorted(room[::TXN_WORDS]) == [5, 7]
    assert kernel.pack_producers(memory[0], room[1:], numbers) == (-1, -1)
    assert kernel.pack_producers(memory[0], room, numbers[:0]) == (-1, -1)


def test_of_runs_of_data_the_ends_are_told():
    data = [batch_of(TxnBatch.DATA, n, 7 if n < 8 else 9) for n in range(10)]
    odd = bytearray(batch_of(TxnBatch.COMMIT, 10, 9))
    odd[70] = 9  # the type of its record, or what stands there
    window = window_of(*data, bytes(odd), batch_of(TxnBatch.ABORT, 11, 9), build_batch([NewRecord(12, NOW, b"k", b"v")]))
    table, events = window.batches.table, memoryview(array("q", bytes(8 * 20 * EVENT_WORDS)))
    border = 1000 + table[BatchField.POSITION, 5]
    row, count, status = kernel.tell_rows(window.data, table, 0, window.rows, 1000, border, events, 0)
    assert (row, status) == (11, Status.BAD_RECORD)
    assert list(events[TxnEvent.LAST_OFFSET : EVENT_WORDS * count : EVENT_WORDS]) == [0, 4, 5, 7, 8, 9, 10]
    assert events[EVENT_WORDS * (count - 1) + TxnEvent.KIND] == TxnBatch.OTHER
    assert events[2 * EVENT_WORDS + TxnEvent.POSITION] == border
    row, count, status = kernel.tell_rows(window.data, table, row, window.rows, 1000, border, events[: 8 * EVENT_WORDS], count)
    assert (row, count, status) == (window.rows, 8, Status.END)
    assert list(events[7 * EVENT_WORDS : 8 * EVENT_WORDS])[1:] == [9, 11, TxnBatch.ABORT]
    assert kernel.tell_rows(window.data, table, 11, window.rows, 1000, border, events[: 7 * EVENT_WORDS], 7) == (11, 7, Status.FULL)
    memory = empty()
    assert kernel.decide_events(events[: 8 * EVENT_WORDS], 0, *memory) == (8, Status.END)
    assert memory[1][TxnState.UNTOLD] == 12
    small = [memory[0], *empty()[1:4], memory[4][:0]]
    assert kernel.decide_events(events, 0, *small) == (0, Status.FULL)


batch = st.tuples(st.sampled_from([0, 1, 2]), st.sampled_from([0, 16, 32, 48, 64, 2]), st.integers(0, 3), st.integers(0, 3))


@given(st.lists(batch, max_size=12))
@settings(deadline=None, max_examples=50)
def test_transactional_and_control_batches_are_found(described):
    batches, _ = table_of(described)
    found, row = [], kernel.next_in_transaction(batches, 0, len(described))
    while row < len(described):
        found.append(row)
        row = kernel.next_in_transaction(batches, row + 1, len(described))
    assert found == [row for row, one in enumerate(described) if one[0] == 2 and one[1] & 48]

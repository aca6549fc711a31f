"""What kernels know of transactions is what a model of sets and dicts knows."""

from __future__ import annotations

import tracemalloc
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.formats import AbortedTxn, ControlType, Status
from engine.kernels import transactions as kernel
from engine.kernels.tables import TXN_FIELDS, TXN_WORDS, TxnBatch, TxnState
from engine.log.cleaner.transactions import CleanedTransactionMetadata
from engine.record.batch import read_records
from tests.support.batch_tables import table_of
from tests.support.memory_files import MemoryFile
from tests.support.strategies import examples
from tests.support.transaction_batches import batch_of, window_of


class Model:
    """CleanedTransactionMetadata as Kafka has it."""

    def __init__(self, transactions):
        self.ahead = sorted(transactions, key=lambda txn: txn.first_offset)
        self.aborted, self.observed, self.committed, self.kept = {}, set(), set(), []
        self.unlisted_abort = -1

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
            self.unlisted_abort = last_offset
        if txn is None or producer_id not in self.observed:
            return True
        self.observed.discard(producer_id)
        self.kept.append(txn)
        return False


kinds = st.sampled_from([TxnBatch.DATA, TxnBatch.DATA, TxnBatch.COMMIT, TxnBatch.ABORT])
steps = st.lists(st.tuples(kinds, st.integers(0, 200)), min_size=1, max_size=300)
transactions = st.lists(st.builds(lambda first, producer: AbortedTxn(0, producer, first, first + 9, first), st.integers(0, 300), st.integers(0, 200)))  # fmt: skip


@given(steps, transactions, transactions, st.integers(0, 300))
@examples(60)
def test_what_may_go_is_what_the_model_says(log, first, more, middle):
    kept = []
    met, one_by_one, model = CleanedTransactionMetadata(kept.append), CleanedTransactionMetadata(), Model(first)
    for one in (met, one_by_one):
        one.add_aborted_transactions(first)
    for number, part in enumerate((log[:middle], log[middle:])):
        if not part:
            continue
        start = middle if number else 0
        window = window_of(*(batch_of(kind, start + n, producer) for n, (kind, producer) in enumerate(part)))
        removable = met.on_window_read(window, lambda *_: pytest.fail("plain markers"))
        expected = [model.met(producer, start + n, kind) for n, (kind, producer) in enumerate(part)]
        assert list(removable) == expected
        assert met.unlisted_abort == model.unlisted_abort
        for n, (kind, producer) in enumerate(part):
            control = {TxnBatch.COMMIT: ControlType.COMMIT, TxnBatch.ABORT: ControlType.ABORT}.get(kind)
            alone = one_by_one._decide(producer, start + n, TxnBatch.DATA) if control is None else one_by_one.on_control_batch_read(producer, start + n, control)
            assert alone == expected[n]
        assert one_by_one.unlisted_abort == model.unlisted_abort
        assert one_by_one.undecided() == met.undecided()
        for one in (met, one_by_one):
            one.add_aborted_transactions(more)
        model.add(more)
    assert kept == model.kept


def test_many_aborted_transactions_are_let_go_of(monkeypatch):
    monkeypatch.setattr("engine.log.cleaner.transactions._MANY", 10)
    kept = []
    met = CleanedTransactionMetadata(kept.append)
    open_one = AbortedTxn(0, 999, 0, 10**6, 0)
    met.add_aborted_transactions([open_one])
    assert met._decide(999, 0, TxnBatch.DATA)
    offset = 1
    for number in range(200):
        txn = AbortedTxn(0, number, offset, offset + 1, offset)
        met.add_aborted_transactions([txn])
        assert met._decide(number, offset, TxnBatch.DATA)
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
    assert met._decide(2**40 + 7, 2**41, TxnBatch.DATA)
    assert not met.on_control_batch_read(2**40 + 7, 2**41 + 7, ControlType.ABORT)



def known(memory):
    return kernel.Transactions(*memory)


def empty(places=8):
    return [memoryview(array("q", bytes(8 * size))) for size in (TXN_WORDS * places, TXN_FIELDS, 0, 0, 4)]


def test_it_says_where_there_is_no_room():
    memory = empty()
    answers = [kernel.decide(known(memory), producer, producer, TxnBatch.DATA) for producer in range(6)]
    assert answers == [0, 0, 0, 0, -1, -1]
    assert kernel.decide(known([*memory[:3], memoryview(array("q", (1,))), memory[4]]), 1, 9, TxnBatch.DATA) == -2, "a column too long"
    larger = memoryview(array("q", bytes(8 * TXN_WORDS * 16)))
    assert kernel.decide(known(memory), 1, 9, TxnBatch.COMMIT) == -1, "room for one more is asked for first"
    assert kernel.move_producers(memory[0], larger) == 4
    assert kernel.move_producers(larger, memory[0]) == -1
    memory[0], memory[1][TxnState.PRODUCERS] = larger, 4
    assert [kernel.decide(known(memory), producer, 9, TxnBatch.COMMIT) for producer in (0, 1, 1, 7)] == [0, 0, 1, 1]
    again = memoryview(array("q", bytes(8 * TXN_WORDS * 16)))
    assert kernel.move_producers(larger, again) == 2, "two have nothing under way any more"


def test_arguments_that_do_not_fit_each_other():
    window = window_of(batch_of(TxnBatch.DATA, 0, 1))
    memory, removable = empty(), memoryview(bytearray(1))
    table = window.batches.table
    assert kernel.decide_rows(window.data, table, -1, 1, known(memory), removable)[1] == Status.BAD_START
    assert kernel.decide_rows(window.data, table, 0, 2, known(memory), removable)[1] == Status.BAD_START
    assert kernel.decide_rows(window.data, table, 0, 1, known([memory[0][:3], *memory[1:]]), removable)[1] == Status.BAD_START
    assert kernel.decide_rows(window.data, table, 0, 1, known([memory[0], memory[1][:1], *memory[2:]]), removable)[1] == Status.BAD_START


@pytest.mark.parametrize("at", range(61, 78))
def test_only_sound_markers_are_known_by_their_bytes(at):
    sound = batch_of(TxnBatch.COMMIT, 0, 1)
    for byte in range(256):
        data = bytearray(sound)
        data[at] = byte
        window = window_of(bytes(data))
        memory, removable = empty(), memoryview(bytearray(1))
        row, status = kernel.decide_rows(window.data, window.batches.table, 0, 1, known(memory), removable)
        assert (row, status) in ((1, Status.END), (0, Status.BAD_RECORD))
        if status == Status.END:
            found = []
            (marker,) = read_records(MemoryFile("x.log", bytes(data)), found.append)
            assert [finding.code for finding in found] in ([], ["crc-mismatch"])
            assert marker.key[2:] in (b"\0\0", b"\0\1")


def test_producers_are_packed_where_there_is_room():
    memory = empty(16)
    for producer in (5, 6, 7):
        assert kernel.decide(known(memory), producer, 1, TxnBatch.DATA) == 0
    assert kernel.decide(known(memory), 6, 2, TxnBatch.COMMIT) == 0
    room, numbers = (memoryview(array("q", bytes(8 * size))) for size in (2 * TXN_WORDS, 1))
    assert kernel.pack_producers(memory[0], room, numbers) == (2, 0)
    assert sorted(room[::TXN_WORDS]) == [5, 7]
    assert kernel.pack_producers(memory[0], room[1:], numbers) == (-1, -1)
    assert kernel.pack_producers(memory[0], room, numbers[:0]) == (-1, -1)


batch = st.tuples(st.sampled_from([0, 1, 2]), st.sampled_from([0, 16, 32, 48, 64, 2]), st.integers(0, 3), st.integers(0, 3))


@given(st.lists(batch, max_size=12))
@examples(50)
def test_transactional_and_control_batches_are_found(described):
    batches, _ = table_of(described)
    found, row = [], kernel.next_in_transaction(batches, 0, len(described))
    while row < len(described):
        found.append(row)
        row = kernel.next_in_transaction(batches, row + 1, len(described))
    assert found == [row for row, one in enumerate(described) if one[0] == 2 and one[1] & 48]

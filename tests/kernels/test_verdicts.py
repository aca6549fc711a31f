"""What becomes of batches when a log is compacted: the rules of Cleaner."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from engine.formats import LEFT_OUT, BatchField
from engine.kernels import verdicts as kernel
from engine.kernels.tables import COUNTS, Count, TxnBatch, Verdict
from engine.record.builder import NewRecord, build_batch
from engine.record.columns import BatchColumns, Table
from tests.support.batch_tables import table_of
from tests.support.strategies import examples
from tests.support.transaction_batches import NOW, batch_of, window_of


def test_totals_stay_within_the_counts():
    _, counts = table_of([(2, 0, 3, 1), (2, 0, 2, 2), (2, 0, 5, 0)])
    assert [kernel.total(counts, field, 3) for field in range(3)] == [10, 3, 1]
    assert kernel.total(counts, 0, 0) == 0
    assert {kernel.total(counts, *bad) for bad in ((-1, 3), (4, 3), (0, -1), (0, 4))} == {-1}


producers = st.dictionaries(st.integers(-1, 6), st.tuples(st.integers(-1, 9), st.integers(-1, 2)), max_size=6)
ended = st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(-1, 6), st.integers(-1, 2), st.sampled_from([0, 16, 32, 48]))


@given(producers, ended, st.integers(-1, 9))
@examples(300)
def test_which_batches_stay_empty(known, described, round_end):
    """The rules of Cleaner.checkBatchRetention."""
    magic, last_offset, producer_id, epoch, attributes = described
    if magic < 2:
        producer_id, epoch, attributes = -1, -1, 0
    batches = BatchColumns(1).table
    for field, value in (
        (BatchField.MAGIC, magic), (BatchField.LAST_OFFSET, last_offset), (BatchField.PRODUCER_ID, producer_id),
        (BatchField.PRODUCER_EPOCH, epoch), (BatchField.ATTRIBUTES, attributes), (BatchField.COUNT, 7),
    ):  # fmt: skip
        batches[field, 0] = value
    expected = last_offset == round_end
    if producer_id >= 0 and producer_id in known:
        last_data_offset, last_epoch = known[producer_id]
        is_last = last_data_offset == last_offset if last_data_offset >= 0 else bool(attributes & 32) and epoch == last_epoch
        expected = expected or is_last
    rows = sorted((number, *what) for number, what in known.items())
    columns = [memoryview(array(code, [row[at] for row in rows])) for at, code in enumerate("qqh")]
    last_records = kernel.LastRecords(*columns, round_end)
    assert kernel.stays_empty(batches, 0, last_records) == expected
    for verdict in Verdict:
        gone = 7 if verdict == Verdict.KEEP_NONE and not expected else 0
        assert kernel.count_deleted(batches, 1, memoryview(bytes([verdict])), last_records) == gone


def test_rows_that_are_not_there_are_not_judged():
    batches = BatchColumns(2).table
    nobody = kernel.LastRecords(*(memoryview(array(code)) for code in "qqh"), 0)
    capacity = batches.shape[1]
    assert not kernel.stays_empty(batches, -1, nobody)
    assert not kernel.stays_empty(batches, capacity, nobody)
    for rows, verdicts in ((-1, 9), (capacity + 1, capacity + 1), (2, 1)):
        assert kernel.count_deleted(batches, rows, memoryview(bytes(verdicts)), nobody) == -1


def test_arguments_of_verdicts_that_do_not_fit_each_other():
    window = window_of(batch_of(TxnBatch.DATA, 0, 1))
    removable, table, counts = memoryview(bytearray(1)), window.batches.table, Table(COUNTS, 1).table
    assert not kernel.skip_removable(table, 1, removable, memoryview(array("q", [0])))
    assert not kernel.judge_transactions(table, 2, removable, NOW, removable, counts)
    assert kernel.skip_decided(table, 2, removable, counts) == -1


def test_what_is_left_out_of_each_pass():
    window = window_of(
        batch_of(TxnBatch.DATA, 0, 1, 3), batch_of(TxnBatch.DATA, 3, 2, 2), batch_of(TxnBatch.COMMIT, 5, 1),
        build_batch([NewRecord(6, NOW, b"k", b"v")]), build_batch([NewRecord(7, NOW, b"k", b"v")], magic=1),
    )  # fmt: skip
    table, bodies = window.batches.table, list(window.batches.field(BatchField.BODY)[:5])
    removable, by_row = memoryview(b"\0\1\0\0\0"), memoryview(array("q", bytes(48)))
    assert kernel.skip_removable(table, 5, removable, by_row)
    assert list(by_row) == [0, 0, 2, 3, 3, 3]
    assert list(window.batches.field(BatchField.BODY)[:5]) == [bodies[0], LEFT_OUT, LEFT_OUT, bodies[3], bodies[4]]
    window.batches.field(BatchField.BODY)[:5] = array("q", bodies)
    for idle, horizon, stays, is_read in ((0, False, True, False), (1, False, True, True), (1, True, False, False), (0, True, True, False)):
        window.batches.field(BatchField.BODY)[:5] = array("q", bodies)
        table[BatchField.ATTRIBUTES, 2] = 48 | 64 * horizon
        table[BatchField.BASE_TIMESTAMP, 2] = NOW
        counts, verdicts = Table(COUNTS, 5), memoryview(bytearray(b"\0\0\0\4\0"))
        assert kernel.judge_transactions(table, 5, memoryview(bytes((0, 1, idle, 0, 0))), NOW, verdicts, counts.table)
        wanted = Verdict.KEEP_ALL if stays else Verdict.KEEP_NONE
        assert list(verdicts) == [Verdict.ASK, Verdict.KEEP_NONE, wanted, Verdict.SUPERSEDED, Verdict.ASK]
        assert kernel.skip_decided(table, 5, verdicts, counts.table) == 2 + is_read
        assert list(counts.field(Count.READ)) == [0, 2, 0 if is_read else 1, 1, 0]
        assert list(counts.field(Count.KEPT)) == [0, 0, int(stays and not is_read), 0, 0]
        assert counts.table[Count.TOMBSTONES, 2] == is_read
        left_out = [body == LEFT_OUT for body in window.batches.field(BatchField.BODY)[:5]]
        assert left_out == [False, True, not is_read, True, False]

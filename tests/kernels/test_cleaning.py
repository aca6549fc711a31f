"""Laws of the cleaner's decisions about batches, for both builds."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.formats import RECORD_FIELDS, BatchField, RecordField
from engine.kernels.tables import Verdict
from engine.record.columns import BatchColumns, RecordColumns
from tests.support.load_kernel import BUILDS, load_kernel
from tests.support.once import BOTH_BUILDS

pytestmark = BOTH_BUILDS


@pytest.fixture(params=BUILDS, scope="module")
def kernel(request):
    return load_kernel("cleaning", request.param)


batch = st.tuples(st.sampled_from([0, 1, 2]), st.sampled_from([0, 16, 32, 48, 64, 2]), st.integers(0, 3), st.integers(0, 3))


def table_of(described):
    """Batches of (magic, attributes, read, kept), and counts of them; the last offset of a batch is its row."""
    batches = BatchColumns(len(described) + 8).table
    counts = memoryview(array("q", bytes(32 * max(1, len(described))))).cast("B").cast("q", (4, max(1, len(described))))
    for row, (magic, attributes, read, kept) in enumerate(described):
        batches[BatchField.MAGIC, row], batches[BatchField.ATTRIBUTES, row] = magic, attributes
        batches[BatchField.LAST_OFFSET, row], batches[BatchField.VALID, row] = row, 1
        counts[0, row], counts[1, row] = max(read, kept), kept
        counts[2, row] = kept % 2
    return batches, counts


@given(st.lists(batch, max_size=12))
@settings(deadline=None, max_examples=50)
def test_transactional_and_control_batches_are_found(kernel, described):
    batches, _ = table_of(described)
    found, row = [], kernel.next_in_transaction(batches, 0, len(described))
    while row < len(described):
        found.append(row)
        row = kernel.next_in_transaction(batches, row + 1, len(described))
    assert found == [row for row, one in enumerate(described) if one[0] == 2 and one[1] & 48]


@pytest.mark.parametrize(
    ("field", "value"), [(BatchField.VALID, 0), (BatchField.VALID, -1), (BatchField.MAGIC, 3), (BatchField.MAGIC, -1),
                         (BatchField.ATTRIBUTES, 5), (BatchField.ATTRIBUTES, 7)],
)  # fmt: skip
def test_unsound_batches_are_found(kernel, field, value):
    batches, _ = table_of([(2, 0, 1, 1)] * 4)
    assert kernel.first_unsound(batches, 4) == 4
    batches[field, 2] = value
    assert kernel.first_unsound(batches, 4) == 2


@given(st.lists(st.booleans(), max_size=20), st.integers(0, 5))
@settings(deadline=None, max_examples=50)
def test_kept_records_are_taken(kernel, keep, first):
    records, out = RecordColumns(40).table, RecordColumns(20)
    for index in range(40):
        for field in range(RECORD_FIELDS):
            records[field, index] = 100 * index + field
    count, largest = kernel.take_kept(records, first, first + len(keep), memoryview(bytes(keep)), out.table)
    chosen = [first + index for index, one in enumerate(keep) if one]
    assert count == len(chosen)
    assert largest == max((100 * index + RecordField.TIMESTAMP for index in chosen), default=-1)
    assert [out.row(column) for column in range(count)] == [
        {field: 100 * index + field for field in RecordField} for index in chosen
    ]


def test_kept_records_that_do_not_fit(kernel):
    assert kernel.take_kept(RecordColumns(9).table, 0, 9, memoryview(b"\1" * 9), RecordColumns(8).table) == (-1, 0)
    assert kernel.take_kept(RecordColumns(9).table, 0, 9, memoryview(b"\1" * 8), RecordColumns(9).table) == (-1, 0)
    assert kernel.take_kept(RecordColumns(9).table, -1, 9, memoryview(b"\1" * 20), RecordColumns(20).table) == (-1, 0)


def records_of(offsets, rows=None, keys=None):
    table = RecordColumns(len(offsets) + 8).table
    for index, offset in enumerate(offsets):
        table[RecordField.OFFSET, index] = offset
        table[RecordField.BATCH, index] = rows[index] if rows else 0
        table[RecordField.KEY_SIZE, index] = keys[index] if keys else 3
    return table


def ranges(*described):
    """Batches of (base offset, last offset)."""
    batches, _ = table_of([(2, 0, 1, 1)] * len(described))
    for row, (base, last) in enumerate(described):
        batches[BatchField.BASE_OFFSET, row], batches[BatchField.LAST_OFFSET, row] = base, last
        batches[BatchField.COUNT, row] = 1
    return batches


def test_order_of_records(kernel):
    batches = ranges((5, 7), (8, 9))
    def check(offsets, last=-1, **settings):
        return kernel.check_order(batches, records_of(offsets, **settings), 0, len(offsets), last)

    assert check([5, 7, 8], rows=[0, 0, 1]) == 8
    assert check([], last=4) == 4
    assert check([5], last=5) == -1, "offsets grow from chunk to chunk"
    assert check([6, 6]) == -1
    assert check([5, 8]) == -1, "behind the last offset of its batch"
    assert check([7], rows=[1]) == -1, "before the first one"
    assert check([5, 6], keys=[0, -1]) == -1, "a record without a key"
    assert check([5], rows=[99]) == -1
    batches[BatchField.MAGIC, 1] = 1
    assert check([7], rows=[1]) == 7, "an old entry names its last offset only"


def survivors_of(kernel, offsets, start, words):
    slots = memoryview(array("Q", [word for offset in offsets for word in (1, offset, offset)] + [0, 0, 0]))
    bits = memoryview(array("Q", bytes(8 * words)))
    return bits if kernel.note_survivors(slots, start, bits) else None


@given(st.sets(st.integers(10, 400)), st.lists(st.tuples(st.integers(0, 450), st.integers(0, 200)), min_size=1, max_size=30))
@settings(deadline=None, max_examples=150)
def test_a_batch_without_a_survivor_is_superseded(kernel, survivors, described):
    bits = survivors_of(kernel, survivors, 10, 7)
    batches = ranges(*((base, base + size) for base, size in described))
    verdicts = memoryview(bytearray(len(described)))
    assert kernel.judge(batches, len(described), verdicts, bits, 10, 420, False)
    for verdict, (base, size) in zip(verdicts, described, strict=True):
        if base < 10 or base + size > 420:
            assert verdict == Verdict.ASK
        else:
            lives = any(base <= offset <= base + size for offset in survivors)
            assert verdict == (Verdict.ASK_SURVIVORS if lives else Verdict.SUPERSEDED)


@pytest.mark.parametrize("offset", [10, 73, 74, 137, 138])
@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 128])
def test_ends_of_words(kernel, offset, size):
    for survivor in (offset - 1, offset, offset + size, offset + size + 1):
        bits, verdicts = survivors_of(kernel, [survivor], 9, 6), memoryview(bytearray(1))
        assert kernel.judge(ranges((offset, offset + size)), 1, verdicts, bits, 9, 9 + 64 * 6 - 1, False)
        assert (verdicts[0] == Verdict.SUPERSEDED) == (not offset <= survivor <= offset + size)


def test_batches_that_are_asked_by_their_records(kernel):
    bits = memoryview(array("Q", [0] * 2048))
    batches = ranges((0, 1), (0, 1), (0, 1), (0, kernel.LONGEST), (0, 1), (0, 1))
    batches[BatchField.MAGIC, 0] = 1
    batches[BatchField.ATTRIBUTES, 1] = 16
    batches[BatchField.ATTRIBUTES, 2] = 32
    batches[BatchField.COUNT, 4] = 0
    verdicts = memoryview(bytearray(b"\0\0\0\0\0\1"))
    assert kernel.judge(batches, 6, verdicts, bits, 0, 100_000, False)
    assert list(verdicts) == [Verdict.ASK, Verdict.ASK, Verdict.ASK, Verdict.ASK_SURVIVORS, Verdict.ASK, Verdict.KEEP_ALL]
    assert kernel.judge(batches, 3, verdicts, bits, 0, 100_000, True)
    assert list(verdicts[:3]) == [Verdict.ASK, Verdict.SUPERSEDED, Verdict.SUPERSEDED]
    assert not kernel.judge(batches, 6, verdicts, bits, 0, 200_000, False), "fewer bits than offsets"
    assert not kernel.judge(batches, 7, verdicts, bits, 0, 1, False)


def test_survivors_that_do_not_fit(kernel):
    assert survivors_of(kernel, [5], 6, 1) is None
    assert survivors_of(kernel, [70], 6, 1) is None
    assert list(survivors_of(kernel, [6, 69], 6, 1)) == [1 | 1 << 63]


def test_totals_stay_within_the_counts(kernel):
    _, counts = table_of([(2, 0, 3, 1), (2, 0, 2, 2), (2, 0, 5, 0)])
    assert [kernel.total(counts, field, 3) for field in range(3)] == [10, 3, 1]
    assert kernel.total(counts, 0, 0) == 0
    assert {kernel.total(counts, *bad) for bad in ((-1, 3), (4, 3), (0, -1), (0, 4))} == {-1}


def test_offsets_in_any_order_become_bits(kernel):
    start, shift = 1000, 6
    places = memoryview(array("q", (2, -1, 0)))
    bits = memoryview(array("Q", bytes(8 * 3)))

    def note(offsets, first=0):
        return kernel.note_offsets(memoryview(array("q", offsets)), first, start, shift, places, bits)

    assert note([1000 + 130, 1000, 1063, 1130]) == 4
    assert list(bits) == [1 << 2, 0, 1 | 1 << 63]
    assert note([1001, 1064, 1002]) == 1, "nobody has a place for these yet"
    assert note([1001, 1064, 1002], 2) == 3
    assert bits[2] == 1 | 1 << 63 | 6
    assert note([999]) == note([1000 + 192]) == 0
    places[1] = 3
    assert note([1064]) == 0, "a place outside"
    assert note([], 0) == 0


producers = st.dictionaries(st.integers(-1, 6), st.tuples(st.integers(-1, 9), st.integers(-1, 2)), max_size=6)
ended = st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(-1, 6), st.integers(-1, 2), st.sampled_from([0, 16, 32, 48]))


@given(producers, ended, st.integers(-1, 9))
@settings(deadline=None, max_examples=300)
def test_which_batches_stay_empty(kernel, known, described, round_end):
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
    assert kernel.stays_empty(batches, 0, *columns, round_end) == expected
    for verdict in Verdict:
        gone = 7 if verdict == Verdict.KEEP_NONE and not expected else 0
        assert kernel.count_gone(batches, 1, memoryview(bytes([verdict])), *columns, round_end) == gone


def test_rows_that_are_not_there_are_not_judged(kernel):
    batches = BatchColumns(2).table
    nobody = [memoryview(array(code)) for code in "qqh"]
    capacity = batches.shape[1]
    assert not kernel.stays_empty(batches, -1, *nobody, 0)
    assert not kernel.stays_empty(batches, capacity, *nobody, 0)
    for rows, verdicts in ((-1, 9), (capacity + 1, capacity + 1), (2, 1)):
        assert kernel.count_gone(batches, rows, memoryview(bytes(verdicts)), *nobody, 0) == -1

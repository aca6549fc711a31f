"""Kernels that decide over batch headers and records, each against what it says in a line or two of Python."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from engine.formats import (
    BATCH_FIELDS,
    CODEC_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    INT_MAX,
    RECORD_FIELDS,
    TRANSACTIONAL_FLAG,
    BatchField,
    RecordField,
)
from engine.kernels import select as kernel
from engine.record.columns import BatchColumns, RecordColumns
from tests.support.row_models import SPAN, columns_of, first
from tests.support.strategies import LONG_MAX, WILD, edges, examples, wild_tables

SMALL = st.integers(-3, 6)
HEADER = st.fixed_dictionaries({
    BatchField.VALID: st.sampled_from([0, 1, 1, 1]), BatchField.MAGIC: st.sampled_from([-1, 0, 1, 2, 2, 2, 3]),
    BatchField.ATTRIBUTES: st.sampled_from([0, 0, 0, 1, 64, 65]), BatchField.BASE_OFFSET: SMALL | edges(-(2**63), LONG_MAX),
    BatchField.COUNT: SMALL | edges(-(2**31), 2**31 - 1),
})  # fmt: skip


def table_of(headers, deltas):
    """Columns as the scan writes them: the last offset is base plus delta, around at 2^63."""
    batches = BatchColumns(max(1, len(headers)))
    for row, (header, delta) in enumerate(zip(headers, deltas, strict=True)):
        for field, value in header.items():
            batches.table[field, row] = value
        batches.table[BatchField.LAST_OFFSET, row] = (header[BatchField.BASE_OFFSET] + delta + 2**63) % 2**64 - 2**63
    return batches.table


def is_break(batch, claimed, last, compacted):
    """Does the batch not follow one that ends at `claimed` (None: there is none)? See select.next_break."""
    base, is_v2 = batch[BatchField.BASE_OFFSET], batch[BatchField.MAGIC] >= 2
    if batch[BatchField.VALID] == 0 or (claimed is not None and base <= claimed):
        return True
    if is_v2 and not 0 <= last - base <= INT_MAX:
        return True
    has_hole = claimed is not None and base != claimed + 1
    if compacted or not is_v2:
        return not compacted and has_hole and not batch[BatchField.ATTRIBUTES] & CODEC_MASK
    return has_hole or batch[BatchField.COUNT] != last - base + 1 or batch[BatchField.ATTRIBUTES] & DELETE_HORIZON_FLAG != 0


def is_cleaned(batch, last):
    """Did the cleaner leave traces in it? See select.next_cleaned."""
    if batch[BatchField.MAGIC] < 2 or batch[BatchField.VALID] == 0:
        return False
    span = last - batch[BatchField.BASE_OFFSET]
    return batch[BatchField.ATTRIBUTES] & DELETE_HORIZON_FLAG != 0 or 0 <= batch[BatchField.COUNT] <= span <= INT_MAX


@given(st.lists(st.tuples(HEADER, SMALL | edges(-(2**31), 2**31 - 1)), min_size=1, max_size=6), st.integers(-1, 7), st.integers(-1, 9),
       SMALL | edges(-(2**63), LONG_MAX), st.booleans(), st.booleans())  # fmt: skip
def test_breaks_and_traces_of_the_cleaner(rows, row, last_row, claimed, known, compacted):
    table = table_of([header for header, _ in rows], [delta for _, delta in rows])
    last_row = max(row, last_row)
    lasts, span = [table[BatchField.LAST_OFFSET, at] for at in range(len(rows))], (row, last_row)
    before = [claimed if known else None, *lasts][: len(rows)]
    before[max(row, 0) : max(row, 0) + 1] = [claimed if known else None]
    found = first(span, table.shape[1], lambda at: is_break(rows[at][0], before[at], lasts[at], compacted))
    begun = 0 <= row < found and last_row <= table.shape[1]
    wanted = (found, lasts[found - 1] if begun else claimed, known or begun)
    assert tuple(kernel.next_break(table, *span, claimed, known, compacted)) == wanted
    assert kernel.next_cleaned(table, *span) == first(span, table.shape[1], lambda at: is_cleaned(rows[at][0], lasts[at]))


@given(st.lists(st.tuples(st.integers(-2, 5), edges(-(2**63), LONG_MAX)), min_size=1, max_size=9), st.integers(-1, 10),
       st.integers(0, 11))  # fmt: skip
def test_largest_timestamps_by_batch(records, first, end):
    columns = RecordColumns(len(records))
    for row_number, (row, timestamp) in enumerate(records):
        columns.table[RecordField.BATCH, row_number] = row
        columns.table[RecordField.TIMESTAMP, row_number] = timestamp
    allowed = first >= 0 and end <= columns.table.shape[1]
    wanted = [
        max([-1, *(timestamp for at, timestamp in records[first:end] if at == row and allowed)]) for row in range(4)
    ]  # fmt: skip
    largest = memoryview(array("q", [-1] * 4))
    kernel.largest_timestamps(columns.table, first, end, largest)
    assert largest.tolist() == wanted


FIELDS = st.fixed_dictionaries({
    BatchField.VALID: st.sampled_from([1, 1, 1, 1, -1, 0]), BatchField.MAGIC: st.sampled_from([2, 2, 2, 2, 0, 1, -1, 3]),
    BatchField.ATTRIBUTES: st.sampled_from([0, 0, 0, 1, 4, 5, 7, 16, 32, 48, 49, 64]),
    BatchField.PRODUCER_ID: st.sampled_from([-1, 0, 5]), BatchField.LEADER_EPOCH: st.sampled_from([-1, 0, 5]),
})  # fmt: skip
BATCHES = st.lists(FIELDS, min_size=1, max_size=7)


def is_unsound(batch):
    known = batch[BatchField.MAGIC] in (0, 1, 2) and batch[BatchField.ATTRIBUTES] & CODEC_MASK in (0, 1, 2, 3, 4)
    return batch[BatchField.VALID] == 0 or not known


def kind(batch):
    attributes = batch[BatchField.ATTRIBUTES]
    return batch[BatchField.MAGIC] < 2, attributes & CODEC_MASK != 0, attributes & CONTROL_FLAG


@given(BATCHES, SPAN)
@examples(400)
def test_batches_to_look_at(rows, span):
    table, count = columns_of(BatchColumns(len(rows)), rows), len(rows)
    span = span or (0, count)
    assert kernel.next_unsound(table, *span) == first(span, count, lambda at: is_unsound(rows[at]))
    assert kernel.next_unchecked(table, *span) == first(span, count, lambda at: rows[at][BatchField.VALID] == -1)


@given(BATCHES, SPAN)
@examples(400)
def test_a_run_ends_before_a_batch_of_another_kind(rows, span):
    span = span or (0, len(rows))
    table = columns_of(BatchColumns(len(rows)), rows)
    wanted = first(span, len(rows), lambda at: kind(rows[at]) != kind(rows[span[0]]))
    assert kernel.run_end(table, *span) == wanted


OFFSET = st.integers(0, 3) | st.sampled_from([-(2**63), LONG_MAX - 1, LONG_MAX])


@given(st.lists(OFFSET, min_size=1, max_size=7) | st.integers(0, 3).map(lambda start: [*range(start, start + 5), 0]), SPAN, OFFSET)
@examples(400)
def test_a_gap_is_where_an_offset_is_not_one_more(offsets, span, previous):
    span = span or (0, len(offsets))
    table = columns_of(RecordColumns(len(offsets)), [{RecordField.OFFSET: offset} for offset in offsets])
    wanted = first(span, len(offsets), lambda at: offsets[at] != (previous if at == span[0] else offsets[at - 1]) + 1)
    assert kernel.next_gap(table, *span, previous) == wanted


BOUNDS = st.tuples(*[st.integers(-1, 4) | edges(-(2**63), LONG_MAX)] * 4)
RECORD = st.fixed_dictionaries({
    RecordField.BATCH: st.integers(0, 1), RecordField.OFFSET: st.integers(-1, 4) | edges(-(2**63), LONG_MAX),
    RecordField.TIMESTAMP: st.integers(-1, 4) | edges(-(2**63), LONG_MAX), RecordField.CRC: st.integers(0, 9),
    RecordField.VALID: st.integers(-1, 1),
})  # fmt: skip
RECORDS = st.lists(RECORD, min_size=1, max_size=9)


def fits(record, batch, bounds, producer_id, leader_epoch, transactional):
    first_offset, last_offset, from_ms, last_ms = bounds
    return (
        first_offset <= record[RecordField.OFFSET] <= last_offset and from_ms <= record[RecordField.TIMESTAMP] <= last_ms
        and producer_id in (-(2**63), batch[BatchField.PRODUCER_ID]) and leader_epoch in (-(2**63), batch[BatchField.LEADER_EPOCH])
        and (not transactional or batch[BatchField.ATTRIBUTES] & TRANSACTIONAL_FLAG != 0)
    )  # fmt: skip


@given(RECORDS, st.tuples(FIELDS, FIELDS), BOUNDS | st.just((-(2**63), LONG_MAX) * 2),
       st.sampled_from([-(2**63), -1, 0, 5]), st.sampled_from([-(2**63), -1, 0, 5]), st.booleans())  # fmt: skip
@examples(400)
def test_the_mask_is_what_a_selection_asks_for(records, batches, bounds, producer_id, leader_epoch, transactional):
    table, heads = columns_of(RecordColumns(len(records)), records), columns_of(BatchColumns(2), batches)
    asked = bounds, producer_id, leader_epoch, transactional
    wanted = [fits(record, batches[record[RecordField.BATCH]], *asked) for record in records]
    keep = bytearray(b"\x07" * len(records))
    conditions = kernel.Conditions(bounds[:2], bounds[2:], producer_id, leader_epoch, transactional)
    assert kernel.mask_records(table, len(records), heads, conditions, memoryview(keep)) == sum(wanted)
    assert list(keep) == wanted


@given(RECORDS, st.lists(st.sampled_from([0, 1, 255]), min_size=9, max_size=9))
def test_what_is_kept_moves_to_the_front_in_order(records, keep):
    columns = RecordColumns(len(records))
    for field in RecordField:  # a field that is not moved would be noticed
        for at in range(len(records)):
            columns.table[field, at] = 100 * at + field
    columns_of(columns, records)
    wanted = [columns.row(at) for at in range(len(records)) if keep[at]]
    kept = kernel.pack_records(columns.table, len(records), memoryview(bytes(keep)))
    assert [columns.row(at) for at in range(kept)] == wanted


def test_more_records_than_there_are_are_refused():
    table, heads = RecordColumns(2).table, BatchColumns(1).table
    conditions = kernel.Conditions((-(2**63), LONG_MAX), (-(2**63), LONG_MAX), kernel.ANY, kernel.ANY, False)
    for count, room in ((3, 3), (2, 1), (-1, 2)):
        keep = memoryview(bytearray(b"\x07" * room))
        assert kernel.mask_records(table, count, heads, conditions, keep) == -1
        assert kernel.pack_records(table, count, keep) == -1
        assert bytes(keep) == b"\x07" * room


@given(wild_tables(BATCH_FIELDS), wild_tables(RECORD_FIELDS), st.integers(-1, 5), st.integers(0, 4), WILD, WILD, st.booleans())
def test_any_columns_are_masked_or_refused(batches, records, count, room, first_offset, producer_id, transactional):
    keep = memoryview(bytearray(room))
    conditions = kernel.Conditions((first_offset, LONG_MAX), (-(2**63), LONG_MAX), producer_id, kernel.ANY, transactional)
    answer = kernel.mask_records(records.table, count, batches.table, conditions, keep)
    fits = 0 <= count <= min(records.capacity, room)
    fits = fits and all(0 <= row < batches.capacity for row in records.field(RecordField.BATCH)[:count])
    assert answer == (sum(keep) if fits else -1)

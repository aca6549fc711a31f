"""The search for byte strings, against Python's own."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.formats import LEFT_OUT, BatchField, RecordField
from engine.kernels.search import Needles, leave_out_batches, mask_holding
from engine.kernels.tables import NEEDLE_FIELDS, Needle
from engine.record.columns import BatchColumns, RecordColumns, Table
from engine.record.patterns import Literals, rarest
from tests.support.wild_columns import CHANGES, wild_record

SMALL = st.text("abAB0\x00", max_size=150).map(str.encode)  # blocks of 64 positions are compared at once
WORDS = st.lists(st.text("abAB0", min_size=1, max_size=6).map(str.encode), min_size=1, max_size=8)


def holds(data, words, ignore_case):
    """Does the data hold one of the words?"""
    return any((word.lower() in data.lower()) if ignore_case else word in data for word in words)


@given(st.lists(SMALL, max_size=6), WORDS, st.booleans(), SMALL, st.data())
@settings(deadline=None)
def test_batches_that_hold_a_word_are_kept(bodies, words, ignore_case, sample, draw):
    kinds = draw.draw(st.lists(st.sampled_from(["batch", "batch", "batch", "damaged", "left out", "old"]),
                               min_size=len(bodies), max_size=len(bodies)))
    batches, data, wanted = BatchColumns(max(1, len(bodies))), b"", []
    for row, (body, kind) in enumerate(zip(bodies, kinds, strict=True)):
        gap = draw.draw(st.sampled_from([b"", b"a", b"ab0"]))  # a header, which the search goes over
        batches.table[BatchField.BODY, row] = LEFT_OUT if kind == "left out" else len(data + gap)
        batches.table[BatchField.BODY_END, row] = len(data + gap + body)
        batches.table[BatchField.VALID, row] = kind != "damaged"
        batches.table[BatchField.MAGIC, row] = 1 if kind == "old" else 2
        data += gap + body
        wanted.append(kind in ("damaged", "old") or (kind == "batch" and holds(body, words, ignore_case)))
    needles = rarest([Literals(tuple(words), ignore_case)], memoryview(sample))
    kept = leave_out_batches(memoryview(data), batches.table, 0, len(bodies), needles)
    assert kept == sum(wanted)
    assert [batches.table[BatchField.BODY, row] != LEFT_OUT for row in range(len(bodies))] == wanted


@given(st.lists(st.tuples(st.none() | SMALL, st.none() | SMALL, SMALL, st.integers(0, 1)), max_size=5), WORDS, st.booleans(),
       st.booleans(), st.booleans(), st.booleans(), st.integers(0, 2))  # fmt: skip
@settings(deadline=None)
def test_records_that_hold_a_word_are_kept(rows, words, ignore_case, in_keys, in_values, in_headers, first):
    records, data, keep, wanted = RecordColumns(max(1, len(rows))), b"", bytearray(len(rows)), []
    for row, (key, value, header, candidate) in enumerate(rows):
        for field, position, size in ((key, RecordField.KEY_POSITION, RecordField.KEY_SIZE),
                                      (value, RecordField.VALUE_POSITION, RecordField.VALUE_SIZE)):  # fmt: skip
            records.table[position, row] = len(data)
            records.table[size, row] = -1 if field is None else len(field)
            data += field or b""
        records.table[RecordField.HEADERS_POSITION, row], records.table[RecordField.HEADER_COUNT, row] = len(data), 1
        size = len(header) * 2
        data += b"\1" + (bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])) + header  # a null name
        keep[row] = candidate
        fields = (in_keys and key, in_values and value, in_headers and header)
        holds_one = any(isinstance(field, bytes) and holds(field, words, ignore_case) for field in fields)
        wanted.append(candidate if row < first else int(bool(candidate) and holds_one))
    first = min(first, len(rows))
    needles = rarest([Literals(tuple(words), ignore_case)], memoryview(data))
    kept = mask_holding(memoryview(data), records.table, first, needles, in_keys, in_values, in_headers, memoryview(keep)[: len(rows)])
    assert list(keep) == wanted
    assert kept == sum(wanted[first:])


@pytest.mark.parametrize("change", CHANGES)
def test_wild_columns(change):
    data, _, records = wild_record(change)
    needles = rarest([Literals((b"x",))], data)
    assert mask_holding(data, records, 0, needles, True, True, True, bytearray(b"\1")) in (-1, 0)
    assert mask_holding(data, records, 0, needles, True, True, True, bytearray(records.shape[1] + 1)) == -1
    assert mask_holding(data, records, -1, needles, True, True, True, bytearray(b"\1")) == -1


@pytest.mark.parametrize(("start", "size", "rare", "second", "texts"), [
    (0, 0, 0, 0, b"a"), (0, 2, 0, 0, b"a"), (1, 1, 0, 0, b"a"), (-1, 1, 0, 0, b"a"), (0, 1, 1, 0, b"a"), (0, 1, 0, -1, b"a"),
])  # fmt: skip
def test_wrong_words_are_refused(start, size, rare, second, texts):
    table = Table(NEEDLE_FIELDS, 1).table
    for field, value in ((Needle.START, start), (Needle.SIZE, size), (Needle.RARE, rare), (Needle.SECOND, second)):
        table[field, 0] = value
    with pytest.raises(ValueError, match=r"string|texts"):
        Needles(texts, bytes(len(texts)), table)


@pytest.mark.parametrize(("bodies", "rows"), [
    ([(0, 9)], 1), ([(-1, 1)], 1), ([(2, 1)], 1), ([(0, 2), (1, 3)], 2), ([(0, 1)], 2),
])  # fmt: skip
def test_wrong_positions_are_refused(bodies, rows):
    batches = BatchColumns(len(bodies))
    for row, (body, end) in enumerate(bodies):
        batches.table[BatchField.BODY, row], batches.table[BatchField.BODY_END, row] = body, end
        batches.table[BatchField.MAGIC, row] = 2
    assert leave_out_batches(b"abc", batches.table, 0, rows, rarest([Literals((b"x",))], memoryview(b"abc"))) == -1

"""Laws of the template kernel: what it writes is what plain Python makes of the same records."""

from __future__ import annotations

import csv
import io
import json
import re
from base64 import b64encode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.formats import BATCH_FIELDS, RECORD_FIELDS, BatchField, RecordField, Status
from engine.kernels.decoded import Decoded
from engine.kernels.tables import LAST_SHOWN, PIECE_FIELDS, Piece, Shown
from engine.kernels.templates import Template, put_by_template
from engine.record.columns import Table
from tests.kernels.test_ndjson import SENTINEL, cases, field, timestamp_type
from tests.support.strategies import LONG_MAX, examples, wild_tables
from tests.support.wild_columns import CHANGES, wild_record

CONSTANTS = b"0123456789"
CELLS = st.none() | st.binary(max_size=6) | st.text("a=+-@'\t,\"\n\r\\N\0\x7fé", max_size=4).map(str.encode)
TEMPLATES = st.lists(st.sampled_from(Shown) | st.tuples(st.integers(0, 10), st.integers(0, 10)), max_size=6)


def table_of(template):
    """A table of pieces; a pair is a constant, as a slice of CONSTANTS."""
    pieces = Table(PIECE_FIELDS, max(1, len(template)))
    for column, piece in enumerate(template):
        if isinstance(piece, tuple):
            pieces.table[Piece.START, column], pieces.table[Piece.SIZE, column] = min(piece), max(piece) - min(piece)
        else:
            pieces.table[Piece.KIND, column] = piece
    return pieces.table


def line_of(cells):
    """A line of CSV without its end."""
    line = io.StringIO(newline="")
    csv.writer(line, lineterminator="\r\n").writerow(cells)
    return line.getvalue()[:-2].encode()


def pair_of(data, guard=False):
    """The cells of text and of base64."""
    if data is None:
        return line_of([r"\N", r"\N"])
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    is_text = text != r"\N" and not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", text)
    text = text if is_text else b64encode(data).decode()
    text = f"'{text}" if guard and text[:1] in tuple("=+-@\t\r'") else text
    return line_of([text, r"\N"] if is_text else [r"\N", text])


def plain(case, number, piece):
    """What a piece writes of a record."""
    if isinstance(piece, tuple):
        return CONSTANTS[min(piece) : max(piece)]
    record, row = case.records[number], case.table[RecordField.BATCH, number]
    epoch = case.batches[BatchField.LEADER_EPOCH, row]
    sizes = {name: -1 if data is None else len(data) for name, data in (("key", record.key), ("value", record.value))}
    members = [field("key", name) | field("value", value) for name, value in record.headers]
    return {
        Shown.CONSTANT: b"", Shown.OFFSET: b"%d" % record.offset, Shown.TIMESTAMP: b"%d" % record.timestamp,
        Shown.KEY_SIZE: b"%d" % sizes["key"], Shown.VALUE_SIZE: b"%d" % sizes["value"],
        Shown.BINARY_VALUE_SIZE: sizes["value"].to_bytes(4, "big", signed=True),
        Shown.KEY: record.key or b"", Shown.VALUE: record.value or b"",
        Shown.HEADERS: b",".join(name + b"=" + (b"NULL" if value is None else value) for name, value in record.headers),
        Shown.TIMESTAMP_TYPE: timestamp_type(case.batches, row).encode(),
        Shown.LEADER_EPOCH: b"null" if epoch < 0 else b"%d" % epoch,
        Shown.JSON_KEY: text_of(field("key", record.key))[len('{"key') : -1],
        Shown.JSON_VALUE: text_of(field("value", record.value))[len('{"value') : -1],
        Shown.JSON_HEADERS: text_of(members)[1:-1],
        Shown.CSV_KEY: pair_of(record.key), Shown.CSV_VALUE: pair_of(record.value),
        Shown.CSV_HEADERS: line_of([text_of(members).decode() if members else r"\N"]),
    }[piece]  # fmt: skip


def text_of(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def written(case, pieces, size=1 << 20, *, guard=False):
    """Everything that the kernel writes, through a buffer that begins with `size` bytes."""
    store = bytearray([SENTINEL]) * (size + 128)
    text, record, status = b"", 0, int(Status.FULL)
    while status == Status.FULL:
        view = memoryview(store)[64:-64]
        at, record, status = put_by_template(
            view, 0, Decoded(case.data, case.batches, case.table), record, len(case.records), Template(pieces, CONSTANTS, guard)
        )
        assert 0 <= at <= len(view)
        assert set(store[:64] + store[-64:]) == {SENTINEL}
        if at == 0 and status == Status.FULL:
            store = bytearray([SENTINEL]) * (2 * len(view) + 130)
        text += bytes(view[:at])
    assert status == Status.END
    return text


@given(cases(), TEMPLATES)
@examples(200)
def test_a_template_says_what_the_records_say(case, template):
    wanted = b"".join(plain(case, number, piece) for number in range(len(case.records)) for piece in template)
    assert written(case, table_of(template)) == wanted


@given(cases(), TEMPLATES, st.integers(0, 3000))
@settings(deadline=None)
def test_a_small_buffer_makes_no_difference(case, template, size):
    assert written(case, table_of(template), size) == written(case, table_of(template))


@pytest.mark.parametrize("kind", Shown)
@given(case=cases())
@examples(30)
def test_every_kind_of_piece(case, kind):
    assert written(case, table_of([kind])) == b"".join(plain(case, number, kind) for number in range(len(case.records)))


@given(cases(CELLS), st.booleans(), st.integers(0, 40))
@examples(300)
def test_cells_of_csv_are_those_of_pythons_csv(case, guard, size):
    wanted = b"".join(pair_of(record.key, guard) + pair_of(record.value, guard) for record in case.records)
    assert written(case, table_of([Shown.CSV_KEY, Shown.CSV_VALUE]), size, guard=guard) == wanted


@given(st.binary(max_size=64), wild_tables(BATCH_FIELDS), wild_tables(RECORD_FIELDS), wild_tables(PIECE_FIELDS),
       st.lists(st.integers(-1, LAST_SHOWN + 1), max_size=8), st.sampled_from([0, 30, 500, 8000]))  # fmt: skip
@examples(400)
def test_any_columns_are_a_status(data, batches, records, pieces, kinds, size):
    for column, kind in zip(range(pieces.capacity), kinds, strict=False):
        pieces.table[Piece.KIND, column] = kind
    store = bytearray([SENTINEL]) * (size + 128)
    out = memoryview(store)[64:-64]
    at, record, status = put_by_template(
        out, 0, Decoded(memoryview(data), batches.table, records.table), 0, records.capacity, Template(pieces.table, CONSTANTS)
    )
    assert status in {Status.END, Status.FULL, Status.BAD_START}
    assert 0 <= at <= size
    assert (status == Status.END) == (record == records.capacity)
    assert set(store[:64] + store[-64:]) == {SENTINEL}


@pytest.mark.parametrize("change", CHANGES, ids=str)
@pytest.mark.parametrize("kind", [Shown.HEADERS, Shown.JSON_HEADERS, Shown.CSV_HEADERS])
def test_a_record_of_what_is_not_there_is_refused(change, kind):
    data, batches, records = wild_record(change)
    answer = put_by_template(bytearray(2000), 0, Decoded(data, batches, records), 0, 1, Template(table_of([Shown.KEY, kind]), b""))
    assert answer == (0, 0, Status.BAD_START)


@pytest.mark.parametrize(("kind", "start", "size"), [
    (-1, 0, 0), (LAST_SHOWN + 1, 0, 0), (LONG_MAX, 0, 0), (Shown.CONSTANT, -1, 1), (Shown.CONSTANT, 0, 11),
    (Shown.CONSTANT, 1, 10), (Shown.CONSTANT, 11, 0), (Shown.CONSTANT, 0, -1), (Shown.CONSTANT, LONG_MAX, LONG_MAX),
    (Shown.CONSTANT, -LONG_MAX - 1, 1), (Shown.CONSTANT, 1, -LONG_MAX - 1),
])  # fmt: skip
def test_a_piece_that_does_not_exist_is_refused(kind, start, size):
    data, batches, records = wild_record({})
    pieces = table_of([Shown.KEY, Shown.CONSTANT])
    pieces[Piece.KIND, 1], pieces[Piece.START, 1], pieces[Piece.SIZE, 1] = kind, start, size
    assert put_by_template(bytearray(2000), 0, Decoded(data, batches, records), 0, 1, Template(pieces, CONSTANTS)) == (0, 0, Status.BAD_START)


@pytest.mark.parametrize(("at", "record", "last_record"), [(-1, 0, 1), (2001, 0, 1), (0, -1, 1), (0, 0, 2)])
def test_what_lies_outside_is_refused(at, record, last_record):
    data, batches, records = wild_record({})
    answer = put_by_template(
        bytearray(2000), at, Decoded(data, batches, records), record, last_record, Template(table_of([Shown.KEY]), b"")
    )
    assert answer == (at, record, Status.BAD_START)


@pytest.mark.parametrize("fields", [(RECORD_FIELDS, PIECE_FIELDS - 1), (RECORD_FIELDS - 1, PIECE_FIELDS)])
def test_tables_of_something_else_are_refused(fields):
    data, batches, _ = wild_record({})
    records, pieces = (Table(count, 1).table for count in fields)
    assert put_by_template(bytearray(2000), 0, Decoded(data, batches, records), 0, 1, Template(pieces, b"")) == (0, 0, Status.BAD_START)

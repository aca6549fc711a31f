"""Rows of `__remote_log_metadata` hold what the plain decoder reads, and nothing is a row that it refuses."""

from __future__ import annotations

import struct
from struct import Struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.formats import RECORD_FIELDS, RecordField
from engine.kernels import remote as kernel
from engine.kernels.tables import REMOTE_ROW_SIZE, RemoteKind, RemoteRow
from engine.record.columns import RecordColumns
from engine.remote.records import SegmentRecord, UpdateRecord, _decode, encode_record
from tests.support.kernel_calls import remote_rows
from tests.support.strategies import edges, examples

ROW = Struct(">20s16sqqqii?iqb")
INT, LONG = edges(-(2**31), 2**31 - 1), edges(-(2**63), 2**63 - 1)
KEY, ID = st.binary(min_size=20, max_size=20), st.binary(min_size=16, max_size=16)
NAME = st.binary(min_size=1, max_size=4) | st.sampled_from((b"n" * 126, b"n" * 127, b"n" * 300))
CUSTOM = st.none() | st.none() | st.binary(max_size=3)
STATE = st.integers(0, 3) | st.sampled_from((4, 127))
UPDATES = st.builds(UpdateRecord, KEY, NAME, ID, INT, LONG, CUSTOM, STATE)


@st.composite
def segments(draw):
    start = draw(st.integers(0, 2**63 - 1) | st.integers(-2, 2))
    epochs = draw(st.sampled_from([(), ((3, start),), ((3, start),), ((3, 1),), ((3, start), (4, start))]))
    end = draw(st.just(start) | LONG)
    return SegmentRecord(draw(KEY), draw(NAME), draw(ID), start, end, draw(INT), draw(LONG), draw(LONG), epochs, draw(INT),
                         draw(CUSTOM), draw(STATE), draw(st.booleans()))  # fmt: skip


def plain(value):
    """What the plain decoder reads of a value that is usual; None: anything else, or its bytes end."""
    try:
        return _decode(value)
    except (struct.error, IndexError):
        return None


def check(values):
    """Every row holds what the plain decoder says → the kinds."""
    kinds, rows = remote_rows(values)
    for value, kind, fields in zip(values, kinds, ROW.iter_unpack(rows), strict=True):
        key, ident, start, end, largest, size, epoch, is_empty, broker, event, state = fields
        if kind == RemoteKind.SEGMENT:
            assert plain(value) == SegmentRecord(
                key, value[4 : 3 + value[3]], ident, start, end, broker, largest, event, ((epoch, start),), size, None, state, is_empty
            )
        elif kind == RemoteKind.UPDATE:
            assert plain(value) == UpdateRecord(key, value[4 : 3 + value[3]], ident, broker, event, None, state)
        else:
            found = plain(value)
            assert found is None or not isinstance(found, SegmentRecord) or found.custom is not None or (
                len(found.leader_epochs) != 1 or found.leader_epochs[0][1] != found.start_offset
            )
            assert not isinstance(found, UpdateRecord) or found.custom is not None
    return list(kinds)


def test_the_row_is_as_large_as_its_fields():
    assert ROW.size == REMOTE_ROW_SIZE == RemoteRow.STATE + 1


@given(st.lists(UPDATES | segments(), min_size=1, max_size=12))
@examples(150)
def test_rows_hold_what_the_plain_decoder_reads(records):
    check([encode_record(one) for one in records])


@given(UPDATES | segments(), st.data())
@examples(300)
def test_damaged_values_are_refused_or_read_alike(record, data):
    value = bytearray(encode_record(record))
    for _ in range(data.draw(st.integers(1, 3))):
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    end = data.draw(st.just(len(value)) | st.integers(0, len(value)))
    check([bytes(value[:end]) + data.draw(st.sampled_from((b"", b"", b"\0", b"\1\0\1\1")))])


@given(st.lists(st.binary(max_size=120) | st.binary(max_size=120).map(lambda rest: b"\1\0\0\2t" + rest), min_size=1, max_size=8))
@examples(100)
def test_any_bytes(values):
    check(values)


SEGMENT = SegmentRecord(b"k" * 20, b"topic", b"i" * 16, 5, 9, 1, 2, 3, ((4, 5),), 6, None, 0, True)
UPDATE = UpdateRecord(b"k" * 20, b"topic", b"i" * 16, 1, 2, None, 1)


def test_what_brokers_write_is_decoded():
    values = [encode_record(one) for one in (SEGMENT, SEGMENT._replace(txn_index_empty=False), UPDATE, UPDATE._replace(custom=b"c"))]
    assert check(values) == [RemoteKind.SEGMENT, RemoteKind.SEGMENT, RemoteKind.UPDATE, RemoteKind.OTHER]
    explicit = values[0][:-1] + b"\0"  # of Kafka 3.9 and later: the tag says that it is not empty
    assert check([explicit]) == [RemoteKind.SEGMENT]


@pytest.mark.parametrize("value", [encode_record(SEGMENT), encode_record(UPDATE)])
def test_a_topic_without_a_name_is_nothing(value):
    assert check([value[:3] + b"\0" + value[3 + value[3] :]]) == [RemoteKind.OTHER]


WILD = st.integers(-2, 200) | edges(-(2**63), 2**63 - 1)


@given(st.lists(st.tuples(WILD, WILD), max_size=4), st.integers(-1, 5), st.integers(-1, 14), st.integers(0, 5), st.integers(0, 4))
@examples(300)
def test_wild_columns_are_refused_or_name_nothing_outside(places, first, end, kinds, rows):
    data, columns = encode_record(SEGMENT), RecordColumns(max(1, len(places)))
    for index, (at, size) in enumerate(places):
        columns.table[RecordField.VALUE_POSITION, index], columns.table[RecordField.VALUE_SIZE, index] = at, size
    found = memoryview(bytearray(b"\7" * kinds))
    fits = kernel.decode_values(memoryview(data), columns.table, first, end, found, memoryview(bytearray(rows * REMOTE_ROW_SIZE)))
    count = end - first
    assert fits == (first >= 0 and end <= columns.capacity and count <= min(kinds, rows))
    for index in range(max(0, count) if fits else 0):
        whole = first + index < len(places) and places[first + index] == (0, len(data))
        assert found[index] == (RemoteKind.SEGMENT if whole else RemoteKind.OTHER)
    assert bytes(found[max(0, count) if fits else 0 :]).strip(b"\7") == b""


def test_a_table_without_all_fields():
    table = memoryview(bytearray(8 * (RECORD_FIELDS - 1))).cast("q").cast("B").cast("q", (RECORD_FIELDS - 1, 1))
    assert not kernel.decode_values(memoryview(b""), table, 0, 1, memoryview(bytearray(1)), memoryview(bytearray(99)))

"""Laws of the decode kernel."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.formats import BATCH_HEADER, BatchField, Codec, RecordField, Status
from engine.kernels import decode as kernel
from engine.kernels import scan as scan_kernel
from engine.record.assembly import LOG_APPEND_TIME
from engine.record.columns import RecordColumns
from tests.support.kernel_calls import decode, mutate, scan, table_of
from tests.support.strategies import batches, examples

KNOWN = {Status.BAD_START, Status.BAD_VARINT, Status.BAD_RECORD, Status.BAD_COUNT}


plain_logs = st.lists(
    batches(min_size=1, codecs=(Codec.NONE,), magics=(2,)), min_size=1, max_size=3
)


def scanned(data):
    rows = scan(scan_kernel, data).rows
    return table_of(rows), len(rows)


@given(plain_logs, st.integers(1, 9))
@examples(40)
def test_records_come_back(cases, capacity):
    data = b"".join(case.build() for case in cases)
    decoded = decode(kernel, data, *scanned(data), capacity)
    wanted = [(row, case, record) for row, case in enumerate(cases) for record in case.records]
    assert decoded.stops == []
    assert len(decoded.records) == len(wanted)
    for one, (row, case, record) in zip(decoded.records, wanted, strict=True):
        append_time = case.options["timestamp_type"] == LOG_APPEND_TIME
        timestamp = case.options["log_append_time"] if append_time else record.timestamp
        assert one[: RecordField.TIMESTAMP + 1] == (row, record.offset, timestamp)
        for position, size, field in (
            (RecordField.KEY_POSITION, RecordField.KEY_SIZE, record.key),
            (RecordField.VALUE_POSITION, RecordField.VALUE_SIZE, record.value),
        ):
            found = None if one[size] == -1 else data[one[position] : one[position] + one[size]]
            assert found == field
        assert one[RecordField.HEADER_COUNT] == len(record.headers)


@given(plain_logs, st.data())
@examples(60)
def test_any_damage_is_a_status(cases, draw):
    data = b"".join(case.build() for case in cases)
    body = BATCH_HEADER.size
    data = data[:body] + mutate(data[body:], draw)  # a sound header, so that records are what is damaged
    table, rows = scanned(data)
    decoded = decode(kernel, data, table, rows, draw.draw(st.integers(1, 9)))
    assert {status for _, _, status in decoded.stops} <= KNOWN
    for one in decoded.records:
        end = table.table[BatchField.BODY_END, one[RecordField.BATCH]]
        for position, size in ((RecordField.KEY_POSITION, RecordField.KEY_SIZE),
                               (RecordField.VALUE_POSITION, RecordField.VALUE_SIZE)):  # fmt: skip
            assert one[size] >= -1
            assert 0 <= one[position] <= one[position] + max(one[size], 0) <= end


def one_batch(body: bytes, count: int):
    rows = [0] * len(BatchField)
    rows[BatchField.COUNT], rows[BatchField.BODY_END] = count, len(body)
    return table_of([tuple(rows)])


GOOD = bytes([12, 0, 0, 0, 1, 1, 0])  # a record of six bytes: nulls, no headers


@pytest.mark.parametrize(("body", "count", "status", "done"), [
    (GOOD, -1, Status.BAD_COUNT, 0), (GOOD, 2, Status.BAD_VARINT, 1), (GOOD + b"\0", 1, Status.BAD_COUNT, 1),
    (b"", 1, Status.BAD_VARINT, 0), (b"\x80" * 5 + GOOD, 1, Status.BAD_VARINT, 0), (b"\0", 1, Status.BAD_RECORD, 0),
    (b"\x01", 1, Status.BAD_RECORD, 0), (b"\x0e" + GOOD[1:], 1, Status.BAD_RECORD, 0),
    (b"\x02\0", 1, Status.BAD_VARINT, 0), (b"\x0a\0\0\0\x02\0", 1, Status.BAD_VARINT, 0),
    (b"\x0c\0\0\0\x08\0\0", 1, Status.BAD_RECORD, 0), (b"\x0c\0\0\0\0\x08\0", 1, Status.BAD_RECORD, 0),
    (b"\x0c\0\0\0\0\0\x02", 1, Status.BAD_RECORD, 0), (b"\x0e\0\0\0\0\0\x01\0", 1, Status.BAD_RECORD, 0),
    (b"\x0e\0\0\0\0\0\0\0", 1, Status.BAD_RECORD, 0), (b"\x10\0\0\0\0\0\x02\x01\x01", 1, Status.BAD_RECORD, 0),
    (b"\x10\0\0\0\0\0\x02\0\x02", 1, Status.BAD_RECORD, 0), (b"\x1e\0" + b"\x80" * 10 + b"\0\1\1\0", 1, Status.BAD_VARINT, 0),
])  # fmt: skip
def test_each_damage_has_its_status(body, count, status, done):
    assert decode(kernel, body, one_batch(body, count), 1).stops == [(0, done, status)]


@pytest.mark.parametrize(("varint", "value"), [
    (b"\xff\xff\xff\xff\x0f", -(2**31)), (b"\xfe\xff\xff\xff\x0f", 2**31 - 1), (b"\xfe\xff\xff\xff\x7f", 2**31 - 1),
    (b"\x80\x00", 0), (b"\x81\x80\x00", -1),
])  # fmt: skip
def test_varints_of_32_bits(varint, value):
    assert kernel.read_varint(memoryview(varint), 0, len(varint)) == (value, len(varint))
    body = bytes([0, 0]) + varint + b"\1\1\0"
    body = bytes([2 * len(body)]) + body
    assert decode(kernel, body, one_batch(body, 1), 1).records[0][RecordField.OFFSET] == value


@pytest.mark.parametrize(("base", "varint", "timestamp"), [
    (0, b"\xff" * 9 + b"\x01", -(2**63)), (2**63 - 1, b"\x02", -(2**63)), (-(2**63), b"\x01", 2**63 - 1),
    (0, b"\xfe" + b"\xff" * 8 + b"\x7f", 2**63 - 1),
])  # fmt: skip
def test_timestamps_go_around_as_longs_do(base, varint, timestamp):
    body = b"\0" + varint + b"\0\1\1\0"
    body = bytes([2 * len(body)]) + body
    batches_of_one = one_batch(body, 1)
    batches_of_one.table[BatchField.BASE_TIMESTAMP, 0] = base
    assert decode(kernel, body, batches_of_one, 1).records[0][RecordField.TIMESTAMP] == timestamp


@pytest.mark.parametrize(("body", "end", "row", "filled"), [
    (-1, 5, 0, 0), (6, 5, 0, 0), (0, 8, 0, 0), (0, 7, -1, 0), (0, 7, 0, -1),
])  # fmt: skip
def test_what_lies_outside_is_refused(body, end, row, filled):
    batches_of_one, columns = one_batch(GOOD, 1), RecordColumns(4)
    batches_of_one.table[BatchField.BODY, 0], batches_of_one.table[BatchField.BODY_END, 0] = body, end
    answer = kernel.decode_records(memoryview(GOOD), batches_of_one.table, row, 1, 0, 0, columns.table, filled)
    assert (answer[0], answer[4]) == (filled, Status.BAD_START)

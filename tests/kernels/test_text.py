"""Laws of the text kernel."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.formats import BATCH_FIELDS, CODEC_NAMES, RECORD_FIELDS, BatchField, Codec, RecordField, Status
from engine.index.sparse import OffsetIndex, TimeIndex
from engine.java.strings import java_utf8
from engine.kernels import decode as decode_kernel
from engine.kernels import scan as scan_kernel
from engine.kernels import text as kernel
from engine.kernels.decoded import Decoded
from engine.kernels.fields import CONTENTS, ESCAPE, META, OPEN
from engine.record.columns import BatchColumns, RecordColumns
from engine.record.control import increment_sequence
from tests.support.kernel_calls import columns_of, decode, scan, table_of, text
from tests.support.strategies import INT_MAX, LONG_MAX, batches, examples, wild_tables
from tests.support.wild_columns import CHANGES, wild_record

SENTINEL = 0xA5


def decoded(data):
    scanned = scan(scan_kernel, data)
    table = table_of(scanned.rows)
    records = decode(decode_kernel, data, table, len(scanned.rows)).records
    return table, len(scanned.rows), columns_of(records), len(records)


plain_logs = st.lists(
    batches(min_size=1, codecs=(Codec.NONE,), magics=(2,)), min_size=1, max_size=3
)


@given(plain_logs, st.integers(1, 3000))
@examples(40)
def test_records_stand_behind_their_batches(cases, room):
    data = b"".join(case.build() for case in cases)
    printed, _ = text(kernel, data, *decoded(data), META | CONTENTS, room)
    rest = printed
    for case in cases:
        base = case.options["base_offset"]
        line, _, rest = rest.partition(b"\n")
        assert line.startswith(b"baseOffset: %d lastOffset: " % base)
        for record in case.records:
            sequence = case.options.get("base_sequence", -1)
            sequence = increment_sequence(sequence, record.offset - base) if sequence >= 0 else -1
            sizes = [-1 if field is None else len(field) for field in (record.key, record.value)]
            keys = b",".join(java_utf8(key) for key, _ in record.headers)
            wanted = b" keySize: %d valueSize: %d sequence: %d headerKeys: [%s]" % (*sizes, sequence, keys)
            for name, field in ((b" key: ", record.key), (b" payload: ", record.value)):
                wanted += b"" if field is None else name + java_utf8(field)
            assert rest.startswith(b"| offset: %d " % record.offset)
            line, found, rest = rest.partition(wanted + b"\n")
            assert found
            assert line.count(b":") == 2  # offset and timestamp
    assert rest == b""


@given(st.binary(max_size=60) | st.text(max_size=20).map(str.encode), st.booleans())
@examples(400)
def test_payloads_are_java_text(payload, escape):
    batches_of_one, records = BatchColumns(1), RecordColumns(1)
    records.table[RecordField.KEY_SIZE, 0], records.table[RecordField.VALUE_SIZE, 0] = -1, len(payload)
    flags = CONTENTS | OPEN | (ESCAPE if escape else 0)
    printed, _ = text(kernel, payload, batches_of_one, 0, records, 1, flags)
    shown = printed.removeprefix(b"| payload: ").decode()
    if escape:
        assert not any(char < " " or "\x7f" <= char < "\xa0" or char in "\u202e\u2066\ufeff" for char in shown)
        shown.encode()
    else:
        assert shown.encode() == java_utf8(payload)


@pytest.mark.parametrize(("payload", "shown"), [
    (b"\n\r\t\0\x1b\x7f", rb"\n\r\t\x00\x1b\x7f"),
    ("\x85\u202e\ufeff\u200b\u2066\u061c".encode(), rb"\x85\u202e\ufeff\u200b\u2066\u061c"),
    ("\u00e9\u20ac\U0001f600".encode(), "\u00e9\u20ac\U0001f600".encode()), (b"\xed\xa0\x80", "\ufffd".encode()),
])  # fmt: skip
def test_a_terminal_is_shown_escapes(payload, shown):
    records = RecordColumns(1)
    records.table[RecordField.KEY_SIZE, 0], records.table[RecordField.VALUE_SIZE, 0] = -1, len(payload)
    assert text(kernel, payload, BatchColumns(1), 0, records, 1, CONTENTS | ESCAPE)[0] == b"| payload: " + shown + b"\n"


def plain_batch(batch, base):
    """The line of a batch; `batch` has its fields in the order of BatchField."""
    magic, attributes, first, last = (
        batch[field] for field in (BatchField.MAGIC, BatchField.ATTRIBUTES, BatchField.BASE_OFFSET, BatchField.LAST_OFFSET)
    )  # fmt: skip
    kind = "NoTimestampType" if magic == 0 else "LogAppendTime" if attributes & 8 else "CreateTime"
    head = f"offset: {last}"
    if magic >= 2:
        sequence = batch[BatchField.BASE_SEQUENCE]
        head = (
            f"baseOffset: {first} lastOffset: {last} count: {batch[BatchField.COUNT]} baseSequence: {sequence}"
            f" lastSequence: {-1 if sequence == -1 else increment_sequence(sequence, last - first)}"
            f" producerId: {batch[BatchField.PRODUCER_ID]} producerEpoch: {batch[BatchField.PRODUCER_EPOCH]}"
            f" partitionLeaderEpoch: {batch[BatchField.LEADER_EPOCH]} isTransactional: {str(attributes & 16 > 0).lower()}"
            f" isControl: {str(attributes & 32 > 0).lower()} deleteHorizonMs: OptionalLong"
            + (f"[{batch[BatchField.BASE_TIMESTAMP]}]" if attributes & 64 else ".empty")
        )
    codec = CODEC_NAMES[attributes & 7] if attributes & 7 < len(CODEC_NAMES) else f"unknown({attributes & 7})"
    return (
        f"{head} position: {base + batch[BatchField.POSITION]} {kind}: {batch[BatchField.MAX_TIMESTAMP]}"
        f" size: {batch[BatchField.SIZE]} magic: {magic} compresscodec: {codec} crc: {batch[BatchField.CRC]}"
        f" isvalid: {str(batch[BatchField.VALID] == 1).lower()}\n"
    )


FIELD = st.sampled_from([0, 1, 9, 10, 99, 12345, -1, -7, INT_MAX, -INT_MAX - 1]) | st.integers(-LONG_MAX - 1, LONG_MAX)


@given(st.lists(FIELD, min_size=BATCH_FIELDS, max_size=BATCH_FIELDS), st.sampled_from([0, 1, 2]), st.integers(0, 255),
       st.integers(0, 2**40), st.integers(0, INT_MAX), st.sampled_from([-1, 0, 7, INT_MAX]), st.integers(0, 2**40))  # fmt: skip
@examples(300)
def test_the_line_of_a_batch_says_what_the_columns_say(fields, magic, attributes, first, delta, sequence, base):
    fields[BatchField.MAGIC], fields[BatchField.ATTRIBUTES] = magic, attributes
    fields[BatchField.BASE_OFFSET], fields[BatchField.LAST_OFFSET] = first, first + delta
    fields[BatchField.BASE_SEQUENCE], fields[BatchField.POSITION] = sequence, fields[BatchField.POSITION] % 2**40
    out = bytearray(640)
    at, *_ = kernel.print_batches(out, 0, table_of([tuple(fields)]).table, 0, 1, base)
    assert out[:at].decode() == plain_batch(fields, base)


@given(st.lists(st.sampled_from([0, 1, 2, -1, 7, 8, 32, INT_MAX, -INT_MAX - 1, LONG_MAX, -LONG_MAX - 1]), min_size=17,
                max_size=17))  # fmt: skip
@examples(40)
def test_any_batch_fits_its_room(fields):
    batches_of_one = table_of([tuple(fields)])
    batches_of_one.table[BatchField.ATTRIBUTES, 0] &= 255
    batches_of_one.table[BatchField.MAGIC, 0] = min(max(fields[BatchField.MAGIC], -128), 127)
    out = bytearray(640)
    base = 0 if fields[BatchField.POSITION] else 5
    at, row, status = kernel.print_batches(out, 0, batches_of_one.table, 0, 1, base)
    assert (row, status) == (1, Status.END)
    assert out[:at].count(b"\n") == 1
    assert kernel.print_batches(out, 1, batches_of_one.table, 0, 1, 0) == (1, 0, Status.FULL)


@pytest.mark.parametrize("digits", range(20))
def test_numbers_of_every_length(digits):
    one = BatchColumns(1)
    one.table[BatchField.MAGIC, 0] = 2
    for near in (10**digits - 1, 10**digits, 10**digits + 1, 1234567890123456789 // 10**digits, LONG_MAX, LONG_MAX + 1):
        for number in (min(near, LONG_MAX), -min(near, LONG_MAX + 1)):
            one.table[BatchField.BASE_OFFSET, 0] = number
            out = bytearray(640)
            kernel.print_batches(out, 0, one.table, 0, 1, 0)
            assert out.split(b" ")[1] == b"%d" % number


INTS, LONGS = (st.sampled_from([0, 1, -1, top, -top - 1]) | st.integers(-top - 1, top) for top in (INT_MAX, LONG_MAX))


@given(st.lists(st.tuples(LONGS, INTS, INTS), max_size=5), LONGS)
def test_the_lines_of_index_entries(entries, base_offset):
    offsets = OffsetIndex(b"".join(struct.pack(">ii", offset, position) for _, offset, position in entries), base_offset, "x")
    times = TimeIndex(b"".join(struct.pack(">qi", time, offset) for time, offset, _ in entries), base_offset, "x")
    out, count = bytearray(64 * len(entries)), len(entries)
    at, row, status = kernel.print_entries(out, 0, offsets.whole, 0, count, base_offset, False)
    assert (row, status) == (count, Status.END)
    assert out[:at].decode() == "".join(f"offset: {offset} position: {position}\n" for offset, position in offsets)
    at, row, status = kernel.print_entries(out, 0, times.whole, 0, count, base_offset, True)
    assert (row, status) == (count, Status.END)
    assert out[:at].decode() == "".join(f"timestamp: {time} offset: {offset}\n" for time, offset in times)


def test_index_entries_without_room_and_outside():
    assert kernel.print_entries(bytearray(127), 64, bytes(16), 1, 2, 0, False) == (64, 1, Status.FULL)
    for at, row, last_row in ((-1, 0, 1), (0, -1, 1), (0, 0, 3)):
        assert kernel.print_entries(bytearray(640), at, bytes(16), row, last_row, 0, False) == (at, row, Status.BAD_START)


@pytest.mark.parametrize(("at", "row", "last_row", "record", "last_record"), [
    (-1, 0, 1, 0, 1), (0, -1, 1, 0, 1), (0, 0, 2, 0, 1), (0, 0, 1, -1, 1), (0, 0, 1, 0, 2),
])  # fmt: skip
def test_what_lies_outside_is_refused(at, row, last_row, record, last_record):
    answer = kernel.print_records(bytearray(2000), at, Decoded(memoryview(b""), BatchColumns(1).table, RecordColumns(1).table),
                                  row, last_row, record, last_record, META)  # fmt: skip
    assert answer == (at, row, record, Status.BAD_START)


@given(st.binary(max_size=64), wild_tables(BATCH_FIELDS), wild_tables(RECORD_FIELDS), st.integers(0, 15),
       st.sampled_from([0, 700, 4000]))  # fmt: skip
@examples(200)
def test_any_columns_are_a_status(data, batches_of_any, records, flags, size):
    store = bytearray([SENTINEL]) * (size + 64)
    out, count = memoryview(store)[:size], records.capacity
    at, row, record, status = kernel.print_records(
        out, 0, Decoded(memoryview(data), batches_of_any.table, records.table), 0, batches_of_any.capacity, 0, count, flags,
    )  # fmt: skip
    assert status in {Status.END, Status.FULL, Status.BAD_START}
    assert 0 <= at <= size
    assert 0 <= record <= count
    assert (status == Status.END) == (record == count and row == batches_of_any.capacity)
    assert set(store[size:]) == {SENTINEL}


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_record_of_what_is_not_there_is_refused(change):
    data, batches, records = wild_record(change)
    out = memoryview(bytearray(2000))
    answer = kernel.print_records(out, 0, Decoded(data, batches, records), 1, 1, 0, 1, META | CONTENTS)
    assert answer == (0, 1, 0, Status.BAD_START)


def test_a_size_below_nothing_is_a_null():
    """As entries of the old formats may have it."""
    records, out = RecordColumns(1), memoryview(bytearray(500))
    records.field(RecordField.KEY_SIZE)[0] = records.field(RecordField.VALUE_SIZE)[0] = -(2**63)
    answer = kernel.print_records(out, 0, Decoded(memoryview(b""), BatchColumns(1).table, records.table), 1, 1, 0, 1, CONTENTS)
    assert (answer[3], bytes(out[: answer[0]])) == (Status.END, b"\n")

"""Messages of formats 0 and 1: what real Kafka prints, and every quirk of wrappers."""

from __future__ import annotations

import re
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.files import ReadOnlyFiles
from engine.formats import RECORD_FIELDS, BatchField, RecordField, Status
from engine.java.strings import java_utf8
from engine.kernels import legacy as kernel
from engine.kernels.checksum import IEEE, make_tables
from engine.kernels.scan import scan_batches
from engine.record.codecs.codecs import deflate
from engine.record.columns import BatchColumns, RecordColumns
from engine.record.legacy import RemarkKind, decode_entry, decode_plain
from engine.record.reader import ChunkReader
from engine.record.windows import LogWalk
from tests.support.floors import saw_enough
from tests.support.legacy_messages import message, overlong, wrapper
from tests.support.memory_files import MemoryFiles

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
APPEND_TIME = 8
LIMIT = 1 << 20
IEEE_TABLES = make_tables(IEEE)
TABLES = (make_tables(0x82F63B78), IEEE_TABLES)


def scan(data):
    batches = BatchColumns()
    rows, stop, status = scan_batches(memoryview(data), 0, len(data), batches.table, *TABLES)
    assert (stop, status) == (len(data), Status.END)
    return batches, rows


def decode(data, limit=LIMIT, capacity=100):
    """([(offset, timestamp, key, value, valid)], code, problem) of the one entry `data`."""
    batches, rows = scan(data)
    assert rows == 1
    records = RecordColumns(capacity)
    entry = decode_entry(memoryview(data), batches, 0, records, limit)
    found = [seen(entry.data, records, column) for span in entry.spans() for column in range(span.first, span.end)]
    first = entry.problems[0] if entry.problems else None
    return found, first and first.code, first.what if first else ""


def seen(data, records, column):
    row = records.row(column)
    assert row[RecordField.HEADER_COUNT] == 0

    def field(position, size):
        length = row[size]
        return None if length < 0 else bytes(data[row[position] : row[position] + length])

    return (row[RecordField.OFFSET], row[RecordField.TIMESTAMP], field(RecordField.KEY_POSITION, RecordField.KEY_SIZE),
            field(RecordField.VALUE_POSITION, RecordField.VALUE_SIZE), row[RecordField.VALID])


def offsets(data):
    found, code, problem = decode(data)
    assert code is None, problem
    return [row[0] for row in found]


# ---- real files

FILES = [("kafka-4.3.1", "built"), ("peers/kafka-go", "."),
         *((f"old/{version}", part) for version in ("0.8.2.2", "0.9.0.1", "0.10.2.2", "0.11.0.3", "2.8.2")
           for part in ("clean", "unclean"))]
LINE = re.compile(rb"^\| offset: -?\d+ (?:NoTimestampType|CreateTime|LogAppendTime): .* isValid: .*$", re.MULTILINE)
TYPES = {0: b"NoTimestampType", 1: b"CreateTime", 9: b"LogAppendTime"}


def printed(path):
    """(every v0/v1 record as kafka-dump-log prints it, codes of findings by entry's offset)."""
    lines, findings = [], []
    with ReadOnlyFiles().open(str(path)) as file:
        reader = ChunkReader(str(path), findings.append)
        for window in LogWalk(file):
            for chunk in reader.chunks(window):
                if chunk.batches.table[BatchField.MAGIC, chunk.first_row] < 2:
                    attributes = chunk.batches.table[BatchField.ATTRIBUTES, chunk.first_row]
                    magic = chunk.batches.table[BatchField.MAGIC, chunk.first_row]
                    kind = TYPES[magic and magic | attributes & APPEND_TIME]
                    lines += [text(kind, chunk, column) for column in range(chunk.first, chunk.end)]
    return lines, findings


def text(kind, chunk, column):
    row, key, value = chunk.records.row(column), chunk.key(column), chunk.value(column)
    line = b"| offset: %d %s: %d keySize: %d valueSize: %d isValid: %s crc: %d" % (
        row[RecordField.OFFSET], kind, row[RecordField.TIMESTAMP], row[RecordField.KEY_SIZE],
        row[RecordField.VALUE_SIZE], (b"false", b"true")[row[RecordField.VALID]], row[RecordField.CRC])
    line += b"" if key is None else b" key: " + java_utf8(key)
    return line + (b"" if value is None else b" payload: " + java_utf8(value))


def test_records_as_kafka_prints_them(corpus):
    compared, stopped = 0, 0
    for root, part in FILES:
        logs, expected = corpus / root / "logs", corpus / root / "expected/print"
        for out in sorted((expected / part).rglob("*.log.out")):
            lines, findings = printed(logs / out.relative_to(expected).with_suffix(""))
            want = out.read_bytes()
            error = out.with_suffix(".err")
            dies = error.exists() and error.read_text().startswith("Exception in thread")
            count = len(LINE.findall(want))
            assert len(lines) >= count if dies else len(lines) == count, out
            assert dies == any(finding.code in {"decompression-failed", "record-invalid"} for finding in findings), out
            at = 0
            last = int(LINE.findall(want)[-1].split()[2]) if dies and count else None  # the tool may die in this line
            shown = [line for line in lines[:count] if last is None or int(line.split()[2]) <= last]
            for line in shown:
                at = want.find(line + b"\n", at)
                assert at >= 0, (out, line)
                at += len(line)
            compared += len(shown)
            stopped += dies
    saw_enough("messages of formats 0 and 1", compared, 1901)
    saw_enough("dumps that the tool died of", stopped)


# ---- plain entries


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize(("key", "value"), [(None, None), (b"", b""), (b"key", None), (None, b"v" * 3000)])
def test_plain_message(magic, key, value):
    data = message(7, key, value, magic=magic)
    assert decode(data) == ([(7, -1 if magic == 0 else 1000, key, value, 1)], None, "")


def test_any_magic_but_zero_is_laid_out_like_one():
    assert decode(message(7, b"k", b"v", magic=-3))[0] == [(7, 1000, b"k", b"v", 1)]


def test_append_time_of_a_plain_message_is_its_own():
    assert decode(message(7, attributes=APPEND_TIME, timestamp=55))[0][0][1] == 55


@pytest.mark.parametrize("size", [10, 5000])
def test_checksum(size):
    good, bad = message(1, b"k", b"v" * size), message(1, b"k", b"v" * size, crc=5)
    assert decode(good)[0][0][4] == 1
    assert decode(bad)[0][0][4] == 0
    assert decode(wrapper(1, [message(0, b"k", b"v" * size, crc=5), message(1)]))[0][0][4] == 0


def test_negative_sizes_are_nulls_given_as_stored():
    data = bytearray(message(1, None, None, magic=0))
    data[18:26] = struct.pack(">ii", -5, -(2**31))
    batches, _ = scan(data)
    records = RecordColumns(1)
    assert list(decode_entry(memoryview(data), batches, 0, records, LIMIT).spans()) == [(0, 1, False)]
    assert (records.row(0)[RecordField.KEY_SIZE], records.row(0)[RecordField.VALUE_SIZE]) == (-5, -(2**31))


def test_bytes_behind_the_value_do_not_matter():
    assert decode(message(1, b"k", b"v", tail=b"more"))[0] == [(1, 1000, b"k", b"v", 1)]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("at", ["key", "value"])
@pytest.mark.parametrize("size", [3, 4, 5, 2**31 - 1])
def test_sizes_that_do_not_fit(magic, at, size):
    data = bytearray(message(1, b"", b"", magic=magic))
    where = (18 if magic == 0 else 26) + (4 if at == "value" else 0)
    data[where : where + 4] = struct.pack(">i", size)
    assert decode(data)[:2] == ([], "record-invalid")


def test_format_1_in_the_size_of_format_0():
    data = bytearray(message(1, None, None, magic=0))
    data[16] = 1
    assert decode(data)[:2] == ([], "record-invalid")


def test_runs_of_plain_entries():
    entries = [message(offset, b"k%d" % offset, b"v" * (offset * 300), magic=offset % 2) for offset in range(10)]
    data = memoryview(b"".join(entries))
    batches, rows = scan(data)
    records = RecordColumns(4)
    got, row = [], 0
    while row < rows:
        count, after, problem, _ = decode_plain(data, batches, row, rows, records)
        assert (after, problem) == (row + count, None)
        assert [records.row(column)[RecordField.BATCH] for column in range(count)] == list(range(row, after))
        got += [seen(data, records, column) for column in range(count)]
        row = after
    assert got == [(offset, 1000 if offset % 2 else -1, b"k%d" % offset, b"v" * (offset * 300), 1)
                   for offset in range(10)]


def test_a_bad_entry_in_a_run():
    bad = bytearray(message(1, b"", b"", magic=0))
    bad[18:22] = b"\x7f\xff\xff\xff"
    data = memoryview(message(0) + bytes(bad) + message(2))
    batches, rows = scan(data)
    records = RecordColumns(4)
    count, row, problem, is_overlong = decode_plain(data, batches, 0, rows, records)
    assert (count, row, problem.code, is_overlong) == (1, 2, "record-invalid", False)
    assert decode_plain(data, batches, row, rows, records) == (1, 3, None, False)
    assert records.row(0)[RecordField.OFFSET] == 2


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("pack", [b"".join, lambda inner: wrapper(2, inner)])
def test_a_value_longer_than_its_message(magic, pack):
    """Nobody gets it who does not ask for it; who does gets what its fields say, in its place."""
    inner = [message(0, magic=magic), overlong(1, b"key", b"value", magic=magic), message(2, magic=magic)]
    data = pack(inner) if magic else b"".join(inner)
    (window,) = LogWalk(MemoryFiles({"x.log": data}).open("x.log"))

    def offsets_of(findings, **options):
        for chunk in ChunkReader("x.log", findings.append, **options).chunks(window):
            for column in range(chunk.first, chunk.end):
                row = chunk.records.row(column)
                yield row[RecordField.OFFSET], chunk.is_overlong, row[RecordField.KEY_SIZE], row[RecordField.VALUE_SIZE]

    found, more = [], []
    assert [one[:2] for one in offsets_of(found)] == [(0, False), (2, False)]
    assert list(offsets_of(more, with_overlong=True)) == [(0, False, -1, -1), (1, True, 3, 4113), (2, False, -1, -1)]
    assert [one.what for one in found] == [one.what for one in more]
    assert "does not fit" in found[0].what


# ---- wrappers


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("capacity", [1, 2, 3, 100])
def test_inner_sets(codec, magic, capacity):
    inner = [message(offset, b"k", b"v%d" % offset, magic=magic, timestamp=offset) for offset in (10, 12, 13)]
    found, code, _ = decode(wrapper(13, inner, codec, magic=magic), capacity=capacity)
    assert code is None
    assert found == [(offset, offset if magic else -1, b"k", b"v%d" % offset, 1) for offset in (10, 12, 13)]


def test_relative_offsets_end_at_the_wrapper():
    inner = [message(offset) for offset in (0, 2, 12, 17)]
    assert offsets(wrapper(129, inner)) == [112, 114, 124, 129]
    assert offsets(wrapper(0, inner)) == [0, 2, 12, 17]  # some producers never set the wrapper's offset
    assert offsets(wrapper(17, inner)) == [0, 2, 12, 17]
    assert offsets(wrapper(5, [message(0), message(-3)])) == [8, 5]
    assert decode(wrapper(16, inner))[:2] == ([], "record-invalid")
    assert offsets(wrapper(16, [message(offset, magic=0) for offset in (3, 20)], magic=0)) == [3, 20]
    assert offsets(wrapper(2**63 - 1, [message(5), message(-2)])) == [-(2**63) + 6, 2**63 - 1]  # around, as in Java


def test_format_of_the_wrapper_decides_about_offsets():
    assert offsets(wrapper(9, [message(0, magic=0), message(1, magic=0)], magic=1)) == [8, 9]
    assert offsets(wrapper(9, [message(0, magic=1), message(1, magic=1)], magic=0)) == [0, 1]


def test_append_time_of_the_wrapper():
    inner = [message(0, timestamp=1), message(1, magic=0), message(2, magic=5, timestamp=3)]
    found, _, _ = decode(wrapper(2, inner, attributes=APPEND_TIME, timestamp=77))
    assert [row[1] for row in found] == [77, -1, 3]  # Kafka only replaces it in format 1
    found, _, _ = decode(wrapper(2, inner, timestamp=77))
    assert [row[1] for row in found] == [1, -1, 3]
    found, _, _ = decode(wrapper(2, inner, magic=0, attributes=APPEND_TIME))
    assert [row[1] for row in found] == [1, -1, 3]


def test_old_lz4_checksum_is_for_format_0_only():
    inner = message(0, magic=0)
    for magic, other, code in ((0, 1, None), (1, 0, "decompression-failed")):
        data = message(0, None, deflate(LZ4, inner, magic=other), magic=magic, attributes=LZ4)
        assert decode(data)[1] == code


def test_a_set_that_ends_inside_a_message():
    inner = message(0) + message(1)
    for cut in range(1, len(message(1))):
        assert offsets(wrapper(50, inner[:-cut])) == [50]
    for cut in range(1, len(message(0))):
        assert decode(wrapper(50, message(0)[:-cut]))[:2] == ([], "record-invalid")


def remarks(data, *, wanted=True):
    found, kinds = [], set()
    with MemoryFiles({"x.log": data}).open("x.log") as file:
        on_remark = (lambda remark, kind: found.append(remark) or kinds.add(kind)) if wanted else None
        reader = ChunkReader("x.log", found.append, on_remark=on_remark)
        records = sum(chunk.end - chunk.first for window in LogWalk(file) for chunk in reader.chunks(window))
    assert {finding.code for finding in found} <= {"record-invalid"}
    return records, [finding.what for finding in found], kinds


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
def test_a_message_cut_off_inside_a_set_is_told(magic, codec):
    inner = message(0, magic=magic) + message(1, magic=magic)
    for cut in (1, 10, len(message(1, magic=magic)) - 1):
        data = wrapper(1, inner[:-cut], codec, magic=magic) + message(2, magic=magic)
        assert remarks(data) == (2, ["message 1 is cut off"], {RemarkKind.CUT_OFF})
        assert remarks(data, wanted=False) == (2, [], set()), "Kafka says nothing: neither does what works as Kafka does"
    assert remarks(wrapper(1, inner, codec, magic=magic)) == (2, [], set())


@pytest.mark.parametrize("offset", [0, 12, 14, 2**63 - 1, -1])
def test_a_wrapper_of_format_0_with_the_offset_of_another_message(offset):
    data = wrapper(offset, [message(12, magic=0), message(13, magic=0)], magic=0)
    assert remarks(data) == (2, [f"the wrapper's offset {offset} is not 13, that of its last message"], {RemarkKind.OFFSET})
    assert remarks(wrapper(13, [message(12, magic=0), message(13, magic=0)], magic=0)) == (2, [], set())


@pytest.mark.parametrize(("data", "code"), [
    (message(1, None, None, attributes=GZIP), "record-invalid"),
    (message(1, None, b"", attributes=GZIP), "decompression-failed"),
    (message(1, None, b"not gzip at all", attributes=GZIP), "decompression-failed"),
    (wrapper(1, b""), "record-invalid"),
    (wrapper(1, b"", SNAPPY), "record-invalid"),
    (wrapper(1, [message(0), message(1)], ZSTD), "record-invalid"),
    (wrapper(1, [message(0), message(1)], magic=-1), "record-invalid"),
    (message(1, None, b"x", attributes=5), "unknown-codec"),
    (message(1, None, b"x", attributes=7, magic=0), "unknown-codec"),
    (wrapper(1, message(0) + struct.pack(">qi", 1, 13) + bytes(13)), "record-invalid"),
    (wrapper(1, message(0) + struct.pack(">qi", 1, -1) + bytes(13)), "record-invalid"),
    (wrapper(1, [message(0, None, bytes(2 * LIMIT))]), "over-limit"),
])
def test_sets_that_kafka_refuses_as_a_whole(data, code):
    assert decode(data)[:2] == ([], code)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("at", ["key", "value"])
@pytest.mark.parametrize("size", [1, 2**31 - 1])
def test_sizes_of_a_wrapper_that_do_not_fit(magic, at, size):
    data = bytearray(message(1, b"", b"", magic=magic, attributes=GZIP))
    where = (18 if magic == 0 else 26) + (4 if at == "value" else 0)
    data[where : where + 4] = struct.pack(">i", size)
    assert decode(data)[:2] == ([], "record-invalid")


def test_key_of_a_wrapper_is_skipped():
    data = message(4, b"key", deflate(GZIP, message(0)), attributes=GZIP)
    assert offsets(data) == [4]


def test_damage_inside_a_set_leaves_the_records_before_it():
    bad = bytearray(message(1, b"", b""))
    bad[26:30] = b"\0\0\0\x05"
    found, code, problem = decode(wrapper(2, [message(0), bytes(bad), message(2)]))
    assert ([row[0] for row in found], code, problem) == ([0, 2], "record-invalid", "a length inside message 1 does not fit")
    found, code, problem = decode(wrapper(2, [message(0), wrapper(1, [message(0)]), message(2)]), capacity=1)
    assert ([row[0] for row in found], code) == ([0], "record-invalid")
    assert "message 1 of a compressed set is compressed" in problem


@pytest.mark.parametrize("capacity", [1, 2, 100])
def test_messages_whose_lengths_do_not_fit_hide_no_others(monkeypatch, capacity):
    monkeypatch.setattr("engine.record.legacy._NAMED", 2)
    bad = bytearray(message(1, b"", b""))
    bad[26:30] = b"\0\0\0\x05"
    data = wrapper(9, [message(0), bytes(bad), bytes(bad), message(3), bytes(bad), bytes(bad), bytes(bad), message(7)])
    batches, _ = scan(data)
    records = RecordColumns(capacity)
    entry = decode_entry(memoryview(data), batches, 0, records, LIMIT)
    found = [seen(entry.data, records, column)[0] for span in entry.spans() for column in range(span.first, span.end)]
    assert len(found) == 3
    assert [problem.what for problem in entry.problems] == [
        "a length inside message 1 does not fit", "a length inside message 2 does not fit",
        "3 more messages with lengths that do not fit",
    ]


# ---- laws


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.none() | st.binary(max_size=40),
                          st.none() | st.binary(max_size=2000), st.integers(0, 1)), min_size=1, max_size=8),
       st.sampled_from([GZIP, SNAPPY, LZ4]), st.integers(1, 9))
@settings(max_examples=60)
def test_roundtrip_of_format_0(rows, codec, capacity):
    inner = [message(offset, key, value, magic=magic, timestamp=offset) for offset, key, value, magic in rows]
    found, code, _ = decode(wrapper(3, inner, codec, magic=0), capacity=capacity)
    assert code is None
    assert found == [(offset, offset if magic else -1, key, value, 1) for offset, key, value, magic in rows]


@given(st.data())
@settings(max_examples=150)
def test_any_damage_is_a_status(data):
    entries = [message(offset, b"key", b"value" * 4, magic=offset % 3) for offset in range(4)]
    damaged = bytearray(b"".join(entries))
    for _ in range(data.draw(st.integers(0, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.sampled_from([0, 1, 127, 128, 255]))
    damaged = damaged[: data.draw(st.integers(0, len(damaged)))]
    records = RecordColumns(3)
    start = data.draw(st.integers(0, len(damaged)))
    end = data.draw(st.integers(start, len(damaged)))
    view = memoryview(damaged)
    count, _, stop, status = kernel.measure_messages(view, start, end)
    assert start <= stop <= end
    assert (status == Status.END) == (stop == end)
    filled, at, status = kernel.decode_messages(view, start, end, kernel.Origin(0, 1), records.table, 0, IEEE_TABLES)
    assert start <= at <= stop
    assert filled <= min(count, 3)
    for column in range(filled):
        row = records.row(column)
        for position, size in ((RecordField.KEY_POSITION, RecordField.KEY_SIZE),
                               (RecordField.VALUE_POSITION, RecordField.VALUE_SIZE)):
            assert start <= row[position] <= at
            assert row[position] + max(row[size], 0) <= at


def test_arguments_outside_the_buffer():
    data, records = memoryview(message(0)), RecordColumns(2)
    for start, end in ((-1, 5), (5, 4), (0, len(data) + 1)):
        assert kernel.measure_messages(data, start, end)[3] == Status.BAD_START
        decoded = kernel.decode_messages(data, start, end, kernel.Origin(0, 0), records.table, 0, IEEE_TABLES)
        assert decoded[2] == Status.BAD_START
    small = memoryview(bytearray(8 * (RECORD_FIELDS - 1))).cast("q", (RECORD_FIELDS - 1, 1))
    assert kernel.decode_messages(data, 0, len(data), kernel.Origin(0, 0), small, 0, IEEE_TABLES)[2] == Status.BAD_START
    full = kernel.decode_messages(data, 0, len(data), kernel.Origin(0, 0), records.table, 2, IEEE_TABLES)
    assert full == (2, 0, Status.FULL)

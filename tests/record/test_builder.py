"""Batches that we build: Kafka's bytes, readable by our own kernels, refused where no batch can be."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.formats import BatchField, Codec, ControlType, RecordField, Status
from engine.kernels.checksum import CASTAGNOLI, IEEE, make_tables
from engine.kernels.decode import decode_records
from engine.kernels.scan import scan_batches
from engine.record.assembly import BatchSpec, UnbuildableBatch, empty_batch, encode_batch
from engine.record.builder import (
    BatchBuilder,
    NewRecord,
    build_batch,
    end_txn_batch,
    split,
)
from engine.record.columns import BatchColumns, RecordColumns
from engine.record.control import decrement_sequence, increment_sequence
from tests.support.batch_cases import CASES, IDEMPOTENT, NOW, PLAIN, fingerprint, stored
from tests.support.strategies import INT_MAX, LONG_MAX, batches, edges, record_lists

CASTAGNOLI_TABLES, IEEE_TABLES = make_tables(CASTAGNOLI), make_tables(IEEE)


def columns_of(data: bytes) -> tuple[BatchColumns, RecordColumns, int]:
    """Batches and records of uncompressed v2 bytes, as our kernels read them, and the number of records."""
    found, records = BatchColumns(64), RecordColumns(512)
    rows, at, status = scan_batches(memoryview(data), 0, len(data), found.table, CASTAGNOLI_TABLES, IEEE_TABLES)
    assert (at, status) == (len(data), Status.END)
    filled, row, _, _, status = decode_records(memoryview(data), found.table, 0, rows, 0, 0, records.table, 0)
    assert (row, status) == (rows, Status.END)
    return found, records, filled


@pytest.mark.parametrize("name", CASES)
def test_bytes_are_kafkas(name):
    assert fingerprint(CASES[name], CASES[name].build()) == stored()[name]


@given(batches(min_size=1, codecs=(Codec.NONE,)).filter(lambda case: case.options["magic"] == 2))
@settings(deadline=None)
def test_what_is_written_is_read(case):
    data = case.build()
    found, records, count = columns_of(data)
    header = found.row(0)
    options = case.options
    assert header[BatchField.VALID] != 0
    assert header[BatchField.COUNT] == count == len(case.records)
    assert header[BatchField.BASE_OFFSET] == options["base_offset"]
    assert header[BatchField.LAST_OFFSET] == options.get("last_offset", case.records[-1].offset)
    assert header[BatchField.BASE_SEQUENCE] == options.get("base_sequence", -1)
    largest = options.get("log_append_time", max(record.timestamp for record in case.records))
    assert header[BatchField.MAX_TIMESTAMP] == largest
    for row, record in enumerate(case.records):
        got = records.row(row)
        assert got[RecordField.OFFSET] == record.offset
        assert got[RecordField.TIMESTAMP] == options.get("log_append_time", record.timestamp)
        assert got[RecordField.HEADER_COUNT] == len(record.headers)
        for field, position, size in (
            (record.key, RecordField.KEY_POSITION, RecordField.KEY_SIZE),
            (record.value, RecordField.VALUE_POSITION, RecordField.VALUE_SIZE),
        ):
            assert got[size] == (-1 if field is None else len(field))
            assert field is None or data[got[position] : got[position] + got[size]] == field


@given(record_lists(min_size=1), st.data())
@settings(deadline=None)
def test_columns_that_were_read_are_written_again(records, data):
    """As the cleaner does: columns over one batch make another, whole or in part, without objects between."""
    base = records[0].offset
    old = build_batch(records)
    _, columns, count = columns_of(old)
    first = data.draw(st.integers(0, count - 1))
    kept = data.draw(st.integers(1, count - first))
    again = encode_batch(BatchSpec(base_offset=base), old, columns, kept, first=first)
    assert again == build_batch(records[first : first + kept], base_offset=base)


def test_markers():
    marker = end_txn_batch(ControlType.ABORT, 5, base_offset=3, timestamp=NOW, producer_id=9, producer_epoch=1)
    found, records, count = columns_of(marker)
    assert count == 1
    assert found.row(0)[BatchField.ATTRIBUTES] == 0x30
    assert found.row(0)[BatchField.BASE_SEQUENCE] == -1
    assert (records.row(0)[RecordField.KEY_SIZE], records.row(0)[RecordField.VALUE_SIZE]) == (4, 6)
    with pytest.raises(UnbuildableBatch, match="abort or a commit"):
        end_txn_batch(ControlType.KRAFT_VOTERS, 5, base_offset=3, timestamp=NOW, producer_id=9, producer_epoch=1)


def test_an_empty_batch_keeps_offsets_and_producer():
    data = empty_batch(BatchSpec(base_offset=10, codec=Codec.GZIP, **IDEMPOTENT), 19, NOW)
    header = columns_of(data)[0].row(0)
    assert len(data) == 61
    assert (header[BatchField.COUNT], header[BatchField.LAST_OFFSET], header[BatchField.ATTRIBUTES]) == (0, 19, 0)
    assert (header[BatchField.PRODUCER_ID], header[BatchField.BASE_SEQUENCE]) == (4001, 17)


@pytest.mark.parametrize(("records", "options", "words"), [
    ([NewRecord(5, 0, None, None), NewRecord(5, 0, None, None)], {}, "offset 5 follows 5"),
    ([NewRecord(5, 0, None, None)], {"base_offset": 6}, "offset 5 follows 5"),
    ([NewRecord(0, 0, b"", b""), NewRecord(INT_MAX + 1, 0, b"", b"")], {}, "more than 2\\^31"),
    ([NewRecord(0, -2, b"", b"")], {}, "timestamp -2"),
    ([NewRecord(0, 0, b"", b"")], {"last_offset": -1}, "cannot be the last offset"),
    ([NewRecord(0, 0, b"", b"")], {"last_offset": INT_MAX + 1}, "cannot be the last offset"),
    ([NewRecord(0, 0, b"", b"", [(b"h", b"")])], {"magic": 1}, "format 1 has no headers"),
    ([NewRecord(0, 0, b"", b"")], {"magic": 3}, "message format 3 does not exist"),
    ([NewRecord(0, 0, b"", b"")], {"magic": 1, "codec": Codec.ZSTD}, "format 1 has no zstd"),
    ([NewRecord(0, 0, b"", b"")], {"magic": 0, "control": True}, "format 0 has no control records"),
    ([NewRecord(0, 0, b"", b"")], {"magic": 1, "delete_horizon_ms": 0}, "format 1 has no delete horizons"),
    ([NewRecord(0, 0, b"", b"")], {"magic": 1, **IDEMPOTENT}, "format 1 has no producer ids"),
    ([NewRecord(0, 0, b"", b"")], {"transactional": True}, "needs a producer id"),
    ([NewRecord(0, 0, b"", b"")], {"producer_id": 4, "base_sequence": 0}, "needs a producer epoch"),
    ([NewRecord(0, 0, b"", b"")], {"producer_id": 4, "producer_epoch": 0}, "needs a sequence"),
    ([NewRecord(0, 0, b"", b"")], {**IDEMPOTENT, "producer_epoch": 2**15}, "out of range"),
    ([NewRecord(LONG_MAX + 1, 0, b"", b"")], {}, "64 bits"),
    ([NewRecord(0, LONG_MAX + 1, b"", b"")], {}, "64 bits"),
])  # fmt: skip
def test_what_no_batch_can_hold_is_refused(records, options, words):
    with pytest.raises(UnbuildableBatch, match=words):
        build_batch(records, **options)


def test_columns_that_do_not_exist_are_refused():
    columns = RecordColumns(2)
    for first, count in ((2, 1), (0, 3), (1, 2)):
        with pytest.raises(UnbuildableBatch, match="do not exist"):
            encode_batch(BatchSpec(), b"", columns, count, first=first)
    columns.table[RecordField.KEY_SIZE, 1] = 1
    with pytest.raises(UnbuildableBatch, match="offset 0: no record"):
        encode_batch(BatchSpec(), b"", columns, 2)


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_estimates_are_exact_without_a_codec(magic):
    builder = BatchBuilder(BatchSpec(base_offset=7, magic=magic))
    for record in PLAIN:
        assert builder.next_offset <= record.offset
        builder.append(record if magic == 2 else record._replace(headers=()))
        assert builder.estimated_size == len(builder.build())


@pytest.mark.parametrize("magic", [0, 1, 2])
@given(st.data(), st.integers(0, 400))
@settings(deadline=None)
def test_a_builder_is_full_at_its_limit(magic, data, limit):
    records = data.draw(record_lists(magic, min_size=1))
    builder = BatchBuilder(BatchSpec(base_offset=records[0].offset, magic=magic), limit)
    for record in records:
        if not builder.has_room_for(record):
            larger = [*builder.records, record]
            assert len(build_batch(larger, base_offset=records[0].offset, magic=magic)) > limit
            break
        builder.append(record)
        assert len(builder.build()) <= limit or len(builder.records) == 1
    assert builder.build() == build_batch(builder.records, base_offset=records[0].offset, magic=magic)


def test_a_builder_takes_offsets_in_order_only():
    builder = BatchBuilder(BatchSpec(base_offset=5))
    assert builder.build() == b""
    assert builder.next_offset == 5
    builder.append(NewRecord(8, 0, None, None))
    for offset in (4, 8):
        with pytest.raises(UnbuildableBatch, match=f"offset {offset} follows 8"):
            builder.append(NewRecord(offset, 0, None, None))
    with pytest.raises(UnbuildableBatch, match="2\\^31"):
        builder.append(NewRecord(6 + INT_MAX, 0, None, None))


@given(record_lists(min_size=0, max_size=20), st.integers(61, 400))
@settings(deadline=None)
def test_split_loses_nothing(records, limit):
    parts = list(split(records, BatchSpec(**IDEMPOTENT), limit))
    found, columns, count = columns_of(b"".join(parts))
    assert list(columns.field(RecordField.OFFSET)[:count]) == [record.offset for record in records]
    sequence = IDEMPOTENT["base_sequence"]
    for row, part in enumerate(parts):
        header = found.row(row)
        assert len(part) <= limit or header[BatchField.COUNT] == 1
        assert header[BatchField.BASE_SEQUENCE] == sequence
        sequence = increment_sequence(sequence, header[BatchField.COUNT])


@given(edges(0, INT_MAX), edges(0, INT_MAX))
def test_sequences_wrap_as_in_kafka(sequence, change):
    # DefaultRecordBatch.incrementSequence and decrementSequence, by cases
    more = change - (INT_MAX - sequence) - 1 if sequence > INT_MAX - change else sequence + change
    less = INT_MAX - (change - sequence) + 1 if sequence < change else sequence - change
    assert increment_sequence(sequence, change) == more
    assert decrement_sequence(sequence, change) == less
    assert decrement_sequence(more, change) == sequence


@pytest.mark.parametrize(("codec", "fast", "best"), [(Codec.GZIP, 1, 9), (Codec.LZ4, 1, 17), (Codec.ZSTD, 1, 19)])
def test_a_level_is_the_codecs(codec, fast, best):
    records = [NewRecord(i, NOW + i, b"key-%d" % (i * i % 97), b"value %d of many" % (i * i)) for i in range(2000)]
    assert len(build_batch(records, codec=codec, level=best)) < len(build_batch(records, codec=codec, level=fast))

"""What a leader notes of records and stamps on batches, against plain Python."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.formats import BATCH_HEADER, BatchField, Codec, RecordField
from engine.kernels import admission as kernel
from engine.kernels.tables import TRAITS, Flaw, Trait
from engine.log.append.frames import Frame
from engine.record.builder import NewRecord, build_batch
from engine.record.columns import BatchColumns, RecordColumns, Table
from engine.record.windows import crc32c

LONG = st.integers(-(2**63), 2**63 - 1)
NOW = 1_700_000_000_000
ANY_SIZE = 1 << 30


def verdicts_of(kernel, count):
    table = Table(TRAITS, count)
    table.field(Trait.LARGEST)[:] = memoryview(array("q", [-1] * count))
    return table


@given(st.lists(st.tuples(st.integers(0, 2), LONG, LONG, st.integers(-1, 3)), max_size=12), LONG, LONG,
       st.lists(LONG, min_size=3, max_size=3))  # fmt: skip
def test_records_are_judged_one_by_one(records, low, high, bases):
    columns, batches = RecordColumns(max(1, len(records))), BatchColumns(3)
    for index, (batch, offset, timestamp, key_size) in enumerate(records):
        for field, value in (("BATCH", batch), ("OFFSET", offset), ("TIMESTAMP", timestamp), ("KEY_SIZE", key_size)):
            columns.table[RecordField[field], index] = value
    batches.field(BatchField.BASE_OFFSET)[:] = memoryview(array("q", bases))
    traits = verdicts_of(kernel, 3)
    assert kernel.judge_records(columns.table, len(records), batches.table, low, high, traits.table) == len(records)
    for row in range(3):
        mine = [record for record in records if record[0] == row]
        flags = 0
        for number, (_, offset, timestamp, key_size) in enumerate(mine):
            flags |= Flaw.NULL_KEY if key_size < 0 else 0
            flags |= Flaw.TIMESTAMP if timestamp != -1 and not low <= timestamp <= high else 0
            flags |= Flaw.OFFSETS if offset != bases[row] + number else 0
        found = [traits.table[field, row] for field in (Trait.FLAWS, Trait.LARGEST, Trait.COUNT)]
        assert found == [flags, max([-1, *[record[2] for record in mine]]), len(mine)]


@pytest.mark.parametrize(("batch", "count"), [(3, 1), (-1, 1), (0, 2), (0, -1)])
def test_columns_that_do_not_fit_are_refused(batch, count):
    columns = RecordColumns(1)
    columns.table[RecordField.BATCH, 0] = batch
    assert kernel.judge_records(columns.table, count, BatchColumns(3).table, 0, 1, verdicts_of(kernel, 3).table) == -1


def sent(count=2, *, timestamp=NOW, **fields):
    return build_batch([NewRecord(at, timestamp + at, b"k", b"v") for at in range(count)], base_offset=0, **fields)


def stamp(kernel, parts, *, refused=0, largest=ANY_SIZE, next_offset=100, epoch=7, append_time=-1, judged=None):
    """Stamp batches whose records were judged as `judged` says: (row, next offset, data, frame, traits)."""
    data = bytearray(b"".join(parts))
    frame = Frame.of(data)
    traits = verdicts_of(kernel, frame.batches.capacity)
    for row in range(frame.rows):
        flags, found, count = (judged or {}).get(row, (0, None, None))
        traits.table[Trait.FLAWS, row] = flags
        stored = frame.batches.table[BatchField.MAX_TIMESTAMP, row]
        traits.table[Trait.LARGEST, row] = stored if found is None else found
        traits.table[Trait.COUNT, row] = frame.batches.table[BatchField.COUNT, row] if count is None else count
    row, after = kernel.stamp_batches(
        memoryview(data), frame.batches.table, 0, frame.rows, traits.table, next_offset,
        kernel.Leader(epoch, append_time, refused, largest),
    )
    return row, after, data, frame, traits


def test_offsets_and_epochs_are_given_in_order():
    parts = [sent(2), sent(5), sent(1)]
    row, after, data, frame, traits = stamp(kernel, parts)
    assert (row, after) == (3, 108)
    at = 0
    for part, base, number in zip(parts, (100, 102, 107), range(3), strict=True):
        wanted = BATCH_HEADER.read(part)._replace(base_offset=base, partition_leader_epoch=7)
        assert data[at : at + len(part)] == BATCH_HEADER.pack(wanted) + part[BATCH_HEADER.size :]
        table = frame.batches.table
        assert (table[BatchField.BASE_OFFSET, number], table[BatchField.LEADER_EPOCH, number]) == (base, 7)
        assert table[BatchField.LAST_OFFSET, number] == base + wanted.last_offset_delta
        assert traits.table[Trait.CHANGED, number] == 0
        at += len(part)


def test_timestamps_that_change_ask_for_a_checksum():
    *_, data, frame, traits = stamp(kernel, [sent()], append_time=NOW + 9)
    header = BATCH_HEADER.read(data)
    assert (header.attributes, header.max_timestamp, traits.table[Trait.CHANGED, 0]) == (8, NOW + 9, 1)
    assert header.crc != crc32c(data[BATCH_HEADER.positions["attributes"] :])
    assert frame.batches.table[BatchField.MAX_TIMESTAMP, 0] == NOW + 9
    *_, data, _, traits = stamp(kernel, [sent()], judged={0: (0, NOW - 5, 2)})
    assert (BATCH_HEADER.read(data).max_timestamp, traits.table[Trait.CHANGED, 0]) == (NOW - 5, 1)


PRODUCER = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
REFUSED = {
    "wrong checksum": sent()[:-1] + b"?",
    "format 1": build_batch([NewRecord(0, NOW, b"k", b"v")], magic=1),
    "compressed": sent(codec=Codec.GZIP),
    "control": sent(control=True),
    "append time": sent(timestamp_type=1, log_append_time=NOW),
    "base offset": build_batch([NewRecord(5, NOW, b"k", b"v")]),
    "offsets with a gap": build_batch([NewRecord(0, NOW, b"", b""), NewRecord(2, NOW, b"", b"")], base_offset=0),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_stops_at_what_must_be_looked_at(name):
    row, after, data, *_ = stamp(kernel, [sent(), REFUSED[name], sent()])
    assert (row, after) == (1, 102)
    assert data[len(sent()) :] == REFUSED[name] + sent()


def test_it_stops_at_sizes_flags_counts_and_the_last_offset():
    good = [sent(), sent(**PRODUCER), sent()]
    assert stamp(kernel, good)[0] == 3
    assert stamp(kernel, [sent(), sent(9), sent()], largest=len(sent()))[0] == 1
    assert stamp(kernel, good, refused=Flaw.NULL_KEY, judged={1: (Flaw.NULL_KEY, 0, 2)})[0] == 1
    assert stamp(kernel, good, refused=Flaw.BROKEN, judged={1: (Flaw.NULL_KEY, NOW, 2)})[0] == 3
    assert stamp(kernel, good, judged={2: (0, NOW, 1)})[0] == 2
    assert stamp(kernel, good, next_offset=2**63 - 4)[:2] == (1, 2**63 - 2)


@given(st.lists(LONG, min_size=17, max_size=17), st.integers(-2, 3), st.integers(-2, 3), LONG, st.integers(-1, 2**31 - 1))
def test_nothing_outside_the_bytes_is_touched(fields, row, last_row, next_offset, epoch):
    batches, data = BatchColumns(2), bytearray(200)
    for field in BatchField:
        batches.field(field)[:] = memoryview(array("q", [fields[field]] * 2))
    batches.table[BatchField.VALID, 0] = 1
    batches.table[BatchField.MAGIC, 0] = 2
    answer = kernel.stamp_batches(
        memoryview(data), batches.table, row, last_row, verdicts_of(kernel, 2).table, next_offset,
        kernel.Leader(epoch, -1, 0, ANY_SIZE),
    )
    assert answer[0] >= min(row, last_row)
    assert len(data) == 200

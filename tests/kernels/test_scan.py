"""Laws of the scan kernel."""

from __future__ import annotations

import random

import crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.formats import BATCH_HEADER, LOG_OVERHEAD, BatchField, Codec, Status
from engine.kernels import scan as kernel
from engine.record.columns import BatchColumns
from engine.record.windows import _TABLES
from tests.support.kernel_calls import field_of, mutate, scan
from tests.support.strategies import batches, examples

logs = st.lists(batches(min_size=1), max_size=3).map(lambda cases: [case.build() for case in cases])


@given(logs, st.integers(1, 5))
@examples(40)
def test_every_batch_of_a_log_is_found(built, capacity):
    data = b"".join(built)
    found, at, status = [], 0, Status.FULL
    while status == Status.FULL:
        scanned = scan(kernel, data, at, capacity=capacity)
        found += scanned.rows
        at, status = scanned.stop, scanned.status
        assert len(scanned.rows) == capacity or status == Status.END
    assert status == Status.END
    sizes = field_of(found, BatchField.SIZE)
    assert sum(sizes) == at == len(data)
    assert field_of(found, BatchField.POSITION) == [sum(sizes[:row]) for row in range(len(sizes))]
    assert set(field_of(found, BatchField.VALID)) <= {1}


@given(batches(min_size=1, codecs=(Codec.NONE,), magics=(2,)))
@examples(40)
def test_headers_are_read(case):
    data = case.build()
    row = scan(kernel, data).rows[0]
    header = BATCH_HEADER.read(data)
    assert row == (
        0, len(data), 2, 1, header.crc, header.attributes & 255, header.base_offset,
        header.base_offset + header.last_offset_delta, len(case.records), header.max_timestamp, header.base_timestamp,
        header.producer_id, header.producer_epoch, header.base_sequence, header.partition_leader_epoch,
        BATCH_HEADER.size, len(data),
    )  # fmt: skip


@given(logs.filter(bool), st.data())
@examples(40)
def test_any_damage_is_a_status(built, draw):
    data = mutate(b"".join(built), draw)
    rows, stop, status = scan(kernel, data)
    assert 0 <= stop <= len(data)
    assert stop == sum(field_of(rows, BatchField.SIZE))
    assert (status == Status.END) == (stop == len(data))
    for row in rows:
        assert row[BatchField.POSITION] <= row[BatchField.BODY] <= row[BatchField.BODY_END] <= len(data)


@given(st.binary(max_size=200), st.integers(-300, 300), st.integers(-300, 300))
@examples(40)
def test_any_arguments_are_a_status(data, start, end):
    rows, stop, status = scan(kernel, data, start, end)
    if 0 <= start <= end <= len(data):
        assert status in {Status.END, Status.TORN, Status.BAD_SIZE}
        assert start <= stop <= end
    else:
        assert (rows, stop, status) == ([], start, Status.BAD_START)


@pytest.mark.parametrize("size", [0, 13, -1, -(2**31)])
def test_a_size_that_no_batch_can_have_ends_the_walk(size):
    data = bytes(8) + size.to_bytes(4, "big", signed=True) + bytes(20)
    assert scan(kernel, data).status == Status.BAD_SIZE


def test_a_header_cut_off_by_its_own_size_is_no_valid_batch():
    data = bytes(8) + (20).to_bytes(4, "big") + bytes(4) + b"\x02" + bytes(60)
    rows, stop, _ = scan(kernel, data)
    assert stop >= 32
    assert (rows[0][BatchField.VALID], rows[0][BatchField.BODY]) == (0, rows[0][BatchField.BODY_END])


@given(batches(min_size=1), st.binary(max_size=60))
@examples(40)
def test_a_batch_behind_garbage_is_a_candidate(case, garbage):
    data = garbage + case.build()
    at, found = 0, set()
    while (at := kernel.find_candidate(memoryview(data), at, len(data), len(data), 1 << 20)) >= 0:
        found.add(at)
        at += 1
    assert len(garbage) in found


def test_nothing_is_written_behind_the_columns():
    batches_of_two = b"".join(bytes(8) + (20).to_bytes(4, "big") + bytes(20) for _ in range(2))
    columns = BatchColumns(1)
    assert kernel.scan_batches(memoryview(batches_of_two), 0, 64, columns.table, *_TABLES) == (1, 32, Status.FULL)


def heads(kernel, data, stride, position, end, capacity=64):
    """One call of scan_heads → (rows, position, status)."""
    columns = BatchColumns(capacity)
    count, after, status = kernel.scan_heads(memoryview(data), stride, position, end, columns.table)
    return [tuple(columns.table[field, row] for field in BatchField) for row in range(count)], after, int(status)


def without_validity(rows):
    return [row[: BatchField.VALID] + row[BatchField.VALID + 1 :] for row in rows]


@given(logs.filter(bool), st.data())
@examples(60)
def test_headers_alone_say_what_whole_batches_say(built, draw):
    data = mutate(b"".join(built), draw)
    rows, stop, status = scan(kernel, data)
    assert heads(kernel, data, 0, 0, len(data))[1:] == (stop, status)
    assert without_validity(heads(kernel, data, 0, 0, len(data))[0]) == without_validity(rows)
    size = BATCH_HEADER.size
    starts = [*field_of(rows, BatchField.POSITION), stop]
    slots = b"".join(data[at : at + size].ljust(size, b"\xff") for at in starts)
    apart = heads(kernel, slots, size, 0, len(data))
    assert (without_validity(apart[0]), apart[1], apart[2]) == (without_validity(rows), stop, status)


@given(st.binary(max_size=200), st.integers(-2, 70), st.integers(-300, 300), st.integers(-300, 2**62), st.integers(1, 3))
@examples(100)
def test_any_arguments_of_headers_are_a_status(data, stride, position, end, capacity):
    rows, after, status = heads(kernel, data, stride, position, end, capacity)
    if stride < 0 or position < 0 or end < position:
        assert (rows, after, status) == ([], position, Status.BAD_START)
    else:
        assert position <= after <= end
        assert sum(field_of(rows, BatchField.SIZE)) == after - position


@pytest.mark.parametrize("sizes", [range(61, 1200), (32_768, 32_769, 100_001, (1 << 20) - 3)], ids=["small", "large"])
def test_checksums_are_those_of_the_library(sizes):
    """Of every size, which decides how many bytes each way of computing them gets; a bit that changes anywhere is noticed."""
    rng = random.Random(7)
    for size in sizes:
        data = bytearray(rng.randbytes(size))
        data[BATCH_HEADER.positions["magic"]] = 2
        BATCH_HEADER.put("batch_length", data, 0, size - LOG_OVERHEAD)
        BATCH_HEADER.put("crc", data, 0, crc32c.crc32c(bytes(data[BATCH_HEADER.positions["attributes"] :])))
        before = rng.randbytes(size % 5)  # not aligned
        places = [*range(BATCH_HEADER.positions["attributes"], size)] if size == 61 + 128 + 77 else [rng.randrange(21, size), size - 1]
        for place in (None, *places):
            changed = bytearray(data)
            if place is not None:
                changed[place] ^= 1 << rng.randrange(8)
            table = BatchColumns(1).table
            assert kernel.scan_batches(memoryview(before + changed), len(before), len(before) + size, table, *_TABLES)[0] == 1
            assert table[BatchField.VALID, 0] in ((1 if place is None else 0), -1), (size, place)
            if size <= 1024:
                assert table[BatchField.VALID, 0] != -1

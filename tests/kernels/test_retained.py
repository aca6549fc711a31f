"""What `write_retained` writes is what the cleaner's other way writes; what it leaves alone it does not touch."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.formats import BatchField, Codec, RecordField
from engine.kernels import retained as kernel
from engine.kernels.blocks import TABLE
from engine.kernels.checksum import CASTAGNOLI, make_tables
from engine.kernels.tables import COUNTS, Count
from engine.log.cleaner.rewriting import BatchRewriter, Marked, empty_in_place
from engine.log.cleaner.transactions import LastRecords
from engine.record.builder import NewRecord, build_batch
from engine.record.codecs.libzstd import calls
from engine.record.codecs.lz4 import written_header
from engine.record.columns import Table
from engine.record.reader import ChunkReader
from engine.record.windows import LogWalk
from tests.support.memory_files import MemoryFile
from tests.support.strategies import examples

HORIZON = 1_700_000_000_000
NO_LIBRARY = memoryview(array("Q"))
NO_PRODUCERS = LastRecords([], -1).columns
HEAD, TABLES = memoryview(written_header()), memoryview(make_tables(CASTAGNOLI))
texts = st.none() | st.binary(max_size=40) | st.just(b"again and again " * 9)
record = st.tuples(st.integers(1, 5), st.integers(-1, 2**41), texts, texts, st.booleans())
batches = st.lists(st.tuples(st.lists(record, min_size=1, max_size=12), st.booleans(), st.sampled_from([-1, 0, 77])),
                   min_size=1, max_size=6)  # fmt: skip


class Prepared:
    """A window with one chunk, and counts of what stays of its batches."""

    def __init__(self, described, codec, attributes=0, magic=2):
        self.sound, log, offset = True, b"", 0
        self.keep = bytearray()
        for records, append_time, horizon in described:
            base = offset
            made = []
            for step, timestamp, key, value, stays in records:
                offset += step
                made.append(NewRecord(offset, timestamp if magic else -1, key, value, [(b"h", value)] if magic == 2 else []))
                self.keep.append(stays)
            what = {"codec": codec}
            if magic:
                what |= {"timestamp_type": int(append_time), "log_append_time": 99 if append_time else -1}
            if magic == 2:
                what |= {"base_offset": base, "delete_horizon_ms": horizon, "partition_leader_epoch": 5, "last_offset": offset,
                         "control": bool(attributes & 32)}  # fmt: skip
            log += build_batch(made, magic=magic, **what)
            offset += 1
        (self.window,) = LogWalk(MemoryFile("x.log", log))
        (self.chunk,) = ChunkReader("x.log", [].append).chunks(self.window)
        self.counts = Table(COUNTS, self.window.rows).table
        table = self.chunk.records.table
        for index in range(self.chunk.first, self.chunk.end):
            row = table[RecordField.BATCH, index]
            self.counts[Count.READ, row] += 1
            if self.keep[index - self.chunk.first]:
                self.counts[Count.KEPT, row] += 1
                self.counts[Count.TOMBSTONES, row] += table[RecordField.VALUE_SIZE, index] < 0

    def write(self, row, out, at, *, body=1 << 16, last_records=NO_PRODUCERS, library=None, castagnoli=TABLES):
        counted = kernel.CountedWindow(self.window.data, self.window.batches.table, self.counts)
        keep = memoryview(bytes(self.keep))
        marked = kernel.Marked(self.chunk.data, self.chunk.records.table, self.chunk.first, self.chunk.end, keep, HORIZON)
        space = memoryview(bytearray(body)), memoryview(array("H", bytes(2 * TABLE)))
        writer = kernel.Writer(HEAD, calls() if library is None else library, castagnoli, *space)
        return kernel.write_retained(counted, row, self.window.rows, last_records, marked, writer, out, at)

    def original(self, row):
        """A batch as it is."""
        at = self.window.batches.table[BatchField.POSITION, row]
        return bytes(self.window.data[at : at + self.window.batches.table[BatchField.SIZE, row]])

    def expected(self, row):
        """What the other way makes of a batch."""
        table, batch_of = self.window.batches.table, self.chunk.records.field(RecordField.BATCH)
        kept, attributes = self.counts[Count.KEPT, row], table[BatchField.ATTRIBUTES, row]
        if not kept:
            return b""
        is_v2 = table[BatchField.MAGIC, row] == 2
        has = is_v2 and bool(attributes & 64)
        needs = not has and self.counts[Count.TOMBSTONES, row] > 0
        if is_v2 and kept == self.counts[Count.READ, row] and not needs:
            return self.original(row)
        mine = [index for index in range(self.chunk.first, self.chunk.end) if batch_of[index] == row]
        marked = Marked(self.chunk, mine[0], mine[-1] + 1, memoryview(bytes(self.keep[mine[0] - self.chunk.first :])))
        horizon = table[BatchField.BASE_TIMESTAMP, row] if has else HORIZON if needs else -1
        if not is_v2:
            return BatchRewriter().rewrite(self.window.batches, row, (marked,), horizon)
        return BatchRewriter().rewrite_whole(self.window, row, marked, horizon)


@given(batches, st.sampled_from([Codec.NONE, Codec.LZ4, Codec.ZSTD]))
@examples(200)
def test_it_writes_what_the_other_way_writes(described, codec):
    prepared = Prepared(described, codec)
    out = memoryview(bytearray(1 << 16))
    rows = prepared.window.rows
    row, end, last = prepared.write(0, out, 3)
    assert row == rows
    assert last == max((one for one in range(rows) if prepared.counts[Count.KEPT, one]), default=-1)
    assert bytes(out[3:end]) == b"".join(prepared.expected(one) for one in range(rows))
    assert bytes(out[:3]) == b"\0\0\0"


@given(batches, st.sampled_from([0, 1]))
@examples(100)
def test_plain_messages_of_old_formats_become_batches(described, magic):
    prepared = Prepared(described, Codec.NONE, magic=magic)
    out, wanted, kept = memoryview(bytearray(1 << 16)), b"", []
    row, after, last = prepared.write(0, out, 0)
    for one in range(row):
        wanted += prepared.expected(one)
        if prepared.counts[Count.KEPT, one]:
            kept.append(one)
    assert bytes(out[:after]) == wanted
    assert last == (kept[-1] if kept else -1)
    assert row == prepared.window.rows


@given(st.lists(batches.map(lambda several: several[0]), min_size=1, max_size=1), st.sampled_from([0, 1]))
@examples(50)
def test_a_set_of_an_old_format_becomes_a_batch(described, magic):
    prepared = Prepared(described, Codec.LZ4, magic=magic)
    out = memoryview(bytearray(1 << 16))
    row, after, _ = prepared.write(0, out, 0)
    assert row == 1
    assert bytes(out[:after]) == prepared.expected(0)


def test_markers_get_a_horizon_or_are_copied():
    marker = [[(1, 5, b"\0\0\0\1", b"\0\0\0\0\0\7", True)], False, -1]
    prepared = Prepared([marker, marker], Codec.NONE, attributes=32)
    prepared.counts[Count.TOMBSTONES, 1] = 1
    out = memoryview(bytearray(999))
    row, after, _ = prepared.write(0, out, 0)
    assert row == 2
    assert bytes(out[:after]) == b"".join(prepared.expected(one) for one in range(row))


@given(batches, st.sampled_from([Codec.NONE, Codec.LZ4, Codec.ZSTD]), st.integers(0, 900))
@examples(150)
def test_without_room_it_stops_before_the_batch(described, codec, room):
    prepared = Prepared(described, codec)
    beyond = memoryview(bytearray(b"\xaa" * (room + 64)))
    row, at, _ = prepared.write(0, beyond[:room], 0)
    assert bytes(beyond[room:]) == b"\xaa" * 64
    assert bytes(beyond[:at]) == b"".join(prepared.expected(one) for one in range(row))
    assert prepared.write(row, beyond[:room], at)[:2] == (row, at)  # it stays there


def test_what_needs_another_look_is_left_alone():
    half = [[(1, 5, b"a", b"v", False), (1, 6, b"b", b"v", True)], False, -1]
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.ZSTD):
        assert Prepared([half], codec).write(0, memoryview(bytearray(999)), 0, library=NO_LIBRARY) == (0, 0, -1)


@pytest.mark.parametrize("append_time", [False, True])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("magic", [1, 2])
def test_of_a_batch_that_stays_empty_the_header_is_written(append_time, codec, magic):
    gone = Prepared([[[(1, 5, b"a", b"v", False)], append_time, 77]], codec, magic=magic)
    round_end = LastRecords([], gone.window.batches.table[BatchField.LAST_OFFSET, 0]).columns
    out = memoryview(bytearray(999))
    assert gone.write(0, out, 0) == (1, 0, -1)
    if magic < 2:
        assert gone.write(0, out, 0, last_records=round_end) == (0, 0, -1)
        return
    assert gone.write(0, out[:63], 3, last_records=round_end) == (0, 3, -1), "there is no room for it"
    assert gone.write(0, out, 3, last_records=round_end) == (1, 64, 0)
    assert bytes(out[3:64]) == empty_in_place(gone.window.batches, 0)
    assert bytes(out[:3]) + bytes(out[64:67]) == bytes(6)


def test_a_body_that_has_no_room_is_left_alone():
    half = [[(1, 5, b"a", bytes(50), True), (1, 6, b"b", b"v", False)], False, -1]
    for codec in (Codec.LZ4, Codec.ZSTD):
        assert Prepared([half], codec).write(0, memoryview(bytearray(999)), 0, body=20) == (0, 0, -1)


def test_arguments_that_do_not_fit_each_other_do_nothing():
    prepared = Prepared([[[(1, 5, b"a", b"v", True)], False, -1]], Codec.NONE)
    out = memoryview(bytearray(999))
    for row, at in ((-1, 0), (0, -1), (0, 1000)):
        assert prepared.write(row, out, at) == (row, at, -1)
    counts, prepared.counts = prepared.counts, Table(1, 8).table
    assert prepared.write(0, out, 0) == (0, 0, -1)
    prepared.counts = counts
    assert prepared.write(0, out, 0, castagnoli=TABLES[:4095]) == (0, 0, -1)
    prepared.keep.clear()
    assert prepared.write(0, out, 0) == (0, 0, -1)
    prepared.keep.append(1)
    prepared.window.batches.table[BatchField.SIZE, 0] = len(prepared.window.data) + 1
    assert prepared.write(0, out, 0) == (0, 0, -1)

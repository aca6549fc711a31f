"""`map_batches` leaves the same map as the separate calls that it replaces."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.formats import LEFT_OUT, BatchField, Codec, RecordField
from engine.kernels import mapping as kernel
from engine.kernels import offset_map
from engine.kernels.mapping import OUT_OF_ORDER
from engine.kernels.tables import MapState
from engine.record.builder import NewRecord, build_batch
from engine.record.codecs.libzstd import calls
from engine.record.codecs.lz4 import written_checksums
from engine.record.columns import RecordColumns
from engine.record.reader import ChunkReader
from engine.record.windows import LogWalk
from tests.support.memory_files import MemoryFile
from tests.support.strategies import examples

NO_LIBRARY = memoryview(array("Q"))
SECRET = (0x0123456789ABCDEF, 0xFEDCBA9876543210)
NOBODY = memoryview(bytes(64))
KINDS = {
    "plain": {}, "lz4": {"codec": Codec.LZ4}, "zstd": {"codec": Codec.ZSTD}, "control": {"control": True},
    "v1": {"magic": 1}, "v1 lz4": {"magic": 1, "codec": Codec.LZ4},
}  # fmt: skip
kinds = st.sampled_from(["plain", "lz4", "zstd"] * 3 + list(KINDS))
keys = st.none() | st.binary(max_size=4) | st.integers(0, 9).map(lambda number: b"key%d" % number)
batches = st.lists(
    st.tuples(kinds, st.lists(st.tuples(keys, st.binary(max_size=30)), min_size=1, max_size=9), st.booleans()),
    min_size=1, max_size=12,
)  # fmt: skip


def window_of(described, damaged=-1):
    """The batches as a window: (kind, records, left out?). A flipped byte in the body of one."""
    log, offset, ends = b"", 0, []
    for number, (kind, records, _) in enumerate(described):
        what = dict(KINDS[kind])
        made = [NewRecord(offset + step, 5, key, value, []) for step, (key, value) in enumerate(records)]
        if "magic" not in what:
            what |= {"base_offset": offset, "last_offset": offset + len(records) - 1}
        batch = bytearray(build_batch(made, **{"magic": 2, **what}))
        if number == damaged and len(batch) > 61:
            batch[61 + (len(batch) - 61) // 2] ^= 0xFF
        log, offset = log + batch, offset + len(records)
        ends.append(offset - 1)
    (window,) = LogWalk(MemoryFile("x.log", log))
    for row, (_, _, left_out) in enumerate(described):
        if left_out and window.batches.table[BatchField.MAGIC, row] == 2:
            window.batches.table[BatchField.BODY, row] = LEFT_OUT
    return window


class Map:
    def __init__(self, capacity):
        self.slots = memoryview(bytearray(24 * 2 * (capacity + 1))).cast("Q")
        self.state = memoryview(array("q", (0, capacity, -1)))

    def view(self):
        return offset_map.OffsetMap(self.slots, *SECRET, self.state)


def one_by_one(offset_map, window, row, into, start=0):
    """The other way, for the batches from `row` on → False: the map is full."""
    for chunk in ChunkReader("x.log", lambda _finding: None).chunks(window, row):
        at, _ = offset_map.put_keys(
            into.view(), chunk.data, chunk.records.table, chunk.first, chunk.end, start, NOBODY
        )
        if at < chunk.end:
            return False
    return True


def mapped(kernel, window, into, *, start=0, room=1 << 12, rows=100, last=-1, library=None):
    library = calls() if library is None else library
    space = kernel.Space(written_checksums(), library, memoryview(bytearray(room)), RecordColumns(rows).table, NOBODY)
    return kernel.map_batches(into.view(), window.data, window.batches.table, 0, window.rows, space, start, last)


def content(offset_map, into, described):
    found = {
        key: offset_map.find_key(into.view(), memoryview(key))
        for _, records, _ in described for key, _ in records if key is not None
    }  # fmt: skip
    return found, list(into.state)


@given(batches, st.integers(1, 60), st.integers(0, 30), st.integers(0, 400), st.integers(1, 30))
@example([("lz4", [(b"a", b"")], False), ("plain", [(b"b", b"")], False), ("lz4", [(b"a", b"")], True)], 60, 0, 400, 30)
@examples(80)
def test_with_the_rest_one_by_one_the_map_is_the_same(described, capacity, start, room, rows):
    alone, together = Map(capacity), Map(capacity)
    window = window_of(described)
    stop, read, _ = mapped(kernel, window, together, start=start, room=room, rows=rows)
    assert read == sum(len(records) for _, records, left_out in described[:stop] if not left_out)
    full = one_by_one(offset_map, window, stop, together, start)
    assert one_by_one(offset_map, window_of(described), 0, alone, start) == full
    assert content(offset_map, together, described) == content(offset_map, alone, described)


@given(batches, st.integers(0, 60), st.booleans())
@examples(80)
def test_it_stops_only_where_it_must(described, capacity, has_library):
    """Before the first batch that is not ordinary, or that may have more keys than the map has room for."""
    ordinary = ("plain", "lz4", "zstd") if has_library else ("plain", "lz4")
    seen, wanted = set(), len(described)
    for row, (kind, records, left_out) in enumerate(described):
        if left_out and not kind.startswith("v1"):
            continue
        if kind not in ordinary or len(records) > capacity - len(seen):
            wanted = row
            break
        seen |= {key for key, _ in records if key is not None}
    library = None if has_library else NO_LIBRARY
    assert mapped(kernel, window_of(described), Map(capacity), library=library)[0] == wanted


@given(batches, st.data())
@examples(80)
def test_damage_is_left_to_those_who_name_it(described, data):
    damaged = data.draw(st.integers(0, len(described) - 1))
    window, before = window_of(described, damaged), window_of(described, damaged)
    stop, _, _ = mapped(kernel, window, Map(200))
    for field in (BatchField.BODY, BatchField.BODY_END):
        after = [window.batches.table[field, row] for row in range(stop, window.rows)]
        assert after == [before.batches.table[field, row] for row in range(stop, window.rows)]


@pytest.mark.parametrize(
    ("records", "last", "wanted"),
    [
        ([(b"a", b""), (b"b", b"")], -1, 1),
        ([(b"a", b""), (None, b"")], -1, OUT_OF_ORDER),  # a record without key
        ([(b"a", b"")], 0, OUT_OF_ORDER),  # an offset that was there before
        ([(b"a", b"")], OUT_OF_ORDER, OUT_OF_ORDER),
    ],
)
def test_order(records, last, wanted):
    assert mapped(kernel, window_of([("lz4", records, False)]), Map(9), last=last) == (1, len(records), wanted)


def test_batches_without_records_change_no_offset():
    assert mapped(kernel, window_of([("plain", [(b"a", b"")], True)]), Map(9), last=-1) == (1, 0, -1)


def test_arguments_that_do_not_fit_each_other():
    window = window_of([("plain", [(b"a", b"")], False)])
    into, columns, room = Map(9), RecordColumns(9).table, memoryview(bytearray(9))
    what = {"batches": window.batches.table, "row": 0, "end": 1, "records": columns, "nobody": NOBODY, "state": into.state}
    for wrong in (
        {"row": -1}, {"end": window.batches.table.shape[1] + 1}, {"nobody": NOBODY[:0]}, {"state": into.state[:2]},
        {"records": columns[:3]},
    ):  # fmt: skip
        now = {**what, **wrong}
        known = offset_map.OffsetMap(into.slots, *SECRET, now["state"])
        space = kernel.Space(written_checksums(), NO_LIBRARY, room, now["records"], now["nobody"])
        assert kernel.map_batches(known, window.data, now["batches"], now["row"], now["end"], space, 0, -1) == (now["row"], 0, -1)
    assert into.state[MapState.ENTRIES] == 0
    assert window.batches.table[BatchField.COUNT, 0] == 1
    assert columns[RecordField.OFFSET, 0] == 0

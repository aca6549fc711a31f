"""What a selection chooses: headers never exclude a record that fits, and records decide."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.dump.selection import Selector
from engine.formats import BatchField, Codec, RecordField
from engine.record.builder import NewRecord, build_batch
from engine.record.columns import RecordColumns
from engine.record.patterns import Pattern
from engine.record.reader import ChunkReader
from engine.record.selection import EVERYTHING, FieldPattern, Selection
from tests.support.small_logs import LOG, batch, windows


def key_pattern(text):
    """The pattern of --key-regex."""
    return (FieldPattern(Pattern(text), in_keys=True),)


HEADERS = [(b"h", b"1"), (b"h", None), (b"", b"")]


def chosen(data, selection, *, skip=0, window_size=1 << 20, capacity=100):
    """Offsets that a selection lets through, and the positions of the batch lines."""
    return chosen_of_file(data, Selector(selection, skip), window_size, capacity)


def chosen_of_file(data, selector, window_size=1 << 20, capacity=100):
    """The same of one file of several."""
    offsets, lines = [], []
    reader = ChunkReader(LOG, lambda _: None, literals=selector.selection.literals())
    reader._records = RecordColumns(capacity)
    for window in windows(data, window_size):
        for row, last_row in selector.runs(window):
            for chunk in reader.chunks(window, row, last_row):
                for part in selector.records(chunk, window.base):
                    offsets += part.records.field(RecordField.OFFSET)[part.first : part.end].tolist()
                    positions = part.batches.field(BatchField.POSITION)[part.first_row : part.last_row]
                    lines += [window.base + position for position in positions]
        if selector.is_past(window) or selector.finished:
            break
    return offsets, lines


def shallow(data, selection, skip=0):
    """Base offsets of the batches that a shallow walk shows."""
    selector, bases = Selector(selection, skip), []
    for window in windows(data):
        for row, last_row in selector.runs(window):
            first, end = selector.batches(row, last_row)
            bases += window.batches.field(BatchField.BASE_OFFSET)[first:end].tolist()
    return bases


LOG_DATA = batch(0, 4) + batch(4, 4, codec=Codec.GZIP) + batch(8, 4, magic=1) + batch(12, 4, magic=1, codec=Codec.GZIP)


@pytest.mark.parametrize(("selection", "wanted"), [
    (EVERYTHING, range(16)),
    (Selection(first_offset=3), range(3, 16)), (Selection(end_offset=5), range(5)), (Selection(first_offset=7, end_offset=14), range(7, 14)),
    (Selection(first_offset=5, end_offset=5), []), (Selection(first_offset=100), []),
    (Selection(from_ms=6, to_ms=13), range(6, 13)), (Selection(to_ms=0), []), (Selection(from_ms=15), [15]),
    (Selection(keys=(b"k3", b"k9", b"none")), [3, 9]), (Selection(patterns=key_pattern("^k1[0-4]$")), range(10, 15)),
    (Selection(first_offset=2, to_ms=9, patterns=key_pattern("[357]")), [3, 5, 7]),
    (Selection(limit=3), range(3)), (Selection(limit=0), []), (Selection(first_offset=6, limit=4), range(6, 10)),
    (Selection(producer_id=-1, end_offset=8), range(8)), (Selection(producer_id=7), []), (Selection(transactional=True), []),
])
@pytest.mark.parametrize("window_size", [61, 1 << 20])
def test_records(selection, wanted, window_size):
    assert chosen(LOG_DATA, selection, window_size=window_size)[0] == list(wanted)


def test_the_first_matches_can_be_skipped():
    assert chosen(LOG_DATA, Selection(first_offset=2), skip=9)[0] == list(range(11, 16))
    assert chosen(LOG_DATA, Selection(first_offset=2, limit=2), skip=9)[0] == [11, 12]
    assert shallow(batch(0) + batch(1) + batch(2), EVERYTHING, skip=2) == [2]


PRODUCERS = (
    batch(0, 2, producer_id=1, producer_epoch=0, base_sequence=0, partition_leader_epoch=5)
    + batch(2, 2, producer_id=2, producer_epoch=0, base_sequence=0, transactional=True, partition_leader_epoch=6)
    + batch(4, 2, partition_leader_epoch=-1)
)


@pytest.mark.parametrize(("selection", "wanted"), [
    (Selection(producer_id=1), [0, 1]), (Selection(producer_id=2), [2, 3]), (Selection(producer_id=-1), [4, 5]),
    (Selection(transactional=True), [2, 3]), (Selection(leader_epoch=6), [2, 3]), (Selection(leader_epoch=-1), [4, 5]),
    (Selection(producer_id=1, leader_epoch=6), []),
])
def test_what_batches_say(selection, wanted):
    assert chosen(PRODUCERS, selection)[0] == wanted
    assert shallow(PRODUCERS, selection) == wanted[::2]


@pytest.mark.parametrize(("headers", "wanted"), [
    (((b"h", None),), [1]), (((b"h", b"1"),), [1]), (((b"h", b"2"),), []), (((b"", None), (b"h", b"1")), [1]), (((b"g", None),), []),
])
def test_headers(headers, wanted):
    data = build_batch([NewRecord(0, 0, None, b""), NewRecord(1, 1, None, b"", HEADERS)])
    assert chosen(data, Selection(headers=headers))[0] == wanted


def test_a_null_key_is_no_key():
    data = build_batch([NewRecord(0, 0, None, b""), NewRecord(1, 1, b"", b"")])
    assert chosen(data, Selection(keys=(b"",)))[0] == [1]
    assert chosen(data, Selection(patterns=key_pattern("")))[0] == [1]


def test_a_batch_line_stands_once_before_its_first_match():
    size = len(batch(0, 4))
    data = batch(0, 4) + batch(4, 4) + batch(8, 4)
    for capacity in (1, 2, 100):  # a batch may come in several chunks
        offsets, lines = chosen(data, Selection(patterns=key_pattern("k[02579]")), capacity=capacity)
        assert offsets == [0, 2, 5, 7, 9]
        assert lines == [0, size, 2 * size]
    assert chosen(data, Selection(keys=(b"k10",)))[1] == [2 * size]


def test_one_batch_behind_the_end_is_not_believed():
    """Its base offset is not under the checksum."""
    stray = (500).to_bytes(8, "big") + batch(2)[8:]
    data = batch(0) + batch(1) + stray + batch(3) + batch(4)
    assert chosen(data, Selection(end_offset=5), window_size=80)[0] == [0, 1, 3, 4]


def test_the_walk_ends_behind_the_selection():
    selector = Selector(Selection(end_offset=2))
    read = 0
    for window in windows(b"".join(batch(number) for number in range(50)), 80):
        read += window.rows
        if selector.is_past(window):
            break
    assert read == 5, "three batches in a row that begin behind it"


def test_the_next_file_begins_anew():
    selector = Selector(Selection(limit=3))
    for expected in ([0, 1], [0]):
        selector.next_file()
        shown = [row for window in windows(batch(0) + batch(1)) for run in selector.runs(window)
                 for row in range(*selector.batches(*run))]
        assert shown == expected
    assert selector.finished


def test_a_batch_line_at_the_same_position_of_the_next_file_stands_there_too():
    selector = Selector(Selection(keys=(b"k0", b"k7")))
    for number in (0, 7):
        selector.next_file()
        assert chosen_of_file(batch(number), selector) == ([number], [0])


def test_batches_behind_the_selection_are_counted_in_each_file_anew():
    """Two at the end of the first and a single one in the next, which is not believed, are no three in a row."""
    selector = Selector(Selection(end_offset=5))
    stray = (500).to_bytes(8, "big") + batch(2)[8:]
    files = [batch(0) + batch(7) + batch(8), stray + batch(3)]
    for data, wanted in zip(files, ([0], [3]), strict=True):
        selector.next_file()
        assert chosen_of_file(data, selector, window_size=80)[0] == wanted


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4), st.sampled_from([(2, Codec.NONE), (2, Codec.GZIP), (1, Codec.NONE), (1, Codec.GZIP)])),
                min_size=1, max_size=6), st.integers(-1, 40), st.integers(-1, 40), st.integers(61, 500))
def test_headers_never_exclude_what_fits(spans, first, size, window_size):
    data, offset, every = [], 0, []
    for left_out, count, (magic, codec) in spans:
        offset += left_out
        data.append(batch(offset, count, magic=magic, codec=codec))
        every += range(offset, offset + count)
        offset += count
    log, end = b"".join(data), first + max(0, size)
    wanted = [number for number in every if first <= number < end]
    assert chosen(log, Selection(first_offset=first, end_offset=end), window_size=window_size)[0] == wanted
    assert chosen(log, Selection(from_ms=first, to_ms=end), window_size=window_size)[0] == wanted


@pytest.mark.parametrize(("change", "options"), [
    ({}, []), ({"first_offset": 1, "end_offset": 5, "limit": 3, "tail": 3, "count": True}, []), ({"from_ms": 0}, ["--time"]),
    ({"to_ms": 5}, ["--time"]), ({"keys": (b"",)}, ["--key"]), ({"patterns": key_pattern("x")}, ["--key-regex"]),
    ({"headers": ((b"h", None),)}, ["--header"]), ({"producer_id": 4}, ["--producer-id"]),
    ({"leader_epoch": 0, "transactional": True}, ["--partition-leader-epoch", "--transactional-only"]),
])
def test_what_a_log_of_0_7_does_not_have(change, options):
    assert EVERYTHING._replace(**change).unknown_to_07() == options


def test_every_condition_is_either_of_offsets_or_not():
    """A new field must be thought of here, or else logs of 0.7 would pass by it."""
    assert set(Selection._fields) == {
        "first_offset", "end_offset", "limit", "tail", "count", "from_ms", "to_ms", "keys", "patterns", "headers", "producer_id",
        "leader_epoch", "transactional",
    }


def test_entries_of_0_7():
    selector = Selector(Selection(first_offset=10, end_offset=40, limit=2), skip=1)
    assert [selector.entry(offset) for offset in (0, 10, 20)] == [False, False, True]
    assert not selector.is_past_entry(30)
    assert selector.entry(30)
    assert selector.is_past_entry(35), "the limit is reached"
    assert Selector(Selection(end_offset=40)).is_past_entry(40)
    assert not Selector(Selection()).is_past_entry(2**63 - 1)

"""The walk over batches, and the search for sound ones behind damage."""

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.background import Background
from engine.errors import FileChangedWhileReading
from engine.formats import BATCH_HEADER, BatchField
from engine.kernels.scan import find_candidate
from engine.record import windows
from engine.record.builder import NewRecord, build_batch
from engine.record.columns import BatchColumns
from engine.record.windows import LogWalk, Stop, only_zeros
from tests.support.memory_files import MemoryFile, MemoryFiles


def batch(number, codec=0):
    records = [NewRecord(10 * number + i, 1000 + i, b"k%d" % i, b"v" * (i * 7 + number)) for i in range(1 + number % 5)]
    return build_batch(records, base_offset=10 * number, codec=codec)


_CHUNK = 1 << 20  # that are searched at a time
BATCHES = [batch(number, number % 5) for number in range(12)]
LOG = b"".join(BATCHES)
STARTS = [sum(map(len, BATCHES[:i])) for i in range(len(BATCHES))]


def walk(data, **options):
    """(positions of batches with their validity, why the walk ended, where)."""
    with MemoryFiles({"x.log": data}).open("x.log") as file:
        log = LogWalk(file, **options)
        return positions(log), log.stop, log.position


def positions(log):
    found = []
    for window in log:
        table = window.batches.table
        found += [(window.base + table[BatchField.POSITION, r], bool(table[BatchField.VALID, r])) for r in range(window.rows)]
    return found


@pytest.mark.parametrize("window_size", [1, 18, 61, 100, 1000, 1 << 20])
def test_any_window_finds_every_batch(window_size):
    assert walk(LOG, window_size=window_size) == ([(at, True) for at in STARTS], Stop.END, len(LOG))


@pytest.mark.parametrize("options", [
    {"window_size": 1}, {"window_size": 300}, {"window_size": 1 << 20}, {"max_batch_bytes": 150}, {"batches": 2}, {"batches": 2, "window_size": 600},
])  # fmt: skip
def test_a_window_stays_valid_while_the_next_one_is_read(options):
    options = {**options, **({"batches": BatchColumns(options["batches"])} if "batches" in options else {})}

    def content(window):
        return [tuple(window.batches.row(row).items()) for row in range(window.rows)], bytes(window.data), window.base, window.partial

    with MemoryFiles({"x.log": LOG}).open("x.log") as file:
        walk, count, kept = LogWalk(file, alternates=True, **options), 0, None
        for window in walk:
            count += window.rows
            assert kept is None or content(kept[0]) == kept[1]
            kept = window, content(window)
        assert (count, walk.stop, walk.position) == (len(BATCHES), Stop.END, len(LOG))
        walk = LogWalk(file, alternates=True, **options)
        with Background("read-ahead") as thread:
            assert positions(thread.ahead(walk)) == [(at, True) for at in STARTS]


def test_an_error_in_a_window_that_is_read_ahead_comes_after_the_windows_before_it():
    class Shorter(MemoryFile):
        def read_into(self, buffer, position):
            return super().read_into(buffer, position) if position < STARTS[6] else 0

    bases = []
    with pytest.raises(FileChangedWhileReading), Background("read-ahead") as thread:
        bases.extend(window.base for window in thread.ahead(LogWalk(Shorter("x.log", LOG), window_size=600, alternates=True)))
    assert bases[0] == 0
    assert not thread.is_busy


@pytest.mark.parametrize("max_batch_bytes", [1, 80, 150])
def test_batches_above_the_limit_are_checked_all_the_same(max_batch_bytes):
    assert walk(LOG, max_batch_bytes=max_batch_bytes)[0] == [(at, True) for at in STARTS]
    damaged = LOG[:-1] + bytes([LOG[-1] ^ 1])
    assert walk(damaged, max_batch_bytes=max_batch_bytes)[0] == [(at, at != STARTS[-1]) for at in STARTS]


@given(st.integers(0, len(LOG)))
def test_a_cut_log_is_torn_unless_cut_between_batches(size):
    found, stop, position = walk(LOG[:size])
    whole = [start for start, data in zip(STARTS, BATCHES, strict=True) if start + len(data) <= size]
    assert found == [(at, True) for at in whole]
    assert position == (whole[-1] + len(BATCHES[len(whole) - 1]) if whole else 0)
    assert stop == (Stop.END if position == size else Stop.TORN)


def salvage(data, **options):
    """Positions of the sound batches that a walk with searches finds, and how often it searched."""
    with MemoryFiles({"x.log": data}).open("x.log") as file:
        log, found, searches = LogWalk(file, **options), [], 0
        while True:
            found += [at for at, valid in positions(log) if valid]
            if log.stop == Stop.END:
                return found, searches
            searches += 1
            assert searches <= len(data)
            if log.resynchronise() is None:
                return found, searches


@given(st.integers(0, len(LOG) - 1), st.binary(min_size=1, max_size=40))
def test_what_is_not_damaged_is_found(at, garbage):
    data = LOG[:at] + garbage + LOG[at + len(garbage) :]
    found, _ = salvage(data)
    for start, sound in zip(STARTS, BATCHES, strict=True):
        if data[start : start + len(sound)] == sound:
            assert start in found


@pytest.mark.parametrize("change", [-7, -1, 1, 7, 60, 5000, 2**30])
def test_a_wrong_size_field_costs_one_batch(change):
    at = STARTS[4]
    size = (int.from_bytes(LOG[at + 8 : at + 12], "big") + change).to_bytes(4, "big")
    data = LOG[: at + 8] + size + LOG[at + 12 :]
    rest = [start for start in STARTS if start != at]
    assert salvage(data)[0] == rest
    assert salvage(data, max_batch_bytes=max(map(len, BATCHES)))[0] == rest  # above it a batch is not read as a whole


def test_zeros_are_skipped_without_a_look_at_each_place(monkeypatch):
    """And what follows them is found, wherever it begins in a piece."""
    looked_at = []
    monkeypatch.setattr(windows, "find_candidate", lambda *span: looked_at.append(span[1:3]) or find_candidate(*span))
    for size in (_CHUNK, 3 * _CHUNK, 5 * _CHUNK - 7, 4 * _CHUNK + 100):
        looked_at.clear()
        found, _ = salvage(BATCHES[0] + bytes(size) + BATCHES[1])
        assert found == [0, len(BATCHES[0]) + size]
        assert sum(behind - at for at, behind in looked_at) <= 2 * _CHUNK


@pytest.mark.parametrize("size", [0, 1, _CHUNK - 1, _CHUNK, _CHUNK + 1, 2 * _CHUNK + 5])
def test_zeros(size):
    data = b"x" + bytes(size)
    file = MemoryFiles({"x.log": data}).open("x.log")
    assert only_zeros(file, 1, len(data))
    assert not only_zeros(file, 0, len(data))
    for at in {1, size // 2, size} - {0}:
        if at <= size:
            holed = MemoryFiles({"x.log": data[:at] + b"\1" + data[at + 1 :]}).open("x.log")
            assert not only_zeros(holed, 1, len(data))
            assert only_zeros(holed, at + 1, len(data))


def test_garbage_and_holes():
    rng = random.Random(7)
    garbage = rng.randbytes(3_000_000)
    found, searches = salvage(BATCHES[0] + garbage + BATCHES[1] + bytes(100_000) + BATCHES[2] + garbage[:50])
    at = len(BATCHES[0]) + len(garbage)
    assert found == [0, at, at + len(BATCHES[1]) + 100_000]
    assert searches == 3


NUMBERS = {
    "shorts": struct.pack(">240h", *(number % 60 for number in range(240))),
    "ints": struct.pack(">120i", *range(120)),
    "longs": struct.pack("<60q", *range(60)),
    "doubles": struct.pack(">60d", *(number % 4 / 2 for number in range(60))),
    "pixels": bytes(number % 7 == 0 for number in range(480)),
}


@pytest.mark.parametrize("records", [30, 400])
@pytest.mark.parametrize("numbers", NUMBERS)
def test_numbers_in_payloads_do_not_end_a_search(numbers, records):
    """They look like headers of old formats, by the thousand; by their keys and values they are not."""
    values = [NUMBERS[numbers][at % 7 :] + bytes(at % 7) for at in range(records)]
    parts = [
        build_batch([NewRecord(first + at, 5, None, value) for at, value in enumerate(values)], base_offset=first)
        for first in range(0, 40 * records, records)
    ]
    data, broken = b"".join(parts), len(parts[0])
    data = data[: broken + 8] + (7).to_bytes(4, "big") + data[broken + 12 :]
    starts = [sum(map(len, parts[:number])) for number in range(len(parts))]
    assert salvage(data)[0] == [start for start in starts if start != broken]


def test_a_search_gives_up_where_headers_only_look_right(monkeypatch):
    """A file full of headers that claim the rest of it would otherwise be summed over and over."""
    monkeypatch.setattr(windows, "_LEAST_SEARCH", 0)
    head = BATCH_HEADER.pack(BATCH_HEADER.read(BATCHES[0])._replace(batch_length=1 << 20, crc=1))
    data = b"\0" * 18 + (head + BATCHES[0][len(head) : len(head) + 7]) * 40_000
    assert salvage(data)[0] == []
    with MemoryFiles({"x.log": data}).open("x.log") as file:
        log = LogWalk(file)
        assert not list(log)
        assert log.resynchronise() is None
        assert log.gave_up is not None
        assert 0 < log.gave_up < len(data) // 10


def test_a_search_that_finds_nothing_has_not_given_up():
    with MemoryFiles({"x.log": b"x" * 100_000}).open("x.log") as file:
        log = LogWalk(file)
        assert not list(log)
        assert (log.resynchronise(), log.gave_up) == (None, None)


def test_a_file_that_shrinks():
    files = MemoryFiles({"x.log": LOG})
    with files.open("x.log") as file:
        log = LogWalk(file, end=len(LOG) + 1)
        with pytest.raises(FileChangedWhileReading):
            positions(log)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1])
def test_messages_of_old_formats_are_found_again(magic, codec):
    sets = [
        build_batch([NewRecord(2 * i, 5, b"k", b"v" * 30), NewRecord(2 * i + 1, 6, b"k", b"v")], base_offset=2 * i, magic=magic,
                    codec=codec)
        for i in range(6)
    ]
    starts = [at for at, _ in walk(b"".join(sets))[0]]
    damaged = b"".join(sets)
    damaged = damaged[: starts[1] + 8] + b"\xff" * 4 + damaged[starts[1] + 12 :]
    assert salvage(damaged)[0] == [at for at in starts if at != starts[1]]

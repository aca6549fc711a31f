"""What need not be read: never anything that could fit, whatever the indexes say."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.discovery.names import file_name, parse_file_name
from engine.dump.selection import may_hold_matches, start_position
from engine.record.selection import Selection
from tests.support.memory_files import MemoryFiles
from tests.support.small_logs import batch

BASE = 100
SIZES = [len(batch(BASE + 2 * number, 2)) for number in range(6)]
STARTS = [sum(SIZES[:number]) for number in range(6)]
DATA = b"".join(batch(BASE + 2 * number, 2) for number in range(6))  # offsets and times 100 … 111
STEM = "data/t-0/00000000000000000100"
LOG = STEM + ".log"


def index(*entries):
    """(absolute offset, position) → bytes of an offset index."""
    return b"".join(struct.pack(">ii", offset - BASE, position) for offset, position in entries)


def times(*entries):
    """(timestamp, absolute offset) → bytes of a time index."""
    return b"".join(struct.pack(">qi", timestamp, offset - BASE) for timestamp, offset in entries)


FILES = {
    LOG: DATA,
    STEM + ".index": index((103, STARTS[1]), (107, STARTS[3]), (111, STARTS[5])),
    STEM + ".timeindex": times((103, 103), (107, 107), (111, 111)),
}


def start(selection, path=LOG, **changes):
    contents = {**FILES, **{STEM + "." + name: data for name, data in changes.items() if data is not None}}
    for name, data in changes.items():
        if data is None:
            del contents[STEM + "." + name]
    files = MemoryFiles(contents)
    with files.open(path) as log:
        return start_position(files, path, parse_file_name(file_name(path)), log, selection)


@pytest.mark.parametrize(("offset", "number"), [(0, 0), (100, 0), (102, 0), (103, 1), (106, 1), (107, 3), (110, 3), (111, 5), (999, 5)])
def test_a_walk_begins_at_the_nearest_entry_in_front(offset, number):
    assert start(Selection(first_offset=offset)) == STARTS[number]


@pytest.mark.parametrize(("from_ms", "number"), [(0, 0), (103, 0), (104, 1), (107, 1), (108, 3), (112, 5), (10**9, 5)])
def test_times_lead_through_both_indexes(from_ms, number):
    """All up to the entry's offset is earlier than the time asked for."""
    assert start(Selection(from_ms=from_ms)) == STARTS[number]


def test_the_later_one_of_offset_and_time_counts():
    assert start(Selection(first_offset=107, from_ms=104)) == STARTS[3]
    assert start(Selection(first_offset=103, from_ms=108)) == STARTS[3]


@pytest.mark.parametrize("damaged", [
    None, b"", index((103, 7)), index((103, -5)), index((103, 10**6)), index((103, STARTS[5])), bytes(80), b"\xff" * 24,
])
def test_an_index_that_leads_nowhere_is_not_believed(damaged):
    """To no batch, to one behind what is wanted, or it is not there."""
    assert start(Selection(first_offset=105), index=damaged) == 0


@pytest.mark.parametrize("damaged", [None, b""])
def test_without_a_time_index_all_is_read(damaged):
    assert start(Selection(from_ms=108), timeindex=damaged) == 0


@given(st.binary(max_size=40), st.binary(max_size=40), st.integers(100, 112))
def test_whatever_the_indexes_hold_nothing_that_fits_lies_in_front(offsets, time_entries, wanted):
    """By the offset index; a time index that lies can hide records, as from Kafka."""
    position = start(Selection(first_offset=wanted), index=offsets, timeindex=time_entries)
    assert position in STARTS
    assert BASE + 2 * STARTS.index(position) <= wanted


@pytest.mark.parametrize("path", [
    "data/t-0/00000000000000000100.log.deleted", "data/t-0/00000000000000000100-0000000003.checkpoint", "data/t-0/abc.log",
])
def test_other_files_are_read_from_their_beginning(path):
    files = MemoryFiles({**FILES, path: DATA})
    with files.open(path) as log:
        assert start_position(files, path, parse_file_name(file_name(path)), log, Selection(first_offset=107)) == 0


SEGMENTS = {f"data/t-0/{base:020d}{suffix}": b"" for base in (0, 100, 250) for suffix in (".log", ".index", ".kafka")}
SEGMENTS["data/t-0/00000000000000000050.log.deleted"] = b""


@pytest.mark.parametrize("kind", ["log", "kafka"])
@pytest.mark.parametrize(("first", "end", "wanted"), [
    (0, 1, [0]), (0, 100, [0]), (0, 101, [0, 100]), (99, 10**6, [0, 100, 250]), (100, 10**6, [100, 250]), (249, 250, [100]),
    (250, 251, [250]), (10**6, 2 * 10**6, [250]), (-(2**63), 0, []), (-(2**63), 2**63 - 1, [0, 100, 250]),
])
def test_segments_outside_a_selection_are_not_opened(kind, first, end, wanted):
    files, selection = MemoryFiles(SEGMENTS), Selection(first_offset=first, end_offset=end)
    held = [base for base in (0, 100, 250)
            if may_hold_matches(files, f"data/t-0/{base:020d}.{kind}", parse_file_name(f"{base:020d}.{kind}"), selection)]
    assert held == wanted


def test_segments_of_one_suffix_follow_one_another():
    """A .log.deleted says nothing of where the .log beside it ends."""
    files = MemoryFiles(SEGMENTS)
    assert may_hold_matches(files, "data/t-0/00000000000000000000.log", parse_file_name("00000000000000000000.log"), Selection(first_offset=60))
    name = "00000000000000000050.log.deleted"
    assert may_hold_matches(files, f"data/t-0/{name}", parse_file_name(name), Selection(first_offset=10**6))


@pytest.mark.parametrize("name", ["abc.log", "00000000000000000100-0000000003.checkpoint", "bootstrap.checkpoint"])
def test_what_has_no_base_offset_may_hold_anything(name):
    assert may_hold_matches(MemoryFiles(SEGMENTS), f"data/t-0/{name}", parse_file_name(name), Selection(first_offset=5, end_offset=6))


def test_a_directory_that_can_not_be_listed_excludes_nothing():
    assert may_hold_matches(MemoryFiles({}), "gone/00000000000000000000.log", parse_file_name("00000000000000000000.log"), Selection(first_offset=5))

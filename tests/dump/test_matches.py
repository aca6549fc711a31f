"""--count: how many records and batches fit, and what is wrong on the way."""

from __future__ import annotations

import gzip
import struct
import zlib

import pytest

from engine.discovery.names import file_name, parse_file_name
from engine.dump.renderer import DumpOptions
from engine.dump.reports import DumpReports
from engine.dump.run import Tally, tally
from engine.formats import Codec
from engine.record.selection import Selection
from tests.support.memory_files import WORKING_DIRECTORY, MemoryFiles
from tests.support.small_logs import LOG, batch, with_wrong_checksum

DATA = batch(0, 4) + batch(4, 4, codec=Codec.GZIP) + batch(8, 4, magic=1, codec=Codec.GZIP) + batch(12)


def count(data, selection=None, path=LOG, *, deep=True, **options):
    """(records, batches, codes of findings, Kafka's lines)."""
    findings, reports = [], DumpReports()
    files, name = MemoryFiles({path: data}), parse_file_name(file_name(path))
    asked = DumpOptions(deep=deep, **options)
    counted = tally(files, path, name, asked, selection or Selection(count=True), findings.append, reports)
    return counted.record_count, counted.batch_count, [finding.code for finding in findings], list(reports.lines())


@pytest.mark.parametrize(("selection", "records", "batches"), [
    (Selection(), 13, 4), (Selection(first_offset=3, end_offset=9), 6, 3), (Selection(keys=(b"k1", b"k9")), 2, 2),
    (Selection(from_ms=100), 0, 0), (Selection(producer_id=5), 0, 0), (Selection(first_offset=4, end_offset=8), 4, 1),
])
def test_what_fits_is_counted(selection, records, batches):
    assert count(DATA, selection) == (records, batches, [], [])


def test_limits_do_not_count():
    """They are what --tail counts for."""
    assert count(DATA, Selection(limit=2))[:2] == (13, 4)
    assert count(DATA, Selection(tail=2))[:2] == (13, 4)


def test_shallow_counts_batches_only():
    assert count(DATA, deep=False)[:2] == (0, 4)


def test_damage_and_lost_offsets_are_told():
    records, batches, codes, lines = count(batch(0) + with_wrong_checksum(batch(1)) + batch(2) + batch(9) + b"torn" * 9)
    assert (records, batches) == (4, 4)
    assert sorted(codes) == ["crc-mismatch", "offset-gap", "torn-tail"]
    assert lines[1:] == ["  2 is followed by 9"]


def test_lost_offsets_are_told_where_they_were_asked_for():
    data = batch(0) + batch(5) + batch(9)
    assert count(data, Selection(first_offset=7))[2:] == (["offset-gap"], [f"Non-consecutive offsets in {WORKING_DIRECTORY}/{LOG}", "  5 is followed by 9"])
    assert count(data, Selection(first_offset=9))[2:] == ([], [])


def test_what_was_counted_in_front_of_an_error_of_reading_is_told():
    from engine.errors import FileChangedWhileReading

    findings, reports = [], DumpReports()
    files = MemoryFiles({LOG: batch(0) + batch(5) + batch(6) + batch(7)}, shrink=(1, 200))
    options = DumpOptions(deep=True, max_batch_bytes=200)  # what is read at a time, too
    with pytest.raises(FileChangedWhileReading):
        tally(files, LOG, parse_file_name(file_name(LOG)), options, Selection(), findings.append, reports)
    assert [finding.code for finding in findings] == ["offset-gap"]
    assert list(reports.lines()) == [f"Non-consecutive offsets in {WORKING_DIRECTORY}/{LOG}", "  0 is followed by 5"]


def entry(payload, attributes=0, checksum=None):
    checksum = zlib.crc32(payload) if checksum is None else checksum
    return struct.pack(">ibBI", 6 + len(payload), 1, attributes, checksum) + payload


INSIDE = gzip.compress(entry(b"x") + entry(b"y") + entry(b"z"), mtime=0)


@pytest.mark.parametrize(("data", "records", "batches", "codes"), [
    (entry(b"a") + entry(b"b"), 2, 2, []),
    (entry(b"a") + entry(INSIDE, 1), 4, 2, []),
    (entry(b"a", checksum=1), 1, 1, ["crc-mismatch"]),
    (entry(INSIDE, 1, checksum=1), 0, 1, ["crc-mismatch"]),
    (entry(b"no gzip", 1), 0, 1, ["decompression-failed"]),
    (entry(b"a") + b"\0\0\0\x09", 1, 1, ["torn-tail"]),
    (entry(b"a") + struct.pack(">ib", 9, 7) + bytes(8), 1, 2, ["unknown-magic"]),
    (b"", 0, 0, []),
], ids=["plain", "set", "bad", "bad set", "no gzip", "torn", "unknown", "empty"])
def test_a_log_of_0_7(data, records, batches, codes):
    assert count(data, path="data/t-0/00000000000000000000.kafka") == (records, batches, codes, [])


def test_a_log_of_0_7_by_offset():
    data = entry(b"a") + entry(INSIDE, 1) + entry(b"b")
    size = len(entry(b"a"))
    path = "data/t-0/00000000000000001000.kafka"
    assert count(data, Selection(first_offset=1001), path)[:2] == (4, 2)
    assert count(data, Selection(end_offset=1000 + size), path)[:2] == (1, 1)
    assert count(data, Selection(first_offset=1000 + size, end_offset=1001 + size), path)[:2] == (3, 1)


def test_a_tally_shows_nothing():
    counted = Tally()
    counted.trailing(17)
    assert (counted.record_count, counted.batch_count) == (0, 0)

"""The text of the reports. tests/cli compares them with those of the real tool."""

from __future__ import annotations

from engine.dump import reports
from engine.dump.reports import DumpReports


def test_nothing_wrong_is_no_line():
    assert list(DumpReports().lines()) == []


def test_the_five_reports_in_their_order():
    said = DumpReports()
    said.gap("/a.log", 3, 7)
    said.not_found("/a.timeindex", 5, -1)
    said.out_of_order("/a.timeindex", 10, 12)
    said.timestamp_mismatch("/a.timeindex", 10, 11)
    said.index_mismatch("/a.index", 4, 5)
    assert list(said.lines()) == [
        "Mismatches in :/a.index", "  Index offset: 4, log offset: 5",
        "Found timestamp mismatch in :/a.timeindex", "  Index timestamp: 10, log timestamp: 11",
        "Found out of order timestamp in :/a.timeindex", "  Index timestamp: 10, Previously indexed timestamp: 12",
        "The following indexed offsets are not found in :/a.timeindex", "Indexed offset: 5, found log offset: -1",
        "Non-consecutive offsets in /a.log", "  3 is followed by 7",
    ]


def test_mismatches_go_down_and_gaps_go_up():
    said = DumpReports()
    for offset in (5, 9, 7):
        said.index_mismatch("/a.index", offset, 0)
        said.gap("/a.log", offset, 99)
    lines = [line.strip() for line in said.lines()]
    assert [line.split()[2] for line in lines if line.startswith("Index offset")] == ["9,", "7,", "5,"]
    assert [line.split()[0] for line in lines if "followed" in line] == ["5", "7", "9"]


def test_all_that_is_said_about_the_same_offset_is_kept():
    said = DumpReports()
    for value in (1, 2):
        said.index_mismatch("/a.index", 4, value)
        said.gap("/a.log", 4, value)
        said.timestamp_mismatch("/a.timeindex", 4, value)
    lines = [line.strip() for line in said.lines()]
    assert lines == [
        "Mismatches in :/a.index", "Index offset: 4, log offset: 2", "Index offset: 4, log offset: 1",
        "Found timestamp mismatch in :/a.timeindex", "Index timestamp: 4, log timestamp: 1", "Index timestamp: 4, log timestamp: 2",
        "Non-consecutive offsets in /a.log", "4 is followed by 1", "4 is followed by 2",
    ]


def test_lines_are_kept_up_to_a_limit(monkeypatch):
    monkeypatch.setattr(reports, "_LIMIT", 3)
    said = DumpReports()
    for number in range(10):
        said.gap("/a.log", number, 99)
        said.not_found("/a.timeindex", number, -1)
        said.index_mismatch("/a.index", number, 0)
        said.index_mismatch("/b.index", number, 0)
    lines = list(said.lines())
    assert len(lines) == 4 * (1 + 3 + 1)
    assert lines.count("  7 more") == 4

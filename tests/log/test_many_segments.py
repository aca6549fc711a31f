"""A partition of very many segments: what is done for each of them must not look at all the others."""

from __future__ import annotations

import pytest

from engine.checkpoint.producer_snapshot import SnapshotFiles
from engine.config.topic import LogConfig
from engine.files import Files
from engine.log.cleaner.compaction import CompactionOptions, compact
from engine.log.report import Action, Report
from engine.log.segment.log_segments import LogSegments
from tests.support.keyed_logs import write_keyed_log
from tests.support.logs import open_log

NOW = 1_700_000_100_000
SETTINGS = {"cleanup.policy": "compact", "segment.bytes": "700"}


class Listing(Files):
    """Counts how often a directory is listed."""

    def __init__(self) -> None:
        super().__init__()
        self.listed = 0

    def plain(self, path):
        self.listed += 1
        return super().plain(path)

    def list(self, path):
        self.listed += 1
        return super().list(path)


def opened(files, directory, **how):
    settings = {"now": NOW, "clean_shutdown": False} | how
    return open_log(files, str(directory), LogConfig.of(SETTINGS), **settings)


@pytest.fixture
def work(tmp_path, monkeypatch):
    """Recover and compact a partition of so many batches → (segments, listings, segments asked for aborted transactions)."""

    def do(batches):
        directory = tmp_path / f"t-{batches}"
        write_keyed_log(directory, 3, now=NOW, batches=batches, segment_bytes=200)
        files = Listing()
        log = opened(files, directory)
        segments = len(log.segments)
        log.update_high_watermark(log.log_end_offset)
        looked = 0
        values, of_log = LogSegments.values, log.segments

        def counted(self, *bounds):
            nonlocal looked
            found = values(self, *bounds)
            looked += len(found) if self is of_log else 0
            return found

        monkeypatch.setattr(LogSegments, "values", counted)
        compact(log, CompactionOptions(force=True, secret=(1, 2)), lambda _: None, lambda _: None)
        monkeypatch.undo()
        log.close()
        return segments, files.listed, looked

    return do


def test_twice_the_segments_are_twice_the_work(work):
    few, listed, looked = work(150)
    many, listed_many, looked_many = work(600)
    assert many > 3 * few > 100
    assert listed_many == listed, "the directory is not listed for each segment"
    assert looked_many < 5 * looked * many / (4 * few), "all segments are not gone through for each"


def test_snapshots_in_order():
    snapshots = SnapshotFiles()
    for offset in (30, 10, 20, 10):
        snapshots.add(offset, f"d/{offset}")
    assert (list(snapshots), snapshots.last) == ([10, 20, 30], 30)
    assert snapshots.outside(11, 20) == [10, 30]
    assert snapshots.outside(10, 30) == []
    assert snapshots.outside(25, 22) == [10, 20, 30]
    assert snapshots.pop(20) == "d/20"
    assert snapshots.pop(20) is None
    assert (list(snapshots), snapshots.paths) == ([10, 30], {"d/10", "d/30"})
    snapshots.pop(10)
    snapshots.pop(30)
    assert (list(snapshots), snapshots.last) == ([], None)


def test_what_is_dropped_from_a_report_is_what_was_noted_before():
    report = Report("d", "recover")
    report.add(Action.RECOVERED, "a", "first")
    report.add(Action.KEPT, "a", "stays")
    report.add(Action.RECOVERED, "b", "stays")
    report.drop(Action.RECOVERED, "a")
    report.add(Action.RECOVERED, "a", "second")
    assert [event.reason for event in report.events] == ["stays", "stays", "second"]
    report.drop(Action.RECOVERED, "a")
    report.drop(Action.RECOVERED, "a")
    assert [event.reason for event in report.find(Action.RECOVERED)] == ["stays"]

"""When a log is opened in memory first: not where opening changes nothing, for that costs as much again."""

from __future__ import annotations

import shutil

import pytest

from engine.config.server import Settings
from engine.errors import OutOfMemory
from engine.files import Files, nameless_file
from engine.log.logdir.log_dirs import find_log_dirs
from engine.log.logdir.log_manager import LogManager
from engine.log.logdir.startup import survey
from engine.log.operations import operation
from engine.log.operations import recover as recovering
from engine.log.operations.operation import operate
from engine.log.operations.recover import RecoverOptions
from engine.log.session import OpenOptions
from engine.overlay import OverlayFiles, tree
from tests.support.operations import doing

NOW = 1_700_000_000_000


@pytest.fixture
def partition(own_corpus, tmp_path):
    directory = tmp_path / "d0" / "u-rolls-0"
    shutil.copytree(own_corpus / "kafka-4.3.1" / "logs" / "unclean" / "d0" / "u-rolls-0", directory)
    rehearsed(directory, clean_start=False)  # recovered, and closed as a broker closes it
    return directory


def rehearsed(directory, *, clean_start, monkeypatch=None):
    """How often the log is opened in memory."""
    overlays = []
    if monkeypatch is not None:
        monkeypatch.setattr(operation, "OverlayFiles", lambda *words: overlays.append(OverlayFiles(*words)) or overlays[-1])
    files = Files()
    manager = LogManager(lambda _: files, survey(files, find_log_dirs(files, [str(directory)])), Settings(), NOW)
    [report] = operate(manager, OpenOptions(clean_start=clean_start), doing("look", for_snapshots=False))
    assert report.failure is None
    return len(overlays)


def test_a_log_that_opens_without_a_change_is_opened_once(partition, monkeypatch):
    assert rehearsed(partition, clean_start=True, monkeypatch=monkeypatch) == 0


def test_a_log_without_memory_for_it_does_not_end_the_others(partition):
    other = partition.parent / "b-0"
    shutil.copytree(partition, other)
    files, seen = Files(), []
    manager = LogManager(lambda _: files, survey(files, find_log_dirs(files, [str(partition), str(other)])), Settings(), NOW)

    def work(log):
        seen.append(log.directory)
        if len(seen) == 1:
            raise MemoryError

    one, other = (report.failure for report in operate(manager, OpenOptions(clean_start=True), doing("look", work)))
    assert len(set(seen)) == 2
    assert (type(one), one.path, other) == (OutOfMemory, seen[0], None)


def test_a_log_that_is_recovered_is_opened_in_memory_first(partition, monkeypatch):
    assert rehearsed(partition, clean_start=False, monkeypatch=monkeypatch) == 1


def test_a_log_that_lacks_an_index_is_opened_in_memory_first(partition, monkeypatch):
    min(partition.glob("*.index")).unlink()
    assert rehearsed(partition, clean_start=True, monkeypatch=monkeypatch) == 1


def test_what_is_tried_in_memory_goes_to_a_file_once_it_is_much(partition, monkeypatch):
    """A producer snapshot that is made anew may be as large as the producers in memory."""
    spilled = []
    monkeypatch.setattr(tree, "WORTH_IT", 1)
    monkeypatch.setattr(tree, "IN_MEMORY", 0)
    monkeypatch.setattr(operation, "nameless_file", lambda: spilled.append(nameless_file()) or spilled[-1])
    for path in partition.glob("*index"):
        path.unlink()
    assert rehearsed(partition, clean_start=True, monkeypatch=monkeypatch) == 1
    [file] = spilled
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.size()


class Listed(Files):
    """Notes how often directories are listed."""

    def __init__(self):
        self.listings = []

    def plain(self, directory):
        self.listings.append(directory)
        return super().plain(directory)

    def list(self, directory):
        self.listings.append(directory)
        return super().list(directory)

    def special(self, directory):
        self.listings.append(directory)
        return super().special(directory)


@pytest.mark.parametrize("seam", [lambda disk: disk, lambda disk: OverlayFiles(disk, NOW)], ids=["disk", "dry-run"])
def test_a_directory_is_listed_a_few_times_only(partition, seam):
    """There may be thousands: what proves a lost end, what is in it, what is no plain file, which directories have names of
    files, at the end which names are new."""
    disk = Listed()
    files = seam(disk)
    manager = LogManager(lambda _: files, survey(files, find_log_dirs(files, [str(partition)])), Settings(), NOW)
    disk.listings.clear()
    [report] = operate(manager, OpenOptions(clean_start=True), doing("roll", lambda log: log.roll(), for_snapshots=False))
    assert (report.failure, disk.listings) == (None, [str(partition)] * 4)


@pytest.mark.parametrize(("clean_start", "times"), [(True, 5), (False, 7)])
def test_recover_lists_a_directory_a_few_times_only(partition, clean_start, times):
    """What a broker would trip over, what is in it, what is no plain file, which directories have names of files, at the end
    which names are new; and snapshots."""
    disk = Listed()
    manager = LogManager(lambda _: disk, survey(disk, find_log_dirs(disk, [str(partition)])), Settings(), NOW)
    disk.listings.clear()
    reports = list(recovering.recover(manager, RecoverOptions(clean_start=clean_start)))
    assert [report.failure for report in reports] == [None]
    assert disk.listings == [str(partition)] * times


def test_nor_does_one_that_can_not_be_recovered_for_want_of_it(partition, monkeypatch):
    other = partition.parent / "b-0"
    shutil.copytree(partition, other)
    files, first = Files(), []
    one = recovering._one

    def scarce(manager, options, place, *more):
        first.append(place.path)
        if len(first) == 1:
            raise MemoryError
        return one(manager, options, place, *more)

    monkeypatch.setattr(recovering, "_one", scarce)
    manager = LogManager(lambda _: files, survey(files, find_log_dirs(files, [str(partition), str(other)])), Settings(), NOW)
    options = RecoverOptions()
    failed, whole = (report.failure for report in recovering.recover(manager, options) if report.directory in first)
    assert (type(failed), failed.path, whole) == (OutOfMemory, first[0], None)

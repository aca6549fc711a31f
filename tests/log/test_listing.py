"""Reading a partition while its broker puts a cleaned segment in the place of others: at no moment anything is missing."""

from __future__ import annotations

import os

import pytest

from engine.files import ReadOnlyFiles
from engine.log.fetch.reading import FetchIsolation
from engine.log.fetch.records import FetchLimits, RecordFetcher
from engine.log.fetch.view import PartitionView, logs_in_use
from engine.record.builder import NewRecord, build_batch

LIVE = {0, 3, 7, 11, 14}  # what the cleaner keeps of the first three segments


def batches(offsets):
    return b"".join(build_batch([NewRecord(offset, 1, b"k", b"v")]) for offset in offsets)


def name(base, suffix=""):
    return f"{base:020}.log{suffix}"


@pytest.fixture
def directory(tmp_path):
    for base in (0, 5, 10, 15):
        (tmp_path / name(base)).write_bytes(batches(range(base, base + 5)))
    (tmp_path / name(0, ".cleaned")).write_bytes(batches(sorted(LIVE)))
    return tmp_path


def steps(directory):
    """As LocalLog.replaceSegments goes: each is a state of the disk in which a broker may be stopped."""
    yield
    os.rename(directory / name(0, ".cleaned"), directory / name(0, ".swap"))
    yield
    for base in (0, 5, 10):
        os.rename(directory / name(base), directory / name(base, ".deleted"))
        yield
    os.rename(directory / name(0, ".swap"), directory / name(0))
    yield


def offsets(files, directory, start=0, end=None):
    view = PartitionView(files, str(directory), pytest.fail)
    return [record.offset for record in RecordFetcher(view, start, FetchIsolation.LOG_END, pytest.fail, FetchLimits(end=end))]


def test_nothing_is_missing_at_any_step(directory):
    for number, _ in enumerate(steps(directory)):
        got = offsets(ReadOnlyFiles(), directory)
        assert got == sorted(set(got))
        assert set(got) == (set(range(20)) if number < 2 else LIVE | set(range(15, 20)))
        for start in range(20):
            for end in (start + 1, start + 4):
                assert offsets(ReadOnlyFiles(), directory, start, end) == [one for one in got if start <= one < end]


def test_a_view_that_is_kept_sees_the_same(directory):
    view = PartitionView(ReadOnlyFiles(), str(directory), pytest.fail)
    for number, _ in enumerate(steps(directory)):
        view.refresh()
        got = [record.offset for record in RecordFetcher(view, 0, FetchIsolation.LOG_END, pytest.fail)]
        assert set(got) == (set(range(20)) if number < 2 else LIVE | set(range(15, 20)))


class Between(ReadOnlyFiles):
    """The broker takes some steps between the listing of the directory and the first look at a log."""

    def __init__(self, going, count):
        self.going, self.count = going, count

    def info(self, path):
        while path.endswith(".log") and self.count:
            self.count -= 1
            next(self.going)
        return super().info(path)


@pytest.mark.parametrize("before", range(1, 6))
@pytest.mark.parametrize("between", range(1, 6))
def test_nor_where_it_changes_while_it_is_looked_at(directory, before, between):
    going = steps(directory)
    for _ in range(before):
        next(going)
    got = offsets(Between(going, min(between, 6 - before)), directory)
    assert set(got) >= LIVE | set(range(15, 20))


def test_two_halves_of_a_split_segment():
    swaps = [name(0, ".swap"), name(8, ".swap")]
    assert logs_in_use([name(0), *swaps]) == {0: ""}
    assert logs_in_use(swaps) == {0: ".swap", 8: ".swap"}
    assert logs_in_use([name(0), swaps[1]]) == {0: "", 8: ".swap"}

"""recover --salvage: what it looks through is what the log is going to be."""

from __future__ import annotations

import pytest

from engine.log.operations.recover import RecoverOptions, recover
from engine.log.report import Action, loses_records
from tests.crash.cases_log import swapped
from tests.crash.cases_manager import broker_sees, log_dir, managed
from tests.crash.partitions import batches_of, closed, name, segments
from tests.support.crash_files import CrashFiles


def damaged(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def salvaged(disk):
    files = CrashFiles(log_dir(disk, clean=False))
    events = managed(files, lambda manager, errors: recover(manager, RecoverOptions(salvage=True), errors))
    return broker_sees(files.disk()), events


@pytest.mark.parametrize("where", [".log.swap", ".log"])
def test_a_segment_that_is_to_replace_others_is_salvaged_and_they_are_not(where):
    disk, whole = swapped()
    first = segments()[1][1]
    path = name(12 if where == ".log.swap" else 23, where)
    at = sum(map(len, first[:2])) + 70 if where == ".log.swap" else 70
    disk = disk._replace(contents=disk.contents | {path: damaged(disk.contents[path], at)})
    seen, events = salvaged(disk)
    lost = [(event.path, event.first_offset, event.end_offset) for event in events if event.action is Action.SALVAGED]
    assert lost == ([(f"{12:020}.log", 17, 19)] if where == ".log.swap" else [])
    assert seen.batches == {base: batch for base, batch in whole.items() if where == ".log" or base != 17}
    assert [event for event in events if loses_records(event)] == [event for event in events if event.action is Action.SALVAGED]


def test_what_is_left_over_is_told_once():
    disk, whole = swapped()
    seen, events = salvaged(disk)
    told = [event.path for event in events if event.action in (Action.REMOVED, Action.RENAMED)]
    assert f"{0:020}.log.deleted" in told
    assert f"{12:020}.log.swap" in told
    assert len(told) == len(set(told))
    assert seen.batches == whole == batches_of(segments())


@pytest.mark.parametrize("swallowed", [1, 2, 3])
def test_a_wrong_size_that_ends_where_a_batch_begins_hides_none(swallowed):
    """Of the third segment the first batch claims the next ones as well, up to the end of the log or before another."""
    disk = log_dir(closed(segments()), clean=False)
    first, *others = segments()[2][1]
    size = (len(first) + sum(map(len, others[:swallowed])) - 12).to_bytes(4, "big")
    path, whole = name(23), batches_of(segments())
    disk = disk._replace(contents=disk.contents | {path: first[:8] + size + first[12:] + b"".join(others)})
    files = CrashFiles(disk)
    managed(files, lambda manager, errors: recover(manager, RecoverOptions(salvage=True), errors))
    assert broker_sees(files.disk()).batches == {base: batch for base, batch in whole.items() if base != 23}


@pytest.mark.parametrize("wrong", [5, 20])
def test_a_segment_with_another_name_gets_its_own_and_nothing_is_lost(wrong):
    """The second segment, which begins at 12, was renamed; none of the batches is damaged."""
    disk = closed(segments())
    contents = {path.replace(f"{12:020}.", f"{wrong:020}."): data for path, data in disk.contents.items()}
    seen, events = salvaged(disk._replace(contents=contents))
    assert seen.batches == batches_of(segments())
    assert not [event for event in events if loses_records(event)]
    assert [(event.path, event.to) for event in events if event.to] == [(f"{wrong:020}.log", f"{12:020}.log")]


@pytest.mark.parametrize("magic", [3, 5, 127])
def test_a_batch_that_no_consumer_reads_goes(magic):
    """No checksum covers the magic: a broker keeps it, and consumers end there."""
    disk, whole = log_dir(closed(segments()), clean=False), batches_of(segments())
    path, first = name(23), segments()[2][1][0]
    data = disk.contents[path]
    disk = disk._replace(contents=disk.contents | {path: data[:16] + bytes([magic]) + data[17:]})
    seen, events = salvaged(disk)
    assert seen.batches == {base: batch for base, batch in whole.items() if base != 23}
    assert [(event.path, event.size) for event in events if event.action is Action.SALVAGED] == [(f"{23:020}.log", len(first))]

"""recover --salvage: what it looks through is what the log is going to be."""

from __future__ import annotations

from itertools import pairwise

import pytest

from engine.findings import Severity
from engine.log.operations.recover import RecoverOptions, recover
from engine.log.report import Action, loses_records
from tests.crash.cases_log import swapped
from tests.crash.cases_manager import broker_sees, log_dir, managed
from tests.crash.partitions import TOPIC, batches_of, closed, name, plain, segments
from tests.support.crash_files import CrashFiles, KeptFiles


def damaged(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def salvaged(disk):
    files = CrashFiles(log_dir(disk, clean=False))
    events = managed(files, lambda manager: recover(manager, RecoverOptions(salvage=True)))
    return broker_sees(files.disk()), events


def replacement_with(disk, damage, *, without=()):
    """`disk`, whose `.log.swap` is damaged, without the segments of some base offsets."""
    path = name(12, ".log.swap")
    contents = disk.contents | {path: damage(disk.contents[path])}
    gone = tuple(name(base, "") for base in without)
    return disk._replace(contents={place: data for place, data in contents.items()
                                   if place.endswith(".swap") or not place.startswith(gone or "-")})


REPLACEMENTS = {
    "whole": lambda data: data,
    "damaged": lambda data: damaged(data, sum(map(len, segments()[1][1][:2])) + 70),
    "torn": lambda data: data[:-20],
    "short": lambda _data: b"".join(segments()[1][1][:2]),
    "empty": lambda _data: b"",
}


@pytest.mark.parametrize("damage", REPLACEMENTS)
def test_a_replacement_costs_no_segment_that_holds_as_much(damage):
    disk, whole = swapped()
    seen, events = salvaged(replacement_with(disk, REPLACEMENTS[damage]))
    assert seen.batches == whole
    assert not [event for event in events if loses_records(event)]


@pytest.mark.parametrize(("damage", "lost"), [("whole", []), ("damaged", [17]), ("torn", [30])])
def test_a_replacement_is_salvaged_where_what_it_replaces_is_gone(damage, lost):
    disk, whole = swapped()
    seen, events = salvaged(replacement_with(disk, REPLACEMENTS[damage], without=(12, 23)))
    assert seen.batches == {base: batch for base, batch in whole.items() if base not in lost}
    told = [event for event in events if event.action is Action.SALVAGED]
    assert [event for event in events if loses_records(event)] == told
    assert [event.first_offset for event in told] == lost


@pytest.mark.parametrize(("damage", "lost"), [("torn", (30, 33)), ("short", (17, 23)), ("empty", (12, 23))])
def test_a_broker_loses_what_a_replacement_has_not_and_recover_says_so(damage, lost):
    """`short` and `empty` replace the segment of their own name and no other."""
    disk, _ = swapped()
    files = CrashFiles(log_dir(replacement_with(disk, REPLACEMENTS[damage]), clean=False))
    events = managed(files, lambda manager: recover(manager, RecoverOptions()))
    missing = [(event.first_offset, event.end_offset) for event in events if event.action is Action.MISSING]
    assert missing[0] == lost


def test_a_segment_under_a_lower_name_that_holds_the_offsets_of_a_replacement_is_a_problem_that_is_left():
    """Only names decide what a broker replaces."""
    disk, _ = swapped()
    contents = {name(11, ".log") if place == name(12, ".log") else place: data for place, data in disk.contents.items()}
    files = CrashFiles(log_dir(disk._replace(contents=contents), clean=False))
    events = managed(files, lambda manager: recover(manager, RecoverOptions()))
    kept = [event for event in events if event.action is Action.KEPT and event.path == f"{11:020}.log"]
    assert (12, 23, Severity.ERROR) in [(event.first_offset, event.end_offset, event.severity) for event in kept]


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
    managed(files, lambda manager: recover(manager, RecoverOptions(salvage=True)))
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


def on_disk(parts):
    """Files as they stand, with indexes that fit the undamaged log."""
    disk = log_dir(closed(segments()), clean=False)
    contents = {path: data for path, data in disk.contents.items() if not path.endswith(".log")}
    return disk._replace(contents=contents | {name(base): b"".join(batches) for base, batches in parts})


def parts_with(**changes):
    """The segments of `segments()`, some of them with other batches: s23=[…]."""
    return [(base, changes.get(f"s{base}", batches)) for base, batches in segments()]


def flipped(batch, bit):
    return (int.from_bytes(batch[:8], "big") ^ bit).to_bytes(8, "big") + batch[8:]


FIRST, SECOND, THIRD, LAST = (batches for _, batches in segments())
FOREIGN = [plain(12, size=40, epoch=1), plain(15, size=40, epoch=1), plain(18, size=40, epoch=1)]
# what stands where, and the offsets that salvaging names as sound batches dropped
DISORDERS = {
    "stale at the end": (parts_with(s33=[*LAST, *FIRST[1:3]]), [(3, 9)]),
    "stale at the end, torn": (parts_with(s33=[*LAST, *FIRST[1:3], FIRST[3][:70]]), [(3, 9)]),
    "stale at the end of a middle segment": (parts_with(s12=[*SECOND, *FIRST[:2]]), [(0, 6)]),
    "last batch twice": (parts_with(s33=[*LAST, LAST[-1]]), [(36, 39)]),
    "last batches twice": (parts_with(s33=[*LAST, *LAST]), [(33, 39)]),
    "the next segment's batches too": (parts_with(s23=[*THIRD, LAST[0]]), [(33, 36)]),
    "swapped": (parts_with(s23=[THIRD[0], THIRD[2], THIRD[1], THIRD[3]]), []),
    "swapped at the start": (parts_with(s12=[SECOND[1], SECOND[0], *SECOND[2:]]), []),
    "in another segment": (parts_with(s12=[*SECOND[:2], *SECOND[3:]], s33=[*LAST, SECOND[2]]), []),
    "a segment twice": ([*parts_with(), (50, FIRST)], [(0, 12)]),
    "a segment twice, within": ([*parts_with(), (27, THIRD)], [(23, 33)]),
    "only under another name": ([*parts_with()[1:], (50, FIRST)], []),
    "another log's batch at the end": (parts_with(s33=[*LAST, FOREIGN[1]]), [(15, 18)]),
    "another log's segment": (sorted([*parts_with(), (15, FOREIGN)], key=lambda part: part[0]), [(12, 21)]),
    "one bit of a base offset": (parts_with(s23=[*THIRD[:2], flipped(THIRD[2], 32), THIRD[3]]), []),
    "one bit, and other batches there": (parts_with(s23=[*THIRD[:2], flipped(THIRD[2], 16), THIRD[3]]), []),
    "the sign of a base offset": (parts_with(s23=[*THIRD[:2], flipped(THIRD[2], 1 << 63), THIRD[3]]), []),
    "the sign of the last base offset": (parts_with(s33=[LAST[0], flipped(LAST[1], 1 << 63)]), []),
    "exchanged, the last one in the middle": (parts_with(s12=LAST, s33=SECOND), []),
    "one bit of the first": (parts_with(s23=[flipped(THIRD[0], 1 << 40), *THIRD[1:]]), []),
}


@pytest.mark.parametrize("disorder", DISORDERS)
def test_no_sound_batch_of_the_log_is_lost(disorder):
    parts, dropped = DISORDERS[disorder]
    files = KeptFiles(on_disk(parts))
    events = managed(files, lambda manager: recover(manager, RecoverOptions(salvage=True)))
    left = files.disk()
    assert broker_sees(left).batches == batches_of(segments())
    told = sorted((event.first_offset, event.end_offset) for event in events if "dropped" in event.reason)
    assert told == dropped
    assert not any("no sound batch" in event.reason and event.records for event in events)
    again = CrashFiles(left)
    managed(again, lambda manager: recover(manager, RecoverOptions(salvage=True)))
    assert {path: data for path, data in again.disk().contents.items() if path.startswith(f"{TOPIC}/")} == {
        path: data for path, data in left.contents.items() if path.startswith(f"{TOPIC}/")
    }


def test_two_wrong_bits_are_not_guessed():
    parts = parts_with(s23=[*THIRD[:2], flipped(THIRD[2], (1 << 40) + 32), THIRD[3]])
    files = CrashFiles(on_disk(parts))
    events = managed(files, lambda manager: recover(manager, RecoverOptions(salvage=True)))
    whole = batches_of(segments())
    assert broker_sees(files.disk()).batches == {base: batch for base, batch in whole.items() if base != 27}
    assert any("after the end of the log" in event.reason for event in events)


STALE = [one for one in DISORDERS if one.startswith("stale")]


@pytest.mark.parametrize("disorder", STALE)
def test_plain_recovery_ends_a_log_before_batches_that_run_backwards(disorder):
    """A broker stops there; no segment is written over, whatever offsets stand in another one."""
    parts, _ = DISORDERS[disorder]
    before = on_disk(parts)
    files = CrashFiles(before)
    events = managed(files, lambda manager: recover(manager, RecoverOptions()))
    kept = segments() if "middle" not in disorder else segments()[:2]
    assert broker_sees(files.disk()).batches == batches_of(kept)
    assert any("a broker would not start" in event.reason for event in events)
    assert files.disk().contents[name(0)] == before.contents[name(0)]


@pytest.mark.parametrize("bit", [1, 2, 4, 8, 16, 32])
@pytest.mark.parametrize("neighbour", [-1, 1])
def test_a_batch_whose_offsets_others_hold_is_put_right_beside_a_damaged_one(neighbour, bit):
    """A single wrong bit of its base offset, and the batch before or after it is damaged: nothing else is lost."""
    whole, tried = batches_of(segments()), 0
    ends = dict(pairwise([*whole, 39]))
    for base, batches in segments():
        for number, batch in enumerate(batches):
            first, beside = int.from_bytes(batch[:8], "big"), number + neighbour
            gone = int.from_bytes(batches[beside][:8], "big") if 0 <= beside < len(batches) else first
            wrong, end = first ^ bit, (first ^ bit) + ends[first] - first
            if gone == first or not any(other < end and wrong < ends[other] for other in whole.keys() - {first, gone}):
                continue  # nothing is damaged, or nothing contradicts it
            changed = dict(enumerate(batches)) | {number: flipped(batch, bit), beside: damaged(batches[beside], 70)}
            seen, _ = salvaged(on_disk(parts_with(**{f"s{base}": list(changed.values())})))
            assert seen.batches == {offset: batch for offset, batch in whole.items() if offset != gone}, first
            tried += 1
    assert tried

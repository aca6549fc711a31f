"""Which offsets are lost: the same by the records and by the headers alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.discovery.names import file_name, parse_file_name
from engine.dump.gaps import Gap, Gaps, gaps_of, report_gaps
from engine.dump.reports import DumpReports
from engine.formats import Codec
from engine.log.continuity import cleaner_traces as keys
from engine.log.continuity.check import ContinuityCheck
from engine.log.continuity.cleaner_traces import was_cleaned
from engine.record import columns
from engine.record.builder import NewRecord, build_batch
from engine.record.reader import ChunkReader
from engine.record.selection import Selection
from engine.record.windows import LogWalk
from tests.support.memory_files import WORKING_DIRECTORY, MemoryFiles
from tests.support.small_logs import LOG, PARTITION, batch, chunks, emptied, records_at, windows, with_wrong_checksum

BOTH = pytest.mark.parametrize("deep", [True, False], ids=["deep", "shallow"])


def gaps(data, *, deep, base_offset=0, window_size=1 << 20, **known):
    """Everything fed, one way or the other."""
    found = Gaps(base_offset, **known)
    if deep:
        for chunk, base in chunks(data, window_size):
            found.feed(chunk, base)
    else:
        for window in windows(data, window_size):
            found.feed_batches(window)
    return found


def pairs(found):
    return [(gap.before, gap.after) for gap in found]


@BOTH
def test_offsets_that_follow_one_another_have_no_gaps(deep):
    found = gaps(batch(0, 3) + batch(3) + batch(4, 2, control=True) + batch(6, 5, codec=Codec.GZIP), deep=deep)
    assert (found.losses(), found.disorders, found.loss_count) == ([], [], 0)


@BOTH
def test_a_hole_between_batches_is_a_loss(deep):
    first, second = batch(0, 3), batch(7, 2)
    assert gaps(first + second, deep=deep).losses() == [Gap(2, 7, len(first))]


@BOTH
@pytest.mark.parametrize(("base_offset", "lost"), [(0, [(-1, 5)]), (3, [(2, 5)]), (5, []), (None, []), (-1, [])])
def test_the_first_offset_should_be_the_one_in_the_name(deep, base_offset, lost):
    assert pairs(gaps(batch(5), deep=deep, base_offset=base_offset).losses()) == lost


@BOTH
def test_a_walk_that_begins_anywhere_misses_nothing_in_front(deep):
    found = Gaps(0)
    found.begin_anywhere()
    if deep:
        for chunk, base in chunks(batch(50) + batch(60)):
            found.feed(chunk, base)
    else:
        for window in windows(batch(50) + batch(60)):
            found.feed_batches(window)
    assert pairs(found.losses()) == [(50, 60)]


TRACES = {
    "records taken out": records_at(10, 12),
    "records taken out at the end": records_at(10, 11, last_offset=14),
    "records taken out at the beginning": records_at(12, 13, base_offset=10),
    "all records taken out": emptied(10, 14),
    "a delete horizon": records_at(10, 11, 12, delete_horizon_ms=5),
}


@BOTH
@pytest.mark.parametrize("trace", TRACES.values(), ids=TRACES)
def test_where_the_cleaner_was_no_hole_is_a_loss(deep, trace):
    """Neither in front of its trace nor behind it."""
    found = gaps(batch(0) + batch(5) + trace + batch(15) + batch(30), deep=deep)
    assert found.losses() == []
    assert found.loss_count == 0
    assert found.disorders == []


@BOTH
def test_of_a_cleaned_log_only_disorder_is_told(deep):
    found = gaps(batch(0) + batch(9) + batch(5), deep=deep, compacted=True)
    assert found.losses() == []
    assert pairs(found.disorders) == [(9, 5)]


@BOTH
@pytest.mark.parametrize("repeated", [2, 1, 0])
def test_offsets_must_grow(deep, repeated):
    found = gaps(batch(0, 3) + batch(repeated, 3), deep=deep)
    assert pairs(found.disorders) == [(2, repeated)]
    assert found.losses() == []


@BOTH
def test_a_header_that_claims_offsets_of_the_next_batch_is_told(deep):
    """Whose records do not show it."""
    taking = records_at(0, 1, last_offset=5)
    found = gaps(taking + batch(3, 3) + batch(6), deep=deep)
    assert found.disorders == [Gap(5, 3, len(taking))]


@BOTH
def test_one_break_is_told_once(deep):
    found = gaps(batch(0, 3) + batch(1, 3) + emptied(2, 3) + batch(4), deep=deep)
    assert [(gap.before, gap.after) for gap in found.disorders] == [(2, 1), (3, 2)]


@BOTH
def test_many_holes_are_counted_and_a_thousand_named(deep):
    found = gaps(b"".join(batch(2 * number) for number in range(1501)), deep=deep)
    assert (len(found.losses()), found.loss_count) == (1000, 1500)


@BOTH
@pytest.mark.parametrize(("magic", "codec"), [(0, Codec.NONE), (1, Codec.NONE), (1, Codec.GZIP)])
def test_old_formats(deep, magic, codec):
    sound = batch(0, magic=magic, codec=codec) + batch(1, 3, magic=magic, codec=codec)
    assert gaps(sound, deep=deep).losses() == []
    holed = gaps(sound + batch(9, 2, magic=magic, codec=codec), deep=deep)
    is_wrapper = codec != Codec.NONE
    assert pairs(holed.losses()) == ([] if is_wrapper and not deep else [(3, 9)]), "a wrapper's header names its last offset only"
    assert holed.disorders == []


def test_a_header_with_a_wrong_checksum_proves_nothing():
    found = gaps(batch(0) + with_wrong_checksum(batch(70)) + batch(100) + batch(102), deep=False)
    assert pairs(found.losses()) == [(100, 102)]


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("window_size", [1 << 20, 1])
def test_a_batch_whose_records_can_not_be_read_is_no_hole_and_no_trace_of_the_cleaner(magic, window_size):
    """Its own finding tells of it; holes elsewhere are losses as before."""
    some = [batch(first, count, magic=magic, codec=Codec.GZIP) for first, count in ((0, 2), (4, 2), (70, 1))]
    large = batch(2, 2, bytes(20_000), magic=magic, codec=Codec.GZIP)
    found, reader = Gaps(0), ChunkReader(LOG, lambda _: None, 10_000)
    for window in windows(some[0] + large + some[1] + some[2], window_size):
        for chunk in reader.chunks(window):
            found.feed(chunk, window.base)
    assert (pairs(found.losses()), found.disorders) == ([(5, 70)], [])


def test_a_wrapper_of_offset_0_proves_nothing():
    """Some producers left the offset of their wrappers alone."""
    wrappers = [batch(first, 3, magic=1, codec=Codec.GZIP) for first in (0, 3, 6)]
    wrappers[1] = bytes(8) + wrappers[1][8:]
    assert gaps(b"".join(wrappers), deep=False).disorders == []


@BOTH
@pytest.mark.parametrize(("first", "end", "lost"), [
    (0, 100, [(0, 5), (5, 9)]), (5, 9, [(5, 9)]), (6, 7, [(5, 9)]), (9, 20, []), (0, 1, []), (1, 2, [(0, 5)]), (4, 5, [(0, 5)]),
    (5, 6, []),
])
def test_only_offsets_that_are_wanted_can_be_lost(deep, first, end, lost):
    found = gaps(batch(0) + batch(5) + batch(9), deep=deep, wanted=Selection(first_offset=first, end_offset=end))
    assert pairs(found.losses()) == lost


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), min_size=1, max_size=12), st.integers(61, 400))
def test_both_ways_find_the_same_whatever_the_window(spans, window_size):
    """(offsets left out, records) of each batch."""
    data, expected, offset, previous = [], [], 0, -1
    for left_out, count in spans:
        offset += left_out
        if offset > previous + 1:
            expected.append((previous, offset))
        data.append(batch(offset, count))
        offset += count
        previous = offset - 1
    for deep in (True, False):
        found = gaps(b"".join(data), deep=deep, window_size=window_size)
        assert pairs(found.losses()) == expected
        assert found.disorders == []


CHECKPOINT = "/logs/cleaner-offset-checkpoint"


@pytest.mark.parametrize(("path", "checkpoint", "answer"), [
    ("/logs/t-0/00000000000000000000.log", b"0\n1\nt 0 50\n", True),
    ("/logs/t-0/00000000000000000049.log", b"0\n1\nt 0 50\n", True),
    ("/logs/t-0/00000000000000000050.log", b"0\n1\nt 0 50\n", False),
    ("/logs/t-1/00000000000000000000.log", b"0\n1\nt 0 50\n", False),
    ("/logs/t-0/00000000000000000000.log", b"rubbish", False),
    ("/logs/t-0/00000000000000000000.log", None, False),
    ("/logs/t-0/00000000000000000000.log.cleaned", None, True),
    ("/logs/t-0/00000000000000000000.log.swap", None, True),
    ("/logs/t-0/00000000000000000000.log.deleted", None, False),
    ("/logs/__consumer_offsets-7/00000000000000000000.log", None, True),
    ("/logs/__transaction_state-7/00000000000000000000.log", None, True),
    ("/logs/__share_group_state-7/00000000000000000000.log", None, True),
    ("/logs/__cluster_metadata-0/00000000000000000000.log", None, False),
    ("/logs/odd/00000000000000000000.log", b"0\n1\nodd 0 50\n", False),
    ("/logs/t-0/abc.log", b"0\n1\nt 0 50\n", True),
])
def test_how_the_cleaner_is_known_to_have_been_there(path, checkpoint, answer):
    files = MemoryFiles({path: b"", **({} if checkpoint is None else {CHECKPOINT: checkpoint})})
    assert was_cleaned(files, path, parse_file_name(file_name(path))) is answer


def keyless(offset):
    return build_batch([NewRecord(offset, offset, None, b"v")], base_offset=offset)


def keyed(offset, key):
    return build_batch([NewRecord(offset, offset, key, b"v")], base_offset=offset)


def reported(data, path=LOG, contents=None):
    """(findings as (code, position, offset, what), Kafka's lines)."""
    files = MemoryFiles({path: data, **(contents or {})})
    found, findings, reports = gaps_of(files, path, parse_file_name(file_name(path))), [], DumpReports()
    for window in windows(data):
        found.feed_batches(window)
    report_gaps(found, files, path, parse_file_name(file_name(path)), findings.append, reports)
    return [(finding.code, *finding.where[1:], finding.what) for finding in findings], list(reports.lines())


@BOTH
def test_offsets_that_do_not_grow_are_counted_beyond_those_kept(deep, monkeypatch):
    monkeypatch.setattr("engine.log.continuity.header_gaps.KEPT", 3)
    monkeypatch.setattr("engine.dump.gaps.KEPT", 3)
    found = gaps(batch(90) + b"".join(batch(80 - number) for number in range(7)), deep=deep)
    assert (len(found.disorders), found.disorders.more) == (3, 4)
    said = []
    report_gaps(found, MemoryFiles({LOG: b""}), LOG, parse_file_name(file_name(LOG)), said.append, DumpReports())
    said = [one for one in said if one.code == "offset-order"]
    assert [one.where.position is None for one in said] == [False, False, False, True]
    assert said[-1].what == "4 more offsets out of order"


def test_gaps_are_findings_and_kafkas_last_words():
    one = len(batch(0))
    assert reported(batch(0) + batch(4) + batch(2)) == (
        [
            ("offset-order", 2 * one, 2, "offset 2 follows offset 4"),
            ("offset-gap", one, 4, "3 offsets missing after offset 0"),
        ],
        [f"Non-consecutive offsets in {WORKING_DIRECTORY}/{LOG}", "  0 is followed by 4", "  4 is followed by 2"],
    )


def test_what_is_not_named_is_counted():
    findings, lines = reported(b"".join(keyless(2 * number) for number in range(1501)))
    assert findings[-1] == ("offset-gap", None, None, "500 more gaps")
    assert (len(lines), lines[-1]) == (1002, "  500 more")


SEVERAL = keyed(0, b"a") + keyed(4, b"b") + keyed(7, b"c") + keyed(8, b"a")
LATER = "data/t-0/00000000000000000009.log"
WITHOUT_TRACES = {
    "several gaps, unique keys": (SEVERAL, {}, "gaps-compacted"),
    "a key that comes again": (keyed(0, b"a") + keyed(4, b"b") + keyed(5, b"a"), {}, "gaps-compacted"),
    "a key that comes again in the next segment": (
        keyed(0, b"a") + keyed(3, b"c"), {LATER: keyed(9, b"b") + keyed(10, b"b")}, "gaps-compacted"),
    "no record in front that could tell": (keyed(3, b"a"), {LATER: keyed(9, b"b") + keyed(10, b"b")}, "offset-gap"),
    "control records between": (keyed(0, b"a") + batch(2, control=True) + keyed(7, b"b"), {}, "gaps-compacted"),
    "one gap, and nothing comes again": (keyed(0, b"a") + keyed(4, b"b") + keyed(5, b"c"), {}, "offset-gap"),
    "a record without a key": (keyed(0, b"a") + keyless(1) + keyed(4, b"b") + keyed(7, b"c"), {}, "offset-gap"),
    "a record without a key behind the gap": (keyed(0, b"a") + keyed(4, b"b") + keyless(7), {}, "offset-gap"),
    "a key twice in front": (keyed(0, b"a") + keyed(1, b"a") + keyed(4, b"b") + keyed(7, b"c"), {}, "offset-gap"),
    "a batch that cannot be read in front": (with_wrong_checksum(keyed(0, b"a")) + SEVERAL[len(keyed(0, b"a")) :], {}, "offset-gap"),
    "traces in a later segment": (keyless(0) + keyless(4), {LATER: records_at(9, 11)}, None),
    "no traces in a later segment": (keyless(0) + keyless(4), {LATER: keyless(9)}, "offset-gap"),
}


@pytest.mark.parametrize(("data", "others", "code"), WITHOUT_TRACES.values(), ids=WITHOUT_TRACES)
def test_where_nothing_tells_of_the_cleaner_the_keys_do(data, others, code):
    """And verify says the same."""
    findings, lines = reported(data, contents=others)
    assert {finding[0] for finding in findings} == ({code} if code else set())
    assert bool(lines) == (code == "offset-gap")
    files, verified = MemoryFiles({LOG: data, **others}), []
    check = ContinuityCheck(files, PARTITION, verified.append)
    for path in (LOG, *others):
        check.begin_segment(int(file_name(path)[:20]), path)
        for window in LogWalk(files.open(path)):
            check.feed(window)
    check.finish()
    assert [(finding.code, *finding.where[1:], finding.what) for finding in verified if finding.where.file == LOG] == findings


def test_of_many_keys_the_first_speak_for_all(monkeypatch):
    data = b"".join(keyed(3 * offset, b"%d" % offset) for offset in range(9)) + keyed(30, b"1") + keyed(40, b"z")
    assert {finding[0] for finding in reported(data)[0]} == {"offset-gap"}
    monkeypatch.setattr(keys, "_KEYS", 3)
    monkeypatch.setattr(columns.RecordColumns.__init__, "__defaults__", (2,))
    assert {finding[0] for finding in reported(data)[0]} == {"gaps-compacted"}


def test_a_snapshot_of_the_metadata_has_no_first_offset():
    path = "data/__cluster_metadata-0/00000000000000000100-0000000003.checkpoint"
    assert reported(batch(7) + batch(8), path) == ([], [])

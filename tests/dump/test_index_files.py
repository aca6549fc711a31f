"""Checks of indexes against their log: one wrong thing at a time, and what is said of it."""

from __future__ import annotations

import struct
from random import Random

import pytest

from engine.dump.batch_heads import BatchHeads
from engine.dump.index_files import IndexDump, time_index_is_sound
from engine.dump.renderer import DumpOptions
from engine.dump.reports import DumpReports
from engine.record.reader import ChunkReader
from tests.support.memory_files import WORKING_DIRECTORY, MemoryFiles
from tests.support.small_logs import batch, emptied, with_wrong_checksum

STEM = "t-0/00000000000000000000"
LOG, INDEX, TIMES = STEM + ".log", STEM + ".index", STEM + ".timeindex"
BATCHES = [batch(0, 2), batch(2, 2), batch(4, 2), batch(6, 2)]  # times are offsets
AT = [sum(map(len, BATCHES[:number])) for number in range(5)]
DATA = b"".join(BATCHES)


@pytest.fixture(autouse=True, params=["one-by-one", "together"])
def decoded(request, monkeypatch):
    """How batches are decoded whose timestamps a time index has: large ones many at a time."""
    monkeypatch.setattr("engine.dump.index_files._DENSE", 0 if request.param == "together" else 1 << 10)


class Shown:
    """A DumpRenderer that remembers."""

    def __init__(self):
        self.shown, self.words = [], []

    def index_entries(self, index, number, end):
        self.shown += [tuple(index.entry(one)) for one in range(number, end)]

    def empty_index(self, path):
        self.words.append(f"{path} is empty")

    def sound_index(self, path):
        self.words.append(f"{path} passed")


class Dumped:
    """One index dumped: `entries` and `words` shown, `codes`, `findings`, Kafka's `lines`."""

    def __init__(self, contents, path, *, is_sound=False, **options):
        shown, reports, self.findings = Shown(), DumpReports(), []
        dump = IndexDump(MemoryFiles(contents), DumpOptions(**options), shown, self.findings.append, reports)
        if path == INDEX:
            dump.offset_index(INDEX, LOG, 0)
        else:
            dump.time_index(TIMES, LOG, INDEX, 0, is_sound=is_sound)
        self.entries, self.words, self.lines = shown.shown, shown.words, list(reports.lines())
        self.codes = [finding.code for finding in self.findings]


def index(*entries):
    return b"".join(struct.pack(">ii", *entry) for entry in entries)


def times(*entries):
    return b"".join(struct.pack(">qi", *entry) for entry in entries)


SOUND = index((1, AT[0]), (5, AT[2]), (7, AT[3]))
SOUND_TIMES = times((1, 1), (5, 5), (7, 7))


def offsets(data, log=DATA, **options):
    return Dumped({INDEX: data, **({} if log is None else {LOG: log})}, INDEX, **options)


def timed(data, log=DATA, beside=SOUND, **options):
    files = {TIMES: data, **({} if log is None else {LOG: log}), **({} if beside is None else {INDEX: beside})}
    return Dumped(files, TIMES, **options)


# ---- offset indexes


def test_a_sound_index():
    done = offsets(SOUND)
    assert done.entries == [(1, AT[0]), (5, AT[2]), (7, AT[3])]
    assert (done.codes, done.lines, done.words) == ([], [], [])


def test_an_entry_must_be_the_last_offset_of_the_batch_it_points_to():
    done = offsets(index((1, AT[0]), (4, AT[2]), (6, AT[3]), (7, AT[3])))
    assert done.codes == ["index-offset-mismatch", "index-offset-mismatch", "index-out-of-order"]
    assert [finding.where for finding in done.findings[:2]] == [(INDEX, 8, 4), (INDEX, 16, 6)]
    assert done.lines == [f"Mismatches in :{WORKING_DIRECTORY}/{INDEX}", "  Index offset: 6, log offset: 7", "  Index offset: 4, log offset: 5"]


def test_indexes_before_2_0_named_first_offsets():
    done = offsets(index((2, AT[1]), (6, AT[3])))
    assert done.codes == ["index-first-offsets"]
    assert done.lines == []


@pytest.mark.parametrize("position", [AT[1] + 3, AT[4], AT[4] + 100, -1])
def test_an_entry_that_points_to_no_batch(position):
    done = offsets(index((1, AT[0]), (3, position)))
    assert done.codes[0] == "index-beyond-log"
    assert done.findings[0].where == (INDEX, 8, 3)
    assert len(done.entries) == 2, "the dump goes on"


def test_no_more_of_the_log_is_looked_at_than_asked_for():
    assert offsets(SOUND, max_message_size=len(BATCHES[0])).codes == []
    assert offsets(SOUND, max_message_size=len(BATCHES[0]) - 1).codes == ["index-beyond-log"] * 3


def test_the_zero_tail_of_an_open_index_is_no_entry():
    done = offsets(SOUND + bytes(80))
    assert len(done.entries) == 3
    assert done.codes == ["index-zero-tail"]
    assert offsets(bytes(80)).codes == ["index-zero-tail"], "the first entry is unused as well"


@pytest.mark.parametrize(("data", "code"), [(SOUND[:-3], "index-size-invalid"), (index((5, AT[2]), (1, AT[0])), "index-out-of-order")])
def test_what_is_wrong_without_looking_at_the_log(data, code):
    assert code in offsets(data).codes


def test_an_empty_index_is_said_to_be_empty():
    done = offsets(b"")
    assert (done.words, done.codes, done.entries) == ([f"{INDEX} is empty"], [], [])


def test_without_its_log_an_index_is_shown_and_not_checked():
    done = offsets(index((4, AT[2])), log=None)
    assert done.entries == [(4, AT[2])]
    assert done.codes == ["log-missing"]


def test_verifying_shows_nothing():
    done = offsets(index((4, AT[2]), (7, AT[3])), verify_only=True)
    assert done.entries == []
    assert done.codes == ["index-offset-mismatch"]


@pytest.mark.parametrize(("data", "words", "codes"), [
    (SOUND, [f"{INDEX} passed"], []), (SOUND[:-3], [], ["index-corrupt"]), (index((1, AT[2])), [f"{INDEX} passed"], []),
    (SOUND + bytes(80), [f"{INDEX} passed"], []),
])
def test_the_brokers_own_check_looks_at_no_log(data, words, codes):
    done = offsets(data, sanity_only=True)
    assert (done.words, done.codes, done.entries) == (words, codes, [])


def test_many_wrong_entries_are_counted(monkeypatch):
    monkeypatch.setattr("engine.dump.index_files._WRONG_KEPT", 2)
    done = offsets(index(*[(number, AT[3]) for number in (1, 2, 3, 4, 5)]))
    named = [finding for finding in done.findings if finding.code == "index-offset-mismatch"]
    assert [finding.where.position for finding in named] == [0, 8, None]
    assert (named[-1].what, named[-1].occurrences) == ("3 more entries", 3)


# ---- time indexes


def test_a_sound_time_index():
    done = timed(SOUND_TIMES)
    assert done.entries == [(1, 1), (5, 5), (7, 7)]
    assert (done.codes, done.lines) == ([], [])


def test_a_batch_must_end_at_the_entrys_offset():
    done = timed(times((1, 1), (4, 4), (9, 90)))
    assert done.codes == ["timeindex-offset-not-found"] * 2
    assert [finding.where for finding in done.findings] == [(TIMES, 12, 4), (TIMES, 24, 90)]
    assert done.lines == [
        f"The following indexed offsets are not found in :{WORKING_DIRECTORY}/{TIMES}", "Indexed offset: 4, found log offset: 5",
        "Indexed offset: 90, found log offset: -1",
    ]


def test_the_timestamp_is_the_largest_of_the_batch():
    done = timed(times((1, 1), (4, 5)))
    assert done.codes == ["timeindex-timestamp-mismatch"]
    assert done.lines[1:] == ["  Index timestamp: 4, log timestamp: 5"]


def test_timestamps_grow():
    done = timed(times((5, 5), (5, 5), (7, 7)))
    assert done.codes == ["timeindex-out-of-order"]
    assert done.lines[1:] == ["  Index timestamp: 5, Previously indexed timestamp: 5"]


def test_the_largest_timestamp_is_read_from_the_records():
    """The header is not believed, as in Kafka; and of a batch that cannot be read whole nothing is said."""
    claimed = bytearray(BATCHES[0])
    claimed[35:43] = (99).to_bytes(8, "big")
    assert timed(times((1, 1)), bytes(claimed) + DATA[AT[1] :]).codes == []
    broken = bytearray(BATCHES[0])
    broken[61] = 0x7F
    assert timed(times((4, 1)), bytes(broken) + DATA[AT[1] :]).codes == ["record-invalid"]


def test_only_batches_that_an_entry_names_are_judged():
    broken = bytearray(BATCHES[1])
    broken[61] = 0x7F
    log = BATCHES[0] + bytes(broken) + emptied(4, 1) + DATA[AT[3] :]
    assert timed(times((1, 1), (7, 7)), log, beside=b"").codes == []
    assert timed(times((1, 1), (6, 7)), log, beside=b"").lines[1:] == ["  Index timestamp: 6, log timestamp: 7"]
    wide = batch(2, 40)
    log = BATCHES[0] + wide + batch(42, 2)
    assert timed(times((1, 1), (43, 43)), log, beside=b"", max_batch_bytes=len(wide) - 1).codes == []
    assert timed(times((1, 1), (41, 41)), log, beside=b"", max_batch_bytes=len(wide) - 1).codes == ["batch-too-large"]


def test_an_emptied_batch_has_lost_its_timestamps():
    assert timed(times((1, 1)), emptied(0, 1) + DATA[AT[1] :]).codes == []


def test_a_wrong_checksum_is_the_dump_of_the_logs_affair():
    assert timed(times((1, 1)), with_wrong_checksum(BATCHES[0]) + DATA[AT[1] :]).codes == []


def test_a_batch_larger_than_a_block_is_read_in_windows(monkeypatch):
    monkeypatch.setattr("engine.dump.batch_heads._BLOCK", 61)
    assert timed(SOUND_TIMES).codes == []
    assert timed(times((1, 1), (4, 5))).codes == ["timeindex-timestamp-mismatch"]
    assert timed(times((1, 1)), max_batch_bytes=10).codes == ["batch-too-large"]


def test_a_batch_too_small_for_its_header_has_no_timestamps():
    log = DATA[:8] + struct.pack(">i", 14) + DATA[12:]
    done = timed(times((1, 1)), log, beside=b"")
    assert done.codes == ["timeindex-timestamp-mismatch"]
    assert done.lines[1:] == ["  Index timestamp: 1, log timestamp: -1"]


@pytest.mark.parametrize("beside", [None, b"", SOUND, bytes(80), b"\xff" * 16, index((7, AT[3]))])
def test_whatever_the_offset_index_says_the_batch_is_found_or_reported(beside):
    done = timed(SOUND_TIMES, beside=beside)
    assert set(done.codes) <= {"index-missing", "timeindex-offset-not-found"}
    assert ("index-missing" in done.codes) == (beside is None)
    if beside in (None, b"", SOUND, bytes(80)):
        assert "timeindex-offset-not-found" not in done.codes


@pytest.mark.parametrize("offsets", [range(1500), [0] * 1500])
def test_a_log_is_walked_once_however_sparse_the_offset_index(monkeypatch, offsets):
    looked_at = []
    at = BatchHeads.at
    monkeypatch.setattr(BatchHeads, "at", lambda heads, *place: looked_at.append(place) or at(heads, *place))
    log = b"".join(batch(offset) for offset in offsets)
    done = timed(times(*[(number, number) for number in range(1, 1500)]), log, beside=b"")
    assert set(done.codes) == (set() if offsets[-1] else {"timeindex-offset-not-found"})
    assert len(looked_at) < 4 * 1500, "not the square of 1500"


def test_records_are_read_once_however_many_entries_name_their_batch(monkeypatch):
    windows = []
    chunks = ChunkReader.chunks
    monkeypatch.setattr(ChunkReader, "chunks", lambda reader, window: windows.append(window.rows) or chunks(reader, window))
    broken = bytearray(BATCHES[0])
    broken[61] = 0x7F
    done = timed(times(*[(number, 1) for number in range(1, 90)], *[(number, 5) for number in range(90, 200)]),
                 bytes(broken) + DATA[AT[1] :])  # fmt: skip
    assert done.codes.count("record-invalid") == 1
    assert sum(windows) <= 4 + 1 + 4


def test_an_open_time_index():
    done = timed(SOUND_TIMES + bytes(120))
    assert len(done.entries) == 3
    assert done.codes == ["index-zero-tail"]


def test_without_its_log_a_time_index_is_shown():
    done = timed(SOUND_TIMES, log=None)
    assert len(done.entries) == 3
    assert done.codes == ["log-missing"]


@pytest.mark.parametrize(("data", "words", "codes"), [
    (SOUND_TIMES, [f"{TIMES} passed"], []), (b"", [f"{TIMES} passed"], []), (SOUND_TIMES[:-1], [], ["index-corrupt"]),
    (SOUND_TIMES + bytes(12), [], ["index-corrupt"]),
])
def test_the_brokers_own_check_of_a_time_index(data, words, codes):
    done = timed(data, sanity_only=True)
    assert (done.words, done.codes, done.entries) == (words, codes, [])


def test_verifying_a_time_index_shows_nothing():
    done = timed(times((2, 1)), verify_only=True)
    assert (done.entries, done.codes) == ([], ["timeindex-timestamp-mismatch"])


def test_runs_of_sound_entries_hide_nothing(monkeypatch):
    """What is found at a glance is what every entry by itself shows, wherever indexes are wrong."""
    random = Random(26)
    ends = [1, 3, 5, 7]
    for _ in range(400):
        offsets = [(random.choice(ends), random.choice(AT)) if random.random() < 0.2 else pair for pair in zip(ends, AT, strict=False)]
        times = [(random.randrange(9), random.choice(ends)) if random.random() < 0.2 else (end, end) for end in ends]
        contents = {LOG: DATA[: random.choice([len(DATA)] * 3 + [AT[3] + 20])], INDEX: b"".join(struct.pack(">ii", *one) for one in offsets),
                    TIMES: b"".join(struct.pack(">qi", *one) for one in times)}  # fmt: skip
        for path in (INDEX, TIMES):
            at_a_glance = Dumped(contents, path)
            with monkeypatch.context() as patch:
                patch.setattr(BatchHeads, "sound_entries", lambda *_: (0, False))
                patch.setattr("engine.dump.index_files._TimeEntryCheck.sound_entries", lambda _self, _index, _number, _count, previous: (0, previous))
                one_by_one = Dumped(contents, path)
            for name in ("entries", "words", "findings", "lines"):
                assert getattr(at_a_glance, name) == getattr(one_by_one, name)


def test_a_time_index_without_problems_is_only_printed():
    """The result of the check that is made ahead is that of the dump, wherever the files are wrong."""
    random, results = Random(27), set()
    for _ in range(300):
        entries = [(random.randrange(9), random.choice([1, 3, 5, 7])) if random.random() < 0.1 else (end, end) for end in (1, 3, 5, 7)]
        contents = {TIMES: times(*entries) + bytes(random.choice([0, 0, 24])), LOG: DATA[: random.choice([len(DATA)] * 3 + [AT[3] + 20])],
                    INDEX: random.choice([SOUND, SOUND, index((5, AT[2]), (1, AT[0]))])}  # fmt: skip
        contents = {path: data for path, data in contents.items() if path == TIMES or random.random() < 0.95}
        checked = Dumped(contents, TIMES)
        is_sound = time_index_is_sound(MemoryFiles(contents), DumpOptions(), TIMES, LOG, INDEX, 0)
        of_the_log = {"timeindex-offset-not-found", "timeindex-timestamp-mismatch", "timeindex-out-of-order", "index-missing", "log-missing"}
        assert is_sound == (not of_the_log & set(checked.codes))
        if is_sound:
            printed = Dumped(contents, TIMES, is_sound=True)
            assert (printed.entries, printed.findings, printed.lines) == (checked.entries, checked.findings, checked.lines)
        results.add(is_sound)
    assert results == {True, False}

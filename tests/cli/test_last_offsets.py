"""Batches behind whose last offset there is no other: 2^63 − 1, and what goes round above it.

A broker that finds one at the end of a log takes the log for ended before its start, and removes all of it.
"""

from __future__ import annotations

import pytest

from engine.config.topic import LogConfig
from engine.files import Files, ReadOnlyFiles
from engine.formats import BATCH_HEADER, LONG_MAX
from engine.log.append.analysis import append_as_follower, append_as_leader
from engine.log.append_errors import InvalidRecord, OffsetsOutOfOrder
from engine.log.loading.loader import open_log
from tests.support.file_work import tree
from tests.support.run import kafkalog
from tests.support.small_logs import batch

NOW = "1700000000000"
NEAR = LONG_MAX - 10
_WHAT = "leaves no offset for the next batch"


def at(offset, count=1, **options):
    """A batch that claims to begin at `offset`: no checksum covers that."""
    made = bytearray(batch(0, count, **options))
    BATCH_HEADER.put("base_offset", made, 0, offset)
    return bytes(made)


# base offset of the segment, sound batches, the one that has none behind it, where it says that it begins
CASES = {
    "last": (NEAR, batch(NEAR, 3), at(NEAR + 3, 8), NEAR + 3),
    "wraps": (NEAR, batch(NEAR, 3), at(NEAR + 3, 20), NEAR + 3),
    "alone": (LONG_MAX, b"", at(LONG_MAX), LONG_MAX),
    "leaps": (0, batch(0, 3), at(LONG_MAX - 4, 5), LONG_MAX - 4),
    "leaps and wraps": (0, batch(0, 3), at(LONG_MAX - 4, 8), LONG_MAX - 4),
    "of a producer": (0, batch(0, 3, producer_id=5, producer_epoch=0, base_sequence=0),
                      at(LONG_MAX - 4, 5, producer_id=5, producer_epoch=0, base_sequence=3), LONG_MAX - 4),
}  # fmt: skip


@pytest.fixture(params=CASES)
def case(request, tmp_path):
    base, sound, last, claimed = CASES[request.param]
    directory = tmp_path / "logs" / "t-0"
    directory.mkdir(parents=True)
    (directory / f"{base:020d}.log").write_bytes(sound + last)
    return directory, base, sound, last, claimed


def names_are_of_kafka(directory):
    """No file is named for an offset that no Java long holds."""
    return all(int(path.name[:20]) <= LONG_MAX for path in directory.iterdir() if path.name[:20].isdigit())


@pytest.mark.parametrize("start", [(), ("--clean-start",)], ids=["unclean", "clean"])
def test_recover_cuts_it_and_keeps_it_in_quarantine(case, start):
    directory, base, sound, _, claimed = case
    before = tree(ReadOnlyFiles(), str(directory))
    done = kafkalog("recover", *start, "--now", NOW, str(directory))
    assert done.status == 1
    said = done.out.decode()
    assert f"truncated {base:020d}.log" in said
    assert f"at byte {len(sound)}: a batch from offset {claimed} on" in said
    assert _WHAT in said
    assert "lost with it" not in said
    assert (directory / f"{base:020d}.log").read_bytes() == sound
    assert names_are_of_kafka(directory)
    assert kafkalog("recover", "--dry-run", "--now", NOW, str(directory)).status == 0
    quarantine = next(path for path in directory.parents[1].iterdir() if "quarantine" in path.name)
    assert kafkalog("restore", str(quarantine)).status == 0
    assert tree(ReadOnlyFiles(), str(directory)) == before


def test_recover_finds_it_behind_indexes_that_are_there(case):
    """Nothing but the end of the log says so then: a clean start reads no more."""
    directory, base, sound, last, _ = case
    log = directory / f"{base:020d}.log"
    log.write_bytes(sound)
    assert kafkalog("recover", "--now", NOW, "--no-quarantine", str(directory)).status in (0, 1)
    log.write_bytes(sound + last)
    done = kafkalog("recover", "--clean-start", "--now", NOW, str(directory))
    assert _WHAT in done.out.decode()
    assert log.read_bytes() == sound
    assert names_are_of_kafka(directory)


def test_nothing_else_changes_such_a_log(case):
    directory, *_ = case
    before = tree(ReadOnlyFiles(), str(directory))
    for words in (["roll"], ["retain"], ["truncate", "--to", "1"], ["delete-records", "--before", "1"], ["append", "--input", __file__, "--input-format", "text"],
                  ["compact", "--config", "cleanup.policy=compact"]):  # fmt: skip
        done = kafkalog(*words, "--now", NOW, str(directory))
        assert done.status == 4, words
        assert _WHAT in done.err, words
        assert tree(ReadOnlyFiles(), str(directory)) == before


def test_verify_index_names_it(case):
    directory, base, sound, _, claimed = case
    done = kafkalog("verify", str(directory))
    assert done.status == 4
    if base < NEAR:  # segments that begin higher are not looked at
        assert f"no-offset-left] {directory}/{base:020d}.log at byte {len(sound)}, offset {claimed}:" in done.err


def test_fetch_ends_before_it_and_says_so(case):
    directory, base, sound, _, claimed = case
    done = kafkalog("fetch", "--raw", "--offset", str(base), str(directory))
    assert done.out == sound
    assert done.status == 4
    assert f"no-offset-left] {directory}/{base:020d}.log at byte {len(sound)}, offset {claimed}:" in done.err


def test_salvage_keeps_what_follows_it(tmp_path):
    directory = tmp_path / "t-0"
    directory.mkdir()
    first, last = batch(0, 3), batch(3, 3)
    (directory / f"{0:020d}.log").write_bytes(first + at(LONG_MAX - 4, 5) + last)
    assert kafkalog("recover", "--salvage", "--now", NOW, str(directory)).status == 1
    assert (directory / f"{0:020d}.log").read_bytes() == first + last


def test_a_split_leaves_it_out(tmp_path):
    directory = tmp_path / "t-0"
    directory.mkdir()
    first, leap = batch(0, 3), at(2**40, 2)
    (directory / f"{0:020d}.log").write_bytes(first + leap + at(LONG_MAX - 4, 5))
    done = kafkalog("recover", "--now", NOW, str(directory))
    assert f"at byte {len(first + leap)}: a batch from offset {LONG_MAX - 4} on {_WHAT}" in done.out.decode()
    assert (directory / f"{2**40:020d}.log").read_bytes() == leap
    assert sorted(path.name for path in directory.glob("*.log")) == [f"{0:020d}.log", f"{2**40:020d}.log"]
    assert names_are_of_kafka(directory)


@pytest.fixture
def nearly_full(tmp_path):
    """A log with two offsets left that may be used."""
    yield from filled(tmp_path)


@pytest.fixture
def nearly_full_gzip(tmp_path):
    yield from filled(tmp_path, {"compression.type": "gzip"})


def filled(tmp_path, settings=None):
    directory = tmp_path / "t-0"
    directory.mkdir()
    (directory / f"{NEAR:020d}.log").write_bytes(batch(NEAR, 8, partition_leader_epoch=0))
    log = open_log(Files(), str(directory), LogConfig.of(settings or {}), now=int(NOW), clean_shutdown=False)
    yield log
    log.close()
    assert names_are_of_kafka(directory)


def test_a_follower_does_not_take_it(nearly_full):
    for count, refusal in ((3, InvalidRecord), (4, OffsetsOutOfOrder)):
        with pytest.raises(refusal):
            append_as_follower(nearly_full, bytearray(at(LONG_MAX - 2, count, partition_leader_epoch=0)), 0)
    append_as_follower(nearly_full, bytearray(at(LONG_MAX - 2, 2, partition_leader_epoch=0)), 0)
    assert nearly_full.log_end_offset == LONG_MAX


@pytest.mark.parametrize("log", ["nearly_full", "nearly_full_gzip"])
def test_a_leader_gives_no_record_the_last_offset(log, request):
    nearly_full = request.getfixturevalue(log)
    with pytest.raises(InvalidRecord, match="there are not enough offsets left for the records"):
        append_as_leader(nearly_full, bytearray(batch(0, 3)), 0)
    append_as_leader(nearly_full, bytearray(batch(0, 2)), 0)
    assert nearly_full.log_end_offset == LONG_MAX


def test_lines_that_find_no_offset_are_refused(nearly_full, tmp_path):
    nearly_full.close()
    lines = tmp_path / "lines"
    lines.write_text("a\nb\nc\n")
    done = kafkalog("append", "--input", str(lines), "--input-format", "text", "--batch-size", "1", "--now", NOW, str(tmp_path / "t-0"))
    assert done.status == 4
    assert f"offsets {LONG_MAX - 2} to {LONG_MAX - 1}" in done.out.decode()
    assert "there are not enough offsets left for the records" in done.err + done.out.decode()

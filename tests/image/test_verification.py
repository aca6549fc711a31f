"""Metadata logs are verified: every snapshot of a real controller is equal, and no flipped bit goes unseen."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from contextlib import suppress

import pytest

from engine.errors import KafkalogError
from engine.files import ReadOnlyFiles
from engine.image.records import MetadataLog
from engine.image.replay import image_at
from engine.image.verification import Comparison, check_agreement, verify_log
from engine.record.batch import read_batches
from tests.support.corpus import corpus_directory
from tests.support.metadata_records import batch, change, leader_change, partition, topic, write_log, write_snapshot

FILES = ReadOnlyFiles()
PLACE = "__cluster_metadata-0"
HEAD = 21  # bytes of a batch, of which the checksum covers none


def _verified(directory):
    found = []
    return verify_log(FILES, str(directory), found.append), found


def _agreement(*directories):
    found = []
    agreed = check_agreement(FILES, [_verified(one)[0] for one in directories], found.append)
    return agreed, [(one.code, one.where.offset) for one in found]


def _comparisons(log):
    return [one.comparison for one in log.snapshots]


# ---- logs of real controllers


def test_every_snapshot_of_a_controller_is_equal(cluster_corpus):
    seen: Counter[Comparison] = Counter()
    corpora = [*cluster_corpus.glob("[dfo]*/*/n*"), *cluster_corpus.glob("preflight/base/n*"), *corpus_directory().glob("*/logs/*")]
    for directory in (path for top in corpora for path in (*top.glob(f"d*/{PLACE}"), *top.glob(PLACE))):
        log, found = _verified(directory)
        assert not found, (directory, found)
        for one in log.snapshots:
            seen[one.comparison] += 1
            assert one.comparison is Comparison.EQUAL or one.snapshot.end_offset == 0
    assert seen[Comparison.EQUAL] >= 10


def test_controllers_agree(cluster_corpus):
    states = [*cluster_corpus.glob("forks*/*"), *cluster_corpus.glob("ops*/*")]
    found = [one for one in (sorted(state.glob(f"n*/d0/{PLACE}")) for state in states) if one]
    assert found, "the corpus has no metadata log: nothing would be compared"
    for directories in found:
        agreed, findings = _agreement(*directories)
        assert {code for code, _ in findings} <= {"metadata-uncommitted"}  # of a controller that died before its followers had all
        assert agreed + len(findings) == len(directories)


@pytest.fixture(scope="module")
def copied(own_cluster_corpus, tmp_path_factory):
    directory = tmp_path_factory.mktemp("controller") / PLACE
    shutil.copytree(own_cluster_corpus / "forks/1-forked/n1/d0" / PLACE, directory, copy_function=shutil.copyfile)
    directory.chmod(0o755)
    assert _verified(directory)[1] == []
    return directory


@pytest.mark.parametrize("suffix", ["*.log", "*.checkpoint"])
def test_no_flipped_bit_goes_unseen_or_ends_in_a_traceback(copied, suffix):
    path, rng = max(copied.glob(suffix), key=lambda one: one.stat().st_size), random.Random(6)
    data = path.read_bytes()
    with FILES.open(str(path)) as file:
        begins = [one.position for one in read_batches(file, pytest.fail)]
    spots = [begin + rng.randrange(HEAD) for begin in rng.choices(begins, k=15)] + rng.choices(range(len(data)), k=10)
    for spot in [*spots, *range(17), begins[-1] + 15]:  # the epoch of the last batch, too
        flipped = bytearray(data)
        flipped[spot] ^= 1 << rng.randrange(8)
        path.write_bytes(flipped)
        log, found = _verified(copied)
        assert found, spot
        assert all(one.where.file == str(path) or one.code in ("quorum-state-old", "metadata-snapshot-mismatch") for one in found)
        with suppress(KafkalogError):
            image_at(FILES, str(copied), lambda _: None)
        assert log.directory == str(copied)
    path.write_bytes(data)


# ---- what is wrong is named


def _log(tmp_path, *more):
    return write_log(tmp_path / PLACE, leader_change(0, 1), batch(1, 1, topic(), partition()), *more)


def test_a_snapshot_of_another_state_is_different(tmp_path):
    log = _log(tmp_path, batch(3, 1, change(leader=2)))
    write_snapshot(log, 3, 1, topic(), partition())
    assert _comparisons(_verified(log)[0]) == [Comparison.EQUAL]
    path = write_snapshot(log, 4, 1, topic(), partition())
    verified, found = _verified(log)
    assert _comparisons(verified) == [Comparison.EQUAL, Comparison.DIFFERENT]
    assert [(one.code, one.where.file, one.what) for one in found] == [
        ("metadata-snapshot-mismatch", str(path), "1 node not as in the log: /topics/orders/0"),
    ]  # fmt: skip


def test_a_snapshot_beyond_the_log_or_before_it_is_not_called_equal(tmp_path):
    log = write_log(tmp_path, leader_change(5, 1), batch(6, 1, topic()), base=5)
    write_snapshot(log, 3, 1)
    write_snapshot(log, 5, 0)
    write_snapshot(log, 9, 1, topic())
    verified, found = _verified(log)
    assert _comparisons(verified) == [Comparison.NOT_COMPARABLE] * 3
    assert [one.why for one in verified.snapshots][2] == "the log ends at offset 7"
    assert (found, verified.records) == ([], 2)


def test_a_snapshot_without_its_footer_is_incomplete(tmp_path):
    log = _log(tmp_path)
    path = write_snapshot(log, 3, 1, topic(), partition())
    data = path.read_bytes()
    end = data.rindex(b"\x00\x00\x00\x00\x00\x00\x00\x03")  # the base offset of the footer
    path.write_bytes(data[:end])
    verified, found = _verified(log)
    assert (_comparisons(verified), [one.code for one in found]) == ([Comparison.DAMAGED], ["metadata-snapshot-incomplete"])


@pytest.mark.parametrize(("batches", "code", "offset"), [
    ((batch(4, 1, change(leader=2)),), "metadata-gap", 4),
    ((batch(3, 0, change(leader=2)),), "epoch-order", 3),
    ((batch(3, 4, change(leader=2)),), "epoch-order", 3),  # no LeaderChange record
    ((leader_change(3, 4), batch(4, 4, change(9))), "metadata-record-invalid", 4),
])  # fmt: skip
def test_the_first_failing_record_is_named(tmp_path, batches, code, offset):
    _, found = _verified(_log(tmp_path, *batches))
    assert [(one.code, one.where.offset) for one in found] == [(code, offset)]


def test_a_lost_segment_is_a_gap(tmp_path):
    log = _log(tmp_path)
    write_log(log, batch(4, 1, change(leader=2)), base=4)
    _, found = _verified(log)
    assert [(one.code, one.where.offset) for one in found] == [("metadata-gap", 4)]


def test_nothing_but_snapshots_is_no_sound_log(tmp_path):
    log = _log(tmp_path)
    write_snapshot(log, 3, 1, topic(), partition())
    next(log.glob("*.log")).unlink()
    assert [one.code for one in _verified(log)[1]] == ["metadata-gap"]


def test_quorum_state_may_not_lag(tmp_path):
    log = _log(tmp_path, leader_change(3, 95))
    assert [one.code for one in _verified(log)[1]] == ["quorum-state-old"]
    (log / "quorum-state").unlink()
    assert [one.what for one in _verified(log)[1]] == ["the file is missing"]


def test_an_uncommitted_end_is_harmless_and_another_record_is_not(tmp_path):
    new = _log(tmp_path / "new", leader_change(3, 2), batch(4, 2, change(leader=2)))
    old = _log(tmp_path / "old", batch(3, 1, change(isr=[1]), change(isr=[2])))
    assert _agreement(new, old) == (1, [("metadata-uncommitted", 3)])
    write_snapshot(old, 4, 1, topic(), partition(isr=[1], partitionEpoch=1))
    assert _agreement(new, old) == (1, [("metadata-disagree", 3)]), "a snapshot has committed records only"
    other = _log(tmp_path / "other", leader_change(3, 2), batch(4, 2, change(leader=-1)))
    assert _agreement(new, other) == (1, [("metadata-disagree", 4)])


def test_files_of_the_log_in_order(tmp_path):
    log = _log(tmp_path)
    (log / "00000000000000000009.log.deleted").write_bytes(b"x")
    (log / "00000000000000000007-0000000001.checkpoint.part").write_bytes(b"x")
    found = MetadataLog(FILES, str(log), pytest.fail)
    assert ([base for base, _ in found.logs], found.snapshots) == ([0], [])


def test_a_log_without_its_beginning_is_not_called_sound(tmp_path):
    log = write_log(tmp_path / PLACE, leader_change(5, 1), batch(6, 1, topic()), base=5)
    verified, found = _verified(log)
    assert (verified.is_sound, verified.is_replayable, verified.records) == (False, False, 0)
    assert [one.code for one in found] == ["metadata-gap"]


def test_why_a_snapshot_is_not_compared(tmp_path):
    log = write_log(tmp_path / PLACE, leader_change(5, 1), batch(6, 1, topic()), base=5)
    write_snapshot(log, 3, 1)
    write_snapshot(log, 6, 1)
    why = "the log lacks offsets 3 to 4, between the sound snapshot before it and its own begin"
    assert [one.why for one in _verified(log)[0].snapshots] == ["the log has no records before it", why]


def test_zeros_at_the_end_are_no_damage_unless_records_were_there(tmp_path):
    log = _log(tmp_path, bytes(4096))
    verified, found = _verified(log)
    assert (verified.is_sound, verified.zeros, [one.code for one in found]) == (True, 4096, ["zero-tail"])
    write_snapshot(log, 9, 1, topic(), partition())
    assert not _verified(log)[0].is_sound
    (log / "00000000000000000009-0000000001.checkpoint").unlink()
    write_log(log, batch(4, 1, change(leader=2)), base=4)
    assert not _verified(log)[0].is_sound, "a record before the next segment is missing"

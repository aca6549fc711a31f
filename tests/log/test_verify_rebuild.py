"""Rebuilding: the very bytes that the real engine's recovery left, the log untouched, and never from a damaged log."""

from __future__ import annotations

import shutil

import pytest

from engine.checkpoint.producer_snapshot import ProducerSnapshot
from engine.config.topic import LogConfig
from engine.files import Files, ReadOnlyFiles
from engine.findings import Severity
from engine.log.errors import LogDamaged
from engine.log.loading.loader import open_log
from engine.log.producers import state_manager
from engine.log.verify.partition import verify_partition
from engine.log.verify.rebuild import Rebuilder
from tests.support.cases import cases, differences
from tests.support.floors import saw_enough
from tests.support.producer_logs import PRODUCERS, Event, build

INDEXES = (".index", ".timeindex", ".txnindex")
# whole recoveries, whose log is sound afterwards: every index in them was written by LogSegment.recover
CASES = [case for case in cases(frozenset({"recover"})) if not case.failed and not case.data.get("recoveryPoint")]
# what Kafka leaves as it is: gaps and names are no reason to rebuild nothing, the others are where the log has them
A_DAY = 86_400_000  # producer.id.expiration.ms
HARMLESS = {"offset-gap", "name-invalid", "epoch-order"}
REFUSED = {"offset-order", "unknown-magic"}


def findings_of(directory):
    findings = []
    verify_partition(ReadOnlyFiles(), str(directory), findings.append)
    return findings


def bad(findings):
    return [finding for finding in findings if finding.severity is not Severity.INFO]


def codes(findings):
    return {finding.code for finding in bad(findings)}


def rebuild(case, directory, findings):
    config = LogConfig.of(case.settings())
    return Rebuilder(Files(), str(directory), config, findings, case.data["now"]).run()


def has_expired_producers(case):
    """Does a snapshot know a producer whose last record is older than a day?"""
    snapshots = [ProducerSnapshot.read(ReadOnlyFiles(), str(path)) for path in case.expected.glob("*/*.snapshot")]
    return any(entry.timestamp < case.data["now"] - A_DAY for snapshot in snapshots for entry in snapshot)


def damage_lost(directory):
    for path in directory.iterdir():
        if path.suffix in INDEXES:
            path.unlink()


def damage_cut(directory):
    for path in directory.iterdir():
        if path.suffix in INDEXES and path.stat().st_size > 1:
            path.write_bytes(path.read_bytes()[:-1])


def damage_garbage(directory):
    for path in directory.iterdir():
        if path.suffix in (*INDEXES, ".snapshot") and path.stat().st_size:
            path.write_bytes(b"\x17\xff" * (path.stat().st_size // 2 + 40))


@pytest.mark.parametrize("damage", [damage_lost, damage_cut, damage_garbage])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_rebuilt_is_what_kafka_wrote(case, damage, tmp_path):
    shutil.copytree(case.expected, tmp_path, dirs_exist_ok=True)
    directory = next(path for path in tmp_path.iterdir() if path.is_dir())
    left = bad(findings_of(directory))
    known = {"sequence-order"} if case.name == "recover-sequence-duplicate" else set()  # its batches have duplicates
    assert codes(left) <= HARMLESS | REFUSED | {"epochs-mismatch"} | known
    damage(directory)
    findings = findings_of(directory)
    if any(finding.code in REFUSED and finding.where.file.endswith(".log") for finding in left):
        with pytest.raises(LogDamaged):
            rebuild(case, directory, findings)
        return
    if codes(findings) == codes(left):  # nothing was there to be damaged
        assert damage is damage_cut or not any(file.stat().st_size for file in case.expected.glob("*/*index"))
        return
    rebuild(case, directory, findings)
    mended = {"leader-epoch-checkpoint"} if "epochs-mismatch" in codes(left) else set()  # Kafka left a wrong one
    if has_expired_producers(case):
        mended.add(".snapshot")  # who is left out depends on where its engine began to read
    assert codes(findings_of(directory)) == codes(left) & (HARMLESS | known)
    lines = [line for line in differences(case.expected, tmp_path) if not any(name in line for name in mended)]
    assert [line for line in lines if not line.startswith("no ")] == []
    for line in lines:  # nothing misses an index of an empty segment
        assert (case.expected / line.removeprefix("no ")).stat().st_size == 0


def test_there_are_recoveries_to_rebuild():
    saw_enough("whole recoveries", len(CASES), 51)


@pytest.fixture
def partition(own_corpus, tmp_path):
    shutil.copytree(own_corpus / "kafka-4.3.1/cases/recover-open-transaction/expected/topic-0", tmp_path / "topic-0")
    return tmp_path / "topic-0"


def rebuilder(directory, findings):
    return Rebuilder(Files(), str(directory), LogConfig.of({"index.interval.bytes": "256"}), findings, 1_700_003_600_000)


def test_epochs_come_from_the_batches(partition):
    path = partition / "leader-epoch-checkpoint"
    before = path.read_bytes()
    for text in ("garbage", "", "0\n1\n7 0\n"):
        path.write_text(text)
        assert rebuilder(partition, findings_of(partition)).run() == ["leader-epoch-checkpoint"]
        assert path.read_bytes() == before


def test_only_what_is_broken_is_written(partition):
    (partition / "00000000000000000045.timeindex").unlink()
    times = {path.name: path.stat().st_mtime_ns for path in partition.iterdir()}
    names = rebuilder(partition, findings_of(partition)).run()
    assert all(name.startswith("00000000000000000045.") for name in names)
    changed = {path.name for path in partition.iterdir() if times.get(path.name) != path.stat().st_mtime_ns}
    assert changed <= set(names)
    assert "00000000000000000045.log" not in changed


def test_a_damaged_log_is_left_to_recovery(partition):
    log = partition / "00000000000000000045.log"
    log.write_bytes(log.read_bytes() + bytes(50))
    (partition / "00000000000000000000.index").unlink()
    before = {path.name: path.read_bytes() for path in partition.iterdir()}
    with pytest.raises(LogDamaged, match="zero bytes after the last batch"):
        rebuilder(partition, findings_of(partition)).run()
    assert {path.name: path.read_bytes() for path in partition.iterdir()} == before


def recovered(directory):
    """A partition of 22 segments, each with a broken snapshot but the first."""
    directory.mkdir()
    log = [Event(PRODUCERS[number % 4], ("plain", "transactional", "plain", "commit")[number // 4 % 4], 2) for number in range(64)]
    batches = build(log)
    for number in range(0, len(batches), 3):
        base = int.from_bytes(batches[number][:8], "big")
        (directory / f"{base:020}.log").write_bytes(b"".join(batches[number : number + 3]))
    config = LogConfig.of({"index.interval.bytes": "1"})
    open_log(Files(), str(directory), config, now=2000, clean_shutdown=False).close()
    for path in directory.glob("*.snapshot"):
        path.unlink()
    for path in sorted(directory.glob("*.log"))[1:]:
        (directory / f"{path.stem}.snapshot").write_bytes(b"broken")
    return directory, config


def lost(directory, every):
    """All indexes and one of `every` snapshots."""
    for path in directory.iterdir():
        if path.suffix in INDEXES:
            path.unlink()
    for path in sorted(directory.glob("*.snapshot"))[::every]:
        path.write_bytes(b"broken")


def run_again(directory, config, now):
    return Rebuilder(Files(), str(directory), config, findings_of(directory), now).run()


@pytest.mark.parametrize("now", [2000, 1_700_000_000_000])  # all producers in the snapshots have expired by then
@pytest.mark.parametrize("every", [1, 3, 7])
def test_each_batch_is_read_for_its_producers_a_few_times_at_most(tmp_path, monkeypatch, now, every):
    directory, config = recovered(tmp_path / "t-0")
    run_again(directory, config, 2000)
    count = len(list(directory.glob("*.snapshot")))
    assert count == 21
    lost(directory, every)
    alone = shutil.copytree(directory, tmp_path / "alone" / "t-0")
    loads, load = [], state_manager._load_segment
    monkeypatch.setattr(state_manager, "_load_segment", lambda *arguments: (loads.append(arguments), load(*arguments)))
    names = run_again(directory, config, now)
    assert len(loads) <= 2 * (count + 1)
    with monkeypatch.context() as patch:
        patch.setattr(Rebuilder, "_leads_to", lambda *_: False)
        assert run_again(alone, config, now) == names
    if every == 1:
        assert len(loads) > count * count // 2
    left, wanted = ({path.name: path.read_bytes() for path in one.iterdir()} for one in (directory, alone))
    assert left == wanted


def test_nothing_broken_nothing_done(partition):
    assert rebuilder(partition, findings_of(partition)).run() == []

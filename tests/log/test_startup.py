"""What a starting broker does is foreseen in its words, mended where it can be, and named where it cannot."""

from __future__ import annotations

import pytest

from engine.config.server import Settings
from engine.files import Files, ReadOnlyFiles
from engine.log.logdir.log_dirs import find_log_dirs
from engine.log.logdir.log_manager import LogManager
from engine.log.logdir.start_problems import find_start_problems
from engine.log.logdir.startup import survey
from engine.log.operations.recover import RecoverOptions, recover
from engine.log.report import Action
from engine.overlay import OverlayFiles
from tests.support.file_work import tree
from tests.support.log_dir_damage import DAMAGES, clean_pair
from tests.support.run import kafkalog

NOW = 1_764_000_000_000


def problems(top):
    files = ReadOnlyFiles()
    return find_start_problems(files, survey(files, find_log_dirs(files, [str(top)])))


def recover_all(files, top, **options):
    cluster = survey(files, find_log_dirs(files, [str(top)]))
    reports = list(recover(LogManager(lambda _log_dir: files, cluster, Settings(), NOW), RecoverOptions(**options)))
    assert not any(report.failure for report in reports)
    return reports


def bare(reports):
    return [(report.directory, report.events, report.log_end_offset) for report in reports]


@pytest.mark.parametrize("name", DAMAGES)
def test_each_damage_is_foreseen_and_mended(name, own_corpus, tmp_path):
    damage = DAMAGES[name]
    top = clean_pair(own_corpus, tmp_path, name)
    found = problems(top)
    assert [problem.effect.name for problem in found] == ([] if damage.effect is None else [damage.effect])
    assert all(damage.said in (problem.message or "") for problem in found)
    assert all(problem.do or damage.mended for problem in found), "what is left to people comes with advice"
    before = tree(ReadOnlyFiles(), str(top))
    foretold = recover_all(OverlayFiles(ReadOnlyFiles(), NOW), top, mark_clean=True)
    assert tree(ReadOnlyFiles(), str(top)) == before
    done = recover_all(Files(), top, mark_clean=True)
    assert bare(done) == bare(foretold)
    left = [] if damage.mended else [damage.effect]
    assert [problem.effect.name for problem in problems(top)] == left
    refused = [event for report in done for event in report.events if event.action is Action.REFUSED]
    assert bool(refused) == (not damage.mended)
    if name == "metadata":
        assert tree(ReadOnlyFiles(), str(top)) == before, "nothing is done without --accept-metadata-loss"
        return
    is_marked = [(top / log_dir / ".kafka_cleanshutdown").exists() for log_dir in ("d0", "d1")]
    harmed = {problem.log_dir[-2:] for problem in found} if not damage.mended else set()
    assert is_marked == ["d0" not in harmed, "d1" not in harmed]


@pytest.mark.parametrize("named", [["tx-0"], ["./tx-0"], ["../d0/multi-2", "../link/tx-0"]])
def test_partitions_are_mended_however_their_paths_are_spelled(named, own_corpus, tmp_path, monkeypatch):
    top = clean_pair(own_corpus, tmp_path, "no topic id")
    lost = top / "d0/tx-0/partition.metadata"
    lost.unlink(missing_ok=True)
    (top / "link").symlink_to("d0")
    monkeypatch.chdir(top / "d0")
    done = kafkalog("recover", "--dry-run", "--now", str(NOW), *named)
    assert " would rebuild partition.metadata - the topic's id " in done.out.decode(), done.err
    files = Files()
    cluster = survey(files, find_log_dirs(files, named))
    reports = list(recover(LogManager(lambda _: files, cluster, Settings(), NOW), RecoverOptions()))
    assert not reports[-1].is_refused
    assert not any(report.failure for report in reports)
    assert lost.read_bytes() == (own_corpus / "kafka-4.3.1/logs/clean/d0/tx-0/partition.metadata").read_bytes()


def test_what_is_rebuilt_is_what_was_there(own_corpus, tmp_path):
    top = clean_pair(own_corpus, tmp_path, "no topic id")
    (top / "d1/meta.properties").unlink()
    (top / "d0/tx-0/leader-epoch-checkpoint").write_bytes(b"garbage")
    recover_all(Files(), top)
    origin = own_corpus / "kafka-4.3.1/logs/clean"
    for path in ("d0/tx-0/partition.metadata", "d0/tx-0/leader-epoch-checkpoint"):
        assert (top / path).read_bytes() == (origin / path).read_bytes()
    for log_dir in ("d0", "d1"):
        lines = [set(one.read_text().splitlines()) for one in (top / log_dir / "meta.properties", origin / log_dir / "meta.properties")]
        assert {line for line in lines[0] if line[0] != "#"} == {line for line in lines[1] if line[0] != "#"}


def test_metadata_loss_is_the_loudest_and_stops_everything(own_corpus, tmp_path):
    top = clean_pair(own_corpus, tmp_path, "metadata")
    before = tree(ReadOnlyFiles(), str(top))
    done = kafkalog("recover", str(top))
    assert done.status == 4
    text = done.out.decode()
    assert "Corruption found in segment 0, truncating to offset" in text
    assert " partition directories to -stray" in text
    assert "--accept-metadata-loss" in text
    left = tree(ReadOnlyFiles(), str(top))
    assert {name: data for name, data in left.items() if not name.endswith(".lock")} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs"], "and no quarantine is left"
    done = kafkalog("recover", "--accept-metadata-loss", "--no-quarantine", str(top / "d0"))
    assert done.status == 1
    assert "truncated 00000000000000000000.log" in done.out.decode()


def test_a_torn_end_of_the_metadata_log_is_no_loss(own_corpus, tmp_path):
    top = clean_pair(own_corpus, tmp_path, "nothing")
    log = max((top / "d0/__cluster_metadata-0").glob("*.log"))
    size = log.stat().st_size
    with log.open("r+b") as file:
        file.truncate(size - 5)
    assert problems(top) == []
    with log.open("r+b") as file:  # of the last batch only the beginning reached the disk
        file.truncate(size + 4096)
    assert problems(top) == []


def test_damage_to_the_last_whole_batch_of_the_metadata_log_is_a_loss(own_corpus, tmp_path):
    top = clean_pair(own_corpus, tmp_path, "nothing")
    log = max((top / "d0/__cluster_metadata-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    data[-3] ^= 1
    log.write_bytes(data)
    assert [problem.effect.name for problem in problems(top)] == ["LOSES_TOPICS"]

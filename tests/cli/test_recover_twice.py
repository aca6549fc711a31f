"""A second recover directly behind a first one has nothing to do, on what brokers of all ages left behind."""

from __future__ import annotations

import shutil

import pytest

from engine.files import ReadOnlyFiles
from tests.support.corpus import corpus_directory
from tests.support.file_work import tree
from tests.support.floors import saw_enough
from tests.support.json_output import reports_of
from tests.support.run import kafkalog

HARMLESS = ("kept", "recovered", "explained", "missing", "refused")  # nothing is changed by these
NOW = "1764000000000"


def log_dirs():
    """Of every version of Kafka, sound and not."""
    top = corpus_directory()
    folders = [*top.glob("old/*/logs"), *top.glob("kafka-4.3.1/logs/unclean"), *top.glob("kafka-4.3.1/logs/killed*")]
    found = {path.parent.parent for folder in folders for path in (*folder.rglob("*.log"), *folder.rglob("*.kafka"))}
    return sorted(str(path.relative_to(top)) for path in found)


LOG_DIRS = log_dirs()


@pytest.mark.parametrize("how", [(), ("--salvage",)], ids=["cut", "salvage"])
@pytest.mark.parametrize("path", LOG_DIRS)
def test_a_second_recover_changes_nothing_and_cuts_nothing(path, how, tmp_path):
    log_dir = tmp_path / "data"
    shutil.copytree(corpus_directory() / path, log_dir)
    words = ("recover", "--now", NOW, "--format", "json", "--accept-metadata-loss", *how, str(log_dir))
    first = kafkalog(*words)
    if how and "0.7" in path:  # damage cannot be taken out of a log of byte offsets
        assert first.status == 2
        return
    assert first.status in (0, 1, 4), first.err
    left = tree(ReadOnlyFiles(), str(tmp_path))
    second = kafkalog(*words)
    assert second.status in (0, 4), second.err
    assert tree(ReadOnlyFiles(), str(tmp_path)) == left
    done = [event for one in reports_of(second.out) for event in one.get("events", ())]
    assert [event for event in done if event["action"] not in HARMLESS] == []


def test_what_no_snapshot_knows_of_a_transaction_that_began_before_the_log_stays(own_corpus, tmp_path):
    """The first recovery removes the snapshot at the first segment, as a broker does; the second one changes nothing."""
    log_dir = tmp_path / "d0"
    log_dir.mkdir()
    source = own_corpus / "kafka-4.3.1/logs/clean/d0"
    shutil.copy(source / "meta.properties", log_dir)
    partition = shutil.copytree(source / "tx-0", log_dir / "tx-0")
    (partition / f"{0:020}.log").unlink()
    index = partition / f"{7:020}.txnindex"
    aborted = index.read_bytes()
    words = ("recover", "--now", NOW, "--no-quarantine", "--mark-clean", str(log_dir))
    first, left = kafkalog(*words), tree(ReadOnlyFiles(), str(log_dir))
    assert (first.status, (partition / f"{7:020}.snapshot").exists()) == (4, False)
    second = kafkalog(*words).out.decode()
    assert tree(ReadOnlyFiles(), str(log_dir)) == left
    assert "the marker is unchanged" in second
    index.write_bytes(aborted[:10] + bytes([aborted[10] ^ 64]) + aborted[11:])  # of a producer without a marker there
    kafkalog(*words)
    assert index.read_bytes() == aborted[34:]


def test_there_is_something_to_recover():
    saw_enough("log dirs", len(LOG_DIRS), 14)

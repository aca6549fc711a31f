"""Commands that read records say which offsets are lost among them, in the words of `verify`: a gap looks like compaction."""

from __future__ import annotations

import os
import shutil
from functools import partial
from itertools import chain

import pytest

from engine.files import ReadOnlyFiles
from engine.log.fetch.lost_offsets import lost_offsets
from engine.log.logdir.topics import policy_beside
from engine.log.verify.partition import verify_partition
from tests.support.json_output import objects_of
from tests.support.lost_batches import cut_out
from tests.support.run import kafkalog

PARTITION = "small_segments-0"  # segments 0, 22, 42, 63, 83; it ends at 89; keys do not repeat
READERS = {
    "fetch": ("fetch",), "merge": ("fetch", "--merge"), "raw": ("fetch", "--raw"),
    "export": ("export", "--as", "jsonl", "--to", "-"), "grep": ("grep", "."), "grep -c": ("grep", "-c", "."),
    "dump-log": ("dump-log",), "dump-log --count": ("dump-log", "--count"),
}  # fmt: skip
JSON = {
    "fetch": ("fetch", "--format", "jsonl"), "grep": ("grep", "--format", "jsonl", "."),
    "dump-log": ("dump-log", "--format", "jsonl"), "export": ("export", "--as", "csv", "--format", "jsonl", "--to"),
}  # fmt: skip


@pytest.fixture
def partition(own_corpus, tmp_path):
    """In a log dir with its metadata log beside it."""
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean", tmp_path / "logs")
    shutil.copytree(tmp_path / "logs/d0/__cluster_metadata-0", tmp_path / "logs/d1/__cluster_metadata-0")
    return tmp_path / "logs/d1" / PARTITION


def drop(partition, base):
    for path in partition.glob(f"{base:020}.*"):
        path.unlink()


def said(done):
    """The lines about lost offsets."""
    return [line for line in done.err.splitlines() if "[offset-gap]" in line]


@pytest.mark.parametrize("words", READERS.values(), ids=READERS)
def test_a_segment_that_is_missing_between_others_is_told_in_the_words_of_verify(partition, words):
    drop(partition, 42)
    (told,) = said(kafkalog("verify", str(partition)))
    assert "no segment holds offsets 42 to 62" in told
    done = kafkalog(*words, str(partition))
    assert (said(done), done.status) == ([told], 4)


@pytest.mark.parametrize("words", JSON.values(), ids=JSON)
def test_the_same_in_json(partition, tmp_path, words):
    drop(partition, 42)
    (told,) = [one for one in objects_of(kafkalog("verify", "--format", "jsonl", str(partition)).out) if one.get("code") == "offset-gap"]
    words = (*words, str(tmp_path / "out.csv")) if words[0] == "export" else words
    done = kafkalog(*words, str(partition))
    assert [one for one in objects_of(done.out) if one.get("code") == "offset-gap"] == [told]
    assert done.status == 4


@pytest.mark.parametrize("words", [READERS[name] for name in ("fetch", "merge", "raw", "export")])
def test_a_lost_end_that_a_checkpoint_proves_is_told(partition, words):
    drop(partition, 83)
    told = [line for line in kafkalog("verify", str(partition)).err.splitlines() if "it lacks offsets 83 to 88" in line]
    assert told
    done = kafkalog(*words, str(partition))
    assert [line for line in told if line in done.err.splitlines()]
    assert done.status == 4


def test_a_lost_end_is_told_only_if_the_end_is_read(partition):
    drop(partition, 83)
    done = kafkalog("fetch", "--offset", "0:30", str(partition))
    assert (done.err, done.status) == ("", 0)


@pytest.mark.parametrize("words", [READERS[name] for name in ("fetch", "merge", "export", "grep")])
def test_what_is_read_is_printed_as_before(partition, words):
    """Only the records of the lost segment are missing on stdout."""
    whole = kafkalog(*words, str(partition)).out.splitlines()
    lost = set(kafkalog(*words, "--offset", "42:63", str(partition)).out.splitlines())
    assert lost
    drop(partition, 42)
    assert kafkalog(*words, str(partition)).out.splitlines() == [line for line in whole if line not in lost]


@pytest.mark.parametrize(("words", "lost"), [
    (("fetch", "--offset", "63"), False), (("fetch", "--offset", "50"), True), (("fetch", "--offset", "0:42"), False),
    (("fetch", "--limit", "10"), False), (("fetch", "--limit", "43"), True), (("fetch", "--tail", "3"), False),
    (("fetch", "--raw", "--offset", "63"), False), (("fetch", "--merge", "--limit", "10"), False),
    (("grep", "--offset", "63", "."), False), (("grep", "--offset", "41", "."), True),
    (("dump-log", "--offset", "63:70"), False), (("dump-log", "--offset", "30:63"), True),
    (("export", "--as", "jsonl", "--to", "-", "--offset", "63"), False),
])  # fmt: skip
def test_only_what_the_reader_passed_is_told(partition, words, lost):
    drop(partition, 42)
    done = kafkalog(*words, str(partition))
    assert (bool(said(done)), done.status) == (lost, 4 if lost else 0), done.err


@pytest.mark.parametrize("words", [READERS["fetch"], READERS["merge"], READERS["export"]])
def test_a_batch_that_is_missing_inside_a_segment_is_told_too(partition, words):
    cut_out(partition, 63, 2)
    (told,) = said(kafkalog("verify", str(partition)))
    done = kafkalog(*words, str(partition))
    assert (said(done), done.status) == ([told], 4)
    assert said(kafkalog("fetch", "--offset", "70", str(partition))) == []


def test_single_files_are_dumped_as_before(partition):
    drop(partition, 42)
    done = kafkalog("dump-log", *map(str, sorted(partition.glob("*.log"))))
    assert (said(done), done.status) == ([], 0)
    done = kafkalog("dump-log", "--files", ",".join(map(str, sorted(partition.glob("*.log")))))
    assert (said(done), done.status) == ([], 0)
    done = kafkalog("grep", ".", *map(str, sorted(partition.glob("*.log"))))
    assert (said(done), done.status) == ([], 0)


def test_an_exported_file_counts_the_problem_also_when_it_is_continued(partition, tmp_path):
    drop(partition, 42)
    words = ("export", "--as", "jsonl", "--to", f"{tmp_path}/out/", "--resume", str(partition))
    for _ in range(2):
        done = kafkalog(*words)
        assert done.status == 4
    assert "1 problem when they were read" in done.out.decode()


def test_the_empty_segment_of_a_roll_is_no_loss(partition):
    assert kafkalog("roll", "--to", "500", str(partition)).status == 0
    for words in READERS.values():
        done = kafkalog(*words, str(partition))
        assert (said(done), done.status) == ([], 0), done.err


def test_a_segment_that_a_broker_removes_meanwhile_is_no_loss(partition):
    """Its successor is still read; what vanishes between two looks proves nothing."""
    drop(partition, 42)

    class Removing(ReadOnlyFiles):
        def open(self, path):
            if path.endswith("22.log"):
                drop(partition, 22)
            return super().open(path)

    files = Removing()
    assert lost_offsets(files, str(partition), (0, 89), partial(policy_beside, files, str(partition))) == []


def partitions_of(top):
    """Every directory of a partition at or below `top`."""
    for directory, _, names in os.walk(top):
        if any(name.endswith(".log") and name[:20].isdigit() for name in names):
            yield directory


def test_of_every_real_partition_the_same_is_told_as_by_verify(corpus, own_cluster_corpus):
    """Compacted ones too: whatever cleaners left is no loss."""
    files, checked = ReadOnlyFiles(), 0
    for top in sorted(chain(corpus.glob("*/logs/*"), corpus.glob("*/cases/*"), own_cluster_corpus.glob("*/*"))):
        for directory in partitions_of(top):
            logs = [f"{directory}/{name}" for name in files.list(directory) if name.endswith(".log")]
            policy, findings = partial(policy_beside, files, directory), []
            if verify_partition(files, directory, findings.append, policy=policy).is_log_damaged:
                continue  # checksums decide there which offsets count; readers report the damage itself
            told = [one for one in findings if one.code == "offset-gap"]
            assert lost_offsets(files, directory, (0, 2**63), policy, logs) == told, directory
            between = [one for one in told if one.where.file == directory]
            assert lost_offsets(files, directory, (0, 2**63), policy) == between, directory
            assert not told or "clean" not in top.name, directory
            checked += 1
    assert checked > 100

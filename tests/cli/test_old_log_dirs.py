"""Log dirs of brokers with ZooKeeper, without topic ids or meta.properties: what is sound there stays unchanged."""

from __future__ import annotations

import shutil
import stat

import pytest

from engine.files import ReadOnlyFiles
from tests.support.corpus import own_corpus_directory
from tests.support.file_work import tree
from tests.support.run import kafkalog

STOPPED = sorted((own_corpus_directory() / "old").glob("*/logs/clean*"))


def copied(log_dir, tmp_path):
    target = tmp_path / "log-dir"
    shutil.copytree(log_dir, target)
    for path in [target, *target.rglob("*")]:
        path.chmod(path.stat().st_mode | stat.S_IWUSR)
    (target / ".lock").touch()
    return target


def by_name(paths):
    return [f"{path.parents[1].name}/{path.name}" for path in paths]


@pytest.mark.parametrize("options", [(), ("--full",), ("--mark-clean",)])
@pytest.mark.parametrize("log_dir", STOPPED, ids=by_name(STOPPED))
def test_recover_changes_nothing_in_a_sound_log_dir(log_dir, options, tmp_path):
    copy = copied(log_dir, tmp_path)
    assert kafkalog("verify", str(copy)).status == 0
    before = tree(ReadOnlyFiles(), str(copy))
    assert ".kafka_cleanshutdown" in {path.name for path in copy.iterdir()}
    done = kafkalog("recover", *options, str(copy))
    assert done.status == 0, done.out + done.err
    assert tree(ReadOnlyFiles(), str(copy)) == before
    assert list(tmp_path.iterdir()) == [copy]


def test_the_corpus_has_the_versions_that_differ():
    assert {name.partition("/")[0] for name in by_name(STOPPED)} >= {"0.8.2.2", "0.9.0.1", "0.11.0.3", "2.8.2", "3.9.1"}


def test_topic_ids_are_not_missed_after_a_crash(own_corpus, tmp_path):
    copy = copied(own_corpus / "old/2.8.2/logs/unclean", tmp_path)
    done = kafkalog("recover", str(copy))
    assert done.status == 0, done.out
    assert b"partition.metadata" not in done.out


def test_meta_properties_are_rebuilt_in_the_version_of_the_other_log_dir(own_corpus, tmp_path):
    copy = copied(own_corpus / "old/2.8.2/logs/clean", tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    (other / ".lock").touch()
    (other / "meta.properties").write_text("version=7\n")
    done = kafkalog("recover", str(copy), str(other))
    assert done.status == 1, done.out
    values = (copy / "meta.properties").read_text().splitlines()[2:]
    assert sorted(line for line in (other / "meta.properties").read_text().splitlines() if line[0] != "#") == sorted(values)


def test_a_broker_with_kraft_needs_meta_properties(own_corpus, tmp_path):
    copy = copied(own_corpus / "kafka-4.3.1/logs/clean/d1", tmp_path)
    (copy / "meta.properties").unlink()
    done = kafkalog("verify", str(copy))
    assert done.status == 4
    assert "warning[broker-stops]" in done.err
    assert "No `meta.properties` found" in done.err

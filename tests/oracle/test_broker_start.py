"""A real broker does what was foreseen, in the words that were foreseen; and starts on what `recover` left.

A few rows in the suite; all of them with KAFKALOG_BROKER=all (`make oracle`): each start takes seconds.
"""

from __future__ import annotations

import os

import pytest

from engine.discovery.names import PartitionKind, parse_partition_dir
from engine.files import Files, ReadOnlyFiles
from engine.log.logdir.log_dirs import find_log_dirs
from engine.log.logdir.start_problems import find_start_problems
from engine.log.logdir.startup import survey
from tests.oracle.broker import Broker, copy
from tests.support.json_output import all_objects, reports_of
from tests.support.log_dir_damage import DAMAGES, GARBAGE, clean_pair
from tests.support.run import kafkalog

pytestmark = pytest.mark.oracle
ALL = os.environ.get("KAFKALOG_BROKER") == "all"
SAID = [name for name, damage in DAMAGES.items() if damage.said] if ALL else ["lost+found", "metadata"]
MENDED = [name for name, damage in DAMAGES.items() if damage.mended and damage.effect] if ALL else ["no meta.properties"]
LOSES = ("OFFLINE", "STRAYS", "LOSES_TOPICS")


def recovered(top):
    """Recover both log dirs; the log end offset of each partition."""
    log_dirs = sorted(str(path) for path in top.glob("d*"))  # one by one: one of them may have lost its meta.properties
    done = kafkalog("recover", "--mark-clean", "--no-quarantine", "--format", "json", *log_dirs)
    assert done.status in (0, 1), done.err
    reports = reports_of(done.out)
    return {report["partition"].rpartition("/")[2]: report["log_end_offset"]
            for report in reports if report["log_end_offset"] is not None}  # fmt: skip


def serves(broker, offsets):
    """Are all partitions there, up to where recovery left them? The broker may have ended a transaction since."""
    ends = broker.end_offsets()
    plain = {name: end for name, end in offsets.items()
             if parse_partition_dir(name).kind is PartitionKind.PLAIN and not name.startswith("__")}  # fmt: skip
    return {name: ends.get(name) for name, end in plain.items() if ends.get(name, -1) < end} == {}


@pytest.mark.parametrize("name", SAID)
def test_a_broker_says_what_was_foreseen(name, kafka, own_corpus, tmp_path):
    top = clean_pair(own_corpus, tmp_path, name)
    files = ReadOnlyFiles()
    (problem,) = find_start_problems(files, survey(files, find_log_dirs(files, [str(top)])))
    with Broker(top, cleaner=name.startswith("cleaner offsets")) as broker:
        if problem.effect.name in LOSES:
            broker.wait_for(problem.message.split("…")[0])
        started = broker.has_started
        assert started == (problem.effect.name != "STOPS")
        assert all(part in broker.said for part in problem.message.split("…"))
        strays = len(list(top.glob("d*/*-stray")))
        assert (strays > 0) == (problem.effect.name in ("STRAYS", "LOSES_TOPICS"))


@pytest.mark.skipif(not ALL, reason="two starts of a broker; KAFKALOG_BROKER=all takes them")
def test_without_its_cleaner_a_broker_does_not_read_the_checkpoint(kafka, own_corpus, tmp_path):
    top = clean_pair(own_corpus, tmp_path, "cleaner offsets beside the metadata log")
    broker = Broker(top)
    checked = kafkalog("check", "--level", "start", "--format", "json", "--config-file", str(broker.settings))
    assert [one["verdict"] for one in all_objects(checked.out) if one["type"] == "start"] == ["starts"]
    with broker:
        assert broker.has_started, broker.said[-3000:]
        assert "Error while reading checkpoint file" not in broker.said


@pytest.mark.skipif(not ALL, reason="a start of a broker; KAFKALOG_BROKER=all takes it")
def test_the_cleaner_reads_its_checkpoint_even_if_no_topic_is_compacted(kafka, tmp_path):
    top = tmp_path / "logs"
    top.mkdir()
    broker = Broker(top, cleaner=True)
    broker.format("AAAAAAAAAAAAAAAAAAAAAQ")
    (top / "d1/cleaner-offset-checkpoint").write_bytes(GARBAGE)
    checked = kafkalog("check", "--level", "start", "--format", "json", "--config-file", str(broker.settings))
    (start,) = (one for one in all_objects(checked.out) if one["type"] == "start")
    assert start["verdict"] == "starts-degraded"
    with broker:
        assert broker.has_started, broker.said[-3000:]
        broker.wait_for(start["broker_says"])
        broker.wait_for("Stopping serving replicas in dir")
        assert start["broker_says"] in broker.said
        assert f"Stopping serving replicas in dir {top}/d1" in broker.said


@pytest.mark.parametrize("name", MENDED)
def test_a_broker_starts_on_what_was_mended(name, kafka, own_corpus, tmp_path):
    top = clean_pair(own_corpus, tmp_path, name)
    offsets = recovered(top)
    with Broker(top) as broker:
        assert broker.has_started, broker.said[-3000:]
        assert serves(broker, offsets)
    assert broker.said.count("since clean shutdown file was found") == 2
    assert "since no clean shutdown file was found" not in broker.said
    assert list(top.glob("d*/*-stray")) == []


def test_a_broker_does_not_recover_again_what_was_recovered(kafka, own_corpus, tmp_path):
    top = copy(own_corpus / "kafka-4.3.1/logs/unclean", tmp_path / "logs")
    offsets = recovered(top)
    with Broker(top, static_quorum=True) as broker:
        assert broker.has_started, broker.said[-3000:]
        assert serves(broker, offsets)
    assert broker.said.count("since clean shutdown file was found") == 2
    assert "truncating" not in broker.said.replace("Truncating", "")


def test_a_broker_serves_what_the_sink_wrote(kafka, own_corpus, tmp_path):
    """Rows appended to one of its topics by the sink of Spark, and in the place of another."""
    from tests.support.sink_runs import SinkRun, batch

    top = copy(own_corpus / "kafka-4.3.1/logs/clean", tmp_path / "logs")
    rows = batch(key=[b"new-%d" % one for one in range(50)], value=[b"v%d" % one for one in range(50)])
    for name, how in (("codec.none", {}), ("codec.snappy", {"overwrite": True})):
        SinkRun(Files(), str(top / "d0"), topic=name, numPartitions="1", kafka__compression__type="zstd").write([rows], **how)
    with Broker(top) as broker:
        assert broker.has_started, broker.said[-3000:]
        ends = broker.end_offsets()
        assert ends["codec.snappy-0"] == 50
        wanted = {b"new-%d" % one: b"v%d" % one for one in range(50)}
        assert broker.consume("codec.none", ends["codec.none-0"]).items() >= wanted.items()
        assert broker.consume("codec.snappy", 50) == wanted
    assert broker.said.count("since clean shutdown file was found") == 2
    assert "stray" not in broker.said.lower()

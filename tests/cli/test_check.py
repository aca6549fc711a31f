"""`kafkalog check`: the line when all is well, exit statuses, JSON, JUnit, metrics, and a part of the work in each run."""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import xml.etree.ElementTree as ET

import pytest
from jsonschema import Draft202012Validator

from tests.support.corpus import cluster_corpus
from tests.support.json_output import SCHEMA, all_objects
from tests.support.permissions import without_permission
from tests.support.preflight import materialize
from tests.support.run import kafkalog


@pytest.fixture
def node(tmp_path):
    """The log dirs of a sound broker, writable."""
    home = materialize(cluster_corpus() / "preflight", "control", tmp_path / "n1")
    for path in (home, *home.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return home


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def segment(node):
    """The first segment of a log with several."""
    return min((node / "d1").glob("orders-1/*.log"))


@pytest.mark.parametrize("level", ["start", "quick", "full"])
def test_one_line_when_all_is_well(level, node):
    done = kafkalog("check", "--level", level, str(node))
    assert (done.status, done.err, done.out.count(b"\n")) == (0, "", 1)
    assert done.out.startswith(b"STARTS  node 1 of cluster ")
    assert done.out.endswith(b"; no problems\n" if level == "full" else b"; no problems (--level full reads the records, too)\n")


def test_quiet_prints_only_problems(node):
    done = kafkalog("check", "-q", str(node))
    assert (done.status, done.err, done.out) == (0, "", b"")
    assert kafkalog("check", "-q", "--format", "json", str(node)).out == kafkalog("check", "--format", "json", str(node)).out
    flip(segment(node), 7)
    done = kafkalog("check", "-q", str(node))
    assert (done.status, done.out) == (4, kafkalog("check", str(node)).out)


def test_levels_find_what_they_read(node):
    flip(segment(node), 100)
    statuses = {level: kafkalog("check", "--level", level, str(node)).status for level in ("start", "quick", "full")}
    assert statuses == {"start": 0, "quick": 0, "full": 4}
    flip(segment(node), 100)
    flip(segment(node), 7)  # the base offset, which no checksum covers
    statuses = {level: kafkalog("check", "--level", level, str(node)).status for level in ("start", "quick", "full")}
    assert statuses == {"start": 0, "quick": 4, "full": 4}


@pytest.mark.parametrize("way", ["renamed", "exchanged"])
def test_a_directory_with_the_id_of_another_topic_is_no_sound_replica(node, way):
    here, other = node / "d0/orders-0", node / "d0/pay-tx-0"
    if way == "renamed":  # of a topic that exists, and in place of its replica
        shutil.rmtree(other)
        here.rename(other)
        broken = {"d0/pay-tx-0": "orders"}
    else:
        ids = [(one / "partition.metadata").read_bytes() for one in (here, other)]
        for one, content in zip((other, here), ids, strict=True):
            (one / "partition.metadata").write_bytes(content)
        broken = {"d0/pay-tx-0": "orders", "d0/orders-0": "pay-tx"}
    done = kafkalog("check", "--level", "start", "--format", "jsonl", str(node))
    found = {one["file"]: one["what"] for one in all_objects(done.out) if one.get("code") == "topic-id-mismatch"}
    assert done.status == 4
    assert found.keys() == {f"{node}/{name}/partition.metadata" for name in broken}
    for name, topic in broken.items():
        what = found[f"{node}/{name}/partition.metadata"]
        assert what.startswith(f"it has the topic id of {topic}; a broker says: Tried to assign topic ID ")
    assert kafkalog("recover", "--dry-run", str(node)).status == 4


def test_the_choice_of_partitions(node):
    flip(segment(node), 100)
    assert kafkalog("check", "--level", "full", "--topic", "kv", str(node)).status == 0
    assert kafkalog("check", "--level", "full", "--topic", "ord*", "--partition", "1", str(node)).status == 4
    assert kafkalog("check", "--topic", "none", str(node)).status == 2


def test_objects_fit_the_schema(node):
    (node / "d1/meta.properties").unlink()
    flip(segment(node), 100)
    done = kafkalog("check", "--level", "full", "--format", "jsonl", str(node / "d0"), str(node / "d1"))
    assert (done.status, done.err) == (4, "")
    objects = all_objects(done.out)
    validator = Draft202012Validator(SCHEMA)
    for one in objects:
        validator.validate(one)
    kinds = [one["type"] for one in objects]
    assert [kind for kind in dict.fromkeys(kinds) if kind != "begin"] == ["start", "start-action", "verification", "finding", "end"]
    start = next(one for one in objects if one["type"] == "start")
    assert (start["verdict"], start["broker_says"][:33]) == ("refuses", "No `meta.properties` found in " + str(node)[:3])
    severities = [one["severity"] for one in objects if one["type"] == "finding"]
    assert severities == sorted(severities, key=["error", "warning", "info"].index)


def test_findings_are_folded(node):
    for name in ("a", "b", "c", "d", "e"):
        (node / f"d0/not-kafka-{name}").mkdir()
    text = kafkalog("check", "--level", "start", str(node)).out.decode()
    assert "2 more: --all shows them" in text or "1 more: --all shows them" in text
    whole = kafkalog("check", "--level", "start", "--all", str(node)).out.decode()
    assert whole.count("warning[broker-stops]") == 5
    assert "    promote-future: " in whole


def test_junit(node):
    flip(segment(node), 100)
    done = kafkalog("check", "--level", "full", "--format", "junit", str(node))
    assert done.status == 4
    [suite] = ET.fromstring(done.out)
    failed = [case.get("name") for case in suite if len(case)]
    assert failed == [str(segment(node).parent)]
    assert (suite.get("failures"), suite.get("tests")) == ("1", str(len(suite)))
    (node / "d0/lost+found").mkdir()
    [suite] = ET.fromstring(kafkalog("check", "--level", "start", "--format", "junit", str(node)).out)
    assert [case.get("name") for case in suite if len(case)] == ["start"]


def test_metrics(node, tmp_path):
    pytest.importorskip("prometheus_client")
    path = tmp_path / "check.prom"
    assert kafkalog("check", "--metrics-textfile", str(path), str(node)).status == 0
    lines = path.read_text().splitlines()
    assert any(line.startswith("kafkalog_check_starts{") and line.endswith(" 1.0") for line in lines)
    (node / "d0/lost+found").mkdir()
    assert kafkalog("check", "--metrics-textfile", str(path), str(node)).status == 4
    assert any(line.startswith("kafkalog_check_starts{") and line.endswith(" 0.0") for line in path.read_text().splitlines())


def test_metrics_say_that_a_run_failed(node, tmp_path):
    pytest.importorskip("prometheus_client")
    path = tmp_path / "check.prom"
    assert kafkalog("check", "--metrics-textfile", str(path), str(node)).status == 0
    assert "kafkalog_check_failed 0.0" in path.read_text().splitlines()
    assert kafkalog("check", "--metrics-textfile", str(path), str(tmp_path / "not there")).status == 8
    assert "kafkalog_check_failed 1.0" in path.read_text().splitlines()


def test_proven_segments_are_not_read_again_until_they_change(node, tmp_path):
    state, sound = tmp_path / "state", segment(node)
    words = ("check", "--level", "full", "--state", str(state), "--now", "1700000000000", str(node))
    assert kafkalog(*words).status == 0
    assert str(sound) in json.loads(state.read_text())["segments"]
    stamp = sound.stat()
    flip(sound, 100)
    os.utime(sound, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert kafkalog(*words).status == 0, "unchanged by its attributes, so only headers were read"
    later = [word.replace("1700000000000", "1704000000000") for word in words]
    assert kafkalog(*later).status == 4, "the proof is older than 30 days"
    assert str(sound) not in json.loads(state.read_text())["segments"] or kafkalog(*later).status == 4
    os.utime(sound)
    assert kafkalog(*words).status == 4, "it changed"


def test_no_time_is_left(node, tmp_path):
    state = tmp_path / "state"
    done = kafkalog("check", "--level", "full", "--state", str(state), "--max-duration", "0s", str(node))
    assert done.status == 0
    assert b" left for the next run: --max-duration is over\n" in done.out
    assert json.loads(state.read_text()) == {"version": 1, "segments": {}}
    state.write_text("[]")
    done = kafkalog("check", "--level", "full", "--state", str(state), str(node))
    assert (done.status, "not a state file" in done.err) == (2, True)
    assert kafkalog("check", "--max-duration", "1h", str(node)).status == 2
    assert kafkalog("check", "--state", str(state), str(node)).status == 2


def test_paths_without_log_dirs(node, tmp_path):
    assert kafkalog("check", str(tmp_path / "none")).status == 8
    (tmp_path / "empty").mkdir()
    assert kafkalog("check", str(tmp_path / "empty")).status == 2
    done = kafkalog("check", str(node / "d0"), str(tmp_path / "empty"))
    assert (done.status, b"No `meta.properties` found in" in done.out) == (4, True)
    done = kafkalog("check", str(node / "d1/orders-1"))
    assert (done.status, done.out.startswith(b"NO VERDICT")) == (0, True)


def test_bad_bytes_in_any_file_are_reported(node):
    """A verdict or an error with a place, whatever is in the files."""
    files = sorted(path for path in node.rglob("*") if path.is_file())
    chance = random.Random(20261127)
    for _ in range(60):
        path = chance.choice(files)
        data = path.read_bytes()
        at = chance.randrange(len(data) + 1)
        broken = chance.choice([chance.randbytes(50), data[:at], data + bytes(20), data[:at] + b"\xff" * 8 + data[at + 8 :]])
        path.write_bytes(broken)
        done = kafkalog("check", "--level", chance.choice(["start", "quick", "full"]), "--jobs", "1", str(node))
        assert done.status in (0, 4, 8), (path, done.err)
        assert done.out.startswith((b"STARTS", b"WOULD NOT START")), path
        path.write_bytes(data)


def test_partitions_that_lose_their_last_eligible_replica(own_cluster_corpus):
    """In `forks` brokers 1 and 2 were killed while each alone was in the ISR; the controller then elected uncleanly."""
    found = {}
    for node in ("forks/2-forked-twice/n1", "forks/2-forked-twice/n2", "forks/2-forked-twice/n3", "ops/1-stopped/n1"):
        done = kafkalog("check", "--level", "start", "--format", "jsonl", str(own_cluster_corpus / node))
        lost = [one for one in map(json.loads, done.out.splitlines()) if one.get("code") == "elr-lost"]
        found[node] = [(one["severity"], one["what"].rpartition(": ")[2]) for one in lost]
    alone = [("info", "forked-0, kv-forked-0")]
    assert found == {
        "forks/2-forked-twice/n1": alone, "forks/2-forked-twice/n2": alone, "forks/2-forked-twice/n3": [], "ops/1-stopped/n1": [],
    }  # fmt: skip


def test_what_cannot_be_read_is_one_problem_and_is_counted(node):
    with without_permission(node / "d1/kv-0"):
        done = kafkalog("check", str(node))
        listed = kafkalog("ls", "--format", "jsonl", str(node))
    assert done.status == 8
    assert done.out.decode().count("Permission denied") == 1
    assert "0 errors, 1 warning, 1 partition unreadable" in done.out.decode()
    [flags] = [one["flags"] for one in all_objects(listed.out) if one["type"] == "partition" and one["topic"] == "kv"]
    assert flags == ["unreadable"], "its topic id was not read"


def test_log_dirs_of_an_unknown_broker_are_named_in_words(node):
    for name in ("d0", "d1"):
        (node / name / "meta.properties").write_text("version=0\nbroker.id=1\n")
    for words in (("check",), ("check", "--format", "junit"), ("ls",)):
        out = kafkalog(*words, str(node)).out.decode()
        assert "node 1 of an unknown cluster" in out
        assert "None" not in out


def test_a_damaged_snapshot_of_the_metadata_log_is_found_also_if_it_is_not_the_newest(node):
    [directory] = node.glob("*/__cluster_metadata-0")
    snapshots = sorted(directory.glob("*.checkpoint"))
    assert len(snapshots) > 1
    for path in snapshots:
        whole = path.read_bytes()
        for content in (whole[:100] + bytes([whole[100] ^ 4]) + whole[101:], whole[:-1]):
            path.write_bytes(content)
            assert kafkalog("verify", "-q", str(directory)).status == 4
            assert kafkalog("check", "--level", "full", str(node)).status == 4
        path.write_bytes(whole)
    assert kafkalog("verify", "-q", str(directory)).status == 0


def test_advice_about_a_start_is_a_command_to_paste(node):
    (node / "d0/orders-0/leader-epoch-checkpoint").write_text("0\n1\n-1 0\n")
    (node / "d1/recovery-point-offset-checkpoint").write_text("x\n")
    done = kafkalog("check", "--format", "jsonl", str(node))
    advice = {one["code"]: one["do"] for one in all_objects(done.out) if one["type"] == "finding" and one["severity"] != "info"}
    assert advice["broker-stops"] == f"kafkalog recover --dry-run {node}/d0/orders-0"
    for line in (one for one in advice.values() if one.startswith("kafkalog ")):
        assert kafkalog(*shlex.split(line)[1:]).status in (0, 1, 4), line


@pytest.mark.parametrize("content", ["hello\n", "", "version=0\n"])
def test_a_log_dir_without_an_identity_does_not_make_the_others_strangers(node, content):
    (node / "d0/meta.properties").write_text(content)
    out = kafkalog("check", str(node)).out.decode()
    assert out.startswith("WOULD NOT START  node 1 of cluster pbIphw0yaR-26rzEtBg4sw: ")
    assert "another cluster" not in out


def test_every_partition_that_is_named_is_checked(node):
    names = [str(node / "d1/orders-1"), str(node / "d1/kv-0"), str(node / "d0/pay-tx-0"), str(node / "d1/__transaction_state-0")]
    done = kafkalog("check", "--format", "jsonl", *names, names[1])
    assert sorted(one["path"] for one in all_objects(done.out) if one["type"] == "verification") == sorted(names)
    path = segment(node)  # of the first one
    path.write_bytes(b"")
    assert kafkalog("check", *names).status == kafkalog("check", "--level", "full", *names).status == 4
    assert kafkalog("check", *names, str(node / "d1")).status == 4


def test_one_is_one(node):
    (node / "d1/kv-0").rename(node / "d1/kv-7")
    gone = next(node.glob("*/gone-0.*-delete"))
    for path in gone.iterdir():
        path.unlink()
    (gone / "00000000000000000000.log").write_bytes(b"x")
    out = kafkalog("check", "--all", str(node)).out.decode()
    assert "its topic has 1 partition: move the directory" in out
    assert "a deleted partition, 1 byte: a broker deletes it" in out


@pytest.mark.parametrize("level", ["start", "quick", "full"])
@pytest.mark.parametrize("is_there", [True, False])
def test_a_log_dir_of_the_configuration_that_is_missing_is_part_of_the_verdict(node, level, is_there, tmp_path):
    config = tmp_path / "server.properties"
    config.write_text(f"node.id=1\nlog.dirs={node}/d0,{node}/d1,{node}/d2\n")
    if is_there:
        (node / "d2").mkdir()
    for words in ((), (str(node / "d0"), str(node / "d1"), str(node / "d2"))):
        done = kafkalog("check", "--level", level, "--config-file", str(config), *words)
        assert (done.status, done.err) == (4, "")
        assert done.out.decode().startswith("WOULD NOT START  node 1 of cluster pbIphw0yaR-26rzEtBg4sw: 10 logs in 3 log dirs")
        assert f"No `meta.properties` found in {node}/d2 " in done.out.decode()


@pytest.mark.parametrize("level", ["start", "quick", "full"])
@pytest.mark.parametrize("are_there", [True, False])
def test_a_configuration_whose_log_dirs_are_all_missing_or_empty_is_no_sound_broker(tmp_path, level, are_there):
    config = tmp_path / "server.properties"
    config.write_text(f"node.id=1\nlog.dirs={tmp_path}/d0,{tmp_path}/d1\n")
    for name in ("d0", "d1") if are_there else ():
        (tmp_path / name).mkdir()
    done = kafkalog("check", "-q", "--level", level, "--config-file", str(config))
    assert (done.status, done.err) == (4, "")
    assert done.out.startswith(b"WOULD NOT START  ")
    assert b"No readable meta.properties files found." in done.out

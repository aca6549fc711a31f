"""`kafkalog metadata` prints what the log has, and says what it did not read."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from tests.support.cluster import told_states, topic_settings
from tests.support.json_output import objects_of, of_type
from tests.support.metadata_records import TOPIC_ID, batch, change, leader_change, partition, topic, write_log, write_snapshot
from tests.support.run import kafkalog

PLACE = "__cluster_metadata-0"
_LEVEL = re.compile(r"^Feature: (\S+) .*FinalizedVersionLevel: (\d+)\s", re.MULTILINE)  # metadata.version has a name there


def metadata(*words, status=0):
    """The objects that it prints."""
    done = kafkalog("metadata", words[0], "--format", "jsonl", *map(str, words[1:]))
    assert done.status == status, done.err
    return objects_of(done.out)


def text(*words, status=0):
    """The text that it prints."""
    done = kafkalog("metadata", *map(str, words))
    assert done.status == status, done.err
    return done.out.decode()


def refused(*words):
    done = kafkalog("metadata", *map(str, words))
    assert (done.status, done.out) == (2, b""), done.out
    return done.err


@pytest.fixture
def log(tmp_path):
    secret = {"name": "alice", "mechanism": 1, "salt": b"s", "storedKey": b"hunter2", "serverKey": b"k", "iterations": 4096}
    token = {"owner": "User:a", "requester": "User:a", "renewers": [], "tokenId": "hunter2"}
    config = {"resourceType": 4, "resourceName": "1", "name": "listener.name.x.ssl.key.password", "value": "hunter2"}
    return write_log(tmp_path / "d0" / PLACE, leader_change(0, 1), batch(1, 1, topic(), partition(), change(leader=-1, isr=[])), batch(
        4, 1, change(leader=2, isr=[2], leaderRecoveryState=1), ("UserScramCredentialRecord", secret),
        ("DelegationTokenRecord", token), ("ConfigRecord", config)))  # fmt: skip


# ---- as Kafka says


def test_the_tree_is_what_kafka_described(cluster_corpus):
    """The Admin client was asked before the nodes stopped: at the high watermark that it reported."""
    seen = 0
    for state, truth in told_states(cluster_corpus):
        said = json.loads((truth / "admin.json").read_text())
        at = re.search(r"highWatermark=(\d+)", said["quorum"])[1]
        for log in state.glob(f"n*/d0/{PLACE}"):
            done = kafkalog("metadata", "tree", "--format", "jsonl", "--at", at, str(log))
            if done.status == 2:
                continue  # it stopped before that, or has a newer snapshot only
            nodes = {one["node"]: one["data"] for one in of_type(objects_of(done.out), "metadata-node")}
            for name, one in said["partitions"].items():
                topic, _, number = name.rpartition("-")
                found = nodes[f"/topics/{topic}/{number}"]
                assert nodes[f"/topics/{topic}"]["topicId"] == one["topic_id"]
                assert (found["leader"], found["replicas"], sorted(found["isr"])) == (one["leader"], one["replicas"], sorted(one["isr"]))
                assert found.get("eligibleLeaderReplicas", []) == one["elr"]
                assert found.get("lastKnownElr", []) == one["last_known_elr"]
            for topic, settings in topic_settings(truth).items():
                assert nodes.get(f"/configs/topic/{topic}", {}).items() <= settings.items()
            for feature, level in _LEVEL.findall((truth / "features-describe.txt").read_text()):
                assert nodes.get(f"/features/{feature}", {"featureLevel": 0})["featureLevel"] == int(level)
            seen += 1
    assert seen


def test_unclean_elections_are_listed(own_cluster_corpus):
    node = own_cluster_corpus / "forks/2-forked-twice/n2"
    found = metadata("cat", "--unclean", "--topic", "forked", node)
    assert [(one["leader"], one["leader_epoch"], one["offset"], one["previous_elr"]) for one in found] == [
        (1, 3, 147, [2]), (2, 5, 192, [1]),
    ]  # fmt: skip
    assert "2026-11-23T08:34:53.720Z  kv-forked-0" in text("cat", "--unclean", node)


def test_a_topic_that_was_created_again_has_two_ids(own_cluster_corpus):
    story = own_cluster_corpus / "ops/1-stopped/n1"
    deleted = of_type(metadata("tree", "--deleted", story), "deleted-topic")
    assert [one["topic"] for one in deleted] == ["again", "doomed"]
    again = metadata("tree", story, "/topics/again")
    assert of_type(again, "metadata-node")[0]["data"]["topicId"] != deleted[0]["topic_id"]
    created = metadata("cat", "--topic", "again", "--type", "TopicRecord", story)
    assert [one["data"]["topicId"] for one in created] == [deleted[0]["topic_id"], of_type(again, "metadata-node")[0]["data"]["topicId"]]


# ---- selection


def test_cat_chooses_by_offset_type_and_topic(log):
    whole = metadata("cat", log)
    assert [one["offset"] for one in whole] == list(range(8))
    assert (whole[0]["record"], whole[1]["record"], whole[1]["topic"]) == ("LEADER_CHANGE", "TOPIC_RECORD", "orders")
    assert [one["offset"] for one in metadata("cat", "--offset", "2:5", "--type", "PartitionChangeRecord", log)] == [3, 4]
    assert [one["offset"] for one in metadata("cat", "--type", "leader_change", log.parent)] == [0]
    assert metadata("cat", "--topic", "ord*", "--offset", ":3", log)[-1]["offset"] == 2
    assert metadata("cat", "--topic", "orders", "--offset", "5:", log) == []
    assert [one["offset"] for one in metadata("cat", next(log.glob("*.log")))] == list(range(8))


def test_the_state_at_an_offset(log):
    state, *found = metadata("tree", "--at", "4", log, "/topics/orders/0")
    assert (state["end_offset"], found[0]["data"]["leader"], found[0]["parts"]) == (4, -1, ["topics", "orders", "0"])
    (difference,) = of_type(metadata("diff", "--from", "4", "--to", "5", log, status=1), "metadata-difference")
    assert (difference["change"], difference["before"]["leader"], difference["after"]["leader"]) == ("changed", -1, 2)
    assert difference["fields"] == ["isr", "leader", "leaderEpoch", "partitionEpoch", "leaderRecoveryState"]
    assert of_type(metadata("diff", log, log), "metadata-difference") == []
    assert f"+ /topics/orders  topicId={TOPIC_ID}" in text("diff", "--from", "1", "--to", "4", log, status=1)


def test_uncommitted_records_are_those_after_the_snapshot_or_without_a_majority(log, tmp_path):
    assert metadata("tree", log)[0]["committed_before"] == 0
    write_snapshot(log, 4, 1, topic(), partition(leader=-1, isr=[], leaderEpoch=1, partitionEpoch=1))
    assert metadata("tree", log)[0]["committed_before"] == 4
    assert "those from 4 on may be uncommitted" in text("tree", log)
    write_log(tmp_path / "n2" / PLACE, leader_change(0, 1), batch(1, 1, topic(), partition(), change(leader=-1, isr=[])), batch(
        4, 1, change(leader=2, isr=[2], leaderRecoveryState=1)))  # fmt: skip
    assert of_type(metadata("tree", tmp_path), "metadata-state")[0]["committed_before"] == 5, "two of three voters have it"


def test_secrets_are_printed_on_request_only(log):
    for words, status in ((("cat", log), 0), (("tree", log), 0), (("diff", "--from", "0", log), 1)):
        for form in ("text", "jsonl"):
            shown = text(*words, "--format", form, status=status)
            assert "hunter2" not in shown
            assert "(hidden)" in shown
            assert text(*words, "--format", form, "--secrets", status=status).count("hunter2") >= 2


# ---- verify


def test_verify_compares_snapshots_and_controllers(log, tmp_path):
    write_snapshot(log, 4, 1, topic(), partition(leader=-1, isr=[], leaderEpoch=1, partitionEpoch=1))
    assert text("verify", log).splitlines()[1:] == ["  snapshot at offset 4, epoch 1: equal to the log"]
    shutil.copytree(log.parent, tmp_path / "n2")
    objects = metadata("verify", log.parent, tmp_path / "n2")
    assert [one["comparison"] for one in of_type(objects, "metadata-snapshot")] == ["equal", "equal"]
    write_snapshot(log, 4, 1, topic(), partition(leader=9))
    objects = metadata("verify", log, status=4)
    assert [one["code"] for one in of_type(objects, "finding")] == ["metadata-snapshot-mismatch"]
    assert of_type(objects, "metadata-snapshot")[0]["comparison"] == "different"


def test_damage_is_reported_with_what_was_read(log):
    path = next(log.glob("*.log"))
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    done = kafkalog("metadata", "verify", str(log))
    assert done.status == 4
    assert b"offsets 0 to 3" in done.out
    assert b"DAMAGED: what follows was not read" in done.out
    assert "error[crc-mismatch]" in done.err
    assert metadata("tree", log, status=4)[1]["end_offset"] == 4


def test_a_log_without_its_beginning_is_damaged(tmp_path):
    log = write_log(tmp_path / PLACE, leader_change(5, 1), batch(6, 1, topic()), base=5)
    assert "DAMAGED: it cannot be replayed" in text("verify", log, status=4)
    assert of_type(metadata("verify", log, status=4), "metadata-log")[0]["damaged"] is True
    for words in (("tree", log), ("tree", "--at", "6", log), ("diff", "--from", "6", log), ("cat", "--unclean", log)):
        assert kafkalog("metadata", *map(str, words)).status == 4, words
    assert "at least 0 unclean elections" in text("cat", "--unclean", log, status=4)
    assert "damage hides the offsets from 5 on" in text("cat", "--unclean", log, status=4)
    write_snapshot(log, 6, 1)
    assert "before offset 5 cannot be replayed" in refused("tree", "--at", "5", log)


def test_zeros_after_the_last_batch_were_never_written(log):
    path = next(log.glob("*.log"))
    path.write_bytes(path.read_bytes() + bytes(4096))
    assert "; no damage; followed by 4096 zero bytes, never written" in text("verify", log, status=4)


# ---- refusals


def test_refusals(log, tmp_path):
    assert "--at belongs to `metadata tree`" in refused("cat", "--at", "3", log)
    assert "name two PATHS" in refused("diff", log)
    assert "two states of one PATH" in refused("diff", "--from", "1", log, log)
    missing = refused()
    assert "Choose from:\n  cat," in missing
    assert "reads one PATH" in refused("cat", log, log)
    assert "not one of" in refused("cat", "--type", "Nothing", log)
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0/00000000000000000000.log").touch()
    assert "no metadata log in" in refused("verify", tmp_path / "orders-0")
    assert "no topic other" in refused("cat", "--topic", "other", log)
    assert "no topic other" in refused("cat", "--unclean", "--topic", "other", log)
    assert text("cat", "--unclean", "--topic", "orders", log).startswith("1 unclean election in")
    done = kafkalog("metadata", "tree", str(log), "/topics/nope")
    assert (done.status, "no entry /topics/nope" in done.err) == (2, True)
    assert "ends at offset 8" in refused("tree", "--at", "99", log)
    (tmp_path / "d1").mkdir()
    shutil.copytree(log, tmp_path / "d1" / PLACE)
    for name, cluster in (("d0", "one"), ("d1", "other")):
        (tmp_path / name / "meta.properties").write_text(f"version=1\nnode.id=1\ncluster.id={cluster}\n")
    assert "several clusters" in refused("verify", tmp_path / "d0", tmp_path / "d1")


def test_garbage_in_each_kind_of_file(log):
    path = write_snapshot(log, 4, 1, topic())
    path.write_bytes(b"\xff" * 100)
    (log / "quorum-state").write_bytes(b"\xff")
    assert kafkalog("metadata", "verify", str(log)).status == 4
    done = kafkalog("metadata", "tree", str(path))
    assert done.status == 4
    assert "is damaged" in done.err
    next(log.glob("*.log")).write_bytes(b"\xff" * 70)
    for action in ("cat", "tree", "verify"):
        assert kafkalog("metadata", action, str(log)).status == 4

"""The image of a cluster: what Kafka's own replay made of the same logs, and the rules of each record."""

from __future__ import annotations

import json

import pytest

from engine.errors import UsageError
from engine.files import ReadOnlyFiles
from engine.image.image import Image
from engine.image.records import MetadataLog
from engine.image.replay import NotReplayable, image_at
from engine.image.tree import concealed, differences, is_chosen, nodes
from tests.support.metadata_records import TOPIC_ID, batch, change, leader_change, partition, topic, write_log, write_snapshot

FILES = ReadOnlyFiles()
METADATA = "d0/__cluster_metadata-0"


def _canonical(kind, data):
    """A record as text: maps of Kafka's are lists in any order there."""
    fields = {
        name: sorted(value, key=str) if name in ("endPoints", "features", "entity") else value for name, value in data.items()
    }
    return json.dumps([kind, fields], sort_keys=True)


def _of(directory, at=None):
    found = []
    state = image_at(FILES, str(directory), found.append, at)
    return state, found


def _partition(state):
    return state.image.topics[TOPIC_ID].partitions[0]


# ---- what Kafka's own replay made


def test_images_are_those_that_kafka_made(cluster_corpus):
    truths = sorted(cluster_corpus.glob("ops*/truth/*/metadata-image.json"))
    assert truths
    for truth in truths:
        said = json.loads(truth.read_text())
        expected = {_canonical(one["type"], one["data"]) for one in said["records"]}
        for node in sorted((truth.parents[2] / truth.parent.name).glob("n*")):
            state, found = _of(node / METADATA)
            assert not found
            assert {_canonical(*one) for one in state.image.records()} == expected
            assert (state.end_offset, state.epoch) == (said["end_offset"], said["last_epoch"])


def test_every_snapshot_is_the_image_at_its_offset(own_cluster_corpus):
    directory = own_cluster_corpus / "forks/3-healed/n1" / METADATA
    snapshots = MetadataLog(FILES, str(directory), pytest.fail).snapshots
    assert len(snapshots) == 4
    for snapshot in snapshots[1:]:
        alone, _ = _of(snapshot.path)
        whole, _ = _of(directory, snapshot.end_offset)
        assert nodes(alone.image) == nodes(whole.image)
        assert list(differences(nodes(alone.image), nodes(_of(directory)[0].image))) or snapshot is snapshots[-1]


# ---- rules


def test_records_of_a_transaction_take_effect_at_its_end(tmp_path):
    log = write_log(
        tmp_path, leader_change(0, 1), batch(1, 1, topic(), ("BeginTransactionRecord", {}), partition()),
        batch(4, 1, ("EndTransactionRecord", {}), ("BeginTransactionRecord", {}), change(leader=2)),
        batch(7, 1, ("AbortTransactionRecord", {}), ("BeginTransactionRecord", {}), change(isr=[1])),
    )  # fmt: skip
    assert not _of(log, 4)[0].image.topics[TOPIC_ID].partitions
    assert _partition(_of(log, 5)[0]).leader == 1
    state, found = _of(log)
    assert (_partition(state).leader, _partition(state).isr, found) == (1, (1, 2), [])
    assert state.end_offset == 10


def test_a_change_counts_epochs_and_keeps_what_it_does_not_name(tmp_path):
    log = write_log(tmp_path, leader_change(0, 1), batch(1, 1, topic(), partition()), batch(3, 1, change(leader=-1, isr=[]), change(
        eligibleLeaderReplicas=[2], lastKnownElr=[1]), change(leader=2, isr=[2], leaderRecoveryState=1)),
        batch(6, 1, ("ClearElrRecord", {"topicName": "orders"})))  # fmt: skip
    assert (_partition(_of(log, 4)[0]).leader_epoch, _partition(_of(log, 5)[0]).elr) == (1, (2,))
    now = _partition(_of(log)[0])
    assert (now.leader, now.leader_epoch, now.partition_epoch, now.leader_recovery_state) == (2, 2, 4, 1)
    assert (now.replicas, now.elr, now.last_known_elr) == ((1, 2), (), ())


def test_a_topic_that_is_removed_takes_its_settings_along(tmp_path):
    config = {"resourceType": 2, "resourceName": "orders", "name": "retention.ms", "value": "1"}
    log = write_log(tmp_path, leader_change(0, 1), batch(1, 1, topic(), ("ConfigRecord", config), partition()),
                    batch(4, 1, ("RemoveTopicRecord", {"topicId": TOPIC_ID})))  # fmt: skip
    assert ("configs", "topic", "orders") in nodes(_of(log, 4)[0].image)
    state, found = _of(log)
    assert (found, nodes(state.image)) == ([], {})
    assert [(one.topic.name, one.offset, len(one.topic.partitions)) for one in state.image.deleted] == [("orders", 4, 1)]


@pytest.mark.parametrize(("record", "words"), [
    (change(7), "Unable to find partition"),
    (("RemoveTopicRecord", {"topicId": "AAAAAAAAAAAAAAAAAAAADw"}), "no such topic found"),
    (("FenceBrokerRecord", {"id": 3, "epoch": 1}), "that broker was not registered"),
    (partition(1, directories=["AAAAAAAAAAAAAAAAAAAADw"]), "lengths for replicas and directories"),
    (("RemoveAccessControlEntryRecord", {"id": "AAAAAAAAAAAAAAAAAAAADw"}), "Failed to find existing ACL"),
])  # fmt: skip
def test_a_record_that_does_not_fit_is_reported_and_changes_nothing(tmp_path, record, words):
    log = write_log(tmp_path, leader_change(0, 1), batch(1, 1, topic(), partition()), batch(3, 1, record, change(isr=[1])))
    state, found = _of(log)
    assert [(one.code, one.where.offset) for one in found] == [("metadata-record-invalid", 3)]
    assert words in found[0].what
    assert _partition(state).isr == (1,)


def test_brokers_features_quotas_and_rights(tmp_path):
    entity = [{"entityType": "user", "entityName": None}]
    acl = {"id": TOPIC_ID, "resourceType": 2, "resourceName": "orders", "patternType": 3, "principal": "User:a", "host": "*",
           "operation": 3, "permissionType": 3}  # fmt: skip
    log = write_log(
        tmp_path, leader_change(0, 1),
        batch(1, 1, ("RegisterBrokerRecord", {"brokerId": 3, "brokerEpoch": 1, "incarnationId": TOPIC_ID}),
              ("UnfenceBrokerRecord", {"id": 3, "epoch": 1}),
              ("BrokerRegistrationChangeRecord", {"brokerId": 3, "brokerEpoch": 1, "inControlledShutdown": 1})),
        batch(4, 1, ("FeatureLevelRecord", {"name": "kraft.version", "featureLevel": 1}),
              ("FeatureLevelRecord", {"name": "group.version", "featureLevel": 1}),
              ("ClientQuotaRecord", {"entity": entity, "key": "producer_byte_rate", "value": 5.0, "remove": False}),
              ("AccessControlEntryRecord", acl), ("ProducerIdsRecord", {"brokerId": 3, "nextProducerId": 1000})),
        batch(9, 1, ("UnregisterBrokerRecord", {"brokerId": 3, "brokerEpoch": 1}),
              ("FeatureLevelRecord", {"name": "group.version", "featureLevel": 0}),
              ("ClientQuotaRecord", {"entity": entity, "key": "producer_byte_rate", "value": 0.0, "remove": True}),
              ("RemoveAccessControlEntryRecord", {"id": TOPIC_ID})),
    )  # fmt: skip
    full = nodes(_of(log, 9)[0].image)
    assert {key[0] for key in full} == {"brokers", "features", "quotas", "acls", "producer-ids"}
    assert (full["brokers", "3"]["fenced"], full["brokers", "3"]["inControlledShutdown"]) == (False, True)
    assert [key for key in full if key[0] == "features"] == [("features", "group.version")]
    assert full["quotas", "user=<default>"] == {"producer_byte_rate": 5.0}
    assert list(nodes(_of(log)[0].image)) == [("producer-ids",)]


# ---- damage and gaps


def test_an_older_snapshot_stands_in_for_a_damaged_one(tmp_path):
    log = write_log(tmp_path, leader_change(0, 1), batch(1, 1, topic(), partition()))
    path = write_snapshot(log, 3, 1, topic(), partition())
    path.write_bytes(path.read_bytes()[:-20])
    state, found = _of(log)
    assert state.snapshot is None
    assert found
    assert _partition(state).leader == 1


def test_a_log_without_its_beginning_is_refused(tmp_path):
    log = write_log(tmp_path, leader_change(5, 1), base=5)
    with pytest.raises(NotReplayable, match="begins at offset 5"):
        _of(log)
    write_snapshot(log, 5, 1, topic())
    assert _of(log)[0].image.topic_ids == {"orders": TOPIC_ID}
    with pytest.raises(UsageError, match="ends at offset 6"):
        _of(log, 7)


def test_offsets_with_a_gap_end_the_reading(tmp_path):
    begin = [leader_change(0, 1), batch(1, 1, topic())]
    log = write_log(tmp_path, *begin, batch(3, 1, partition()))
    state, found = _of(log)
    assert [(one.code, one.where.offset, one.where.position) for one in found] == [("metadata-gap", 3, sum(map(len, begin)))]
    assert state.end_offset == 2


# ---- nodes


def test_globs_choose_nodes_with_what_is_below_them():
    node = ("topics", "orders", "0")
    assert all(is_chosen(node, one) for one in (None, "/", "/topics", "/*/orders", "topics/ord*/0", "/topics/orders/"))
    assert not any(is_chosen(node, one) for one in ("/orders", "/topics/order", "/topics/*/1", "/topics/orders/0/x"))


def test_credentials_are_concealed():
    assert concealed({"name": "alice", "salt": "x", "storedKey": "x", "iterations": 4096}) == {
        "name": "alice", "salt": "(hidden)", "storedKey": "(hidden)", "iterations": 4096,
    }  # fmt: skip
    jaas = "listener.name.sasl.plain.sasl.jaas.config"
    assert concealed({"resourceType": 4, "name": jaas, "value": "x"})["value"] == "(hidden)"
    assert concealed({jaas: "x", "ssl.key.password": "x", "log.dirs": "x"}) == {
        jaas: "(hidden)", "ssl.key.password": "(hidden)", "log.dirs": "x",
    }  # fmt: skip


def test_an_empty_image_has_no_nodes():
    assert (nodes(Image()), list(Image().records())) == ({}, [])

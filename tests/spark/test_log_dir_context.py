"""What log dirs around a partition say of it: settings, remote storage, transactions. Without a session."""

from __future__ import annotations

import json
import logging
import shutil

import pytest

from kafkalog_spark.errors import DataLossError
from kafkalog_spark.jobs.verify import SCHEMA, check_split, splits_of
from kafkalog_spark.table.columns import level_schema
from kafkalog_spark.table.following import first_offsets, last_offsets, plan_between
from kafkalog_spark.table.levels import plan_level, read_level
from kafkalog_spark.table.options import Bounds, read_options
from kafkalog_spark.table.planning import plan
from kafkalog_spark.tasks import options_of
from tests.support.corpus import tiered_answers, tiered_directory
from tests.support.lost_batches import cut_out
from tests.support.open_transactions import PREPARE_COMMIT, of_cluster, transaction_state, with_open_transactions
from tests.support.permissions import without_permission

PARTITION = "codec.gzip-0"  # no key is in it twice


# ---- settings decide which gaps are losses


@pytest.fixture
def top(own_corpus, tmp_path):
    """The log dirs of a broker; d0 has the metadata log, d1 the partition, of which a batch is missing."""
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean", tmp_path / "logs")
    cut_out(tmp_path / "logs/d1" / PARTITION, 0, 1)
    return tmp_path / "logs"


def gaps(*paths, config=None, **options):
    asked = options_of([str(path) for path in paths], {"subscribe": "codec.gzip", **options})
    rows = [row for split in splits_of(asked, config) for batch in check_split(asked, split) for row in batch.to_pylist()]
    return {row["code"] for row in rows} & {"offset-gap", "gaps-compacted"}


def test_a_gap_is_a_loss_where_the_topic_is_known_not_to_be_compacted(top, tmp_path):
    assert gaps(top) == {"offset-gap"}
    shutil.copytree(top / "d1" / PARTITION, tmp_path / "alone" / PARTITION)
    assert gaps(tmp_path / "alone") == {"gaps-compacted"}
    assert gaps(tmp_path / "alone", config={"cleanup.policy": "delete"}) == {"offset-gap"}
    assert gaps(tmp_path / "alone", config={"cleanup.policy": "compact"}) == set()
    assert gaps(top, config={"cleanup.policy": "compact"}) == set()


def test_the_level_of_findings_has_the_same_rules(top):
    asked = read_options({"path": str(top), "subscribe": "codec.gzip", "level": "findings"})
    rows = [row for split in plan_level(asked, Bounds()) for batch in read_level(split, SCHEMA, asked) for row in batch.to_pylist()]
    assert "offset-gap" in {row["code"] for row in rows}


def test_a_metadata_log_that_can_not_be_read_ends_no_job(top, caplog):
    with without_permission(top / "d0/__cluster_metadata-0"), caplog.at_level(logging.WARNING, logger="kafkalog"):
        assert gaps(top) == {"gaps-compacted"}
    assert "without the settings of topics" in caplog.text


# ---- records in remote storage


@pytest.fixture
def tiered():
    """A tiered partition whose first records are not here → (log dir, topic, log start offset, first local offset)."""
    top = tiered_directory() / "clean"
    one = next(one for one in tiered_answers(top) if one["earliest"] < one["earliest_local"] and one["partition"] == 0)
    directory = next(top.glob(f"d?/{one['topic']}-0"))
    return directory.parent, one["topic"], one["earliest"], one["earliest_local"]


def asked_of(tiered, **options):
    return read_options({"path": str(tiered[0]), "subscribe": tiered[1], **options})


@pytest.mark.parametrize(("options", "is_reported"), [
    ({}, True), ({"startingTimestamp": "1"}, True), ({"startingOffsets": "LOCAL"}, True), ({"startingOffsets": "NEXT"}, False),
])  # fmt: skip
def test_records_in_remote_storage_are_reported(tiered, caplog, options, is_reported):
    _, topic, first, local = tiered
    partitions = plan(asked_of(tiered), Bounds())
    caplog.clear()
    numbers = sorted({piece.partition for split in partitions for piece in split})
    for word, offset in (("LOCAL", local), ("NEXT", local + 1)):
        if options.get("startingOffsets") == word:
            start = {str(number): offset if number == 0 else -2 for number in numbers}
            options = {"startingOffsets": json.dumps({topic: start})}
    options["subscribe"] = topic
    with caplog.at_level(logging.WARNING, logger="kafkalog"):
        plan(asked_of(tiered, **options), Bounds())
    told = f"{topic}-0, offset {first}: records-in-remote-storage: offsets {first} to {local - 1}: in remote storage, not read"
    assert (told in caplog.text) is is_reported


def test_offsets_in_remote_storage_are_no_loss_that_nobody_explains(tiered, caplog):
    log_dir, topic, first, local = tiered
    asked = {"path": str(log_dir), "assign": json.dumps({topic: [0]}), "startingOffsets": json.dumps({topic: {"0": first}})}
    told = f"offsets {first} to {local - 1}: in remote storage, not read"
    with pytest.raises(DataLossError, match=told):
        plan(read_options(asked), Bounds())
    with caplog.at_level(logging.WARNING, logger="kafkalog"):
        plan(read_options({**asked, "failOnDataLoss": "false"}), Bounds())
    assert told in caplog.text


def test_streams_report_them_as_well(tiered, caplog):
    _, topic, first, local = tiered
    told = f"offsets {first} to {local - 1}: in remote storage, not read"
    options = read_options({"path": str(tiered[0]), "assign": json.dumps({topic: [0]}), "startingOffsets": "earliest"}, streaming=True)
    with caplog.at_level(logging.WARNING, logger="kafkalog"):
        assert first_offsets(options) == {(topic, 0): local}
    assert told in caplog.text
    with pytest.raises(DataLossError, match=told):
        last_offsets(options, {(topic, 0): first})
    with pytest.raises(DataLossError, match=told):
        plan_between(options, {(topic, 0): first}, {(topic, 0): local})


# ---- states of transactions


@pytest.mark.parametrize(("ours", "theirs", "is_read"), [("one", "one", True), ("one", "two", False), (None, None, False)])
def test_states_in_all_log_dirs_of_the_cluster(tmp_path, caplog, ours, theirs, is_read):
    """Another cluster has other producers of the same ids; of log dirs without meta.properties nobody knows."""
    of_cluster(with_open_transactions(tmp_path / "d0" / "t-0").parent, ours)
    transaction_state(of_cluster(tmp_path / "d1", theirs), (b"eight", 8, PREPARE_COMMIT, [0]))
    wanted = read_options({"path": str(tmp_path), "columns": "offset,value", "kafka.isolation.level": "read_committed",
                           "subscribe": "t", "openTransactions": "abort"})
    with caplog.at_level(logging.WARNING, logger="kafkalog"):
        shown = [value.decode() for split in plan(wanted, Bounds()) for batch in read_level(split, level_schema("records", ["offset", "value"]), wanted)
                 for value in batch.column(1).to_pylist()]
    assert ("8a" in shown) is is_read
    assert ("says that it is committed" in caplog.text) is is_read

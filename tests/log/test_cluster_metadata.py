"""Topics and their settings from the metadata log of a real broker."""

from __future__ import annotations

import shutil

from engine.config.topic import LogConfig
from engine.files import ReadOnlyFiles
from engine.log.logdir.cluster_metadata import METADATA_DIR, read_cluster_metadata


def test_topics_replicas_and_settings(own_corpus):
    directory = own_corpus / "kafka-4.3.1/logs/clean/d0" / METADATA_DIR
    metadata = read_cluster_metadata(ReadOnlyFiles(), str(directory))
    assert metadata.findings == []
    assert len(metadata.topics) == 35
    topic = metadata.by_name("tx")
    assert topic.replicas == {0: (1,), 1: (1,)}
    assert f"topic_id: {topic.topic_id}" in (directory.parent / "tx-0/partition.metadata").read_text()
    assert metadata.settings["tx"] == {"index.interval.bytes": "300", "retention.ms": "-1", "internal.segment.bytes": "6000"}
    assert metadata.by_name("doomed") is None, "it was deleted"
    assert all(LogConfig.of(settings) for settings in metadata.settings.values())
    assert metadata.topic_defaults(1) == {"min.insync.replicas": "1"}


def test_the_log_alone_says_the_same_as_snapshot_and_log(own_corpus, tmp_path):
    """A snapshot is a shorter way to the same state, as long as the log reaches back to the beginning."""
    directory = own_corpus / "kafka-4.3.1/logs/clean/d0" / METADATA_DIR
    with_snapshot = read_cluster_metadata(ReadOnlyFiles(), str(directory))
    shutil.copytree(directory, tmp_path / METADATA_DIR)
    for snapshot in (tmp_path / METADATA_DIR).glob("*.checkpoint"):
        snapshot.unlink()
    alone = read_cluster_metadata(ReadOnlyFiles(), str(tmp_path / METADATA_DIR))
    assert (alone.topics, alone.settings, alone.end_offset) == (
        with_snapshot.topics, with_snapshot.settings, with_snapshot.end_offset
    )  # fmt: skip


def test_damage_ends_the_log_as_it_does_for_a_broker(own_corpus, tmp_path):
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/unclean/d0" / METADATA_DIR, tmp_path / METADATA_DIR)
    log = tmp_path / METADATA_DIR / "00000000000000000000.log"
    data = bytearray(log.read_bytes())
    data[300] ^= 1
    log.write_bytes(data)
    for snapshot in (tmp_path / METADATA_DIR).glob("*.checkpoint"):
        snapshot.unlink()
    metadata = read_cluster_metadata(ReadOnlyFiles(), str(tmp_path / METADATA_DIR))
    assert metadata.topics == {}
    assert [finding.code for finding in metadata.findings] == ["crc-mismatch"]

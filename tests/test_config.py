"""Settings of topics and brokers: Kafka's names, bounds and words."""

from __future__ import annotations

import pytest

from engine.config.server import SYNONYMS, read_server_config, server_config
from engine.config.topic import LONG_MAX, LogConfig, is_known
from engine.errors import UsageError
from tests.support.memory_files import MemoryFiles


def test_defaults_are_those_of_kafka():
    config = LogConfig()
    assert (config.segment_size, config.segment_ms, config.retention_ms) == (1073741824, 604800000, 604800000)
    assert (config.max_message_size, config.flush_ms, config.min_cleanable_ratio) == (1048588, LONG_MAX, 0.5)
    assert (config.delete, config.compact) == (True, False)


@pytest.mark.parametrize(
    ("name", "text", "attribute", "value"),
    [
        ("segment.bytes", " 2200 ", "segment_size", 2200),
        ("retention.ms", "-1", "retention_ms", -1),
        ("retention.bytes", "-5", "retention_size", -5),
        ("cleanup.policy", " compact , delete ", "cleanup_policy", "compact,delete"),
        ("cleanup.policy", "", "cleanup_policy", ""),
        ("preallocate", "TRUE", "preallocate", True),
        ("compression.type", "zstd", "compression_type", "zstd"),
        ("compression.gzip.level", "-1", "gzip_level", -1),
        ("min.cleanable.dirty.ratio", "1e-3", "min_cleanable_ratio", 0.001),
        ("internal.segment.bytes", "7", "segment_size", 7),
    ],
)
def test_values(name, text, attribute, value):
    assert getattr(LogConfig.of({name: text}), attribute) == value


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("segment.ms", "0", "Invalid value 0 for configuration segment.ms: Value must be at least 1"),
        ("segment.bytes", "3000000000", "Invalid value 3000000000 for configuration segment.bytes: Value must be no more"),
        ("segment.bytes", "1_000", "Invalid value 1_000 for configuration segment.bytes: Not a number of type INT"),
        ("retention.ms", "1d", "Invalid value 1d for configuration retention.ms: Not a number of type LONG"),
        ("min.cleanable.dirty.ratio", "nan", "Invalid value nan for configuration min.cleanable.dirty.ratio"),
        ("preallocate", "yes", "Invalid value yes for configuration preallocate: Expected value to be either true or false"),
        ("cleanup.policy", "compact,purge", "Invalid value purge for configuration cleanup.policy: String must be one of"),
        ("cleanup.policy", "delete,delete", "Configuration 'cleanup.policy' values must not be duplicated"),
        ("compression.type", "none", "String must be one of: uncompressed, gzip"),
        ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
        ("message.timestamp.type", "createtime", "String must be one of: CreateTime, LogAppendTime"),
        ("min.insync.replicas", "0", "Value must be at least 1"),
        ("log.retention.ms", "1", "Unknown topic config name: log.retention.ms"),
    ],
)
def test_refusals(name, text, words):
    with pytest.raises(UsageError) as refused:
        LogConfig.of({name: text})
    assert words in str(refused.value)


def test_settings_that_exclude_each_other():
    with pytest.raises(UsageError, match=r"min.compaction.lag.ms \(5\) > max.compaction.lag.ms \(3\)"):
        LogConfig.of({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "3"})
    with pytest.raises(UsageError, match="Remote log storage only"):
        LogConfig.of({"remote.storage.enable": "true", "cleanup.policy": "compact"})


def test_the_internal_size_goes_first_whatever_the_order():
    assert LogConfig.of({"internal.segment.bytes": "7", "segment.bytes": "100"}).segment_size == 7
    assert LogConfig.of({"segment.bytes": "100", "internal.segment.bytes": "7"}).segment_size == 7


def test_settings_go_over_settings():
    config = LogConfig.of({"retention.ms": "5", "segment.ms": "7"}).with_settings({"retention.ms": "6"})
    assert (config.retention_ms, config.segment_ms) == (6, 7)


def test_every_synonym_is_a_setting():
    assert all(is_known(name) for name in SYNONYMS)


def test_server_properties():
    text = b"""# a broker
node.id=3
log.dirs = /data/a , /data/b
log.roll.hours=2
log.retention.minutes=5
log.retention.hours=1
log.flush.scheduler.interval.ms=77
log.cleaner.min.cleanable.ratio=0.1
message.max.bytes=1000
compression.type=gzip
metadata.log.segment.bytes=8388608
listeners=PLAINTEXT://:9092
"""
    config = read_server_config(MemoryFiles({"/etc/server.properties": text}), "/etc/server.properties")
    assert config.log_dirs == ("/data/a", "/data/b")
    assert config.node_id == 3
    topics = config.topics
    assert (topics.segment_ms, topics.retention_ms, topics.flush_ms) == (7_200_000, 300_000, 77)
    assert (topics.max_message_size, topics.compression_type, topics.min_cleanable_ratio) == (1000, "gzip", 0.1)
    assert (config.metadata_log.segment_size, config.metadata_log.retention_ms) == (8388608, -1)


def test_the_first_synonym_counts_and_topics_own_names_too():
    values = {"log.retention.ms": "9", "log.retention.hours": "1", "log.roll.ms": "5", "log.roll.hours": "1"}
    topics = server_config(values).topics
    assert (topics.retention_ms, topics.segment_ms) == (9, 5)
    assert server_config({"retention.ms": "4", "log.retention.ms": "9"}).topics.retention_ms == 4
    assert server_config({"log.retention.hours": "-3"}).topics.retention_ms == -1
    assert server_config({}).topics == LogConfig()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"log.roll.hours=x", "/s: Invalid value x for configuration log.roll.hours: Not a number"),
        (b"log.segment.bytes=1", "/s: Invalid value 1 for configuration segment.bytes: Value must be at least 14"),
        (b"metadata.log.segment.bytes=abc", "/s: metadata.log: Invalid value abc for configuration segment.bytes: Not a number"),
        (b"log.dirs=/a,/a", "/s: Configuration 'log.dirs' values must not be duplicated."),
        (b"a=\\u00zz", "/s: line 1: malformed"),
    ],
)
def test_bad_server_properties(text, words):
    with pytest.raises(UsageError) as refused:
        read_server_config(MemoryFiles({"/s": text}), "/s")
    assert words in str(refused.value)

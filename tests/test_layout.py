from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.discovery.names import (
    FileKind,
    FileName,
    PartitionDir,
    PartitionKind,
    canonical_name,
    file_order,
    log_file_name,
    offset_index_file_name,
    parse_file_name,
    parse_partition_dir,
    producer_snapshot_file_name,
    time_index_file_name,
    transaction_index_file_name,
)

HEX = "a2eb80d57bfc4269af90e35d3898849a"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("00000000000000000042.log", FileName(FileKind.LOG, 42)),
        ("00000000000000000042.index", FileName(FileKind.OFFSET_INDEX, 42)),
        ("00000000000000000042.timeindex", FileName(FileKind.TIME_INDEX, 42)),
        ("00000000000000000042.txnindex", FileName(FileKind.TRANSACTION_INDEX, 42)),
        ("00000000000000000042.snapshot", FileName(FileKind.PRODUCER_SNAPSHOT, 42)),
        ("00000000000000000042.kafka", FileName(FileKind.LOG_07, 42)),
        ("00000000000000000042.log.deleted", FileName(FileKind.LOG, 42, None, ".deleted")),
        ("00000000000000000042.timeindex.cleaned", FileName(FileKind.TIME_INDEX, 42, None, ".cleaned")),
        ("00000000000000000042.txnindex.swap", FileName(FileKind.TRANSACTION_INDEX, 42, None, ".swap")),
        ("00000000000000000042.log.swap.deleted", FileName(FileKind.LOG, 42, None, ".swap.deleted")),
        ("00000000000000000293-0000000002.checkpoint", FileName(FileKind.KRAFT_SNAPSHOT, 293, 2)),
        ("00000000000000000293-0000000002.checkpoint.deleted", FileName(FileKind.KRAFT_SNAPSHOT, 293, 2, ".deleted")),
        ("00000000000000000293-0000000002-77.checkpoint.part", FileName(FileKind.KRAFT_SNAPSHOT, 293, 2, ".part")),
        ("bootstrap.checkpoint", FileName(FileKind.BOOTSTRAP_CHECKPOINT)),
        ("leader-epoch-checkpoint", FileName(FileKind.LEADER_EPOCH_CHECKPOINT)),
        ("leader-epoch-checkpoint.tmp", FileName(FileKind.LEADER_EPOCH_CHECKPOINT, suffix=".tmp")),
        ("partition.metadata", FileName(FileKind.PARTITION_METADATA)),
        ("quorum-state", FileName(FileKind.QUORUM_STATE)),
        ("meta.properties", FileName(FileKind.META_PROPERTIES)),
        ("recovery-point-offset-checkpoint", FileName(FileKind.RECOVERY_POINT_CHECKPOINT)),
        ("replication-offset-checkpoint", FileName(FileKind.REPLICATION_CHECKPOINT)),
        ("log-start-offset-checkpoint", FileName(FileKind.LOG_START_CHECKPOINT)),
        ("cleaner-offset-checkpoint", FileName(FileKind.CLEANER_CHECKPOINT)),
        (".kafka_cleanshutdown", FileName(FileKind.CLEAN_SHUTDOWN)),
        (".lock", FileName(FileKind.LOCK)),
        (
            "120_Ure9eD19RMmD-98XzfrQmw.index.deleted",
            FileName(FileKind.OFFSET_INDEX, 120, None, ".deleted", "Ure9eD19RMmD-98XzfrQmw"),
        ),
    ],
)
def test_a_name_of_kafka_is_understood_and_can_be_made_again(name, expected):
    assert parse_file_name(name) == expected
    if "-77" not in name:  # the number of a temporary file is not kept
        assert canonical_name(expected) == name


@pytest.mark.parametrize(
    ("name", "offset"),
    [
        ("12.log", 12),
        ("+3.log", 3),
        ("-5.index", -5),
        ("-0000000000000000005.log", -5),
        ("00000000000000000002.foo.log", 2),
        ("9223372036854775807.log", 2**63 - 1),
        ("9223372036854775808.log", None),
        ("abc.log", None),
        ("1_0.log", None),
        (" 1.log", None),
        ("٣.log", None),
        (".log", None),
        ("0" * 400 + "1.log", None),
    ],
)
def test_odd_numbers_are_read_as_the_tools_of_kafka_read_them(name, offset):
    parsed = parse_file_name(name)
    assert parsed is not None
    assert parsed.base_offset == offset
    assert canonical_name(parsed) != name


@pytest.mark.parametrize("name", ["", "log", "x", "0" * 20, "0.log\n", "0.log.bak", "README.md", ".deleted"])
def test_other_names_are_foreign(name):
    assert parse_file_name(name) is None


def test_builders_write_twenty_digits():
    assert log_file_name(0) == "00000000000000000000.log"
    assert log_file_name(7, ".swap") == "00000000000000000007.log.swap"
    assert log_file_name(-5) == "-00000000000000000005.log"
    assert offset_index_file_name(2**63 - 1) == "09223372036854775807.index"
    assert time_index_file_name(1) == "00000000000000000001.timeindex"
    assert transaction_index_file_name(1, ".deleted") == "00000000000000000001.txnindex.deleted"
    assert producer_snapshot_file_name(10) == "00000000000000000010.snapshot"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders-7", PartitionDir("orders", 7)),
        ("a.b-1_c-0-1", PartitionDir("a.b-1_c-0", 1)),
        ("topic--1", PartitionDir("topic-", 1)),
        (f"doomed-0.{HEX}-delete", PartitionDir("doomed", 0, PartitionKind.DELETE, HEX)),
        (f"a.b-c-12.{HEX}-future", PartitionDir("a.b-c", 12, PartitionKind.FUTURE, HEX)),
        (f"lost-3.{HEX}-stray", PartitionDir("lost", 3, PartitionKind.STRAY, HEX)),
        ("my-delete-0", PartitionDir("my-delete", 0)),
    ],
)
def test_partition_directories(name, expected):
    assert parse_partition_dir(name) == expected


@pytest.mark.parametrize(
    "name",
    ["", "-", "orders", "-0", "orders-", "orders-x", "orders-1.5", "orders-2147483648", "orders-0-delete", "lost+found",
     f"orders.{HEX}-delete", f"-0.{HEX}-delete", "orders-0\n"],
)
def test_other_directories(name):
    assert parse_partition_dir(name) is None


@given(st.text())
def test_no_name_is_an_error(name):
    parse_partition_dir(name)
    file_order(name)
    parsed = parse_file_name(name)
    if parsed is not None:
        canonical_name(parsed)


@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from(["", ".deleted", ".cleaned", ".swap"]))
def test_what_is_built_is_parsed(offset, suffix):
    for build in (log_file_name, offset_index_file_name, time_index_file_name, transaction_index_file_name):
        name = build(offset, suffix)
        parsed = parse_file_name(name)
        assert (parsed.base_offset, parsed.suffix) == (offset, suffix)
        assert canonical_name(parsed) == name


def test_order_keeps_segments_together():
    names = [
        "foreign.txt", "leader-epoch-checkpoint", "00000000000000000009.log", "00000000000000000001.snapshot",
        "00000000000000000001.log.deleted", "00000000000000000001.index.deleted", "00000000000000000001.timeindex",
        "00000000000000000001.index", "00000000000000000001.log", "00000000000000000001.log.swap",
        "00000000000000000010.log", "00000000000000000001.txnindex",
    ]
    assert sorted(names, key=file_order) == [
        "00000000000000000001.log", "00000000000000000001.index", "00000000000000000001.timeindex",
        "00000000000000000001.txnindex", "00000000000000000001.snapshot", "00000000000000000001.log.swap",
        "00000000000000000001.log.deleted", "00000000000000000001.index.deleted", "00000000000000000009.log",
        "00000000000000000010.log", "leader-epoch-checkpoint", "foreign.txt",
    ]

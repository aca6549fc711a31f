"""0.7 logs beyond the cases: chunks that grow, flush by time, what 0.7.2 gets wrong, settings, names."""

from __future__ import annotations

import gzip
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import UsageError
from engine.kafka07.entries import Stopped
from engine.kafka07.log import open_log_07
from engine.kafka07.segment import Config07, OffsetOutOfRange07, Refused07
from tests.support.broker_07 import open_log_dir_07, topic_partition_07
from tests.support.crash_files import CrashFiles
from tests.support.disk_model import Disk


def entry(payload, attributes=0):
    return struct.pack(">ibBI", 6 + len(payload), 1, attributes, zlib.crc32(payload)) + payload


def wrapper(*payloads):
    return entry(gzip.compress(b"".join(map(entry, payloads)), mtime=0), attributes=1)


def new_log(**settings):
    files = CrashFiles(Disk({}, frozenset({"t"})))
    return files, open_log_07(files, "/t", Config07(**settings), now=0)


@given(
    st.lists(st.lists(st.binary(max_size=300), min_size=1, max_size=4), max_size=8),
    st.lists(st.booleans(), min_size=8, max_size=8),
    st.integers(1, 200),
    st.integers(0, 400),
)
def test_messages_come_whole_whatever_the_chunk(sets, compressed, fetch_size, log_file_size):
    _, log = new_log(flush_interval=1, log_file_size=log_file_size)
    ends = [0]
    for payloads, squeeze in zip(sets, compressed, strict=False):
        data = wrapper(*payloads) if squeeze else b"".join(map(entry, payloads))
        assert log.append(data, 0) == ends[-1]
        ends.append(ends[-1] + len(data))
    with log:
        for number, start in enumerate(ends):
            items = list(log.messages(start, fetch_size=fetch_size))
            assert [item.payload for item in items] == [payload for payloads in sets[number:] for payload in payloads]


def test_chunks_grow_up_to_a_limit():
    _, log = new_log(flush_interval=1)
    log.append(entry(b"x" * 1000), 0)
    (item,) = log.messages(0, fetch_size=10, max_fetch_size=1010)
    assert item.payload == b"x" * 1000
    (item,) = log.messages(0, fetch_size=10, max_fetch_size=1009)
    assert isinstance(item, Stopped)
    assert item.error.code == "torn-tail"


def test_a_torn_tail_taken_for_clean_stops_the_reader():
    files = CrashFiles(Disk({"t/0.kafka": entry(b"good") + entry(b"torn")[:-1]}))
    with open_log_07(files, "/t", Config07(), now=0, need_recovery=False) as log:
        good, stopped = log.messages(0)
        assert good.payload == b"good"
        assert isinstance(stopped, Stopped)
        assert stopped.offset == good.next_offset


def test_flush_by_time_and_by_count():
    files, log = new_log(flush_interval=3, flush_interval_ms=1000)
    assert not log.maybe_flush(5000)
    log.append(entry(b"1"), 5000)
    assert log.read(0, 100).size == 0
    assert not log.maybe_flush(999)
    assert log.maybe_flush(5000)
    assert log.read(0, 100).read() == entry(b"1")
    log.append(entry(b"2"), 5500)
    assert not log.maybe_flush(5999)
    log.append(wrapper(b"3", b"4"), 5999)
    assert log.log_end_offset == len(entry(b"1") + entry(b"2") + wrapper(b"3", b"4"))
    assert [operation.kind for operation in files.operations].count("sync") == 2


def test_only_logs_whose_time_has_come_are_flushed():
    files = CrashFiles(Disk({}, frozenset({"d"})))
    manager = open_log_dir_07(files, "/d", {"num.partitions": "2", "log.flush.interval": "9", "log.default.flush.interval.ms": "1000"}, now=0)
    late, early = manager.get_or_create("t", 0, 0), manager.get_or_create("t", 1, 0)
    early.flush(500)
    late.append(entry(b"1"), 100)
    early.append(entry(b"2"), 900)
    assert manager.flush_due(999) == []
    assert manager.flush_due(1100) == ["t-0"]
    assert (late.read(0, 100).read(), early.read(0, 100).size) == (entry(b"1"), 0)
    assert manager.flush_due(1500) == ["t-1"]


def test_bytes_without_messages_are_flushed_before_a_roll():
    files, log = new_log(flush_interval=1)
    log.append(wrapper(), 0)
    log.roll(0)
    log.append(entry(b"x"), 0)
    log.close()
    with open_log_07(files, "/t", Config07(), now=0) as again:
        assert [segment.start for segment in again.segments] == [0, len(wrapper())]
        assert [item.payload for item in again.messages(len(wrapper()))] == [b"x"]


@pytest.mark.parametrize("offset", [-1, 15, 2**62, -(2**63)])
def test_offsets_out_of_range(offset):
    _, log = new_log(flush_interval=1)
    log.append(entry(b"1234"), 0)
    with pytest.raises(OffsetOutOfRange07, match=f"offset {offset} is out of range"):
        log.read(offset, 10)
    assert log.read(14, 10).size == log.read(3, -5).size == log.read(0, 0).size == 0
    assert log.read(3, 5).read() == entry(b"1234")[3:8]


def test_what_failed_is_not_flushed_on_leaving():
    files, log = new_log()
    with pytest.raises(ZeroDivisionError), log:
        log.append(entry(b"1"), 0)
        raise ZeroDivisionError
    assert "sync" not in [operation.kind for operation in files.operations]


def test_settings_by_topic():
    settings = {
        "log.file.size": "100", "log.retention.hours": "2", "log.roll.hours": "3", "max.message.size": "9",
        "log.flush.interval": "7", "log.retention.size": "-1", "topic.log.retention.hours": "a:1, b:5",
        "topic.flush.intervals.ms": "b:50", "brokerid": "x",
    }  # fmt: skip
    hour = 3_600_000
    assert Config07.of(settings, "b") == Config07(100, 9, 7, 50, 3 * hour, 5 * hour, -1)
    assert Config07.of(settings, "c").retention_ms == 2 * hour
    with pytest.raises(UsageError, match=r"log\.file\.size: expected a number"):
        Config07.of({"log.file.size": "1k"})


@pytest.mark.parametrize("name", ["x", "x-", "x-y", "x-2147483648", "x-" + "9" * 200, "x-²"])
def test_directories_that_are_no_partition(name):
    with pytest.raises(Refused07):
        topic_partition_07(name)


def test_partition_names():
    assert topic_partition_07("a-b-12") == ("a-b", 12)
    assert topic_partition_07("a--1") == ("a-", 1)
    assert topic_partition_07("-0") == ("", 0)


@pytest.mark.parametrize("name", ["9223372036854775808", "", "1x", "+", "1_0", "³", "9" * 5000])
def test_names_that_are_no_offset(name):
    files = CrashFiles(Disk({f"t/{name}.kafka": b""}))
    with pytest.raises(Refused07, match="not an offset"):
        open_log_07(files, "/t", Config07(), now=0)


def test_one_log_that_does_not_open_leaves_the_marker_as_it_was():
    disk = Disk({"d/t-0/0.kafka": b"", "d/u-0/x.kafka": b"", "d/.kafka_cleanshutdown": b""})
    files = CrashFiles(disk)
    with pytest.raises(Refused07):
        open_log_dir_07(files, "/d", {}, now=0)
    assert files.disk().contents == disk.contents

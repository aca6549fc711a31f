"""Compressed sets of formats 0 and 1 that end inside a message: Kafka leaves out what is cut off; we do, and say so."""

from __future__ import annotations

import pytest
from crc32c import crc32c

from engine.formats import BATCH_HEADER, LOG_OVERHEAD
from tests.record.test_legacy import message, wrapper
from tests.support.json_output import objects_of, reports_of
from tests.support.run import kafkalog
from tests.support.small_logs import batch

NOW = "1700000000000"


def cut_set(first, magic, cut=1):
    """A wrapper around three messages with keys, of which the last is not all there."""
    inner = b"".join(
        message(first + number if magic == 0 else number, b"k%d" % number, b"v%d" % number, magic=magic) for number in range(3)
    )
    return wrapper(first + 2, inner[: len(inner) - cut], magic=magic)


def values_of(partition):
    done = kafkalog("fetch", "-f", "%s ", str(partition))
    return done.out.decode().split()


@pytest.mark.parametrize("magic", [0, 1])
def test_append_says_what_it_leaves_out(tmp_path, magic):
    (tmp_path / "in").write_bytes(cut_set(0, magic) + cut_set(0, magic) + cut_set(0, magic, cut=0))
    words = ("--create", "--now", NOW, "--input-format", "raw", "--input", str(tmp_path / "in"), str(tmp_path / "t-0"))
    done = kafkalog("append", "--format", "json", *words)
    assert done.status == 1, done.err
    *appended, report = objects_of(done.out)
    assert [(one["first_offset"], one["last_offset"]) for one in appended] == [(0, 6)]
    [event] = [event for event in report["events"] if "incomplete message" in event["reason"]]
    assert (event["action"], event["severity"]) == ("explained", "error")
    assert event["reason"].startswith("2 compressed sets of the input with an incomplete message at the end, the first one is at offsets 0 to 1: "
                                      "message 2 is cut off")
    assert values_of(tmp_path / "t-0") == ["v0", "v1", "v0", "v1", "v0", "v1", "v2"]


def batch_of(first, codec, cut):
    """A batch of format 2 with three records, of which the last is not all there, under a checksum that is right."""
    data = bytearray(batch(first, 3, codec=codec, partition_leader_epoch=0))
    if cut:
        del data[-cut:]
        BATCH_HEADER.put("batch_length", data, 0, len(data) - LOG_OVERHEAD)
        BATCH_HEADER.put("crc", data, 0, crc32c(bytes(data[BATCH_HEADER.positions["attributes"] :])))
    return bytes(data)


def followed(tmp_path, data):
    """What `append --follower` of `data` says: appended ranges, and the one event about batches that are broken, if any."""
    (tmp_path / "in").write_bytes(data)
    words = ("--create", "--now", NOW, "--input-format", "raw", "--follower", "--input", str(tmp_path / "in"))
    done = kafkalog("append", "--format", "json", *words, str(tmp_path / "t-0"))
    *appended, report = objects_of(done.out)
    told = [event for event in report["events"] if "a follower appends them unchanged" in event["reason"]]
    assert done.status == (1 if told else 0), done.err
    assert [(event["action"], event["severity"]) for event in told] == [("explained", "error")] * len(told)
    assert (tmp_path / "t-0/00000000000000000000.log").read_bytes() == data
    return appended, "".join(event["reason"] for event in told)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_follower_takes_sets_as_they_are_and_says_so(tmp_path, magic):
    data = cut_set(0, magic, cut=0) + cut_set(3, magic) + cut_set(6, magic) + cut_set(9, magic, cut=0)
    appended, told = followed(tmp_path, data)
    assert [(one["first_offset"], one["last_offset"]) for one in appended] == [(2, 11)]
    assert told == ("2 incomplete batches in the input, the first one ends at offset 5: message 2 is cut off; "
                    "a follower appends them unchanged, so they are in the log")


@pytest.mark.parametrize("codec", [0, 1, 3])
def test_a_follower_says_so_of_batches_of_format_2(tmp_path, codec):
    whole, broken = (batch_of(first, codec, cut) for first, cut in ((0, 0), (3, 1)))
    appended, told = followed(tmp_path, whole + broken)
    assert [(one["first_offset"], one["last_offset"]) for one in appended] == [(0, 5)]
    assert told.startswith("1 incomplete batch in the input, the first one ends at offset 5: ")


@pytest.mark.parametrize("magic", [0, 1])
def test_a_follower_has_nothing_to_say_of_whole_sets(tmp_path, magic):
    assert followed(tmp_path, cut_set(0, magic, cut=0))[1] == ""


@pytest.mark.parametrize("magic", [0, 1])
def test_append_has_nothing_to_say_of_whole_sets(tmp_path, magic):
    (tmp_path / "in").write_bytes(cut_set(0, magic, cut=0))
    words = ("--create", "--now", NOW, "--input-format", "raw", "--input", str(tmp_path / "in"), str(tmp_path / "t-0"))
    done = kafkalog("append", *words)
    assert (done.status, b"incomplete" in done.out) == (0, False)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("cut", [0, 1])
def test_compaction_says_what_goes_with_a_set(tmp_path, magic, cut):
    partition = tmp_path / "t-0"
    partition.mkdir()
    (partition / "00000000000000000000.log").write_bytes(cut_set(0, magic, cut=cut))
    (partition / "00000000000000000003.log").write_bytes(b"")
    assert kafkalog("recover", "--no-quarantine", "--now", NOW, str(partition)).status in (0, 1, 4)
    done = kafkalog("compact", "--force", "--clean-start", "--now", NOW, "--config", "cleanup.policy=compact", "--format", "json",
                    str(partition))  # fmt: skip
    reports = reports_of(done.out)
    told = [event for report in reports for event in report["events"] if "an incomplete message at the end" in event["reason"]]
    assert done.status == 0, done.out
    assert [(event["action"], event["severity"]) for event in told] == [("explained", "info")] * cut
    assert all("00000000000000000000.log at byte 0: message 2 is cut off" in event["reason"] for event in told)
    assert values_of(partition) == ["v0", "v1", "v2"][: 3 - cut]

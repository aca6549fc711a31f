"""Open transactions that keep a log from being cleaned: whose, since when, by the clock that was given."""

from __future__ import annotations

import pytest

from engine.config.topic import LogConfig
from engine.files import Files
from engine.formats import ControlType
from engine.log.append.analysis import append_as_follower
from engine.log.cleaner.checkpoint import Bound, cleanable_offsets
from engine.log.loading.loader import open_log
from engine.record.assembly import LOG_APPEND_TIME
from engine.record.builder import NewRecord, build_batch, end_txn_batch
from tests.support.json_output import objects_of
from tests.support.run import kafkalog

NOW = 1_764_000_000_000
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


def put(offset, timestamp, *, producer=-1, sequence=0, epoch=0, count=1, **settings):
    """A batch of `count` records a second apart, of an open transaction where it has a producer."""
    records = [NewRecord(offset + n, timestamp + 1000 * n if timestamp >= 0 else -1, b"k%d" % (n % 3), b"v") for n in range(count)]
    if producer >= 0:
        settings |= {"producer_id": producer, "producer_epoch": epoch, "base_sequence": sequence, "transactional": True}
    return build_batch(records, partition_leader_epoch=0, **settings)


def marker(offset, producer, kind=ControlType.COMMIT):
    return end_txn_batch(kind, 0, base_offset=offset, timestamp=NOW - MINUTE, producer_id=producer, producer_epoch=0,
                         partition_leader_epoch=0)


def written(tmp_path, *segments):
    directory = tmp_path / "t-0"
    directory.mkdir()
    for base, *batches in segments:
        (directory / f"{base:020}.log").write_bytes(b"".join(batches))
    return directory


def explained(directory, *options, now=NOW):
    """→ (events of open transactions, all reasons as text shows them)."""
    words = ("compact", "--verbose", "--explain", "--config", "cleanup.policy=compact", "--now", str(now), *map(str, options), str(directory))
    text, done = kafkalog(*words), kafkalog(*words, "--format", "json")
    assert done.status == text.status, done.err
    [report] = objects_of(done.out)
    for event in report["events"]:
        assert event["severity"] != "info" or event["reason"] in text.out.decode()
    return [event for event in report["events"] if "producer_id" in event], text.out.decode()


def test_an_open_transaction_is_named_with_its_age(tmp_path):
    began, last = NOW - DAY - 2 * HOUR - 3 * MINUTE - 7, NOW - 2500
    directory = written(
        tmp_path, (0, put(0, began - DAY), put(1, began, producer=4711, epoch=3, count=2)),
        (3, put(3, began), put(4, last, producer=4711, epoch=3, sequence=2)), (5, put(5, NOW)),
    )  # fmt: skip
    [event], text = explained(directory)
    assert (event["producer_id"], event["age_ms"], event["first_offset"]) == (4711, NOW - began, 1)
    assert event["reason"] == (
        "producer 4711, epoch 3, has a transaction open since offset 1, for 26 hours (93780007 ms); its last write was 2.5 s (2500 ms) ago"
    )
    assert "dirty from offset 0, uncleanable from 1: open transaction" in text
    [later], _ = explained(directory, now=NOW + HOUR)
    assert later["age_ms"] == NOW - began + HOUR, "--now is the clock"


def test_all_that_hold_it_back_are_named_the_oldest_first(tmp_path):
    directory = written(
        tmp_path, (0, put(0, NOW - 9 * HOUR), put(1, NOW - 8 * HOUR, producer=9), put(2, NOW - 7 * HOUR, producer=8)),
        (3, marker(3, 8), put(4, NOW - 6 * HOUR, producer=7)), (5, put(5, NOW - 5 * HOUR, producer=6)),
    )  # fmt: skip
    events, _ = explained(directory)
    assert [(event["producer_id"], event["first_offset"], event["age_ms"]) for event in events] == [
        (9, 1, 8 * HOUR), (7, 4, 6 * HOUR),
    ], "one that is in the active segment keeps nothing from being cleaned, one that has ended neither"  # fmt: skip


def test_of_very_many_the_oldest_are_named_and_the_others_counted(tmp_path):
    directory = written(
        tmp_path, (0, put(0, NOW - HOUR), *(put(n, NOW - HOUR + n, producer=n) for n in range(1, 31))), (31, put(31, NOW)),
    )  # fmt: skip
    events, text = explained(directory)
    assert [event["producer_id"] for event in events] == list(range(1, 11))
    assert "20 more open transactions, the last one since offset 30" in text


@pytest.mark.parametrize(("timestamp", "said"), [
    (-1, "since an unknown time: its first record was deleted or has no timestamp"),
    (NOW + 5000, "begun 5.0 s (5000 ms) ahead of the clock; its last write was 5.0 s (5000 ms) ahead of the clock"),
])  # fmt: skip
def test_timestamps_that_tell_no_age(timestamp, said, tmp_path):
    directory = written(tmp_path, (0, put(0, NOW - HOUR), put(1, timestamp, producer=9)), (2, put(2, NOW)))
    [event], _ = explained(directory)
    assert event["reason"] == f"producer 9, epoch 0, has a transaction open since offset 1, {said}"
    assert event.get("age_ms") == (None if timestamp < 0 else NOW - timestamp)


def test_with_append_time_the_broker_says_when_it_began(tmp_path):
    first = put(1, NOW - DAY, producer=9, timestamp_type=LOG_APPEND_TIME, log_append_time=NOW - HOUR)
    [event], _ = explained(written(tmp_path, (0, put(0, NOW - HOUR), first), (2, put(2, NOW))))
    assert event["age_ms"] == HOUR


def test_a_transaction_whose_first_record_was_deleted(tmp_path):
    directory = written(tmp_path, (0, put(0, NOW - HOUR, producer=9, count=3)), (3, put(3, NOW, producer=9, sequence=3)), (4, put(4, NOW)),
                        (5, put(5, NOW)))  # fmt: skip
    assert kafkalog("roll", "--now", str(NOW), str(directory)).status == 1, "indexes are made"
    for path in directory.glob(f"{0:020}.*"):
        path.unlink()
    events, _ = explained(directory, "--clean-start", "--log-start-offset", "3")
    assert [(event["first_offset"], event.get("age_ms")) for event in events] == [(0, None)]
    assert "since an unknown time: its first record was deleted or has no timestamp" in events[0]["reason"]


def test_a_transaction_that_ends_above_the_high_watermark_is_not_open(tmp_path):
    config = LogConfig.of({"cleanup.policy": "compact"})
    with open_log(Files(), str(written(tmp_path)), config, now=NOW, clean_shutdown=True) as log:
        for batch in (put(0, NOW - HOUR), put(1, NOW - HOUR, producer=9), marker(2, 9), put(3, NOW)):
            append_as_follower(log, batch, 0)
        log.roll()
        log.update_high_watermark(2)
        offsets = cleanable_offsets(log, None, NOW)
        assert (offsets.first_uncleanable_dirty_offset, offsets.bound) == (1, Bound.UNREPLICATED_END)
        append_as_follower(log, put(4, NOW, producer=8), 0)
        assert cleanable_offsets(log, None, NOW).bound is Bound.UNREPLICATED_END, "the one that is open is not in the way"
        log.update_high_watermark(3)
        log.roll()
        assert cleanable_offsets(log, None, NOW).bound is Bound.HIGH_WATERMARK
        log.update_high_watermark(5)
        assert cleanable_offsets(log, None, NOW)[1::2] == (4, Bound.OPEN_TRANSACTION)

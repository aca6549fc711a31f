"""Operations on 0.7 logs: append with rolls, recovery, retention, a new partition, stop and start."""

from __future__ import annotations

import struct
import zlib

from engine.kafka07.entries import MessageAndOffset
from engine.kafka07.log import open_log_07
from engine.kafka07.segment import Config07
from tests.crash.sweep import Case
from tests.support.broker_07 import open_log_dir_07
from tests.support.crash_files import CrashFiles
from tests.support.disk_model import Disk

NOW = 1_700_000_000_000
SMALL = Config07(flush_interval=3, log_file_size=500)
RAISED = b"R"


def entry(payload):
    return struct.pack(">ibBI", 6 + len(payload), 1, 0, zlib.crc32(payload)) + payload


def payload(number):
    return b"%03d" % number + bytes([97 + number % 26]) * (number * 37 % 600)


def payloads(log):
    """Return every message of a log; all must be valid."""
    items = list(log.messages(log.log_start_offset))
    assert all(isinstance(item, MessageAndOffset) and item.valid for item in items), items[-1]
    return [item.payload for item in items]


def reopened(disk, config=SMALL):
    """Return the messages of d/t-0 after recovery; a second opening must return the same."""
    files = CrashFiles(disk)
    with open_log_07(files, "/d/t-0", config, now=NOW) as log:
        found = payloads(log)
        log.append(entry(RAISED), NOW)
    with open_log_07(CrashFiles(files.disk()), "/d/t-0", config, now=NOW) as log:
        assert payloads(log) == [*found, RAISED]
        assert log.recovered.cut == 0
    return found


def append_case():
    every = [payload(number) for number in range(12)]

    def work(files, acknowledge):
        with open_log_07(files, "/d/t-0", SMALL, now=NOW) as log:
            for number, data in enumerate(every):
                log.append(entry(data), NOW)
                if log.active.high_water_mark == log.active.size:
                    acknowledge(number + 1)
        acknowledge(len(every))

    def check(disk, acknowledged, done):
        if "d/t-0" not in disk.directories:
            raise AssertionError("the partition is gone")
        found = reopened(disk)
        assert found == every[: len(found)]
        assert len(found) >= (acknowledged or 0)
        assert not done or found == every

    return Case("append-07", Disk({}, frozenset({"d", "d/t-0"})), work, check)


def torn_log():
    first, second = (b"".join(entry(payload(number)) for number in part) for part in (range(4), range(4, 7)))
    torn = second + entry(payload(7))[:-3] + bytes(900)
    return Disk({f"d/t-0/{0:020}.kafka": first, f"d/t-0/{len(first):020}.kafka": torn}, frozenset({"d"}))


def recover_case():
    every = [payload(number) for number in range(7)]

    def work(files, acknowledge):
        acknowledge(every)
        with open_log_07(files, "/d/t-0", SMALL, now=NOW) as log:
            log.roll(NOW)
            log.append(entry(b"behind"), NOW)
        acknowledge([*every, b"behind"])

    def check(disk, acknowledged, done):
        found = reopened(disk)
        assert found in (every, [*every, b"behind"])
        assert found[: len(acknowledged)] == acknowledged or acknowledged is None
        assert not done or found == acknowledged

    return Case("recover-07", torn_log(), work, check)


def retain_case(name, config, left):
    """Return a case for retention; `left`: number of messages that it keeps."""
    every = [payload(number) for number in range(12)]
    files = CrashFiles(Disk({}, frozenset({"d", "d/t-0"})))
    with open_log_07(files, "/d/t-0", SMALL, now=NOW) as log:
        for data in every:
            log.append(entry(data), NOW)
        assert len(log.segments) > 3
    disk = files.disk()
    end = sum(map(len, disk.contents.values()))

    def work(files, _acknowledge):
        with open_log_07(files, "/d/t-0", config, now=NOW + 10_000, need_recovery=False) as log:
            log.retain(NOW + 10_000)

    def check(disk, _acknowledged, done):
        found = reopened(disk)
        assert found == every[len(every) - len(found) :]
        assert len(found) >= left
        with open_log_07(CrashFiles(disk), "/d/t-0", config, now=NOW) as log:
            assert log.log_end_offset == end, "offsets would be given out again"
        assert not done or len(found) == left

    return Case(name, disk, work, check)


def broker_case():
    before = Disk({f"d/t-0/{0:020}.kafka": entry(b"old"), "d/.kafka_cleanshutdown": b""}, frozenset({"d"}))
    settings = {"log.flush.interval": "1000"}

    def work(files, acknowledge):
        manager = open_log_dir_07(files, "/d", settings, now=NOW)
        manager.get_or_create("t", 0, NOW).append(entry(b"new" * 300), NOW)
        manager._settings["num.partitions"] = "2"
        other = manager.get_or_create("t", 1, NOW)
        other.append(entry(b"other"), NOW)
        other.flush(NOW)
        acknowledge("other")
        manager.stop()
        acknowledge("all")

    def check(disk, acknowledged, done):
        files = CrashFiles(disk)
        manager = open_log_dir_07(files, "/d", {"num.partitions": "2"}, now=NOW)
        found = {name: payloads(log) for name, log in manager.logs.items()}
        assert found["t-0"] in ([b"old"], [b"old", b"new" * 300])
        assert found.get("t-1") in (None, [], [b"other"])
        if acknowledged:
            assert found.get("t-1") == [b"other"]
        if acknowledged == "all" or done:
            assert found["t-0"] == [b"old", b"new" * 300]
            assert "d/.kafka_cleanshutdown" in disk.contents
        manager.stop()

    return Case("broker-07", before, work, check)


CASES_07 = [
    append_case(),
    recover_case(),
    retain_case("retain-size-07", Config07(retention_size=900), 4),
    retain_case("retain-age-07", Config07(retention_ms=1), 0),
    broker_case(),
]

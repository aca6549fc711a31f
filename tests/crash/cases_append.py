"""Append: records that were flushed, and so reported, are never lost; of the others, none or the first ones in order exist."""

from __future__ import annotations

from unittest.mock import patch

from engine.formats import Codec, ControlType
from engine.log.append.analysis import append_as_follower, append_as_leader
from engine.log.append.bulk import BulkAppender
from engine.log.append.log_end import adopt_segment, move_batches
from engine.log.producers.entry import AppendOrigin
from kafkalog_cli.commands.append import make_partition
from tests.crash.cases_log import END, opened
from tests.crash.partitions import ABORTED, DIRECTORY, IDEMPOTENT, TOPIC, batches_of, closed, marker, plain, see, segments
from tests.crash.sweep import Case
from tests.support.crash_files import CrashFiles
from tests.support.disk_model import Disk

EMPTY = Disk({}, frozenset({"d"}))


def sent(*, count=3, size=90, **settings):
    """Return a batch as a client sends it."""
    return plain(0, count=count, size=size, epoch=-1, **settings)


def one_by_one(log, acknowledge):
    for number in range(6):
        append_as_leader(log, sent(codec=Codec.LZ4 if number % 3 == 2 else Codec.NONE), 3 + number // 4)
        if number % 2:
            log.flush()
            acknowledge(log.log_end_offset)


def together(log, acknowledge):
    for _ in range(2):
        batches = [sent(size=120), sent(count=1), sent(codec=Codec.GZIP), *[sent() for _ in range(6)]]
        BulkAppender(log, 3).append(bytearray(b"".join(batches)), [])
        log.flush()
        acknowledge(log.log_end_offset)


def of_producers(log, acknowledge):
    fields = {"producer_id": ABORTED, "producer_epoch": 0, "transactional": True}
    for number in range(3):
        append_as_leader(log, sent(base_sequence=2 + 3 * number, **fields), 3)
        append_as_leader(log, sent(producer_id=IDEMPOTENT, producer_epoch=0, base_sequence=6 + 3 * number), 3)
    log.flush()
    acknowledge(log.log_end_offset)
    end = marker(0, ControlType.ABORT, ABORTED, epoch=-1)
    append_as_leader(log, end, 3, AppendOrigin.COORDINATOR, 0)
    log.flush()
    acknowledge(log.log_end_offset)


def following(log, acknowledge):
    end = log.log_end_offset
    for number in range(4):
        data = b"".join(plain(end + 7 * number + at, epoch=4) for at in (0, 3))
        append_as_follower(log, data, 9)
        log.flush()
        acknowledge(log.log_end_offset)


def append_case(name, disk, append):
    """Return a case for `append` on a partition after a clean stop."""

    def work(files, acknowledge):
        if "d/t-0" not in disk.directories:
            files.make_directory(DIRECTORY)
            files.sync_directory("/d")
        log = opened(files, recovery_point=0)
        append(log, acknowledge)
        log.close()
        acknowledge(log.log_end_offset)

    whole = CrashFiles(disk)
    work(whole, lambda _: None)
    wanted = see(whole.disk(), clean=True)
    before = batches_of(segments()) if disk is not EMPTY else {}

    def check(disk, acknowledged, done):
        if acknowledged is None and "d/t-0" not in disk.directories:
            return
        for recovery_point in {0, acknowledged or 0}:
            seen = see(disk, recovery_point=recovery_point)
            assert before.items() <= seen.batches.items()
            assert seen.batches == {base: batch for base, batch in wanted.batches.items() if base < seen.end}
            assert seen.end >= (acknowledged or 0), f"{acknowledged} was acknowledged, the log ends at {seen.end}"
            assert seen.epochs == [entry for entry in wanted.epochs if entry[1] < seen.end]
        if done:
            assert see(disk, clean=True) == wanted

    return Case(name, disk, work, check)


def adopt_case():
    """Adopt segments that another process wrote as the last ones: after records, and replacing an empty segment."""
    source = "/d/t-1"
    parts = [(0, [plain(0, epoch=0), plain(3, epoch=0)])]
    files = CrashFiles(closed(parts))
    files.rename(DIRECTORY, source)
    written = files.disk().below("d/t-1")
    disk = closed(segments())
    copies = {f"d/t-{number}/{path.rpartition('/')[2]}": data for path, data in written.items() for number in (1, 2)
              if not path.endswith((".snapshot", "checkpoint"))}
    disk = Disk(disk.contents | copies, disk.directories | {"d/t-1", "d/t-2"})

    def work(files, acknowledge):
        for number in (1, 2):
            move_batches(files, f"/d/t-{number}/{0:020}.log", log_end(number), 3)
            if number == 2:
                log = opened(files, recovery_point=log_end(number))
                log.roll()
                log.close()
            log = opened(files, recovery_point=log_end(number))
            adopt_segment(log, f"/d/t-{number}", 0, log_end(number), log_end(number) + 6, 3)
            acknowledge(log.recovery_point)
            log.close()

    def log_end(number):
        return END + 6 * (number - 1)

    whole = CrashFiles(disk)
    work(whole, lambda _: None)
    wanted = see(whole.disk(), clean=True)
    assert wanted.end == END + 12

    def check(disk, acknowledged, done):
        for recovery_point in {0, acknowledged or 0}:
            seen = see(disk, recovery_point=recovery_point)
            assert seen.batches == {base: batch for base, batch in wanted.batches.items() if base < seen.end}
            assert seen.end >= (acknowledged or END)
        if done:
            assert see(disk, clean=True) == wanted

    return Case("adopt", disk, work, check)


def make_case():
    """Make the directory of the partition with append --create."""

    def work(files, _acknowledge):
        with patch("kafkalog_cli.commands.append.Files", lambda: files):
            assert make_partition(DIRECTORY, create=True, dry_run=False)

    def check(disk, _acknowledged, done):
        assert not done or TOPIC in disk.directories

    return Case("append-make", EMPTY, work, check)


CASES_APPEND = [
    make_case(),
    adopt_case(),
    append_case("append", closed(segments()), one_by_one),
    append_case("append-new", EMPTY, together),
    append_case("append-many", closed(segments()), together),
    append_case("append-producers", closed(segments()), of_producers),
    append_case("append-follower", closed(segments()), following),
]

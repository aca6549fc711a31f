"""Rules of compaction that cases do not show: very large batches, headers that stay, old formats, full disks, throttles."""

from __future__ import annotations

import errno

import pytest

from engine.config.topic import LogConfig
from engine.errors import UnwritableFile
from engine.files import Files
from engine.formats import LONG_MAX, Codec, ControlType
from engine.log.cleaner.cleaner import Cleaner, LogCleaningAborted
from engine.log.cleaner.compaction import CompactionOptions, compact
from engine.log.cleaner.offset_map import BYTES_PER_ENTRY, SkimpyOffsetMap
from engine.log.cleaner.transactions import CleanedTransactionMetadata
from engine.log.cleaner.walk import SegmentWalk
from engine.log.loading.loader import open_log
from engine.log.report import Action
from engine.overlay import OverlayFiles
from engine.record.batch import read_batches
from engine.record.builder import NewRecord, build_batch, end_txn_batch
from engine.record.columns import RECORD_ROWS
from tests.support.crash_files import WRITING, CrashFiles, StartProblem
from tests.support.disk_model import Disk
from tests.support.keyed_logs import write_transactions
from tests.support.live_keys import last_records, lost_keys
from tests.support.memory_files import MemoryFile

NOW = 1_700_000_100_000
TOPIC = "d/t-0"
SETTINGS = {"cleanup.policy": "compact", "segment.bytes": "100000000", "delete.retention.ms": "1000"}


def put(offset, *values, **settings):
    """A batch of (key, value)."""
    records = [NewRecord(offset + n, NOW - 10_000, key, value) for n, (key, value) in enumerate(values)]
    return build_batch(records, **settings)


def disk_of(*segments):
    """A partition whose segments are (base offset, batches …)."""
    contents = {f"{TOPIC}/{base:020}.log": b"".join(batches) for base, *batches in segments}
    return Disk(contents, frozenset({"d", TOPIC}))


def cleaned(
    disk, *, now=NOW, on_bytes=lambda _: None, on_share=lambda _: None, files=None, memory=1 << 20, rounds=None, settings=None
):
    """Compact all but the last segment → (what was done, the disk behind it)."""
    files = files or CrashFiles(disk)
    log = open_log(files, f"/{TOPIC}", LogConfig.of(SETTINGS | (settings or {})), now=now, clean_shutdown=False)
    try:
        log.update_high_watermark(log.log_end_offset)
        options = CompactionOptions(force=True, dedupe_buffer_size=memory, secret=(1, 2), rounds=rounds)
        done = compact(log, options, on_bytes, lambda _: None, on_share=on_share)
    finally:
        log.close()
    return done, files.disk()


def logs(disk):
    return {path: data for path, data in disk.contents.items() if path.endswith(".log")}


def batches_of(disk):
    return [batch for name, data in sorted(logs(disk).items()) for batch in read_batches(MemoryFile(name, data), print)]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("extra", [0, 1, RECORD_ROWS])
def test_a_batch_with_more_records_than_the_columns_take(codec, extra):
    count = RECORD_ROWS + extra
    large = put(1, *((b"%d" % (n % (count - 10)), b"v") for n in range(count)), codec=codec)
    disk = disk_of((0, put(0, (b"5", b"old")), large), (count + 1, put(count + 1, (b"7", b"new"), (b"x", None))),
                   (count + 3, put(count + 3, (b"y", b"1"))))  # fmt: skip
    done, after = cleaned(disk)
    assert lost_keys(logs(disk), logs(after)) == []
    kept = [batch.record_count for batch in batches_of(after)]
    assert kept == [count - 10 - 1, 2, 1]  # each key once; key 7 came again
    assert done.rounds[0].messages_read == count + 3
    assert done.rounds[0].messages_written == count - 11 + 2


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_the_last_batch_of_a_producer_stays_as_a_header(codec):
    owned = put(0, (b"a", b"1"), (b"b", b"1"), codec=codec, producer_id=9, producer_epoch=3, base_sequence=40)
    disk = disk_of((0, owned), (2, put(2, (b"a", b"2"), (b"b", b"2"))), (4, put(4, (b"c", b"1"))))
    _, after = cleaned(disk)
    header = batches_of(after)[0]
    assert (header.base_offset, header.last_offset, header.record_count, header.codec) == (0, 1, 0, 0)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.is_valid) == (9, 3, 40, True)


@pytest.mark.parametrize("magic", [0, 1])
def test_what_goes_at_the_end_of_an_old_format_leaves_an_empty_header(magic):
    """Kafka's cleaner fails for good here: it cannot write such a header."""
    disk = disk_of((0, put(0, (b"a", b"1"), magic=magic)), (1, put(1, (None, b"1"), magic=magic)),
                   (2, put(2, (b"b", b"1"), magic=magic)))  # fmt: skip
    _, after = cleaned(disk)
    header = batches_of(after)[1]
    assert (header.magic, header.record_count, header.base_offset, header.last_offset) == (2, 0, 1, 1)
    assert lost_keys(logs(disk), logs(after)) == []


def test_a_tombstone_goes_once_its_horizon_has_passed():
    disk = disk_of((0, put(0, (b"a", b"1"))), (1, put(1, (b"a", None), (b"b", b"1"))), (3, put(3, (b"c", b"1"))))
    _, once = cleaned(disk)
    assert last_records(logs(once))[b"a"].value is None
    assert next(batch.delete_horizon_ms for batch in batches_of(once)) == NOW + 1000
    _, early = cleaned(once, now=NOW + 999)
    assert last_records(logs(early))[b"a"].value is None
    _, late = cleaned(once, now=NOW + 1000)
    assert b"a" not in last_records(logs(late))


@pytest.mark.parametrize("codec", list(Codec))
def test_tombstones_that_stay_for_ever_have_no_horizon(codec):
    """Nor have markers. Kafka adds the clock to delete.retention.ms, and the sum wraps."""
    disk = disk_of(
        (0, put(0, (b"a", b"1"), (b"b", b"1"), codec=codec, transactional=True, producer_id=7, producer_epoch=0, base_sequence=0),
         end_txn_batch(ControlType.COMMIT, 0, base_offset=2, timestamp=NOW, producer_id=7, producer_epoch=0)),
        (3, put(3, (b"a", None), (b"b", None), (b"c", b"1"), codec=codec)), (6, put(6, (b"c", b"2"))), (7, put(7, (b"z", b"z"))),
    )  # fmt: skip
    for_ever = {"delete.retention.ms": str(LONG_MAX)}
    _, once = cleaned(disk, settings=for_ever)
    _, again = cleaned(once, settings=for_ever, now=NOW * 1000)
    for after in (once, again):
        assert [batch.delete_horizon_ms for batch in batches_of(after)] == [None] * len(batches_of(after))
        assert last_records(logs(after))[b"a"].value is None
        assert any(batch.is_control for batch in batches_of(after))


def test_a_small_map_takes_several_rounds_and_ends_clean():
    segments = [(n, put(n, (b"%d" % (n % 20), b"v%d" % n))) for n in range(80)]
    disk = disk_of(*segments)
    done, after = cleaned(disk, memory=BYTES_PER_ENTRY * 8)
    assert len(done.rounds) > 5
    assert done.clean_until == 79
    assert lost_keys(logs(disk), logs(after)) == []
    once, _ = cleaned(disk, memory=BYTES_PER_ENTRY * 8, rounds=1)
    assert (len(once.rounds), once.clean_until) == (1, 7)


def test_a_map_that_is_full_in_the_middle_of_a_batch_ends_the_round_there():
    disk = disk_of((0, put(0, *((b"%d" % n, b"v") for n in range(50)))), (50, put(50, (b"x", b"v"))))
    done, after = cleaned(disk, memory=BYTES_PER_ENTRY * 8, rounds=1)
    assert done.clean_until == 7
    assert lost_keys(logs(disk), logs(after)) == []


def test_every_byte_is_told_to_the_throttle():
    disk = disk_of((0, put(0, (b"a", b"1"), (b"a", b"2"))), (2, put(2, (b"b", b"1"))), (3, put(3, (b"c", b"1"))))
    told = []
    cleaned(disk, on_bytes=told.append)
    first_two = sum(len(data) for path, data in logs(disk).items() if not path.endswith("3.log"))
    assert sum(told) == 2 * first_two, "once for the map, once for the filter"


@pytest.mark.parametrize("batches", [5, 200])
@pytest.mark.parametrize("rounds", [None, 7])
def test_what_is_done_is_told_as_the_share_of_all_that_will_be_read(batches, rounds):
    """Twenty rounds, however few segments there are; each reads all that is clean by then."""
    starts = range(0, 200, batches)
    segments = [
        (10 * first, *(put(10 * number, *((b"%d" % (10 * number + n), b"v" * 100) for n in range(10))) for number in range(first, first + batches)))
        for first in starts
    ]  # fmt: skip
    shares, told = [0.0], [(0, 0.0)]
    done, _ = cleaned(
        disk_of(*segments, (2000, put(2000, (b"x", b"1")))), on_share=shares.append,
        on_bytes=lambda size: told.append((told[-1][0] + size, shares[-1])),
        memory=100 * BYTES_PER_ENTRY * 10 // 9 + BYTES_PER_ENTRY, rounds=rounds,
    )  # fmt: skip
    assert len(done.rounds) == (rounds or 20)
    read, share = told[-1]
    assert share == 1
    most = max(abs(before / read - share) for before, share in told)
    assert most < 0.05, "a round is a twentieth of the bytes that are dirty, but not of the work"


def test_counting_writes_nothing():
    disk = disk_of((0, put(0, (b"a", b"1"), (b"a", b"2"))), (2, put(2, (b"b", b"1"))))
    whole, _ = cleaned(disk)
    tried = OverlayFiles(CrashFiles(disk), NOW)
    log = open_log(tried, f"/{TOPIC}", LogConfig.of(SETTINGS), now=NOW, clean_shutdown=False)
    log.update_high_watermark(log.log_end_offset)
    cleaner = Cleaner(SkimpyOffsetMap(1 << 20, (1, 2)), NOW, lambda _: None, dry_run=True)
    names = tried.list(f"/{TOPIC}")
    counted = cleaner.clean(log, 0, 2)
    assert counted == (whole.clean_until, whole.rounds[0])
    assert tried.list(f"/{TOPIC}") == names


def test_a_disk_that_is_full_at_the_first_group_leaves_the_log_as_it_was():
    disk = disk_of((0, put(0, (b"a", b"1"), (b"b", b"1"))), (2, put(2, (b"a", b"2"))), (3, put(3, (b"c", b"1"))))
    whole = CrashFiles(disk)
    cleaned(disk, files=whole)
    writes = [number for number, operation in enumerate(whole.operations)
              if operation.kind in WRITING and operation.path.endswith(".log.cleaned")]  # fmt: skip
    assert writes
    for number in writes:
        files = CrashFiles(disk, problem=StartProblem(number, errno.ENOSPC, part=0.5))
        with pytest.raises(UnwritableFile):
            cleaned(disk, files=files)
        assert logs(files.disk()) == logs(disk)
        assert not [path for path in files.disk().contents if ".cleaned" in path or ".swap" in path]


def test_a_disk_that_is_full_in_the_middle_of_a_round():
    """What is in place stays, and is told: which offsets, how many records. What lies behind is as it was."""
    segments = [(10 * n, put(10 * n, *((b"%d" % (i % 5), b"v" * 500) for i in range(10)))) for n in range(7)]
    disk, settings = disk_of(*segments), {"segment.bytes": "6000"}  # each segment is a group
    whole = CrashFiles(disk)
    done, _ = cleaned(disk, files=whole, settings=settings)
    writes = [number for number, operation in enumerate(whole.operations)
              if operation.kind in WRITING and operation.path.endswith(".log.cleaned")]  # fmt: skip
    told: list[int] = []
    for number in writes:
        files = CrashFiles(disk, problem=StartProblem(number, errno.ENOSPC, part=0.5))
        log = open_log(files, f"/{TOPIC}", LogConfig.of(SETTINGS | settings), now=NOW, clean_shutdown=False)
        log.update_high_watermark(log.log_end_offset)
        stats = []
        with pytest.raises(UnwritableFile):
            compact(log, CompactionOptions(force=True, secret=(1, 2)), lambda _: None, lambda _: None, on_stats=stats.append)
        log.close()
        before, after = logs(disk), logs(files.disk())
        changed = [path for path in before if after.get(path) != before[path]]
        events = log.report.find(Action.COMPACTED)
        assert len(events) == len(stats) == bool(changed)
        for event in events:
            assert (event.first_offset, event.end_offset) == (0, 10 * len(changed))
            assert changed == sorted(before)[: len(changed)]
            assert event.size == sum(len(before[path]) - len(after.get(path, b"")) for path in changed)
            assert event.records == stats[0].messages_gone == 10 * len(changed)
            told.append(len(changed))
        assert lost_keys(before, after) == []
    assert set(told) == set(range(1, done.rounds[0].segments_before))


@pytest.mark.parametrize("keep_deleted", [False, True])
def test_the_disk_needs_room_for_one_new_segment(keep_deleted):
    """Whatever the number of groups and rounds: what is replaced goes at once, unless it is to be kept."""
    segments = [(10 * n, put(10 * n, *((b"%d" % (10 * n + i), b"v" * 500) for i in range(10)))) for n in range(12)]
    for n in (2, 11):  # some of each segment go in the first round, others in the last one
        keys = [10 * i + n // 2 if i < min(n, 5) else 10 * n + i for i in range(10)]
        segments[n] = (10 * n, put(10 * n, *((b"%d" % key, b"w" * 500) for key in keys)))
    disk = disk_of(*segments)
    sizes: list[int] = []

    def look(_number: int) -> None:
        sizes.append(sum(len(data) for path, data in files.disk().contents.items() if ".log" in path))

    files = CrashFiles(disk, watch=look)
    config = LogConfig.of(SETTINGS | {"segment.bytes": "6000"})  # each segment is a group
    log = open_log(files, f"/{TOPIC}", config, now=NOW, clean_shutdown=True)
    log.update_high_watermark(log.log_end_offset)
    options = CompactionOptions(
        force=True, dedupe_buffer_size=BYTES_PER_ENTRY * 40, secret=(1, 2), keep_deleted=keep_deleted
    )
    done = compact(log, options, lambda _: None, lambda _: None)
    log.close(keep_deleted=keep_deleted)
    assert len(done.rounds) >= 3
    before, largest = sum(len(data) for data in logs(disk).values()), max(len(data) for data in logs(disk).values())
    assert (max(sizes) <= before + largest) is not keep_deleted
    kept = {path: data for path, data in files.disk().contents.items() if path.endswith(".log.deleted")}
    active = max(logs(disk))
    originals = {f"{path}.deleted": data for path, data in logs(disk).items() if path != active}
    assert kept == (originals if keep_deleted else {}), "what later rounds replace was never there before"
    assert lost_keys(logs(disk), logs(files.disk())) == []


def test_tombstones_that_go_are_counted():
    disk = disk_of((0, put(0, (b"a", None), (b"b", None), (b"a", b"1"))), (3, put(3, (b"c", b"1"))))
    first, once = cleaned(disk)
    assert first.rounds[0].tombstones_removed == 0
    late, _ = cleaned(once, now=NOW + 1000)
    assert late.rounds[0].tombstones_removed == 1


def test_rounds_are_summed_up():
    disk = disk_of(*((n, put(n, (b"%d" % (n % 20), b"v%d" % n))) for n in range(80)))
    files = CrashFiles(disk)
    log = open_log(files, f"/{TOPIC}", LogConfig.of(SETTINGS), now=NOW, clean_shutdown=False)
    log.update_high_watermark(log.log_end_offset)
    ticks = iter(range(1000))
    done = compact(log, CompactionOptions(force=True, dedupe_buffer_size=BYTES_PER_ENTRY * 8, secret=(1, 2)), lambda _: None,
                   lambda _: None, clock=lambda: next(ticks))  # fmt: skip
    [summary] = log.report.find(Action.EXPLAINED)  # each round is counted once as compacted
    assert (summary.first_offset, summary.end_offset, summary.records) == (0, 79, 79 - 20)
    assert all(stats.seconds == 1 for stats in done.rounds)
    log.close()


@pytest.mark.parametrize("dry_run", [True, False])
def test_an_overflowed_segment_ends_the_round_also_of_a_dry_run(dry_run):
    far = (1 << 31) + 10
    disk = disk_of((0, put(0, (b"a", b"1"))), (far + 1, put(far + 1, (b"b", b"1"))), (far + 2, put(far + 2, (b"c", b"1"))))
    files = CrashFiles(disk)
    open_log(files, f"/{TOPIC}", LogConfig.of(SETTINGS), now=NOW, clean_shutdown=False).close()
    contents = files.disk().contents
    contents[f"{TOPIC}/{0:020}.log"] += put(far, (b"d", b"1"))
    files = CrashFiles(Disk(contents, frozenset({"d", TOPIC})))
    log = open_log(files, f"/{TOPIC}", LogConfig.of(SETTINGS), now=NOW, clean_shutdown=True)
    try:
        log.update_high_watermark(log.log_end_offset)
        cleaner = Cleaner(SkimpyOffsetMap(1 << 20, (1, 2)), NOW, lambda _: None, dry_run=dry_run)
        with pytest.raises(LogCleaningAborted, match=f"overflow at offset {far} "):
            cleaner.clean(log, 0, far + 2)
        assert len(log.segments.values(0, far + 1)) == (1 if dry_run else 2)
    finally:
        log.close()


def test_small_transactions_are_decided_a_window_at_a_time(tmp_path, monkeypatch):
    write_transactions(tmp_path / "t-0", 2, 500, now=NOW)
    log = open_log(Files(), str(tmp_path / "t-0"), LogConfig.of(SETTINGS), now=NOW, clean_shutdown=False)
    log.update_high_watermark(log.log_end_offset)
    with monkeypatch.context() as patched:
        patched.setattr(SegmentWalk, "control_kind", lambda *_: pytest.fail("a plain marker is read on its own"))
        patched.setattr(CleanedTransactionMetadata, "_decide", lambda *_: pytest.fail("a batch is decided on its own"))
        done = compact(log, CompactionOptions(force=True, secret=(1, 2)), lambda _: None, lambda _: None)
    log.close()
    assert done.rounds[0].messages_discarded > 400

"""Compaction: after any stop, the partition opens with the last record of every key, and a second run completes."""

from __future__ import annotations

from functools import partial

from engine.config.topic import LogConfig
from engine.formats import Codec, ControlType
from engine.log.cleaner.checkpoint import CleanerCheckpoint
from engine.log.cleaner.compaction import CompactionOptions, compact
from engine.log.loading.loader import open_log
from engine.record.builder import NewRecord, build_batch
from tests.crash.partitions import ABORTED, COMMITTED, DIRECTORY, IDEMPOTENT, NOW, TOPIC, closed, identity, marker, see, visit
from tests.crash.sweep import Case
from tests.support.crash_files import CrashFiles
from tests.support.disk_model import Disk
from tests.support.live_keys import Last, last_records

CHECKPOINT = "d/cleaner-offset-checkpoint"
SETTINGS = {
    "cleanup.policy": "compact", "segment.index.bytes": "600", "index.interval.bytes": "150", "segment.bytes": "900",
    "delete.retention.ms": "1000",
}  # fmt: skip
CONFIG = LogConfig.of(SETTINGS)
TWICE = LogConfig.of(SETTINGS | {"segment.bytes": "450"})  # segments are not merged


def put(offset, *values, **settings):
    """Return a batch of (key, value)."""
    records = [NewRecord(offset + n, 1_700_000_000_000 + offset + n, key, value) for n, (key, value) in enumerate(values)]
    return build_batch(records, **settings)


def upserts():
    """Return (base offset, batches) of five segments: repeated keys, tombstones, transactions, a batch that becomes empty."""
    old, new = b"o" * 60, b"n" * 60
    return [
        (0, [put(0, (b"a", old), (b"b", old)), put(2, (b"c", old), producer_id=IDEMPOTENT, producer_epoch=0, base_sequence=0),
             put(3, (b"a", old), (b"d", old), codec=Codec.GZIP)]),
        (5, [put(5, (b"e", old), transactional=True, producer_id=COMMITTED, producer_epoch=0, base_sequence=0),
             put(6, (b"f", old), transactional=True, producer_id=ABORTED, producer_epoch=0, base_sequence=0),
             marker(7, ControlType.COMMIT, COMMITTED), marker(8, ControlType.ABORT, ABORTED)]),
        (9, [put(9, (b"a", new), (b"b", None)), put(11, (b"f", new))]),
        (12, [put(12, (b"c", new), (b"e", new)), put(14, (b"g", None))]),
        (15, [put(15, (b"a", new), (b"z", new))]),
    ]  # fmt: skip


def keys_of(disk) -> dict[bytes, Last]:
    return last_records({path: data for path, data in disk.contents.items() if path.endswith(".log")})


def cleaned(files, config, acknowledge, *, keep_deleted=False):
    """Open, compact, close; acknowledge the checkpoint of each round.

    keep_deleted  keep replaced segments until the log is closed
    """
    log = open_log(files, DIRECTORY, config, now=NOW, clean_shutdown=True)
    log.update_high_watermark(log.log_end_offset)
    checkpoint = CleanerCheckpoint(files, DIRECTORY)

    def note(offset: int) -> None:
        checkpoint.write(files, offset)
        acknowledge(offset)

    options = CompactionOptions(checkpoint.read(), force=True, dedupe_buffer_size=24 * 5, secret=(1, 2), keep_deleted=keep_deleted)
    compact(log, options, lambda _: None, note)
    log.close()


def compact_case(case_name, config, disk=None, cleaned=cleaned):
    disk = disk or closed(upserts(), config)
    disk = Disk(disk.contents | {CHECKPOINT: b"0\n1\nother 0 12\n"}, disk.directories)
    before, keys = see(disk, clean=True, config=config), keys_of(disk)

    def work(files, acknowledge):
        cleaned(files, config, acknowledge)

    whole = CrashFiles(disk)
    work(whole, lambda _: None)
    assert whole.disk().contents[CHECKPOINT].endswith(b"t 0 15\n"), "the checkpoint goes to the active segment"
    assert sum(map(len, whole.disk().below(TOPIC).values())) < sum(map(len, disk.below(TOPIC).values()))

    complete = set()  # states that a second run completed: most stops leave the same state after the log was opened

    def check(disk, acknowledged, done):
        for clean in (False, True) if done else (False,):
            seen = see(disk, clean=clean, config=config)
            assert (seen.start, seen.end) == (before.start, before.end)
            assert not clean or seen.producers == before.producers
        _, opened = visit(disk, config, False, 0, 0)
        _same_keys(keys_of(opened), keys)
        noted = CleanerCheckpoint(CrashFiles(opened), DIRECTORY).read()
        assert (noted or 0) >= (acknowledged or 0)
        if identity(opened) not in complete:
            completes(opened)
            complete.add(identity(opened))

    def completes(opened):
        second = CrashFiles(opened)
        cleaned(second, config, lambda _: None)
        _same_keys(keys_of(second.disk()), keys)
        assert second.disk().contents[CHECKPOINT].endswith(b"t 0 15\n")
        assert b"other 0 12\n" in second.disk().contents[CHECKPOINT]
        assert not [path for path in second.disk().contents if path.endswith((".cleaned", ".swap", ".deleted", ".tmp"))]

    return Case(case_name, disk, work, check)


def _same_keys(found, wanted):
    """Compare keys; a tombstone may be deleted together with the records before it."""
    assert found.items() <= wanted.items()
    assert {key for key, last in wanted.items() if last.value is not None} <= found.keys()


CASES_COMPACT = [
    compact_case("compact", CONFIG),
    compact_case("compact-each", TWICE),
    compact_case("compact-kept", CONFIG, cleaned=partial(cleaned, keep_deleted=True)),
]

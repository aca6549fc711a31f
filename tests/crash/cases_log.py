"""Operations on partitions: recover, retain, roll, truncate, split. What is there before counts as acknowledged."""

from __future__ import annotations

from dataclasses import replace as with_settings

from engine.log.loader import open_log
from engine.log.retention import delete_old_segments
from tests.crash.partitions import (
    CONFIG,
    DIRECTORY,
    IDEMPOTENT,
    NOW,
    TOPIC,
    batches_of,
    closed,
    name,
    plain,
    raw,
    see,
    segments,
)
from tests.crash.sweep import Case
from tests.support.crash_files import CrashFiles
from tests.support.disk_model import Disk

END = 39  # log end offset of `segments()`


def opened(files, **settings):
    return open_log(files, DIRECTORY, settings.pop("config", CONFIG), **({"now": NOW, "clean_shutdown": True} | settings))


def recover_case(case_name, disk, good, *, recovery_point=0, config=CONFIG):
    """An unclean start: whatever happens, the next one finds exactly the batches `good`."""

    def work(files, _acknowledge):
        opened(files, clean_shutdown=False, recovery_point=recovery_point, config=config).close()

    whole = CrashFiles(disk)
    work(whole, None)
    wanted = see(whole.disk(), clean=True, config=config)
    assert wanted.batches == good

    def check(disk, _acknowledged, done):
        assert see(disk, recovery_point=recovery_point, config=config) == wanted
        if done:  # a broker that finds its recovery point beyond all of it does not look at older segments
            assert see(disk, recovery_point=2**62, config=config) == wanted

    return Case(case_name, disk, work, check)


def damaged_middle():
    parts = segments()
    disk = closed(parts)
    data = bytearray(disk.contents[name(12)])
    data[len(parts[1][1][0]) + len(parts[1][1][1]) + 70] ^= 1
    good = batches_of([parts[0], (12, parts[1][1][:2])])
    return Disk(disk.contents | {name(12): bytes(data)}, disk.directories), good


def torn_tail():
    parts = segments()
    disk = closed(parts)
    torn = disk.contents[name(33)] + plain(39)[:-5]
    return Disk(disk.contents | {name(33): torn}, disk.directories), batches_of(parts)


def only_logs_and_epochs():
    """Without leader-epoch-checkpoint it would depend on the order of recovery, as in Kafka, which epochs are known."""
    epochs = f"{TOPIC}/leader-epoch-checkpoint"
    return raw(segments(), **{epochs: closed(segments()).contents[epochs]})


def overflowing():
    parts = [(0, [plain(0), plain(3), plain(2**31 + 5), plain(2**31 + 8)])]
    return raw(parts), batches_of(parts)


def retain_case(case_name, kept_from, *, disk=None, **settings):
    """Retention; after a clean stop, where the broker's recovery point is its end, or after a crash."""
    clean_before = disk is None
    disk = disk or closed(segments())
    config = with_settings(CONFIG, **settings)
    before = see(disk, clean=clean_before)
    point = END if clean_before else 0

    def work(files, _acknowledge):
        log = opened(files, config=config, clean_shutdown=clean_before, recovery_point=point)
        log.update_high_watermark(END)
        assert delete_old_segments(log)
        log.close()

    kept = {base: batch for base, batch in before.batches.items() if base >= kept_from}
    producers = {IDEMPOTENT: before.producers[IDEMPOTENT]} if kept else {}

    def check(disk, _acknowledged, done):
        for clean in (False, True) if done else (False,):
            seen = see(disk, recovery_point=point, clean=clean, config=config)
            assert kept.items() <= seen.batches.items()
            assert seen.batches == {base: batch for base, batch in before.batches.items() if base >= seen.start}, "a hole"
            assert seen.end == END, "offsets would be given out again"
            assert producers.items() <= seen.producers.items()
            assert not done or (seen.batches == kept and seen.start == kept_from)
            assert not clean or not kept or seen.producers == before.producers

    return Case(case_name, disk, work, check)


def truncate_case(case_name, target, *, fully=False):
    parts = segments()
    disk = closed(parts)
    before = see(disk, clean=True)
    kept = {} if fully else {base: batch for base, batch in before.batches.items() if base < target}

    def work(files, _acknowledge):
        log = opened(files)
        if fully:
            log.truncate_fully_and_start_at(target)
        else:
            log.truncate_to(target)
        log.close()

    whole = CrashFiles(disk)
    work(whole, None)
    wanted = see(whole.disk(), clean=True)
    assert wanted.batches == kept

    def check(disk, _acknowledged, done):
        for clean in (False, True) if done else (False,):
            seen = see(disk, recovery_point=END, clean=clean)
            assert kept.items() <= seen.batches.items()
            assert fully or seen.batches == {base: batch for base, batch in before.batches.items() if base < seen.end}, "a hole"
            assert not done or seen == wanted

    return Case(case_name, disk, work, check)


def roll_case():
    disk = closed(segments())
    before = see(disk, clean=True)

    def work(files, _acknowledge):
        log = opened(files)
        log.roll()
        log.close()

    def check(disk, _acknowledged, done):
        for clean in (False, True) if done else (False,):
            assert see(disk, recovery_point=END, clean=clean) == before
        assert not done or disk.contents[name(END)] == b""

    return Case("roll", disk, work, check)


CASES_LOG = [
    recover_case("recover-middle", *damaged_middle()),
    recover_case("recover-tail", *torn_tail(), recovery_point=33),
    recover_case("recover-no-indexes", only_logs_and_epochs(), batches_of(segments())),
    recover_case("split", *overflowing()),
    retain_case("retain-size", 23, retention_size=900),
    retain_case("retain-all", END, retention_ms=1),
    retain_case("recover-retain", 23, disk=only_logs_and_epochs(), retention_size=900),
    truncate_case("truncate-tail", 36),
    truncate_case("truncate-middle", 20),
    truncate_case("truncate-fully", 100, fully=True),
    roll_case(),
]

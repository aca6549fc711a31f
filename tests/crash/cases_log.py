"""Operations on partitions: recover, retain, roll, truncate, split. The existing records count as acknowledged."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace as with_settings

from engine.discovery.names import ASIDE, producer_snapshot_file_name
from engine.errors import UnreadableFile
from engine.findings import Finding, Where
from engine.formats import Codec
from engine.log.append.analysis import append_as_leader
from engine.log.operations.full_disk import delete_oldest_segments
from engine.log.quarantine.kept import prune
from engine.log.quarantine.manifest import QuarantineDamaged
from engine.log.quarantine.quarantining_files import QuarantiningFiles
from engine.log.quarantine.restore import ChangedSince, restore
from engine.log.report import Report
from engine.log.retention.rules import delete_old_segments
from engine.log.verify.rebuild import Rebuilder
from tests.crash.partitions import (
    ABORTED,
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
from tests.support.disk_model import CLOCK_MS, CLOCK_NS, Disk
from tests.support.logs import open_log

EPOCHS = f"{TOPIC}/leader-epoch-checkpoint"
BEFORE_ALL = ("nothing was changed yet", "stopped before it changed anything")  # reported for a quarantine without a first line
END = 39  # log end offset of `segments()`


def tidy(disk):
    """Are there no leftover files, and are removals synced?"""
    return not [path for path in disk.below(TOPIC) if path.endswith((".deleted", ".cleaned", ".swap", ".tmp", ASIDE))]


def opened(files, **settings):
    return open_log(files, DIRECTORY, settings.pop("config", CONFIG), **({"now": NOW, "clean_shutdown": True} | settings))


def recover_case(case_name, disk, good, *, recovery_point=0, config=CONFIG):
    """Recover after an unclean stop: after any stop the next start finds exactly the batches `good`."""

    def work(files, _acknowledge):
        opened(files, clean_shutdown=False, recovery_point=recovery_point, config=config).close()

    whole = CrashFiles(disk)
    work(whole, None)
    wanted = see(whole.disk(), clean=True, config=config)
    assert wanted.batches == good

    def check(disk, _acknowledged, done):
        assert see(disk, recovery_point=recovery_point, config=config) == wanted
        assert not done or tidy(disk)
        if done:  # a broker whose recovery point is after all of it does not read older segments
            assert see(disk, recovery_point=2**62, config=config) == wanted

    return Case(case_name, disk, work, check)


def damaged_middle(good=2):
    """Return a disk with one damaged batch in the second segment, after `good` valid ones."""
    parts = segments()
    disk = closed(parts)
    data = bytearray(disk.contents[name(12)])
    data[sum(map(len, parts[1][1][:good])) + 70] ^= 1
    good = batches_of([parts[0], (12, parts[1][1][:good])])
    return Disk(disk.contents | {name(12): bytes(data)}, disk.directories), good


def torn_tail():
    parts = segments()
    disk = closed(parts)
    torn = disk.contents[name(33)] + plain(39)[:-5]
    return Disk(disk.contents | {name(33): torn}, disk.directories), batches_of(parts)


def only_logs_and_epochs():
    """Return a disk with logs and leader-epoch-checkpoint: without it, the known epochs depend on the order of recovery."""
    return raw(segments(), **{EPOCHS: closed(segments()).contents[EPOCHS]})


def recover_below_case():
    """Recover segments below the recovery point without indexes: a broker that is started meanwhile trusts existing indexes."""
    disk = only_logs_and_epochs()._replace(unsynced=frozenset())

    def work(files, _acknowledge):
        opened(files, clean_shutdown=False, recovery_point=END).close()

    def check(disk, _acknowledged, done):
        files = CrashFiles(disk)
        log = opened(files, clean_shutdown=False, recovery_point=END)
        for segment in list(log.segments)[:-1]:
            wanted = times[segment.base_offset]
            assert segment.largest_timestamp in (wanted, wanted if done else CLOCK_MS), segment.base_offset
            found = segment.collect_aborted_txns(0, END).transactions
            assert [txn.producer_id for txn in found] == ([ABORTED] if segment.base_offset == 23 else [])
            here = [base for base in batches if segment.base_offset <= base < segment.read_next_offset()]
            assert [segment.translate_offset(base).base_offset for base in here] == here != []
        log.close_handlers()

    batches = batches_of(segments())
    times = {base: 1_700_000_000_000 + 10 * last for base, last in ((0, 11), (12, 22), (23, 32))}
    return Case("recover-below", disk, work, check)


def indexes_of(disk):
    return [path for path in disk.contents if path.endswith(("index", ".timeindex"))]


def entries_of_another_interval():
    return closed(segments(), with_settings(CONFIG, index_interval=1))


def garbled_indexes():
    disk = closed(segments())
    return Disk(disk.contents | dict.fromkeys(indexes_of(disk), b"\x01" * 24), disk.directories)


def unsynced_indexes():
    disk = closed(segments())
    return disk._replace(unsynced=frozenset(indexes_of(disk)))


def recover_over_case(case_name, disk, *, is_sound=False):
    """Rebuild existing indexes, also below the recovery point: at the end they are right.

    is_sound  they are right before; then they must be right at any time, since a broker that is started meanwhile trusts them
    """

    def work(files, _acknowledge):
        opened(files, clean_shutdown=False).close()

    whole = CrashFiles(disk)
    work(whole, None)
    wanted = see(whole.disk(), clean=True)
    assert wanted.batches == batches_of(segments())

    def check(disk, _acknowledged, done):
        assert see(disk, recovery_point=END if done or is_sound else 0) == wanted
        assert not done or tidy(disk)

    return Case(case_name, disk, work, check)


def swapped():
    """Return the disk of a broker that was killed while it replaced two segments by one compacted segment."""
    parts = segments()
    disk = closed(parts)
    merged = b"".join(parts[1][1] + parts[2][1])
    contents = disk.contents | {name(12, ".log.swap"): merged, name(0, ".log.deleted"): b"gone"}
    return Disk(contents, disk.directories), batches_of(parts)


def overflowing():
    parts = [(0, [plain(0), plain(3), plain(2**31 + 5), plain(2**31 + 8)])]
    return raw(parts), batches_of(parts)


def retain_case(case_name, kept_from, *, disk=None, **settings):
    """Apply retention after a clean stop, when the recovery point is the log end, or after a crash."""
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
            assert not done or (seen.batches == kept and seen.start == kept_from and tidy(disk))
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
            assert not done or (seen == wanted and tidy(disk))

    return Case(case_name, disk, work, check)


def roll(files, _acknowledge=None):
    log = opened(files)
    log.roll()
    log.close()


def rolled(case_name, disk):
    before = see(disk, clean=True)

    def check(disk, _acknowledged, done):
        for clean in (False, True) if done else (False,):
            assert see(disk, recovery_point=END, clean=clean) == before
        assert not done or (disk.contents[name(END)] == b"" and tidy(disk))

    return Case(case_name, disk, roll, check)


def roll_case():
    return rolled("roll", closed(segments()))


def roll_empty_case():
    """Roll at the offset of an empty active segment: its files are deleted, which is the only change of names."""
    files = CrashFiles(closed(segments()))
    roll(files)
    return rolled("roll-empty", files.disk())


def append_case(case_name, *, roll=False):
    """Append batches of several producers with rolls; records below the recovery point are acknowledged.

    roll  roll explicitly after a flush: then only the roll itself syncs its new files
    """
    sent = [plain(0), plain(0, producer_id=IDEMPOTENT, producer_epoch=0, base_sequence=0), plain(0, size=200, codec=Codec.GZIP)]
    sent += [plain(0, size=150 + 40 * number) for number in range(5)]
    disk = Disk({}, frozenset({"d", TOPIC}))

    def work(files, acknowledge):
        log = opened(files)
        ends = [0]
        for number, data in enumerate(sent):
            ends.append(append_as_leader(log, bytearray(data), number // 4).last_offset + 1)
            if number % 3 == 2:
                log.flush()
            if roll and number > 1:
                log.roll()
            acknowledge(sum(end <= log.recovery_point for end in ends) - 1)
        log.close()
        acknowledge(len(sent))

    whole = CrashFiles(disk)
    work(whole, lambda _: None)
    wanted = see(whole.disk(), clean=True)
    assert len(wanted.batches) == len(sent)

    def check(disk, acknowledged, done):
        for clean in (False, True) if done else (False,):
            seen = see(disk, clean=clean)
            assert list(seen.batches.items()) == list(wanted.batches.items())[: len(seen.batches)]
            assert len(seen.batches) >= (acknowledged or 0), "acknowledged records are gone"
            assert not done or seen == wanted
        if acknowledged:  # a broker does not read records below its recovery point
            point = [*wanted.batches, wanted.end][acknowledged]
            assert see(disk, recovery_point=point).batches.keys() >= set(list(wanted.batches)[:acknowledged])

    return Case(case_name, disk, work, check)


def truncate_and_append_case():
    """Append other records at the offsets of truncated ones, whose producers and index entries must never come back."""
    disk = closed(segments())
    new = [
        plain(0, size=200, producer_id=99, producer_epoch=0, base_sequence=0),
        plain(0, size=400),
        plain(0, size=400),
        plain(0),
    ]

    def work(files, acknowledge):
        log = opened(files)
        log.truncate_to(20)
        for data in new:
            append_as_leader(log, bytearray(data), 5)
        log.flush()
        acknowledge("appended")
        log.close()

    whole = CrashFiles(disk)
    work(whole, lambda _: None)
    wanted = see(whole.disk(), clean=True)
    kept = {base: batch for base, batch in wanted.batches.items() if base < 20}

    def check(disk, acknowledged, done):
        for clean in (False, True) if done else (False,):
            seen = see(disk, clean=clean, recovery_point=20)
            assert kept.items() <= seen.batches.items()
            if acknowledged:
                assert seen == wanted

    return Case("truncate-append", disk, work, check)


def rebuild_over_case():
    """Rebuild files that are not really damaged: a broker that is started meanwhile finds complete ones."""
    disk = entries_of_another_interval()
    findings = [Finding("index-offset-mismatch", Where(f"/{name(base, kind)}"), "broken")
                for base in (0, 12, 23, 33) for kind in (".index", ".timeindex")]
    wanted = see(disk, clean=True)

    def work(files, _acknowledge):
        assert Rebuilder(files, DIRECTORY, CONFIG, findings, NOW).run()

    def check(disk, _acknowledged, done):
        assert see(disk, clean=True) == wanted
        assert not done or tidy(disk)

    return Case("rebuild-over", disk, work, check)


def rebuild_case():
    """Run verify --rebuild: the log is never changed, and at the end its indexes are right."""
    sound = closed(segments())
    broken = {name(23, ".index"): bytes(24), name(33, ".timeindex"): b""}
    disk = Disk(sound.contents | broken, sound.directories)
    del disk.contents[name(33, ".timeindex")]
    findings = [Finding("index-offset-mismatch", Where("/" + path), "broken") for path in broken]
    wanted = see(sound, clean=True)

    def work(files, _acknowledge):
        Rebuilder(files, DIRECTORY, CONFIG, findings, NOW).run()

    def check(disk, _acknowledged, done):
        assert see(disk).batches == wanted.batches
        if done:
            assert see(disk, clean=True) == wanted
            assert {path: disk.contents[path] for path in broken} == {path: sound.contents[path] for path in broken}

    return Case("rebuild", disk, work, check)


def partition(disk):
    return disk.below(TOPIC)


def times(disk):
    return {path: modified_ns for path, modified_ns in disk.modified_ns.items() if path.startswith(TOPIC)}


def aged(disk, top):
    """Return the disk with a directory `top`, and with files older than everything written later."""
    old = {path: CLOCK_NS - 86_400_000_000_000 - number for number, path in enumerate(sorted(disk.contents))}
    return disk._replace(directories=disk.directories | {top[1:]}, modified_ns=old)


def is_refused(files, quarantine):
    try:
        restore(files, quarantine)
    except ChangedSince:
        return True
    return False


def other_snapshot():
    """Return a disk with a wrong snapshot at the end of the first segment, which is rewritten under the same name."""
    disk = closed(segments())
    stale = {f"{TOPIC}/{producer_snapshot_file_name(12)}": b"something else"}
    return Disk(disk.contents | stale, disk.directories), batches_of(segments())


def quarantine_case(case_name, top, damaged=damaged_middle):
    """Recover with a quarantine: after any stop the log recovers, and the previous state can be restored."""
    disk, good = damaged()
    disk = aged(disk, top)
    recovered = recover_case("", disk, good).check

    def work(files, _acknowledge):
        kept = QuarantiningFiles(files, f"{top}/kept", command="recover", now=NOW, log_dirs=("/d",))
        opened(kept, clean_shutdown=False).close()
        kept.finish()

    def check(after, acknowledged, done):
        recovered(after, acknowledged, done)
        files = CrashFiles(after)
        try:
            restored = restore(files, f"{top}/kept", salvage=not done)
            assert restored.differences == [] or not done
        except (QuarantineDamaged, UnreadableFile) as error:
            told = any(words in str(error) for words in BEFORE_ALL) or not files.exists(f"{top}/kept/manifest.jsonl")
            if done or not told:
                raise
        assert partition(files.disk()) == partition(disk)
        if done:  # and not over later writes
            assert times(files.disk()) == times(disk)
            later = CrashFiles(after)
            with later.open_writable("/" + name(12)) as file:
                file.write_at(file.size(), b"later")
            assert is_refused(later, f"{top}/kept")

    return Case(case_name, disk, work, check)


def quarantine_dropped_case():
    """Delete a quarantine whose files were put back: after any stop, its rest must not undo anything."""
    disk = aged(damaged_middle()[0], "/q")
    path = "/" + name(33)

    def work(files, _acknowledge):
        kept = QuarantiningFiles(files, "/q/kept", command="recover", now=NOW, log_dirs=("/d",))
        data = kept.read(path, 1 << 20)
        modified = kept.info(path).modified_ns
        kept.remove(path)
        with kept.open_writable(path, create=True) as file:
            file.write_at(0, data)
            file.sync()
        kept.sync_directory("/" + TOPIC)
        kept.set_modified(path, modified)
        kept.finish()

    def check(after, _acknowledged, _done):
        files = CrashFiles(after)
        with suppress(QuarantineDamaged, UnreadableFile):
            restore(files, "/q/kept", salvage=True)
        assert partition(files.disk()) == partition(disk)

    return Case("quarantine-dropped", disk, work, check)


def restore_case(case_name, top, disk=None, change=None):
    """Restore what a command changed: after a stop the next run continues, and restores the previous bytes."""
    disk = aged(damaged_middle()[0] if disk is None else disk, top)
    files = CrashFiles(disk)
    kept = QuarantiningFiles(files, f"{top}/kept", command="recover", now=NOW, log_dirs=("/d",))
    if change is None:
        opened(kept, clean_shutdown=False).close()
    else:
        change(kept)
    kept.finish()

    def work(files, _acknowledge):
        restore(files, f"{top}/kept")

    def check(after, _acknowledged, done):
        files = CrashFiles(after)
        if done:
            assert partition(after) == partition(disk)
        assert restore(files, f"{top}/kept").differences == []
        assert times(files.disk()) == times(disk)
        for left in (files.disk(), *files.power_losses(drawn=1)):
            assert partition(left) == partition(disk)
            assert {path for path in left.directories if path.startswith("d")} == set(disk.directories) - {top[1:]}

    return Case(case_name, files.disk(), work, check)


def recovered_with_quarantine():
    """A damaged disk, and the same after its recovery, which keeps data in /q/kept."""
    disk = damaged_middle()[0]
    disk = disk._replace(directories=disk.directories | {"q"})
    files = CrashFiles(disk)
    kept = QuarantiningFiles(files, "/q/kept", command="recover", now=NOW, log_dirs=("/d",))
    opened(kept, clean_shutdown=False).close()
    kept.finish()
    return disk, files.disk()


def restore_force_case():
    """Restore with --force and a newer file: it is deleted durably when this is reported, and a copy is kept."""
    disk, left = recovered_with_quarantine()
    later = left._replace(contents=left.contents | {name(77): b"of later"})

    def work(files, _acknowledge):
        restore(files, "/q/kept", force=True)

    def check(after, _acknowledged, done):
        files = CrashFiles(after)
        if done:
            assert partition(after) == partition(disk)
            assert b"of later" in after.below("q").values()
        restore(files, "/q/kept", force=True)
        if not done:
            assert partition(files.disk()) == partition(disk)
            assert b"of later" in files.disk().below("q").values(), "what came since is lost"

    return Case("restore-force", later, work, check)


def prune_case():
    """Delete a quarantine: after a stop it is still recognized, and the next call deletes the rest."""
    _, left = recovered_with_quarantine()

    def work(files, _acknowledge):
        prune(files, "/q/kept", NOW + 1)

    def check(after, _acknowledged, done):
        files = CrashFiles(after)
        assert partition(after) == partition(left)
        if files.exists("/q/kept") and files.list("/q/kept"):
            assert not done or files.exists("/q/kept/manifest.jsonl")
            prune(files, "/q/kept", NOW + 1)
            assert not files.exists("/q/kept")

    return Case("restore-prune", left, work, check)


def restore_everything_case():
    """Change everything that a quarantine records."""
    disk = Disk({f"{TOPIC}/{path}": bytes(700) for path in "abcde"}, frozenset({"d", TOPIC, f"{TOPIC}/gone"}))

    def change(files):
        with files.open_writable(f"{DIRECTORY}/a") as file:
            file.write_at(650, b"longer" * 100)
        with files.open_writable(f"{DIRECTORY}/new", create=True) as file:
            file.write_at(0, b"new")
        with files.open_writable(f"{DIRECTORY}/b") as file:
            file.truncate(900)
        files.rename(f"{DIRECTORY}/c", f"{DIRECTORY}/d", replaces=True)
        files.remove(f"{DIRECTORY}/e")
        files.make_directory(f"{DIRECTORY}/made")
        files.rename(f"{DIRECTORY}/b", f"{DIRECTORY}/made/b")
        files.remove_directory(f"{DIRECTORY}/gone")
        files.set_modified(f"{DIRECTORY}/a", 5)

    return restore_case("restore-everything", "/q", disk, change)


def mend_epochs_case(case_name, work):
    """Repair an unreadable leader-epoch-checkpoint: after a stop, the next run repairs it, or finds it repaired."""
    sound = closed(segments())
    disk = Disk(sound.contents | {EPOCHS: b"garbage"}, sound.directories)
    wanted = see(sound, clean=True)
    assert wanted.epochs

    def check(disk, _acknowledged, done):
        assert see(disk, clean=True) == wanted
        assert not done or disk.contents[EPOCHS] == sound.contents[EPOCHS]

    return Case(case_name, disk, work, check)


def rebuild_epochs(files, _acknowledge):
    assert Rebuilder(files, DIRECTORY, CONFIG, [Finding("epochs-mismatch", Where(f"/{EPOCHS}"), "broken")], NOW).run()


def make_room_case():
    """Delete segments of a log that cannot be opened: at any time it has a later start and no gap."""
    disk = closed(segments())
    batches = batches_of(segments())

    def delete(log):
        log.update_high_watermark(END)
        log.delete_segments(list(log.segments)[:3], dict.fromkeys((0, 12, 23), "to free space"))

    def work(files, _acknowledge):
        report = Report(DIRECTORY, "retain")
        assert delete_oldest_segments(files, DIRECTORY, NOW, opened, delete, report)
        assert [(event.first_offset, event.end_offset) for event in report.events] == [(0, 12), (12, 23), (23, 33)]

    def check(disk, _acknowledged, done):
        seen = see(disk)
        assert seen.start in ((33,) if done else (0, 12, 23, 33))
        assert (seen.batches, seen.end) == ({base: batch for base, batch in batches.items() if base >= seen.start}, END)

    return Case("make-room", disk, work, check)


CASES_LOG = [
    make_room_case(),
    mend_epochs_case("mend-epochs", lambda files, _acknowledge: opened(files).close()),
    mend_epochs_case("rebuild-epochs", rebuild_epochs),
    recover_case("recover-middle", *damaged_middle()),
    recover_case("recover-tail", *torn_tail(), recovery_point=33),
    recover_below_case(),
    recover_over_case("recover-over", entries_of_another_interval(), is_sound=True),
    recover_over_case("recover-over-garbled", garbled_indexes()),
    recover_over_case("recover-over-unsynced", unsynced_indexes()),
    recover_case("recover-no-indexes", only_logs_and_epochs(), batches_of(segments())),
    recover_case("swap", *swapped(), config=with_settings(CONFIG, max_index_size=1200)),
    recover_case("split", *overflowing()),
    retain_case("retain-size", 23, retention_size=900),
    retain_case("retain-all", END, retention_ms=1),
    retain_case("recover-retain", 23, disk=only_logs_and_epochs(), retention_size=900),
    truncate_case("truncate-tail", 36),
    truncate_case("truncate-middle", 20),
    truncate_case("truncate-fully", 100, fully=True),
    roll_case(),
    roll_empty_case(),
    append_case("append-flush"),
    append_case("append-flush-roll", roll=True),
    truncate_and_append_case(),
    quarantine_case("quarantine", "/q"),
    quarantine_case("quarantine-far", "/far"),
    quarantine_case("quarantine-snapshot", "/q", other_snapshot),
    quarantine_dropped_case(),
    restore_case("restore", "/q"),
    restore_case("restore-far", "/far"),
    restore_everything_case(),
    restore_force_case(),
    prune_case(),
    rebuild_case(),
    rebuild_over_case(),
]

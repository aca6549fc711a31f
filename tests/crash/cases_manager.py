"""Commands on a whole log dir: after any stop, clean shutdown marker, checkpoints and logs must be consistent."""

from __future__ import annotations

from engine.checkpoint.checkpoints import decode_offset_checkpoint
from engine.config.server import Settings
from engine.log.logdir.log_dirs import find_log_dirs, locked
from engine.log.logdir.log_manager import LogManager, purge_deleted_directories
from engine.log.logdir.start_problems import Effect, find_start_problems
from engine.log.logdir.startup import survey
from engine.log.operations.at_offset import Truncate
from engine.log.operations.operation import operate
from engine.log.operations.recover import RecoverOptions, recover
from engine.log.report import Report
from engine.log.retention.rules import delete_old_segments
from engine.log.session import OpenOptions
from engine.record.batch import read_batches
from tests.crash.cases_log import END, damaged_middle
from tests.crash.partitions import CONFIG, NOW, TOPIC, batches_of, closed, name, plain, see, segments
from tests.crash.sweep import Case
from tests.support.crash_files import CrashFiles
from tests.support.disk_model import Disk
from tests.support.logs import open_log
from tests.support.operations import doing

WRITTEN_WITHOUT_SYNC = (".log", "index", ".snapshot")
MARKER = "d/.kafka_cleanshutdown"
POINTS = "d/recovery-point-offset-checkpoint"
STARTS = "d/log-start-offset-checkpoint"
SETTINGS = {"segment.index.bytes": "600", "index.interval.bytes": "150", "internal.segment.bytes": "1600"}


def log_dir(disk, *, clean=True):
    """Return a broker's log dir with the partition of `disk`, stopped cleanly at END or killed."""
    contents = dict(disk.contents) | {
        "d/meta.properties": b"node.id=1\ndirectory.id=GwU-VCmqfoM16VN-PhPllg\nversion=1\ncluster.id=kafkalogCorpusSeed42AA\n",
        f"{TOPIC}/partition.metadata": b"version: 0\ntopic_id: Ssx5VgobQZyBz3LWRQ0uyQ",
    }
    contents |= {POINTS: f"0\n1\nt 0 {END if clean else 0}\n".encode(), STARTS: b"0\n0\n"}
    if clean:
        contents[MARKER] = b'{"version":0,"brokerEpoch":7}'
    unsynced = frozenset() if clean else frozenset(name for name in contents if name.endswith(WRITTEN_WITHOUT_SYNC))
    return Disk(contents, disk.directories, unsynced=unsynced)


def managed(files, perform, path="/d"):
    """Run a command with its log manager."""
    dirs = find_log_dirs(files, [path])
    with locked(files, [one.path for one in dirs]):
        manager = LogManager(lambda _: files, survey(files, dirs), Settings(overrides=tuple(SETTINGS.items())), NOW)
        reports = list(perform(manager))
    for report in reports:
        if report.failure is not None:
            raise report.failure
    return [event for report in reports for event in report.events]


def broker_sees(disk):
    """Return the logs that a broker finds at its start, which trusts marker and checkpoints."""
    offsets = {}
    for path in (POINTS, STARTS):
        entries = decode_offset_checkpoint(disk.contents[path], path).entries if path in disk.contents else []
        offsets[path] = next((entry.offset for entry in entries), 0)
    return see(disk, clean=MARKER in disk.contents, recovery_point=offsets[POINTS], log_start_offset=offsets[STARTS])


def operation_case(operation, work_on_log, kept_from, kept_to=END):
    """Return a case for a command on a cleanly stopped log dir, which is cleanly stopped at the end again."""
    disk = log_dir(closed(segments()))
    before = broker_sees(disk)
    kept = {base: batch for base, batch in before.batches.items() if kept_from <= base < kept_to}

    def work(files, _acknowledge):
        managed(files, lambda manager: operate(manager, OpenOptions(), doing(operation, work_on_log)))

    whole = CrashFiles(disk)
    work(whole, None)
    wanted = broker_sees(whole.disk())
    assert kept.items() <= wanted.batches.items()

    def check(disk, _acknowledged, done):
        seen = broker_sees(disk)
        assert kept.items() <= seen.batches.items() <= before.batches.items()
        assert seen.end <= END
        if done:
            assert disk.contents.get(MARKER) == b'{"version":0,"brokerEpoch":7}'
        if done or MARKER in disk.contents:
            assert seen in ((wanted,) if done else (before, wanted))

    return Case(f"log-dir-{operation}", disk, work, check)


def delete_records(log):
    log.maybe_increment_log_start_offset(26, "records were deleted")
    delete_old_segments(log)


def stops_a_broker(disk):
    """Damage small files so that a starting broker would stop."""
    files = CrashFiles(disk)
    dirs = find_log_dirs(files, ["/d"])
    return [problem for problem in find_start_problems(files, survey(files, dirs)) if problem.effect is not Effect.WARNS]


def recover_case(case_name, *, extra=None, clean_before=False, salvage=False, mark_clean=True):
    """Recover after a kill, when nothing is synced. The marker must not exist before all files are on the disk and consistent."""
    damaged, good = damaged_middle()
    whole_log = batches_of(segments())
    disk = log_dir(damaged, clean=clean_before)
    disk = disk._replace(contents=disk.contents | (extra or {}))
    if salvage:  # valid batches must exist at any time
        disk = disk._replace(unsynced=frozenset())

    def work(files, _acknowledge):
        options = RecoverOptions(mark_clean=mark_clean, salvage=salvage)
        managed(files, lambda manager: recover(manager, options))

    whole = CrashFiles(disk)
    work(whole, None)
    wanted = broker_sees(whole.disk())
    assert wanted.batches.items() > good.items() if salvage else wanted.batches == good

    def check(after, _acknowledged, done):
        if clean_before and after.contents.get(MARKER) == disk.contents[MARKER]:
            assert after.below(TOPIC) == disk.below(TOPIC), "changed under the eyes of the marker"
            return
        if MARKER in after.contents:
            assert mark_clean
            assert stops_a_broker(after) == []
            assert broker_sees(after) == wanted
        elif not extra and not clean_before:
            seen = broker_sees(after)
            # if nothing is left of the damaged segment, a broker continues after it, since the segments after it are not deleted yet
            assert (wanted.batches if after.contents.get(name(12)) else whole_log).items() >= seen.batches.items()
            assert not salvage or good.items() <= seen.batches.items()
        assert not (done and mark_clean) or MARKER in after.contents

    return Case(case_name, disk, work, check)


def recover_partition_case():
    """Recover one partition of a cleanly stopped log dir: the marker exists only while the log is complete."""
    disk = log_dir(damaged_middle()[0])

    def work(files, _acknowledge):
        options = RecoverOptions(recovery_point=0)
        managed(files, lambda manager: recover(manager, options), "/" + TOPIC)

    whole = CrashFiles(disk)
    work(whole, None)
    wanted = whole.disk().below(TOPIC)
    assert wanted != disk.below(TOPIC)

    def check(after, _acknowledged, done):
        assert after.contents.get(MARKER) in (None, disk.contents[MARKER])
        if MARKER in after.contents:
            assert after.below(TOPIC) in ((wanted,) if done else (disk.below(TOPIC), wanted))
        assert not done or MARKER in after.contents
        assert {POINTS, STARTS} <= after.contents.keys()

    return Case("log-dir-recover-partition", disk, work, check)


def salvage_below_case():
    """Damage below the recovery point: a broker that is started meanwhile reads the segment with the existing indexes."""
    damaged, good = damaged_middle(0)  # so that every batch moves
    disk = log_dir(damaged, clean=False)
    disk = disk._replace(contents=disk.contents | {POINTS: f"0\n1\nt 0 {END}\n".encode()}, unsynced=frozenset())

    def work(files, _acknowledge):
        managed(files, lambda manager: recover(manager, RecoverOptions(salvage=True)))

    whole = CrashFiles(disk)
    work(whole, None)
    wanted = broker_sees(whole.disk())
    assert wanted.batches.items() > good.items()

    def check(after, _acknowledged, done):
        seen = every_batch_is_found(after)
        if after.contents[name(12)] == disk.contents[name(12)]:  # without its index a broker truncates it at the damage
            assert good.keys() <= seen <= before
        else:
            assert seen == set(wanted.batches)
        assert not done or broker_sees(after) == wanted

    before = every_batch_is_found(disk)
    return Case("log-dir-salvage-below", disk, work, check)


def salvage_renamed_case():
    """Rename a segment below the recovery point: its batches exist at any time, and a broker can look them up."""
    whole, wrong = closed(segments()), f"{5:020}."
    contents = {path.replace(f"{12:020}.", wrong): data for path, data in whole.contents.items()}
    disk = log_dir(whole._replace(contents=contents), clean=False)
    disk = disk._replace(contents=disk.contents | {POINTS: f"0\n1\nt 0 {END}\n".encode()}, unsynced=frozenset())

    def work(files, _acknowledge):
        managed(files, lambda manager: recover(manager, RecoverOptions(salvage=True)))

    def check(after, _acknowledged, done):
        assert every_batch_is_found(after, looked_up=done) == set(batches_of(segments()))
        assert not done or broker_sees(after).batches == batches_of(segments())

    return Case("log-dir-salvage-renamed", disk, work, check)


def salvage_moved_case():
    """Move batches to another segment, and rename a file: at any time one of both has them."""
    parts = segments()
    moved = parts[1][1][2]
    shuffled = [parts[0], (12, [*parts[1][1][:2], *parts[1][1][3:]]), *parts[2:], (50, [moved, *parts[0][1]])]
    disk = log_dir(closed(parts), clean=False)
    contents = {path: data for path, data in disk.contents.items() if not path.endswith((".log", "index"))}
    contents |= {name(base): b"".join(batches) for base, batches in shuffled}
    disk = disk._replace(contents=contents, unsynced=frozenset())

    def work(files, _acknowledge):
        managed(files, lambda manager: recover(manager, RecoverOptions(salvage=True)))

    def check(after, _acknowledged, done):
        logs = {path: data for path, data in after.contents.items() if path.endswith(".log")}
        assert all(any(batch in data for data in logs.values()) for _, batches in parts for batch in batches)
        assert not done or b"".join(data for _, data in sorted(logs.items())) == b"".join(b"".join(one) for _, one in parts)

    return Case("log-dir-salvage-moved", disk, work, check)


def every_batch_is_found(disk, *, looked_up=True):
    """Return the base offsets of all batches, including damaged ones; a broker on this disk must find each by offset.

    looked_up  False: do not look them up, since the indexes are known to be wrong
    """
    files, found = CrashFiles(disk), set()
    log = open_log(files, "/" + TOPIC, CONFIG, now=NOW, clean_shutdown=False, recovery_point=END)
    for segment in log.segments:
        with files.open(segment.log_path) as file:
            for batch in read_batches(file, lambda _finding: None):
                found.add(batch.base_offset)
                assert not looked_up or segment.translate_offset(batch.base_offset).position == batch.position
    log.close_handlers()
    return found


def mend_metadata_case():
    """Repair a small file of the metadata log, which no checkpoint or rename in the same directory syncs."""
    disk = log_dir(closed(segments()), clean=False)
    directory = "d/__cluster_metadata-0"
    there = closed([(0, [plain(0)])]).below(TOPIC)
    contents = {f"{directory}/{path.rpartition('/')[2]}": data for path, data in there.items()}
    contents |= {f"{directory}/quorum-state": b"garbage"}
    disk = disk._replace(contents=disk.contents | contents, directories=disk.directories | {directory}, unsynced=frozenset())
    assert stops_a_broker(disk)

    def work(files, _acknowledge):
        managed(files, lambda manager: recover(manager, RecoverOptions()))

    def check(after, _acknowledged, done):
        assert broker_sees(after)
        assert not done or f"{directory}/quorum-state" not in after.contents

    return Case("log-dir-mend-metadata", disk, work, check)


def purge_case():
    """Delete the directories of deleted topics: they stay deleted after it was reported."""
    gone = "d/old-0.0123456789abcdef0123456789abcdef-delete"
    disk = log_dir(closed(segments()))
    disk = disk._replace(contents=disk.contents | {f"{gone}/{0:020}.log": b"x"}, directories=disk.directories | {gone})

    def work(files, _acknowledge):
        (one,) = find_log_dirs(files, ["/d"])
        for error in purge_deleted_directories(files, one, Report("/d", "retain")).values():
            raise error

    def check(disk, _acknowledged, done):
        broker_sees(disk)
        assert not done or gone not in disk.directories

    return Case("log-dir-purge", disk, work, check)


def truncate_clean_case():
    """Truncate a log that is clean up to its last segment: records that are appended later never count as clean."""
    checkpoint = "d/cleaner-offset-checkpoint"
    case = operation_case("truncate-clean", Truncate(20, fully=False).work, 0, 20)
    disk = case.disk._replace(contents=case.disk.contents | {checkpoint: b"0\n1\nt 0 33\n"})
    whole = case.disk.contents.keys()

    def check(after, acknowledged, done):
        case.check(after, acknowledged, done)
        (line,) = decode_offset_checkpoint(after.contents[checkpoint], checkpoint).entries
        is_cut = any(path.endswith(".log") and after.contents.get(path) != disk.contents[path] for path in whole)
        assert line.offset == 12 or not (is_cut or done)
        assert line.offset in (12, 33)

    return Case(case.name, disk, case.work, check)


CASES_MANAGER = [
    operation_case("delete-records", delete_records, 26),
    operation_case("roll", lambda log: log.roll(), 0),
    operation_case("truncate", lambda log: log.truncate_to(20), 0, 20),
    truncate_clean_case(),
    recover_case("log-dir-recover", mark_clean=False),
    recover_case("log-dir-mark-clean"),
    recover_case("log-dir-mark-clean-again", clean_before=True),
    recover_case("log-dir-mend", extra={POINTS: b"garbage", f"{TOPIC}/leader-epoch-checkpoint": b"garbage"}),
    recover_case("log-dir-salvage", salvage=True),
    recover_partition_case(),
    salvage_below_case(),
    salvage_renamed_case(),
    salvage_moved_case(),
    mend_metadata_case(),
    purge_case(),
]
assert CONFIG.segment_size == 1600  # as SETTINGS

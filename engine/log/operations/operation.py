"""An operation on each of some logs: open as a broker does, work, close, note in the checkpoints how they were left."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from dataclasses import replace as replace_in
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from engine.discovery.names import METADATA_TOPIC, FileKind, PartitionKind, file_name, parent_of
from engine.discovery.paths import is_brokers_log_dir
from engine.errors import KafkalogError, UnwritableFile, argument, too_little_memory
from engine.files import is_full, nameless_file, replace
from engine.log.continuity.missing_segments import note_end, start_beyond_end
from engine.log.errors import LogDamaged, SegmentTooLarge
from engine.log.logdir.log_manager import Listing, MetadataLogRefused, NoLogOfBrokers, Standing, refuse_metadata_log
from engine.log.logdir.logs_07 import note_standing, refuse_offsets_07
from engine.log.operations.opening import Touched, UntouchedFiles, make_room, work_on
from engine.log.report import Action, Report, loses_records
from engine.log.verify.losses import Opened, read_evidence
from engine.overlay import OverlayFiles
from engine.overlay.spill import Spill

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from concurrent.futures import ThreadPoolExecutor

    from engine.files import Files
    from engine.kafka07.log import Log07
    from engine.log.logdir.log_dirs import LogDir, Place
    from engine.log.logdir.log_manager import LogManager
    from engine.log.partition.unified_log import UnifiedLog
    from engine.log.segment.log_segment import LogSegment
    from engine.log.verify.losses import Evidence

    Work = Callable[[UnifiedLog], object]
    Work07 = Callable[[Log07, Report], object]

_MARKER_SIZE = 1 << 16  # bytes


# failures of logs in which nothing was changed: the first opening, in memory, finds what is too large
LEFT_ALONE = (LogDamaged, MetadataLogRefused, NoLogOfBrokers, SegmentTooLarge)


@dataclass(frozen=True, slots=True)
class OperationOptions:
    """How logs are opened and closed.

    Offsets that are None come from the checkpoints of the log dir; a high watermark that stands nowhere is the log end.
    for_snapshots  the work neither appends nor asks which transactions are decided: of producers only what snapshots need is
                   remembered, see open_log
    first          an emergency: these directories come before the others, and where the disk has no room to open a log, what
                   the work deletes of it goes before; None: it is none
    knows_metadata_log   the work itself says what may be done to the log of the cluster's metadata
    accepts_losses       a log that loses records when it is opened is opened all the same: what it loses is kept. One that
                         ends below its start would lose all of them: it is refused
    truncates_to         the work truncates a log to this offset: that records after it were lost before needs no proof
    deletes              the segments of an open log that the work is going to delete or cut by their names: whether their
                         batches have these offsets is seen before anything is changed
    """

    name: str
    clean_start: bool = False
    recovery_point: int | None = None
    log_start_offset: int | None = None
    high_watermark: int | None = None
    keep_deleted: bool = False
    jobs: int = 1
    for_snapshots: bool = False
    first: frozenset[str] | None = None
    knows_metadata_log: bool = False
    accepts_losses: bool = False
    truncates_to: Callable[[Place], int] | None = None
    deletes: Callable[[UnifiedLog], Iterable[LogSegment]] | None = None


def operate(
    manager: LogManager, options: OperationOptions, work: Work, errors: list[KafkalogError],
    progress: Callable[[Place], object] | None = None, work_07: Work07 | None = None,
) -> Iterator[Report]:
    """Do `work` on every log of the manager's log dirs; reports in their order. What fails goes to `errors` as well.

    A clean shutdown marker counts as a clean start. It is gone while we work and stands again afterwards, unless
    something failed in the middle: a broker must not trust such a directory. A log is opened in memory first:
    one that would lose records by it is LogDamaged, for what `recover` cuts is kept in a quarantine. So is one that has lost
    its end already: opening it removes the files that prove it. The cluster's metadata log is MetadataLogRefused.

    work_07  for logs of 0.7; None: they are NoLogOfBrokers
    """
    for log_dir in manager.cluster.log_dirs:
        places = sorted(places_of(log_dir), key=lambda place: place.path not in (options.first or ()))
        failed_in_the_middle = False
        marker = take_marker(manager, log_dir)
        standing: dict[Place, Standing] = {}
        opening = options if marker is None else _clean(options)

        one = partial(_tried, manager, opening, work, work_07, standing)

        pool = _threads(options.jobs) if options.jobs > 1 and len(places) > 1 else None
        try:
            for place, result in zip(places, (map if pool is None else pool.map)(one, places), strict=True):
                if result.failure is not None:
                    errors.append(result.failure)
                    failed_in_the_middle |= not isinstance(result.failure, LEFT_ALONE)
                yield result
                if progress is not None:
                    progress(place)
        finally:  # also after Ctrl-C: what is reported as done is noted as well
            if pool is not None:
                pool.shutdown(cancel_futures=True)
            note(manager, log_dir, standing)
        if marker is not None and not failed_in_the_middle:
            put_marker(manager, log_dir, marker)


def _keeps_log_starts(files: Files, log_dir: str) -> bool:
    return files.exists(f"{log_dir}/{FileKind.LOG_START_CHECKPOINT.value}")


def _say_what_nothing_keeps(manager: LogManager, place: Place, standing: Standing, report: Report) -> None:
    """A start within a segment stands in a checkpoint only, and beside a mere copy there may be none."""
    files = manager.files_of(place.log_dir)
    if standing.begins_within_a_segment and not (
        is_brokers_log_dir(files, place.log_dir) or _keeps_log_starts(files, place.log_dir)
    ):
        start, name = standing.log_start_offset, FileKind.LOG_START_CHECKPOINT.value
        why = (f"offset {start} is inside the first segment, and there is no {name} beside the partition that records it: "
               f"give it to the next command with --log-start-offset {start}")
        report.add(Action.EXPLAINED, "", why, offsets=(start, None))


def _threads(count: int) -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor  # it takes a while to load

    return ThreadPoolExecutor(count, thread_name_prefix="kafkalog")


def places_of(log_dir: LogDir) -> list[Place]:
    """The logs that topics have; the metadata log only if it was named itself: it obeys other rules."""
    if not log_dir.is_whole:
        return list(log_dir.places)
    places = log_dir.partitions(PartitionKind.PLAIN, PartitionKind.FUTURE)
    return [place for place in places if place.name.topic != METADATA_TOPIC]


def _tried(
    manager: LogManager, options: OperationOptions, work: Work, work_07: Work07 | None, standing: dict[Place, Standing],
    place: Place,
) -> Report:
    report = Report(place.path, options.name)
    try:
        if not options.knows_metadata_log:
            refuse_metadata_log(place.path, place.name.topic)
        if work_07 is not None and manager.is_07(place):
            return _one_07(manager, options, place, work_07)
        if _ends_before_target(manager, options, place, report):
            return report
        try:
            standing[place] = _one(manager, options, place, work, report)
        except UnwritableFile as error:
            start = _make_room(manager, options, place, work, report) if options.first is not None and is_full(error) else None
            if start is None:
                raise
            standing[place] = _one(manager, replace_in(options, log_start_offset=start), place, work, report)
        _say_what_nothing_keeps(manager, place, standing[place], report)
    except KafkalogError as error:
        report.failure = error
    except MemoryError:
        report.failure = too_little_memory(place.path)
    return report


def _clean(options: OperationOptions) -> OperationOptions:
    return replace_in(options, clean_start=True)


def note(manager: LogManager, log_dir: LogDir, standing: Mapping[Place, Standing]) -> None:
    """Write how logs were left into the checkpoints of their log dir, if it is a broker's. Their files are changed already.

    Beside a mere copy only the one that says where logs begin is kept up, where there is one.
    """
    files = manager.files_of(log_dir.path)

    def write() -> None:
        if standing and is_brokers_log_dir(files, log_dir.path):
            manager.checkpoint(log_dir, standing)
        elif standing and _keeps_log_starts(files, log_dir.path):
            manager.checkpoint_log_starts(log_dir, standing)

    at_any_rate(write)


def at_any_rate(write: Callable[[], None]) -> None:
    """Do `write`; a KeyboardInterrupt that comes meanwhile waits until it is done."""
    try:
        write()
    except KeyboardInterrupt:
        write()
        raise


class Marker(NamedTuple):
    """A clean shutdown marker. `mode`, and `modified_ns` of its last change: of its file; None: a new one."""

    content: bytes
    mode: int | None = None
    modified_ns: int | None = None


def put_marker(manager: LogManager, log_dir: LogDir, marker: Marker) -> None:
    """Write the clean shutdown marker again, as it was."""
    files, path = manager.files_of(log_dir.path), f"{log_dir.path}/{FileKind.CLEAN_SHUTDOWN.value}"
    replace(files, path, [marker.content], marker.mode)
    if marker.modified_ns is not None:
        files.set_modified(path, marker.modified_ns)


def take_marker(manager: LogManager, log_dir: LogDir) -> Marker | None:
    """Remove the clean shutdown marker; None where there is none."""
    files, path = manager.files_of(log_dir.path), f"{log_dir.path}/{FileKind.CLEAN_SHUTDOWN.value}"
    if not files.exists(path):
        return None
    found = files.info(path)
    marker = Marker(files.read(path, _MARKER_SIZE), found.mode, found.modified_ns)
    files.remove(path)
    files.sync_directory(log_dir.path)
    return marker


def _one(manager: LogManager, options: OperationOptions, place: Place, work: Work, report: Report) -> Standing:
    def load(clean_start: bool) -> UnifiedLog:
        return _load_without_loss(manager, options, place, report, clean_start=clean_start)

    log = work_on(load, options.clean_start, partial(_work_below_high_watermark, manager, options, place, work))
    return closed(log, keep_deleted=options.keep_deleted)


def _ends_before_target(manager: LogManager, options: OperationOptions, place: Place, report: Report) -> bool:
    """Is there nothing to truncate? Then the log is opened in memory only, and none of its files changes.

    A file that knows offsets after the target is left of a truncation that was stopped, which this one finishes.
    Raises LogDamaged where opening the log loses records, or where it has lost its end.
    """
    target = 0 if options.truncates_to is None else options.truncates_to(place)
    if target <= 0:
        return False
    disk = manager.files_of(place.log_dir)
    evidence = _evidence(manager, place, Listing.read(disk, place))
    if any(claim.end > target for claim in evidence.claims):
        return False
    rehearsal = Report(place.path, options.name)
    with closing(Spill(nameless_file)) as spill:
        overlay = OverlayFiles(disk, manager.now, spill)
        log = _opened(manager, options, place, rehearsal, overlay, clean_start=options.clean_start)
        if log.log_end_offset > target:
            log.close_handlers()
            return False
        log.close()
    _refuse_losses(place, rehearsal, options)
    _refuse_lost_end(place, replace_in(options, truncates_to=None), evidence, log, report)
    report.stand_as(rehearsal)
    report.add(Action.EXPLAINED, "", f"nothing to truncate: the log ends at offset {log.log_end_offset}; no file was changed")
    return True


def _work_below_high_watermark(
    manager: LogManager, options: OperationOptions, place: Place, work: Work, log: UnifiedLog
) -> None:
    _set_high_watermark(manager, options, place, log)
    work(log)


def _set_high_watermark(manager: LogManager, options: OperationOptions, place: Place, log: UnifiedLog) -> None:
    noted = manager.high_watermark(place) if options.high_watermark is None else options.high_watermark
    log.update_high_watermark(log.log_end_offset if noted is None else noted)


def _refuse_contradicted(manager: LogManager, options: OperationOptions, place: Place, log: UnifiedLog) -> None:
    """Raise LogDamaged if the work would delete segments whose sound batches contradict their names."""
    if options.deletes is not None:
        _set_high_watermark(manager, options, place, log)
        log.local_log.refuse_contradicted(options.deletes(log))


def _make_room(manager: LogManager, options: OperationOptions, place: Place, work: Work, report: Report) -> int | None:
    """See make_room. Raises LogDamaged, with nothing removed, where opening the log loses records, or proof of lost ones."""
    disk = manager.files_of(place.log_dir)
    evidence = _evidence(manager, place, Listing.read(disk, place))

    def load(files: Files) -> UnifiedLog:
        rehearsal = Report(place.path, options.name)
        log = _opened(manager, options, place, rehearsal, files, clean_start=options.clean_start)
        try:
            _refuse_losses(place, rehearsal, options)
            _refuse_lost_end(place, options, evidence, log, report)
            _refuse_contradicted(manager, options, place, log)
        except LogDamaged:
            log.close_handlers()
            raise
        return log

    working = partial(_work_below_high_watermark, manager, options, place, work)
    return make_room(disk, place.path, manager.now, load, working, report)


def _opened(
    manager: LogManager, options: OperationOptions, place: Place, into: Report, files: Files, listing: Listing | None = None,
    *, clean_start: bool,
) -> UnifiedLog:
    return manager.load(
        place, into, clean_start=clean_start, recovery_point=options.recovery_point,
        log_start_offset=options.log_start_offset, files=files, for_snapshots=options.for_snapshots,
        listing=listing,
    )


def closed(log: UnifiedLog, first: Callable[[], object] = lambda: None, *, keep_deleted: bool) -> Standing:
    """Do `first`, note where the log stands, and close it. What fails lets go of its files, and changes nothing more."""
    try:
        first()
        standing = Standing.of(log)
    except BaseException:
        log.close_handlers()
        raise
    log.close(keep_deleted=keep_deleted)
    return standing


def _load_without_loss(
    manager: LogManager, options: OperationOptions, place: Place, report: Report, *, clean_start: bool
) -> UnifiedLog:
    """Open a log; what is done goes to `report`.

    Raises LogDamaged, before anything is changed, if records were lost by it, or what proves that records were lost before.
    After a clean stop most logs open without any change. All others are opened in memory first.
    """
    opened = partial(_opened, manager, options, place, clean_start=clean_start)
    disk = manager.files_of(place.log_dir)
    listing = Listing.read(disk, place)
    if options.accepts_losses:
        evidence = _evidence(manager, place, listing)
        rehearsal = Report(place.path, options.name)
        with closing(Spill(nameless_file)) as spill:
            opened(rehearsal, OverlayFiles(disk, manager.now, spill), listing).close_handlers()
        if _begins_beyond_end(manager, options, place):
            _refuse_losses(place, rehearsal, options)
        log = opened(report, disk, listing)
        note_end(report, log, evidence)
        return log
    unchanged = None
    if clean_start and not listing.lacks_index:
        unchanged = open_without_change(lambda files: opened(report, files, listing), disk, report)
    if unchanged is not None:
        with unchanged as log:
            _refuse_lost_end(place, options, _evidence(manager, place, listing, unchanged.known), log, report)
            _refuse_contradicted(manager, options, place, log)
        return log
    rehearsal = Report(place.path, options.name)
    with closing(Spill(nameless_file)) as spill:  # a producer snapshot may be as large as the producers in memory
        log = opened(rehearsal, OverlayFiles(disk, manager.now, spill), listing)
        try:
            _refuse_losses(place, rehearsal, options)
            _refuse_lost_end(place, options, _evidence(manager, place, listing, Opened(log.log_end_offset)), log, report)
            _refuse_contradicted(manager, options, place, log)
        finally:
            log.close_handlers()
    return opened(report, disk)


def _begins_beyond_end(manager: LogManager, options: OperationOptions, place: Place) -> bool:
    """Does the log end below its start? Then opening it removes all of it, which is more than any damage takes."""
    start = options.log_start_offset
    if start is None:
        start = manager.offsets(place.log_dir, FileKind.LOG_START_CHECKPOINT).get(place.key, 0)
    return start > 0 and start_beyond_end(manager.files_of(place.log_dir), place.path, start) is not None


class Unchanged:
    """A log that was opened without any change of the disk. In a `with` statement that stays so; afterwards it may be changed.

    What fails there lets go of its files.
    """

    def __init__(self, log: UnifiedLog, untouched: UntouchedFiles) -> None:
        self._log, self._untouched = log, untouched

    @property
    def known(self) -> Opened:
        """What was read of it."""
        log = self._log
        return Opened(log.log_end_offset, log.leader_epoch_cache.entries, log.segments.active_segment.last_indexed())

    def __enter__(self) -> UnifiedLog:
        return self._log

    def __exit__(self, error: object, *_more: object) -> None:
        """Release the files, or let go of them."""
        if error is None:
            self._untouched.release()
        else:
            self._log.close_handlers()


def open_without_change(load: Callable[[Files], UnifiedLog], disk: Files, report: Report) -> Unchanged | None:
    """Open a log; None, and nothing in `report`, if that would change something. After a clean stop few logs are changed."""
    untouched, events = UntouchedFiles(disk), list(report.events)
    try:
        return Unchanged(load(untouched), untouched)
    except Touched:
        report.events = events
        return None


def _evidence(manager: LogManager, place: Place, listing: Listing, opened: Opened | None = None) -> Evidence:
    """What the files beside the log say of its end, before anything is changed."""
    return read_evidence(manager.files_of(place.log_dir), place.path,
                         lambda kind: manager.offsets(place.log_dir, kind).get(place.key), of_end_only=True,
                         names=listing.plain, opened=opened)


def _refuse_lost_end(place: Place, options: OperationOptions, evidence: Evidence, log: UnifiedLog, report: Report) -> None:
    """Raise LogDamaged if files beside the log prove that its end was lost: opening it for writing would remove them.

    A high watermark alone is reported only: opening the log leaves it, and so does `recover`, which reported the loss.
    """
    claims = evidence.beyond(log.log_end_offset)
    if not claims:
        return
    is_flushed = any(claim.code == "checkpoint-beyond-log" for claim in claims)
    wanted = None if options.truncates_to is None else options.truncates_to(place)
    if wanted is not None and (wanted <= log.log_end_offset or not is_flushed):
        return  # a truncation that was stopped lowered the checkpoints before anything else, and leaves indexes and snapshots
    found = Report(place.path, report.operation)
    note_end(found, log, evidence)
    if {file_name(claim.path) for claim in claims} == {FileKind.REPLICATION_CHECKPOINT.value}:
        report.events += found.events
    elif found.events:
        first, last = found.events[0], found.events[-1]
        what = (f"{place.path}: offsets {first.first_offset} to {(last.end_offset or 0) - 1} were lost before, and opening "
                f"the log would remove the evidence: {first.reason}")
        # only the recovery of the log dir corrects its checkpoints
        target = place.log_dir if any(parent_of(claim.path) == place.log_dir for claim in claims) else place.path
        do = (f"kafkalog recover --dry-run {argument(target)}    # reports what is missing; removed files are kept in a "
              "quarantine")
        raise LogDamaged(what, do=do, path=place.path)


def _refuse_losses(place: Place, rehearsal: Report, options: OperationOptions) -> None:
    """Raise LogDamaged if the opening of a log that was tried in memory, with these options, lost records."""
    losses = [event for event in rehearsal.events if loses_records(event)]
    if losses:
        first = losses[0]
        what = f"{place.path}: opening it would lose records: {first.action.value} {first.path} - {first.reason}"
        given = {"--recovery-point": options.recovery_point, "--log-start-offset": options.log_start_offset}
        same = "".join(f"{name} {offset} " for name, offset in given.items() if offset is not None)
        do = f"kafkalog recover --dry-run {same}{argument(place.path)}    # truncated bytes are kept in a quarantine"
        raise LogDamaged(what, do=do)


def _one_07(manager: LogManager, options: OperationOptions, place: Place, work: Work07) -> Report:
    """The same for a log of 0.7, which leaves nothing for checkpoints."""
    refuse_offsets_07(place, options.recovery_point, options.log_start_offset, options.high_watermark)
    rehearsal, report = Report(place.path, options.name), Report(place.path, options.name)
    if not options.accepts_losses:
        overlay = OverlayFiles(manager.files_of(place.log_dir), manager.now)
        manager.load_07(place, rehearsal, clean_start=options.clean_start, files=overlay).close()
        _refuse_losses(place, rehearsal, options)
    with manager.load_07(place, report, clean_start=options.clean_start) as log:
        work(log, report)
        log.flush(manager.now)
        note_standing(log, report)
    return report

"""Recover whole log dirs in an order that loses nothing: survey, check the metadata log, repair small files, then load logs.

With an overlay as `files_of` the same happens in memory: the report then describes what a real run will do.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field, fields
from dataclasses import replace as replace_in
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from engine.amounts import count_of, offsets_text
from engine.background import side_by_side
from engine.checkpoint.checkpoints import lower_checkpoints
from engine.discovery.names import DELETED, METADATA_TOPIC, FileKind, PartitionKind, file_name
from engine.errors import KafkalogError, UnreadableFile, UsageError, argument, too_little_memory
from engine.files import nameless_file
from engine.findings import Severity
from engine.log.continuity.missing_segments import note_breaks, note_losses, start_beyond_end, start_in_epochs
from engine.log.loading.epoch_repair import mend_contradicted_epochs, open_leader_epochs
from engine.log.loading.leftovers import Leftovers
from engine.log.loading.loader import NO_INDEX
from engine.log.loading.shared import LoadOptions
from engine.log.logdir.log_manager import Listing, Marker, misnamed_logs, refuse_foreign_log, remove_marker, write_marker
from engine.log.logdir.logs_07 import refuse_offsets_07
from engine.log.logdir.start_problems import Effect, find_start_problems
from engine.log.operations.mending import mend
from engine.log.operations.operation import LEFT_ALONE, closed, finish_despite_interrupt, open_without_change
from engine.log.report import Action, Report, leaves_doubt
from engine.log.session import OpenOptions
from engine.log.verify.indexes import broken_indexes
from engine.log.verify.losses import read_evidence
from engine.overlay import OverlayFiles
from engine.overlay.tree import Spill

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping

    from engine.log.logdir.log_dirs import LogDir, PartitionPath
    from engine.log.logdir.log_manager import CheckpointOffsets, LogManager
    from engine.log.logdir.start_problems import StartProblem
    from engine.log.verify.losses import Evidence, Opened

OPERATION = "recover"
_UNCHANGED = (Action.KEPT, Action.RECOVERED, Action.EXPLAINED)  # actions that change nothing
_NOT_RECOVERED = "a partition could not be recovered"
_TRIPPED = "a broker still stops at the problems reported above"


class StartBeyondEnd(KafkalogError):
    """A log that ends below its start, so that a broker would delete it. It was left unchanged."""

    code = "start-beyond-end"
    exit_status = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverOptions(OpenOptions):
    """Options of a recovery.

    start_beyond_end   what to do with a log that ends below its start in the checkpoint: "refuse", "keep" or "delete"
    salvage       keep sound batches after damage; each log is read from its beginning, whatever `recovery_point` says
    mark_clean    write a clean shutdown marker into each log dir if all its logs are proven sound from their beginning
    """

    salvage: bool = False
    accept_metadata_loss: bool = False
    start_beyond_end: str = "refuse"
    mark_clean: bool = False

    @property
    def is_as_broker(self) -> bool:
        """Is the result that of a starting broker, what it loses included?"""
        return not (self.salvage or self.mark_clean)

    @classmethod
    def of(cls, options: OpenOptions, **asked: Any) -> Self:
        """Return `options` with the options of recovery added."""
        return cls(**{one.name: getattr(options, one.name) for one in fields(options)}, **asked)


@dataclass(slots=True)
class Recovery:
    """State of a recovery of log dirs, between its steps `prepare`, `recover_partitions` and `finish`.

    problems    that a starting broker would have        partitions  to recover, in this order
    clean       log dirs that were stopped cleanly and are left unchanged, marker included
    proven      the reports of the partitions in `clean`
    markers     by log dir: its clean shutdown marker, once it is removed
    unproven    by log dir: why it cannot be marked as clean        incomplete  log dirs where records were lost before
    lossy       log dirs where records were lost, before or now
    left_alone  log dirs with a partition that was refused before any of it was changed
    changed     log dirs where anything was changed, apart from their markers
    is_refused  the metadata log is damaged: nothing is recovered
    """

    problems: list[StartProblem] = field(default_factory=list)
    partitions: list[PartitionPath] = field(default_factory=list)
    clean: set[str] = field(default_factory=set)
    markers: dict[str, Marker] = field(default_factory=dict)
    proven: dict[PartitionPath, Report] = field(default_factory=dict)
    unproven: dict[str, str] = field(default_factory=dict)
    incomplete: set[str] = field(default_factory=set)
    lossy: set[str] = field(default_factory=set)
    left_alone: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)
    is_refused: bool = False

    def note(
        self, partition: PartitionPath, events: Iterable[tuple[Action, Severity]], *, is_failed: bool = False,
        is_left_alone: bool = False,
    ) -> None:
        """Update the state of the log dir with the events of a partition. `unproven` is set from nothing else."""
        if is_left_alone:
            self.left_alone.add(partition.log_dir)
        elif is_failed:
            self.unproven[partition.log_dir] = _NOT_RECOVERED
        for action, severity in events:
            if action not in (*_UNCHANGED, Action.MISSING):
                self.changed.add(partition.log_dir)
            if action is Action.REFUSED and not is_failed:
                self.unproven[partition.log_dir] = _TRIPPED
            elif leaves_doubt(action, severity):
                self.unproven.setdefault(partition.log_dir, f"{partition.path}: problems are left")
            elif action is Action.MISSING:
                self.incomplete.add(partition.log_dir)
            if severity is Severity.ERROR or action is Action.MISSING:
                self.lossy.add(partition.log_dir)


def recover(manager: LogManager, options: RecoverOptions) -> Iterator[Report]:
    """Recover everything in the manager's log dirs, and yield reports.

    If a partition cannot be recovered, that is reported and the next one follows. A damaged metadata log stops everything.
    In log dirs that were named as a whole, small files are repaired and checkpoints written too. Partitions of a log dir
    with a clean shutdown marker are recovered in memory first; if nothing is wrong, all its files stay unchanged. Otherwise
    the marker is removed before the first change. It is restored if only partitions were named and no problem is left in
    them.
    """
    recovery = Recovery()
    yield from prepare(manager, options, recovery)
    left = [partition for partition in recovery.partitions if partition not in recovery.proven]
    with closing(recover_partitions(manager, options, left, recovery.problems)) as recovered:  # ends its threads
        for partition in recovery.partitions:
            report = recovery.proven.pop(partition, None) or next(recovered)[1]
            reported = [(event.action, event.severity) for event in report.events]
            recovery.note(partition, reported, is_failed=report.failure is not None, is_left_alone=_is_left_alone(report))
            yield report
    yield from finish(manager, options, recovery)


def prepare(manager: LogManager, options: RecoverOptions, recovery: Recovery) -> Iterator[Report]:
    """Do what precedes the partitions: survey, check the metadata log, repair small files, remove markers.

    recovery  receives the state that the other steps need
    Log dirs with a marker are recovered in memory first, and left unchanged if nothing is wrong.
    """
    recovery.problems = find_start_problems(manager.files_of(manager.cluster.log_dirs[0].path), manager.cluster)
    losses = [problem for problem in recovery.problems if problem.effect is Effect.LOSES_TOPICS]
    if losses and not options.accept_metadata_loss:
        recovery.is_refused = True
        for problem in losses:
            yield _refusal(problem)
        return
    recovery.partitions = [partition for log_dir in manager.cluster.log_dirs for partition in recovery_order(log_dir)]
    of_partitions = {id(problem) for partition in recovery.partitions for problem in _problems_in(partition, recovery.problems)}
    for log_dir in manager.cluster.log_dirs:
        report = Report(log_dir.path, OPERATION)
        own = [one for one in recovery.problems if one.log_dir == log_dir.path and id(one) not in of_partitions]
        if not _mend_all(manager, own, report):
            recovery.unproven[log_dir.path] = _TRIPPED
        if report.events:
            recovery.changed.add(log_dir.path)
        found = _proven(manager, options, recovery, log_dir) if not own else None
        if found is not None:
            recovery.proven |= found
            recovery.clean.add(log_dir.path)
        else:
            marker = _without_marker(manager, options, log_dir, report)
            if marker is not None:
                recovery.markers[log_dir.path] = marker
        if not log_dir.is_whole:
            _note_malformed_checkpoints(manager, log_dir, report)
        if report.events:
            yield report


def recover_partitions(
    manager: LogManager, options: RecoverOptions, partitions: list[PartitionPath], problems: Iterable[StartProblem]
) -> Generator[tuple[PartitionPath, Report], None, None]:
    """Recover partitions, several at a time, and yield reports in their order. `problems` in them are repaired first.

    Checkpoints are written at the end, also after an interruption.
    """
    offsets_left: dict[PartitionPath, CheckpointOffsets] = {}
    truncated: dict[PartitionPath, int] = {}  # and their new log ends
    segment_jobs = options.jobs if len(partitions) == 1 else 1
    known = list(problems)

    def work(partition: PartitionPath) -> Report:
        report = Report(partition.path, OPERATION)
        try:
            listing = Listing.read(manager.files_of(partition.log_dir), partition)
            if listing.is_07:
                return _one_07(manager, options, partition)
            refuse_foreign_log(manager.files_of(partition.log_dir), partition, listing, allows_misnamed=options.is_as_broker)
            chosen = replace_in(options, log_start_offset=_log_start(manager, options, partition, report))
            own = _problems_in(partition, known)
            evidence = _evidence(manager, partition, listing) if own else None
            _mend_all(manager, own, report)
            offsets_left[partition] = _one(manager, chosen, partition, segment_jobs, report, listing, evidence)
            if _accounts_for_end(report):
                truncated[partition] = report.log_end_offset or 0
        except KafkalogError as error:
            report.failure = error
        except MemoryError:
            report.failure = too_little_memory(partition.path)
        return report

    try:
        with closing(side_by_side(work, partitions, options.jobs)) as reports:
            yield from zip(partitions, reports, strict=True)
    finally:  # also after Ctrl-C: the checkpoints must include every log that was reported as done
        finish_despite_interrupt(lambda: _note(manager, offsets_left, truncated))


def finish(manager: LogManager, options: RecoverOptions, recovery: Recovery) -> Iterator[Report]:
    """Do what follows the partitions: write or restore clean shutdown markers."""
    if recovery.is_refused:
        return
    for log_dir in manager.cluster.log_dirs:
        why = recovery.unproven.get(log_dir.path)
        if options.mark_clean and log_dir.is_whole:
            why = _NOT_RECOVERED if log_dir.path in recovery.left_alone else why
            yield _mark(manager, options, log_dir, why, recovery)
        elif not log_dir.is_whole and log_dir.path in recovery.markers and why is None:
            write_marker(manager, log_dir, recovery.markers[log_dir.path])


def _is_left_alone(report: Report) -> bool:
    """Was the partition refused before any of it was changed?"""
    return isinstance(report.failure, (*LEFT_ALONE, StartBeyondEnd, UnreadableFile)) and not report.events


def _problems_in(partition: PartitionPath, problems: Iterable[StartProblem]) -> list[StartProblem]:
    return [problem for problem in problems if problem.is_in(partition)]


def _without_marker(manager: LogManager, options: RecoverOptions, log_dir: LogDir, report: Report) -> Marker | None:
    """Remove the clean shutdown marker, because from here on the log dir differs from what the broker left."""
    marker = remove_marker(manager, log_dir)
    if log_dir.is_whole and marker is not None and not options.mark_clean:
        report.add(Action.REMOVED, FileKind.CLEAN_SHUTDOWN.value,
                   "so that a broker recovers the log dir at its next start; --mark-clean writes it if every log is proven "
                   "sound")
    return marker


def _proven(
    manager: LogManager, options: RecoverOptions, recovery: Recovery, log_dir: LogDir
) -> dict[PartitionPath, Report] | None:
    """Recover the partitions of a cleanly stopped log dir in memory. Returns their reports if nothing of them would change.

    Partitions that are refused before a change are included. None: a file would change, an index is broken, or the log dir was
    not stopped cleanly.
    """
    marker = f"{log_dir.path}/{FileKind.CLEAN_SHUTDOWN.value}"
    partitions = [partition for partition in recovery.partitions if partition.log_dir == log_dir.path]
    if not manager.files_of(log_dir.path).exists(marker):
        return None
    found: dict[PartitionPath, Report] = {}
    segment_jobs = options.jobs if len(partitions) == 1 else 1
    work = partial(_in_memory, manager, options, segment_jobs)
    if any(not _is_left_alone(work(partition)) for partition in partitions if _problems_in(partition, recovery.problems)):
        return None
    with closing(side_by_side(work, partitions, options.jobs)) as reports:
        for partition, report in zip(partitions, reports, strict=True):
            if _is_left_alone(report):
                found[partition] = report
                continue
            if report.failure is not None or report.has_problems_left or not all(
                event.severity is Severity.INFO or event.path.endswith(DELETED) for event in report.events
            ):
                return None
            report.events = [event for event in report.events if event.action in _UNCHANGED]
            found[partition] = report
    return found


def _in_memory(manager: LogManager, options: RecoverOptions, jobs: int, partition: PartitionPath) -> Report:
    """Report what the recovery of the log at `partition` would do."""
    report = Report(partition.path, OPERATION)
    with closing(Spill(nameless_file)) as spill:
        overlay = OverlayFiles(manager.files_of(partition.log_dir), manager.now, spill)
        over = manager.over(lambda _log_dir: overlay)
        try:
            listing = Listing.read(overlay, partition)
            if listing.is_07:
                return _one_07(over, options, partition)
            refuse_foreign_log(overlay, partition, listing, allows_misnamed=options.is_as_broker)
            chosen = replace_in(options, log_start_offset=_log_start(over, options, partition, report))
            _one(over, chosen, partition, jobs, report, listing)
        except KafkalogError as error:
            report.failure = error
        except MemoryError:
            report.failure = too_little_memory(partition.path)
    return report


def _note_malformed_checkpoints(manager: LogManager, log_dir: LogDir, report: Report) -> None:
    """Report those of a log dir of which only partitions were named: they hold the lines of others, and stay as they are."""
    for path, fault in manager.malformed_checkpoints(log_dir.path):
        why = (f"{fault}: no line of it was used; it has the lines of other partitions too: kafkalog recover "
               f"{argument(log_dir.path)} repairs it, and keeps the old file in a quarantine")
        report.add(Action.KEPT, file_name(path), why, severity=Severity.WARNING)


def _accounts_for_end(report: Report) -> bool:
    """Did the recovery truncate the log itself, and report everything that is missing there?

    If not, the high watermark remains as evidence of a loss.
    """
    end = report.log_end_offset
    if end is None or any((event.end_offset or 0) > end for event in report.find(Action.MISSING)):
        return False
    return any(event.severity is Severity.ERROR for action in (Action.TRUNCATED, Action.REMOVED, Action.SALVAGED)
               for event in report.find(action))


def _note(
    manager: LogManager, offsets_left: Mapping[PartitionPath, CheckpointOffsets], truncated: Mapping[PartitionPath, int]
) -> None:
    """Write the final offsets of logs to the checkpoints of log dirs that were named as a whole.

    truncated  logs that lost their end now, with the new end: their high watermarks are lowered, as a starting broker does
    """
    for log_dir in manager.cluster.log_dirs:
        left = {partition: one for partition, one in offsets_left.items() if partition.log_dir == log_dir.path}
        if left and log_dir.is_whole:  # logs of 0.7 are not in `left`: they have no checkpoints
            manager.checkpoint(log_dir, left)
            ends = {partition.key: end for partition, end in truncated.items() if partition.log_dir == log_dir.path}
            lower_checkpoints(manager.files_of(log_dir.path), log_dir.path, ends)


def recovery_order(log_dir: LogDir) -> list[PartitionPath]:
    """The partitions to load, the metadata log first. Deleted and stray directories belong to no topic and are left out."""
    partitions = log_dir.partitions(PartitionKind.PLAIN, PartitionKind.FUTURE)
    if not log_dir.is_whole:
        partitions = list(log_dir.directories)
    return sorted(partitions, key=lambda partition: partition.name.topic != METADATA_TOPIC)


def _refusal(problem: StartProblem) -> Report:
    report = Report(problem.log_dir, OPERATION)
    report.add(Action.REFUSED, problem.name, f"{problem.effect.value}: {problem.message} - {problem.what}; {problem.do}",
               severity=Severity.ERROR)
    return report


def _mend_all(manager: LogManager, problems: list[StartProblem], report: Report) -> bool:
    mended = True
    for problem in problems:
        if problem.effect is Effect.LOSES_TOPICS:
            continue  # the user accepts it; the recovery of the metadata log reports what is deleted
        mended &= mend(manager, problem, report)
    return mended


def _log_start(manager: LogManager, options: RecoverOptions, partition: PartitionPath, report: Report) -> int | None:
    """The log start offset to open the log with; None: from the checkpoint. Reports a start after the log end.

    Raises StartBeyondEnd if such a start is to be refused.
    """
    if options.log_start_offset is not None or partition.name.topic == METADATA_TOPIC or options.start_beyond_end == "delete":
        return options.log_start_offset
    start = manager.offsets(partition.log_dir, FileKind.LOG_START_CHECKPOINT).get(partition.key, 0)
    files = manager.files_of(partition.log_dir)
    found = start_beyond_end(files, partition.path, start, without_misnamed=options.salvage) if start > 0 else None
    if found is None:
        return None
    first, end, size = found
    first = max(first, start_in_epochs(files, partition.path, end))
    name = FileKind.LOG_START_CHECKPOINT.value
    what = f"{name} has log start offset {start}, after the log end {end}: a broker deletes the whole log"
    if options.start_beyond_end != "keep":
        why = f"{what}, {count_of(size, 'byte')} of {offsets_text(first, end)}"
        raise StartBeyondEnd(f"{partition.path}: {why}", path=partition.path,
                             do="--start-beyond-end keep keeps the log, --start-beyond-end delete deletes it as the broker "
                                "does")
    if any(log_dir.is_whole and log_dir.path == partition.log_dir for log_dir in manager.cluster.log_dirs):
        why = f"{what}; the log is kept and begins at offset {first} again; the checkpoint is corrected"
        report.add(Action.REBUILT, "", why, offsets=(first, end), size=size, severity=Severity.WARNING)
    else:
        why = f"{what}; the log is kept, but the checkpoint is not corrected: name the log dir, not the partition"
        report.add(Action.KEPT, "", why, offsets=(first, end), size=size, severity=Severity.ERROR)
    return first


def _evidence(manager: LogManager, partition: PartitionPath, listing: Listing, opened: Opened | None = None) -> Evidence:
    """Read what other files say about the log. Call it before any of them is repaired."""
    files = manager.files_of(partition.log_dir)
    return read_evidence(files, partition.path, lambda kind: manager.offsets(partition.log_dir, kind).get(partition.key),
                         names=listing.plain, opened=opened)


def _one(
    manager: LogManager, options: RecoverOptions, partition: PartitionPath, jobs: int, report: Report, listing: Listing,
    evidence: Evidence | None = None,
) -> CheckpointOffsets:
    """Recover the log at `partition` and close it.

    listing   of its directory
    evidence  read before files were repaired; None: no file was repaired
    """
    files = manager.files_of(partition.log_dir)
    is_as_listed = evidence is None and not options.salvage
    how = LoadOptions(
        recovery_point=0 if options.mark_clean or options.salvage else options.recovery_point,
        log_start_offset=options.log_start_offset, jobs=jobs, for_snapshots=True, stabilizes_epochs=True,
        refuses_doubtful_epochs=options.mark_clean or options.salvage, allows_misnamed=options.is_as_broker,
        find_broken=broken_indexes,
    )
    load = partial(
        manager.load, partition, report, how, clean_start=options.clean_start and not options.salvage,
        listing=listing if is_as_listed else None,
    )
    unchanged = None
    if options.clean_start and is_as_listed and not listing.lacks_index:
        unchanged = open_without_change(lambda overlay: load(files=overlay), files, report)
    if unchanged is not None:
        with unchanged as log:
            evidence = _evidence(manager, partition, listing, unchanged.known)
    else:
        evidence = _evidence(manager, partition, listing) if evidence is None else evidence
        if options.salvage:
            from engine.log.operations.salvage import salvage  # slow to import

            # nothing is salvaged if the log could not be opened afterwards
            overlay, tiering = OverlayFiles(files, manager.now), manager.tiering(partition.name.topic)
            open_leader_epochs(overlay, partition.path, Report(partition.path, OPERATION), tiering)
            # complete an interrupted replacement first: the `.swap` files count, not the segments that they replace
            start = evidence.log_start if options.log_start_offset is None else options.log_start_offset
            Leftovers(
                files, partition.path, manager.config(partition.name.topic), manager.now, report, log_start_offset=start or 0,
                keep_whole=True, policy=partial(manager.policy, partition.name.topic),
            ).resolve()
            salvage(files, partition.path, report, {claim.end for claim in evidence.claims})
        log = load()
    for name, base in misnamed_logs(listing.plain):
        what = f"not the name of a segment: a broker begins an empty segment at offset {base}, and does not read the file"
        report.add(Action.KEPT, name, what, severity=Severity.ERROR)
    if options.salvage:
        _note_salvaged(report)
    if options.mark_clean or options.salvage:
        mend_contradicted_epochs(files, log, report, manager.tiering(partition.name.topic))

    def note_findings() -> None:
        note_breaks(report, log.segments.base_offsets)
        note_losses(files, report, log, evidence, partial(manager.policy, partition.name.topic))
        if options.mark_clean:
            log.flush(force_flush_active_segment=True)

    return closed(log, note_findings, keep_deleted=options.keep_deleted)


def _note_salvaged(report: Report) -> None:
    """Remove the events about rebuilt indexes of salvaged segments: salvaging removed these indexes itself."""
    salvaged = {event.path for event in report.find(Action.SALVAGED)}
    report.events = [event for event in report.events
                     if event.action is not Action.REBUILT or event.path not in salvaged or event.reason != NO_INDEX]


def _one_07(manager: LogManager, options: RecoverOptions, partition: PartitionPath) -> Report:
    """Recover a log of 0.7. Its offsets are byte positions in its files, so no byte can be removed inside it."""
    refuse_offsets_07(partition, options.recovery_point, options.log_start_offset)
    if options.salvage:
        what = f"{partition.path}: a log of Kafka 0.7, whose offsets are byte positions: damage inside it cannot be removed"
        raise UsageError(what, do="remove --salvage")
    report = Report(partition.path, OPERATION)
    manager.load_07(partition, report, clean_start=options.clean_start and not options.mark_clean).close()
    return report


def _mark(
    manager: LogManager, options: RecoverOptions, log_dir: LogDir, unproven: str | None, recovery: Recovery
) -> Report:
    """Mark the log dir as cleanly stopped, unless `unproven` says why not."""
    report = Report(log_dir.path, OPERATION)
    name = FileKind.CLEAN_SHUTDOWN.value
    why = unproven or ("with --clean-start nothing is checked" if options.clean_start else None)
    if why is not None:
        what = "nothing was changed, and the marker stays as it was" if log_dir.path in recovery.clean else (
            "the log dir is not marked as cleanly stopped")
        report.add(Action.REFUSED, name, f"{what}: {why}", severity=Severity.ERROR)
    elif log_dir.path in recovery.clean:
        report.add(Action.EXPLAINED, name, "every log is proven sound, and nothing was changed: the marker is unchanged")
    else:
        # if the marker has no broker epoch, the controller uses none; a wrong epoch would be worse (KIP-966)
        marker = recovery.markers.get(log_dir.path)
        old = Marker(b"") if marker is None else marker
        new = old._replace(modified_ns=None, content=b"" if log_dir.path in recovery.lossy else old.content)
        but = ", except for the missing offsets" if log_dir.path in recovery.incomplete else ""
        if marker is not None and marker.content == new.content and log_dir.path not in recovery.changed:
            write_marker(manager, log_dir, marker)
            why = f"every log is proven sound{but}, and nothing was changed: the marker is unchanged"
            report.add(Action.EXPLAINED, name, why)
        else:
            write_marker(manager, log_dir, new)
            report.add(Action.CREATED, name, f"every log is proven sound{but}: a broker skips recovery")
    return report

"""The operation `undelete`: put deleted partitions back under the id that the topic has now.

A broker renames a directory to -stray if partition.metadata has the id of a deleted topic. So the topic is created again, and
its new, empty partitions are replaced. The records are copied into a staging directory beside them, which is named
-stray, so that a broker that starts in between ignores it: every batch gets leader epoch 0, which its checksum does not cover,
because later epochs than that of the new topic would be truncated. There the log is opened as after a crash, which rebuilds
indexes, epochs and producers from the batches. Two renames put it in place. The deleted directory itself is only read.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import count_of, offsets_text, size_text
from engine.discovery.choice import EVERY_PARTITION
from engine.discovery.names import FileKind, PartitionDir, PartitionKind, file_name, log_file_name
from engine.errors import KafkalogError, UnreadableFile, UnwritableFile, UsageError, argument
from engine.files import remove_tree
from engine.findings import Severity
from engine.formats import NO_TIMESTAMP
from engine.log.errors import LogDamaged
from engine.log.loading.shared import LoadOptions
from engine.log.logdir.log_dirs import PartitionPath, no_partition
from engine.log.operations.deleted import DIRECTORIES, STAGING_ID, Deleted, Kind, find_deleted
from engine.log.operations.mending import write_topic_id
from engine.log.operations.operation import closed, note
from engine.log.operations.rejoin import rejoin
from engine.log.operations.sound_segments import COMMAND, SoundSegment, copy_segment, read_sound
from engine.log.operations.undelete_target import NotUndeleted, Target, TargetFinder, candidates, contents
from engine.log.report import Action, Report, loses_records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.discovery.choice import PartitionChoice
    from engine.files import ReadOnlyFiles
    from engine.log.logdir.log_dirs import LogDir
    from engine.log.logdir.log_manager import CheckpointOffsets, LogManager
    from engine.log.session import Session

_LONGEST = 255  # characters of a file name


@dataclass(frozen=True, slots=True, kw_only=True)
class UndeleteOptions:
    """What is put back.

    choice     of partitions
    new_topic  directories of deleted topics, into the topic that has the name now
    topic_id   the same into the topic with this id
    Without both: deleted segments, and directories of topics that still exist.
    """

    choice: PartitionChoice = EVERY_PARTITION
    new_topic: bool = False
    topic_id: str | None = None

    def includes(self, one: Deleted) -> bool:
        """Is the partition chosen?"""
        return self.choice.includes(_key(one))


class _Planned(NamedTuple):
    deleted: Deleted
    target: Target
    segments: list[SoundSegment]
    report: Report
    notes: tuple[str, ...] = ()

    @property
    def start(self) -> int:
        return self.segments[0].base_offset

    @property
    def end(self) -> int:
        return self.segments[-1].end

    @property
    def records(self) -> int:
        return sum(one.records for one in self.segments)

    @property
    def amount(self) -> str:
        return f"{offsets_text(self.start, self.end)}, {count_of(self.records, 'record')}"


class Undelete:
    """Puts back what is deleted in the log dirs of a session."""

    def __init__(self, options: UndeleteOptions) -> None:
        self._options = options

    def work(self, session: Session) -> Iterator[Report]:
        """Plan all partitions, which reads every batch of them, then put them back → reports.

        Raises UsageError if the topic id was given for several topics.
        """
        options, cluster = self._options, session.manager.cluster
        errors: list[KafkalogError] = []
        found = list(find_deleted(session.dirs.files, cluster, session.options.settings.server, errors.append))
        for error in errors:
            unread = Report(error.path or "", COMMAND)
            unread.failure = error
            yield unread
        finder = TargetFinder(session.dirs.files, cluster, found, wanted=options.topic_id, needs_topic=not options.new_topic)
        refuse_unknown(options.choice, cluster.log_dirs, found)
        named = _named(session, found)
        chosen = [one for one in found if options.includes(one) and (not named or _key(one) in named)]
        topics = sorted({one.topic or one.prefix for one in chosen if one.kind in DIRECTORIES})
        if options.topic_id is not None and len(topics) > 1:
            what = f"--topic-id {options.topic_id}: deleted records of several topics were found: {', '.join(topics)}"
            raise UsageError(what, "choose one of them with --topic NAME")
        planned: list[_Planned] = []
        seen: set[tuple[str | None, int]] = set()
        for one in chosen:
            if one.kind not in DIRECTORIES or (one.topic, one.partition) in seen:
                continue
            seen.add((one.topic, one.partition))
            plan = self._choose(session, finder, candidates(one, chosen))
            if isinstance(plan, _Planned):
                planned.append(plan)
            else:
                yield from plan
        for plan in planned:
            yield self._done(session, plan)
        if not options.new_topic and options.topic_id is None:
            yield from rejoin(session, [one for one in chosen if one.kind is Kind.DELETED_SEGMENT])

    def _choose(self, session: Session, finder: TargetFinder, same: Sequence[Deleted]) -> _Planned | list[Report]:
        """Return the plan of a partition that these directories hold, copies first; or reports why nothing is put back.

        A sound directory is taken in place of a damaged one, or of one with less, only if it has all of its offsets.
        """
        plans: list[_Planned] = []
        failed: list[tuple[Deleted, KafkalogError]] = []
        unread: list[Deleted] = []
        for one in same:
            if any(contents(plan.deleted) == contents(one) for plan in plans):
                unread.append(one)
                continue
            try:
                plan = self._plan(session, finder, one)
            except KafkalogError as error:
                failed.append((one, error))
                continue
            if isinstance(plan, Report):
                return [plan, *self._others(session, finder, one, same)]
            plans.append(plan)
        best = _best(plans)
        leads = [one for one in same if one.kind is Kind.COPY] or same
        doubts = [one for one, error in failed if one in leads and not (best is not None and _replaces(best, one, error))]
        if best is None or doubts:
            return _refusals(finder, plans, failed, doubts)
        used = best.deleted.path
        notes = [f"{one.path} is not needed: {used} has the same segments" for one in unread]
        notes += [f"{used} is used instead of {one.path}: {error}" for one, error in failed]
        notes += [f"{used} is used instead of {plan.deleted.path}: {best.amount}, not {plan.amount}"
                  for plan in plans if plan is not best]  # fmt: skip
        return best._replace(notes=tuple(notes))

    def _others(self, session: Session, finder: TargetFinder, done: Deleted, same: Sequence[Deleted]) -> Iterator[Report]:
        """Yield why the other directories are not put back, of a partition that was put back from `done` before."""
        for one in same:
            if one is done or _has_all(done, one):
                continue
            report = Report(one.path, COMMAND)
            try:
                self._plan(session, finder, one)  # raises: the target has records
            except KafkalogError as error:
                report.failure = error
            yield report

    def _plan(self, session: Session, finder: TargetFinder, one: Deleted) -> _Planned | Report:
        """Return the plan, or a report that says why nothing is to be done. Raises NotUndeleted, LogDamaged, …"""
        target = finder.target(one)
        report = Report(target.directory, COMMAND)
        if finder.has_same_segments(target, one):
            what = f"{one.path} is not needed: {target.directory} has the same segments"
            report.add(Action.EXPLAINED, file_name(target.directory), what)
            return report
        finder.refuse_records(target)
        session.manager.refuse_malformed_checkpoints(target.log_dir)
        segments = read_sound(session.dirs.files, one)
        size, free = sum(segment.size for segment in segments), session.dirs.disk.space(target.log_dir).free
        if size > free:
            what = f"{one.path}: {size_text(size)} are copied, and {target.log_dir} has {size_text(free)} free"
            do = f"kafkalog undelete --to DIR {argument(one.path)}    # DIR on another disk keeps the records meanwhile"
            raise NotUndeleted(what, do)
        return _Planned(one, target, segments, report)

    def _done(self, session: Session, plan: _Planned) -> Report:
        report, target = plan.report, plan.target
        try:
            if session.options.dry_run:
                report.log_start_offset, report.log_end_offset = plan.start, plan.end
                report.segments, report.size = len(plan.segments), sum(one.size for one in plan.segments)
            else:
                put_back(session, plan.segments, target, report)
        except KafkalogError as error:
            report.failure = error
            return report
        except MemoryError:
            report.failure = UnwritableFile(f"{target.directory}: too little memory to rebuild its indexes")
            return report
        for one in plan.segments:
            report.add(
                Action.CREATED,
                log_file_name(one.base_offset),
                f"copied from {file_name(plan.deleted.path)}",
                offsets=(one.base_offset, one.end),
                records=one.records,
                size=one.size,
            )
        epochs = "" if target.keeps_epochs else "; every batch has leader epoch 0 now"
        what = f"put back under topic id {target.topic_id}, with rebuilt indexes{epochs}"
        report.add(Action.REBUILT, file_name(target.directory), what, severity=Severity.WARNING)
        for note_text in self._notes(session, plan):
            report.add(Action.EXPLAINED, file_name(target.directory), note_text)
        return report

    def _notes(self, session: Session, plan: _Planned) -> Iterator[str]:
        """What a user must know before a broker starts."""
        target, now = plan.target, session.options.now
        yield from target.notes
        yield from plan.notes
        missing = sum(one.missing for one in plan.segments)
        missing += sum(max(0, after.base_offset - before.end) for before, after in pairwise(plan.segments))
        if missing:
            yield f"{count_of(missing, 'offset')} between its batches are missing: compaction removed them, or they are lost"
        others = [node for node in target.replicas if node != target.node_id]
        if others:
            nodes = f"replicas are also on {'broker' if len(others) == 1 else 'brokers'} {', '.join(map(str, others))}"
            yield (
                f"{nodes}: put them back too, with all brokers stopped, or start this broker first and alone, so that it "
                "leads: a leader with an empty log makes this broker delete the records"
            )
        config = session.manager.config(target.topic)
        newest = max(one.largest_timestamp for one in plan.segments)
        if config.delete and 0 <= config.retention_ms < now - newest and newest != NO_TIMESTAMP:
            yield (
                f"all records are older than retention.ms={config.retention_ms}: a broker deletes them 30 s after its "
                "start, unless the topic has retention.ms=-1, or it has none and server.properties has log.retention.ms=-1"
            )
        if plan.deleted.kind in (Kind.DELETE_DIR, Kind.STRAY_DIR):
            goes = "a broker removes it after its start" if plan.deleted.kind is Kind.DELETE_DIR else "remove it by hand"
            yield f"{plan.deleted.path} is unchanged: {goes}"


# ---- what is chosen


def refuse_unknown(choice: PartitionChoice, log_dirs: Sequence[LogDir], found: Sequence[Deleted]) -> None:
    """Raise UsageError if the chosen partitions are neither deleted nor in the log dirs."""
    there = [_key(one) for one in found] + [place.name for one in log_dirs for place in one.directories]
    if not any(choice.includes(PartitionDir(name.topic, name.partition)) for name in there) and not choice.is_all:
        raise no_partition(choice, {_key(one).topic for one in found})


def _named(session: Session, found: Sequence[Deleted]) -> set[PartitionDir]:
    """Return the partitions of single directories that were named, perhaps beside log dirs; empty: only log dirs were."""
    single = {place.path: place.name for one in session.log_dirs if not one.is_whole for place in one.directories}
    names = {PartitionDir(name.topic, name.partition) for name in single.values()}
    return names | {_key(one) for one in found if one.path in single}


def _key(one: Deleted) -> PartitionDir:
    return PartitionDir(one.topic or one.prefix, one.partition)


# ---- several directories of one partition


def _best(plans: Sequence[_Planned]) -> _Planned | None:
    """Return the one that has all offsets of the others, else the copy, if it is the only one."""
    whole = next((one for one in plans if all(_covers(one, other) for other in plans)), None)
    copies = [one for one in plans if one.deleted.kind is Kind.COPY]
    return next((one for one in copies if all(_covers(one, other) for other in copies)), None) if whole is None else whole


def _covers(one: _Planned, other: _Planned) -> bool:
    is_same = one.deleted.topic_id is not None and one.deleted.topic_id == other.deleted.topic_id
    has_all = one.start <= other.start and one.end >= other.end and one.records >= other.records
    return one is other or (is_same and has_all)


def _replaces(plan: _Planned, one: Deleted, error: KafkalogError) -> bool:
    """Is `plan` of the same partition as `one`, which is damaged or unreadable, and can `one` have nothing more?"""
    return isinstance(error, LogDamaged | UnreadableFile) and _has_all(plan.deleted, one)


def _has_all(one: Deleted, other: Deleted) -> bool:
    """Has `one`, by names, headers and sizes, all that `other` of the same partition can have?"""
    is_same = one.topic_id is not None and one.topic_id == other.topic_id
    return is_same and (one.start or 0) <= (other.start or 0) and (one.end or 0) >= (other.end or 0) and one.size >= other.size


def _refusals(
    finder: TargetFinder, plans: Sequence[_Planned], failed: Sequence[tuple[Deleted, KafkalogError]], doubts: Sequence[Deleted]
) -> list[Report]:
    """Return a report for each directory: none of them is put back."""
    errors: dict[str, tuple[Deleted, KafkalogError]] = {}
    for one, error in failed:
        errors.setdefault(str(error), (one, error))
    for plan in plans:
        one = plan.deleted
        others = doubts or [other.deleted for other in plans if other is not plan]
        names = ", ".join(other.path for other in others)
        what = f"{one.path}: NOT put back; it is intact ({plan.amount}), but {names} may have other records of {one.name}"
        errors[what] = one, NotUndeleted(what, finder.choose(one))
    reports = []
    for one, error in errors.values():
        report = Report(one.path, COMMAND)
        report.failure = error
        reports.append(report)
    return reports


# ---- writing


def put_back(session: Session, segments: Sequence[SoundSegment], target: Target, report: Report) -> None:
    """Write the log into the staging directory, and put that in place. Raises UnwritableFile, LogDamaged, …"""
    log_dir, files = target.log_dir, session.manager.files_of(target.log_dir)
    staging = f"{log_dir.rstrip('/')}/{_marked_name(target, STAGING_ID, PartitionKind.STRAY)}"
    remove_tree(files, staging)  # of an earlier run that was stopped
    files.make_directory(staging)
    try:
        for one in segments:
            path = f"{staging}/{log_file_name(one.base_offset)}"
            copy_segment(session.dirs.files, one, files, path, keeps=target.keeps_epochs)
        write_topic_id(files, f"{staging}/{FileKind.PARTITION_METADATA.value}", target.topic_id)
        left = rebuild(session.manager, _place(staging, target), segments, report)
    except KafkalogError:
        with suppress(KafkalogError):  # what the disk does not let go is removed by the next run
            remove_tree(files, staging)
        raise
    if files.exists(target.directory):
        files.rename(target.directory, _free_name(files, target, session.options.now))
    files.rename(staging, target.directory)
    files.sync_directory(log_dir)
    whole = next(one for one in session.log_dirs if one.path == log_dir)
    note(session.manager, whole, {_place(target.directory, target): left})


def _place(directory: str, target: Target) -> PartitionPath:
    return PartitionPath(directory, target.log_dir, PartitionDir(target.topic, target.partition))


def rebuild(manager: LogManager, place: PartitionPath, segments: Sequence[SoundSegment], report: Report) -> CheckpointOffsets:
    """Open the log at `place` as after a crash, which rebuilds its indexes, epochs and producers, and sync all → its offsets.

    Raises LogDamaged if that loses a record: the batches were checked before.
    """
    opening = Report(place.path, COMMAND)
    options = LoadOptions(recovery_point=0, log_start_offset=segments[0].base_offset)
    log = manager.load(place, opening, options, clean_start=False)
    lost = next((event for event in opening.events if loses_records(event)), None)
    if lost is not None or log.log_end_offset != segments[-1].end:
        log.close_handlers()
        why = "its end changed" if lost is None else f"{lost.action.value} {lost.path} - {lost.reason}"
        raise LogDamaged(f"{place.path}: the copy was not put in place: {why}", do=f"rm -r {argument(place.path)}")

    def end() -> None:
        log.flush()
        log.describe()

    left = closed(log, end, keep_deleted=False)
    report.copy_log_state(opening)
    report.findings += opening.findings
    return left


def _marked_name(target: Target, unique_id: str, kind: PartitionKind) -> str:
    """The name of a directory that is not the partition; the topic is shortened as in names that brokers make."""
    end = f"-{target.partition}.{unique_id}{kind.value}"
    return target.topic[: _LONGEST - len(end)] + end


def _free_name(files: ReadOnlyFiles, target: Target, number: int) -> str:
    """The name under which the new, empty partition is set aside, so that a broker removes it after its start."""
    while True:
        path = f"{target.log_dir.rstrip('/')}/{_marked_name(target, format(number, '032x'), PartitionKind.DELETE)}"
        if not files.exists(path):
            return path
        number += 1

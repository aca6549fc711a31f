"""The operation `retain`: delete what retention allows, or as many old segments as are needed to free N bytes."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.amounts import count_of, exact_size
from engine.discovery.names import METADATA_TOPIC, PartitionKind, file_name, parent_of, parse_partition_dir
from engine.errors import UnreadableFile, UsageError
from engine.findings import Severity
from engine.log.errors import RetentionUnknown
from engine.log.logdir.log_manager import purge_deleted_directories
from engine.log.logdir.logs_07 import ReportedLog07, expires_07, explain_retention_07, retain_07
from engine.log.operations.operation import AnyLogOperation, operate, partitions_of
from engine.log.quarantine.stamps import list_files
from engine.log.report import Action, Report
from engine.log.retention.freeing import FreePlan, chosen, free, plan_freeing
from engine.log.retention.rules import deciding_settings, deletable, delete_old_segments, explain_retention

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.log.logdir.log_dirs import LogDir, PartitionPath
    from engine.log.logdir.log_manager import LogManager
    from engine.log.partition.unified_log import UnifiedLog
    from engine.log.segment.log_segment import LogSegment
    from engine.log.session import OpenOptions

_INTERNAL = "__"
_HOW_TO_KNOW = (f"name the log dir of the broker with {METADATA_TOPIC}-0 too, with --config-file server.properties; "
                "or give the value: --config {setting}=N (-1: no limit)")
_WHY_NOT_MORE = ("the rest is in active segments, above the high watermark, in compacted or internal topics, in topics with "
                 "remote storage, or does not belong to a partition")
_POLICY_UNKNOWN = ("; {topics} may be compacted, as cleanup.policy is not known: name the log dir of the broker with "
                   f"{METADATA_TOPIC}-0 too, or give the policy: --config cleanup.policy=delete")


@dataclass(frozen=True, slots=True)
class RetainOptions:
    """What to delete.

    free      bytes of each disk that must be free, whatever retention allows; None: what retention allows
    as_much_as_possible  delete as much as allowed even if fewer bytes become free; otherwise nothing is deleted then
    explain   report for each remaining segment why it was not deleted
    quarantine  directory that keeps what is deleted; None: not kept
    """

    free: int | None = None
    as_much_as_possible: bool = False
    explain: bool = False
    quarantine: str | None = None


class _Retain(AnyLogOperation):
    """Deletes by retention, or by `plans`, which are given by partition directory."""

    name = "retain"

    def __init__(self, manager: LogManager, options: RetainOptions, plans: dict[str, FreePlan]) -> None:
        self._manager, self._options, self._plans = manager, options, plans
        if options.free is not None:
            self.first = frozenset(path for path, plan in plans.items() if path in plan.directories)

    def refuse(self, log: UnifiedLog | ReportedLog07) -> None:
        """Raise RetentionUnknown if segments would be deleted by settings of the topic that are not known."""
        named = parse_partition_dir(file_name(log.directory))
        if self._options.free is not None or named is None:
            return
        if isinstance(log, ReportedLog07):
            deciding = ["retention.ms"] if expires_07(log) else []
        else:
            deciding = deciding_settings(log)
            if deciding and self._manager.may_be_compacted(named.topic):
                what = f"{log.directory}: cleanup.policy of the topic is not known, and it may be compacted: nothing is deleted"
                do = (f"name the log dir of the broker with {METADATA_TOPIC}-0 too; or give the policy of these topics: "
                      "--topic NAME --config cleanup.policy=compact, or delete")
                raise RetentionUnknown(what, do, path=log.directory)
        for setting in deciding:
            why = self._manager.why_unknown(named.topic, setting)
            if why is not None:
                what = f"{log.directory}: {setting} of the topic is not known: {why}; nothing is deleted by a default"
                raise RetentionUnknown(what, _HOW_TO_KNOW.format(setting=setting), path=log.directory)

    def work(self, log: UnifiedLog | ReportedLog07) -> None:
        """Work on one open log. Raises UsageError for a log of 0.7 if bytes are to be freed."""
        if isinstance(log, ReportedLog07):
            if self._options.free is not None:
                raise UsageError(f"{log.directory}: a log of Kafka 0.7, which --free does not support", path=log.directory)
            retain_07(log)
            if self._options.explain:
                explain_retention_07(log)
            return
        if self._options.free is None:
            delete_old_segments(log)
        else:
            free(log, self._plans[log.directory])
        if self._options.explain:
            explain_retention(log)

    def deletes(self, log: UnifiedLog) -> list[LogSegment]:
        """The segments that `work` deletes."""
        return deletable(log) if self._options.free is None else chosen(log, self._plans[log.directory])


def retain(manager: LogManager, opening: OpenOptions, options: RetainOptions) -> Iterator[Report]:
    """Delete what the options allow in the manager's log dirs, and yield reports.

    Raises UsageError for a quarantine on the same disk, with which no space becomes free.
    """
    if options.free is not None and options.quarantine is not None:
        _refuse_quarantine_there(manager, options.quarantine)
    disks = [] if options.free is None else _disks(manager, opening, options.free)
    refusals = [] if options.as_much_as_possible else [one for disk in disks if (one := disk.refusal()) is not None]
    if refusals:
        yield from refusals
        return
    has_failed = False
    for report in [] if opening.keep_deleted else list(_purge(manager, keeps_all=options.quarantine is not None)):
        has_failed |= report.failure is not None
        yield report
    plans = {path: plan for disk in disks for path, plan in disk.plans().items()}
    for report in operate(manager, opening, _Retain(manager, options, plans)):
        has_failed |= report.failure is not None
        yield report
    for disk in disks:
        yield disk.report(failed=has_failed)


def _refuse_quarantine_there(manager: LogManager, quarantine: str) -> None:
    """Raise UsageError if the quarantine is on the disk on which --free deletes."""
    for log_dir in manager.cluster.log_dirs:
        files = manager.files_of(log_dir.path)
        around = parent_of(files.absolute(quarantine.rstrip("/")))
        if files.exists(around) and files.space(around).disk == files.space(log_dir.path).disk:
            what = f"{quarantine}: on the file system of {log_dir.path}: moving files there frees no space"
            raise UsageError(what, do="choose another file system with --quarantine DIR, or omit this option")


def _purge(manager: LogManager, *, keeps_all: bool) -> Iterator[Report]:
    """Remove the directories of deleted topics in log dirs that were named as a whole."""
    for log_dir in manager.cluster.log_dirs:
        if log_dir.is_whole and log_dir.partitions(PartitionKind.DELETE):
            report = Report(log_dir.path, "retain")
            failed = purge_deleted_directories(manager.files_of(log_dir.path), log_dir, report, keeps_all=keeps_all)
            yield report
            for partition, error in failed.items():
                yield Report(partition.path, "retain", failure=error)


def _disks(manager: LogManager, options: OpenOptions, wanted: int) -> list[_Disk]:
    """The file systems of the log dirs, in their order."""
    spaces = [(log_dir, manager.files_of(log_dir.path).space(log_dir.path)) for log_dir in manager.cluster.log_dirs]
    return [
        _Disk(manager, options, [log_dir for log_dir, space in spaces if space.disk == number], wanted,
              next(space.free for _, space in spaces if space.disk == number))
        for number in dict.fromkeys(space.disk for _, space in spaces)
    ]  # fmt: skip


class _Disk:
    """A file system on which `wanted` bytes must be free. `free`: free bytes at the beginning."""

    def __init__(self, manager: LogManager, options: OpenOptions, log_dirs: list[LogDir], wanted: int, free: int) -> None:
        self._manager, self._options, self._log_dirs, self._wanted, self._free = manager, options, log_dirs, wanted, free
        self._before = self._size(self._directories())
        self._missing = 0  # bytes that are still missing after the directories of deleted topics are removed
        self._plan: FreePlan | None = None

    def refusal(self) -> Report | None:
        """Why that many bytes cannot become free, computed before anything is deleted; None: they can."""
        whole = [] if self._options.keep_deleted else [log_dir for log_dir in self._log_dirs if log_dir.is_whole]
        deleted = self._size([partition for log_dir in whole for partition in log_dir.partitions(PartitionKind.DELETE)])
        plan = self._planned(self._wanted - self._free - deleted)
        possible = deleted + (plan.leftovers if self._options.keep_deleted else plan.size)
        if self._free + possible >= self._wanted:
            return None
        report = Report(self._log_dirs[0].path, "retain")
        why = "--keep-deleted keeps what is deleted" if self._options.keep_deleted else f"{_WHY_NOT_MORE}{self._unknown()}"
        text = (f"{exact_size(self._wanted)} were requested: {exact_size(self._free)} are free, and at most "
                f"{exact_size(possible)} more can be freed; {why}. Nothing was deleted; --as-much-as-possible deletes as much "
                "as allowed")
        report.add(Action.REFUSED, "", text, severity=Severity.ERROR)
        return report

    def plans(self) -> dict[str, FreePlan]:
        """What to delete now, by partition directory. Each directory refers to the same plan."""
        self._missing = self._wanted - self._free - self._freed()
        self._plan = plan = self._planned(self._missing)
        return {partition.path: plan for partition in self._partitions()}

    def _partitions(self) -> list[PartitionPath]:
        return [partition for log_dir in self._log_dirs for partition in partitions_of(log_dir)]

    def _planned(self, missing: int) -> FreePlan:
        """Plan what to delete so that `missing` bytes become free.

        No segment of an internal topic, or of one that is compacted or may be, is chosen: such a log needs all its segments. No
        segment of a tiered log is chosen either: raising its log start offset deletes segments in remote storage.
        """
        partitions = self._partitions()
        spared = {partition.path for partition in partitions if not self._is_history(partition)}
        asked = self._options.high_watermark
        noted = ((one.path, self._manager.high_watermark(one) if asked is None else asked) for one in partitions)
        marks = {path: mark for path, mark in noted if mark is not None}
        files = self._manager.files_of(self._log_dirs[0].path)
        return plan_freeing(files, [partition.path for partition in partitions], missing, spared, marks)

    def _is_history(self, partition: PartitionPath) -> bool:
        try:
            is_tiered = self._manager.is_tiered(partition)
        except UnreadableFile:  # no segment of it is chosen, and opening the log reports the error
            return False
        return (
            partition.name.kind in (PartitionKind.PLAIN, PartitionKind.FUTURE)
            and not partition.name.topic.startswith(_INTERNAL)
            and self._manager.config(partition.name.topic).cleanup_policy == "delete" and not is_tiered
            and self._manager.knows_policy(partition.name.topic)
        )  # fmt: skip

    def _unknown(self) -> str:
        """Say which topics are spared only because nothing shows whether they are compacted; empty: none."""
        topics = sorted(topic for topic in {partition.name.topic for partition in self._partitions()}
                        if not topic.startswith(_INTERNAL) and not self._manager.knows_policy(topic))
        if not topics:
            return ""
        shown = f"{topics[0]} and {count_of(len(topics) - 1, 'other topic')}" if topics[1:] else topics[0]
        return _POLICY_UNKNOWN.format(topics=shown)

    def report(self, *, failed: bool) -> Report:
        """Report the plan and its result. `failed`: a partition failed."""
        plan, wanted, freed = self._plan, self._wanted, self._freed()
        assert plan is not None, "plans come before"
        free = self._free + freed
        report = Report(self._log_dirs[0].path, "retain")
        planned = (f"{count_of(plan.segments, 'segment')} of {count_of(len(plan.end_offsets), 'partition')} and "
                   f"{exact_size(plan.leftovers)} of leftover files")
        text = (f"{exact_size(wanted)} were requested, {exact_size(free)} are free: {exact_size(self._free)} before and "
                f"{exact_size(freed)} freed now; {planned} were planned")
        if free >= wanted:
            report.add(Action.EXPLAINED, "", text)
            return report
        if failed:
            why = "a partition failed"
        elif plan.size >= self._missing:
            why = "the rest is above the high watermark, or still exists as .deleted"
        else:
            why = ("nothing else can be deleted: the rest is in active segments, in compacted or internal topics, or does not "
                   f"belong to a partition{self._unknown()}")
        report.add(Action.REFUSED, "", f"{text}; {why}", size=max(0, freed), severity=Severity.ERROR)
        return report

    def _freed(self) -> int:
        return self._before - self._size(self._directories())

    def _directories(self) -> list[PartitionPath]:
        return [partition for log_dir in self._log_dirs for partition in log_dir.directories]

    def _size(self, partitions: list[PartitionPath]) -> int:
        """Bytes of all files in these partition directories. Unreadable files are not counted: the work there reports them."""
        total = 0
        for partition in partitions:
            with suppress(UnreadableFile):  # a directory that was purged in between has no files
                files = self._manager.files_of(partition.log_dir)
                total += sum(stamp.size for stamp in list_files(files, partition.path).values())
        return total

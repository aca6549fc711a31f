"""kafkalog retain."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from engine.amounts import count_of
from engine.discovery.names import PartitionKind, parent_of
from engine.errors import UnreadableFile, UsageError
from engine.findings import Severity
from engine.log.logdir.log_manager import purge_deleted_directories
from engine.log.logdir.logs_07 import explain_retention_07, retain_07
from engine.log.operations.operation import operate, places_of
from engine.log.quarantine.stamps import list_files
from engine.log.report import Action, Report
from engine.log.retention.freeing import FreePlan, chosen, free, plan_freeing
from engine.log.retention.rules import deletable, delete_old_segments, explain_retention
from kafkalog_cli.amounts import shown_size
from kafkalog_cli.engine_options import OPENING, OUTPUT, SETTINGS, engine_options, quarantine_option
from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.options import Size
from kafkalog_cli.partitions import session

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from engine.errors import KafkalogError
    from engine.kafka07.log import Log07
    from engine.log.logdir.log_dirs import LogDir, Place
    from engine.log.logdir.log_manager import LogManager
    from engine.log.partition.unified_log import UnifiedLog
    from engine.log.segment.log_segment import LogSegment
    from kafkalog_cli.engine_options import Opening
    from kafkalog_cli.progress import Progress


_DONE = Section("What is done", ("--explain", "--free", "--as-much-as-possible", "--keep-deleted", "--quarantine"))
_SECTIONS = (_DONE, OPENING, SETTINGS, OUTPUT)
_MAIN = ("--explain", "--free", "--config", "--config-file", "--dry-run")
_EXAMPLES = (
    Example("Delete what is older than a day:", "kafkalog retain --config retention.ms=86400000 data/orders-7"),
    Example("What would be deleted now, and when will the rest be?", "kafkalog retain --explain data/orders-7"),
    Example("The disk is full: delete the oldest records until ten gigabytes are free:", "kafkalog retain --free 10GiB data"),
    Example("Keep about a gigabyte:",
            "kafkalog retain --config retention.bytes=1073741824 --config retention.ms=-1 data/orders-7"),
)


@click.command("retain", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS, main_options=_MAIN, writes=True)
@engine_options
@quarantine_option
@click.option("--explain", is_flag=True, help="Change nothing; show for each segment why it would be deleted or kept, and "
                                              "when it will be deleted.")
@click.option("--free", "wanted", type=Size(), metavar="BYTES",
              help="For emergencies: ignore retention; delete leftover files and then the oldest segments of all logs, "
              "until the disk of each log dir has BYTES free. Segments of compacted and internal topics and of topics with "
              "remote storage are kept. If BYTES cannot be freed, nothing is deleted.")
@click.option("--as-much-as-possible", is_flag=True, help="With --free: delete as much as allowed even if BYTES cannot be "
                                                          "freed.")
def command(wanted: int | None, explain: bool, as_much_as_possible: bool, **values: Any) -> int:
    """Delete the segments that retention allows: by log start offset, by size, by time.

    Exactly what a broker deletes at its next check: whole segments from the oldest on, none above the high watermark. In
    log dirs the directories of deleted topics go too.

    retain is there to free space, and keeps nothing. With --quarantine DIR what it deletes is moved there, from where
    `kafkalog restore` puts it back: that frees space only where DIR lies on another file system.
    """
    if as_much_as_possible and wanted is None:
        raise click.UsageError("--as-much-as-possible needs --free")
    values["dry_run"] = values["dry_run"] or explain
    return retain(values, wanted, explain=explain, as_much_as_possible=as_much_as_possible)


_INTERNAL = "__"
_WHY_NOT_MORE = ("the rest is in active segments, above the high watermark, in compacted or internal topics, in topics with "
                 "remote storage, or does not belong to a partition")


def retain(values: dict[str, Any], wanted: int | None, *, explain: bool, as_much_as_possible: bool = False) -> int:
    """Delete what retention allows, or whatever it allows until `wanted` bytes of each disk are free → exit status.

    as_much_as_possible  also where so many bytes cannot become free; else nothing is deleted then
    """
    errors: list[KafkalogError] = []

    def perform(manager: LogManager, opening: Opening, progress: Progress) -> Generator[Report, None, None]:
        if wanted is not None and values["quarantine"] is not None:
            _refuse_quarantine_there(manager, values["quarantine"])
        disks = [] if wanted is None else _disks(manager, opening, wanted)
        refusals = [] if as_much_as_possible else [refusal for disk in disks if (refusal := disk.refusal()) is not None]
        if refusals:
            yield from refusals
            return
        yield from [] if opening.keep_deleted else list(_purge(manager, errors))
        plans = {path: plan for disk in disks for path, plan in disk.plans().items()}

        def work(log: UnifiedLog) -> None:
            if wanted is None:
                delete_old_segments(log)
            else:
                free(log, plans[log.directory])
            if explain:
                explain_retention(log)

        def deletes(log: UnifiedLog) -> list[LogSegment]:
            return deletable(log) if wanted is None else chosen(log, plans[log.directory])

        options = opening.options("retain", for_snapshots=True, deletes=deletes)
        if wanted is not None:
            options = replace(options, first=frozenset(path for path, plan in plans.items() if path in plan.directories))

        def work_07(log: Log07, report: Report) -> None:
            if wanted is not None:
                raise UsageError(f"{log.directory}: a log of Kafka 0.7, which --free does not support", path=log.directory)
            retain_07(log, report, manager.now)
            if explain:
                explain_retention_07(log, report, manager.now)

        yield from operate(manager, options, work, errors, progress.done, work_07)
        for disk in disks:
            yield disk.report(failed=bool(errors))

    return session("retain", values, perform, errors)


def _refuse_quarantine_there(manager: LogManager, quarantine: str) -> None:
    """Raise UsageError where what --free deletes would be moved to a place on the same disk."""
    for log_dir in manager.cluster.log_dirs:
        files = manager.files_of(log_dir.path)
        around = parent_of(files.absolute(quarantine.rstrip("/")))
        if files.exists(around) and files.space(around).disk == files.space(log_dir.path).disk:
            what = f"{quarantine}: on the file system of {log_dir.path}: moving files there frees no space"
            raise UsageError(what, do="choose another file system with --quarantine DIR, or omit this option")


def _purge(manager: LogManager, errors: list[KafkalogError]) -> Iterator[Report]:
    """Remove the directories of deleted topics in log dirs that were named themselves. What fails goes to `errors` as well."""
    for log_dir in manager.cluster.log_dirs:
        if log_dir.is_whole and log_dir.partitions(PartitionKind.DELETE):
            report = Report(log_dir.path, "retain")
            failed = purge_deleted_directories(manager.files_of(log_dir.path), log_dir, report)
            yield report
            for place, error in failed.items():
                errors.append(error)
                yield Report(place.path, "retain", failure=error)


def _disks(manager: LogManager, opening: Opening, wanted: int) -> list[_Disk]:
    """The file systems that the log dirs lie on, in their order."""
    spaces = [(log_dir, manager.files_of(log_dir.path).space(log_dir.path)) for log_dir in manager.cluster.log_dirs]
    return [
        _Disk(manager, opening, [log_dir for log_dir, space in spaces if space.disk == number], wanted,
              next(space.free for _, space in spaces if space.disk == number))
        for number in dict.fromkeys(space.disk for _, space in spaces)
    ]  # fmt: skip


class _Disk:
    """A file system on which `wanted` bytes are to be free. `free` are so at the beginning."""

    def __init__(self, manager: LogManager, opening: Opening, log_dirs: list[LogDir], wanted: int, free: int) -> None:
        self._manager, self._opening, self._log_dirs, self._wanted, self._free = manager, opening, log_dirs, wanted, free
        self._before = self._size(self._directories())
        self._missing = 0  # bytes, once the directories of deleted topics are gone
        self._plan: FreePlan | None = None

    def refusal(self) -> Report | None:
        """Why so many bytes cannot become free, found before anything is deleted; None: they can."""
        whole = [] if self._opening.keep_deleted else [log_dir for log_dir in self._log_dirs if log_dir.is_whole]
        deleted = self._size([place for log_dir in whole for place in log_dir.partitions(PartitionKind.DELETE)])
        plan = self._planned(self._wanted - self._free - deleted)
        possible = deleted + (plan.leftovers if self._opening.keep_deleted else plan.size)
        if self._free + possible >= self._wanted:
            return None
        report = Report(self._log_dirs[0].path, "retain")
        why = "--keep-deleted keeps what is deleted" if self._opening.keep_deleted else _WHY_NOT_MORE
        text = (f"{shown_size(self._wanted)} were requested: {shown_size(self._free)} are free, and at most "
                f"{shown_size(possible)} more can be freed; {why}. Nothing was deleted; --as-much-as-possible deletes as much "
                "as allowed")
        report.add(Action.REFUSED, "", text, severity=Severity.ERROR)
        return report

    def plans(self) -> dict[str, FreePlan]:
        """What is to go now, by partition directory; the same for all."""
        self._missing = self._wanted - self._free - self._freed()
        self._plan = plan = self._planned(self._missing)
        return {place.path: plan for place in self._places()}

    def _places(self) -> list[Place]:
        return [place for log_dir in self._log_dirs for place in places_of(log_dir)]

    def _planned(self, missing: int) -> FreePlan:
        """What is to go so that `missing` bytes become free.

        Of compacted topics and Kafka's internal ones no segment may go: they would lose more than history. Nor of tiered logs:
        moving their log start offset deletes segments in remote storage.
        """
        places = self._places()
        spared = {place.path for place in places if not self._is_history(place)}
        asked = self._opening.high_watermark
        noted = ((place.path, self._manager.high_watermark(place) if asked is None else asked) for place in places)
        marks = {path: mark for path, mark in noted if mark is not None}
        files = self._manager.files_of(self._log_dirs[0].path)
        return plan_freeing(files, [place.path for place in places], missing, spared, marks)

    def _is_history(self, place: Place) -> bool:
        try:
            is_tiered = self._manager.is_tiered(place)
        except UnreadableFile:  # nothing of it is chosen, and who opens the log tells why
            return False
        return (
            place.name.kind in (PartitionKind.PLAIN, PartitionKind.FUTURE) and not place.name.topic.startswith(_INTERNAL)
            and self._manager.config(place.name.topic).cleanup_policy == "delete" and not is_tiered
        )  # fmt: skip

    def report(self, *, failed: bool) -> Report:
        """What was planned, and what came of it. `failed`: at some partition."""
        plan, wanted, freed = self._plan, self._wanted, self._freed()
        assert plan is not None, "plans come before"
        free = self._free + freed
        report = Report(self._log_dirs[0].path, "retain")
        planned = (f"{count_of(plan.segments, 'segment')} of {count_of(len(plan.end_offsets), 'partition')} and "
                   f"{shown_size(plan.leftovers)} of leftover files")
        done = f"{shown_size(self._free)} before and {shown_size(freed)} freed now; {planned} were planned"
        if free >= wanted:
            text = f"{shown_size(free)} of the disk are free, {shown_size(wanted)} were requested; {done}"
            report.add(Action.EXPLAINED, "", text)
            return report
        if failed:
            why = "a partition failed"
        elif plan.size >= self._missing:
            why = "the rest is above the high watermark, or still exists as .deleted"
        else:
            why = ("nothing else can be deleted: the rest is in active segments, in compacted or internal topics, or does not "
                   "belong to a partition")
        text = f"{shown_size(wanted)} were requested, {shown_size(free)} are free; {done}; {why}"
        report.add(Action.REFUSED, "", text, size=max(0, freed), severity=Severity.ERROR)
        return report

    def _freed(self) -> int:
        return self._before - self._size(self._directories())

    def _directories(self) -> list[Place]:
        return [place for log_dir in self._log_dirs for place in log_dir.places]

    def _size(self, places: list[Place]) -> int:
        """Bytes of all files in these partition directories, as far as they can be read: who works there tells."""
        total = 0
        for place in places:
            with suppress(UnreadableFile):  # purged meanwhile it has none
                total += sum(stamp.size for stamp in list_files(self._manager.files_of(place.log_dir), place.path).values())
        return total

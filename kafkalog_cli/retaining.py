"""What `retain` does around its logs: directories of deleted topics, a plan for all logs where space must be freed."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from engine.errors import UnreadableFile, UsageError
from engine.findings import Severity
from engine.layout import PartitionKind
from engine.log.logdir.log_manager import purge_deleted_directories
from engine.log.operations.kafka07 import explain_retention_07, retain_07
from engine.log.operations.operation import operate
from engine.log.quarantine.standing import list_files
from engine.log.report import Action, Report
from engine.log.retention.explain import explain_retention
from engine.log.retention.freeing import FreePlan, free, plan_freeing
from engine.log.retention.rules import delete_old_segments
from kafkalog_cli.partitions import session

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from engine.errors import KafkalogError
    from engine.log.kafka07.log import Log07
    from engine.log.logdir.log_manager import LogManager
    from engine.log.partition.unified_log import UnifiedLog
    from kafkalog_cli.engine_options import Opening
    from kafkalog_cli.progress import Progress


_INTERNAL = "__"


def retain(values: dict[str, Any], wanted: int | None, *, explain: bool) -> int:
    """Delete what retention allows, or `wanted` bytes whatever it allows → exit status."""
    errors: list[KafkalogError] = []

    def perform(manager: LogManager, opening: Opening, progress: Progress) -> Generator[Report, None, None]:
        before = 0 if wanted is None else _size(manager)
        purged = [] if opening.keep_deleted else list(_purge(manager, errors))
        yield from purged
        plan = None if wanted is None else _plan(manager, wanted - (before - _size(manager)))

        def work(log: UnifiedLog) -> None:
            if plan is None:
                delete_old_segments(log)
            else:
                free(log, plan)
            if explain:
                explain_retention(log)

        options = opening.options("retain", for_snapshots=True)
        def work_07(log: Log07, report: Report) -> None:
            if plan is not None:
                raise UsageError(f"{log.directory}: a log of Kafka 0.7, which --free does not know", path=log.directory)
            retain_07(log, report, manager.now)
            if explain:
                explain_retention_07(log, report, manager.now)

        yield from operate(manager, options, work, errors, progress.done, work_07)
        if wanted is not None and plan is not None:
            yield _freed(manager, plan, wanted, before - _size(manager), failed=bool(errors))

    return session(values, perform, errors)


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


def _plan(manager: LogManager, wanted: int) -> FreePlan:
    """Of compacted topics and Kafka's internal ones no segment may go: they would lose more than history."""
    log_dirs = manager.cluster.log_dirs
    places = [place for log_dir in log_dirs for place in log_dir.partitions(PartitionKind.PLAIN, PartitionKind.FUTURE)
              if not place.name.topic.startswith(_INTERNAL) and manager.config(place.name.topic).cleanup_policy == "delete"]
    return plan_freeing(manager.files_of(log_dirs[0].path), [place.path for place in places], wanted)


def _size(manager: LogManager) -> int:
    """Bytes of all files in the partition directories of the log dirs, as far as they can be read: who works there tells."""
    total = 0
    for log_dir in manager.cluster.log_dirs:
        files = manager.files_of(log_dir.path)
        for place in log_dir.places:
            with suppress(UnreadableFile):  # purged meanwhile it has none
                total += sum(size for size, _modified in list_files(files, place.path).values())
    return total


def _freed(manager: LogManager, plan: FreePlan, wanted: int, freed: int, *, failed: bool) -> Report:
    """What was planned, and what came of it."""
    report = Report(manager.cluster.log_dirs[0].path, "retain")
    planned = f"{plan.segments} segments of {len(plan.end_offsets)} partitions and {plan.leftovers} bytes of left-overs"
    if freed >= wanted:
        report.add(Action.EXPLAINED, "", f"{freed} bytes are free, {wanted} were wanted: {planned} were to go")
        return report
    if failed:
        why = "a partition could not be worked on"
    elif plan.size >= wanted:
        why = "the rest stays: above the high watermark, or still there as .deleted"
    else:
        why = "nothing else may go: the rest is in active segments, or compacted or internal"
    text = f"{wanted} bytes were to become free, {freed} are: {planned} were to go; {why}"
    report.add(Action.REFUSED, "", text, size=max(0, freed), severity=Severity.ERROR)
    return report

"""What `retain` does around its logs: directories of deleted topics, a plan for all logs where space must be freed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.errors import UsageError
from engine.findings import Severity
from engine.layout import PartitionKind
from engine.log.logdir.log_manager import purge_deleted_directories
from engine.log.operations.kafka07 import explain_retention_07, retain_07
from engine.log.operations.operation import OperationOptions, operate
from engine.log.report import Action, Report
from engine.log.retention.explain import explain_retention
from engine.log.retention.freeing import FreePlan, free, plan_freeing
from engine.log.retention.rules import delete_old_segments
from kafkalog_cli.partitions import session

if TYPE_CHECKING:
    from collections.abc import Iterator

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

    def perform(manager: LogManager, opening: Opening, progress: Progress) -> Iterator[Report]:
        purged = [] if opening.keep_deleted else list(_purge(manager))
        yield from purged
        freed = sum(_freed(report) for report in purged)
        plan = None if wanted is None else _plan(manager, wanted - freed)

        def work(log: UnifiedLog) -> None:
            if plan is None:
                delete_old_segments(log)
            else:
                free(log, plan)
            if explain:
                explain_retention(log)

        options = OperationOptions(
            "retain", opening.clean_start, opening.recovery_point, opening.log_start_offset, opening.high_watermark,
            opening.keep_deleted, opening.jobs,
        )
        def work_07(log: Log07, report: Report) -> None:
            if plan is not None:
                raise UsageError(f"{log.directory}: a log of Kafka 0.7, which --free does not know", path=log.directory)
            retain_07(log, report, manager.now)
            if explain:
                explain_retention_07(log, report, manager.now)

        for report in operate(manager, options, work, errors, progress.done, work_07):
            freed += _freed(report)
            yield report
        if wanted is not None and plan is not None and freed < wanted:
            yield _not_enough(manager, wanted, freed + plan.leftovers)

    return session(values, perform, errors)


def _purge(manager: LogManager) -> Iterator[Report]:
    """Remove the directories of deleted topics in log dirs that were named themselves."""
    for log_dir in manager.cluster.log_dirs:
        if log_dir.is_whole and log_dir.partitions(PartitionKind.DELETE):
            report = Report(log_dir.path, "retain")
            purge_deleted_directories(manager.files_of(log_dir.path), log_dir, report)
            yield report


def _plan(manager: LogManager, wanted: int) -> FreePlan:
    """Of compacted topics and Kafka's internal ones no segment may go: they would lose more than history."""
    log_dirs = manager.cluster.log_dirs
    places = [place for log_dir in log_dirs for place in log_dir.partitions(PartitionKind.PLAIN, PartitionKind.FUTURE)
              if not place.name.topic.startswith(_INTERNAL) and manager.config(place.name.topic).cleanup_policy == "delete"]
    return plan_freeing(manager.files_of(log_dirs[0].path), [place.path for place in places], wanted)


def _freed(report: Report) -> int:
    return sum(event.size or 0 for event in report.find(Action.REMOVED))


def _not_enough(manager: LogManager, wanted: int, freed: int) -> Report:
    report = Report(manager.cluster.log_dirs[0].path, "retain")
    report.add(Action.REFUSED, "", f"{wanted} bytes were to become free, about {freed} are: the rest is in active segments, "
               "above the high watermark, compacted or internal", severity=Severity.ERROR)
    return report

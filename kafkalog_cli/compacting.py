"""What the command `compact` does with logs: which ones, options, throttle, checkpoint."""

from __future__ import annotations

import time
from dataclasses import replace
from secrets import randbits
from threading import Lock
from typing import TYPE_CHECKING, Any

from engine.log.cleaner.checkpoint import CleanerCheckpoint
from engine.log.cleaner.compaction import CompactionOptions, compact
from engine.log.cleaner.explain import explain_compaction
from engine.log.cleaner.walk import Uncleanable
from engine.log.operations.compaction_targets import dirtiest_first
from engine.log.operations.operation import OperationOptions, operate
from engine.log.report import Action
from kafkalog_cli.partitions import session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.errors import KafkalogError
    from engine.files import Files
    from engine.log.logdir.log_manager import LogManager
    from engine.log.partition.unified_log import UnifiedLog
    from engine.log.report import Report
    from kafkalog_cli.engine_options import Opening
    from kafkalog_cli.progress import Progress


def run(values: dict[str, Any]) -> int:
    """Compact the logs behind PATHS; of log dirs those that need it, the dirtiest first → exit status."""
    errors: list[KafkalogError] = []
    explain = values["explain"]

    def perform(manager: LogManager, opening: Opening, progress: Progress) -> Iterator[Report]:
        log_dirs = tuple(
            dirtiest_first(manager, log_dir, values["min_dirty_ratio"], force=values["force"] or explain)
            for log_dir in manager.cluster.log_dirs
        )
        manager.cluster = replace(manager.cluster, log_dirs=log_dirs)
        at_once = max(1, min(opening.jobs, max((len(log_dir.places) for log_dir in log_dirs), default=1)))
        compacting = Compacting(values, at_once)
        options = OperationOptions(
            "compact", opening.clean_start, opening.recovery_point, opening.log_start_offset, opening.high_watermark,
            opening.keep_deleted, opening.jobs,
        )
        yield from operate(manager, options, compacting.run, errors, progress.done)

    return session({**values, "dry_run": values["dry_run"] or explain}, perform, errors)


class Throttle:
    """Holds the work of all threads back to `bytes_per_second`; None: not at all."""

    def __init__(self, bytes_per_second: int | None) -> None:
        self._rate = bytes_per_second
        self._start = time.monotonic()
        self._done = 0
        self._lock = Lock()

    def __call__(self, size: int) -> None:
        """`size` more bytes were read: wait until they may have been."""
        if self._rate:
            with self._lock:
                self._done += size
                ahead = self._done / self._rate - (time.monotonic() - self._start)
            if ahead > 0:
                time.sleep(ahead)


class Compacting:
    """Compacts logs, or explains what it would do, as the command line says.

    at_once  logs that are worked on side by side: they share the memory for keys
    """

    def __init__(self, values: dict[str, Any], at_once: int) -> None:
        self._values = values
        self._throttle = Throttle(values["max_bytes_per_second"])
        self._map_size = values["dedupe_buffer_size"] // at_once
        self._checkpoints = Lock()  # one file for all logs of a log dir

    def run(self, log: UnifiedLog) -> None:
        """Compact one open log, whose high watermark is set."""
        from engine.findings import Severity

        values, files = self._values, log.local_log.files
        checkpoint = CleanerCheckpoint(files, log.directory)
        first_dirty = values["first_dirty_offset"]
        if first_dirty is None:
            with self._checkpoints:
                first_dirty = checkpoint.read()
        options = CompactionOptions(
            first_dirty_offset=first_dirty,
            min_dirty_ratio=values["min_dirty_ratio"],
            force=values["force"],
            rounds=values["rounds"],
            dedupe_buffer_size=self._map_size,
            secret=(randbits(64), randbits(64)),
        )
        if values["explain"]:
            explain_compaction(log, options, self._throttle)
            return
        try:
            compact(
                log, options, self._throttle, lambda offset: self._note(checkpoint, files, offset), dry_run=values["dry_run"]
            )
        except Uncleanable as error:
            log.report.findings.append(error.finding)
            log.report.add(Action.REFUSED, "", f"not compacted, left as it is: {error}", severity=Severity.ERROR)

    def _note(self, checkpoint: CleanerCheckpoint, files: Files, offset: int) -> None:
        with self._checkpoints:
            checkpoint.write(files, offset)

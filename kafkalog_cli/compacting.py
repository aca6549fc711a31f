"""The command `compact` around the engine's operation: options, throttle, clock, secret."""

from __future__ import annotations

import time
from secrets import randbits
from threading import Lock
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from engine.errors import UsageError
from engine.log.cleaner.compaction import CompactionOptions
from engine.log.operations.compact import LogCompactor
from engine.log.operations.operation import operate
from kafkalog_cli.interruption import INTERRUPTION
from kafkalog_cli.partitions import session

if TYPE_CHECKING:
    from collections.abc import Generator

    from engine.errors import KafkalogError
    from engine.log.logdir.log_manager import LogManager
    from engine.log.report import Report
    from kafkalog_cli.engine_options import Opening
    from kafkalog_cli.progress import Progress

_NAP = 0.2  # seconds: Ctrl-C is heard in between
_CREDIT = 0.3  # seconds in which nothing was read that may be made up for, as in Kafka's Throttler


def run(values: dict[str, Any]) -> int:
    """Compact the logs behind PATHS; of log dirs those that need it, the dirtiest first → exit status."""
    errors: list[KafkalogError] = []
    throttle = Throttle(values["max_bytes_per_second"])
    asked = CompactionOptions(
        first_dirty_offset=values["first_dirty_offset"],
        min_dirty_ratio=values["min_dirty_ratio"],
        force=values["force"],
        rounds=values["rounds"],
        dedupe_buffer_size=values["dedupe_buffer_size"],
        secret=(randbits(64), randbits(64)),
        keep_deleted=values["keep_deleted"],
    )
    compactor = LogCompactor(asked, explain=values["explain"], on_bytes=throttle, clock=time.perf_counter)

    def perform(manager: LogManager, opening: Opening, progress: Progress) -> Generator[Report, None, None]:
        whole = [log_dir.path for log_dir in manager.cluster.log_dirs if log_dir.is_whole]
        if whole and values["first_dirty_offset"] is not None:
            what = f"{whole[0]}: a log dir; --first-dirty-offset wants partitions, named one by one: no offset is that of all"
            raise UsageError(what)
        source = click.get_current_context().get_parameter_source("dedupe_buffer_size")
        noted = opening.settings.server.dedupe_buffer_size if source is ParameterSource.DEFAULT else None
        yield from compactor.choose(manager, opening.jobs, noted)
        progress.expect_shares(
            manager.cluster.log_dirs, manager.files_of, "explaining logs" if values["explain"] else "compacting logs",
            values["max_bytes_per_second"],
        )
        compactor.on_share = progress.share
        options = opening.options("compact", knows_metadata_log=True)
        yield from operate(manager, options, compactor.work, errors, progress.done)

    whole = {**values, "dry_run": values["dry_run"] or values["explain"]}
    return session("compact", whole, perform, errors, metrics=compactor.metrics.gauges)


class Throttle:
    """Holds the work of all threads back to `bytes_per_second`; None: not at all."""

    def __init__(self, bytes_per_second: int | None) -> None:
        self._rate = bytes_per_second
        self._free = time.monotonic()  # when all that was read so far may have been
        self._lock = Lock()

    def __call__(self, size: int) -> None:
        """`size` more bytes were read: wait until they may have been."""
        if self._rate:
            with self._lock:
                now = time.monotonic()
                self._free = max(self._free, now - _CREDIT) + size / self._rate
                ahead = self._free - now
            while ahead > 0:
                time.sleep(min(ahead, _NAP))
                INTERRUPTION.check()
                ahead -= _NAP

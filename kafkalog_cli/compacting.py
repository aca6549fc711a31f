"""What the command `compact` does with each log: options, throttle, checkpoint."""

from __future__ import annotations

import time
from secrets import randbits
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.log.unified_log import UnifiedLog


class Throttle:
    """Holds the work back to `bytes_per_second`; None: not at all."""

    def __init__(self, bytes_per_second: int | None) -> None:
        self._rate = bytes_per_second
        self._start = time.monotonic()
        self._done = 0

    def __call__(self, size: int) -> None:
        """`size` more bytes were read: wait until they may have been."""
        if self._rate:
            self._done += size
            ahead = self._done / self._rate - (time.monotonic() - self._start)
            if ahead > 0:
                time.sleep(ahead)


class Compacting:
    """Compacts logs, or explains what it would do, as the command line says."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values
        self._throttle = Throttle(values["max_bytes_per_second"])

    def run(self, log: UnifiedLog) -> None:
        """Compact one open log, whose high watermark is set."""
        from engine.findings import Severity
        from engine.log.cleaner_checkpoint import CleanerCheckpoint
        from engine.log.cleaner_walk import Uncleanable
        from engine.log.compaction import CompactionOptions, compact
        from engine.log.explain_compaction import explain_compaction
        from engine.log.report import Action

        values, files = self._values, log.local_log.files
        checkpoint = CleanerCheckpoint(files, log.directory)
        first_dirty = values["first_dirty_offset"]
        options = CompactionOptions(
            first_dirty_offset=checkpoint.read() if first_dirty is None else first_dirty,
            min_dirty_ratio=values["min_dirty_ratio"],
            force=values["force"],
            rounds=values["rounds"],
            dedupe_buffer_size=values["dedupe_buffer_size"],
            secret=(randbits(64), randbits(64)),
        )
        if values["explain"]:
            explain_compaction(log, options, self._throttle)
            return
        try:
            compact(log, options, self._throttle, lambda offset: checkpoint.write(files, offset))
        except Uncleanable as error:
            log.report.findings.append(error.finding)
            log.report.add(Action.REFUSED, "", f"not compacted, left as it is: {error}", severity=Severity.ERROR)

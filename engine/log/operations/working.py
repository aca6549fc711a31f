"""Work on a log that a clean start believed, and on the recovered log where it should not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.findings import Severity
from engine.log.errors import OffsetOutOfRange, RollRefused
from engine.log.loading.loader import REPAIRABLE
from engine.log.report import Action

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.log.partition.unified_log import UnifiedLog


def work_on(load: Callable[[bool], UnifiedLog], clean_start: bool, work: Callable[[UnifiedLog], object]) -> UnifiedLog:
    """Load a log, do `work` on it; returns it, still open. What the log refuses is an event of its report.

    load  opens it, after a clean stop or not
    Where `work` meets damage at which a broker would fail too, the log is recovered and `work` done once more.
    """
    log = load(clean_start)
    try:
        return _worked(log, work)
    except REPAIRABLE as error:
        if not clean_start:
            raise
        reason = f"a broker would fail at this work: {error}"
        log.report.add(Action.REBUILT, "", reason, severity=Severity.WARNING)
    return _worked(load(False), work)


def _worked(log: UnifiedLog, work: Callable[[UnifiedLog], object]) -> UnifiedLog:
    try:
        work(log)
    except (OffsetOutOfRange, RollRefused) as error:
        log.report.add(Action.REFUSED, "", str(error))
    except BaseException:
        log.close_handlers()
        raise
    return log

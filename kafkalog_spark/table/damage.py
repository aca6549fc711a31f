"""What a query does with damage, by its option onCorruption."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from engine.findings import Severity
from kafkalog_spark.errors import GO_ON_BEHIND_DAMAGE, LogDirError

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.findings import Finding

_LOG = logging.getLogger("kafkalog")


def on_corruption(choice: str) -> tuple[Callable[[Finding], None], bool]:
    """(what to do with a finding, are unsound batches left out) for the option onCorruption."""
    return {"fail": _fail, "skip": _skip, "report": report_finding}[choice], choice != "fail"


def _fail(finding: Finding) -> None:
    if finding.severity is not Severity.INFO:
        raise LogDirError(f"{said(finding)}; {GO_ON_BEHIND_DAMAGE}")


def _skip(_finding: Finding) -> None:
    """What can be read is read."""


def report_finding(finding: Finding) -> None:
    """Log it, and go on."""
    _LOG.warning("%s", said(finding))


def said(finding: Finding) -> str:
    """A finding as one sentence."""
    where = finding.where
    at = "" if where.position is None else f" at position {where.position}"
    offset = "" if where.offset is None else f", offset {where.offset}"
    return f"{where.file}{at}{offset}: {finding.code}: {finding.what}"

"""Errors as Spark shows them: one clean sentence; and what a query does with damage, by its option onCorruption."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from engine.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.findings import Finding

PREFIX = "kafkalog: "

# what can be done about it, by options of the data source
GO_ON_WITHOUT = "; set failOnDataLoss to false to continue without them"
GO_ON_BEHIND_DAMAGE = "set onCorruption to skip or report to continue without the damaged part"
_GO_ON_WITH_LOSS = "If you do not want the query to fail on such cases, set the source option failOnDataLoss to false."
_LOG = logging.getLogger("kafkalog")


def in_utf8(text: str) -> bytes:
    """As Spark's strings are; bytes of a file's name that are none are escaped."""
    return text.encode("utf-8", "backslashreplace")


def escaped(text: str) -> str:
    """The same as text for Spark."""
    return in_utf8(text).decode()


class _Sentence(ValueError):
    """In UTF-8: a worker that cannot say what is wrong leaves Spark waiting for it."""

    def __init__(self, message: str) -> None:
        super().__init__(PREFIX + escaped(message))


class OptionError(_Sentence):
    """An option that makes no sense, or is not there."""


class LogDirError(_Sentence):
    """A path or a log that cannot be read."""


class DataLossError(_Sentence):
    """Offsets that were asked for and are no longer there, while failOnDataLoss is true."""

    def __init__(self, message: str) -> None:
        super().__init__(
            f"{message} Some data may have been lost because they are not available in the log any more; either "
            f"the data was aged out, or the topic was deleted before all of it was read. {_GO_ON_WITH_LOSS}"
        )


def for_command(sentence: str) -> str:
    """The sentence of an error in the words of `kafkalog spark`, which has other options than the data source."""
    return (
        sentence.removeprefix(PREFIX)
        .replace(GO_ON_WITHOUT, "")
        .replace(GO_ON_BEHIND_DAMAGE, "--on-corruption skip or report continues without the damaged part")
        .replace(_GO_ON_WITH_LOSS, "Run it again to read the remaining data.")
    )


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

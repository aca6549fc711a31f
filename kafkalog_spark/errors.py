"""The errors that Spark shows, one sentence each; and how a query handles findings (option onCorruption)."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from engine.discovery.names import is_url
from engine.errors import KafkalogError, UnreadableFile
from engine.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.findings import Finding

PREFIX = "kafkalog: "

# advice at the end of an error, in terms of the options of the data source
MISSING_DATA_ADVICE = "; set failOnDataLoss to false to continue without them"
CORRUPTION_ADVICE = "set onCorruption to skip or report to continue without the damaged part"
DATA_LOSS_ADVICE = "If you do not want the query to fail on such cases, set the source option failOnDataLoss to false."
_LOG = logging.getLogger("kafkalog")


def escaped(text: str) -> str:
    """Return text that UTF-8 can encode, as Spark stores strings: bytes of a file name that are not UTF-8 are escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


class _SparkError(ValueError):
    """An error whose message is valid UTF-8: Spark hangs if a worker cannot encode its error message."""

    def __init__(self, message: str) -> None:
        super().__init__(PREFIX + escaped(message))

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        """Keep the whole message when a task sends the error to the driver."""
        return ValueError.__new__, (type(self), str(self))


class OptionError(_SparkError):
    """An invalid or missing option."""


class LogDirError(_SparkError):
    """A path or a log that cannot be read."""


class UnreadableLogError(LogDirError):
    """A file or a directory that cannot be read."""


def failed(error: KafkalogError) -> LogDirError:
    """Return an error of the engine as one of ours, for URLs with what to check."""
    kind = UnreadableLogError if isinstance(error, UnreadableFile) else LogDirError
    return kind(f"{error}: {error.do}" if error.do and is_url(error.path or "") else str(error))


@contextmanager
def as_log_dir_errors() -> Iterator[None]:
    """Raise an error of the engine in the block as LogDirError."""
    try:
        yield
    except KafkalogError as error:
        raise LogDirError(str(error)) from None


def cannot_import(name: str | None, python: str) -> OptionError:
    """Return the error for a Python of Spark's workers that cannot import the module `name`."""
    what = f"Spark's Python workers run {python}, which cannot import {name or 'kafkalog'}"
    do = "set PYSPARK_PYTHON to the Python that has it, or make the session with kafkalog_spark.configure(SparkSession.builder)"
    return OptionError(f"{what}: pip install 'kafkalog[spark]' there; or {do}")


class DataLossError(_SparkError):
    """Requested offsets are no longer in the log, and failOnDataLoss is true."""

    def __init__(self, message: str) -> None:
        super().__init__(
            f"{message} Some data may have been lost because they are not available in the log any more; either "
            f"the data was aged out, or the topic was deleted before all of it was read. {DATA_LOSS_ADVICE}"
        )


def on_corruption(choice: str) -> tuple[Callable[[Finding], None], bool]:
    """Return (handler of a finding, are corrupt batches skipped) for a value of the option onCorruption."""
    return {"fail": _fail, "skip": _skip, "report": report_finding}[choice], choice != "fail"


def _fail(finding: Finding) -> None:
    if finding.severity is not Severity.INFO:
        raise LogDirError(f"{sentence_of(finding)}; {CORRUPTION_ADVICE}")


def _skip(_finding: Finding) -> None:
    """Ignore the finding: everything readable is read."""


def report_finding(finding: Finding) -> None:
    """Log a finding as a warning."""
    _LOG.warning("%s", sentence_of(finding))


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Collect what is logged in the block, instead of logging it."""
    found: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]  # its only purpose
    propagates, _LOG.propagate = _LOG.propagate, False
    _LOG.addHandler(handler)
    try:
        yield found
    finally:
        _LOG.removeHandler(handler)
        _LOG.propagate = propagates


def sentence_of(finding: Finding) -> str:
    """Format a finding as one sentence."""
    where = finding.where
    at = "" if where.position is None else f" at position {where.position}"
    offset = "" if where.offset is None else f", offset {where.offset}"
    return f"{where.file}{at}{offset}: {finding.code}: {finding.what}"

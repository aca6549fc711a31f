"""What the commands `kafkalog spark JOB` share: options, the session, signals, errors in one sentence, totals."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections import Counter
from contextlib import contextmanager
from importlib.util import find_spec
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any

import click

from engine.errors import KafkalogError
from engine.findings import Finding, Severity, Where
from kafkalog_cli.app import UNREADABLE, Outcome, Total
from kafkalog_cli.engine_options import ConfigSetting
from kafkalog_cli.help import Section
from kafkalog_cli.interruption import AS_A_CRASH, INTERRUPTION, Interrupted, print_interrupted
from kafkalog_cli.options import (
    PATH,
    STORE_PATH,
    Command,
    format_option,
    now_option,
    quiet_option,
    size_option,
    verbose_option,
    version_option,
)
from kafkalog_cli.output import json_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import DataFrame, Row, SparkSession

    from kafkalog_cli.spark_session import Work
    from kafkalog_spark.table.partitions import Piece

    Job = Callable[[SparkSession, Outcome, dict[str, Any]], int]

SESSION = Section("Spark", ("--master", "--conf"))
_JAVA_PREFIX = re.compile(r"An error occurred while calling \S+|: [\w.$]+(?:Exception|Error): ")  # before Java's message
_NOT_MADE = re.compile(r"Mkdirs failed to create (?:file:)?(.+?)(?:/_temporary/.*)? \(exists=")  # Hadoop's message
_IN_PLACE = ("recover", "compact")
_CAUSES = 20  # causes of an error that are read

config_option = click.option(
    "--config", "config", type=ConfigSetting(), multiple=True, metavar="NAME=VALUE",
    help="A setting of all topics; may be repeated. Overrides those of the metadata logs.",
)  # fmt: skip
topic_option = click.option(
    "--topic", "-t", "topics", multiple=True, metavar="NAME", help="Only this topic; may be repeated.",
)  # fmt: skip
corruption_option = click.option(
    "--on-corruption", type=click.Choice(["fail", "skip", "report"]), default="fail", show_default=True,
    help="At damage fail, skip it, or skip it and log it on the executors.",
)  # fmt: skip


def job_options(function: Command, paths: click.Path = STORE_PATH) -> Command:
    """Add PATHS and the options of every job. `paths`: the type of PATHS; jobs that change log dirs refuse URLs."""
    for option in (
        version_option, format_option,
        click.option("--conf", "settings", type=ConfigSetting(), multiple=True, metavar="NAME=VALUE",
                     help="A setting of Spark; may be repeated."),
        click.option("--master", metavar="URL", help="Spark master. Default: that of spark-submit, else all local cores."),
        click.argument("paths", nargs=-1, required=True, type=paths),
    ):  # fmt: skip
        function = option(function)
    return function


def in_place_options(function: Command) -> Command:
    """Add PATHS, which cannot be URLs, and the options of a job that changes log dirs, as the commands have them."""
    for option in (verbose_option, quiet_option, now_option, config_option, topic_option):
        function = option(function)
    return job_options(function, PATH)


def table_options(mode: str) -> Callable[[Command], Command]:
    """Return --mode and --table of a job that has a table; `mode`: help of --mode."""
    modes = click.option(
        "--mode", type=click.Choice(("error", "append", "overwrite")), default="error", show_default=True, help=mode,
    )  # fmt: skip
    tables = click.option(
        "--table", type=click.Choice(("parquet", "orc", "delta", "iceberg")), default="parquet", show_default=True,
        help="The table format; Delta and Iceberg need their packages in the session (spark.jars.packages).",
    )  # fmt: skip
    return lambda function: modes(tables(function))


def split_option(default: str) -> Callable[[Command], Command]:
    """Return --split-bytes; `default`: what the help says of it."""
    help_text = f"Bytes of segments for each task, such as 64MiB. Default: {default}."
    return size_option("--split-bytes", default=None, least=1, help=help_text)


def reading(values: dict[str, Any]) -> dict[str, Any]:
    """Return the options of the data source that the command line has."""
    names = {"on_corruption": "onCorruption", "split_bytes": "splitBytes"}
    found = {to: values[name] for name, to in names.items() if values.get(name) is not None}
    return found | ({"subscribe": ",".join(values["topics"])} if values.get("topics") else {})


def run_job(job: str, work: Job, *, is_local: bool = True, **values: Any) -> int:
    """Run `work` on Spark, and return the exit status: 0, 1 if something was repaired, 4 if problems remain, 8 if it failed.

    is_local  PATHS are log dirs, and not tables, which may be in a store that only Spark reads
    values    of the command line
    """
    stream = json_stream(values.pop("form"), command=f"spark {job}")
    outcome = Outcome(stream=stream, verbose=values.pop("verbose", False), quiet=values.pop("quiet", False))
    master, settings = values.pop("master"), values.pop("settings")
    for name in ("pyspark", "pyarrow"):
        if find_spec(name) is None:
            raise click.UsageError(f"{name} is not installed: pip install 'kafkalog[spark]'")
    from kafkalog_cli.spark_session import Work

    with INTERRUPTION, _broken_pipes_raise():
        try:
            if is_local:
                _refuse_missing(values["paths"])
            running = Work(lambda spark: _done(spark, work, outcome, values), master, settings)
            try:
                with INTERRUPTION.at_once():
                    running.wait()
            except Interrupted:
                return outcome.finish(_interrupted(job, running))
            outcome.at_least(running.result())
        except BrokenPipeError:
            _leave_quietly()
        except KafkalogError as error:
            outcome.error(error)
        except ValueError as error:  # of kafkalog_spark.errors
            outcome.error(_failure(str(error)))
        except Exception as error:  # noqa: BLE001  # Spark's exceptions have many classes
            outcome.error(_failure(_sentence(error)))
        return outcome.finish()


def _refuse_missing(paths: Iterable[str]) -> None:
    """Raise UnreadableFile for a path that does not exist, before Spark starts, which takes seconds."""
    from engine.discovery.names import is_url
    from engine.discovery.patterns import expand
    from engine.files import ReadOnlyFiles

    files = ReadOnlyFiles()
    for path in (one for pattern in paths if not is_url(pattern) for one in expand(files, pattern)):
        files.info(path)


class _JobFailedError(Exception):
    """Spark's exception, as one sentence."""


def _done(spark: SparkSession, work: Job, outcome: Outcome, values: dict[str, Any]) -> int:
    """Run a job, and return its exit status. Java's message is read at once, since it is lost when Java ends."""
    try:
        return work(spark, outcome, values)
    except (ValueError, OSError):  # our errors, and those of the output
        raise
    except Exception as error:  # noqa: BLE001  # Spark's exceptions have many classes
        raise _JobFailedError(_sentence(error)) from None


def _interrupted(job: str, work: Work[int]) -> int:
    """Cancel the job and report it in one line; returns the exit status for the signal."""
    is_over = work.cancel()
    print_interrupted(f"{job} was cancelled" + (AS_A_CRASH if is_over and job in _IN_PLACE else ""))
    if not is_over:  # Java is starting, and ends with this process
        sys.stdout.flush()
        os._exit(INTERRUPTION.status)
    return INTERRUPTION.status


@contextmanager
def _broken_pipes_raise() -> Iterator[None]:
    """Raise an error when writing to a JVM that has ended, instead of ending this process by SIGPIPE without a message."""
    if current_thread() is not main_thread():
        yield
        return
    before = signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGPIPE, before)


def _leave_quietly() -> None:
    """End without a message, as cat does, because the reader of the output ended."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGPIPE)


class _JobFailure(KafkalogError):
    """The job failed."""

    code = "job-failed"


def _failure(message: str) -> KafkalogError:
    """Return the error of a job. Advice for the data source becomes advice for the command, whose options differ."""
    from kafkalog_spark.errors import CORRUPTION_ADVICE, DATA_LOSS_ADVICE, MISSING_DATA_ADVICE, PREFIX

    said = message.removeprefix(PREFIX).replace(MISSING_DATA_ADVICE, "")
    said = said.replace(CORRUPTION_ADVICE, "--on-corruption skip or report continues without the damaged part")
    return _JobFailure(said.replace(DATA_LOSS_ADVICE, "Run it again to read the remaining data."))


def _sentence(error: Exception) -> str:
    """Return the reason from Spark's error pages: our own sentence if there is one, else the first, and its cause."""
    from kafkalog_spark.errors import PREFIX

    pages = [[line.strip() for line in page.splitlines() if line.strip()] for page in _pages(error)]
    for line in (line for lines in pages for line in lines):
        if PREFIX in line:
            return line.partition(PREFIX)[2]
    said = [next(filter(None, (_JAVA_PREFIX.sub("", line) for line in lines)), "") for lines in pages]
    for line in said:
        if found := _NOT_MADE.match(line):
            return f"{found[1]}: nothing can be written there"
    first, last = said[0] or type(error).__name__, said[-1]
    return first if last in first else f"{first.rstrip(' .:')}: {last}"


def _pages(error: Exception) -> Iterator[str]:
    """Return the message of the error, and those of its causes in Java, down to the first; Java must still be running."""
    yield str(error)
    java = getattr(error, "_origin", None) or getattr(error, "java_exception", None)  # names of pyspark and py4j
    for _ in range(_CAUSES):
        java = None if java is None else java.getCause()
        if java is None:
            return
        yield str(java.getMessage() or java.toString())


def rows_of(frame: DataFrame) -> Iterator[Row]:
    """Yield the rows, task by task. All tasks run at once; their results are kept on the disks of the executors.

    Spark's own iterator runs only two tasks at a time, on any cluster; a list of all rows would have to fit in the driver
    (spark.driver.maxResultSize).
    """
    from pyspark.storagelevel import StorageLevel

    kept = frame.persist(StorageLevel.DISK_ONLY)
    try:
        kept.count()
        yield from kept.toLocalIterator()
    finally:
        kept.unpersist()


class ReadTotal:
    """The partitions that a job reads, for its total: bytes, and the worst finding, by directory."""

    def __init__(self) -> None:
        self._total = Total()
        self._sizes: Counter[str] = Counter()
        self._problems: dict[str, tuple[str, Severity]] = {}

    def plan(self, splits: Iterable[list[Piece]]) -> None:
        """Add the partitions of the splits."""
        for piece in (one for split in splits for one in split):
            self._sizes[piece.directory] += piece.size

    def note(self, row: Row) -> None:
        """Note a finding."""
        severity, directory = Severity(row["severity"]), row["directory"]
        if row["code"] == UNREADABLE:
            self._problems[directory] = ("unreadable", Severity.ERROR)
        elif severity is Severity.ERROR and self._problems.get(directory, ("", Severity.INFO))[1] is not Severity.ERROR:
            self._problems[directory] = ("with errors", severity)
        elif severity is Severity.WARNING:
            self._problems.setdefault(directory, ("with warnings", severity))

    def say(self, verdict: str, *, quiet: bool = False) -> None:
        """Print the total to stderr, as stdout has the rows. `verdict`: of partitions without a problem."""
        for directory, size in self._sizes.items():
            self._total.add(*self._problems.get(directory, (verdict, Severity.INFO)), size)
        self._total.say(quiet=quiet, err=True)


def finding(code: str, severity: str, file: str, what: str, position: int | None, offset: int | None) -> Finding:
    """Return a finding from the columns of a row."""
    return Finding(code, Where(file, position, offset), what, milder=Severity(severity))

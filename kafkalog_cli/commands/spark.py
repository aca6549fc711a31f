"""kafkalog spark."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections import Counter
from contextlib import contextmanager
from itertools import groupby
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from engine.discovery.names import file_name, parse_partition_dir
from engine.dump.json_stream import bytes_field, error_fields, sentence, text_field
from engine.errors import KafkalogError
from engine.findings import Finding, Severity, Where
from kafkalog_cli.app import UNREADABLE, Outcome, Total, printable
from kafkalog_cli.commands.restore import undo as undo_commit
from kafkalog_cli.engine_options import ConfigSetting
from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.interruption import AS_A_CRASH, INTERRUPTION, Interrupted, InterruptibleFiles, print_interrupted
from kafkalog_cli.options import PATH, Time, Whole, format_option, quiet_option, size_option, verbose_option, version_option
from kafkalog_cli.output import json_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import DataFrame, Row, SparkSession

    from kafkalog_spark.session import Work
    from kafkalog_spark.table.planning import Piece


_SECTIONS = (
    Section("Input", ("--topic", "--split-bytes", "--on-corruption")),
    Section("stats", ("--by", "--top")),
    Section("export and import", ("--to", "--mode", "--table")),
    Section("verify, recover, compact and import",
            ("--config", "--now", "--salvage", "--force", "--dedupe-buffer-size")),
    Section("Spark", ("--master", "--conf")),
    Section("Output", ("--quiet", "--verbose", "--format")),
)
_MAIN = ("--to", "--table", "--master", "--format")
_EXAMPLES = (
    Example("Every partition of many log dirs, replicas against each other:", "kafkalog spark verify /backups/broker-*"),
    Example("Where the bytes are:", "kafkalog spark stats --by topic /var/lib/kafka/data"),
    Example("Two topics as Parquet:", "kafkalog spark export --topic orders --topic payments --to /lake/kafka /backups"),
    Example("And back, into partition directories:", "kafkalog spark import --to /restored/data /lake/kafka"),
    Example("On a cluster:", "kafkalog spark verify --master spark://head:7077 /backups"),
    Example("Undo a write that was killed during its commit:", "kafkalog spark undo /restored/data"),
    Example("Compact what is due, however many keys it has:",
            "kafkalog spark compact --dedupe-buffer-size 64MiB /var/lib/kafka/data"),
)

_ON_SPARK = ("verify", "stats", "export", "import", "recover", "compact")
_REPORTING = ("verify", "recover", "compact")
_OF_JOBS = {  # option → the jobs that have it
    "topics": _ON_SPARK, "master": _ON_SPARK, "settings": _ON_SPARK,
    "form": (*_ON_SPARK, "undo"), "quiet": _REPORTING, "verbose": _REPORTING, "split_bytes": ("verify", "stats", "export"),
    "on_corruption": ("stats", "export"), "by": ("stats",), "top": ("stats",), "to": ("export", "import"),
    "mode": ("export", "import"), "table": ("export", "import"), "config": ("verify", "import", "recover", "compact"),
    "now": ("recover", "compact"), "salvage": ("recover",), "force": ("compact",), "dedupe_buffer_size": ("compact",),
}  # fmt: skip


def _refuse_of_others(context: click.Context, job: str) -> None:
    """Raise UsageError for an option that `job` would ignore."""
    for parameter in context.command.params:
        name, jobs = parameter.name or "", _OF_JOBS.get(parameter.name or "", (job,))
        if job not in jobs and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{job} has no option {parameter.opts[0]}; it belongs to {', '.join(jobs)}")


@click.command("spark", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS, main_options=_MAIN, writes=True)
@click.argument("job", type=click.Choice([*_ON_SPARK, "undo"]))
@click.argument("paths", nargs=-1, required=True, type=PATH)
@click.option("--topic", "-t", "topics", multiple=True, metavar="NAME",
              help="Only this topic; may be repeated. recover, compact: as if its partition directories were the PATHS.")
@size_option("--split-bytes", default=None, least=1,
             help="Bytes of segments for each task, such as 64MiB. Default: 128MiB; for stats by topic, codec or producer "
                  "1GiB.")
@click.option("--on-corruption", type=click.Choice(["fail", "skip", "report"]), default="fail", show_default=True,
              help="stats, export: at damage fail, skip it, or skip it and log it on the executors.")
@click.option("--by", type=click.Choice(["topic", "codec", "producer", "hour", "header", "key"]), default="topic",
              show_default=True, help="stats: group records and bytes by this.")
@click.option("--top", type=Whole(1), default=20, show_default=True, metavar="N", help="stats by key: show this many of the "
                                                                                       "largest.")
@click.option("--to", metavar="DIR", help="export: directory of the table. import: directory for the partition directories.")
@click.option("--mode", type=click.Choice(["error", "append", "overwrite"]), default="error", show_default=True,
              help="If tables or partition directories exist: fail, append to them, or overwrite them.")
@click.option("--table", type=click.Choice(["parquet", "delta", "iceberg"]), default="parquet", show_default=True,
              help="The table format; the last two need their packages in the session (spark.jars.packages).")
@click.option("--config", "config", type=ConfigSetting(), multiple=True, metavar="NAME=VALUE",
              help="A setting of all topics; may be repeated. Overrides those of the metadata logs.")
@click.option("--now", type=Time(), metavar="TIME",
              help="recover, compact: the clock of the job: ISO-8601, ms, or `2h ago`. Default: this machine's.")
@click.option("--salvage", is_flag=True, help="recover: keep the sound batches after damage.")
@click.option("--force", is_flag=True, help="compact: also logs below their dirty ratio.")
@size_option("--dedupe-buffer-size", default=96 << 20,
             help="compact: memory of a task for keys, 24 bytes each. More keys take more rounds.")
@click.option("--master", metavar="URL", help="Spark master. Default: that of spark-submit, else all local cores.")
@click.option("--conf", "settings", type=ConfigSetting(), multiple=True, metavar="NAME=VALUE",
              help="A setting of Spark; may be repeated.")
@format_option
@quiet_option
@verbose_option
@version_option
@click.pass_context
def command(
    context: click.Context, /, job: str, on_corruption: str, split_bytes: int | None, master: str | None,
    settings: tuple[tuple[str, str], ...], **values: Any,
) -> int:
    """Run a job on Spark over many log dirs.

    JOB is one of: verify (every file of every partition, and replicas against each other); stats (records and bytes by topic,
    key and more); export (records to a table, a folder for each topic); import (such a table back to partition directories,
    with its offsets and timestamps); recover and compact (as the commands of these names, several partitions at a time, with
    their locks, and recover with its quarantines); undo.

    PATHS are partition directories, log directories, trees of them, or quoted patterns; for import, tables. Every executor
    must see them. Needs the extra `spark` and Java 17 or 21.

    In Python the same jobs are functions of kafkalog_spark.jobs.

    undo needs no Spark: it undoes a write of the sink, or an import, that was stopped during its commit.
    """
    _refuse_of_others(context, job)
    stream = json_stream(values.pop("form"), command=f"spark {job}")
    outcome = Outcome(stream=stream, verbose=values.pop("verbose"), quiet=values.pop("quiet"))
    if job == "undo":
        return undo(values["paths"], outcome)
    if job in ("export", "import") and values["to"] is None:
        raise click.UsageError(f"{job} needs --to DIR")
    reading: dict[str, object] = {"onCorruption": on_corruption}
    if values["topics"]:
        reading["subscribe"] = ",".join(values["topics"])
    if split_bytes is not None:
        reading["splitBytes"] = split_bytes
    values |= {"to": values["to"] or "", "config": dict(values["config"])}
    return run_job(job, Given(reading=reading, outcome=outcome, **values), master, settings)


_JAVA_PREFIX = re.compile(r"An error occurred while calling \S+|: [\w.$]+(?:Exception|Error): ")  # before Java's message
_NOT_MADE = re.compile(r"Mkdirs failed to create (?:file:)?(.+?)(?:/_temporary/.*)? \(exists=")  # Hadoop's message
_IN_PLACE = ("recover", "compact")
_CAUSES = 20  # causes of an error that are read
_CELL = 60  # characters of a value in a text table


class Given(NamedTuple):
    """The arguments of the command line."""

    paths: tuple[str, ...]
    topics: tuple[str, ...]
    reading: dict[str, object]  # options of the data source
    outcome: Outcome
    by: str
    top: int
    to: str
    mode: str
    table: str
    config: dict[str, str]
    now: int | None
    salvage: bool
    force: bool
    dedupe_buffer_size: int


def run_job(job: str, given: Given, master: str | None, settings: tuple[tuple[str, str], ...]) -> int:
    """Run `job`, and return the exit status: 0, 1 if something was repaired, 4 if problems remain, 8 if it failed."""
    try:
        from kafkalog_spark.session import Work
    except ImportError as error:
        raise click.UsageError(f"{error.name} is not installed: pip install 'kafkalog[spark]'") from None
    outcome = given.outcome
    with INTERRUPTION, _broken_pipes_raise():
        try:
            if job != "import":  # whose PATHS are tables, which may be in a store that only Spark reads
                _refuse_missing(given.paths)
            work = Work(lambda spark: _done(job, spark, given), master, settings)
            try:
                with INTERRUPTION.at_once():
                    work.wait()
            except Interrupted:
                return outcome.finish(_interrupted(job, work))
            outcome.at_least(work.result())
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
    from engine.discovery.patterns import expand
    from engine.files import ReadOnlyFiles

    files = ReadOnlyFiles()
    for path in (one for pattern in paths for one in expand(files, pattern)):
        files.info(path)


class _JobFailedError(Exception):
    """Spark's exception, as one sentence."""


def _done(job: str, spark: SparkSession, given: Given) -> int:
    """Run a job, and return its exit status. Java's message is read at once, since it is lost when Java ends."""
    try:
        return _JOBS[job](spark, given)
    except (ValueError, OSError):  # our errors, and those of the output
        raise
    except Exception as error:  # noqa: BLE001  # Spark's exceptions have many classes
        raise _JobFailedError(_sentence(error)) from None


def undo(paths: tuple[str, ...], outcome: Outcome) -> int:
    """Undo commits, as `restore` does, and return the exit status. After a signal no other log dir is started."""
    for path in paths:
        outcome.at_least(undo_commit(InterruptibleFiles(), path.rstrip("/") or path, outcome))
        if INTERRUPTION.status:
            break
    return outcome.finish(INTERRUPTION.status)


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
    from kafkalog_spark.errors import for_command

    return _JobFailure(for_command(message))


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


def _verify(spark: SparkSession, given: Given) -> int:
    from kafkalog_spark.jobs.verify import verify
    from kafkalog_spark.tasks import rows_of

    reading = {name: value for name, value in given.reading.items() if name != "onCorruption"}
    outcome, read = given.outcome, _Read()
    severities: Counter[str] = Counter()
    is_unreadable = False
    for row in rows_of(verify(spark, *given.paths, config=given.config, on_plan=read.plan, **reading)):
        severities[row["severity"]] += 1
        is_unreadable |= row["code"] == UNREADABLE
        read.note(row)
        if outcome.is_text:
            if not (outcome.is_quiet and row["severity"] == Severity.INFO.value):
                click.echo(_finding_line(row))
        else:
            outcome.finding(_finding(row["code"], row["severity"], row["file"], row["what"], row["position"], row["offset"]))
    said = ", ".join(f"{severities[name]} {name}" for name in ("error", "warning", "info") if severities[name])
    if outcome.is_text:
        click.echo(said or "no problem found", err=True)
        read.say("sound", quiet=outcome.is_quiet)
    if is_unreadable:
        return 8
    return 4 if severities["error"] or severities["warning"] else 0


class _Read:
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


def _finding(code: str, severity: str, file: str, what: str, position: int | None, offset: int | None) -> Finding:
    return Finding(code, Where(file, position, offset), what, milder=Severity(severity))


def _stats(spark: SparkSession, given: Given) -> int:
    from kafkalog_spark.jobs.stats import stats

    read = _Read()
    _show(stats(spark, *given.paths, by=given.by, top=given.top, on_plan=read.plan, **given.reading), given)
    if given.outcome.is_text:
        read.say("read")
    return 0


def _export(spark: SparkSession, given: Given) -> int:
    from kafkalog_spark.jobs.export import export

    read = _Read()
    export(spark, *given.paths, to=given.to, mode=given.mode, table=given.table, on_plan=read.plan, **given.reading)
    _print_written(given, ())
    if given.outcome.is_text:
        read.say("exported")
    return 0


def _import(spark: SparkSession, given: Given) -> int:
    from kafkalog_spark.jobs.export import bring_back

    left_out = bring_back(
        spark, *given.paths, to=given.to, mode=given.mode, table=given.table, config=given.config, topics=given.topics
    )
    _print_written(given, left_out)
    return 0


def _print_written(given: Given, left_out: Iterable[str]) -> None:
    """Print where the result is, and which topics are not in it."""
    given.outcome.put("written", {**text_field("path", given.to), "left_out": list(left_out)}, None)
    if given.outcome.is_text:
        for topic in left_out:
            click.echo(f"not written: {topic}, which only controllers write", err=True)
        click.echo(f"written to {printable(given.to)}", err=True)


def _recover(spark: SparkSession, given: Given) -> int:
    from engine.log.operations.recover import RecoverOptions
    from kafkalog_spark.jobs.recover import recover

    options = RecoverOptions(salvage=given.salvage)
    done = recover(spark, *given.paths, config=given.config, options=options, now=given.now, topics=given.topics)
    return _events(done, given)


def _compact(spark: SparkSession, given: Given) -> int:
    from engine.log.cleaner.compaction import CompactionOptions
    from kafkalog_spark.jobs.compact import compact

    options = CompactionOptions(force=given.force, dedupe_buffer_size=given.dedupe_buffer_size)
    done = compact(
        spark, *given.paths, config=given.config, options=options, now=given.now, topics=given.topics
    )
    return _events(done, given)


def _events(frame: DataFrame, given: Given) -> int:
    """Print what was done; returns the exit status of the command for the same events and failures."""
    status = 0
    total = Total()
    rows = frame.toLocalIterator()  # made by the driver: no task runs again
    for directory, of_one in groupby(rows, key=lambda row: row["directory"]):
        of_this = _show_events(directory, of_one, given.outcome)
        status = max(status, of_this)
        if parse_partition_dir(file_name(directory)) is not None:  # else a log dir
            total.add(*_VERDICTS.get(of_this, ("failed", Severity.ERROR)))
    if given.outcome.is_text:
        total.say("done", quiet=given.outcome.is_quiet)
    return status


_VERDICTS = {  # by exit status
    0: ("without problems", Severity.INFO), 1: ("repaired", Severity.WARNING), 4: ("with problems left", Severity.ERROR),
}  # fmt: skip


def _show_events(directory: str, rows: Iterable[Row], outcome: Outcome) -> int:
    """Print what was done to one partition or log dir; returns the exit status. In JSON it is a `report` after its findings."""
    from kafkalog_cli.render_report import QUIET, event_status
    from kafkalog_spark.jobs.upkeep import FAILED, FOUND, events_in

    events, operation, status = [], "", 0
    failure: KafkalogError | None = None
    for row in rows:
        statuses = [row["exitStatus"]] if row["action"] == FAILED else [event_status(*event) for event in events_in([row])]
        status, operation = max([status, *statuses]), row["operation"]
        if outcome.is_text:
            is_fine = row["severity"] == Severity.INFO.value
            if not is_fine or outcome.is_verbose or not (outcome.is_quiet or row["action"] in QUIET):
                click.echo(_event_line(row))
        elif row["action"] == FOUND:
            file = f"{directory}/{row['file']}" if row["file"] else directory
            outcome.finding(_finding(row["code"], row["severity"], file, row["reason"], None, row["firstOffset"]))
        elif row["action"] == FAILED:
            failure = KafkalogError(row["reason"], path=directory)
            failure.code, failure.exit_status = row["code"], row["exitStatus"]
        else:
            events.append(_event_fields(row))
    if not outcome.is_text:
        outcome.put("report", {
            **text_field("partition", directory), "operation": operation, "dry_run": False, "exit_status": status,
            **dict.fromkeys(_UNKNOWN), "error": None if failure is None else error_fields(failure), "events": events,
        }, None)  # fmt: skip
        if failure is not None:
            outcome.error(failure)
    return status


_UNKNOWN = ("log_start_offset", "log_end_offset", "recovery_point", "segments", "bytes", "unread_below")  # to the driver


def _event_fields(row: Row) -> dict[str, object]:
    fields = {
        "action": row["action"], "severity": row["severity"], **(text_field("file", row["file"]) if row["file"] else {}),
        "first_offset": row["firstOffset"], "end_offset": row["endOffset"], "records": row["records"], "bytes": row["bytes"],
        "reason": sentence(row["reason"]),
    }  # fmt: skip
    return {name: value for name, value in fields.items() if value is not None}


def _show(frame: DataFrame, given: Given) -> None:
    from kafkalog_spark.tasks import rows_of

    is_text = given.outcome.is_text
    rows = (row.asDict(recursive=True) for row in rows_of(_printable_times(frame, is_text=is_text)))
    if is_text:
        _table(frame.columns, list(rows))  # the width of columns may depend on the last row
        return
    for row in rows:
        given.outcome.put("statistics", {"by": given.by, **_plain(row)}, None)


def _printable_times(frame: DataFrame, *, is_text: bool) -> DataFrame:
    """Return times as text, or as ms: Spark has years beyond Python's range, as of a producer that used µs for ms."""
    from pyspark.sql import functions as f

    for name in (name for name, kind in frame.dtypes if kind == "timestamp"):
        text = f.regexp_replace(f.date_format(name, "yyyy-MM-dd HH:mm:ss.SSSSSS"), "[.]0+$", "")
        frame = frame.withColumn(name, text if is_text else f.unix_millis(name))
    return frame


def _finding_line(row: Row) -> str:
    where = row["file"] + ("" if row["position"] is None else f" at byte {row['position']}")
    where += "" if row["offset"] is None else f", offset {row['offset']}"
    return f"{row['severity']}[{row['code']}] {printable(where)}: {printable(row['what'])}"


def _event_line(row: Row) -> str:
    from engine.log.report import Action
    from kafkalog_cli.render_report import action_text

    where = f"{row['directory']}/{row['file']}" if row["file"] else row["directory"]
    to = "" if row["endOffset"] is None else f" to {row['endOffset']}"
    offsets = "" if row["firstOffset"] is None else f" (offset {row['firstOffset']}{to})"
    if row["code"] is not None:  # a finding, or a failure
        return f"{row['severity']}[{row['code']}] {printable(where)}{offsets}: {printable(row['reason'])}"
    return f"  {action_text(Action(row['action']))} {printable(where)}{offsets} - {printable(row['reason'])}"


_HUMP = re.compile("(?<=[a-z])(?=[A-Z])")


def _plain(row: dict[str, Any]) -> dict[str, object]:
    """Return the members of an object: columns of Spark in snake case."""
    plain: dict[str, object] = {}
    for column, value in row.items():
        name = _HUMP.sub("_", column).lower()
        plain |= bytes_field(name, bytes(value)) if isinstance(value, bytes | bytearray) else {name: value}
    return plain


def _table(columns: list[str], rows: list[dict[str, Any]]) -> None:
    texts = [[_cell(row[name]) for name in columns] for row in rows]
    widths = [max(len(name), *(len(line[at]) for line in texts)) if texts else len(name) for at, name in enumerate(columns)]
    numeric = [all(isinstance(row[name], int | None) for row in rows) for name in columns]
    for line in [columns, *texts]:
        columns_of = zip(line, widths, numeric, strict=True)
        click.echo("  ".join(one.rjust(width) if right else one.ljust(width) for one, width, right in columns_of).rstrip())


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    text = bytes(value).decode("utf-8", "backslashreplace") if isinstance(value, bytes | bytearray) else str(value)
    return printable(text if len(text) <= _CELL else text[: _CELL - 1] + "…")


_JOBS: dict[str, Callable[[SparkSession, Given], int]] = {
    "verify": _verify, "stats": _stats, "export": _export, "import": _import, "recover": _recover, "compact": _compact,
}  # fmt: skip

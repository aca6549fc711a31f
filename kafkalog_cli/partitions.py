"""An operation on logs that were named: lock their log dirs, open, work, close, report."""

from __future__ import annotations

from contextlib import closing, contextmanager, nullcontext
from itertools import chain
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from engine.amounts import count_of
from engine.discovery.names import METADATA_TOPIC, FileKind, PartitionKind, file_name
from engine.errors import KafkalogError, UsageError, argument
from engine.files import Files, acting_as_root, is_locked, nameless_file
from engine.findings import Severity
from engine.log.logdir.metrics import FlushStats, check_textfile, write_textfile
from kafkalog_cli.app import Outcome, printable
from kafkalog_cli.asking import DECLINED, Declined, Question
from kafkalog_cli.engine_options import opening_from, paths_from
from kafkalog_cli.help import words_of
from kafkalog_cli.imports import load_everything
from kafkalog_cli.interruption import AS_A_CRASH, INTERRUPTION, Interrupted, say_interrupted
from kafkalog_cli.json_output import Lines, json_stream
from kafkalog_cli.output import outlive_output
from kafkalog_cli.progress import Progress, watched_disk
from kafkalog_cli.quarantining import quarantines_for
from kafkalog_cli.render_report import (
    exit_status,
    has_changes,
    housekeeping,
    housekeeping_line,
    report_fields,
    text_lines,
    total_verdict,
)
from kafkalog_cli.total import Total

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from engine.dump.json_stream import JsonStream
    from engine.errors import UnwritableFile
    from engine.kafka07.log import Log07
    from engine.log.logdir.log_dirs import LogDir
    from engine.log.logdir.log_manager import LogManager
    from engine.log.partition.unified_log import UnifiedLog
    from engine.log.report import Report
    from engine.log.segment.log_segment import LogSegment
    from engine.overlay.spill import Spill
    from kafkalog_cli.engine_options import Opening
    from kafkalog_cli.quarantining import Quarantines

    Work = Callable[[UnifiedLog], object]
    Work07 = Callable[[Log07, Report], object]
    Perform = Callable[[LogManager, Opening, Progress], Generator[Report, None, None]]
    Wrap = Callable[[Files, LogDir], Files]
    Metrics = Callable[[], Iterable[tuple[str, str, dict[str, str], float]]]


_SHOWN = 10  # names of partitions
_ONE_BY_ONE = ("append", "delete-records", "truncate")  # an offset of one partition means nothing to another


def run(
    operation: str, values: dict[str, Any], work: Work, work_07: Work07 | None = None,
    meet: Callable[[LogManager], object] | None = None, *, truncates_to: int | None = None,
    deletes: Callable[[UnifiedLog], Iterable[LogSegment]] | None = None,
) -> int:
    """Open each log behind PATHS, do `work` on it, close it and say what was done → exit status.

    truncates_to, deletes  see OperationOptions
    work_07  for logs of Kafka 0.7; None: they are refused
    meet     is called with the manager of these logs before
    """
    from engine.log.operations.operation import operate

    def perform(manager: LogManager, opening: Opening, progress: Progress) -> Generator[Report, None, None]:
        is_append = operation == "append"
        accepts_losses = is_append and values["quarantine"] is not None
        options = opening.options(
            operation, for_snapshots=not is_append, accepts_losses=accepts_losses, truncates_to=truncates_to,
            deletes=deletes,
        )
        whole = [log_dir.path for log_dir in manager.cluster.log_dirs if log_dir.is_whole]
        if whole and operation in _ONE_BY_ONE:
            do = f"ls -d {argument(whole[0])}/*-*    # partitions: name the directories that are meant"
            raise UsageError(f"{whole[0]}: a log dir; {operation} needs partitions, named one by one", do=do)
        if meet is not None:
            meet(manager)
        yield from operate(manager, options, work, errors, progress.done, work_07)

    errors: list[KafkalogError] = []
    return session(operation, values, perform, errors)


def session(
    operation: str, values: dict[str, Any], perform: Perform, errors: list[KafkalogError], metrics: Metrics = lambda: (), *,
    with_metadata: bool = False,
) -> int:
    """Everything around an operation: settings, what PATHS mean, locks, progress, reports, metrics → exit status.

    errors  what `perform` could not do; it goes on behind
    metrics what the operation adds to --metrics-textfile, asked for at the end
    with_metadata  of log dirs it works on the metadata log as well
    """
    quarantines = quarantines_for(operation, values)
    outlive_output()
    try:
        status = _session(operation, values, perform, errors, quarantines, metrics, with_metadata=with_metadata)
    finally:
        if quarantines is not None:
            quarantines.say()
    if values["dry_run"] and values["form"] == "text" and not values["quiet"]:
        click.echo("dry run: nothing was changed")
    return status


def _session(
    operation: str, values: dict[str, Any], perform: Perform, errors: list[KafkalogError], quarantines: Quarantines | None,
    metrics: Metrics, *, with_metadata: bool,
) -> int:
    stream = values.get("stream") or json_stream(values["form"], Lines())
    outcome = Outcome(stream=stream, verbose=values["verbose"])
    reports: list[Report] = []
    tally = Tally(with_metadata=with_metadata, dry_run=values["dry_run"])
    with INTERRUPTION:
        try:
            opening = opening_from(values)
            flushes = None if values["metrics_textfile"] is None else FlushStats(perf_counter)
            check_metrics(values)
            paths = paths_from(values["paths"], opening.settings)
            question = Question(operation, perform, opening, errors, is_kept=quarantines is not None)
            confirm = question.ask if question.is_to_be_asked(values) else None
            with (
                _manager(paths, opening, quarantines, flushes, errors, confirm) as (manager, progress),
                closing(perform(manager, opening, progress)) as performed,  # its threads end before quarantines are closed
            ):
                tally.begin(manager)
                if stream is not None and isinstance(stream.out, Lines):
                    stream.out.say = progress.say
                errors += _not_permitted(manager) if values["dry_run"] and not values.get("explain") else ()
                for report in chain(_held(manager) if opening.dry_run else (), performed):
                    tally.done(report)
                    outcome.at_least(exit_status(report))
                    _show(report, values, stream, progress)
                    if values["metrics_textfile"] is not None:
                        reports.append(report)
                if flushes is not None and not opening.dry_run:
                    with acting_as_root():  # the user named the file
                        write_textfile(Files(), values["metrics_textfile"], manager, reports, len(errors), flushes, metrics())
        except Declined:
            return outcome.finish(DECLINED)
        except KafkalogError as error:
            errors = [error, *errors]
        except Interrupted:
            say_interrupted(tally.text() + (AS_A_CRASH if tally.is_begun and not values["dry_run"] else ""))
        except click.UsageError as error:
            if stream is not None:
                stream.error(UsageError(error.format_message()))
                stream.end(UsageError.exit_status)
            raise
        if values["form"] == "text":
            tally.say_total(quiet=values["quiet"], verbose=values["verbose"])
        for failure in errors:
            outcome.error(failure)
        if any(not isinstance(failure, UsageError) for failure in errors):
            is_unchanged = quarantines is not None and not (values["dry_run"] or quarantines.is_used)
            _say_how_far(tally, is_unchanged=is_unchanged)
        return outcome.finish(INTERRUPTION.status)


def _show(report: Report, values: dict[str, Any], stream: JsonStream | None, progress: Progress) -> None:
    if stream is not None:
        stream.put("report", report_fields(report, dry_run=values["dry_run"]))
    elif not values["quiet"] or exit_status(report):
        progress.say("\n".join(text_lines(report, verbose=values["verbose"], dry_run=values["dry_run"])))


def _without_dry_run() -> list[str]:
    """The command line that does what this dry run showed; empty where this is none."""
    context = click.get_current_context()
    words = words_of(context)
    done = [word for word in words if word not in ("-n", "--dry-run")]
    return [] if done == words else ["kafkalog", context.info_name or "", *done]


def _say_how_far(tally: Tally, *, is_unchanged: bool) -> None:
    """What became of an operation that failed."""
    if is_unchanged:
        click.echo("nothing was changed", err=True)
    if INTERRUPTION.number is None and tally.is_worth_telling:
        click.echo(printable(tally.text()), err=True)


def check_metrics(values: dict[str, Any]) -> None:
    """Raise KafkalogError if what --metrics-textfile asks for cannot be written: before anything is locked or made."""
    if values["metrics_textfile"] is not None and not values["dry_run"]:
        check_textfile(Files(), values["metrics_textfile"])


class Tally:
    """Which partitions are done, for those who find the work half done."""

    def __init__(self, *, with_metadata: bool, dry_run: bool) -> None:
        self._with_metadata, self._dry_run = with_metadata, dry_run
        self._housekeeping = 0
        self._manager: LogManager | None = None
        self._done: set[str] = set()
        self._total = Total()
        self._is_due = False

    def begin(self, manager: LogManager) -> None:
        """Take note of whose logs are worked on; the operation may still choose among them."""
        self._manager = manager

    def done(self, report: Report) -> None:
        """A report came."""
        if report.failure is None:
            self._done.add(report.directory)
        verdict = total_verdict(report, dry_run=self._dry_run)
        if verdict is not None:
            self._total.add(*verdict, report.size or 0)
        self._is_due |= has_changes(report)
        self._housekeeping += housekeeping(report)

    def say_total(self, *, quiet: bool, verbose: bool) -> None:
        """Print what was not worth a line for each file, the total, and after a dry run the command that does it."""
        if self._housekeeping and not (quiet or verbose):
            click.echo(housekeeping_line(self._housekeeping, dry_run=self._dry_run))
        self._total.say(_without_dry_run() if self._is_due else (), quiet=quiet)

    def _all(self) -> list[str]:
        """The logs that operations on log dirs work on, and those that were named."""
        log_dirs = () if self._manager is None else self._manager.cluster.log_dirs
        return [
            place.path
            for log_dir in log_dirs
            for place in (log_dir.partitions(PartitionKind.PLAIN, PartitionKind.FUTURE) if log_dir.is_whole else log_dir.places)
            if self._with_metadata or not log_dir.is_whole or place.name.topic != METADATA_TOPIC
        ]

    @property
    def is_begun(self) -> bool:
        """Is there anything to do at all?"""
        return bool(self._all())

    @property
    def is_worth_telling(self) -> bool:
        """Is there anything to tell that the errors do not say?"""
        paths = self._all()
        return len(paths) > 1 and not self._done.issuperset(paths)

    def text(self) -> str:
        """One line."""
        paths = self._all()
        if not paths:
            return "nothing was started"
        names = [file_name(path) for path in paths if path not in self._done]
        shown = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
        done = f"{len(paths) - len(names)} of {count_of(len(paths), 'partition')} done"
        return f"{done}; not done: {shown}" if names else done


def _held(manager: LogManager) -> Iterator[Report]:
    """For a dry run: the log dirs that another process has locked."""
    from engine.log.logdir.log_dirs import lock_directories
    from engine.log.report import Action, Report

    operation = click.get_current_context().info_name or ""
    log_dirs = manager.cluster.log_dirs
    places = [place.path for log_dir in log_dirs for place in log_dir.places]
    for path in lock_directories(Files(), [log_dir.path for log_dir in log_dirs], places):
        if is_locked(f"{path}/{FileKind.LOCK.value}"):
            report = Report(path, operation)
            why = ("another process holds this lock, most likely a running broker: without --dry-run the command would stop "
                   "here, and what the broker writes meanwhile may look like damage")
            report.add(Action.REFUSED, FileKind.LOCK.value, why, severity=Severity.WARNING)
            yield report


def _not_permitted(manager: LogManager) -> list[UnwritableFile]:
    """For a dry run: why the same command could not change the log dirs."""
    from engine.log.logdir.log_dirs import not_permitted

    log_dirs = manager.cluster.log_dirs
    places = [place.path for log_dir in log_dirs for place in log_dir.places]
    return not_permitted(Files(), [log_dir.path for log_dir in log_dirs], places)


@contextmanager
def _manager(
    paths: list[str], opening: Opening, quarantines: Quarantines | None, flushes: FlushStats | None,
    errors: list[KafkalogError], confirm: Callable[[Files, list[LogDir]], None] | None,
) -> Iterator[tuple[LogManager, Progress]]:
    """The locked logs of `paths`. `errors` takes those of quarantines that cannot be closed in the end.

    confirm  is called before anything is changed, and may raise
    """
    from engine.log.logdir.log_dirs import find_log_dirs, locked, refuse_unrelated
    from engine.log.logdir.log_manager import LogManager
    from engine.log.logdir.startup import survey

    with Progress() as progress, _spill() if opening.dry_run else nullcontext() as spill:
        disk = files = watched_disk(progress, flushes)
        if opening.dry_run:
            from engine.overlay import OverlayFiles

            files = OverlayFiles(disk, opening.now, spill)
        log_dirs = find_log_dirs(files, paths)
        refuse_unrelated(files, paths)
        progress.expect(log_dirs, lambda _: files)
        named, places = [log_dir.path for log_dir in log_dirs], [place.path for log_dir in log_dirs for place in log_dir.places]
        load_everything(files, [*named, *places])
        with locked(files, named, places), acting_as_root() if opening.dry_run else nullcontext():  # which only reads
            if confirm is not None:
                confirm(files, log_dirs)
            try:
                wrap: Wrap = (lambda files, _log_dir: files) if quarantines is None else quarantines.wrap
                with acting_as_root():  # the owner of a log dir may not be allowed to make something beside it
                    seams = {log_dir.path: wrap(files, log_dir) for log_dir in log_dirs}
                yield LogManager(seams.__getitem__, survey(files, log_dirs), opening.settings, opening.now), progress
            finally:  # also after Ctrl-C, before a broker may come: what it changes is not ours
                INTERRUPTION.pardon()
                if quarantines is not None:
                    quarantines.finish(errors)


def _spill() -> closing[Spill]:
    """Where a dry run puts what is too much for memory."""
    from engine.overlay.spill import Spill

    return closing(Spill(nameless_file))

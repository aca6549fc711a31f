"""Run a command on the logs of PATHS: open their log dirs, ask, do the work, print the reports and where data is kept."""

from __future__ import annotations

import sys
from contextlib import closing, contextmanager, suppress
from importlib import import_module
from itertools import chain
from pkgutil import walk_packages
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from engine.amounts import count_of
from engine.discovery.names import METADATA_TOPIC, FileKind, PartitionKind, file_name
from engine.errors import KafkalogError, UsageError, argument
from engine.files import ROOT, Files, acting_as_root, is_locked, is_root, look
from engine.findings import Severity
from engine.log.logdir.metrics import FlushStats, check_textfile, write_textfile
from engine.log.report import loses_records
from kafkalog_cli.app import Outcome, Total, kept_fields, kept_in, printable
from kafkalog_cli.engine_options import choice_from, opening_from, paths_from
from kafkalog_cli.help import words_of
from kafkalog_cli.interruption import AS_A_CRASH, INTERRUPTION, Interrupted, print_interrupted
from kafkalog_cli.options import shown_size
from kafkalog_cli.output import Lines, json_stream, print_always, tolerate_output_failure
from kafkalog_cli.progress import Progress, watched_disk
from kafkalog_cli.render_report import (
    exit_status,
    has_changes,
    housekeeping,
    housekeeping_line,
    report_fields,
    text_lines,
    total_verdict,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from engine.discovery.choice import PartitionChoice
    from engine.dump.json_stream import JsonStream
    from engine.errors import UnwritableFile
    from engine.files import ReadOnlyFiles
    from engine.log.logdir.log_dirs import LogDir
    from engine.log.operations.operation import Operation
    from engine.log.quarantine.quarantining_files import QuarantiningFiles
    from engine.log.report import Report
    from engine.log.session import OpenOptions, Quarantines, Session

    Work = Callable[[Session, Progress], Iterator[Report]]
    Gauges = Callable[[], Iterable[tuple[str, str, dict[str, str], float]]]

DECLINED = 4  # exit status if nothing was changed
_YES = ("y", "yes")
_ADD_ONLY = ("append", "roll")  # commands that remove nothing
_DELETE = ("delete-records", "retain", "truncate")  # commands that read little: the amount they delete is known before
_IF_STOPPED = {"undelete": "; run the command again before a broker starts: it removes what was deleted"}  # by command
_LOG_DIRS = 4  # in a message
_SHOWN = 10  # names of partitions in a message
_OURS = ("engine", "kafkalog_cli")
_NOT_OURS = (
    "base64", "concurrent.futures.thread", "cramjam", "ctypes", "datetime", "difflib", "grp", "hashlib", "lz4.block",
    "lz4.frame", "mmap", "prometheus_client", "pwd", "resource", "rich.progress", "shlex", "snappy", "tempfile", "zlib",
    "zstandard",
)  # fmt: skip


def run_operation(values: dict[str, Any], operation: Operation) -> int:
    """Run an operation on each log of PATHS, print the reports, and return the exit status."""
    from engine.log.operations.operation import operate

    choice = choice_from(values)
    if operation.of_partitions and not (choice.is_all or choice.names_one):
        what = f"{operation.name}: an offset of one partition means nothing in another: choose one partition with --topic NAME"
        raise click.UsageError(f"{what}, without a pattern, and --partition N")
    return run(operation.name, values, lambda logs, _progress: operate(logs.manager, logs.options, operation))


def run(
    name: str, values: dict[str, Any], work: Work, *, gauges: Gauges = lambda: (), with_metadata: bool = False,
    makes_partitions: bool = False, stream: JsonStream | None = None, more_log_dirs: Callable[[], Iterable[str]] = tuple,
) -> int:
    """Do the work of the command `name` on the log dirs of PATHS, print its reports, and return the exit status.

    gauges         returns additions to --metrics-textfile; called at the end
    with_metadata  in log dirs, also work on the metadata log
    makes_partitions  the command works on none of the existing partitions
    stream         receives objects of the work; None: it prints none
    more_log_dirs  returns further log dirs to lock
    """
    quarantines = quarantines_for(name, values)
    tolerate_output_failure()
    stream = stream or json_stream(values["form"])
    try:
        tally = Tally(with_metadata=with_metadata, counts=not makes_partitions, dry_run=values["dry_run"])
        status = _run(name, values, work, quarantines, gauges, tally, stream, more_log_dirs)
    finally:
        if quarantines is not None and not (values["dry_run"] and values["quiet"]):
            print_kept(quarantines, values["form"], dry_run=values["dry_run"])
    if values["dry_run"] and values["form"] == "text" and not values["quiet"]:
        click.echo("dry run: nothing was changed")
    if values["form"] == "text":
        tally.print_next(quiet=values["quiet"])
    return status


def _run(
    name: str, values: dict[str, Any], work: Work, quarantines: Quarantines | None, gauges: Gauges, tally: Tally,
    stream: JsonStream | None, more_log_dirs: Callable[[], Iterable[str]],
) -> int:
    outcome = Outcome(stream=stream, verbose=values["verbose"], quiet=values["quiet"])
    reports: list[Report] = []
    errors: list[KafkalogError] = []
    with INTERRUPTION:
        try:
            options = opening_from(values)
            flushes = None if values["metrics_textfile"] is None else FlushStats(perf_counter)
            check_metrics(values)
            paths = [*paths_from(values["paths"], options.settings), *more_log_dirs()]
            choice = choice_from(values)
            with Progress() as progress, _opened(paths, choice, options, quarantines, progress, flushes, errors) as logs:
                if is_to_be_asked(values):
                    ask(name, logs, work)
                directories = {partition.path for log_dir in logs.log_dirs for partition in log_dir.directories}
                tally.begin(logs)
                if stream is not None and isinstance(stream.out, Lines):
                    stream.out.say = progress.say
                errors += _not_permitted(logs) if values["dry_run"] and not values.get("explain") else ()
                # the threads of the work end before its quarantines are completed
                with closing(logs.run(lambda logs: work(logs, progress))) as performed:
                    for report in chain(_held(name, logs) if options.dry_run else (), performed):
                        tally.done(report)
                        errors += [] if report.failure is None else [report.failure]
                        outcome.at_least(exit_status(report))
                        _show(report, values, stream, progress)
                        if flushes is not None:
                            reports.append(report)
                        if report.directory in directories:
                            progress.done_with(report.directory)
                if flushes is not None and not options.dry_run:
                    _write_metrics(values, logs, reports, len(errors), flushes, gauges)
        except Declined:
            return outcome.finish(DECLINED)
        except KafkalogError as error:
            errors = [error, *errors]
        except Interrupted:
            print_interrupted(tally.text() + _advice(name, values, tally))
        except click.UsageError as error:
            if stream is not None:
                stream.error(UsageError(error.format_message()))
                stream.end(UsageError.exit_status)
            raise
        if values["form"] == "text":
            tally.print_total(quiet=values["quiet"], verbose=values["verbose"])
        for failure in errors:
            outcome.error(failure)
        if any(not isinstance(failure, UsageError) for failure in errors):
            _print_state(tally, is_unchanged=not values["dry_run"] and quarantines is not None and not quarantines.is_used)
        put_kept(quarantines, stream, dry_run=values["dry_run"])
        return outcome.finish(INTERRUPTION.status)


def _advice(name: str, values: dict[str, Any], tally: Tally) -> str:
    return _IF_STOPPED.get(name, AS_A_CRASH) if tally.is_begun and not values["dry_run"] else ""


def _write_metrics(
    values: dict[str, Any], logs: Session, reports: list[Report], failed: int, flushes: FlushStats, gauges: Gauges
) -> None:
    with acting_as_root():  # the user named the file
        write_textfile(Files(), values["metrics_textfile"], logs.manager, reports, failed, flushes, gauges())


def _show(report: Report, values: dict[str, Any], stream: JsonStream | None, progress: Progress) -> None:
    if stream is not None:
        stream.put("report", report_fields(report, dry_run=values["dry_run"]))
    elif not values["quiet"] or exit_status(report):
        progress.say("\n".join(text_lines(report, verbose=values["verbose"], dry_run=values["dry_run"])))


@contextmanager
def _opened(
    paths: list[str], choice: PartitionChoice, options: OpenOptions, quarantines: Quarantines | None, progress: Progress,
    flushes: FlushStats | None, errors: list[KafkalogError],
) -> Iterator[Session]:
    """Open, lock and survey the log dirs of `paths`. `errors` receives errors of completing quarantines."""
    from engine.log.logdir.log_dirs import choose_partitions, find_log_dirs, refuse_unrelated
    from engine.log.logdir.startup import with_metadata_dir
    from engine.log.session import session

    disk = watched_disk(progress, flushes)
    around = find_log_dirs(disk, paths)
    refuse_unrelated(disk, paths)
    log_dirs = choose_partitions(around, choice)
    progress.expect(log_dirs, lambda _: disk)
    load_everything(disk, [*(log_dir.path for log_dir in log_dirs), *_directories(log_dirs)])
    logs = None
    try:
        around = with_metadata_dir(disk, around, options.settings.server)
        with session(disk, log_dirs, options, quarantines, around=around) as logs:
            try:
                yield logs
            finally:  # also after Ctrl-C, before the locks are released: a broker's later changes are not ours
                INTERRUPTION.defer_to_end()
    finally:
        errors += () if logs is None else logs.dirs.errors


def _directories(log_dirs: Iterable[LogDir]) -> list[str]:
    return [partition.path for log_dir in log_dirs for partition in log_dir.directories]


def _without_dry_run() -> list[str]:
    """Return the command line without --dry-run; empty if this is not a dry run."""
    context = click.get_current_context()
    words = words_of(context)
    done = [word for word in words if word not in ("-n", "--dry-run")]
    group = context.parent.info_name if context.parent is not None and context.parent.parent is not None else None
    return [] if done == words else ["kafkalog", *([group] if group else []), context.info_name or "", *done]


def _print_state(tally: Tally, *, is_unchanged: bool) -> None:
    """Report how much of a failed operation was done."""
    if is_unchanged:
        click.echo("nothing was changed", err=True)
    if INTERRUPTION.number is None and tally.has_unfinished:
        click.echo(printable(tally.text()), err=True)


def check_metrics(values: dict[str, Any]) -> None:
    """Raise KafkalogError if the file of --metrics-textfile cannot be written, before anything is locked or made."""
    if values["metrics_textfile"] is not None and not values["dry_run"]:
        check_textfile(Files(), values["metrics_textfile"])


class Tally:
    """The partitions that are done, for the message about an unfinished operation."""

    def __init__(self, *, with_metadata: bool, counts: bool, dry_run: bool) -> None:
        self._with_metadata, self._counts, self._dry_run = with_metadata, counts, dry_run
        self._housekeeping = 0
        self._logs: Session | None = None
        self._done: set[str] = set()
        self._total = Total()
        self._is_due = self._is_lossy = self._fails = False

    def begin(self, logs: Session) -> None:
        """Note the logs to be worked on; the work may still select among them."""
        self._logs = logs

    def done(self, report: Report) -> None:
        """Add a report."""
        if report.failure is None:
            self._done.add(report.directory)
        else:
            self._fails = True
        verdict = total_verdict(report, dry_run=self._dry_run)
        if verdict is not None:
            self._total.add(*verdict, report.size or 0)
        self._is_due |= has_changes(report)
        self._is_lossy |= any(loses_records(event) for event in report.events)
        self._housekeeping += housekeeping(report)

    def print_total(self, *, quiet: bool, verbose: bool) -> None:
        """Print the number of small files that were updated, and the total."""
        if self._housekeeping and not (quiet or verbose):
            click.echo(housekeeping_line(self._housekeeping, dry_run=self._dry_run))
        self._total.say(quiet=quiet)

    def print_next(self, *, quiet: bool) -> None:
        """Print, after a dry run, the command without --dry-run; if `recover` would lose records, that with --salvage first.

        If a partition would fail, its error has the next command.
        """
        words = _without_dry_run() if self._is_due and not self._fails else []
        is_salvage = self._is_lossy and words[1:2] == ["recover"] and "--salvage" not in words
        self._total.print_next([*words[:2], "--salvage", "--dry-run", *words[2:]] if is_salvage else words, quiet=quiet)

    def _all(self) -> list[str]:
        """Return the logs that were named, and those in log dirs that were; none if nothing is counted."""
        log_dirs = () if self._logs is None or not self._counts else self._logs.log_dirs
        kinds = PartitionKind.PLAIN, PartitionKind.FUTURE
        return [
            one.path
            for log_dir in log_dirs
            for one in (log_dir.partitions(*kinds) if log_dir.is_whole else log_dir.directories)
            if self._with_metadata or not log_dir.is_whole or one.name.topic != METADATA_TOPIC
        ]

    @property
    def is_begun(self) -> bool:
        """Return whether there is anything to do."""
        return bool(self._all()) or not self._counts

    @property
    def has_unfinished(self) -> bool:
        """Return whether partitions are left that no error reports."""
        paths = self._all()
        return len(paths) > 1 and not self._done.issuperset(paths)

    def text(self) -> str:
        """Return one line."""
        paths = self._all()
        if not self._counts:
            return "stopped"
        if not paths:
            return "nothing was started"
        names = [file_name(path) for path in paths if path not in self._done]
        shown = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
        would, rest = ("would be ", "not") if self._dry_run else ("", "not done")
        done = f"{len(paths) - len(names)} of {count_of(len(paths), 'partition')} {would}done"
        return f"{done}; {rest}: {shown}" if names else done


def _held(name: str, logs: Session) -> Iterator[Report]:
    """Report, in a dry run, the log dirs that another process has locked."""
    from engine.log.logdir.log_dirs import lock_directories
    from engine.log.report import Action, Report

    for path in lock_directories(Files(), [log_dir.path for log_dir in logs.log_dirs], _directories(logs.log_dirs)):
        if is_locked(f"{path}/{FileKind.LOCK.value}"):
            report = Report(path, name)
            why = ("another process holds this lock, most likely a running broker: without --dry-run the command would stop "
                   "here, and what the broker writes meanwhile may look like damage")
            report.add(Action.REFUSED, FileKind.LOCK.value, why, severity=Severity.WARNING)
            yield report


def _not_permitted(logs: Session) -> list[UnwritableFile]:
    """Return, in a dry run, why the command could not change the log dirs."""
    from engine.log.logdir.log_dirs import not_permitted

    return not_permitted(Files(), [log_dir.path for log_dir in logs.log_dirs], _directories(logs.log_dirs))


# ---- the question before a command that cannot be undone; quarantines by options, and the messages about them


def quarantines_for(command: str, values: dict[str, Any]) -> Quarantines | None:
    """Return the quarantines for the options; None: keep nothing. Commands without --no-quarantine keep only on request."""
    is_chosen = values.get("quarantine") is not None
    if is_chosen and values.get("no_quarantine"):
        raise click.UsageError("--quarantine and --no-quarantine exclude each other")
    if not is_chosen and values.get("no_quarantine", True):
        return None
    from engine.files import now_ms
    from engine.log.session import Quarantines

    now = now_ms() if values["now"] is None else values["now"]
    return Quarantines(command, now, values["quarantine"], unless=_elsewhere(), dry_run=values["dry_run"])


def print_kept(quarantines: Quarantines, form: str, *, dry_run: bool) -> None:
    """Print where data is kept, even if the work or its output, of form `form`, failed."""
    for made in quarantines.made:
        if made.is_used:
            print_always(would_keep(made) if dry_run else kept_in(made), err=form != "text" or sys.exc_info()[0] is not None)
    for made in quarantines.made:
        _print_unfinished(made)


def put_kept(quarantines: Quarantines | None, stream: JsonStream | None, *, dry_run: bool) -> None:
    """Write objects `kept` to `stream`, once the quarantines are complete."""
    if quarantines is None or stream is None:
        return
    for made in quarantines.made:
        if made.is_used:
            stream.put("kept", kept_fields(made, dry_run=dry_run))


def would_keep(quarantine: QuarantiningFiles) -> str:
    """Return the line of a dry run that says where a command would keep data."""
    return f"would keep in quarantine: {shown_size(quarantine.stored_size)}, in {argument(quarantine.directory)}"


def _print_unfinished(quarantine: QuarantiningFiles) -> None:
    """Report interrupted earlier commands in the same log dirs, and how to undo them."""
    from engine.files import ReadOnlyFiles
    from engine.log.quarantine.kept import left_unfinished

    own = (quarantine.directory,) if quarantine.is_used else ()
    for log_dir in quarantine.log_dirs:
        try:
            earlier = [kept.path for kept in left_unfinished(ReadOnlyFiles(), log_dir, quarantine.directory)]
        except KafkalogError:  # only a hint: the result was reported
            continue
        if earlier:
            paths = " ".join(argument(path) for path in (*own, *earlier))
            what = "a command that was stopped changed this log dir before" if len(earlier) == 1 else (
                f"{len(earlier)} commands that were stopped changed this log dir before")
            print_always(f"{what}; undo everything with: kafkalog restore --salvage {paths}", err=True)


def _elsewhere() -> str:
    other = "--no-quarantine" in (option for one in click.get_current_context().command.params for option in one.opts)
    return "--quarantine DIR chooses another place" + (", --no-quarantine keeps nothing" if other else "")


class Declined(Exception):  # not an error: the user's answer
    """The user declined."""


def is_at_terminal() -> bool:
    """Return whether a user can read a question and answer it: stdin, stdout and stderr are terminals."""
    return sys.stdin is not None and all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def agreed(summary: str) -> bool:
    """Print the summary and ask. True without a question if no terminal is there."""
    if not is_at_terminal():
        return True
    click.echo(printable(summary), err=True)
    click.echo("Continue? [y/N] ", err=True, nl=False)
    with INTERRUPTION.at_once():
        answer = sys.stdin.readline()
    if answer.strip().lower() in _YES:
        return True
    click.echo("nothing was changed", err=True)
    return False


def log_dirs_text(log_dirs: list[str]) -> str:
    """Return the number and the paths of log dirs."""
    shown = ", ".join(log_dirs[:_LOG_DIRS]) + (", …" if len(log_dirs) > _LOG_DIRS else "")
    return f"{count_of(len(log_dirs), 'log dir')} ({shown})"


def is_to_be_asked(values: dict[str, Any]) -> bool:
    """Return whether a question is possible at all."""
    return not (values["dry_run"] or values.get("yes", True)) and is_at_terminal()


def ask(name: str, logs: Session, work: Work) -> None:
    """Ask before the command `name` does its work, if it cannot be undone or there are several log dirs. Raises Declined."""
    is_final = logs.dirs.quarantines is None and name not in _ADD_ONLY
    if not is_final and len(logs.log_dirs) < 2:  # several
        return
    names = log_dirs_text([log_dir.path for log_dir in logs.log_dirs])
    count = sum(len(log_dir.directories) for log_dir in logs.log_dirs)
    undo = "; this cannot be undone" if is_final else ""
    summary = f"{name}: {names}, {count_of(count, 'partition')}, {_size(name, logs, work)}{undo}"
    if not agreed(summary):
        raise Declined


def _size(name: str, logs: Session, work: Work) -> str:
    """Return the bytes to be deleted, as far as known without reading the logs."""
    from engine.log.quarantine.stamps import list_files
    from engine.log.report import Action

    if name not in _DELETE:
        directories = (partition.path for log_dir in logs.log_dirs for partition in log_dir.directories)
        most = sum(stamp.size for path in directories for stamp in list_files(logs.dirs.disk, path).values())
        return f"deletes or replaces at most {shown_size(most)} (--dry-run shows how much)"
    gone = (Action.REMOVED, Action.MARKED, Action.TRUNCATED)
    reports = logs.rehearse(lambda logs: work(logs, Progress()))
    size = sum(event.size or 0 for report in reports for event in report.events if event.action in gone)
    return f"deletes {shown_size(size)}"


def load_everything(files: ReadOnlyFiles, directories: Iterable[str]) -> None:
    """Import all that a command may need, if root will take the rights of the owner of one of `directories`."""
    if not is_root() or all(info is None or info.owner == ROOT for info in (look(files, one) for one in directories)):
        return
    for name in _OURS:
        for module in walk_packages(import_module(name).__path__, f"{name}."):
            if not module.name.endswith("__main__"):
                _import_unless_optional(module.name)
    for name in _NOT_OURS:
        with suppress(ImportError):  # a package that is not installed is not needed
            import_module(name)


def _import_unless_optional(name: str) -> None:
    """Import one of our modules, unless it needs a package of an extra that is not installed."""
    try:
        import_module(name)
    except ImportError as error:
        if (error.name or name).partition(".")[0] in _OURS:
            raise

"""kafkalog verify, also called verify-index."""

from __future__ import annotations

from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from engine.amounts import count_of
from engine.discovery.choice import EVERY_PARTITION
from engine.discovery.names import FileKind, file_name, is_log_file_name, is_url, parent_of, parse_file_name
from engine.discovery.paths import discover
from engine.discovery.patterns import expand
from engine.dump.json_stream import text_field
from engine.dump.text_buffer import TextBuffer
from engine.errors import KafkalogError, UnreadableFile, UsageError
from engine.findings import Finding, Severity
from engine.log.logdir.log_dirs import KINDS as WITHOUT_OFFSET
from engine.log.logdir.log_dirs import LIVE, choose_partitions, find_log_dirs, refuse_unrelated
from engine.log.logdir.topics import Topics
from engine.log.quarantine.stamps import list_files
from engine.log.verify.partition import Verification, verify_partition
from kafkalog_cli.app import Outcome, Total, printable
from kafkalog_cli.engine_options import (
    WHICH,
    ConfigSetting,
    choice_from,
    choice_options,
    paths_from,
    quarantine_options,
    settings_from,
)
from kafkalog_cli.help import CONFIG_FILE_VARIABLE, DocumentedCommand, Example, Section
from kafkalog_cli.interruption import INTERRUPTION, Interrupted, print_interrupted
from kafkalog_cli.options import (
    PATH,
    PATH_OR_URL,
    Time,
    bytes_option,
    files_for,
    format_option,
    jobs_option,
    quiet_option,
    refuse_urls,
    shown_size,
    verbose_option,
    version_option,
    yes_option,
)
from kafkalog_cli.output import json_stream, raw_stdout, tolerant, tolerate_output_failure
from kafkalog_cli.partitions import DECLINED, Declined, agreed, load_everything, log_dirs_text
from kafkalog_cli.progress import Progress, watched_disk, watched_reader
from kafkalog_cli.remote_store import WHOLE, whole_files, whole_options
from kafkalog_cli.render_report import verification_fields, verification_verdict
from kafkalog_cli.workers import in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from engine.config.server import Settings
    from engine.config.topic import LogConfig
    from engine.discovery.choice import PartitionChoice
    from engine.dump.json_stream import JsonStream
    from engine.files import Files, ReadOnlyFiles
    from engine.log.logdir.startup import Cluster
    from engine.log.session import Quarantines
    from engine.log.tiering import Tiering
    from engine.remote.whole_log import WholeLogFiles

    OpenWhole = Callable[..., WholeLogFiles | None]  # see whole_files


_SECTIONS = (
    WHICH,
    Section("Settings", ("--config", "--config-file")),
    Section("Repair", ("--rebuild", "--quarantine", "--no-quarantine", "--dry-run", "--yes", "--now")),
    WHOLE,
    Section("Output", ("--quiet", "--verbose", "--bytes", "--format", "--jobs")),
)
_IN_TOTAL = {"log damaged": "with a damaged log", "offsets missing": "with missing offsets"}  # the others say it as they are
_MAIN = ("--rebuild", "--dry-run", "--config-file", "--format", "--jobs")
_EXAMPLES = (
    Example("All files of a partition against its log:", "kafkalog verify /var/lib/kafka/data/orders-7"),
    Example("All partitions of a log dir; what is wrong as JSON, one object a line:",
            "kafkalog verify --format jsonl /var/lib/kafka/data"),
    Example("Rebuild broken indexes from the logs of a stopped broker:", "kafkalog verify --rebuild data/orders-7"),
)


@click.command("verify", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS, main_options=_MAIN, writes=True)
@click.argument("paths", nargs=-1, type=PATH_OR_URL)
@choice_options
@click.option("--rebuild", is_flag=True, help="Rebuild broken files from the log. Damaged logs need `recover`.")
@quarantine_options
@yes_option
@click.option("--dry-run", "-n", is_flag=True, help="With --rebuild: change nothing; show what would be written.")
@click.option("--config", "settings", type=ConfigSetting(), multiple=True, metavar="NAME=VALUE",
              help="A topic setting, such as cleanup.policy, or index.interval.bytes with --rebuild; may be repeated. "
              "Overrides every other source.")
@click.option("--config-file", type=PATH, envvar=CONFIG_FILE_VARIABLE, metavar="FILE",
              help="A broker's server.properties: settings of topics; log.dirs where no PATHS are given; the store of remote "
                   "segments (rsm.config.*) where no --store is given.")
@click.option("--now", type=Time(), metavar="TIME",
              help="With --rebuild: the clock by which producers expire: ISO-8601, ms, or `2h ago`. Default: the machine's.")
@whole_options
@format_option
@jobs_option("Partitions at a time. Default: one for each processor, up to 8.")
@quiet_option
@verbose_option
@bytes_option
@version_option
@click.pass_context
def command(context: click.Context, /, rebuild: bool, **values: Any) -> int:
    """Check the indexes and snapshots of partitions against their logs.

    PATHS are partition directories, log directories, trees of them, quoted patterns, or a file of a partition. Without
    --rebuild they may be URLs (s3://BUCKET/KEY, gs://, az://), and nothing is written. verify reads every batch, computes its
    checksum, and compares every entry of the indexes, producer snapshots and leader epochs with the batches.

    A finding says whether it is harmful. Differences that older brokers are known to write are not problems.

    It also checks what no checksum covers: offsets that run backwards, gaps between segments that compaction does not explain,
    a log start after the log end.

    With --rebuild, replaced and removed files are kept in a quarantine; `kafkalog restore` puts them back. --rebuild locks the
    log dir of every partition that PATHS name, also if there is nothing to rebuild: no broker may run there.
    """
    given = (context.get_parameter_source(name) for name in ("dry_run", "now", "quarantine", "no_quarantine"))
    if not rebuild and ParameterSource.COMMANDLINE in given:
        raise click.UsageError("--dry-run, --now, --quarantine and --no-quarantine need --rebuild")
    try:
        known = settings_from(values["config_file"], values["settings"])
    except KafkalogError as error:
        outcome = Outcome()
        outcome.error(error)
        return outcome.finish()
    asked = None
    if rebuild:
        refuse_urls(values["paths"])
        if values["store"] is not None:
            raise click.UsageError("--rebuild is for local files: leave out --store; `remote verify` checks a store on its own")
        from engine.files import now_ms
        from kafkalog_cli.partitions import quarantines_for

        clock = now_ms() if values["now"] is None else values["now"]
        asked = Rebuild(clock, quarantines_for("verify --rebuild", values), values["form"], dry_run=values["dry_run"],
                        asks=not values["yes"])
    shows = Shows(quiet=values["quiet"], verbose=values["verbose"])
    open_whole = partial(whole_files, values={**values, "config_file": None} if rebuild else values)
    paths = paths_from(values["paths"], known)
    return verify_all(paths, values["form"], values["jobs"], known, asked, shows, open_whole, choice_from(values))


_OF_A_PARTITION = frozenset((
    FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX, FileKind.PRODUCER_SNAPSHOT,
    FileKind.LOG_07,
))


_NAMED = 4  # partitions in the proposed next command


class Shows(NamedTuple):
    """The amount of text output. quiet: only partitions with problems. verbose: every finding, with its cause."""

    quiet: bool = False
    verbose: bool = False


PLAIN = Shows()


class _Verified(NamedTuple):
    findings: list[Finding]
    verification: Verification | None
    error: KafkalogError | None
    rebuilt: tuple[str, ...] = ()
    repaired: tuple[Finding, ...] = ()  # findings before the repair
    remote: int = 0  # remote segments


def verify_all(
    paths: Iterable[str], form: str, jobs: int, settings: Settings, rebuild: Rebuild | None = None,
    shows: Shows = PLAIN, open_whole: OpenWhole | None = None, choice: PartitionChoice = EVERY_PARTITION,
) -> int:
    """Verify every partition of `paths`, rebuild files on request, print the results in order; return the exit status.

    settings    of topics, in addition to those of the metadata log in the same log dir
    rebuild     None: nothing is written
    open_whole  gives the files with remote segments; None: remote segments are not read
    choice      only these partitions of `paths`
    """
    writes = rebuild is not None and not rebuild.dry_run
    if rebuild is not None:
        tolerate_output_failure()
    out = TextBuffer(raw_stdout() if rebuild is None else tolerant(raw_stdout()))
    stream = json_stream(form, out)
    outcome = Outcome(stream=stream, verbose=shows.verbose, quiet=shows.quiet)
    tally = _Tally()
    errors: list[KafkalogError] = []
    with INTERRUPTION if writes else nullcontext():
        try:
            with ExitStack() as stack, Progress() as progress:
                disk = None if rebuild is None else watched_disk(progress, None)
                remote = _Remote(disk or watched_reader(progress, files_for(paths)), open_whole, outcome)
                files = remote.files
                tally.directories, clusters = _partitions(files, paths, choice, outcome)
                topics = Topics(files, clusters, settings)
                begun = None
                if rebuild is not None and disk is not None:
                    refuse_unrelated(files, _directories(files, paths))
                    rebuild.ask(files, tally.directories)
                    begun = stack.enter_context(rebuild.begun(disk, tally.directories, errors))
                progress.expect_partitions(files, tally.directories)
                work = partial(remote.verify, topics)
                with closing(in_order(work, tally.directories, jobs)) as results:
                    for result in results:
                        if (done := result.verification) is not None:
                            progress.done_with(done.path)
                        if begun is not None and done is not None and done.worst is not None:
                            result = _rebuilt(result, done.path, topics, begun)  # noqa: PLW2901  # verifies again
                        _show(remote.add(result), outcome, stream, progress.say, quiet=shows.quiet)
                        tally.add(result)
            if writes and INTERRUPTION.number is not None:  # the signal came after the work
                print_interrupted(tally.text())
        except Interrupted:
            print_interrupted(tally.text())
        except Declined:
            return DECLINED
        except KafkalogError as error:  # about the directories around the partitions
            errors.insert(0, error)
        finally:
            if rebuild is not None:
                rebuild.say(stream)
        for failure in errors:
            outcome.error(failure)
        if stream is None:
            tally.print_total(quiet=shows.quiet, is_dry_run=rebuild is not None and rebuild.dry_run)
        status = outcome.finish(INTERRUPTION.status if writes else 0)
        out.flush()
    return status


class _Tally:
    """Counts the partitions by result, for the total and for an interrupted run."""

    def __init__(self) -> None:
        self.directories: list[str] = []
        self.done = 0
        self.total = Total()
        self._damaged: list[str] = []  # partitions with a damaged log
        self._broken: list[str] = []  # partitions whose other files are damaged

    def add(self, result: _Verified) -> None:
        """Add a partition that was read, or that could not be read."""
        self.done += 1
        done = result.verification
        if done is None:
            self.total.add("unreadable", Severity.ERROR, 0)
            return
        verdict = verification_verdict(done)
        self.total.add(_IN_TOTAL.get(verdict, verdict), _severity(done), done.bytes)
        if done.is_log_damaged:
            self._damaged.append(done.path)
        elif done.is_broken:
            self._broken.append(done.path)

    def print_total(self, *, quiet: bool, is_dry_run: bool) -> None:
        """Print the total, and the next command."""
        if self._damaged:
            words = ["kafkalog", "recover", "--full", "--dry-run", *_few(self._damaged)]
        elif self._broken:
            words = ["kafkalog", "verify", "--rebuild", *_few(self._broken)]
        else:
            words = []
        self.total.say(quiet=quiet)
        if is_dry_run and not quiet:
            click.echo("dry run: nothing was changed")
        self.total.print_next(words, quiet=quiet)

    def text(self) -> str:
        """Return one line."""
        if not self.directories:
            return "nothing was started"
        done = f"{self.done} of {count_of(len(self.directories), 'partition')} done"
        if self.done == len(self.directories):
            return done
        return (f"{done}, the next one is {printable(self.directories[self.done])}; unfinished files are as after a crash: "
                "run the command again to continue")


class _Remote:
    """Remote segments of partitions, and what is found out about them while they are read.

    files  with them, if `open_whole` gives any
    """

    def __init__(self, files: ReadOnlyFiles, open_whole: OpenWhole | None, outcome: Outcome) -> None:
        self._said: dict[str, list[Finding]] = {}  # by directory
        self._whole = None if open_whole is None else open_whole(files, outcome=outcome, report=self._note)
        self.files = self._whole or files

    def _note(self, directory: str, finding: Finding) -> None:
        self._said.setdefault(directory, []).append(finding)

    def verify(self, topics: Topics, directory: str, stop: Event) -> _Verified:
        """Verify a partition with its remote segments."""
        result = _verify(self.files, topics, directory, stop)
        if self._whole is not None and result.error is None and not stop.is_set():
            try:
                self._whole.check_beside(directory)
            except KafkalogError as error:
                return result._replace(verification=None, error=error)
        return result

    def add(self, result: _Verified) -> _Verified:
        """With what is known of remote segments only; findings name their objects."""
        whole, done = self._whole, result.verification
        if whole is None:
            return result
        findings = [whole.named(finding) for finding in result.findings]
        if done is None:
            return result._replace(findings=findings)
        more = self._said.pop(done.path.rstrip("/"), [])
        done.is_broken |= any(finding.severity is not Severity.INFO for finding in more)
        return result._replace(findings=findings + more, remote=whole.remote_segments(done.path))


def _rebuilt(result: _Verified, directory: str, topics: Topics, begun: Begun) -> _Verified:
    """Rebuild the broken files in `directory`, and verify it again."""
    try:
        names = begun.rebuild(directory, topics.config(directory), topics.policy(directory).tiering, result.findings)
        after = _verify(begun.files, topics, directory, Event())
    except KafkalogError as error:
        return result._replace(error=error)
    left = {(finding.code, finding.where.file) for finding in after.findings}
    gone = (finding for finding in result.findings if (finding.code, finding.where.file) not in left)
    return after._replace(rebuilt=tuple(names), repaired=tuple(gone))


def _directories(files: ReadOnlyFiles, paths: Iterable[str]) -> list[str]:
    """Return the directories among `paths`, which may be patterns."""
    named = (one for path in paths for one in expand(files, path) if files.exists(one))
    return [one for one in named if files.info(one).is_directory]


def _partitions(
    files: ReadOnlyFiles, paths: Iterable[str], choice: PartitionChoice, outcome: Outcome
) -> tuple[list[str], list[Cluster]]:
    """Return the directories with files of a partition, each once, in order, and the findings about their log dirs."""
    from engine.log.logdir.start_problems import survey_start

    expanded: dict[str, list[str]] = {}
    for path in paths:
        try:
            expanded[path] = list(expand(files, path))
        except KafkalogError as error:
            outcome.error(error)
    clusters: list[Cluster] = []
    try:
        clusters = survey_start(files, [one for matches in expanded.values() for one in matches], outcome.finding, choice)
    except KafkalogError as error:
        outcome.error(error)
    found: dict[str, None] = {}
    for path, matches in expanded.items():
        try:
            holds_any = False
            for match in matches:
                discovery = discover(files, match, choice=choice)
                for finding in discovery.findings:
                    if _is_lost_segment(files, finding.where.file):
                        holds_any = True
                        found[parent_of(finding.where.file)] = None  # reported with the other findings of the partition
                    elif not _is_reported_with_its_partition(finding):
                        outcome.finding(finding)
                here = [parent_of(one) if "/" in one else "." for one in discovery.paths if _counts(one)]
                holds_any |= bool(here)
                found.update(dict.fromkeys(here))
            if not holds_any and choice.is_all:
                found.update(dict.fromkeys(_without_files(files, path, matches)))
            found.update(dict.fromkeys(_replicas(files, matches, choice)))
        except KafkalogError as error:
            outcome.error(error)
    return _once(files, found), clusters


def _once(files: ReadOnlyFiles, directories: Iterable[str]) -> list[str]:
    """Return `directories` without other paths of the same directory. Reading a vanished one will report it."""
    spelled: dict[str, str] = {}  # real path → the first path given for it
    for directory in directories:
        try:
            spelled.setdefault(files.resolve(directory), directory)
        except UnreadableFile:
            spelled[directory] = directory
    return list(spelled.values())


def _replicas(files: ReadOnlyFiles, matches: Iterable[str], choice: PartitionChoice) -> Iterator[str]:
    """Return the chosen replicas in whole log dirs at or below `matches`, also those that have lost all their segments."""
    for match in matches:
        if is_url(match) or not files.info(match).is_directory:
            continue
        with suppress(UsageError):  # nothing is chosen, or it is no log dir
            for log_dir in choose_partitions(find_log_dirs(files, [match]), choice):
                yield from (one.path for one in log_dir.partitions(*LIVE))


def _without_files(files: ReadOnlyFiles, path: str, matches: Iterable[str]) -> list[str]:
    """Return the partitions among `matches`, the expansion of `path`, in which there is no file of a partition.

    Raises UsageError for a file, and if other commands would find nothing to work on either.
    """
    if not any(files.info(match).is_directory for match in matches):
        raise UsageError(f"{path}: its name is not that of a file of a partition", path=path)
    log_dirs = find_log_dirs(files, [match for match in matches if files.info(match).is_directory])
    return [one.path for log_dir in log_dirs if not log_dir.is_whole for one in log_dir.directories]


def _counts(path: str) -> bool:
    name = parse_file_name(path.rpartition("/")[2])
    return name is not None and name.kind in _OF_A_PARTITION and name.remote_id is None


def _is_reported_with_its_partition(finding: Finding) -> bool:
    """Return whether verifying the partition reports the same name, too."""
    name = parse_file_name(file_name(finding.where.file))
    return finding.code == "name-invalid" and name is not None and not name.suffix and name.kind in WITHOUT_OFFSET


def _is_lost_segment(files: ReadOnlyFiles, path: str) -> bool:
    """Return whether `path` has the name of a segment's log and is a dangling link."""
    name = parse_file_name(file_name(path))
    is_log = name is not None and name.kind is FileKind.LOG and name.base_offset is not None and not name.suffix
    return is_log and not files.exists(path)


def _verify(files: ReadOnlyFiles, topics: Topics, directory: str, stop: Event) -> _Verified:
    findings: list[Finding] = []
    try:
        done = verify_partition(files, directory, findings.append, lambda: not stop.is_set(), partial(topics.policy, directory))
        return _Verified(findings, done, None)
    except KafkalogError as error:
        return _Verified(findings, None, error)


def _show(
    result: _Verified, outcome: Outcome, stream: JsonStream | None, say: Callable[[str], object], *, quiet: bool
) -> None:
    for finding in result.repaired:
        outcome.finding(finding, repaired=True)
    for finding in result.findings:
        outcome.finding(finding)
    if result.error is not None:
        outcome.error(result.error)
    done = result.verification
    if done is None:
        return
    if stream is not None:
        if result.rebuilt:
            stream.put("rebuilt", {**text_field("path", done.path), "files": list(result.rebuilt)})
        stream.put("verification", verification_fields(done, result.remote))
        return
    if quiet and done.worst in (None, Severity.INFO) and not result.rebuilt:
        return
    parts = (
        count_of(done.segments, "segment") + (f", {result.remote} of them remote" if result.remote else ""),
        count_of(done.batches, "batch"),
        count_of(done.offset_entries + done.time_entries, "index entry"),
        count_of(done.aborted_transactions, "aborted transaction"), count_of(done.producer_snapshots, "snapshot"),
        count_of(done.leader_epochs, "leader epoch"),
    )
    if result.rebuilt:
        say(f"{printable(done.path)}: rebuilt {', '.join(result.rebuilt)}")
    say(f"{printable(done.path)}: {verification_verdict(done)} ({', '.join(parts)})")


def _few(partitions: list[str]) -> list[str]:
    """Return the partitions, or, if there are many, their parent directories."""
    return partitions if len(partitions) <= _NAMED else sorted({parent_of(path) if "/" in path else "." for path in partitions})


def _severity(done: Verification) -> Severity:
    """Return the severity of the verdict."""
    if done.is_log_damaged:
        return Severity.ERROR
    return Severity.WARNING if done.is_broken or done.worst not in (None, Severity.INFO) else Severity.INFO


class Begun(NamedTuple):
    """`rebuild`: rebuilds a partition: path, settings, tiering, findings → names of files; it uses `files`."""

    files: ReadOnlyFiles
    rebuild: Callable[[str, LogConfig, Tiering, list[Finding]], list[str]]


class Rebuild:
    """The options for rebuilding broken files.

    now  ms since 1970        quarantines  None: replaced files are not kept        form  of the output
    asks  whether a question is possible
    """

    def __init__(self, now: int, quarantines: Quarantines | None, form: str, *, dry_run: bool, asks: bool) -> None:
        self.now, self.dry_run, self._form = now, dry_run, form
        self._quarantines, self._asks = quarantines, asks

    def ask(self, files: ReadOnlyFiles, directories: list[str]) -> None:
        """Ask if it cannot be undone, or if there are several log dirs. Raises Declined."""
        log_dirs = sorted({parent_of(files.absolute(directory)) for directory in directories})
        is_final = self._quarantines is None
        if not self._asks or self.dry_run or not (is_final or len(log_dirs) > 1):
            return
        undo = "; this cannot be undone" if is_final else ""
        size = sum(
            stamp.size for directory in directories for name, stamp in list_files(files, directory).items()
            if not is_log_file_name(name)
        )  # fmt: skip
        count = count_of(len(directories), "partition")
        what = (f"{log_dirs_text(log_dirs)}, {count}, deletes or replaces at most {shown_size(size)} (--dry-run shows how "
                "much)")
        if not agreed(f"verify --rebuild: {what}{undo}"):
            raise Declined

    @contextmanager
    def begun(self, disk: Files, directories: list[str], errors: list[KafkalogError]) -> Iterator[Begun]:
        """Lock the log dirs of the partitions in `directories`, so that the block can rebuild files.

        errors  receives errors of quarantines that cannot be completed
        Raises LogDirLocked, UnwritableFile.
        """
        from engine.log.logdir.log_dirs import not_permitted
        from engine.log.session import open_dirs
        from engine.log.verify.rebuild import Rebuilder

        around = {directory: parent_of(disk.absolute(directory)) for directory in directories}
        first: dict[str, str] = {}  # real path → its first spelling: root checks the links on it
        spelled = {path: first.setdefault(disk.resolve(path), path) for path in dict.fromkeys(around.values())}
        log_dir_of = {directory: spelled[path] for directory, path in around.items()}
        log_dirs = list(dict.fromkeys(log_dir_of.values()))
        load_everything(disk, [*log_dirs, *directories])
        dirs = None
        try:
            with open_dirs(disk, log_dirs, directories, self._quarantines, now=self.now, dry_run=self.dry_run) as dirs:
                errors += not_permitted(disk, log_dirs, directories) if self.dry_run else ()
                dirs.begin()
                files_of = dirs.files_of

                def rebuild(directory: str, config: LogConfig, tiering: Tiering, findings: list[Finding]) -> list[str]:
                    disk = files_of(log_dir_of[directory])
                    return list(Rebuilder(disk, directory, config, findings, self.now, tiering).run())

                try:
                    yield Begun(dirs.files, rebuild)
                finally:
                    INTERRUPTION.defer_to_end()
        finally:
            errors += () if dirs is None else dirs.errors

    def say(self, stream: JsonStream | None) -> None:
        """Print where replaced files are kept."""
        from kafkalog_cli.partitions import print_kept, put_kept

        if self._quarantines is not None:
            put_kept(self._quarantines, stream, dry_run=self.dry_run)
            print_kept(self._quarantines, self._form, dry_run=self.dry_run)

"""kafkalog export."""

from __future__ import annotations

import sys
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from engine.amounts import count_of, offsets_text
from engine.discovery.names import is_url, partition_of
from engine.discovery.paths import is_log_07
from engine.discovery.patterns import expand
from engine.dump.json_stream import sentence, text_field
from engine.dump.text_buffer import TextBuffer
from engine.errors import EMPTY_PATH, KafkalogError, UnreadableFile, UnwritableFile, UsageError, argument
from engine.export.rows import COLUMNS, DECODED, RECORD_COLUMNS, ExportedPartition
from engine.export.target import Destination, ExportDirectory, Part, held_directory, refuse_log_dirs
from engine.files import Files, look
from engine.findings import Severity
from engine.log.fetch.replicas import read_best_replica
from engine.log.finding_limits import FindingLimiter
from engine.log.logdir.log_dirs import find_replicas
from kafkalog_cli.app import Outcome, Total, printable
from kafkalog_cli.decoders import DECODING, decode_options, topic_decoders
from kafkalog_cli.engine_options import WHICH, choice_from, choice_options
from kafkalog_cli.fetch_output import Limit, Wanted
from kafkalog_cli.fetched_log import Log, Source, open_log
from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.options import (
    PATH_OR_URL,
    files_for,
    format_option,
    jobs_option,
    quiet_option,
    shown_size,
    verbose_option,
    version_option,
)
from kafkalog_cli.output import BackgroundWriter, json_stream, raw_stdout
from kafkalog_cli.remote_store import WHOLE, choose_store, store_config_option, whole_options
from kafkalog_cli.selecting import EARLIEST, NO_END, OffsetRange, isolation_option, time_option
from kafkalog_cli.workers import in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from threading import Event

    from engine.dump.topic_decoders import TopicDecoders
    from engine.export.rows import Sink
    from engine.files import ReadOnlyFiles
    from engine.findings import Finding
    from engine.log.fetch.records import Run
    from engine.schema.decode import RecordDecoder

_SECTIONS = (
    WHICH,
    Section("Which records", ("--offset", "--time", "--isolation")),
    Section(WHOLE.title, (*WHOLE.options, "--config-file")),
    Section("Where to, and how", ("--to", "--as", "--columns", *DECODING, "--csv-safe", "--resume", "--jobs")),
    Section("Messages", ("--format", "--quiet", "--verbose")),
)
_MAIN = ("--to", "--as", "--topic", "--resume")
_EXAMPLES = (
    Example("A topic as Parquet, one file for each partition:", "kafkalog export -t orders --to out/ --as parquet data"),
    Example("Continue it, or add what was appended since then:",
            "kafkalog export -t orders --to out/ --as parquet --resume data"),
    Example("Yesterday's committed records, for a spreadsheet:",
            "kafkalog export --time 2026-11-26:2026-11-27 --isolation read_committed --as csv --csv-safe --to day.csv "
            "data/orders-7"),
    Example("With the older records, from remote storage:",
            "kafkalog export -t orders --store s3://kafka-tiered --to out/ --as parquet data-1 data-2"),
    Example("JSON lines of some columns, to stdout:",
            "kafkalog export --as jsonl --columns offset,key,value --to - data/orders-7"),
)
_FORMS = ("jsonl", "csv", "arrow", "parquet")
_TABLES = ("arrow", "parquet")  # these need pyarrow
_STDOUT = "-"


class ColumnList(click.ParamType[tuple[str, ...]]):
    """Names of columns, separated by commas."""

    name = "columns"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Convert text. Raises click.BadParameter for a name that is unknown or repeated."""
        if isinstance(value, tuple):
            return value
        names = tuple(name.strip() for name in str(value).split(","))
        for name in names:
            if name not in COLUMNS and name not in DECODED:
                self.fail(f"{name!r} is not one of {', '.join((*COLUMNS, *DECODED))}", param, ctx)
            if names.count(name) > 1:
                self.fail(f"{name} is named more than once", param, ctx)
        return names


@click.command("export", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS, main_options=_MAIN)
@click.argument("paths", nargs=-1, required=True, type=PATH_OR_URL)
@choice_options
@click.option("--to", required=True, type=click.Path(), metavar="FILE|DIR|-",
              help="The file to write; a directory (one that exists, or a name that ends with /) for one file for each "
                   "partition; or - for stdout. It must be outside of log dirs. Only --resume replaces files, its own.")
@click.option("--as", "kind", required=True, type=click.Choice(_FORMS),
              help="jsonl: JSON lines. csv: RFC 4180. arrow: Arrow's file format; on stdout, its stream format. parquet: row "
                   "groups of 131072 rows. The last two need pyarrow.")
@click.option("--columns", type=ColumnList(), metavar="NAME,…",
              help=f"The columns, in this order: {', '.join((*COLUMNS, *DECODED))}. Default: the first {len(RECORD_COLUMNS)}, "
                   "and with --decode the last two.")
@click.option("--offset", "offsets", type=OffsetRange(with_ends=True), metavar="A:B",
              help="Offsets from A up to, not including, B, of each partition. A alone has no end; A may be earliest, latest, "
                   "or -N: N offsets before the end. Default: earliest.")
@time_option
@isolation_option
@decode_options("Add, as JSON in the columns decodedKey and decodedValue,")
@whole_options
@store_config_option
@click.option("--csv-safe", is_flag=True,
              help="In CSV, put a ' before each text that a spreadsheet could take for a formula: one that begins with = + - @ "
                   "' or a control character.")
@click.option("--resume", is_flag=True,
              help="Continue an export to a directory: keep complete files, add records that were appended since then, and "
                   "write what is missing. A file that was not complete is written again from its start.")
@jobs_option("Partitions at a time; each needs memory for one row group. Default: one for each processor, up to 8.")
@format_option
@quiet_option
@verbose_option
@version_option
def command(paths: tuple[str, ...], **values: Any) -> int:
    """Write the records of partitions to files for other programs.

    The rows are the same as in `fetch`, and as in Spark with level `records`. PATHS are partition directories, log directories
    or trees of them; they may be URLs (s3://BUCKET/KEY), and brokers may write to them meanwhile. Of several replicas, export
    reads the most complete one. A file gets its name when it is complete. Nothing in PATHS is changed.
    """
    _refuse_contradictions(values)
    decoders = topic_decoders(values, (*paths, *values["log_dirs"]))
    with ExitStack() as opened:
        messages = opened.enter_context(TextBuffer(raw_stdout())) if values["form"] != "text" else None
        stream = None if messages is None else json_stream(values["form"], messages, "export")
        outcome = Outcome(stream=stream, verbose=values["verbose"], quiet=values["quiet"])
        try:
            _Export(paths, values, decoders, outcome).run()
        except KafkalogError as error:
            outcome.error(error)
        status = outcome.finish()
        if messages is not None:
            messages.flush()
    return status


def _refuse_contradictions(values: dict[str, Any]) -> None:
    """Raise click.UsageError for options that exclude each other, and for a format that needs a missing package."""
    kind, columns = values["kind"], values["columns"]
    if not values["to"]:
        raise click.UsageError(f"--to: {EMPTY_PATH}")
    if is_url(values["to"]):
        what = "--to names a file or directory on this machine; copy the files to the object store with its own tools"
        raise click.UsageError(what)
    if values["to"] == _STDOUT and values["form"] != "text":
        raise click.UsageError("with --to - the records are on stdout: remove --format")
    if values["to"] == _STDOUT and values["resume"]:
        raise click.UsageError("--resume continues files in a directory: name one with --to")
    if values["to"] == _STDOUT and kind in _TABLES and sys.stdout.isatty():
        raise click.UsageError(f"--as {kind} writes control characters to the terminal: write to a file or a pipe")
    if values["csv_safe"] and kind != "csv":
        raise click.UsageError("--csv-safe is for --as csv")
    decodes = values["decode"] is not None or values["schema"] is not None
    if columns is not None and decodes != any(name in DECODED for name in columns):
        what = "are missing in --columns" if decodes else "need --decode auto"
        raise click.UsageError(f"the columns {' and '.join(DECODED)} {what}")
    if kind in _TABLES and find_spec("pyarrow") is None:
        raise click.UsageError(f"--as {kind} needs pyarrow: pip install 'kafkalog[arrow]', or use --as jsonl or --as csv")


class _Result(NamedTuple):
    """What became of a partition. part: of its whole content in the file; None: it failed.  new: records of this run."""

    directory: str
    findings: list[Finding]
    part: Part | None = None
    new: int = 0
    file: str | None = None
    error: KafkalogError | None = None


class _Stdout:
    """Standard output as pyarrow and TextBuffer write to it."""

    closed = False

    def __init__(self, write: Callable[[memoryview], object]) -> None:
        self._write, self._size, self._is_given_up = write, 0, False

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        if not self._is_given_up:
            self._write(view)
        self._size += len(view)
        return len(view)

    def tell(self) -> int:
        return self._size

    def flush(self) -> None: ...

    def close(self) -> None: ...

    def give_up(self) -> None:
        self._is_given_up = True


class _Export:
    """An export: its partitions, columns and target."""

    def __init__(
        self, paths: tuple[str, ...], values: dict[str, Any], decoders: TopicDecoders | None, outcome: Outcome
    ) -> None:  # fmt: skip
        from engine.formats import LONG_MIN
        from engine.record.selection import Selection

        self._values, self._outcome, self._to, self._kind = values, outcome, values["to"], values["kind"]
        self._paths, self._store = paths, choose_store(values, paths)
        if values["log_dirs"] and self._store is None and decoders is None:
            raise click.UsageError("--log-dir needs --store, a --config-file that names a store, or --decode")
        files = files_for((*paths, *values["log_dirs"]))
        self._of_metadata: list[Finding] = []  # problems of __remote_log_metadata, which several threads may find
        self._source = Source(files, None if self._store is None else self._store.open(files, self._of_metadata.append))
        self._jobs, self._decoders = values["jobs"], decoders
        if decoders is not None:
            decoders.report = outcome.finding
        defaults = (*RECORD_COLUMNS, *(DECODED if decoders is not None else ()))
        self._columns: tuple[str, ...] = values["columns"] or defaults
        first, end = values["offsets"] or (EARLIEST, NO_END)
        from_ms, to_ms = values["times"] or (None, None)
        limits: dict[str, Any] = {"end_offset": end, "from_ms": from_ms, "to_ms": to_ms}
        self._wanted = Wanted(
            start=EARLIEST if first == LONG_MIN else first,
            selection=Selection(**{name: limit for name, limit in limits.items() if limit is not None}),
            max_bytes=None, isolation=values["isolation"], open_transactions=None, log_dirs=(), follow=False, merge=False,
            log_start_offset=None, high_watermark=None, template=None, form="text", raw=False, force=False, jobs=self._jobs,
        )  # fmt: skip
        self._total, self._records = Total(), 0

    def run(self) -> None:
        """Write the records of all partitions, and print what was written."""
        if self._to == _STDOUT:
            self._to_stdout(self._directories())
        else:
            files = Files()
            with held_directory(files, self._to):
                refuse_log_dirs(files, self._to)
                directories = self._directories()
                if self._is_directory(files):
                    self._to_directory(files, directories)
                else:
                    self._to_file(files, directories)
        self._total.say(count_of(self._records, "record"), quiet=self._outcome.is_quiet or not self._outcome.is_text,
                        err=self._to == _STDOUT)  # fmt: skip

    def _directories(self) -> list[str]:
        files = self._source.files
        named = [path for pattern in self._paths for path in expand(files, pattern)]
        found = find_replicas(files, named, choice_from(self._values))
        return [read_best_replica(files, replicas, self._outcome.finding) for replicas in found]

    def _is_directory(self, files: Files) -> bool:
        there = look(files, self._to)
        if there is None:
            return self._to.endswith("/") or bool(self._values["resume"])
        if there.is_directory:
            return True
        what = "it already exists, and is not replaced"
        if self._values["resume"]:
            what = "a file: --resume continues the files in a directory"
        raise UsageError(f"{self._to}: {what}", "name another file or directory", path=self._to)

    # ---- targets

    def _to_directory(self, files: Files, directories: list[str]) -> None:
        values = self._values
        settings = {
            "as": self._kind, "columns": ",".join(self._columns), "isolation": values["isolation"],
            "offset": values["offsets"] and [str(one) for one in values["offsets"]],
            "time": values["times"] and list(values["times"]), "csv-safe": values["csv_safe"],
            "decode": values["decode"], "schema": values["schema"], "store": values["store"],
            "config-file": values["config_file"] if self._store is not None and not self._store.is_named else None,
        }  # fmt: skip
        with closing(ExportDirectory(files, self._to, settings, resume=values["resume"])) as target:
            work = partial(self._one_file, target, len(directories) == 1)
            with closing(in_order(work, directories, self._jobs)) as results:
                for result in results:
                    self._show(result)
                    if isinstance(result.error, UnwritableFile):  # the next file would fail as well
                        return

    def _one_file(self, target: ExportDirectory, is_alone: bool, directory: str, stop: Event) -> _Result:
        """Write the file of a partition, or what is missing in it."""
        found: list[Finding] = []
        report = FindingLimiter(found.append)
        try:
            name = f"{_name_of(self._source.files, directory)}.{self._kind}"
            former = target.part(name)
            with closing(self._opened(directory, report, former)) as log:
                if former is not None and log.start >= min(log.view.log_end_offset, self._wanted.selection.end_offset):
                    return _Result(directory, found, former, 0, f"{target.path}/{name}")
                destination = target.destination(name)
                try:
                    with self._sink(destination, self._jobs if is_alone else 1, former) as sink:
                        if former is not None:
                            self._take_over(f"{target.path}/{name}", destination, sink)
                        new = self._copy(log, sink, report, stop)
                        part = Part(log.start if former is None else former.first, max(log.start, log.fetcher.offset),
                                    new + (0 if former is None else former.records), 0)  # fmt: skip
                        sink.close([_range(self._exported_partition(directory, report), part)])
                    report.finish()
                    part = part._replace(size=destination.size, problems=_problems(found) + (former.problems if former else 0))
                    target.commit(name, destination, part, replaces=former is not None)
                except BaseException:
                    destination.remove()
                    raise
            return _Result(directory, found, part, new, f"{target.path}/{name}")
        except KafkalogError as error:
            return _Result(directory, found, error=error)

    def _take_over(self, path: str, destination: Destination, sink: Sink) -> None:
        """Copy the rows of a complete file into the new one."""
        if self._kind in _TABLES:
            from engine.export.tables import TableFile

            assert isinstance(sink, TableFile)
            with Files().open(path) as file:
                sink.take_over(file)
        else:
            destination.take_over(path)

    def _to_file(self, files: Files, directories: list[str]) -> None:
        destination = Destination(files, self._to, f"{self._to}.part")
        try:
            self._all_in_one(destination, directories)
            destination.sync()
            destination.commit()
        except BaseException:
            destination.remove()
            raise

    def _to_stdout(self, directories: list[str]) -> None:
        with BackgroundWriter(raw_stdout()) as writer:
            self._all_in_one(_Stdout(raw_stdout() if self._kind in _TABLES else writer.write), directories)
            writer.drain()

    def _all_in_one(self, destination: Any, directories: list[str]) -> None:
        """Write all partitions to one destination. Raises KafkalogError: a file without one of them would mislead."""
        ranges: list[dict[str, object]] = []
        with self._sink(destination, self._jobs, None) as sink:
            for directory in directories:
                found: list[Finding] = []
                report = FindingLimiter(partial(self._noted, found))
                with closing(self._opened(directory, report, None)) as log:
                    new = self._copy(log, sink, report, None)
                    part = Part(log.start, max(log.start, log.fetcher.offset), new, 0)
                report.finish()
                part = part._replace(problems=_problems(found))
                ranges.append(_range(self._exported_partition(directory, report), part))
                self._show(_Result(directory, [], part, new, None if self._to == _STDOUT else self._to))
            sink.close(ranges)

    def _noted(self, found: list[Finding], finding: Finding) -> None:
        found.append(finding)
        self._outcome.finding(finding)

    @contextmanager
    def _sink(self, destination: Any, jobs: int, former: Part | None) -> Iterator[Sink]:
        """Open the sink of this format into `destination`. former: rows that the caller adds first."""
        sink: Sink
        with ExitStack() as opened:
            if self._kind in _TABLES:
                from engine.export.tables import TableFile

                form = "stream" if self._kind == "arrow" and self._to == _STDOUT else self._kind
                sink = TableFile(form, self._columns, destination, ahead=jobs > 1)
            else:
                from engine.export.text import CsvLines, JsonLines

                out = opened.enter_context(TextBuffer(destination.write, jobs=jobs))
                escape = self._to == _STDOUT and sys.stdout.isatty()
                sink = JsonLines(self._columns, out, escape=escape) if self._kind == "jsonl" else CsvLines(
                    self._columns, out, guard=self._values["csv_safe"], escape=escape, has_heading=former is None,
                )  # fmt: skip
            try:
                yield sink
            except BaseException:
                sink.abandon()
                raise

    # ---- partitions

    def _opened(self, directory: str, report: Callable[[Finding], None], former: Part | None) -> Log:
        if is_log_07(self._source.files, directory):
            do = f"kafkalog fetch --format jsonl {argument(directory)}"
            raise UsageError(f"{directory}: a log of Kafka 0.7, which export does not read", do, path=directory)
        log = open_log(directory, self._wanted, report, self._source, None if former is None else former.next)
        assert isinstance(log, Log)
        end = log.view.log_end_offset
        if former is not None and former.next > end:
            log.close()
            what = f"{directory}: the file ends before offset {former.next}, the log before {end}: truncated, or another one"
            raise UnreadableFile(what, "export it to another directory", path=directory)
        return log

    def _exported_partition(self, directory: str, report: Callable[[Finding], None]) -> ExportedPartition:
        files = self._source.files
        partition = partition_of(f"{files.absolute(directory.rstrip('/'))}/x")
        topic, number = ("", 0) if partition is None else (partition.topic, partition.partition)
        return ExportedPartition(sentence(topic), number, sentence(directory), directory, report, self._decoder(directory))

    def _decoder(self, directory: str) -> RecordDecoder | None:
        path = f"{directory.rstrip('/')}/x"
        return None if self._decoders is None else self._decoders.of(path, partition_of(self._source.files.absolute(path)))

    def _copy(self, log: Log, sink: Sink, report: Callable[[Finding], None], stop: Event | None) -> int:
        """Write the records of a log, and return their number."""
        shown = Limit(0, None)
        sink.begin(self._exported_partition(log.path, report))
        log.show(_Rows(sink, stop), shown)
        sink.end()
        return shown.shown

    # ---- output

    def _show(self, result: _Result) -> None:
        """Print what became of a partition."""
        while self._of_metadata:
            self._outcome.finding(self._of_metadata.pop(0))
        for finding in result.findings:
            self._outcome.finding(finding)
        if result.error is not None:
            self._outcome.error(result.error)
        part = result.part
        verdict = "failed" if part is None else "with problems" if part.problems else "exported"
        self._total.add(verdict, Severity.INFO if verdict == "exported" else Severity.ERROR)
        if part is None:
            return
        if part.problems:
            self._outcome.at_least(4)  # also for a file of an earlier run
        self._records += result.new
        partition = partition_of(f"{self._source.files.absolute(result.directory.rstrip('/'))}/x")
        name = result.directory if partition is None else f"{partition.topic}-{partition.partition}"
        added = "" if result.new == part.records else f", {result.new} of them new" if result.new else ", complete before"
        added += f", {count_of(part.problems, 'problem')} when they were read" if part.problems and not result.new else ""
        line = f"{name}: {count_of(part.records, 'record')}, {offsets_text(part.first, part.next)}{added}"
        if result.file is not None and result.file != self._to:
            line += f" -> {result.file}" + (f" ({shown_size(part.size)})" if part.size else "")
        self._outcome.put("exported", {
            **text_field("path", result.directory), **text_field("file", result.file or _STDOUT),
            "first_offset": part.first, "next_offset": part.next, "records": part.records, "new_records": result.new,
        }, None if self._outcome.is_quiet or self._to == _STDOUT else printable(line))  # fmt: skip


class _Rows:
    """A Renderer that passes records to a sink. stop: ends the work when it is set."""

    def __init__(self, sink: Sink, stop: Event | None) -> None:
        self._sink, self._stop = sink, stop

    def run(self, run: Run, limit: int | None) -> int:
        """Write at most `limit` records of a run, and return their number."""
        if self._stop is not None and self._stop.is_set():
            raise KeyboardInterrupt
        run = run.at_most(limit)
        self._sink.run(run)
        return run.end - run.first

    def record(self, _record: Any) -> None:
        """Not called: only logs of Kafka 0.7 have single records."""


def _name_of(files: ReadOnlyFiles, directory: str) -> str:
    partition = partition_of(f"{files.absolute(directory.rstrip('/'))}/x")
    assert partition is not None  # find_replicas returns only these
    return f"{partition.topic}-{partition.partition}"


def _problems(found: list[Finding]) -> int:
    """Return the number of findings other than harmless ones."""
    return sum(one.occurrences for one in found if one.severity is not Severity.INFO)


def _range(source: ExportedPartition, part: Part) -> dict[str, object]:
    return {"topic": source.topic, "partition": source.partition, "first_offset": part.first, "next_offset": part.next,
            "records": part.records}  # fmt: skip

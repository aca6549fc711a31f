"""kafkalog grep."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from engine.discovery.names import (
    CLEANED,
    DELETED,
    LOGS,
    FileKind,
    PartitionKind,
    file_name,
    parent_of,
    parse_file_name,
    partition_of,
)
from engine.discovery.paths import discover, nothing_found
from engine.discovery.patterns import expand
from engine.dump.json_stream import text_field
from engine.dump.selection import PassedSegments, may_hold_matches
from engine.dump.text_buffer import TextBuffer
from engine.errors import KafkalogError, UsageError, argument
from engine.record.selection import FieldPattern
from kafkalog_cli.app import Outcome, printable
from kafkalog_cli.decoders import DECODING, decode_options, topic_decoders
from kafkalog_cli.engine_options import WHICH, choice_from, choice_options
from kafkalog_cli.fetch_output import TEMPLATE_HELP, Limit, TextRecords, partition_fields, record_fields
from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.options import (
    PATH_OR_URL,
    Whole,
    files_for,
    format_option,
    jobs_option,
    quiet_option,
    size_option,
    verbose_option,
    version_option,
)
from kafkalog_cli.output import BackgroundWriter, json_stream, raw_stdout
from kafkalog_cli.selecting import SELECTION, OffsetRange, pattern_from, selection_from, selection_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.discovery.names import FileName, PartitionDir
    from engine.dump.json_stream import JsonStream
    from engine.dump.search import Search
    from engine.dump.topic_decoders import TopicDecoders
    from engine.findings import Finding
    from engine.log.fetch.coordinator_logs import TransactionalIds
    from engine.log.fetch.records import Run
    from engine.record.batch import Record
    from engine.record.selection import Selection
    from engine.schema.decode import RecordDecoder

_SECTIONS = (
    WHICH,
    Section("What to search for", ("--in-key", "--in-value", "--in-header", "--fixed-strings", "--regex", "--ignore-case")),
    Section("Which records", (*SELECTION, "--max-count", "--include-deleted")),
    Section("Output", (
        "--count", "--files-with-matches", "--only-matching", "--after-context", "--before-context", "--template", "--force",
        "--format", *DECODING, "--quiet", "--verbose",
    )),
    Section("Limits", ("--jobs", "--max-decompressed-bytes", "--max-batch-bytes")),
)
_MAIN = ("--in-key", "--in-value", "--fixed-strings", "--ignore-case", "--count", "--files-with-matches")
_EXAMPLES = (
    Example("Records that mention an order, in all partitions of a broker:", "kafkalog grep -F order-4711 /var/lib/kafka/data"),
    Example("How many records have such a key, in which segments:", "kafkalog grep -k -c '^user-[0-9]+$' data/users-0"),
    Example("Who wrote it: producer, epoch, sequence and transactional id:",
            "kafkalog grep -F order-4711 -f '%t-%p %o %P %E %q %X\\n' data"),
    Example("What was written just before and after each match:", "kafkalog grep -B 2 -A 2 -i error data/events-3"),
    Example("Offsets that a group committed:", "kafkalog grep --decode auto -k -F my-group data/__consumer_offsets-12"),
)
_DEFAULT = r"%t-%p:%o:%k: %s\n"
_AROUND = r"%t-%p-%o-%k- %s\n"  # of a record near a match
_DEFAULT_PART = r"%t-%p:%o:%m\n"


@click.command("grep", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS, main_options=_MAIN,
               statuses={"1": "nothing was found"})
@click.argument("pattern")
@click.argument("paths", nargs=-1, required=True, type=PATH_OR_URL)
@choice_options
@click.option("--in-key", "-k", is_flag=True, help="Search keys. Without -k, -s and -H: keys, values and headers.")
@click.option("--in-value", "-s", is_flag=True, help="Search values.")
@click.option("--in-header", "-H", metavar="NAME", help="Search the values of headers with this name.")
@click.option("--fixed-strings", "-F", is_flag=True, help="PATTERN is the text itself.")
@click.option("--regex", "-E", is_flag=True, help="PATTERN is a Python regular expression. The default.")
@click.option("--ignore-case", "-i", is_flag=True, help="Ignore upper and lower case.")
@click.option("--offset", "offsets", type=OffsetRange(), metavar="A:B",
              help="Only offsets from A up to, not including, B. A alone has no end.")
@selection_options
@click.option("--max-count", "-m", type=Whole(1), metavar="N", help="Only the first N matches of each log file.")
@click.option("--include-deleted", is_flag=True,
              help="Also search files and directories that brokers are about to delete: .deleted, .cleaned, -delete. "
                   "Files that PATHS name are always searched.")
@click.option("--count", "-c", is_flag=True, help="Show only the number of matches in each log file.")
@click.option("--files-with-matches", "-l", is_flag=True, help="Show only the log files that have matches.")
@click.option("--only-matching", "-o", is_flag=True, help="Show only the parts that match (%m in templates).")
@click.option("--after-context", "-A", type=Whole(0), default=0, metavar="N",
              help="Also show N records after each match, in the same log file.")
@click.option("--before-context", "-B", type=Whole(0), default=0, metavar="N",
              help="Also show N records before each match, in the same log file.")
@click.option("--template", "-f", metavar="FORMAT", help=f"{TEMPLATE_HELP} Default: '{_DEFAULT}'.")
@click.option("--force", is_flag=True, help="Write a template with raw bytes (%R, \\xHH) to a terminal as well.")
@format_option
@decode_options("Search and show")
@jobs_option("Threads that search. Default: one for each processor, up to 8.")
@size_option("--max-decompressed-bytes", default=256 << 20, help="Do not decompress batches to more than this.")
@size_option("--max-batch-bytes", default=64 << 20, help="Do not decode larger batches.")
@quiet_option
@verbose_option
@version_option
def command(pattern: str, paths: tuple[str, ...], **values: Any) -> int:
    """Search the records of logs.

    grep finds the records that match PATTERN, in every message format and codec. It decodes only batches that may hold a match.
    PATHS are files, partition directories, log directories, trees of them, or quoted patterns; they may be URLs
    (s3://BUCKET/KEY). It searches all data records in the files, also those of aborted transactions. Client ids, principals and
    addresses of producers are not on disk. grep changes nothing, and brokers may write to the logs meanwhile.

    The exit status is 0 if a record matches, 1 if none does, 4 if damage was found, 8 if a file cannot be read.
    """
    _refuse_contradictions(values)
    selection, decoders = _selection(pattern, values), topic_decoders(values, paths)
    with BackgroundWriter(raw_stdout()) as writer, TextBuffer(writer.write) as out:
        stream = json_stream(values["form"], out, "grep")
        outcome = Outcome(stream=stream, verbose=values["verbose"], quiet=values["quiet"])
        if outcome.is_verbose and outcome.is_text and not selection.literals():
            click.echo("note: the pattern requires no fixed text, so that every batch is decoded", err=True)
        found = 0
        try:
            found = _Grep(paths, selection, values, decoders, out, stream, outcome).run()
        except KafkalogError as error:
            out.flush()
            outcome.error(error)
        if not found:
            outcome.at_least(1)
        status = outcome.finish()
        out.flush()
        writer.drain()
    return status


def _refuse_contradictions(values: dict[str, Any]) -> None:
    """Raise click.UsageError for options that exclude each other."""
    if values["fixed_strings"] and values["regex"]:
        raise click.UsageError("--fixed-strings and --regex exclude each other")
    if values["count"] and (values["limit"] is not None or values["tail"] is not None or values["max_count"] is not None):
        raise click.UsageError("--count counts every match: remove --limit, --tail and --max-count")
    instead = [name for name in ("count", "files_with_matches", "only_matching") if values[name]]
    if len(instead) > 1:
        raise click.UsageError("use one of --count, --files-with-matches and --only-matching")
    if instead and (values["after_context"] or values["before_context"]):
        raise click.UsageError("--after-context and --before-context are for records")
    if values["tail"] is not None and (values["after_context"] or values["before_context"] or values["max_count"] is not None):
        raise click.UsageError("--tail is for matches alone: remove --after-context, --before-context and --max-count")
    if values["form"] != "text" and (values["only_matching"] or values["template"] is not None):
        raise click.UsageError("--only-matching and --template need --format text")


def _selection(text: str, values: dict[str, Any]) -> Selection:
    """Return the selection of the options and the pattern."""
    context = click.get_current_context()
    pattern = pattern_from(text, None, context, fixed=values["fixed_strings"], ignore_case=values["ignore_case"])
    first, end = values["offsets"] or (None, None)
    selection = selection_from(values, first_offset=first, end_offset=end)
    header = None if values["in_header"] is None else values["in_header"].encode("utf-8", "surrogateescape")
    is_any = not (values["in_key"] or values["in_value"] or header is not None)
    wanted = FieldPattern(pattern, values["in_key"] or is_any, values["in_value"] or is_any, is_any, header)
    return selection._replace(patterns=(wanted, *selection.patterns))


class _Grep:
    """Searches the logs of PATHS and prints what is found."""

    def __init__(
        self, paths: tuple[str, ...], selection: Selection, values: dict[str, Any], decoders: TopicDecoders | None,
        out: TextBuffer, stream: JsonStream | None, outcome: Outcome,
    ) -> None:  # fmt: skip
        self._files, self._paths, self._decoders = files_for(paths), paths, decoders
        if decoders is not None:
            decoders.report = outcome.finding
        self._selection, self._values, self._out, self._stream, self._outcome = selection, values, out, stream, outcome
        self._has_context = bool(values["before_context"] or values["after_context"])
        self._log_dirs: list[str] = []  # of the logs that are searched
        self._named: set[str] = set()  # files among PATHS
        self._names: dict[str, TransactionalIds] = {}  # by log dir

    def run(self) -> int:
        """Print the matches, and return their number."""
        logs, found = list(self._logs()), 0
        self._log_dirs = list(dict.fromkeys(self._log_dir(path) for path, _ in logs))
        search, limit = self._search(self._outcome.finding), self._limit(logs)
        passed = PassedSegments(self._files, self._selection)
        for path, name in logs:
            if limit.is_done():
                break
            try:
                found += self._one(search, path, name, limit, is_only=len(logs) == 1)
                if path not in self._named:
                    passed.add(path, name)
            except KafkalogError as error:
                self._out.flush()
                self._outcome.error(error)
        try:
            for finding in passed.losses(is_stopped=limit.is_done()):
                self._outcome.finding(finding)
        except KafkalogError as error:
            self._outcome.error(error)
        if self._values["count"] and len(logs) != 1:
            self._put_count(None, found)
        return found

    def _search(self, report: Callable[[Finding], None]) -> Search:
        from engine.dump.search import Search, SearchOptions

        same = ("before_context", "after_context", "jobs", "max_decompressed_bytes", "max_batch_bytes")
        return Search(self._files, self._selection, report, SearchOptions(*(self._values[name] for name in same)))

    def _limit(self, logs: list[tuple[str, FileName]]) -> Limit:
        """Return which matches are wanted. For --tail, all are counted first; the search after it reports the problems."""
        tail = self._selection.tail
        if tail is None:
            return Limit(0, self._selection.limit)
        search = self._search(lambda _finding: None)
        total = sum(search.count(path, name, self._decoder(path)) for path, name in logs)
        return Limit(max(total - tail, 0), tail)

    def _logs(self) -> Iterator[tuple[str, FileName]]:
        """Return the logs to search, in order. Files that PATHS name and that are not logs are errors."""
        for named in [path for pattern in self._paths for path in expand(self._files, pattern)]:
            try:
                found = discover(self._files, named, choice=choice_from(self._values))
            except KafkalogError as error:
                self._outcome.error(error)
                continue
            for finding in found.findings:
                self._outcome.finding(finding)
            if not found.paths:
                self._outcome.finding(nothing_found(named))
            for path in found.paths:
                name = parse_file_name(file_name(path))
                if name is not None and name.kind in LOGS:
                    is_wanted = path == named or self._values["include_deleted"] or not self._is_deleted(path, name)
                    if path == named:
                        self._named.add(path)
                    if is_wanted and may_hold_matches(self._files, path, name, self._selection):
                        yield path, name
                elif path == named or (name is not None and name.kind is FileKind.LOG_07):
                    self._outcome.error(_not_a_log(path, name))

    def _is_deleted(self, path: str, name: FileName) -> bool:
        partition = partition_of(self._files.absolute(path))
        return name.suffix.endswith((DELETED, CLEANED)) or (partition is not None and partition.kind is PartitionKind.DELETE)

    def _decoder(self, path: str) -> RecordDecoder | None:
        """Return the decoder of the records in the log at `path`; None: they are searched as they are."""
        return None if self._decoders is None else self._decoders.of(path, partition_of(self._files.absolute(path)))

    # ---- one log

    def _one(self, search: Search, path: str, name: FileName, limit: Limit, *, is_only: bool) -> int:
        """Search one log and print the result; return the number of matches, as far as they were needed.

        is_only  no other log is searched: its count is shown even if it is 0
        """
        values, decoder = self._values, self._decoder(path)
        if values["files_with_matches"]:
            found = search.count(path, name, decoder, most=1)
            if found:
                self._put("matching-file", path, {}, path)
            return found
        if values["count"]:
            found = search.count(path, name, decoder)
            if found or is_only:
                self._put_count(path, found)
            return found
        before, renderer = limit.shown, self._renderer(path)
        most = values["max_count"] if limit.left is None or self._selection.tail is not None else min(
            limit.left, values["max_count"] or limit.left
        )
        if decoder is None and not self._has_context and not values["only_matching"]:
            for run in search.runs(path, name, most):
                limit.show(renderer, run)
        else:
            for record, matches in search.records(path, name, decoder, most):
                renderer.show(record, limit, matches=matches)
        return limit.shown - before

    def _renderer(self, path: str) -> _Text | _Objects:
        partition = partition_of(self._files.absolute(path))
        if self._stream is not None:
            return _Objects(self._stream, path, partition)
        pattern = self._selection.patterns[0] if self._values["only_matching"] else None
        return _Text(path, partition, self._out, self._values, lambda producer: self._name_of(path, producer), pattern)

    def _log_dir(self, path: str) -> str:
        return parent_of(parent_of(self._files.absolute(path)))

    def _name_of(self, path: str, producer: int) -> str | None:
        """Return the transactional id of a producer, by the log dirs of the cluster of the log at `path` that are searched."""
        from engine.log.fetch.coordinator_logs import TransactionalIds
        from engine.log.logdir.startup import cluster_id

        own = self._log_dir(path)
        if own not in self._names:
            cluster = cluster_id(self._files, own)
            dirs = [other for other in self._log_dirs if cluster_id(self._files, other) == cluster] if cluster else [own]
            self._names.update(dict.fromkeys(dirs, TransactionalIds(self._files, dirs, self._outcome.finding)))
        return self._names[own].of(producer)

    def _put_count(self, path: str | None, found: int) -> None:
        self._put("match-count", path, {"records": found}, f"{'total' if path is None else path}:{found}")

    def _put(self, kind: str, path: str | None, fields: dict[str, object], text: str) -> None:
        """Print a line about a log, or an object of this kind."""
        if self._stream is not None:
            where: dict[str, object] = {"path": None} if path is None else text_field("path", path)
            self._stream.put(kind, {**where, **fields})
        else:
            shown = printable(text) if sys.stdout.isatty() else text
            self._out.put(shown.encode("utf-8", "surrogateescape") + b"\n")


def _not_a_log(path: str, name: FileName | None) -> UsageError:
    """Return the error for a file that is not searched."""
    if name is None:
        return UsageError(f"{path}: its name is not that of a file of Kafka", path=path)
    if name.kind is FileKind.LOG_07:
        what, do = f"{path}: a log of Kafka 0.7, which grep does not search", "kafkalog dump-log --print-data-log"
    else:
        what, do = f"{path}: grep searches the records of logs, and this file is not a log", "kafkalog dump-log"
    return UsageError(what, f"{do} {argument(path)} | grep PATTERN", path=path)


class _Text:
    """Prints the matches in one log by a template.

    only  the pattern whose matches are printed instead of records; None: records
    """

    def __init__(
        self, path: str, partition: PartitionDir | None, out: TextBuffer, values: dict[str, Any],
        name_of: Callable[[int], str | None], only: FieldPattern | None,
    ) -> None:  # fmt: skip
        template = values["template"] or (_DEFAULT if only is None else _DEFAULT_PART)
        around = values["template"] or _AROUND
        self._match, self._around = (
            TextRecords(text, partition, out, escape=sys.stdout.isatty(), force=values["force"], name_of=name_of,
                        match=None if only is None else b"")
            for text in (template, around)
        )  # fmt: skip
        self._match.path = self._around.path = path
        self._only, self._out = only, out
        self._has_context = bool(values["before_context"] or values["after_context"])
        self._last: int | None = None  # offset of the last record that was printed

    def run(self, run: Run, limit: int | None) -> int:
        """Print at most `limit` matches, and return their number."""
        return self._match.run(run, limit)

    def record(self, record: Record) -> None:
        """Print one match."""
        if self._only is None:
            self._match.record(record)
            return
        for field in self._only.fields(record.key, record.value, record.headers):
            for part in self._only.pattern.matches(bytes(field)):
                self._match.match = part
                self._match.record(record)

    def show(self, record: Record, limit: Limit, *, matches: bool) -> None:
        """Print a match if it is wanted, or a record near one. `--` is printed where records or offsets are left out."""
        if self._has_context and self._last is not None and record.offset != self._last + 1:
            self._out.put(b"--\n")
        self._last = record.offset
        if matches:
            limit.show_record(self, record)
        else:
            self._around.record(record)


class _Objects:
    """Prints the matches in one log as JSON objects."""

    def __init__(self, stream: JsonStream, path: str, partition: PartitionDir | None) -> None:
        self._stream = stream
        self._of = {**text_field("file", path), **partition_fields(partition)}

    def run(self, run: Run, limit: int | None) -> int:
        """Print at most `limit` matches, and return their number."""
        run = run.at_most(limit)
        for record in run.records():
            self.record(record)
        return run.end - run.first

    def record(self, record: Record) -> None:
        """Print one match."""
        self._put(record, matches=True)

    def show(self, record: Record, limit: Limit, *, matches: bool) -> None:
        """Print a match if it is wanted, or a record near one."""
        if matches:
            limit.show_record(self, record)
        else:
            self._put(record, matches=False)

    def _put(self, record: Record, *, matches: bool) -> None:
        batch = record.batch
        self._stream.put("match", {
            **self._of, "position": batch.position, "matches": matches, **record_fields(record),
            "producer_id": batch.producer_id, "producer_epoch": batch.producer_epoch, "sequence": record.sequence,
        })  # fmt: skip

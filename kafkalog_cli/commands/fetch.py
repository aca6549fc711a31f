"""kafkalog fetch."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from engine.discovery.names import is_url, parent_of
from engine.discovery.paths import is_log_07
from engine.discovery.patterns import expand
from engine.dump.text_buffer import TextBuffer
from engine.errors import KafkalogError, UnreadableFile, UsageError, argument
from engine.files import now_ms
from engine.formats import INT_MAX, LONG_MAX, LONG_MIN
from engine.log.errors import RecordsInRemoteStorage
from engine.log.fetch.reading import FetchIsolation, out_of_range, read
from engine.log.fetch.records import FetchLimits, RecordFetcher, by_time, last_matches
from engine.log.fetch.view import BEING_WRITTEN, PartitionView
from engine.log.logdir.log_dirs import find_log_dirs, find_replicas
from engine.log.logdir.topics import not_read, remote_log_start
from engine.record.selection import EVERYTHING, FIRST
from kafkalog_cli.app import Outcome
from kafkalog_cli.engine_options import WHICH, choice_from, choice_options
from kafkalog_cli.fetch_output import TEMPLATE_HELP, Limit, Output, ReadTally, Wanted, send
from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.options import (
    PATH_OR_URL,
    Size,
    Whole,
    files_for,
    format_option,
    jobs_option,
    quiet_option,
    verbose_option,
    version_option,
)
from kafkalog_cli.output import BackgroundWriter, raw_stdout
from kafkalog_cli.remote_store import STORE, choose_store, store_config_option, store_options
from kafkalog_cli.selecting import EARLIEST, LATEST, NO_END, SELECTION, OffsetRange, Until, selection_from, selection_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from engine.discovery.choice import PartitionChoice
    from engine.files import ReadOnlyFiles
    from engine.findings import Finding
    from engine.log.fetch.open_transactions import HeldBack
    from engine.log.fetch.records import Run
    from engine.remote.access import RemoteAccess
    from engine.remote.reading import TieredView
    from kafkalog_cli.fetch_07 import Log07
    from kafkalog_cli.fetch_output import Renderer


_SECTIONS = (
    Section(WHICH.title, (*WHICH.options, "--merge")),
    Section("Which records", (*SELECTION, "--until", "--follow", "--max-bytes")),
    Section("As which consumer", (
        "--isolation", "--open-transactions", "--log-dir", "--log-start-offset", "--high-watermark",
    )),
    Section(STORE.title, (*STORE.options, "--config-file")),
    Section("Output", ("--template", "--format", "--raw", "--force", "--quiet", "--verbose", "--jobs")),
)
_MAIN = ("--topic", "--offset", "--tail", "--follow", "--format")
_EXAMPLES = (
    Example("Every value, one a line:", "kafkalog fetch data/orders-7"),
    Example("Key and value of the last ten records:", "kafkalog fetch --tail 10 -f '%o %k: %s\\n' data/orders-7"),
    Example("All partitions of a topic, in the order of time:",
            "kafkalog fetch -t orders --merge -f '%T %p %o %s\\n' data"),
    Example("What was committed since noon, as JSON, one object a line:",
            "kafkalog fetch --time 2026-11-21T12:00Z --isolation read_committed --format jsonl data/orders-7"),
    Example("Watch a partition while a broker writes it:", "kafkalog fetch --offset latest --follow data/orders-7"),
    Example("From the log start on, older records from remote storage:",
            "kafkalog fetch --store s3://kafka-tiered --log-dir data-2 data/orders-7"),
    Example("The same with the store and the log dirs of a broker:",
            "kafkalog fetch --config-file server.properties data/orders-7"),
    Example("The batches as they are, for another tool:", "kafkalog fetch --raw --offset 4096 data/orders-7"),
)


@click.command("fetch", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS, main_options=_MAIN)
@click.argument("paths", nargs=-1, required=True, type=PATH_OR_URL)
@choice_options
@click.option("--merge", is_flag=True,
              help="Show the records of several partitions in the order of time, not one partition after the other.")
@click.option("--offset", "offsets", type=OffsetRange(with_ends=True), metavar="A:B",
              help="Offsets from A up to, not including, B, of each partition. A alone has no end; A may be earliest, latest, "
                   "or "
                   "-N: N offsets before the end. Default: earliest.")
@click.option("--until", type=Until(), metavar="OFFSET|TIME",
              help="End before this offset of each partition, or show only records before this time: ISO-8601 or `2h ago`. "
                   "With --follow, wait until then.")
@selection_options
@click.option("--max-bytes", type=Size(), metavar="BYTES",
              help="Read whole batches of each partition up to this many bytes, at least one batch. Default: all.")
@click.option("--isolation", type=click.Choice(["read_uncommitted", "read_committed"]), default="read_uncommitted",
              show_default=True, help="read_committed skips aborted transactions, and ends where one is open.")
@click.option("--open-transactions", type=click.Choice(["wait", "abort"]), metavar="wait|abort",
              help="With read_committed, how to treat transactions that a dead broker left open. wait: end before them, and "
              "report what they hold back. abort: read on as if their coordinator had started again: it completes those "
              "that __transaction_state says are decided, and aborts the others. Default: wait.")
@click.option("--log-dir", "log_dirs", type=PATH_OR_URL, multiple=True, metavar="DIR",
              help="Another log dir of the same cluster, for its __transaction_state (--open-transactions abort) and its "
                   "__remote_log_metadata (with a store); may be repeated.")
@store_options
@store_config_option
@click.option("--follow", is_flag=True, help="Wait for more at the end, until Ctrl-C.")
@click.option("--log-start-offset", type=Whole(0), metavar="N",
              help="The log starts here; lower offsets count as deleted. Default: from the log dir's checkpoint.")
@click.option("--high-watermark", type=Whole(0), metavar="N",
              help="Records below this offset are on all replicas; those from it on are not shown. Default: the log end.")
@click.option("--template", "-f", metavar="FORMAT", help=f"{TEMPLATE_HELP} Default: '%s\\n'.")
@format_option
@click.option("--raw", is_flag=True, help="Write whole batches of one partition unchanged, those of aborted transactions "
                                          "too.")
@click.option("--force", is_flag=True, help="Write --raw, and a template with raw bytes (%R, \\xHH), to a terminal as well.")
@jobs_option("Threads that format records. Default: one for each processor, up to 8.")
@quiet_option
@verbose_option
@version_option
def command(paths: tuple[str, ...], **values: Any) -> int:
    """Read the records of partitions as a consumer does.

    fetch skips control records and, with read_committed, records of aborted transactions. It finds offsets and times through
    the indexes. PATHS are directories of partitions or, with --topic or --partition, log dirs; brokers may write to them
    meanwhile. They may be URLs (s3://BUCKET/KEY, gs://, az://). fetch changes nothing.
    """
    try:
        wanted = _wanted(values)
    except KafkalogError as error:  # of --config-file
        outcome = Outcome()
        outcome.error(error)
        return outcome.finish()
    return fetch(paths, choice_from(values), wanted)


def _wanted(values: dict[str, Any]) -> Wanted:
    """Convert the options. Raises click.UsageError for options that exclude each other."""
    first, end = values["offsets"] or (EARLIEST, NO_END)
    until_offset, until_ms = values["until"] or (NO_END, NO_END)
    selection = selection_from(values, end_offset=min(end, until_offset))
    selection = selection._replace(to_ms=min(selection.to_ms, until_ms))
    if values["raw"] and (
        values["template"] is not None or values["form"] != "text" or selection._replace(from_ms=FIRST) != EVERYTHING
    ):
        what = "--raw copies whole batches: remove --template, --format and options that select records, except the start"
        raise click.UsageError(what)
    if values["raw"] and values["merge"]:
        raise click.UsageError("--raw writes the batches of one partition: leave out --merge")
    if values["open_transactions"] is not None and values["isolation"] != "read_committed":
        raise click.UsageError("--open-transactions needs --isolation read_committed")
    if values["open_transactions"] == "abort" and values["follow"]:
        raise click.UsageError("--open-transactions abort is for the log of a dead broker, which --follow cannot follow")
    store = choose_store(values)
    if values["log_dirs"] and values["open_transactions"] != "abort" and store is None:
        raise click.UsageError("--log-dir needs --store, a --config-file that names a store, or --open-transactions abort")
    if values["form"] != "text" and values["template"] is not None:
        raise click.UsageError("--template needs --format text")
    same = ("max_bytes", "isolation", "open_transactions", "log_dirs", "follow", "merge", "log_start_offset", "high_watermark",
            "template", "form", "raw", "force", "jobs", "quiet", "verbose")  # fmt: skip
    start = EARLIEST if first == LONG_MIN else first
    return Wanted(start=start, selection=selection, store=store, **{name: values[name] for name in same})


_ISOLATIONS = {"read_uncommitted": FetchIsolation.HIGH_WATERMARK, "read_committed": FetchIsolation.READ_COMMITTED}
_WAIT = 0.2  # seconds between two checks of a followed log
_PATIENCE = 10  # seconds: a broker writes a batch faster
_LARGEST_FETCH = INT_MAX


def fetch(paths: Sequence[str], choice: PartitionChoice, wanted: Wanted) -> int:
    """Read and print the records that `wanted` selects, and return the exit status."""
    with ExitStack() as opened:
        writer = opened.enter_context(BackgroundWriter(raw_stdout()))
        write = raw_stdout() if wanted.follow else writer.write  # with --follow, end as soon as the reader of the output ends
        output = Output(wanted, opened.enter_context(TextBuffer(write, jobs=wanted.jobs)))
        try:
            if wanted.raw and not wanted.force and sys.stdout.isatty():
                raise UsageError("--raw writes control characters to the terminal", "write to a file or a pipe, or add --force")
            _refuse_following(paths, wanted)
            files, remote = files_for((*paths, *wanted.log_dirs)), None
            directories = _directories(files, paths, choice, output.outcome)
            if wanted.store is not None:
                remote = wanted.store.open(files, output.outcome.finding)
            source = _Source(files, remote)
            if wanted.merge or (wanted.follow and not wanted.raw):
                _together(directories, wanted, output, source)
            else:
                _one_by_one(directories, wanted, output, source)
        except KafkalogError as error:
            output.flush()
            output.outcome.error(error)
        status = output.outcome.finish()
        output.flush()
        writer.drain()
    return status


def _refuse_following(paths: Sequence[str], wanted: Wanted) -> None:
    """Raise UsageError for --follow on a bucket."""
    for path in filter(is_url, paths if wanted.follow else ()):
        raise UsageError(f"{path}: objects do not grow, so --follow has nothing to wait for", "leave out --follow", path=path)


def _directories(files: ReadOnlyFiles, paths: Sequence[str], choice: PartitionChoice, outcome: Outcome) -> list[str]:
    """Return the directories of the partitions, in the order of output."""
    named = [path for pattern in paths for path in expand(files, pattern)]
    if choice.is_all:
        return named
    from engine.log.fetch.replicas import read_best_replica

    return [read_best_replica(files, replicas, outcome.finding) for replicas in find_replicas(files, named, choice)]


class _Source(NamedTuple):
    """The source of logs. `remote`: access to their remote segments; None: those are not read."""

    files: ReadOnlyFiles
    remote: RemoteAccess | None


class _Log:
    """A partition that is being read: its view, the next offset, and open transactions at its end.

    report  receives damage and records that are left out
    start   the first offset; None: from `wanted`
    """

    def __init__(
        self, path: str, wanted: Wanted, report: Callable[[Finding], None], source: _Source, start: int | None = None
    ) -> None:
        files, remote = source
        self.path, self.report = path, report
        self.view = _view(files, path, wanted, report)
        self.log: PartitionView | TieredView = self.view
        try:
            if remote is not None:
                self.log = remote.open(self.view, wanted.log_start_offset) or self.view
            self.held = None
            if wanted.isolation == "read_committed" and not wanted.follow:
                self.held = self._held_back(files, wanted)
            self.start = _start(self.view, self.log, wanted) if start is None else start
            if remote is None:
                _check_remote(files, self.view, wanted, report)
        except BaseException:
            self.view.close()
            raise
        self.fetcher = RecordFetcher(
            self.log, self.start, _ISOLATIONS[wanted.isolation], report, FetchLimits(max_bytes=wanted.max_bytes),
            selection=wanted.selection,
        )
        self._wanted, self._waited, self._tail = wanted, 0.0, self.view.tail
        self._reported: Finding | None = None

    def show(self, renderer: Renderer, shown: Limit) -> None:
        """Print the wanted records, and report what open transactions hold back."""
        for run in self.fetcher.runs():
            shown.show(renderer, run)
            if shown.is_done():
                break
        _report_held_back(self, self.fetcher.offset, self._wanted)

    def copy(self) -> None:
        """Copy whole batches to stdout, unchanged, and report what open transactions hold back."""
        _report_held_back(self, _raw(self, self._wanted), self._wanted)

    def last_matches(self, count: int) -> tuple[int, int]:
        """See engine.log.fetch.records.last_matches."""
        return last_matches(self.log, self.start, _ISOLATIONS[self._wanted.isolation], self._wanted.selection, count)

    def close(self) -> None:
        """Close all files."""
        if self.log is not self.view:
            self.log.close()
        self.view.close()

    def _held_back(self, files: ReadOnlyFiles, wanted: Wanted) -> HeldBack | None:
        from engine.log.fetch.open_transactions import TransactionStates, end_as_coordinator, held_back
        from engine.log.logdir.startup import of_one_cluster

        held = held_back(self.view)
        if held is not None and wanted.open_transactions == "abort":
            log_dirs = of_one_cluster(files, parent_of(files.absolute(self.view.directory)), wanted.log_dirs)
            states = TransactionStates(files, log_dirs, self.report)
            end_as_coordinator(self.view, held, states)
        return held

    def runs(self, output: Output, tally: ReadTally) -> Iterator[Run]:
        """Return the records from the next offset on. An error ends the records of this log only."""
        try:
            yield from self.fetcher.runs()
        except KafkalogError as error:
            tally.failed(self.path)
            output.flush()
            output.outcome.error(error)

    def has_more(self) -> bool:
        """Check again whether the log has more records.

        An incomplete batch at its end is being written; if it stays unchanged for long, it is reported once.
        """
        is_longer = self.view.refresh()
        if is_longer or self.view.tail != self._tail:
            self._waited, self._tail = 0.0, self.view.tail
            return is_longer
        tail, self._waited = self._tail, self._waited + _WAIT
        if tail is not None and tail.code in BEING_WRITTEN and self._waited >= _PATIENCE and tail != self._reported:
            self.report(tail._replace(what=f"{tail.what}, unchanged for {_PATIENCE} s: not read"))
            self._reported = tail
        return False


def _opened(
    path: str, wanted: Wanted, report: Callable[[Finding], None], source: _Source, start: int | None = None
) -> _Log | Log07:
    """Open the log at `path`, of any version of Kafka."""
    if is_log_07(source.files, path):
        from kafkalog_cli.fetch_07 import Log07

        return Log07(source.files, path, wanted, report, start)
    return _Log(path, wanted, report, source, start)


def _one_by_one(directories: list[str], wanted: Wanted, output: Output, source: _Source) -> None:
    """Print one partition after the other; an error of one does not stop the others."""
    if wanted.raw and len(directories) > 1:
        raise UsageError("--raw writes the batches of one partition, which do not say whose they are", "name one partition")
    starts: dict[str, int | None] = dict.fromkeys(directories)
    skip = 0
    if wanted.selection.tail is not None:
        starts, skip = _tails(directories, wanted, source)
    shown, tally = Limit(skip, wanted.selection.limit), ReadTally(output.outcome)
    for path, start in starts.items():
        if shown.is_done():
            break
        try:
            renderer = None if wanted.raw else output.renderer(path)
            with closing(_opened(path, wanted, tally.reporter(path), source, start)) as log:
                if renderer is None:
                    log.copy()
                else:
                    log.show(renderer, shown)
        except KafkalogError as error:
            tally.failed(path)
            output.flush()
            output.outcome.error(error)
    output.flush()
    tally.say(shown.shown)


def _together(directories: list[str], wanted: Wanted, output: Output, source: _Source) -> None:
    """Print several partitions together: merged by time, or with --follow as records arrive."""
    starts: dict[str, int | None] = dict.fromkeys(directories)
    skip = 0
    if wanted.selection.tail is not None:
        starts, skip = _tails(directories, wanted, source)
    shown, tally = Limit(skip, wanted.selection.limit), ReadTally(output.outcome)
    with ExitStack() as opened:
        if not wanted.follow:
            opened.callback(lambda: tally.say(shown.shown))
        logs, renderers = [], []
        for path, start in starts.items():
            try:
                log = opened.enter_context(closing(_opened(path, wanted, tally.reporter(path), source, start)))
                assert isinstance(log, _Log)  # a log of 0.7 refuses --merge and --follow
                logs.append(log)
                renderers.append(output.renderer(path))
            except KafkalogError as error:
                tally.failed(path)
                output.outcome.error(error)
        for _ in _rounds(logs, wanted):
            runs = [log.runs(output, tally) for log in logs]
            for number, run in by_time(runs) if wanted.merge else ((n, run) for n, one in enumerate(runs) for run in one):
                shown.show(renderers[number], run)
                if shown.is_done():
                    return
            if wanted.follow:
                output.flush()
        for log in logs:
            _report_held_back(log, log.fetcher.offset, wanted)


def _rounds(logs: list[_Log], wanted: Wanted) -> Iterator[None]:
    """Yield once; with --follow, again whenever a log has more records."""
    yield
    while wanted.follow and now_ms() < wanted.selection.to_ms:
        if all(log.fetcher.offset >= wanted.selection.end_offset for log in logs):
            return
        looks = [log.has_more() for log in logs]
        if any(looks):
            yield
        else:
            time.sleep(_WAIT)


def _tails(directories: list[str], wanted: Wanted, source: _Source) -> tuple[dict[str, int | None], int]:
    """Find the last matches: ({partition: first offset} of those with matches, number of matches to skip first).

    A partition that cannot be read is included, without an offset: reading it reports the error.
    """
    count = left = wanted.selection.tail or 0
    starts: dict[str, int | None] = {}
    total = 0
    for path in reversed(directories):
        starts[path], found = None, 0
        try:
            with closing(_opened(path, wanted, lambda _finding: None, source)) as log:
                starts[path], found = log.last_matches(left)
        except KafkalogError:
            continue
        total += found
        if not wanted.merge:
            left -= min(left, found)
            if not left:
                break
    return dict(reversed(starts.items())), max(0, total - count)


def _view(files: ReadOnlyFiles, path: str, wanted: Wanted, report: Callable[[Finding], None]) -> PartitionView:
    """Open the partition at `path`. Raises UsageError if `path` is a log dir, UnreadableFile if it does not exist."""
    try:
        return PartitionView(
            files, path, report, log_start_offset=wanted.log_start_offset, high_watermark=wanted.high_watermark,
            is_followed=wanted.follow,
        )
    except UnreadableFile:
        if files.exists(path) and files.info(path).is_directory and any(one.is_whole for one in find_log_dirs(files, [path])):
            do = f"kafkalog fetch --topic NAME {argument(path)}    # or name the directory of a partition"
            raise UsageError(f"{path}: a log dir, or a directory of log dirs, not a partition", do, path=path) from None
        raise


def _report_held_back(log: _Log, reached: int, wanted: Wanted) -> None:
    """Report open transactions at which reading ended, if it got that far."""
    if log.held is None or reached < log.held.offset:
        return
    from engine.log.fetch.open_transactions import findings_of_ends, findings_of_wait

    is_ended = wanted.open_transactions == "abort"
    for finding in findings_of_ends(log.path, log.held) if is_ended else findings_of_wait(log.view.files, log.path, log.held):
        log.report(finding)


def _start(view: PartitionView, log: PartitionView | TieredView, wanted: Wanted) -> int:
    """Return the first offset. `log`: with its remote segments, if they are read."""
    offset = log.log_start_offset
    if wanted.start == LATEST:
        offset = _end(view, wanted)
    elif wanted.start != EARLIEST:
        offset = int(wanted.start)
        offset = max(log.log_start_offset, _end(view, wanted) + offset) if offset < 0 else offset
    from_ms = wanted.selection.from_ms
    if from_ms < 0:  # before 1970 the number would be one of the lookup's special times
        return offset
    found = log.offset_by_timestamp(from_ms)
    return max(offset, view.log_end_offset if found is None else found.offset)


def _check_remote(files: ReadOnlyFiles, view: PartitionView, wanted: Wanted, report: Callable[[Finding], None]) -> None:
    """Report wanted records of a tiered log that are only in remote storage.

    Raises RecordsInRemoteStorage if the requested offset is one of them, OffsetOutOfRange below them.
    """
    first, offset = view.log_start_offset, -1
    if wanted.start != EARLIEST:
        offset = _end(view, wanted) if wanted.start == LATEST else int(wanted.start)
        if offset >= first or (offset < 0 and _end(view, wanted) + offset >= first):
            return
    remote = remote_log_start(files, view.directory) if wanted.log_start_offset is None else None
    if remote is None or remote >= first:
        return
    missing = not_read(view.directory, remote, first)
    if 0 <= offset < remote:
        raise out_of_range(view, offset, f"starting from offset: {remote}")
    if offset >= remote:
        do = f"kafkalog fetch --offset {first} {argument(view.directory)}    # begins with the first local record"
        what = f"{view.directory}: offset {offset}: {missing.what}; the local log begins at offset {first}"
        raise RecordsInRemoteStorage(what, do, path=view.directory)
    report(missing)


def _end(view: PartitionView, wanted: Wanted) -> int:
    if wanted.isolation == "read_committed":
        return view.fetch_last_stable_offset_metadata().message_offset
    return view.high_watermark


def _raw(log: _Log, wanted: Wanted) -> int:
    """Copy whole batches to stdout, from the one that contains `log.start` on; returns the offset after the last one."""
    from engine.log.segment.batch_search import last_head

    sys.stdout.flush()
    view, offset, left = log.log, log.start, wanted.max_bytes
    is_first = True
    sent = (-1, 0)  # (segment, byte position) of the end of what was sent: offsets that run backwards must not lead back
    for _ in _rounds([log], wanted):
        while left is None or left > 0 or is_first:
            limit = _LARGEST_FETCH if left is None else min(left, _LARGEST_FETCH)
            data = read(view, offset, limit, _ISOLATIONS[wanted.isolation], min_one_message=is_first)
            segment, position = data.segment, data.place.position or 0
            if segment is None or not data.size:
                break
            end = position + data.size
            if segment.base_offset == sent[0]:
                position = max(position, sent[1])
            near_end = segment.position_before(LONG_MAX) if end == segment.size else position
            last = last_head(segment.log_file, max(position, near_end), end) if position < end else None
            if last is None:
                following = view.segments.higher_segment(segment.base_offset)
                if following is None or (left is not None and position < end):
                    break
                offset = following.base_offset
                continue
            end = last.position + last.size
            send(segment.log_file, position, end - position)
            offset, is_first, sent = last.next_offset, False, (segment.base_offset, end)
            if left is not None:
                left -= data.size  # includes the rest after the last whole batch, into which the next one does not fit
    return offset

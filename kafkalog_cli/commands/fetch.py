"""kafkalog fetch."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from engine.discovery.names import parent_of
from engine.errors import KafkalogError, UnreadableFile, UsageError, argument
from engine.files import ReadOnlyFiles
from engine.formats import INT_MAX, LONG_MAX
from engine.log.errors import RecordsInRemoteStorage
from engine.log.fetch.reading import FetchIsolation, fetch_offset_by_timestamp, out_of_range, read
from engine.log.fetch.view import BEING_WRITTEN, PartitionView
from engine.log.logdir.logs_07 import is_log_07
from engine.log.logdir.tiered import not_read, remote_log_start
from kafkalog_cli.app import Outcome
from kafkalog_cli.fetch_output import Renderer, Wanted, renderer_for, send
from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.options import PATH, Size, Whole, jobs_option, version_option
from kafkalog_cli.output import BackgroundWriter, raw_stdout
from kafkalog_cli.ranges import EARLIEST, LATEST, Instant, StartOffset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.findings import Finding
    from engine.log.fetch.open_transactions import HeldBack


_SECTIONS = (
    Section("Where to begin and to end", (
        "--offset", "--timestamp", "--max-bytes", "--limit", "--isolation", "--open-transactions", "--log-dir", "--follow",
        "--log-start-offset", "--high-watermark",
    )),
    Section("Output", ("--template", "--format", "--raw", "--force", "--jobs")),
)
_MAIN = ("--offset", "--timestamp", "--limit", "--follow", "--template", "--format")
_EXAMPLES = (
    Example("Every value, one a line:", "kafkalog fetch data/orders-7"),
    Example("Key and value of what has the last ten offsets:",
            "kafkalog fetch --offset -10 -f '%o %k: %s\\n' data/orders-7"),
    Example("What was committed since noon, as JSON, one object a line:",
            "kafkalog fetch --timestamp 2026-11-21T12:00Z --isolation read_committed --format jsonl data/orders-7"),
    Example("Watch a partition while a broker writes it:", "kafkalog fetch --offset latest --follow data/orders-7"),
    Example("The batches as they are, for another tool:", "kafkalog fetch --raw --offset 4096 data/orders-7"),
)


@click.command("fetch", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS, main_options=_MAIN)
@click.argument("path", type=PATH)
@click.option("--offset", type=StartOffset(), metavar="N",
              help="Begin with this offset; earliest, latest, or -N: N offsets before the end. Default: earliest.")
@click.option("--timestamp", type=Instant(), metavar="TIME",
              help="Begin with the first record of this time or later: ISO-8601 (UTC unless it says), ms, or `2h ago`.")
@click.option("--max-bytes", type=Size(), metavar="BYTES",
              help="Read whole batches of so many bytes, at least one. Default: all.")
@click.option("--limit", type=Whole(0), metavar="N", help="Show the first N records only.")
@click.option("--isolation", type=click.Choice(["read_uncommitted", "read_committed"]), default="read_uncommitted",
              show_default=True, help="read_committed leaves out aborted transactions, and ends where one is open.")
@click.option("--open-transactions", type=click.Choice(["wait", "abort"]), metavar="wait|abort",
              help="With read_committed, where transactions are open at the end of a dead broker's log: end before them and "
              "report what they hold back, or read on as after the next start of their coordinators, which abort them "
              "(commit those that __transaction_state beside it says are decided). Default: wait.")
@click.option("--log-dir", "log_dirs", type=PATH, multiple=True, metavar="DIR",
              help="With --open-transactions abort: another log dir of the same cluster, whose __transaction_state is read as "
                   "well; may be repeated.")
@click.option("--follow", is_flag=True, help="Wait for more at the end, until Ctrl-C.")
@click.option("--log-start-offset", type=Whole(0), metavar="N",
              help="The log begins here: what lies below counts as deleted. Default: as the log dir's checkpoint says.")
@click.option("--high-watermark", type=Whole(0), metavar="N",
              help="Records from this offset on are not shown: not on all replicas. Default: the log end.")
@click.option("--template", "-f", metavar="FORMAT",
              help="Text for each record: %s %k value and key, %S %K their sizes, %o offset, %T timestamp, %h headers, "
                   "%t topic, %p partition, %R the size of the value in 4 bytes; \\n \\r \\t \\xHH. Default: '%s\\n'.")
@click.option("--format", "form", type=click.Choice(["text", "json", "jsonl"]), default="text", show_default=True,
              help="Text, one JSON document, or one JSON object a line.")
@click.option("--raw", is_flag=True, help="Write the batches as they stand in the log, whole ones, aborted ones too.")
@click.option("--force", is_flag=True, help="Write --raw, and a template with raw bytes (%R, \\xHH), to a terminal as well.")
@jobs_option("Threads that make the text of records. Default: one for each processor, up to 8.")
@version_option
def command(path: str, **values: Any) -> int:
    """Read the records of a partition as a consumer does.

    Control records are left out, and with read_committed those of aborted transactions. Offsets and times are looked up
    through the indexes. PATH is the directory of a partition; a broker may be writing it meanwhile. Nothing is changed.
    """
    if values["offset"] is not None and values["timestamp"] is not None:
        raise click.UsageError("--offset and --timestamp exclude each other")
    if values["raw"] and (values["template"] is not None or values["form"] != "text" or values["limit"] is not None):
        raise click.UsageError("--raw knows no records: leave out --template, --format and --limit")
    if values["open_transactions"] is not None and values["isolation"] != "read_committed":
        raise click.UsageError("--open-transactions is for --isolation read_committed")
    if values["open_transactions"] == "abort" and values["follow"]:
        raise click.UsageError("--open-transactions abort is for the log of a dead broker, which nobody follows")
    if values["log_dirs"] and values["open_transactions"] != "abort":
        raise click.UsageError("--log-dir is for --open-transactions abort")
    if values["form"] != "text" and values["template"] is not None:
        raise click.UsageError("--template is for --format text")
    return fetch(path, Wanted(**values))


_ISOLATIONS = {"read_uncommitted": FetchIsolation.HIGH_WATERMARK, "read_committed": FetchIsolation.READ_COMMITTED}
_WAIT = 0.2  # seconds between two looks at a log that is followed
_PATIENCE = 10  # seconds: no broker takes that long for a batch
_LARGEST_FETCH = INT_MAX


def fetch(path: str, wanted: Wanted) -> int:
    """Read and show what is wanted of the partition at `path` → exit status."""
    with BackgroundWriter(raw_stdout()) as output:
        write = raw_stdout() if wanted.follow else output.write  # --follow ends as soon as its reader does
        status = _show(path, wanted, write)
        output.drain()
    return status


def _show(path: str, wanted: Wanted, write: Callable[[memoryview], object]) -> int:
    renderer: Renderer | None = None
    outcome = Outcome()
    try:
        if wanted.raw and not wanted.force and sys.stdout.isatty():
            raise UsageError("--raw writes bytes that a terminal would obey", "write to a file or a pipe, or add --force")
        if not wanted.raw:
            renderer, outcome = renderer_for(path, wanted, write)
        if is_log_07(ReadOnlyFiles(), path):
            from kafkalog_cli.fetch_07 import fetch_07

            fetch_07(path, wanted, renderer, outcome)
        else:
            _fetch(path, wanted, renderer, outcome)
    except KafkalogError as error:
        if renderer is not None:
            renderer.flush()
        outcome.error(error)
    status = outcome.finish()
    if renderer is not None:
        renderer.flush()
    return status


def _fetch(path: str, wanted: Wanted, renderer: Renderer | None, outcome: Outcome) -> None:
    files = ReadOnlyFiles()
    try:
        view = PartitionView(
            files, path, outcome.finding, log_start_offset=wanted.log_start_offset, high_watermark=wanted.high_watermark,
            is_followed=wanted.follow,
        )
    except UnreadableFile:
        if files.exists(path) and files.info(path).is_directory:
            from engine.log.logdir.log_dirs import find_log_dirs

            find_log_dirs(files, [path])  # which knows what to say of a place that is none of Kafka's
        raise
    held = None
    if wanted.isolation == "read_committed" and not wanted.follow:
        from engine.log.fetch.open_transactions import TransactionStates, end_as_coordinator, held_back

        held = held_back(view)
        if held is not None and wanted.open_transactions == "abort":
            end_as_coordinator(view, held, TransactionStates(files, _log_dirs(files, view, wanted), outcome.finding))
    start = _start(view, wanted)
    _check_remote(files, view, wanted, outcome)
    reached = _raw(view, start, wanted, outcome) if renderer is None else _records(view, start, wanted, renderer, outcome)
    if held is not None and reached >= held.offset:
        _report_held_back(files, path, wanted, held, outcome)


def _report_held_back(files: ReadOnlyFiles, path: str, wanted: Wanted, held: HeldBack, outcome: Outcome) -> None:
    from engine.log.fetch.open_transactions import findings_of_ends, findings_of_wait

    is_ended = wanted.open_transactions == "abort"
    for finding in findings_of_ends(path, held) if is_ended else findings_of_wait(files, path, held):
        outcome.finding(finding)


def _log_dirs(files: ReadOnlyFiles, view: PartitionView, wanted: Wanted) -> list[str]:
    """Where logs of __transaction_state are looked for. Raises UsageError for a log dir of another cluster."""
    from engine.log.logdir.startup import cluster_id

    own = parent_of(files.absolute(view.directory))
    cluster = cluster_id(files, own)
    for log_dir in wanted.log_dirs:
        other = cluster_id(files, log_dir)
        if None not in (cluster, other) and other != cluster:
            what = f"{log_dir} belongs to cluster {other}, {own} to cluster {cluster}"
            raise UsageError(what, "name log dirs of one cluster")
    return [own, *wanted.log_dirs]


def _start(view: PartitionView, wanted: Wanted) -> int:
    """The offset to begin with."""
    if wanted.timestamp is not None:
        found = fetch_offset_by_timestamp(view, wanted.timestamp)
        return view.log_end_offset if found is None else found.offset
    if wanted.offset is None or wanted.offset == EARLIEST:
        return view.log_start_offset
    end = _end(view, wanted)
    if wanted.offset == LATEST:
        return end
    offset = int(wanted.offset)
    return max(view.log_start_offset, end + offset) if offset < 0 else offset


def _check_remote(files: ReadOnlyFiles, view: PartitionView, wanted: Wanted, outcome: Outcome) -> None:
    """Report records of a tiered log that are wanted and are in remote storage only.

    Raises RecordsInRemoteStorage if the offset that was asked for is among them, OffsetOutOfRange below them.
    """
    first, offset = view.log_start_offset, -1
    if wanted.timestamp is None and wanted.offset not in (None, EARLIEST):
        offset = _end(view, wanted) if wanted.offset == LATEST else int(wanted.offset or 0)
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
    outcome.finding(missing)


def _end(view: PartitionView, wanted: Wanted) -> int:
    if wanted.isolation == "read_committed":
        return view.fetch_last_stable_offset_metadata().message_offset
    return view.high_watermark


def _records(view: PartitionView, start: int, wanted: Wanted, renderer: Renderer, outcome: Outcome) -> int:
    """Show the records from `start` on → the offset behind the last one that was read."""
    from engine.log.fetch.records import RecordFetcher

    fetcher = RecordFetcher(view, start, _ISOLATIONS[wanted.isolation], outcome.finding, wanted.max_bytes)
    left = wanted.limit
    for _ in _rounds(view, wanted, outcome):
        for run in fetcher.runs() if left != 0 else ():
            shown = renderer.run(run, left)
            left = None if left is None else left - shown
            if left == 0:
                return fetcher.offset
        if left == 0:
            break
        if wanted.follow:
            renderer.flush()
    return fetcher.offset


def _rounds(view: PartitionView, wanted: Wanted, outcome: Outcome) -> Iterator[None]:
    """Once; and again whenever there is more, if the log is followed.

    An incomplete batch at its end is being written, unless nothing comes for long: then it is reported once.
    """
    yield
    told: Finding | None = None
    while wanted.follow:
        waited, tail = 0.0, view.tail
        while not view.refresh():
            if view.tail != tail:
                waited, tail = 0.0, view.tail
            if tail is not None and tail.code in BEING_WRITTEN and waited >= _PATIENCE and tail != told:
                outcome.finding(tail._replace(what=f"{tail.what}, unchanged for {_PATIENCE} s: not read"))
                told = tail
            time.sleep(_WAIT)
            waited += _WAIT
        yield


def _raw(view: PartitionView, offset: int, wanted: Wanted, outcome: Outcome) -> int:
    """Whole batches to stdout, from the one that holds `offset` on → the offset behind the last one."""
    from engine.log.segment.batch_search import last_head

    sys.stdout.flush()
    left = wanted.max_bytes
    is_first = True
    sent = (-1, 0)  # base offset of a segment, and up to which byte: offsets that run backwards must not lead back there
    for _ in _rounds(view, wanted, outcome):
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
                left -= data.size  # with what is left behind the last whole batch: the next one does not fit
    return offset

"""kafkalog fetch."""

from __future__ import annotations

import sys
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import click

from engine.discovery.names import is_url
from engine.discovery.patterns import expand
from engine.dump.text_buffer import TextBuffer
from engine.errors import KafkalogError, UsageError
from engine.formats import LONG_MIN
from engine.log.fetch.records import by_time
from engine.log.logdir.log_dirs import find_replicas
from engine.record.selection import EVERYTHING, FIRST
from kafkalog_cli.app import Outcome
from kafkalog_cli.decoders import DECODING, decode_options, topic_decoders
from kafkalog_cli.engine_options import WHICH, choice_from, choice_options
from kafkalog_cli.fetch_output import TEMPLATE_HELP, Limit, Output, ReadTally, Wanted
from kafkalog_cli.fetched_log import Log, Source, open_log, report_held_back, rounds
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
from kafkalog_cli.selecting import (
    EARLIEST,
    NO_END,
    SELECTION,
    OffsetRange,
    Until,
    isolation_option,
    selection_from,
    selection_options,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.discovery.choice import PartitionChoice
    from engine.dump.topic_decoders import TopicDecoders
    from engine.files import ReadOnlyFiles


_SECTIONS = (
    Section(WHICH.title, (*WHICH.options, "--merge")),
    Section("Which records", (*SELECTION, "--until", "--follow", "--max-bytes")),
    Section("As which consumer", (
        "--isolation", "--open-transactions", "--log-dir", "--log-start-offset", "--high-watermark",
    )),
    Section(STORE.title, (*STORE.options, "--config-file")),
    Section("Output", ("--template", "--format", *DECODING, "--raw", "--force", "--quiet", "--verbose", "--jobs")),
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
@isolation_option
@click.option("--open-transactions", type=click.Choice(["wait", "abort"]), metavar="wait|abort",
              help="With read_committed, how to treat transactions that a dead broker left open. wait: end before them, and "
              "report what they hold back. abort: read on as if their coordinator had started again: it completes those "
              "that __transaction_state says are decided, and aborts the others. Default: wait.")
@click.option("--log-dir", "log_dirs", type=PATH_OR_URL, multiple=True, metavar="DIR",
              help="Another log dir of the same cluster, for its __transaction_state (--open-transactions abort), its "
                   "__remote_log_metadata (with a store) and its _schemas (--decode); may be repeated.")
@store_options
@store_config_option
@click.option("--follow", is_flag=True, help="Wait for more at the end, until Ctrl-C.")
@click.option("--log-start-offset", type=Whole(0), metavar="N",
              help="The log starts here; lower offsets count as deleted. Default: from the log dir's checkpoint.")
@click.option("--high-watermark", type=Whole(0), metavar="N",
              help="Records below this offset are on all replicas; those from it on are not shown. Default: the log end.")
@click.option("--template", "-f", metavar="FORMAT", help=f"{TEMPLATE_HELP} Default: '%s\\n'.")
@format_option
@decode_options("Show")
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
        wanted = _wanted(values, topic_decoders(values, (*paths, *values["log_dirs"])), paths)
    except KafkalogError as error:  # of --config-file
        outcome = Outcome()
        outcome.error(error)
        return outcome.finish()
    return fetch(paths, choice_from(values), wanted)


def _wanted(values: dict[str, Any], decoders: TopicDecoders | None, paths: tuple[str, ...]) -> Wanted:
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
    if values["raw"] and decoders is not None:
        raise click.UsageError("--raw writes batches unchanged: remove --decode and --schema")
    if values["raw"] and values["merge"]:
        raise click.UsageError("--raw writes the batches of one partition: leave out --merge")
    if values["open_transactions"] is not None and values["isolation"] != "read_committed":
        raise click.UsageError("--open-transactions needs --isolation read_committed")
    if values["open_transactions"] == "abort" and values["follow"]:
        raise click.UsageError("--open-transactions abort is for the log of a dead broker, which --follow cannot follow")
    store = choose_store(values, paths)
    if values["log_dirs"] and values["open_transactions"] != "abort" and store is None and decoders is None:
        what = "--log-dir needs --store, a --config-file that names a store, --open-transactions abort, or --decode"
        raise click.UsageError(what)
    if values["form"] != "text" and values["template"] is not None:
        raise click.UsageError("--template needs --format text")
    same = ("max_bytes", "isolation", "open_transactions", "log_dirs", "follow", "merge", "log_start_offset", "high_watermark",
            "template", "form", "raw", "force", "jobs", "quiet", "verbose")  # fmt: skip
    start = EARLIEST if first == LONG_MIN else first
    return Wanted(start=start, selection=selection, store=store, decoders=decoders, **{name: values[name] for name in same})


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
            source = Source(files, remote)
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


def _one_by_one(directories: list[str], wanted: Wanted, output: Output, source: Source) -> None:
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
            with closing(open_log(path, wanted, tally.reporter(path), source, start)) as log:
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


def _together(directories: list[str], wanted: Wanted, output: Output, source: Source) -> None:
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
                log = opened.enter_context(closing(open_log(path, wanted, tally.reporter(path), source, start)))
                assert isinstance(log, Log)  # a log of 0.7 refuses --merge and --follow
                logs.append(log)
                renderers.append(output.renderer(path))
            except KafkalogError as error:
                tally.failed(path)
                output.outcome.error(error)
        for _ in rounds(logs, wanted):
            runs = [log.runs(output, tally) for log in logs]
            for number, run in by_time(runs) if wanted.merge else ((n, run) for n, one in enumerate(runs) for run in one):
                shown.show(renderers[number], run)
                if shown.is_done():
                    break
            for log in logs:
                log.report_losses(log.fetcher.offset)
            if shown.is_done():
                return
            if wanted.follow:
                output.flush()
        for log in logs:
            report_held_back(log, log.fetcher.offset, wanted)


def _tails(directories: list[str], wanted: Wanted, source: Source) -> tuple[dict[str, int | None], int]:
    """Find the last matches: ({partition: first offset} of those with matches, number of matches to skip first).

    A partition that cannot be read is included, without an offset: reading it reports the error.
    """
    count = left = wanted.selection.tail or 0
    starts: dict[str, int | None] = {}
    total = 0
    for path in reversed(directories):
        starts[path], found = None, 0
        try:
            with closing(open_log(path, wanted, lambda _finding: None, source)) as log:
                starts[path], found = log.last_matches(left)
        except KafkalogError:
            continue
        total += found
        if not wanted.merge:
            left -= min(left, found)
            if not left:
                break
    return dict(reversed(starts.items())), max(0, total - count)



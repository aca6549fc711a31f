"""kafkalog dump-log."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from engine.discovery.choice import EVERY_PARTITION
from engine.discovery.names import LOGS, FileKind, file_name, is_url, parse_file_name
from engine.discovery.paths import discover, nothing_found
from engine.discovery.patterns import expand
from engine.dump.renderer import DumpOptions
from engine.dump.reports import DumpReports
from engine.dump.run import Dump, kafka_file_name
from engine.dump.text_buffer import TextBuffer
from engine.errors import KafkalogError, UsageError
from engine.findings import Finding, Where
from engine.formats import INT_MAX
from kafkalog_cli.app import Outcome, printable
from kafkalog_cli.decoders import DECODING, DecoderClass, decode_options, payload_decoder, topic_decoders
from kafkalog_cli.engine_options import WHICH, choice_from, choice_options
from kafkalog_cli.help import Example, Section
from kafkalog_cli.options import (
    PATH_OR_URL,
    FileList,
    KafkaCommand,
    files_for,
    format_option,
    jobs_option,
    size_option,
    version_option,
)
from kafkalog_cli.output import BackgroundWriter, raw_stdout
from kafkalog_cli.remote_store import WHOLE, store_config_option, whole_files, whole_options
from kafkalog_cli.selecting import NO_END, SELECTION, OffsetRange, selection_from, selection_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.discovery.choice import PartitionChoice
    from engine.discovery.names import FileName
    from engine.dump.renderer import DumpRenderer
    from engine.dump.selection import PassedSegments
    from engine.dump.topic_decoders import TopicDecoders
    from engine.files import ReadOnlyFiles
    from engine.record.selection import Selection
    from engine.schema.decode import RecordDecoder


_SECTIONS = (
    Section("Options of kafka-dump-log", (
        "--files", "--print-data-log", "--deep-iteration", "--skip-record-metadata", "--verify-index-only",
        "--index-sanity-check", "--max-bytes", "--max-message-size", "--key-decoder-class", "--value-decoder-class",
        "--offsets-decoder", "--transaction-log-decoder", "--cluster-metadata-decoder", "--remote-log-metadata-decoder",
        "--share-group-state-decoder",
    )),
    WHICH,
    Section("Selection", (*SELECTION, "--count")),
    Section(WHOLE.title, (*WHOLE.options, "--config-file")),
    Section("Output", ("--format", *DECODING, "--jobs")),
    Section("Damage and limits", ("--continue-on-corruption", "--max-decompressed-bytes", "--max-batch-bytes")),
)
_MAIN = ("--files", "--print-data-log", "--offset", "--tail", "--format", "--continue-on-corruption")
_EXAMPLES = (
    Example("Every record of a segment, as kafka-dump-log prints it:",
            "kafkalog dump-log --print-data-log --files orders-7/00000000000000000000.log"),
    Example("The batches and index entries of a whole partition:", "kafkalog dump-log orders-7"),
    Example("A partition in a bucket:", "kafkalog dump-log --print-data-log s3://backups/data/orders-7"),
    Example("A range of offsets; segments outside it are not read:",
            "kafkalog dump-log --print-data-log --offset 4000:4100 orders-7"),
    Example("What was written in the last two hours, one JSON object a line:",
            "kafkalog dump-log --print-data-log --time '2h ago:' --format jsonl orders-7"),
    Example("Who committed which offsets:",
            "kafkalog dump-log --print-data-log --decode auto __consumer_offsets-12"),
    Example("Check an index against its log:",
            "kafkalog dump-log --verify-index-only orders-7/00000000000000000000.index"),
    Example("All that is left of a damaged log:",
            "kafkalog dump-log --print-data-log --continue-on-corruption orders-7"),
)


@click.command("dump-log", cls=KafkaCommand, examples=_EXAMPLES, sections=_SECTIONS, main_options=_MAIN,
               kafka_options=_SECTIONS[0].options)
@click.argument("paths", nargs=-1, type=PATH_OR_URL)
@choice_options
@click.option("--files", type=FileList(), metavar="FILE,…",
              help="Files with commas between them, as kafka-dump-log takes them.")
@click.option("--print-data-log", is_flag=True, help="Print every record with key and payload. Any decoder implies it.")
@click.option("--deep-iteration", is_flag=True, help="Print every record, without key and payload.")
@click.option("--verify-index-only", is_flag=True, help="Check indexes without printing their entries.")
@click.option("--index-sanity-check", is_flag=True, help="Only make the check that a broker makes when it opens an index.")
@size_option("--max-message-size", default=5 << 20, help="Read no more than this of a log to check an entry of its index.")
@size_option("--max-bytes", default=INT_MAX, help="Read no more than this of each log.")
@click.option("--skip-record-metadata", is_flag=True, help="Print only keys and payloads; control records become empty.")
@click.option("--key-decoder-class", is_flag=False, flag_value="org.apache.kafka.tools.api.StringDecoder",
              type=DecoderClass(), metavar="CLASS",
              help="A decoder class of Kafka, or a Python function module:function, for keys.")
@click.option("--value-decoder-class", is_flag=False, flag_value="org.apache.kafka.tools.api.StringDecoder",
              type=DecoderClass(), metavar="CLASS", help="The same for payloads.")
@click.option("--offsets-decoder", is_flag=True, help="Decode records of __consumer_offsets.")
@click.option("--transaction-log-decoder", is_flag=True, help="Decode records of __transaction_state.")
@click.option("--cluster-metadata-decoder", is_flag=True, help="Decode records of __cluster_metadata.")
@click.option("--remote-log-metadata-decoder", is_flag=True, help="Decode records of __remote_log_metadata.")
@click.option("--share-group-state-decoder", is_flag=True, help="Decode records of __share_group_state.")
@format_option
@decode_options("Unless a decoder is named, print")
@click.option("--offset", "offsets", type=OffsetRange(), metavar="A:B",
              help="Only offsets from A up to, not including, B. A alone has no end.")
@selection_options
@click.option("--count", is_flag=True, help="Show only how many records and batches match.")
@click.option("--continue-on-corruption", is_flag=True, help="Continue after damage, at the next sound batch.")
@jobs_option("Threads that format records. Default: one for each processor, up to 8.")
@size_option("--max-decompressed-bytes", default=256 << 20, help="Do not decompress batches to more than this.")
@size_option("--max-batch-bytes", default=64 << 20, help="Do not decode larger batches.")
@whole_options
@store_config_option
@version_option
def command(paths: tuple[str, ...], files: str | None, form: str, **values: Any) -> int:
    """Print Kafka's files: logs, indexes, producer snapshots, checkpoints.

    A drop-in for kafka-dump-log.sh 4.3.1: the same options, the same text on stdout. PATHS are files, partition
    directories, log directories, trees of them, or quoted patterns. They may be URLs (s3://BUCKET/KEY, gs://, az://;
    https:// for one file). Problems are printed to stderr and decide the exit status. dump-log never writes to these files.
    """
    if files is None and not paths:
        raise click.UsageError("name files or directories, or use --files")
    plain_files = files_for((*paths, *java_split(files or "")))

    def open_files(outcome: Outcome) -> ReadOnlyFiles:
        return whole_files(plain_files, {**values, "paths": paths}, outcome) or plain_files

    choice = choice_from(values)
    decoders = topic_decoders(values, (*paths, *java_split(files or "")))
    return dump_all(open_files, paths, files, options_from(values, decoders), _selection(values), form, choice)


_DECODERS = {
    "offsets_decoder": "offsets",
    "transaction_log_decoder": "transaction-log",
    "cluster_metadata_decoder": "cluster-metadata",
    "remote_log_metadata_decoder": "remote-log-metadata",
    "share_group_state_decoder": "share-group-state",
}


def options_from(values: dict[str, Any], decoders: TopicDecoders | None = None) -> DumpOptions:
    """Convert the options to DumpOptions. decoders: those of --decode."""
    chosen = next((name for flag, name in _DECODERS.items() if values[flag]), None)
    classes = values["key_decoder_class"], values["value_decoder_class"]
    names_class = classes != (None, None)
    return DumpOptions(
        print_data=values["print_data_log"] or chosen is not None or names_class or decoders is not None,
        deep=values["deep_iteration"] or values["count"] or _looks_into_records(values),
        skip_metadata=values["skip_record_metadata"],
        verify_only=values["verify_index_only"],
        sanity_only=values["index_sanity_check"],
        max_message_size=values["max_message_size"],
        max_bytes=values["max_bytes"],
        decoder=_record_decoder(chosen),
        decoders=None if names_class else decoders,
        key_decoder=None if chosen else payload_decoder(classes[0]),
        value_decoder=None if chosen else payload_decoder(classes[1]),
        continue_on_corruption=values["continue_on_corruption"],
        max_decompressed_bytes=values["max_decompressed_bytes"],
        max_batch_bytes=values["max_batch_bytes"],
        escape=sys.stdout.isatty(),
        jobs=values["jobs"],
    )


def _record_decoder(name: str | None) -> RecordDecoder | None:
    if name is None:
        return None
    from engine.schema.decode import decoder

    return decoder(name)


def _looks_into_records(values: dict[str, Any]) -> bool:
    """Return whether the selection needs records: batch headers do not have the smallest timestamp."""
    has_end = bool(values["times"]) and values["times"][1] != NO_END
    return bool(values["keys"] or values["key_regex"] or values["headers"]) or has_end


def _selection(values: dict[str, Any]) -> Selection | None:
    """Return the Selection of the options; None: everything. Raises UsageError for options that exclude each other."""
    from engine.record.selection import EVERYTHING

    first, end = values["offsets"] or (None, None)
    selection = selection_from(values, first_offset=first, end_offset=end, count=values["count"])
    if selection.count and (selection.limit is not None or selection.tail is not None):
        raise click.UsageError("--count counts every match: remove --limit and --tail")
    if selection == EVERYTHING:
        return None
    for option in ("verify_index_only", "index_sanity_check"):
        if values[option]:
            what = f"--{option.replace('_', '-')} checks indexes as a whole, a selection shows records of logs"
            raise click.UsageError(f"{what}: remove one of them")
    return selection


_SLASHES = re.compile("/{2,}")
# codes that kafka-dump-log reports in its own words at the end
_REPORTED = frozenset({
    "index-offset-mismatch", "timeindex-timestamp-mismatch", "timeindex-out-of-order", "timeindex-offset-not-found",
    "offset-gap", "offset-order",
})


def java_path(path: str) -> str:
    """Return a path as java.io.File stores it: without repeated slashes, and without one at the end."""
    path = _SLASHES.sub("/", path)
    return path if path == "/" else path.removesuffix("/")


def java_split(text: str) -> list[str]:
    """Split `text` at commas as String.split does: without empty parts at the end."""
    parts = text.split(",")
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return [] if parts == [""] and text else parts


class Target(NamedTuple):
    """A file to dump: its path as the user gave it, and its parsed name (None: not one of Kafka's)."""

    path: str
    name: FileName | None
    is_named: bool = True  # the user gave this path, not its directory
    is_listed: bool = False  # in --files, so it is treated as by kafka-dump-log

    @property
    def log_name(self) -> FileName:
        """The parsed name of a log. Selections read no other files."""
        assert self.name is not None
        return self.name


def dump_all(
    open_files: Callable[[Outcome], ReadOnlyFiles], paths: tuple[str, ...], listed: str | None, options: DumpOptions,
    selection: Selection | None = None, form: str = "text", choice: PartitionChoice = EVERY_PARTITION,
) -> int:
    """Dump the files of `--files` as kafka-dump-log does, then those of the plain arguments; return the exit status.

    form    text, json or jsonl
    choice  of the plain arguments, only files of these partitions
    """
    with BackgroundWriter(raw_stdout()) as output, TextBuffer(output.write, jobs=options.jobs) as out:
        renderer, outcome = _text(options, out) if form == "text" else _json(options, out, form)
        reports = DumpReports()
        if options.decoders is not None:
            options.decoders.report = outcome.finding
        try:
            files = open_files(outcome)
            targets = [*listed_targets(listed), *found_targets(files, paths, outcome, choice)]
            if selection is not None and selection.count:
                wanted = _wanted(files, targets, selection, outcome)
                reports = _count(files, wanted, options, selection, renderer, outcome)
            else:
                reports = _dump(files, targets, options, selection, renderer, outcome)
        except KafkalogError as error:  # of the store
            outcome.error(error)
        renderer.flush()
        output.drain()
        sys.stdout.buffer.flush()
        for line in reports.lines():
            outcome.remark(printable(line) if sys.stderr.isatty() else line)
        status = outcome.finish()
        renderer.flush()
        output.drain()
        sys.stdout.buffer.flush()
    return status


def _dump(
    files: ReadOnlyFiles, targets: list[Target], options: DumpOptions, selection: Selection | None,
    renderer: DumpRenderer, outcome: Outcome,
) -> DumpReports:
    from engine.dump.selection import PassedSegments, Selector

    selector = None
    if selection is not None:
        targets, skip = _start_of_tail(files, _wanted(files, targets, selection, outcome), options, selection)
        selector = Selector(selection._replace(limit=selection.limit if selection.tail is None else selection.tail), skip)
    dump, passed = Dump(files, options, renderer, outcome.finding, selector), PassedSegments(files, selection)
    paths = frozenset(target.path for target in targets)
    for target in targets:
        if selector is not None and selector.finished:
            break
        if target.name is None:
            if not target.is_listed:
                outcome.error(UsageError(f"{target.path}: its name is not that of a file of Kafka", path=target.path))
                continue
            renderer.file(target.path, None)
            renderer.flush()
            ignored = Finding("file-ignored", Where(target.path), "not one of Kafka's files")
            outcome.finding(ignored, words=f"Ignoring unknown file {printable(target.path)}")
            continue
        try:
            dump.dump(target.path, target.name, paths)
            if not target.is_named:
                passed.add(target.path, target.name)
        except KafkalogError as error:
            renderer.flush()
            outcome.error(error)
    _report_losses(passed, outcome, is_stopped=selector is not None and selector.finished)
    return dump.reports


def _report_losses(passed: PassedSegments, outcome: Outcome, *, is_stopped: bool) -> None:
    """Report offsets that no segment holds: kafka-dump-log has no words for them."""
    try:
        for finding in passed.losses(is_stopped=is_stopped):
            outcome.finding(finding, always=True)
    except KafkalogError as error:
        outcome.error(error)


def _text(options: DumpOptions, out: TextBuffer) -> tuple[DumpRenderer, Outcome]:
    from engine.dump.text import TextDump

    outcome = Outcome(_REPORTED)
    return TextDump(options, out, outcome.finding), outcome


def _json(options: DumpOptions, out: TextBuffer, form: str) -> tuple[DumpRenderer, Outcome]:
    from engine.dump.json_objects import JsonDump
    from kafkalog_cli.output import json_stream

    stream = json_stream(form, out, "dump-log")
    assert stream is not None  # since the form is not text
    outcome = Outcome(stream=stream)
    return JsonDump(options, stream, outcome.finding), outcome


def listed_targets(listed: str | None) -> Iterator[Target]:
    """Return the files of `--files`, with the kinds that kafka-dump-log assigns."""
    for part in java_split(listed) if listed is not None else []:
        path = part if is_url(part) else java_path(part)
        yield Target(path, kafka_file_name(path), is_listed=True)


def found_targets(
    files: ReadOnlyFiles, paths: tuple[str, ...], outcome: Outcome, choice: PartitionChoice = EVERY_PARTITION
) -> Iterator[Target]:
    """Return the files of the plain arguments."""
    for argument in [path for pattern in paths for path in expand(files, pattern)]:
        try:
            found = discover(files, argument, choice=choice)
        except KafkalogError as error:
            outcome.error(error)
            continue
        for finding in found.findings:
            outcome.finding(finding)
        if not found.paths:
            outcome.finding(nothing_found(argument))
        for path in found.paths:
            yield Target(path, parse_file_name(file_name(path)), path == argument)


def _wanted(files: ReadOnlyFiles, targets: list[Target], selection: Selection, outcome: Outcome) -> list[Target]:
    """Leave out every file that cannot hold a selected record.

    Files that it cannot look into are an error where the user named them, and logs of 0.7 always.
    """
    from engine.dump.selection import may_hold_matches

    wanted, unknown_to_07 = [], selection.unknown_to_07()
    for target in targets:
        kind = None if target.name is None else target.name.kind
        if target.name is not None and (kind in LOGS or (kind is FileKind.LOG_07 and not unknown_to_07)):
            if may_hold_matches(files, target.path, target.name, selection):
                wanted.append(target)
        elif kind is FileKind.LOG_07:
            what = f"messages of Kafka 0.7 have only an offset: {', '.join(unknown_to_07)} cannot select them"
            do = "select by --offset, --limit or --tail"
            outcome.error(UsageError(f"{target.path}: {what}", do, path=target.path))
        elif target.is_named:
            what = "--count counts" if selection.count else "a selection shows"
            what += " records of logs, and this file is not a log"
            outcome.error(UsageError(f"{target.path}: {what}", path=target.path))
    return wanted


def _count(
    files: ReadOnlyFiles, targets: list[Target], options: DumpOptions, selection: Selection, renderer: DumpRenderer,
    outcome: Outcome,
) -> DumpReports:
    from engine.dump.run import tally
    from engine.dump.selection import PassedSegments

    records = batches = 0
    reports, passed = DumpReports(), PassedSegments(files, selection)
    for target in targets:
        try:
            counted = tally(files, target.path, target.log_name, options, selection, outcome.finding, reports)
        except KafkalogError as error:
            renderer.flush()
            outcome.error(error)
            continue
        records += counted.record_count
        batches += counted.batch_count
        renderer.count(target.path, counted.record_count, counted.batch_count)
        if not target.is_named:
            passed.add(target.path, target.log_name)
    _report_losses(passed, outcome, is_stopped=False)
    if len(targets) > 1 or (not targets and not outcome.failed):
        renderer.count(None, records, batches)
    return reports


def _start_of_tail(
    files: ReadOnlyFiles, targets: list[Target], options: DumpOptions, selection: Selection
) -> tuple[list[Target], int]:
    """Return where --tail begins: (targets from the one with the first of the last N matches on, matches to skip there)."""
    wanted = selection.tail
    if wanted is None:
        return targets, 0
    from engine.dump.run import tally

    found = 0
    for index in range(len(targets) - 1, -1, -1):
        target = targets[index]
        try:
            counted = tally(files, target.path, target.log_name, options, selection, _unheard, DumpReports())
        except KafkalogError:
            continue  # the dump itself reports it
        by_record = options.iterates and target.log_name.kind is not FileKind.LOG_07
        found += counted.record_count if by_record else counted.batch_count
        if found >= wanted:
            return targets[index:], found - wanted
    return targets, 0


def _unheard(_finding: Finding) -> None:
    """Ignore a finding: the dump after this count reports it."""

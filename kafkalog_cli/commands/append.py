"""kafkalog append."""

from __future__ import annotations

import os
import select
import stat
import sys
import time
from contextlib import contextmanager, nullcontext
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from engine.amounts import count_of, offsets_text
from engine.discovery.names import file_name, is_topic_name, parse_partition_dir
from engine.dump.json_stream import text_field
from engine.errors import KafkalogError, UnreadableFile, UsageError
from engine.files import Files, now_ms, unreadable
from engine.findings import Severity
from engine.formats import CODEC_NAMES, INT_MAX, INT_MIN
from engine.kafka07.segment import Refused07
from engine.log.append_errors import AppendRefused
from engine.log.logdir.log_dirs import find_log_dirs, rights_of_owner
from engine.log.logdir.log_manager import refuse_metadata_log, refuse_topic_name
from engine.log.operations.append import Append, AppendOptions
from engine.log.operations.mending import check_topic_id
from engine.log.operations.operation import operate
from engine.log.quarantine.quarantining_files import QuarantiningFiles
from engine.log.report import Action
from engine.record.assembly import UnbuildableBatch
from engine.record.json_record import LineInvalid
from engine.record.selection import EVERYTHING
from kafkalog_cli.app import Outcome, printable
from kafkalog_cli.engine_options import OPENING, OUTPUT_OF_ONE, SETTINGS, one_log_options, quarantine_option
from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.interruption import INTERRUPTION, Interrupted
from kafkalog_cli.options import PATH, Time, Whole, size_option
from kafkalog_cli.output import json_stream
from kafkalog_cli.partitions import check_metrics, load_everything, run
from kafkalog_cli.selecting import SELECTION, OffsetRange, raw_selection_options, selection_from

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from contextlib import AbstractContextManager

    from engine.dump.json_stream import JsonStream
    from engine.log.append.frames import Appended
    from engine.log.operations.append import Appender
    from engine.log.partition.unified_log import PartitionLog
    from engine.log.report import Report
    from engine.log.session import Session
    from engine.record.selection import Selection
    from kafkalog_cli.progress import Progress

    InputOf = Callable[[str], AbstractContextManager[int]]  # directory of a partition → descriptor of its input


_SECTIONS = (
    Section("Input", ("--input", "--input-format", "--ignore-unknown", "--separator", "--null", "--timestamp")),
    Section("Selection of raw batches", tuple(option for option in SELECTION if option != "--producer-id")),
    Section("Topic", ("--topic", "--partitions", "--partitioner", "--linger", "--seed")),
    Section("Batches", ("--compression", "--compression-level", "--batch-size", "--leader-epoch", "--follower", "--magic")),
    Section("Producer", ("--producer-id", "--producer-epoch", "--sequence", "--transaction", "--coordinator-epoch")),
    Section("Action", ("--create", "--topic-id", "--flush-messages", "--flush-ms", "--keep-deleted", "--quarantine")),
    OPENING, SETTINGS, OUTPUT_OF_ONE,
)  # fmt: skip
_MAIN = ("--input", "--input-format", "--create", "--dry-run")
_EXAMPLES = (
    Example("Records as JSON, one a line:", "kafkalog append --input records.jsonl data/orders-7"),
    Example("Keys and values from a pipe, flushed line by line:",
            "kafkalog append --input-format text --flush-messages 1 data/orders-7"),
    Example("The batches of a segment with their offsets, into a new partition:",
            "kafkalog append --create --follower --input-format raw --input old/00000000000000000000.log data/orders-7"),
    Example("Records by key into the partitions of a topic, as a producer does:",
            "kafkalog append --create --topic orders --partitions 6 --input records.jsonl data"),
    Example("A transaction that is aborted:",
            "kafkalog append --producer-id 7 --transaction abort --input records.jsonl data/orders-7"),
)  # fmt: skip


_PARTITIONERS = ("default", "sticky", "round-robin")
_LINES, _NOT_REQUESTS = ("json", "text"), ("json", "text", "raw")
_OF_PRODUCERS = ("producer_id", "producer_epoch", "sequence", "transaction", "coordinator_epoch")
_OF_FORMS = {  # option → the input formats that use it
    "ignore_unknown": ("json",), "separator": ("text",), "null": ("text",), "follower": ("raw",),
    **dict.fromkeys(("timestamp", "compression", "level", "magic"), _LINES),
    **dict.fromkeys((*_OF_PRODUCERS, "batch_size", "leader_epoch"), _NOT_REQUESTS),
}  # fmt: skip


@click.command("append", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS, main_options=_MAIN, writes=True)
@one_log_options
@quarantine_option
@click.option("--input", "source", type=PATH, default="-", metavar="FILE", help="Read records from this file. Default: stdin.")
@click.option("--input-format", "form_in", type=click.Choice(["json", "text", "raw", "produce-request"]), default="json",
              show_default=True,
              help="json: an object a line. text: key, separator, value. raw: batches as in a .log. produce-request: captured "
                   "requests of producers, each after four bytes with its size.")
@click.option("--offset", "offsets", type=OffsetRange(), metavar="A:B",
              help="Only offsets from A up to, not including, B. A alone has no end.")
@raw_selection_options
@click.option("--ignore-unknown", is_flag=True,
              help="Skip unknown members of JSON objects. Default: refuse the line.")
@click.option("--separator", default=":", show_default=True, metavar="TEXT",
              help="Separator of key and value. Without it, or if it is empty, the whole line is the value.")
@click.option("--null", default="", metavar="TEXT", help="In text input, TEXT means a null key or value.")
@click.option("--timestamp", type=Time(-1), metavar="TIME",
              help="Timestamp of records without one: ISO-8601, ms, or `2h ago`; -1: none. Default: now.")
@click.option("--topic", metavar="NAME", help="Partition records as Kafka's producer does. PATH is then a log directory.")
@click.option("--partitions", type=Whole(1, 100_000), metavar="N",
              help="Number of partitions of the topic. Default: those in the log directory.")
@click.option("--partitioner", type=click.Choice(_PARTITIONERS),
              help="default: by key, null keys to a sticky partition. sticky: ignore keys. round-robin: all partitions in "
                   "turn. Default: default.")
@click.option("--linger", type=Whole(0, INT_MAX), metavar="MS",
              help="Also send a batch MS after its first record, by the records' timestamps. Default: only when it is full.")
@click.option("--seed", type=Whole(0), metavar="N",
              help="Seed of the random choice of sticky partitions: with the same seed a run can be repeated.")
@click.option("--compression", type=click.Choice(CODEC_NAMES), default="none", show_default=True,
              help="Compression by the producer. The topic's compression.type may compress again.")
@click.option("--compression-level", "level", type=Whole(INT_MIN), metavar="N", help="Level of the codec. Default: Kafka's.")
@size_option("--batch-size", 16384,
             "Put records into one batch up to this many bytes; at most 1 MiB of lines is read at once.", least=1)
@click.option("--leader-epoch", type=Whole(0, INT_MAX), metavar="N",
              help="Epoch of the leader that appends. Default: the latest of the log, or 0.")
@click.option("--follower", is_flag=True, help="Keep the offsets and epochs of raw batches.")
@click.option("--magic", type=click.Choice(["0", "1"]), help="Message format for a log of Kafka 0.7. Default: 1.")
@click.option("--producer-id", type=Whole(0), default=-1, metavar="N",
              help="Write the records as this idempotent producer. With raw input: only batches of this producer.")
@click.option("--producer-epoch", type=Whole(0, 2**15 - 1), metavar="N",
              help="Epoch of the producer. Default: its last one, or 0.")
@click.option("--sequence", type=Whole(0, INT_MAX), metavar="N",
              help="Sequence of the first record. Default: the one after the producer's last record, or 0.")
@click.option("--transaction", type=click.Choice(["commit", "abort", "open"]),
              help="Write the records as one transaction, and commit it, abort it or leave it open.")
@click.option("--coordinator-epoch", type=Whole(0, INT_MAX), default=0, metavar="N",
              help="Coordinator epoch in the marker that ends the transaction.")
@click.option("--create", is_flag=True, help="Create the partition directory if it does not exist.")
@click.option("--topic-id", metavar="ID",
              help="The topic's id for partition.metadata; a broker renames a partition without it to -stray. Default for a "
              "new partition: from the metadata log of the same log dir, or from another partition of the topic.")
@click.option("--flush-messages", type=Whole(1), metavar="N",
              help="Flush to disk after this many records. Default: at the end.")
@click.option("--flush-ms", type=Whole(0), metavar="MS", help="Flush to disk at least this often.")
def command(**values: Any) -> int:
    """Append records to a partition, as its leader does: validated, with offsets, timestamps and index entries.

    PATH is the directory of a partition. With --topic it is a log directory; the whole input is then read before the first
    partition is changed. Offsets are printed after their records are flushed to disk. A log of Kafka 0.7 takes
    values only, or its own entries as raw input.

    append refuses a log that would lose records when it is opened, or whose last batch is damaged: run `kafkalog recover`
    first.

    With --quarantine DIR such a log is truncated at the damage, as a broker does, and records are appended there; `kafkalog
    restore` undoes both. The rest of a write that was cut off is truncated and reported.
    """
    return append(values)


_CHUNK = 1 << 20  # bytes of an incomplete line or batch that are buffered; more if it is longer


def append(values: dict[str, Any]) -> int:
    """Append the input to the partition of the options, and return the exit status."""
    stream = json_stream(values["form"])
    try:
        _check(values)
        check_metrics(values)
        with _open(values["source"]) as descriptor:
            if values["topic"] is None:
                return _append_to(values, [values["path"]], lambda _directory: nullcontext(descriptor), stream)
            from kafkalog_cli.topic_input import AS_BATCHES, partition_count, partition_paths, spooled  # imports the producer

            count = partition_count(values)
            with spooled(values, descriptor, count) as spool:
                return _append_to(values | AS_BATCHES, partition_paths(values, count, spool), spool.opened, stream)
    except KafkalogError as error:
        outcome = Outcome(stream=stream)
        outcome.error(error)
        return outcome.finish()


def _append_to(values: dict[str, Any], paths: list[str], input_of: InputOf, stream: JsonStream | None) -> int:
    """Append to the partitions at `paths` what `input_of` opens for each, and return the exit status."""
    values["paths"] = tuple(paths)
    missing = [path for path in paths if not Files().exists(path)]
    new = [path for path in paths if make_partition(path, create=values["create"], dry_run=values["dry_run"])]

    def work(logs: Session, _progress: Progress) -> Iterator[Report]:
        kept = logs.manager.files_of(logs.log_dirs[0].path)
        partitions = logs.log_dirs[0].directories
        if isinstance(kept, QuarantiningFiles):
            made = {Files().resolve(path) for path in missing}
            for partition in partitions:
                if Files().resolve(partition.path) in made:
                    kept.note_made(partition.path)
        created = {Files().resolve(path) for path in new}
        here = {partition.path for partition in partitions if Files().resolve(partition.path) in created}
        return operate(logs.manager, replace(logs.options, jobs=1), _AppendInput(logs, values, input_of, stream, new=here))

    return run("append", values, work, stream=stream)


class _AppendInput(Append):
    """Appends the input."""

    def __init__(
        self, logs: Session, values: dict[str, Any], input_of: InputOf, stream: JsonStream | None, *, new: Collection[str]
    ) -> None:
        given: dict[str, Any] = {one.name: values.get(one.name) for one in fields(AppendOptions)}
        is_raw = values["form_in"] == "raw"
        given |= {"selection": _selection(values), "producer_id": -1} if is_raw else {"selection": EVERYTHING}
        given |= {"form": values["form_in"], **{name: os.fsencode(values[name]) for name in ("separator", "null")}}
        options = AppendOptions(**given)
        super().__init__(logs.manager, options, new=new, accepts_losses=values["quarantine"] is not None)
        self._values, self._input_of, self._stream = values, input_of, stream

    def read_input(self, log: PartitionLog, appender: Appender) -> None:
        """Append the input, and print what is on the disk."""
        if self._values["form_in"] == "produce-request":
            appender = self._request_appender(log)
        with self._input_of(log.directory) as descriptor:
            InputReader(log, appender, self._values, descriptor, self._stream).run()

    def _request_appender(self, log: PartitionLog) -> Appender:
        from engine.log.partition.unified_log import UnifiedLog
        from kafkalog_cli.request_input import RequestAppender, answer_text  # imports the protocol

        if not isinstance(log, UnifiedLog):
            raise UsageError(f"{log.directory}: a log of Kafka 0.7 takes no requests of this format", path=log.directory)

        def answered(answer: dict[str, Any]) -> None:
            log.flush()
            if answer["error_code"]:
                log.report.add(Action.REFUSED, "", f"request {answer['request']}: {answer['error']}")
            if self._stream is not None:
                self._stream.put("answer", {**text_field("partition", log.directory), **answer})
            else:
                click.echo(printable(f"{log.directory}: {answer_text(answer)}"))

        return RequestAppender(log, answered)


def _check(values: dict[str, Any]) -> None:
    """Raise UsageError for options that exclude each other."""
    _check_topic(values)
    _refuse_of_other_forms(values["form_in"])
    if values["topic_id"] is not None:
        check_topic_id(values["topic_id"])
    if values["transaction"] and values["producer_id"] < 0:
        raise UsageError("--transaction needs a producer id", "add --producer-id N")
    for name in ("sequence", "producer_epoch"):
        if values[name] is not None and values["producer_id"] < 0:
            raise UsageError(f"--{name.replace('_', '-')} needs a producer id", "add --producer-id N")
    if values["form_in"] != "raw" and _selection({**values, "producer_id": -1}) != EVERYTHING:
        raise UsageError("options that select records need raw batches", "add --input-format raw")
    if values["flush_messages"] is not None:
        values["settings"] = (*values["settings"], ("flush.messages", str(values["flush_messages"])))


def _selection(values: dict[str, Any]) -> Selection:
    """Return the selection of raw batches."""
    first, end = values["offsets"] or (None, None)
    producer_id = None if values["producer_id"] < 0 else values["producer_id"]
    return selection_from({**values, "producer_id": producer_id}, first_offset=first, end_offset=end)


def _given(names: Collection[str]) -> dict[str, str]:
    """Return the parameters among `names` that are on the command line, with their options."""
    context = click.get_current_context()
    return {
        one.name: one.opts[0] for one in context.command.params
        if one.name in names and context.get_parameter_source(one.name) is ParameterSource.COMMANDLINE
    }  # fmt: skip


def _refuse_of_other_forms(form: str) -> None:
    """Raise UsageError for options that input of this format would ignore."""
    given = _given([name for name, forms in _OF_FORMS.items() if form not in forms])
    if given:
        forms = [one for one in _NOT_REQUESTS if all(one in _OF_FORMS[name] for name in given)]
        what = f"--input-format {form} excludes {', '.join(given.values())}"
        raise UsageError(what, "remove them" if not forms else f"remove them, or use --input-format {' or '.join(forms)}")


def _check_topic(values: dict[str, Any]) -> None:
    """Raise UsageError for options that --topic excludes, or that need it."""
    if values["topic"] is None:
        for name in ("partitions", "partitioner", "linger", "seed"):
            if values[name] is not None:
                raise UsageError(f"--{name} needs --topic", "add --topic NAME, and name a log directory, not a partition")
        return
    if not is_topic_name(values["topic"]):
        raise UsageError(f"{values['topic']}: not a valid topic name: Kafka allows letters, digits, '.', '_' and '-'")
    if values["form_in"] not in ("json", "text"):
        raise UsageError("--topic needs JSON or text input; raw batches and requests have a partition", "remove --topic")
    given = _given(("magic", *_OF_PRODUCERS))
    if given:
        raise UsageError(f"--topic excludes {', '.join(given.values())}", "append to each partition separately")


@contextmanager
def _open(source: str) -> Iterator[int]:
    """Open the input, and return its descriptor. Raises UnreadableFile."""
    if source == "-":
        if sys.stdin is not None and sys.stdin.isatty():
            click.echo("reading records from the terminal; Ctrl-D at the start of a line ends them", err=True)
        yield 0
        return
    try:
        descriptor = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise unreadable(source, error) from error
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        what = f"{source}: a directory; --input reads one file"
        raise UnreadableFile(what, do="append its segments one after the other, each with --input-format raw")
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class _InputFailed(KafkalogError):
    """The input cannot be read."""

    code = "unreadable-file"


class InputReader:
    """Reads the input once, and appends it to the open log `log`."""

    def __init__(
        self, log: PartitionLog, appender: Appender, values: dict[str, Any], descriptor: int, stream: JsonStream | None
    ) -> None:
        self._log, self._appender, self._intake, self._unit = log, appender, appender.intake, appender.unit
        self._values, self._descriptor, self._stream, self._directory = values, descriptor, stream, log.directory
        self._is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        self._flushed_at = time.monotonic()

    def run(self) -> None:
        """Append everything. Refused input is reported; the input before it is kept.

        After other errors, such as a full disk, the report still has the amount of input that is in the log.
        """
        try:
            self._run()
        except KafkalogError:
            self._note_unfinished()
            raise

    def _run(self) -> None:
        kind, refusal = self._values["transaction"], None
        INTERRUPTION.defer_to_end()  # append what was read, and flush what was appended
        try:
            self._read_all()
        except (AppendRefused, LineInvalid, UnbuildableBatch, Refused07, _InputFailed) as error:
            refusal = _text(error), "before it appended"  # the text may have braces of the input
        except Interrupted as error:
            refusal = str(error), "of the input appended and flushed to disk"
        if refusal is not None:
            done = self._intake.appended.amount
            why, how_far = refusal
            self._log.report.add(Action.REFUSED, "", f"{why}; {count_of(done, self._unit)} {how_far}", records=done)
            kind = "abort" if kind == "commit" else kind  # do not commit part of a transaction
        self._note_cut_off()
        if kind in ("commit", "abort"):
            self._end_transaction(kind)
        self._flush()
        if self._appender.skipped:
            parts = count_of(self._appender.skipped, self._appender.parts)
            click.echo(f"skipped {parts} of the input: not data records", err=True)

    def _note_unfinished(self) -> None:
        """Report how much was appended. Does not sync again: after a failed sync, a later success would prove nothing."""
        self._acknowledge()
        outcome = self._intake.appended
        where = "" if outcome.last is None else f" (up to offset {outcome.last.last_offset})"
        there = f"{count_of(outcome.amount, self._unit)} of the input appended{where}, {outcome.taken} of them flushed to disk"
        what = f"stopped before the end of the input: {there}"
        self._log.report.add(Action.REFUSED, "", what, records=outcome.amount)

    def _note_cut_off(self) -> None:
        """Report input that no consumer will read: Kafka appends it, or leaves it out, without a message."""
        count, first = self._intake.appended.cut_off, self._intake.appended.first_cut_off
        if first is None:
            return
        if self._values["follower"]:
            at = f"offset {first.last_offset}"
            what = (f"{count_of(count, 'incomplete batch')} in the input, the first one ends at {at}: {first.cut_off}"
                    "; a follower appends them unchanged, so they are in the log")
        else:
            at = offsets_text(first.first_offset, first.last_offset + 1)
            sets = count_of(count, "compressed set")
            what = (f"{sets} of the input with an incomplete message at the end, the first one is at {at}: {first.cut_off}"
                    "; a broker skips the incomplete message, so it is not in the log")
        self._log.report.add(Action.EXPLAINED, "", what, severity=Severity.ERROR)

    # ---- input ------------------------------------------------------------------------------------

    def _read_all(self) -> None:
        buffer, seen, filled, is_last = bytearray(_CHUNK), 0, 0, False
        while not is_last:
            if filled == len(buffer):
                buffer += bytes(max(_CHUNK, filled // 4))
            with INTERRUPTION.at_once():
                is_due = not self._wait()
                if not is_due:
                    filled, is_last = self._fill(buffer, filled)
            if is_due:
                self._flush()
                continue
            self._set_clock()
            if is_last or self._intake.is_whole(buffer, seen, filled):
                buffer, filled = self._take(buffer, filled, is_last=is_last)
            seen = filled
            self._flush_in_time()

    def _take(self, buffer: bytearray, filled: int, *, is_last: bool) -> tuple[bytearray, int]:
        """Append whole lines or batches; returns the next buffer, and the bytes waiting in it. A grown buffer is replaced."""
        if len(buffer) > _CHUNK:
            piece, buffer = buffer, bytearray(_CHUNK)
            del piece[filled:]
        else:
            piece = buffer[:filled]
        done = self._intake.take(piece, is_last=is_last)
        left = filled - done
        buffer += bytes(max(0, left - len(buffer)))
        buffer[:left] = memoryview(piece)[done:]
        return buffer, left

    def _fill(self, buffer: bytearray, filled: int) -> tuple[int, bool]:
        """Read the available input, from a file as much as fits; returns (bytes in the buffer, whether the input ended)."""
        while filled < len(buffer):
            try:
                count = os.readv(self._descriptor, [memoryview(buffer)[filled:]])
            except OSError as error:
                raise _InputFailed(f"{self._values['source']}: {error.strerror}") from error
            if count == 0:
                return filled, True
            filled += count
            if not self._is_file:
                break
        return filled, False

    def _wait(self) -> bool:
        """Wait for input; returns False if a flush is due first."""
        due = self._values["flush_ms"]
        if due is None or not self._intake.appended.is_waiting:
            return True
        left = self._flushed_at + due / 1000 - time.monotonic()
        ready, _, _ = select.select([self._descriptor], [], [], max(0, left))
        return bool(ready)

    def _set_clock(self) -> None:
        if self._values["now"] is None:
            self._log.now = now_ms()

    # ---- output -----------------------------------------------------------------------------------

    def _end_transaction(self, kind: str) -> None:
        marker = self._appender.end_transaction(kind)
        self._flush()
        fields = {"control_type": kind.upper(), "offset": marker.first_offset}
        self._print("marker", fields, f"{kind} marker at offset {marker.first_offset}")

    def _flush_in_time(self) -> None:
        due = self._values["flush_ms"]
        if due is not None and time.monotonic() - self._flushed_at >= due / 1000:
            self._flush()
        else:
            self._acknowledge()
        if self._intake.appended.is_full:
            self._flush()

    def _flush(self) -> None:
        self._log.flush()
        self._flushed_at = time.monotonic()
        self._acknowledge()

    def _acknowledge(self) -> None:
        """Print the offsets below the recovery point, consecutive ones together."""
        for appended in self._intake.appended.take(self._log.recovery_point):
            self._print_appended(appended)

    def _print_appended(self, run: Appended) -> None:
        first, last = run.first_offset, run.last_offset
        there = ", already in the log" if run.is_duplicate else ""
        fields: dict[str, object] = {
            "first_offset": first, "last_offset": last, f"{self._unit}s": run.amount, "is_duplicate": run.is_duplicate,
        }  # fmt: skip
        self._print("appended", fields, f"{offsets_text(first, last + 1)} ({count_of(run.amount, self._unit)}{there})")

    def _print(self, kind: str, fields: dict[str, object], text: str) -> None:
        """Print offsets that are on the disk, as an object of type `kind` or as text."""
        if self._stream is not None:
            self._stream.put(kind, {**text_field("partition", self._directory), **fields})
        else:
            click.echo(printable(f"{self._directory}: {text}"))


def _text(error: KafkalogError) -> str:
    records = getattr(error, "records", None)
    return str(error) if not records else f"{error} (record {records[0][0]} of its batch: {records[0][1]})"


def make_partition(path: str, *, create: bool, dry_run: bool) -> bool:
    """Make the partition directory if there is none and `create` is set; returns whether it was made.

    Raises UsageError, NoLogOfBrokers for a name that no partition can have, MetadataLogRefused, UnwritableFile.
    """
    files, directory = Files(), path.rstrip("/") or path
    directory = files.resolve(directory) if file_name(directory) in (".", "..") else directory
    named = parse_partition_dir(file_name(files.absolute(directory)))
    if named is None:
        if files.exists(directory):
            find_log_dirs(files, [directory])  # raises the right error for a directory that is not Kafka's
        raise UsageError(f"{directory}: not a partition directory, which has a name such as orders-7")
    if files.exists(directory):
        return create and not files.list(directory)  # left by an earlier command that stopped here
    if not create or dry_run:
        what = f"{directory}: the partition directory does not exist"
        raise UsageError(what, "a dry run does not create it" if create else "--create creates it")
    refuse_topic_name(directory, named.topic)
    refuse_metadata_log(directory, named.topic)
    around = directory.rpartition("/")[0] or "."
    load_everything(files, [around])
    with rights_of_owner(files, [around]):
        files.make_directory(directory)
        files.sync_directory(around)
    return True

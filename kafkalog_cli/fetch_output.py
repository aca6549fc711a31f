"""Print records as text by a template of kcat's letters, or as JSON.

A kernel writes most records. Escaped records for a terminal, large ones and those of Kafka 0.7 are written one by one.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from engine.amounts import count_of
from engine.discovery.names import parent_of, partition_of
from engine.dump.json_stream import bytes_field
from engine.dump.search import decode_fields
from engine.dump.template import Template
from engine.errors import UsageError
from engine.files import ReadOnlyFiles
from engine.findings import Finding, Severity, Where
from engine.kernels.escapes import terminal_safe
from engine.kernels.tables import Shown
from kafkalog_cli.app import Outcome, Total
from kafkalog_cli.options import files_for
from kafkalog_cli.output import json_stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.discovery.names import PartitionDir
    from engine.dump.json_stream import JsonStream
    from engine.dump.text_buffer import TextBuffer
    from engine.dump.topic_decoders import TopicDecoders
    from engine.files import OpenFile
    from engine.kafka07.reader import Message
    from engine.log.fetch.records import Run
    from engine.record.batch import Record
    from engine.record.selection import Selection
    from engine.schema.decode import RecordDecoder
    from kafkalog_cli.remote_store import StoreChoice

    AnyRecord = Record | Message
    Part = Callable[[AnyRecord], bytes]

_DEFAULT = r"%s\n"
_TYPE = "fetched-record"
_TOKEN = re.compile(r"%(.)|\\x([0-9a-fA-F]{2})|\\(.)|[^%\\]+|.", re.DOTALL)
_LINE_ENDS = dict.fromkeys(map(ord, "\n\r\t"))  # and tabs: harmless on a terminal
_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options of fetch.

    start      the first offset, EARLIEST, LATEST, or negative: counted from the end
    selection  of records; its first offset is at most `start`
    """

    start: int | str
    selection: Selection
    max_bytes: int | None
    isolation: str
    open_transactions: str | None
    log_dirs: tuple[str, ...]
    follow: bool
    merge: bool
    log_start_offset: int | None
    high_watermark: int | None
    template: str | None
    form: str
    raw: bool
    force: bool
    jobs: int
    store: StoreChoice | None = None
    quiet: bool = False
    verbose: bool = False
    decoders: TopicDecoders | None = None


class Renderer(Protocol):
    """Prints records of one partition."""

    def run(self, run: Run, limit: int | None) -> int:
        """Print at most `limit` records of a run, and return their number."""

    def record(self, record: Any) -> None:
        """Print one record: a Record, or a Message of Kafka 0.7."""


class Limit:
    """Counts printed records: the first `skip` matches are left out, then `left` are printed; None: all."""

    def __init__(self, skip: int, left: int | None) -> None:
        self._skip, self.left = skip, left
        self.shown = 0

    def is_done(self) -> bool:
        """Whether nothing more is to be printed."""
        return self.left == 0

    def show(self, renderer: Renderer, run: Run) -> None:
        """Print the wanted part of a run."""
        skipped = min(self._skip, run.end - run.first)
        self._skip -= skipped
        run = run._replace(first=run.first + skipped)
        if run.first < run.end:
            self._count(renderer.run(run, self.left))

    def show_record(self, renderer: Renderer, record: AnyRecord) -> None:
        """Print one record, if it is wanted."""
        if self._skip:
            self._skip -= 1
        elif self.left != 0:
            renderer.record(record)
            self._count(1)

    def _count(self, shown: int) -> None:
        """Count printed records."""
        self.shown += shown
        self.left = None if self.left is None else self.left - shown


class ReadTally:
    """Counts the partitions that were read, by result."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome, self._total = outcome, Total()
        self._verdicts: dict[str, tuple[str, Severity]] = {}

    def reporter(self, path: str) -> Callable[[Finding], None]:
        """Return the function that receives the findings of the partition at `path`, whose reading begins."""
        self._verdicts[path] = ("read", Severity.INFO)

        def report(finding: Finding) -> None:
            if finding.severity is not Severity.INFO:
                self._verdicts[path] = ("with problems", Severity.ERROR)
            self._outcome.finding(finding)

        return report

    def failed(self, path: str) -> None:
        """Note that the partition at `path` could not be read to its end."""
        self._verdicts[path] = ("failed", Severity.ERROR)

    def say(self, records: int) -> None:
        """Print the total to stderr, because stdout has the records."""
        for verdict in self._verdicts.values():
            self._total.add(*verdict)
        if self._outcome.is_text:
            self._total.say(count_of(records, "record"), quiet=self._outcome.is_quiet, err=True)


class Output:
    """The destination of records and findings."""

    def __init__(self, wanted: Wanted, out: TextBuffer) -> None:
        self._wanted, self._out = wanted, out
        self._stream = json_stream(wanted.form, self._out, "fetch")
        self.outcome = Outcome(stream=self._stream, verbose=wanted.verbose, quiet=wanted.quiet)
        if wanted.decoders is not None:
            wanted.decoders.report = self.outcome.finding

    def renderer(self, path: str) -> Renderer:
        """Return the renderer for the partition in the directory `path`. Raises UsageError for a bad template."""
        path = path.rstrip("/")
        partition = partition_of(ReadOnlyFiles().absolute(path + "/x"))
        decoder = None if self._wanted.decoders is None else self._wanted.decoders.of(path + "/x", partition)
        records = self._records(path, partition)
        return records if decoder is None else DecodedRecords(records, decoder, self.outcome.finding)

    def _records(self, path: str, partition: PartitionDir | None) -> JsonRecords | TextRecords:
        if self._stream is not None:
            return JsonRecords(self._stream, partition)
        from engine.log.fetch.coordinator_logs import TransactionalIds

        template = _DEFAULT if self._wanted.template is None else self._wanted.template
        files = files_for([path])
        names = TransactionalIds(files, [parent_of(files.absolute(path))], self.outcome.finding)
        return TextRecords(
            template, partition, self._out, escape=sys.stdout.isatty(), force=self._wanted.force, name_of=names.of
        )

    def flush(self) -> None:
        """Write the output so far."""
        self._out.flush()


class TextRecords:
    """Prints each record by a template.

    escape  escape control characters in names and contents, for a terminal
    force   print such bytes of the template itself, and %R, unchanged; otherwise they are refused. Raises UsageError.
    name_of   returns the transactional id of a producer, for %X; None: it is not known

    path   of the .log of the record, for %F     match   the part of the record that matches, for %m; None: %m is refused
    """

    def __init__(
        self, template: str, partition: PartitionDir | None, out: TextBuffer, *, escape: bool, force: bool = False,
        name_of: Callable[[int], str | None] = lambda _producer: None, match: bytes | None = None,
    ) -> None:
        self._out, self._escape, self._name_of = out, escape, name_of
        self.path, self.match = "", match
        tokens = list(_TOKEN.finditer(template))
        constants = [_constant(match, partition, self._safe) for match in tokens]
        if escape and not force:
            _refuse_raw_bytes(tokens, constants)
        self._parts = [
            self._part(match[1]) if constant is None else _always(constant)
            for match, constant in zip(tokens, constants, strict=True)
        ]
        pieces = [
            _LETTERS.get(match[1]) if constant is None else constant for match, constant in zip(tokens, constants, strict=True)
        ]
        known = [piece for piece in pieces if piece is not None]
        self._template = None if escape or len(known) < len(pieces) else Template(known)

    def run(self, run: Run, limit: int | None) -> int:
        """Print at most `limit` records of a run, and return their number."""
        run, self.path = run.at_most(limit), run.path
        if self._template is None:
            for record in run.records():
                self.record(record)
        else:
            self._template.put(self._out, run, self.record)
        return run.end - run.first

    def record(self, record: AnyRecord) -> None:
        """Print one record."""
        self._out.put(b"".join([part(record) for part in self._parts]))

    def _part(self, letter: str) -> Part:
        if letter in "sk":
            return self._payload(letter)
        if letter in _PARTS:
            part = _PARTS[letter]
            return part if letter != "h" else lambda record: self._safe(part(record))
        if letter == "F":
            return lambda _record: self._safe(self.path.encode("utf-8", "surrogateescape"))
        if letter == "X":
            return lambda record: self._safe((self._name_of(record.batch.producer_id) or "").encode("utf-8", "surrogatepass"))
        if letter == "m" and self.match is not None:
            return lambda _record: self._safe(self.match or b"")
        raise UsageError(f"%{letter}: unknown letter; use {' '.join(LETTERS)}{' %m' if self.match is not None else ''}")

    def _payload(self, letter: str) -> Part:
        if letter == "s":
            return lambda record: self._safe(record.value or b"")
        return lambda record: self._safe(record.key or b"")

    def _safe(self, data: bytes) -> bytes:
        return terminal_safe(data.decode("utf-8", "replace")).encode() if self._escape else data


def _refuse_raw_bytes(tokens: list[re.Match[str]], constants: list[bytes | None]) -> None:
    """Raise UsageError for template parts that may control a terminal: %R, or bytes other than text and line ends."""
    for match, constant in zip(tokens, constants, strict=True):
        text = "" if constant is None else constant.decode("utf-8", "surrogateescape").translate(_LINE_ENDS)
        if match[1] == "R" or terminal_safe(text) != text or (match[2] is not None and not text.isascii()):
            what = f"{terminal_safe(match[0])} in the template writes control characters to the terminal"
            raise UsageError(what, "write to a file or a pipe, or add --force")


def _constant(
    match: re.Match[str], partition: PartitionDir | None, safe: Callable[[bytes], bytes]
) -> bytes | None:
    """Return the text of a template part that is equal for all records; None: it depends on the record.

    safe  escapes text that is not from the template itself
    """
    letter, code, escaped = match[1], match[2], match[3]
    if letter is not None:
        fixed = {
            "%": "%", "t": "" if partition is None else partition.topic,
            "p": "" if partition is None else str(partition.partition),
        }  # fmt: skip
        return safe(fixed[letter].encode("utf-8", "surrogateescape")) if letter in fixed else None
    if code is not None:
        return bytes([int(code, 16)])
    text = match[0].encode("utf-8", "surrogateescape")
    return text if escaped is None else _ESCAPES.get(escaped, text)


def _always(constant: bytes) -> Part:
    return lambda _record: constant


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _headers(record: AnyRecord) -> bytes:
    return b",".join(name + b"=" + (b"NULL" if value is None else value) for name, value in record.headers)


_PARTS: dict[str, Part] = {
    "S": lambda record: b"%d" % _size(record.value),
    "K": lambda record: b"%d" % _size(record.key),
    "R": lambda record: _size(record.value).to_bytes(4, "big", signed=True),
    "o": lambda record: b"%d" % record.offset,
    "T": lambda record: b"%d" % record.timestamp,
    "h": _headers,
    "P": lambda record: b"%d" % record.batch.producer_id,
    "E": lambda record: b"%d" % record.batch.producer_epoch,
    "q": lambda record: b"%d" % record.sequence,
    "L": lambda record: b"%d" % record.batch.partition_leader_epoch,
    "b": lambda record: b"%d" % record.batch.position,
}
TEMPLATE_HELP = (
    "Text for each record: %s %k value and key, %S %K their sizes, %o offset, %T timestamp, %h headers, %t topic, "
    "%p partition, %P producer id, %E its epoch, %q sequence, %L leader epoch, "
    "%X transactional id (from __transaction_state in the same log dir), %F file, %b byte of the batch, "
    "%R the size of the value in 4 bytes; \\n \\r \\t \\xHH."
)
LETTERS = tuple("%" + letter for letter in "sSRkKoThtpPEqLXFb%")


_LETTERS = {
    "s": Shown.VALUE, "k": Shown.KEY, "S": Shown.VALUE_SIZE, "K": Shown.KEY_SIZE, "R": Shown.BINARY_VALUE_SIZE,
    "o": Shown.OFFSET, "T": Shown.TIMESTAMP, "h": Shown.HEADERS,
}  # fmt: skip


def partition_fields(partition: PartitionDir | None) -> dict[str, object]:
    """Return the members `topic` and `partition` of an object for a record."""
    if partition is None:
        return {"topic": None, "partition": None}
    return {**bytes_field("topic", partition.topic.encode("utf-8", "surrogateescape")), "partition": partition.partition}


def record_fields(record: AnyRecord) -> dict[str, object]:
    """Return the members of an object for a record, without those of its partition."""
    batch = record.batch
    kind = "LogAppendTime" if batch.is_log_append_time else "CreateTime" if batch.magic else "NoTimestampType"
    return {
        "offset": record.offset, "timestamp": record.timestamp, "timestamp_type": kind,
        "leader_epoch": batch.partition_leader_epoch if batch.partition_leader_epoch >= 0 else None,
        **bytes_field("key", record.key), **bytes_field("value", record.value),
        "headers": [{**bytes_field("key", name), **bytes_field("value", value)} for name, value in record.headers],
    }  # fmt: skip


class JsonRecords:
    """Prints each record as a JSON object."""

    def __init__(self, stream: JsonStream, partition: PartitionDir | None) -> None:
        self._stream = stream
        self._of = partition_fields(partition)
        head = stream.text({"type": _TYPE, **self._of})[:-1]
        self._template = None if stream.ascii else Template([
            b"," + head if stream.array else head, b',"offset":', Shown.OFFSET, b',"timestamp":', Shown.TIMESTAMP,
            b',"timestamp_type":"', Shown.TIMESTAMP_TYPE, b'","leader_epoch":', Shown.LEADER_EPOCH, b',"key', Shown.JSON_KEY,
            b',"value', Shown.JSON_VALUE, b',"headers":[', Shown.JSON_HEADERS, b"]}\n",
        ])  # fmt: skip

    def record(self, record: AnyRecord, decoded: dict[str, object] | None = None) -> None:
        """Print one record. decoded: more members."""
        self._stream.put(_TYPE, {**self._of, **record_fields(record), **(decoded or {})})

    def run(self, run: Run, limit: int | None) -> int:
        """Print at most `limit` records of a run, and return their number."""
        run, counts = run.at_most(limit), self._stream.counts
        if self._template is None:
            for record in run.records():
                self.record(record)
        else:
            before = counts[_TYPE]
            self._template.put(self._stream.out, run, self.record)
            counts[_TYPE] = before + run.end - run.first  # includes the large ones, which were counted already
        return run.end - run.first


class DecodedRecords:
    """Prints each record decoded: in text instead of its key and value, in JSON as further members."""

    def __init__(
        self, records: JsonRecords | TextRecords, decoder: RecordDecoder, report: Callable[[Finding], None]
    ) -> None:  # fmt: skip
        self._records, self._decoder, self._report = records, decoder, report

    def run(self, run: Run, limit: int | None) -> int:
        """Print at most `limit` records of a run, and return their number."""
        run = run.at_most(limit)
        if isinstance(self._records, TextRecords):
            self._records.path = run.path
        for record in run.records():
            problem = self._print(record)
            if problem is not None:
                where = Where(run.path, record.batch.position, record.offset)
                self._report(Finding("record-undecodable", where, problem))
        return run.end - run.first

    def record(self, record: AnyRecord) -> None:
        """Print one record of Kafka 0.7, which is not decoded."""
        self._records.record(record)

    def _print(self, record: Record) -> str | None:
        if isinstance(self._records, TextRecords):
            problem = decode_fields(record, self._decoder)
            self._records.record(record)
            return problem
        data = self._decoder.data(record.offset, record.key, record.value)
        self._records.record(record, {"decoded_key": data["key"], "decoded_value": data["value"]})
        return None if data["problem"] is None else str(data["problem"])


def send(file: OpenFile, position: int, size: int) -> None:
    """Copy bytes of a file to stdout. Raises UnreadableFile, FileChangedWhileReading."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):  # not a file, in tests
        sys.stdout.buffer.write(file.read_exactly(position, size))
        return
    file.send(descriptor, position, size)

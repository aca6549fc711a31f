"""Records as text by a template of kcat's letters, or as JSON."""

from __future__ import annotations

import re
import sys
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING

from engine.discovery.names import partition_of
from engine.dump.json_stream import JsonStream, bytes_field
from engine.dump.text_buffer import TextBuffer
from engine.errors import UsageError
from engine.files import ReadOnlyFiles
from engine.formats import RecordField
from engine.kernels.escapes import terminal_safe
from kafkalog_cli.app import Outcome
from kafkalog_cli.output import raw_stdout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from engine.discovery.names import PartitionDir
    from engine.files import Buffer
    from engine.log.fetch.records import Run
    from engine.record.batch import Record
    from engine.record.reader import Chunk
    from kafkalog_cli.commands.fetch import Renderer, Wanted

    Part = Callable[[Record], bytes]
    Column = Callable[[Chunk, int, int], Iterable[Buffer]]

_DEFAULT = r"%s\n"
_TOKEN = re.compile(r"%(.)|\\x([0-9a-fA-F]{2})|\\(.)|[^%\\]+|.", re.DOTALL)
_LINE_ENDS = dict.fromkeys(map(ord, "\n\r\t"))  # and tabs: terminals may have them
_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}


def renderer_for(path: str, wanted: Wanted) -> tuple[Renderer, Outcome]:
    """What shows the records of the partition at `path`, and what takes the findings. Raises UsageError."""
    out = TextBuffer(raw_stdout())
    partition = partition_of(ReadOnlyFiles().absolute(path.rstrip("/") + "/x"))
    if wanted.form == "text":
        is_terminal = sys.stdout.isatty()
        return TextRecords(wanted.template or _DEFAULT, partition, out, escape=is_terminal, force=wanted.force), Outcome()
    stream = JsonStream(out, array=wanted.form == "json", ascii=sys.stdout.isatty())
    return JsonRecords(stream, partition), Outcome(stream=stream)


class TextRecords:
    """Each record as a template says.

    escape  for a terminal: what it would obey in names and contents is shown escaped
    force   show such bytes of the template itself, and %R, as they are; else they are refused. Raises UsageError.
    """

    def __init__(
        self, template: str, partition: PartitionDir | None, out: TextBuffer, *, escape: bool, force: bool = False
    ) -> None:
        self._out, self._escape = out, escape
        tokens = list(_TOKEN.finditer(template))
        constants = [_constant(match, partition, self._safe) for match in tokens]
        if escape and not force:
            _refuse_raw_bytes(tokens, constants)
        self._parts = [
            self._part(match[1]) if constant is None else _always(constant)
            for match, constant in zip(tokens, constants, strict=True)
        ]
        self._pieces = [match[1] if constant is None else constant for match, constant in zip(tokens, constants, strict=True)]
        self._by_columns = not escape and all(isinstance(one, bytes) or one in _COLUMNS for one in self._pieces)

    def run(self, run: Run, limit: int | None) -> int:
        """Show a run of records, `limit` at most → how many."""
        end = run.end if limit is None else min(run.end, run.first + limit)
        if not self._by_columns:
            for record in islice(run.records(), end - run.first):
                self.record(record)
            return end - run.first
        columns = [
            repeat(piece, end - run.first) if isinstance(piece, bytes) else _COLUMNS[piece](run.chunk, run.first, end)
            for piece in self._pieces
        ]
        self._out.put(b"".join(chain.from_iterable(zip(*columns, strict=True))))
        return end - run.first

    def record(self, record: Record) -> None:
        """Show one."""
        self._out.put(b"".join([part(record) for part in self._parts]))

    def flush(self) -> None:
        """Hand out what was shown."""
        self._out.flush()

    def _part(self, letter: str) -> Part:
        if letter in "sk":
            return self._payload(letter)
        if letter in _PARTS:
            part = _PARTS[letter]
            return part if letter != "h" else lambda record: self._safe(part(record))
        raise UsageError(f"%{letter}: no such letter; there are %s %S %R %k %K %o %T %h %t %p %%")

    def _payload(self, letter: str) -> Part:
        if letter == "s":
            return lambda record: self._safe(record.value or b"")
        return lambda record: self._safe(record.key or b"")

    def _safe(self, data: bytes) -> bytes:
        return terminal_safe(data.decode("utf-8", "replace")).encode() if self._escape else data


def _refuse_raw_bytes(tokens: list[re.Match[str]], constants: list[bytes | None]) -> None:
    """Raise UsageError for a piece of a template that a terminal may obey: %R, or bytes other than text and line ends."""
    for match, constant in zip(tokens, constants, strict=True):
        text = "" if constant is None else constant.decode("utf-8", "surrogateescape").translate(_LINE_ENDS)
        if match[1] == "R" or terminal_safe(text) != text or (match[2] is not None and not text.isascii()):
            what = f"{terminal_safe(match[0])} in the template writes bytes that a terminal would obey"
            raise UsageError(what, "write to a file or a pipe, or add --force")


def _constant(
    match: re.Match[str], partition: PartitionDir | None, safe: Callable[[bytes], bytes]
) -> bytes | None:
    """What a piece of a template stands for, whatever the record; None: it depends on it.

    safe  is applied to what the template does not say itself
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


def _numbers(field: RecordField) -> Column:
    return lambda chunk, first, end: map(b"%d".__mod__, chunk.records.field(field)[first:end].tolist())


def _bytes(position: RecordField, size: RecordField) -> Column:
    def column(chunk: Chunk, first: int, end: int) -> Iterable[Buffer]:
        data = chunk.data
        positions, sizes = (chunk.records.field(field)[first:end].tolist() for field in (position, size))
        return [data[at : at + count] if count > 0 else b"" for at, count in zip(positions, sizes, strict=True)]

    return column


# what can be had of many records at once
_COLUMNS: dict[str, Column] = {
    "s": _bytes(RecordField.VALUE_POSITION, RecordField.VALUE_SIZE),
    "k": _bytes(RecordField.KEY_POSITION, RecordField.KEY_SIZE),
    "S": _numbers(RecordField.VALUE_SIZE),
    "K": _numbers(RecordField.KEY_SIZE),
    "o": _numbers(RecordField.OFFSET),
    "T": _numbers(RecordField.TIMESTAMP),
}


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _headers(record: Record) -> bytes:
    return b",".join(name + b"=" + (b"NULL" if value is None else value) for name, value in record.headers)


_PARTS: dict[str, Part] = {
    "S": lambda record: b"%d" % _size(record.value),
    "K": lambda record: b"%d" % _size(record.key),
    "R": lambda record: _size(record.value).to_bytes(4, "big", signed=True),
    "o": lambda record: b"%d" % record.offset,
    "T": lambda record: b"%d" % record.timestamp,
    "h": _headers,
}


class JsonRecords:
    """Each record as a JSON object."""

    def __init__(self, stream: JsonStream, partition: PartitionDir | None) -> None:
        self._stream = stream
        self._of: dict[str, object] = {"topic": None, "partition": None}
        if partition is not None:
            topic = partition.topic.encode("utf-8", "surrogateescape")
            self._of = {**bytes_field("topic", topic), "partition": partition.partition}

    def record(self, record: Record) -> None:
        """Show one."""
        batch = record.batch
        kind = "LogAppendTime" if batch.is_log_append_time else "CreateTime" if batch.magic else "NoTimestampType"
        self._stream.put("fetched-record", {
            **self._of, "offset": record.offset, "timestamp": record.timestamp, "timestamp_type": kind,
            "leader_epoch": batch.partition_leader_epoch if batch.partition_leader_epoch >= 0 else None,
            **bytes_field("key", record.key), **bytes_field("value", record.value),
            "headers": [{**bytes_field("key", name), **bytes_field("value", value)} for name, value in record.headers],
        })  # fmt: skip

    def run(self, run: Run, limit: int | None) -> int:
        """Show a run of records, `limit` at most → how many."""
        count = run.end - run.first if limit is None else min(limit, run.end - run.first)
        for record in islice(run.records(), count):
            self.record(record)
        return count

    def flush(self) -> None:
        """Hand out what was shown."""
        self._stream.out.flush()

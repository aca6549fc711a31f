"""Logs of Kafka 0.7 as JSON objects: their entries, and with deep iteration the messages in compressed sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.dump.json_stream import bytes_field
from engine.dump.kafka07 import starting_offset
from engine.findings import Finding, Where
from engine.record.kafka07 import SIZE_FIELD, MessageAndOffset, Problem, Stopped, open_sets
from engine.record.kafka07_file import iterate_file, tail_problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.dump.json_stream import JsonStream
    from engine.dump.options import DumpOptions
    from engine.files import OpenFile

_CODECS = ("none", "gzip", "snappy")


class Json07:
    """One log's entries as objects. Payloads come with --print-data-log."""

    def __init__(
        self, file: OpenFile, path: str, options: DumpOptions, stream: JsonStream, report: Callable[[Finding], None]
    ) -> None:
        self._file, self._path, self._options, self._stream, self._report = file, path, options, stream, report
        self._start = starting_offset(path) or 0

    def run(self) -> None:
        """Write everything."""
        tail = 0
        end = self._file.size()
        for message in iterate_file(self._file, self._start, max_entry=self._options.max_batch_bytes):
            position = message.offset - self._start
            tail = position + SIZE_FIELD + message.size
            if message.error is not None:
                self._problem(position, message.error)
            if message.valid is False:
                self._problem(position, Problem("crc-mismatch", f"stored CRC-32 {message.checksum:08x} does not fit"))
            self._stream.put("entry-07", {"position": position, **self._fields(message)})
            if self._options.iterates and message.codec and message.valid and message.payload is not None:
                self._inside(message, position)
        problem = tail_problem(self._file, tail, end)
        if problem:
            self._problem(tail, problem)

    def _inside(self, wrapper: MessageAndOffset, position: int) -> None:
        """The messages of a compressed set."""
        for message in open_sets(iter((wrapper,)), limit=self._options.max_decompressed_bytes):
            if isinstance(message, Stopped):
                if message.error is not wrapper.error:
                    self._problem(position, message.error)
            elif message.error is not None:
                self._problem(position, message.error)
            else:
                self._stream.put("message-07", self._fields(message))

    def _fields(self, message: MessageAndOffset) -> dict[str, object]:
        codec = message.codec
        name = None if codec is None else _CODECS[codec] if codec < len(_CODECS) else f"unknown({codec})"
        fields: dict[str, object] = {
            "offset": message.offset, "next_offset": message.next_offset, "size": message.size,
            "magic": message.magic, "attributes": message.attributes, "compression": name, "crc": message.checksum,
            "is_valid": message.valid,
        }  # fmt: skip
        return {**fields, **bytes_field("payload", message.payload)} if self._options.print_data else fields

    def _problem(self, position: int, problem: Problem) -> None:
        self._report(Finding(problem.code, Where(self._path, position, self._start + position), problem.what))

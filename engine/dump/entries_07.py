"""Dump the selected entries of a log of Kafka 0.7, one by one; problems are reported as findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.amounts import count_of
from engine.discovery.names import parse_long
from engine.dump.json_stream import bytes_field, put_large_field
from engine.dump.kernel_renderer import LARGE
from engine.dump.renderer import UNLIMITED
from engine.findings import Finding, Where
from engine.formats import LONG_MAX, to_long
from engine.java.strings import java_utf8, whole_text
from engine.kafka07.entries import (
    CODEC_MASK_07,
    CODEC_NAMES_07,
    HEADER_V0,
    HEADER_V1,
    SIZE_FIELD,
    MessageAndOffset,
    Stopped,
    open_sets,
)
from engine.kafka07.file import WINDOW, find_entry, iterate_file, tail_problem
from engine.kernels.escapes import printable, terminal_safe
from engine.record.damage import Problem
from engine.record.soundness import search_ended

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.dump.json_stream import JsonStream
    from engine.dump.renderer import DumpOptions
    from engine.dump.selection import Selector
    from engine.files import OpenFile


def starting_offset(path: str) -> int | None:
    """Return the offset of the first byte of the file, from its name up to the first dot; None if there is none."""
    return parse_long(path.rpartition("/")[2].partition(".")[0])


class _Walks:
    """Positions at which walks over a log of 0.7 begin: the start, and with --continue-on-corruption after each damage.

    report  receives what was skipped, and where

    Iterate once. The walk must set `tail`, the position after the last entry, and `sound`, the position after the last one with
    a valid checksum. Afterwards `problem` is the reason why the last walk ended.
    """

    def __init__(self, file: OpenFile, options: DumpOptions, report: Callable[[int, Problem], None]) -> None:
        size = file.size()
        self.end = size if options.max_bytes == UNLIMITED else min(size, options.max_bytes)
        self._is_limited = self.end < size
        self.tail = self.sound = 0
        self.problem: Problem | None = None
        self._file, self._options, self._report = file, options, report

    def __iter__(self) -> Iterator[int]:
        begin: int | None = 0
        while begin is not None:
            self.tail = self.sound = begin
            yield begin
            self.problem = tail_problem(self._file, self.tail, self.end)
            if self._is_limited and self.problem is not None and self.problem.code == "torn-tail":
                self.problem = None  # the limit truncated the entry
            begin = self._next_entry()
            if begin is not None:
                self._report_skipped(begin)

    def _next_entry(self) -> int | None:
        """Return the next sound entry after `sound`: later entries may have been found from a corrupt size."""
        if self.problem is None or self.problem.code == "zero-tail" or not self._options.continue_on_corruption:
            return None
        largest = self._options.max_batch_bytes
        return find_entry(self._file, self.sound + 1, self.end, max_entry=largest, gave_up=self._report_gave_up)

    def _report_gave_up(self, position: int) -> None:
        self._report(position, search_ended(position, self.end))

    def _report_skipped(self, found: int) -> None:
        damaged = self.tail
        if found <= damaged:
            what = f"a sound entry begins at byte {found}, inside one with a wrong checksum"
            self._report(damaged, Problem("batch-size-invalid", what))
            return
        self._report(damaged, Problem("batch-size-invalid", "no entry begins here, but sound ones follow"))
        what = f"{count_of(found - damaged, 'byte')} skipped up to a sound entry at byte {found}"
        self._report(damaged, Problem("skipped-bytes", what))


class Entries07:
    """Iterate once over the entries at the top level; compressed sets are not opened. Raises UnreadableFile.

    selector   selects entries; None: all. Damage is reported up to the end of the selection
    window     bytes read at a time
    in_pieces  entries larger than a window have no payload, whatever their size: the caller reads it

    Offsets are Java's longs, which wrap. Afterwards `tail` is the offset after the last entry; None: the selection ended
    before.
    """

    def __init__(
        self, file: OpenFile, path: str, options: DumpOptions, report: Callable[[Finding], None],
        selector: Selector | None = None, *, window: int = WINDOW, in_pieces: bool = False,
    ) -> None:
        self._file, self._path, self._options, self._report, self._selector = file, path, options, report, selector
        self._window, self._largest = window, None if in_pieces else options.max_batch_bytes
        self.start = starting_offset(path) or 0
        self.tail: int | None = None

    def __iter__(self) -> Iterator[MessageAndOffset]:
        selector, walks = self._selector, _Walks(self._file, self._options, self.problem)
        for begin in walks:
            for message in self._entries_between(begin, walks.end):
                if selector is not None and selector.is_past_entry(message.offset):
                    return
                position = walks.tail  # entries follow each other without gaps
                walks.tail = position + SIZE_FIELD + message.size
                if message.error is not None or message.computed != message.checksum:
                    self._problems(message, position)
                if message.computed == message.checksum is not None:
                    walks.sound = walks.tail
                if selector is None or selector.entry(message.offset):
                    yield message
        self.tail = self.offset(walks.tail)
        if walks.problem:
            self.problem(walks.tail, walks.problem)

    def _entries_between(self, begin: int, end: int) -> Iterator[MessageAndOffset]:
        """Iterate over the entries between two positions."""
        found = iterate_file(self._file, self.start, max_entry=self._largest, window=self._window, begin=begin, end=end)
        if self.start + end <= LONG_MAX:
            return found
        return (one._replace(offset=to_long(one.offset), next_offset=to_long(one.next_offset)) for one in found)

    def inside(self, wrapper: MessageAndOffset) -> Iterator[MessageAndOffset]:
        """Iterate over the messages of a compressed set; reports problems of the set or its wrapper."""
        if not wrapper.codec or not wrapper.valid or wrapper.payload is None:
            return
        for message in open_sets(iter((wrapper,)), limit=self._options.max_decompressed_bytes):
            if isinstance(message, Stopped):
                if message.error is not wrapper.error:
                    self.problem(self.position(wrapper), message.error)
            elif message.error is not None:
                self.problem(self.position(wrapper), message.error)
            else:
                yield message

    def offset(self, position: int) -> int:
        """Return the offset of a byte position in the file."""
        return to_long(self.start + position)

    def position(self, message: MessageAndOffset) -> int:
        """Return the position of an entry in the file."""
        return to_long(message.offset - self.start)

    def problem(self, position: int, problem: Problem) -> None:
        """Report a problem of the entry at `position`."""
        self._report(Finding(problem.code, Where(self._path, position, self.offset(position)), problem.what))

    def _problems(self, message: MessageAndOffset, position: int) -> None:
        if message.error is not None:
            self.problem(position, message.error)
        if message.computed != message.checksum:
            self.problem(position, message.crc_problem())


_CODECS = ("none", "gzip", "snappy")


def put_entries(entries: Entries07, options: DumpOptions, stream: JsonStream) -> None:
    """Write the entries of one log as objects; payloads with --print-data-log."""
    for message in entries:
        fields = {"position": entries.position(message), **_fields(message)}
        _put(stream, "entry-07", fields, message, with_payload=options.print_data)
        if options.iterates:
            for inner in entries.inside(message):
                _put(stream, "message-07", _fields(inner), inner, with_payload=options.print_data)


def _put(
    stream: JsonStream, kind: str, fields: dict[str, object], message: MessageAndOffset, *, with_payload: bool
) -> None:
    payload = message.payload
    if not with_payload:
        stream.put(kind, fields)
    elif payload is not None and (isinstance(payload, memoryview) or len(payload) >= LARGE):
        stream.put_open(kind, fields)
        put_large_field(stream.out, "payload", memoryview(payload), escape=stream.ascii)
        stream.close()
    else:
        stream.put(kind, {**fields, **bytes_field("payload", payload)})


def _fields(message: MessageAndOffset) -> dict[str, object]:
    codec = message.codec
    name = None if codec is None else _CODECS[codec] if codec < len(_CODECS) else f"unknown({codec})"
    return {
        "offset": message.offset, "next_offset": message.next_offset, "size": message.size,
        "magic": message.magic, "attributes": message.attributes, "compression": name, "crc": message.checksum,
        "is_valid": message.valid,
    }  # fmt: skip


_FLUSH = 8192  # entries per write


def dump_entries(
    file: OpenFile, path: str, options: DumpOptions, write: Callable[[bytes], object],
    report: Callable[[Finding], None], selector: Selector | None = None, *, window: int = WINDOW,
) -> None:
    """Dump the entries of `file`, called `path` in the text and the findings. Mirrors DumpLogSegments of 0.7.2.

    Compressed sets are not opened. Memory does not depend on the size of the file or of its entries. If the selection ends
    before the log, the line about the tail is left out. Raises UnreadableFile, and FileChangedWhileReading if the file becomes
    shorter meanwhile.
    """
    name = printable(path).encode() if options.escape else path.encode("utf-8", "surrogateescape")
    entries = Entries07(file, path, options, report, selector, window=window, in_pieces=True)
    write(b"Dumping %b\nStarting offset: %d\n" % (name, entries.start))
    _Text(file, entries, options, write).put_all()
    if entries.tail is not None:
        write(b"tail of the log is at offset: %d\n" % entries.tail)


class _Text:
    """The lines of a file's entries."""

    def __init__(self, file: OpenFile, entries: Entries07, options: DumpOptions, write: Callable[[bytes], object]) -> None:
        self._file, self._entries, self._write = file, entries, write
        self._print_payload, self._escape = options.print_data, options.escape
        self._lines = _lines(print_payload=options.print_data)

    def put_all(self) -> None:
        """Write the text of all entries."""
        lines, print_payload, shown = self._lines, self._print_payload, self._shown
        text: list[bytes] = []
        waiting = 0  # bytes of payloads in `text`
        for message in self._entries:
            offset, _, _, _, attributes, stored, computed, payload, _, _ = message
            if payload is None or len(text) == _FLUSH or waiting > WINDOW:
                self._write(b"".join(text))
                text.clear()
                waiting = 0
            if payload is None:
                self._put_alone(message)
                continue
            line = lines[computed == stored][0 if attributes is None else 1 + (attributes & CODEC_MASK_07)]
            if print_payload:
                text.append(line % (offset, len(payload), shown(payload)))
                waiting += len(payload)
            else:
                text.append(line % (offset, len(payload)))
        self._write(b"".join(text))

    def _put_alone(self, message: MessageAndOffset) -> None:
        """Write an entry that cannot be read, or that is larger than a window."""
        if message.payload_position is None:
            self._write(b"offset: %d isvalid: false payloadsize: -1 magic: %d compresscodec: %b\n" % (
                message.offset, message.magic or 0, self._codec_of_short(message)))  # fmt: skip
            return
        kind, header = (0, HEADER_V0) if message.attributes is None else (1 + (message.attributes & CODEC_MASK_07), HEADER_V1)
        line, size = self._lines[message.computed == message.checksum][kind], message.size - header
        if not self._print_payload:
            self._write(line % (message.offset, size))
            return
        self._write((line % (message.offset, size, b""))[:-1])
        self._put_payload(message.payload_position, size)

    def _codec_of_short(self, message: MessageAndOffset) -> bytes:
        """Return the codec of an entry that is too short for its header, but has attributes."""
        if message.magic != 1:
            return b"UNKNOWN"
        at = self._entries.position(message) + SIZE_FIELD + 1
        return _codec_name(self._file.read_exactly(at, 1)[0] & CODEC_MASK_07)

    def _put_payload(self, position: int, size: int) -> None:
        """Write a payload of any size as text, in pieces."""
        rest = b""
        for at in range(position, position + size, WINDOW):
            piece = rest + self._file.read_exactly(at, min(WINDOW, position + size - at))
            cut = whole_text(piece)
            self._write(self._shown(piece[:cut]))
            rest = piece[cut:]
        self._write(self._shown(rest) + b"\n")

    def _shown(self, payload: bytes | memoryview) -> bytes:
        """Return a payload as text, for a terminal without control characters."""
        payload = bytes(payload)
        text = payload if payload.isascii() else java_utf8(payload)  # no call in the common case
        return terminal_safe(text.decode()).encode() if self._escape else text


def _lines(*, print_payload: bool) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """Return formats for (offset, payload size[, payload text]), by [valid][0 for magic 0, codec + 1 for magic 1]."""
    line = b"offset: %%d isvalid: %b payloadsize: %%d magic: %d compresscodec: %b"
    line += b"\npayload:\t%%b\n" if print_payload else b"\n"
    kinds = [(0, 0)] + [(1, codec) for codec in range(CODEC_MASK_07 + 1)]
    invalid, valid = (
        tuple(line % (word, magic, _codec_name(codec)) for magic, codec in kinds) for word in (b"false", b"true")
    )
    return invalid, valid


def _codec_name(codec: int) -> bytes:
    return CODEC_NAMES_07[codec].encode() if codec < len(CODEC_NAMES_07) else b"UNKNOWN(%d)" % codec

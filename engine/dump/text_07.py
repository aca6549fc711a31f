"""The text of 0.7.2's DumpLogSegments for a `NNN.kafka` file.

Byte for byte what that tool prints, as far as it gets: it dies at an unknown magic or codec and at an entry too small
for its header. Here such an entry has a line as well (`payloadsize: -1` where nothing can be known, `UNKNOWN(n)` for
the codec), a finding is reported, and the rest of the file follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

from engine.dump.entries_07 import Stretches, starting_offset
from engine.dump.record_text import printable
from engine.findings import Finding, Where
from engine.formats import LONG_MAX, to_long
from engine.java_text import java_utf8, whole_text
from engine.kernels.escapes import terminal_safe
from engine.record.damage import Problem
from engine.record.kafka07 import (
    CODEC_MASK_07,
    CODEC_NAMES_07,
    HEADER_V1,
    SIZE_FIELD,
    codec_problem,
    head_at,
    header_problem,
    signed,
)
from engine.record.kafka07_file import WINDOW, checksum_of, walk

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.dump.options import DumpOptions
    from engine.dump.selection import Selector
    from engine.files import OpenFile

_FLUSH = 8192  # entries whose text waits to be written
_UNKNOWN_KIND = len(CODEC_NAMES_07) + 1  # row of `_lines`: magic 1 with the one codec that has no name


def dump_entries(
    file: OpenFile, path: str, options: DumpOptions, write: Callable[[bytes], object],
    report: Callable[[Finding], None], selector: Selector | None = None, *, window: int = WINDOW,
) -> None:
    """Dump the entries of `file`, called `path` in the text and the findings. Mirrors DumpLogSegments of 0.7.2.

    Compressed sets are not opened. Memory does not depend on the size of the file or of its entries. A selection that
    ends before the log does leaves out the line about the tail. Raises UnreadableFile, and FileChangedWhileReading if
    the file becomes shorter meanwhile.
    """
    _Dump(file, path, options, write, report, selector).run(window)


class _Dump:
    """One file's dump: its sinks, and the offset of its first byte."""

    def __init__(
        self, file: OpenFile, path: str, options: DumpOptions, write: Callable[[bytes], object],
        report: Callable[[Finding], None], selector: Selector | None,
    ) -> None:
        self.file, self.path, self.options, self.selector = file, path, options, selector
        self.print_payload = options.print_data
        self.write, self.report = write, report
        self.start = 0
        self.stretches = Stretches(file, options, self._report)
        self.is_past = False  # the selection ended
        self.lines = _lines(print_payload=self.print_payload)

    def run(self, window: int) -> None:
        """Write the text of the whole file."""
        path = printable(self.path).encode() if self.options.escape else self.path.encode("utf-8", "surrogateescape")
        self.write(b"Dumping %b\n" % path)
        self.start = starting_offset(self.path) or 0
        self.write(b"Starting offset: %d\n" % self.start)
        stretches = self.stretches
        for begin in stretches:
            stretches.tail = self._entries(begin, stretches.end, window)
            if self.is_past:
                return
        self.write(b"tail of the log is at offset: %d\n" % self._offset(stretches.tail))
        if stretches.problem:
            self._report(stretches.tail, stretches.problem)

    def _is_wanted(self, position: int) -> bool:
        """Does the selection want the entry at `position`? Notes where it ends."""
        if self.selector is None:
            return True
        self.is_past = self.selector.is_past_entry(self._offset(position))
        return not self.is_past and self.selector.entry(self._offset(position))

    def _shown(self, payload: bytes) -> bytes:
        """A payload as text, on a terminal without what a terminal obeys."""
        text = payload if payload.isascii() else java_utf8(payload)  # no call in the common case
        return terminal_safe(text.decode()).encode() if self.options.escape else text

    def _entries(self, begin: int, end: int, window: int) -> int:
        """Write the entries from `begin` on; returns the position behind the last one, or where the selection ended."""
        lines, start, print_payload, selects = self.lines, self.start, self.print_payload, self.selector is not None
        offsets_fit = start + end <= LONG_MAX
        text: list[bytes] = []
        tail, last = begin, b""
        for position, size, data, at in walk(self.file, end, window, begin):
            if data is not last or len(text) == _FLUSH:
                self.write(b"".join(text))
                text.clear()
                last = data
            is_wanted = not selects or self._is_wanted(position)
            if self.is_past:
                break
            tail = position + SIZE_FIELD + size
            stop = at + SIZE_FIELD + size
            if data[at + SIZE_FIELD] > 1 or size < HEADER_V1 or stop > len(data) or not offsets_fit:
                self.write(b"".join(text))
                text.clear()
                self._entry(position, size, data[at : at + SIZE_FIELD + HEADER_V1], is_wanted=is_wanted)
                continue
            header, attributes, stored = head_at(data, at)
            kind = 0 if attributes is None else 1 + (attributes & CODEC_MASK_07)
            payload = data[at + SIZE_FIELD + header : stop]
            computed = crc32(payload)
            if computed != stored or kind == _UNKNOWN_KIND:
                self._report_entry(position, stored, computed, kind)
            if computed == stored:
                self.stretches.sound = tail
            if not is_wanted:
                continue
            line = lines[computed == stored][kind]
            if print_payload:
                text.append(line % (start + position, size - header, self._shown(payload)))
            else:
                text.append(line % (start + position, size - header))
        self.write(b"".join(text))
        return tail

    def _entry(self, position: int, size: int, head: bytes, *, is_wanted: bool) -> None:
        """Write one entry of any kind and size, `head` being its first bytes."""
        magic, offset = signed(head[SIZE_FIELD]), self._offset(position)
        problem = header_problem(magic, size)
        if problem:
            codec = _codec_name(head[SIZE_FIELD + 1] & CODEC_MASK_07) if magic == 1 else b"UNKNOWN"
            line = b"offset: %d isvalid: false payloadsize: -1 magic: %d compresscodec: %b\n"
            if is_wanted:
                self.write(line % (offset, magic, codec))
            self._report(position, problem)
            return
        header, attributes, stored = head_at(head, 0)
        kind = 0 if attributes is None else 1 + (attributes & CODEC_MASK_07)
        start, length = position + SIZE_FIELD + header, size - header
        computed = checksum_of(self.file, start, length)
        if computed != stored or kind == _UNKNOWN_KIND:
            self._report_entry(position, stored, computed, kind)
        if computed == stored:
            self.stretches.sound = start + length
        if not is_wanted:
            return
        if not self.print_payload:
            self.write(self.lines[computed == stored][kind] % (offset, length))
            return
        self.write((self.lines[computed == stored][kind] % (offset, length, b""))[:-1])
        self._payload(start, length)

    def _payload(self, position: int, size: int) -> None:
        """Write a payload of any size as text, piece by piece."""
        rest = b""
        for at in range(position, position + size, WINDOW):
            piece = rest + self.file.read_exactly(at, min(WINDOW, position + size - at))
            cut = whole_text(piece)
            self.write(self._shown(piece[:cut]))
            rest = piece[cut:]
        self.write(self._shown(rest) + b"\n")

    def _offset(self, position: int) -> int:
        """The log offset of a byte position: a Java long, which wraps."""
        return to_long(self.start + position)

    def _report_entry(self, position: int, stored: int, computed: int, kind: int) -> None:
        if kind == _UNKNOWN_KIND:
            self._report(position, codec_problem(kind - 1))
        if stored != computed:
            self._report(position, Problem("crc-mismatch", f"stored CRC-32 {stored:08x}, computed {computed:08x}"))

    def _report(self, position: int, problem: Problem) -> None:
        where = Where(self.path, position, self._offset(position))
        self.report(Finding(problem.code, where, problem.what))


def _lines(*, print_payload: bool) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """Formats for (offset, payload size[, payload text]), by [valid][0 for magic 0, codec + 1 for magic 1]."""
    line = b"offset: %%d isvalid: %b payloadsize: %%d magic: %d compresscodec: %b"
    line += b"\npayload:\t%%b\n" if print_payload else b"\n"
    kinds = [(0, 0)] + [(1, codec) for codec in range(CODEC_MASK_07 + 1)]
    invalid, valid = (
        tuple(line % (word, magic, _codec_name(codec)) for magic, codec in kinds) for word in (b"false", b"true")
    )
    return invalid, valid


def _codec_name(codec: int) -> bytes:
    return CODEC_NAMES_07[codec].encode() if codec < len(CODEC_NAMES_07) else b"UNKNOWN(%d)" % codec

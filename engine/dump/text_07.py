"""The text of 0.7.2's DumpLogSegments for a `NNN.kafka` file.

Byte for byte what that tool prints, as far as it gets: it dies at an unknown magic or codec and at an entry too small
for its header. Here such an entry has a line as well (`payloadsize: -1` where nothing can be known, `UNKNOWN(n)` for
the codec), a finding is reported, and the rest of the file follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.dump.entries_07 import Entries07
from engine.dump.record_text import printable
from engine.java_text import java_utf8, whole_text
from engine.kernels.escapes import terminal_safe
from engine.record.kafka07 import CODEC_MASK_07, CODEC_NAMES_07, HEADER_V0, HEADER_V1, SIZE_FIELD
from engine.record.kafka07_file import WINDOW

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.dump.options import DumpOptions
    from engine.dump.selection import Selector
    from engine.files import OpenFile
    from engine.findings import Finding
    from engine.record.kafka07 import MessageAndOffset

_FLUSH = 8192  # entries whose text waits to be written


def dump_entries(
    file: OpenFile, path: str, options: DumpOptions, write: Callable[[bytes], object],
    report: Callable[[Finding], None], selector: Selector | None = None, *, window: int = WINDOW,
) -> None:
    """Dump the entries of `file`, called `path` in the text and the findings. Mirrors DumpLogSegments of 0.7.2.

    Compressed sets are not opened. Memory does not depend on the size of the file or of its entries. A selection that
    ends before the log does leaves out the line about the tail. Raises UnreadableFile, and FileChangedWhileReading if
    the file becomes shorter meanwhile.
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
        waiting = 0  # bytes of payloads
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
        """Write an entry that can not be read, or that a window does not hold."""
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
        """The codec of an entry that is too short for its header, but has attributes."""
        if message.magic != 1:
            return b"UNKNOWN"
        at = self._entries.position(message) + SIZE_FIELD + 1
        return _codec_name(self._file.read_exactly(at, 1)[0] & CODEC_MASK_07)

    def _put_payload(self, position: int, size: int) -> None:
        """Write a payload of any size as text, piece by piece."""
        rest = b""
        for at in range(position, position + size, WINDOW):
            piece = rest + self._file.read_exactly(at, min(WINDOW, position + size - at))
            cut = whole_text(piece)
            self._write(self._shown(piece[:cut]))
            rest = piece[cut:]
        self._write(self._shown(rest) + b"\n")

    def _shown(self, payload: bytes | memoryview) -> bytes:
        """A payload as text, on a terminal without what a terminal obeys."""
        payload = bytes(payload)
        text = payload if payload.isascii() else java_utf8(payload)  # no call in the common case
        return terminal_safe(text.decode()).encode() if self._escape else text


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

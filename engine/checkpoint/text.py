"""Checkpoint files: a version, a count, and that many lines of text. Mirrors CheckpointFile."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from engine.discovery.names import parse_int
from engine.findings import Finding, Where

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

MAX_CHECKPOINT_SIZE = 16 * 1024 * 1024  # bytes
MAX_ENTRIES = 250_000  # lines of one file
MAX_FINDINGS = 100  # in one file

_LINE = re.compile(rb"([^\r\n]*)(?:\r\n|\r|\n|\Z)")
_BLANKS = re.compile(r"[ \t\n\x0b\f\r]+")

Entry = TypeVar("Entry")
Value = TypeVar("Value")


class Decoded(NamedTuple, Generic[Value]):
    """What a small file says, None where it cannot be understood, and what is wrong with it."""

    value: Value | None
    findings: list[Finding]


class Checkpoint(NamedTuple, Generic[Entry]):
    """The lines of a checkpoint file.

    version, expected  the first two lines, None where they are missing, as in the empty files that brokers leave;
                       `expected` is the number of entries
    entries            the lines that make sense, in file order
    fault              why Kafka reads nothing of it, None where it does: one that ends before the number of entries has
                       none for Kafka
    """

    version: int | None
    expected: int | None
    entries: list[Entry]
    findings: list[Finding]
    fault: str | None = None


class Line(NamedTuple):
    """A line: number from 1, byte position, and text without its end, None where it is not UTF-8."""

    number: int
    position: int
    text: str | None


def text_lines(data: bytes) -> Iterator[Line]:
    """The lines as java.io.BufferedReader splits them: LF, CR or CR LF end one; the last may lack it."""
    position, number = 0, 0
    while position < len(data):
        found = _LINE.match(data, position)
        if found is None:  # the pattern matches everywhere
            return
        number += 1
        try:
            text = found[1].decode()
        except UnicodeDecodeError:
            text = None
        yield Line(number, position, text)
        position = found.end()


class Faults:
    """Findings about one file, MAX_FINDINGS at most, the rest as a number."""

    def __init__(self, path: str, code: str = "file-malformed") -> None:
        self._path = path
        self._code = code
        self._findings: list[Finding] = []
        self._more = 0

    def add(self, what: str, line: Line | None = None, *, offset: int | None = None) -> None:
        """Note a fault, of `line` or of the whole file; `offset`: the log offset that it is about."""
        if len(self._findings) >= MAX_FINDINGS:
            self._more += 1
            return
        if line is not None:
            what = f"line {line.number}: {what}"
        where = Where(self._path, None if line is None else line.position, offset)
        self._findings.append(Finding(self._code, where, what))

    @property
    def first(self) -> str | None:
        """The first fault in words, None where there is none."""
        return self._findings[0].what if self._findings else None

    def all(self) -> list[Finding]:
        """What was noted."""
        if not self._more:
            return self._findings
        return [*self._findings, Finding(self._code, Where(self._path), f"{self._more} more faults", self._more)]


def quoted(text: str | None) -> str:
    """A line of a file inside a message: escaped and cut, so that it stays one short line."""
    if text is None:
        return "not UTF-8"
    return repr(text) if len(text) <= 80 else repr(text[:80]) + "…"


def decode_checkpoint(
    data: bytes, path: str, parse: Callable[[list[str]], Entry | None], version: int = 0,
    doubt: Callable[[list[Entry], Faults], None] = lambda _entries, _faults: None,
) -> Checkpoint[Entry]:  # fmt: skip
    """Read the bytes of a checkpoint of `path`; `parse` makes an entry of the words of a line, None for a bad one.

    doubt  notes what is wrong with entries that Kafka takes

    An empty file has no entries and no fault. Bad lines become findings and the others are kept, where Kafka gives up
    the whole file. A file of another version is not read on.
    """
    faults = Faults(path)
    lines = text_lines(data)
    first = next(lines, None)
    if first is None:
        return Checkpoint(None, None, [], [])
    found_version = parse_int(first.text or "")
    if found_version != version:
        faults.add(f"version {quoted(first.text)}, only {version} exists", first)
        return Checkpoint(found_version, None, [], faults.all(), faults.first)
    second = next(lines, None)
    if second is None:
        faults.add("the number of entries is missing")
        return Checkpoint(found_version, None, [], faults.all())
    count = parse_int(second.text or "")
    if count is None or count < 0:
        faults.add(f"not a number of entries: {quoted(second.text)}", second)
    entries = _entries(lines, parse, faults)
    if count is not None and count != len(entries):
        faults.add(f"the number of entries is {count}, the file has {len(entries)}", second)
    fault = faults.first
    doubt(entries, faults)
    return Checkpoint(found_version, count, entries, faults.all(), fault)


def _entries(lines: Iterator[Line], parse: Callable[[list[str]], Entry | None], faults: Faults) -> list[Entry]:
    entries: list[Entry] = []
    for at, line in enumerate(lines):
        if at == MAX_ENTRIES:
            faults.add(f"more than {MAX_ENTRIES} lines: the rest was not read", line)
            break
        entry = None if line.text is None else parse(words(line.text))
        if entry is None:
            faults.add(f"malformed: {quoted(line.text)}", line)
        else:
            entries.append(entry)
    return entries


def words(line: str) -> list[str]:
    """`line` split at white space as Java does: a blank in front makes an empty first word, one after none."""
    parts = _BLANKS.split(line)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts


def encode_checkpoint(lines: Iterable[str], version: int = 0) -> bytes:
    """The bytes of a checkpoint with these lines. Mirrors CheckpointFile.CheckpointWriteBuffer."""
    entries = list(lines)
    return "".join(f"{line}\n" for line in (version, len(entries), *entries)).encode()

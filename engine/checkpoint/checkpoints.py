"""Checkpoint files: a version, a count, and that number of lines of text. Mirrors CheckpointFile.

leader-epoch-checkpoint of a partition has the start offset of each leader epoch (LeaderEpochFileCache, KIP-101). Those of a
log dir have an offset for each partition (OffsetCheckpointFile): recovery points, high watermarks (replication), log start
offsets, and the offsets up to which the cleaner cleaned. Their names are in `discovery.names.FileKind`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from engine.amounts import count_of
from engine.discovery.names import FileKind, parse_int, parse_long
from engine.errors import KafkalogError, OversizedFile
from engine.files import replace
from engine.findings import Finding, First, Where

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from engine.files import Files, ReadOnlyFiles

MAX_CHECKPOINT_SIZE = 16 * 1024 * 1024  # bytes
MAX_ENTRIES = 250_000  # lines of one file
MAX_FINDINGS = 100  # in one file

_LINE = re.compile(rb"([^\r\n]*)(?:\r\n|\r|\n|\Z)")
_BLANKS = re.compile(r"[ \t\n\x0b\f\r]+")

Entry = TypeVar("Entry")
Value = TypeVar("Value")
Found = TypeVar("Found")
_KINDS = (FileKind.REPLICATION_CHECKPOINT, FileKind.RECOVERY_POINT_CHECKPOINT)


class Decoded(NamedTuple, Generic[Value]):
    """The value of a small file, None if the file is malformed, and its problems."""

    value: Value | None
    findings: list[Finding]


class Checkpoint(NamedTuple, Generic[Entry]):
    """The lines of a checkpoint file.

    version, expected  the first two lines, None if they are missing, as in the empty files that brokers leave; `expected` is
    the
                       number of entries
    entries            the valid lines, in file order
    fault              why Kafka reads nothing of the file; None: Kafka reads it. Kafka reads a file that ends before the line
                       with the number of entries as an empty one
    """

    version: int | None
    expected: int | None
    entries: list[Entry]
    findings: list[Finding]
    fault: str | None = None


class Line(NamedTuple):
    """A line: number from 1, byte position, and text without line end, None if it is not UTF-8."""

    number: int
    position: int
    text: str | None


def text_lines(data: bytes) -> Iterator[Line]:
    """Split into lines as java.io.BufferedReader does: at LF, CR or CR LF, which the last line may lack."""
    position, number = 0, 0
    while position < len(data):
        found = _LINE.match(data, position)
        if found is None:  # cannot happen: the pattern matches everywhere
            return
        number += 1
        try:
            text = found[1].decode()
        except UnicodeDecodeError:
            text = None
        yield Line(number, position, text)
        position = found.end()


class Faults:
    """Findings about one file, MAX_FINDINGS at most, and the number of the others."""

    def __init__(self, path: str, code: str = "file-malformed") -> None:
        self._path = path
        self._code = code
        self._findings: First[Finding] = First(MAX_FINDINGS)

    def add(self, what: str, line: Line | None = None, *, offset: int | None = None) -> None:
        """Add a fault of `line`, or of the whole file; `offset`: the log offset concerned."""
        if line is not None:
            what = f"line {line.number}: {what}"
        where = Where(self._path, None if line is None else line.position, offset)
        self._findings.take(Finding(self._code, where, what))

    @property
    def first(self) -> str | None:
        """Return the text of the first fault, None if there is none."""
        return self._findings[0].what if self._findings else None

    def all(self) -> list[Finding]:
        """Return all findings."""
        more = self._findings.more
        if more:
            return [*self._findings, Finding(self._code, Where(self._path), count_of(more, "more problem"), more)]
        return [*self._findings]


def quoted(text: str | None) -> str:
    """Return a line of a file for use in a message: escaped and shortened to one short line."""
    if text is None:
        return "not UTF-8"
    return repr(text) if len(text) <= 80 else repr(text[:80]) + "…"


def decode_checkpoint(
    data: bytes, path: str, parse: Callable[[list[str]], Entry | None], version: int = 0,
    doubt: Callable[[list[Entry], Faults], None] = lambda _entries, _faults: None,
) -> Checkpoint[Entry]:  # fmt: skip
    """Decode the bytes of the checkpoint at `path`; `parse` converts the words of a line to an entry, None for a bad line.

    doubt  reports problems of entries that Kafka accepts

    An empty file has no entries and no fault. Bad lines become findings and the others are kept; Kafka rejects the whole file.
    Of a file of another version nothing else is read.
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


def _malformed(finding: Finding) -> Checkpoint[Any]:
    return Checkpoint(None, None, [], [finding], finding.what)


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


def read_small(
    files: ReadOnlyFiles, path: str, limit: int, decode: Callable[[bytes, str], Found], malformed: Callable[[Finding], Found],
) -> Found:
    """Decode the file at `path` with `decode`, or call `malformed` with the finding for a file of more than `limit` bytes.

    Raises UnreadableFile.
    """
    try:
        return decode(files.read(path, limit), path)
    except OversizedFile as error:
        return malformed(Finding("file-malformed", Where(path), error.what))


def words(line: str) -> list[str]:
    """Split `line` at white space as Java does: white space at the start makes an empty first word, at the end none."""
    parts = _BLANKS.split(line)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts


def encode_checkpoint(lines: Iterable[str], version: int = 0) -> bytes:
    """Return the bytes of a checkpoint with these lines. Mirrors CheckpointFile.CheckpointWriteBuffer."""
    entries = list(lines)
    return "".join(f"{line}\n" for line in (version, len(entries), *entries)).encode()


class MalformedCheckpoint(KafkalogError):
    """A checkpoint file that Kafka cannot read: a broker would not load the log (KafkaStorageException)."""

    code = "malformed-checkpoint"


class EpochEntry(NamedTuple):
    """A line: the first offset of the leader epoch `epoch`."""

    epoch: int
    start_offset: int


def read_leader_epochs(files: ReadOnlyFiles, path: str) -> Checkpoint[EpochEntry]:
    """Read the file at `path`; one of more than MAX_CHECKPOINT_SIZE bytes is malformed. Raises UnreadableFile."""
    return read_small(files, path, MAX_CHECKPOINT_SIZE, decode_leader_epochs, _malformed)


def decode_leader_epochs(data: bytes, path: str) -> Checkpoint[EpochEntry]:
    """Decode the bytes of a leader-epoch-checkpoint, in file order. Never raises."""
    return decode_checkpoint(data, path, _parse_epoch, doubt=_doubt_epochs)


def load_leader_epochs(files: ReadOnlyFiles, path: str) -> tuple[bytes, list[EpochEntry]]:
    """Return the bytes of the file at `path` and its epochs, read as Kafka does. Raises MalformedCheckpoint, UnreadableFile."""
    def refuse(finding: Finding) -> tuple[bytes, list[EpochEntry]]:
        raise _refused(path, finding.what)

    return read_small(files, path, MAX_CHECKPOINT_SIZE, lambda data, _: (data, parse_leader_epochs(data, path)), refuse)


def parse_leader_epochs(data: bytes, path: str) -> list[EpochEntry]:
    """Decode a leader-epoch-checkpoint as Kafka does: all lines, or MalformedCheckpoint.

    A file that ends before the line with the number of entries has none. Mirrors CheckpointFile.CheckpointReadBuffer.
    """
    checkpoint = decode_checkpoint(data, path, _parse_epoch)
    if checkpoint.fault is not None:
        raise _refused(path, checkpoint.fault)
    return checkpoint.entries


def _refused(path: str, fault: str) -> MalformedCheckpoint:
    return MalformedCheckpoint(f"{path}: {fault}", do="kafkalog recover rebuilds it from the log")


def _parse_epoch(words: list[str]) -> EpochEntry | None:
    if len(words) != 2:
        return None
    epoch, start_offset = parse_int(words[0]), parse_long(words[1])
    return None if epoch is None or start_offset is None else EpochEntry(epoch, start_offset)


def _doubt_epochs(entries: list[EpochEntry], faults: Faults) -> None:
    last: EpochEntry | None = None
    for entry in entries:
        what = f"epoch {entry.epoch} at offset {entry.start_offset}"
        if entry.epoch < 0 or entry.start_offset < 0:
            faults.add(f"{what}: neither may be negative", offset=entry.start_offset)
        elif last and (entry.epoch <= last.epoch or entry.start_offset <= last.start_offset):
            faults.add(f"{what} after epoch {last.epoch} at {last.start_offset}: both must increase", offset=entry.start_offset)
        last = entry


def encode_leader_epochs(entries: Iterable[EpochEntry]) -> bytes:
    """Return the bytes of a leader-epoch-checkpoint."""
    return encode_checkpoint(f"{epoch} {start_offset}" for epoch, start_offset in entries)


class PartitionOffset(NamedTuple):
    """A line: the offset of a partition."""

    topic: str
    partition: int
    offset: int


def read_offset_checkpoint(files: ReadOnlyFiles, path: str) -> Checkpoint[PartitionOffset]:
    """Read the file at `path`; one of more than MAX_CHECKPOINT_SIZE bytes is malformed. Raises UnreadableFile."""
    return read_small(files, path, MAX_CHECKPOINT_SIZE, decode_offset_checkpoint, _malformed)


def decode_offset_checkpoint(data: bytes, path: str) -> Checkpoint[PartitionOffset]:
    """Decode the bytes of an offset checkpoint. Never raises."""
    return decode_checkpoint(data, path, _parse_offset, doubt=_doubt_offsets)


def known_offsets(files: ReadOnlyFiles, path: str) -> tuple[Mapping[tuple[str, int], int], str | None]:
    """Return the offset of each partition, and why Kafka cannot read the file at `path`: None if it can. Raises UnreadableFile.

    Each of up to ten thousand partitions of a log dir calls this: the file is parsed only if its bytes changed.
    """
    return read_small(files, path, MAX_CHECKPOINT_SIZE, _known, lambda finding: ({}, finding.what))


@lru_cache(maxsize=12)  # a few checkpoints of a few log dirs
def _known(data: bytes, path: str) -> tuple[Mapping[tuple[str, int], int], str | None]:
    checkpoint = decode_offset_checkpoint(data, path)
    return MappingProxyType(by_partition(checkpoint.entries)), checkpoint.fault


def _parse_offset(words: list[str]) -> PartitionOffset | None:
    if len(words) != 3:
        return None
    partition, offset = parse_int(words[1]), parse_long(words[2])
    return None if partition is None or offset is None else PartitionOffset(words[0], partition, offset)


def _doubt_offsets(entries: list[PartitionOffset], faults: Faults) -> None:
    seen: set[tuple[str, int]] = set()
    for topic, partition, offset in entries:
        if not topic:
            faults.add(f"partition {partition}, offset {offset}: the topic is missing")
        elif partition < 0 or offset < 0:
            faults.add(f"{topic} {partition} {offset}: neither may be negative")
        elif (topic, partition) in seen:
            faults.add(f"{topic} {partition} is there twice: the broker uses the last one")
        seen.add((topic, partition))


def by_partition(entries: Iterable[PartitionOffset]) -> dict[tuple[str, int], int]:
    """Return (topic, partition) → offset; the last line of a partition counts, as for the broker."""
    return {(topic, partition): offset for topic, partition, offset in entries}


def encode_offset_checkpoint(entries: Iterable[PartitionOffset]) -> bytes:
    """Return the bytes of an offset checkpoint."""
    return encode_checkpoint(f"{topic} {partition} {offset}" for topic, partition, offset in entries)


def checkpoint_fault(files: ReadOnlyFiles, path: str) -> str | None:
    """Return why Kafka cannot read the offset checkpoint at `path`; None if it can."""
    return read_offset_checkpoint(files, path).fault


def lower_checkpoints(files: Files, log_dir: str, ends: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
    """Lower high watermarks and recovery points of partitions to the ends of their logs.

    Returns the previous values of the high watermarks that were lowered. A checkpoint that no broker can read is unchanged.
    Raises UnreadableFile, UnwritableFile.
    """
    watermarks, _ = (_lower(files, f"{log_dir}/{kind.value}", ends) for kind in _KINDS)
    return watermarks


def _lower(files: Files, path: str, ends: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
    if not ends or not files.exists(path):
        return {}
    known, fault = known_offsets(files, path)
    before = {key: known[key] for key, end in ends.items() if known.get(key, 0) > end}
    if fault is not None or not before:
        return {}
    lines = {**known, **{key: ends[key] for key in before}}
    replace(files, path, [encode_offset_checkpoint(PartitionOffset(*key, offset) for key, offset in lines.items())])
    return before

"""Producer snapshots: the state of idempotent and transactional producers at an offset. Mirrors ProducerSnapshot.

There is one version, 1, in every release since 0.11. The checksum covers all bytes after it, including any after the last
producer. The order of the producers is that of a Java HashMap. A partition may have millions of them.

`SnapshotFiles` holds the snapshots of a directory by offset. There may be one for each of very many segments.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING

from engine.amounts import count_of
from engine.discovery.names import parse_long
from engine.findings import Finding, Where
from engine.formats import (
    INT_MAX,
    PRODUCER_SNAPSHOT_ENTRY,
    PRODUCER_SNAPSHOT_HEADER,
    ProducerSnapshotEntry,
    ProducerSnapshotHeader,
)
from engine.record.control import decrement_sequence
from engine.record.windows import crc32c

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.files import Buffer, OpenFile, ReadOnlyFiles, WritableFile

VERSION = 1
_MAX_SIZE = INT_MAX  # bytes that Java can read into one array

_PIECE = 16_384 * PRODUCER_SNAPSHOT_ENTRY.size  # bytes per read or write
_CRC_AT = PRODUCER_SNAPSHOT_HEADER.positions["crc"]
_COUNT_AT = PRODUCER_SNAPSHOT_HEADER.positions["entry_count"]
_SUFFIX = ".snapshot"


class ProducerSnapshot:
    """A .snapshot file of any size: producers are read in pieces, once for the checksum and once for each iteration.

    size                        bytes
    version, stored_crc, count  as in the file; None if the file is too short for them
    computed_crc                None if the file is too short to hold a checksum, or too large
    is_too_large                Kafka cannot read the file, and neither does this class
    `len`, iteration, `pieces`  the producers whose bytes exist, even if the file is corrupt
    """

    def __init__(self, data: bytes, path: str, files: ReadOnlyFiles | None = None) -> None:
        """`data`: all bytes; or, with `files`, those of the header, the rest being in the file at `path`."""
        self._data, self._files = data, files
        self.path = path
        self.version: int | None = PRODUCER_SNAPSHOT_HEADER.field("version", data) if len(data) >= _CRC_AT else None
        self.stored_crc: int | None = None
        self.computed_crc: int | None = None
        self.count: int | None = None
        self.size, self.is_too_large = len(data), False
        if len(data) >= _COUNT_AT:
            self.stored_crc = PRODUCER_SNAPSHOT_HEADER.field("crc", data)
            self.computed_crc = crc32c(memoryview(data)[_COUNT_AT : PRODUCER_SNAPSHOT_HEADER.size])
        if len(data) >= PRODUCER_SNAPSHOT_HEADER.size:
            self.count = PRODUCER_SNAPSHOT_HEADER.read(data).entry_count
            self.size = PRODUCER_SNAPSHOT_HEADER.size
            if files is not None and (size := files.info(path).size) > _MAX_SIZE:
                self.size, self.computed_crc, self.is_too_large = size, None, True
                return
            for piece in self._rest():
                self.size += len(piece)
                self.computed_crc = crc32c(piece, self.computed_crc or 0)

    @classmethod
    def read(cls, files: ReadOnlyFiles, path: str) -> ProducerSnapshot:
        """Read the file at `path`. Raises UnreadableFile, FileChangedWhileReading; iteration does, too."""
        with files.open(path) as file:
            head = file.read(0, PRODUCER_SNAPSHOT_HEADER.size)
        return cls(head, path, files)

    def __len__(self) -> int:
        if self.version != VERSION or self.count is None or self.is_too_large:
            return 0
        return max(0, min(self.count, self._room // PRODUCER_SNAPSHOT_ENTRY.size))

    @property
    def _room(self) -> int:
        """Return the number of bytes after the header."""
        return max(0, self.size - PRODUCER_SNAPSHOT_HEADER.size)

    def _rest(self, end: int | None = None) -> Iterator[Buffer]:
        """Iterate over the bytes after the header, up to `end` (default: all), in pieces of whole producers."""
        start = PRODUCER_SNAPSHOT_HEADER.size
        if self._files is None:
            yield memoryview(self._data)[start:end]
            return
        with self._files.open(self.path) as file:
            end = file.size() if end is None else end
            for at in range(start, end, _PIECE):
                yield file.read_exactly(at, min(_PIECE, end - at))

    def pieces(self) -> Iterator[Buffer]:
        """Iterate over the bytes of the producers, in pieces."""
        return self._rest(PRODUCER_SNAPSHOT_HEADER.size + len(self) * PRODUCER_SNAPSHOT_ENTRY.size)

    def __iter__(self) -> Iterator[ProducerSnapshotEntry]:
        return entries_of(self.pieces())

    def error(self) -> str | None:
        """Return the message of Kafka's CorruptSnapshotException, None for a file that it accepts.

        Kafka then uses nothing from the file. Mirrors ProducerStateManager.readSnapshot.
        """
        if self.is_too_large:
            return f"{self.size} bytes, more than the {_MAX_SIZE} that Kafka reads: the file was not read"
        reason = self._schema_error()
        if reason is not None:
            return f"Snapshot failed schema validation: {reason}"
        if self.stored_crc != self.computed_crc:
            return (
                f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {self.stored_crc}. "
                f"Computed crc: {self.computed_crc}"
            )
        return None

    def _schema_error(self) -> str | None:
        if self.version is None:
            return "null"  # Java's exception for too few bytes has no message
        if self.version != VERSION:
            return f"Snapshot contained an unknown file version {self.version}"
        if self.count is None:
            return "null"
        if self.count < 0:
            return "non-nullable field producerEntries was serialized as null"
        if self.count > self._room:
            room = f"there are only {self._room} bytes remaining."
            return f"Tried to allocate a collection of size {self.count}, but {room}"
        return "null" if self.count > len(self) else None

    def sanity(self) -> list[Finding]:
        """Check the file; returns at most one finding."""
        what = self._fault()
        return [] if what is None else [Finding("snapshot-corrupt", Where(self.path, 0), what)]

    def _fault(self) -> str | None:
        if self.version is None or self.count is None:
            return f"{count_of(self.size, 'byte')}, the header has {PRODUCER_SNAPSHOT_HEADER.size}"
        if self.version != VERSION:
            return f"version {self.version}, only {VERSION} exists"
        if self.is_too_large:
            return f"{self.size} bytes, more than the {_MAX_SIZE} that Kafka reads: the file was not read"
        if self.stored_crc != self.computed_crc:
            return f"stored CRC-32C {self.stored_crc:08x}, computed {self.computed_crc:08x}"
        if self.count < 0 or self.count > len(self):
            return f"the header says {count_of(self.count, 'producer')}, the file has {len(self)}"
        rest = self._room - self.count * PRODUCER_SNAPSHOT_ENTRY.size
        return f"{count_of(rest, 'byte')} after the last producer" if rest else None


def entries_of(pieces: Iterable[Buffer]) -> Iterator[ProducerSnapshotEntry]:
    """Iterate over the entries in pieces of whole entries."""
    for piece in pieces:
        yield from map(ProducerSnapshotEntry._make, PRODUCER_SNAPSHOT_ENTRY.struct.iter_unpack(piece))


def write_producer_snapshot(file: WritableFile, count: int, pieces: Iterable[Buffer]) -> None:
    """Write a snapshot of `count` producers, whose entries are in `pieces`, to `file`; not synced. Raises UnwritableFile.

    For many producers the header is written last: until then the checksum in the file does not match.
    Mirrors ProducerStateManager.writeSnapshot.
    """
    header = ProducerSnapshotHeader(VERSION, 0, count)
    crc, size = crc32c(PRODUCER_SNAPSHOT_HEADER.pack(header)[_COUNT_AT:]), PRODUCER_SNAPSHOT_HEADER.size
    held: list[Buffer] = []
    for piece in pieces:
        crc = crc32c(piece, crc)
        if count * PRODUCER_SNAPSHOT_ENTRY.size <= _PIECE:
            held.append(piece)
        else:
            file.write_at(size, piece)
        size += len(piece)
    file.write_at(0, PRODUCER_SNAPSHOT_HEADER.pack(header._replace(crc=crc)), *held)
    file.truncate(size)  # Kafka does not remove the rest of a longer file, which makes the snapshot corrupt


def is_producer_snapshot_of(file: OpenFile, count: int, pieces: Iterable[Buffer]) -> bool:
    """Return whether `file` has exactly the bytes that `write_producer_snapshot` would write. Raises UnreadableFile."""
    header = ProducerSnapshotHeader(VERSION, 0, count)
    crc, at = crc32c(PRODUCER_SNAPSHOT_HEADER.pack(header)[_COUNT_AT:]), PRODUCER_SNAPSHOT_HEADER.size
    if file.size() != at + count * PRODUCER_SNAPSHOT_ENTRY.size:
        return False
    for piece in pieces:
        if file.read_exactly(at, len(piece)) != piece:
            return False
        crc, at = crc32c(piece, crc), at + len(piece)
    return file.read(0, PRODUCER_SNAPSHOT_HEADER.size) == PRODUCER_SNAPSHOT_HEADER.pack(header._replace(crc=crc))


def first_sequence(entry: ProducerSnapshotEntry) -> int:
    """Return the sequence of the first record of the producer's last batch."""
    return decrement_sequence(entry.last_sequence, entry.offset_delta)


def producer_text(entry: ProducerSnapshotEntry) -> str:
    """Return the line that kafka-dump-log prints. It has no batch if only a marker was seen."""
    open_since = entry.current_txn_first_offset
    text = (
        f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch} "
        f"coordinatorEpoch: {entry.coordinator_epoch} currentTxnFirstOffset: "
        f"{f'OptionalLong[{open_since}]' if open_since >= 0 else 'OptionalLong.empty'} lastTimestamp: {entry.timestamp}"
    )
    if entry.last_offset < 0:
        return text
    return (
        f"{text} firstSequence: {first_sequence(entry)} lastSequence: {entry.last_sequence} "
        f"lastOffset: {entry.last_offset} offsetDelta: {entry.offset_delta} timestamp: {entry.timestamp}"
    )


class SnapshotFiles:
    """A sorted map from offset to path. It does not create or remove files.

    aside    by offset: removed from the map by a recovery, but still on the disk, as most are written again with the same bytes
    written  paths of those that were created or rebuilt: their names may not be synced
    replaced  by path: SHA-256 and modification time (ns) of the valid file that the recovery found and replaced
    """

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._paths: dict[int, str] = {}
        self.aside: dict[int, str] = {}
        self.written: set[str] = set()
        self.replaced: dict[str, tuple[bytes, int]] = {}

    @classmethod
    def of_directory(cls, files: ReadOnlyFiles, directory: str) -> SnapshotFiles:
        """The snapshots in `directory`. A name that does not begin with an offset, at which Kafka fails, is skipped."""
        return cls.of_names(directory, files.plain(directory) if files.exists(directory) else ())

    @classmethod
    def of_names(cls, directory: str, names: Iterable[str]) -> SnapshotFiles:
        """The snapshots among the `names` of the plain files in `directory`."""
        found = cls()
        for name in names:
            if name.endswith(_SUFFIX) and (offset := parse_long(name.partition(".")[0])) is not None:
                found._paths[offset] = f"{directory}/{name}"
        found._offsets = sorted(found._paths)
        return found

    def __iter__(self) -> Iterator[int]:
        """Iterate over a copy of the offsets, ascending."""
        return iter(list(self._offsets))

    def __getitem__(self, offset: int) -> str:
        return self._paths[offset]

    @property
    def paths(self) -> frozenset[str]:
        """The paths of all snapshots."""
        return frozenset(self._paths.values())

    @property
    def last(self) -> int | None:
        """The highest offset."""
        return self._offsets[-1] if self._offsets else None

    def outside(self, first: int, last: int) -> list[int]:
        """The offsets below `first` and those above `last`, ascending."""
        low = bisect_left(self._offsets, first)
        return self._offsets[:low] + self._offsets[max(low, bisect_right(self._offsets, last)) :]

    def add(self, offset: int, path: str) -> None:
        """Add the snapshot at `offset`."""
        if offset not in self._paths:
            insort(self._offsets, offset)
        self._paths[offset] = path

    def pop(self, offset: int) -> str | None:
        """Remove the snapshot at `offset` from the map. Returns its path; None: there is none."""
        path = self._paths.pop(offset, None)
        if path is not None:
            del self._offsets[bisect_left(self._offsets, offset)]
        return path

    def set_aside(self, offset: int) -> None:
        """Move the snapshot at `offset` to `aside`; its file stays for now."""
        path = self.pop(offset)
        if path is not None:
            self.aside[offset] = path

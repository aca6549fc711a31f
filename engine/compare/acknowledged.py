"""Acknowledged records: what producers were promised, from a file of JSON lines, and which of it a replica does not have."""

from __future__ import annotations

import json
from array import array
from base64 import b64decode
from typing import TYPE_CHECKING, NamedTuple

from engine.discovery.names import parse_partition_dir
from engine.errors import UsageError
from engine.formats import LONG_MAX, RecordField

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.compare.replica import Replica
    from engine.files import OpenFile, ReadOnlyFiles

_MOST = 2_000_000  # records: 24 bytes each
_LONGEST = 1 << 20  # bytes of a line
_PIECE = 1 << 20
_ANY = -1  # instead of the hash of a key: the line has none. No hash of Python is −1


class Lost(NamedTuple):
    """An acknowledged record that a replica does not have.

    has_other  another record has its offset      now  the key of that record
    """

    offset: int
    key: bytes | None
    has_other: bool
    now: bytes | None


class _Promises:
    """The acknowledged records of a partition: offset, hash of the key, and byte position of the line."""

    def __init__(self) -> None:
        self.offsets, self.hashes, self.lines = array("q"), array("q"), array("q")


class Acknowledged:
    """The acknowledged records in a file, one a line: {"partition": "orders-7", "offset": 42, "key": "…"}, or "key_b64".

    A line without an offset is a record that was not acknowledged; one without a key means whatever is at the offset. Other
    members are ignored. Raises UnreadableFile, UsageError.
    """

    def __init__(self, files: ReadOnlyFiles, path: str) -> None:
        self._files, self._path = files, path
        self._partitions: dict[tuple[str, int], _Promises] = {}
        count = 0
        with files.open(path) as file:
            for number, (position, line) in enumerate(_lines(file), 1):
                parsed = self._parse(line, number)
                if parsed is not None:
                    partition, offset, key = parsed
                    promises = self._partitions.setdefault(partition, _Promises())
                    promises.offsets.append(offset)
                    promises.hashes.append(_ANY if key is None else hash(key))
                    promises.lines.append(position)
                    count += 1
                    if count > _MOST:
                        what = f"{path}: more than {_MOST} acknowledged records"
                        raise UsageError(what, "split the file by partition", path=path)

    @property
    def partitions(self) -> list[tuple[str, int]]:
        """The partitions of the records."""
        return sorted(self._partitions)

    def count(self, partition: tuple[str, int]) -> int:
        """The number of acknowledged records of a partition."""
        promises = self._partitions.get(partition)
        return 0 if promises is None else len(promises.offsets)

    def lost(self, partition: tuple[str, int], replica: Replica) -> list[Lost]:
        """Return the acknowledged records of a partition that `replica` does not have at their offsets, by offset.

        Not lost are records before the log start, and those in a gap of the log of which a later one has the same key: the
        cleaner removes them. Raises UnreadableFile, FileChangedWhileReading.
        """
        promises = self._partitions.get(partition)
        if promises is None:
            return []
        order = sorted(range(len(promises.offsets)), key=promises.offsets.__getitem__)
        found: list[tuple[int, bool, bytes | None]] = []  # row of a lost record, and of the one at its offset
        gone: dict[int, list[int]] = {}  # hash of a key → rows of records in gaps
        at = next((number for number, row in enumerate(order) if promises.offsets[row] >= replica.start), len(order))
        for offset, key in _keys(replica):
            if gone and key is not None:
                gone.pop(hash(key), None)
            while at < len(order) and promises.offsets[order[at]] <= offset:
                row = order[at]
                at += 1
                if promises.offsets[row] < offset:
                    gone.setdefault(promises.hashes[row], []).append(row)
                    if key is not None and hash(key) == promises.hashes[row]:
                        del gone[promises.hashes[row]]
                elif promises.hashes[row] not in (_ANY, hash(key)):
                    found.append((row, True, key))
        found += [(row, False, None) for rows in gone.values() for row in rows]
        found += [(row, False, None) for row in order[at:]]
        with self._files.open(self._path) as file:
            lost = [Lost(promises.offsets[row], self._key_at(file, promises.lines[row]), has_other, now)
                    for row, has_other, now in found]  # fmt: skip
        return sorted(lost, key=lambda one: one.offset)

    def _key_at(self, file: OpenFile, position: int) -> bytes | None:
        line = file.read(position, _LONGEST).partition(b"\n")[0]
        parsed = self._parse(line, 0)
        return None if parsed is None else parsed[2]

    def _parse(self, line: bytes, number: int) -> tuple[tuple[str, int], int, bytes | None] | None:
        """The partition, offset and key in a line; None: it has no offset."""
        if not line.strip():
            return None
        try:
            members = json.loads(line)
            if members.get("offset") is None:
                return None
            name, offset, key = parse_partition_dir(members["partition"]), members["offset"], members.get("key")
            data = None if key is None else key.encode()
            data = b64decode(members["key_b64"], validate=True) if "key_b64" in members else data
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise self._invalid(number) from None
        if name is None or not isinstance(offset, int) or isinstance(offset, bool) or not 0 <= offset <= LONG_MAX:
            raise self._invalid(number)
        return (name.topic, name.partition), offset, data

    def _invalid(self, number: int) -> UsageError:
        what = f"{self._path}: line {number} is not an acknowledged record"
        return UsageError(what, 'one JSON object a line: {"partition": "orders-7", "offset": 42, "key": "…"}', path=self._path)


def _keys(replica: Replica) -> Iterator[tuple[int, bytes | None]]:
    """Yield offset and key of each data record of a replica."""
    for chunk in replica.chunks(replica.place_of(replica.start)):
        if not chunk.control:
            offsets = chunk.records.field(RecordField.OFFSET)
            for record in range(chunk.first, chunk.end):
                yield offsets[record], chunk.key(record)


def _lines(file: OpenFile) -> Iterator[tuple[int, bytes]]:
    """Yield byte position and content of each line. Raises UsageError for one that is too long."""
    position, rest, start = 0, b"", 0
    while data := file.read(position, _PIECE):
        position += len(data)
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield start, line
            start += len(line) + 1
        if len(rest) > _LONGEST:
            raise UsageError(f"{file.path}: a line is longer than {_LONGEST} bytes", path=file.path)
    if rest:
        yield start, rest

"""The offset index and the time index of a segment: growing keys in preallocated files, searched as the broker searches.

.index      log offset → byte position in the .log (OffsetIndex)
.timeindex  timestamp → log offset (TimeIndex, KIP-33)
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from functools import cached_property
from itertools import islice
from operator import lt
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar

from engine.amounts import count_of
from engine.findings import Finding, Where
from engine.formats import INT_MAX, LONG_MAX, LONG_MIN, NO_TIMESTAMP, OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY, to_long
from engine.index.entries import (
    Backing,
    IndexFile,
    IndexFull,
    IndexOffsetOverflow,
    InvalidIndexSize,
    InvalidOffset,
    InvalidTimestamp,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.files import Buffer, OpenFile, ReadOnlyFiles
    from engine.formats import Layout

WARM_BYTES = 8192  # at the end of an index; searched first

_BLOCK = 65536
_OFFSET_ENTRY, _OFFSET, _POSITION = OFFSET_INDEX_ENTRY.struct, *OFFSET_INDEX_ENTRY.fields.values()
_POSITION_AT = OFFSET_INDEX_ENTRY.positions["position"]
_TIME_ENTRY, _TIMESTAMP = TIME_INDEX_ENTRY.struct, TIME_INDEX_ENTRY.fields["timestamp"]


class _Entry(Protocol):
    """The interface of an entry of either index."""

    @property
    def offset(self) -> int: ...


_E = TypeVar("_E", bound=_Entry)
_L = TypeVar("_L", bound=tuple[Any, ...])


class SparseIndex(IndexFile, Generic[_E]):
    """An index that the broker preallocates and fills from the front. Mirrors AbstractIndex.

    `entry`, iteration and `len` cover all whole entries, including unused ones after `used_entries`.
    """

    relative_offset_at: ClassVar[int]  # position of the field in an entry
    kept_entries: ClassVar[int] = 0  # entries kept free at the end of the file for the closing of the segment
    max_index_size: int = -1
    max_entries: int = 0  # room in the file of an open index
    _used: int | None = None  # of a view, computed once

    @classmethod
    def open(
        cls, files: ReadOnlyFiles, path: str, base_offset: int, max_index_size: int = -1, *, writable: bool = True,
        rewrite: bool = False,
    ) -> Self:
        """Open the file at `path`, trusting that it is full of entries. If there is none, make one of zeros.

        max_index_size  bytes of a new file, rounded down to whole entries
        writable        False: nothing is made; a missing file is an index without entries
        rewrite         start without entries; the old file remains until the new one is written completely
        Raises UnreadableFile, UnwritableFile, InvalidIndexSize.
        """
        index = cls(bytearray(), base_offset, path)
        backing = Backing(files, path, writable=writable)
        index.max_index_size = max_index_size
        size = backing.length - backing.length % cls.entry_size
        if rewrite or (writable and not backing.exists):
            if max_index_size < cls.entry_size:
                raise InvalidIndexSize(f"{path}: Invalid max index size: {max_index_size}", do="set segment.index.bytes")
            (backing.begin_rewrite if rewrite else backing.create)(max_index_size - max_index_size % cls.entry_size)
        index._attach(backing, 0 if rewrite else size)
        index.max_entries = backing.length // cls.entry_size
        return index

    @property
    def entries(self) -> int:
        """Return the number of entries."""
        return len(self)

    @property
    def length(self) -> int:
        """Return the size of an open index's file in bytes."""
        return self._file.length

    @property
    def room(self) -> int:
        """Return how many entries can be added; below 0 if the last one used an entry kept free."""
        return self.max_entries - self.kept_entries - len(self)

    @property
    def is_full(self) -> bool:
        """Return whether there is no room for another entry."""
        return len(self) >= self.max_entries - self.kept_entries

    def entry(self, number: int) -> _E:
        """Return entry `number`, from 0. Raises IndexError outside the file."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[_E]:
        raise NotImplementedError

    @property
    def dumped_entries(self) -> int:
        """Return how many entries kafka-dump-log reads: entry 0, and all up to the next one that has the base offset.

        Kafka takes a zero in the middle for the unused end, and the first entry of an unused index for an entry.
        """
        offsets = self._relative_offsets(self.whole[: max(1, self.used_entries) * self.entry_size])  # the rest are zeros
        try:
            return offsets.index(0, 1)
        except ValueError:
            return len(offsets)

    def _relative_offsets(self, entries: Buffer) -> array[int]:
        """Return the relative offsets of whole entries."""
        numbers = array("i", bytes(entries))
        if sys.byteorder == "little":
            numbers.byteswap()
        return numbers[self.relative_offset_at // numbers.itemsize :: self.entry_size // numbers.itemsize]

    def extend(self, entries: Buffer) -> None:
        """Add whole entries in their bytes, with growing keys.

        Raises IndexFull, InvalidOffset or InvalidTimestamp; then none is added.
        """
        count, rest = divmod(len(entries), self.entry_size)
        if rest:
            raise ValueError(f"{len(entries)} bytes are not whole entries")
        if not count:
            return
        if count > self.room:
            raise IndexFull(f"{self.path}: Attempt to append {count} entries to {len(self)} of {self.max_entries}.")
        self._check_first(entries)
        self._add(entries)

    def _check_first(self, entries: Buffer) -> None:
        """Raise InvalidOffset or InvalidTimestamp if the first of `entries` does not belong after the last one."""
        raise NotImplementedError

    def can_append_offset(self, offset: int) -> bool:
        """Return whether `offset` fits into 31 bits relative to the base offset."""
        return 0 <= offset - self.base_offset <= INT_MAX

    def resize(self, size: int) -> bool:
        """Set the size of the file to `size` bytes, rounded down to whole entries, but never below its entries.

        Returns whether anything changed. Raises UnwritableFile.
        """
        self.write_back()
        rounded = max(size - size % self.entry_size, len(self) * self.entry_size)
        if rounded == self._file.length:
            return False
        self._file.set_length(rounded)
        self.max_entries = rounded // self.entry_size
        return True

    def trim_to_valid_size(self) -> None:
        """Truncate the file after its last entry."""
        self.resize(len(self) * self.entry_size)

    def truncate(self) -> None:
        """Remove all entries; the file keeps its size."""
        self.truncate_to_entries(0)

    def truncate_to_entries(self, count: int) -> None:
        """Keep the first `count` entries; the file keeps its size."""
        self._cut(count * self.entry_size)

    def truncate_to(self, offset: int) -> None:
        """Remove the entries from `offset` on, found by a search. Mirrors truncateTo of both indexes."""
        number = self.lower_bound(self._offset_at, offset, len(self))
        keep = number + 1 if number >= 0 and self._offset_at(number) != offset else max(0, number)
        self.truncate_to_entries(keep)

    def _offset_at(self, number: int) -> int:
        """Return the log offset of entry `number`."""
        raise NotImplementedError

    def close(self) -> None:
        """Write back, trim, and wait until the changes are on the disk. The index may be used again.

        A broker trusts an index after a clean stop, and below its recovery point.
        """
        if self._file.writable:
            self.trim_to_valid_size()
            self.sync_changes()

    @property
    def used_entries(self) -> int:
        """Return the number of entries before the unused zeros at the end of the file. Of an open index: all.

        An entry of zeros counts as used only if it is the only one of the file.
        """
        if self.is_open:
            return len(self)
        if self._used is None:
            self._used = self._count_used()
        return self._used

    def _count_used(self) -> int:
        whole, end = self.whole, len(self.whole)
        while end:
            block = bytes(whole[max(0, end - _BLOCK) : end]).rstrip(b"\0")
            if block:
                end = max(0, end - _BLOCK) + len(block)
                break
            end = max(0, end - _BLOCK)
        return -(-end // self.entry_size) or int(len(self) == 1)

    @property
    def used(self) -> memoryview:
        """Return the bytes of the used entries."""
        return self.whole[: self.used_entries * self.entry_size]

    def zero_tail(self) -> list[Finding]:
        """Return a finding if unused space follows the entries."""
        unused = len(self) - self.used_entries
        if not unused:
            return []
        where = Where(self.path, self.used_entries * self.entry_size)
        return [Finding("index-zero-tail", where, f"room for {count_of(unused, 'more entry')}")]

    def _out_of_order(
        self, number: int, name: str, value: int, before: int, code: str = "index-out-of-order"
    ) -> Finding:
        """Return the finding that the field `name` of entry `number` is not above `before`, that of the previous entry."""
        return Finding(code, self._where(number), f"entry {number}: {name} {value}" + (f" after {before}" if number else ""))

    def _where(self, number: int) -> Where:
        return Where(self.path, number * self.entry_size, self._offset_at(number))

    def _odd_size_error(self, name: str) -> str | None:
        """Return the message of Kafka's CorruptIndexException for the index `name`, if it ends inside an entry."""
        if not len(self.data) % self.entry_size:
            return None
        return (
            f"{name} is corrupt, found {len(self.data)} bytes which is neither positive nor a multiple of {self.entry_size}"
        )

    def absolute(self, relative_offset: int) -> int:
        """Return base offset plus `relative_offset`, in 64 bits as the broker adds."""
        offset = self.base_offset + relative_offset
        return offset if LONG_MIN <= offset <= LONG_MAX else to_long(offset)

    def lower_bound(self, key_at: Callable[[int], int], target: int, count: int) -> int:
        """Return the number of the last entry whose key is not above `target`, -1 if there is none; searches `count` entries.

        If keys are out of order, the result is the broker's: the same entries are compared in the same order.
        Mirrors AbstractIndex.largestLowerBoundSlotFor.
        """
        if count == 0:
            return -1
        warm = max(0, count - 1 - WARM_BYTES // self.entry_size)
        if key_at(warm) < target:
            return _search(key_at, target, warm, count - 1)[0]
        if key_at(0) > target:
            return -1
        return _search(key_at, target, 0, warm)[0]

    def upper_bound(self, key_at: Callable[[int], int], target: int, count: int) -> int:
        """Return the number of the first entry whose key is not below `target`, -1 if there is none; searches `count` entries.

        As in the broker it may be the one after an equal key: the last step of the search does not compare.
        Mirrors AbstractIndex.smallestUpperBoundSlotFor.
        """
        if count == 0:
            return -1
        warm = max(0, count - 1 - WARM_BYTES // self.entry_size)
        if key_at(warm) < target:
            at, exact = _search(key_at, target, warm, count - 1)
        elif key_at(0) > target:
            return 0
        else:
            at, exact = _search(key_at, target, 0, warm)
        if exact:
            return at
        return -1 if at == count - 1 else at + 1


def _search(key_at: Callable[[int], int], target: int, low: int, high: int) -> tuple[int, bool]:
    """Return (entry, whether its key equals `target`) of a search from `low` to `high`, both included."""
    while low < high:
        middle = (low + high + 1) // 2
        key = key_at(middle)
        if key == target:
            return middle, True
        if key > target:
            high = middle - 1
        else:
            low = middle
    return low, False


def count_used(file: OpenFile, entry_size: int, count: int) -> int:
    """Return how many of the `count` entries of a file come before the zeros at its end; few reads, whatever its size."""
    if any(file.read(entry_size * (count - 1), entry_size)):
        return count
    low, high = 0, count - 1
    while low < high:
        middle = (low + high) // 2
        if any(file.read(entry_size * middle, entry_size)):
            low = middle + 1
        else:
            high = middle
    return low


def read_last_used(files: ReadOnlyFiles, path: str, layout: Layout[_L], size: int) -> _L | None:
    """Return the last entry of the index of `size` bytes at `path` before unused space; None: it has none.

    Raises UnreadableFile, FileChangedWhileReading.
    """
    count = size // layout.size
    if not count:
        return None
    with files.open(path) as file:
        entry = bytearray(layout.size)  # in a closed index the last one is in use
        if file.read_into(memoryview(entry), layout.size * (count - 1)) == layout.size and any(entry):
            return layout.read(entry)
        used = count_used(file, layout.size, count)
        return layout.read(file.read_exactly(layout.size * (used - 1), layout.size)) if used else None


class OffsetPosition(NamedTuple):
    """An entry: the last offset of a batch, and the byte position of that batch in the .log."""

    offset: int
    position: int


class OffsetIndex(SparseIndex[OffsetPosition]):
    """An .index file."""

    entry_size = OFFSET_INDEX_ENTRY.size
    relative_offset_at = OFFSET_INDEX_ENTRY.positions["relative_offset"]

    def entry(self, number: int) -> OffsetPosition:
        """Return entry `number`, from 0. Raises IndexError outside the file."""
        if not 0 <= number < len(self):
            raise IndexError(number)
        relative_offset, position = _OFFSET_ENTRY.unpack_from(self.data, number * self.entry_size)
        return OffsetPosition(self.absolute(relative_offset), position)

    def __iter__(self) -> Iterator[OffsetPosition]:
        absolute = self.absolute
        for relative_offset, position in _OFFSET_ENTRY.iter_unpack(self.whole):
            yield OffsetPosition(absolute(relative_offset), position)

    def lookup(self, target_offset: int, *, zero_tail: bool = False) -> OffsetPosition:
        """Return the largest entry at or below `target_offset`.

        Returns (base_offset, 0) for an empty index or a target before the first entry. Never raises for bad entries (see
        `sanity`). `zero_tail`: search unused entries, too, as Kafka's tools do in an index that was not closed.
        Mirrors OffsetIndex.lookup.
        """
        count = len(self) if zero_tail else self.used_entries
        keys = self._growing if count == self.used_entries and not self.is_open else None
        if keys is None:
            number = self.lower_bound(self._offset_at, target_offset, count)
        else:
            number = bisect_right(keys, target_offset - self.base_offset) - 1
        return OffsetPosition(self.base_offset, 0) if number < 0 else self.entry(number)

    @property
    def leads_by_growing_offsets(self) -> bool:
        """Return whether the offsets of all entries grow and fit into 64 bits."""
        return not self.is_open and len(self) == self.used_entries and self._growing is not None

    @cached_property
    def _growing(self) -> array[int] | None:
        """Return the relative offsets of the used entries; None if they do not grow or exceed 64 bits."""
        keys = self._relative_offsets(self.used)
        if not all(map(lt, keys, islice(keys, 1, None))):
            return None
        ends = (keys[0], keys[-1]) if keys else ()
        return keys if all(self.absolute(key) == self.base_offset + key for key in ends) else None

    def fetch_upper_bound(self, start: OffsetPosition, fetch_size: int) -> OffsetPosition | None:
        """Return an entry at least `fetch_size` bytes after `start`: the first or the second one, None if there is none.

        Mirrors OffsetIndex.fetchUpperBoundOffset.
        """
        number = self.upper_bound(self._position_at, start.position + fetch_size, self.used_entries)
        return None if number < 0 else self.entry(number)

    @property
    def last_offset(self) -> int:
        """Return the offset of the last entry, or the base offset if there is none."""
        if not len(self):
            return self.base_offset
        if self._data is not None:
            return self._offset_at(len(self) - 1)
        return self.absolute(_OFFSET.unpack(self._file.read(self._size - self.entry_size, _OFFSET.size))[0])

    def append(self, offset: int, position: int) -> None:
        """Add an entry: the last offset of a batch, and the byte position where that batch begins.

        Raises IndexFull, InvalidOffset (not after the last one), IndexOffsetOverflow. Mirrors OffsetIndex.append.
        """
        if self.is_full:
            raise IndexFull(f"{self.path}: Attempt to append to a full index (size = {len(self)}).")
        if len(self) and offset <= self.last_offset:
            what = f"Attempt to append an offset {offset} to position {len(self)} no larger than the last offset appended"
            raise InvalidOffset(f"{self.path}: {what} ({self.last_offset})")
        if not self.can_append_offset(offset):
            raise IndexOffsetOverflow(f"{self.path}: Integer overflow for offset: {offset}")
        self._add(_OFFSET_ENTRY.pack(offset - self.base_offset, position))

    def _check_first(self, entries: Buffer) -> None:
        first = self.absolute(_OFFSET.unpack_from(entries)[0])
        if len(self) and first <= self.last_offset:
            raise InvalidOffset(f"{self.path}: Attempt to append an offset {first} after {self.last_offset}")

    def _offset_at(self, number: int) -> int:
        return self.absolute(_OFFSET.unpack_from(self.data, number * self.entry_size)[0])

    def _position_at(self, number: int) -> int:
        position: int = _POSITION.unpack_from(self.data, number * self.entry_size + _POSITION_AT)[0]
        return position

    def sanity(self) -> list[Finding]:
        """Check the file without its log. Returns at most one finding of each kind, for the first place."""
        findings = self.odd_size() + self.zero_tail()
        last_offset = last_position = -1
        sound_offsets = sound_positions = True
        for number, (offset, position) in enumerate(_OFFSET_ENTRY.iter_unpack(self.used)):
            if offset <= last_offset and sound_offsets:
                sound_offsets = False
                findings.append(self._out_of_order(number, "relative offset", offset, last_offset))
            if position <= last_position and sound_positions:
                sound_positions = False
                findings.append(self._out_of_order(number, "position", position, last_position))
            last_offset, last_position = offset, position
        if self.used_entries and self.absolute(last_offset) < self.base_offset:
            what = f"the last offset {self.absolute(last_offset)} is less than the base offset {self.base_offset}"
            findings.append(Finding("index-corrupt", self._where(self.used_entries - 1), what))
        return findings

    def broker_error(self, absolute_path: str) -> str | None:
        """Return the message of Kafka's CorruptIndexException, None if its check passes. Mirrors OffsetIndex.sanityCheck."""
        last_offset = self.entry(len(self) - 1).offset if len(self) else self.base_offset
        if last_offset < self.base_offset:
            return (
                f"Corrupt index found, index file {absolute_path} has non-zero size but the last offset is "
                f"{last_offset} which is less than the base offset {self.base_offset}"
            )
        return self._odd_size_error(f"Index file {absolute_path}")


class TimestampOffset(NamedTuple):
    """An entry: the largest timestamp of the segment so far, in ms, and the offset of its record."""

    timestamp: int
    offset: int


class TimeIndex(SparseIndex[TimestampOffset]):
    """A .timeindex file."""

    entry_size = TIME_INDEX_ENTRY.size
    relative_offset_at = TIME_INDEX_ENTRY.positions["relative_offset"]
    kept_entries = 1  # one entry that LogSegment.onBecomeInactiveSegment adds

    def entry(self, number: int) -> TimestampOffset:
        """Return entry `number`, from 0. Raises IndexError outside the file."""
        if not 0 <= number < len(self):
            raise IndexError(number)
        timestamp, relative_offset = _TIME_ENTRY.unpack_from(self.data, number * self.entry_size)
        return TimestampOffset(timestamp, self.absolute(relative_offset))

    def __iter__(self) -> Iterator[TimestampOffset]:
        absolute = self.absolute
        for timestamp, relative_offset in _TIME_ENTRY.iter_unpack(self.whole):
            yield TimestampOffset(timestamp, absolute(relative_offset))

    def lookup(self, target_timestamp: int, *, zero_tail: bool = False) -> TimestampOffset:
        """Return the largest entry at or below `target_timestamp`: no record before its offset has a later timestamp.

        Returns (NO_TIMESTAMP, base_offset) for an empty index or a target before the first entry. Never raises for bad entries.
        `zero_tail`: search unused entries, too. Mirrors TimeIndex.lookup.
        """
        number = self.lower_bound(self._timestamp_at, target_timestamp, len(self) if zero_tail else self.used_entries)
        return TimestampOffset(NO_TIMESTAMP, self.base_offset) if number < 0 else self.entry(number)

    def last_entry(self) -> TimestampOffset:
        """Return the last used entry, (NO_TIMESTAMP, base_offset) if there is none. Mirrors TimeIndex.lastEntry."""
        used = self.used_entries
        if not used:
            return TimestampOffset(NO_TIMESTAMP, self.base_offset)
        if self._data is not None:
            return self.entry(used - 1)
        timestamp, relative_offset = _TIME_ENTRY.unpack(self._file.read(self._size - self.entry_size, self.entry_size))
        return TimestampOffset(timestamp, self.absolute(relative_offset))

    def maybe_append(self, timestamp: int, offset: int, *, skip_full_check: bool = False) -> None:
        """Add an entry if `timestamp` is larger than that of the last one.

        Raises InvalidOffset and InvalidTimestamp (below the last entry's), IndexOffsetOverflow, and IndexFull, even if nothing
        would be added. Mirrors TimeIndex.maybeAppend.
        """
        if self.is_full and not skip_full_check:
            raise IndexFull(f"{self.path}: Attempt to append to a full time index (size = {len(self)}).")
        last = self.last_entry()
        if len(self) and offset < last.offset:
            what = f"Attempt to append an offset ({offset}) to slot {len(self)} no larger than the last offset appended"
            raise InvalidOffset(f"{self.path}: {what} ({last.offset})")
        if len(self) and timestamp < last.timestamp:
            what = f"Attempt to append a timestamp ({timestamp}) to slot {len(self)} no larger than the last timestamp appended"
            raise InvalidTimestamp(f"{self.path}: {what} ({last.timestamp})")
        if timestamp <= last.timestamp:
            return
        if len(self) >= self.max_entries:
            raise IndexFull(f"{self.path}: no room for the last entry of a time index of {len(self)}")
        if not self.can_append_offset(offset):
            raise IndexOffsetOverflow(f"{self.path}: Integer overflow for offset: {offset}")
        self._add(_TIME_ENTRY.pack(timestamp, offset - self.base_offset))

    def _check_first(self, entries: Buffer) -> None:
        first = _TIMESTAMP.unpack_from(entries)[0]
        if first <= self.last_entry().timestamp:
            raise InvalidTimestamp(f"{self.path}: Attempt to append a timestamp {first} no larger than the last")

    def _offset_at(self, number: int) -> int:
        return self.entry(number).offset

    def _timestamp_at(self, number: int) -> int:
        timestamp: int = _TIMESTAMP.unpack_from(self.data, number * self.entry_size)[0]
        return timestamp

    def sanity(self) -> list[Finding]:
        """Check the file without its log. Returns at most one finding of each kind, for the first place.

        Unused entries are not a fault here, although the broker refuses every time index that has them (`broker_error`).
        """
        findings = self.odd_size() + self.zero_tail()
        last_timestamp, last_offset = NO_TIMESTAMP, 0
        sound_timestamps = sound_offsets = True
        for number, (timestamp, offset) in enumerate(_TIME_ENTRY.iter_unpack(self.used)):
            if timestamp <= last_timestamp and sound_timestamps:
                sound_timestamps = False
                findings.append(self._out_of_order(number, "timestamp", timestamp, last_timestamp, "timeindex-out-of-order"))
            if offset < last_offset and sound_offsets:
                sound_offsets = False
                findings.append(self._out_of_order(number, "relative offset", offset, last_offset))
            last_timestamp, last_offset = timestamp, offset
        refusal = self._refusal(self.used_entries)
        if refusal:
            findings.append(Finding("index-corrupt", self._where(self.used_entries - 1), refusal))
        return findings

    def _refusal(self, count: int) -> str | None:
        """Return why the broker would refuse the first `count` entries; None: it would not."""
        if count == 0:
            return None
        last, first_timestamp = self.entry(count - 1), self._timestamp_at(0)
        if last.timestamp < first_timestamp:
            return f"the last timestamp is {last.timestamp} which is less than the first timestamp {first_timestamp}"
        if last.offset < self.base_offset:
            return f"the last offset is {last.offset} which is less than the first offset {self.base_offset}"
        return None

    def broker_error(self, absolute_path: str) -> str | None:
        """Return the message of Kafka's CorruptIndexException, None if its check passes. Mirrors TimeIndex.sanityCheck.

        The check uses the last whole entry of the file, so unused space after real entries fails.
        """
        refusal = self._refusal(len(self))
        if refusal:
            return f"Corrupt time index found, time index file ({absolute_path}) has non-zero size but {refusal}"
        return self._odd_size_error(f"Time index file {absolute_path}")

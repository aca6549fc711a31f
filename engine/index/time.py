"""The time index of a segment: timestamp → log offset. Mirrors TimeIndex (KIP-33)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.findings import Finding
from engine.formats import NO_TIMESTAMP, TIME_INDEX_ENTRY
from engine.index.entries import IndexFull, IndexOffsetOverflow, InvalidOffset, InvalidTimestamp
from engine.index.sparse import SparseIndex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.files import Buffer

_ENTRY, _TIMESTAMP = TIME_INDEX_ENTRY.struct, TIME_INDEX_ENTRY.fields["timestamp"]


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
        timestamp, relative_offset = _ENTRY.unpack_from(self.data, number * self.entry_size)
        return TimestampOffset(timestamp, self.absolute(relative_offset))

    def __iter__(self) -> Iterator[TimestampOffset]:
        absolute = self.absolute
        for timestamp, relative_offset in _ENTRY.iter_unpack(self.whole):
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
        timestamp, relative_offset = _ENTRY.unpack(self._file.read(self._size - self.entry_size, self.entry_size))
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
        self._add(_ENTRY.pack(timestamp, offset - self.base_offset))

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
        for number, (timestamp, offset) in enumerate(_ENTRY.iter_unpack(self.used)):
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

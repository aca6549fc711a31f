"""The offset index of a segment: log offset → byte position in the .log. Mirrors OffsetIndex."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from itertools import islice
from operator import lt
from typing import TYPE_CHECKING, NamedTuple

from engine.findings import Finding
from engine.formats import OFFSET_INDEX_ENTRY
from engine.index.entries import IndexFull, IndexOffsetOverflow, InvalidOffset
from engine.index.sparse import SparseIndex

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterator

    from engine.files import Buffer

_ENTRY, _OFFSET, _POSITION = OFFSET_INDEX_ENTRY.struct, *OFFSET_INDEX_ENTRY.fields.values()
_POSITION_AT = OFFSET_INDEX_ENTRY.positions["position"]


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
        relative_offset, position = _ENTRY.unpack_from(self.data, number * self.entry_size)
        return OffsetPosition(self.absolute(relative_offset), position)

    def __iter__(self) -> Iterator[OffsetPosition]:
        absolute = self.absolute
        for relative_offset, position in _ENTRY.iter_unpack(self.whole):
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
        self._add(_ENTRY.pack(offset - self.base_offset, position))

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
        for number, (offset, position) in enumerate(_ENTRY.iter_unpack(self.used)):
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

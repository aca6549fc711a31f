"""Offsets that survive, as bits: gathered from many places in any order, in parts, and put together for some segments."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

from engine.kernels.survivors import note_offsets
from engine.log.cleaner.offset_map import Survivors

if TYPE_CHECKING:
    from collections.abc import Iterator

PART_SHIFT = 18  # a part stands for 2^18 offsets
PART_BYTES = 1 << PART_SHIFT >> 3
_PART_WORDS = PART_BYTES >> 3


class BitPart(NamedTuple):
    """Bits of the offsets `number` << PART_SHIFT and following; not all of the set ones need be in one part."""

    number: int
    bits: bytes


class OffsetBits:
    """Takes offsets start … end − 1 and gives parts.

    memory  bytes for bits: when they are full, `add` gives what there is
    """

    def __init__(self, start: int, end: int, memory: int) -> None:
        self._first = start >> PART_SHIFT
        count = ((end - 1) >> PART_SHIFT) - self._first + 1
        self._places = memoryview(array("q", (-1,)) * count)
        self._room = max(1, min(count, memory // PART_BYTES))
        self._bits = memoryview(bytearray(self._room * PART_BYTES)).cast("Q")
        self._taken = 0

    def add(self, offsets: memoryview) -> Iterator[BitPart]:
        """Set the bits of `offsets`, signed 64-bit numbers; gives parts where memory is full."""
        at, start = 0, self._first << PART_SHIFT
        while (at := note_offsets(offsets, at, start, PART_SHIFT, self._places, self._bits)) < len(offsets):
            part = (offsets[at] - start) >> PART_SHIFT
            if not 0 <= part < len(self._places):
                raise ValueError(f"offset {offsets[at]} lies outside of what is cleaned")
            if self._taken == self._room:
                yield from self.take()
            self._places[part] = self._taken * _PART_WORDS
            self._taken += 1

    def take(self) -> Iterator[BitPart]:
        """All that was added since the last time."""
        for part, place in enumerate(self._places):
            if place >= 0:
                mine = self._bits[place : place + _PART_WORDS].cast("B")
                yield BitPart(self._first + part, bytes(mine))
                mine[:] = bytes(PART_BYTES)
                self._places[part] = -1
        self._taken = 0


def parts_of(start: int, end: int) -> range:
    """The numbers of the parts that offsets start … end − 1 lie in."""
    return range(start >> PART_SHIFT, ((end - 1) >> PART_SHIFT) + 1)


def offsets_of(number: int) -> range:
    """The offsets that a part stands for."""
    return range(number << PART_SHIFT, (number + 1) << PART_SHIFT)


class GroupBits:
    """Which of the offsets start … end − 1 survive: those that came as a bit or as themselves, in any order and more than once.

    Its memory is a bit for each offset, however much comes.
    """

    def __init__(self, start: int, end: int) -> None:
        self._end, parts = end, parts_of(start, end)
        self._first = parts.start << PART_SHIFT
        self._places = memoryview(array("q", range(0, len(parts) * _PART_WORDS, _PART_WORDS)))
        self._bits = memoryview(bytearray(len(parts) * PART_BYTES)).cast("Q")

    def add(self, first: int, bits: bytes | memoryview) -> None:
        """Take bits, of which the lowest one stands for the offset `first`, a multiple of 8.

        Raises ValueError where some stand for offsets of parts that none of ours are in.
        """
        at, octets = (first - self._first) >> 3, self._bits.cast("B")
        if first & 7 or not 0 <= at <= len(octets) - len(bits):
            raise ValueError(f"{len(bits)} bytes from offset {first} on lie outside of what is written")
        together = int.from_bytes(octets[at : at + len(bits)], "little") | int.from_bytes(bits, "little")
        octets[at : at + len(bits)] = together.to_bytes(len(bits), "little")

    def add_offsets(self, offsets: memoryview) -> None:
        """Take offsets, signed 64-bit numbers. Raises ValueError for one outside of the parts that ours are in."""
        done = note_offsets(offsets, 0, self._first, PART_SHIFT, self._places, self._bits)
        if done < len(offsets):
            raise ValueError(f"offset {offsets[done]} lies outside of what is written")

    @property
    def survivors(self) -> Survivors:
        """What came so far."""
        return Survivors(self._first, self._end - 1, self._bits)

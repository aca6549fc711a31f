"""Offsets that survive, on their way from tasks that know keys to those that write groups of segments.

Each group gets what concerns it: bits, or the offsets themselves where those are smaller. So a task hands over at most four
bytes for each key, however far apart their offsets are, and at most a bit for each offset, however many keys it has.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from engine.log.cleaner.survivor_bits import PART_BYTES, offsets_of
from kafkalog_spark.table.columns import column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.log.cleaner.round_plan import SegmentToClean
    from engine.log.cleaner.survivor_bits import BitPart, GroupBits

BITS = pa.schema([("token", pa.int64()), ("first", pa.int64()), ("bits", pa.binary()), ("keys", pa.int64())])
COUNT, FAILED, OFFSETS, GROUP = -1, -2, -3, -4  # instead of the offset that the first bit stands for
_OFFSET_SIZE = 4  # counted from the base offset of the group, which is no wider than 2^28


class BitRows:
    """Makes rows of BITS; `size` is what they take so far, in bytes.

    tokens  by group: what says in the first column which group is meant
    """

    def __init__(self, groups: Sequence[Sequence[SegmentToClean]], tokens: list[int]) -> None:
        self._starts, self._tokens = [group[0].base_offset for group in groups], tokens
        self._rows: list[tuple[int, int, bytes, int]] = []
        self._offsets: dict[int, list[pa.Array]] = {}  # by group
        self.size = 0

    def fail(self, words: str) -> None:
        """A task has met a problem."""
        self._rows.append((self._tokens[0], FAILED, words.encode(), 0))

    def count(self, keys: int) -> None:
        """So many keys are there."""
        self._rows.append((self._tokens[0], COUNT, b"", keys))

    def add(self, part: BitPart) -> None:
        """Take a part of the bits, for each group that it concerns."""
        offsets, starts = offsets_of(part.number), self._starts
        first = max(0, bisect_right(starts, offsets.start) - 1)
        groups = range(first, bisect_right(starts, offsets.stop - 1))
        bits = pa.Array.from_buffers(pa.bool_(), len(offsets), [None, pa.py_buffer(part.bits)])
        if len(groups) == 1 and bits.true_count * _OFFSET_SIZE >= len(part.bits):
            self._add_bits(groups[0], offsets.start, part.bits)
            return
        set_ones = pc.indices_nonzero(bits).cast(pa.int64())
        numbers = memoryview(_octets(set_ones)).cast("q")
        at = 0
        for group in groups:
            end = min(starts[group + 1], offsets.stop) - offsets.start if group + 1 < len(starts) else len(offsets)
            behind = bisect_left(numbers, end, at)
            begin = max(0, starts[group] - offsets.start) >> 3  # bytes
            if (behind - at) * _OFFSET_SIZE >= ((end + 7) >> 3) - begin:
                self._add_bits(group, offsets.start + 8 * begin, part.bits[begin : (end + 7) >> 3])
            elif behind > at:
                from_base = pc.add(set_ones[at:behind], offsets.start - starts[group])
                self._offsets.setdefault(group, []).append(from_base.cast(pa.uint32()))
                self.size += (behind - at) * _OFFSET_SIZE
            at = behind

    def _add_bits(self, group: int, first: int, bits: bytes) -> None:
        self._rows.append((self._tokens[group], first, bits, 0))
        self.size += len(bits)

    def take(self) -> pa.RecordBatch:
        """The rows since the last time."""
        for group, columns in self._offsets.items():
            data = b"".join(map(_octets, columns))
            for at in range(0, len(data), PART_BYTES):  # rows are no larger than those of bits
                self._rows.append((self._tokens[group], OFFSETS, data[at : at + PART_BYTES], 0))
        arrays = [column([row[at] for row in self._rows], field.type) for at, field in enumerate(BITS)]
        self._rows, self._offsets, self.size = [], {}, 0
        return pa.RecordBatch.from_arrays(arrays, schema=BITS)


def _octets(column: pa.Array) -> bytes:
    size = column.type.bit_width // 8
    return bytes(memoryview(column.buffers()[1]).cast("B")[column.offset * size : (column.offset + len(column)) * size])


def note_row(bits: GroupBits, base_offset: int, first: int, data: memoryview) -> None:
    """Let a group of that base offset know what a row has for it."""
    if first != OFFSETS:
        bits.add(first, data)
        return
    from_base = pa.Array.from_buffers(pa.uint32(), len(data) // _OFFSET_SIZE, [None, pa.py_buffer(data)])
    offsets = pc.add(from_base.cast(pa.int64()), base_offset)
    bits.add_offsets(memoryview(_octets(offsets)).cast("q"))

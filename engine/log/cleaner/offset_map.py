"""The last offset of every key, in a buffer of limited size. Mirrors SkimpyOffsetMap."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

from engine.errors import UsageError
from engine.files import zeros
from engine.formats import Status
from engine.kernels.decoded import Decoded
from engine.kernels.mapping import Space, map_batches
from engine.kernels.offset_map import (
    OffsetMap,
    Retention,
    find_key,
    judge_batches,
    mark_retained,
    move_entries,
    note_survivors,
    put_keys,
)
from engine.kernels.tables import SLOT_WORDS, MapState
from engine.record.codecs.libzstd import calls_for
from engine.record.codecs.lz4 import written_checksums
from engine.record.columns import BATCH_ROWS

if TYPE_CHECKING:
    from engine.record.columns import BatchColumns, RecordColumns
    from engine.record.reader import Chunk
    from engine.record.windows import Window

BYTES_PER_ENTRY = 8 * SLOT_WORDS
LOAD_FACTOR = 0.9  # log.cleaner.io.buffer.load.factor
DEDUPE_BUFFER_SIZE = 128 << 20  # log.cleaner.dedupe.buffer.size
_SMALL = 1 << 20  # initial bytes: a map that fits the CPU cache is three times as fast
_LARGE = 16 << 20  # a larger map grows to its final size in one step, so that two large ones never exist at the same time
_ROOMY = 0.6  # share of used slots at which the map grows

_SLOT_LIMIT = 2**32 - 1
_MOST_WORDS = 1 << 22  # 32 MiB of bits
NOBODY = memoryview(bytes(BATCH_ROWS))  # flags by batch: no batch is skipped


class Survivors(NamedTuple):
    """Which offsets from `start` to `latest` are the last ones of their keys, one bit each. Bit 0 is the offset `start`.

    If latest < start, nothing is known.
    """

    start: int
    latest: int
    bits: memoryview


NO_SURVIVORS = Survivors(0, -1, memoryview(array("Q", (0,))))


class SkimpyOffsetMap:
    """Key → last offset. A slot holds a digest of 128 bits and the offset.

    memory  highest number of bytes; the map holds `capacity` keys: LOAD_FACTOR of the slots of 24 bytes, as in Kafka
    secret  two random 64-bit numbers: with a known secret, keys with the same digest could be constructed

    `latest_offset` is the last offset that the map covers: all records after it are retained.
    Raises UsageError if `memory` is too small for two keys.
    """

    def __init__(self, memory: int, secret: tuple[int, int]) -> None:
        self._limit = min(memory // BYTES_PER_ENTRY, _SLOT_LIMIT)
        self.capacity = capacity_of(memory)
        refuse_too_small(memory)
        self._secret = secret
        self._state = array("q", (0, 0, 0))
        self.clear(0)

    def clear(self, most_keys: int) -> None:
        """Remove all keys. `most_keys`: highest number of keys that can follow; no memory is allocated for more."""
        self._last_size = min(int(most_keys / _ROOMY) + 1, self._limit)
        self._slots = _slots(min(_SMALL // BYTES_PER_ENTRY, self._limit))
        self._state[MapState.ENTRIES] = 0
        self._state[MapState.LATEST] = -1
        self._set_capacity()

    def __len__(self) -> int:
        return self._state[MapState.ENTRIES]

    @property
    def latest_offset(self) -> int:
        """The last offset that `put` or `update_latest_offset` set; −1: none."""
        return self._state[MapState.LATEST]

    def update_latest_offset(self, offset: int) -> None:
        """Set `latest_offset`."""
        self._state[MapState.LATEST] = offset

    @property
    def utilization(self) -> float:
        """Share of the slots that is in use, 0 … 1 (OffsetMap.utilization)."""
        return len(self) / self._limit

    def put(self, chunk: Chunk, start_offset: int, skipped: bytes | bytearray | memoryview) -> int:
        """Add the keys of the chunk's records from `start_offset` on.

        skipped  by batch of the chunk: not 0 skips its records
        Returns the column after the last record that was read: `chunk.end`, or a lower one if the map is full.
        """
        at = chunk.first
        while True:
            table = chunk.records.table
            at, status = put_keys(self._view(), chunk.data, table, at, chunk.end, start_offset, memoryview(skipped))
            if status == Status.BAD_START:
                raise AssertionError("columns, flags and offsets do not match")
            if status == Status.END or len(self) >= self.capacity:
                return int(at)
            self._grow()

    def put_batches(
        self, window: Window, start_offset: int, records: RecordColumns, room: memoryview, last: int
    ) -> tuple[int, int, int]:
        """Add the keys of a window's ordinary batches up to the first other batch, in one call of a kernel (see map_batches).

        records, room  working space        last  offset before the window, −1: none
        Returns the first batch that was not read, the number of records read, and their last offset or OUT_OF_ORDER.
        """
        table = window.batches.table
        space = Space(written_checksums(), calls_for(table, 0, window.rows), room, records.table, NOBODY)
        row, read, last = map_batches(self._view(), window.data, table, 0, window.rows, space, start_offset, last)
        return int(row), int(read), int(last)

    def get(self, key: bytes) -> int:
        """The last offset of `key`; −1: the map does not have it."""
        return int(find_key(self._view(), memoryview(key)))

    def survivors(self, start: int) -> Survivors:
        """The offsets that were put from `start` on, one bit each; NO_SURVIVORS if that needs too much memory.

        Also NO_SURVIVORS if an offset is larger than `latest_offset`: then segments overlap.
        """
        words = (self.latest_offset - start) // 64 + 1
        if not 0 < words <= _MOST_WORDS:
            return NO_SURVIVORS
        bits = memoryview(bytearray(8 * words)).cast("Q")
        return Survivors(start, self.latest_offset, bits) if note_survivors(self._slots, start, bits) else NO_SURVIVORS

    def mark(
        self, chunk: Chunk, batches: BatchColumns, verdicts: memoryview, now: int, retain_legacy_deletes: bool,
        survivors: Survivors, keep: memoryview, counts: memoryview,
    ) -> None:  # fmt: skip
        """Decide for each record of the chunk whether compaction keeps it (see kernels.offset_map.mark_retained)."""
        decoded = Decoded(chunk.data, batches.table, chunk.records.table)
        retention = Retention(self.latest_offset, now, retain_legacy_deletes, survivors.bits, survivors.start)
        status = mark_retained(self._view(), decoded, chunk.first, chunk.end, retention, verdicts, keep, counts)
        if status != Status.END:
            raise AssertionError("columns, verdicts and counts do not match")

    def _view(self) -> OffsetMap:
        """The map as the kernels read it."""
        return OffsetMap(self._slots, *self._secret, memoryview(self._state))

    def _grow(self) -> None:
        size = len(self._slots) // SLOT_WORDS
        last_size = self._last_size if size < self._last_size else self._limit
        slots = _slots(last_size if 4 * size * BYTES_PER_ENTRY > _LARGE else min(4 * size, last_size))
        if move_entries(self._slots, slots) != len(self):
            raise AssertionError("the larger map has too few slots for the entries of the smaller one")
        self._slots = slots
        self._set_capacity()

    def _set_capacity(self) -> None:
        size = len(self._slots) // SLOT_WORDS
        self._state[MapState.CAPACITY] = self.capacity if size == self._limit else int(size * _ROOMY)


class LaterOffsets(NamedTuple):
    """Answers for the second pass whether a key has a later offset, from the offset map, or from `survivors` if they suffice.

    alike  both passes begin with the log, so both treat the same transactions as aborted. Otherwise the first pass begins in
           the middle and may skip records as aborted that the second pass keeps: `survivors` are not used for those
    """

    offset_map: SkimpyOffsetMap
    survivors: Survivors
    alike: bool

    def judge(self, batches: BatchColumns, rows: int, verdicts: memoryview) -> None:
        """Decide batches whose records need not be read: ASK becomes SUPERSEDED or ASK_SURVIVORS. `rows`: the first N."""
        bits, start, latest = self.survivors.bits, self.survivors.start, self.survivors.latest
        if not judge_batches(batches.table, rows, verdicts, bits, start, latest, self.alike):
            raise AssertionError("batches, verdicts and survivors do not match")

    def mark(
        self, chunk: Chunk, batches: BatchColumns, verdicts: memoryview, now: int, retain_legacy_deletes: bool,
        keep: memoryview, counts: memoryview,
    ) -> None:  # fmt: skip
        """Decide for each record of the chunk whether compaction keeps it (see kernels.offset_map.mark_retained).

        now  ms: tombstones whose delete horizon it has reached are removed
        retain_legacy_deletes  keep tombstones of formats 0 and 1
        """
        self.offset_map.mark(chunk, batches, verdicts, now, retain_legacy_deletes, self.survivors, keep, counts)


def capacity_of(memory: int) -> int:
    """Number of keys that an offset map of `memory` bytes holds."""
    return int(min(memory // BYTES_PER_ENTRY, _SLOT_LIMIT) * LOAD_FACTOR)


def refuse_too_small(memory: int) -> None:
    """Raise UsageError if an offset map of `memory` bytes holds no key."""
    if capacity_of(memory) < 1:
        raise UsageError(f"an offset map of {memory} bytes has no room for a key: {2 * BYTES_PER_ENTRY} bytes are needed at "
                         "least")


def _slots(count: int) -> memoryview:
    """`count` empty slots. Raises UsageError if there is not enough memory."""
    try:
        return zeros(count * BYTES_PER_ENTRY).cast("Q")
    except MemoryError as error:
        what = f"an offset map of {count * BYTES_PER_ENTRY} bytes: the operating system does not provide that much memory"
        raise UsageError(what, do="use a smaller --dedupe-buffer-size; compaction may then need more rounds") from error

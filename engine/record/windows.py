"""Walk a log in windows: `pread` into one reusable buffer, scan, check checksums. Mirrors FileLogInputStream.

Memory is one window (1 MiB, which fits the cache), enlarged for larger batches up to `max_batch_bytes`. Of batches beyond that
only the header is kept, and the checksum is computed in pieces.
"""

from __future__ import annotations

from enum import Enum
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING, NamedTuple, cast
from zlib import crc32

from engine.errors import became_shorter
from engine.formats import (
    BATCH_HEADER,
    HEADER_SIZE_UP_TO_MAGIC,
    INT_MAX,
    LEGACY_V0,
    LEGACY_V1,
    LOG_OVERHEAD,
    MAGIC_V2,
    BatchField,
    Status,
)
from engine.kernels.checksum import CASTAGNOLI, IEEE, make_tables
from engine.kernels.fields import VARINT_SIZE
from engine.kernels.scan import find_candidate, scan_batches
from engine.kernels.select import next_unchecked
from engine.record.columns import BatchColumns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.files import OpenFile

    Crc = Callable[[bytes | bytearray | memoryview, int], int]

WINDOW_SIZE = 1 << 20
MAX_BATCH_BYTES = 64 << 20  # default: 64 times the brokers' default
MAX_LOG_SIZE = INT_MAX  # bytes of a .log: Kafka opens no larger file
_CHUNK = 1 << 20
PIECE = 1 << 20  # bytes per read for a checksum
_INT = 4  # bytes of a size field
_SMALLEST_WINDOW = HEADER_SIZE_UP_TO_MAGIC + 1  # the scan needs this much to read a size

# A false header can claim a large range. Few of them occur by chance: if more than 32 overlap, or a few dozen claim all of
# a small file, they were made on purpose.
_SEARCH_TIMES = 32
_LEAST_SEARCH = 1 << 30  # bytes: less than a second

_ZEROS = bytes(_CHUNK)
CASTAGNOLI_TABLES = memoryview(make_tables(CASTAGNOLI))
_TABLES = (CASTAGNOLI_TABLES, make_tables(IEEE))
_LENGTH_AT = BATCH_HEADER.positions["batch_length"]
_CRC_START_V2 = BATCH_HEADER.positions["attributes"]
_CRC_START_LEGACY = BATCH_HEADER.positions["magic"]


def search_budget(size: int) -> int:
    """Return the largest number of bytes to checksum in a search of `size` bytes after damage."""
    return max(_SEARCH_TIMES * size, _LEAST_SEARCH)


def _extension() -> Crc:
    """Return the function of the extension module, or of the package if its extension has another name.

    The package itself is not imported: it looks up its version in the installed metadata, a fifth of the time of a small dump.
    """
    package = find_spec("crc32c")
    paths = package.submodule_search_locations if package else None
    spec = PathFinder.find_spec("crc32c._crc32c", paths) if paths else None
    if spec is None or spec.loader is None:
        from crc32c import crc32c as whole

        return cast("Crc", whole)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    if not hasattr(module, "crc32c"):
        from crc32c import crc32c as whole

        return cast("Crc", whole)
    return cast("Crc", module.crc32c)


_crc = _extension()


def crc32c(data: bytes | bytearray | memoryview, before: int = 0) -> int:
    """Return the CRC-32C of `data`, unsigned; `before` is the checksum of the bytes before it."""
    return _crc(data, before)


def checksum_of(file: OpenFile, start: int, end: int, crc: Crc) -> int:
    """Return the checksum of bytes start … end − 1 of a file; `crc` is crc32c or zlib.crc32. Raises as read_exactly."""
    checksum = 0
    for at in range(start, end, PIECE):
        checksum = crc(file.read_exactly(at, min(PIECE, end - at)), checksum)
    return checksum


class Stop(Enum):
    """Why a walk ended."""

    END = "end"  # every byte belongs to a batch
    TORN = "torn"  # the rest is too short for a batch, or the last batch extends beyond the end
    BAD_SIZE = "bad-size"  # a size field that no batch can have


class Window(NamedTuple):
    """Some whole batches. `data` and `batches` are valid until the next window is read; see LogWalk for exceptions."""

    data: memoryview
    base: int  # file position of data[0]
    batches: BatchColumns
    rows: int
    partial: bool = False  # one batch above max_batch_bytes: `data` holds its header only


class LogWalk:
    """The batches of one log file, from `start` to `end` (byte positions; default: its current size, at most MAX_LOG_SIZE).

    batches  columns to reuse, which saves time with many short walks over one file
    alternates  a window stays valid while the next one is read, for reading ahead (background.ahead); twice the memory

    Iterate, and again after each `resynchronise`. Then `stop` is why the walk ended, and `position` where. Raises
    UnreadableFile, and FileChangedWhileReading if the file became shorter meanwhile.
    """

    def __init__(
        self,
        file: OpenFile,
        start: int = 0,
        end: int | None = None,
        *,
        max_batch_bytes: int = MAX_BATCH_BYTES,
        window_size: int = WINDOW_SIZE,
        batches: BatchColumns | None = None,
        alternates: bool = False,
    ) -> None:
        self.file = file
        self.position = start
        self.end = min(file.size(), MAX_LOG_SIZE) if end is None else end
        self.stop = Stop.END
        self._suspect = start  # file position of the first of consecutive batches with wrong checksums right before `position`
        self._is_suspicious = False  # is there such a batch?
        self.gave_up: int | None = None  # a search reached its work limit and checked nothing from this file position on
        self._budget = search_budget(self.end - start)  # bytes that searches may still checksum
        self._max_batch_bytes = max(max_batch_bytes, BATCH_HEADER.size)
        self._buffer = bytearray(max(_SMALLEST_WINDOW, min(window_size, self._max_batch_bytes, self.end - start)))
        self._batches = BatchColumns() if batches is None else batches
        self._other: tuple[bytearray, BatchColumns] | None = None  # for the next window, if it alternates
        if alternates:
            self._other = bytearray(len(self._buffer)), BatchColumns(self._batches.capacity)

    def __iter__(self) -> Iterator[Window]:
        while self.position < self.end:
            data = self._fill()
            at, status = 0, int(Status.FULL)
            while status == Status.FULL:
                rows, at, status = scan_batches(data, at, len(data), self._batches.table, *_TABLES)
                if rows:
                    check_large_batches(data, self._batches, rows)
                    self._note_suspects(rows)
                    yield Window(data, self.position, self._batches, rows)
                    self._alternate_batches()
            self.position += at
            if at and self._other is not None:
                self._buffer, self._other = self._other[0], (self._buffer, self._other[1])
            if not self._is_suspicious:
                self._suspect = self.position
            if status == Status.BAD_SIZE:
                self.stop = Stop.BAD_SIZE
                return
            if status == Status.TORN and at == 0:
                size = self._next_size(data)
                if size > self.end - self.position:
                    self.stop = Stop.TORN
                    return
                if size > self._max_batch_bytes:
                    window = self._header_only(size)
                    self._note_suspects(1)
                    yield window
                    self._alternate_batches()
                    self.position += size
                else:
                    self._buffer = bytearray(size)

    def _alternate_batches(self) -> None:
        if self._other is not None:
            self._batches, self._other = self._other[1], (self._other[0], self._batches)

    def _note_suspects(self, rows: int) -> None:
        """Note the start of the consecutive batches with wrong checksums at the end of the walk so far, if any."""
        table, row = self._batches.table, rows
        while row and not table[BatchField.VALID, row - 1]:
            row -= 1
        if row == rows:
            self._is_suspicious = False
        elif row or not self._is_suspicious:
            self._suspect = self.position + table[BatchField.POSITION, row]
            self._is_suspicious = True

    def resynchronise(self, first_offset: int | None = None) -> int | None:
        """Move to the next sound batch after the damage, and return its file position; None: there is none.

        first_offset  a batch with a lower base offset is not of this log, but inside a record's value; None: no limit

        A sound batch has a plausible header of format 0, 1 or 2 and a valid checksum. The search starts in the last batches
        with wrong checksums, since a corrupt size field of one of them may have misled the walk. Its work is bounded: with too
        many false headers it stops, and sets `gave_up` to its position.
        """
        at = self._suspect + 1
        buffer = bytearray(_CHUNK)
        data, start, after = memoryview(b""), at, at
        while at < self.end:
            if self._budget <= 0:
                self.gave_up = at
                return None
            if at >= after:
                data_at = self.file.next_data(at, self.end)
                if data_at == self.end:
                    return None
                at = max(at, data_at - (BATCH_HEADER.size - 1))  # the first bytes of a header may be zeros in the hole
                count = self.file.read_into(memoryview(buffer)[: self.end - at], at)
                data, start = memoryview(buffer)[:count], at
                is_last = start + len(data) >= self.end
                after = start + len(data) - (0 if is_last else BATCH_HEADER.size - 1)  # headers up to here are in the buffer
                if after <= at:
                    return None
                if is_zero(buffer, count):  # holds no header; preallocated files have many zeros
                    at = after
                    continue
            largest = min(self._max_batch_bytes, self.end - at)
            found: int = find_candidate(data, at - start, after - start, len(data), largest)
            if found < 0:
                at = after
                continue
            at = start + found
            size = BATCH_HEADER.field("batch_length", data, found) + LOG_OVERHEAD
            offset: int = BATCH_HEADER.field("base_offset", data, found)
            is_ours = (first_offset is None or offset >= first_offset) and self._may_be_whole(at, size)
            if is_ours and self._is_sound(at, size):
                self.position = self._suspect = at
                self.stop = Stop.END
                return at
            self._budget -= size if is_ours else BATCH_HEADER.size
            at += 1
        return None

    def _may_be_whole(self, at: int, size: int) -> bool:
        """Return whether key and value, or the first record, fit. `find_candidate` checks only its piece of the file."""
        head = self.file.read_exactly(at, min(BATCH_HEADER.size + VARINT_SIZE, self.end - at))
        if head[_CRC_START_LEGACY] >= MAGIC_V2:
            return bool(find_candidate(memoryview(head), 0, 1, len(head), size) == 0)
        layout = LEGACY_V1 if head[_CRC_START_LEGACY] else LEGACY_V0
        value_at = layout.size + max(layout.field("key_size", head), 0)
        value_size = int.from_bytes(self.file.read(at + value_at, _INT), "big", signed=True)
        return value_at + _INT + max(value_size, 0) == size

    def _is_sound(self, at: int, size: int) -> bool:
        """Return whether the batch of `size` bytes at file position `at` is within the file and has a valid checksum."""
        if size > self.end - at:
            return False
        head = self.file.read_exactly(at, HEADER_SIZE_UP_TO_MAGIC + 4)
        if head[_CRC_START_LEGACY] < MAGIC_V2:
            stored = LEGACY_V0.field("crc", head)
            return checksum_of(self.file, at + _CRC_START_LEGACY, at + size, crc32) == stored
        stored = BATCH_HEADER.field("crc", head)
        return size >= BATCH_HEADER.size and checksum_of(self.file, at + _CRC_START_V2, at + size, crc32c) == stored

    def _fill(self) -> memoryview:
        """Return the next bytes of the file, as many as fit into the buffer."""
        data = memoryview(self._buffer)[: min(len(self._buffer), self.end - self.position)]
        if self.file.read_into(data, self.position) < len(data):
            raise became_shorter(self.file.path, self.end)
        return data.toreadonly()

    def _next_size(self, data: memoryview) -> int:
        """Return the whole size of the batch at the start of `data`; beyond the file if it is not readable."""
        if len(data) <= HEADER_SIZE_UP_TO_MAGIC:
            return self.end + 1
        size = BATCH_HEADER.field("batch_length", data) + LOG_OVERHEAD
        # a batch of magic 2 smaller than its header is reported only if the whole header is readable
        return max(size, BATCH_HEADER.size) if BATCH_HEADER.field("magic", data) >= MAGIC_V2 else size

    def _header_only(self, size: int) -> Window:
        """Return a batch above the limit: its header, scanned as if it were alone, and its checksum, computed in pieces."""
        head = bytearray(self._header_at(self.position))
        legacy = BATCH_HEADER.field("magic", head) < MAGIC_V2
        head[_LENGTH_AT:LOG_OVERHEAD] = (len(head) - LOG_OVERHEAD).to_bytes(LOG_OVERHEAD - _LENGTH_AT, "big")
        scan_batches(memoryview(head), 0, len(head), self._batches.table, *_TABLES)
        table = self._batches.table
        start, kind = (_CRC_START_LEGACY, crc32) if legacy else (_CRC_START_V2, crc32c)
        crc = checksum_of(self.file, self.position + start, self.position + size, kind)
        table[BatchField.SIZE, 0] = size
        table[BatchField.VALID, 0] = int(crc == table[BatchField.CRC, 0])
        return Window(memoryview(head).toreadonly(), self.position, self._batches, 1, partial=True)

    def _header_at(self, at: int) -> bytes:
        """Return the bytes of a v2 header, fewer at the end of the walk."""
        head = self.file.read(at, BATCH_HEADER.size)
        if len(head) < min(BATCH_HEADER.size, self.end - at):
            raise became_shorter(self.file.path, self.end)
        return head


def is_zero(buffer: bytearray, size: int) -> bool:
    """Return whether the first `size` bytes are all 0. As fast as memory allows."""
    if len(buffer) == size == len(_ZEROS):
        return buffer == _ZEROS
    return not any(memoryview(buffer)[:size])


def only_zeros(file: OpenFile, start: int, end: int) -> bool:
    """Return whether bytes start … end − 1 are all zero. Stops at the first other byte. Raises as OpenFile.read_exactly."""
    buffer, at = bytearray(_CHUNK), start
    while (at := file.next_data(at, end)) < end:
        size = min(_CHUNK, end - at)
        if file.read_into(memoryview(buffer)[:size], at) < size:
            raise became_shorter(file.path, at + size)
        if not is_zero(buffer, size):
            return False
        at += size
    return True


def scan_range(data: memoryview, start: int, end: int, batches: BatchColumns) -> int:
    """Read the headers of the whole batches in data[start:end] into `batches`, and return their number.

    Large batches have VALID −1: their checksum is not computed.
    """
    rows: int = scan_batches(data, start, end, batches.table, *_TABLES)[0]
    return rows


def check_large_batches(data: memoryview, batches: BatchColumns, rows: int) -> None:
    """Compute VALID of the batches whose checksums the scan left to the checksum libraries."""
    table = batches.table
    valid, position, size = BatchField.VALID, BatchField.POSITION, BatchField.SIZE
    row = next_unchecked(table, 0, rows)
    while row < rows:
        at = table[position, row]
        end = at + table[size, row]
        if table[BatchField.MAGIC, row] >= 2:
            crc = crc32c(data[at + _CRC_START_V2 : end])
        else:
            crc = crc32(data[at + _CRC_START_LEGACY : end])
        table[valid, row] = crc == table[BatchField.CRC, row]
        row = next_unchecked(table, row + 1, rows)

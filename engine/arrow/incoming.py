"""Convert rows of Arrow record batches to record columns for the encoder, without a Python object per row."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import KafkalogError
from engine.formats import RECORD_FIELDS, RecordField
from engine.kernels import rows as kernel
from engine.kernels.rows import choose_partitions, group_rows
from engine.record.columns import RecordColumns

if TYPE_CHECKING:
    from collections.abc import Iterator

_FEW = 256  # initial number of records
_RECORD = 8 * RECORD_FIELDS  # bytes of a record in the columns
_MICROS = 1000
_EARLIEST = -(2**63) // _MICROS
_NOTHING = memoryview(b"")


class RowRefused(KafkalogError):
    """A row from which no record can be made."""

    code = "row-refused"


class BadRows(KafkalogError):
    """Inconsistent buffers of arrays: a defect, not a problem of the input."""

    code = "bad-rows"


class Blobs(NamedTuple):
    """The buffers of an array of bytes; `start` is the index of row 0 in the buffers."""

    data: memoryview
    ends: memoryview
    valid: memoryview
    start: int
    length: int

    @classmethod
    def of(cls, values: pa.Array) -> Blobs:
        """Return the buffers of an array of binary or strings, large or not."""
        if values.type != pa.binary():
            values = values.cast(pa.binary())
        valid, ends, data = values.buffers()
        start, length = values.offset, len(values)
        return cls(_view(data), _ends(ends, start + length + 1), _view(valid), start, length)


class Numbers(NamedTuple):
    """The buffers of an array of 64-bit integers."""

    values: memoryview
    valid: memoryview
    start: int
    length: int

    @classmethod
    def of(cls, values: pa.Array) -> Numbers:
        """Return the buffers of an array of int64 or of timestamps in microseconds."""
        valid, data = values.buffers()
        start, length = values.offset, len(values)
        return cls(_view(data)[: 8 * (start + length)].cast("q"), _view(valid), start, length)


class HeaderLists(NamedTuple):
    """The buffers of an array of lists of (key, value)."""

    lists: memoryview
    valid: memoryview
    start: int
    length: int
    keys: Blobs
    values: Blobs

    @classmethod
    def of(cls, headers: pa.Array) -> HeaderLists:
        """Return the buffers of an array of list<struct<key, value>>."""
        keys, values = map(Blobs.of, headers.values.flatten())  # a header that is null has no key
        valid, lists = headers.buffers()[:2]
        start, length = headers.offset, len(headers)
        return cls(_ends(lists, start + length + 1), _view(valid), start, length, keys, values)

    def for_kernels(self) -> kernel.HeaderLists:
        """Return the buffers in the kernels' form."""
        return kernel.HeaderLists(*self[:4], kernel.Blobs(*self.keys), kernel.Blobs(*self.values))


def _view(buffer: pa.Buffer | None) -> memoryview:
    return _NOTHING if buffer is None else memoryview(buffer).cast("B")


def _ends(buffer: pa.Buffer | None, count: int) -> memoryview:
    view = _view(buffer)[: 4 * count]
    return (view if len(view) == 4 * count else memoryview(bytes(4 * count))).cast("i")  # an empty array may have no buffer


class IncomingRows:
    """The columns of the records to make.

    key, headers, timestamp, offset  None: no such column
    now  timestamp, ms, of records without one
    """

    def __init__(
        self, value: pa.Array, *, now: int, key: pa.Array | None = None, headers: pa.Array | None = None,
        timestamp: pa.Array | None = None, offset: pa.Array | None = None,
    ) -> None:  # fmt: skip
        self.count, self.now = len(value), now
        self.value = Blobs.of(value)
        self.key = None if key is None else Blobs.of(key)
        self.headers = None if headers is None else HeaderLists.of(headers)
        self.timestamp = None if timestamp is None else Numbers.of(timestamp)
        self.offset = None if offset is None else Numbers.of(offset)

    def partitions(self, given: pa.Array | None, count: int | None, keyless: int) -> pa.Array:
        """Return the partition of each row: `given`, or if that is null by the hash of the key, as Kafka's producers choose.

        count    partitions of the topic; None: unknown, then `given` may have no nulls
        keyless  the partition of rows without a key
        Raises RowRefused.
        """
        chosen = memoryview(array("i", [-1]) * self.count)
        if given is not None:
            low, high = pc.min_max(given).values()
            if low.as_py() is not None and low.as_py() < 0:
                raise RowRefused(f"Invalid partition: {low}. Partition number should always be non-negative or null.")
            if count is not None and high.as_py() is not None and high.as_py() >= count:
                raise RowRefused(f"Invalid partition given with record: {high} is not in the range [0...{count}).")
            if not given.null_count:
                return given
            filled = given.fill_null(-1)
            chosen = memoryview(bytearray(filled.buffers()[1])[4 * filled.offset :][: 4 * self.count]).cast("i")
        if count is None:
            raise RowRefused("a row has no partition: give the column 'partition' or the option numPartitions")
        key = self.key or Blobs(_NOTHING, _ends(None, self.count + 1), memoryview(bytes((self.count + 7) // 8)), 0, self.count)
        if not choose_partitions(key.data, key.ends, key.valid, key.start, self.count, count, keyless % count, chosen):
            raise BadRows("keys outside their array")
        return pa.Array.from_buffers(pa.int32(), self.count, [None, pa.py_buffer(chosen)])


def groups(codes: pa.Array, count: int) -> Iterator[tuple[int, memoryview, int, int]]:
    """Group rows by code: (code, row numbers, first, end); the rows of a group are in order.

    codes  int32 without nulls, 0 … count − 1
    """
    rows = len(codes)
    chosen = memoryview(array("q", bytes(8 * rows)))
    ends = memoryview(array("q", bytes(8 * (count + 1))))
    numbers = _view(codes.buffers()[1])[4 * codes.offset :][: 4 * rows].cast("i")
    if not group_rows(numbers, rows, ends, chosen):
        raise BadRows("unknown type codes")
    first = 0
    for code in range(count):
        if ends[code] > first:
            yield code, chosen, first, ends[code]
        first = ends[code]


class Sheet:
    """Records to be packed: columns over one growing buffer."""

    def __init__(self) -> None:
        self._data = memoryview(bytearray(0))
        self._used = 0
        self.records = RecordColumns(_FEW)
        self.filled = 0

    @property
    def data(self) -> memoryview:
        """Return the bytes that the columns point into."""
        return self._data[: self._used]

    @property
    def size(self) -> int:
        """Return the bytes of memory of the records."""
        return self._used + _RECORD * self.filled

    def clear(self) -> None:
        """Remove the records; their memory is used again."""
        self._used = self.filled = 0

    def add(self, rows: IncomingRows, chosen: memoryview, first: int, end: int, next_offset: int) -> int:
        """Add the rows chosen[first:end]; returns the offset after the last one. Raises RowRefused.

        next_offset  of the first of them; if rows have offsets, the lowest valid one
        """
        taken = kernel.Chosen(chosen, first, end)
        self._make_room(rows, taken, end - first)
        row, count = self.filled, end - first
        self._used = self._blobs(rows.value, taken, RecordField.VALUE_POSITION)
        if rows.key is None:
            self._fill(RecordField.KEY_SIZE, row, count, -1)
            self._fill(RecordField.KEY_POSITION, row, count, 0)
        else:
            self._used = self._blobs(rows.key, taken, RecordField.KEY_POSITION)
        self._headers(rows.headers, taken, count)
        if rows.timestamp is None:
            self._fill(RecordField.TIMESTAMP, row, count, rows.now)
        else:
            self._timestamps(rows.timestamp, taken, count, rows.now)
        if rows.offset is None:
            offsets = memoryview(array("q", range(next_offset, next_offset + count)))
            self.records.field(RecordField.OFFSET)[row : row + count] = offsets
        else:
            self._offsets(rows.offset, taken, count, next_offset)
        self._fill(RecordField.BATCH, row, count, 0)
        self.filled += count
        return int(self.records.table[RecordField.OFFSET, self.filled - 1]) + 1

    def _make_room(self, rows: IncomingRows, taken: kernel.Chosen, count: int) -> None:
        size = 0
        for blobs in (rows.value, rows.key):
            if blobs is not None:
                size += _sound(kernel.measure_rows(kernel.Blobs(*blobs), taken))
        if rows.headers is not None:
            size += self._header_size(rows.headers, taken) + 10  # the kernel needs room for two varints
        if self._used + size > len(self._data):
            grown = memoryview(bytearray(max(self._used + size, len(self._data) * 3 // 2)))
            grown[: self._used] = self._data[: self._used]
            self._data = grown
        wanted = self.filled + count
        if wanted > self.records.capacity:
            columns = RecordColumns(max(wanted, 2 * self.records.capacity))
            for field in RecordField:
                columns.field(field)[: self.filled] = self.records.field(field)[: self.filled]
            self.records = columns

    def _header_size(self, headers: HeaderLists, taken: kernel.Chosen) -> int:
        size: int = kernel.measure_header_rows(headers.for_kernels(), taken)
        if size == -2:
            raise RowRefused("a header without a key")
        return _sound(size)

    def _blobs(self, blobs: Blobs, taken: kernel.Chosen, field: RecordField) -> int:
        table = self.records.table
        return _sound(kernel.take_rows(kernel.Blobs(*blobs), taken, self._data, self._used, table, self.filled, field))

    def _headers(self, headers: HeaderLists | None, taken: kernel.Chosen, count: int) -> None:
        if headers is None:
            self._fill(RecordField.HEADER_COUNT, self.filled, count, 0)
            self._fill(RecordField.HEADERS_POSITION, self.filled, count, 0)
            return
        table = self.records.table
        self._used = _sound(kernel.take_header_rows(headers.for_kernels(), taken, self._data, self._used, table, self.filled))

    def _timestamps(self, column: Numbers, taken: kernel.Chosen, count: int, now: int) -> None:
        """Set timestamps, including those before 1970: Kafka's producers do not send them, but brokers accept them."""
        rule = kernel.NumberRule(_MICROS, now, _EARLIEST, grows=False)
        done, _ = self._numbers(column, taken, rule, RecordField.TIMESTAMP)
        if done < count:
            raise BadRows("a timestamp of more than 64 bits")

    def _offsets(self, column: Numbers, taken: kernel.Chosen, count: int, least: int) -> None:
        rule = kernel.NumberRule(1, -1, max(0, least), grows=True)
        done, refused = self._numbers(column, taken, rule, RecordField.OFFSET)
        if done < count:
            before = int(self.records.table[RecordField.OFFSET, self.filled + done - 1]) if done else least - 1
            if refused < 0:
                raise RowRefused(f"a row has no offset, or a negative one: {refused}")
            raise RowRefused(
                f"offset {refused} follows {before}: rows of a Kafka partition must come in the order of their offsets, in one "
                "partition of Spark; repartition by topic and partition, and sort by offset within partitions"
            )

    def _numbers(
        self, column: Numbers, taken: kernel.Chosen, rule: kernel.NumberRule, field: RecordField
    ) -> tuple[int, int]:
        """See kernels.rows.take_numbers."""
        done, refused = kernel.take_numbers(kernel.Numbers(*column), taken, rule, self.records.table, self.filled, field)
        return _sound(done), refused

    def _fill(self, field: RecordField, row: int, count: int, value: int) -> None:
        self.records.field(field)[row : row + count] = memoryview(array("q", [value]) * count)


def _sound(result: int) -> int:
    if result < 0:
        raise BadRows("rows outside their arrays")
    return result

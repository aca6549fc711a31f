"""Windows of sound batches and their records, for both passes of the cleaner."""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from typing import TYPE_CHECKING

from engine.amounts import count_of
from engine.findings import Finding, Where
from engine.formats import BATCH_HEADER, BatchField, ControlType
from engine.kernels.cleaning import first_unsound
from engine.log.cleaner.outcome import Uncleanable, unlisted_abort_error
from engine.record.codecs.bounded import MAX_DECOMPRESSED_BYTES
from engine.record.codecs.codecs import FINDINGS, InflateStatus
from engine.record.columns import BatchColumns, RecordColumns
from engine.record.control import ControlRecordInvalid, control_type, known_control_type
from engine.record.reader import ChunkReader
from engine.record.windows import MAX_BATCH_BYTES, LogWalk, Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.log.segment.log_segment import LogSegment
    from engine.record.legacy import RemarkKind
    from engine.record.reader import Chunk
    from engine.record.windows import Window


_WINDOW = 4 << 20  # bytes: large, so that parallel threads rarely wait for the interpreter's lock
_MORE_ROOM = ("the batch may be sound: raise the limit with --config max.message.bytes=N (N = the decompressed size, at "
              "most 2147483647), which needs that much memory")


class WalkColumns:
    """Columns that walks reuse."""

    def __init__(self) -> None:
        self.batches = BatchColumns()
        self.records = RecordColumns()

    @cached_property
    def more_records(self) -> RecordColumns:
        """Columns for a second reading while `records` are in use."""
        return RecordColumns()


class SegmentWalk:
    """The batches of one segment from byte `position` on, each of them sound. Raises Uncleanable at the first that is not.

    Rewriting would lose or copy such damage: a wrong checksum, a message format above 2, an unknown codec, records that do not
    decode, an incomplete batch. A batch may be as large as its segment. Memory: one window and the largest sound batch, with
    its decompressed records.
    inflated   highest decompressed size of a batch in bytes, or 256 MiB if that is more
    on_remark  called with problems that Kafka skips silently
    """

    def __init__(
        self, segment: LogSegment, position: int, inflated: int, columns: WalkColumns,
        on_remark: Callable[[Finding, RemarkKind], None] | None = None,
    ) -> None:
        self._segment, self._path, self._columns = segment, segment.log_path, columns
        self._position, self._limit = position, max(inflated, MAX_DECOMPRESSED_BYTES)
        self._findings: list[Finding] = []
        self._reader = ChunkReader(self._path, self._findings.append, self._limit, columns.records, on_remark=on_remark)

    @property
    def records(self) -> RecordColumns:
        """The columns that chunks are decoded into."""
        return self._columns.records

    def windows(self) -> Iterator[Window]:
        """Yield windows whose batches all have valid checksums. Closes the .log afterwards."""
        try:
            yield from self._sound_windows()
        finally:
            self._segment.release_log()

    def _sound_windows(self) -> Iterator[Window]:
        file, size = self._segment.log_file, self._segment.size
        batches = self._columns.batches
        walk = LogWalk(file, self._position, size, max_batch_bytes=MAX_BATCH_BYTES, batches=batches, window_size=_WINDOW)
        for window in walk:
            row = first_unsound(window.batches.table, window.rows)
            if row < window.rows:
                self._refuse(window, row)
            if window.partial:  # the batch was checked piece by piece: a wrong size field allocates no memory
                size_here = window.batches.table[BatchField.SIZE, 0]
                at, end = window.base, window.base + size_here
                yield from LogWalk(file, at, end, max_batch_bytes=size_here, window_size=size_here, batches=batches)
            else:
                yield window
        if walk.stop is not Stop.END:
            what = f"no whole batch begins here; {count_of(walk.end - walk.position, 'byte')} left"
            raise Uncleanable(Finding("torn-tail", Where(self._path, walk.position), what))

    def chunks(self, window: Window, row: int = 0, end: int | None = None) -> Iterator[Chunk]:
        """Yield the records of the batches row … end − 1 of a window (default: all).

        Records after an unsound batch are never returned, even if the reading stops early.
        """
        for chunk in self._reader.chunks(window, row, end):
            self._check()
            yield chunk
        self._check()

    def chunks_of(self, window: Window, row: int) -> Iterator[Chunk]:
        """Yield the records of one batch of the window again, while `chunks` is in progress."""
        table = window.batches.table
        body = table[BatchField.BODY, row], table[BatchField.BODY_END, row]
        _reset_body(window.batches, row)
        try:
            reader = ChunkReader(self._path, self._findings.append, self._limit, self._columns.more_records)
            yield from reader.chunks(window, row, row + 1)
        finally:  # the first reading may still use its decompressed body
            table[BatchField.BODY, row], table[BatchField.BODY_END, row] = body
        self._check()

    def control_kind(self, window: Window, row: int) -> ControlType | None:
        """The type of a control batch; None: it has no record. Unknown types count as LEADER_CHANGE, which is retained."""
        for chunk in self.chunks_of(window, row):
            if chunk.end > chunk.first:
                try:
                    kind = known_control_type(control_type(chunk.key(chunk.first)))
                except ControlRecordInvalid as error:
                    raise self._unreadable(window, row, "control-record-invalid", str(error)) from error
                return ControlType.LEADER_CHANGE if kind is None else kind
        return None

    def refuse_unlisted_abort(self, window: Window, offset: int) -> None:
        """Raise Uncleanable for the batch that ends with `offset`, see `unlisted_abort_error`."""
        row = bisect_left(window.batches.field(BatchField.LAST_OFFSET), offset, 0, window.rows)
        raise unlisted_abort_error(self._path, window.base + window.batches.table[BatchField.POSITION, row], offset)

    def _check(self) -> None:
        if not self._findings:
            return
        finding = self._findings[0]
        if finding.code == FINDINGS[InflateStatus.OVER_LIMIT]:
            raise Uncleanable(finding._replace(code="inflates-too-far"), _MORE_ROOM)
        raise Uncleanable(finding)

    def _refuse(self, window: Window, row: int) -> None:
        table = window.batches.table
        if table[BatchField.VALID, row] != 1:
            raise self._unreadable(window, row, "crc-mismatch", "the stored checksum does not match the batch")
        magic, attributes = table[BatchField.MAGIC, row], table[BatchField.ATTRIBUTES, row]
        what = f"message format {magic}, attributes {attributes:#04x}: unknown to Kafka 4.3.1"
        raise self._unreadable(window, row, "unknown-magic", what)

    def _unreadable(self, window: Window, row: int, code: str, what: str) -> Uncleanable:
        table = window.batches.table
        position = window.base + table[BatchField.POSITION, row]
        return Uncleanable(Finding(code, Where(self._path, position, table[BatchField.BASE_OFFSET, row]), what))


def size_of(window: Window) -> int:
    """Bytes of the window's batches."""
    table, last = window.batches.table, window.rows - 1
    return int(table[BatchField.POSITION, last] + table[BatchField.SIZE, last] - table[BatchField.POSITION, 0])


def _reset_body(batches: BatchColumns, row: int) -> None:
    """Set a batch's body to its bytes in the window instead of its decompressed bytes."""
    table = batches.table
    if table[BatchField.MAGIC, row] >= 2:
        position = table[BatchField.POSITION, row]
        table[BatchField.BODY, row] = position + BATCH_HEADER.size
        table[BatchField.BODY_END, row] = position + table[BatchField.SIZE, row]

"""What both passes of the cleaner share: windows of sound batches, and which of them belong to transactions."""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from typing import TYPE_CHECKING

from engine.advice import argument
from engine.errors import KafkalogError
from engine.findings import Finding, Where
from engine.formats import BATCH_HEADER, BatchField, ControlType
from engine.kernels.cleaning import first_unsound
from engine.layout import parent_of
from engine.log.errors import whole_recovery
from engine.record.bounded import MAX_DECOMPRESSED_BYTES
from engine.record.codecs import FINDINGS, InflateStatus
from engine.record.columns import BatchColumns, RecordColumns
from engine.record.control import ControlRecordInvalid, control_type, known_control_type
from engine.record.reader import ChunkReader
from engine.record.windows import MAX_BATCH_BYTES, LogWalk, Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from engine.formats import AbortedTxn
    from engine.log.partition.unified_log import UnifiedLog
    from engine.log.segment.log_segment import LogSegment
    from engine.record.legacy import RemarkKind
    from engine.record.reader import Chunk
    from engine.record.windows import Window


_MORE_ROOM = ("the batch may be sound: --config max.message.bytes=N lets it become N bytes, up to 2147483647, which take so "
              "much memory")


class Uncleanable(KafkalogError):
    """A partition that can not be cleaned: a batch in it is damaged, or inflates to more than a walk takes. Its segment and
    those behind it are as they were.

    cleaned_below  segments below this offset were cleaned by the same round; None: it changed nothing. A round looks for damage
                   before it changes anything: only what nobody foresaw is met so late
    """

    code = "uncleanable"

    def __init__(self, finding: Finding, do: str | None = None) -> None:
        where = finding.where
        place = f"{where.file} at byte {where.position}, offset {where.offset}"
        super().__init__(f"{place}: {finding.what}", do=do or whole_recovery(parent_of(where.file)))
        self.finding = finding
        self.cleaned_below: int | None = None


class WalkColumns:
    """Columns that one walk after the other uses."""

    def __init__(self) -> None:
        self.batches = BatchColumns()
        self.records = RecordColumns()

    @cached_property
    def more_records(self) -> RecordColumns:
        """For what is read once more while `records` are in use."""
        return RecordColumns()


class SegmentWalk:
    """The batches of one segment from byte `position` on, each of them sound. Raises Uncleanable at the first that is not.

    What would be lost or spread by rewriting it is left to people: a wrong checksum, a message format above 2, a codec
    that does not exist, records that do not decode, a batch that is not whole. A batch may be as large as its segment: memory
    is one window and the largest sound batch, with what it inflates to.
    inflated   bytes that a batch may become in any case, or 256 MiB if that is more
    on_remark  takes what is wrong although Kafka reads over it in silence
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
        """Window by window, all batches with right checksums. Behind them nobody holds the .log open."""
        try:
            yield from self._sound_windows()
        finally:
            self._segment.release_log()

    def _sound_windows(self) -> Iterator[Window]:
        file, size = self._segment.log_file, self._segment.size
        batches = self._columns.batches
        walk = LogWalk(file, self._position, size, max_batch_bytes=MAX_BATCH_BYTES, batches=batches)
        for window in walk:
            row = first_unsound(window.batches.table, window.rows)
            if row < window.rows:
                self._refuse(window, row)
            if window.partial:  # so that a size field without a sound batch behind it takes no memory
                size_here = window.batches.table[BatchField.SIZE, 0]
                at, end = window.base, window.base + size_here
                yield from LogWalk(file, at, end, max_batch_bytes=size_here, window_size=size_here, batches=batches)
            else:
                yield window
        if walk.stop is not Stop.END:
            what = f"no whole batch begins here, {walk.end - walk.position} bytes are left"
            raise Uncleanable(Finding("torn-tail", Where(self._path, walk.position), what))

    def chunks(self, window: Window, row: int = 0, end: int | None = None) -> Iterator[Chunk]:
        """The records of the batches row … end − 1 of a window (default: all).

        Who stops at a chunk has seen nothing from behind a batch that is not sound.
        """
        for chunk in self._reader.chunks(window, row, end):
            self._check()
            yield chunk
        self._check()

    def chunks_of(self, window: Window, row: int) -> Iterator[Chunk]:
        """The records of one batch of the window, once more, while `chunks` is under way."""
        table = window.batches.table
        body = table[BatchField.BODY, row], table[BatchField.BODY_END, row]
        _reset_body(window.batches, row)
        try:
            reader = ChunkReader(self._path, self._findings.append, self._limit, self._columns.more_records)
            yield from reader.chunks(window, row, row + 1)
        finally:  # it may point into an arena that the first reading is in the middle of
            table[BatchField.BODY, row], table[BatchField.BODY_END, row] = body
        self._check()

    def control_kind(self, window: Window, row: int) -> ControlType | None:
        """The type of a control batch; None: it has no record. Types that nobody knows count as LEADER_CHANGE: kept."""
        for chunk in self.chunks_of(window, row):
            if chunk.end > chunk.first:
                try:
                    kind = known_control_type(control_type(chunk.key(chunk.first)))
                except ControlRecordInvalid as error:
                    raise self._unreadable(window, row, "control-record-invalid", str(error)) from error
                return ControlType.LEADER_CHANGE if kind is None else kind
        return None

    def refuse_untold(self, window: Window, offset: int) -> None:
        """Raise Uncleanable for the batch that ends with `offset`, see `untold_abort`."""
        row = bisect_left(window.batches.field(BatchField.LAST_OFFSET), offset, 0, window.rows)
        raise untold_abort(self._path, window.base + window.batches.table[BatchField.POSITION, row], offset)

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
            raise self._unreadable(window, row, "crc-mismatch", "the stored checksum does not fit the batch")
        magic, attributes = table[BatchField.MAGIC, row], table[BatchField.ATTRIBUTES, row]
        what = f"message format {magic}, attributes {attributes:#04x}: Kafka 4.3.1 knows none such"
        raise self._unreadable(window, row, "unknown-magic", what)

    def _unreadable(self, window: Window, row: int, code: str, what: str) -> Uncleanable:
        table = window.batches.table
        position = window.base + table[BatchField.POSITION, row]
        return Uncleanable(Finding(code, Where(self._path, position, table[BatchField.BASE_OFFSET, row]), what))


def untold_abort(path: str, position: int, offset: int) -> Uncleanable:
    """The marker at `position` aborts a transaction that no transaction index knows, so that its records would count."""
    what = ("this marker aborts a transaction that the transaction index does not know: its records would be taken for the "
            "last ones of their keys, and those that count would go")
    do = f"kafkalog verify-index --rebuild {argument(parent_of(path))}    # makes the transaction index anew"
    return Uncleanable(Finding("txnindex-incomplete", Where(path, position, offset), what), do)


def size_of(window: Window) -> int:
    """Bytes of its batches."""
    table, last = window.batches.table, window.rows - 1
    return int(table[BatchField.POSITION, last] + table[BatchField.SIZE, last] - table[BatchField.POSITION, 0])


def segments_with_aborted(log: UnifiedLog, start_offset: int) -> list[LogSegment]:
    """The segments from the one that holds the offset on whose transaction index has entries: mostly few of very many."""
    first = log.segments.floor_segment(start_offset)
    return [one for one in log.segments.values(None if first is None else first.base_offset) if len(one.txn_index)]


def aborted_transactions(
    log: UnifiedLog, start_offset: int, end_offset: int, segments: Sequence[LogSegment] | None = None
) -> Iterator[AbortedTxn]:
    """Aborted transactions of the segments that the offsets lie in, but for those that begin behind them.

    segments  see `segments_with_aborted`, of this offset or one before it; None: they are looked for

    Some may have ended before `start_offset`: the key pass, which begins in the middle of a segment, then takes what their
    producer writes next for aborted, up to its next marker. Those records only leave older ones of their keys where they
    are. Mirrors UnifiedLog.collectAbortedTransactions.
    """
    first = log.segments.floor_segment(start_offset)
    asked = segments_with_aborted(log, start_offset) if segments is None else segments
    begin = 0 if first is None else bisect_left(asked, first.base_offset, key=lambda segment: segment.base_offset)
    for number in range(begin, len(asked)):
        for txn in asked[number].txn_index.checked():
            if txn.last_offset >= log.log_start_offset and txn.first_offset < end_offset:
                yield txn
            if txn.last_stable_offset >= end_offset:  # later ones begin behind
                return


def _reset_body(batches: BatchColumns, row: int) -> None:
    """Point a batch's body into the window again, where an arena of inflated bytes had taken its place."""
    table = batches.table
    if table[BatchField.MAGIC, row] >= 2:
        position = table[BatchField.POSITION, row]
        table[BatchField.BODY, row] = position + BATCH_HEADER.size
        table[BatchField.BODY_END, row] = position + table[BatchField.SIZE, row]

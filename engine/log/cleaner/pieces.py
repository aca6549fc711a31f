"""The pieces of a planned round, each apart from the log and from the others: transactions, keys, groups written anew.

A round is: `transaction_events` of all segments, `KeyReader` over them, a bit for each record without a later offset of its
key, `write_planned` for each group into a directory of its own, and `put_planned` for the log, which is the only one to change
it. Where records are not in order `OutOfOrder` says that bits can not speak for them: only the cleaner itself can do it then.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING

from engine.discovery.names import CLEANED, log_file_name
from engine.errors import KafkalogError
from engine.formats import BATCH_HEADER, BatchField, Status
from engine.kernels.cleaning import check_order
from engine.kernels.tables import EVENT_WORDS, TxnEvent
from engine.kernels.transactions import tell_rows
from engine.kernels.verdicts import pass_in_pieces
from engine.log.cleaner.filter_pass import Counted, Round, Workspace
from engine.log.cleaner.groups import GroupOverflow, put_in_place, write_group
from engine.log.cleaner.later_offsets import SurvivingOffsets
from engine.log.cleaner.stats import CleanerStats
from engine.log.cleaner.transactions import batch_kind
from engine.log.cleaner.walk import SegmentWalk, WalkColumns
from engine.log.report import Report
from engine.log.segment.deferred import DeferredDeletion
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.log_segments import LogSegments
from engine.log.segment.splitting import SEGMENT_FILES, SwapPlace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from engine.files import Files
    from engine.log.cleaner.offset_map import KeyColumns, SkimpyOffsetMap, Survivors
    from engine.log.cleaner.round_plan import RoundPlan, SegmentToClean
    from engine.log.cleaner.transactions import CleanedTransactionMetadata, PackedTransactions
    from engine.log.partition.unified_log import UnifiedLog
    from engine.record.windows import Window

_ROWS = 1 << 14  # of key columns
_EVENTS = 1 << 16  # at a time: 2 MiB


class OutOfOrder(KafkalogError):
    """Records that share offsets, lie outside their batch's or segment's offsets, or have no key."""

    code = "records-out-of-order"


class Changed(KafkalogError):
    """The log is not what it was when the round was planned."""

    code = "log-changed"


def transaction_events(files: Files, plan: RoundPlan, segment: SegmentToClean) -> Iterator[bytes]:
    """The transactional batches and control batches of a segment, in order: tables.TxnEvent, 64-bit numbers, many at a time.

    Of neighbouring batches of one producer's data only the first and the last come, which say all.
    Raises Uncleanable, Changed.
    """
    walk = _walk(files, plan, segment, WalkColumns())
    room = min(_EVENTS, segment.size // BATCH_HEADER.size + 1)
    events, count = memoryview(array("q", bytes(8 * EVENT_WORDS * room))), 0
    for window in walk.windows():
        table, row, status = window.batches.table, 0, int(Status.FULL)
        while status != Status.END:
            row, count, status = tell_rows(
                window.data, table, row, window.rows, window.base, segment.key_position or 0, events, count
            )
            if status == Status.BAD_RECORD:
                events[EVENT_WORDS * (count - 1) + TxnEvent.KIND] = batch_kind(walk.control_kind(window, row - 1))
            elif status == Status.FULL:
                yield events[: EVENT_WORDS * count].tobytes()
                count = 0
            elif status != Status.END:
                raise AssertionError("batches and events that do not fit each other")
    if count:
        yield events[: EVENT_WORDS * count].tobytes()


class KeyReader:
    """Reads the keys of segments → digests and offsets, those of the same key together as far as `offset_map` can.

    A record that only asks for later offsets of its key comes with the offset −1 − offset, as an unsigned number.
    """

    def __init__(self, files: Files, plan: RoundPlan, offset_map: SkimpyOffsetMap) -> None:
        self._files, self._plan, self._map = files, plan, offset_map
        self._columns = WalkColumns()

    def read(self, segment: SegmentToClean, known: PackedTransactions | None) -> Iterator[KeyColumns]:
        """The keys of one segment; columns are valid until the next ones are asked for.

        known  of transactions by the first pass when it comes here; None for a segment that it does not read
        Raises Uncleanable, OutOfOrder, Changed.
        """
        transactions = None if known is None else known.unpack()
        start, last = self._plan.first_dirty_offset, segment.base_offset - 1
        walk = _walk(self._files, self._plan, segment, self._columns)
        for window in walk.windows():
            flags, asking = _flags(walk, window, segment.key_position, transactions)
            some_ask = asking or segment.base_offset < start
            for chunk in walk.chunks(window):
                if not chunk.control and chunk.first < chunk.end:
                    last = check_order(chunk.batches.table, chunk.records.table, chunk.first, chunk.end, last)
                    if not 0 <= last < segment.end_offset:
                        raise OutOfOrder(f"{self._plan.directory}: records of segment {segment.base_offset} are out of order")
                at = chunk.first
                while (at := self._map.put(chunk._replace(first=at), start, flags)) < chunk.end:
                    yield from self.take()
                if some_ask:
                    for columns in self._map.asking(chunk, start, flags, _ROWS):
                        _negate(columns.offsets)
                        yield columns

    def take(self) -> Iterator[KeyColumns]:
        """What is left of the keys that were read."""
        return self._map.take(_ROWS)


def _flags(
    walk: SegmentWalk, window: Window, key_position: int | None, transactions: CleanedTransactionMetadata | None
) -> tuple[bytearray, int]:
    """By batch of the window, what becomes of its records, as SkimpyOffsetMap.put and asking take it; and of how many batches
    they only ask.
    """
    first = window.rows  # that the first pass reads
    if key_position is not None:
        first = bisect_left(window.batches.field(BatchField.POSITION), key_position - window.base, 0, window.rows)
    goes = transactions.on_window_read(window, walk.control_kind, first) if transactions is not None else bytes(window.rows)
    flags = bytearray(window.rows)
    asking: int = pass_in_pieces(window.batches.table, first, window.rows, memoryview(goes), memoryview(flags))
    if asking < 0:
        raise AssertionError("batches and flags that do not fit each other")
    return flags, asking


def _negate(offsets: memoryview) -> None:
    """Each number n becomes −1 − n, in 64 bits."""
    size = len(offsets)
    inverted = int.from_bytes(offsets.cast("B"), "little") ^ ((1 << 64 * size) - 1)
    offsets.cast("B")[:] = inverted.to_bytes(8 * size, "little")


def write_planned(
    files: Files, plan: RoundPlan, group: Sequence[SegmentToClean], known: PackedTransactions, survivors: Survivors,
    directory: str,
) -> CleanerStats:  # fmt: skip
    """Write a group of segments anew as one into `directory`, which nobody else uses → what was done.

    known      of transactions by the second pass in front of the group
    survivors  a bit for every record of the group, see SurvivingOffsets
    Raises Uncleanable, Changed, OutOfOrder where the new segment would overflow, UnwritableFile.
    """
    stats = CleanerStats()
    report = Report(directory, "compact")
    deferred = DeferredDeletion(files, directory, report)
    place = SwapPlace(files, directory, plan.config, plan.now, LogSegments(), report, deferred)
    this_round = Round(
        SurvivingOffsets(survivors), plan.now, plan.first_uncleanable_offset, plan.legacy_delete_horizon, plan.last_records,
        stats, lambda _size: None, Workspace(),
    )  # fmt: skip
    sources = [(_open(files, plan, segment), segment.aborted) for segment in group]
    try:
        cleaned = write_group(place, sources, group[0].base_offset, this_round, known.unpack(), of=sources[0][0].log_path)
    except GroupOverflow as error:
        raise OutOfOrder(str(error)) from error
    finally:
        for segment, _ in sources:
            segment.close_handlers()
    if not isinstance(cleaned, Counted):
        cleaned.close_handlers()
    return stats


def put_planned(log: UnifiedLog, plan: RoundPlan, written: Mapping[int, str]) -> None:
    """Let the new segments take the places of their groups, one after the other.

    log      opened again, as it was planned for; nobody may have changed it meanwhile
    written  the directory of each, by the base offset of the group
    Raises Changed before anything is, UnwritableFile; each group is then replaced as a whole or not at all.
    """
    groups = []
    for planned in plan.groups:
        found = [log.segments.get(segment.base_offset) for segment in planned]
        group = [segment for segment in found if segment is not None]
        sizes = [segment.size for segment in planned]
        if [segment.size for segment in group] != sizes or log.segments.active_segment in group:
            raise Changed(f"{log.directory}: its segments have changed since they were read", do="compact it again")
        groups.append(group)
    files = log.local_log.files
    names = {group[0].base_offset: log_file_name(group[0].base_offset, CLEANED) for group in groups}
    lost = [name for base, name in names.items() if base not in written or not files.exists(f"{written[base]}/{name}")]
    if lost:
        raise Changed(f"{log.directory}: new segments are missing: {', '.join(lost)}", do="compact it again")
    for group in groups:
        base_offset = group[0].base_offset
        for name in SEGMENT_FILES:
            source, target = (f"{one}/{name(base_offset, CLEANED)}" for one in (written[base_offset], log.directory))
            if files.exists(source):
                files.rename(source, target)
            else:
                files.remove(target)
        put_in_place(log, LogSegment(files, log.directory, base_offset, log.config, log.now, CLEANED), group)


def _open(files: Files, plan: RoundPlan, planned: SegmentToClean) -> LogSegment:
    segment = LogSegment(files, plan.directory, planned.base_offset, plan.config, plan.now, writable=False)
    if segment.size != planned.size:
        raise Changed(f"{segment.log_path}: {segment.size} bytes, it had {planned.size}", do="compact the partition again")
    return segment


def _walk(files: Files, plan: RoundPlan, planned: SegmentToClean, columns: WalkColumns) -> SegmentWalk:
    return SegmentWalk(_open(files, plan, planned), 0, plan.config.max_message_size, columns)

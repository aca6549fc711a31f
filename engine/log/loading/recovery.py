"""Recover one segment while a log is loaded, including cases in which Kafka's own recovery fails with an exception.

Kafka does not start if a segment's indexes are too small for it, or if a batch contradicts the producer state. This recovery
continues: with fewer index entries in the first case; otherwise it truncates the log at that batch, as Kafka does at a batch
with a wrong checksum, so that a broker starts on the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.amounts import count_of
from engine.discovery.names import file_name, log_file_name, transaction_index_file_name
from engine.findings import Severity
from engine.formats import (
    BATCH_HEADER,
    CODEC_MASK,
    CONTROL_FLAG,
    INT_MAX,
    MAGIC_V2,
    NO_PARTITION_LEADER_EPOCH,
    BatchField,
    ControlType,
)
from engine.index.entries import MAX_INDEX_SIZE
from engine.index.sparse import OffsetIndex, TimeIndex
from engine.index.transaction import TransactionIndex
from engine.log.append_errors import AppendRefused
from engine.log.epochs.runs import EpochRun
from engine.log.errors import (
    CorruptRecord,
    IndexFull,
    IndexOffsetOverflow,
    InvalidOffset,
    SegmentOffsetOverflow,
    TransactionOrder,
)
from engine.log.producers.state_manager import ProducerStateManager, rebuild_producer_state
from engine.log.report import Action
from engine.log.segment.batch_search import first_leader_epochs, heads, last_head
from engine.log.segment.producer_rows import RowChunk
from engine.log.segment.readable_segment import SegmentEnd, SegmentIndexes
from engine.log.segment.recovery_walk import ScanStop, read_marker, scan_segment
from engine.record.columns import RecordColumns
from engine.record.control import ControlRecordInvalid
from engine.record.heads import HeadWalk
from engine.record.windows import LogWalk

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.errors import KafkalogError
    from engine.formats import AbortedTxn
    from engine.log.loading.shared import Loading
    from engine.log.report import Report
    from engine.log.segment.batch_search import BatchHead
    from engine.log.segment.log_segment import LogSegment
    from engine.log.segment.readable_segment import Indexed
    from engine.log.segment.recovery_walk import Disorder, SegmentScan, UnknownMagic

_RECORDS = (BatchField.PRODUCER_ID, BatchField.BASE_OFFSET, BatchField.COUNT)
_LARGEST_INDEX = INT_MAX
_CODEC_AT = BATCH_HEADER.positions["attributes"] + 1  # the second of its two bytes has the codec
_WHY = {
    ScanStop.TORN: "the file ends inside a batch",
    ScanStop.BAD_SIZE: "the size field is not that of a batch",
    ScanStop.INVALID: "a batch with a wrong checksum",
    ScanStop.BAD_MARKER: "a transaction marker cannot be read",
}


def recover_segment(
    log: Loading, segment: LogSegment, scan: SegmentScan, *, damage_ends_it: bool,
    before_cut: Callable[[], object] = lambda: None,
) -> int:
    """Recover `segment`. Returns the bytes that were truncated. Raises SegmentOffsetOverflow if it must be split.

    damage_ends_it  the log ends after truncated bytes, so Kafka empties a segment whose offsets go backwards. Otherwise Kafka
                    does not start, and the segment is truncated at that batch
    before_cut      called before bytes of the segment are removed, when the segments before it are no longer read: an error
                    in them may stop the recovery, and later segments must be unchanged then
    """
    log.before_cut = before_cut
    try:
        return _recover_segment(log, segment, scan, damage_ends_it=damage_ends_it)
    except SegmentOffsetOverflow:
        if segment.base_offset not in log.unsplittable:
            raise
        return _recover_cut(log, segment, scan, log.unsplittable[segment.base_offset])
    finally:
        for one in (log.segments.lower_segment(segment.base_offset), segment):
            if one is not None:
                one.release_log()


def _recover_segment(log: Loading, segment: LogSegment, scan: SegmentScan, *, damage_ends_it: bool) -> int:
    """Rebuild the indexes of `segment` and truncate it. Returns the bytes removed. Writes a producer snapshot.

    Raises SegmentOffsetOverflow: the segment must be split.
    """
    scan = _without_unreadable_marker(log, segment, scan)
    try:
        cut = _recover(log, segment, scan)
    except SegmentOffsetOverflow:
        raise
    except InvalidOffset as error:
        if damage_ends_it:
            return _empty(log, segment, error)
        if not log.repairs:
            raise
        cut = _recover_cut(log, segment, scan, error)
    except (AppendRefused, IndexFull, IndexOffsetOverflow, TransactionOrder) as error:
        if not log.repairs:
            raise
        cut = _recover_despite(log, segment, scan, error)
    return cut


def _recover_despite(log: Loading, segment: LogSegment, scan: SegmentScan, error: KafkalogError) -> int:
    """Recover `segment`, at which a broker stops with `error`."""
    if isinstance(error, IndexFull):
        return _recover_sparsely(log, segment, error)
    if isinstance(error, IndexOffsetOverflow):
        return _recover_cut(log, segment, scan, error)
    return _recover_before_contradiction(log, segment, scan, error)


def _recover(log: Loading, segment: LogSegment, scan: SegmentScan, error: KafkalogError | None = None) -> int:
    """Recover as Kafka does. `error`: why the scan was shortened."""
    state = _state_before(log, segment)
    _finish_epochs(log, segment, scan)
    is_cut = scan.valid_size < segment.size and scan.error is None
    lost = segment.extent(scan.valid_size, scan.end_offset(segment.base_offset)) if is_cut else None
    indexed = None if is_cut else _indexed_beyond(log, segment, scan)
    why = _why(segment, scan) if error is None else f"a broker would not start: {error}"
    name, end = log_file_name(segment.base_offset), scan.end_offset(segment.base_offset)
    broken, aborted = _broken_before(log, segment, scan)
    if lost is not None:
        log.before_cut()
    cut = segment.recover(state, log.epochs, scan, _begun_before(log, segment, scan.valid_size))
    state.take_snapshot()
    if aborted is not None and _has_records_of(log, segment, {txn[1:4] for txn in segment.txn_index} - aborted):
        broken[transaction_index_file_name(segment.base_offset)] = "it lacks aborted transactions of the log"
    for index, what in broken.items():
        log.report.add(Action.REBUILT, index, f"it was broken: {what}", severity=Severity.WARNING)
    log.report.drop(Action.RECOVERED, name)
    log.report.add(Action.RECOVERED, name, "its indexes are rebuilt", offsets=(segment.base_offset, end),
                   records=scan.records, size=scan.valid_size)
    if indexed is not None:
        log.report.add(Action.MISSING, name, f"{file_name(indexed.path)}: {indexed.what}: lost before",
                       offsets=(end, indexed.end), severity=Severity.WARNING)
    if scan.disorder is not None or scan.unknown_magic is not None:
        log.report.drop(Action.KEPT, name)
    if scan.unknown_magic is not None:
        _note_unknown_magic(log.report, name, scan.unknown_magic)
    if scan.disorder is not None:
        _note_disorder(log.report, name, scan.disorder)
    if lost is not None:
        lost.note(log.report, Action.TRUNCATED, name, f"at byte {scan.valid_size}: {why}",
                  severity=Severity.WARNING if lost.is_zeros else Severity.ERROR,
                  is_torn=error is None and scan.stop is ScanStop.TORN)
    return cut


def _indexed_beyond(log: Loading, segment: LogSegment, scan: SegmentScan) -> Indexed | None:
    """Evidence in an index of `segment`, which will be rebuilt, of offsets between its end and the next segment: when the
    cleaner removes batches, it removes their entries too.
    """
    following = log.base_after(segment)
    end = SegmentEnd(scan.valid_size, scan.end_offset(segment.base_offset), scan.largest.timestamp)
    if following is None or end.offset >= following:
        return None  # for the last segment this is checked before anything is opened
    indexes = SegmentIndexes.read(log.files, log.directory, segment.base_offset)
    found = [one for one in indexes.beyond(log.files, segment.log_path, end) if one.end <= following]
    return max(found, key=lambda one: one.end, default=None)


def _broken_before(
    log: Loading, segment: LogSegment, scan: SegmentScan
) -> tuple[dict[str, str], set[tuple[int, int, int]] | None]:
    """What is wrong in offset and time index of `segment`, by file name; and the transactions in its transaction index.

    Of these (producer, first offset, last offset), as far as the segment reaches. None: there is no such index, or nobody asks.
    """
    if log.find_broken is None:
        return {}, None
    end, path = scan.end_offset(segment.base_offset), f"{log.directory}/{transaction_index_file_name(segment.base_offset)}"
    broken = log.find_broken(log.files, segment.log_path, segment.base_offset, scan)
    if not log.files.exists(path) or log.files.info(path).size > MAX_INDEX_SIZE:
        return broken, None
    index = TransactionIndex.read(log.files, path, segment.base_offset)
    return broken, {txn[1:4] for txn in index if txn.last_offset < end}


def _has_records_of(log: Loading, segment: LogSegment, transactions: set[tuple[int, int, int]]) -> bool:
    """Does the log up to `segment` hold records of one of these transactions, (producer, first offset, last offset)?

    The cleaner removes records with their entry in the index, but may leave an empty batch, with which Kafka makes a new entry.
    """
    if not transactions:
        return False
    segments = {one.base_offset: one for one in (*log.segments, segment) if one.base_offset <= segment.base_offset}
    begin = max((base for base in segments if base <= min(first for _, first, _ in transactions)), default=0)
    for base in sorted(base for base in segments if base >= begin):
        for window in HeadWalk(segments[base].log_file):
            table = window.batches.table
            for row in range(window.rows):
                producer, first, count = (table[field, row] for field in _RECORDS)
                if count > 0 and not table[BatchField.ATTRIBUTES, row] & CONTROL_FLAG and any(
                    producer == one and begun <= first <= ended for one, begun, ended in transactions
                ):  # fmt: skip
                    return True
    return False


def _begun_before(log: Loading, segment: LogSegment, end: int) -> list[AbortedTxn]:
    """Transactions in the transaction index of `segment` that began before the log, with their markers before byte `end`.

    Kafka loses them, if no producer snapshot has their start.
    """
    start = max(log.log_start_offset, min(log.segments.base_offsets[:1], default=segment.base_offset))
    path = f"{log.directory}/{transaction_index_file_name(segment.base_offset)}"
    if start <= 0 or not log.files.exists(path) or log.files.info(path).size > MAX_INDEX_SIZE:
        return []
    index = TransactionIndex.read(log.files, path, segment.base_offset)
    before = {txn.last_offset: txn for txn in index if txn.first_offset < start <= txn.last_offset}
    ends = heads(segment.log_file, 0, end) if before else ()
    return [before[head.base_offset] for head in ends
            if head.base_offset in before and _is_aborted(segment, head, before[head.base_offset])]


def _is_aborted(segment: LogSegment, head: BatchHead, txn: AbortedTxn) -> bool:
    """Is the batch of `head` the marker that ends `txn`?"""
    if head.magic < MAGIC_V2:
        return False
    window = next(iter(LogWalk(segment.log_file, head.position, head.position + head.size)))
    table = window.batches.table
    if table[BatchField.PRODUCER_ID, 0] != txn.producer_id or not table[BatchField.ATTRIBUTES, 0] & CONTROL_FLAG:
        return False
    try:
        marker = read_marker(window, 0, RecordColumns())
    except ControlRecordInvalid:
        return False
    return marker is not None and marker.control_type is ControlType.ABORT


def _why(segment: LogSegment, scan: SegmentScan) -> str:
    """Why the bytes after the last sound batch are truncated."""
    if scan.stop is not ScanStop.NO_OFFSET_LEFT:
        return _WHY.get(scan.stop, "")
    offset = next(heads(segment.log_file, scan.valid_size, segment.size)).base_offset
    return (f"a batch from offset {offset} on ends at 2^63 - 1 or above, and leaves no offset for the next batch: a broker "
            "that "
            "finds it at the end assumes that the log ended before its start, and deletes all of it")


def _note_disorder(report: Report, name: str, disorder: Disorder) -> None:
    """Report what no index refuses and Kafka keeps silently; consumers then miss or repeat records."""
    more = f", and {count_of(disorder.batches - 1, 'more batch')} out of order" if disorder.batches > 1 else ""
    what = (f"at byte {disorder.position}: a batch from offset {disorder.offset} where offset {disorder.expected} or a later "
            f"one must follow{more}: written twice, or with a wrong offset, which no checksum covers; a broker keeps it, and "
            "consumers read records twice or miss some; --salvage drops batches that do not fit")
    report.add(Action.KEPT, name, what, offsets=(disorder.offset, None), severity=Severity.ERROR)


def _note_unknown_magic(report: Report, name: str, unknown_magic: UnknownMagic) -> None:
    """Report batches that Kafka keeps silently and no consumer reads."""
    more = f", and {count_of(unknown_magic.batches - 1, 'more such batch')}" if unknown_magic.batches > 1 else ""
    what = (f"at byte {unknown_magic.position}: a batch of magic {unknown_magic.magic}, which no version of Kafka knows{more}: "
            "consumers stop "
            f"there; no checksum covers the magic; --salvage drops such batches")
    report.add(Action.KEPT, name, what, offsets=(unknown_magic.offset, None), severity=Severity.ERROR)


def _finish_epochs(log: Loading, segment: LogSegment, scan: SegmentScan) -> None:
    """Compare the epochs at both ends of the segment with its neighbours, and decide which are correct."""
    below = log.segments.lower_segment(segment.base_offset)
    before, since = NO_PARTITION_LEADER_EPOCH, -1
    if below is not None:
        known = log.last_epochs.get(below.base_offset)
        before, since = (first_leader_epochs(below.log_file)[0], below.base_offset) if known is None else known
    goes_on = scan.valid_size == segment.size
    end = scan.end_offset(segment.base_offset)
    epoch_following = log.epoch_after(segment) if goes_on else NO_PARTITION_LEADER_EPOCH
    runs = scan.epochs
    high, only, first = runs.undecided, runs.only, runs.first_offset
    is_low = only is not None and 0 <= only.epoch < before
    if only is not None and is_low:
        low_end, after = log.end_of_epoch(segment, only.epoch, end) if goes_on else (end, NO_PARTITION_LEADER_EPOCH)
        is_low = known is not None or (after < 0 and only.first_offset - since > low_end - only.first_offset)
        if is_low:
            runs.doubt_only(before)
    elif 0 <= epoch_following < runs.last:
        low_end, after = log.end_of_epoch(segment, epoch_following, end)
        if high is None and epoch_following == runs.newest:  # the last run, whose epoch is too low, continues there
            end, epoch_following = low_end, after if after < 0 else max(after, epoch_following)
        low = EpochRun(epoch_following, end, -1, scan.batches)
        if high is not None and runs.outlasts(low, low_end, after, before, since):
            epoch_following = high.epoch
    runs.finish(end, before, epoch_following, since)
    is_continued = is_low or runs.last < 0 or (runs.last, runs.last_offset) == (before, first)
    log.last_epochs[segment.base_offset] = (before, since) if is_continued else (runs.last, runs.last_offset)
    log.epoch_runs[segment.base_offset] = runs


def _without_unreadable_marker(log: Loading, segment: LogSegment, scan: SegmentScan) -> SegmentScan:
    """Return a scan that ends before a control batch that cannot be decompressed: there Kafka does not start.

    A control batch with invalid content is kept, as in Kafka, and the log is truncated after it.
    """
    if scan.stop is not ScanStop.BAD_MARKER:
        return scan
    marker = last_head(segment.log_file, 0, scan.valid_size)
    if marker is None or not segment.log_file.read(marker.position + _CODEC_AT, 1)[0] & CODEC_MASK:
        return scan
    if not log.repairs:
        raise CorruptRecord(f"{segment.log_path}: the control batch at byte {marker.position} cannot be decompressed")
    shorter = _scan_up_to(log, segment, marker.position)
    shorter.stop = ScanStop.BAD_MARKER
    return shorter


def _scan_up_to(log: Loading, segment: LogSegment, position: int) -> SegmentScan:
    return scan_segment(
        log.files, segment.log_path, segment.base_offset, index_interval=log.config.index_interval,
        max_index_size=log.config.max_index_size, size=position,
    )


def _state_before(log: Loading, segment: LogSegment) -> ProducerStateManager:
    """The producer state up to the base offset of `segment`, in a manager of its own."""
    state = ProducerStateManager(
        log.files, log.directory, producer_id_expiration_ms=log.producers.producer_id_expiration_ms,
        max_transaction_timeout_ms=log.producers.max_transaction_timeout_ms, snapshots=log.known_snapshots(),
        for_snapshots=True,
    )
    state.on_lost_snapshot = log.producers.on_lost_snapshot
    rebuild_producer_state(state, log.segments, log.log_start_offset, segment.base_offset, now=log.now,
                           reload_from_clean_shutdown=False)
    return state


# ---- cases in which Kafka fails -------------------------------------------------------------------


def _empty(log: Loading, segment: LogSegment, error: KafkalogError) -> int:
    lost = segment.extent()
    log.before_cut()
    cut = segment.truncate_to(segment.base_offset, log.now)
    lost.note(log.report, Action.TRUNCATED, log_file_name(segment.base_offset), f"emptied: {error}", severity=Severity.ERROR)
    return cut


def _recover_cut(log: Loading, segment: LogSegment, scan: SegmentScan, error: KafkalogError) -> int:
    """Truncate `segment` before the batch that stopped `scan` with `error`."""
    scan.error = None
    return _recover(log, segment, scan, error)


def _recover_before_contradiction(
    log: Loading, segment: LogSegment, scan: SegmentScan, error: KafkalogError
) -> int:
    """Truncate `segment` before the first batch that the producer state refuses."""
    state = _state_before(log, segment)
    last_marker = -1
    aborted: list[int] = []  # bytes that one batch adds to the transaction index
    for row in scan.producers:
        aborted.clear()
        try:
            state.update_recovered([RowChunk.of([row])], lambda entries: aborted.append(len(entries)))
        except AppendRefused:
            break
        if aborted and row.base_offset <= last_marker:
            break
        if aborted:
            last_marker = row.base_offset
    else:
        raise error
    position = next(head.position for head in heads(segment.log_file, 0, segment.size) if head.base_offset == row.base_offset)
    return _recover(log, segment, _scan_up_to(log, segment, position), error)


def _recover_sparsely(log: Loading, segment: LogSegment, error: KafkalogError) -> int:
    """Recover `segment` with as many index entries as fit; after the last entry, readers search the log itself."""
    name = log_file_name(segment.base_offset)
    full = scan_segment(
        log.files, segment.log_path, segment.base_offset, index_interval=log.config.index_interval,
        max_index_size=_LARGEST_INDEX, size=segment.size,
    )
    size = log.config.max_index_size
    del full.offset_entries[size // OffsetIndex.entry_size * OffsetIndex.entry_size :]
    del full.time_entries[max(0, size // TimeIndex.entry_size - 1) * TimeIndex.entry_size :]
    log.report.add(
        Action.REBUILT, name, f"segment.index.bytes={size} is too small for this segment: its indexes stay incomplete, "
        f"and a broker that has to recover it does not start: {error}", severity=Severity.WARNING,
    )
    if isinstance(full.error, InvalidOffset | IndexOffsetOverflow):
        return _recover_cut(log, segment, full, full.error)
    return _recover(log, segment, full)

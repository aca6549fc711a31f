"""Replace segments by others, and split a segment whose offsets do not fit its indexes (KAFKA-6264), or refuse to.

Safe against crashes: new segments are written as `.cleaned`. When all are complete they become `.swap`, then the old ones
become `.deleted`, then the new ones get their final names. `loader` completes an interrupted replacement.
Mirrors LocalLog.replaceSegments and LocalLog.splitOverflowedSegment, but keeps the entries of aborted transactions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.discovery.names import (
    CLEANED,
    SWAP,
    log_file_name,
    offset_index_file_name,
    time_index_file_name,
    transaction_index_file_name,
)
from engine.findings import Severity
from engine.formats import can_be_followed
from engine.log.errors import CorruptRecord, SplitFailed
from engine.log.report import Action
from engine.log.segment.batch_search import first_offset, heads
from engine.log.segment.log_segment import LogSegment

if TYPE_CHECKING:
    from engine.log.report import Report
    from engine.log.segment.batch_search import BatchHead
    from engine.log.segment.log_segment import Partition
    from engine.log.segment.log_segments import DeferredDeletion, LogSegments

SEGMENT_FILES = (log_file_name, offset_index_file_name, time_index_file_name, transaction_index_file_name)


class Replacing(NamedTuple):
    """The parts of a log that a replacement of segments needs."""

    partition: Partition
    segments: LogSegments
    report: Report
    deferred: DeferredDeletion


def new_cleaned_segment(log: Replacing, base_offset: int, of: str | None = None) -> LogSegment:
    """Create an empty segment whose files end in `.cleaned`; existing files with these names are removed.

    of  the .log whose mode the new one gets; None: the mode of the segment with its name, if there is one
    """
    for name in SEGMENT_FILES:
        log.partition.files.remove(f"{log.partition.directory}/{name(base_offset, CLEANED)}")
    if of is not None:
        path = f"{log.partition.directory}/{log_file_name(base_offset, CLEANED)}"
        log.partition.files.open_writable(path, create=True, mode=log.partition.files.info(of).mode).close()
    return LogSegment(log.partition, base_offset, CLEANED, file_already_exists=False)


def replace_segments(log: Replacing, new: list[LogSegment], old: list[LogSegment]) -> list[LogSegment]:
    """Replace `old` by `new` (files `.cleaned`, closed or synced). Returns the old ones without a successor of the same name.

    The log is complete after a crash at any point: if a `.cleaned` with a lower offset exists, the loader discards the
    `.swap` files, otherwise they replace the segments with the same offsets.
    """
    ascending = sorted(new, key=lambda segment: segment.base_offset)
    for segment in reversed(ascending):
        segment.change_file_suffixes(CLEANED, SWAP)
        # otherwise, after a crash, a `.swap` with a lower offset could exist beside a `.cleaned` with a higher one
        log.partition.files.sync_directory(log.partition.directory)
    bases = {segment.base_offset for segment in ascending}
    leaving = sorted(old, key=lambda segment: segment.base_offset)
    for segment in leaving:
        log.segments.remove(segment.base_offset)
    for segment in ascending:
        log.segments.add(segment)
    log.deferred.mark_segments(leaving)
    for segment in ascending:
        segment.change_file_suffixes(SWAP, "")
    log.partition.files.sync_directory(log.partition.directory)
    return [segment for segment in leaving if segment.base_offset not in bases]


def split_overflowed_segment(log: Replacing, segment: LogSegment) -> tuple[list[LogSegment], list[LogSegment]]:
    """Split `segment` into pieces whose offsets fit 31 bits after their base offsets. Returns (deleted ones, new ones).

    Each piece, the first one too, begins at the base offset of its first batch. Bytes at the end that are not a whole batch
    are left out. Raises SplitFailed, with nothing changed, if a broker refuses to split (the last batch is not above the
    offsets that fit), or if the pieces would not be in order or would have the name of another segment.
    """
    size = _end_of_batches(segment)
    pieces: list[LogSegment] = []
    try:
        position = 0
        while position < size:
            position += _split_off(log, segment, position, size, pieces)
        if position < segment.size:
            end = pieces[-1].read_next_offset()
            segment.extent(position, end).note(log.report, Action.TRUNCATED, log_file_name(segment.base_offset),
                                               _why_left_out(segment, position), severity=Severity.ERROR)
        for txn in segment.txn_index:  # Kafka loses them: its cleaner would then use aborted records as last values of keys
            _holder(pieces, txn.last_offset).txn_index.append(txn)
        for piece in pieces:
            piece.on_become_inactive_segment()
            piece.flush()
            piece.set_last_modified(segment.last_modified)
    except BaseException:
        for piece in pieces:
            piece.delete_if_exists()
        raise
    names = ", ".join(log_file_name(piece.base_offset) for piece in pieces)
    ends = (pieces[0].base_offset, None)
    log.report.add(Action.SPLIT, log_file_name(segment.base_offset), "its offsets do not fit one segment's indexes",
                     offsets=ends, size=size, to=names, severity=Severity.WARNING)
    return replace_segments(log, pieces, [segment]), pieces


def _holder(pieces: list[LogSegment], offset: int) -> LogSegment:
    """The piece that contains the offset."""
    return next((piece for piece in reversed(pieces) if piece.base_offset <= offset), pieces[0])


def _why_left_out(segment: LogSegment, position: int) -> str:
    try:
        head = next(heads(segment.log_file, position, segment.size), None)
    except CorruptRecord:
        head = None
    if head is None:
        return f"at byte {position}: no whole batch follows"
    return f"at byte {position}: a batch from offset {head.base_offset} on leaves no offset for the next batch"


def _end_of_batches(segment: LogSegment) -> int:
    """Byte position after the last whole batch that leaves an offset for the next one.

    Raises SplitFailed unless its offset is too large for the segment's indexes (LogSegment.hasOverflow).
    """
    last: BatchHead | None = None
    try:
        for head in heads(segment.log_file, 0, segment.size):
            if not can_be_followed(head.base_offset, head.last_offset):
                break
            last = head
    except CorruptRecord:
        pass  # the batches before the damage are sound
    if last is None or last.last_offset < segment.base_offset or segment.can_convert_to_relative_offset(last.last_offset):
        what = "Split operation is only permitted for segments with overflow"
        error = SplitFailed(f"{what}, and {segment.log_path} has batches whose offsets do not fit it before its end")
        error.broker_says = f"{what}, and the problem path is {segment.log_path}"
        raise error
    return last.position + last.size


def _split_off(log: Replacing, segment: LogSegment, position: int, end: int, pieces: list[LogSegment]) -> int:
    """Copy batches from byte `position` on to a new piece while they fit, and add it to `pieces`. Returns the bytes copied."""
    base_offset = first_offset(segment.log_file, next(heads(segment.log_file, position, end)))
    name = log_file_name(base_offset)
    if base_offset < segment.base_offset or (pieces and base_offset <= pieces[-1].base_offset):
        raise SplitFailed(f"{segment.log_path}: a batch from offset {base_offset} on has offsets that run backwards")
    if base_offset != segment.base_offset and log.partition.files.exists(f"{log.partition.directory}/{name}"):
        raise SplitFailed(f"{segment.log_path}: {name} is another segment")
    piece = new_cleaned_segment(log, base_offset, segment.log_path)
    pieces.append(piece)
    copied = piece.append_from_file(segment.log_file, position, end)
    if not copied:
        raise SplitFailed(f"{segment.log_path}: the batch at byte {position} is too large for a segment of its own")
    return copied

"""Damage at the end of a log, after which no reader would find appended records; and appending a segment from another log.

Segments are moved, not copied. Index entries are relative to the base offset in the name of the segment, so only 16 bytes of
each batch change, which the checksum does not cover.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.amounts import count_of
from engine.discovery.names import log_file_name
from engine.errors import argument
from engine.formats import BATCH_HEADER, LOG_OVERHEAD, MIN_RECORD_SIZE
from engine.log.append_errors import UnexpectedAppendOffset
from engine.log.errors import CorruptRecord, LogDamaged
from engine.log.report import Action
from engine.log.segment.batch_search import find_end
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.splitting import SEGMENT_FILES

if TYPE_CHECKING:
    from engine.files import Files
    from engine.log.partition.unified_log import UnifiedLog

_HEAD_SIZE = BATCH_HEADER.positions["magic"]  # offset, length, leader epoch


def damage_at_end(log: UnifiedLog) -> str | None:
    """Describe damage in the last batches of a log, which a clean start does not read; None: there is none."""
    segment = log.segments.active_segment
    if not segment.size:
        return None
    indexed = segment.offset_index.lookup(segment.offset_index.last_offset).position
    end = find_end(segment.log_file, indexed if indexed < segment.size else 0, segment.size, segment.base_offset)
    if end.sound_offset != end.next_offset:
        return f"the batch from offset {end.sound_offset} has a wrong checksum"
    if end.position < segment.size:
        return f"at byte {end.position}: what follows is not a whole batch ({count_of(segment.size - end.position, 'byte')})"
    return None


def refuse_damaged_end(log: UnifiedLog) -> None:
    """Raise LogDamaged if records would be appended after damage: a broker appends them, and no consumer can read them."""
    why = damage_at_end(log)
    if why is not None:
        what = (f"{log.directory}/{log_file_name(log.segments.active_segment.base_offset)}: {why}: no reader gets past this "
                "point")
        raise LogDamaged(what, do=f"kafkalog recover {argument(log.directory)}    # it keeps what it truncates in a quarantine")


def move_batches(files: Files, path: str, shift: int, leader_epoch: int) -> None:
    """Add `shift` to the offset of every batch in a .log of format 2, set its leader epoch, and sync the file.

    Raises CorruptRecord, UnreadableFile, UnwritableFile.
    """
    with files.open_writable(path) as file:
        at, end = 0, file.size()
        while at < end:
            head = bytearray(file.read_exactly(at, _HEAD_SIZE))
            length = BATCH_HEADER.field("batch_length", head)
            if length < MIN_RECORD_SIZE or length > end - at - LOG_OVERHEAD:
                raise CorruptRecord(f"{path}: no batch has the size found at byte {at}")
            _move(head, 0, shift, leader_epoch)
            file.write_at(at, head)
            at += LOG_OVERHEAD + length
        file.sync()


def move_in_memory(data: bytearray, shift: int, leader_epoch: int) -> None:
    """Add `shift` to the offset of every batch in `data`, and set its leader epoch."""
    at = 0
    while at < len(data):
        _move(data, at, shift, leader_epoch)
        at += LOG_OVERHEAD + BATCH_HEADER.field("batch_length", data, at)


def _move(data: bytearray, at: int, shift: int, leader_epoch: int) -> None:
    """Add `shift` to the offset of the batch at `at`, and set its leader epoch."""
    BATCH_HEADER.put("base_offset", data, at, BATCH_HEADER.field("base_offset", data, at) + shift)
    BATCH_HEADER.put("partition_leader_epoch", data, at, leader_epoch)


def adopt_segment(
    log: UnifiedLog, source: str, base_offset: int, new_base_offset: int, end_offset: int, leader_epoch: int
) -> None:
    """Move the segment at `base_offset` in the directory `source` to the end of `log`, as if its records had been appended.

    new_base_offset  its base offset in `log`, which its batches have already        end_offset  after its last record
    The segment must be closed and synced, without producers. Raises UnexpectedAppendOffset, UnreadableFile, UnwritableFile.
    """
    files = log.local_log.files
    files.info(f"{source}/{log_file_name(base_offset)}")  # raises if it does not exist, before anything is changed
    if new_base_offset < log.log_end_offset:
        what = f"{log.directory}: a segment at offset {new_base_offset} cannot follow offset {log.log_end_offset - 1}"
        raise UnexpectedAppendOffset(what)
    if log.segments.active_segment.size:
        log.roll(new_base_offset)
    elif log.log_end_offset < new_base_offset:
        log.truncate_fully_and_start_at(new_base_offset, "empty, and the next record has a higher offset")
    local, empty = log.local_log, log.segments.active_segment
    log.segments.remove(empty.base_offset)
    empty.delete_if_exists()
    for name in SEGMENT_FILES:
        path = f"{source}/{name(base_offset)}"
        if files.exists(path):
            files.rename(path, local.path(name(new_base_offset)))
    segment = LogSegment(local.partition, new_base_offset)
    segment.resize_indexes(local.config.max_index_size)  # closed indexes are full, so the next append would roll
    log.segments.add(segment)
    files.sync_directory(local.directory)
    log.leader_epoch_cache.assign(leader_epoch, new_base_offset)
    local.update_log_end_offset(end_offset)
    log.update_high_watermark_with_log_end_offset()
    log.producer_state.update_map_end_offset(end_offset)
    local.mark_flushed(end_offset)
    log.report.add(Action.CREATED, log_file_name(new_base_offset), "moved here", offsets=(new_base_offset, end_offset),
                   size=segment.size)

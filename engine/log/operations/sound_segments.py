"""Read and copy the segments of deleted partitions: every batch is checked before anything is put back."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.discovery.names import LOG_SWAP
from engine.errors import argument
from engine.formats import BATCH_HEADER, MAGIC_V2, NO_TIMESTAMP, BatchField
from engine.log.errors import LogDamaged
from engine.log.operations.deleted import DIRECTORIES, Deleted, Kind
from engine.record.windows import LogWalk, Stop, only_zeros

if TYPE_CHECKING:
    from engine.files import Files, OpenFile, ReadOnlyFiles, WritableFile
    from engine.log.operations.deleted import Segment
    from engine.record.windows import Window

COMMAND = "undelete"
_EPOCH_AT, _EPOCH_END = BATCH_HEADER.positions["partition_leader_epoch"], BATCH_HEADER.positions["magic"]
_FIRST_EPOCH = bytes(_EPOCH_END - _EPOCH_AT)


class SoundSegment(NamedTuple):
    """A segment of which every batch was read and is sound.

    end      offset after its last batch, or its base offset
    missing  number of offsets between its batches
    """

    base_offset: int
    path: str
    size: int
    end: int
    records: int
    largest_timestamp: int
    missing: int = 0


class _Read(NamedTuple):
    """A segment up to its first fault: `segment.size` bytes are sound.

    fault  None if that is all of it      is_torn  the rest is the start of one batch      ends_in_zeros  the rest is zeros
    """

    segment: SoundSegment
    fault: str | None
    is_torn: bool = False
    ends_in_zeros: bool = False


def read_sound(files: ReadOnlyFiles, deleted: Deleted) -> list[SoundSegment]:
    """Read every batch of a deleted partition. Raises LogDamaged if one is not sound, UnreadableFile."""
    found, fault = read_segments(files, deleted)
    if fault is not None:
        raise LogDamaged(fault, do=_salvage(deleted))
    return found


def read_segments(files: ReadOnlyFiles, deleted: Deleted) -> tuple[list[SoundSegment], str | None]:
    """Read every batch of a deleted partition → its segments, and the first fault, None: all are sound. Raises UnreadableFile.

    Zeros at the end of the last segment were never written. An incomplete batch at the end of a file that a broker has open is
    being written. The segment ends before them.
    """
    names = files.plain(deleted.path) if deleted.kind in DIRECTORIES else []
    swap, fault = next((name for name in names if name.endswith(LOG_SWAP)), None), None
    if swap is not None:
        fault = f"{deleted.path}/{swap}: a compaction or a split was interrupted: which segments are valid is not decided"
    found: list[SoundSegment] = []
    for segment in deleted.segments:
        if found and segment.base_offset < found[-1].end:
            fault = fault or f"{segment.path}: begins before offset {found[-1].end}, at which the segment before it ends"
        read = _read(files, segment)
        is_end = segment == deleted.segments[-1] and (read.ends_in_zeros or (read.is_torn and deleted.process is not None))
        fault = fault if is_end else fault or read.fault
        found.append(read.segment)
    return found, fault


def _salvage(deleted: Deleted) -> str:
    if deleted.kind is Kind.COPY:
        return f"kafkalog recover --salvage {argument(deleted.path)}    # keeps all sound batches; then run the command again"
    copy, name = argument(deleted.path), f"{deleted.topic or 'TOPIC'}-{deleted.partition}"
    return (
        f"kafkalog undelete --to DIR {copy} && kafkalog recover --salvage DIR/{name}    # keeps all sound batches; then: "
        f"kafkalog undelete --as-new-topic DIR/{name} LOGDIR…"
    )


def _read(files: ReadOnlyFiles, segment: Segment) -> _Read:
    following, records, newest, missing = segment.base_offset, 0, NO_TIMESTAMP, 0
    with files.open(segment.path) as file:
        walk = LogWalk(file, 0, segment.size)
        for window in walk:
            table = window.batches.table
            for row in range(window.rows):
                base, last = table[BatchField.BASE_OFFSET, row], table[BatchField.LAST_OFFSET, row]
                is_v2, is_valid = table[BatchField.MAGIC, row] >= MAGIC_V2, table[BatchField.VALID, row] == 1
                if not is_valid or last < following or (is_v2 and base < following):
                    at = window.base + table[BatchField.POSITION, row]
                    what = f"offset {base} after offset {following - 1}" if is_valid else "a batch with a wrong checksum"
                    sound = SoundSegment(segment.base_offset, segment.path, at, following, records, newest)
                    return _Read(sound, f"{segment.path}: at byte {at}: {what}")
                missing += max(0, base - following) if is_v2 else 0
                following = last + 1
                records += table[BatchField.COUNT, row] if is_v2 else 1
                newest = max(newest, table[BatchField.MAX_TIMESTAMP, row])
        sound = SoundSegment(segment.base_offset, segment.path, walk.position, following, records, newest, missing)
        fault = None if walk.stop is Stop.END else f"{segment.path}: no whole batch begins at byte {walk.position}"
        is_zeros = fault is not None and only_zeros(file, walk.position, segment.size)
        return _Read(sound, fault, walk.stop is Stop.TORN, is_zeros)


def copy_segment(source: ReadOnlyFiles, segment: SoundSegment, files: Files, path: str, *, keeps: bool) -> None:
    """Copy a sound segment to the new file `path`. It is not synced.

    keeps  the leader epochs; otherwise every batch gets epoch 0. Entries of formats 0 and 1 have none.
    Raises LogDamaged if the segment has changed.
    """
    with source.open(segment.path) as file, files.open_writable(path, create=True) as to:
        walk = LogWalk(file, 0, segment.size)
        for window in walk:
            if window.batches.field(BatchField.VALID)[: window.rows].tolist() != [1] * window.rows:
                break
            _copy_window(file, window, files, to, keeps=keeps)
        if walk.position != segment.size or to.size() != segment.size:
            raise LogDamaged(f"{segment.path}: changed while it was copied", do="run the command again")


def _copy_window(file: OpenFile, window: Window, files: Files, to: WritableFile, *, keeps: bool) -> None:
    table, last = window.batches.table, window.rows - 1
    start, end = table[BatchField.POSITION, 0], table[BatchField.POSITION, last] + table[BatchField.SIZE, last]
    if window.partial:
        files.copy(file, window.base + start, window.base + end, to, window.base + start)
        if not keeps and table[BatchField.MAGIC, 0] >= MAGIC_V2:
            to.write_at(window.base + start + _EPOCH_AT, _FIRST_EPOCH)
        return
    data = bytearray(window.data[start:end])
    for row in range(0 if keeps else window.rows):
        if table[BatchField.MAGIC, row] >= MAGIC_V2:
            at = table[BatchField.POSITION, row] - start
            data[at + _EPOCH_AT : at + _EPOCH_END] = _FIRST_EPOCH
    to.write_at(window.base + start, data)

"""Decide from the keys of records whether the log cleaner made a gap, if nothing else proves it.

When the cleaner drops batches of one record, it leaves no trace: the gap looks as if bytes had been removed from the file. But
the cleaner drops records without a key, and keeps only the last record of each key in the part that it has cleaned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.checkpoint.checkpoints import known_offsets
from engine.discovery.names import (
    INTERNAL_TOPICS,
    FileKind,
    file_name,
    offset_index_file_name,
    parent_of,
    parse_file_name,
    partition_of,
    time_index_file_name,
    transaction_index_file_name,
)
from engine.errors import KafkalogError, UnreadableFile
from engine.formats import CONTROL_FLAG, LONG_MAX, BatchField, RecordField
from engine.index.sparse import OffsetIndex
from engine.kernels.select import next_cleaned
from engine.log.segment.batch_search import heads
from engine.record.reader import ChunkReader
from engine.record.windows import LogWalk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from engine.discovery.names import FileName
    from engine.files import ReadOnlyFiles
    from engine.findings import Finding
    from engine.record.reader import Chunk


_KEYS = 200_000  # keys that are read and remembered: as hashes, about 15 MB
_AHEAD = 32 << 20  # bytes after the last gap that are searched for a repeated key
_INFLATED = 16 << 20  # highest decompressed size of a batch in bytes; larger ones are not read


def keys_explain_gaps(
    files: ReadOnlyFiles, path: str, positions: list[int], earlier: Sequence[str], following: list[str]
) -> bool:
    """Do the keys of its records show that the cleaner made the gaps in the log at `path`?

    positions   of the batches after gaps, ascending
    earlier, following   paths of the segments before and after this one, in order: the cleaner works from the first one on

    Yes if every record up to the batch after the last gap has a key, and no key repeats before that batch. As unique keys
    alone prove nothing, there must also be several gaps, or a key that repeats after the last one. No if there is no record
    before that batch, and if the offset index has the batches after the gaps at higher positions than they are: the cleaner
    would have rewritten the index. Only about the first 200,000 keys are read.
    """
    last = positions[-1]
    seen: set[int] = set()
    try:
        damage: list[Finding] = []
        if _is_cut_out(files, path, last):
            return False
        for name, chunk, base in _up_to(files, path, last, earlier, damage.append):
            if name == path and not seen and base + _first_position(chunk) >= last:
                return False
            if not _fits(chunk, base, last if name == path else LONG_MAX, seen):
                return False
            if len(seen) >= _KEYS:
                break
        if damage:
            return False  # the damaged records may be the missing ones
        return len(positions) > 1 or _comes_again(files, path, last, following, seen)
    except KafkalogError:
        return False  # a file that was deleted in between, or cannot be read, proves nothing


def _up_to(
    files: ReadOnlyFiles, path: str, last: int, earlier: Sequence[str], report: Callable[[Finding], None]
) -> Iterator[tuple[str, Chunk, int]]:
    """Yield the records of the `earlier` segments, and those of `path` up to the batch at byte `last`, each with its file."""
    for name, end in (*((name, LONG_MAX) for name in earlier), (path, last + 1)):
        for chunk, base in _chunks(files, name, 0, end, report):
            yield name, chunk, base


def _first_position(chunk: Chunk) -> int:
    return chunk.batches.table[BatchField.POSITION, chunk.records.table[RecordField.BATCH, chunk.first]]


def _is_cut_out(files: ReadOnlyFiles, path: str, last: int) -> bool:
    """Does the offset index have all its batches from byte `last` on at positions that are too high by the same number?"""
    parsed = parse_file_name(file_name(path))
    if parsed is None or parsed.kind is not FileKind.LOG or parsed.suffix or parsed.base_offset is None:
        return False
    index_path = f"{parent_of(path)}/{offset_index_file_name(parsed.base_offset)}"
    if not files.exists(index_path):
        return False
    index = OffsetIndex.read(files, index_path, parsed.base_offset)
    if not index.used_entries or index.sanity():
        return False
    moved: set[int] = set()
    entries = iter(index)
    entry = next(entries, None)
    with files.open(path) as file:
        for head in heads(file, last, file.size()):
            while entry is not None and entry.offset < head.base_offset:
                entry = next(entries, None)
            if entry is None:
                break
            if entry.offset < head.next_offset:
                moved.add(entry.position - head.position)
    return len(moved) == 1 and moved.pop() > 0


def _fits(chunk: Chunk, base: int, last: int, seen: set[int]) -> bool:
    """Does every record of the chunk have a key, and none a key in `seen`? Keys may repeat from byte `last` on."""
    table = chunk.records.table
    for record in range(chunk.first, chunk.end):
        row = table[RecordField.BATCH, record]
        if not chunk.batches.table[BatchField.VALID, row]:
            return False
        if _is_control(chunk, row):
            continue
        key = chunk.key(record)
        if key is None:
            return False
        digest = hash(key)
        if digest in seen and base + chunk.batches.table[BatchField.POSITION, row] < last:
            return False
        if len(seen) < _KEYS:
            seen.add(digest)
    return True


def _comes_again(files: ReadOnlyFiles, path: str, last: int, following: list[str], seen: set[int]) -> bool:
    """Does a key in `seen` repeat after the batch at byte `last`, or does any key occur twice there?"""
    for name, start in ((path, last), *((next_path, 0) for next_path in following[:1])):
        for chunk, base in _chunks(files, name, start, start + _AHEAD, lambda _: None):
            for record in range(chunk.first, chunk.end):
                row = chunk.records.table[RecordField.BATCH, record]
                if (name == path and base + chunk.batches.table[BatchField.POSITION, row] == last) or _is_control(chunk, row):
                    continue
                key = chunk.key(record)
                if key is not None and hash(key) in seen:
                    return True
                if key is not None and len(seen) < _KEYS:
                    seen.add(hash(key))
    return False


def _is_control(chunk: Chunk, row: int) -> bool:
    """Is it a control batch? Its keys are record types."""
    return bool(chunk.batches.table[BatchField.ATTRIBUTES, row] & CONTROL_FLAG)


def _chunks(
    files: ReadOnlyFiles, path: str, start: int, end: int, report: Callable[[Finding], None]
) -> Iterator[tuple[Chunk, int]]:
    """Yield the records of the batches that begin in bytes start … end − 1 of the log at `path`."""
    reader = ChunkReader(path, report, _INFLATED)
    with files.open(path) as file:
        for window in LogWalk(file, start):
            after = window.rows
            while after and window.base + window.batches.table[BatchField.POSITION, after - 1] >= end:
                after -= 1
            for chunk in reader.chunks(window, 0, after):
                yield chunk, window.base
            if after < window.rows:
                return


_SEARCHED = 128 << 20  # bytes of logs that are searched for traces


def has_traces(files: ReadOnlyFiles, paths: list[str]) -> bool:
    """Do batches in one of these logs show traces of the cleaner? Only the first bytes of long logs are searched."""
    left = _SEARCHED
    for path in paths:
        try:
            with files.open(path) as file:
                for window in LogWalk(file, 0, min(file.size(), left)):
                    left -= len(window.data)
                    if next_cleaned(window.batches.table, 0, window.rows) < window.rows:
                        return True
        except KafkalogError:
            continue  # an unreadable file proves nothing
        if left <= 0:
            break
    return False


def was_cleaned(files: ReadOnlyFiles, path: str, name: FileName) -> bool:
    """Does the file, the topic or the cleaner's checkpoint of the log dir show that the cleaner has processed this segment?

    path  absolute, because the parent directories are needed
    """
    if ".cleaned" in name.suffix or ".swap" in name.suffix:
        return True
    partition = partition_of(path)
    if partition is None:
        return False
    if partition.topic in INTERNAL_TOPICS:
        return True
    checkpoint_path = f"{parent_of(parent_of(path))}/{FileKind.CLEANER_CHECKPOINT.value}"
    if not files.exists(checkpoint_path):
        return False
    try:
        cleaned_up_to, _ = known_offsets(files, checkpoint_path)
    except UnreadableFile:
        return False
    return cleaned_up_to.get((partition.topic, partition.partition), 0) > (name.base_offset or 0)


_INDEXES = (offset_index_file_name, time_index_file_name, transaction_index_file_name)


def is_rolled_ahead(files: ReadOnlyFiles, path: str, first: int, end: int, epoch_starts: Iterable[int]) -> bool:
    """Is the .log at `path` an empty last segment, without evidence of batches at offsets `first` to `end` − 1?

    It begins at `end`, and the segment before it ends at `first`. Kafka opens such a log silently and continues at `end`.
    epoch_starts  start offsets of leader epochs: an epoch between `first` and `end` is evidence of a batch
    """
    if not files.exists(path) or files.info(path).size:
        return False
    if any(first < start < end for start in epoch_starts):
        return False
    return not any(files.exists(f"{parent_of(path)}/{name(first)}") for name in _INDEXES)

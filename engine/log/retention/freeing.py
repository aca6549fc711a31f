"""Choose segments of many logs to delete, to free a number of bytes in an emergency, whatever retention allows.

Leftover files are deleted first, because opening a log removes them anyway; then whole segments, the oldest of all logs first.
Active segments and unreplicated records are never chosen.
"""

from __future__ import annotations

from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from engine.discovery.names import (
    CLEANED,
    DELETED,
    SEGMENT_FILE_NAMES,
    FileKind,
    log_file_name,
    offset_of,
    time_index_file_name,
)
from engine.errors import UnreadableFile
from engine.formats import LONG_MAX
from engine.index.sparse import TimeIndex

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from engine.files import ReadOnlyFiles
    from engine.log.partition.unified_log import UnifiedLog
    from engine.log.segment.log_segment import LogSegment

_LOG = FileKind.LOG.value


class OldSegment(NamedTuple):
    """A segment that may be deleted. Sorted by `newest_ms`, its largest timestamp or a larger one of an earlier segment."""

    newest_ms: int
    directory: str
    base_offset: int
    end_offset: int
    size: int  # of log, indexes and producer snapshot


class FreePlan(NamedTuple):
    """What to delete.

    leftovers    bytes of files that opening the logs removes
    end_offsets  by partition directory: segments that end at or below this offset are deleted
    size         bytes that become free in total
    segments     number of segments to delete
    directories  partition directories in which anything is deleted
    """

    leftovers: int
    end_offsets: dict[str, int]
    size: int
    segments: int
    directories: frozenset[str]


def plan_freeing(
    files: ReadOnlyFiles, directories: Iterable[str], wanted: int, spared: Collection[str] = (),
    high_watermarks: Mapping[str, int] = MappingProxyType({}),
) -> FreePlan:
    """Choose files to delete in these partition directories to free `wanted` bytes, or as many as possible.

    spared           directories in which only leftover files may be deleted, no segment
    high_watermarks  by directory, if known: segments that end above it are not chosen

    Nothing is chosen in a directory that cannot be read: opening the log reports the error.
    """
    leftovers = 0
    touched: set[str] = set()
    old: list[OldSegment] = []
    for directory in directories:
        try:
            names = files.plain(directory)
            left = sum(files.info(f"{directory}/{name}").size for name in names if name.endswith((DELETED, CLEANED)))
            end = high_watermarks.get(directory, LONG_MAX)
            old += () if directory in spared else _old_segments(files, directory, names, end)
        except UnreadableFile:
            continue
        leftovers += left
        if left:
            touched.add(directory)
    size, end_offsets, segments = leftovers, dict[str, int](), 0
    for segment in sorted(old):
        if size >= wanted:
            break
        size, segments = size + segment.size, segments + 1
        end_offsets[segment.directory] = segment.end_offset
    return FreePlan(leftovers, end_offsets, size, segments, frozenset(touched.union(end_offsets)))


def _old_segments(files: ReadOnlyFiles, directory: str, names: list[str], end: int) -> list[OldSegment]:
    bases = sorted(offset for name in names if name.endswith(_LOG) and (offset := offset_of(name)) is not None)
    found: list[OldSegment] = []
    age = -1
    for base, following in pairwise(bases):
        if following > end:
            break
        age = max(age, _largest_timestamp(files, directory, base))
        paths = [f"{directory}/{name(base)}" for name in SEGMENT_FILE_NAMES]
        size = sum(files.info(path).size for path in paths if files.exists(path))
        found.append(OldSegment(age, directory, base, following, size))
    return found


def _largest_timestamp(files: ReadOnlyFiles, directory: str, base_offset: int) -> int:
    """The timestamp of the last entry of the time index; without an entry the modification time of the file."""
    path = f"{directory}/{time_index_file_name(base_offset)}"
    timestamp = TimeIndex.read(files, path, base_offset).last_entry().timestamp if files.exists(path) else -1
    return timestamp if timestamp >= 0 else files.info(f"{directory}/{log_file_name(base_offset)}").modified_ms


def chosen(log: UnifiedLog, plan: FreePlan) -> list[LogSegment]:
    """The segments of this log that `plan` deletes and that are below the high watermark."""
    end_offset = min(plan.end_offsets.get(log.directory, 0), log.high_watermark)
    return [segment for segment, following in pairwise(log.segments) if following.base_offset <= end_offset]


def free(log: UnifiedLog, plan: FreePlan) -> int:
    """Delete the `chosen` segments of this log. Returns their number."""
    chosen_segments = chosen(log, plan)
    reason = "one of the oldest segments, deleted to free space"
    return log.delete_segments(chosen_segments, {segment.base_offset: reason for segment in chosen_segments})

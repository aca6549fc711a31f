"""Which logs of a log dir are worth compacting, the dirtiest first, by the sizes of their files: nothing is opened.

What no open transaction, lag or high watermark forbids counts as cleanable here, so that a log is never passed over that
the broker would clean; whether it is due is decided by LogToClean once it is open.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from engine.discovery.names import FileKind, PartitionKind, parse_file_name
from engine.errors import UnreadableFile
from engine.formats import LONG_MAX
from engine.log.cleaner.checkpoint import clean_offsets

if TYPE_CHECKING:
    from engine.files import ReadOnlyFiles
    from engine.log.logdir.log_dirs import LogDir, Place
    from engine.log.logdir.log_manager import LogManager


class Which(Enum):
    """Which logs of compacted topics are taken."""

    DUE = "due"  # whose dirty ratio says so, or may be overdue
    DIRTY = "dirty"  # that have anything dirty besides the active segment
    ALL = "all"


def dirtiest_first(manager: LogManager, log_dir: LogDir, min_ratio: float | None, which: Which) -> LogDir:
    """The log dir with only the partitions to be taken, the dirtiest first; one that was not named as a whole as it is.

    min_ratio  None: as the topic's settings say
    One that cannot be looked at is taken, the last of all: the work on it tells why, and the others are done.
    """
    if not log_dir.is_whole:
        return log_dir
    files = manager.files_of(log_dir.path)
    clean_until, _ = clean_offsets(files, log_dir.path)
    found: list[tuple[float, Place]] = []
    for place in compacted(manager, log_dir):
        config = manager.config(place.name.topic)
        try:
            ratio = cleanable_ratio_at_most(files, place, clean_until.get(place.key, 0))
        except UnreadableFile:
            found.append((0.0, place))
            continue
        least = config.min_cleanable_ratio if min_ratio is None else min_ratio
        is_due = ratio > least or config.max_compaction_lag_ms < LONG_MAX
        if which is Which.ALL or (ratio > 0 and (which is Which.DIRTY or is_due)):
            found.append((ratio, place))
    found.sort(key=lambda pair: -pair[0])
    return replace(log_dir, places=tuple(place for _, place in found))


def compacted(manager: LogManager, log_dir: LogDir) -> list[Place]:
    """The partitions of the log dir whose topics are compacted."""
    return [place for place in log_dir.partitions(PartitionKind.PLAIN) if manager.config(place.name.topic).compact]


def why_none(manager: LogManager, log_dir: LogDir, which: Which) -> str:
    """Why `dirtiest_first` takes nothing of a log dir, and what to do."""
    partitions, count = log_dir.partitions(PartitionKind.PLAIN), len(compacted(manager, log_dir))
    if not partitions:
        return "it contains no partition"
    if count:
        share = f"{count} of {len(partitions)} partitions belong to compacted topics"
        if which is Which.DIRTY:
            return f"{share}, and none has dirty records before its active segment"
        return f"{share}, and none exceeds the dirty ratio; --explain shows why, --force compacts all that are dirty"
    what = f"none of {len(partitions)} partitions belongs to a compacted topic"
    if manager.cluster.metadata is not None:
        return what
    return (f"{what}, as far as known: the topic settings are in the metadata log, which is in none of the given log dirs; "
            "name its log dir too, or a partition with --config cleanup.policy=compact")


def cleanable_ratio_at_most(files: ReadOnlyFiles, place: Place, first_dirty_offset: int) -> float:
    """Dirty bytes by all bytes of the segments that are not active: 0 … 1. Raises UnreadableFile."""
    sizes: dict[int, int] = {}
    for name in files.list(place.path):
        parsed = parse_file_name(name)
        if parsed is not None and parsed.kind is FileKind.LOG and not parsed.suffix and parsed.base_offset is not None:
            sizes[parsed.base_offset] = files.info(f"{place.path}/{name}").size
    if sizes and first_dirty_offset > max(sizes):
        first_dirty_offset = 0  # no cleaner comes behind the active segment's start: the line is stale, as a broker finds too
    bases = sorted(sizes)[:-1]
    clean_bases = [base for base in bases if base < first_dirty_offset]
    if clean_bases and _ends_behind(sorted(sizes), clean_bases[-1], first_dirty_offset):
        clean_bases.pop()  # it is dirty from its middle on
    total = sum(sizes[base] for base in bases)
    return 1 - sum(sizes[base] for base in clean_bases) / total if total else 0.0


def _ends_behind(bases: list[int], base: int, offset: int) -> bool:
    return bases[bases.index(base) + 1] > offset

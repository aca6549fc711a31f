"""Which logs of a log dir are worth compacting, the dirtiest first, by the sizes of their files: nothing is opened.

What no open transaction, lag or high watermark forbids counts as cleanable here, so that a log is never passed over that
the broker would clean; whether it is due is decided by LogToClean once it is open.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine.formats import LONG_MAX
from engine.layout import FileKind, PartitionKind, parse_file_name
from engine.log.cleaner.checkpoint import clean_offsets

if TYPE_CHECKING:
    from engine.files import ReadOnlyFiles
    from engine.log.logdir.log_dirs import LogDir, Place
    from engine.log.logdir.log_manager import LogManager



def dirtiest_first(manager: LogManager, log_dir: LogDir, min_ratio: float | None, *, force: bool) -> LogDir:
    """The log dir with only the partitions that may be due, the dirtiest first; one that was not named as a whole as it is.

    min_ratio  None: as the topic's settings say        force  those below the ratio too
    """
    if not log_dir.is_whole:
        return log_dir
    files = manager.files_of(log_dir.path)
    clean_until, _ = clean_offsets(files, log_dir.path)
    found: list[tuple[float, Place]] = []
    for place in log_dir.partitions(PartitionKind.PLAIN):
        config = manager.config(place.name.topic)
        if not config.compact:
            continue
        ratio = cleanable_ratio_at_most(files, place, clean_until.get(place.key, 0))
        least = config.min_cleanable_ratio if min_ratio is None else min_ratio
        if ratio > 0 and (force or ratio > least or config.max_compaction_lag_ms < LONG_MAX):
            found.append((ratio, place))
    found.sort(key=lambda pair: -pair[0])
    return replace(log_dir, places=tuple(place for _, place in found))


def cleanable_ratio_at_most(files: ReadOnlyFiles, place: Place, first_dirty_offset: int) -> float:
    """Dirty bytes by all bytes of the segments that are not active: 0 … 1."""
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

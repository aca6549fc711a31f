"""Batches that only files have which a start deletes: `.log.deleted`, `.log.cleaned`, and `.log.swap` of an interrupted split.

Batches decide, not names: every such file is read completely, and the segments that may have the same offsets.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from engine.checkpoint.checkpoints import known_offsets
from engine.discovery.names import (
    CLEANED,
    DELETED,
    LOG_SWAP,
    FileKind,
    PartitionKind,
    file_name,
    is_log_file_name,
    offset_of,
    parent_of,
    parse_partition_dir,
)
from engine.formats import LONG_MAX
from engine.log.continuity.check import ContinuityCheck
from engine.log.loading.replacement import fault_of, joined, offsets_in, read_runs, without
from engine.record.windows import LogWalk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from engine.files import ReadOnlyFiles
    from engine.log.loading.replacement import Offsets, Unfinished
    from engine.log.segment.sound_runs import Run

_LOG_DELETED, _LOG_CLEANED = FileKind.LOG.value + DELETED, FileKind.LOG.value + CLEANED


class Doomed(NamedTuple):
    """A .log that a start deletes.

    alone      offsets of its sound batches that the log needs and that no other file has
    truncated  such offsets after the last segment: the log was truncated, on purpose or after damage
    """

    name: str
    base_offset: int
    runs: list[Run]
    alone: list[Offsets]
    truncated: list[Offsets]


def read_doomed(
    files: ReadOnlyFiles, directory: str, names: Iterable[str], unfinished: Unfinished, *, log_start_offset: int,
    is_compacted: Callable[[], bool | None],
) -> dict[str, Doomed]:
    """The files among `names` in `directory` that a start deletes and that are not empty, by name. Raises UnreadableFile.

    is_compacted  is the topic compacted? None: not known. Called only if needed

    Brokers delete the oldest segments, the newest ones, and those that another segment replaces, but never all. So a
    `.log.deleted` between two segments is a loss, unless the cleaner may have removed its records. After the last segment it is
    a loss if the high watermark says that its records were committed. Otherwise it proves nothing: a follower truncates its log
    on purpose, a starting broker truncates it after damage, and both lower the high watermark afterwards. `.log.cleaned` and
    `.swap` files are complete before the old ones are deleted, so offsets that only they have are a loss.
    """
    found = {name: base for name in names if _is_doomed(name, unfinished) and (base := offset_of(name)) is not None
             and files.info(f"{directory}/{name}").size}
    if not found:
        return {}
    kept = {name: base for name in names if (is_log_file_name(name) or name in unfinished.log_swaps)
            and (base := offset_of(name)) is not None}
    last = max(kept.values(), default=LONG_MAX)
    of_log: list[Offsets] = [(max(log_start_offset, min(kept.values(), default=0)), last)]
    committed: list[Offsets] = [(0, max(last, _high_watermark(files, directory)))]
    read: dict[str, list[Offsets]] = {}
    cleaned: list[Offsets] | None = None
    doomed: dict[str, Doomed] = {}
    for name in sorted(found, key=lambda name: (not name.endswith(DELETED), found[name])):  # complete files first
        runs = read_runs(files, directory, name)
        alone = without(offsets_in(files, directory, name), [(0, log_start_offset)])  # runs would include gaps between batches
        after: list[Offsets] = []
        if name.endswith(DELETED):
            after = without(alone, [(0, last)])  # where no cleaner comes
            alone = [] if is_compacted() else without(alone, without([(0, LONG_MAX)], of_log))
        if alone or after:
            near = _possible_holders(kept, [*alone, *after])
            read |= {one: offsets_in(files, directory, one) for one in near - read.keys()}
            others = ([*one.alone, *one.truncated] for one in doomed.values())
            elsewhere = joined(sorted(chain(*(read[one] for one in near), *others)))
            alone, after = without(alone, elsewhere), without(after, elsewhere)
        if alone and name.endswith(DELETED) and is_compacted() is None:
            cleaned = _spans_of_cleaner(files, directory, kept, {*found.values()}) if cleaned is None else cleaned
            alone = without(alone, cleaned)
        truncated = without(after, committed)
        doomed[name] = Doomed(name, found[name], runs, joined([*alone, *without(after, truncated)]), truncated)
    return doomed


def _high_watermark(files: ReadOnlyFiles, directory: str) -> int:
    """That of the partition in `directory`, as its broker wrote it last; 0: not known. Raises UnreadableFile."""
    place = files.absolute(directory)
    partition, path = parse_partition_dir(file_name(place)), f"{parent_of(place)}/{FileKind.REPLICATION_CHECKPOINT.value}"
    if partition is None or partition.kind is not PartitionKind.PLAIN or not files.exists(path):
        return 0
    return known_offsets(files, path)[0].get((partition.topic, partition.partition), 0)


def _is_doomed(name: str, unfinished: Unfinished) -> bool:
    return name.endswith((_LOG_DELETED, _LOG_CLEANED)) or (name.endswith(LOG_SWAP) and name in unfinished.invalid)


def _possible_holders(kept: dict[str, int], offsets: list[Offsets]) -> set[str]:
    """The names in `kept` of files that may have some of `offsets`, according to their names."""
    bases = sorted({*kept.values()})
    ends = dict(zip(bases, (*bases, LONG_MAX)[1:], strict=True))  # works without segments too
    swaps = {name for name in kept if not is_log_file_name(name)}  # their ends are not known
    near = {name for name, base in kept.items() for first, end in offsets if base < end and first < ends[base]}
    return near | {name for name in swaps if kept[name] < offsets[-1][1]}


def _spans_of_cleaner(files: ReadOnlyFiles, directory: str, kept: dict[str, int], deleted: set[int]) -> list[Offsets]:
    """Offsets of segments with the name of a deleted one, up to the next segment, that the cleaner may have removed."""
    check = ContinuityCheck(files, directory, lambda _: None)
    bases, spans = sorted({*kept.values()}), list[tuple[int, int]]()
    for name in sorted(kept, key=lambda name: (kept[name], name)):
        path, base = f"{directory}/{name}", kept[name]
        with files.open(path) as file:
            check.begin_segment(base, path)
            for window in LogWalk(file):
                check.feed(window)
            if base in deleted and base != bases[-1] and fault_of(file) is None:
                spans.append((base, bases[bases.index(base) + 1]))
    check.finish()
    return without(joined(spans), joined(sorted(check.losses)))

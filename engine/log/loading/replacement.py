"""Plan what a start does with the files of an interrupted compaction or split; for loading and for verification.

File names decide which `.swap` files a start completes. Their batches decide which segments are removed, and what is lost with
them. Mirrors the passes of LogLoader.load over `.cleaned` and `.swap` files. As in Kafka, reading a `.log.swap` creates a
missing `.index.swap`: read-only callers pass an overlay.

`read_doomed` finds batches that only files have which a start deletes: `.log.deleted`, `.log.cleaned`, and `.log.swap` of an
interrupted split. There batches decide, not names: every such file is read completely, and the segments that may have the same
offsets.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import chain, count
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import offsets_text
from engine.checkpoint.checkpoints import known_offsets
from engine.discovery.names import (
    CLEANED,
    DELETED,
    LOG_SWAP,
    SWAP,
    FileKind,
    PartitionKind,
    file_name,
    is_log_file_name,
    offset_of,
    parent_of,
    parse_partition_dir,
    time_index_file_name,
)
from engine.formats import LONG_MAX, BatchField
from engine.log.continuity.check import ContinuityCheck
from engine.log.errors import CorruptRecord
from engine.log.segment.log_segment import LogSegment, Partition
from engine.log.segment.sound_runs import as_runs, sound_batches
from engine.overlay import OverlayFiles
from engine.record.windows import LogWalk, Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from collections.abc import Set as AbstractSet

    from engine.config.topic import LogConfig
    from engine.files import Files, OpenFile, ReadOnlyFiles
    from engine.log.segment.sound_runs import Run

    Offsets = tuple[int, int]  # [first, end)


class Unfinished(NamedTuple):
    """Names of files of all kinds that an interrupted compaction or split left.

    cleaned  incomplete, are deleted         invalid  `.swap` files of an interrupted split, are deleted too
    swaps    are completed                   lowest   the lowest offset of `cleaned`
    """

    cleaned: list[str]
    invalid: list[str]
    swaps: list[str]
    lowest: int | None

    @property
    def log_swaps(self) -> list[str]:
        """The names in `swaps` of logs."""
        return [name for name in self.swaps if name.endswith(LOG_SWAP)]


def find_unfinished(names: Iterable[str]) -> Unfinished:
    """Find them in `names`; a name without an offset is ignored."""
    offsets = {name: offset for name in names if name.endswith((CLEANED, SWAP)) and (offset := offset_of(name)) is not None}
    cleaned = [name for name in offsets if name.endswith(CLEANED)]
    lowest = min((offsets[name] for name in cleaned), default=None)
    swaps = [name for name in offsets if name.endswith(SWAP)]
    invalid = [name for name in swaps if lowest is not None and offsets[name] >= lowest]
    return Unfinished(cleaned, invalid, [name for name in swaps if name not in invalid], lowest)


class Swap(NamedTuple):
    """A `.log.swap`.

    end_offset  after its last batch, sound or not: a start verifies no checksum
    fault       damage since it was written; None: its batches are sound up to the end of the file
    was_empty   its `.timeindex.swap` proves that it never had a batch: the cleaner ends the time index of a segment with
                batches with an entry. A `.log.swap` of 0 bytes alone may have been truncated
    """

    name: str
    base_offset: int
    end_offset: int
    runs: list[Run]
    fault: str | None
    was_empty: bool

    @property
    def is_whole(self) -> bool:
        """Does it have everything that the cleaner wrote?"""
        return self.fault is None and (bool(self.runs) or self.was_empty)


class Replacement(NamedTuple):
    """What all `.log.swap` files together do at a start: they replace the files with the offsets [first, end).

    replaced       names without SWAP, of logs and indexes, that are removed
    lost           by name of a replaced log: offsets of its sound batches that no `.log.swap` has, without a known reason
    is_compaction  the `.swap` files are from the cleaner: the records of all other batches have newer ones with their keys
    """

    swaps: list[Swap]
    first: int
    end: int
    replaced: list[str]
    lost: dict[str, list[Offsets]]
    is_compaction: bool

    @property
    def what(self) -> str:
        """The `.swap` files, in words."""
        has_batches = self.end > self.first
        return f"the {SWAP} files of {offsets_text(self.first, self.end)}" if has_batches else f"a {SWAP} file without a batch"


def plan_replacement(
    files: Files, directory: str, names: Iterable[str], log_swaps: list[str], config: LogConfig, *, is_compacted: bool | None
) -> Replacement:
    """Plan what the `.log.swap` files `log_swaps` replace, of the files `names` in `directory`.

    is_compacted  is the topic compacted? None: not known
    """
    swaps = sorted((_read_swap(files, directory, name, config) for name in log_swaps), key=lambda swap: swap.base_offset)
    first, end = swaps[0].base_offset, max(swap.end_offset for swap in swaps)
    used = {name.removesuffix(SWAP) for name in log_swaps}
    replaced = [name for name in names if not name.endswith(SWAP) and (offset := offset_of(name)) is not None
                and (first <= offset < end or name in used)]
    is_compaction = is_compacted is True and all(swap.is_whole for swap in swaps)
    lost: dict[str, list[Offsets]] = {}
    if not is_compaction:
        held = joined(sorted(one for swap in swaps for one in offsets_in(files, directory, swap.name)))
        old = {name: without(offsets_in(files, directory, name), held) for name in replaced if is_log_file_name(name)}
        if is_compacted is not False and any(old.values()):
            removed_by_cleaner = _removed_by_cleaner(files, directory, names, replaced, swaps)
            old = {name: without(offsets, removed_by_cleaner) for name, offsets in old.items()}
        lost = {name: offsets for name, offsets in old.items() if offsets}
    return Replacement(swaps, first, end, replaced, lost, is_compaction)


def read_runs(files: ReadOnlyFiles, directory: str, name: str) -> list[Run]:
    """The sound runs of a log."""
    with files.open(f"{directory}/{name}") as file:
        return list(as_runs(sound_batches(file, lambda _: None)))


def free_base_offset(first: int, used: AbstractSet[int]) -> int:
    """An unused base offset for a file whose batches begin at offset `first` and will be moved elsewhere.

    It is near these offsets. After a stop the next salvage finds the file; to it the first batch must not look as if its base
    offset had a wrong bit (see `with_offsets_restored`).
    """
    return next(base for base in count(first + 1) if base not in used and (base ^ first).bit_count() > 1)


def _read_swap(files: Files, directory: str, name: str, config: LogConfig) -> Swap:
    base = offset_of(name) or 0
    time_index = f"{directory}/{time_index_file_name(base)}{SWAP}"
    was_empty = not files.info(f"{directory}/{name}").size and files.exists(time_index) and not files.info(time_index).size
    segment = LogSegment(Partition(files, directory, config, 0), base, SWAP)
    try:
        end = segment.read_next_offset()
    except CorruptRecord:
        end = segment.scan().next_offset or base
    segment.close_handlers()
    with files.open(f"{directory}/{name}") as file:
        fault = fault_of(file)
    return Swap(name, base, end, read_runs(files, directory, name), fault, was_empty)


def fault_of(file: OpenFile) -> str | None:
    """The damage of a .log; None: its batches are sound up to its end."""
    walk = LogWalk(file)
    for window in walk:
        table = window.batches.table
        for row in range(window.rows):
            if not table[BatchField.VALID, row]:
                return f"a batch with a wrong checksum at byte {window.base + table[BatchField.POSITION, row]}"
    return None if walk.stop is Stop.END else f"it ends inside a batch, which begins at byte {walk.position}"


def _removed_by_cleaner(
    files: Files, directory: str, names: Iterable[str], replaced: list[str], swaps: list[Swap]
) -> list[Offsets]:
    """The offsets, in order, that `swaps` lack because the cleaner removed them, if the topic may be compacted.

    The cleaner leaves no bytes between sound batches that are neighbours. In a damaged file, missing offsets may be damage
    instead. And the future log must not contradict that the cleaner has processed it.
    """
    runs = sorted((run.first_offset, run.end_offset) for swap in swaps for run in swap.runs)
    if not runs or any(swap.fault is not None for swap in swaps):
        return joined(runs)
    after = OverlayFiles(files, 0)
    for name in replaced:
        after.remove(f"{directory}/{name}")
    for swap in swaps:
        after.rename(f"{directory}/{swap.name}", f"{directory}/{swap.name.removesuffix(SWAP)}")
    check = ContinuityCheck(after, directory, lambda _: None)
    left = {name for name in names if is_log_file_name(name)} - {*replaced}
    for name in sorted(left | {swap.name.removesuffix(SWAP) for swap in swaps}):
        with after.open(f"{directory}/{name}") as file:
            check.begin_segment(offset_of(name) or 0, file.path)
            for window in LogWalk(file):
                check.feed(window)
    check.finish()
    return without([(runs[0][0], max(end for _, end in runs))], check.losses)


def offsets_in(files: ReadOnlyFiles, directory: str, name: str) -> list[Offsets]:
    """The offsets of the sound batches of a log."""
    with files.open(f"{directory}/{name}") as file:
        return joined((batch.first_offset, batch.end_offset) for batch in sound_batches(file, lambda _: None))


def joined(ranges: Iterable[Offsets]) -> list[Offsets]:
    """Join adjacent ranges."""
    found: list[Offsets] = []
    for first, end in ranges:
        if found and found[-1][0] <= first <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((first, end))
    return found


def without(ranges: list[Offsets], held: list[Offsets]) -> list[Offsets]:
    """The parts of `ranges` that are not in `held`, which is sorted."""
    return joined(left for one in sorted(ranges) for left in _rest(one, held))


def _rest(one: Offsets, held: list[Offsets]) -> Iterator[Offsets]:
    """The parts of `one` that are not in `held`."""
    first, end = one
    for start, stop in held[max(0, bisect_right(held, first, key=itemgetter(0)) - 1) :]:
        if start >= end:
            break
        if first < start:
            yield first, start
        first = max(first, stop)
    if first < end:
        yield first, end


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
    full = files.absolute(directory)
    partition, path = parse_partition_dir(file_name(full)), f"{parent_of(full)}/{FileKind.REPLICATION_CHECKPOINT.value}"
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

"""Keep the sound batches behind damage: a segment is written anew without the bytes that belong to none.

Consumers may meet gaps in the offsets, as compaction leaves them. What is lost is said. The indexes of such a segment
are removed, so that recovery makes them anew. The new file takes the place of the old one in one step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.findings import Severity
from engine.formats import LONG_MAX, MAGIC_V2, BatchField
from engine.layout import (
    ASIDE,
    is_log_file_name,
    log_file_name,
    offset_index_file_name,
    time_index_file_name,
    transaction_index_file_name,
)
from engine.log.errors import refuse_too_large
from engine.log.report import Action
from engine.record.soundness import searched_up_to
from engine.record.windows import LogWalk, Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.files import Files, OpenFile
    from engine.log.report import Report


class Run(NamedTuple):
    """Bytes [start, end) of a log: sound batches one behind the other, with their offsets, the end exclusive."""

    start: int
    end: int
    first_offset: int
    end_offset: int


class Lost(NamedTuple):
    """Bytes [start, end) that go, and the offsets [first, end) that were in them; `end_offset` None: unknown."""

    start: int
    end: int
    first_offset: int
    end_offset: int | None


def salvage(files: Files, directory: str, report: Report) -> int:
    """Write every segment of the partition in `directory` that has damage with sound batches behind it anew.

    A torn end is left to recovery. A segment whose name contradicts its batches and those before it gets the name it had.
    Returns how many segments were written. Raises UnreadableFile, UnwritableFile, SegmentTooLarge.
    """
    names = [name for name in files.list(directory) if is_log_file_name(name)]
    for name in names:
        refuse_too_large(f"{directory}/{name}", files.info(f"{directory}/{name}").size)
    bases = sorted(int(name[:20]) for name in names)
    firsts = [_first_offset(files, f"{directory}/{log_file_name(base)}", base) for base in bases]
    count = 0
    expected = 0
    for number, (named, first) in enumerate(zip(bases, firsts, strict=True)):
        is_misnamed = expected <= first < named or named < expected <= first
        if is_misnamed:
            _rename(files, directory, named, first, report)
        base = first if is_misnamed else named
        limit = max(bases[number + 1], firsts[number + 1]) if number + 1 < len(bases) else None
        name = log_file_name(base)
        with files.open(f"{directory}/{name}") as file:
            ends: list[int] = []
            runs = list(sound_runs(file, max(base, expected), limit, ends.append))
            size = file.size()
            expected = runs[-1].end_offset if runs else max(base, expected)
            is_tail = limit is None and len(runs) < 2 and (not runs or runs[0].start == 0)
            is_whole = len(runs) == 1 and (runs[0].start, runs[0].end) == (0, size)
            if is_whole or is_tail or (not runs and not size):
                continue
            _write(files, directory, name, file, runs)
        count += 1
        for event in lost_ranges(runs, size, base, limit):
            why = "bytes that belong to no sound batch"
            if event.end == size and ends:
                why += searched_up_to(ends[0])
            report.add(Action.SALVAGED, name, why, size=event.end - event.start,
                       offsets=(event.first_offset, event.end_offset), severity=Severity.ERROR)
    return count


def _rename(files: Files, directory: str, base: int, first: int, report: Report) -> None:
    """Name the segment `base` after its first offset. Its indexes, which count from the old name, are made anew by recovery."""
    name, to = log_file_name(base), log_file_name(first)
    _remove_indexes(files, directory, base)
    files.rename(f"{directory}/{name}", f"{directory}/{to}")  # its new indexes bring the name to the disk
    report.add(Action.RENAMED, name, f"it begins with offset {first}, and what is in front of it ends before that", to=to,
               severity=Severity.WARNING)


def _remove_indexes(files: Files, directory: str, base: int) -> None:
    """Those of the segment `base`: beside other bytes, or another name, they would have a log read at wrong places."""
    for index in (offset_index_file_name, time_index_file_name, transaction_index_file_name):
        files.remove(f"{directory}/{index(base)}")
    files.sync_directory(directory)


def _first_offset(files: Files, path: str, base_offset: int) -> int:
    """With which offset a segment begins: what its first batch says, if that is sound; else what its name says."""
    with files.open(path) as file:
        for is_sound, batch in _batches(LogWalk(file), None):
            return batch.first_offset if is_sound else base_offset
    return base_offset


def sound_runs(
    file: OpenFile, first_offset: int, limit: int | None, gave_up: Callable[[int], object] = lambda _: None
) -> Iterator[Run]:
    """The sound batches of a log whose offsets grow from `first_offset` on and lie below `limit`, as long runs.

    gave_up  takes the byte from which on nothing was looked at, if the search behind damage made too much work
    """
    run: Run | None = None
    for batch in _fitting(_sound_batches(file, limit, gave_up), first_offset):
        if run is not None and run.end == batch.start:
            run = run._replace(end=batch.end, end_offset=batch.end_offset)
            continue
        if run is not None:
            yield run
        run = batch
    if run is not None:
        yield run


def _sound_batches(file: OpenFile, limit: int | None, gave_up: Callable[[int], object]) -> Iterator[Run]:
    """Every batch with a right checksum whose offsets lie below `limit`, and leave one for the next batch."""
    walk, damaged = LogWalk(file), None
    while True:
        for is_sound, batch in _batches(walk, limit):
            if not is_sound:
                damaged = damaged or batch
                continue
            if damaged is not None and batch.first_offset > damaged.end_offset:
                yield from _hidden(file, damaged.start, batch.start, limit, gave_up)
            damaged = None
            yield batch
        if (walk.stop is Stop.END and damaged is None) or walk.resynchronise() is None:
            if walk.gave_up is not None:
                gave_up(walk.gave_up)
            return
        damaged = None


def _hidden(
    file: OpenFile, start: int, end: int, limit: int | None, gave_up: Callable[[int], object]
) -> Iterator[Run]:
    """The sound batches in bytes [start, end), which damaged ones claim: a wrong size may end where a batch begins."""
    walk = LogWalk(file, start, end)
    found: int | None = start
    while found is not None:
        yield from (batch for is_sound, batch in _batches(walk, limit) if is_sound)
        found = walk.resynchronise()
    if walk.gave_up is not None:
        gave_up(walk.gave_up)


def _batches(walk: LogWalk, limit: int | None) -> Iterator[tuple[bool, Run]]:
    """(is its checksum right, its magic one there is, and do its offsets lie below `limit`?, batch)"""
    for window in walk:
        table = window.batches.table
        for row in range(window.rows):
            base, last = table[BatchField.BASE_OFFSET, row], table[BatchField.LAST_OFFSET, row]
            start = window.base + table[BatchField.POSITION, row]
            is_known = 0 <= table[BatchField.MAGIC, row] <= MAGIC_V2  # no checksum covers it, and consumers end there
            is_fitting = base <= last < (LONG_MAX if limit is None else limit)
            is_sound = table[BatchField.VALID, row] == 1 and is_known and is_fitting
            yield is_sound, Run(start, start + table[BatchField.SIZE, row], base, last + 1)


def _fitting(batches: Iterator[Run], expected: int) -> Iterator[Run]:
    """Those whose offsets grow from `expected` on.

    No checksum covers base offsets: one that leaps ahead, and that the next batch does not follow, is the wrong one.
    """
    leap: Run | None = None  # behind a gap; `expected` is where the gap begins
    for batch in batches:
        if batch.first_offset < expected:
            continue
        if leap is not None and batch.first_offset >= leap.end_offset:
            yield leap
            expected = leap.end_offset
        leap = None
        if batch.first_offset == expected:
            yield batch
            expected = batch.end_offset
        else:
            leap = batch
    if leap is not None:
        yield leap


def lost_ranges(runs: list[Run], size: int, base_offset: int, limit: int | None) -> Iterator[Lost]:
    """What lies between the runs of a log of `size` bytes that begins at `base_offset` and ends before `limit`."""
    at, offset = 0, base_offset
    for run in runs:
        if run.start > at:
            yield Lost(at, run.start, offset, max(offset, run.first_offset))
        at, offset = run.end, run.end_offset
    if at < size:
        yield Lost(at, size, offset, limit)


def _write(files: Files, directory: str, name: str, file: OpenFile, runs: list[Run]) -> None:
    path = f"{directory}/{name}"
    base = int(name[:20])
    aside = f"{directory}/{log_file_name(base, ASIDE)}"
    modified_ms = files.info(path).modified_ms
    with files.open_writable(aside, create=True) as copy:
        copy.truncate(0)
        at = 0
        for run in runs:
            files.copy(file, run.start, run.end, copy, at)
            at += run.end - run.start
        copy.sync()
    files.set_modified(aside, modified_ms)
    _remove_indexes(files, directory, base)
    files.rename(aside, path)
    files.sync_directory(directory)

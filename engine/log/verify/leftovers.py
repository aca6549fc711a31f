"""Files of an interrupted compaction or split, and what a start would do with them: `.cleaned` goes, `.swap` replaces segments.

What the broker decides by names alone is in `engine.log.segment.leftovers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.findings import Finding, Where
from engine.formats import BatchField
from engine.layout import FileKind, is_log_file_name, log_file_name, parse_file_name, transaction_index_file_name
from engine.log.segment.splitting import CLEANED, SWAP
from engine.record.windows import LogWalk, Stop

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.files import ReadOnlyFiles
    from engine.log.tiering import Policy

    Report = Callable[[Finding], None]


class _Extent(NamedTuple):
    """Where the sound batches of a log end, and why not at the end of the file; None: they do."""

    end_offset: int
    fault: str | None


def check_leftovers(files: ReadOnlyFiles, directory: str, policy: Policy, report: Report) -> None:
    """Report `.cleaned` and `.swap` files in the partition `directory`. Raises UnreadableFile."""
    directory = directory.rstrip("/") or "/"
    names = files.plain(directory)
    cleaned, swapped = (sorted(base for name in names if (base := _base_of(name, suffix)) is not None)
                        for suffix in (CLEANED, SWAP))
    for base in cleaned:
        path = f"{directory}/{log_file_name(base, CLEANED)}"
        report(Finding("leftover-file", Where(path), "a compaction or split was interrupted: a start deletes this file"))
    swaps: dict[int, _Extent] = {}
    for base in swapped:
        path = f"{directory}/{log_file_name(base, SWAP)}"
        if cleaned and base >= cleaned[0]:
            what = f"part of a split that was interrupted ({log_file_name(cleaned[0], CLEANED)}): a start deletes it"
            report(Finding("leftover-file", Where(path), what))
        else:
            swaps[base] = _extent(files, path, base)
    if swaps:
        _check_swaps(files, directory, names, swaps, policy, report)


def _check_swaps(
    files: ReadOnlyFiles, directory: str, names: list[str], swaps: dict[int, _Extent], policy: Policy, report: Report
) -> None:
    """A start replaces all segments that begin within the offsets of `swaps`, taken together."""
    first, end = min(swaps), max(extent.end_offset for extent in swaps.values())
    replaced = [int(name[:20]) for name in names if is_log_file_name(name) and first <= int(name[:20]) < max(end, first + 1)]
    ends = [_extent(files, f"{directory}/{log_file_name(base)}", base).end_offset for base in replaced]
    shown = ", ".join(map(log_file_name, replaced)) or "no segment"
    faults = {base: extent.fault for base, extent in swaps.items() if extent.fault is not None}
    for base in swaps:
        where = Where(f"{directory}/{log_file_name(base, SWAP)}")
        does = f"a start puts the {SWAP} files of offsets {first} to {end - 1} in the place of {shown}"
        lost = max(ends, default=end)
        if base in faults:
            gone = f", and offsets {end} to {lost - 1} are lost" if lost > end else ""
            report(Finding("swap-loses-records", where, f"{faults[base]}: the file is not whole; {does}{gone}"))
        elif base == max(swaps) and lost > end and policy().compacted is False:
            what = f"{does}; offsets {end} to {lost - 1} are only there, and the topic is not compacted: they are lost"
            report(Finding("swap-loses-records", where, what))
        else:
            report(Finding("leftover-file", where, does))
    for base in replaced:
        name = transaction_index_file_name(base)
        kept = f"{name}{SWAP}" in names
        if name in names and not kept and files.info(f"{directory}/{name}").size and policy().compacted is False:
            what = f"a start deletes it with {log_file_name(base)}, and no {SWAP} file takes its place: not harmless"
            report(Finding("txnindex-incomplete", Where(f"{directory}/{name}"), what))


def _base_of(name: str, suffix: str) -> int | None:
    """The base offset of a log with that suffix; None: `name` is none."""
    parsed = parse_file_name(name)
    is_one = parsed is not None and parsed.kind is FileKind.LOG and parsed.suffix == suffix
    return parsed.base_offset if is_one and parsed is not None else None


def _extent(files: ReadOnlyFiles, path: str, base_offset: int) -> _Extent:
    end = base_offset
    with files.open(path) as file:
        walk = LogWalk(file)
        for window in walk:
            table = window.batches.table
            for row in range(window.rows):
                if not table[BatchField.VALID, row]:
                    position = window.base + table[BatchField.POSITION, row]
                    return _Extent(end, f"a batch with a wrong checksum at byte {position}")
                end = max(end, table[BatchField.LAST_OFFSET, row] + 1)
        return _Extent(end, None if walk.stop is Stop.END else f"it ends inside a batch, which begins at byte {walk.position}")

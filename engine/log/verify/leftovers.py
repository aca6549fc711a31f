"""Report the leftover files of an interrupted compaction or split: `.cleaned`, `.swap` and `.deleted`. Writes nothing.

The module stands alone, so that what it needs to plan a replacement is imported only for the few partitions with such files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.amounts import count_of, offset_span, offsets_text
from engine.config.topic import LogConfig
from engine.discovery.names import CLEANED, DELETED, SWAP, FileKind, is_log_file_name
from engine.findings import Finding, Where
from engine.log.loading.replacement import find_unfinished, plan_replacement, read_doomed
from engine.overlay import OverlayFiles

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.files import ReadOnlyFiles
    from engine.log.loading.replacement import Offsets, Replacement
    from engine.log.tiering import Policy

    Report = Callable[[Finding], None]

_MOST_RANGES = 10  # ranges of lost offsets that a finding lists
_LOG, _TXN_INDEX = FileKind.LOG.value, FileKind.TRANSACTION_INDEX.value


def check_leftovers(files: ReadOnlyFiles, directory: str, policy: Policy, report: Report, log_start_offset: int = 0) -> None:
    """Report `.cleaned` and `.swap` files in the partition `directory`, and `.log.deleted` files that the log needs.

    Raises UnreadableFile.
    """
    directory = directory.rstrip("/") or "/"
    names = files.plain(directory)
    found = find_unfinished(names)
    doomed = read_doomed(files, directory, names, found, log_start_offset=log_start_offset,
                         is_compacted=lambda: policy().compacted)
    alone = {name: one.alone for name, one in doomed.items() if one.alone}
    for name, offsets in alone.items():
        what = f"only this file holds {_in_words(offsets)}, and a broker deletes it when it starts"
        unless = ", as it should if the topic is compacted" if name.endswith(DELETED) and policy().compacted is None else ""
        report(Finding("leftover-only-copy", Where(f"{directory}/{name}"), what + unless))
    for name, one in doomed.items():
        if one.truncated:
            what = (f"only this file holds {_in_words(one.truncated)}, after the end of the log: the log was truncated "
                    "there, on purpose or after damage, and a broker deletes the file when it starts")
            report(Finding("leftover-after-end", Where(f"{directory}/{name}"), what))
    for name in sorted(found.cleaned):
        if name.endswith(_LOG + CLEANED) and name not in alone:
            what = "a compaction or split was interrupted: a broker deletes this file when it starts"
            report(Finding("leftover-file", Where(f"{directory}/{name}"), what))
    for name in sorted(found.invalid):
        if name.endswith(_LOG + SWAP) and name not in alone:
            what = (f"part of a split that was interrupted (offset {found.lowest} was still being written): a broker deletes "
                    "it when it starts")
            report(Finding("leftover-file", Where(f"{directory}/{name}"), what))
    if found.log_swaps:
        over = OverlayFiles(files, 0)
        plan = plan_replacement(over, directory, names, found.log_swaps, LogConfig(), is_compacted=policy().compacted)
        _report_swaps(directory, plan, policy, report)
        _report_transaction_indexes(files, directory, names, plan, report)


def _in_words(ranges: list[Offsets]) -> str:
    more = f" and {count_of(len(ranges) - _MOST_RANGES, 'more range')}" if len(ranges) > _MOST_RANGES else ""
    if len(ranges) == 1:
        return offsets_text(*ranges[0])
    return f"offsets {', '.join(offset_span(first, end) for first, end in ranges[:_MOST_RANGES])}{more}"


def _report_swaps(directory: str, plan: Replacement, policy: Policy, report: Report) -> None:
    replaced = ", ".join(name for name in plan.replaced if is_log_file_name(name)) or "no segment"
    does = f"a starting broker replaces {replaced} with {plan.what}"
    if plan.lost:
        lost = sorted(offsets for each in plan.lost.values() for offsets in each)
        unknown = ", unless the topic is compacted" if policy().compacted is None else ""
        loss = f"; a loss: only the replaced segments hold {_in_words(lost)}{unknown}"
    else:
        loss = ""
    for swap in plan.swaps:
        where = Where(f"{directory}/{swap.name}")
        if swap.fault is not None:
            report(Finding("swap-loses-records", where, f"{swap.fault}: the file is incomplete; {does}{loss}"))
        elif loss and swap is plan.swaps[-1]:
            report(Finding("swap-loses-records", where, f"{does}{loss}"))
        else:
            report(Finding("leftover-file", where, does))


def _report_transaction_indexes(
    files: ReadOnlyFiles, directory: str, names: list[str], plan: Replacement, report: Report
) -> None:
    for name in plan.replaced:
        is_lost = name.endswith(_TXN_INDEX) and f"{name}{SWAP}" not in names and not plan.is_compaction
        if is_lost and files.info(f"{directory}/{name}").size:
            what = f"not harmless: a broker deletes it when it starts, and no {SWAP} file replaces it"
            report(Finding("txnindex-incomplete", Where(f"{directory}/{name}"), what))

"""Which logs of a partition count while a broker puts cleaned ones in the place of others, or was stopped at that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.layout import log_base_offsets
from engine.log.errors import CorruptRecord

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.log.segment.reading import ReadableSegment

SWAP = ".swap"


def logs_in_use(names: Iterable[str]) -> dict[int, str]:
    """Base offset of each log, ascending → the suffix of its files, "" or ".swap".

    A `.swap` file is whole. It counts from when the log in whose place it comes is removed, which is the first one that is:
    until then the old logs hold everything. A broker that starts does the same for good. Mirrors LocalLog.replaceSegments.
    """
    known = list(names)
    plain, swapped = log_base_offsets(known), log_base_offsets(known, SWAP)
    if not set(plain).isdisjoint(swapped):
        swapped = []
    return dict(sorted((dict.fromkeys(swapped, SWAP) | dict.fromkeys(plain, "")).items()))


def superseded_by(segment: ReadableSegment, others: Iterable[int]) -> list[int]:
    """Those of the base offsets `others` whose segments the `.swap` segment replaces: they are about to be removed."""
    try:
        end = segment.read_next_offset()
    except CorruptRecord:  # who reads it meets that again
        return []
    return [base for base in others if segment.base_offset < base < end]

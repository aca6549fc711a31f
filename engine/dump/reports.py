"""The five reports that kafka-dump-log prints to stderr at the end, in its words and its order."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from engine.java.hash_maps import hash_of_text, hash_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Value = TypeVar("Value")
_LIMIT = 100_000  # lines kept for one file and report: an index of 10 MiB has 1.3 million entries


class DumpReports:
    """Collects the reports. Paths are absolute (java.io.File.getAbsolutePath).

    Of several mismatches or gaps with the same first offset Kafka's tool reports only the last one; this reports all.
    Mirrors DumpLogSegments.main and TimeIndexDumpErrors.
    """

    def __init__(self) -> None:
        self._mismatches: dict[str, Lines] = {}
        self._timestamps: dict[str, Lines] = {}
        self._disorder: dict[str, Lines] = {}
        self._not_found: dict[str, Lines] = {}
        self._gaps: dict[str, Lines] = {}

    def index_mismatch(self, path: str, index_offset: int, log_offset: int) -> None:
        """Add an offset index entry that points to a batch with another last offset."""
        self._mismatches.setdefault(path, Lines(once=True)).add(index_offset, log_offset)

    def timestamp_mismatch(self, path: str, index_timestamp: int, log_timestamp: int) -> None:
        """Add a time index entry whose timestamp is not the largest of its batch."""
        self._timestamps.setdefault(path, Lines()).add(index_timestamp, log_timestamp)

    def out_of_order(self, path: str, timestamp: int, previous: int) -> None:
        """Add a time index entry that is not later than the one before."""
        self._disorder.setdefault(path, Lines()).add(timestamp, previous)

    def not_found(self, path: str, index_offset: int, log_offset: int) -> None:
        """Add a time index entry at whose offset no batch ends; `log_offset` −1: no batch reaches it."""
        self._not_found.setdefault(path, Lines()).add(index_offset, log_offset)

    def gap(self, path: str, before: int, after: int) -> None:
        """Add two consecutive offsets of a log with a gap between them."""
        self._gaps.setdefault(path, Lines(once=True)).add(before, after)

    def more_mismatches(self, path: str, count: int) -> None:
        """Add the number of wrong entries of an offset index that were not reported one by one."""
        self._mismatches.setdefault(path, Lines(once=True)).leave_out(count)

    def more_gaps(self, path: str, count: int) -> None:
        """Add the number of gaps in a log that were not reported one by one."""
        self._gaps.setdefault(path, Lines(once=True)).leave_out(count)

    def lines(self) -> Iterator[str]:
        """Return the text, line by line."""
        for path, found in _in_hash_order(self._mismatches):
            yield f"Mismatches in :{path}"
            yield from found.text("  Index offset: {}, log offset: {}", sorted(found.pairs, reverse=True))
        for path, found in _in_hash_order(self._timestamps):
            yield f"Found timestamp mismatch in :{path}"
            yield from found.text("  Index timestamp: {}, log timestamp: {}")
        for path, found in _in_hash_order(self._disorder):
            yield f"Found out of order timestamp in :{path}"
            yield from found.text("  Index timestamp: {}, Previously indexed timestamp: {}")
        for path, found in _in_hash_order(self._not_found):
            yield f"The following indexed offsets are not found in :{path}"
            yield from found.text("Indexed offset: {}, found log offset: {}")
        for path, found in _in_hash_order(self._gaps):
            yield f"Non-consecutive offsets in {path}"
            yield from found.text("  {} is followed by {}", sorted(found.pairs))


class Lines:
    """The lines of one report about one file: pairs of numbers, at most 100,000.

    once  add equal pairs once, among those kept
    """

    def __init__(self, *, once: bool = False) -> None:
        self._once = once
        self._left_out = 0
        self._pairs: dict[tuple[int, int, int], None] = {}

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Return the pairs in the order of their addition."""
        return [(one, other) for one, other, _ in self._pairs]

    def add(self, one: int, other: int) -> None:
        """Add a pair."""
        if len(self._pairs) < _LIMIT:
            self._pairs[one, other, 0 if self._once else len(self._pairs)] = None
        else:
            self.leave_out(1)

    def leave_out(self, count: int) -> None:
        """Add the number of pairs left out."""
        self._left_out += count

    def text(self, line: str, pairs: Iterable[tuple[int, int]] | None = None) -> Iterator[str]:
        """Return a line for each pair (default: in order of addition), and one with the number of pairs left out."""
        for one, other in self.pairs if pairs is None else pairs:
            yield line.format(one, other)
        if self._left_out:
            yield f"  {self._left_out} more"


def _in_hash_order(items: dict[str, Value]) -> Iterable[tuple[str, Value]]:
    """Return the items in the order of a java.util.HashMap."""
    return [(key, items[key]) for key in hash_order(items, hash_of_text)]

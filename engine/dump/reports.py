"""The five reports that kafka-dump-log writes to stderr when all files are done, in its words and its order."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Value = TypeVar("Value")
_LIMIT = 100_000  # lines kept for one file: an index of 10 MiB has 1.3 million entries


class DumpReports:
    """Collects what is reported at the end. Paths are absolute (java.io.File.getAbsolutePath).

    Of several mismatches or gaps with the same first offset that tool keeps only the last; here all are told.
    Mirrors DumpLogSegments.main and TimeIndexDumpErrors.
    """

    def __init__(self) -> None:
        self._mismatches: dict[str, dict[tuple[int, int], None]] = {}
        self._timestamps: dict[str, list[tuple[int, int]]] = {}
        self._disorder: dict[str, list[tuple[int, int]]] = {}
        self._not_found: dict[str, list[tuple[int, int]]] = {}
        self._gaps: dict[str, dict[tuple[int, int], None]] = {}

    def index_mismatch(self, path: str, index_offset: int, log_offset: int) -> None:
        """An offset index entry points to a batch whose last offset is another one."""
        _put(self._mismatches.setdefault(path, {}), index_offset, log_offset)

    def timestamp_mismatch(self, path: str, index_timestamp: int, log_timestamp: int) -> None:
        """A time index entry has another timestamp than the largest of its batch."""
        _append(self._timestamps.setdefault(path, []), index_timestamp, log_timestamp)

    def out_of_order(self, path: str, timestamp: int, previous: int) -> None:
        """A time index entry is not later than the one before."""
        _append(self._disorder.setdefault(path, []), timestamp, previous)

    def not_found(self, path: str, index_offset: int, log_offset: int) -> None:
        """No batch ends at the offset of a time index entry; `log_offset` −1: none reaches it."""
        _append(self._not_found.setdefault(path, []), index_offset, log_offset)

    def gap(self, path: str, before: int, after: int) -> None:
        """Two offsets of a log that do not follow one another."""
        _put(self._gaps.setdefault(path, {}), before, after)

    def lines(self) -> Iterator[str]:
        """The text, line by line."""
        for path, offsets in in_hash_order(self._mismatches):
            yield f"Mismatches in :{path}"
            for one, other in sorted(offsets, reverse=True):
                yield f"  Index offset: {one}, log offset: {other}"
        for path, pairs in in_hash_order(self._timestamps):
            yield f"Found timestamp mismatch in :{path}"
            yield from (f"  Index timestamp: {one}, log timestamp: {other}" for one, other in pairs)
        for path, pairs in in_hash_order(self._disorder):
            yield f"Found out of order timestamp in :{path}"
            yield from (f"  Index timestamp: {one}, Previously indexed timestamp: {other}" for one, other in pairs)
        for path, pairs in in_hash_order(self._not_found):
            yield f"The following indexed offsets are not found in :{path}"
            yield from (f"Indexed offset: {one}, found log offset: {other}" for one, other in pairs)
        for path, offsets in in_hash_order(self._gaps):
            yield f"Non-consecutive offsets in {path}"
            yield from (f"  {before} is followed by {after}" for before, after in sorted(offsets))


def _put(pairs: dict[tuple[int, int], None], one: int, other: int) -> None:
    if len(pairs) < _LIMIT:
        pairs[one, other] = None


def _append(pairs: list[tuple[int, int]], one: int, other: int) -> None:
    if len(pairs) < _LIMIT:
        pairs.append((one, other))


def in_hash_order(items: dict[str, Value]) -> Iterable[tuple[str, Value]]:
    """Items as a java.util.HashMap of the same insertions walks them: by bucket, within a bucket by age."""
    buckets = 16
    while len(items) > buckets * 3 // 4:
        buckets *= 2
    return sorted(items.items(), key=lambda item: _bucket(item[0], buckets))


def _bucket(text: str, buckets: int) -> int:
    """Where a HashMap of `buckets` buckets keeps `text` (String.hashCode, spread as HashMap.hash does)."""
    code = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        code = (31 * code + units[at] * 256 + units[at + 1]) & 0xFFFFFFFF
    return (code ^ (code >> 16)) & (buckets - 1)

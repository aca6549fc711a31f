"""Check offset and time index of a segment against its batches, entry by entry, in one walk over the log.

Current brokers write: in the offset index the last offset of a batch and the byte where the batch begins; in the time index the
largest timestamp so far and the last offset of the first batch that has it. Older brokers wrote other offsets, with which every
lookup has the same result; these are reported as such, not as damage.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, TypeVar

from engine.amounts import count_of
from engine.discovery.names import FileKind, file_name
from engine.findings import Severity
from engine.formats import LONG_MIN, NO_TIMESTAMP, TIME_INDEX_ENTRY, Status
from engine.index.entries import IndexTooLarge
from engine.index.sparse import OffsetIndex, TimeIndex
from engine.kernels import verify as kernel
from engine.kernels.tables import CHECK_FIELDS, DOUBT_FIELDS, Check, OffsetDoubt, TimeDoubt
from engine.log.finding_limits import FileFindings
from engine.record.columns import Table
from engine.record.heads import HeadWalk

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.files import ReadOnlyFiles
    from engine.findings import Finding
    from engine.log.segment.recovery_walk import SegmentScan
    from engine.record.windows import Window

    Report = Callable[[Finding], None]

_Index = TypeVar("_Index", OffsetIndex, TimeIndex)

_FIRST_OFFSETS = 1000  # entries with the first offset of their batch that are stored one by one
_DOUBTFUL = 256  # entries that one kernel call returns


class _Check:
    """Common part of both checks: the entries in the order of the walk, and the kernel's state."""

    def __init__(self, index: OffsetIndex | TimeIndex, report: Report) -> None:
        self.findings = FileFindings(index.path, report)
        self._index = index
        self._size = index.entry_size
        self._order: list[int] | None = None  # numbers of the entries, if they had to be sorted
        self._entries = index.used
        self._state = memoryview(array("q", [0] * CHECK_FIELDS))
        self._state[Check.BEFORE] = LONG_MIN
        self._state[Check.PENDING] = self._state[Check.DECIDED] = -1
        self._state[Check.LARGEST] = NO_TIMESTAMP
        self._doubtful = Table(DOUBT_FIELDS, _DOUBTFUL)
        self._used = 0

    @property
    def count(self) -> int:
        """Number of entries to check."""
        return self._index.used_entries

    def _sort(self, key: Callable[[int], int]) -> None:
        """Sort the entries by `key`: one walk over the log needs them in this order."""
        self._order = sorted(range(self.count), key=key)
        size, used = self._size, self._entries
        self._entries = memoryview(b"".join(used[at * size : (at + 1) * size] for at in self._order))

    def _number(self, entry: int) -> int:
        """The number in the file of the entry at `place` in the order of the walk."""
        return entry if self._order is None else self._order[entry]

    def _left(self) -> range:
        """The places of the entries that the walk did not reach."""
        return range(self._state[Check.NEXT], self.count)

    def _drain(self) -> None:
        for row in range(self._used):
            self._report_doubt([self._doubtful.table[field, row] for field in range(DOUBT_FIELDS)])
        self._used = 0
        self._state[Check.PENDING] = -1

    def feed(self, window: Window) -> None:
        """Compare the entries with the batches of the window."""
        raise NotImplementedError

    def _report_doubt(self, doubt: list[int]) -> None:
        """Report one doubtful entry, as harmless or not."""
        raise NotImplementedError


class OffsetCheck(_Check):
    """The offset index of a segment. Feed it every window of the log, then call `finish`."""

    def __init__(self, index: OffsetIndex, report: Report) -> None:
        super().__init__(index, report)
        self.index = index
        self._first_offsets: list[tuple[int, str]] = []  # entries with a first offset, and the finding if that is wrong
        self._first_count = self._append_count = 0
        disordered = _report_sanity(index, report)
        if disordered:
            self._sort(lambda number: index.entry(number).position)

    def feed(self, window: Window) -> None:
        """Compare the entries with the batches of the window."""
        row, status = 0, Status.FULL
        while status == Status.FULL:
            row, self._used, status = kernel.check_offset_entries(
                kernel.Entries(self._entries, self.index.base_offset), window.batches.table, row, window.rows, window.base,
                self._state, self._doubtful.table, self._used,
            )
            if status == Status.FULL:
                self._drain()

    def finish(self, end: int) -> None:
        """End the check; the last whole batch of the log ends at byte `end`."""
        self._drain()
        for entry in self._left():
            number = self._number(entry)
            offset, position = self.index.entry(number)
            what = (f"entry {number} points to byte {position}, but the last batch ends at byte {end}: not harmless, after a "
                    "clean start a broker ")
            self.findings.add("index-beyond-log", what + "trusts it", number * self._size, offset)
        if self._state[Check.DECIDED] >= 0:  # the broker wrote last offsets, so the other entries must have them too
            for number, what in self._first_offsets:
                self.findings.add("index-offset-mismatch", what, number * self._size, self.index.entry(number).offset)
        elif self._first_count:
            what = f"{self._first_count} of {count_of(self.count, 'entry')} with the first offset of the batch, not the last"
            self.findings.add("index-first-offsets", what)
        if self._append_count:
            entries = f"{self._append_count} of {count_of(self.count, 'entry')}"
            what = f"{entries} with the last offset of a later batch of the same append"
            self.findings.add("index-append-offsets", what)

    def _report_doubt(self, doubt: list[int]) -> None:
        number = self._number(doubt[OffsetDoubt.ENTRY])
        offset, position = self.index.entry(number)
        previous, first, last = doubt[OffsetDoubt.PREVIOUS], doubt[OffsetDoubt.FIRST], doubt[OffsetDoubt.LAST]
        at = number * self._size
        if not doubt[OffsetDoubt.IS_BATCH]:
            what = f"entry {number} points to byte {position}, where no batch begins: not harmless, reads from offset "
            self.findings.add("index-beyond-log", f"{what}{offset} fail", at, offset)
            return
        what = f"entry {number} has offset {offset}, the batch at byte {position} ends at {last}"
        harmless = ": harmless, lookups find the right batch"
        if offset <= previous:
            what += f": not harmless, reads from offset {offset} to {previous} begin after them"
        elif offset > doubt[OffsetDoubt.LAST_BEFORE_NEXT]:
            is_last = doubt[OffsetDoubt.ENTRY] == self.count - 1
            what += ": not harmless, the log ends before" if is_last else ": harmless, lookups only read further"
        elif doubt[OffsetDoubt.OLD_FORMAT] or offset == first:
            self._first_count += 1
            if len(self._first_offsets) < _FIRST_OFFSETS:
                self._first_offsets.append((number, what + harmless))
            return
        elif offset > last and doubt[OffsetDoubt.IS_LAST_OFFSET]:
            self._append_count += 1
            return
        else:
            what += harmless
        self.findings.add("index-offset-mismatch", what, at, offset)


class TimeCheck(_Check):
    """The time index of a segment. Feed it every window of the log, then call `finish`."""

    def __init__(self, index: TimeIndex, report: Report) -> None:
        super().__init__(index, report)
        self.index = index
        self._record_offsets = self._without_timestamp = 0
        if _report_sanity(index, report):
            self._sort(lambda number: index.entry(number).offset)

    @property
    def largest_timestamp(self) -> int:
        """The largest timestamp of the batches so far."""
        return self._state[Check.LARGEST]

    def feed(self, window: Window) -> None:
        """Compare the entries with the batches of the window."""
        row, status = 0, Status.FULL
        while status == Status.FULL:
            row, self._used, status = kernel.check_time_entries(
                kernel.Entries(self._entries, self.index.base_offset), window.batches.table, row, window.rows,
                self._state, self._doubtful.table, self._used,
            )
            if status == Status.FULL:
                self._drain()

    def finish(self, is_closed: bool) -> None:
        """End the check. `is_closed`: no broker has the segment open for writing, or was killed while it had."""
        self._drain()
        for entry in self._left():
            number = self._number(entry)
            offset = self.index.entry(number).offset
            what = f"entry {number}: the log ends at offset {self._state[Check.BEFORE]}"
            if not self._state[Check.NEXT] and self._state[Check.BEFORE] == LONG_MIN:
                what = f"entry {number}: the log has no batches"
            self.findings.add("timeindex-offset-not-found", what + ": not harmless", number * self._size, offset)
        if self._record_offsets:
            what = f"{self._record_offsets} of {count_of(self.count, 'entry')} with an offset inside the batch, not its last"
            self.findings.add("timeindex-record-offsets", what)
        if self._without_timestamp:
            entries = f"{self._without_timestamp} of {count_of(self.count, 'entry')}"
            what = f"{entries} for batches of format 0, which keep no timestamp"
            self.findings.add("timeindex-unverifiable", what)
        last = self.index.last_entry().timestamp
        if is_closed and last < self.largest_timestamp:
            says = f"ends with {last} ms" if self.count else "has no entries"
            what = f"the index {says}, the largest timestamp of the segment is {self.largest_timestamp} ms"
            self.findings.add("timeindex-incomplete", what)

    def _report_doubt(self, doubt: list[int]) -> None:
        number = self._number(doubt[TimeDoubt.ENTRY])
        timestamp, offset = self.index.entry(number)
        first, last, stamp = doubt[TimeDoubt.FIRST], doubt[TimeDoubt.LAST], doubt[TimeDoubt.STAMP]
        before, at = doubt[TimeDoubt.STAMP_BEFORE], number * self._size
        what = f"entry {number} has {timestamp} ms"
        if before >= timestamp:
            what += f", batches before offset {offset} reach {before} ms: not harmless, lookups by time begin after them"
            self.findings.add("timeindex-timestamp-mismatch", what, at, offset)
        elif not first <= offset <= last:
            what = f"entry {number}: no batch holds offset {offset}: harmless, lookups by time find the right batch"
            self.findings.add("timeindex-offset-not-found", what, at, offset)
        elif doubt[TimeDoubt.OLD_FORMAT]:
            self._without_timestamp += 1
        elif stamp == timestamp:
            self._record_offsets += 1
        else:
            is_last = number == self.count - 1
            harm = ": not harmless, retention uses the last entry" if is_last else ": harmless, lookups only read further"
            what += f", the batch that ends at offset {last} has {stamp} ms as its largest" + harm
            self.findings.add("timeindex-timestamp-mismatch", what, at, offset)


def _report_sanity(index: OffsetIndex | TimeIndex, report: Report) -> bool:
    """Report damage of the file itself, except the zeros at its end. Returns whether its entries are out of order."""
    disordered = False
    for finding in index.sanity():
        if finding.code != "index-zero-tail":
            report(finding)
        disordered = disordered or finding.code in ("index-out-of-order", "timeindex-out-of-order")
    return disordered


def broken_indexes(files: ReadOnlyFiles, log_path: str, base_offset: int, scan: SegmentScan) -> dict[str, str]:
    """What is wrong in the offset and time index of a segment that are going to be rebuilt from `scan`: by file name.

    An index that begins with the entries that it will get is sound; any other one is compared with the headers of the batches.
    Entries after the last sound batch are not wrong: they prove a loss, see `losses`.
    """
    stem, end, largest = log_path.removesuffix(FileKind.LOG.value), scan.end_offset(base_offset), scan.largest
    found: dict[str, str] = {}

    def note(finding: Finding) -> None:
        if finding.severity is not Severity.INFO:
            found.setdefault(file_name(finding.where.file), finding.what)

    last = b"" if largest.timestamp < 0 else TIME_INDEX_ENTRY.struct.pack(largest.timestamp, largest.offset - base_offset)
    offsets = _doubtful(OffsetIndex, files, stem, base_offset, scan.offset_entries,
                        lambda entry: entry.offset >= end and entry.position >= scan.valid_size)
    times = _doubtful(TimeIndex, files, stem, base_offset, scan.time_entries + last, lambda entry: entry.offset >= end)
    if offsets is None and times is None:
        return found
    offset_check = OffsetCheck(OffsetIndex(b"", base_offset, stem) if offsets is None else offsets, note)
    time_check = TimeCheck(TimeIndex(b"", base_offset, stem) if times is None else times, note)
    with files.open(log_path) as file:
        for window in HeadWalk(file, 0, scan.valid_size):
            offset_check.feed(window)
            time_check.feed(window)
    offset_check.finish(scan.valid_size)
    time_check.finish(is_closed=False)
    return found


_KINDS: dict[type, FileKind] = {OffsetIndex: FileKind.OFFSET_INDEX, TimeIndex: FileKind.TIME_INDEX}


def _doubtful(
    sort: type[_Index], files: ReadOnlyFiles, stem: str, base_offset: int, expected: bytes | bytearray,
    is_beyond: Callable[[Any], bool],
) -> _Index | None:
    """The index, without the entries that `is_beyond`; None: it is missing, too large, or begins as `expected`."""
    path = stem + _KINDS[sort].value
    try:
        index = sort.read(files, path, base_offset) if files.exists(path) else None
    except IndexTooLarge:  # it is reported where it is opened
        return None
    if index is None:
        return None
    size, used = index.entry_size, bytes(index.used)
    kept = b"".join(
        used[at : at + size] for at, entry in zip(range(0, len(used), size), index, strict=False) if not is_beyond(entry)
    )
    if index.odd_size():
        return index
    return None if expected.startswith(kept) else sort(kept, base_offset, path)

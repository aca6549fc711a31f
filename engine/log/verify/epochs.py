"""leader-epoch-checkpoint against the leader epochs in the batches, and the order of the batches' offsets."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from engine.findings import Finding, Where
from engine.formats import MAGIC_V2, NO_PARTITION_LEADER_EPOCH, BatchField
from engine.kernels.verify import next_turn
from engine.log.verify.indexes import FileFindings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.checkpoint.leader_epochs import EpochEntry
    from engine.record.windows import Window

    Report = Callable[[Finding], None]


class EpochCheck:
    """Feed it every window of every log of a partition, from the first segment on.

    entries           the checkpoint's, in growing order; None: they can not be relied on, only the batches are checked
    path              of the checkpoint
    log_start_offset  records before it are no part of the log any more; None: not known
    """

    def __init__(
        self, entries: Sequence[EpochEntry] | None, path: str, log_start_offset: int | None, report: Report
    ) -> None:
        self._entries = entries
        self._starts = [entry.start_offset for entry in entries or ()]
        self._path, self._report = path, report
        self._findings = FileFindings(path, report)
        self._log_start_offset = log_start_offset
        self._runs: list[tuple[int, int, int]] = []  # batches of one epoch in a row: epoch, first offset, last offset
        self._epoch = NO_PARTITION_LEADER_EPOCH
        self._first = 0  # base offset of the first batch of the run
        self._last = -1  # last offset so far
        self._floor = -1  # before the base offset of a segment whose first batch is still to come

    @property
    def starts(self) -> list[int]:
        """Where the epochs of the checkpoint begin."""
        return self._starts

    def begin_segment(self, base_offset: int) -> None:
        """A segment begins: no batch of it may lie below."""
        self._floor = base_offset - 1

    def feed(self, window: Window, log_path: str) -> None:
        """Follow epochs and offsets of the window's batches, which come from `log_path`."""
        table, row = window.batches.table, 0
        while row < window.rows:
            turn = next_turn(table, row, window.rows, self._epoch, max(self._last, self._floor))
            if turn > row:
                self._floor = -1
                self._last = table[BatchField.LAST_OFFSET, turn - 1]
            if turn < window.rows:
                self._turn(window, turn, log_path)
                turn += 1
            row = turn

    def _turn(self, window: Window, row: int, log_path: str) -> None:
        """A batch of another epoch, or out of order."""
        table = window.batches.table
        base, epoch = table[BatchField.BASE_OFFSET, row], table[BatchField.LEADER_EPOCH, row]
        where = Where(log_path, window.base + table[BatchField.POSITION, row], base)
        if base <= self._last:
            self._report(Finding("offset-order", where, f"a batch from offset {base} follows offset {self._last}"))
        elif base <= self._floor:
            what = f"a batch from offset {base} in a segment that begins at {self._floor + 1}"
            self._report(Finding("offset-order", where, what))
        self._floor = -1
        if epoch != self._epoch:
            self._end_run()
            if table[BatchField.MAGIC, row] < MAGIC_V2:
                self._runs.clear()  # the broker forgets all epochs when a batch without one is appended
            elif epoch < NO_PARTITION_LEADER_EPOCH:
                what = f"leader epoch {epoch}: there is no such epoch, and no checksum covers them"
                self._report(Finding("epochs-mismatch", where, what))
                epoch = NO_PARTITION_LEADER_EPOCH  # no checkpoint has it
            elif self._runs and epoch < self._runs[-1][0]:
                what = f"leader epoch {epoch} after {self._runs[-1][0]}: epochs never go back, and no checksum covers them"
                self._report(Finding("epochs-mismatch", where, what))
            self._epoch, self._first = epoch, base
        self._last = table[BatchField.LAST_OFFSET, row]

    def _end_run(self) -> None:
        if self._epoch != NO_PARTITION_LEADER_EPOCH:
            self._runs.append((self._epoch, self._first, self._last))

    def finish(self) -> None:
        """The log ends: compare."""
        self._end_run()
        if self._entries is None:
            return
        first_start = self._starts[0] if self._starts else None
        for epoch, first, last in self._runs:
            start = max(first, self._log_start_offset or 0)
            if first_start is not None and start < first_start and self._log_start_offset is None:
                if start == self._runs[0][1]:
                    what = f"nothing is said of offsets {start} to {first_start - 1}"
                    self._report(Finding("epochs-start-late", Where(self._path, None, start), what))
                start = first_start
            if start <= last:
                self._compare(self._entries, epoch, start, last)
        for entry in self._entries:
            if entry.start_offset > self._last + 1:
                what = f"epoch {entry.epoch} begins at offset {entry.start_offset}, the log ends before {self._last + 1}"
                self._report(Finding("epochs-beyond-log", Where(self._path, None, entry.start_offset), what))

    def _compare(self, entries: Sequence[EpochEntry], epoch: int, first: int, last: int) -> None:
        """Offsets `first` to `last` are of `epoch`: does the checkpoint say so?"""
        number = bisect_right(self._starts, first) - 1
        if number < 0:
            what = f"nothing is said of offset {first}, whose batch has epoch {epoch}"
            self._findings.add("epochs-mismatch", what, None, first)
        elif entries[number].epoch != epoch:
            what = f"offset {first} would be of epoch {entries[number].epoch}, its batch has epoch {epoch}"
            self._findings.add("epochs-mismatch", what, None, first)
        for entry in entries[number + 1 : bisect_right(self._starts, last)]:
            if entry.epoch != epoch:
                what = f"epoch {entry.epoch} would begin at offset {entry.start_offset}, its batch has epoch {epoch}"
                self._findings.add("epochs-mismatch", what, None, entry.start_offset)

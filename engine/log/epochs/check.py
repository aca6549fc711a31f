"""leader-epoch-checkpoint against the leader epochs in the batches, and the order of the batches' offsets.

Which epochs of batches to believe is judged as recovery judges it (EpochRuns), and for the log as a whole.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from engine.findings import Finding, Where
from engine.formats import LONG_MAX, MAGIC_V2, NO_PARTITION_LEADER_EPOCH, BatchField, can_be_followed
from engine.kernels.verify import next_turn
from engine.log.epochs.runs import DecidedRuns, EpochDoubt, EpochRun
from engine.log.finding_limits import FileFindings, FindingLimiter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.checkpoint.checkpoints import EpochEntry
    from engine.record.windows import Window

    Report = Callable[[Finding], None]


class EpochCheck:
    """Feed it every window of every log of a partition, from the first segment on.

    entries           the checkpoint's, in growing order; None: they cannot be relied on, only the batches are checked
    path              of the checkpoint
    log_start_offset  records before it are no part of the log any more; None: not known
    """

    def __init__(
        self, entries: Sequence[EpochEntry] | None, path: str, log_start_offset: int | None, report: Report
    ) -> None:
        self._entries = entries
        self._starts = [entry.start_offset for entry in entries or ()]
        self._path, self._report = path, report
        self._log_start_offset = log_start_offset
        self._runs = DecidedRuns()
        self._number = 0  # of the next run
        self._run: EpochRun | None = None  # batches of one epoch in a row, which go on
        self._open: dict[EpochRun, tuple[str, int]] = {}  # not decided, and few: path of the log, and position there
        self._lasts: dict[EpochRun, int] = {}  # last offsets of those that are over
        self._trusted: tuple[int, int, int] | None = None  # epoch, first offset, last offset: to compare, when it is over
        self._epoch = NO_PARTITION_LEADER_EPOCH
        self._last = -1  # last offset so far
        self._floor = -1  # before the base offset of a segment whose first batch is still to come
        self._begin_comparing()

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
        """A batch of another epoch, out of order, or after which no other can come."""
        table = window.batches.table
        base, epoch = table[BatchField.BASE_OFFSET, row], table[BatchField.LEADER_EPOCH, row]
        position = window.base + table[BatchField.POSITION, row]
        if base <= self._last:
            what = f"a batch from offset {base} follows offset {self._last}"
            self._report(Finding("offset-order", Where(log_path, position, base), what))
        elif base <= self._floor:
            what = f"a batch from offset {base} in a segment that begins at {self._floor + 1}"
            self._report(Finding("offset-order", Where(log_path, position, base), what))
        self._floor = -1
        last = table[BatchField.LAST_OFFSET, row]
        if not can_be_followed(base, last):
            what = f"the batch ends at offset {LONG_MAX} or above"
            self._report(Finding("no-offset-left", Where(log_path, position, base), what))
        if epoch != self._epoch:
            self._end_run()
            if table[BatchField.MAGIC, row] >= MAGIC_V2:
                self._begin_run(epoch, base, log_path, position)
            else:
                self._begin_comparing()  # the broker forgets all epochs when a batch without one is appended
            self._epoch = epoch
        self._last = last

    # ---- runs, and which of them to believe

    def _begin_run(self, epoch: int, base: int, log_path: str, position: int) -> None:
        self._run = run = EpochRun(epoch, base, self._number)
        self._number += 1
        if epoch != NO_PARTITION_LEADER_EPOCH:
            self._open[run] = log_path, position
        self._runs.add(run)
        self._take_decided()

    def _end_run(self) -> None:
        if self._run in self._open:
            self._lasts[self._run] = self._last
        self._run = None

    def _take_decided(self) -> None:
        for run, beside in self._runs.decided:
            path, position = self._open.pop(run)
            last = self._lasts.pop(run, None)
            if beside is not None:
                self._compare_trusted()
                what = EpochDoubt(run, beside, 1).text
                self._report(Finding("epoch-order", Where(path, position, run.first_offset), what))
            elif last is not None:
                self._trust(run, last)
        self._runs.decided.clear()

    # ---- the checkpoint

    def _begin_comparing(self) -> None:
        """Nothing that came before is to be compared."""
        self._lasts.clear()
        self._trusted = None
        self._held: list[Finding] = []  # of the checkpoint
        self._dam = FindingLimiter(self._held.append)
        self._findings = FileFindings(self._path, self._dam)
        self._is_start_told = False

    def _trust(self, run: EpochRun, last: int) -> None:
        """The batches of `run`, up to offset `last`, are of its epoch."""
        if self._trusted is not None and self._trusted[0] == run.epoch:
            self._trusted = (run.epoch, self._trusted[1], last)
            return
        self._compare_trusted()
        self._trusted = (run.epoch, run.first_offset, last)

    def _compare_trusted(self) -> None:
        trusted, self._trusted = self._trusted, None
        if trusted is None or self._entries is None:
            return
        epoch, first, last = trusted
        start = max(first, self._log_start_offset or 0)
        first_start = self._starts[0] if self._starts else None
        if first_start is not None and start < first_start and self._log_start_offset is None:
            if not self._is_start_told:
                what = f"no entry for offsets {start} to {first_start - 1}"
                self._findings.add("epochs-start-late", what, None, start)
                self._is_start_told = True
            start = first_start
        if start <= last:
            self._compare(self._entries, epoch, start, last)

    def _compare(self, entries: Sequence[EpochEntry], epoch: int, first: int, last: int) -> None:
        """Offsets `first` to `last` are of `epoch`: does the checkpoint say so?"""
        number = bisect_right(self._starts, first) - 1
        if number < 0:
            what = f"no entry for offset {first}, whose batch has epoch {epoch}"
            self._findings.add("epochs-mismatch", what, None, first)
        elif entries[number].epoch != epoch:
            what = f"offset {first} would have epoch {entries[number].epoch}, its batch has epoch {epoch}"
            self._findings.add("epochs-mismatch", what, None, first)
        for entry in entries[number + 1 : bisect_right(self._starts, last)]:
            if entry.epoch != epoch:
                what = f"epoch {entry.epoch} would begin at offset {entry.start_offset}, its batch has epoch {epoch}"
                self._findings.add("epochs-mismatch", what, None, entry.start_offset)

    def finish(self) -> None:
        """The log ends: compare what is left, and report what is wrong with the checkpoint."""
        self._end_run()
        self._runs.finish(self._last + 1)
        self._take_decided()
        self._compare_trusted()
        self._dam.finish()
        for finding in self._held:
            self._report(finding)

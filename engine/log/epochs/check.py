"""Check leader-epoch-checkpoint against the leader epochs in the batches, and the order of the batches' offsets.

Which epochs in batches are correct is decided as in recovery (EpochRuns), for the log as a whole.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from engine.amounts import offsets_text
from engine.findings import Finding, Where
from engine.formats import LONG_MAX, MAGIC_V2, NO_PARTITION_LEADER_EPOCH, BatchField, can_be_followed
from engine.kernels.verify import next_epoch_break
from engine.log.epochs.runs import DecidedRuns, EpochDoubt, EpochRun
from engine.log.finding_limits import FileFindings, FindingLimiter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.checkpoint.checkpoints import EpochEntry
    from engine.record.windows import Window

    Report = Callable[[Finding], None]


class EpochCheck:
    """Call it with every window of every log of a partition, in order.

    entries           of the checkpoint, ascending; None: they are not reliable, only the batches are checked
    path              of the checkpoint
    log_start_offset  earlier records are not part of the log any more; None: not known
    """

    def __init__(
        self, entries: Sequence[EpochEntry] | None, path: str, log_start_offset: int | None, report: Report
    ) -> None:
        self._entries = entries
        self._starts = [entry.start_offset for entry in entries or ()]
        self._path, self._report = path, report
        self._log_start_offset = log_start_offset
        self._runs = DecidedRuns()
        self._batches = 0  # in the windows so far
        self._run: EpochRun | None = None  # the current run: consecutive batches with the same epoch
        self._open: dict[EpochRun, tuple[str, int]] = {}  # undecided runs (few): path of the log, and position in it
        self._lasts: dict[EpochRun, int] = {}  # last offsets of the finished ones of them
        self._trusted: tuple[int, int, int] | None = None  # epoch, first and last offset: compared when the next epoch begins
        self._epoch = NO_PARTITION_LEADER_EPOCH
        self._last = -1  # last offset so far
        self._floor = -1  # offset before the base offset of a segment whose first batch was not read yet
        self._begin_comparing()

    @property
    def starts(self) -> list[int]:
        """Start offsets of the epochs in the checkpoint."""
        return self._starts

    def begin_segment(self, base_offset: int) -> None:
        """Start a segment: no batch in it may be below `base_offset`."""
        self._floor = base_offset - 1

    def feed(self, window: Window, log_path: str) -> None:
        """Check epochs and offsets of the window's batches, which come from `log_path`."""
        table, row = window.batches.table, 0
        while row < window.rows:
            turn = next_epoch_break(table, row, window.rows, self._epoch, max(self._last, self._floor))
            if turn > row:
                self._floor = -1
                self._last = table[BatchField.LAST_OFFSET, turn - 1]
            if turn < window.rows:
                self._turn(window, turn, log_path)
                turn += 1
            row = turn
        self._batches += window.rows

    def _turn(self, window: Window, row: int, log_path: str) -> None:
        """Process a batch that has another epoch, is out of order, or has no offset left after it."""
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
                self._begin_run(EpochRun(epoch, base, self._batches + row, self._batches + row), log_path, position)
            else:
                self._begin_comparing()  # a broker clears all epochs when it appends a batch without one
            self._epoch = epoch
        self._last = last

    # ---- runs, and which of them are correct

    def _begin_run(self, run: EpochRun, log_path: str, position: int) -> None:
        self._run = run
        if run.epoch != NO_PARTITION_LEADER_EPOCH:
            self._open[run] = log_path, position
        self._runs.add(run)
        self._process_decided()

    def _end_run(self) -> None:
        if self._run in self._open:
            self._lasts[self._run] = self._last
        self._run = None

    def _process_decided(self) -> None:
        for run, neighbour in self._runs.decided:
            path, position = self._open.pop(run)
            last = self._lasts.pop(run, None)
            if neighbour is not None:
                self._compare_trusted()
                what = EpochDoubt(run, neighbour, 1).text
                self._report(Finding("epoch-order", Where(path, position, run.first_offset), what))
            elif last is not None:
                self._trust(run, last)
        self._runs.decided.clear()

    # ---- the checkpoint

    def _begin_comparing(self) -> None:
        """Discard everything that was not compared yet."""
        self._lasts.clear()
        self._trusted = None
        self._held: list[Finding] = []  # findings about the checkpoint
        self._limiter = FindingLimiter(self._held.append)
        self._findings = FileFindings(self._path, self._limiter)
        self._is_start_reported = False

    def _trust(self, run: EpochRun, last: int) -> None:
        """The batches of `run`, up to offset `last`, have the correct epoch."""
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
            if not self._is_start_reported:
                what = f"no entry for {offsets_text(start, first_start)}"
                self._findings.add("epochs-start-late", what, None, start)
                self._is_start_reported = True
            start = first_start
        if start <= last:
            self._compare(self._entries, epoch, start, last)

    def _compare(self, entries: Sequence[EpochEntry], epoch: int, first: int, last: int) -> None:
        """Compare the checkpoint with batches at offsets `first` to `last`, whose epoch is `epoch`."""
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
        """End the log: compare the rest, and report the findings about the checkpoint."""
        self._end_run()
        self._runs.finish(self._last + 1)
        self._process_decided()
        self._compare_trusted()
        self._limiter.finish()
        for finding in self._held:
            self._report(finding)

"""Decide which leader epochs in a log's batches are correct. Epochs never decrease, and no checksum covers them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import count_of
from engine.formats import NO_PARTITION_LEADER_EPOCH

if TYPE_CHECKING:
    from engine.log.segment.producer_rows import RecoveringEpochs


class EpochRun(NamedTuple):
    """Consecutive batches with the same leader epoch: base offset, position and number of the first one."""

    epoch: int
    first_offset: int
    position: int
    number: int


class EpochDoubt(NamedTuple):
    """The first run that contradicts its neighbours, the epoch of its neighbour, and the number of such runs."""

    run: EpochRun
    neighbour: int
    runs: int

    @property
    def text(self) -> str:
        """The problem in words."""
        more = f", and {count_of(self.runs - 1, 'more such run')}" if self.runs > 1 else ""
        neighbour = f", next to epoch {self.neighbour}" if self.neighbour != NO_PARTITION_LEADER_EPOCH else ""
        return f"leader epoch {self.run.epoch}{neighbour}: epochs never decrease, and no checksum covers them{more}"


class EpochRuns:
    """Decides which runs have a correct epoch. Add them in the order of the log; only few of them are stored.

    If a run has a lower epoch than the one before it, one of both is doubtful. It is the earlier one, unless the third run
    has the epoch of the earlier one again, or a higher one. At the end of the log there is no third run: then the longer of
    the two is correct. But if the earlier run is a single batch, between others with one epoch, that batch is doubtful.

    Kafka uses each epoch that is higher than all earlier ones.
    """

    def __init__(self) -> None:
        self._candidates: dict[EpochRun, bool] = {}  # above all earlier epochs, or all correct ones → is it doubtful?
        self._highest = self._trusted = NO_PARTITION_LEADER_EPOCH  # highest epoch so far, and highest correct one
        self.doubt: EpochDoubt | None = None
        self.newest = NO_PARTITION_LEADER_EPOCH  # epoch of the last run
        self._before = NO_PARTITION_LEADER_EPOCH  # the last correct epoch
        self.last_offset = -1  # first offset of its run
        self._high: EpochRun | None = None  # not decided
        self._low: EpochRun | None = None  # the run after it, with a lower epoch
        self._begin: list[EpochRun] = []  # the first two runs

    @property
    def last(self) -> int:
        """The epoch of the last run that is not doubtful so far; −1: there is none."""
        return self._before if self._high is None else self._high.epoch

    @property
    def undecided(self) -> EpochRun | None:
        """The last run, if no lower epoch follows it yet."""
        return self._high if self._low is None else None

    @property
    def only(self) -> EpochRun | None:
        """The first run, if it is the only one."""
        return self._begin[0] if len(self._begin) == 1 else None

    @property
    def first_offset(self) -> int | None:
        """First offset of the first run; None: there is none."""
        return self._begin[0].first_offset if self._begin else None

    def doubt_only(self, neighbour: int) -> None:
        """Mark the only run as doubtful: its neighbour has the epoch `neighbour`."""
        if self.only is not None:
            self._doubt(self.only, neighbour)

    @property
    def entries(self) -> list[tuple[EpochRun, bool]]:
        """Runs with an epoch above all earlier ones, or above all correct earlier ones, in order; True: doubtful."""
        return sorted(self._candidates.items(), key=lambda item: item[0].position)

    @property
    def trusted(self) -> list[EpochRun]:
        """The runs of `entries` that are not doubtful."""
        return [run for run, is_doubtful in self.entries if not is_doubtful]

    def add(self, run: EpochRun) -> None:
        """Add the next run, which has another epoch."""
        self.newest = run.epoch
        if len(self._begin) < 2:
            self._begin.append(run)
        if run.epoch > self._highest:
            self._highest = run.epoch
            self._candidates[run] = False
        self._add(run)

    def _add(self, run: EpochRun) -> None:
        if run.epoch == NO_PARTITION_LEADER_EPOCH:
            return  # the epoch was unknown when it was written: this says nothing about other runs
        if run.epoch < 0:
            self._doubt(run, self.last)
        elif self._high is None or (self._low is None and run.epoch >= self._high.epoch):
            self._trust(self._high)
            self._high = run
        elif self._low is None:
            self._low = run
        elif run.epoch == self._high.epoch or (run.epoch > self._high.epoch and not self._is_back(self._high, self._low)):
            self._doubt(self._low, self._high.epoch)
            self._trust(self._high)
            self._high, self._low = run, None
        else:
            self._doubt(self._high, self._low.epoch)
            self._high, self._low = self._low, None
            self._add(run)

    def _is_back(self, high: EpochRun, low: EpochRun, before: int = NO_PARTITION_LEADER_EPOCH) -> bool:
        """Is `high` a single batch, after which `low` continues the epoch that was last correct?"""
        last = self._before if self._before >= 0 else before
        return low.epoch == last and low.number - high.number == 1

    def outlasts(self, low: EpochRun, end_offset: int, following: int, before: int, since: int) -> bool:
        """Is the last run before `low` correct, and `low` is doubtful? It ends at `end_offset`.

        following      epoch of the run after `low`; −1: none     before, since  see finish
        """
        high = self._high
        if high is None:
            return False
        first = since if self._begin[0] == high and high.epoch == before else high.first_offset
        is_longer = low.first_offset - first > end_offset - low.first_offset
        is_correct = following > high.epoch or (following < 0 and is_longer)
        return following == high.epoch or (is_correct and not self._is_back(high, low, before))

    def finish(
        self, end_offset: int, before: int = NO_PARTITION_LEADER_EPOCH, following: int = NO_PARTITION_LEADER_EPOCH,
        since: int = -1,
    ) -> None:
        """End the runs at `end_offset`. A second call does nothing.

        before, following  correct epochs of the batches before and after all runs; −1: not known
        since              first offset of the run of epoch `before`
        """
        begin = self._begin
        if begin and 0 <= begin[0].epoch < before <= max(begin[-1].epoch, following):
            self._doubt(begin[0], before)
        high, low = self._high, self._low
        if high is not None and low is not None:
            if self.outlasts(low, end_offset, following, before, since):
                self._doubt(low, high.epoch)
            else:
                self._doubt(high, low.epoch)
                high = low
        if high is not None and 0 <= following < high.epoch:
            self._doubt(high, following)
        else:
            self._trust(high)
        self._high = self._low = None
        self._begin = []

    def _trust(self, run: EpochRun | None) -> None:
        if run is not None:
            self._before, self.last_offset = run.epoch, run.first_offset
            if run.epoch > self._trusted:
                self._trusted = run.epoch
                self._candidates.setdefault(run, False)

    def _doubt(self, run: EpochRun, neighbour: int) -> None:
        if run in self._candidates:
            self._candidates[run] = True
        first, near = (run, neighbour) if self.doubt is None else self.doubt[:2]
        self.doubt = EpochDoubt(first, near, 1 if self.doubt is None else self.doubt.runs + 1)


def add_epochs(leader_epochs: RecoveringEpochs, runs: EpochRuns, *, refuses_doubtful: bool = False) -> None:
    """Add the epochs of `runs` above the latest one to `leader_epochs`, as Kafka does. Doubtful epochs are not added if either
    refuses them, or other epochs would have to be removed for them.
    """
    refuses_doubtful |= leader_epochs.refuses_doubtful
    for run, is_doubtful in runs.entries:
        is_news = leader_epochs.latest_epoch is None or run.epoch > leader_epochs.latest_epoch
        if is_news and not (is_doubtful and (refuses_doubtful or leader_epochs.knows_from(run.first_offset))):
            leader_epochs.assign(run.epoch, run.first_offset)


class DecidedRuns(EpochRuns):
    """EpochRuns that also returns the decision about each run, as soon as it is made.

    decided  (run, None) for a correct run, (run, epoch of its neighbour) for a doubtful one; the user of the class clears
             it. Runs without an epoch are not in it. The first run is in it again if `finish` gets an epoch before it
    """

    def __init__(self) -> None:
        super().__init__()
        self.decided: list[tuple[EpochRun, int | None]] = []

    def _trust(self, run: EpochRun | None) -> None:
        super()._trust(run)
        if run is not None:
            self.decided.append((run, None))

    def _doubt(self, run: EpochRun, neighbour: int) -> None:
        super()._doubt(run, neighbour)
        self.decided.append((run, neighbour))

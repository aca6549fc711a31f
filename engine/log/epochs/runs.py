"""Which leader epochs of a log's batches to believe: they never go back, and no checksum covers them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.formats import BATCH_HEADER, LOG_OVERHEAD, MAGIC_V2, NO_PARTITION_LEADER_EPOCH

if TYPE_CHECKING:
    from engine.files import OpenFile
    from engine.log.segment.producer_rows import RecoveringEpochs


def first_leader_epochs(file: OpenFile) -> tuple[int, int]:
    """The lower and the higher one of the first two batches of a .log: who asks for the end at which one flipped bit does no
    harm. −1 where there is none, or it has none.
    """
    first, end = _epoch_at(file, 0)
    second, _ = _epoch_at(file, end)
    return (first if second < 0 else min(first, second)), max(first, second)


def _epoch_at(file: OpenFile, position: int) -> tuple[int, int]:
    """The leader epoch of the batch that begins there, −1 without one, and where the next batch begins."""
    if file.size() - position < BATCH_HEADER.size:
        return NO_PARTITION_LEADER_EPOCH, position
    head = file.read(position, BATCH_HEADER.size)
    if len(head) < BATCH_HEADER.size or BATCH_HEADER.field("magic", head) < MAGIC_V2:
        return NO_PARTITION_LEADER_EPOCH, position
    size = max(BATCH_HEADER.size, BATCH_HEADER.field("batch_length", head) + LOG_OVERHEAD)
    return BATCH_HEADER.field("partition_leader_epoch", head), position + size


class EpochRun(NamedTuple):
    """Batches of one leader epoch in a row: the base offset and the position of the first."""

    epoch: int
    first_offset: int
    position: int


class EpochDoubt(NamedTuple):
    """The first run that its neighbours contradict, the epoch that stands beside it, and how many such runs there are."""

    run: EpochRun
    beside: int
    runs: int

    @property
    def text(self) -> str:
        """What is wrong there."""
        more = f", and {self.runs - 1} more runs of batches contradict the runs around them" if self.runs > 1 else ""
        beside = f", next to epoch {self.beside}" if self.beside != NO_PARTITION_LEADER_EPOCH else ""
        return f"leader epoch {self.run.epoch}{beside}: epochs never decrease, and no checksum covers them{more}"


class EpochRuns:
    """Feed it the runs in the order of the log; it remembers few of them, however many there are.

    A run that the next one goes back below is doubtful; or the next one is, where the one after it is back again and the
    next one does not go on where the log was before them. At the end, where there is none after it, the longer of the two
    is believed, with the same exception.

    Kafka believes each epoch above all before it.
    """

    def __init__(self) -> None:
        self._taken: dict[EpochRun, bool] = {}  # above all before, or all believed before → is it doubtful?
        self._highest = self._trusted = NO_PARTITION_LEADER_EPOCH  # so far
        self.doubt: EpochDoubt | None = None
        self.newest = NO_PARTITION_LEADER_EPOCH  # of the last run
        self._before = NO_PARTITION_LEADER_EPOCH  # the last epoch that is believed
        self.last_offset = -1  # where that begins
        self._high: EpochRun | None = None  # not decided
        self._low: EpochRun | None = None  # after it, of a lower epoch
        self._begin: list[EpochRun] = []  # the first two

    @property
    def last(self) -> int:
        """The epoch of the last run that is no doubtful one, so far; −1: there is none."""
        return self._before if self._high is None else self._high.epoch

    @property
    def undecided(self) -> EpochRun | None:
        """The last run, where nothing below it follows yet."""
        return self._high if self._low is None else None

    @property
    def only(self) -> EpochRun | None:
        """The first run, where no other came."""
        return self._begin[0] if len(self._begin) == 1 else None

    def doubt_only(self, beside: int) -> None:
        """The only run is not to be believed: `beside` stands before it."""
        if self.only is not None:
            self._doubt(self.only, beside)

    @property
    def entries(self) -> list[tuple[EpochRun, bool]]:
        """Runs whose epoch is above all before them, or above all believed ones, in order, and whether they are doubtful."""
        return sorted(self._taken.items(), key=lambda taken: taken[0].position)

    @property
    def trusted(self) -> list[EpochRun]:
        """Of these, those that are not doubtful and above each other."""
        return [run for run, is_doubtful in self.entries if not is_doubtful]

    def add(self, run: EpochRun) -> None:
        """The next batches are of another epoch."""
        self.newest = run.epoch
        if len(self._begin) < 2:
            self._begin.append(run)
        if run.epoch > self._highest:
            self._highest = run.epoch
            self._taken[run] = False
        self._add(run)

    def _add(self, run: EpochRun) -> None:
        if run.epoch == NO_PARTITION_LEADER_EPOCH:
            return  # nobody knew it; it says nothing of others
        if run.epoch < 0:
            self._doubt(run, self.last)
        elif self._high is None or (self._low is None and run.epoch >= self._high.epoch):
            self._trust(self._high)
            self._high = run
        elif self._low is None:
            self._low = run
        elif run.epoch == self._high.epoch or (run.epoch > self._high.epoch and self._low.epoch != self._before):
            self._doubt(self._low, self._high.epoch)
            self._trust(self._high)
            self._high, self._low = run, None
        else:
            self._doubt(self._high, self._low.epoch)
            self._high, self._low = self._low, None
            self._add(run)

    def finish(
        self, end_offset: int, before: int = NO_PARTITION_LEADER_EPOCH, following: int = NO_PARTITION_LEADER_EPOCH
    ) -> None:
        """The runs end at `end_offset`; epochs of batches `before` and `following` them, which are to be relied on, −1: nothing
        is known of any.

        A second time it does nothing.
        """
        begin, self._begin = self._begin, []
        if begin and 0 <= begin[0].epoch < before <= max(begin[-1].epoch, following):
            self._doubt(begin[0], before)
        high, low = self._high, self._low
        if high is not None and low is not None:
            is_longer = low.first_offset - high.first_offset > end_offset - low.first_offset
            is_back = low.epoch in (self._before, before)
            if following == high.epoch or (not is_back and (following > high.epoch or (following < 0 and is_longer))):
                self._doubt(low, high.epoch)
            else:
                self._doubt(high, low.epoch)
                high = low
        if high is not None and 0 <= following < high.epoch:
            self._doubt(high, following)
        else:
            self._trust(high)
        self._high = self._low = None

    def _trust(self, run: EpochRun | None) -> None:
        if run is not None:
            self._before, self.last_offset = run.epoch, run.first_offset
            if run.epoch > self._trusted:
                self._trusted = run.epoch
                self._taken.setdefault(run, False)

    def _doubt(self, run: EpochRun, beside: int) -> None:
        if run in self._taken:
            self._taken[run] = True
        first, near = (run, beside) if self.doubt is None else self.doubt[:2]
        self.doubt = EpochDoubt(first, near, 1 if self.doubt is None else self.doubt.runs + 1)


def take_epochs(leader_epochs: RecoveringEpochs, runs: EpochRuns) -> None:
    """Let `leader_epochs` take those above its latest, as Kafka does, but for doubtful ones that it refuses, or would forget
    others for.
    """
    for run, is_doubtful in runs.entries:
        is_news = leader_epochs.latest_epoch is None or run.epoch > leader_epochs.latest_epoch
        if is_news and not (is_doubtful and (leader_epochs.refuses_doubtful or leader_epochs.knows_from(run.first_offset))):
            leader_epochs.assign(run.epoch, run.first_offset)


class DecidedRuns(EpochRuns):
    """The same, and what is decided of each run, as soon as it is.

    decided  runs, and of doubtful ones the epoch that stands beside them, of others None; for the caller to empty. Those
             without an epoch never come here, and the first is decided again from the epochs before it that `finish` gets.
    """

    def __init__(self) -> None:
        super().__init__()
        self.decided: list[tuple[EpochRun, int | None]] = []

    def _trust(self, run: EpochRun | None) -> None:
        super()._trust(run)
        if run is not None:
            self.decided.append((run, None))

    def _doubt(self, run: EpochRun, beside: int) -> None:
        super()._doubt(run, beside)
        self.decided.append((run, beside))

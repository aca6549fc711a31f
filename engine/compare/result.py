"""The result of a comparison of two replicas of a partition."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from engine.compare.lineage import truncation_offset
from engine.findings import First
from engine.formats import LONG_MAX, NO_TIMESTAMP

if TYPE_CHECKING:
    from engine.compare.replica import Batch, Place, Replica

SHOWN = 1000  # differences, gaps and producer ids that are kept; others are counted


class Verdict(Enum):
    """How two replicas relate."""

    SAME = "same"
    PREFIX = "prefix"  # one of them only ends earlier
    FORKED = "forked"  # each has records that the other does not have, from the fork offset on
    DIFFERS = "differs"  # not forked, but batches or records before the common end are not the same


class Kind(Enum):
    """Why two batches with the same offsets differ."""

    DAMAGE = "damage"  # the checksum of one or both is wrong
    RECORDS = "records"  # both checksums are right
    EPOCH = "epoch"  # only the leader epoch differs, which no checksum covers
    OFFSET = "offset"  # only the offset differs, which no checksum covers


class Difference(NamedTuple):
    """Offsets first … end − 1, which both replicas have, but in different batches."""

    kind: Kind
    first: int
    end: int
    batches: tuple[Batch, Batch]


@dataclass(slots=True)
class Extent:
    """Records that only one of the replicas has, from offset `first` up to, not including, `end`.

    records    with transaction markers, of which there are `markers`
    readable   records below the high watermark of this side: at least these, if it is known
    producers  ids; at most SHOWN are kept
    """

    first: int
    end: int = 0
    batches: int = 0
    records: int = 0
    markers: int = 0
    size: int = 0
    readable: int = 0
    first_time: int | None = None
    last_time: int | None = None
    is_transactional: bool = False
    producers: set[int] = field(default_factory=set)
    epochs: set[int] = field(default_factory=set)

    def add(self, batch: Batch, records: int, high_watermark: int | None) -> None:
        """Add `records` records of a batch."""
        self.end = max(self.end, batch.last_offset + 1, self.first + 1)  # a damaged batch may end anywhere
        self.batches += 1
        self.records += records
        self.size += batch.size
        self.markers += records if batch.is_control else 0
        first = max(self.first, batch.base_offset)
        if high_watermark is not None and first < high_watermark:
            self.readable += min(records, high_watermark - first)
        if batch.max_timestamp != NO_TIMESTAMP:
            earliest = batch.max_timestamp if batch.first_timestamp < 0 else min(batch.first_timestamp, batch.max_timestamp)
            self.first_time = earliest if self.first_time is None else min(self.first_time, earliest)
            self.last_time = max(batch.max_timestamp, batch.max_timestamp if self.last_time is None else self.last_time)
        self.is_transactional |= batch.is_transactional
        for known, number in ((self.producers, batch.producer_id), (self.epochs, batch.leader_epoch)):
            if number >= 0 and len(known) < SHOWN:
                known.add(number)


class Side:
    """What a comparison found out about one replica.

    after      its records from the common end on, and where their first batch is; None: it ends there
    missing    its records before the common end that the other does not have, and that the cleaner does not explain
    gaps       ranges of offsets [first, end) with these records
    compacted  records that the cleaner has removed from the other replica
    truncates_to  as a follower of the other; None: to its high watermark
    """

    def __init__(self, replica: Replica, truncates_to: int | None) -> None:
        self.replica = replica
        self.after: Extent | None = None
        self.place: Place | None = None
        self.missing: Extent | None = None
        self.gaps: First[tuple[int, int]] = First(SHOWN)
        self.compacted = 0
        self.truncates_to = truncates_to


class Comparison:
    """The result of a comparison of two replicas.

    start       earlier offsets are not compared: one of the logs begins here
    common_end  up to this offset they have the same history: the fork offset if both continue
    by_epochs   the fork offset by the leader epochs; LONG_MAX: there is none before the end of a log; None: not known
    rebatched   places with the same records in different batches
    repeated    records right after the fork that both have, at the same offsets in other epochs: a producer sent them again
    """

    def __init__(self, one: Replica, other: Replica) -> None:
        self.sides = (
            Side(one, truncation_offset(one.lineage, other.lineage)),
            Side(other, truncation_offset(other.lineage, one.lineage)),
        )  # fmt: skip
        self.start = self.common_end = max(one.start, other.start)
        self.differences: First[Difference] = First(SHOWN)
        self.rebatched = self.repeated = 0
        known = [side.truncates_to for side in self.sides if side.truncates_to is not None]
        self.by_epochs: int | None = None
        if len(known) == len(self.sides):
            self.by_epochs = min(known) if min(known) < min(one.end, other.end) else LONG_MAX

    @property
    def verdict(self) -> Verdict:
        """How the replicas relate; a fork counts more than differences."""
        longer = [side for side in self.sides if side.after is not None]
        if len(longer) > 1:
            return Verdict.FORKED
        if self.differences or any(side.missing is not None for side in self.sides):
            return Verdict.DIFFERS
        return Verdict.PREFIX if longer else Verdict.SAME

    @property
    def last_common_epoch(self) -> int | None:
        """The leader epoch of the last common record; None: there is none, or it is not known."""
        if self.common_end <= self.start:
            return None
        return self.sides[0].replica.lineage.epoch_at(self.common_end - 1)

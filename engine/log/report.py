"""What an operation did, or would do, to a partition: typed events in the order in which they happened.

Text, JSON and --dry-run show the same `Report`; over an `OverlayFiles` it says what the real run will do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, TypedDict, Unpack

from engine.findings import Severity

if TYPE_CHECKING:
    from engine.errors import KafkalogError
    from engine.findings import Finding

_YEAR_9999_MS = 253_402_300_799_999


class Action(Enum):
    """What happened to a file or a segment. The value is the word of the JSON output."""

    KEPT = "kept"  # looked at and left as it is, also what is wrong with it
    RECOVERED = "recovered"  # read to its end: indexes rebuilt, nothing lost
    TRUNCATED = "truncated"  # bytes at its end were cut
    REMOVED = "removed"  # deleted
    MARKED = "marked"  # renamed to .deleted and left there
    REBUILT = "rebuilt"  # from other files on the disk
    RENAMED = "renamed"  # got its final name: an interrupted replacement was completed; or the name that fits its batches
    CREATED = "created"
    SPLIT = "split"  # into segments whose offsets fit their indexes
    COMPACTED = "compacted"  # rewritten without superseded records
    EXPLAINED = "explained"  # said, not done
    MOVED = "moved"  # an offset of the log: no file
    SALVAGED = "salvaged"  # rewritten without its damaged bytes: what follows them is kept
    REFUSED = "refused"  # was asked for and not done
    MISSING = "missing"  # was lost before: nothing on the disk has it


class Event(NamedTuple):
    """One thing that happened.

    path          file name in the partition directory; "" for the partition as a whole
    reason        why, one clause
    first_offset, end_offset   offsets concerned, the end exclusive; None where unknown or meaningless
    records, size              records and bytes concerned; None where unknown
    severity      INFO: as it should be · WARNING: something was wrong and is mended without loss, or may have been lost before
                  · ERROR: records lost
    to            a new name
    producer_id, age_ms        of a transaction: whose, and for how long it has been open; None where unknown or meaningless
    keys, tombstones           of a compaction: distinct keys of what was dirty, tombstones that go; None where meaningless
    is_torn       of bytes that are truncated: they are the rest of a write that was cut off, not a whole batch
    """

    action: Action
    path: str
    reason: str
    first_offset: int | None = None
    end_offset: int | None = None
    records: int | None = None
    size: int | None = None
    severity: Severity = Severity.INFO
    to: str | None = None
    producer_id: int | None = None
    age_ms: int | None = None
    keys: int | None = None
    tombstones: int | None = None
    is_torn: bool = False


def leaves_doubt(action: Action, severity: Severity) -> bool:
    """Does an event say that something in the files is still wrong, or was refused?"""
    return action is Action.REFUSED or (action is Action.KEPT and severity is not Severity.INFO)


def loses_records(event: Event) -> bool:
    """Were bytes lost that were on the disk, damaged or not, or evidence of lost ones?

    The rest of a write that was cut off is none, nor is what is wrong and stays.
    """
    if event.severity is not Severity.ERROR or event.action is Action.KEPT:
        return False
    return not event.is_torn or bool(event.records)


class _Details(TypedDict, total=False):
    """What few events have; see Event."""

    to: str | None
    keys: int
    tombstones: int
    is_torn: bool


@dataclass(slots=True)
class Report:
    """The events of one operation on the partition in `directory`, and how its log stands afterwards.

    Offsets are None until the log could be opened. `segments` and `size` (bytes) count what is left.
    unread_below  batches below this offset were believed, not read; None: everything was read, or nothing was opened
    failure       why it did not finish; the events say what was done before
    has_doubtful_epochs  leader-epoch-checkpoint has an epoch that most batches contradict
    has_holes     offsets are missing inside a segment that was read, as the cleaner leaves them
    next_end_offset  where the next start finds the log end: `log_end_offset`, as Kafka has it, may lie after the last
                     batch after a truncation, and below the active segment after a roll
    """

    directory: str
    operation: str
    findings: list[Finding] = field(default_factory=list)
    log_start_offset: int | None = None
    log_end_offset: int | None = None
    next_end_offset: int | None = None
    recovery_point: int | None = None
    segments: int | None = None
    size: int | None = None
    unread_below: int | None = None
    has_holes: bool = False
    has_doubtful_epochs: bool = False
    failure: KafkalogError | None = None
    _events: list[Event] = field(default_factory=list)
    _dropped: dict[tuple[Action, str], int] = field(default_factory=dict)  # how many of the first events it is about

    @property
    def events(self) -> list[Event]:
        """All events, in the order in which they happened."""
        if self._dropped:
            dropped, self._dropped = self._dropped, {}
            self._events = [event for number, event in enumerate(self._events)
                            if number >= dropped.get((event.action, event.path), 0)]
        return self._events

    @events.setter
    def events(self, events: list[Event]) -> None:
        self._events, self._dropped = events, {}

    def add(
        self, action: Action, path: str, reason: str, *, offsets: tuple[int | None, int | None] = (None, None),
        records: int | None = None, size: int | None = None, severity: Severity = Severity.INFO,
        **details: Unpack[_Details],
    ) -> None:
        """Note one event."""
        self._events.append(Event(action, path, reason, *offsets, records, size, severity, **details))

    def copy_log_state(self, other: Report) -> None:
        """The log stands as `other` says, whose events are not taken."""
        self.log_start_offset, self.log_end_offset, self.next_end_offset = (
            other.log_start_offset, other.log_end_offset, other.next_end_offset)
        self.recovery_point, self.segments, self.size = other.recovery_point, other.segments, other.size
        self.unread_below = other.unread_below

    def drop(self, action: Action, path: str) -> None:
        """Forget what was noted of this kind about `path`: it happened once more."""
        self._dropped[action, path] = len(self._events)  # for each of very many segments: they go when somebody looks

    def begin_again(self, first: int) -> None:
        """The log is opened once more, in another way, after the first events: what was kept is checked again.

        What was done to files since then stays.
        """
        events = self.events
        self.events = events[:first] + [event for event in events[first:] if event.action is not Action.KEPT]
        self.unread_below = None

    def find(self, action: Action) -> list[Event]:
        """The events of one kind."""
        return [event for event in self.events if event.action is action]

    @property
    def worst(self) -> Severity:
        """The worst severity of all events."""
        order = list(Severity)
        return max((event.severity for event in self.events), key=order.index, default=Severity.INFO)

    @property
    def has_problems_left(self) -> bool:
        """Is something still wrong, or was something refused?"""
        return self.is_doubtful or any(event.action is Action.MISSING for event in self.events)

    @property
    def is_doubtful(self) -> bool:
        """Is something in the files still wrong, or was something refused?"""
        return any(leaves_doubt(event.action, event.severity) for event in self.events)

    @property
    def is_refused(self) -> bool:
        """Was something asked for that could not be done?"""
        return any(event.action is Action.REFUSED for event in self.events)


def moment(ms: int) -> str:
    """A time of the day in UTC, and the number of ms that Kafka has; only the number where no calendar has the day."""
    if not 0 <= ms <= _YEAR_9999_MS:
        return f"{ms} ms"
    return f"{datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec='milliseconds').replace('+00:00', 'Z')} ({ms} ms)"

"""What an operation did, or would do, to a partition, as typed events in the order in which they happened.

Text output, JSON output and --dry-run use the same `Report`. Over an `OverlayFiles` it describes what the real run will do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, TypedDict, Unpack

from engine.amounts import time_text
from engine.findings import Severity

if TYPE_CHECKING:
    from engine.errors import KafkalogError
    from engine.findings import Finding


class Action(Enum):
    """What happened to a file or a segment. The value is the word of the JSON output."""

    KEPT = "kept"  # read and left unchanged; with a severity above INFO the event says what is wrong with it
    RECOVERED = "recovered"  # read to its end: indexes rebuilt, nothing lost
    TRUNCATED = "truncated"  # bytes at its end were removed
    REMOVED = "removed"  # deleted
    MARKED = "marked"  # renamed to .deleted and left there
    REBUILT = "rebuilt"  # written again from other files on the disk
    RENAMED = "renamed"  # to complete an interrupted replacement, or because its old name did not fit its batches
    CREATED = "created"
    SPLIT = "split"  # into segments whose offsets fit their indexes
    COMPACTED = "compacted"  # rewritten without superseded records
    EXPLAINED = "explained"  # information only: nothing was changed
    MOVED = "moved"  # an offset of the log, for example the high watermark; not a file
    SALVAGED = "salvaged"  # rewritten without its damaged bytes; the batches after them are kept
    REFUSED = "refused"  # was requested and not done
    MISSING = "missing"  # was lost before this operation; nothing on the disk contains it


class Event(NamedTuple):
    """One change of a partition, or one fact about it.

    path          file name in the partition directory; "" for the partition as a whole
    reason        why, one clause
    first_offset, end_offset   offsets concerned, the end exclusive; None where unknown or meaningless
    records, size              records and bytes concerned; None where unknown
    severity      INFO: nothing was wrong · WARNING: a problem was repaired without loss, or records may have been lost before
                  · ERROR: records were lost
    to            the new name of a renamed file
    producer_id, age_ms        of a transaction: whose, and for how long it has been open; None where unknown or meaningless
    keys, tombstones           of a compaction: distinct keys in the dirty part, removed tombstones; None where meaningless
    is_torn       the truncated bytes are the rest of an interrupted write, not a whole batch
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
    """Does the event report that something in the files is still wrong, or that something was refused?"""
    return action is Action.REFUSED or (action is Action.KEPT and severity is not Severity.INFO)


def loses_records(event: Event) -> bool:
    """Were records, or bytes that may have been records, removed from the disk?

    The rest of an interrupted write is not a loss. Damage that is reported and left unchanged is not one either.
    """
    if event.severity is not Severity.ERROR or event.action is Action.KEPT:
        return False
    return not event.is_torn or bool(event.records)


def lost_offsets(report: Report) -> list[tuple[int, int]]:
    """Return the offsets [first, end) that the events of an operation remove from the log, or found missing."""
    return [
        (event.first_offset, event.end_offset) for event in report.events
        if (event.action is Action.MISSING or loses_records(event)) and event.first_offset is not None
        and event.end_offset is not None and event.first_offset < event.end_offset
    ]  # fmt: skip


class _Details(TypedDict, total=False):
    """Fields that few events have; see Event."""

    to: str | None
    keys: int
    tombstones: int
    is_torn: bool


@dataclass(slots=True)
class Report:
    """The events of one operation on the partition in `directory`, and the state of its log afterwards.

    Offsets are None until the log could be opened. `segments` and `size` (bytes) count what remains.
    unread_below  batches below this offset were not read; None: all were read, or no log was opened
    failure       why the operation did not finish; the events say what was done before it failed
    has_doubtful_epochs  leader-epoch-checkpoint has an epoch that most batches contradict
    next_end_offset  the log end that the next start will find. `log_end_offset`, as Kafka defines it, may be higher: after a
                     truncation it may lie after the last batch. After a roll it may be below the base of the active segment
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
    has_doubtful_epochs: bool = False
    failure: KafkalogError | None = None
    _events: list[Event] = field(default_factory=list)
    _dropped: dict[tuple[Action, str], int] = field(default_factory=dict)  # see `drop`: only events before this number

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
        """Add one event."""
        self._events.append(Event(action, path, reason, *offsets, records, size, severity, **details))

    def copy_log_state(self, other: Report) -> None:
        """Copy the state of the log, but no events, from `other`."""
        self.log_start_offset, self.log_end_offset, self.next_end_offset = (
            other.log_start_offset, other.log_end_offset, other.next_end_offset)
        self.recovery_point, self.segments, self.size = other.recovery_point, other.segments, other.size
        self.unread_below = other.unread_below

    def drop(self, action: Action, path: str) -> None:
        """Remove the earlier events with this action and path, because it happened again."""
        self._dropped[action, path] = len(self._events)  # removed lazily, by `events`: there may be very many segments

    def begin_again(self, first: int) -> None:
        """Keep the first `first` events; of the later ones remove those with action KEPT, as the log is opened once more.

        The later events about changes of files stay.
        """
        events = self.events
        self.events = events[:first] + [event for event in events[first:] if event.action is not Action.KEPT]
        self.unread_below = None

    def find(self, action: Action) -> list[Event]:
        """The events with one action."""
        return [event for event in self.events if event.action is action]

    @property
    def worst(self) -> Severity:
        """The worst severity of all events."""
        order = list(Severity)
        return max((event.severity for event in self.events), key=order.index, default=Severity.INFO)

    @property
    def has_problems_left(self) -> bool:
        """Is something still wrong, missing or refused?"""
        return self.is_doubtful or any(event.action is Action.MISSING for event in self.events)

    @property
    def is_doubtful(self) -> bool:
        """Is something in the files still wrong, or was something refused?"""
        return any(leaves_doubt(event.action, event.severity) for event in self.events)

    @property
    def is_refused(self) -> bool:
        """Was something requested that could not be done?"""
        return any(event.action is Action.REFUSED for event in self.events)


def moment(ms: int) -> str:
    """Format milliseconds since 1970 as a UTC time and the number itself; outside of the years 1970 … 9999 only the number."""
    text = time_text(ms)
    return text if text == f"{ms} ms" else f"{text} ({ms} ms)"

"""Read messages of an open log of Kafka 0.7 from the offset of an entry on. Damage ends the reading, with a finding."""

from __future__ import annotations

from collections import deque
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from engine.errors import UsageError
from engine.findings import Finding, Where
from engine.kafka07.entries import SIZE_FIELD, MessageAndOffset, open_sets
from engine.kafka07.file import iterate_file, tail_problem, walk
from engine.kafka07.segment import OffsetOutOfRange07

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.files import OpenFile, ReadOnlyFiles
    from engine.kafka07.log import Log07
    from engine.kafka07.segment import Segment07
    from engine.record.damage import Problem

    Report = Callable[[Finding], None]


class NoBatch(NamedTuple):
    """The batch attributes of a message of 0.7, which has no batch."""

    magic: int = 0
    is_log_append_time: bool = False
    partition_leader_epoch: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    position: int = -1


class Message(NamedTuple):
    """A message with the fields of a `Record`. Its offset is that of the entry that contains it."""

    offset: int
    value: bytes | None
    key: bytes | None = None
    timestamp: int = -1
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    batch: NoBatch = NoBatch()
    sequence: int = -1


class Reader07:
    """Reads an open log, at most `max_bytes` of whole entries, but at least one. `report` receives damage."""

    def __init__(self, files: ReadOnlyFiles, log: Log07, report: Report, max_bytes: int | None = None) -> None:
        self._files, self._log, self._report, self._left = files, log, report, max_bytes
        self._is_first = True

    def check_offset(self, at: int) -> None:
        """Raise OffsetOutOfRange07, or UsageError if no entry begins at the offset and the log does not end there."""
        if not self._log.log_start_offset <= at <= self._log.log_end_offset:
            raise OffsetOutOfRange07(at)
        for segment in self._log.segments:
            if segment.start <= at < segment.end:
                self._check_entry(segment, at)

    def _check_entry(self, segment: Segment07, offset: int) -> None:
        with self._files.open(segment.path) as file:
            before = end = 0
            for position, size, _, _ in walk(file, segment.size):
                if position > offset - segment.start:
                    break
                before, end = position, position + SIZE_FIELD + size
        if offset - segment.start not in (before, end):  # at the end, reading will report the entry that cannot be read
            before += segment.start
            what = f"no entry begins at offset {offset}: the entry that contains it begins at {before}"
            raise UsageError(what, do=f"--offset {before}")

    def last_messages(self, start: int, end: int, count: int) -> tuple[int, int]:
        """Return (offset of an entry, messages from there on) for the last `count` messages in [start, end)."""
        entries: deque[tuple[int, int]] = deque()  # the last entries: (offset, messages)
        held = 0
        for offset, messages in groupby(self.messages(start), attrgetter("offset")):
            if offset >= end:
                break
            entries.append((offset, sum(1 for _ in messages)))
            held += entries[-1][1]
            while entries and held - entries[0][1] >= count:
                held -= entries.popleft()[1]
        return (entries[0][0], held) if entries else (self._log.log_end_offset, 0)

    def messages(self, start: int) -> Iterator[Message]:
        """Return the messages from the entry at `start` on, compressed sets opened, up to the first damage."""
        for segment in self._log.segments:
            if segment.end <= start:
                continue
            with self._files.open(segment.path) as file:
                begin = max(0, start - segment.start)
                after = begin
                for entry in self._within(iterate_file(file, segment.start, begin=begin, end=segment.size)):
                    after = entry.offset - segment.start + SIZE_FIELD + entry.size
                    for message in open_sets(iter([entry])):
                        problem = message.error
                        if problem is None and isinstance(message, MessageAndOffset) and message.valid is False:
                            problem = message.crc_problem()
                        if problem is not None:
                            self._report_problem(segment, entry.offset, problem)
                            return
                        assert isinstance(message, MessageAndOffset)  # the other type has an error
                        yield Message(message.offset, None if message.payload is None else bytes(message.payload))
                if self._is_end(file, segment, after):
                    return

    def copy(self, start: int, send: Callable[[OpenFile, int, int], None]) -> None:
        """Pass whole entries from `start` on, unchanged, to `send`: (file, position, size)."""
        for segment in self._log.segments:
            if segment.end <= start:
                continue
            with self._files.open(segment.path) as file:
                begin = end = max(0, start - segment.start)
                for position, size, _, _ in walk(file, segment.size, begin=begin):
                    if not self._fits(SIZE_FIELD + size):
                        break
                    end = position + SIZE_FIELD + size
                send(file, begin, end - begin)
                if self._is_end(file, segment, end):
                    return

    def _is_end(self, file: OpenFile, segment: Segment07, position: int) -> bool:
        """Return whether reading ends at `position`, the end of the wanted part of a segment. Damage there is a finding."""
        if self._left is not None and self._left <= 0:
            return True
        problem = tail_problem(file, position, segment.size)
        if problem is not None:
            self._report_problem(segment, segment.start + position, problem)
        return problem is not None

    def _within(self, entries: Iterator[MessageAndOffset]) -> Iterator[MessageAndOffset]:
        for entry in entries:
            if not self._fits(SIZE_FIELD + entry.size):
                return
            yield entry

    def _fits(self, size: int) -> bool:
        """Count an entry of `size` bytes if there is room for it; returns whether there is."""
        if self._left is None:
            return True
        if size > self._left and not self._is_first:
            self._left = 0
            return False
        self._left, self._is_first = self._left - size, False
        return True

    def _report_problem(self, segment: Segment07, offset: int, problem: Problem) -> None:
        self._report(Finding(problem.code, Where(segment.path, offset - segment.start, offset), problem.what))

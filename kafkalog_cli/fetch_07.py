"""What `fetch` reads of a log of Kafka 0.7: messages, whose offsets are the places of their entries in the log."""

from __future__ import annotations

import sys
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, cast

from engine.errors import UsageError
from engine.files import Files, now_ms
from engine.findings import Finding, Where
from engine.kafka07.entries import SIZE_FIELD, MessageAndOffset, open_sets
from engine.kafka07.file import iterate_file, tail_problem, walk
from engine.kafka07.log import open_log_07
from engine.kafka07.segment import Config07, OffsetOutOfRange07
from engine.overlay import OverlayFiles
from kafkalog_cli.fetch_output import send
from kafkalog_cli.selecting import EARLIEST, LATEST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.files import OpenFile, ReadOnlyFiles
    from engine.kafka07.log import Log07
    from engine.kafka07.segment import Segment07
    from engine.record.batch import Record
    from engine.record.damage import Problem
    from kafkalog_cli.app import Outcome
    from kafkalog_cli.fetch_output import Renderer, Wanted


class _Batch(NamedTuple):
    """What a message of 0.7 has of a batch: nothing."""

    magic: int = 0
    is_log_append_time: bool = False
    partition_leader_epoch: int = -1


class _Message(NamedTuple):
    """A message in the shape of a Record."""

    offset: int
    value: bytes | None
    key: bytes | None = None
    timestamp: int = -1
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    batch: _Batch = _Batch()


def fetch_07(path: str, wanted: Wanted, renderer: Renderer | None, outcome: Outcome, left: int | None = None) -> int:
    """Show what is wanted of the log at `path`, `left` messages at most; without a renderer, its entries as they are.

    Returns how many messages were shown. Nothing is changed.

    An offset must be that of an entry. Raises UsageError, OffsetOutOfRange07, and Refused07 for a log that does not open.
    """
    _check(path, wanted)
    files = OverlayFiles(Files(), now_ms())  # opening makes a file where there is none: in memory
    with open_log_07(files, path.rstrip("/"), Config07(), now=now_ms(), need_recovery=False) as log:
        reader = _Reader(files, log, outcome, wanted.max_bytes)
        if renderer is None:
            reader.copy(reader.start(wanted.start))
            return 0
        last = -wanted.start if isinstance(wanted.start, int) and wanted.start < 0 else wanted.selection.tail
        if last is not None:
            messages: Iterator[MessageAndOffset] = iter(deque(reader.messages(log.log_start_offset), maxlen=last))
        else:
            messages = reader.messages(reader.start(wanted.start))
        shown = 0
        for message in islice(messages, left):
            if message.offset >= wanted.selection.end_offset:
                break
            renderer.record(cast("Record", _Message(message.offset, cast("bytes | None", message.payload))))
            shown += 1
        return shown


def _copied(message: MessageAndOffset) -> MessageAndOffset:
    """`message` with bytes of its own: the last ones may wait, and must not keep whole sets for that."""
    return message._replace(payload=bytes(message.payload)) if isinstance(message.payload, memoryview) else message


def _check(path: str, wanted: Wanted) -> None:
    """Raise UsageError for what a log of 0.7 has nothing for."""
    given = {
        "--open-transactions": wanted.open_transactions is not None,
        "--follow": wanted.follow, "--merge": wanted.merge,
        "--log-start-offset": wanted.log_start_offset is not None, "--high-watermark": wanted.high_watermark is not None,
        "a number of last messages with --raw": wanted.raw and isinstance(wanted.start, int) and wanted.start < 0,
        "--tail together with --offset": wanted.selection.tail is not None and wanted.start != EARLIEST,
        **dict.fromkeys(wanted.selection.unknown_to_07(), True),
    }  # fmt: skip
    unknown = [option for option, is_given in given.items() if is_given]
    if unknown:
        raise UsageError(f"{path}: a log of Kafka 0.7 does not support {', '.join(unknown)}", path=path)


class _Reader:
    """Reads an open log, no more than `max_bytes` of whole entries, at least one."""

    def __init__(self, files: ReadOnlyFiles, log: Log07, outcome: Outcome, max_bytes: int | None) -> None:
        self._files, self._log, self._outcome, self._left = files, log, outcome, max_bytes
        self._is_first = True

    def start(self, offset: int | str) -> int:
        """The offset to begin with, where an entry begins or the log ends."""
        if offset == EARLIEST:
            return self._log.log_start_offset
        if offset == LATEST:
            return self._log.log_end_offset
        at = int(offset)
        if not self._log.log_start_offset <= at <= self._log.log_end_offset:
            raise OffsetOutOfRange07(at)
        for segment in self._log.segments:
            if segment.start <= at < segment.end:
                self._check_entry(segment, at)
        return at

    def _check_entry(self, segment: Segment07, offset: int) -> None:
        with self._files.open(segment.path) as file:
            before = end = 0
            for position, size, _, _ in walk(file, segment.size):
                if position > offset - segment.start:
                    break
                before, end = position, position + SIZE_FIELD + size
        if offset - segment.start not in (before, end):  # at the end no entry can be read, which is said when it is tried
            before += segment.start
            what = f"no entry begins at offset {offset}: the entry that contains it begins at {before}"
            raise UsageError(what, do=f"--offset {before}")

    def messages(self, start: int) -> Iterator[MessageAndOffset]:
        """Messages from the entry at `start` on, compressed sets opened, up to the first damage, which is a finding."""
        for segment in self._log.segments:
            if segment.end <= start:
                continue
            with self._files.open(segment.path) as file:
                begin = max(0, start - segment.start)
                behind = begin
                for entry in self._within(iterate_file(file, segment.start, begin=begin, end=segment.size)):
                    behind = entry.offset - segment.start + SIZE_FIELD + entry.size
                    for message in open_sets(iter([entry])):
                        problem = message.error
                        if isinstance(message, MessageAndOffset) and message.valid is False and problem is None:
                            problem = message.crc_problem()
                        if problem is not None:
                            self._report(segment, entry.offset, problem)
                            return
                        yield _copied(cast("MessageAndOffset", message))
                if self._ends(file, segment, behind):
                    return

    def copy(self, start: int) -> None:
        """Whole entries from `start` on to stdout, as they stand there."""
        sys.stdout.flush()
        for segment in self._log.segments:
            if segment.end <= start:
                continue
            with self._files.open(segment.path) as file:
                begin = end = max(0, start - segment.start)
                for position, size, _, _ in walk(file, segment.size, begin=begin):
                    if not self._takes(SIZE_FIELD + size):
                        break
                    end = position + SIZE_FIELD + size
                send(file, begin, end - begin)
                if self._ends(file, segment, end):
                    return

    def _ends(self, file: OpenFile, segment: Segment07, position: int) -> bool:
        """Was that all, now that what is wanted of a segment ended at `position`? Damage there is a finding."""
        if self._left is not None and self._left <= 0:
            return True
        problem = tail_problem(file, position, segment.size)
        if problem is not None:
            self._report(segment, segment.start + position, problem)
        return problem is not None

    def _within(self, entries: Iterator[MessageAndOffset]) -> Iterator[MessageAndOffset]:
        for entry in entries:
            if not self._takes(SIZE_FIELD + entry.size):
                return
            yield entry

    def _takes(self, size: int) -> bool:
        """Is there room for an entry of `size` bytes? Counts it."""
        if self._left is None:
            return True
        if size > self._left and not self._is_first:
            self._left = 0
            return False
        self._left, self._is_first = self._left - size, False
        return True

    def _report(self, segment: Segment07, offset: int, problem: Problem) -> None:
        where = Where(segment.path, offset - segment.start, offset)
        self._outcome.finding(Finding(problem.code, where, problem.what))

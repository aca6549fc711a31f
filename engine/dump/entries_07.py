"""The entries of a log of Kafka 0.7 one by one, as far as a selection wants them; what is wrong goes to findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.dump.options import UNLIMITED
from engine.findings import Finding, Where
from engine.formats import LONG_MAX, to_long
from engine.layout import parse_long
from engine.record.damage import Problem
from engine.record.kafka07 import SIZE_FIELD, MessageAndOffset, Stopped, open_sets
from engine.record.kafka07_file import WINDOW, find_entry, iterate_file, tail_problem
from engine.record.soundness import search_ended

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.dump.options import DumpOptions
    from engine.dump.selection import Selector
    from engine.files import OpenFile


def starting_offset(path: str) -> int | None:
    """The offset of the first byte of the file, which its name says up to the first dot; None where it does not."""
    return parse_long(path.rpartition("/")[2].partition(".")[0])


class _Stretches:
    """Where the walks over a log of 0.7 begin: at its start, and with --continue-on-corruption behind every damage.

    report  takes what was skipped, and where

    Iterate once. Who walks keeps `tail`, the position behind the last entry, and `sound`, that behind the last one with a
    right checksum. Afterwards `problem` is what the last walk ended at.
    """

    def __init__(self, file: OpenFile, options: DumpOptions, report: Callable[[int, Problem], None]) -> None:
        size = file.size()
        self.end = size if options.max_bytes == UNLIMITED else min(size, options.max_bytes)
        self._is_limited = self.end < size
        self.tail = self.sound = 0
        self.problem: Problem | None = None
        self._file, self._options, self._report = file, options, report

    def __iter__(self) -> Iterator[int]:
        begin: int | None = 0
        while begin is not None:
            self.tail = self.sound = begin
            yield begin
            self.problem = tail_problem(self._file, self.tail, self.end)
            if self._is_limited and self.problem is not None and self.problem.code == "torn-tail":
                self.problem = None  # the limit cut it off
            begin = self._next_entry()
            if begin is not None:
                self._skipped(begin)

    def _next_entry(self) -> int | None:
        """Where a sound entry begins behind the damage; one behind `sound`, whose checksum was wrong, may have led astray."""
        if self.problem is None or self.problem.code == "zero-tail" or not self._options.continue_on_corruption:
            return None
        largest = self._options.max_batch_bytes
        return find_entry(self._file, self.sound + 1, self.end, max_entry=largest, gave_up=self._gave_up)

    def _gave_up(self, position: int) -> None:
        self._report(position, search_ended(position, self.end))

    def _skipped(self, found: int) -> None:
        damaged = self.tail
        if found <= damaged:
            what = f"a sound entry begins at byte {found}, inside one with a wrong checksum"
            self._report(damaged, Problem("batch-size-invalid", what))
            return
        self._report(damaged, Problem("batch-size-invalid", "no entry begins here, but sound ones follow"))
        what = f"{found - damaged} bytes skipped up to a sound entry at byte {found}"
        self._report(damaged, Problem("skipped-bytes", what))


class Entries07:
    """Iterate once for the entries at the top level, compressed sets shut. Raises UnreadableFile.

    selector   decides which come; None: all. Damage is reported up to where the selection ends
    window     bytes that are read at a time
    in_pieces  entries that a window does not hold come without their payloads, however large they are: the caller reads them

    Offsets are longs of Java's, which wrap. Afterwards `tail` is that behind the last entry; None: the selection ended before.
    """

    def __init__(
        self, file: OpenFile, path: str, options: DumpOptions, report: Callable[[Finding], None],
        selector: Selector | None = None, *, window: int = WINDOW, in_pieces: bool = False,
    ) -> None:
        self._file, self._path, self._options, self._report, self._selector = file, path, options, report, selector
        self._window, self._largest = window, None if in_pieces else options.max_batch_bytes
        self.start = starting_offset(path) or 0
        self.tail: int | None = None

    def __iter__(self) -> Iterator[MessageAndOffset]:
        selector, stretches = self._selector, _Stretches(self._file, self._options, self.problem)
        for begin in stretches:
            for message in self._stretch(begin, stretches.end):
                if selector is not None and selector.is_past_entry(message.offset):
                    return
                position = stretches.tail  # entries stand one behind the other
                stretches.tail = position + SIZE_FIELD + message.size
                if message.error is not None or message.computed != message.checksum:
                    self._problems(message, position)
                if message.computed == message.checksum is not None:
                    stretches.sound = stretches.tail
                if selector is None or selector.entry(message.offset):
                    yield message
        self.tail = self.offset(stretches.tail)
        if stretches.problem:
            self.problem(stretches.tail, stretches.problem)

    def _stretch(self, begin: int, end: int) -> Iterator[MessageAndOffset]:
        """The entries between two positions."""
        found = iterate_file(self._file, self.start, max_entry=self._largest, window=self._window, begin=begin, end=end)
        if self.start + end <= LONG_MAX:
            return found
        return (one._replace(offset=to_long(one.offset), next_offset=to_long(one.next_offset)) for one in found)

    def inside(self, wrapper: MessageAndOffset) -> Iterator[MessageAndOffset]:
        """The messages of a compressed set; what is wrong with it, or its wrapper, is reported."""
        if not wrapper.codec or not wrapper.valid or wrapper.payload is None:
            return
        for message in open_sets(iter((wrapper,)), limit=self._options.max_decompressed_bytes):
            if isinstance(message, Stopped):
                if message.error is not wrapper.error:
                    self.problem(self.position(wrapper), message.error)
            elif message.error is not None:
                self.problem(self.position(wrapper), message.error)
            else:
                yield message

    def offset(self, position: int) -> int:
        """That of a byte position in the file."""
        return to_long(self.start + position)

    def position(self, message: MessageAndOffset) -> int:
        """Where the entry begins in the file."""
        return to_long(message.offset - self.start)

    def problem(self, position: int, problem: Problem) -> None:
        """Report what is wrong with the entry at `position`."""
        self._report(Finding(problem.code, Where(self._path, position, self.offset(position)), problem.what))

    def _problems(self, message: MessageAndOffset, position: int) -> None:
        if message.error is not None:
            self.problem(position, message.error)
        if message.computed != message.checksum:
            self.problem(position, message.crc_problem())

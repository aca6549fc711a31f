"""The entries of a log of Kafka 0.7 one by one, as far as a selection wants them; what is wrong goes to findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.findings import Finding, Where
from engine.layout import parse_long
from engine.record.damage import Problem
from engine.record.kafka07 import SIZE_FIELD, MessageAndOffset, Stopped, open_sets
from engine.record.kafka07_file import find_entry, iterate_file, tail_problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.dump.options import DumpOptions
    from engine.dump.selection import Selector
    from engine.files import OpenFile



def starting_offset(path: str) -> int | None:
    """The offset of the first byte of the file, which its name says up to the first dot; None where it does not."""
    return parse_long(path.rpartition("/")[2].partition(".")[0])


class Entries07:
    """Iterate once for the entries at the top level, compressed sets shut. Raises UnreadableFile.

    selector  decides which come; None: all. Damage is reported up to where the selection ends
    """

    def __init__(
        self, file: OpenFile, path: str, options: DumpOptions, report: Callable[[Finding], None],
        selector: Selector | None = None,
    ) -> None:
        self._file, self._path, self._options, self._report, self._selector = file, path, options, report, selector
        self.start = starting_offset(path) or 0

    def __iter__(self) -> Iterator[MessageAndOffset]:
        end, begin = self._file.size(), 0
        while True:
            tail = sound = begin
            limit = self._options.max_batch_bytes
            for message in iterate_file(self._file, self.start, max_entry=limit, begin=begin, end=end):
                if self._selector is not None and self._selector.is_past_entry(message.offset):
                    return
                position = message.offset - self.start
                tail = position + SIZE_FIELD + message.size
                if message.valid:
                    sound = tail
                self._problems(message, position)
                if self._selector is None or self._selector.entry(message.offset):
                    yield message
            problem = tail_problem(self._file, tail, end)
            found = next_entry(self._file, problem, sound, end, self._options)
            if found is None:
                if problem:
                    self.problem(tail, problem)
                return
            for skipped in skipped_bytes(tail, found):
                self.problem(tail, skipped)
            begin = found

    def inside(self, wrapper: MessageAndOffset) -> Iterator[MessageAndOffset]:
        """The messages of a compressed set; what is wrong with it, or its wrapper, is reported."""
        if not wrapper.codec or not wrapper.valid or wrapper.payload is None:
            return
        for message in open_sets(iter((wrapper,)), limit=self._options.max_decompressed_bytes):
            if isinstance(message, Stopped):
                if message.error is not wrapper.error:
                    self.problem(wrapper.offset - self.start, message.error)
            elif message.error is not None:
                self.problem(wrapper.offset - self.start, message.error)
            else:
                yield message

    def problem(self, position: int, problem: Problem) -> None:
        """Report what is wrong with the entry at `position`."""
        self._report(Finding(problem.code, Where(self._path, position, self.start + position), problem.what))

    def _problems(self, message: MessageAndOffset, position: int) -> None:
        if message.error is not None:
            self.problem(position, message.error)
        if message.valid is False:
            self.problem(position, Problem("crc-mismatch", f"stored CRC-32 {message.checksum:08x} does not fit"))


def next_entry(file: OpenFile, problem: Problem | None, sound: int, end: int, options: DumpOptions) -> int | None:
    """--continue-on-corruption: where the walk goes on that `problem` ended; None: nowhere.

    sound  the end of the last sound entry: one behind it, whose checksum was wrong, may be what led astray
    """
    if problem is None or problem.code == "zero-tail" or not options.continue_on_corruption:
        return None
    return find_entry(file, sound + 1, end, max_entry=options.max_batch_bytes)


def skipped_bytes(damaged: int, found: int) -> list[Problem]:
    """What is wrong where the walk ended at `damaged` and goes on at `found`."""
    if found <= damaged:
        what = f"a sound entry begins at byte {found}, inside one with a wrong checksum"
        return [Problem("batch-size-invalid", what)]
    return [
        Problem("batch-size-invalid", "no entry begins here, but sound ones follow"),
        Problem("skipped-bytes", f"{found - damaged} bytes skipped up to a sound entry at byte {found}"),
    ]

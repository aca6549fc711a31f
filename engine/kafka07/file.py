"""Files of Kafka 0.7 (`NNN.kafka`): the walk over their entries, the file iterator, the validity check.

The window bounds the memory: larger entries are checksummed in pieces. The size of a file is that at the start of reading; if
it becomes shorter, the functions raise FileChangedWhileReading.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from engine.amounts import count_of
from engine.kafka07.entries import (
    HEADER_V0,
    HEADER_V1,
    MIN_SIZE,
    SIZE_FIELD,
    MessageAndOffset,
    attributes_problem,
    crc_problem,
    head_at,
    header_problem,
    message_at,
    read_size,
    signed,
    size_at,
)
from engine.record.damage import Problem
from engine.record.windows import checksum_of, only_zeros, search_budget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.files import OpenFile

WINDOW = 1024 * 1024  # more than any entry that a broker accepts by default (max.message.size, 1,000,000)
MAX_ENTRY = 64 * 1024 * 1024  # larger payloads are not read whole

_MIN_WINDOW = 16  # room for any header

_CANDIDATE = re.compile(rb"(?=(?!\x00\x00\x00[\x00-\x05])[\x00-\x7f]...[\x00\x01])", re.DOTALL)  # size 6 at least, magic


class ValidPart(NamedTuple):
    """The valid part of a file: `size` bytes from its start, and the problem after it, None at the end of the file.

    If `problem` has an exception, the recovery of 0.7.2 throws it and leaves the file unchanged, instead of truncating it to
    `size`.
    """

    size: int
    problem: Problem | None


def walk(
    file: OpenFile, end: int, window: int = WINDOW, begin: int = 0
) -> Iterator[tuple[int, int, bytes, int]]:
    """Iterate over the whole entries from byte `begin` to `end`: (position, size field, buffer, position in the buffer).

    Of an entry larger than `window` the buffer has only the first `window` bytes. Ends without error at the first incomplete
    entry or size below 5, as FileMessageSet.iterator does; see `tail_problem`.
    """
    position, window = begin, max(window, _MIN_WINDOW)
    while end - position >= SIZE_FIELD:
        data = file.read_exactly(position, min(window, end - position))
        at, stop = 0, len(data)
        while stop - at >= SIZE_FIELD:
            (size,) = read_size(data, at)
            if size < MIN_SIZE:
                return
            if size > stop - at - SIZE_FIELD:
                break
            yield position + at, size, data, at
            at += SIZE_FIELD + size
        if at == 0:
            size = size_at(data, 0)
            if size > end - position - SIZE_FIELD:
                return
            yield position, size, data, 0
            at = SIZE_FIELD + size
        position += at


def tail_problem(file: OpenFile, position: int, end: int) -> Problem | None:
    """Return why the walk ended at `position`, None at the end of the file. Reads on only over zeros."""
    left = end - position
    if left == 0:
        return None
    if left < SIZE_FIELD:
        return Problem("torn-tail", f"{count_of(left, 'byte')} left, too few for a size field")
    size = size_at(file.read_exactly(position, SIZE_FIELD), 0)
    if size >= MIN_SIZE:
        return Problem("torn-tail", f"size {size}, but only {count_of(left - SIZE_FIELD, 'byte')} left")
    if size == 0 and only_zeros(file, position, end):
        return Problem("zero-tail", f"{count_of(left, 'zero byte')} after the last entry")
    return Problem("batch-size-invalid", f"size {size}, below {MIN_SIZE}; {count_of(left, 'byte')} from here on not read")


def iterate_file(
    file: OpenFile, start_offset: int = 0, *, max_entry: int | None = MAX_ENTRY, window: int = WINDOW, begin: int = 0,
    end: int | None = None,
) -> Iterator[MessageAndOffset]:
    """Return the entries of a file at its top level, including those with wrong checksums. Mirrors FileMessageSet.iterator.

    max_entry     a larger entry has no payload, and the error `batch-too-large`; None: an entry larger than the window has no
                  payload and no error: the caller reads it
    start_offset  of byte 0        begin, end  byte positions; default: the whole file
    """
    for position, size, data, at in walk(file, file.size() if end is None else end, window, begin):
        offset = start_offset + position
        if size <= len(data) - at - SIZE_FIELD:
            yield message_at(data, at, size, offset, position)
        elif max_entry is None:
            yield _large_message(file, position, size, offset, None)
        elif size <= max_entry:
            yield message_at(file.read_exactly(position, SIZE_FIELD + size), 0, size, offset, position)
        else:
            yield _large_message(file, position, size, offset, Problem("batch-too-large", f"{size} bytes"))


def _large_message(file: OpenFile, position: int, size: int, offset: int, error: Problem | None) -> MessageAndOffset:
    """Return the entry at `position`, with at least 6 bytes after its size, without payload, with `error` if no other."""
    end = offset + SIZE_FIELD + size
    head = file.read_exactly(position, SIZE_FIELD + HEADER_V1)
    magic = signed(head[SIZE_FIELD])
    unreadable = header_problem(magic, size)
    if unreadable:
        return MessageAndOffset(offset, end, size, magic, None, None, None, None, None, unreadable)
    header, attributes, checksum = head_at(head, 0)
    start = position + SIZE_FIELD + header
    computed = checksum_of(file, start, start + size - header, crc32)
    error = attributes_problem(attributes) or error
    return MessageAndOffset(offset, end, size, magic, attributes, checksum, computed, None, start, error)


def find_entry(
    file: OpenFile, start: int, end: int, *, max_entry: int = MAX_ENTRY, gave_up: Callable[[int], None] | None = None
) -> int | None:
    """Return the position of the first sound entry from `start` on: whole before `end`, with a valid checksum; or None.

    A sound entry has at least one byte of payload, otherwise eight zeros after a small number would be one. The work is
    bounded: among too many false candidates the search stops, and calls `gave_up` with the position from which nothing was
    checked.
    """
    budget = search_budget(end - start)
    for at in range(start, end, WINDOW):
        block = file.read_exactly(at, min(WINDOW + _MIN_WINDOW, end - at))
        for match in _CANDIDATE.finditer(block, 0, len(block)):
            position = at + match.start()
            if match.start() >= WINDOW:
                break
            size = size_at(block, match.start())
            if size > min(max_entry, end - position - SIZE_FIELD):
                continue
            if _is_sound(file, position, size):
                return position
            budget -= size
            if budget <= 0:
                if gave_up is not None:
                    gave_up(position + 1)
                return None
    return None


def _is_sound(file: OpenFile, position: int, size: int) -> bool:
    head = file.read_exactly(position, SIZE_FIELD + min(size, HEADER_V1))
    if size <= (HEADER_V1 if head[SIZE_FIELD] else HEADER_V0):
        return False
    header, attributes, stored = head_at(head, 0)
    if attributes_problem(attributes):
        return False
    return checksum_of(file, position + SIZE_FIELD + header, position + SIZE_FIELD + size, crc32) == stored


def valid_size(file: OpenFile, *, window: int = WINDOW) -> ValidPart:
    """Return the valid part of a file, as the recovery of 0.7.2 determines it: whole entries with a valid checksum.

    Compressed sets are checked at the wrapper only; attributes and codec are not checked. Mirrors
    FileMessageSet.recover, but changes nothing.
    """
    end, sound = file.size(), 0
    for position, size, data, at in walk(file, end, window):
        problem = header_problem(signed(data[at + SIZE_FIELD]), size)
        if problem:
            return ValidPart(position, problem)
        header, _, stored = head_at(data, at)
        after = at + SIZE_FIELD + size
        if after <= len(data):
            computed = crc32(data[after - size + header : after])
        else:
            computed = checksum_of(file, position + SIZE_FIELD + header, position + SIZE_FIELD + size, crc32)
        if computed != stored:
            return ValidPart(position, crc_problem(stored, computed))
        sound = position + SIZE_FIELD + size
    return ValidPart(sound, tail_problem(file, sound, end))

"""A partition of Kafka 0.7: files `NNN.kafka`, whose offsets are byte positions. Mirrors kafka.log.Log of 0.7.2.

Only flushed bytes can be read. Times are arguments, in ms since the epoch.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Self

from engine.formats import LONG_MAX, LONG_MIN
from engine.kafka07.entries import HEADER_V0, HEADER_V1, SIZE_FIELD, MessageAndOffset, Stopped, iterate_deep, iterate_set
from engine.kafka07.segment import (
    EMPTY_SET,
    ILLEGAL_STATE,
    NUMBER_FORMAT,
    SIZE_TOO_LARGE,
    SUFFIX_07,
    Config07,
    MessageSet07,
    OffsetOutOfRange07,
    Recovered07,
    Refused07,
    Segment07,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.files import Files

LATEST_TIME = -1
EARLIEST_TIME = -2
FETCH_SIZE = 300 * 1024  # fetch size of a consumer of 0.7 (fetch.size)
MAX_FETCH_SIZE = 64 << 20  # larger entries are not read


class Log07:
    """A 0.7 log, open for reading and writing. Open it with `open_log_07`, close it, or use it in a `with` statement.

    segments  oldest first; the last one is appended to
    """

    def __init__(self, files: Files, directory: str, config: Config07, segments: list[Segment07], now: int) -> None:
        self.directory = directory
        self.config = config
        self.segments = segments
        self.recovered: Recovered07 | None = None
        self._files = files
        self._unflushed = 0  # messages
        self._flushed_ms = now

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:  # after an error the data must not be flushed as if it were sound
            self.release()

    @property
    def active(self) -> Segment07:
        """The active segment, which is appended to."""
        return self.segments[-1]

    @property
    def log_start_offset(self) -> int:
        """Offset of the first byte of the log."""
        return self.segments[0].start

    @property
    def log_end_offset(self) -> int:
        """Offset after the last flushed byte."""
        return self.active.end

    @property
    def size(self) -> int:
        """Flushed bytes in all segments."""
        return sum(segment.high_water_mark for segment in self.segments)

    def append(self, data: bytes, now: int) -> int:
        """Check a message set as a whole, roll if it is due, append its bytes unchanged; returns the offset of its first byte.

        A partial entry at its end is dropped. Raises Refused07 (nothing is stored then) and UnwritableFile. The set is readable
        and durable after a flush: see `maybe_flush` and `flush`.
        """
        size, messages = self._checked(data)
        if self._must_roll(now):
            self.roll(now)
        offset = self.active.start + self.active.size
        self.active.append(memoryview(data)[:size], now)
        self._unflushed += messages
        if self._unflushed >= self.config.flush_interval and self._unflushed:
            self.flush(now)
        return offset

    def flush(self, now: int) -> None:
        """Wait until all appended data is on the disk. Raises UnwritableFile.

        0.7.2 does not count bytes without messages, such as an empty compressed set, and then gives the next segment a wrong
        name.
        """
        self.active.flush()
        self._unflushed = 0
        self._flushed_ms = now

    def maybe_flush(self, now: int) -> bool:
        """Flush if there is unflushed data and a flush is due (LogManager.flushAllLogs); returns whether it flushed."""
        due = self._unflushed > 0 and now - self._flushed_ms >= self.config.flush_interval_ms
        if due:
            self.flush(now)
        return due

    def roll(self, now: int) -> None:
        """Flush, and start a new file at the end of the log. A file of that name is removed first.

        Rolling an empty active segment leaves one file, but two segments with the same start (Log.roll).
        """
        self.flush(now)
        path = _path(self.directory, self.log_end_offset)
        self._files.remove(path)
        self._files.open_writable(path, create=True).close()
        self._files.sync_directory(self.directory)
        self.segments.append(Segment07(self._files, path, self.log_end_offset))

    def read(self, offset: int, max_size: int) -> MessageSet07:
        """Return at most `max_size` bytes from `offset` on, never beyond a segment. Raises OffsetOutOfRange07."""
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange07(offset)
        if offset == self.log_end_offset:
            return EMPTY_SET
        for segment in reversed(self.segments):
            if segment.contains(offset):
                return segment.read(offset - segment.start, max_size)
        return EMPTY_SET

    def messages(
        self, offset: int, *, fetch_size: int = FETCH_SIZE, max_fetch_size: int = MAX_FETCH_SIZE
    ) -> Iterator[MessageAndOffset | Stopped]:
        """Return every message from `offset` to the end, compressed sets opened. Raises OffsetOutOfRange07.

        Reads chunks of `fetch_size`; a chunk too small for its first entry grows up to `max_fetch_size`. Ends with a Stopped if
        a consumer of 0.7.2 would throw.
        """
        size = max(SIZE_FIELD, fetch_size)
        while (chunk := self.read(offset, size)).size:
            data, start = chunk.read(), offset
            for item in iterate_deep(data, offset):
                if isinstance(item, Stopped):
                    if item.error.code == "torn-tail" and item.offset == offset and self._grows(chunk, size, max_fetch_size):
                        break
                    yield item
                    return
                start = item.next_offset
                yield item
            if start > offset:
                offset, size = start, max(SIZE_FIELD, fetch_size)
            elif not self._grows(chunk, size, max_fetch_size):
                return
            else:
                size = min(2 * size, max_fetch_size)

    def offsets_before(self, time_ms: int, max_count: int, now: int) -> list[int]:
        """Return the starts of segments last changed at or before `time_ms`, largest first. Mirrors Log.getOffsetsBefore.

        LATEST_TIME starts from the end of the log, EARLIEST_TIME from its start.
        """
        entries = [(segment.start, segment.modified_ms()) for segment in self.segments]
        if self.active.high_water_mark:
            entries.append((self.log_end_offset, now))
        if time_ms == EARLIEST_TIME:
            entries = entries[:1]
        elif time_ms != LATEST_TIME:
            while entries and entries[-1][1] > time_ms:
                entries.pop()
        return [offset for offset, _ in reversed(entries)][: max(0, max_count)]

    def retain(self, now: int) -> list[Segment07]:
        """Delete segments by time, then by size; returns the deleted ones. Mirrors LogManager.cleanupLogs."""
        return self.delete_expired(now) + self.delete_excess(now)

    def delete_expired(self, now: int) -> list[Segment07]:
        """Delete the oldest segments that were last changed longer ago than the retention time."""
        return self._delete_while(lambda segment: now - segment.modified_ms() > self.config.retention_ms, now)

    def delete_excess(self, now: int) -> list[Segment07]:
        """Delete the oldest segments while at least the retention size remains; a limit of 0 deletes all."""
        excess = self.size - self.config.retention_size
        if self.config.retention_size < 0 or excess < 0:
            return []

        def too_much(segment: Segment07) -> bool:
            nonlocal excess
            is_due = excess - segment.high_water_mark >= 0
            excess -= segment.high_water_mark if is_due else 0
            return is_due

        return self._delete_while(too_much, now)

    def close(self) -> None:
        """Flush and close all files. Raises UnwritableFile."""
        try:
            self.flush(self._flushed_ms)
        finally:
            self.release()

    def release(self) -> None:
        """Close the files without a flush."""
        for segment in self.segments:
            segment.close()

    def _checked(self, data: bytes) -> tuple[int, int]:
        """Return (bytes of the whole entries, messages) of a valid set. Mirrors the first half of Log.append."""
        size = messages = 0
        for item in iterate_set(data):
            if isinstance(item, Stopped):
                raise Refused07.of(self.directory, item.error)
            payload = item.size - (HEADER_V1 if item.magic else HEADER_V0)
            self.check_payload(payload)
            size = item.next_offset
        for item in iterate_deep(data):
            if item.error is not None:
                raise Refused07.of(self.directory, item.error)
            messages += 1
        return size, messages

    def check_payload(self, size: int) -> None:
        """Raise Refused07 if a payload of `size` bytes is too large."""
        if size > self.config.max_message_size:
            raise Refused07(SIZE_TOO_LARGE, f"payload size of {size} larger than {self.config.max_message_size}")

    def _must_roll(self, now: int) -> bool:
        first = self.active.first_append_ms
        return self.active.size > self.config.log_file_size or (first is not None and now - first > self.config.roll_ms)

    def _grows(self, chunk: MessageSet07, size: int, limit: int) -> bool:
        """Return whether a larger chunk could hold more than this one."""
        return chunk.size == size < limit

    def _delete_while(self, is_due: Callable[[Segment07], bool], now: int) -> list[Segment07]:
        """Delete segments from the oldest on while `is_due`; one remains: the active one if empty, else a new one."""
        count = 0
        while count < len(self.segments) and is_due(self.segments[count]):
            count += 1
        if count == len(self.segments):
            if self.active.high_water_mark:
                self.roll(now)
            else:
                self._files.set_modified(self.active.path, now * 1_000_000)
                count -= 1
        deleted, self.segments = self.segments[:count], self.segments[count:]
        kept = {segment.path for segment in self.segments}
        for segment in deleted:
            segment.close()
            if segment.path not in kept:
                self._files.remove(segment.path)
                self._files.sync_directory(self.directory)  # a gap between two segments would prevent the next start
        return deleted


def open_log_07(
    files: Files, directory: str, config: Config07, *, now: int, need_recovery: bool = True, truncate_invalid: bool = False
) -> Log07:
    """Open the log in `directory`, which must exist; an empty one begins at offset 0.

    need_recovery     False after a clean stop: the last file is not checked. Otherwise it is truncated after its last sound
                      entry; older files are never checked inside.
    truncate_invalid  also truncate at an entry at which 0.7.2 throws

    Raises Refused07 if 0.7.2 would not open the log, UnreadableFile, UnwritableFile. Mirrors Log.loadSegments.
    """
    segments = sorted((_segment(files, directory, name) for name in _names(files, directory)), key=lambda s: s.start)
    if not segments:
        path = _path(directory, 0)
        files.open_writable(path, create=True).close()
        files.sync_directory(directory)
        segments = [Segment07(files, path, 0)]
    for before, after in pairwise(segments):
        if before.start + before.size != after.start:
            what = f"The following segments don't validate: {before.path}, {after.path}"
            raise Refused07(ILLEGAL_STATE, what, do="a file between them is missing, or one of them was changed: restore it")
    log = Log07(files, directory, config, segments, now)
    if need_recovery:
        try:
            log.recovered = log.active.recover(truncate_invalid=truncate_invalid)
        except BaseException:
            log.active.close()
            raise
    return log


def _names(files: Files, directory: str) -> list[str]:
    return [
        name
        for name in files.list(directory)
        if name.endswith(SUFFIX_07) and files.info(f"{directory}/{name}").is_file
    ]  # fmt: skip


def _segment(files: Files, directory: str, name: str) -> Segment07:
    digits = name[: -len(SUFFIX_07)]
    sign, number = (digits[:1], digits[1:]) if digits[:1] in ("+", "-") else ("", digits)
    path = f"{directory}/{name}"
    if not (number.isascii() and number.isdigit() and len(number) <= 4096) or not LONG_MIN <= int(sign + number) <= LONG_MAX:
        raise Refused07(NUMBER_FORMAT, f'For input string: "{digits}"', f"{path}: its name is not an offset",
                        do="give it a name that does not end in .kafka")  # fmt: skip
    return Segment07(files, path, int(sign + number))


def _path(directory: str, offset: int) -> str:
    """Return the path of a segment. Mirrors Log.nameFromOffset."""
    return f"{directory}/{offset:020d}{SUFFIX_07}"

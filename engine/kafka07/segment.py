"""One file of a 0.7 log, the errors of 0.7.2, and the settings of a 0.7 log.

Mirrors kafka.log.LogSegment and kafka.message.FileMessageSet of 0.7.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from engine.errors import KafkalogError, UsageError
from engine.kafka07.file import valid_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from engine.files import Files, OpenFile, WritableFile
    from engine.record.damage import Problem

SUFFIX_07 = ".kafka"
NO_LIMIT = -1
_HOUR_MS = 3_600_000
_PIECE = 1 << 20  # bytes of a set read at a time

ILLEGAL_STATE = "java.lang.IllegalStateException"
NUMBER_FORMAT = "java.lang.NumberFormatException"
STRING_INDEX = "java.lang.StringIndexOutOfBoundsException"
OFFSET_OUT_OF_RANGE = "kafka.common.OffsetOutOfRangeException"
SIZE_TOO_LARGE = "kafka.common.MessageSizeTooLargeException"
INVALID_PARTITION = "kafka.common.InvalidPartitionException"


class Refused07(KafkalogError):
    """An operation that 0.7.2 refuses: the class of its exception and the exception's text, None if it has none."""

    code = "refused-07"

    def __init__(self, exception: str, text: str | None, what: str | None = None, do: str | None = None) -> None:
        super().__init__(what or text or exception, do)
        self.exception = exception
        self.text = text

    @classmethod
    def of(cls, path: str, problem: Problem) -> Refused07:
        """Return the error for a problem that an iterator found in a set or file."""
        return cls(problem.exception or ILLEGAL_STATE, problem.message, f"{path}: {problem.what}")


class OffsetOutOfRange07(Refused07):
    """An offset below the first segment or after the flushed end (OffsetOutOfRangeException)."""

    code = "offset-out-of-range"
    exit_status = 2

    def __init__(self, offset: int) -> None:
        super().__init__(OFFSET_OUT_OF_RANGE, f"offset {offset} is out of range")


@dataclass(frozen=True, slots=True)
class Config07:
    """Settings of a 0.7 log. Sizes in bytes, times in ms; retention_size −1 is no limit."""

    log_file_size: int = 1 << 30
    max_message_size: int = 1_000_000
    flush_interval: int = 500  # messages
    flush_interval_ms: int = 3000
    roll_ms: int = 168 * _HOUR_MS
    retention_ms: int = 168 * _HOUR_MS
    retention_size: int = NO_LIMIT

    @classmethod
    def of(cls, settings: Mapping[str, str], topic: str = "") -> Config07:
        """The configuration of `topic` by server.properties of 0.7 (its names → text). Raises UsageError.

        Settings that do not concern a log are ignored, as in 0.7.2.
        """
        given: dict[str, int] = {}
        for name, (field, unit) in _SETTINGS.items():
            if name in settings:
                given[field] = _number(name, settings[name]) * unit
        for name, (field, unit) in _PER_TOPIC.items():
            for part in settings.get(name, "").split(","):
                key, _, value = part.partition(":")
                if key.strip() == topic and value:
                    given[field] = _number(name, value) * unit
        return cls(**given)


_SETTINGS = {
    "log.file.size": ("log_file_size", 1),
    "max.message.size": ("max_message_size", 1),
    "log.flush.interval": ("flush_interval", 1),
    "log.default.flush.interval.ms": ("flush_interval_ms", 1),
    "log.roll.hours": ("roll_ms", _HOUR_MS),
    "log.retention.hours": ("retention_ms", _HOUR_MS),
    "log.retention.size": ("retention_size", 1),
}
_PER_TOPIC = {  # topic:value,topic:value
    "topic.log.retention.hours": ("retention_ms", _HOUR_MS),
    "topic.log.roll.hours": ("roll_ms", _HOUR_MS),
    "topic.log.file.size": ("log_file_size", 1),
    "topic.flush.intervals.ms": ("flush_interval_ms", 1),
    "topic.log.retention.size": ("retention_size", 1),  # 0.7.2 fails to read it
}


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{name}: expected a number, not {text!r}") from None


class Recovered07(NamedTuple):
    """The result of the recovery of a file: `kept` bytes remain, `cut` bytes after them were removed, and why."""

    path: str
    kept: int
    cut: int
    problem: Problem | None


class MessageSet07(NamedTuple):
    """A part of a file, ready to be sent: the bytes [start, end), which need not begin or end at an entry."""

    file: OpenFile | None
    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of bytes."""
        return self.end - self.start

    def read(self) -> bytes:
        """Return all bytes. Raises FileChangedWhileReading."""
        return b"".join(self.pieces())

    def pieces(self) -> Iterator[bytes]:
        """Return the bytes in pieces of one MiB."""
        for at in range(self.start, self.end, _PIECE):
            assert self.file is not None  # only an empty set has none
            yield self.file.read_exactly(at, min(_PIECE, self.end - at))


EMPTY_SET = MessageSet07(None, 0, 0)


class Segment07:
    """One `NNN.kafka` file.

    start            offset of the first byte
    size             bytes in the file
    high_water_mark  flushed bytes: only these can be read
    first_append_ms  time of the first append in this run, None before that
    """

    def __init__(self, files: Files, path: str, start: int) -> None:
        self.path = path
        self.start = start
        self.size = self.high_water_mark = files.info(path).size
        self.first_append_ms: int | None = None
        self._files = files
        self._file: WritableFile | None = None
        self._reader: OpenFile | None = None

    @property
    def name(self) -> str:
        """The file's name without its directory."""
        return self.path.rpartition("/")[2]

    @property
    def end(self) -> int:
        """The offset after the last flushed byte."""
        return self.start + self.high_water_mark

    def modified_ms(self) -> int:
        """The time of the file's last change. Raises UnreadableFile."""
        return self._files.info(self.path).modified_ms

    def recover(self, *, truncate_invalid: bool = False) -> Recovered07:
        """Truncate the file after its last sound entry (FileMessageSet.recover), and sync it.

        Raises Refused07 if an entry has a magic or size at which 0.7.2 throws, and leaves the file unchanged; with
        `truncate_invalid` the file is truncated there, too.
        """
        file = self._writable()
        part = valid_size(file)
        if part.problem is not None and part.problem.exception is not None and not truncate_invalid:
            raise Refused07.of(self.path, part.problem)
        cut = file.size() - part.size
        if cut:
            file.truncate(part.size)
            file.sync()
        self.size = self.high_water_mark = part.size
        return Recovered07(self.path, part.size, cut, part.problem)

    def append(self, data: bytes | memoryview, now: int) -> None:
        """Write `data` after the last byte; it is readable after `flush`. Raises UnwritableFile."""
        if len(data):
            self._writable().write_at(self.size, data)
            self.size += len(data)
            if self.first_append_ms is None:
                self.first_append_ms = now

    def flush(self) -> None:
        """Wait until all bytes are on the disk. Raises UnwritableFile."""
        if self.high_water_mark != self.size:
            self._writable().sync()
            self.high_water_mark = self.size

    def read(self, position: int, max_size: int) -> MessageSet07:
        """Return at most `max_size` flushed bytes from byte `position` on."""
        end = min(position + max(0, max_size), self.high_water_mark)
        return MessageSet07(self._readable(), position, max(position, end))

    def contains(self, offset: int) -> bool:
        """Return whether the segment contains `offset`; an empty one contains its start. Mirrors Range.contains."""
        return self.start <= offset < max(self.end, self.start + 1)

    def close(self) -> None:
        """Close the file, without a flush."""
        for file in (self._file, self._reader):
            if file is not None:
                file.close()
        self._file = self._reader = None

    def _writable(self) -> WritableFile:
        if self._file is None:
            self._file = self._files.open_writable(self.path)
        return self._file

    def _readable(self) -> OpenFile:
        if self._file is not None:
            return self._file
        if self._reader is None:
            self._reader = self._files.open(self.path)
        return self._reader

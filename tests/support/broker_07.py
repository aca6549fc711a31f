"""All 0.7 logs of a log dir: start, stop, retention, and answers to fetch and offset requests as a broker sends them.

Mirrors kafka.log.LogManager, KafkaRequestHandlers, MessageSetSend and MultiMessageSetSend of 0.7.2. No command
answers requests: the cases of real 0.7.2 use them to compare its logs with ours.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, NamedTuple

from engine.formats import INT_MAX
from engine.kafka07.log import EARLIEST_TIME, LATEST_TIME, Log07, open_log_07
from engine.kafka07.segment import (
    EMPTY_SET,
    INVALID_PARTITION,
    NUMBER_FORMAT,
    STRING_INDEX,
    Config07,
    MessageSet07,
    OffsetOutOfRange07,
    Refused07,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from engine.files import Files
    from engine.kafka07.segment import Segment07

CLEAN_SHUTDOWN_07 = ".kafka_cleanshutdown"

NO_ERROR = 0
OFFSET_OUT_OF_RANGE_CODE = 1
WRONG_PARTITION_CODE = 3
UNKNOWN_CODE = -1

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,255}")
_HEAD = struct.Struct(">ih")  # number of bytes after this field, error code


class Fetch07(NamedTuple):
    """One fetch request: at most `max_size` bytes of a partition from `offset` on."""

    topic: str
    partition: int
    offset: int
    max_size: int


class Answer07(NamedTuple):
    """Answer to one fetch request: an error code and the piece of the log (MessageSetSend)."""

    error_code: int
    messages: MessageSet07

    @property
    def size(self) -> int:
        """Bytes on the wire, those of the length field included."""
        return _HEAD.size + self.messages.size

    def frames(self) -> Iterator[bytes]:
        """The bytes on the wire: length, error code, then the set straight from its file."""
        yield _HEAD.pack(self.size - 4, self.error_code)
        yield from self.messages.pieces()


def multi_frames(answers: Iterable[Answer07]) -> Iterator[bytes]:
    """Answer to a multi-fetch: length, error code 0, then the complete answers (MultiMessageSetSend)."""
    parts = list(answers)
    yield _HEAD.pack(2 + sum(part.size for part in parts), NO_ERROR)
    for part in parts:
        yield from part.frames()


def offsets_frame(offsets: list[int]) -> bytes:
    """Answer to an offsets request: length, error code 0, count, offsets (OffsetArraySend)."""
    return struct.pack(f">ihi{len(offsets)}q", 6 + 8 * len(offsets), NO_ERROR, len(offsets), *offsets)


class LogManager07:
    """The logs of a 0.7 log dir. Make it with `open_log_dir_07`, end it with `stop`.

    logs  by the name of their directory, TOPIC-PARTITION
    """

    def __init__(self, files: Files, directory: str, settings: Mapping[str, str]) -> None:
        self.directory = directory
        self.logs: dict[str, Log07] = {}
        self._files = files
        self._settings = settings

    def log(self, topic: str, partition: int) -> Log07 | None:
        """Return the log of a partition, None: none yet. Raises Refused07 for a partition out of range."""
        if not 0 <= partition < self._partitions(topic):
            raise Refused07(INVALID_PARTITION, f"wrong partition {partition}")
        return self.logs.get(f"{topic}-{partition}")

    def get_or_create(self, topic: str, partition: int, now: int) -> Log07:
        """Return the log of a partition, and make it if there is none. Raises Refused07, UnwritableFile."""
        if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
            text = f"topic name {topic} is illegal, doesn't match expected regular expression"
            raise Refused07("kafka.common.InvalidTopicException", text)
        log = self.log(topic, partition)
        if log is None:
            name = f"{topic}-{partition}"
            self._files.make_directory(f"{self.directory}/{name}")
            self._files.sync_directory(self.directory)
            log = self.logs[name] = self._open(name, now, need_recovery=False)
        return log

    def fetch(self, request: Fetch07) -> Answer07:
        """Answer as a broker: errors are codes, an unknown topic has an empty set (KafkaRequestHandlers)."""
        if not _TOPIC.fullmatch(request.topic):
            return Answer07(UNKNOWN_CODE, EMPTY_SET)
        try:
            log = self.log(request.topic, request.partition)
            return Answer07(NO_ERROR, log.read(request.offset, request.max_size) if log else EMPTY_SET)
        except OffsetOutOfRange07:
            return Answer07(OFFSET_OUT_OF_RANGE_CODE, EMPTY_SET)
        except Refused07:
            return Answer07(WRONG_PARTITION_CODE, EMPTY_SET)

    def offsets_before(self, topic: str, partition: int, time_ms: int, max_count: int, now: int) -> list[int]:
        """See Log07.offsets_before; an unknown topic has offset 0. Raises Refused07 for a partition out of range."""
        log = self.log(topic, partition)
        if log is None:
            return [0] if time_ms in (LATEST_TIME, EARLIEST_TIME) else []
        return log.offsets_before(time_ms, max_count, now)

    def retain(self, now: int) -> dict[str, list[Segment07]]:
        """Run the cleaning job over all logs once → deleted segments by log (LogManager.cleanupLogs)."""
        return {name: log.retain(now) for name, log in sorted(self.logs.items())}

    def flush_due(self, now: int) -> list[str]:
        """Flush the logs that are due, as 0.7.2 does in the background → their names (LogManager.flushAllLogs)."""
        return [name for name, log in sorted(self.logs.items()) if log.maybe_flush(now)]

    def stop(self) -> None:
        """Flush and close every log, then write the marker that makes the next start skip recovery.

        Raises UnwritableFile, and writes no marker then.
        """
        for log in self.logs.values():
            log.close()
        self.logs.clear()
        mark_clean_07(self._files, self.directory)

    def release(self) -> None:
        """Close every log without a flush and without the marker."""
        for log in self.logs.values():
            log.release()
        self.logs.clear()

    def start(self, now: int) -> None:
        """Open every log of the directory. See `open_log_dir_07`."""
        marker = f"{self.directory}/{CLEAN_SHUTDOWN_07}"
        clean = self._files.exists(marker)
        for name in self._files.list(self.directory):
            if self._files.info(f"{self.directory}/{name}").is_directory:
                try:
                    self.logs[name] = self._open(name, now, need_recovery=not clean)
                except BaseException:
                    self.release()
                    raise
        if clean:
            self._files.remove(marker)
            self._files.sync_directory(self.directory)

    def _open(self, name: str, now: int, *, need_recovery: bool) -> Log07:
        topic = topic_partition_07(name)[0]
        config = Config07.of(self._settings, topic)
        return open_log_07(self._files, f"{self.directory}/{name}", config, now=now, need_recovery=need_recovery)

    def _partitions(self, topic: str) -> int:
        for part in self._settings.get("topic.partition.count.map", "").split(","):
            name, _, count = part.partition(":")
            if name == topic and count.isdigit():
                return int(count)
        count = self._settings.get("num.partitions", "1")
        return int(count) if count.isdigit() else 1


def open_log_dir_07(files: Files, directory: str, settings: Mapping[str, str], *, now: int) -> LogManager07:
    """Start as a 0.7 broker does: every directory is a log; plain files are ignored.

    Without the marker of a clean stop every log is recovered; the marker is removed. Raises Refused07 if a broker would
    not start: a directory that is not named TOPIC-PARTITION, a log that cannot be opened. (0.7.2 then writes the marker, so
    that its next start checks nothing; here only `stop` writes it, and it is removed when all logs are open.)
    """
    manager = LogManager07(files, directory, settings)
    manager.start(now)
    return manager


def topic_partition_07(name: str) -> tuple[str, int]:
    """Topic and partition of a log's directory. Raises Refused07 as Utils.getTopicPartition throws."""
    topic, hyphen, number = name.rpartition("-")
    if not hyphen:
        what = f"{name}: a directory that is no TOPIC-PARTITION stops the start of a 0.7 broker"
        raise Refused07(STRING_INDEX, f"begin 0, end -1, length {len(name)}", what, do="move it out of the log dir")
    if not (number.isascii() and number.isdigit() and len(number) < 100 and int(number) <= INT_MAX):
        what = f"{name}: its partition is no number, which stops the start of a 0.7 broker"
        raise Refused07(NUMBER_FORMAT, f'For input string: "{number}"', what, do="move it out of the log dir")
    return topic, int(number)


def mark_clean_07(files: Files, directory: str) -> None:
    """Write the marker of a clean stop: the next start recovers nothing. Raises UnwritableFile."""
    files.open_writable(f"{directory}/{CLEAN_SHUTDOWN_07}", create=True).close()
    files.sync_directory(directory)

"""Logs of Kafka 0.7: their settings, and opening them with a report.

Offsets of 0.7 are byte positions, and there are no checkpoints or indexes. So the newest file is read from its beginning and
truncated after its last sound entry; older files are not read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from engine.amounts import count_of, exact_duration
from engine.errors import UsageError
from engine.findings import Severity
from engine.formats import LONG_MAX
from engine.kafka07.file import find_entry, iterate_file, valid_size
from engine.kafka07.log import Log07, open_log_07
from engine.kafka07.segment import Config07
from engine.log.report import Action
from engine.record.soundness import searched_up_to

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from engine.config.server import ServerConfig
    from engine.files import Files, OpenFile
    from engine.kafka07.segment import Segment07
    from engine.log.logdir.log_dirs import PartitionPath
    from engine.log.report import Report


_FOREVER = LONG_MAX
_MOST_RUNS = 1000  # runs of sound entries after damage to search for
# name of a topic setting → its name in 0.7
_TOPIC_SETTINGS = {
    "segment.bytes": "log_file_size", "segment.ms": "roll_ms", "max.message.bytes": "max_message_size",
    "flush.messages": "flush_interval", "retention.ms": "retention_ms", "retention.bytes": "retention_size",
}  # fmt: skip


def config_07(server: ServerConfig, overrides: Mapping[str, str], topic: str) -> Config07:
    """The configuration of a topic: from server.properties, with 0.7's names or later ones; overridden by the user's topic
    settings. Raises UsageError for an invalid number.
    """
    config, default = Config07.of(dict(server.values), topic), Config07()
    values = {field: getattr(config, field) for field in Config07.__slots__}
    for name, text in server.topic_settings:
        field = _TOPIC_SETTINGS.get(name)
        if field is not None and values[field] == getattr(default, field):
            values[field] = _number(name, text)
    values |= {field: _number(name, overrides[name]) for name, field in _TOPIC_SETTINGS.items() if name in overrides}
    return Config07(**values)


def _number(name: str, text: str) -> int:
    number = int(text)  # it was checked when it was read
    return _FOREVER if name == "retention.ms" and number < 0 else number


class ReportedLog07:
    """An open log of 0.7 as a PartitionLog. Close it, or use it in a `with` statement.

    now  the clock, ms since 1970; it does not advance until it is set
    """

    def __init__(self, log: Log07, report: Report, now: int) -> None:
        self.log, self.report, self.now = log, report, now

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *more: object) -> None:
        self.log.__exit__(kind, *more)

    @property
    def directory(self) -> str:
        """The partition directory."""
        return self.log.directory

    @property
    def log_start_offset(self) -> int:
        """Offset of the first byte of the log."""
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """Offset after the last flushed byte."""
        return self.log.log_end_offset

    @property
    def recovery_point(self) -> int:
        """All bytes below it are on the disk."""
        return self.log.log_end_offset

    def flush(self) -> None:
        """Wait until all appended bytes are on the disk. Raises UnwritableFile."""
        self.log.flush(self.now)

    def close(self) -> None:
        """Flush and close all files. Raises UnwritableFile."""
        self.log.close()

    def note_offsets(self) -> None:
        """Write the current offsets and sizes into the report."""
        self.report.log_start_offset, self.report.log_end_offset = self.log_start_offset, self.log_end_offset
        self.report.segments, self.report.size = len({segment.path for segment in self.log.segments}), self.log.size


def open_reported_07(
    files: Files, directory: str, config: Config07, report: Report, *, now: int, clean_start: bool
) -> ReportedLog07:
    """Open the log in `directory`, and recover it unless after a clean start. `report` receives what was truncated.

    If 0.7.2 would fail at an entry and not open the log, it is truncated too. Raises Refused07 for files with a gap between
    them, UnreadableFile, UnwritableFile.
    one another, UnreadableFile, UnwritableFile.
    """
    log = open_log_07(files, directory, config, now=now, need_recovery=False)
    try:
        if not clean_start:
            _recover(files, log, report)
        reported = ReportedLog07(log, report, now)
        reported.note_offsets()
    except BaseException:
        log.release()
        raise
    return reported


def _recover(files: Files, log: Log07, report: Report) -> None:
    """Truncate the newest file after its last sound entry. Mirrors FileMessageSet.recover."""
    newest = log.active
    with files.open(newest.path) as file:
        part, size = valid_size(file), file.size()
        ends: list[int] = []
        lost = 0 if part.problem is None else _valid_after(file, part.size, size, ends.append)
    if part.problem is None:
        report.add(Action.RECOVERED, newest.name, "every checksum is right",
                   offsets=(newest.start, newest.start + size), size=size)
        return
    newest.recover(truncate_invalid=True)
    why = f"at byte {part.size}: {part.problem.what}"
    if part.problem.exception is not None:
        why += f"; 0.7.2 would not open the log: {part.problem.exception}"
    why += searched_up_to(ends[0] if ends else None)
    report.add(Action.TRUNCATED, newest.name, why, offsets=(newest.start + part.size, newest.start + size),
               records=lost or None, size=size - part.size,
               severity=Severity.WARNING if part.problem.code == "zero-tail" else Severity.ERROR,
               is_torn=part.problem.code == "torn-tail")


def _valid_after(file: OpenFile, start: int, end: int, gave_up: Callable[[int], None]) -> int:
    """Number of sound entries found between `start` and `end`. `gave_up`: called with the byte where a search stopped early."""
    count = 0
    at = find_entry(file, start, end, gave_up=gave_up)
    for _ in range(_MOST_RUNS):
        if at is None:
            break
        stop = at
        for entry in iterate_file(file, begin=at, end=end):
            if not entry.valid:
                break
            count, stop = count + 1, entry.next_offset
        at = find_entry(file, stop, end, gave_up=gave_up) if stop > at else None
    return count


def refuse_offsets_07(partition: PartitionPath, *offsets: int | None) -> None:
    """Raise UsageError if a recovery point, log start offset or high watermark was given."""
    if any(offset is not None for offset in offsets):
        what = f"{partition.path}: a log of Kafka 0.7, which keeps no recovery point, log start offset or high watermark"
        raise UsageError(what, do="remove these options")


def retain_07(reported: ReportedLog07) -> None:
    """Delete files that are too old, then files above the size limit. Mirrors LogManager.cleanupLogs of 0.7.2."""
    log, report, now = reported.log, reported.report, reported.now
    before = {segment.path for segment in log.segments}
    deleted = [(segment, "last changed more than the retention time ago") for segment in log.delete_expired(now)]
    deleted += [(segment, "the log exceeds the retention size without it") for segment in log.delete_excess(now)]
    for segment, why in deleted:
        report.add(Action.REMOVED, segment.name, why, offsets=_offsets(segment), size=segment.size)
    for segment in log.segments:
        if segment.path not in before:
            report.add(Action.CREATED, segment.name, "a log of Kafka 0.7 needs at least one file",
                       offsets=(segment.start, None))


def expires_07(reported: ReportedLog07) -> bool:
    """Does `retain_07` delete files by retention.ms?"""
    log = reported.log
    return any(reported.now - segment.modified_ms() > log.config.retention_ms for segment in log.segments[:1])


def explain_retention_07(reported: ReportedLog07) -> None:
    """Report every remaining segment, the oldest first, and when retention by time deletes it."""
    log, now = reported.log, reported.now
    for segment in log.segments:
        age = exact_duration(now - segment.modified_ms())
        by_time = f"deletable by time {exact_duration(log.config.retention_ms)} after its last change, which was {age} ago"
        limit = log.config.retention_size
        by_size = "no limit of size" if limit < 0 else f"deletable by size when {count_of(limit, 'byte')} remain without it"
        why = f"kept: {by_time}; {by_size}"
        reported.report.add(Action.EXPLAINED, segment.name, why, offsets=_offsets(segment), size=segment.size)


def _offsets(segment: Segment07) -> tuple[int, int]:
    return segment.start, segment.start + segment.size

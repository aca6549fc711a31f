"""What uses the space inside logs: bytes and records by codec, hour, producer or prefix of the key.

Codec, hour and producer come from batch headers; nothing is decompressed. The prefix of a key needs the records: the bytes of
a batch are divided among its records by the sizes of their keys and values.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import time_text
from engine.discovery.names import FileKind
from engine.errors import KafkalogError
from engine.files import look
from engine.formats import CODEC_MASK, CODEC_NAMES, CONTROL_FLAG, LONG_MAX, LONG_MIN, BatchField, RecordField
from engine.overview.usage import LOG, Usage
from engine.record.columns import BatchColumns
from engine.record.heads import HeadWalk
from engine.record.soundness import resume_after_damage
from engine.record.windows import LogWalk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from engine.files import ReadOnlyFiles
    from engine.findings import Finding
    from engine.overview.usage import UsedFile
    from engine.record.windows import Window

_HOUR_MS = 3_600_000
_NO_PRODUCER, _NO_TIME = "no producer id", "no timestamp"
_NULL_KEY, _NO_RECORDS = "(null)", "(no records)"  # the second: transaction markers, emptied and damaged batches
_MOST_NAMES = 100_000  # groups that are kept apart; further ones are added up
OTHERS = "(others)"
Name = str | bytes


class Times(NamedTuple):
    """Batches whose largest timestamp is in [first, end), ms."""

    first: int = LONG_MIN
    end: int = LONG_MAX + 1


class Contents:
    """Adds up the batches of logs.

    by      codec, hour, producer or key-prefix      prefix  bytes of a key that make its group
    report  called with damage, whose bytes are in no group
    failed  called with the error for each log that cannot be read
    """

    def __init__(
        self, files: ReadOnlyFiles, by: str, report: Callable[[Finding], None], failed: Callable[[KafkalogError], None],
        times: Times, prefix: int,
    ) -> None:
        self._files, self._report, self._failed, self._times, self._prefix = files, report, failed, times, prefix
        self._columns = BatchColumns()
        self._name = None if by == "key-prefix" else _NAMES[by]
        self.groups: dict[Name, Usage] = {}

    def add(self, used: Iterable[UsedFile]) -> None:
        """Add the logs among `used`."""
        for one in used:
            if one.kind == LOG and FileKind.LOG.value in one.name:  # a log of Kafka 0.7 has no batches
                try:
                    self._add_log(one)
                except KafkalogError as error:
                    if look(self._files, one.path) is not None:  # else a running broker has removed it
                        self._failed(error)

    def _add_log(self, log: UsedFile) -> None:
        with self._files.open(log.path) as file:
            walk = (LogWalk if self._name is None else HeadWalk)(file, 0, log.info.size, batches=self._columns)
            resumes = True
            while resumes:
                for window in walk:
                    self._add_window(window, log.path)
                resumes, findings = resume_after_damage(walk)
                for finding in findings:
                    self._report(finding)

    def _group(self, name: Name) -> Usage:
        group = self.groups.get(name)
        if group is None:
            if len(self.groups) >= _MOST_NAMES:
                name = OTHERS
            group = self.groups.setdefault(name, Usage(records=0))
        return group

    def _add_window(self, window: Window, path: str) -> None:
        fields = (BatchField.SIZE, BatchField.COUNT, BatchField.ATTRIBUTES, BatchField.MAX_TIMESTAMP, BatchField.PRODUCER_ID)
        rows = zip(*(window.batches.field(one)[: window.rows].tolist() for one in fields), strict=True)
        wanted = [(number, row) for number, row in enumerate(rows) if self._times.first <= row[3] < self._times.end]
        if self._name is None:
            self._add_records(window, dict(wanted), path)
            return
        for _, (size, count, attributes, time, producer) in wanted:
            group = self._group(self._name(attributes, time, producer))
            if count < 0 and not attributes & CODEC_MASK:
                count = 1  # noqa: PLW2901  # a message of format 0 or 1 that is not compressed
            _add(group, size, 0 if attributes & CONTROL_FLAG else count, time)

    def _add_records(self, window: Window, wanted: dict[int, tuple[int, ...]], path: str) -> None:
        """Add the records of batches, read through the decoder for all formats and codecs."""
        from engine.record.reader import ChunkReader  # imports all codecs

        found: dict[int, list[tuple[Name, int, int]]] = {number: [] for number in wanted}
        for chunk in ChunkReader(path, self._report).chunks(window):
            if chunk.control:
                continue
            table, prefix = chunk.records.table, self._prefix
            for record in range(chunk.first, chunk.end):
                group = found.get(table[RecordField.BATCH, record])
                if group is not None:
                    at, size = table[RecordField.KEY_POSITION, record], table[RecordField.KEY_SIZE, record]
                    name: Name = _NULL_KEY if size < 0 else bytes(chunk.data[at : at + min(size, prefix)])
                    weight = max(size, 0) + max(table[RecordField.VALUE_SIZE, record], 0)
                    group.append((name, weight, table[RecordField.TIMESTAMP, record]))
        for number, (size, *_) in wanted.items():
            records, left = found[number], size
            if not records:
                _add(self._group(_NO_RECORDS), size, 0, -1)
            weights = sum(weight for _, weight, _ in records)
            for at, (name, weight, time) in enumerate(records, 1):
                share = left if at == len(records) else size * weight // weights if weights else size // len(records)
                _add(self._group(name), share, 1, time)
                left -= share


def _add(group: Usage, size: int, records: int, time: int) -> None:
    group.log += size
    if records >= 0 and group.records is not None:
        group.records += records
    else:
        group.records = None  # of formats 0 and 1, whose headers have no count
    if time >= 0:
        group.add_times(time, time)


@lru_cache
def _hour(number: int) -> str:
    return time_text(number * _HOUR_MS)


_NAMES: dict[str, Callable[[int, int, int], str]] = {
    "codec": lambda attributes, _time, _producer: _codec(attributes & CODEC_MASK),
    "hour": lambda _attributes, time, _producer: _NO_TIME if time < 0 else _hour(time // _HOUR_MS),
    "producer": lambda _attributes, _time, producer: _NO_PRODUCER if producer < 0 else str(producer),
}


def _codec(number: int) -> str:
    return CODEC_NAMES[number] if number < len(CODEC_NAMES) else f"codec {number}"

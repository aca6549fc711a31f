"""The columns of a table of records as Python values, without pyarrow. Names and order are those of `engine.arrow.columns`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from engine.formats import CODEC_NAMES
from engine.record.control import increment_sequence

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.findings import Finding
    from engine.log.fetch.records import Run
    from engine.record.batch import Record
    from engine.schema.decode import RecordDecoder


class ExportedPartition(NamedTuple):
    """A partition whose records are exported. topic, directory: bytes that are not UTF-8 are escaped (`json_stream.sentence`).

    path     the directory as the user gave it, for findings, which `report` receives
    decoder  of keys and values, for DECODED; None: they stay as they are
    """

    topic: str
    partition: int
    directory: str
    path: str
    report: Callable[[Finding], None]
    decoder: RecordDecoder | None = None


class Sink(Protocol):
    """Writes the records of partitions, one after the other, to one file."""

    def begin(self, source: ExportedPartition) -> None:
        """Begin a partition."""

    def run(self, run: Run) -> None:
        """Write all records of a run."""

    def end(self) -> None:
        """End the partition: write everything that was kept back."""

    def close(self, ranges: list[dict[str, object]]) -> None:
        """Complete the file. ranges: the offsets of each partition in it."""

    def abandon(self) -> None:
        """Release what belongs to a file that will not be completed. Never raises."""


RECORD_COLUMNS: dict[str, Callable[[Record, ExportedPartition, str], object]] = {
    "key": lambda record, _source, _path: record.key,
    "value": lambda record, _source, _path: record.value,
    "topic": lambda _record, source, _path: source.topic,
    "partition": lambda _record, source, _path: source.partition,
    "offset": lambda record, _source, _path: record.offset,
    "timestamp": lambda record, _source, _path: record.timestamp,  # ms
    "timestampType": lambda record, _source, _path: -1 if record.batch.magic == 0 else int(record.batch.is_log_append_time),
    "headers": lambda record, _source, _path: record.headers,
}
EXTRA_COLUMNS: dict[str, Callable[[Record, ExportedPartition, str], object]] = {
    "producerId": lambda record, _source, _path: record.batch.producer_id,
    "producerEpoch": lambda record, _source, _path: record.batch.producer_epoch,
    "sequence": lambda record, _source, _path: _sequence(record),
    "partitionLeaderEpoch": lambda record, _source, _path: record.batch.partition_leader_epoch,
    "isTransactional": lambda record, _source, _path: record.batch.is_transactional,
    "isControl": lambda record, _source, _path: record.batch.is_control,
    "codec": lambda record, _source, _path: CODEC_NAMES[record.batch.codec] if record.batch.codec < len(CODEC_NAMES) else None,
    "segment": lambda _record, _source, path: path.rpartition("/")[2],
    "position": lambda record, _source, _path: record.batch.position,
    "directory": lambda _record, source, _path: source.directory,
    "keySize": lambda record, _source, _path: None if record.key is None else len(record.key),
    "valueSize": lambda record, _source, _path: None if record.value is None else len(record.value),
}
COLUMNS = RECORD_COLUMNS | EXTRA_COLUMNS
DECODED = ("decodedKey", "decodedValue")  # with a decoder: JSON, null if key or value was not decoded


def _sequence(record: Record) -> int:
    batch = record.batch
    return -1 if batch.base_sequence < 0 else increment_sequence(batch.base_sequence, record.offset - batch.base_offset)

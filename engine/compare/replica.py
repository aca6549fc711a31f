"""A replica opened for a comparison: its offsets and epochs, and its batches from an offset on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.checkpoint.checkpoints import known_offsets, read_offset_checkpoint
from engine.checkpoint.identity import read_topic_id
from engine.compare.lineage import read_lineage
from engine.discovery.names import FileKind, parent_of, partition_of
from engine.formats import CODEC_MASK, CONTROL_FLAG, MAGIC_V2, TRANSACTIONAL_FLAG, BatchField, RecordField
from engine.log.fetch.view import PartitionView
from engine.log.verify.losses import read_evidence
from engine.record.batch import Record, RecordBatch
from engine.record.columns import BatchColumns, RecordColumns
from engine.record.reader import ChunkReader
from engine.record.soundness import resume_after_damage, unsound_batches
from engine.record.windows import LogWalk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from engine.files import ReadOnlyFiles
    from engine.findings import Finding
    from engine.log.fetch.segment_view import SegmentView
    from engine.record.reader import Chunk

_INFLATED = 64 << 20  # bytes of a decompressed batch that are compared record by record
_ROWS = 1024  # batches of a window; those of two replicas are in memory


class Batch(NamedTuple):
    """The header of a batch, or of an entry of formats 0 and 1, and its place. See BatchField for the members."""

    segment: SegmentView
    position: int
    size: int
    magic: int
    is_valid: bool
    crc: int
    attributes: int
    base_offset: int
    last_offset: int
    record_count: int  # −1 in formats 0 and 1
    max_timestamp: int
    base_timestamp: int
    producer_id: int
    leader_epoch: int

    @property
    def is_control(self) -> bool:
        """Whether it holds control records, such as transaction markers."""
        return self.magic >= MAGIC_V2 and bool(self.attributes & CONTROL_FLAG)

    @property
    def is_transactional(self) -> bool:
        """Whether it is part of a transaction."""
        return self.magic >= MAGIC_V2 and bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def first_timestamp(self) -> int:
        """Timestamp of its first record, ms; in formats 0 and 1 the largest one. NO_TIMESTAMP: none is known."""
        return self.base_timestamp if self.magic >= MAGIC_V2 else self.max_timestamp

    def has_same_content(self, other: Batch) -> bool:
        """Whether both have the same bytes from the magic on, by length and checksum."""
        mine, theirs = (self.size, self.magic, self.crc), (other.size, other.magic, other.crc)
        return mine == theirs and self.is_valid and other.is_valid

    def is_same(self, other: Batch) -> bool:
        """Whether both have the same content, offsets and leader epoch."""
        mine, theirs = (self.base_offset, self.leader_epoch), (other.base_offset, other.leader_epoch)
        return mine == theirs and self.has_same_content(other)


_FIELDS = (
    BatchField.POSITION, BatchField.SIZE, BatchField.MAGIC, BatchField.VALID, BatchField.CRC, BatchField.ATTRIBUTES,
    BatchField.BASE_OFFSET, BatchField.LAST_OFFSET, BatchField.COUNT, BatchField.MAX_TIMESTAMP, BatchField.BASE_TIMESTAMP,
    BatchField.PRODUCER_ID, BatchField.LEADER_EPOCH,
)  # fmt: skip


class Place(NamedTuple):
    """A position in a replica: the number of the segment, and the byte in its .log."""

    segment: int
    position: int


class Replica:
    """The copy of a partition in `directory`.

    report  called with damage, and with evidence of records that it lost at its end
    name    of this side in the output
    high_watermark  by replication-offset-checkpoint, which a running broker writes every 5 seconds; None: not known
    topic_id        by partition.metadata; None: not known
    Raises UnreadableFile, also if there is no log, and CorruptRecord.
    """

    def __init__(self, files: ReadOnlyFiles, directory: str, name: str, report: Callable[[Finding], None]) -> None:
        self.files, self.name, self._report = files, name, report
        evidence = read_evidence(files, directory, of_end_only=True)  # before the log, which a broker may be extending
        watermark = _find_high_watermark(files, directory, report)
        self.view = PartitionView(files, directory, report)
        try:
            self.directory = self.view.directory
            self.start = self.view.log_start_offset
            self.end = max(self.view.log_end_offset, self.view.sound_end_offset)  # the last batch may be damaged
            self.lineage = read_lineage(files, self.view, report)._replace(end=self.end)
            self.high_watermark = watermark
            self.topic_id = read_topic_id(files, self.directory)
            for claim in evidence.beyond(self.end):
                report(claim.finding(self.end))
        except BaseException:
            self.close()
            raise
        self.segments = list(self.view.segments)
        self._columns, self._records = BatchColumns(_ROWS), RecordColumns()

    def close(self) -> None:
        """Close all files."""
        self.view.close()

    def size_of(self, segment: int) -> int:
        """Bytes of the .log of a segment: all, or for the last one up to the end of the last whole batch."""
        return self.segments[segment].size

    def place_of(self, offset: int) -> Place:
        """The place of the first batch that ends at or after `offset`; the end of the log if there is none.

        At the start of a segment it is byte 0, even if the first batch is damaged: a walk from there reports it.
        """
        for number, segment in enumerate(self.segments):
            if segment.base_offset == offset:
                return Place(number, 0)
        found = self.view.locate(offset)
        for number, segment in enumerate(self.segments):
            if segment.base_offset == found.segment_base_offset:
                return Place(number, found.position or 0)
        return Place(len(self.segments) - 1, self.segments[-1].size)

    def batches(self, place: Place) -> Iterator[Batch]:
        """Yield the batches from `place` on. Damage is reported. The walk continues at the next sound batch."""
        number, position = place
        for segment in self.segments[number:]:
            walk = LogWalk(segment.log_file, position, segment.size, batches=self._columns)
            resumes = True
            while resumes:
                for window in walk:
                    for _, finding in unsound_batches(segment.log_path, window, codecs=False):
                        self._report(finding)
                    columns = [window.batches.field(field)[: window.rows].tolist() for field in _FIELDS]
                    for at, size, magic, valid, *others in zip(*columns, strict=True):
                        is_valid = valid == 1 and 0 <= magic <= MAGIC_V2  # the checksum does not cover the magic
                        yield Batch(segment, window.base + at, size, magic, is_valid, *others)
                resumes, findings = resume_after_damage(walk)
                for finding in findings:
                    self._report(finding)
            segment.release_log()
            position = 0

    def batches_in(self, ranges: Iterable[tuple[int, int]]) -> Iterator[Batch]:
        """Yield the sound batches with offsets in `ranges`, (first, end), which ascend; each once."""
        last = -1
        for first, end in ranges:
            for batch in self.batches(self.place_of(first)):
                if batch.base_offset >= end:
                    break
                if batch.is_valid and batch.last_offset > last and batch.last_offset >= first:
                    yield batch
                    last = batch.last_offset

    def records(self, batch: Batch) -> list[Record]:
        """Return the records of a batch, with control records. Problems are reported; records after them are left out."""
        walk = LogWalk(batch.segment.log_file, batch.position, batch.position + batch.size, batches=BatchColumns(8))
        reader = ChunkReader(batch.segment.log_path, self._report, _INFLATED, self._records)
        found: list[Record] = []
        for window in walk:
            rows = [RecordBatch(window.batches, row, window.base) for row in range(window.rows)]
            for chunk in reader.chunks(window):
                batch_of = chunk.records.field(RecordField.BATCH)
                found += [Record(chunk, column, rows[batch_of[column]]) for column in range(chunk.first, chunk.end)]
        return found

    def chunks(self, place: Place) -> Iterator[Chunk]:
        """Yield the records from `place` on, without findings about damage, which `batches` reports."""
        number, position = place
        for segment in self.segments[number:]:
            reader = ChunkReader(segment.log_path, lambda _: None, _INFLATED, self._records)
            walk = LogWalk(segment.log_file, position, segment.size, batches=self._columns)
            resumes = True
            while resumes:
                for window in walk:
                    yield from reader.chunks(window)
                resumes, _ = resume_after_damage(walk)
            segment.release_log()
            position = 0

    def count(self, batch: Batch) -> int:
        """Return the number of records of a batch; those of a compressed message of formats 0 and 1 are decompressed for it."""
        if batch.record_count >= 0:
            return batch.record_count
        return len(self.records(batch)) if batch.attributes & CODEC_MASK and batch.is_valid else 1


def _find_high_watermark(files: ReadOnlyFiles, directory: str, report: Callable[[Finding], None]) -> int | None:
    directory = files.absolute(directory.rstrip("/") or "/")
    name, path = partition_of(f"{directory}/x"), f"{parent_of(directory)}/{FileKind.REPLICATION_CHECKPOINT.value}"
    if name is None or not files.exists(path):
        return None
    known, fault = known_offsets(files, path)
    if fault is None:
        return known.get((name.topic, name.partition))
    for finding in read_offset_checkpoint(files, path).findings:
        report(finding)
    return None

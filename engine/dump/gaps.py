"""Offsets that do not follow one another: which gaps the cleaner left, and which are losses.

kafka-dump-log calls every gap an error, also the start of a log that does not begin at 0. A gap inside the offset
range that a batch claims can only come from the cleaner; one between batches, or before the first, counts as the
cleaner's where it is known to have been at work: by its checkpoint, by the topic, or by traces in the same log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.checkpoint.offsets import by_partition, read_offset_checkpoint
from engine.errors import UnreadableFile
from engine.formats import DELETE_HORIZON_FLAG, MAGIC_V2, BatchField, RecordField
from engine.kernels.select import next_gap
from engine.layout import FileKind, parent_of, partition_of

if TYPE_CHECKING:
    from engine.files import ReadOnlyFiles
    from engine.record.reader import Chunk

_COMPACTED_TOPICS = frozenset(("__consumer_offsets", "__transaction_state", "__share_group_state"))
_KEPT = 1000  # gaps remembered one by one


class Gap(NamedTuple):
    """`before` is followed by `after`, at or behind byte `position` of the file."""

    before: int
    after: int
    position: int


class Gaps:
    """Collects the gaps of one log, chunk by chunk.

    base_offset  of the segment, as its name says; None: not known
    compacted    the cleaner is known to have been here: its checkpoint or the topic says so
    """

    def __init__(self, base_offset: int | None = None, *, compacted: bool = False) -> None:
        self.compacted = compacted
        self.disorders: list[Gap] = []  # offsets that do not grow
        self._holes: list[Gap] = []
        self._hole_count = 0
        self._previous: int | None = None  # offset of the last record
        # last offset of the last batch, before the first one that of the segment before; None: batches behind the last
        # record do not follow one another
        self._claimed = base_offset - 1 if base_offset is not None and base_offset >= 0 else None
        self._base = 0

    def feed(self, chunk: Chunk, base: int) -> None:
        """Take the records of a chunk, whose window begins at file position `base`."""
        table = chunk.records.table
        self._base = base
        record = chunk.first
        if not self.compacted and chunk.last_row > chunk.first_row:
            self.compacted = _shows_the_cleaner(chunk)
        if self._previous is None and record < chunk.end:
            self._previous = self._claimed
            if self._previous is None:
                self._previous = table[RecordField.OFFSET, record]
                record += 1
        while record < chunk.end:
            found = next_gap(table, record, chunk.end, self._previous)
            if found > record:
                self._previous = table[RecordField.OFFSET, found - 1]
            if found < chunk.end:
                self._gap(chunk, found)
                self._previous = table[RecordField.OFFSET, found]
            record = found + 1
        row = chunk.first_row
        if chunk.first < chunk.end:
            row = table[RecordField.BATCH, chunk.end - 1]
            self._claimed = chunk.batches.table[BatchField.LAST_OFFSET, row]
            row += 1
        for empty in range(row, chunk.last_row):
            self._claimed = _claim(chunk.batches.table, empty, self._claimed)

    def losses(self) -> list[Gap]:
        """The gaps that no compaction explains, at most 1000 of them."""
        return [] if self.compacted else self._holes

    @property
    def loss_count(self) -> int:
        """How many such gaps there were."""
        return 0 if self.compacted else self._hole_count

    def _gap(self, chunk: Chunk, record: int) -> None:
        records, batches = chunk.records.table, chunk.batches.table
        before = self._previous
        assert before is not None  # feed has set it
        after = records[RecordField.OFFSET, record]
        row = records[RecordField.BATCH, record]
        gap = Gap(before, after, self._base + batches[BatchField.POSITION, row])
        if after <= before:
            if len(self.disorders) < _KEPT:
                self.disorders.append(gap)
        elif self._is_claimed(chunk, record):
            self.compacted = True
        else:
            self._hole_count += 1
            if len(self._holes) < _KEPT:
                self._holes.append(gap)

    def _is_claimed(self, chunk: Chunk, record: int) -> bool:
        """Do batches claim all the offsets between the record before and this one?"""
        records, batches = chunk.records.table, chunk.batches.table
        row = records[RecordField.BATCH, record]
        inside = record > chunk.first
        if inside and records[RecordField.BATCH, record - 1] == row:
            return True
        first = records[RecordField.BATCH, record - 1] + 1 if inside else chunk.first_row
        if row < first:
            return True  # the batch began in the chunk before
        claimed = batches[BatchField.LAST_OFFSET, first - 1] if inside else self._claimed
        for empty in range(first, row):
            claimed = _claim(batches, empty, claimed)
        if claimed is None:
            return False
        if batches[BatchField.MAGIC, row] < MAGIC_V2:  # a wrapper does not say where it begins
            return bool(records[RecordField.OFFSET, record] == claimed + 1)
        return bool(batches[BatchField.BASE_OFFSET, row] == claimed + 1)


def _claim(batches: memoryview, row: int, claimed: int | None) -> int | None:
    """The last offset of batch `row`, which has no records, if it begins right behind `claimed`; else None."""
    if claimed is None or batches[BatchField.BASE_OFFSET, row] != claimed + 1:
        return None
    last: int = batches[BatchField.LAST_OFFSET, row]
    return last


def was_cleaned(files: ReadOnlyFiles, path: str, base_offset: int | None) -> bool:
    """Do the topic, or the cleaner's checkpoint of the log dir, say that the cleaner was at work in this segment?

    path  absolute: the directories above tell
    """
    partition = partition_of(path)
    if partition is None:
        return False
    if partition.topic in _COMPACTED_TOPICS:
        return True
    log_dir = parent_of(parent_of(path))
    try:
        checkpoint = read_offset_checkpoint(files, f"{log_dir}/{FileKind.CLEANER_CHECKPOINT.value}")
    except UnreadableFile:
        return False
    cleaned_up_to = by_partition(checkpoint.entries).get((partition.topic, partition.partition), 0)
    return cleaned_up_to > (base_offset or 0)


def _shows_the_cleaner(chunk: Chunk) -> bool:
    """Is one of the chunk's new batches emptied, or does it carry a delete horizon?"""
    rows = slice(chunk.first_row, chunk.last_row)
    if chunk.batches.table[BatchField.MAGIC, chunk.first_row] < MAGIC_V2:
        return False
    if any(attributes & DELETE_HORIZON_FLAG for attributes in set(chunk.batches.field(BatchField.ATTRIBUTES)[rows])):
        return True
    return 0 in chunk.batches.field(BatchField.COUNT)[rows].tolist()

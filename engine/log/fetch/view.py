"""A partition opened for reading only, beside a broker that may be running. Nothing is created, changed or trusted unchecked.

State that a broker has in memory is computed: the log end from the last index entry on, the open transactions from the last
producer snapshot on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.checkpoint.checkpoints import EpochEntry, known_offsets, read_leader_epochs
from engine.config.topic import LogConfig
from engine.discovery.names import (
    FileKind,
    log_base_offsets,
    parent_of,
    parse_file_name,
    partition_of,
    transaction_index_file_name,
)
from engine.errors import UnreadableFile
from engine.formats import CONTROL_FLAG, LONG_MAX, TRANSACTIONAL_FLAG, AbortedTxn, BatchField
from engine.log.continuity.offset_order import stop_before
from engine.log.errors import CorruptRecord
from engine.log.fetch.reading import fetch_offset_by_timestamp
from engine.log.fetch.segment_view import SegmentView
from engine.log.segment.batch_search import find_end
from engine.log.segment.log_segments import LogOffsetMetadata, Segments
from engine.record.columns import BatchColumns, RecordColumns
from engine.record.heads import HeadWalk
from engine.record.soundness import resume_after_damage, unsound_batches
from engine.record.windows import LogWalk, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from engine.discovery.names import PartitionDir
    from engine.files import OpenFile, ReadOnlyFiles
    from engine.findings import Finding
    from engine.log.segment.batch_search import TimestampAndOffset
    from engine.log.segment.readable_segment import ReadableSegment


SWAP = ".swap"


def logs_in_use(names: Iterable[str]) -> dict[int, str]:
    """Base offset of each log, ascending → the suffix of its files, "" or ".swap".

    A `.swap` file is complete. It is used once the first log that it replaces is removed; until then the old logs are
    complete. A starting broker decides in the same way. Mirrors LocalLog.replaceSegments.
    """
    known = list(names)
    plain, swapped = log_base_offsets(known), log_base_offsets(known, SWAP)
    if not set(plain).isdisjoint(swapped):
        swapped = []
    return dict(sorted((dict.fromkeys(swapped, SWAP) | dict.fromkeys(plain, "")).items()))


def superseded_by(segment: ReadableSegment, others: Iterable[int]) -> list[int]:
    """Those of the base offsets `others` whose segments the `.swap` segment replaces, and which will be removed."""
    try:
        end = segment.read_next_offset()
    except CorruptRecord:  # the reader of the segment finds it again
        return []
    return [base for base in others if segment.base_offset < base < end]


_LIST_ATTEMPTS = 20  # attempts to list a directory in which files come and go
_SMALL = 64 << 10  # bytes of a log that one request to a store reads: faster than its index and its end
_MOST_REPORTED = 100  # findings about the batches of producers
BEING_WRITTEN = ("torn-tail", "zero-tail")  # codes of findings that are normal while a broker writes


class EpochsRead:
    """The entries of a leader-epoch-checkpoint."""

    def __init__(self, entries: list[EpochEntry]) -> None:
        self.entries = entries


class KnownEnd(NamedTuple):
    """The end of a log that was found before: `log_end` with its position; readers read up to `stable` (last stable offset)."""

    log_end: LogOffsetMetadata
    stable: int


class PartitionView:
    """The partition in `directory`, as it is on the disk now; `refresh` reads new segments and batches.

    log_start_offset  None: from the log dir's checkpoint, else the base offset of the first segment
    high_watermark    None: the log end offset; replication-offset-checkpoint is some seconds old
    known             the end, which is not searched for again unless the last segment became shorter
    report            called with damage at the end of the log, and with unreadable transaction markers
    is_followed       a broker may be writing: findings that are normal then are not reported

    checks_producers  check the batches that open transactions are computed from: damage is reported, and opens or ends none
    damage            the first such damage, also `tail`; None: there is none, or it is not checked
    left_out          (producer, first offset) of open transactions whose records are left out
    tail              a finding about the bytes after the last whole batch; None: there are none
    sound_end_offset  offset after the last batch before damage, in the part of the log that was read to find its end
    Raises UnreadableFile (also if there is no log) and CorruptRecord.
    """

    def __init__(
        self, files: ReadOnlyFiles, directory: str, report: Callable[[Finding], None], *,
        log_start_offset: int | None = None, high_watermark: int | None = None, known: KnownEnd | None = None,
        config: LogConfig | None = None, is_followed: bool = False,
    ) -> None:
        self.files, self.directory = files, directory.rstrip("/") or "/"
        self.config = LogConfig() if config is None else config
        self.segments = Segments[SegmentView]()
        self.partition: PartitionDir | None = partition_of(files.absolute(self.directory + "/x"))
        self._report, self._is_followed, self.checks_producers = report, is_followed, False
        self._damaged: set[Finding] = set()
        self.damage: Finding | None = None
        self._asked_start, self._asked_watermark = log_start_offset, high_watermark
        self._known, self._known_stable = known, None if known is None else known.stable
        self.left_out: Sequence[tuple[int, int]] = ()
        self._end = LogOffsetMetadata(0, -1, 0)  # of no segment: none is known yet
        self.tail: Finding | None = None
        self.sound_end_offset = 0
        self._open_transactions: dict[int, int] | None = None  # producer → first offset; None: not read yet
        self._followed_to = 0  # offset up to which they were read
        self._epochs: EpochsRead | None = None  # not read yet
        self.log_start_offset = 0
        try:
            self.refresh()
            self.log_start_offset = self._find_start()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close all files."""
        self.segments.close_handlers()

    # ---- start and end of the log

    @property
    def log_end_offset(self) -> int:
        """The offset after the last whole batch."""
        return self._end.message_offset

    @property
    def high_watermark(self) -> int:
        """Records below it are on all in-sync replicas, according to the caller or the log end."""
        return self.log_end_offset if self._asked_watermark is None else min(self._asked_watermark, self.log_end_offset)

    @property
    def leader_epoch_cache(self) -> EpochsRead:
        """The leader epochs, read on first use. Raises UnreadableFile."""
        if self._epochs is None:
            self._epochs = self._read_epochs()
        return self._epochs

    def log_end_offset_metadata(self) -> LogOffsetMetadata:
        """The log end offset with its position."""
        return self._end

    def fetch_high_watermark_metadata(self) -> LogOffsetMetadata:
        """The high watermark with its position."""
        return self.locate(max(self.high_watermark, self.log_start_offset))

    def fetch_last_stable_offset_metadata(self) -> LogOffsetMetadata:
        """The last stable offset, which is the first offset of the oldest open transaction, with its position."""
        if self._known_stable is not None:
            return self._position_after(max(min(self._known_stable, self.log_end_offset), self.log_start_offset))
        unstable = min(self.open_transactions().values(), default=self.high_watermark)
        offset = max(min(unstable, self.high_watermark), self.log_start_offset)
        found = self.locate(offset)
        return found._replace(message_offset=min(found.message_offset, offset))  # a batch out of order may begin higher

    def locate(self, offset: int) -> LogOffsetMetadata:
        """The first offset and the position of the batch that holds `offset`."""
        segment = self.segments.floor_segment(offset) if offset < self.log_end_offset else None
        while segment is not None:
            head = segment.find_offset(offset)
            if head is not None:
                return LogOffsetMetadata(head.base_offset, segment.base_offset, head.position)
            segment = self.segments.higher_segment(segment.base_offset)
        return self._end

    def _position_after(self, offset: int) -> LogOffsetMetadata:
        """The position after the batch that holds `offset` − 1: the end of a read of records below `offset`."""
        segment = self.segments.floor_segment(offset - 1) if offset < self.log_end_offset else None
        if segment is None:
            return self.locate(offset)
        stop = stop_before(segment, offset)
        return LogOffsetMetadata(offset, segment.base_offset, segment.size if stop is None else stop)

    def offset_by_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        """The first record with at least this timestamp; None: there is none."""
        return fetch_offset_by_timestamp(self, timestamp)

    def refresh(self) -> bool:
        """Read new segments and batches. Returns whether the log end offset has increased.

        Segments that were removed since then are dropped, and the log start offset moves after them. For segments that a
        broker is replacing see `logs_in_use`.
        """
        before = self._end
        for number in range(_LIST_ATTEMPTS):
            names = self.files.list(self.directory)
            try:
                self._update_segments(names)
                break
            except UnreadableFile:
                if number + 1 == _LIST_ATTEMPTS or self.files.list(self.directory) == names:
                    raise
        self.log_start_offset = max(self.log_start_offset, min(self.segments.base_offsets, default=0))
        return self._end.message_offset > before.message_offset

    def _update_segments(self, names: list[str]) -> None:
        """Update the segments to the files `names`. Raises UnreadableFile, also if a listed segment was removed since then."""
        there = logs_in_use(names)
        for segment in list(self.segments):
            if there.get(segment.base_offset) != segment.suffix:
                self._forget(segment)
        before = max(self.segments.base_offsets, default=None)
        listed = set(names)
        for base, suffix in there.items():
            if self.segments.get(base) is None:
                has_txn_index = transaction_index_file_name(base, suffix) in listed
                segment = SegmentView(self.files, self.directory, base, suffix, has_txn_index=has_txn_index)
                self.segments.add(segment)
        for segment in [one for one in self.segments if one.suffix]:
            for base in superseded_by(segment, list(self.segments.base_offsets)):
                superseded = self.segments.get(base)
                if superseded is not None:
                    self._forget(superseded)
        last = max(self.segments.base_offsets, default=None)
        if before is not None and before != last and self.segments.get(before) is not None:
            self._set_end(before, is_last=False)  # it was the last segment, and was closed since then
        if last is not None:
            self._set_end(last, is_last=True)

    def _forget(self, segment: SegmentView) -> None:
        segment.close_handlers()
        self.segments.remove(segment.base_offset)

    def _set_end(self, base: int, *, is_last: bool) -> None:
        """Find the end of the segment at `base`, and if it is the last one the log end."""
        segment = self.segments.get(base)
        assert segment is not None
        size = self.files.info(segment.log_path).size
        if segment.is_last and is_last and size == segment.size and segment.size:
            return
        segment.forget(size)
        segment.is_last = is_last
        if not is_last:
            return
        known = None if self._known is None else self._known.log_end
        if known is not None and known.segment_base_offset == base and known.position is not None and known.position <= size:
            segment.size, self._end, self.sound_end_offset = known.position, known, known.message_offset
            return
        is_small = segment.needs_requests and size <= _SMALL
        position = 0 if is_small else segment.offset_index.lookup(segment.offset_index.last_offset).position
        found = find_end(segment.log_file, position if position < size else 0, size, base)
        is_known = _is_known_end(self._end, base, found.position)
        if found.tail is not None and not is_known and not (self._is_followed and found.tail.code in BEING_WRITTEN):
            self._report(found.tail._replace(what=f"{found.tail.what}: not read"))
        segment.size, self.tail = found.position, found.tail
        self.damage = self.damage or found.tail
        self._end = LogOffsetMetadata(max(base, found.next_offset or 0), base, found.position)
        self.sound_end_offset = max(base, found.sound_offset or 0)

    def _find_start(self) -> int:
        if not len(self.segments):
            what = f"{self.directory}: it does not contain the log of a partition"
            raise UnreadableFile(what, do="name the directory of one partition, such as data/orders-7", path=self.directory)
        first = self.segments.base_offsets[0]
        if self._asked_start is not None:
            return max(first, self._asked_start)
        path = f"{parent_of(self.files.absolute(self.directory))}/{FileKind.LOG_START_CHECKPOINT.value}"
        if self.partition is None or not self.files.exists(path):
            return first
        known, _ = known_offsets(self.files, path)
        return max(first, known.get((self.partition.topic, self.partition.partition), 0))

    def _read_epochs(self) -> EpochsRead:
        """The epochs as a broker has them after loading: none begins before the log start or after the log end."""
        path = f"{self.directory}/{FileKind.LEADER_EPOCH_CHECKPOINT.value}"
        entries = read_leader_epochs(self.files, path).entries if self.files.exists(path) else []
        start = self.log_start_offset
        first = [EpochEntry(entry.epoch, start) for entry in entries if entry.start_offset <= start][-1:]
        return EpochsRead(first + [entry for entry in entries if start < entry.start_offset < self.log_end_offset])

    # ---- open transactions

    def end_transactions(self, left_out: Sequence[tuple[int, int]]) -> None:
        """Treat all transactions as ended. The records of `left_out`, (producer, first offset), are left out."""
        self._known_stable, self.left_out = self.high_watermark, left_out

    @property
    def undecided(self) -> list[AbortedTxn]:
        """Open transactions whose records are left out. See ReadableLog."""
        return [AbortedTxn(0, producer, first, LONG_MAX, LONG_MAX) for producer, first in self.left_out]

    def open_transactions(self) -> dict[int, int]:
        """Producers with an open transaction → its first offset."""
        if self._open_transactions is None:
            self._open_transactions, self._followed_to = self._from_snapshot()
        if self._followed_to < self.log_end_offset:
            self._follow(self._open_transactions)
            self._followed_to = self.log_end_offset
        return self._open_transactions

    def _from_snapshot(self) -> tuple[dict[int, int], int]:
        """(open transactions at the last valid snapshot, its offset); without a snapshot none, at the log start."""
        from engine.checkpoint.producer_snapshot import ProducerSnapshot

        offsets = []
        for name in self.files.list(self.directory):
            parsed = parse_file_name(name)
            if parsed is not None and parsed.kind is FileKind.PRODUCER_SNAPSHOT and not parsed.suffix:
                offset = parsed.base_offset
                if offset is not None and self.log_start_offset <= offset <= self.log_end_offset:
                    offsets.append((offset, name))
        for offset, name in sorted(offsets, reverse=True):
            snapshot = ProducerSnapshot.read(self.files, f"{self.directory}/{name}")
            if not snapshot.sanity():
                entries = {entry.producer_id: entry.current_txn_first_offset for entry in snapshot}
                return {producer: first for producer, first in entries.items() if first >= 0}, offset
        return {}, self.log_start_offset

    def _follow(self, transactions: dict[int, int]) -> None:
        """Update `transactions` to the log end, from the headers of batches and the records of markers."""
        found = self.locate(self._followed_to)
        columns, marker = BatchColumns(), _Marker()
        for segment in self.segments.values(found.segment_base_offset):
            start = found.position if segment.base_offset == found.segment_base_offset else 0
            for window in self.windows(segment, start or 0, columns):
                self._follow_window(window, transactions, marker, segment.log_file)

    def windows(self, segment: SegmentView, start: int, columns: BatchColumns) -> Iterator[Window]:
        """Yield the headers of the batches of a segment from byte `start` on, also those after damage."""
        walk: HeadWalk | LogWalk
        if self.checks_producers:
            walk = LogWalk(segment.log_file, start, segment.size, batches=columns)
        else:
            walk = HeadWalk(segment.log_file, start, segment.size, batches=columns)
        resumes = True
        while resumes:
            for window in walk:
                if self.checks_producers:
                    self._note(finding for _, finding in unsound_batches(segment.log_path, window, codecs=False))
                yield window
            resumes, found = resume_after_damage(walk)
            if self.checks_producers:  # else reading the records reports the damage
                self._note(found)
        segment.release_log()

    def _note(self, findings: Iterable[Finding]) -> None:
        """Report damage, each once, and no more than some."""
        for finding in findings:
            self.damage = self.damage or finding
            if finding not in self._damaged and len(self._damaged) < _MOST_REPORTED:
                self._damaged.add(finding)
                self._report(finding)

    def _unreadable_marker(self, finding: Finding) -> None:
        self.damage = self.damage or finding
        self._report(finding)

    def _follow_window(self, window: Window, transactions: dict[int, int], marker: _Marker, file: OpenFile) -> None:
        """Apply the batches of the window that end after the offset up to which transactions were read."""
        from engine.kernels.verify import next_for_producer_state

        table = window.batches.table
        row = next_for_producer_state(table, 0, window.rows)
        while row < window.rows:
            attributes, producer = table[BatchField.ATTRIBUTES, row], table[BatchField.PRODUCER_ID, row]
            is_new = table[BatchField.LAST_OFFSET, row] >= self._followed_to and table[BatchField.VALID, row]
            if is_new and attributes & TRANSACTIONAL_FLAG:
                position = window.base + table[BatchField.POSITION, row]
                if not attributes & CONTROL_FLAG:
                    transactions.setdefault(producer, table[BatchField.BASE_OFFSET, row])
                elif marker.ends_transaction(file, position, table[BatchField.SIZE, row], self._unreadable_marker):
                    transactions.pop(producer, None)
            row = next_for_producer_state(table, row + 1, window.rows)


class _Marker:
    """Reads control batches one after the other."""

    def __init__(self) -> None:
        self._batches, self._records = BatchColumns(1), RecordColumns(8)

    def ends_transaction(self, file: OpenFile, position: int, size: int, report: Callable[[Finding], None]) -> bool:
        """Is the batch in bytes [position, position + size) a commit or abort marker? `report`: called if it is unreadable."""
        from engine.log.segment.producer_rows import unreadable_marker
        from engine.log.segment.recovery_walk import read_marker
        from engine.record.control import ControlRecordInvalid

        for window in LogWalk(file, position, position + size, batches=self._batches):
            try:
                return read_marker(window, 0, self._records) is not None
            except ControlRecordInvalid as error:
                if window.batches.table[BatchField.VALID, 0]:  # reading the records reports a wrong checksum
                    report(unreadable_marker(window, 0, file.path, error))
        return False


def _is_known_end(end: LogOffsetMetadata, base: int, position: int) -> bool:
    """Was the log found to end at this position before?"""
    return (end.segment_base_offset, end.position) == (base, position)

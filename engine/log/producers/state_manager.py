"""Idempotent and transactional producers of a partition: loading them, and their snapshots on disk.

Mirrors ProducerStateManager. Verification of transactions (KIP-890) is left out: no client verifies offline. Times are
arguments; there is no clock. Producers expire only when they are loaded, as at a start: no command runs long enough for a
later expiration.

The functions at the end load the state from snapshots and batches, up to an offset, as static methods of UnifiedLog do.
"""

from __future__ import annotations

from array import array
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from engine.checkpoint.producer_snapshot import (
    ProducerSnapshot,
    SnapshotFiles,
    is_producer_snapshot_of,
    write_producer_snapshot,
)
from engine.discovery.names import parent_of, producer_snapshot_file_name
from engine.errors import UnwritableFile
from engine.formats import ABORTED_TXN, INT_MAX, NO_PRODUCER_ID, PRODUCER_SNAPSHOT_ENTRY
from engine.kernels.placement import report_producers
from engine.kernels.tables import KEPT_BATCH_FIELDS, KEPT_FIELDS, Kept
from engine.log.append_errors import IllegalArgument
from engine.log.errors import CorruptRecord, no_such_size, whole_recovery
from engine.log.producers.entry import AppendOrigin, BatchMetadata, CompletedTxn, ProducerAppendInfo, ProducerStateEntry
from engine.log.producers.table import EndedTransactions, ProducerTable, Transactions
from engine.log.segment.producer_rows import ReportedRows, RowChunk
from engine.log.segment.recovery_walk import read_marker
from engine.record.columns import RecordColumns
from engine.record.control import ControlRecordInvalid
from engine.record.soundness import sound_rows
from engine.record.windows import LogWalk, Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from engine.files import Files, WritableFile
    from engine.findings import Finding
    from engine.log.segment.log_segment import LogSegment
    from engine.log.segment.log_segments import DeferredDeletion, LogSegments
    from engine.log.segment.producer_rows import ProducerRow, TxnMarker
    from engine.log.segment.readable_segment import ReadableSegment
    from engine.record.windows import Window

_ROWS = 1032  # batches of producers in a chunk


class BatchSources(NamedTuple):
    """The sources of the last batches of producers: a snapshot, and the batches of the log after it.

    snapshot  path of the snapshot that the producer state was loaded from; None: there was none
    now, expiration_ms  decide which producers in it had expired
    chunks    iterates over all batches of producers after the snapshot; may be called repeatedly
    """

    files: Files
    snapshot: str | None
    now: int
    expiration_ms: int
    chunks: Callable[[], Iterator[RowChunk]]

    def find(self, producer_ids: Collection[int]) -> Iterator[tuple[int, tuple[BatchMetadata, ...]]]:
        """Yield the last batches of each of these producers, the oldest first. Reads the log once for all of them.

        Raises UnreadableFile, CorruptRecord.
        """
        chunks = self.chunks()
        first = next(chunks, None)
        if first is None:
            return  # only the snapshot has batches, one for each producer, and that one is loaded already
        wanted = ProducerTable(keeps_batches=False)
        numbers = {producer_id: wanted.find_or_add(producer_id) for producer_id in producer_ids}
        kept = array("q", bytes(8 * KEPT_FIELDS * len(numbers)))
        self._begin_with_snapshot(wanted, numbers, kept)
        wanted.keep_batches(first.table, memoryview(kept))
        for chunk in chunks:
            wanted.keep_batches(chunk.table, memoryview(kept))
        for producer_id, number in numbers.items():
            yield producer_id, _batches(kept, number)

    def _begin_with_snapshot(self, wanted: ProducerTable, numbers: dict[int, int], kept: array[int]) -> None:
        if self.snapshot is None or not self.files.exists(self.snapshot):
            return
        ongoing = Transactions()
        for piece in ProducerSnapshot.read(self.files, self.snapshot).pieces():
            for entry in wanted.known(memoryview(piece)):
                wanted.load(entry, self.now, self.expiration_ms, ongoing)
                loaded = wanted.get(PRODUCER_SNAPSHOT_ENTRY.read(entry).producer_id)
                if loaded is not None and not loaded.is_empty:
                    _begin(kept, numbers[loaded.producer_id], loaded)


def _begin(kept: array[int], number: int, entry: ProducerStateEntry) -> None:
    """Store the last batch of `entry` as the oldest batch of the producer."""
    at, last = number * KEPT_FIELDS, entry.batches[-1]
    kept[at + Kept.COUNT] = 1
    kept[at + Kept.LAST_SEQ : at + 1 + KEPT_BATCH_FIELDS] = array("q", last)


def _batches(kept: array[int], number: int) -> tuple[BatchMetadata, ...]:
    at = number * KEPT_FIELDS
    starts = range(at + 1, at + 1 + kept[at + Kept.COUNT] * KEPT_BATCH_FIELDS, KEPT_BATCH_FIELDS)
    return tuple(BatchMetadata(*kept[start : start + KEPT_BATCH_FIELDS]) for start in starts)


PRODUCER_ID_EXPIRATION_MS = 86_400_000
MAX_TRANSACTION_TIMEOUT_MS = 900_000
LATE_TRANSACTION_BUFFER_MS = 300_000
_DELETED = ".deleted"
_PIECE = 1 << 20  # bytes that are read at a time
_ENDED_AT_ONCE = 1_000  # transactions that are reported at once
_MOST_WITH_BATCHES = 10_000  # producers whose last batches are remembered, unless more are asked for at once


class ProducerStateManager:
    """The producers at `map_end_offset`, and the snapshot files of the partition in `directory`.

    snapshots            the snapshots on the disk, kept up to date, for a log that is recovered: invalid ones are set aside.
                         None: the directory is listed on first use, and invalid snapshots are removed at once
    for_snapshots        the state is only written to snapshots: only the last batch of each producer is stored, and no
                         transaction that has ended
    on_lost_snapshot     called for each snapshot that is removed because Kafka cannot read it, and for each that is rebuilt:
                         (path, why Kafka cannot read it or None, is it rebuilt?)
    written       paths of snapshots that were created or rebuilt: their names may not be synced
    batch_sources sources of the last batches of producers, see `load_last_batches`; None: nothing was loaded yet
    ongoing       transactions without a marker
    unreplicated  ended transactions whose marker may be above the high watermark
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        *,
        producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
        max_transaction_timeout_ms: int = MAX_TRANSACTION_TIMEOUT_MS,
        snapshots: SnapshotFiles | None = None,
        for_snapshots: bool = False,
    ) -> None:
        self.files, self.directory = files, directory
        self.producer_id_expiration_ms = producer_id_expiration_ms
        self.max_transaction_timeout_ms = max_transaction_timeout_ms
        self.topic_partition = directory.rstrip("/").rpartition("/")[2]
        self.for_snapshots = for_snapshots
        self.producers = ProducerTable(keeps_batches=not for_snapshots)
        self.ongoing, self.unreplicated = Transactions(), EndedTransactions()
        self.batch_sources: BatchSources | None = None
        self._loaded_from: str | None = None  # path of a snapshot
        self._with_last_batches: set[int] = set()
        self._map_end_offset = self._last_snapshot_offset = 0
        self.on_lost_snapshot: Callable[[str, str | None, bool], object] | None = None
        self._is_recovering = snapshots is not None
        self.written = set[str]() if snapshots is None else snapshots.written
        if snapshots is not None:
            self._snapshots = snapshots

    # ---- queries ----------------------------------------------------------------------------------

    @property
    def map_end_offset(self) -> int:
        """The state includes every batch below it."""
        return self._map_end_offset

    def update_map_end_offset(self, offset: int) -> None:
        """Set the offset below which the state includes every batch."""
        self._map_end_offset = offset

    @property
    def is_empty(self) -> bool:
        """Is there no producer, and no open or unreplicated transaction?"""
        return not len(self.producers) and not len(self.unreplicated)

    def last_entry(self, producer_id: int) -> ProducerStateEntry | None:
        """The state of a producer."""
        return self.producers.get(producer_id)

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest transaction that is open, or whose marker is not below the high watermark."""
        found = (self.first_undecided_offset, self.unreplicated.first_offset)
        return min((offset for offset in found if offset is not None), default=None)

    @property
    def first_undecided_offset(self) -> int | None:
        """The first offset of the oldest open transaction."""
        first = self.ongoing.first()
        return None if first is None else first.first_offset

    def is_late(self, entry: ProducerStateEntry, now: int) -> bool:
        """Does `entry` have a transaction that is open for longer than any timeout allows (hasLateTransaction)?"""
        allowed = self.max_transaction_timeout_ms + LATE_TRANSACTION_BUFFER_MS
        return entry.last_timestamp > 0 and now - entry.last_timestamp > allowed

    # ---- appends ----------------------------------------------------------------------------------

    def prepare_update(self, producer_id: int, origin: AppendOrigin) -> ProducerAppendInfo:
        """Return an object that checks and collects the batches of an append, to be passed to `update`."""
        current = self.producers.get(producer_id) or ProducerStateEntry(producer_id)
        return ProducerAppendInfo(self.topic_partition, current, origin)

    def update(self, info: ProducerAppendInfo) -> None:
        """Apply the result of an append. Raises IllegalArgument without a producer id."""
        if info.producer_id == NO_PRODUCER_ID:
            raise IllegalArgument(f"Invalid producer id {NO_PRODUCER_ID} passed to update for partition{self.topic_partition}")
        current = self.producers.get(info.producer_id)
        if current is None:
            current = info.entry
        else:
            current.update(info.entry)
        self.producers.put(current)
        for txn in info.started:
            self.ongoing.put(txn)

    def last_stable_offset(self, completed: CompletedTxn) -> int:
        """The last stable offset after `completed` ends: the first offset of the oldest other open transaction."""
        other = self.ongoing.first_of_others(completed.producer_id)
        return completed.last_offset + 1 if other is None else other.first_offset

    def complete_txn(self, completed: CompletedTxn) -> None:
        """End a transaction whose marker is not yet below the high watermark. Raises IllegalArgument if it is not open."""
        if not self.ongoing.take(completed.first_offset):
            raise IllegalArgument(
                f"Attempted to complete transaction {completed} on partition {self.topic_partition} which was not started"
            )
        if not self.for_snapshots:
            self.unreplicated.put(completed.first_offset, completed.last_offset)

    def update_recovered(
        self, chunks: Iterable[RowChunk], on_aborted: Callable[[memoryview], object] = lambda _: None
    ) -> None:
        """Load batches of a segment that is recovered, in log order. From then on the state is one `for_snapshots`.

        on_aborted  called with some aborted transactions at a time, in the format of the transaction index, in a buffer that is
                    reused
        The caller must call `update_map_end_offset`. Raises InvalidTxnState for a plain batch within a transaction.
        Mirrors LogSegment.updateProducerState.
        """
        self._load_rows(chunks, on_aborted, reports_all=False)

    def load_batches(self, chunks: Iterable[RowChunk]) -> None:
        """Load batches after a snapshot, in log order. Only the last batch of each producer is stored, see `load_last_batches`.

        Raises InvalidTxnState, IllegalArgument. Mirrors UnifiedLog.loadProducersFromRecords.
        """
        self._load_rows(chunks, self._note_ended, reports_all=not self.for_snapshots)

    def _load_rows(self, chunks: Iterable[RowChunk], on_ended: Callable[[memoryview], object], *, reports_all: bool) -> None:
        ended = memoryview(bytearray(_ENDED_AT_ONCE * ABORTED_TXN.size))
        for chunk in chunks:
            at = 0
            while at < chunk.count:
                at, is_refused, size = self.producers.add_rows(chunk.table, at, self.ongoing, ended, reports_all=reports_all)
                if size:
                    on_ended(ended[:size])
                if is_refused:
                    self._load_refused(chunk.row(at))
                    at += 1

    def _note_ended(self, ended: memoryview) -> None:
        if not self.for_snapshots:
            for _, _, first_offset, last_offset, _ in ABORTED_TXN.struct.iter_unpack(ended):
                self.unreplicated.put(first_offset, last_offset)

    def _load_refused(self, row: ProducerRow) -> None:
        """Load a batch that the kernel refuses. Raises the AppendRefused with the reason."""
        info = self.prepare_update(row.producer_id, AppendOrigin.REPLICATION)
        completed = info.append(row)
        self.update(info)
        if completed is not None:
            self.complete_txn(completed)

    # ---- last batches of producers

    def load_last_batches(self, producer_ids: Iterable[int]) -> None:
        """Load the last batches of these producers, which are needed to detect duplicates, before they append.

        The batches are read from the log. Raises UnreadableFile, CorruptRecord.
        """
        wanted = {producer_id for producer_id in producer_ids if producer_id > NO_PRODUCER_ID}
        if self.batch_sources is None or wanted <= self._with_last_batches:
            return
        if len(self._with_last_batches | wanted) > _MOST_WITH_BATCHES:
            self.producers.forget_batches()
            self._with_last_batches.clear()
        missing = wanted - self._with_last_batches
        self._with_last_batches |= missing
        known = [producer_id for producer_id in missing if producer_id in self.producers]
        for producer_id, batches in self.batch_sources.find(known) if known else ():
            if batches and batches[-1].last_offset == self.producers.last_offset(producer_id):
                self.producers.set_last_batches(producer_id, batches)

    def load_all_last_batches(self) -> None:
        """Call `load_last_batches` for all producers (or the first of very many) before their segments are deleted."""
        if self.batch_sources is not None:
            self.load_last_batches(islice(self.producers, _MOST_WITH_BATCHES))

    # ---- offsets that change ----------------------------------------------------------------------

    def on_high_watermark_updated(self, high_watermark: int) -> None:
        """Remove transactions whose markers are below the high watermark: they are replicated."""
        self.unreplicated.remove_ended_below(high_watermark)

    def on_log_start_offset_incremented(self, log_start_offset: int) -> None:
        """Remove what is below the log start offset."""
        self.unreplicated.remove_ended_below(log_start_offset)
        self._map_end_offset = max(self._map_end_offset, log_start_offset)
        latest = self.latest_snapshot_offset
        self._last_snapshot_offset = log_start_offset if latest is None else latest

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove all producers and snapshots."""
        self._forget()
        for snapshot_offset in list(self._snapshots):
            self._remove_snapshot(snapshot_offset)
        self._last_snapshot_offset = 0
        self._map_end_offset = offset

    def truncate_and_reload(self, log_start_offset: int, log_end_offset: int, now: int) -> None:
        """Remove snapshots outside (log start offset, log end offset] and load the newest valid one that is left.

        If the producers are at the log end offset already, they are kept. Corrupt snapshots are removed too. Producers that
        have expired are left out.
        """
        for offset in self._snapshots.outside(log_start_offset + 1, log_end_offset):
            if self._is_recovering:
                self._snapshots.set_aside(offset)
            else:
                self._remove_snapshot(offset)
        if log_end_offset == self._map_end_offset:
            self.on_log_start_offset_incremented(log_start_offset)
        else:
            self._forget()
            self._load_from_snapshot(log_start_offset, now)

    def set_batch_sources(self, chunks: Callable[[], Iterator[RowChunk]], now: int) -> None:
        """Set the batches of producers after the snapshot that was loaded at `now`. `chunks` may be called repeatedly."""
        if not self.for_snapshots and self.batch_sources is None:
            self.batch_sources = BatchSources(self.files, self._loaded_from, now, self.producer_id_expiration_ms, chunks)

    def _forget(self) -> None:
        self.producers.clear()
        self.ongoing.clear()
        self.unreplicated.clear()
        self.batch_sources = None
        self._with_last_batches.clear()

    def _load_from_snapshot(self, log_start_offset: int, now: int) -> None:
        offset, self._loaded_from = log_start_offset, None
        while (latest := self._snapshots.last) is not None:
            snapshot = ProducerSnapshot.read(self.files, self._snapshots[latest])
            error = snapshot.error()
            if error is None:
                for piece in snapshot.pieces():
                    self.producers.load(piece, now, self.producer_id_expiration_ms, self.ongoing)
                offset, self._loaded_from = latest, self._snapshots[latest]
                break
            if self.on_lost_snapshot is not None:
                self.on_lost_snapshot(self._snapshots[latest], error, False)
            self._remove_snapshot(latest)
        self._last_snapshot_offset = self._map_end_offset = offset

    # ---- snapshots --------------------------------------------------------------------------------

    @cached_property
    def _snapshots(self) -> SnapshotFiles:
        return SnapshotFiles.of_directory(self.files, self.directory)

    @property
    def snapshot_paths(self) -> frozenset[str]:
        """The paths of all snapshots."""
        return self._snapshots.paths

    @property
    def latest_snapshot_offset(self) -> int | None:
        """The offset of the newest snapshot."""
        return self._snapshots.last

    def take_snapshot(self, *, sync: bool = True) -> str | None:
        """Write a snapshot at `map_end_offset`, unless the last one has this offset. Returns its path.

        A snapshot that was set aside and has the same content is kept; it may not have been synced. Of segments that overlap,
        several write a snapshot with the same offset: if the last one has the content of the file that was there at first, it
        gets its modification time too, so that a recovery that changes nothing is not taken for a change.
        """
        offset = self._map_end_offset
        if offset <= self._last_snapshot_offset:
            return None
        path = f"{self.directory}/{producer_snapshot_file_name(offset)}"
        old = self._snapshots.aside.pop(offset, None)
        is_there = old == path and self._says_the_same(path)
        mode = None if old is None else self.files.info(old).mode
        if old is not None and not is_there:
            error = ProducerSnapshot.read(self.files, old).error()
            if self.on_lost_snapshot is not None:
                self.on_lost_snapshot(old, error, True)
            if error is None:
                self._snapshots.replaced.setdefault(old, (self._digest(old), self.files.info(old).modified_ns))
            self.files.remove(old)
        with self.files.open_writable(path, create=True, mode=mode) as file:
            if not is_there:
                self._write_snapshot(file)
                self.written.add(path)
            if sync:
                file.sync()
        digest, modified_ns = self._snapshots.replaced.get(path, (b"", 0))
        if not is_there and digest and digest == self._digest(path):
            self.files.set_modified(path, modified_ns)
        self._snapshots.add(offset, path)
        self._last_snapshot_offset = offset
        return path

    def _write_snapshot(self, file: WritableFile) -> None:
        """Raises UnwritableFile; the file is removed then.

        An incomplete snapshot is corrupt, and an empty one would say that there are no producers.
        """
        try:
            write_producer_snapshot(file, len(self.producers), self.producers.pieces())
        except UnwritableFile:
            self.files.remove(file.path)
            raise

    def _digest(self, path: str) -> bytes:
        from hashlib import sha256  # not needed at start-up

        digest = sha256()
        with self.files.open(path) as file:
            size = file.size()
            for at in range(0, size, _PIECE):
                digest.update(file.read_exactly(at, min(_PIECE, size - at)))
        return digest.digest()

    def _says_the_same(self, path: str) -> bool:
        with self.files.open(path) as file:
            return is_producer_snapshot_of(file, len(self.producers), self.producers.pieces())

    def remove_stray_snapshots(self, segment_base_offsets: Collection[int], names: Collection[str] | None = None) -> None:
        """Remove snapshots at which no segment begins, except the newest one if it is not below the last segment's base offset.

        names  of the plain files in the directory; None: it is listed
        """
        listed = self.files.plain(self.directory) if names is None else names
        self._snapshots = SnapshotFiles.of_names(self.directory, listed)
        bases = set(segment_base_offsets)
        strays = [offset for offset in self._snapshots if offset not in bases]
        if strays and (not bases or strays[-1] >= max(bases)):
            strays.pop()
        for offset in strays:
            self._remove_snapshot(offset)

    def remove_and_mark_snapshot_for_deletion(self, offset: int) -> str | None:
        """Rename the snapshot at `offset` to `.deleted`. Returns the new path; None: there is none."""
        path = self._snapshots.pop(offset)
        if path is None or not self.files.exists(path):
            return None
        self.files.rename(path, path + _DELETED, replaces=True)  # a file with that name was marked for deletion before
        return path + _DELETED

    def _remove_snapshot(self, offset: int) -> None:
        path = self._snapshots.pop(offset)
        if path is not None:
            self.files.remove(path)


def rebuild_producer_state(
    state: ProducerStateManager, segments: LogSegments, log_start_offset: int, last_offset: int, *,
    now: int, reload_from_clean_shutdown: bool,
) -> None:
    """Bring `state` to `last_offset`: load the newest valid snapshot, then the batches after it, and write snapshots.

    After a clean shutdown without any snapshot nothing is read: the log is from a version without snapshots. Empty ones are
    written at the base offsets of the last two segments and at `last_offset`.
    Mirrors UnifiedLog.rebuildProducerState.
    """
    wanted = _offsets_to_snapshot(segments, last_offset)
    if state.latest_snapshot_offset is None and reload_from_clean_shutdown:
        for offset in wanted:
            state.update_map_end_offset(offset)
            state.take_snapshot()
        _set_batch_sources(state, segments, last_offset, now)
        return
    nothing_to_lose = state.is_empty and state.map_end_offset >= last_offset
    state.truncate_and_reload(log_start_offset, last_offset, now)
    _set_batch_sources(state, segments, max(state.map_end_offset, log_start_offset), now)
    if last_offset > state.map_end_offset and not nothing_to_lose:
        advance_producer_state(state, segments, log_start_offset, last_offset, wanted)
    state.update_map_end_offset(last_offset)
    state.take_snapshot()


def advance_producer_state(
    state: ProducerStateManager, segments: LogSegments, log_start_offset: int, last_offset: int, wanted: Collection[int] = ()
) -> None:
    """Load the batches from the offset of `state` up to `last_offset`; write snapshots at the base offsets in `wanted`."""
    last = segments.floor_segment(last_offset)
    for segment in segments.values(state.map_end_offset, last_offset):
        start_offset = max(segment.base_offset, state.map_end_offset, log_start_offset)
        state.update_map_end_offset(start_offset)
        if segment.base_offset in wanted:
            state.take_snapshot()
        _load_segment(state, segment, start_offset, last_offset if segment is last else None)


def _offsets_to_snapshot(segments: LogSegments, last_offset: int) -> list[int]:
    """The base offsets of the last two segments, and `last_offset`."""
    last = segments.last_segment
    if last is None:
        return [last_offset]
    lower = segments.lower_segment(last.base_offset)
    return [*([] if lower is None else [lower.base_offset]), last.base_offset, last_offset]


def _load_segment(state: ProducerStateManager, segment: LogSegment, start_offset: int, end_offset: int | None) -> None:
    """Load the batches of `segment` from `start_offset` on, up to the batch that holds `end_offset`."""
    end_position = segment.size
    if end_offset is not None:
        found = segment.translate_offset(end_offset)
        if found is not None:
            end_position = found.position
    slice_ = segment.read(start_offset, INT_MAX, end_position)
    if slice_ is not None:
        end_position = slice_.position + slice_.size
        state.load_batches(producer_chunks(segment, slice_.position, end_position))
    segment.release_log()


def _set_batch_sources(state: ProducerStateManager, segments: LogSegments, start_offset: int, now: int) -> None:
    """Let `state`, loaded at `start_offset`, read later batches of the log again, including those that are appended."""
    active = segments.last_segment
    grows = (-1, 0) if active is None else (active.base_offset, active.size)
    state.set_batch_sources(partial(_chunks_from, segments, start_offset, *grows), now)


def _chunks_from(segments: LogSegments, start_offset: int, active: int, size: int) -> Iterator[RowChunk]:
    """Yield the batches of producers from `start_offset` to the end of the log.

    active, size  base offset and size of the last segment when it was opened: appended batches begin there, even if the
                  bytes before are not a batch
    """
    for segment in segments.values(start_offset):
        end = min(size, segment.size) if segment.base_offset == active else segment.size
        slice_ = segment.read(max(segment.base_offset, start_offset), INT_MAX, end)
        if slice_ is not None:
            yield from producer_chunks(segment, slice_.position, slice_.position + slice_.size)
        yield from producer_chunks(segment, end, segment.size)
        segment.release_log()


def producer_chunks(
    segment: ReadableSegment, start: int, end: int, report: Callable[[Finding], None] | None = None
) -> Iterator[RowChunk]:
    """Yield every batch with a producer id in bytes [start, end) of the log, as columns.

    report  called with damaged batches, which are left out; None: checksums are not verified
    Raises CorruptRecord for an invalid batch size and for an unreadable marker.
    """
    walk = LogWalk(segment.log_file, start, end)
    records, reported, count = RecordColumns(8), ReportedRows(_ROWS), 0
    for window in walk:
        table = window.batches.table
        for first, end_row in [(0, window.rows)] if report is None else sound_rows(segment.log_path, window, report):
            row = first
            while row < end_row:
                row, count, is_control = report_producers(table, row, end_row, reported.table, count)
                if is_control:
                    reported.note_marker(count - 1, _marker(segment, window, row - 1, records))
                if count == _ROWS:
                    yield RowChunk.reported(reported, count)
                    count = 0
    if count:
        yield RowChunk.reported(reported, count)
    if walk.stop is Stop.BAD_SIZE:
        raise no_such_size(segment.log_file, walk.position)


def _marker(segment: ReadableSegment, window: Window, row: int, records: RecordColumns) -> TxnMarker | None:
    """See read_marker. Raises CorruptRecord."""
    try:
        return read_marker(window, row, records)
    except ControlRecordInvalid as error:
        raise CorruptRecord(f"{segment.log_path}: {error}", do=whole_recovery(parent_of(segment.log_path))) from error


def delete_producer_snapshots(
    segments: Iterable[LogSegment], state: ProducerStateManager, deferred: DeferredDeletion
) -> None:
    """Mark the snapshots at the bases of `segments` `.deleted`. Mirrors UnifiedLog.deleteProducerSnapshots."""
    for segment in segments:
        path = state.remove_and_mark_snapshot_for_deletion(segment.base_offset)
        if path is not None:
            deferred.add_path(path)

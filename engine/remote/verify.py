"""Compare the objects of a store with the metadata: missing, unknown and damaged objects, and objects of another size.

`compare_with_listing` needs one listing of the store. `DeepCheck` reads every part of a segment once: it compares the parts
with the log, and the log with the metadata. Kafka checks only the checksums of batches, and skips data that does not match.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import count_of, offset_span, offsets_text
from engine.checkpoint.checkpoints import decode_leader_epochs, encode_leader_epochs
from engine.checkpoint.producer_snapshot import ProducerSnapshot
from engine.errors import FileChangedWhileReading, KafkalogError, UnreadableFile, UsageError
from engine.findings import Finding, Severity, Where
from engine.formats import CONTROL_FLAG, LONG_MAX, MAGIC_V2, NO_TIMESTAMP, TRANSACTIONAL_FLAG, BatchField, ControlType
from engine.index.sparse import OffsetIndex, TimeIndex
from engine.index.transaction import TransactionIndex
from engine.log.segment.recovery_walk import read_marker
from engine.log.verify.indexes import OffsetCheck, TimeCheck
from engine.record.columns import BatchColumns, RecordColumns
from engine.record.soundness import unsound_batches, unsound_end
from engine.record.windows import LogWalk
from engine.remote.layouts import IndexKind
from engine.remote.ranged_file import RangedFile
from engine.remote.records import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from engine.checkpoint.checkpoints import EpochEntry
    from engine.record.windows import Window
    from engine.remote.layouts import Layout, SegmentParts
    from engine.remote.metadata import PartitionMetadata, RemoteSegment
    from engine.remote.storage import Store

    Report = Callable[[Finding], None]
    Copied = tuple[PartitionMetadata, RemoteSegment]

_SHOWN = 3  # findings of a part: further ones mostly have the same cause


class Listed(NamedTuple):
    """The result of a comparison with a listing.

    segments  number of copied segments in the metadata
    objects   number of objects in the store
    size      bytes of these objects
    sound     segments whose objects all exist with the right size
    """

    segments: int
    objects: int
    size: int
    sound: Sequence[Copied]


def compare_with_listing(
    partitions: Iterable[PartitionMetadata], store: Store, layout: Layout, prefix: str, *, names_unknown: bool, report: Report
) -> Listed:
    """Check that every copied segment has its objects, and that the store has no others. Raises UnreadableFile.

    prefix         of the keys to list
    names_unknown  report objects of no segment; False if `partitions` are only some of the partitions
    """
    there = {one.key: one.size for one in store.list(prefix)}
    known: set[str] = set()
    sound, count = [], 0
    for partition in partitions:
        for segment in partition.segments():
            keys = layout.parts(partition, segment).keys(segment)
            known.update(keys)
            if segment.state is not State.COPY_SEGMENT_FINISHED:  # its copy or deletion was interrupted
                continue
            count += 1
            if _check_keys(keys, there, segment, store, report):
                sound.append((partition, segment))
    for key in sorted(there.keys() - known) if names_unknown else ():
        what = f"{count_of(there[key], 'byte')} that belong to no remote segment"
        report(Finding("remote-object-unknown", Where(store.path(key)), what))
    return Listed(count, len(there), sum(there.values()), sound)


def _check_keys(
    keys: dict[str, int | None], there: dict[str, int], segment: RemoteSegment, store: Store, report: Report
) -> bool:
    is_sound = True
    for key, size in keys.items():
        where = Where(store.path(key), None, segment.start_offset)
        if size is not None and size < 0:  # it may be missing
            continue
        if key not in there:
            what = f"of the segment with {offsets_text(segment.start_offset, segment.end_offset + 1)}"
            report(Finding("remote-object-missing", where, what))
            is_sound = False
        elif size is not None and there[key] != size:
            report(Finding("remote-object-size", where, f"{count_of(there[key], 'byte')}, but {size} by its metadata"))
            is_sound = False
    return is_sound


def sample(segments: Sequence[Copied], count: int) -> list[Copied]:
    """Return `count` of the segments, spread evenly."""
    if count >= len(segments):
        return list(segments)
    return [segments[number * len(segments) // count] for number in range(count)]


class DeepCheck:
    """Reads and checks the parts of segments. `report` receives a finding for each problem, with the path of the object."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._columns = BatchColumns()
        self._txn_index = b""  # of the current segment
        self._open: dict[int, int] | None = None  # at its start, by producer: first offsets of transactions; None: unknown
        self._firsts: dict[int, int] | None = None  # the same at its end
        self._following: tuple[PartitionMetadata | None, int] | None = None  # partition, first offset of the next segment
        self._epochs: tuple[PartitionMetadata | None, dict[int, int]] = (None, {})  # partition, first offsets of its epochs
        self._copies: dict[int, _Copies] = {}  # by broker, of that partition

    def check(self, parts: SegmentParts, segment: RemoteSegment, partition: PartitionMetadata | None = None) -> None:
        """Check every part of a segment. Raises UnreadableFile, FileChangedWhileReading; UsageError without its key.

        After a check of the segment before it in `partition`, the start of each transaction is known.
        """
        is_next = (partition, segment.start_offset) == self._following
        if not segment.start_offset:
            is_next, self._firsts = True, {}  # no transaction is open before the first record
        self._begin(partition)
        self._open, self._firsts, self._following = self._firsts if is_next else None, None, (partition, segment.end_offset + 1)
        self._txn_index = b""
        kinds = (IndexKind.LEADER_EPOCH, IndexKind.PRODUCER_SNAPSHOT, IndexKind.TRANSACTION, None)
        self._check_parts(kinds, self._check_part, parts, segment)

    def check_beside_log(
        self, parts: SegmentParts, segment: RemoteSegment, partition: PartitionMetadata, kinds: Iterable[IndexKind]
    ) -> None:
        """Check those parts of `kinds`, which must exist, and the metadata in an object. Raises as `check` does."""
        self._begin(partition)

        def check(kind: IndexKind | None, parts: SegmentParts, segment: RemoteSegment, found: _Found) -> None:
            if kind is None:
                self._check_described(parts, segment)
            elif parts.index(kind) is None:
                what = f"of the segment with {offsets_text(segment.start_offset, segment.end_offset + 1)}"
                self._report(Finding("remote-object-missing", Where(found.path, None, segment.start_offset), what))
            else:
                self._check_part(kind, parts, segment, found)

        self._check_parts((*kinds, None), check, parts, segment)

    def _begin(self, partition: PartitionMetadata | None) -> None:
        if partition is not None and self._epochs[0] is not partition:
            self.finish()
            self._epochs = partition, _first_offsets(partition)

    def _check_parts(
        self, kinds: Iterable[IndexKind | None], check: Callable[..., None], parts: SegmentParts, segment: RemoteSegment
    ) -> None:
        failures: set[str] = set()  # that were reported: a damaged manifest concerns every part
        for kind in kinds:
            found = _Found(parts.path(kind), segment, self._report)
            try:
                check(kind, parts, segment, found)
            except (UnreadableFile, FileChangedWhileReading, UsageError):
                raise  # the object may be sound
            except KafkalogError as error:
                path = error.path or found.path
                if str(error) not in failures:
                    _Found(path, segment, self._report).add(str(error).removeprefix(f"{path}: "))
                failures.add(str(error))

    def finish(self) -> None:
        """End the check of a partition: compare its segments with each other. `check` does it before the next partition."""
        for copies in self._copies.values():
            copies.report_contradictions()
        self._copies.clear()

    def _check_described(self, parts: SegmentParts, segment: RemoteSegment) -> None:
        """Compare the metadata in an object. No broker reads it, but `remote restore` does."""
        described = parts.described()
        if described is None:
            return
        path, stored = described
        expected = segment._replace(state=stored.state, custom=None, event_timestamp_ms=stored.event_timestamp_ms)
        if stored != expected:
            names = [name for name, one, other in zip(segment._fields, stored, expected, strict=True) if one != other]
            _Found(path, segment, self._report).add(f"its {' and '.join(names)} differs from the metadata")

    def _check_part(self, kind: IndexKind | None, parts: SegmentParts, segment: RemoteSegment, found: _Found) -> None:
        if kind is None:
            self._check_described(parts, segment)
            self._check_log(parts, segment, found)
            return
        data = parts.index(kind)
        if kind is IndexKind.TRANSACTION:
            self._txn_index = data or b""
        if data is None:
            return  # `compare_with_listing` reports missing objects
        path = parts.path(kind)
        if kind is IndexKind.PRODUCER_SNAPSHOT:
            snapshot = ProducerSnapshot(data, path)
            found.add_all(snapshot.sanity())
            if not found.count:
                firsts = ((one.producer_id, one.current_txn_first_offset) for one in snapshot)
                self._firsts = {producer: first for producer, first in firsts if first >= 0}
        elif kind is IndexKind.TRANSACTION:
            found.add_all(TransactionIndex(data, segment.start_offset, path).sanity())
        else:
            first = _check_epochs(data, segment, self._epochs[1], found)
            if first is not None:
                self._copies.setdefault(segment.broker_id, _Copies()).add(first, segment, found)

    def _check_log(self, parts: SegmentParts, segment: RemoteSegment, found: _Found) -> None:
        base = segment.start_offset
        in_offsets, in_times = (_Found(parts.path(kind), segment, self._report) for kind in
                                (IndexKind.OFFSET, IndexKind.TIMESTAMP))
        offsets = OffsetCheck(OffsetIndex(parts.index(IndexKind.OFFSET) or b"", base, in_offsets.path), in_offsets.take)
        times = TimeCheck(TimeIndex(parts.index(IndexKind.TIMESTAMP) or b"", base, in_times.path), in_times.take)
        batches, entries = _Batches(segment, found, self._open), _TimeEntries(offsets.index, times.index)
        with RangedFile(found.path, parts.log_size(0), parts.read_log) as file:
            walk = LogWalk(file, batches=self._columns)
            for window in walk:
                found.add_all(finding for _, finding in unsound_batches(found.path, window, codecs=False))
                batches.feed(window)
                offsets.feed(window)
                times.feed(window)
                entries.feed(window)
            end = unsound_end(file, found.path, walk.stop, walk.position, walk.end)
            found.add_all([] if end is None else [end])
        batches.finish()
        if not found.count:  # the indexes can be compared only with a sound log
            offsets.finish(walk.position)
            times.finish(is_closed=True)
            for kept, check in ((in_offsets, offsets), (in_times, times)):
                kept.report_kept()
                if len(check.index) and kept is in_offsets and not offsets.index.entry(0).position and not kept.count:
                    kept.add("entry 0 points to the first batch, which brokers do not index", 0)
                unused = len(check.index) - check.index.used_entries
                if unused and not kept.count:
                    kept.add(f"{count_of(unused, 'entry')} of zeros at the end, which brokers do not copy")
            if not in_offsets.count and not in_times.count:
                entries.report_missing(in_times)
            path = parts.path(IndexKind.TRANSACTION)
            batches.aborts.compare(TransactionIndex(self._txn_index, base, path), _Found(path, segment, self._report))


class _Found:
    """The problems of one object. `take` keeps findings until `report_kept`."""

    def __init__(self, path: str, segment: RemoteSegment, report: Report) -> None:
        self.path, self.count = path, 0
        self._offset, self._report = segment.start_offset, report
        self._kept: list[Finding] = []

    def add(self, what: str, position: int | None = None) -> None:
        self.count += 1
        if self.count <= _SHOWN:
            self._report(Finding("remote-object-damaged", Where(self.path, position, self._offset), what))

    def add_all(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            if finding.severity is not Severity.INFO:
                self.add(f"{finding.code}: {finding.what}", finding.where.position)

    def take(self, finding: Finding) -> None:
        self._kept.append(finding)

    def report_kept(self) -> None:
        self.add_all(self._kept)


class _Batches:
    """Compares the offsets and the leader epochs of the batches of a log with the metadata."""

    def __init__(self, segment: RemoteSegment, found: _Found, open_before: dict[int, int] | None) -> None:
        self._segment, self._found = segment, found
        self._next = segment.start_offset
        self.aborts = _Aborts(segment, open_before)

    def feed(self, window: Window) -> None:
        table, segment = window.batches.table, self._segment
        for row in range(window.rows):
            base, last = table[BatchField.BASE_OFFSET, row], table[BatchField.LAST_OFFSET, row]
            position, epoch = window.base + table[BatchField.POSITION, row], table[BatchField.LEADER_EPOCH, row]
            if not self._next <= base <= last <= segment.end_offset:
                wanted = offset_span(self._next, segment.end_offset + 1)
                what = f"a batch from offset {base} to {last}, expected: {wanted}"
                self._found.add(what, position)
                continue
            expected = max((one for one in segment.leader_epochs if one[1] <= base), key=lambda one: one[1], default=None)
            has_epoch = table[BatchField.MAGIC, row] >= MAGIC_V2
            if has_epoch and expected is not None and epoch != expected[0]:
                self._found.add(f"offset {base} has leader epoch {epoch}, by the metadata {expected[0]}", position)
            self._next = last + 1
            if table[BatchField.ATTRIBUTES, row] & (TRANSACTIONAL_FLAG | CONTROL_FLAG):
                self.aborts.follow(window, row)

    def finish(self) -> None:
        if self._next == self._segment.start_offset:
            self._found.add("it has no batch of its segment")


class _TimeEntries:
    """The timestamps that a time index must have. Mirrors LogSegment.append.

    With each entry of the offset index, brokers write one of the time index if the largest timestamp of the batches so far
    increased. Entries that a broker wrote when it closed the segment may be between them. Brokers before 0.11, which wrote
    other message formats, left some out.
    """

    def __init__(self, offsets: OffsetIndex, times: TimeIndex) -> None:
        self._offsets, self._times = offsets, times
        self._next, self._largest = 0, NO_TIMESTAMP  # the next entry of the offset index; up to it
        self._left: dict[int, int] = {}  # timestamp → entry of the offset index that it was written with
        self._is_legacy = False

    def feed(self, window: Window) -> None:
        table = window.batches.table
        for row in range(window.rows):
            self._pass_by(table[BatchField.BASE_OFFSET, row])
            self._largest = max(self._largest, table[BatchField.MAX_TIMESTAMP, row])
            self._is_legacy |= table[BatchField.MAGIC, row] < MAGIC_V2

    def _pass_by(self, offset: int) -> None:
        """Process the entries before a batch."""
        while self._next < self._offsets.used_entries and self._offsets.entry(self._next).offset < offset:
            if self._largest > NO_TIMESTAMP:
                self._left.setdefault(self._largest, self._next)
            self._next += 1

    def report_missing(self, found: _Found) -> None:
        self._pass_by(LONG_MAX)
        for number in range(self._times.used_entries):
            self._left.pop(self._times.entry(number).timestamp, None)
        for timestamp, number in () if self._is_legacy else self._left.items():
            offset = self._offsets.entry(number).offset
            found.add(f"no entry has timestamp {timestamp}, the largest one up to offset {offset} of the offset index")


class _Aborts:
    """The aborted transactions whose markers are in a log.

    open_before  by producer: first offset of a transaction that is open at the start of the log; None: unknown
    """

    def __init__(self, segment: RemoteSegment, open_before: dict[int, int] | None) -> None:
        self._segment, self._is_known = segment, open_before is not None
        self._open = dict(open_before or {})  # by producer: first offset of its transaction, if unknown then in this segment
        # by producer and offset of the marker: (first offset; None: no batch here; last stable offset after it)
        self._aborted: dict[tuple[int, int], tuple[int | None, int]] = {}
        self._records = RecordColumns(8)

    def follow(self, window: Window, row: int) -> None:
        """Process a transactional batch or a control batch. Raises ControlRecordInvalid."""
        table = window.batches.table
        producer, first, last = (table[field, row] for field in
                                 (BatchField.PRODUCER_ID, BatchField.BASE_OFFSET, BatchField.LAST_OFFSET))
        if not table[BatchField.ATTRIBUTES, row] & CONTROL_FLAG:
            self._open.setdefault(producer, first)
            return
        marker = read_marker(window, row, self._records)
        begin = None if marker is None else self._open.pop(producer, None)
        if marker is not None and marker.control_type is ControlType.ABORT:
            self._aborted[producer, last] = begin, min(self._open.values(), default=last + 1)

    def compare(self, index: TransactionIndex, found: _Found) -> None:
        """Report entries that do not match the markers, and markers without an entry."""
        left, before, start = dict(self._aborted), 0, self._segment.start_offset
        for number, txn in enumerate(index):
            name = txn.producer_id, txn.last_offset
            at = number * index.entry_size
            if name not in left:
                found.add(f"entry {number}: no abort marker of producer {name[0]} is at offset {name[1]}", at)
                continue
            begin, stable = left.pop(name)
            may_begin_before = not self._is_known and 0 <= txn.first_offset < start
            if not (may_begin_before or txn.first_offset == begin):
                found.add(f"entry {number}: the transaction does not begin at offset {txn.first_offset}", at)
            may_be_before = not self._is_known and before <= txn.last_stable_offset < start
            if not (may_be_before or txn.last_stable_offset == stable):
                found.add(f"entry {number}: last stable offset {txn.last_stable_offset}, by the log {stable}", at)
            before = max(before, txn.last_stable_offset)
        for (producer, offset), (begin, _) in left.items():
            if begin is not None:  # brokers write no entry for a transaction without records
                found.add(f"the abort marker of producer {producer} at offset {offset} has no entry")


def _first_offsets(partition: PartitionMetadata) -> dict[int, int]:
    """Return the first offset by leader epoch, for epochs that begin in a segment or at the end of the one before it."""
    segments = list(partition.segments())
    before = {one.end_offset + 1: one.leader_epochs[-1][0] for one in segments}
    firsts = [one.leader_epochs[0] for one in segments]
    found = {epoch: start for epoch, start in firsts if before.get(start, epoch) < epoch}
    return found | {epoch: start for one in segments for epoch, start in one.leader_epochs[1:]}


def _check_epochs(data: bytes, segment: RemoteSegment, known: dict[int, int], found: _Found) -> EpochEntry | None:
    """Check that the leader epochs of a segment end with those in its metadata, and that `known` epochs begin where they do.

    Returns the first entry of a sound part: it begins at the log start offset of that time. See `_Copies`.
    """
    decoded = decode_leader_epochs(data, found.path)
    if decoded.findings:
        found.add_all(decoded.findings)
        return None
    if encode_leader_epochs(decoded.entries) != data:
        found.add("its text is not as brokers write it")
    first = segment.leader_epochs[0]
    before = [(one.epoch, segment.start_offset) for one in decoded.entries if one.start_offset <= segment.start_offset]
    within = [(one.epoch, one.start_offset) for one in decoded.entries if one.start_offset > segment.start_offset]
    if (*before[-1:], *within) != segment.leader_epochs:
        found.add(f"its epochs are not those of the metadata, which begin with {first[0]} at offset {first[1]}")
    for epoch, start in decoded.entries[1 : len(before)]:
        if known.get(epoch, start) != start:
            found.add(f"leader epoch {epoch} begins at offset {start}, by the metadata of another segment at {known[epoch]}")
    return decoded.entries[0] if decoded.entries and not found.count else None


class _Copies:
    """The copies of one broker, in the order of their offsets: the log start offset never moved back between them."""

    def __init__(self) -> None:
        self._copies: list[tuple[EpochEntry, int, _Found]] = []  # first entry of the leader epochs, time of the copy

    def add(self, first: EpochEntry, segment: RemoteSegment, found: _Found) -> None:
        self._copies.append((first, segment.event_timestamp_ms, found))

    def report_contradictions(self) -> None:
        """Report those outside the longest sequence without a contradiction.

        The order of the copies is unknown if an unclean leader election made the broker copy smaller offsets later.
        """
        times = [time for _, time, _ in self._copies]
        if times != sorted(times):
            return
        lasts: list[int] = []  # by length: numbers of the copies with which the best sequences end
        before: list[int] = []  # by number: the copy before it in its sequence
        for number, (first, _, _) in enumerate(self._copies):
            length = bisect_right(lasts, first, key=lambda one: self._copies[one][0])
            before.append(lasts[length - 1] if length else -1)
            lasts[length : length + 1] = [number]
        kept, number = set(), lasts[-1]
        while number >= 0:
            kept.add(number)
            number = before[number]
        for number, (first, _, found) in enumerate(self._copies):
            if number not in kept:
                what = f"its first leader epoch {first.epoch} begins at offset {first.start_offset}"
                found.add(f"{what}, unlike in the copies before and after it")

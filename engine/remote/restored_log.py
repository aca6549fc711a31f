"""Plan a partition from its segments in a store, and write its directory.

The last segment has the history of the partition: the leader epochs, and the producers at the log end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from engine.checkpoint.checkpoints import EpochEntry, MalformedCheckpoint, encode_leader_epochs
from engine.checkpoint.producer_snapshot import ProducerSnapshot
from engine.discovery.names import (
    FileKind,
    file_name,
    log_file_name,
    offset_index_file_name,
    producer_snapshot_file_name,
    time_index_file_name,
)
from engine.errors import KafkalogError, argument
from engine.files import replace
from engine.findings import Severity
from engine.log.operations.mending import topic_id_text
from engine.log.report import Action
from engine.log.verify.partition import verify_partition
from engine.remote.aiven_manifest import CorruptObject
from engine.remote.inventory import describe, lacking_parts, leader_epochs_of, was_read
from engine.remote.layouts import INDEX_FILE_NAMES, IndexKind
from engine.remote.lineage import Lineage
from engine.remote.metadata import PartitionMetadata, records_of
from engine.remote.records import State, key_of, metadata_partition_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from engine.files import Buffer, Files, OpenFile, ReadOnlyFiles
    from engine.findings import Finding
    from engine.log.report import Report
    from engine.remote.inventory import PartitionName, StoredSegment
    from engine.remote.layouts import Layout, SegmentParts
    from engine.remote.metadata import RemoteLogMetadata, RemoteSegment

_PIECE = 8 << 20  # bytes of a log per read and write


class NotRestored(KafkalogError):
    """A partition that cannot be restored from a store. Nothing was written for it."""

    code = "not-restored"
    exit_status = 4


class WithoutEpoch(NotRestored):
    """Records of no leader epoch of the log: brokers do not read them either."""


@dataclass(slots=True)
class RestoredLog:
    """The plan for a restored partition.

    segments   of its history, in the order of their records
    chain      the segments that a leader reads its offsets from, in the order of offsets
    snapshot   producers at the log end; None: the store has none
    metadata   with all segments
    left_out   (segment id, base offset, reason) of the other segments in the store
    gaps       (first, end) of missing offsets between segments
    open_transactions  (producer id, first offset) of transactions without a marker in the store
    is_unread  the batches of segments were not read: their metadata comes from manifests
    """

    name: PartitionName
    segments: list[RemoteSegment]
    chain: list[RemoteSegment]
    epochs: list[EpochEntry]
    log_start_offset: int
    log_end_offset: int
    snapshot: bytes | None
    metadata: PartitionMetadata
    left_out: list[tuple[str, int, str]] = field(default_factory=list)
    gaps: list[tuple[int, int]] = field(default_factory=list)
    open_transactions: list[tuple[int, int]] = field(default_factory=list)
    is_unread: bool = False

    @property
    def size(self) -> int:
        """Bytes of the segments in `chain`."""
        return sum(one.size for one in self.chain)


class _Candidate(NamedTuple):
    """A complete segment.

    is_read       the batches were read
    is_uncertain  the end offset comes from the last record of the log; the cleaner may have removed records after it
    """

    segment: RemoteSegment
    parts: SegmentParts
    is_read: bool
    is_uncertain: bool


class RestorePlanner:
    """Plans partitions from their objects in the store of `layout`.

    known           from the remaining logs of __remote_log_metadata
    metadata_count  number of partitions of that topic
    """

    def __init__(self, layout: Layout, known: RemoteLogMetadata, metadata_count: int) -> None:
        self._layout, self._known, self._count = layout, known, metadata_count

    def plan(self, name: PartitionName, stored: Sequence[StoredSegment], log_start_offset: int = 0) -> RestoredLog:
        """Plan a partition from its objects `stored`.

        log_start_offset  from a checkpoint; 0: unknown
        Raises NotRestored, UnreadableFile, FileChangedWhileReading.
        """
        left_out: list[tuple[str, int, str]] = []
        whole = list(self._whole(name, stored, left_out))
        if not whole:
            why = f": {left_out[0][2]}" if left_out else ""
            raise NotRestored(f"{name} ({name.topic_id}): the store has no complete segment of it{why}")
        last = max(whole, key=lambda one: (one.segment.leader_epochs[-1][0], one.segment.end_offset))
        try:
            entries = leader_epochs_of(last.parts)
            snapshot = last.parts.index(IndexKind.PRODUCER_SNAPSHOT)
            open_transactions = _open_transactions(snapshot, last.parts.path(IndexKind.PRODUCER_SNAPSHOT))
        except (CorruptObject, MalformedCheckpoint) as error:
            do = "restore the object from a version or a backup of the store"
            raise NotRestored(f"{name}: the last segment cannot be used: {error}", do) from error
        end = last.segment.end_offset + 1
        lineage = Lineage(entries, end)
        within = [one for one in whole if lineage.has(one.segment)]
        if last not in within:
            what = f"{last.parts.path(IndexKind.LEADER_EPOCH)}: its leader epochs are not those of its segment"
            raise NotRestored(what, "kafkalog remote verify --deep    # reports the damaged object")
        for one in whole:
            if one not in within:
                is_before = one.segment.leader_epochs[-1][0] < entries[0].epoch
                why = f"before offset {entries[0].start_offset}, the start of the log" if is_before else (
                    "of another history than the last segment: an unclean election discarded it")
                left_out.append((one.segment.name, one.segment.start_offset, why))
        start = max(entries[0].start_offset, log_start_offset)
        log = self._log(name, within, lineage, start)
        if log.gaps:
            gaps = log.gaps
            log = self._log(name, [_up_to_next(one, gaps) for one in within], lineage, start)
            log.gaps = gaps
        log.epochs = _from_start(entries, log.log_start_offset)
        log.snapshot, log.left_out = snapshot, left_out
        log.open_transactions, log.is_unread = open_transactions, not all(one.is_read for one in within)
        return log

    def _whole(
        self, name: PartitionName, stored: Iterable[StoredSegment], left_out: list[tuple[str, int, str]]
    ) -> Iterator[_Candidate]:
        partition = self._known.find(name.topic_id, name.partition)
        known = {} if partition is None else {one.name: one for one in partition.segments()}
        for one in stored:
            recorded, lacks = known.get(one.named.segment_id), lacking_parts(self._layout, one)
            why = f"its copy or its deletion was interrupted: no {', no '.join(lacks)}" if lacks else ""
            if recorded is not None and recorded.state is State.DELETE_SEGMENT_STARTED:
                why = "its deletion had begun"
            if not why:
                try:
                    segment, parts = describe(self._layout, one)
                    is_read = was_read(segment)
                    yield _Candidate(recorded or segment, parts, is_read, recorded is None and is_read)
                except CorruptObject as error:
                    why = f"damaged: {error}"
            if why:
                left_out.append((one.named.segment_id, one.named.base_offset, why))

    def _log(
        self, name: PartitionName, within: Sequence[_Candidate], lineage: Lineage, log_start_offset: int
    ) -> RestoredLog:
        """Return the log that a broker with these segments reads."""
        key = key_of(name.topic_id, name.partition)
        metadata = PartitionMetadata(name.topic, key, metadata_partition_of(key, self._count))
        segments = [one.segment for one in within]
        segments.sort(key=lambda one: (one.leader_epochs[-1][0], one.start_offset, one.end_offset))
        for segment in segments:
            for record in records_of(segment, name.topic, key):
                metadata.apply(record)
        log = RestoredLog(name, segments, [], [], log_start_offset, lineage.log_end_offset, None, metadata)
        offset = log_start_offset
        while offset < log.log_end_offset:
            found = lineage.segment(metadata, offset)
            if found is not None:
                log.chain.append(found)
                offset = found.end_offset + 1
                continue
            following = min((one.start_offset for one in segments if one.start_offset > offset), default=log.log_end_offset)
            if log.chain:
                log.gaps.append((offset, following))
            else:
                log.log_start_offset = following
            offset = following
        return log


def _open_transactions(snapshot: bytes | None, path: str) -> list[tuple[int, int]]:
    """Return (producer id, first offset) of the open transactions in a producer snapshot, by offset. Raises CorruptObject."""
    if snapshot is None:
        return []
    producers = ProducerSnapshot(snapshot, path)
    fault = producers.error()
    if fault is not None:
        raise CorruptObject(f"{path}: {fault}", path=path)
    started = ((one.producer_id, one.current_txn_first_offset) for one in producers)
    return sorted((one for one in started if one[1] >= 0), key=lambda one: one[1])


def _up_to_next(one: _Candidate, gaps: Sequence[tuple[int, int]]) -> _Candidate:
    """Extend a segment with an uncertain end offset to the start of the next segment."""
    ends = dict(gaps)
    following = ends.get(one.segment.end_offset + 1)
    if following is None or not one.is_uncertain:
        return one
    return one._replace(segment=one.segment._replace(end_offset=following - 1))


def _from_start(entries: Sequence[EpochEntry], start: int) -> list[EpochEntry]:
    """Return the leader epochs of a log that begins at `start` (LeaderEpochFileCache.truncateFromStart)."""
    first = [EpochEntry(one.epoch, start) for one in entries if one.start_offset <= start][-1:]
    return first + [one for one in entries if one.start_offset > start]


# ---- writing


class LogWriter:
    """Writes the directories of planned partitions. `whole`: with all segments, not only the empty one at the log end."""

    def __init__(self, files: Files, layout: Layout, *, whole: bool) -> None:
        self._files, self._layout, self._whole = files, layout, whole

    def check(self, directory: str, log: RestoredLog) -> None:
        """Raise NotRestored if the directory has other files, or if the segments do not form a local log."""
        if self._whole:
            following = log.chain[0].start_offset
            for one in log.chain:
                if one.start_offset < following:
                    what = f"{log.name}: segments overlap at offset {one.start_offset}, as different leaders copied them"
                    raise NotRestored(what, "leave out --full: the segments stay remote, where a broker reads them")
                following = one.end_offset + 1
        if not self._files.exists(directory):
            return
        small, large = _small_files(log), self._large_files(log)
        small[FileKind.PARTITION_METADATA.value] = topic_id_text(log.name.topic_id)
        for name in self._files.list(directory):
            path = f"{directory}/{name}"
            known = name.removesuffix(".tmp")
            is_ours = known in small or known in large
            if is_ours and known == name:  # not a temporary file
                is_ours = self._holds(path, small[name]) if name in small else self._is_part(path, log, *large[name])
            if not is_ours:
                what = f"{path}: the file already exists, and this command did not write it"
                do = f"move {argument(directory)} away if no broker needs it"
                raise NotRestored(what, do, path=path)

    def _holds(self, path: str, content: bytes) -> bool:
        return self._files.info(path).size == len(content) and self._files.read(path, len(content)) == content

    def _is_part(self, path: str, log: RestoredLog, segment: RemoteSegment, kind: IndexKind | None) -> bool:
        """Is the file a part of the segment, from an interrupted run? `kind` None: the log."""
        parts = self._layout.parts(log.metadata, segment)
        if kind is not None:
            data = parts.index(kind)
            return data is not None and self._holds(path, data)
        with self._files.open(path) as file:
            size = file.size()
            return size == parts.log_size() and same_bytes(file, lambda at, count: parts.read_log(at, at + count), size)

    def _large_files(self, log: RestoredLog) -> dict[str, tuple[RemoteSegment, IndexKind | None]]:
        """Return the part of each file of a whole log, by name."""
        found: dict[str, tuple[RemoteSegment, IndexKind | None]] = {}
        for one in log.chain if self._whole else ():
            found |= {make(one.start_offset): (one, kind) for kind, make in INDEX_FILE_NAMES.items()}
            found[log_file_name(one.start_offset)] = one, None
            found[producer_snapshot_file_name(one.end_offset + 1)] = one, IndexKind.PRODUCER_SNAPSHOT
        return found

    def write(self, directory: str, log: RestoredLog, report: Report) -> None:
        """Write all files except partition.metadata; without it a broker does not load the directory."""
        self._files.make_directory(directory)
        for one in log.chain if self._whole else ():
            parts = self._layout.parts(log.metadata, one)
            size = write_segment(self._files, directory, parts, one)
            offsets = (one.start_offset, one.end_offset + 1)
            report.add(Action.CREATED, log_file_name(one.start_offset), "copied from the store", offsets=offsets, size=size)
        for name, content in _small_files(log).items():
            replace(self._files, f"{directory}/{name}", [content])
        end = log.log_end_offset
        report.add(Action.CREATED, log_file_name(end), "an empty segment at the log end", offsets=(end, end))


def _small_files(log: RestoredLog) -> dict[str, bytes]:
    end = log.log_end_offset
    found = {make(end): b"" for make in (log_file_name, offset_index_file_name, time_index_file_name)}
    if log.snapshot is not None:
        found[producer_snapshot_file_name(end)] = log.snapshot
    found[FileKind.LEADER_EPOCH_CHECKPOINT.value] = encode_leader_epochs(log.epochs)
    return found


def same_bytes(file: OpenFile, read: Callable[[int, int], Buffer], size: int) -> bool:
    """Are the first `size` bytes of a file those that `read`, called with positions and sizes, returns?"""
    pieces = ((at, min(_PIECE, size - at)) for at in range(0, size, _PIECE))
    return all(file.read_exactly(*one) == read(*one) for one in pieces)


def verify_written(files: ReadOnlyFiles, directory: str, report: Report) -> None:
    """Verify the files of a partition, and report problems: the objects have them too, or the files were written before."""

    def add(finding: Finding) -> None:
        if finding.severity is not Severity.INFO:
            path = file_name(finding.where.file)
            report.add(Action.KEPT, path, f"{finding.code}: {finding.what}", severity=finding.severity)

    verify_partition(files, directory, add)


def write_segment(files: Files, directory: str, parts: SegmentParts, segment: RemoteSegment) -> int:
    """Write the files of a segment, byte for byte those of its broker → bytes of the log. Each file is written atomically.

    The log is the last file: a broker removes indexes without a log. The caller must sync the directory. Raises NotRestored.
    """
    for kind, name in INDEX_FILE_NAMES.items():
        data = parts.index(kind)
        if data is not None:
            replace(files, f"{directory}/{name(segment.start_offset)}", [data])
    snapshot = parts.index(IndexKind.PRODUCER_SNAPSHOT)
    if snapshot is not None:
        replace(files, f"{directory}/{producer_snapshot_file_name(segment.end_offset + 1)}", [snapshot])
    size, path = parts.log_size(), f"{directory}/{log_file_name(segment.start_offset)}"
    if size != segment.size:
        raise NotRestored(f"{parts.path(None)}: {size} bytes, but {segment.size} by its metadata", path=parts.path(None))
    with files.open_writable(f"{path}.tmp", create=True) as file:
        file.truncate(0)
        for at in range(0, size, _PIECE):
            file.write_at(at, parts.read_log(at, min(at + _PIECE, size)))
        file.sync()
    files.rename(f"{path}.tmp", path, replaces=True)
    return size

"""Find the segments in a store without `__remote_log_metadata`: from keys, manifests and objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import count_of
from engine.checkpoint.checkpoints import parse_leader_epochs
from engine.formats import NO_TIMESTAMP, BatchField
from engine.record.columns import BatchColumns
from engine.record.soundness import unsound_batches, unsound_end
from engine.record.windows import LogWalk
from engine.remote.aiven_manifest import CorruptObject
from engine.remote.layouts import IndexKind, parse_key
from engine.remote.metadata import RemoteSegment
from engine.remote.ranged_file import RangedFile
from engine.remote.records import State
from engine.remote.storage import missing
from engine.schema.json_text import uuid_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.checkpoint.checkpoints import EpochEntry
    from engine.record.windows import Window
    from engine.remote.layouts import Layout, ObjectName, SegmentParts
    from engine.remote.storage import Object


class PartitionName(NamedTuple):
    """The name of a partition with the topic id, because a topic may be created again under another id."""

    topic: str
    topic_id: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class StoredSegment(NamedTuple):
    """The objects of one segment, by the part in their key. `named`: the parsed key of one of them."""

    named: ObjectName
    objects: dict[str, Object]

    @property
    def partition(self) -> PartitionName:
        """The partition of the segment."""
        return PartitionName(self.named.topic, self.named.topic_id, self.named.partition)

    @property
    def size(self) -> int:
        """Bytes of all objects."""
        return sum(one.size for one in self.objects.values())


class Inventory(NamedTuple):
    """The objects of a store. `others`: objects whose key does not match the layout, or has another prefix."""

    segments: list[StoredSegment]
    others: list[Object]

    def by_partition(self) -> dict[PartitionName, list[StoredSegment]]:
        """Return the segments of each partition, sorted by base offset."""
        found: dict[PartitionName, list[StoredSegment]] = {}
        for one in sorted(self.segments, key=lambda one: (one.partition, one.named.base_offset, one.named.segment_id)):
            found.setdefault(one.partition, []).append(one)
        return found


def list_store(layout: Layout) -> Inventory:
    """Return all objects below the layout's prefix, from one listing. Raises UnreadableFile."""
    segments: dict[str, StoredSegment] = {}
    others = []
    for one in layout.store.list(layout.prefix):
        named = parse_key(layout.name, one.key, layout.prefix)
        if named is None or named.prefix != layout.prefix:
            others.append(one)
        else:
            segments.setdefault(named.stem, StoredSegment(named, {})).objects[named.part] = one
    return Inventory(list(segments.values()), others)


def lacking_parts(layout: Layout, stored: StoredSegment) -> list[str]:
    """Return the missing parts that show an interrupted copy or deletion."""
    return sorted(layout.last_parts - stored.objects.keys())


def describe(layout: Layout, stored: StoredSegment) -> tuple[RemoteSegment, SegmentParts]:
    """Return a segment and its parts. The segment comes from the manifest, or else from reading the whole log.

    Raises CorruptObject, also for an object that does not have the size that it must have; UnreadableFile,
    FileChangedWhileReading.
    """
    found, parts = layout.segment(stored.named)
    segment = _read(stored.named, parts) if found is None else found
    there = {one.key: one.size for one in stored.objects.values()}
    for key, size in parts.keys(segment).items():
        if size is not None and size >= 0 and there.get(key) != size:
            path = layout.store.path(key)
            what = f"{count_of(there[key], 'byte')}, expected: {size}" if key in there else "the object does not exist"
            raise CorruptObject(f"{path}: {what}", path=path)
    return segment, parts


def was_read(segment: RemoteSegment) -> bool:
    """Did `describe` read the log? Its records have no time at which a copy began."""
    return segment.event_timestamp_ms == 0


def leader_epochs_of(parts: SegmentParts) -> list[EpochEntry]:
    """Return the leader epochs up to the segment's end. Raises UnreadableFile, CorruptObject, MalformedCheckpoint."""
    path = parts.path(IndexKind.LEADER_EPOCH)
    data = parts.index(IndexKind.LEADER_EPOCH)
    if data is None:
        raise missing(path)
    entries = parse_leader_epochs(data, path)
    if not entries:
        raise CorruptObject(f"{path}: it has no leader epoch", path=path)
    return entries


def _read(named: ObjectName, parts: SegmentParts) -> RemoteSegment:
    """Derive the metadata from the log. If the cleaner removed the last records, the end offset is too low."""
    base, path = named.base_offset, parts.path(None)
    following, largest = base, NO_TIMESTAMP
    with RangedFile(path, parts.log_size(), parts.read_log) as file:
        walk = LogWalk(file, batches=BatchColumns())
        for window in walk:
            for row in _sound_rows(path, window):
                first, last, timestamp = (window.batches.table[field, row] for field in
                                          (BatchField.BASE_OFFSET, BatchField.LAST_OFFSET, BatchField.MAX_TIMESTAMP))
                if not following <= first <= last:
                    what = f"{path}: a batch from offset {first} to {last}, expected: {following} or more"
                    raise CorruptObject(what, path=path)
                following, largest = last + 1, max(largest, timestamp)
        end = unsound_end(file, path, walk.stop, walk.position, walk.end)
    if end is not None or following == base:
        raise CorruptObject(f"{path}: {'it has no batch' if end is None else end.what}", path=path)
    entries = leader_epochs_of(parts)
    first_epoch = [(one.epoch, base) for one in entries if one.start_offset <= base][-1:]
    epochs = (*first_epoch, *((one.epoch, one.start_offset) for one in entries if base < one.start_offset < following))
    if not first_epoch:
        where = parts.path(IndexKind.LEADER_EPOCH)
        raise CorruptObject(f"{where}: no leader epoch has offset {base}", path=where)
    txn_index = parts.index(IndexKind.TRANSACTION)
    return RemoteSegment(
        uuid_bytes(named.segment_id), State.COPY_SEGMENT_FINISHED, base, following - 1, parts.log_size(), largest, -1, 0,
        not txn_index, epochs, None,
    )  # fmt: skip


def _sound_rows(path: str, window: Window) -> Iterator[int]:
    """Return the rows of the window's batches. Raises CorruptObject for the first damaged one."""
    for _, finding in unsound_batches(path, window, codecs=False):
        raise CorruptObject(f"{path}: byte {finding.where.position}: {finding.what}", path=path)
    yield from range(window.rows)

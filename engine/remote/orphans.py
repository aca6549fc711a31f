"""Find and delete orphans: objects that no broker will delete.

Brokers delete the segments in the records of `__remote_log_metadata`. Other objects stay for ever, for example after
interrupted uploads and deletions, or if a topic was deleted while no leader was alive. If records of that topic were lost, an
object without a record may be the only copy of its data: such segments are listed, but never deleted here.
"""

from __future__ import annotations

import json
from contextlib import nullcontext
from enum import Enum
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from engine.discovery.names import parent_of
from engine.errors import KafkalogError, UnreadableFile, UnwritableFile
from engine.log.quarantine.kept import OBJECTS, OBJECTS_VERSION, in_use
from engine.log.tiering import REMOTE_LOG_METADATA_TOPIC
from engine.remote.aiven_manifest import CorruptObject
from engine.remote.inventory import describe, lacking_parts, list_store
from engine.remote.records import State, UpdateRecord
from engine.schema.json_text import uuid_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from engine.files import Files, ReadOnlyFiles
    from engine.log.logdir.cluster_metadata import ClusterMetadata
    from engine.remote.inventory import PartitionName, StoredSegment
    from engine.remote.layouts import Layout
    from engine.remote.metadata import PartitionMetadata, RemoteLogMetadata, RemoteSegment
    from engine.remote.metadata_log import MetadataLogs
    from engine.remote.storage import Object, Store, WritableStore

_SHOWN = 8  # numbers of partitions
_PIECE = 8 << 20  # bytes of an object per read and write
_MAX_MANIFEST = 1 << 30  # bytes


class NotDeleted(KafkalogError):
    """Objects that are not deleted, because they may be needed."""

    code = "not-deleted"
    exit_status = 4


class Why(Enum):
    """The reason why no broker deletes an object. The values are those of the JSON output."""

    DELETED = "deleted"  # according to the records the segment was deleted
    CUT_OFF = "cut-off"  # no record names the segment, and some of its objects are missing
    NOT_FINISHED = "not-finished"  # its copy did not finish; other segments have its records
    COPIED_AGAIN = "copied-again"  # no record names the segment, and others have its records
    TOPIC_GONE = "topic-gone"  # a record names the segment, and the cluster has no topic with that id any more
    ONLY_COPY = "only-copy"  # no record names the segment, and no others have all of its records
    UNKNOWN_TOPIC = "unknown-topic"  # neither the cluster nor a record knows the topic: it may be another cluster's
    FOREIGN = "foreign"  # the key does not match the layout


DELETABLE = frozenset({Why.DELETED, Why.CUT_OFF, Why.NOT_FINISHED, Why.COPIED_AGAIN, Why.TOPIC_GONE})


class Orphan(NamedTuple):
    """The objects of one segment, or one foreign object without `partition`, `segment_id` and `base_offset`."""

    why: Why
    partition: PartitionName | None
    segment_id: str | None
    base_offset: int | None
    objects: tuple[Object, ...]

    @property
    def modified_ms(self) -> int:
        """Time at which the newest object was written, in ms."""
        return max(one.modified_ms for one in self.objects)

    @property
    def size(self) -> int:
        """Bytes of the objects."""
        return sum(one.size for one in self.objects)


class Found(NamedTuple):
    """The orphans of a store, and all of its segments."""

    orphans: list[Orphan]
    segments: list[StoredSegment]


def find_orphans(
    layout: Layout, logs: MetadataLogs, metadata: RemoteLogMetadata, cluster: ClusterMetadata | None
) -> Found:
    """Find the orphans of a store: compare its listing with all records. Raises UnreadableFile.

    logs      with the records
    metadata  empty; receives the records
    cluster   None: the topics of the cluster are not known
    """
    inventory = list_store(layout)  # before the records are read: they then describe every finished copy in the listing
    there = {uuid_bytes(one.named.segment_id) for one in inventory.segments}
    deleted: set[bytes] = set()
    for event in logs.events(metadata):
        record = event.record
        if isinstance(record, UpdateRecord) and record.segment_id in there and record.state == State.DELETE_SEGMENT_FINISHED:
            deleted.add(record.segment_id)
    found = [Orphan(Why.FOREIGN, None, None, None, (one,)) for one in inventory.others]
    for name, stored in inventory.by_partition().items():
        known = metadata.find(name.topic_id, name.partition)
        is_gone = cluster is not None and name.topic_id not in cluster.topics
        classifier = _Classifier(layout, known, stored, deleted, is_gone=is_gone)
        for one in stored:
            why = classifier.why(one)
            if why is not None:
                objects = tuple(one.objects[part] for part in sorted(one.objects))
                found.append(Orphan(why, name, one.named.segment_id, one.named.base_offset, objects))
    return Found(found, inventory.segments)


class _Classifier:
    """Classifies the stored segments of a partition. `is_gone`: the topic was deleted."""

    def __init__(
        self, layout: Layout, known: PartitionMetadata | None, stored: Sequence[StoredSegment], deleted: set[bytes], *,
        is_gone: bool,
    ) -> None:  # fmt: skip
        self._layout, self._deleted, self._is_gone = layout, deleted, is_gone
        self._segments = {} if known is None else {one.name: one for one in known.segments()}
        whole = {one.named.segment_id for one in stored if known is not None and self._is_whole(known, one)}
        self._readable: dict[int, list[tuple[int, int]]] = {}  # by leader epoch: offsets of copied segments with all objects
        for name, one in self._segments.items():
            if one.state is State.COPY_SEGMENT_FINISHED and name in whole:
                for epoch, first in one.leader_epochs:
                    self._readable.setdefault(epoch, []).append((first, one.last_offset_of(epoch)))
        for extents in self._readable.values():
            extents.sort()

    def _is_whole(self, known: PartitionMetadata, stored: StoredSegment) -> bool:
        """Do all objects exist, with the sizes that the metadata has?"""
        recorded = self._segments.get(stored.named.segment_id)
        if recorded is None or lacking_parts(self._layout, stored):
            return False
        there = {one.key: one.size for one in stored.objects.values()}
        expected = self._layout.parts(known, recorded).keys(recorded)
        return all(there.get(key) == size for key, size in expected.items() if size is not None and size >= 0)

    def why(self, stored: StoredSegment) -> Why | None:
        """Return why a segment is an orphan; None: brokers read it or will delete it."""
        segment_id = stored.named.segment_id
        recorded = self._segments.get(segment_id)
        if uuid_bytes(segment_id) in self._deleted and recorded is None:
            return Why.DELETED
        if self._is_gone:
            return Why.UNKNOWN_TOPIC if recorded is None else Why.TOPIC_GONE
        if recorded is not None:
            is_open = recorded.state is State.COPY_SEGMENT_STARTED
            return Why.NOT_FINISHED if is_open and self._others_have(recorded) else None
        if lacking_parts(self._layout, stored):
            return Why.CUT_OFF
        try:
            segment, _ = describe(self._layout, stored)
        except CorruptObject:
            return Why.ONLY_COPY
        return Why.COPIED_AGAIN if self._others_have(segment) else Why.ONLY_COPY

    def _others_have(self, segment: RemoteSegment) -> bool:
        """Do other segments have all records of a segment? The same offsets of another leader epoch are other records."""
        extents = ((epoch, first, segment.last_offset_of(epoch)) for epoch, first in segment.leader_epochs)
        return segment.leader_epochs[0][1] <= segment.start_offset and all(self._have(*one) for one in extents)

    def _have(self, epoch: int, first: int, last: int) -> bool:
        """Can brokers read all of these offsets of a leader epoch from other segments?"""
        for start, end in self._readable.get(epoch, ()):
            if start <= first <= end:
                first = end + 1
        return first > last


def refuse_doubtful(
    logs: MetadataLogs, cluster: ClusterMetadata | None, count: int | None, found: Found, findings: int, store: str
) -> None:
    """Raise NotDeleted unless all records of __remote_log_metadata were certainly read.

    count     number of its partitions, for a cluster without metadata; None: unknown
    findings  number of findings in its logs
    """
    if findings:
        raise NotDeleted(f"{store}: the logs of __remote_log_metadata are damaged: unreadable records may name these segments",
                         "repair them first; without --delete the command shows the list")
    topic = None if cluster is None else cluster.by_name(REMOTE_LOG_METADATA_TOPIC)
    expected = count if topic is None else len(topic.replicas)
    if expected is None:
        raise NotDeleted(f"{store}: the number of partitions of __remote_log_metadata is not known",
                         "name the log dir with __cluster_metadata-0, or --metadata-partitions N")
    missing = sorted(set(range(expected)) - logs.directories.keys())
    if missing:
        shown = ", ".join(map(str, missing[:_SHOWN])) + (", …" if len(missing) > _SHOWN else "")
        raise NotDeleted(f"{store}: partitions {shown} of the {expected} of __remote_log_metadata are in none of the log dirs",
                         "name the log dirs of all brokers that hold the topic")
    topic_ids = {one.named.topic_id for one in found.segments}
    if cluster is not None and topic_ids and not topic_ids & cluster.topics.keys():
        raise NotDeleted(f"{store}: the cluster has none of its topics", "name the log dirs of the store's own cluster")


# ---- deletion


class KeptObjects:
    """A quarantine for objects of a store: receives a copy of each object before its deletion. See `put_back`.

    The first line of the manifest describes the store. Each other line has key, size and checksum of an object, and is written
    before the object is deleted.
    """

    def __init__(self, files: Files, directory: str) -> None:
        self._files, self.directory = files, directory
        self._lines: list[bytes] = []

    def begin(self, store: Store, now: int) -> None:
        """Create the directory and sync it. Raises UnwritableFile if it exists."""
        files, directory = self._files, self.directory
        if files.exists(directory):
            raise UnwritableFile(f"{directory}: already exists; a quarantine needs a new directory")
        if not files.make_own_directory(directory):
            files.sync_directory(parent_of(files.absolute(directory)))
        self._put({"version": OBJECTS_VERSION, "store": store.name, "created_ms": now})

    def in_use(self) -> AbstractContextManager[None]:
        """Lock the directory against restoring and deletion. Raises LogDirLocked, UnwritableFile."""
        return in_use(self._files, self.directory)

    def keep(self, store: Store, found: Object) -> None:
        """Copy an object, then add its line to the manifest: each line has a complete copy."""
        name = f"{len(self._lines):06d}"
        digest, at = sha256(), 0
        with self._files.open_writable(f"{self.directory}/{name}", create=True) as file:
            for start in range(0, found.size, _PIECE):
                data = store.read(found, start, min(start + _PIECE, found.size))
                file.write_at(at, data)
                digest.update(data)
                at += len(data)
            file.sync()
        self._files.sync_directory(self.directory)
        self._put({"file": name, "key": found.key, "size": at, "sha256": digest.hexdigest()})

    def _put(self, fields: dict[str, object]) -> None:
        line = json.dumps(fields).encode() + b"\n"
        with self._files.open_writable(f"{self.directory}/{OBJECTS}", create=True) as file:
            file.write_at(sum(map(len, self._lines)), line)
            file.sync()
        self._lines.append(line)


class Kept(NamedTuple):
    """A deleted object: path of its copy, key, size in bytes, SHA-256."""

    path: str
    key: str
    size: int
    sha256: str


def read_kept(files: ReadOnlyFiles, directory: str) -> tuple[str, list[Kept]]:
    """Read a manifest → (name of the store, kept objects). Raises UnreadableFile if the manifest is damaged.

    An incomplete last line is ignored: its object was not deleted.
    """
    path = f"{directory}/{OBJECTS}"
    try:
        written = files.read(path, _MAX_MANIFEST).split(b"\n")[:-1]
        if written and b"\0" in written[-1]:  # it is only partly on the disk
            written.pop()
        lines = [json.loads(line) for line in written]
        if lines[0]["version"] != OBJECTS_VERSION:
            raise UnreadableFile(f"{path}: version {lines[0]['version']}, which is not known", path=path)
        kept = [Kept(f"{directory}/{one['file']}", str(one["key"]), int(one["size"]), str(one["sha256"])) for one in lines[1:]]
        return str(lines[0]["store"]), kept
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise UnreadableFile(f"{path}: not a list of objects: {error}", path=path) from error


def put_back(files: ReadOnlyFiles, store: WritableStore, kept: Kept, *, dry_run: bool) -> bool:
    """Put an object back; False: it exists. Raises NotDeleted if another object has the key, UnreadableFile for a bad copy."""
    digest = sha256()
    with files.open(kept.path) as file:
        size = file.size()
        for start in range(0, size, _PIECE):
            digest.update(file.read_exactly(start, min(_PIECE, size - start)))
        if (size, digest.hexdigest()) != (kept.size, kept.sha256):
            raise UnreadableFile(f"{kept.path}: not the bytes that were kept", path=kept.path)
        there = store.find(kept.key)
        if there is not None:
            same = there.size == kept.size and _digest(store, there) == kept.sha256
            if not same:
                raise NotDeleted(f"{store.path(kept.key)}: another object has this key now", "move it away first")
            return False
        if not dry_run:
            store.put(kept.key, size, (file.read_exactly(at, min(_PIECE, size - at)) for at in range(0, size, _PIECE)))
    return True


def _digest(store: Store, found: Object) -> str:
    digest = sha256()
    for start in range(0, found.size, _PIECE):
        digest.update(store.read(found, start, min(start + _PIECE, found.size)))
    return digest.hexdigest()


def delete(store: WritableStore, orphans: Sequence[Orphan], kept: KeptObjects | None) -> Iterator[Orphan]:
    """Delete the objects of orphans → the deleted orphans. `kept` receives each object first; None: no copy is kept.

    Raises UnreadableFile, UnwritableFile, FileChangedWhileReading; the other objects are unchanged.
    """
    with nullcontext() if kept is None else kept.in_use():
        for orphan in orphans:
            for one in orphan.objects:
                if kept is not None:
                    kept.keep(store, one)
                store.delete(one)
            yield orphan

"""Find what was deleted and is still on the disk: directories, segments, and files that only a broker's descriptors hold.

Directories named -delete wait until a broker removes them (log.segment.delete.delay.ms after the deletion, or after its start),
those named -stray until somebody does. Nothing is changed, and only names, sizes and batch headers of last segments are read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import count_of, offsets_text, whole_number
from engine.checkpoint.identity import read_topic_id
from engine.discovery.names import (
    DELETED,
    METADATA_TOPIC,
    FileKind,
    PartitionDir,
    PartitionKind,
    file_name,
    log_file_name,
    offset_of_brokers,
    parent_of,
    parse_partition_dir,
)
from engine.discovery.paths import is_brokers_log_dir
from engine.errors import UnreadableFile
from engine.files import LINK, lock_holder, unlinked_files
from engine.findings import Finding, Where
from engine.formats import BatchField
from engine.record.heads import HeadWalk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from engine.config.server import ServerConfig
    from engine.errors import KafkalogError
    from engine.files import ReadOnlyFiles
    from engine.log.logdir.cluster_metadata import ClusterMetadata, Topic
    from engine.log.logdir.log_dirs import LogDir, PartitionPath
    from engine.log.logdir.startup import Cluster

STAGING_ID = "6b61666b616c6f676b61666b616c6f67"  # "kafkalog" twice: see undelete.py
_DELAY = "log.segment.delete.delay.ms"
_DEFAULT_DELAY = 60_000  # ms
_LONGEST = 255  # characters of a file name: brokers shorten the topic in names that would be longer
_LOG = FileKind.LOG.value
_OF_KIND = {PartitionKind.DELETE: "delete-dir", PartitionKind.STRAY: "stray-dir"}


class Kind(Enum):
    """How records were deleted. The value is the word of the JSON output."""

    DELETE_DIR = "delete-dir"  # the topic was deleted, or the replica moved away
    STRAY_DIR = "stray-dir"  # the broker is not a replica any more
    COPY = "copy"  # a directory outside of a broker's log dir, such as `--to` makes it
    DELETED_SEGMENT = "deleted-segment"  # by retention or by the cleaner
    OPEN_UNLINKED = "open-unlinked"  # removed, and still open in a process


DIRECTORIES = (Kind.DELETE_DIR, Kind.STRAY_DIR, Kind.COPY)


class Segment(NamedTuple):
    """A .log that holds deleted records. `path`: where it can be opened."""

    base_offset: int
    path: str
    size: int


@dataclass(slots=True)
class Deleted:
    """Deleted records of one partition that are still on the disk.

    path       of their directory; of a deleted segment its .log; of removed files the directory in which they were
    topic      None: not known, because the directory name is shortened; `prefix` is what it has of the topic
    topic_id   in partition.metadata, else None
    end        offset after the last batch; None: no batch
    goes_at    ms since 1970: not before then the running broker removes it; None: not while no broker runs
    process    that has the files open
    """

    path: str
    log_dir: str
    kind: Kind
    topic: str | None
    partition: int
    topic_id: str | None = None
    segments: list[Segment] = field(default_factory=list)
    end: int | None = None
    goes_at: int | None = None
    process: int | None = None
    prefix: str = ""

    @property
    def name(self) -> str:
        """The partition, for messages."""
        return f"{self.topic or self.prefix + '…'}-{self.partition}"

    @property
    def start(self) -> int | None:
        """The base offset of the first segment; None: there is none."""
        return self.segments[0].base_offset if self.segments else None

    @property
    def size(self) -> int:
        """Bytes of the .log files."""
        return sum(one.size for one in self.segments)


def lock_holders(cluster: Cluster) -> dict[str, int]:
    """Return log dir → the process that holds its lock. Never call it while this process holds one: it would be released."""
    holders = {one.path: lock_holder(f"{one.path}/{FileKind.LOCK.value}") for one in cluster.log_dirs}
    return {path: holder for path, holder in holders.items() if holder is not None}


def find_deleted(
    files: ReadOnlyFiles, cluster: Cluster, server: ServerConfig, report: Callable[[KafkalogError], None],
    holders: Mapping[str, int] | None = None,
) -> Iterator[Deleted]:
    """Yield what is deleted in the log dirs of a broker and still there; partitions without a batch are left out.

    report   called with the errors of directories that cannot be read
    holders  of the locks of log dirs: brokers that will remove the directories, and whose open files are searched
    Raises UnreadableFile for a log dir.
    """
    delay = whole_number(dict(server.values).get(_DELAY, "")) or _DEFAULT_DELAY
    for log_dir in cluster.log_dirs:
        holder = (holders or {}).get(log_dir.path)
        links = files.special(log_dir.path)
        is_brokers = is_brokers_log_dir(files, log_dir.path)
        for place in log_dir.directories:
            if place.name.topic == METADATA_TOPIC or links.get(file_name(place.path)) == LINK:
                continue
            try:
                found = list(_in_directory(files, cluster.metadata, place, is_brokers=is_brokers))
                for one in found if holder is not None else ():
                    if one.kind in (Kind.DELETE_DIR, Kind.DELETED_SEGMENT):
                        one.goes_at = files.info(one.path).changed_ns // 1_000_000 + delay
            except UnreadableFile as error:
                report(error)
            else:
                yield from found
        if holder:  # 0: a process of another container
            try:
                yield from find_open(files, holder, cluster.metadata, [log_dir])
            except UnreadableFile as error:
                report(error)


def find_open(
    files: ReadOnlyFiles, process: int, metadata: ClusterMetadata | None = None, log_dirs: Iterable[LogDir] = ()
) -> Iterator[Deleted]:
    """Yield the partitions of which `process` has removed .log files open, of these log dirs or, with none, of all.

    Raises UnreadableFile if the open files cannot be listed.
    """
    within = [f"{files.resolve(one.path).rstrip('/')}/" for one in log_dirs]
    found: dict[str, list[Segment]] = {}
    for one in unlinked_files(process):
        directory, base = parent_of(one.target), offset_of_brokers(file_name(one.target), _LOG)
        if base is not None and (not within or any(one.target.startswith(top) for top in within)):
            found.setdefault(directory, []).append(Segment(base, one.path, one.size))
    for directory, segments in sorted(found.items()):
        parsed = parse_partition_dir(file_name(directory))
        if parsed is None or parsed.topic == METADATA_TOPIC:
            continue
        topic = None if metadata is None else metadata.by_name(parsed.topic)
        deleted = Deleted(
            directory, parent_of(directory), Kind.OPEN_UNLINKED, parsed.topic, parsed.partition,
            None if topic is None else topic.topic_id, process=process,
        )  # fmt: skip
        yield from _with_segments(files, deleted, segments)


def open_findings(files: ReadOnlyFiles, cluster: Cluster) -> Iterator[Finding]:
    """Yield a finding for each partition whose files were removed under the running broker of these log dirs.

    None if its open files cannot be listed: only root and its own user may.
    """
    for log_dir in cluster.log_dirs:
        holder = lock_holders(cluster).get(log_dir.path)
        try:
            found = list(find_open(files, holder, log_dirs=[log_dir])) if holder else []
        except UnreadableFile:
            continue
        for one in found:
            if parse_partition_dir(file_name(one.path)) == PartitionDir(one.topic or "", one.partition):
                segments = count_of(len(one.segments), "segment")
                what = f"removed, but the running broker {holder} still has {segments} open"
                if one.start is not None:
                    what += f": {offsets_text(one.start, one.end)}"
                yield Finding("open-unlinked", Where(f"{log_dir.path.rstrip('/')}/{one.name}"), what)


def _in_directory(
    files: ReadOnlyFiles, metadata: ClusterMetadata | None, place: PartitionPath, *, is_brokers: bool
) -> Iterator[Deleted]:
    plain = files.plain(place.path)
    links = files.special(place.path)
    names = [name for name in plain if name not in links]
    kind = place.name.kind
    topic_id = read_topic_id(files, place.path)
    if kind in (PartitionKind.DELETE, PartitionKind.STRAY) or (kind is PartitionKind.PLAIN and not is_brokers):
        if place.name.unique_id == STAGING_ID:
            return
        word = Kind.COPY if kind is PartitionKind.PLAIN else Kind(_OF_KIND[kind])
        topic, prefix = _topic_of(place, topic_id, metadata), place.name.topic
        deleted = Deleted(place.path, place.log_dir, word, topic, place.name.partition, topic_id, prefix=prefix)
        yield from _with_segments(files, deleted, _segments(files, place.path, names))
    elif kind is PartitionKind.PLAIN:
        for segment in _segments(files, place.path, names, DELETED):
            deleted = Deleted(
                segment.path, place.log_dir, Kind.DELETED_SEGMENT, place.name.topic, place.name.partition, topic_id
            )
            yield from _with_segments(files, deleted, [segment])


def _with_segments(files: ReadOnlyFiles, deleted: Deleted, segments: Iterable[Segment]) -> Iterator[Deleted]:
    """Yield `deleted` with its segments, and the offset after the last batch, if it has a batch."""
    deleted.segments = sorted(segments)
    for segment in reversed(deleted.segments):
        deleted.end = end_of(files, segment)
        if deleted.end is not None:
            yield deleted
            return
    if deleted.size:  # damaged: not to be passed over
        yield deleted


def end_of(files: ReadOnlyFiles, segment: Segment) -> int | None:
    """Return the offset after the last whole batch by its header; None: there is none."""
    end = None
    with files.open(segment.path) as file:
        for window in HeadWalk(file):
            end = window.batches.table[BatchField.LAST_OFFSET, window.rows - 1] + 1
    return end


def _segments(files: ReadOnlyFiles, directory: str, names: Iterable[str], suffix: str = "") -> Iterator[Segment]:
    for name in names:
        base = offset_of_brokers(name, _LOG + suffix)
        if base is not None and name == log_file_name(base, suffix):
            path = f"{directory}/{name}"
            yield Segment(base, path, files.info(path).size)


def _topic_of(place: PartitionPath, topic_id: str | None, metadata: ClusterMetadata | None) -> str | None:
    """Return the topic: by its id in the metadata log, else from the directory name if that is not shortened."""
    known = None if metadata is None or topic_id is None else topic_by_id(metadata, topic_id)
    if known is not None:
        return known.name
    return None if len(file_name(place.path)) >= _LONGEST else place.name.topic


def topic_by_id(metadata: ClusterMetadata, topic_id: str) -> Topic | None:
    """Return the topic with this id, also a deleted one of which the metadata log still has the records."""
    return metadata.topics.get(topic_id) or metadata.removed.get(topic_id)

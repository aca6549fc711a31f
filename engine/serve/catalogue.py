"""The topics that are served, and their partitions on the disks: opened on first use, closed when too many are open."""

from __future__ import annotations

import base64
import hashlib
from contextlib import contextmanager
from threading import Lock, RLock
from typing import TYPE_CHECKING, NamedTuple

from engine.checkpoint.checkpoints import read_leader_epochs
from engine.checkpoint.identity import read_topic_id
from engine.discovery.choice import is_chosen_topic
from engine.discovery.names import INTERNAL_TOPICS, METADATA_TOPIC, FileKind, is_topic_name
from engine.discovery.paths import is_log_07
from engine.errors import KafkalogError, UnreadableFile, argument
from engine.findings import Finding, Where
from engine.log.errors import OffsetOutOfRange
from engine.log.fetch.replicas import best_replica
from engine.log.fetch.view import PartitionView
from engine.log.logdir.startup import survey
from engine.protocol.layout import ZERO_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from engine.files import ReadOnlyFiles
    from engine.log.fetch.reading import ReadableLog
    from engine.log.logdir.log_dirs import LogDir
    from engine.log.partition.unified_log import UnifiedLog
    from engine.log.segment.readable_segment import ReadableSegment
    from engine.remote.access import RemoteAccess
    from engine.remote.reading import TieredView

_MOST_NOTED = 1000  # different errors that are reported
_MOST_OPEN = 256  # partitions whose files are open at a time
_KAFKAS_PREFIX = "__"  # of topics that Kafka itself writes


class Wanted(NamedTuple):
    """The topics to serve.

    topics        names or patterns; none: all
    is_internal   serve topics that Kafka itself writes (`__consumer_offsets` …), which can hold secrets
    """

    topics: Sequence[str] = ()
    is_internal: bool = False

    def includes(self, topic: str) -> bool:
        """Return whether the topic is served."""
        if topic == METADATA_TOPIC or (topic.startswith(_KAFKAS_PREFIX) and not self.is_internal):
            return False  # a broker does not serve the metadata log either
        return is_chosen_topic(topic, self.topics)


class NotOpen(KafkalogError):
    """A log that producers cannot write to."""

    code = "log-not-open"


class Partition:
    """A partition that is served. May be used by several threads.

    directories  its copies; the best of them is read (see best_replica)
    """

    def __init__(self, catalogue: Catalogue, topic: str, index: int, directories: Sequence[str]) -> None:
        self._catalogue = catalogue
        self.topic, self.index, self.directories = topic, index, list(directories)
        self._lock = RLock()
        self._view: PartitionView | None = None
        self._tiered: TieredView | None = None  # over `_view`
        self._log: ReadableLog | None = None
        self._directory: str | None = None
        self._epoch: int | None = None
        self._read: ReadableSegment | None = None  # the segment from which the last read was
        self._is_stale = False  # a read failed: the files may have changed since the log was opened

    @property
    def directory(self) -> str:
        """The directory that is read."""
        with self._lock:
            if self._directory is None:
                self._directory = best_replica(self._catalogue.files, self.directories)
            return self._directory

    @property
    def leader_epoch(self) -> int:
        """The last epoch of the leader-epoch-checkpoint; 0: it has none. Raises UnreadableFile."""
        with self._lock:
            if self._epoch is None:
                files, path = self._catalogue.files, f"{self.directory}/{FileKind.LEADER_EPOCH_CHECKPOINT.value}"
                entries = read_leader_epochs(files, path).entries if files.exists(path) else []
                self._epoch = entries[-1].epoch if entries else 0
            return self._epoch

    def note(self, error: KafkalogError) -> None:
        """Report why a client gets an error, except for offsets that the log does not have.

        The next read opens the log again.
        """
        if not isinstance(error, OffsetOutOfRange):
            self._catalogue.note(error)
            self._is_stale = True

    @contextmanager
    def open_log(self) -> Iterator[UnifiedLog]:
        """Hold the log that is open for producers; no other thread uses it meanwhile. Raises NotOpen."""
        with self._lock:
            log = self._catalogue.open_logs.get(self.directory)
            if log is None:
                raise NotOpen(f"{self.directory}: its log is not open for producers", path=self.directory)
            yield log
            log.update_high_watermark(log.log_end_offset)  # there is one replica

    @contextmanager
    def log(self) -> Iterator[ReadableLog]:
        """Open the log, or refresh it if logs are followed; no other thread uses it meanwhile. Raises KafkalogError."""
        with self._lock:
            log = self._catalogue.open_logs.get(self.directory)
            if log is not None:
                yield log
                return
            if self._is_stale:
                self.close()
            if self._log is None:
                self._open()
            elif self._catalogue.is_followed and self._view is not None and self._view.refresh():
                self._epoch = None
            assert self._log is not None
            yield self._log
        self._catalogue.used(self)

    def note_read(self, segment: ReadableSegment | None) -> None:
        """Note that a segment was read, within `log`: the files of the one before are closed, as there may be thousands."""
        if self._read is not None and self._read is not segment:
            self._read.release_log()
        self._read = segment

    def _open(self) -> None:
        catalogue = self._catalogue
        if is_log_07(catalogue.files, self.directory):
            what = f"{self.directory}: a log of Kafka 0.7, whose offsets are byte positions, is not served"
            raise UnreadableFile(what, do=f"kafkalog fetch {argument(self.directory)}", path=self.directory)
        view = PartitionView(catalogue.files, self.directory, catalogue.report, is_followed=catalogue.is_followed)
        try:
            remote = None if catalogue.remote is None else catalogue.remote.open(view, None, catalogue.report)
        except BaseException:
            view.close()
            raise
        self._view, self._tiered, self._log = view, remote, remote or view
        self._epoch, self._is_stale = None, False

    def close(self) -> bool:
        """Close the files, unless a thread uses them. Returns whether they are closed."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if self._tiered is not None:
                self._tiered.close()
            if self._view is not None:
                self._view.close()
            self._view = self._tiered = self._log = self._read = None
        finally:
            self._lock.release()
        return True


class Topic(NamedTuple):
    """A topic that is served. `id`: as in Kafka's JSON, base64url of 16 bytes."""

    name: str
    id: str
    partitions: dict[int, Partition]

    @property
    def is_internal(self) -> bool:
        """Return whether a broker calls the topic internal (Topic.isInternal)."""
        return self.name in INTERNAL_TOPICS


class Catalogue:
    """The topics in `log_dirs`.

    is_followed  a broker may be writing: look at a log again before each read
    report       called with damage at the ends of logs
    failed       called with each error that a client gets, once; both may be called by several threads
    remote       access to remote segments; None: they are not read
    open_logs    logs that are open for producers, by directory
    Raises UnreadableFile. May be used by several threads.
    """

    def __init__(
        self, files: ReadOnlyFiles, log_dirs: Sequence[LogDir], wanted: Wanted, report: Callable[[Finding], None], *,
        failed: Callable[[KafkalogError], object], is_followed: bool = False, remote: RemoteAccess | None = None,
    ) -> None:
        self.files, self.report, self.is_followed, self.remote = files, report, is_followed, remote
        self.log_dirs = list(log_dirs)
        self.open_logs: Mapping[str, UnifiedLog] = {}
        self.cluster = survey(files, self.log_dirs)
        self._failed, self._noted = failed, set[str]()
        self._open: dict[int, Partition] = {}  # by id(), the least recently used one first
        self._lock = Lock()
        self.topics = {topic.name: topic for topic in self._find(wanted)}
        self._by_id = {topic.id: topic for topic in self.topics.values()}

    def _find(self, wanted: Wanted) -> Iterator[Topic]:
        copies: dict[str, dict[int, list[str]]] = {}
        for log_dir in self.log_dirs:
            for found in log_dir.partitions():
                if not is_topic_name(found.name.topic):
                    self.report(Finding("file-ignored", Where(found.path), "no topic can have this name"))
                elif wanted.includes(found.name.topic):
                    copies.setdefault(found.name.topic, {}).setdefault(found.name.partition, []).append(found.path)
        taken = {ZERO_ID}
        for name, partitions in sorted(copies.items()):
            first = next(iter(partitions.values()))[0]
            served = {index: Partition(self, name, index, paths) for index, paths in sorted(partitions.items())}
            topic_id = topic_id_of(self.files, first)
            if topic_id is None or topic_id in taken:  # a copied directory has the id of another topic
                topic_id = _id_from_name(name)
            taken.add(topic_id)
            yield Topic(name, topic_id, served)

    def by_id(self, topic_id: str) -> Topic | None:
        """Return the topic with this id, if it is served."""
        return self._by_id.get(topic_id)

    @property
    def partitions(self) -> Iterator[Partition]:
        """All partitions, by topic and number."""
        for topic in self.topics.values():
            yield from topic.partitions.values()

    def choices(self) -> Iterator[Finding]:
        """Yield a finding for each partition of which there are several copies: which one is served."""
        for partition in self.partitions:
            if len(partition.directories) > 1:
                others = ", ".join(path for path in partition.directories if path != partition.directory)
                yield Finding("replica-chosen", Where(partition.directory), f"served in place of {others}")

    def note(self, error: KafkalogError) -> None:
        """Report an error that a client gets; the same one only once, and no more than 1,000."""
        with self._lock:
            if str(error) in self._noted or len(self._noted) >= _MOST_NOTED:
                return
            self._noted.add(str(error))
        self._failed(error)

    def used(self, partition: Partition) -> None:
        """Note that the partition is open, and close the least recently used ones if there are too many."""
        with self._lock:
            self._open.pop(id(partition), None)
            self._open[id(partition)] = partition
            for number in list(self._open)[: max(0, len(self._open) - _MOST_OPEN)]:
                if self._open[number].close():
                    del self._open[number]

    def close(self) -> None:
        """Close all files that no thread uses."""
        with self._lock:
            for partition in self._open.values():
                partition.close()
            self._open.clear()


def topic_id_of(files: ReadOnlyFiles, directory: str) -> str | None:
    """Return the id in the partition.metadata of a partition; None: there is none, or it is unreadable."""
    try:
        return read_topic_id(files, directory)
    except KafkalogError:
        return None


def _id_from_name(topic: str) -> str:
    """Return an id for a topic that has none of its own, as before Kafka 2.8."""
    return base64.urlsafe_b64encode(hashlib.sha256(topic.encode()).digest()[:16]).decode().rstrip("=")

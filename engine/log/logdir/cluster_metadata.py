"""The state of the cluster from the metadata log on the same disk: topics with their ids, replicas and settings.

Replayed as in a broker: the latest snapshot, then the log after it up to the first damage. Mirrors MetadataLoader, TopicsDelta
and ConfigurationsDelta.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from engine.amounts import count_of
from engine.config.server import topic_settings
from engine.discovery.names import METADATA_TOPIC, FileKind, parse_file_name
from engine.formats import BATCH_HEADER, HEADER_SIZE_UP_TO_MAGIC, BatchField
from engine.log.append_errors import CorruptRecord
from engine.record.crc import crc32c
from engine.record.windows import LogWalk, Stop, only_zeros

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.errors import KafkalogError
    from engine.files import OpenFile, ReadOnlyFiles
    from engine.findings import Finding
    from engine.record.batch import Record


METADATA_DIR = f"{METADATA_TOPIC}-0"
# DirectoryId: replicas whose log dir is not known: MIGRATING, UNASSIGNED, LOST
RESERVED_DIRECTORY_IDS = frozenset(("AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"))
_BROKER, _TOPIC = 4, 2  # ConfigResource.Type
_CRC_START = BATCH_HEADER.positions["attributes"]
_TYPES = frozenset((2, 3, 4, 5, 9, 23, 24, 25))  # record types that `_replay` processes; others are not decoded


@dataclass(slots=True)
class Topic:
    """A topic: its id, and for each partition the replicas (broker ids) and the ids of the log dirs that contain them."""

    name: str
    topic_id: str
    replicas: dict[int, tuple[int, ...]] = field(default_factory=dict)
    directories: dict[int, tuple[str, ...]] = field(default_factory=dict)


class SnapshotFile(NamedTuple):
    """A snapshot of the metadata log: all records before `end_offset`."""

    end_offset: int
    path: str


@dataclass(slots=True)
class ClusterMetadata:
    """The state of the cluster after the last readable record.

    topics    by id      named     by name            settings  of each topic by name
    removed   by id: deleted topics, as far as the log and its snapshot still have their records
    brokers   dynamic settings by broker id, "" for all of them
    end_offset  after the last record      findings  damage that stopped the reading
    snapshot    the newest one; None: there is none
    snapshot_fault   the error with which a broker stops at it
    """

    topics: dict[str, Topic] = field(default_factory=dict)
    named: dict[str, Topic] = field(default_factory=dict)
    removed: dict[str, Topic] = field(default_factory=dict)
    settings: dict[str, dict[str, str]] = field(default_factory=dict)
    brokers: dict[str, dict[str, str]] = field(default_factory=dict)
    end_offset: int = 0
    findings: list[Finding] = field(default_factory=list)
    snapshot: SnapshotFile | None = None
    snapshot_fault: KafkalogError | None = None

    def topic_defaults(self, node_id: int | None) -> dict[str, str]:
        """Dynamic broker settings that are defaults for topics (DynamicBrokerConfig)."""
        own = self.brokers.get("" if node_id is None else str(node_id), {})
        return topic_settings({**self.brokers.get("", {}), **own})

    def directory_of(self, name: str, partition: int, node_id: int) -> str | None:
        """Id of the log dir with the partition on that broker; None: not known."""
        topic = self.by_name(name)
        if topic is None or node_id not in topic.replicas.get(partition, ()):
            return None
        at = topic.replicas[partition].index(node_id)
        directories = topic.directories.get(partition, ())
        return directories[at] if at < len(directories) else None

    def by_name(self, name: str) -> Topic | None:
        """The topic with that name."""
        return self.named.get(name)


def read_cluster_metadata(files: ReadOnlyFiles, directory: str) -> ClusterMetadata:
    """Replay the metadata log in `directory`. Raises UnreadableFile; damage becomes a finding and ends the replay.

    Damage below the newest snapshot is not one: a broker empties the log then, and continues with the snapshot.
    """
    metadata = ClusterMetadata()
    replay = _Replay(metadata)
    names = files.list(directory)
    snapshot = _latest_snapshot(names)
    start = 0
    if snapshot is not None:
        metadata.snapshot = SnapshotFile(snapshot[0], f"{directory}/{snapshot[1]}")
        start, path = metadata.snapshot
        metadata.snapshot_fault = _snapshot_fault(files, path)
        for record in _records(files, path, metadata.findings):
            replay.apply(record)
    is_read = not metadata.findings
    for _base, name in sorted(_logs(names)):
        for record in _records(files, f"{directory}/{name}", metadata.findings):
            if record.offset >= start:
                replay.apply(record)
                metadata.end_offset = record.offset + 1
        if metadata.findings:
            break  # a broker removes the records after damage
    if is_read and metadata.end_offset < start:
        metadata.findings.clear()
    metadata.end_offset = max(metadata.end_offset, start)
    return metadata


def _snapshot_fault(files: ReadOnlyFiles, path: str) -> KafkalogError | None:
    """The error with which a broker stops at the snapshot at `path`; None: it reads it. Mirrors RecordsIterator."""
    try:
        return _first_corrupt(files, path)
    except CorruptRecord as error:
        return error


def _first_corrupt(files: ReadOnlyFiles, path: str) -> CorruptRecord | None:
    from engine.log.append.frames import check_beginning, check_magic

    with files.open(path) as file:
        walk = LogWalk(file)
        for window in walk:
            table = window.batches.table
            for row in range(window.rows):
                at, size = table[BatchField.POSITION, row], table[BatchField.SIZE, row]
                check_magic(table[BatchField.MAGIC, row])
                if table[BatchField.VALID, row] != 1:
                    stored, computed = table[BatchField.CRC, row], crc32c(window.data[at + _CRC_START : at + size])
                    return CorruptRecord(f"Record is corrupt (stored crc = {stored}, computed crc = {computed})")
        head = file.read(walk.position, HEADER_SIZE_UP_TO_MAGIC)
        check_beginning(head, 0, len(head))
    return None


def read_bootstrap(files: ReadOnlyFiles, path: str) -> ClusterMetadata:
    """The initial state of a new cluster, from the bootstrap.checkpoint at `path`. Raises UnreadableFile."""
    metadata = ClusterMetadata()
    replay = _Replay(metadata)
    for record in _records(files, path, metadata.findings):
        replay.apply(record)
    return metadata


def _latest_snapshot(names: list[str]) -> tuple[int, str] | None:
    """(end offset, name) of the newest complete snapshot."""
    found = []
    for name in names:
        parsed = parse_file_name(name)
        if parsed is not None and parsed.kind is FileKind.KRAFT_SNAPSHOT and not parsed.suffix and parsed.epoch is not None:
            assert parsed.base_offset is not None  # it has both numbers or none
            found.append((parsed.base_offset, parsed.epoch, name))
    return None if not found else (max(found)[0], max(found)[2])


def _logs(names: list[str]) -> Iterator[tuple[int, str]]:
    for name in names:
        parsed = parse_file_name(name)
        if parsed is not None and parsed.kind is FileKind.LOG and not parsed.suffix and parsed.base_offset is not None:
            yield parsed.base_offset, name


def _records(files: ReadOnlyFiles, path: str, findings: list[Finding]) -> Iterator[Record]:
    """Yield the records of data batches up to the first damage."""
    from engine.record.batch import read_records  # not imported if there is no metadata log

    with files.open(path) as file:
        for record in read_records(file, findings.append):
            if not record.batch.is_valid:
                return
            if not record.batch.is_control:
                yield record


class _Replay:
    """Applies records; those of a metadata transaction are applied at its end."""

    def __init__(self, metadata: ClusterMetadata) -> None:
        from engine.schema.decode import decoder

        self._metadata = metadata
        self._decoder = decoder("cluster-metadata")
        self._open: list[tuple[str, dict[str, Any]]] | None = None

    def apply(self, record: Record) -> None:
        """Process one record; record types that are not needed are not decoded."""
        value = record.value
        if value is None or len(value) < 2 or value[1] not in _TYPES:
            return
        decoded = cast("dict[str, Any] | None", self._decoder.data(record.offset, record.key, value)["value"])
        if decoded is None:
            return
        kind, data = decoded["type"], decoded["data"]
        if kind == "BEGIN_TRANSACTION_RECORD":
            self._open = []
        elif kind == "END_TRANSACTION_RECORD":
            for held in self._open or ():
                self._replay(*held)
            self._open = None
        elif kind == "ABORT_TRANSACTION_RECORD":
            self._open = None
        elif self._open is not None:
            self._open.append((kind, data))
        else:
            self._replay(kind, data)

    def _replay(self, kind: str, data: dict[str, Any]) -> None:
        topics, metadata = self._metadata.topics, self._metadata
        if kind == "TOPIC_RECORD":
            topics[data["topicId"]] = metadata.named[data["name"]] = Topic(data["name"], data["topicId"])
        elif kind == "REMOVE_TOPIC_RECORD":
            removed = topics.pop(data["topicId"], None)
            if removed is not None:
                metadata.removed[removed.topic_id] = removed
                metadata.settings.pop(removed.name, None)
                metadata.named.pop(removed.name, None)
        elif kind in ("PARTITION_RECORD", "PARTITION_CHANGE_RECORD"):
            topic = topics.get(data["topicId"])
            if topic is not None and data.get("replicas") is not None:
                topic.replicas[data["partitionId"]] = tuple(data["replicas"])
            if topic is not None and data.get("directories") is not None:
                topic.directories[data["partitionId"]] = tuple(data["directories"])
        elif kind == "CONFIG_RECORD":
            if data["resourceType"] == _TOPIC:
                _set(metadata.settings, data)
            elif data["resourceType"] == _BROKER:
                _set(metadata.brokers, data)


def _set(settings: dict[str, dict[str, str]], data: dict[str, Any]) -> None:
    of = settings.setdefault(data["resourceName"], {})
    if data.get("value") is None:
        of.pop(data["name"], None)
    else:
        of[data["name"]] = data["value"]


_UNWRITTEN = 16  # zeros at the end of the file, more than any batch ends with


class MetadataProof(NamedTuple):
    """Where a start would truncate the metadata log.

    is_lossy      acknowledged records would be removed
    segment, file, position, offset   of the damage: base offset and name of the segment, byte position in it, offset
    lost_batches  sound batches after the damage
    """

    is_lossy: bool
    what: str = ""
    segment: int = 0
    file: str = ""
    position: int = 0
    offset: int = 0
    lost_batches: int = 0


def prove_metadata_log(files: ReadOnlyFiles, directory: str) -> MetadataProof:
    """Read the whole metadata log in `directory`. Raises UnreadableFile."""
    logs = sorted(
        (parsed.base_offset, name)
        for name in files.list(directory)
        if (parsed := parse_file_name(name)) is not None and parsed.kind is FileKind.LOG and not parsed.suffix
        and parsed.base_offset is not None
    )
    damage: MetadataProof | None = None
    lost = 0
    for number, (base, name) in enumerate(logs):
        with files.open(f"{directory}/{name}") as file:
            if damage is not None:
                lost += _count_sound(file)
                continue
            damage, lost = _damage(file, base, name, is_last=number + 1 == len(logs))
    if damage is None:
        return MetadataProof(False)
    return damage._replace(lost_batches=lost, is_lossy=damage.is_lossy or lost > 0)


def _damage(file: OpenFile, base: int, name: str, *, is_last: bool) -> tuple[MetadataProof | None, int]:
    """(the first damage in `file`, number of sound batches after it)."""
    walk = LogWalk(file)
    offset, lost = base, 0
    damage: MetadataProof | None = None
    is_unwritten = False  # may the damage be an incomplete write from before a crash?
    goes_on = True
    while goes_on:
        for window in walk:
            table = window.batches.table
            for row in range(window.rows):
                if damage is not None:
                    lost += table[BatchField.VALID, row] == 1
                elif table[BatchField.VALID, row] == 1:
                    offset = table[BatchField.LAST_OFFSET, row] + 1
                else:
                    position = window.base + table[BatchField.POSITION, row]
                    what = f"the checksum of the batch at byte {position} is wrong"
                    damage, is_unwritten = MetadataProof(True, what, base, name, position, offset), _ends_in_zeros(file)
        if damage is None and walk.stop is not Stop.END:
            what = f"no whole batch begins at byte {walk.position}, {count_of(walk.end - walk.position, 'byte')} left"
            damage = MetadataProof(True, what, base, name, walk.position, offset)
            is_unwritten = walk.stop is Stop.TORN or only_zeros(file, walk.position, file.size())
        goes_on = walk.stop is not Stop.END and walk.resynchronise() is not None
    if damage is not None:
        damage = damage._replace(is_lossy=not is_last or lost > 0 or not is_unwritten or walk.gave_up is not None)
    return damage, lost


def _ends_in_zeros(file: OpenFile) -> bool:
    """Does the file end with space that was never written, as after a power cut during the last batch?"""
    return not any(file.read(max(0, file.size() - _UNWRITTEN), _UNWRITTEN))


def _count_sound(file: OpenFile) -> int:
    """Number of batches in `file` with valid checksums, also after damage."""
    walk, count, goes_on = LogWalk(file), 0, True
    while goes_on:
        count += sum(window.batches.table[BatchField.VALID, row] == 1 for window in walk for row in range(window.rows))
        goes_on = walk.stop is not Stop.END and walk.resynchronise() is not None
    return count

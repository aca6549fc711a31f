"""The state of the cluster from the metadata log on the same disk: topics with their ids, replicas and settings.

Replayed as in a broker (engine.image): the latest snapshot, then the log after it up to the first damage. Mirrors
MetadataLoader.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.amounts import count_of
from engine.config.server import topic_settings
from engine.discovery.names import METADATA_TOPIC, FileKind, parse_file_name
from engine.formats import BATCH_HEADER, HEADER_SIZE_UP_TO_MAGIC, BatchField
from engine.image.image import BROKER, TOPIC, Image, ReplayError
from engine.image.partition import MIGRATING
from engine.image.records import READ_ON, MetadataLog, committed, read_metadata_records
from engine.log.append_errors import CorruptRecord
from engine.record.windows import LogWalk, Stop, crc32c, only_zeros

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.errors import KafkalogError
    from engine.files import OpenFile, ReadOnlyFiles
    from engine.findings import Finding
    from engine.image.records import MetadataRecord, SnapshotFile


METADATA_DIR = f"{METADATA_TOPIC}-0"
_CRC_START = BATCH_HEADER.positions["attributes"]
_TYPES = frozenset((2, 3, 4, 5, 9, 12, 23, 24, 25, 28))  # types of the records that are applied; others are not decoded
_ELR_FEATURE = "eligible.leader.replicas.version"


@dataclass(slots=True)
class Topic:
    """A topic: its id, and for each partition the replicas (broker ids) and the ids of the log dirs that contain them.

    eligible  replicas in ISR or ELR, which have every acknowledged record (KIP-966), of partitions with several replicas
    """

    name: str
    topic_id: str
    replicas: dict[int, tuple[int, ...]] = field(default_factory=dict)
    directories: dict[int, tuple[str, ...]] = field(default_factory=dict)
    eligible: dict[int, tuple[int, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class ClusterMetadata:
    """The state of the cluster after the last readable record.

    topics    by id      named     by name            settings  of each topic by name
    removed   by id: deleted topics, as far as the log and its snapshot still have their records
    brokers   dynamic settings by broker id, "" for all of them
    end_offset  after the last record      findings  damage that stopped the reading
    snapshot    the newest one; None: there is none
    snapshot_fault   the error with which a broker stops at it
    has_elr     the cluster keeps eligible leader replicas
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
    has_elr: bool = False
    voters: list[dict[str, Any]] | None = None

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
    findings: list[Finding] = []
    log, image, start = MetadataLog(files, directory, _damage_in(findings), _TYPES), Image(), 0
    newest = log.snapshots[-1] if log.snapshots else None
    fault = None
    if newest is not None:
        start, fault = newest.end_offset, _snapshot_fault(files, newest.path)
        _replay(image, log.snapshot(newest.path))
    is_read = not findings
    _replay(image, (record for record in log.records() if record.offset >= start))
    if is_read and log.end_offset < start:
        findings.clear()
    return _of_image(image, findings, max(log.end_offset, start), newest, fault)


def _damage_in(findings: list[Finding]) -> Callable[[Finding], None]:
    """Collect what ends a replay; a broker continues without a single record that it cannot apply."""

    def report(finding: Finding) -> None:
        if finding.code not in READ_ON:
            findings.append(finding)

    return report


def _replay(image: Image, records: Iterator[MetadataRecord]) -> None:
    for record in committed(records, _ignore):
        with suppress(ReplayError):
            image.apply(record)


def _ignore(_finding: Finding) -> None:
    """A broker continues without the record."""


def _of_image(
    image: Image, findings: list[Finding], end_offset: int, snapshot: SnapshotFile | None = None,
    fault: KafkalogError | None = None,
) -> ClusterMetadata:  # fmt: skip
    metadata = ClusterMetadata(end_offset=end_offset, findings=findings, snapshot=snapshot, snapshot_fault=fault)
    metadata.has_elr, metadata.voters = image.features.get(_ELR_FEATURE, 0) > 0, image.voters
    for topic in image.topics.values():
        known = metadata.topics[topic.topic_id] = Topic(topic.name, topic.topic_id)
        for number, one in topic.partitions.items():
            known.replicas[number] = one.replicas
            if len(one.replicas) > 1:
                known.eligible[number] = (*one.isr, *one.elr)
            if any(directory != MIGRATING for directory in one.directories):
                known.directories[number] = one.directories
    metadata.removed = {one.topic.topic_id: Topic(one.topic.name, one.topic.topic_id, {
        number: state.replicas for number, state in one.topic.partitions.items()}) for one in image.deleted}
    metadata.named = {name: metadata.topics[topic_id] for name, topic_id in image.topic_ids.items()}
    for (kind, name), values in image.configs.items():
        if kind == TOPIC:
            metadata.settings[name] = values
        elif kind == BROKER:
            metadata.brokers[name] = values
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
    findings: list[Finding] = []
    image = Image()
    _replay(image, read_metadata_records(files, path, _damage_in(findings), _TYPES))
    return _of_image(image, findings, 0)


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

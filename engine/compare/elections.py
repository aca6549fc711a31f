"""Unclean elections, from the metadata log: a replica became the leader although it may lack records that others have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from engine.discovery.names import FileKind, parse_file_name
from engine.record.batch import read_records
from engine.schema.decode import decoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.files import ReadOnlyFiles
    from engine.findings import Finding
    from engine.record.batch import Record

_TYPES = frozenset((2, 3, 5))  # TopicRecord, PartitionRecord, PartitionChangeRecord
_RECOVERING = 1  # LeaderRecoveryState
_NO_CHANGE = -2  # PartitionChangeRecord.leader


class Election(NamedTuple):
    """A PartitionChangeRecord that elects a leader uncleanly.

    leader_epoch  that began with it; None: not known, because the log does not go back far enough
    time_ms, offset  of the record; when the election is only known from a snapshot, None and the offset of its partition record
    """

    topic: str
    topic_id: str
    partition: int
    leader: int
    leader_epoch: int | None
    time_ms: int | None
    offset: int


class _Partition:
    """The state of a partition: see PartitionRegistration."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.leader_epoch: int = data["leaderEpoch"]
        self.isr: list[int] = data["isr"]
        self.elr: list[int] = data.get("eligibleLeaderReplicas") or []

    def merge(self, data: dict[str, Any]) -> None:
        """Apply a PartitionChangeRecord. Mirrors PartitionRegistration.merge."""
        self.leader_epoch += data.get("leader", _NO_CHANGE) != _NO_CHANGE
        if data.get("isr") is not None:
            self.isr = data["isr"]
        if data.get("eligibleLeaderReplicas") is not None:
            self.elr = data["eligibleLeaderReplicas"]


def unclean_elections(
    files: ReadOnlyFiles, directory: str, report: Callable[[Finding], None]
) -> dict[tuple[str, int], list[Election]]:
    """Return the unclean elections in the metadata log in `directory`, by topic id and partition, the oldest first.

    An election is unclean if the record says so (leaderRecoveryState), or if the leader is in neither the ISR nor the ELR
    (KIP-966): a second one before the recovery of the first does not repeat the state.
    report  called with damage, after which elections may be missing
    Raises UnreadableFile.
    """
    found: dict[tuple[str, int], list[Election]] = {}
    topics: dict[str, str] = {}
    partitions: dict[tuple[str, int], _Partition] = {}
    decode = decoder("cluster-metadata").data
    for record, is_snapshot in _records(files, directory, report):
        decoded = cast("dict[str, Any] | None", decode(record.offset, record.key, record.value)["value"])
        if decoded is None:
            continue
        data = decoded["data"]
        if decoded["type"] == "TOPIC_RECORD":
            topics[data["topicId"]] = data["name"]
            continue
        key = data["topicId"], data["partitionId"]
        state, leader = partitions.get(key), data.get("leader", _NO_CHANGE)
        is_unclean = data.get("leaderRecoveryState") == _RECOVERING
        if decoded["type"] == "PARTITION_RECORD":
            epoch: int | None = data["leaderEpoch"]
            partitions[key] = _Partition(data)
            is_unclean &= not any(one.leader_epoch == epoch for one in found.get(key, ()))
        else:
            is_unclean |= state is not None and leader >= 0 and leader not in state.isr and leader not in state.elr
            if state is not None:
                state.merge(data)
            epoch = None if state is None else state.leader_epoch
        if is_unclean and leader >= 0:
            name, time = topics.get(data["topicId"], ""), None if is_snapshot else record.timestamp
            found.setdefault(key, []).append(Election(name, *key, leader, epoch, time, record.offset))
    return found


def _records(files: ReadOnlyFiles, directory: str, report: Callable[[Finding], None]) -> Iterator[tuple[Record, bool]]:
    """Yield the records of the log in order, and those of the first snapshot (True) if the log does not begin at 0."""
    logs, snapshots = [], []
    for name in files.list(directory):
        parsed = parse_file_name(name)
        if parsed is not None and parsed.base_offset is not None and not parsed.suffix:
            if parsed.kind is FileKind.LOG:
                logs.append((parsed.base_offset, name))
            elif parsed.kind is FileKind.KRAFT_SNAPSHOT and parsed.base_offset > 0:
                snapshots.append((parsed.base_offset, name))
    start, first = min(logs, default=(0, ""))[0], min(snapshots, default=None)
    sources = [(base, name, False) for base, name in logs]
    if start > 0 and first is not None:  # it may end inside the first segment: its state is that of a later offset
        sources.append((first[0], first[1], True))
    for _, name, is_snapshot in sorted(sources, key=lambda one: (one[0], not one[2])):
        with files.open(f"{directory}/{name}") as file:
            for record in read_records(file, report):
                value = record.value
                if not record.batch.is_valid:
                    return
                if not record.batch.is_control and value is not None and len(value) > 1 and value[1] in _TYPES:
                    yield record, is_snapshot

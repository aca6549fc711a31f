"""Groups on the disk, as kafka-consumer-groups describes them: members, what these own, committed offsets, and the lag."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.amounts import time_text
from engine.checkpoint.checkpoints import known_offsets
from engine.discovery.names import FileKind, parent_of
from engine.errors import KafkalogError
from engine.findings import Finding, Where, ignore
from engine.log.fetch.coordinator_logs import coordinator_logs, coordinator_replicas
from engine.log.fetch.replicas import best_replica
from engine.log.fetch.share_offsets import SHARE_TOPIC
from engine.log.fetch.stored_groups import OFFSETS_TOPIC, CommittedOffset, GroupType
from engine.log.fetch.view import PartitionView
from engine.log.segment.batch_search import heads
from engine.overview.log_losses import of_compacted, proven_losses
from engine.overview.partition_state import Known, StateReader
from engine.schema import tables
from engine.schema.compiler import message_json
from engine.schema.wire import SchemaError, to_int16

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from engine.files import ReadOnlyFiles
    from engine.log.fetch.share_offsets import ShareOffset
    from engine.log.fetch.stored_groups import PendingOffset, StoredGroup
    from engine.log.logdir.cluster_metadata import Topic
    from engine.log.logdir.log_dirs import LogDir, PartitionPath
    from engine.overview.partition_state import PartitionState

_SIMPLE = "simple"  # a group that only has offsets: kafka-groups lists it as classic, without a protocol


class Owned(NamedTuple):
    """Partitions of a topic that a member owns. `topic`: None if the metadata log does not have the id."""

    topic: str | None
    topic_id: str | None
    partitions: tuple[int, ...]


class Member(NamedTuple):
    """A member of a group. epoch: None in a classic group."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    epoch: int | None
    owned: tuple[Owned, ...]


class GroupRow(NamedTuple):
    """A partition of a group: its offset, and how far the group is behind.

    committed  None: none is committed; a member owns the partition, or a commit is pending
    log_end    None: no log of the partition on these disks, or it could not be read
    member     id of the member that owns it; None: no member does
    delivered  records after the offset that are done, of a share group; −1: not known
    """

    topic: str
    partition: int
    committed: CommittedOffset | None
    pending: tuple[PendingOffset, ...]
    log_end: int | None
    member: str | None
    delivered: int = 0

    @property
    def lag(self) -> int | None:
        """Log end offset minus committed offset, as kafka-consumer-groups computes it; without records that are done."""
        if self.committed is None or self.log_end is None or self.delivered < 0:
            return None
        return self.log_end - self.committed.offset - self.delivered


def add_share_offsets(
    groups: Mapping[str, StoredGroup], shares: Mapping[str, Mapping[tuple[str, int], ShareOffset]], topics: Mapping[str, Topic]
) -> None:
    """Give share groups their offsets. topics  by id; a topic that the metadata log does not have is named by its id"""
    for group_id, offsets in shares.items():
        group = groups.get(group_id)
        for (topic_id, number), one in offsets.items() if group is not None and group.type is GroupType.SHARE else ():
            assert group is not None  # checked above
            if one.start < 0:
                continue  # nothing was read yet
            partition = _name(topics, topic_id) or topic_id, number
            group.offsets[partition] = CommittedOffset(one.start, one.leader_epoch, "", one.time_ms, topic_id=topic_id)
            group.delivered[partition] = one.delivered


def type_of(group: StoredGroup) -> str:
    """Return the type of a group: of GroupType, or `simple`."""
    return _SIMPLE if group.type is GroupType.CLASSIC and group.metadata is None else group.type.value


def members_of(group: StoredGroup, topics: Mapping[str, Topic]) -> list[Member]:
    """Return the members and what they own. topics  by id

    A streams group names tasks of its topology, which are not partitions: its members own nothing here.
    """
    if group.type is GroupType.CLASSIC:
        known = (group.metadata or {}).get("members", ())
        return [
            Member(one["memberId"], one.get("groupInstanceId"), one["clientId"], one["clientHost"], None,
                   _assigned(group.protocol_type, b64decode(one["assignment"] or ""))) for one in known
        ]  # fmt: skip
    found = []
    for member_id, one in group.members.items():
        current = one.current or {}
        by_id: dict[str, list[int]] = {}
        for part in (*current.get("assignedPartitions", ()), *current.get("partitionsPendingRevocation", ())):
            by_id.setdefault(part["topicId"], []).extend(part["partitions"])
        owned = tuple(Owned(_name(topics, topic_id), topic_id, tuple(sorted(numbers))) for topic_id, numbers in by_id.items())
        found.append(Member(member_id, one.metadata.get("instanceId"), one.metadata.get("clientId", ""),
                            one.metadata.get("clientHost", ""), current.get("memberEpoch", 0), owned))  # fmt: skip
    return found


def _name(topics: Mapping[str, Topic], topic_id: str) -> str | None:
    return topics[topic_id].name if topic_id in topics else None


def _assigned(protocol_type: str, data: bytes) -> tuple[Owned, ...]:
    """What an assignment of the classic protocol names; nothing if another kind of client wrote it."""
    if protocol_type != "consumer" or len(data) < 2:
        return ()
    try:
        text, _ = message_json(tables.offsets(), "ConsumerProtocolAssignment", to_int16(int.from_bytes(data[:2])), data, 2)
    except SchemaError:
        return ()
    assigned: list[dict[str, Any]] = json.loads(text)["assignedPartitions"]
    return tuple(Owned(one["topic"], None, tuple(sorted(one["partitions"]))) for one in assigned)


class GroupRows:
    """The partitions of groups with the ends of their logs, each of which is read once.

    log_dirs   of one cluster; of several copies of a partition the best one counts
    with_ends  False: as if no log were there
    """

    def __init__(self, files: ReadOnlyFiles, log_dirs: Iterable[LogDir], *, with_ends: bool) -> None:
        self._files, self._reader = files, StateReader(files)
        self._partitions: dict[tuple[str, int], list[PartitionPath]] = {}
        for partition in (partition for log_dir in log_dirs if with_ends for partition in log_dir.partitions()):
            self._partitions.setdefault(partition.key, []).append(partition)
        self._states: dict[tuple[str, int], PartitionState | None] = {}
        self.errors: list[KafkalogError] = []  # of logs that could not be read

    def of(self, group: StoredGroup, members: Sequence[Member]) -> list[GroupRow]:
        """Return the partitions with an offset, a pending one, or an owner, by name."""
        owners = {
            (owned.topic, number): one.member_id
            for one in members for owned in one.owned if owned.topic is not None for number in owned.partitions
        }  # fmt: skip
        rows = []
        for topic, number in sorted({*group.offsets, *group.pending, *owners}):
            committed = group.offsets.get((topic, number))
            rows.append(GroupRow(
                topic, number, committed, tuple(group.pending.get((topic, number), ())),
                self._end(topic, number, committed), owners.get((topic, number)), group.delivered.get((topic, number), 0),
            ))  # fmt: skip
        return rows

    def _end(self, topic: str, number: int, committed: CommittedOffset | None) -> int | None:
        """The log end offset. None also if the offset was committed for another topic that had the same name."""
        if (topic, number) not in self._states:
            self._states[topic, number] = self._read(self._partitions.get((topic, number), ()))
        state = self._states[topic, number]
        ids = {None if state is None else state.topic_id, None if committed is None else committed.topic_id} - {None}
        return None if state is None or len(ids) > 1 else state.end

    def _read(self, partitions: Sequence[PartitionPath]) -> PartitionState | None:
        if not partitions:
            return None
        best = best_replica(self._files, [partition.path for partition in partitions])
        state = self._reader.read(next(partition for partition in partitions if partition.path == best), Known())
        if state is not None and state.error is not None:
            self.errors.append(state.error)
        return state


class OffsetsLog(NamedTuple):
    """A log of `__consumer_offsets`.

    complete_since  ms: the cleaner removed no record that determines the state of a group at this time or later; 0: none at
                    all; None: not known, because there is no cleaner-offset-checkpoint
    """

    path: str
    partition: int
    complete_since: int | None

    def compacted_after(self, since: int) -> Finding | None:
        """Return the finding that the cleaner may have removed records of this time (ms) or later; None: it removed none."""
        if self.complete_since is None:
            what = "no readable cleaner-offset-checkpoint: it is not known which records were removed"
        elif since < self.complete_since:
            what = f"complete since {time_text(self.complete_since)}"
        else:
            return None
        return Finding("offsets-compacted", Where(self.path), what)


def offsets_logs(files: ReadOnlyFiles, log_dirs: Sequence[LogDir]) -> list[OffsetsLog]:
    """Return the logs that `read_groups` reads. Raises UnreadableFile."""
    logs = coordinator_logs(files, [one.path for one in log_dirs], OFFSETS_TOPIC)
    return [OffsetsLog(path, number, _complete_since(files, path, number)) for number, path in logs.items()]


def losses_of_groups(files: ReadOnlyFiles, log_dirs: Sequence[LogDir]) -> Iterator[Finding]:
    """Yield findings for records that the logs of groups and share groups lost. Raises UnreadableFile."""
    for topic in (OFFSETS_TOPIC, SHARE_TOPIC):
        for replicas in coordinator_replicas(files, [one.path for one in log_dirs], topic).values():
            yield from proven_losses(files, replicas, of_compacted)


def _complete_since(files: ReadOnlyFiles, directory: str, number: int) -> int | None:
    """The time of the first batch that was never cleaned; if all were, of the last batch."""
    checkpoint = f"{parent_of(directory)}/{FileKind.CLEANER_CHECKPOINT.value}"
    cleaned, fault = known_offsets(files, checkpoint) if files.exists(checkpoint) else ({}, "missing")
    if fault is not None:
        return None
    try:
        view = PartitionView(files, directory, ignore)  # reading the groups reports the findings
        try:
            first = max(view.log_start_offset, cleaned.get((OFFSETS_TOPIC, number), 0))
            return _time_at(view, first) if first else 0
        finally:
            view.close()
    except KafkalogError:  # reading the groups reports it
        return None


def _time_at(view: PartitionView, offset: int) -> int:
    """The largest timestamp of the first batch that ends at `offset` or later; if there is none, of the last batch."""
    found, last = view.locate(min(offset, view.log_end_offset - 1)), 0
    for segment in view.segments.values(found.segment_base_offset or 0):
        is_first = segment.base_offset == found.segment_base_offset
        for head in heads(segment.log_file, (found.position or 0) if is_first else 0, segment.size):
            last = head.max_timestamp
            if head.last_offset >= offset:
                return last
    return last

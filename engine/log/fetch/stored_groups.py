"""Groups and their committed offsets, as the logs of `__consumer_offsets` have them. Mirrors the replay of a group coordinator.

Nothing expires: offsets and groups are there until a tombstone deletes them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from engine.findings import Finding, Where
from engine.formats import NO_PRODUCER_ID, ControlType
from engine.log.fetch.coordinator_logs import coordinator_logs, coordinator_records
from engine.record.control import ControlRecordInvalid, control_type
from engine.schema import tables
from engine.schema.coordinator import CoordinatorDecoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from engine.files import ReadOnlyFiles
    from engine.record.batch import Record

OFFSETS_TOPIC = "__consumer_offsets"
_NO_EPOCH = -1


class GroupType(StrEnum):
    """Mirrors Group.GroupType."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class _Part(StrEnum):
    """What a record of a group describes."""

    GROUP = "group"
    TARGET_EPOCH = "target epoch"
    MEMBER = "member"
    TARGET = "target"
    CURRENT = "current"
    OTHER = "other"


# The record types of groups (CoordinatorRecordType), without offsets: 0 and 1
_TYPES = {2: (GroupType.CLASSIC, _Part.GROUP)} | {
    first + shift: (group_type, part)
    for group_type, first, shifts in (
        (GroupType.CONSUMER, 3, {0: _Part.GROUP, 1: _Part.OTHER, 2: _Part.MEMBER, 3: _Part.TARGET_EPOCH, 4: _Part.TARGET,
                                 5: _Part.CURRENT, 13: _Part.OTHER}),
        (GroupType.SHARE, 10, {0: _Part.MEMBER, 1: _Part.GROUP, 2: _Part.TARGET_EPOCH, 3: _Part.TARGET, 4: _Part.CURRENT,
                               5: _Part.OTHER}),
        (GroupType.STREAMS, 17, {0: _Part.GROUP, 2: _Part.MEMBER, 3: _Part.TARGET_EPOCH, 4: _Part.TARGET, 5: _Part.CURRENT,
                                 6: _Part.OTHER}),
    )
    for shift, part in shifts.items()
}  # fmt: skip


class CommittedOffset(NamedTuple):
    """An offset that a group committed.

    leader_epoch, expire_ms  −1: not given      topic_id  None: not stored (before Kafka 4.2)
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int = -1
    topic_id: str | None = None


class PendingOffset(NamedTuple):
    """An offset in a transaction that is still open."""

    producer_id: int
    committed: CommittedOffset


class OffsetEvent(StrEnum):
    """What happened to an offset of a group."""

    COMMITTED = "committed"
    PENDING = "pending"  # in a transaction, which is not decided yet
    ABORTED = "aborted"  # the transaction was aborted
    REMOVED = "removed"  # a tombstone: it expired, was deleted, or its topic was deleted


class OffsetChange(NamedTuple):
    """A change of an offset of a group.

    log_offset   of the record, also for the end of a transaction; its log is the directory `log`
    time_ms      when it happened: the time of the record, of a transaction that ended the one of its marker
    committed    None for REMOVED
    producer_id  of the transaction; None: the commit is not part of one
    """

    event: OffsetEvent
    log: str
    log_offset: int
    time_ms: int
    group_id: str
    topic: str
    partition: int
    committed: CommittedOffset | None
    producer_id: int | None


@dataclass(slots=True)
class StoredMember:
    """The records of a member of a group that is not classic: what it subscribes to, its target and its present assignment."""

    metadata: dict[str, Any] = field(default_factory=dict)
    target: dict[str, Any] | None = None
    current: dict[str, Any] | None = None


@dataclass(slots=True)
class StoredGroup:
    """A group.

    metadata       the value of its record; None: a simple group, which only has offsets
    target_epoch   of the assignment that members shall get (assignmentEpoch)
    members        not of a classic group: its members are in `metadata`
    pending        offsets in open transactions
    delivered      of a share group: see ShareOffset; its offsets are those of `share_offsets`
    last_ms        time of the last record about the group, except for offsets; −1: none
    """

    group_id: str
    type: GroupType = GroupType.CLASSIC
    metadata: dict[str, Any] | None = None
    target_epoch: int = _NO_EPOCH
    members: dict[str, StoredMember] = field(default_factory=dict)
    offsets: dict[tuple[str, int], CommittedOffset] = field(default_factory=dict)
    pending: dict[tuple[str, int], list[PendingOffset]] = field(default_factory=dict)
    delivered: dict[tuple[str, int], int] = field(default_factory=dict)
    last_ms: int = -1

    @property
    def epoch(self) -> int:
        """Generation of a classic group, epoch of another one."""
        known = self.metadata or {}
        return int(known.get("generation" if self.type is GroupType.CLASSIC else "epoch", 0))

    @property
    def protocol_type(self) -> str:
        """Return what ListGroups shows: empty for a simple group."""
        if self.type is GroupType.CLASSIC:
            return str((self.metadata or {}).get("protocolType") or "")
        return self.type.value

    @property
    def state(self) -> str:
        """The state in which a coordinator that loads these records begins, with Kafka's name."""
        if self.type is GroupType.CLASSIC:
            return "Stable" if self.metadata is not None and self.metadata["members"] else "Empty"
        if not self.members:
            return "Empty"
        if self.type is GroupType.SHARE:
            return "Stable"
        if self.epoch > self.target_epoch:
            return "Assigning"
        return "Stable" if all(self._is_reconciled(one) for one in self.members.values()) else "Reconciling"

    def _is_reconciled(self, member: StoredMember) -> bool:
        # the code of STABLE differs: 0 in consumer groups, 1 in streams groups
        stable = 0 if self.type is GroupType.CONSUMER else 1
        current = member.current or {"memberEpoch": _NO_EPOCH, "state": None}
        return bool(current["memberEpoch"] == self.target_epoch and current["state"] == stable)


def read_groups(
    files: ReadOnlyFiles, log_dirs: Iterable[str], report: Callable[[Finding], None], until_ms: int | None = None
) -> dict[str, StoredGroup]:
    """Return the groups in the logs of `__consumer_offsets` in `log_dirs`, by id. No log of the topic: none.

    Offsets that a transaction committed count after its commit marker, those of an aborted one never.
    log_dirs  all of one cluster; of several copies of a log the best one is read
    report    called with damage, and with records that cannot be decoded
    until_ms  as if the logs had only the records up to this time; None: all
    Raises UnreadableFile, FileChangedWhileReading.
    """
    groups: dict[str, StoredGroup] = {}
    for directory in coordinator_logs(files, log_dirs, OFFSETS_TOPIC).values():
        replay = _Replay(directory, report)
        for record in coordinator_records(files, directory, report):
            if until_ms is None or record.timestamp <= until_ms:
                replay.apply(record)
        groups |= replay.result()
    return groups


def offset_changes(
    files: ReadOnlyFiles, log_dirs: Iterable[str], report: Callable[[Finding], None]
) -> Iterator[OffsetChange]:
    """Yield the changes of offsets that the logs of `__consumer_offsets` still have; those of one group are in order.

    Parameters and errors as of `read_groups`.
    """
    for directory in coordinator_logs(files, log_dirs, OFFSETS_TOPIC).values():
        changes: list[OffsetChange] = []
        replay = _Replay(directory, report, changes)
        for record in coordinator_records(files, directory, report):
            replay.apply(record)
            yield from changes
            changes.clear()


class _Commit(NamedTuple):
    """The last record of an offset. value None: a tombstone."""

    offset: int
    key: bytes
    value: bytes | None


class _Decoded(NamedTuple):
    """The content of the record of an offset."""

    group_id: str
    topic: str
    partition: int
    committed: CommittedOffset | None


class _Replay:
    """The replay of one log. Values are decoded at the end, when it is known which of them are left.

    changes  receives the changes of offsets, which are then decoded at once; None: they are not collected
    """

    def __init__(
        self, directory: str, report: Callable[[Finding], None], changes: list[OffsetChange] | None = None
    ) -> None:
        self._directory, self._report, self._changes = directory, report, changes
        self._decoder = CoordinatorDecoder(tables.offsets())
        self._keys: dict[bytes, tuple[int, dict[str, Any]] | None] = {}
        self._groups: dict[str, StoredGroup] = {}
        self._values: dict[str, dict[bytes, Record]] = {}
        self._commits: dict[bytes, _Commit] = {}
        self._pending: dict[int, dict[bytes, _Commit]] = {}

    def apply(self, record: Record) -> None:
        """Apply the next record of the log."""
        if record.batch.is_control:
            self._end_transaction(record)
            return
        key = b"" if record.key is None else record.key
        if key not in self._keys:
            self._keys[key] = self._decode_key(record)
        known = self._keys[key]
        if known is None:
            return
        record_type, data = known
        if record_type <= 1:
            self._commit(record, key, data)
        elif record_type in _TYPES:
            self._change(record, key, record_type, data["group" if record_type == 2 else "groupId"])

    def _decode_key(self, record: Record) -> tuple[int, dict[str, Any]] | None:
        decoded = cast("dict[str, Any]", self._decoder.data(record.offset, record.key, None))
        if decoded["key"] is None:
            if not str(decoded["problem"]).startswith("unknown record type"):
                self._undecodable(record.offset, decoded["problem"])
            return None
        return int(decoded["key"]["type"]), decoded["key"]["data"]

    def _undecodable(self, offset: int, problem: object) -> None:
        where = Where(self._directory, None, offset)
        self._report(Finding("record-undecodable", where, f"the record of the group coordinator is skipped: {problem}"))

    def _group(self, group_id: str) -> StoredGroup:
        return self._groups.setdefault(group_id, StoredGroup(group_id))

    def _commit(self, record: Record, key: bytes, data: dict[str, Any]) -> None:
        commit = _Commit(record.offset, key, record.value)
        if record.value is None:
            for pending in self._pending.values():
                pending.pop(key, None)
            self._commits[key] = commit
            self._note(OffsetEvent.REMOVED, commit, record)
            return
        self._group(data["group"])
        if record.batch.is_transactional and record.batch.producer_id != NO_PRODUCER_ID:
            self._pending.setdefault(record.batch.producer_id, {})[key] = commit
            self._note(OffsetEvent.PENDING, commit, record)
        else:
            self._commits[key] = commit
            self._note(OffsetEvent.COMMITTED, commit, record)

    def _end_transaction(self, record: Record) -> None:
        pending = self._pending.pop(record.batch.producer_id, {})
        try:
            is_committed = control_type(record.key) == ControlType.COMMIT
        except ControlRecordInvalid as problem:
            self._undecodable(record.offset, problem)
            return
        for key, commit in pending.items():
            known = self._commits.get(key)
            if not is_committed:
                self._note(OffsetEvent.ABORTED, commit, record)
            elif known is None or commit.offset > known.offset:
                self._commits[key] = commit
                self._note(OffsetEvent.COMMITTED, commit, record)

    def _note(self, event: OffsetEvent, commit: _Commit, cause: Record) -> None:
        """Add a change whose cause is a record: the commit's own, or a marker."""
        decoded = None if self._changes is None else self._decode(commit)
        if self._changes is None or decoded is None:
            return
        producer_id = cause.batch.producer_id if cause.batch.is_transactional else None
        self._changes.append(OffsetChange(event, self._directory, cause.offset, cause.timestamp, *decoded, producer_id))

    def _change(self, record: Record, key: bytes, record_type: int, group_id: str) -> None:
        group_type, part = _TYPES[record_type]
        if record.value is not None:
            group = self._group(group_id)
            group.type, group.last_ms = group_type, max(group.last_ms, record.timestamp)
            self._values.setdefault(group_id, {})[key] = record
            return
        if group_id in self._groups and self._groups[group_id].type is not group_type:
            return  # the end of a conversion from the other protocol
        if part is _Part.GROUP:
            self._groups.pop(group_id, None)
            self._values.pop(group_id, None)
        elif group_id in self._groups:
            self._values.get(group_id, {}).pop(key, None)
            self._groups[group_id].last_ms = max(self._groups[group_id].last_ms, record.timestamp)

    # ---- the result

    def result(self) -> dict[str, StoredGroup]:
        """Return the groups that are left, with their offsets."""
        for group_id, values in self._values.items():
            for key, record in values.items():
                decoded = cast("dict[str, Any]", self._decoder.data(record.offset, key, record.value))
                if decoded["value"] is None:
                    self._undecodable(record.offset, decoded["problem"])
                else:
                    self._describe(self._groups[group_id], decoded["key"], decoded["value"]["data"])
        for commit in self._commits.values():
            self._put(commit, None)
        for producer_id, pending in self._pending.items():
            for commit in pending.values():
                self._put(commit, producer_id)
        return self._groups

    def _describe(self, group: StoredGroup, key: dict[str, Any], value: dict[str, Any]) -> None:
        group_type, part = _TYPES[int(key["type"])]
        if group_type is not group.type:
            return
        if part is _Part.GROUP:
            group.metadata = value
        elif part is _Part.TARGET_EPOCH:
            group.target_epoch = value["assignmentEpoch"]
        elif part is not _Part.OTHER:
            member = group.members.setdefault(key["data"]["memberId"], StoredMember())
            setattr(member, {_Part.MEMBER: "metadata"}.get(part, part.value), value)

    def _put(self, commit: _Commit, producer_id: int | None) -> None:
        """Add an offset to its group, or a pending one."""
        decoded = None if commit.value is None else self._decode(commit)
        if decoded is None or decoded.committed is None:
            return
        group, partition = self._group(decoded.group_id), (decoded.topic, decoded.partition)
        if producer_id is None:
            group.offsets[partition] = decoded.committed
        else:
            group.pending.setdefault(partition, []).append(PendingOffset(producer_id, decoded.committed))

    def _decode(self, commit: _Commit) -> _Decoded | None:
        """Decode the record of an offset; None: its value cannot be decoded, which is reported."""
        decoded = cast("dict[str, Any]", self._decoder.data(commit.offset, commit.key, commit.value))
        key = decoded["key"] and decoded["key"]["data"]
        if commit.value is None:
            return _Decoded(key["group"], key["topic"], key["partition"], None)
        if decoded["value"] is None:
            self._undecodable(commit.offset, decoded["problem"])
            return None
        value = decoded["value"]["data"]
        return _Decoded(key["group"], key["topic"], key["partition"], CommittedOffset(
            value["offset"], value.get("leaderEpoch", -1), value["metadata"], value["commitTimestamp"],
            value.get("expireTimestamp", -1), value.get("topicId"),
        ))  # fmt: skip

"""Groups of the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup. Mirrors ClassicGroup and GroupMetadataManager.

The leader of a group computes the assignment. A rebalance has two phases: all members join, then all of them sync, which gives
each of them its part of the assignment that the leader sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar
from uuid import uuid4

from engine.java.hash_maps import hash_of_text, hash_order
from engine.protocol.error_codes import Error, RefusedError
from engine.serve.group_common import UNKNOWN_OPERATIONS, Limits, Timers

if TYPE_CHECKING:
    from engine.serve.group_common import Answer, Body, Client

_FIRST_WITH_MEMBER_ID = 4  # JoinGroup: new members get an id first, and join again with it
_FIRST_TO_SKIP_ASSIGNMENT = 9  # JoinGroup


class GroupState(StrEnum):
    """Mirrors ClassicGroupState."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(slots=True, eq=False)
class ClassicMember:
    """A member. `protocols`: (name, metadata), the preferred one first. `join`, `sync`: its request that waits."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: list[tuple[str, bytes]]
    assignment: bytes = b""
    join: Answer | None = None
    syncing: Answer | None = None
    is_new: bool = True  # its first JoinGroup is not answered

    @property
    def size(self) -> int:
        """Bytes in memory, approximately."""
        texts = (self.member_id, self.instance_id or "", self.client_id, self.protocol_type)
        protocols = sum(100 + len(name) + len(metadata) for name, metadata in self.protocols)
        return 500 + sum(map(len, texts)) + len(self.assignment) + protocols

    def metadata(self, protocol: str | None) -> bytes:
        """Return the metadata for a protocol."""
        return dict(self.protocols).get(protocol or "", b"")

    def answer_join(self, body: Body) -> None:
        """Answer the JoinGroup request that waits, if there is one."""
        if self.join is not None:
            self.join.body, self.join = body, None

    def answer_sync(self, body: Body) -> None:
        """Answer the SyncGroup request that waits, if there is one."""
        if self.syncing is not None:
            self.syncing.body, self.syncing = body, None


def member_of(member_id: str, body: Body, client: Client) -> ClassicMember:
    """Return the member that a JoinGroup request describes."""
    return ClassicMember(
        member_id, body.get("groupInstanceId"), client.id, client.host, body["rebalanceTimeoutMs"], body["sessionTimeoutMs"],
        body["protocolType"], [(one["name"], one["metadata"]) for one in body["protocols"]],
    )  # fmt: skip


def refused_join(error: Error, member_id: str) -> Body:
    """Return the answer to a JoinGroup request that is refused."""
    return {
        "throttleTimeMs": 0, "errorCode": int(error), "generationId": -1, "protocolType": None, "protocolName": None,
        "leader": "", "skipAssignment": False, "memberId": member_id, "members": [],
    }  # fmt: skip


def refused_sync(error: Error) -> Body:
    """Return the answer to a SyncGroup request that is refused."""
    return {"throttleTimeMs": 0, "errorCode": int(error), "protocolType": None, "protocolName": None, "assignment": b""}


@dataclass(slots=True, eq=False)
class ClassicGroup:
    """A group. A simple group, which only has offsets, is one without protocol type.

    pending       ids given to new members that have not joined with them yet
    pending_sync  members that joined this generation and have not synced yet
    is_initial    the rebalance began with an empty group; `is_extended`: and a new member joined meanwhile
    """

    group_id: str
    timers: Timers
    limits: Limits
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    state: GroupState = GroupState.EMPTY
    members: dict[str, ClassicMember] = field(default_factory=dict)
    pending: set[str] = field(default_factory=set)
    pending_sync: set[str] = field(default_factory=set)
    is_initial: bool = False
    is_extended: bool = False
    type: ClassVar[str] = "classic"

    @property
    def is_empty(self) -> bool:
        """Return whether the group has no members."""
        return self.state is GroupState.EMPTY

    @property
    def size(self) -> int:
        """Bytes of all members in memory, approximately."""
        return sum(member.size for member in self.members.values()) + sum(200 + len(one) for one in self.pending)

    def close(self) -> None:
        """Forget all timers."""
        for member_id in (*self.members, *self.pending):
            self._forget_heartbeat(member_id)
        self.timers.cancel(("join", self.group_id))
        self.timers.cancel(("sync", self.group_id))

    # ---- members

    def _static(self, instance_id: str | None) -> ClassicMember | None:
        return next((one for one in self.members.values() if instance_id is not None and one.instance_id == instance_id), None)

    def _validated(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """Return the member. Mirrors validateMember."""
        if instance_id is not None:
            known = self._static(instance_id)
            if known is not None and known.member_id != member_id:
                raise RefusedError(Error.FENCED_INSTANCE_ID)
        if member_id not in self.members or (instance_id is not None and known is None):
            raise RefusedError(Error.UNKNOWN_MEMBER_ID)
        return self.members[member_id]

    def _remove(self, member_id: str) -> None:
        self.members.pop(member_id, None)
        self._forget_heartbeat(member_id)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending.discard(member_id)
        self.pending_sync.discard(member_id)

    def _expect_heartbeat(self, member_id: str, timeout_ms: int) -> None:
        self.timers.schedule(("heartbeat", self.group_id, member_id), timeout_ms, lambda: self._expire(member_id))

    def _forget_heartbeat(self, member_id: str) -> None:
        self.timers.cancel(("heartbeat", self.group_id, member_id))

    def keep_alive(self, member: ClassicMember) -> None:
        """Start the session timeout of a member again."""
        self._expect_heartbeat(member.member_id, member.session_timeout_ms)

    def _expire(self, member_id: str) -> None:
        """Remove a member without heartbeat. A member in a rebalance needs none, but a new one must not wait for too long."""
        if member_id in self.pending:
            self._remove(member_id)
            self._complete_if_joined(waits_for_more=False)
        member = self.members.get(member_id)
        if member is not None and (member.is_new or (member.join is None and member.syncing is None)):
            self._drop(member)
            self._after_removal(waits_for_more=False)

    def _drop(self, member: ClassicMember) -> None:
        member.answer_join(refused_join(Error.UNKNOWN_MEMBER_ID, ""))
        member.answer_sync(refused_sync(Error.UNKNOWN_MEMBER_ID))
        self._remove(member.member_id)

    def _after_removal(self, *, waits_for_more: bool) -> None:
        if self.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self._prepare_rebalance()
        else:
            self._complete_if_joined(waits_for_more=waits_for_more)

    # ---- JoinGroup

    def join(self, body: Body, client: Client, answer: Answer) -> None:
        """Handle JoinGroup: `answer` gets its body now, or when all members have joined. Raises RefusedError."""
        member_id, instance_id = body["memberId"], body.get("groupInstanceId")
        if not self._accepts(member_id):
            self._remove(member_id)
            raise RefusedError(Error.GROUP_MAX_SIZE_REACHED)
        member = member_of(member_id, body, client)
        if not self._supports(member):
            raise RefusedError(Error.INCONSISTENT_GROUP_PROTOCOL)
        if not member_id:
            self._join_new(member, client.version, answer)
        elif member_id not in self.pending:
            self._rejoin(self._validated(member_id, instance_id), member, answer)
        elif instance_id is None:
            self._add(member, answer)
        else:
            raise RefusedError(Error.UNKNOWN_SERVER_ERROR)

    def _accepts(self, member_id: str) -> bool:
        """Return whether there is room for a member. Ids that were given to new members need room too, unlike in Kafka."""
        member = self.members.get(member_id)
        taken = 0 if member_id in self.pending else len(self.pending)
        if self.state is not GroupState.PREPARING_REBALANCE or self.is_initial:
            return member is not None or len(self.members) + taken < self.limits.members
        waiting = sum(one.join is not None for one in self.members.values())
        return (member is not None and member.join is not None) or waiting + taken < self.limits.members

    def _supports(self, member: ClassicMember) -> bool:
        names = {name for name, _ in member.protocols}
        if self.state is GroupState.EMPTY:
            return bool(member.protocol_type and names)
        is_common = bool(names & self._common_protocols() if self.members else names)
        return member.protocol_type == self.protocol_type and is_common

    def _common_protocols(self) -> set[str]:
        every = [{name for name, _ in one.protocols} for one in self.members.values()]
        return set.intersection(*every) if every else set()

    def _join_new(self, member: ClassicMember, version: int, answer: Answer) -> None:
        prefix = member.client_id if member.instance_id is None else member.instance_id
        member.member_id = f"{prefix}-{uuid4()}"
        known = self._static(member.instance_id)
        if known is not None:
            self._replace_static(known, member, version, answer)
        elif member.instance_id is None and version >= _FIRST_WITH_MEMBER_ID:
            self.pending.add(member.member_id)
            self._expect_heartbeat(member.member_id, member.session_timeout_ms)
            answer.body = refused_join(Error.MEMBER_ID_REQUIRED, member.member_id)
        else:
            self._add(member, answer)

    def _add(self, member: ClassicMember, answer: Answer) -> None:
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.is_extended = self.is_initial
        member.join = answer
        self.members[member.member_id] = member
        self.pending.discard(member.member_id)
        self._expect_heartbeat(member.member_id, self.limits.new_member_join_ms)
        self._rebalance_or_complete()

    def _rejoin(self, member: ClassicMember, wanted: ClassicMember, answer: Answer) -> None:
        """Handle the JoinGroup of a member: it starts a rebalance if the member is the leader, or has other metadata."""
        is_leader, is_same = member.member_id == self.leader, member.protocols == wanted.protocols
        if self.state is GroupState.EMPTY:
            raise RefusedError(Error.UNKNOWN_MEMBER_ID)
        is_lost = self.state is GroupState.COMPLETING_REBALANCE or (self.state is GroupState.STABLE and not is_leader)
        if is_same and is_lost:  # the member did not receive the answer of this generation
            answer.body = self._joined(member)
            return
        member.protocols = wanted.protocols
        member.rebalance_timeout_ms, member.session_timeout_ms = wanted.rebalance_timeout_ms, wanted.session_timeout_ms
        member.join = answer
        self._rebalance_or_complete()

    def _replace_static(self, old: ClassicMember, new: ClassicMember, version: int, answer: Answer) -> None:
        """Let a restarted static member take the place of its predecessor, if possible without a rebalance."""
        old.answer_join(refused_join(Error.FENCED_INSTANCE_ID, old.member_id))
        old.answer_sync(refused_sync(Error.FENCED_INSTANCE_ID))
        leader = self.leader
        new.assignment, new.join, new.is_new = old.assignment, answer, False
        self._forget_heartbeat(old.member_id)
        del self.members[old.member_id]
        self.members[new.member_id] = new
        self.pending_sync.discard(old.member_id)
        if leader == old.member_id:
            self.leader = new.member_id
        self.keep_alive(new)
        if self.state is GroupState.COMPLETING_REBALANCE:
            self._prepare_rebalance()
        elif self.state is not GroupState.STABLE:
            self._complete_if_joined()
        elif self._selected_protocol() != self.protocol:
            self._rebalance_or_complete()
        elif version >= _FIRST_TO_SKIP_ASSIGNMENT:
            new.answer_join(self._joined(new) | {"skipAssignment": new.member_id == self.leader})
        else:
            new.answer_join(self._joined(new) | {"leader": leader or "", "members": []})

    def _joined(self, member: ClassicMember) -> Body:
        """Return the answer to a member of the current generation. The leader gets all members."""
        known: list[Body] = [
            {"memberId": one.member_id, "groupInstanceId": one.instance_id, "metadata": one.metadata(self.protocol)}
            for one in (self.members.values() if member.member_id == self.leader else ())
        ]
        return {
            "throttleTimeMs": 0, "errorCode": 0, "generationId": self.generation, "protocolType": self.protocol_type,
            "protocolName": self.protocol, "leader": self.leader or "", "skipAssignment": False, "memberId": member.member_id,
            "members": known,
        }  # fmt: skip

    # ---- rebalances

    def _rebalance_or_complete(self) -> None:
        if self.state is not GroupState.PREPARING_REBALANCE:
            self._prepare_rebalance()
        else:
            self._complete_if_joined()

    def _prepare_rebalance(self) -> None:
        if self.state is GroupState.COMPLETING_REBALANCE:
            for member in self.members.values():
                member.assignment = b""
                if member.syncing is not None:
                    member.answer_sync(refused_sync(Error.REBALANCE_IN_PROGRESS))
                    self.keep_alive(member)
        self.pending_sync.clear()
        self.timers.cancel(("sync", self.group_id))
        self.is_initial, self.is_extended = self.state is GroupState.EMPTY, False
        self.state = GroupState.PREPARING_REBALANCE
        if self.is_initial:
            delay = self.limits.initial_rebalance_delay_ms
            self._wait_for_members(delay, max(0, self._rebalance_timeout_ms() - delay))
        elif not self._complete_if_joined():
            self.timers.schedule(("join", self.group_id), self._rebalance_timeout_ms(), self._complete_join)

    def _rebalance_timeout_ms(self) -> int:
        return max((one.rebalance_timeout_ms for one in self.members.values()), default=0)

    def _wait_for_members(self, delay_ms: int, left_ms: int) -> None:
        """Complete the first rebalance after a delay; again and again while new members join, up to the rebalance timeout."""

        def try_complete() -> None:
            if not (self.is_extended and left_ms):
                self._complete_join()
                return
            self.is_extended = False
            self._wait_for_members(min(self.limits.initial_rebalance_delay_ms, left_ms), max(0, left_ms - delay_ms))

        self.timers.schedule(("join", self.group_id), delay_ms, try_complete)

    def _complete_if_joined(self, *, waits_for_more: bool = True) -> bool:
        """Complete the first phase if all members have joined; the first rebalance of a group waits for more of them."""
        is_joined = not self.pending and all(one.join is not None for one in self.members.values())
        if self.state is not GroupState.PREPARING_REBALANCE or not is_joined or (self.is_initial and waits_for_more):
            return False
        self._complete_join()
        return True

    def _complete_join(self) -> None:
        """Start the next generation with the members that joined. Mirrors completeClassicGroupJoin."""
        self.timers.cancel(("join", self.group_id))
        for member in list(self.members.values()):
            if member.join is None and member.instance_id is None:
                self._remove(member.member_id)
        if self.members and not self._elect_leader():
            self.timers.schedule(("join", self.group_id), self._rebalance_timeout_ms(), self._complete_join)
            return
        self.generation += 1
        self.protocol = self._selected_protocol() if self.members else None
        self.state = GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY
        for member in self.members.values():
            member.answer_join(self._joined(member))
            self.keep_alive(member)
            member.is_new = False
            self.pending_sync.add(member.member_id)
        if self.members:
            self.timers.schedule(("sync", self.group_id), self._rebalance_timeout_ms(), self._expire_sync)

    def _elect_leader(self) -> bool:
        """Return whether the leader joined; another member that joined becomes the leader otherwise."""
        joined = [one.member_id for one in self.members.values() if one.join is not None]
        if joined and self.leader not in joined:
            self.leader = joined[0]
        return bool(joined)

    def _selected_protocol(self) -> str:
        """Return the protocol with most votes; each member votes for its first one that all members support."""
        common = self._common_protocols()
        votes = [next(name for name, _ in one.protocols if name in common) for one in self.members.values()]
        return max(hash_order(votes, hash_of_text), key=votes.count)

    # ---- SyncGroup, Heartbeat, LeaveGroup

    def sync_group(self, body: Body, answer: Answer) -> None:
        """Handle SyncGroup: `answer` gets its body now, or with the assignment of the leader. Raises RefusedError."""
        member = self._validated(body["memberId"], body.get("groupInstanceId"))
        if body["generationId"] != self.generation:
            raise RefusedError(Error.ILLEGAL_GENERATION)
        for name, own in (("protocolType", self.protocol_type), ("protocolName", self.protocol)):
            if body.get(name) is not None and own is not None and body[name] != own:
                raise RefusedError(Error.INCONSISTENT_GROUP_PROTOCOL)
        if self.state is GroupState.PREPARING_REBALANCE:
            raise RefusedError(Error.REBALANCE_IN_PROGRESS)
        self.pending_sync.discard(member.member_id)
        if not self.pending_sync:
            self.timers.cancel(("sync", self.group_id))
        if self.state is GroupState.STABLE:
            answer.body = self._synced(member)
            return
        member.syncing = answer
        if member.member_id == self.leader:
            assigned = {one["memberId"]: one["assignment"] for one in body["assignments"]}
            self.state = GroupState.STABLE
            for each in self.members.values():
                each.assignment = assigned.get(each.member_id, b"")
                if each.syncing is not None:
                    each.answer_sync(self._synced(each))
                    self.keep_alive(each)

    def _synced(self, member: ClassicMember) -> Body:
        return {
            "throttleTimeMs": 0, "errorCode": 0, "protocolType": self.protocol_type, "protocolName": self.protocol,
            "assignment": member.assignment,
        }  # fmt: skip

    def _expire_sync(self) -> None:
        """Remove the members that did not sync in time, and rebalance."""
        if self.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE) and self.pending_sync:
            for member_id in list(self.pending_sync):
                self._remove(member_id)
            self._prepare_rebalance()

    def heartbeat(self, body: Body) -> Error:
        """Handle Heartbeat. Raises RefusedError."""
        member = self._validated(body["memberId"], body.get("groupInstanceId"))
        if body["generationId"] != self.generation:
            raise RefusedError(Error.ILLEGAL_GENERATION)
        self.keep_alive(member)
        return Error.REBALANCE_IN_PROGRESS if self.state is GroupState.PREPARING_REBALANCE else Error.NONE

    def leave(self, members: list[Body]) -> list[Error]:
        """Handle LeaveGroup: remove members, rebalance, and return the error of each."""
        errors = [self._leave(one["memberId"], one.get("groupInstanceId")) for one in members]
        if Error.NONE in errors:
            self._after_removal(waits_for_more=True)
        return errors

    def _leave(self, member_id: str, instance_id: str | None) -> Error:
        if member_id in self.pending:
            self._remove(member_id)
            return Error.NONE
        static = self._static(instance_id)
        try:
            self._drop(static if not member_id and static is not None else self._validated(member_id, instance_id))
        except RefusedError as refused:
            return refused.error if member_id else Error.UNKNOWN_MEMBER_ID
        return Error.NONE

    # ---- offsets

    def check_commit(self, body: Body, *, is_transactional: bool = False) -> None:
        """Check whether an OffsetCommit comes from a member of this generation. Raises RefusedError."""
        generation, member_id = body["generationIdOrMemberEpoch"], body["memberId"]
        instance_id = body.get("groupInstanceId")
        if generation < 0 and self.state is GroupState.EMPTY:
            return
        if generation < 0 and not member_id and instance_id is None:
            raise RefusedError(Error.UNKNOWN_MEMBER_ID)
        member = self._validated(member_id, instance_id)
        if generation != self.generation:
            raise RefusedError(Error.ILLEGAL_GENERATION)
        if self.state is GroupState.COMPLETING_REBALANCE and not is_transactional:
            raise RefusedError(Error.REBALANCE_IN_PROGRESS)
        self.keep_alive(member)

    # ---- descriptions

    def listed(self) -> Body:
        """Return the group's entry in the answer to ListGroups."""
        return {
            "groupId": self.group_id, "protocolType": self.protocol_type or "", "groupState": self.state.value,
            "groupType": self.type,
        }  # fmt: skip

    def described(self) -> Body:
        """Return the group's entry in the answer to DescribeGroups."""
        is_stable = self.state is GroupState.STABLE
        members: list[Body] = [
            {
                "memberId": one.member_id, "groupInstanceId": one.instance_id, "clientId": one.client_id,
                "clientHost": one.client_host, "memberMetadata": one.metadata(self.protocol) if is_stable else b"",
                "memberAssignment": one.assignment,
            } for one in self.members.values()
        ]  # fmt: skip
        return classic_entry(self.group_id, self.state) | {
            "protocolType": self.protocol_type or "", "protocolData": self.protocol or "" if is_stable else "",
            "members": members,
        }  # fmt: skip


def classic_entry(
    group_id: str, state: GroupState | str, error: Error = Error.NONE, message: str | None = None
) -> Body:  # fmt: skip
    """Return an entry in the answer to DescribeGroups, without members. The caller adds what a known group has."""
    return {
        "errorCode": int(error), "errorMessage": message, "groupId": group_id, "groupState": str(state), "protocolType": "",
        "protocolData": "", "members": [], "authorizedOperations": UNKNOWN_OPERATIONS,
    }  # fmt: skip

"""Groups of the consumer protocol (KIP-848): ConsumerGroupHeartbeat, ConsumerGroupDescribe. Mirror ConsumerGroup,
GroupMetadataManager and CurrentAssignmentBuilder.

The server computes the target assignment when members come, leave or subscribe to other topics, which raises the epoch of the
group. With its heartbeats each member then moves towards its target: it first revokes what it must give up, then it gets what
other members have released.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar
from uuid import uuid4

from engine.protocol.error_codes import Error, RefusedError
from engine.serve.assignors import ASSIGNORS, Subscriber
from engine.serve.group_common import UNKNOWN_OPERATIONS, Limits, Timers, Topics
from engine.serve.topic_patterns import PatternError, TopicPattern

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from engine.serve.assignors import Partitions
    from engine.serve.group_common import Body, Client

_JOINS, _LEAVES, _LEAVES_FOR_A_WHILE = 0, -1, -2  # member epochs of requests
_FIRST_WITH_OWN_MEMBER_ID = 1  # ConsumerGroupHeartbeat
_FIRST_TO_COMMIT = 9  # OffsetCommit
_DEFAULT_ASSIGNOR = "uniform"
CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1  # memberType in ConsumerGroupDescribe

Held = dict[str, dict[int, int]]  # topic id → partition → member epoch in which it was assigned


class MemberState(StrEnum):
    """Mirrors MemberState."""

    STABLE = "stable"
    UNREVOKED_PARTITIONS = "unrevoked partitions"
    UNRELEASED_PARTITIONS = "unreleased partitions"


@dataclass(slots=True)
class ConsumerMember:
    """A member. `revoking`: partitions that it has not given up yet, though they are not assigned to it any more."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    names: frozenset[str] = frozenset()
    pattern: str = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Held = field(default_factory=dict)
    revoking: Held = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes in memory, approximately."""
        texts = (self.member_id, self.instance_id or "", self.client_id, self.pattern, self.rack_id or "", *self.names)
        return 1_000 + sum(100 + len(text) for text in texts)

    def is_reconciled_to(self, epoch: int) -> bool:
        """Return whether the member has its target assignment of that epoch."""
        return self.state is MemberState.STABLE and self.epoch == epoch


def check_heartbeat(body: Body, version: int) -> None:
    """Check the fields of a ConsumerGroupHeartbeat. Raises RefusedError."""
    epoch = body["memberEpoch"]
    needs_id = version >= _FIRST_WITH_OWN_MEMBER_ID or epoch > 0 or epoch == _LEAVES
    _refuse_if(needs_id and not body["memberId"].strip(), "MemberId can't be empty.")
    _refuse_if(not body["groupId"].strip(), "GroupId can't be empty.")
    for name in ("instanceId", "rackId"):
        _refuse_if(body[name] is not None and not body[name].strip(), f"{name[0].upper()}{name[1:]} can't be empty.")
    if epoch == _JOINS:
        _refuse_if(body["rebalanceTimeoutMs"] == -1, "RebalanceTimeoutMs must be provided in first request.")
        _refuse_if(body["topicPartitions"] != [], "TopicPartitions must be empty when (re-)joining.")
        is_missing = body["subscribedTopicNames"] is None and body.get("subscribedTopicRegex") is None
        text = "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
        _refuse_if(is_missing, text)
    elif epoch == _LEAVES_FOR_A_WHILE:
        _refuse_if(body["instanceId"] is None, "InstanceId can't be null.")
    else:
        _refuse_if(epoch < _LEAVES_FOR_A_WHILE, "MemberEpoch is invalid.")
    assignor = body["serverAssignor"]
    if assignor is not None and assignor not in ASSIGNORS:
        text = f"ServerAssignor {assignor} is not supported. Supported assignors: {', '.join(ASSIGNORS)}."
        raise RefusedError(Error.UNSUPPORTED_ASSIGNOR, text)


def _refuse_if(condition: object, message: str) -> None:
    if condition:
        raise RefusedError(Error.INVALID_REQUEST, message)


def refused_heartbeat(refused: RefusedError) -> Body:
    """Return the answer to a ConsumerGroupHeartbeat that is refused."""
    return _answer(None, 0) | {"errorCode": int(refused.error), "errorMessage": refused.message}


def _answer(member_id: str | None, epoch: int) -> Body:
    return {
        "throttleTimeMs": 0, "errorCode": 0, "errorMessage": None, "memberId": member_id, "memberEpoch": epoch,
        "heartbeatIntervalMs": 0, "assignment": None,
    }  # fmt: skip


@dataclass(slots=True, eq=False)
class ConsumerGroup:
    """A group.

    epoch         raised when the target assignment must be computed again
    target_epoch  the group's epoch for which `target` was computed
    matches       names of topics that match the patterns of members
    """

    group_id: str
    timers: Timers
    limits: Limits
    topics: Topics
    epoch: int = 1
    target_epoch: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    target: dict[str, Partitions] = field(default_factory=dict)
    matches: dict[str, frozenset[str]] = field(default_factory=dict)
    type: ClassVar[str] = "consumer"

    @property
    def is_empty(self) -> bool:
        """Return whether the group has no members."""
        return not self.members

    @property
    def size(self) -> int:
        """Bytes of all members in memory, approximately."""
        return sum(member.size for member in self.members.values())

    @property
    def state(self) -> str:
        """The state, with Kafka's name."""
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        is_stable = all(one.is_reconciled_to(self.target_epoch) for one in self.members.values())
        return "Stable" if is_stable else "Reconciling"

    def close(self) -> None:
        """Forget all timers."""
        for member_id in self.members:
            self._forget_timers(member_id)

    # ---- ConsumerGroupHeartbeat

    def heartbeat(self, body: Body, client: Client) -> Body:
        """Answer a ConsumerGroupHeartbeat that passed `check_heartbeat`. See `leave`. Raises RefusedError."""
        member_id = body["memberId"] or _new_member_id()
        body = body | {"memberId": member_id}
        if len(self.members) >= self.limits.members and member_id not in self.members:
            text = f"The consumer group has reached its maximum capacity of {self.limits.members} members."
            raise RefusedError(Error.GROUP_MAX_SIZE_REACHED, text)
        known, replaced = self._known(body)
        updated = self._updated(known, body, client)
        is_changed = known.names != updated.names or known.pattern != updated.pattern
        if replaced is not None:
            self.target[member_id] = self.target.pop(replaced.member_id, {})
            self._remove(replaced.member_id)
        self.members[member_id] = updated
        self.epoch += is_changed
        self._update_target()
        before = dict(known.assigned)
        if is_changed or not updated.is_reconciled_to(self.target_epoch):
            self._reconcile(updated, body["topicPartitions"], is_changed=is_changed)
        self._expect_heartbeat(member_id)
        full = (body["rebalanceTimeoutMs"] != -1, body["topicPartitions"] is not None,
                body["subscribedTopicNames"] is not None or body.get("subscribedTopicRegex") is not None)  # fmt: skip
        answer = _answer(member_id, updated.epoch) | {"heartbeatIntervalMs": self.limits.consumer_heartbeat_interval_ms}
        if body["memberEpoch"] == _JOINS or all(full) or before != updated.assigned:
            assigned = [{"topicId": topic, "partitions": list(held)} for topic, held in updated.assigned.items()]
            answer["assignment"] = {"topicPartitions": assigned}
        return answer

    def _known(self, body: Body) -> tuple[ConsumerMember, ConsumerMember | None]:
        """Return the member, a new one if it joins; and the static member whose place it takes. Raises RefusedError."""
        member_id, epoch, instance_id = body["memberId"], body["memberEpoch"], body["instanceId"]
        if instance_id is None:
            member = self.members.get(member_id)
            if member is None and epoch != _JOINS:
                raise self.not_a_member(member_id)
            known = member or ConsumerMember(member_id)
            _check_epoch(known, body)
            return known, None
        static = self._static(instance_id)
        if epoch != _JOINS:
            known = self._named_static(static, member_id, instance_id)
            _check_epoch(known, body)
            return known, None
        if static is None:
            return self.members.get(member_id, ConsumerMember(member_id)), None
        if static.epoch != _LEAVES_FOR_A_WHILE:
            text = (f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id "
                    f"is owned by {static.member_id} member.")  # fmt: skip
            raise RefusedError(Error.UNRELEASED_INSTANCE_ID, text)
        return replace(static, member_id=member_id, epoch=0, previous_epoch=0), static

    def _static(self, instance_id: str) -> ConsumerMember | None:
        return next((one for one in self.members.values() if one.instance_id == instance_id), None)

    @staticmethod
    def _named_static(static: ConsumerMember | None, member_id: str, instance_id: str) -> ConsumerMember:
        if static is None:
            raise RefusedError(Error.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if static.member_id != member_id:
            text = f"Static member {member_id} with instance id {instance_id} was fenced by member {static.member_id}."
            raise RefusedError(Error.FENCED_INSTANCE_ID, text)
        return static

    def not_a_member(self, member_id: str) -> RefusedError:
        """Return the refusal of a request of an unknown member."""
        return RefusedError(Error.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}.")

    def _updated(self, known: ConsumerMember, body: Body, client: Client) -> ConsumerMember:
        """Return the member with what the request changes. Raises RefusedError for a pattern that is not valid."""
        names, pattern = body["subscribedTopicNames"], body.get("subscribedTopicRegex")
        if pattern and pattern not in self.matches:
            self._resolve(pattern)
        timeout = body["rebalanceTimeoutMs"]
        updated = replace(
            known, client_id=client.id, client_host=client.host,
            instance_id=known.instance_id if body["instanceId"] is None else body["instanceId"],
            rack_id=known.rack_id if body["rackId"] is None else body["rackId"],
            names=known.names if names is None else frozenset(names),
            pattern=known.pattern if pattern is None else pattern,
            rebalance_timeout_ms=known.rebalance_timeout_ms if timeout == -1 else timeout,
            assignor=known.assignor if body["serverAssignor"] is None else body["serverAssignor"],
        )  # fmt: skip
        if updated.size > self.limits.member_bytes:
            raise RefusedError(Error.GROUP_MAX_SIZE_REACHED, "The member subscribes to too many topics.")
        return updated

    def _resolve(self, pattern: str) -> None:
        """Find the topics that match a pattern, and forget patterns that no member has. Raises RefusedError."""
        try:
            compiled = TopicPattern(pattern)
        except PatternError as problem:
            text = f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {problem}."
            raise RefusedError(Error.INVALID_REGULAR_EXPRESSION, text) from None
        used = {one.pattern for one in self.members.values()}
        self.matches = {known: names for known, names in self.matches.items() if known in used}
        self.matches[pattern] = frozenset(name for name in self.topics.topics if compiled.matches(name))

    def _subscribed(self, member: ConsumerMember) -> frozenset[str]:
        """Return the ids of the topics to which the member subscribes."""
        topics = self.topics.topics
        names = member.names | (self.matches[member.pattern] if member.pattern else frozenset())
        return frozenset(topics[name].id for name in names if name in topics)

    def _update_target(self) -> None:
        """Compute the target assignment for the group's epoch, if it is an older one."""
        if self.target_epoch >= self.epoch:
            return
        assignor = ASSIGNORS[preferred_assignor(one.assignor for one in self.members.values())]
        members = {
            member_id: Subscriber(one.instance_id, self._subscribed(one), self.target.get(member_id, {}))
            for member_id, one in self.members.items()
        }
        topics = {topic.id: sorted(topic.partitions) for topic in self.topics.topics.values()}
        self.target = assignor(members, topics)
        self.target_epoch = self.epoch

    # ---- towards the target: CurrentAssignmentBuilder

    def _reconcile(self, member: ConsumerMember, owned: Iterable[Body] | None, *, is_changed: bool) -> None:
        """Move a member towards its target, as far as what members own allows it."""
        owns = None if owned is None else {(one["topicId"], number) for one in owned for number in one["partitions"]}
        before = (member.state, member.epoch, member.assigned, member.revoking)
        subscribed = self._subscribed(member)
        must_revoke = member.state is MemberState.UNREVOKED_PARTITIONS and _overlaps(member.revoking, owns)
        if not must_revoke and not member.is_reconciled_to(self.target_epoch):
            self._next_assignment(member, subscribed, owns)
        elif is_changed:
            self._drop_topics(member, subscribed, owns)
        if before == (member.state, member.epoch, member.assigned, member.revoking):
            return
        key = ("rebalance", self.group_id, member.member_id)
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            epoch = member.epoch
            self.timers.schedule(key, member.rebalance_timeout_ms, lambda: self._fence_at(member.member_id, epoch))
        else:
            self.timers.cancel(key)

    def _drop_topics(self, member: ConsumerMember, subscribed: Collection[str], owns: set[tuple[str, int]] | None) -> None:
        """Take the topics away to which the member does not subscribe any more."""
        dropped = {topic: held for topic, held in member.assigned.items() if topic not in subscribed}
        if not dropped:
            return
        member.assigned = {topic: held for topic, held in member.assigned.items() if topic in subscribed}
        revoking = dict(member.revoking)
        for topic, held in dropped.items():
            revoking[topic] = revoking.get(topic, {}) | held
        member.previous_epoch = member.epoch
        if _overlaps(revoking, owns):
            member.state, member.revoking = MemberState.UNREVOKED_PARTITIONS, revoking

    def _next_assignment(self, member: ConsumerMember, subscribed: Collection[str], owns: set[tuple[str, int]] | None) -> None:
        target = self.target.get(member.member_id, {})
        taken = self._taken()
        assigned: Held = {}
        revoking: Held = {}
        pending: dict[str, list[int]] = {}
        is_blocked = False
        for topic in dict.fromkeys((*target, *member.assigned)):
            wanted = target.get(topic, set()) if topic in subscribed else set()
            held, leaving = member.assigned.get(topic, {}), member.revoking.get(topic, {})
            assigned[topic] = {number: epoch for number, epoch in held.items() if number in wanted}
            revoking[topic] = {number: epoch for number, epoch in held.items() if number not in wanted}
            missing = sorted(wanted - held.keys())
            pending[topic] = [number for number in missing if number in leaving or (topic, number) not in taken]
            is_blocked = is_blocked or len(pending[topic]) < len(missing)
        revoking = {topic: held for topic, held in revoking.items() if held}
        if revoking and _overlaps(revoking, owns):
            state, epoch = MemberState.UNREVOKED_PARTITIONS, member.epoch
        else:
            state = MemberState.UNRELEASED_PARTITIONS if is_blocked else MemberState.STABLE
            epoch, revoking = self.target_epoch, {}
            for topic, numbers in pending.items():
                assigned[topic] |= dict.fromkeys(numbers, epoch)
        member.state, member.previous_epoch, member.epoch = state, member.epoch, epoch
        member.assigned = {topic: held for topic, held in assigned.items() if held}
        member.revoking = revoking

    def _taken(self) -> set[tuple[str, int]]:
        """Return the partitions that some member has, or has not given up yet."""
        every = (held for one in self.members.values() for held in (one.assigned, one.revoking))
        return {(topic, number) for held in every for topic, numbers in held.items() for number in numbers}

    # ---- members that leave

    def leave(self, body: Body) -> Body:
        """Answer a ConsumerGroupHeartbeat of a member that leaves, with epoch −2 for a while. Raises RefusedError."""
        member_id, epoch, instance_id = body["memberId"], body["memberEpoch"], body["instanceId"]
        if instance_id is None:
            if member_id not in self.members:
                raise self.not_a_member(member_id)
        else:
            member = self._named_static(self._static(instance_id), member_id, instance_id)
            if epoch == _LEAVES_FOR_A_WHILE:
                member.epoch, member.revoking = epoch, {}
                member.assigned = {topic: dict.fromkeys(held, 0) for topic, held in member.assigned.items()}
                return _answer(member_id, epoch)
        self.fence([member_id])
        return _answer(member_id, epoch)

    def remove_by_admin(self, members: list[Body]) -> list[Error]:
        """Handle LeaveGroup, by which an admin client removes members; return the error of each."""
        errors, fenced = [], []
        for one in members:
            try:
                member_id, instance_id = one["memberId"], one.get("groupInstanceId")
                if instance_id is not None:
                    static = self._static(instance_id)
                    member_id = member_id or (static.member_id if static else "")
                    self._named_static(static, member_id, instance_id)
                elif member_id not in self.members:
                    raise self.not_a_member(member_id)
                fenced.append(member_id)
                errors.append(Error.NONE)
            except RefusedError as refused:
                errors.append(refused.error)
        self.fence(fenced)
        return errors

    def fence(self, member_ids: Collection[str]) -> None:
        """Remove members; the others will get their partitions."""
        for member_id in member_ids:
            self._remove(member_id)
            self.target.pop(member_id, None)
        self.epoch += bool(member_ids)

    def _fence_at(self, member_id: str, epoch: int) -> None:
        if member_id in self.members and self.members[member_id].epoch == epoch:
            self.fence([member_id])

    def _remove(self, member_id: str) -> None:
        self.members.pop(member_id, None)
        self._forget_timers(member_id)

    def _forget_timers(self, member_id: str) -> None:
        for kind in ("session", "rebalance"):
            self.timers.cancel((kind, self.group_id, member_id))

    def _expect_heartbeat(self, member_id: str) -> None:
        key = ("session", self.group_id, member_id)
        self.timers.schedule(key, self.limits.consumer_session_timeout_ms, lambda: self.fence([member_id]))

    # ---- offsets

    def check_commit(self, body: Body, version: int | None) -> Mapping[tuple[str, int], int] | None:
        """Check whether an OffsetCommit of a version, or a TxnOffsetCommit (None), comes from a member. None: it may commit any
        partition; else those of the result, each if the epoch of the request is at least its value. Raises RefusedError.
        """
        epoch, member_id = body["generationIdOrMemberEpoch"], body["memberId"]
        if epoch < 0 and not self.members:
            return None
        member = self.members.get(member_id)
        if member is None:
            raise self.not_a_member(member_id)
        if version is not None and version < _FIRST_TO_COMMIT:
            raise RefusedError(Error.UNSUPPORTED_VERSION)
        if epoch > member.epoch:
            raise RefusedError(Error.STALE_MEMBER_EPOCH)
        if epoch == member.epoch:
            return None
        both = (member.revoking, member.assigned)
        return {(topic, number): since for held in both for topic, own in held.items() for number, since in own.items()}

    def check_fetch(self, group: Body) -> None:
        """Check whether an OffsetFetch comes from a member, or from an admin client. Raises RefusedError."""
        member_id, epoch = group.get("memberId"), group.get("memberEpoch", -1)
        if member_id is None and epoch < 0:
            return
        member = self.members.get(member_id or "")
        if member is None:
            raise self.not_a_member(member_id or "")
        if epoch != member.epoch:
            raise RefusedError(Error.STALE_MEMBER_EPOCH)

    # ---- descriptions

    def listed(self) -> Body:
        """Return the group's entry in the answer to ListGroups."""
        return {"groupId": self.group_id, "protocolType": "consumer", "groupState": self.state, "groupType": self.type}

    def described(self) -> Body:
        """Return the group's entry in the answer to ConsumerGroupDescribe."""
        return consumer_entry(self.group_id) | {
            "groupState": self.state, "groupEpoch": self.epoch, "assignmentEpoch": self.target_epoch,
            "assignorName": preferred_assignor(one.assignor for one in self.members.values()),
            "members": [self._describe_member(one) for one in self.members.values()],
        }  # fmt: skip

    def _describe_member(self, member: ConsumerMember) -> Body:
        own = {topic: [*held] for topic, held in member.assigned.items()}
        for topic, held in member.revoking.items():
            own[topic] = [*own.get(topic, []), *held]
        return {
            "memberId": member.member_id, "instanceId": member.instance_id, "rackId": member.rack_id,
            "memberEpoch": member.epoch, "clientId": member.client_id, "clientHost": member.client_host,
            "subscribedTopicNames": sorted(member.names), "subscribedTopicRegex": member.pattern,
            "assignment": named_partitions(self.topics, own),
            "targetAssignment": named_partitions(self.topics, self.target.get(member.member_id, {})),
            "memberType": CONSUMER_MEMBER,
        }  # fmt: skip


def named_partitions(topics: Topics, owned: Mapping[str, Collection[int]]) -> Body:
    """Return partitions, by topic id, as ConsumerGroupDescribe names them. A topic that is not served is left out."""
    found = [(topics.by_id(topic_id), numbers) for topic_id, numbers in owned.items()]
    named = [
        {"topicId": topic.id, "topicName": topic.name, "partitions": sorted(numbers)}
        for topic, numbers in found if topic is not None
    ]  # fmt: skip
    return {"topicPartitions": named}


def preferred_assignor(names: Iterable[str | None]) -> str:
    """Return the assignor that most members want; None: the member does not mind."""
    wanted = [name for name in names if name is not None]
    return max(wanted, key=wanted.count, default=_DEFAULT_ASSIGNOR)


def _new_member_id() -> str:
    """Return an id for a member that brings none, before version 1 (Uuid.randomUuid)."""
    return urlsafe_b64encode(uuid4().bytes).decode().rstrip("=").replace("-", "_")


def _overlaps(revoking: Held, owns: set[tuple[str, int]] | None) -> bool:
    """Return whether the member still owns partitions that it must revoke; it may, if it did not say what it owns."""
    return owns is None or any((topic, number) in owns for topic, held in revoking.items() for number in held)


def _check_epoch(member: ConsumerMember, body: Body) -> None:
    """Check the epoch of a member's request (throwIfConsumerGroupMemberEpochIsInvalid). Raises RefusedError."""
    epoch, owned = body["memberEpoch"], body["topicPartitions"]
    if epoch in (_JOINS, member.epoch):
        return
    if epoch < member.epoch:
        is_lost = epoch == member.previous_epoch and owned is not None and all(
            number in member.assigned.get(one["topicId"], {}) for one in owned for number in one["partitions"]
        )  # fmt: skip
        if is_lost:  # the answer with the new epoch did not arrive
            return
    relation = "greater" if epoch > member.epoch else "smaller"
    text = (f"The consumer group member has a {relation} member epoch ({epoch}) than the one known by the group coordinator "
            f"({member.epoch}). The member must abandon all its partitions and rejoin.")  # fmt: skip
    raise RefusedError(Error.FENCED_MEMBER_EPOCH, text)


def consumer_entry(group_id: str, error: Error = Error.NONE, message: str | None = None) -> Body:
    """Return an entry in the answer to ConsumerGroupDescribe, without members. The caller adds what a known group has."""
    return {
        "errorCode": int(error), "errorMessage": message, "groupId": group_id, "groupState": "", "groupEpoch": 0,
        "assignmentEpoch": 0, "assignorName": "", "members": [], "authorizedOperations": UNKNOWN_OPERATIONS,
    }  # fmt: skip

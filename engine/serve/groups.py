"""The group coordinator: it answers the APIs of groups and of committed offsets. Mirrors GroupCoordinatorService.

A request is a dict with the names of Kafka's JSON, and so is its answer. JoinGroup and SyncGroup wait for other members, in the
thread of their caller. Groups are in memory. Those on the disk are described as they are there, until a client joins a group of
that name: the group then continues with the next generation or epoch, without the members on the disk. A group has one protocol
at a time: members of one cannot join those of the other (group.consumer.migration.policy is disabled).
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Condition
from typing import TYPE_CHECKING, Any

from engine.protocol.error_codes import Error, RefusedError
from engine.serve.classic_groups import ClassicGroup, GroupState, classic_entry, member_of, refused_join, refused_sync
from engine.serve.consumer_groups import ConsumerGroup, check_heartbeat, consumer_entry, refused_heartbeat
from engine.serve.disk_groups import DiskGroup
from engine.serve.group_common import Answer, Limits, Timers
from engine.serve.offsets import Offsets

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from engine.log.fetch.stored_groups import StoredGroup
    from engine.serve.group_common import Body, Client, Topics

_GROUP_OPERATIONS = 3400  # all, as a broker without an authorizer answers
_FIRST_WITH_NULL_NAME = 7  # JoinGroup: the protocol's name may be null
_FIRST_WITH_MEMBERS = 3  # LeaveGroup: several members
_FIRST_WITH_PROTOCOL = 5  # SyncGroup: the protocol is mandatory
_FIRST_WITH_ERROR = 6  # DescribeGroups: an error for a group that is not found
_FIRST_WITH_GROUP_ID_NOT_FOUND = 9  # OffsetCommit
_JOINS = 0  # member epoch of a consumer that joins

Wait = Callable[[Condition, float | None], Any]
Group = ClassicGroup | ConsumerGroup


def _wait(condition: Condition, seconds: float | None) -> None:
    condition.wait(seconds)


class GroupCoordinator:
    """The coordinator of all groups. May be used by several threads.

    topics    to which consumer groups subscribe, and for which offsets are committed
    clock_ms  the time in ms
    stored    groups on the disk, with the offsets that they committed
    wait      waits until the condition is notified, for at most this many seconds; None: without a limit
    """

    def __init__(
        self, topics: Topics, clock_ms: Callable[[], int], stored: Iterable[StoredGroup] = (), *, limits: Limits | None = None,
        wait: Wait = _wait,
    ) -> None:  # fmt: skip
        self._topics, self._clock_ms, self._wait = topics, clock_ms, wait
        self._limits = limits or Limits()
        self._condition = Condition()
        self._timers = Timers(clock_ms())
        self._stored = {group.group_id: DiskGroup(group, topics) for group in stored}
        self._groups: dict[str, Group] = {}
        self._offsets = Offsets(topics, self._limits, (one.group for one in self._stored.values()))
        self._is_closed = False

    def close(self) -> None:
        """Answer all requests that wait; requests from now on are refused."""
        with self._condition:
            self._is_closed = True
            self._condition.notify_all()

    def answer(self, api: str, body: Body, client: Client) -> Body:
        """Answer a request of an API, named as in Kafka. Raises KeyError for an API that is not of groups."""
        return GROUP_APIS[api](self, body, client)

    # ---- waiting

    def _begin(self) -> None:
        """Run what is due before a request is handled. Raises RefusedError if the coordinator is closed."""
        if self._is_closed:
            raise RefusedError(Error.COORDINATOR_NOT_AVAILABLE)
        if self._timers.expire(self._clock_ms()):
            self._condition.notify_all()

    def _end(self) -> None:
        """Run what became due, and wake the requests that may have their answers now."""
        self._timers.expire(self._clock_ms())
        self._condition.notify_all()

    def _wait_for(self, answer: Answer) -> Body:
        """Wait until a request has its answer. Raises RefusedError if the coordinator is closed."""
        while answer.body is None:
            if self._is_closed:
                raise RefusedError(Error.COORDINATOR_NOT_AVAILABLE)
            deadline = self._timers.next_ms()
            self._wait(self._condition, None if deadline is None else max(0, deadline - self._clock_ms()) / 1000)
            if self._timers.expire(self._clock_ms()):
                self._condition.notify_all()
        return answer.body

    # ---- groups of the classic protocol

    def join_group(self, body: Body, client: Client) -> Body:
        """Answer JoinGroup, when the rebalance has all members or its time is over."""
        with self._condition:
            answer = Answer()
            try:
                self._begin()
                self._join(body, client, answer)
                self._end()
                result = self._wait_for(answer)
            except RefusedError as refused:
                is_full = refused.error is Error.GROUP_MAX_SIZE_REACHED
                result = refused_join(refused.error, "" if is_full else body["memberId"])
        if client.version < _FIRST_WITH_NULL_NAME and result["protocolName"] is None:
            result["protocolName"] = ""
        return result

    def _join(self, body: Body, client: Client, answer: Answer) -> None:
        group_id = body["groupId"]
        if not group_id:
            raise RefusedError(Error.INVALID_GROUP_ID)
        if not self._limits.min_session_timeout_ms <= body["sessionTimeoutMs"] <= self._limits.max_session_timeout_ms:
            raise RefusedError(Error.INVALID_SESSION_TIMEOUT)
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            raise RefusedError(Error.INCONSISTENT_GROUP_PROTOCOL)
        if not isinstance(group, ClassicGroup):
            if body["memberId"]:
                raise RefusedError(Error.UNKNOWN_MEMBER_ID)
            group = ClassicGroup(group_id, self._timers, self._limits, self._epoch_on_disk(group_id, ClassicGroup.type))
        self._check_room(group, member_of(body["memberId"], body, client).size)
        group.join(body, client, answer)
        self._put(group)

    def _epoch_on_disk(self, group_id: str, group_type: str) -> int:
        known = self._stored.get(group_id)
        return known.group.epoch if known is not None and known.group.type == group_type else 0

    def _check_room(self, group: Group, size: int) -> None:
        """Check that there is room for another member of that size. Raises RefusedError."""
        used = [one for one in self._groups.values() if one is not group and one.size]
        total = sum(one.size for one in used) + group.size + size
        if len(used) >= self._limits.groups or size > self._limits.member_bytes or total > self._limits.bytes:
            raise RefusedError(Error.GROUP_MAX_SIZE_REACHED, "The coordinator has no room for more members.")

    def _put(self, group: Group) -> None:
        """Keep a group; forget the oldest ones without members and offsets if there are too many."""
        known = self._groups.get(group.group_id)
        if known is not group:
            if known is not None:
                known.close()
            self._groups[group.group_id] = group
        idle = [name for name, one in self._groups.items() if not (one.size or self._offsets.has(name) or one is group)]
        for name in idle[: max(0, len(idle) - self._limits.idle_groups)]:
            self._groups.pop(name).close()

    def sync_group(self, body: Body, client: Client) -> Body:
        """Answer SyncGroup, when the leader has sent the assignment."""
        with self._condition:
            answer = Answer()
            try:
                self._begin()
                self._sync(body, client, answer)
                self._end()
                return self._wait_for(answer)
            except RefusedError as refused:
                return refused_sync(refused.error)

    def _sync(self, body: Body, client: Client, answer: Answer) -> None:
        if client.version >= _FIRST_WITH_PROTOCOL and (body["protocolType"] is None or body["protocolName"] is None):
            raise RefusedError(Error.INCONSISTENT_GROUP_PROTOCOL)
        self._classic(body["groupId"]).sync_group(body, answer)

    def _classic(self, group_id: str) -> ClassicGroup:
        """Return a group for a request of one of its members. Raises RefusedError."""
        if not group_id:
            raise RefusedError(Error.INVALID_GROUP_ID)
        group = self._groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            raise RefusedError(Error.UNKNOWN_MEMBER_ID)
        return group

    def heartbeat(self, body: Body, _client: Client) -> Body:
        """Answer Heartbeat."""
        with self._condition:
            try:
                self._begin()
                error = self._classic(body["groupId"]).heartbeat(body)
            except RefusedError as refused:
                error = refused.error
            return {"throttleTimeMs": 0, "errorCode": int(error)}

    def leave_group(self, body: Body, client: Client) -> Body:
        """Answer LeaveGroup."""
        members = body["members"] if client.version >= _FIRST_WITH_MEMBERS else [{"memberId": body["memberId"]}]
        with self._condition:
            try:
                self._begin()
                errors = self._leave(body["groupId"], members)
                self._end()
            except RefusedError as refused:
                return {"throttleTimeMs": 0, "errorCode": int(refused.error)}
        if client.version < _FIRST_WITH_MEMBERS:
            return {"throttleTimeMs": 0, "errorCode": int(errors[0])}
        named = [
            {"memberId": one["memberId"], "groupInstanceId": one.get("groupInstanceId"), "errorCode": int(error)}
            for one, error in zip(members, errors, strict=True)
        ]
        return {"throttleTimeMs": 0, "errorCode": 0, "members": named}

    def _leave(self, group_id: str, members: list[Body]) -> list[Error]:
        if not group_id:
            raise RefusedError(Error.INVALID_GROUP_ID)
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group.remove_by_admin(members)
        return [Error.UNKNOWN_MEMBER_ID] * len(members) if group is None else group.leave(members)

    # ---- groups of the consumer protocol

    def consumer_group_heartbeat(self, body: Body, client: Client) -> Body:
        """Answer ConsumerGroupHeartbeat."""
        with self._condition:
            try:
                self._begin()
                check_heartbeat(body, client.version)
                return self._consumer_heartbeat(body, client)
            except RefusedError as refused:
                return refused_heartbeat(refused)

    def _consumer_heartbeat(self, body: Body, client: Client) -> Body:
        group_id, epoch = body["groupId"], body["memberEpoch"]
        group = self._groups.get(group_id)
        if isinstance(group, ClassicGroup) and (epoch != _JOINS or not group.is_empty):
            text = f"Group {group_id} is not a consumer group."
            if epoch == _JOINS:
                text = f"Cannot upgrade classic group {group_id} to consumer group because online upgrade is disabled."
            raise RefusedError(Error.GROUP_ID_NOT_FOUND, text)
        if not isinstance(group, ConsumerGroup):
            known = self._epoch_on_disk(group_id, ConsumerGroup.type)
            if epoch != _JOINS and not known:
                text = f"{'Group' if epoch < _JOINS else 'Consumer group'} {group_id} not found."
                raise RefusedError(Error.GROUP_ID_NOT_FOUND, text)
            group = ConsumerGroup(group_id, self._timers, self._limits, self._topics, max(1, known))
        if epoch < _JOINS:
            return group.leave(body)
        if body["subscribedTopicNames"] is not None or body.get("subscribedTopicRegex") is not None:
            self._check_room(group, sum(100 + len(name) for name in body["subscribedTopicNames"] or ()))
        answer = group.heartbeat(body, client)
        self._put(group)
        return answer

    # ---- offsets

    def offset_commit(self, body: Body, client: Client) -> Body:
        """Answer OffsetCommit."""
        with self._condition:
            return self._offsets.commit(body, client, self._clock_ms(), lambda: self._check_commit(body, client))

    def txn_offset_commit(self, body: Body, client: Client) -> Body:
        """Answer TxnOffsetCommit; the transaction is checked before (see `transactions`)."""
        member = {
            "generationIdOrMemberEpoch": body.get("generationId", -1), "memberId": body.get("memberId", ""),
            "groupInstanceId": body.get("groupInstanceId"),
        }  # fmt: skip

        def check() -> Callable[[str, int], None] | None:
            if not body["groupId"]:
                raise RefusedError(Error.INVALID_GROUP_ID)
            try:
                return self._check_commit(body | member, client, is_transactional=True)
            except RefusedError as refused:
                if refused.error is Error.STALE_MEMBER_EPOCH:
                    raise RefusedError(Error.ILLEGAL_GENERATION) from refused
                raise

        with self._condition:
            return self._offsets.commit(body, client, self._clock_ms(), check)

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        """Commit or forget the offsets of a producer's open transaction."""
        with self._condition:
            self._offsets.end_transaction(producer_id, is_committed=is_committed)

    def _check_commit(
        self, body: Body, client: Client, *, is_transactional: bool = False
    ) -> Callable[[str, int], None] | None:  # fmt: skip
        """Check the sender of an OffsetCommit; return what checks single partitions. Raises RefusedError."""
        self._begin()
        group = self._groups.get(body["groupId"])
        is_member = body["generationIdOrMemberEpoch"] >= 0
        is_known = is_member or body["memberId"] or body.get("groupInstanceId") is not None
        if group is not None and is_transactional and not is_known:
            return None  # earlier versions of TxnOffsetCommit have no member
        if isinstance(group, ConsumerGroup):
            owned = group.check_commit(body, None if is_transactional else client.version)
            return None if owned is None else _check_of(owned, body["generationIdOrMemberEpoch"])
        if group is not None:
            group.check_commit(body, is_transactional=is_transactional)
        elif body["groupId"] in self._stored:
            if is_member:
                raise RefusedError(Error.UNKNOWN_MEMBER_ID)
        elif not is_member:
            self._put(ClassicGroup(body["groupId"], self._timers, self._limits))
        elif client.version >= _FIRST_WITH_GROUP_ID_NOT_FOUND:
            raise RefusedError(Error.GROUP_ID_NOT_FOUND)
        else:
            raise RefusedError(Error.ILLEGAL_GENERATION)
        return None

    def offset_fetch(self, body: Body, client: Client) -> Body:
        """Answer OffsetFetch."""
        with self._condition:
            return self._offsets.fetch(body, client, self._check_fetch)

    def _check_fetch(self, wanted: Body) -> None:
        self._begin()
        group = self._groups.get(wanted["groupId"])
        if isinstance(group, ConsumerGroup):
            group.check_fetch(wanted)

    # ---- descriptions

    def _known(self) -> Mapping[str, Group | DiskGroup]:
        """Return all groups; those in memory instead of those of the same name on the disk."""
        return self._stored | self._groups

    def list_groups(self, body: Body, _client: Client) -> Body:
        """Answer ListGroups."""
        states = {one.lower().strip() for one in body.get("statesFilter", ())}
        types = {one.lower() for one in body.get("typesFilter", ())}
        with self._condition:
            try:
                self._begin()
            except RefusedError as refused:
                return {"throttleTimeMs": 0, "errorCode": int(refused.error), "groups": []}
            every = [group.listed() for group in self._known().values()]
        groups = [
            one for one in every
            if (not states or one["groupState"].lower() in states) and (not types or one["groupType"] in types)
        ]  # fmt: skip
        return {"throttleTimeMs": 0, "errorCode": 0, "groups": groups}

    def describe_groups(self, body: Body, client: Client) -> Body:
        """Answer DescribeGroups: groups of the classic protocol."""

        def describe(group_id: str) -> Body:
            group = self._known().get(group_id)
            if isinstance(group, ClassicGroup) or (isinstance(group, DiskGroup) and group.type == ClassicGroup.type):
                return group.described()
            text = f"Group {group_id} {'not found' if group is None else 'is not a classic group'}."
            if client.version < _FIRST_WITH_ERROR:
                return classic_entry(group_id, GroupState.DEAD)
            return classic_entry(group_id, GroupState.DEAD, Error.GROUP_ID_NOT_FOUND, text)

        return self._describe(body["groups"], body, describe, lambda group_id, error: classic_entry(group_id, "", error))

    def consumer_group_describe(self, body: Body, _client: Client) -> Body:
        """Answer ConsumerGroupDescribe: groups of the consumer protocol."""

        def describe(group_id: str) -> Body:
            if not group_id:
                return consumer_entry("", Error.INVALID_GROUP_ID)
            group = self._known().get(group_id)
            if isinstance(group, ConsumerGroup) or (isinstance(group, DiskGroup) and group.type == ConsumerGroup.type):
                return group.described()
            text = f"Group {group_id} {'not found' if group is None else 'is not a consumer group'}."
            return consumer_entry(group_id, Error.GROUP_ID_NOT_FOUND, text)

        return self._describe(body["groupIds"], body, describe, consumer_entry)

    def _describe(
        self, group_ids: Iterable[str], body: Body, describe: Callable[[str], Body], refuse: Callable[[str, Error], Body]
    ) -> Body:
        """Describe each group once, though a request may repeat it: the answer is bounded by what groups have."""
        names = list(dict.fromkeys(group_ids))
        with self._condition:
            try:
                self._begin()
                groups = [describe(group_id) for group_id in names]
            except RefusedError as refused:
                groups = [refuse(group_id, refused.error) for group_id in names]
        for one in groups if body.get("includeAuthorizedOperations") else ():
            if not one["errorCode"]:
                one["authorizedOperations"] = _GROUP_OPERATIONS
        return {"throttleTimeMs": 0, "groups": groups}


def _check_of(owned: Mapping[tuple[str, int], int], epoch: int) -> Callable[[str, int], None]:
    """Return the check of the partitions of an OffsetCommit with an older epoch (createAssignmentEpochValidator)."""

    def check(topic_id: str, partition: int) -> None:
        if epoch < owned.get((topic_id, partition), epoch + 1):
            raise RefusedError(Error.STALE_MEMBER_EPOCH)

    return check


GROUP_APIS: dict[str, Callable[[GroupCoordinator, Body, Client], Body]] = {
    "OffsetCommit": GroupCoordinator.offset_commit,
    "OffsetFetch": GroupCoordinator.offset_fetch,
    "JoinGroup": GroupCoordinator.join_group,
    "Heartbeat": GroupCoordinator.heartbeat,
    "LeaveGroup": GroupCoordinator.leave_group,
    "SyncGroup": GroupCoordinator.sync_group,
    "DescribeGroups": GroupCoordinator.describe_groups,
    "ListGroups": GroupCoordinator.list_groups,
    "ConsumerGroupHeartbeat": GroupCoordinator.consumer_group_heartbeat,
    "ConsumerGroupDescribe": GroupCoordinator.consumer_group_describe,
}

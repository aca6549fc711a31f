"""Groups on the disk in the answers of ListGroups, DescribeGroups and ConsumerGroupDescribe, as after the start of a broker.

It stands alone because it answers for groups of both protocols, which do not know each other.
"""

from __future__ import annotations

from base64 import b64decode
from typing import TYPE_CHECKING, Any

from engine.log.fetch.stored_groups import GroupType
from engine.serve.classic_groups import classic_entry
from engine.serve.consumer_groups import CLASSIC_MEMBER, CONSUMER_MEMBER, consumer_entry, named_partitions, preferred_assignor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.log.fetch.stored_groups import StoredGroup, StoredMember
    from engine.serve.group_common import Body, Topics


class DiskGroup:
    """A group on the disk. Share and streams groups are only listed."""

    def __init__(self, group: StoredGroup, topics: Topics) -> None:
        self.group, self._topics = group, topics

    @property
    def type(self) -> str:
        """Return the type, as ListGroups has it."""
        return self.group.type.value

    def listed(self) -> Body:
        """Return the group's entry in the answer to ListGroups."""
        group = self.group
        return {
            "groupId": group.group_id, "protocolType": group.protocol_type, "groupState": group.state, "groupType": self.type,
        }  # fmt: skip

    def described(self) -> Body:
        """Return the group's entry in the answer to DescribeGroups or ConsumerGroupDescribe, by its type."""
        return self._described_classic() if self.group.type is GroupType.CLASSIC else self._described_consumer()

    def _described_classic(self) -> Body:
        group, known = self.group, self.group.metadata or {}
        members: list[Body] = [
            {
                "memberId": one["memberId"], "groupInstanceId": one.get("groupInstanceId"), "clientId": one["clientId"],
                "clientHost": one["clientHost"], "memberMetadata": b64decode(one["subscription"]),
                "memberAssignment": b64decode(one["assignment"]),
            } for one in known.get("members", ())
        ]  # fmt: skip
        return classic_entry(group.group_id, group.state) | {
            "protocolType": group.protocol_type, "protocolData": known.get("protocol") or "" if members else "",
            "members": members,
        }  # fmt: skip

    def _described_consumer(self) -> Body:
        group = self.group
        wanted = (one.metadata.get("serverAssignor") or None for one in group.members.values())
        return consumer_entry(group.group_id) | {
            "groupState": group.state, "groupEpoch": group.epoch, "assignmentEpoch": group.target_epoch,
            "assignorName": preferred_assignor(wanted),
            "members": [self._described_member(member_id, one) for member_id, one in group.members.items()],
        }  # fmt: skip

    def _described_member(self, member_id: str, member: StoredMember) -> Body:
        known, current, target = member.metadata, member.current or {}, member.target or {}
        owned = [*current.get("assignedPartitions", ()), *current.get("partitionsPendingRevocation", ())]
        is_classic = known.get("classicMemberMetadata") is not None
        return {
            "memberId": member_id, "instanceId": known.get("instanceId"), "rackId": known.get("rackId"),
            "memberEpoch": current.get("memberEpoch", 0), "clientId": known.get("clientId", ""),
            "clientHost": known.get("clientHost", ""), "subscribedTopicNames": known.get("subscribedTopicNames", []),
            "subscribedTopicRegex": known.get("subscribedTopicRegex"), "assignment": self._assignment(owned),
            "targetAssignment": self._assignment(target.get("topicPartitions", ())),
            "memberType": CLASSIC_MEMBER if is_classic else CONSUMER_MEMBER,
        }  # fmt: skip

    def _assignment(self, owned: Iterable[dict[str, Any]]) -> Body:
        """Return an assignment as the log has it with the names of its topics."""
        by_topic: dict[str, list[int]] = {}
        for one in owned:
            by_topic.setdefault(one["topicId"], []).extend(one["partitions"])
        return named_partitions(self._topics, by_topic)

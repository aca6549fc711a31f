"""When a group coordinator removes committed offsets. Mirrors OffsetMetadataManager.cleanupExpiredOffsets.

The module stands alone: its rules are those of a running coordinator, not of what the logs have.
"""

from __future__ import annotations

import json
from base64 import b64decode
from typing import TYPE_CHECKING

from engine.amounts import whole_number
from engine.errors import UsageError
from engine.log.fetch.stored_groups import GroupType
from engine.schema import tables
from engine.schema.compiler import message_json
from engine.schema.wire import SchemaError, to_int16

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.log.fetch.stored_groups import CommittedOffset, StoredGroup

RETENTION = "offsets.retention.minutes"
_DEFAULT = 7 * 24 * 60  # minutes
_EVERY_TOPIC = None  # which topics the members read is not known: none of their offsets expires


def retention_ms(server: Mapping[str, str]) -> int:
    """offsets.retention.minutes of server.properties, in ms. Raises UsageError."""
    text = server.get(RETENTION, str(_DEFAULT)).strip()
    minutes = whole_number(text)
    if minutes is None or minutes < 1:
        raise UsageError(f"{RETENTION}={text} is not a number of minutes", "correct it in --config-file")
    return minutes * 60_000


def retention_text(server: Mapping[str, str]) -> str:
    """The setting and its value, in words."""
    default = "" if RETENTION in server else ", the default"
    return f"{RETENTION} {retention_ms(server) // 60_000}{default}"


def expires_at(group: StoredGroup, partition: tuple[str, int], committed: CommittedOffset, retention: int) -> int | None:
    """The time (ms) from which the next check removes the offset; None: not while the group is as it is.

    retention  ms. A coordinator checks every offsets.retention.check.interval.ms (10 minutes).
    """
    topics = _subscribed(group)
    if group.type is GroupType.SHARE or partition in group.pending or topics is _EVERY_TOPIC or partition[0] in topics:
        return None
    if committed.expire_ms >= 0:
        return committed.expire_ms
    since = committed.commit_ms
    if group.type is GroupType.CLASSIC and group.protocol_type and group.state == "Empty":
        emptied = (group.metadata or {}).get("currentStateTimestamp", -1)
        since = emptied if emptied >= 0 else since
    return since + retention


def _subscribed(group: StoredGroup) -> frozenset[str] | None:
    """The topics that members read; _EVERY_TOPIC: not known."""
    if group.state == "Empty":
        return frozenset()
    if group.type is GroupType.CONSUMER:
        members = [one.metadata for one in group.members.values()]
        if any(one.get("subscribedTopicRegex") for one in members):
            return _EVERY_TOPIC
        return frozenset(topic for one in members for topic in one.get("subscribedTopicNames", ()))
    if group.type is not GroupType.CLASSIC or group.protocol_type != "consumer":
        return _EVERY_TOPIC
    found: set[str] = set()
    for one in (group.metadata or {})["members"]:
        topics = _topics_of(b64decode(one["subscription"] or ""))
        if topics is None:
            return _EVERY_TOPIC
        found |= topics
    return frozenset(found)


def _topics_of(subscription: bytes) -> set[str] | None:
    """The topics in the subscription of a member of a classic group; None: it cannot be decoded."""
    if len(subscription) < 2:
        return None
    version = to_int16(int.from_bytes(subscription[:2]))
    try:
        text, _ = message_json(tables.offsets(), "ConsumerProtocolSubscription", version, subscription, 2)
    except SchemaError:
        return None
    return set(json.loads(text)["topics"])

"""Offsets that groups commit, in memory: OffsetCommit, OffsetFetch. Mirrors OffsetMetadataManager and KafkaApis."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from engine.log.fetch.stored_groups import CommittedOffset
from engine.protocol.error_codes import Error, RefusedError
from engine.protocol.layout import ZERO_ID

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.log.fetch.stored_groups import StoredGroup
    from engine.serve.group_common import Body, Client, Limits, TopicLike, Topics

_FIRST_WITH_TOPIC_IDS = 10  # OffsetCommit, OffsetFetch
_FIRST_WITH_GROUPS = 8  # OffsetFetch: several groups
_FIRST_WITH_ERROR = 2  # OffsetFetch: an error for the whole group; topics null: all
_OVERHEAD = 300  # bytes of an offset in memory, without its texts

Check = Callable[[str, int], None]  # of a partition, by topic id and index


class Offsets:
    """The committed offsets of all groups, first those of `stored`. Not for several threads at once."""

    def __init__(self, topics: Topics, limits: Limits, stored: Iterable[StoredGroup] = ()) -> None:
        self._topics, self._limits = topics, limits
        self._offsets: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
        self._size = 0  # bytes of what clients committed
        for group in stored:
            for (topic, partition), committed in group.offsets.items():
                self._of(group.group_id, topic)[partition] = committed

    def _of(self, group_id: str, topic: str) -> dict[int, CommittedOffset]:
        return self._offsets.setdefault(group_id, {}).setdefault(topic, {})

    def has(self, group_id: str) -> bool:
        """Return whether the group has committed offsets."""
        return group_id in self._offsets

    # ---- OffsetCommit

    def commit(self, body: Body, client: Client, now_ms: int, check: Callable[[], Check | None]) -> Body:
        """Answer OffsetCommit. `check` returns what checks a partition (topic id, index); both raise RefusedError."""
        answers: list[Body] = []
        wanted: list[tuple[TopicLike, Body, Body]] = []  # topic, partition of the request, its answer
        for one in body["topics"]:
            topic = self._topic(one, client)
            partitions = [{"partitionIndex": each["partitionIndex"], "errorCode": 0} for each in one["partitions"]]
            answers.append(_named(one, client) | {"partitions": partitions})
            for each, answer in zip(one["partitions"], partitions, strict=True):
                if topic is None or each["partitionIndex"] not in topic.partitions:
                    answer["errorCode"] = int(_unknown(topic, client))
                else:
                    wanted.append((topic, each, answer))
        try:
            check_partition = check() if wanted else None
            commits = [self._checked(topic, each, answer, check_partition) for topic, each, answer in wanted]
        except RefusedError as refused:
            for _, _, answer in wanted:
                answer["errorCode"] = int(refused.error)
            commits = []
        for topic, each in filter(None, commits):
            self._put(body["groupId"], topic, each, now_ms)
        return {"throttleTimeMs": 0, "topics": answers}

    def _checked(self, topic: TopicLike, wanted: Body, answer: Body, check: Check | None) -> tuple[TopicLike, Body] | None:
        """Return what can be stored. None: the answer has an error."""
        metadata = wanted["committedMetadata"] or ""
        if len(metadata) > self._limits.offset_metadata_characters:
            answer["errorCode"] = int(Error.OFFSET_METADATA_TOO_LARGE)
            return None
        if check is not None:
            check(topic.id, wanted["partitionIndex"])
        if self._size > self._limits.bytes:
            answer["errorCode"] = int(Error.GROUP_MAX_SIZE_REACHED)
            return None
        return topic, wanted

    def _put(self, group_id: str, topic: TopicLike, wanted: Body, now_ms: int) -> None:
        known = self._of(group_id, topic.name)
        before = known.get(wanted["partitionIndex"])
        committed = CommittedOffset(
            wanted["committedOffset"], wanted.get("committedLeaderEpoch", -1), wanted["committedMetadata"] or "", now_ms,
            topic_id=topic.id,
        )  # fmt: skip
        known[wanted["partitionIndex"]] = committed
        self._size += len(committed.metadata.encode(errors="surrogatepass"))
        if before is None:
            self._size += _OVERHEAD + len(group_id)
        else:
            self._size -= len(before.metadata.encode(errors="surrogatepass"))

    # ---- OffsetFetch

    def fetch(self, body: Body, client: Client, check: Callable[[Body], None]) -> Body:
        """Answer OffsetFetch. `check` is called with each group of the request, and raises RefusedError.

        A group that is repeated is answered once, so that a small request cannot ask for an answer of any size.
        """
        if client.version >= _FIRST_WITH_GROUPS:
            wanted = {group["groupId"]: group for group in body["groups"]}
            groups = [self._fetch_group(group, client, check) for group in wanted.values()]
            return {"throttleTimeMs": 0, "groups": groups}
        found = self._fetch_group(body, client, check)
        return {"throttleTimeMs": 0, "topics": found["topics"], "errorCode": found["errorCode"]}

    def _fetch_group(self, group: Body, client: Client, check: Callable[[Body], None]) -> Body:
        answer: Body = {"groupId": group["groupId"], "topics": [], "errorCode": 0}
        try:
            check(group)
        except RefusedError as refused:
            return answer | {"errorCode": int(refused.error)}
        known = self._offsets.get(group["groupId"], {})
        if group["topics"] is None:
            return answer | {"topics": list(self._all(known, client))}
        answer["topics"] = [self._fetch_topic(one, known, client) for one in group["topics"]]
        return answer

    def _all(self, known: dict[str, dict[int, CommittedOffset]], client: Client) -> Iterable[Body]:
        """Yield all offsets of a group; with topic ids only those of topics that are served."""
        for name, offsets in known.items():
            topic = self._topics.topics.get(name)
            topic_id = ZERO_ID if topic is None else topic.id
            if topic is not None or client.version < _FIRST_WITH_TOPIC_IDS:
                partitions = [_fetched(index, committed) for index, committed in offsets.items()]
                yield _named({"name": name, "topicId": topic_id}, client) | {"partitions": partitions}

    def _fetch_topic(self, wanted: Body, known: dict[str, dict[int, CommittedOffset]], client: Client) -> Body:
        topic, name = None, wanted.get("name")
        has_ids = client.version >= _FIRST_WITH_TOPIC_IDS
        if has_ids:
            topic = self._topics.by_id(wanted["topicId"])
            name = None if topic is None else topic.name
        offsets = {} if name is None else known.get(name, {})
        error = Error.UNKNOWN_TOPIC_ID if has_ids and topic is None else Error.NONE
        partitions = []
        for index in wanted["partitionIndexes"]:
            committed = offsets.get(index)
            is_other = committed is not None and topic is not None and committed.topic_id not in (None, ZERO_ID, topic.id)
            partitions.append(_fetched(index, None if is_other else committed) | {"errorCode": int(error)})
        return _named(wanted, client) | {"partitions": partitions}

    def _topic(self, wanted: Body, client: Client) -> TopicLike | None:
        if client.version >= _FIRST_WITH_TOPIC_IDS:
            return self._topics.by_id(wanted["topicId"])
        return self._topics.topics.get(wanted["name"])


def _named(topic: Body, client: Client) -> dict[str, Any]:
    key = "topicId" if client.version >= _FIRST_WITH_TOPIC_IDS else "name"
    return {key: topic[key]}


def _unknown(topic: TopicLike | None, client: Client) -> Error:
    has_ids = client.version >= _FIRST_WITH_TOPIC_IDS
    return Error.UNKNOWN_TOPIC_ID if topic is None and has_ids else Error.UNKNOWN_TOPIC_OR_PARTITION


def _fetched(index: int, committed: CommittedOffset | None) -> Body:
    known = CommittedOffset(-1, -1, "", -1) if committed is None else committed
    return {
        "partitionIndex": index, "committedOffset": known.offset, "committedLeaderEpoch": known.leader_epoch,
        "metadata": known.metadata, "errorCode": 0,
    }  # fmt: skip

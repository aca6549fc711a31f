"""Offsets that groups commit, in memory: OffsetCommit, TxnOffsetCommit, OffsetFetch.

Mirrors OffsetMetadataManager and KafkaApis.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from engine.log.fetch.stored_groups import CommittedOffset
from engine.protocol.error_codes import Error, RefusedError
from engine.protocol.layout import ZERO_ID

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from engine.log.fetch.stored_groups import StoredGroup
    from engine.serve.group_common import Body, Client, Limits, TopicLike, Topics

_FIRST_WITH_TOPIC_IDS = 10  # OffsetCommit, OffsetFetch
_FIRST_WITH_GROUPS = 8  # OffsetFetch: several groups
_FIRST_WITH_ERROR = 2  # OffsetFetch: an error for the whole group; topics null: all
_OVERHEAD = 300  # bytes of an offset in memory, without its texts

Check = Callable[[str, int], None]  # of a partition, by topic id and index
Fetched = Callable[[str | None, int, CommittedOffset | None], "Body"]  # the answer for a partition: topic, index, offset


class Offsets:
    """The committed offsets of all groups, first those of `stored`. Not for several threads at once.

    An open transaction on the disk stays open: its offsets never count, and do not make others unstable.
    """

    def __init__(self, topics: Topics, limits: Limits, stored: Iterable[StoredGroup] = ()) -> None:
        self._topics, self._limits = topics, limits
        self._offsets: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
        # in open transactions, by producer id and (group, topic, partition); None: a later commit replaced the offset
        self._pending: dict[int, dict[tuple[str, str, int], CommittedOffset | None]] = {}
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
        """Answer OffsetCommit, or TxnOffsetCommit of a request with a `producerId`.

        `check` returns what checks a partition (topic id, index); both raise RefusedError.
        """
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
            key = body["groupId"], topic.name, each["partitionIndex"]
            committed = CommittedOffset(
                each["committedOffset"], each.get("committedLeaderEpoch", -1), each["committedMetadata"] or "", now_ms,
                topic_id=topic.id,
            )  # fmt: skip
            if "producerId" in body:
                self._put_pending(body["producerId"], key, committed)
            else:
                self._put(key, committed)
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

    def _put(self, key: tuple[str, str, int], committed: CommittedOffset) -> None:
        group_id, topic, partition = key
        known = self._of(group_id, topic)
        before = known.get(partition)
        known[partition] = committed
        self._size += _size_of(committed)
        if before is None:
            self._size += _OVERHEAD + len(group_id)
        else:
            self._size -= _size_of(before)
        for pending in self._pending.values():
            if pending.get(key) is not None:
                self._put_in(pending, key, None)

    def _put_pending(self, producer_id: int, key: tuple[str, str, int], committed: CommittedOffset) -> None:
        self._put_in(self._pending.setdefault(producer_id, {}), key, committed)

    def _put_in(
        self, pending: dict[tuple[str, str, int], CommittedOffset | None], key: tuple[str, str, int],
        committed: CommittedOffset | None,
    ) -> None:  # fmt: skip
        if key not in pending:
            self._size += _OVERHEAD + len(key[0])
        before = pending.get(key)
        self._size += _size_of(committed) - _size_of(before)
        pending[key] = committed

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        """Commit or forget the offsets of a producer's open transaction."""
        for key, committed in self._pending.pop(producer_id, {}).items():
            self._size -= _OVERHEAD + len(key[0]) + _size_of(committed)
            if is_committed and committed is not None:
                self._put(key, committed)

    # ---- OffsetFetch

    def fetch(self, body: Body, client: Client, check: Callable[[Body], None]) -> Body:
        """Answer OffsetFetch. `check` is called with each group of the request, and raises RefusedError.

        A group that is repeated is answered once, so that a small request cannot ask for an answer of any size.
        """
        unstable = {key for pending in self._pending.values() for key in pending} if body.get("requireStable") else set()
        if client.version >= _FIRST_WITH_GROUPS:
            wanted = {group["groupId"]: group for group in body["groups"]}
            groups = [self._fetch_group(group, client, check, unstable) for group in wanted.values()]
            return {"throttleTimeMs": 0, "groups": groups}
        found = self._fetch_group(body, client, check, unstable)
        return {"throttleTimeMs": 0, "topics": found["topics"], "errorCode": found["errorCode"]}

    def _fetch_group(
        self, group: Body, client: Client, check: Callable[[Body], None], unstable: Container[tuple[str, str, int]]
    ) -> Body:  # fmt: skip
        answer: Body = {"groupId": group["groupId"], "topics": [], "errorCode": 0}
        try:
            check(group)
        except RefusedError as refused:
            return answer | {"errorCode": int(refused.error)}
        group_id = group["groupId"]
        known = self._offsets.get(group_id, {})

        def fetched(topic: str | None, index: int, committed: CommittedOffset | None) -> Body:
            if topic is not None and (group_id, topic, index) in unstable:
                return _fetched(index, None) | {"errorCode": int(Error.UNSTABLE_OFFSET_COMMIT)}
            return _fetched(index, committed)

        if group["topics"] is None:
            return answer | {"topics": list(self._all(known, client, fetched))}
        answer["topics"] = [self._fetch_topic(one, known, client, fetched) for one in group["topics"]]
        return answer

    def _all(self, known: dict[str, dict[int, CommittedOffset]], client: Client, fetched: Fetched) -> Iterable[Body]:
        """Yield all offsets of a group; with topic ids only those of topics that are served."""
        for name, offsets in known.items():
            topic = self._topics.topics.get(name)
            topic_id = ZERO_ID if topic is None else topic.id
            if topic is not None or client.version < _FIRST_WITH_TOPIC_IDS:
                partitions = [fetched(name, index, committed) for index, committed in offsets.items()]
                yield _named({"name": name, "topicId": topic_id}, client) | {"partitions": partitions}

    def _fetch_topic(
        self, wanted: Body, known: dict[str, dict[int, CommittedOffset]], client: Client, fetched: Fetched
    ) -> Body:  # fmt: skip
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
            part = fetched(name, index, None if is_other else committed)
            partitions.append(part if error is Error.NONE else part | {"errorCode": int(error)})
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


def _size_of(committed: CommittedOffset | None) -> int:
    """Return the bytes of the text of an offset in memory."""
    return 0 if committed is None else len(committed.metadata.encode(errors="surrogatepass"))

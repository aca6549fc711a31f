"""Fetch, answered from log dirs: which partitions are read, in which order, within which limits, and when.

Mirrors KafkaApis.handleFetchRequest, ReplicaManager.readFromLog and DelayedFetch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from engine.log.fetch.reading import FetchIsolation
from engine.protocol.error_codes import Error
from engine.serve.partition_reads import close_slices, failed, read_partition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from engine.serve.catalogue import Catalogue, Partition, Topic
    from engine.serve.fetch_sessions import FetchSessions, Session

_MAX_FETCH_BYTES = 55 << 20  # fetch.max.bytes of a broker
_MAX_WAIT_MS = 30_000
_MOST_SLICES = 200  # open files of an answer: partitions after them get no records this time, as if maxBytes was reached
_FIRST_TOPIC_IDS = 13  # the version of Fetch from which on topics have ids


class _Asked(NamedTuple):
    """A partition that a request asks for. `name`: the topic as the answer names it, by name or id."""

    name: dict[str, str]
    key: tuple[str, int]
    partition: Partition | None
    error: Error
    fields: dict[str, Any]


class Fetching:
    """Answers Fetch requests. `wait`: waits some ms, less if the server ends."""

    def __init__(
        self, catalogue: Catalogue, sessions: FetchSessions, now_ms: Callable[[], int], wait: Callable[[int], None]
    ) -> None:
        self._catalogue, self._sessions, self._now_ms, self._wait = catalogue, sessions, now_ms, wait

    def answer(self, version: int, body: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a Fetch request. Its records are FileSlices, which the caller closes."""
        number, epoch = body.get("sessionId", 0), body.get("sessionEpoch", -1)
        session: Session | None = None
        if epoch in (0, -1):
            if number:
                self._sessions.end(number)
        else:
            found = self._sessions.find(number, epoch)
            if isinstance(found, Error):
                return _response([], found)
            session = found
        if body["isolationLevel"] not in (0, 1):
            asked = self._asked(version, body, None)
            parts = [(one, failed(one.key[1], Error.UNKNOWN_SERVER_ERROR, was_read=False)) for one in asked]
            return _response(parts, Error.UNKNOWN_SERVER_ERROR)
        if epoch == 0:
            session = self._sessions.begin() if body["topics"] else None
        parts = self._read_until_due(version, body, session)
        if session is None:
            return _response(parts)
        news = [(one, part) for one, part in parts if session.is_news(one.key, part)]
        if epoch != 0:  # the first answer of a session is complete, and does not change the order of its partitions
            parts = news
            for one, part in parts:
                if len(part["records"]):
                    session.put_last(one.key)
        self._sessions.bound()
        return _response(parts, session=session.number)

    def _asked(self, version: int, body: dict[str, Any], session: Session | None) -> list[_Asked]:
        """Return the partitions to read: those of the request, or with a session all of it, changed by the request."""
        is_by_id = version >= _FIRST_TOPIC_IDS
        name = "topicId" if is_by_id else "topic"
        asked: dict[tuple[str, int], dict[str, Any]] = {}  # the last one of a partition that is repeated
        if session is not None:
            asked = session.asked
            for topic in body.get("forgottenTopicsData", ()):
                for index in topic["partitions"]:
                    asked.pop((topic[name], index), None)
                    session.sent.pop((topic[name], index), None)
        for topic in body["topics"]:
            for fields in topic["partitions"]:
                asked[topic[name], fields["partition"]] = fields
        return [self._find({name: key[0]}, fields, is_by_id=is_by_id) for key, fields in list(asked.items())]

    def _find(self, topic: dict[str, Any], fields: dict[str, Any], *, is_by_id: bool) -> _Asked:
        name = "topicId" if is_by_id else "topic"
        found: Topic | None = self._catalogue.by_id(topic[name]) if is_by_id else self._catalogue.topics.get(topic[name])
        partition = None if found is None else found.partitions.get(fields["partition"])
        unknown = Error.UNKNOWN_TOPIC_ID if is_by_id and found is None else Error.UNKNOWN_TOPIC_OR_PARTITION
        error = Error.NONE if partition is not None else unknown
        return _Asked({name: topic[name]}, (topic[name], fields["partition"]), partition, error, fields)

    def _read_until_due(
        self, version: int, body: dict[str, Any], session: Session | None
    ) -> list[tuple[_Asked, dict[str, Any]]]:
        """Read; if there is less than minBytes, wait for more, up to maxWaitMs. Mirrors DelayedFetch."""
        asked = self._asked(version, body, session)
        most = min(body.get("maxBytes", _MAX_FETCH_BYTES), _MAX_FETCH_BYTES)
        least, due = min(body["minBytes"], most), self._now_ms() + min(max(body["maxWaitMs"], 0), _MAX_WAIT_MS)
        while True:
            parts = list(_read(asked, body, most))
            is_enough = sum(len(part["records"]) for _, part in parts) >= least or not asked
            left = due - self._now_ms()
            if is_enough or left <= 0 or any(part["errorCode"] or "divergingEpoch" in part for _, part in parts):
                return parts
            close_slices(part for _, part in parts)
            self._wait(min(left, 100) if self._catalogue.is_followed else left)


def _read(asked: Iterable[_Asked], body: dict[str, Any], most: int) -> Iterator[tuple[_Asked, dict[str, Any]]]:
    """Read the partitions in order, within the limits of the request. Mirrors ReplicaManager.readFromLog."""
    replica = body.get("replicaId", -1)
    if replica == -1:
        replica = (body.get("replicaState") or {}).get("replicaId", -1)
    isolation = FetchIsolation.READ_COMMITTED if body["isolationLevel"] else FetchIsolation.HIGH_WATERMARK
    left, is_whole, slices = most, True, 0
    for one in asked:
        index = one.fields["partition"]
        if one.partition is None:
            yield one, failed(index, one.error, was_read=False)
        elif replica >= 0:
            yield one, failed(index, Error.NOT_LEADER_OR_FOLLOWER, was_read=True)
        else:
            limit = max(0, min(one.fields["partitionMaxBytes"], left)) if slices < _MOST_SLICES else 0
            part = read_partition(one.partition, one.fields, limit, isolation, whole=is_whole)
            size = len(part["records"])
            is_whole, slices = is_whole and not size, slices + (size > 0)
            left = max(0, left - size)
            yield one, part


def _response(parts: Iterable[tuple[_Asked, dict[str, Any]]], error: Error = Error.NONE, session: int = 0) -> dict[str, Any]:
    topics: list[dict[str, Any]] = []
    for one, part in parts:
        if not topics or any(topics[-1][name] != value for name, value in one.name.items()):
            topics.append({**one.name, "partitions": []})
        topics[-1]["partitions"].append(part)
    return {"throttleTimeMs": 0, "errorCode": int(error), "sessionId": session, "responses": topics}

"""Fetch and ListOffsets, answered from log dirs. Mirrors KafkaApis.handleFetchRequest, ReplicaManager and FetchSession.

A request is a dict with the names of Kafka's JSON, an answer too; records are slices of files (FileSlice), never read here.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.errors import KafkalogError
from engine.formats import BATCH_HEADER, HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD
from engine.log.errors import CorruptRecord, OffsetOutOfRange
from engine.log.fetch.reading import (
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    FetchIsolation,
    read,
)
from engine.protocol.error_codes import Error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from engine.files import OpenFile
    from engine.log.fetch.reading import FetchData, ReadableLog
    from engine.serve.catalogue import Catalogue, Partition, Topic

_MAX_FETCH_BYTES = 55 << 20  # fetch.max.bytes of a broker
MAX_WAIT_MS = 30_000
_FIRST_TOPIC_IDS = 13  # the version of Fetch from which on topics have ids
_SESSIONS = 200  # at most; Kafka: max.incremental.fetch.session.cache.slots
_MOST_IN_MEMORY = 1 << 20  # bytes
_LAST_EPOCH = 0x7FFFFFFF  # of a session; 1 follows


class FileSlice:
    """Records: `size` bytes of a file from byte `position` on. Close it after the answer is sent."""

    __slots__ = ("_file", "position", "size")

    def __init__(self, file: OpenFile, position: int, size: int) -> None:
        self._file, self.position, self.size = file, position, size

    def __len__(self) -> int:
        return self.size

    def send(self, descriptor: int) -> None:
        """Write the bytes to a socket. See OpenFile.send."""
        self._file.send(descriptor, self.position, self.size)

    def close(self) -> None:
        """Release the file."""
        self._file.close()


# ---- one partition


def _epoch_error(partition: Partition, epoch: int) -> Error:
    """Compare the leader epoch that a client knows with ours (Partition.checkCurrentLeaderEpoch); −1: it knows none."""
    if epoch < 0 or epoch == partition.leader_epoch:
        return Error.NONE
    return Error.FENCED_LEADER_EPOCH if epoch < partition.leader_epoch else Error.UNKNOWN_LEADER_EPOCH


def error_of(error: KafkalogError) -> Error:
    """Return the code with which a broker answers an error of a read."""
    if isinstance(error, OffsetOutOfRange):
        return Error.OFFSET_OUT_OF_RANGE
    return Error.CORRUPT_MESSAGE if isinstance(error, CorruptRecord) else Error.KAFKA_STORAGE_ERROR


def _failed(index: int, error: Error, *, was_read: bool) -> dict[str, Any]:
    """Return the answer for a partition without data. `was_read`: the error came from the log, not from looking it up."""
    return {
        "partitionIndex": index, "errorCode": int(error), "highWatermark": -1, "lastStableOffset": -1, "logStartOffset": -1,
        "abortedTransactions": None if was_read else [], "preferredReadReplica": -1, "records": b"",
    }  # fmt: skip


def _end_of_epoch(log: ReadableLog, epoch: int) -> tuple[int, int]:
    """Return (the largest epoch up to `epoch`, its end offset); (−1, −1): unknown. Mirrors endOffsetFor."""
    entries = log.leader_epoch_cache.entries
    if entries and epoch == entries[-1].epoch:
        return epoch, log.log_end_offset
    later = [entry for entry in entries if entry.epoch > epoch]
    earlier = [entry for entry in entries if entry.epoch <= epoch]
    if not later:
        return -1, -1
    if not earlier:
        return epoch, later[0].start_offset
    return earlier[-1].epoch, later[0].start_offset


def _diverging(log: ReadableLog, epoch: int, offset: int) -> dict[str, int] | None:
    """Return where the log of a follower that read `epoch` before `offset` diverges from ours; None: nowhere."""
    found, end = _end_of_epoch(log, epoch)
    if found == end == -1:
        raise OffsetOutOfRange(f"no end offset is known of leader epoch {epoch}")
    if found < epoch or end < offset:
        return {"epoch": found, "endOffset": end}
    return None


def _read_partition(
    partition: Partition, asked: dict[str, Any], limit: int, isolation: FetchIsolation, *, whole: bool
) -> dict[str, Any]:
    """Read one partition → its part of the answer. `whole`: return the first batch completely, whatever the limit."""
    index = asked["partition"]
    try:
        error = _epoch_error(partition, asked.get("currentLeaderEpoch", -1))
        if error is not Error.NONE:
            return _failed(index, error, was_read=True)
        with partition.log() as log:
            answer = {
                "partitionIndex": index, "errorCode": 0,
                "highWatermark": log.fetch_high_watermark_metadata().message_offset,
                "lastStableOffset": log.fetch_last_stable_offset_metadata().message_offset,
                "logStartOffset": log.log_start_offset, "abortedTransactions": None, "preferredReadReplica": -1,
                "records": b"",
            }  # fmt: skip
            if asked.get("lastFetchedEpoch", -1) >= 0:
                diverging = _diverging(log, asked["lastFetchedEpoch"], asked["fetchOffset"])
                if diverging is not None:
                    answer["divergingEpoch"] = diverging
                    return answer
            found = read(log, asked["fetchOffset"], limit, isolation, min_one_message=whole)
            _put_records(answer, found)
            partition.note_read(found.segment)
            return answer
    except KafkalogError as failure:
        partition.note(failure)
        return _failed(index, error_of(failure), was_read=True)


def _put_records(answer: dict[str, Any], found: FetchData) -> None:
    if found.aborted is not None:
        answer["abortedTransactions"] = [
            {"producerId": one.producer_id, "firstOffset": one.first_offset} for one in found.aborted
        ]
    file = found.file
    if file is not None and not found.first_entry_incomplete:
        own, position = file.duplicate(), found.place.position or 0
        answer["records"] = _in_memory(file, position, found.size) if own is None else FileSlice(own, position, found.size)


def _in_memory(file: OpenFile, position: int, size: int) -> bytes:
    """Read records that are not in a file of this machine: at least the first batch, and no more than 1 MiB of others."""
    first = LOG_OVERHEAD + BATCH_HEADER.field("batch_length", file.read_exactly(position, HEADER_SIZE_UP_TO_MAGIC))
    return file.read_exactly(position, min(size, max(first, _MOST_IN_MEMORY)))


# ---- sessions


class _Session:
    """The partitions of an incremental fetch session, in the order in which they are answered. Mirrors FetchSession."""

    def __init__(self, number: int) -> None:
        self.number, self.epoch = number, 1
        self.asked: dict[tuple[str, int], dict[str, Any]] = {}
        self.sent: dict[tuple[str, int], tuple[int, int]] = {}  # high watermark, log start offset; missing: none yet

    def is_news(self, key: tuple[str, int], answer: dict[str, Any]) -> bool:
        """Return whether the answer of a partition has news for the client; note it as sent (maybeUpdateResponseData)."""
        marks = answer["highWatermark"], answer["logStartOffset"]
        if answer["errorCode"]:
            self.sent.pop(key, None)
            return True
        is_news = len(answer["records"]) > 0 or self.sent.get(key) != marks or "divergingEpoch" in answer
        self.sent[key] = marks
        return is_news

    def put_last(self, key: tuple[str, int]) -> None:
        """Answer a partition that had data last the next time, so that every partition gets its turn."""
        self.asked[key] = self.asked.pop(key)


class FetchSessions:
    """The sessions of all connections. Beyond 200 of them the oldest one ends: its client begins a new one."""

    def __init__(self, random: Callable[[], int]) -> None:
        self._random = random  # a positive int32
        self._sessions: dict[int, _Session] = {}
        self._lock = Lock()

    def begin(self) -> _Session:
        """Begin a session."""
        with self._lock:
            number = self._random()
            while number in self._sessions:
                number = self._random()
            while len(self._sessions) >= _SESSIONS:
                del self._sessions[next(iter(self._sessions))]
            session = self._sessions[number] = _Session(number)
            return session

    def find(self, number: int, epoch: int) -> _Session | Error:
        """Return the session for its next request."""
        with self._lock:
            session = self._sessions.get(number)
            if session is None:
                return Error.FETCH_SESSION_ID_NOT_FOUND
            if epoch != session.epoch:
                return Error.INVALID_FETCH_SESSION_EPOCH
            session.epoch = 1 if epoch == _LAST_EPOCH else epoch + 1
            return session

    def end(self, number: int) -> None:
        """End a session, if there is one with this number."""
        with self._lock:
            self._sessions.pop(number, None)


# ---- Fetch


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
        session: _Session | None = None
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
            parts = [(one, _failed(one.key[1], Error.UNKNOWN_SERVER_ERROR, was_read=False)) for one in asked]
            return _response(parts, Error.UNKNOWN_SERVER_ERROR)
        if epoch == 0:
            session = self._sessions.begin() if body["topics"] else None
        parts = self._read_until_due(version, body, session)
        if session is None:
            return _response(parts)
        if epoch != 0:
            parts = [(one, part) for one, part in parts if session.is_news(one.key, part)]
        else:
            for one, part in parts:
                session.is_news(one.key, part)
        for one, part in parts:
            if len(part["records"]):
                session.put_last(one.key)
        return _response(parts, session=session.number)

    def _asked(self, version: int, body: dict[str, Any], session: _Session | None) -> list[_Asked]:
        """Return the partitions to read: those of the request, or with a session all of it, changed by the request."""
        is_by_id = version >= _FIRST_TOPIC_IDS
        if session is None:
            return [self._find(topic, fields, is_by_id=is_by_id) for topic in body["topics"] for fields in topic["partitions"]]
        name = "topicId" if is_by_id else "topic"
        for topic in body.get("forgottenTopicsData", ()):
            for index in topic["partitions"]:
                session.asked.pop((topic[name], index), None)
                session.sent.pop((topic[name], index), None)
        for topic in body["topics"]:
            for fields in topic["partitions"]:
                session.asked[topic[name], fields["partition"]] = fields
        return [self._find({name: key[0]}, fields, is_by_id=is_by_id) for key, fields in session.asked.items()]

    def _find(self, topic: dict[str, Any], fields: dict[str, Any], *, is_by_id: bool) -> _Asked:
        name = "topicId" if is_by_id else "topic"
        found: Topic | None = self._catalogue.by_id(topic[name]) if is_by_id else self._catalogue.topics.get(topic[name])
        partition = None if found is None else found.partitions.get(fields["partition"])
        unknown = Error.UNKNOWN_TOPIC_ID if is_by_id and found is None else Error.UNKNOWN_TOPIC_OR_PARTITION
        error = Error.NONE if partition is not None else unknown
        return _Asked({name: topic[name]}, (topic[name], fields["partition"]), partition, error, fields)

    def _read_until_due(
        self, version: int, body: dict[str, Any], session: _Session | None
    ) -> list[tuple[_Asked, dict[str, Any]]]:
        """Read; if there is less than minBytes, wait for more, up to maxWaitMs. Mirrors DelayedFetch."""
        asked = self._asked(version, body, session)
        most = min(body.get("maxBytes", _MAX_FETCH_BYTES), _MAX_FETCH_BYTES)
        least, due = min(body["minBytes"], most), self._now_ms() + min(max(body["maxWaitMs"], 0), MAX_WAIT_MS)
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
    left, is_whole = most, True
    for one in asked:
        index = one.fields["partition"]
        if one.partition is None:
            yield one, _failed(index, one.error, was_read=False)
        elif replica >= 0:
            yield one, _failed(index, Error.NOT_LEADER_OR_FOLLOWER, was_read=True)
        else:
            limit = max(0, min(one.fields["partitionMaxBytes"], left))
            part = _read_partition(one.partition, one.fields, limit, isolation, whole=is_whole)
            size = len(part["records"])
            is_whole = is_whole and not size
            left = max(0, left - size)
            yield one, part


def close_slices(parts: Iterable[dict[str, Any]]) -> None:
    """Release the files of the records in parts of an answer."""
    for part in parts:
        if isinstance(part["records"], FileSlice):
            part["records"].close()


def _response(parts: Iterable[tuple[_Asked, dict[str, Any]]], error: Error = Error.NONE, session: int = 0) -> dict[str, Any]:
    topics: list[dict[str, Any]] = []
    for one, part in parts:
        if not topics or any(topics[-1][name] != value for name, value in one.name.items()):
            topics.append({**one.name, "partitions": []})
        topics[-1]["partitions"].append(part)
    return {"throttleTimeMs": 0, "errorCode": int(error), "sessionId": session, "responses": topics}


# ---- ListOffsets

_SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}  # special timestamps
_LEADER_EPOCHS = 4  # the first version of ListOffsets with leader epochs
_LOWEST_SPECIAL = EARLIEST_PENDING_UPLOAD


def list_offsets(catalogue: Catalogue, version: int, body: dict[str, Any]) -> dict[str, Any]:
    """Answer a ListOffsets request. Mirrors ReplicaManager.fetchOffset."""
    is_committed = bool(body.get("isolationLevel", 0))
    topics = []
    for topic in body["topics"]:
        known = catalogue.topics.get(topic["name"])
        partitions = {} if known is None else known.partitions
        parts = [_offset(partitions.get(one["partitionIndex"]), version, one, is_committed) for one in topic["partitions"]]
        topics.append({"name": topic["name"], "partitions": parts})
    return {"throttleTimeMs": 0, "topics": topics}


def _offset(partition: Partition | None, version: int, asked: dict[str, Any], is_committed: bool) -> dict[str, Any]:
    part = {"partitionIndex": asked["partitionIndex"], "errorCode": 0, "timestamp": -1, "offset": -1, "leaderEpoch": -1}
    timestamp = asked["timestamp"]
    if partition is None:
        return part | {"errorCode": int(Error.UNKNOWN_TOPIC_OR_PARTITION)}
    if timestamp < _LOWEST_SPECIAL or version < _SINCE.get(timestamp, 0):
        return part | {"errorCode": int(Error.UNSUPPORTED_VERSION)}
    try:
        error = _epoch_error(partition, asked.get("currentLeaderEpoch", -1))
        if error is not Error.NONE:
            return part | {"errorCode": int(error)}
        with partition.log() as log:
            stable = log.fetch_last_stable_offset_metadata() if is_committed else log.fetch_high_watermark_metadata()
            found = log.offset_by_timestamp(timestamp)
            if found is None:
                return part
            offset = found.offset
            if timestamp == LATEST:
                offset = stable.message_offset
            elif timestamp >= 0 and offset >= stable.message_offset:
                return part
            part |= {"timestamp": found.timestamp, "offset": offset}
            if version >= _LEADER_EPOCHS and found.leader_epoch is not None:
                part["leaderEpoch"] = found.leader_epoch
            return part
    except KafkalogError as failure:
        partition.note(failure)
        return part | {"errorCode": int(error_of(failure))}

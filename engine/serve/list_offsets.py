"""ListOffsets and OffsetForLeaderEpoch: offsets by timestamp, ends of logs and of leader epochs. Mirrors ReplicaManager."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from engine.errors import KafkalogError
from engine.log.fetch.reading import (
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
)
from engine.protocol.error_codes import Error
from engine.serve.partition_reads import end_of_epoch, epoch_error, error_of

if TYPE_CHECKING:
    from engine.serve.catalogue import Catalogue, Partition

_SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}  # special timestamps
_LEADER_EPOCHS = 4  # the first version of ListOffsets with leader epochs
_LOWEST_SPECIAL = EARLIEST_PENDING_UPLOAD


def list_offsets(catalogue: Catalogue, version: int, body: dict[str, Any]) -> dict[str, Any]:
    """Answer a ListOffsets request: an error for a partition that it repeats. Mirrors ReplicaManager.fetchOffset."""
    is_committed = bool(body.get("isolationLevel", 0))
    times = Counter((topic["name"], one["partitionIndex"]) for topic in body["topics"] for one in topic["partitions"])
    asked = {(topic["name"], one["partitionIndex"]): one for topic in body["topics"] for one in topic["partitions"]}
    topics: dict[str, list[dict[str, Any]]] = {}
    for (name, index), one in asked.items():
        known = catalogue.topics.get(name)
        partition = None if known is None else known.partitions.get(index)
        repeated = _no_offset(index, Error.INVALID_REQUEST)
        part = repeated if times[name, index] > 1 else _offset(partition, version, one, is_committed)
        topics.setdefault(name, []).append(part)
    return {"throttleTimeMs": 0, "topics": [{"name": name, "partitions": parts} for name, parts in topics.items()]}


def _no_offset(index: int, error: Error) -> dict[str, Any]:
    return {"partitionIndex": index, "errorCode": int(error), "timestamp": -1, "offset": -1, "leaderEpoch": -1}


def _offset(partition: Partition | None, version: int, asked: dict[str, Any], is_committed: bool) -> dict[str, Any]:
    part = _no_offset(asked["partitionIndex"], Error.NONE)
    timestamp = asked["timestamp"]
    if partition is None:
        return part | {"errorCode": int(Error.UNKNOWN_TOPIC_OR_PARTITION)}
    if timestamp < _LOWEST_SPECIAL or version < _SINCE.get(timestamp, 0):
        return part | {"errorCode": int(Error.UNSUPPORTED_VERSION)}
    try:
        error = epoch_error(partition, asked.get("currentLeaderEpoch", -1))
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


def offsets_for_leader_epochs(catalogue: Catalogue, body: dict[str, Any]) -> dict[str, Any]:
    """Answer an OffsetForLeaderEpoch request: where leader epochs end. Mirrors ReplicaManager.lastOffsetForLeaderEpoch."""
    topics = []
    for topic in body["topics"]:
        known = catalogue.topics.get(topic["topic"])
        partitions = {} if known is None else known.partitions
        parts = [_end_of_epoch(partitions.get(one["partition"]), one) for one in topic["partitions"]]
        topics.append({"topic": topic["topic"], "partitions": parts})
    return {"throttleTimeMs": 0, "topics": topics}


def _end_of_epoch(partition: Partition | None, asked: dict[str, Any]) -> dict[str, Any]:
    part = {"partition": asked["partition"], "errorCode": 0, "leaderEpoch": -1, "endOffset": -1}
    if partition is None:
        return part | {"errorCode": int(Error.UNKNOWN_TOPIC_OR_PARTITION)}
    try:
        error = epoch_error(partition, asked["currentLeaderEpoch"])
        if error is not Error.NONE or asked["leaderEpoch"] < 0:
            return part | {"errorCode": int(error)}
        with partition.log() as log:
            epoch, end = end_of_epoch(log, partition.leader_epoch, asked["leaderEpoch"])
        return part | {"leaderEpoch": epoch, "endOffset": end}
    except KafkalogError as failure:
        partition.note(failure)
        return part | {"errorCode": int(error_of(failure))}

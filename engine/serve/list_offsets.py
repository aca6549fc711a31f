"""ListOffsets: offsets by timestamp, and the ends of logs. Mirrors ReplicaManager.fetchOffset.

It stands alone because it is the only API that searches by timestamp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.errors import KafkalogError
from engine.log.fetch.reading import (
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
)
from engine.serve.errors import Error
from engine.serve.partition_reads import epoch_error, error_of

if TYPE_CHECKING:
    from engine.serve.catalogue import Catalogue, Partition

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

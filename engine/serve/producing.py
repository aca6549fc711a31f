"""Produce requests, answered as by a leader: checks records, appends them, and returns the answer to the producer.

Mirrors KafkaApis.handleProduceRequest, ProduceRequest.validateRecords and ReplicaManager.appendToLocalLog.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from engine.errors import KafkalogError
from engine.formats import BATCH_HEADER as _HEADER
from engine.formats import CODEC_MASK, HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD, MAGIC_V2, TRANSACTIONAL_FLAG, Codec
from engine.log import append_errors as appends
from engine.log.append.analysis import append_as_leader
from engine.protocol.error_codes import Error, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from engine.log.append.analysis import LogAppendInfo
    from engine.log.partition.unified_log import UnifiedLog

_FIRST_ZSTD, _FIRST_ERRORS, FIRST_TOPIC_IDS = 7, 8, 13  # versions of Produce
_SMALLEST_BATCH = 14  # bytes after the size field: the smallest message of any format (Records.RECORD_OVERHEAD_V0)
_ACKS = (-1, 0, 1)

# the code of each error of an append; the first group is answered without log start offset (ReplicaManager.appendToLocalLog)
_CODES_WITHOUT_LOG: dict[type[KafkalogError], Error] = {
    appends.CorruptRecord: Error.CORRUPT_MESSAGE, appends.RecordTooLarge: Error.MESSAGE_TOO_LARGE,
    appends.RecordBatchTooLarge: Error.RECORD_LIST_TOO_LARGE,
}  # fmt: skip
_CODES: dict[type[KafkalogError], Error] = {
    appends.InvalidRecord: Error.INVALID_RECORD, appends.InvalidTimestamp: Error.INVALID_TIMESTAMP,
    appends.UnsupportedCompressionType: Error.UNSUPPORTED_COMPRESSION_TYPE,
    appends.OutOfOrderSequence: Error.OUT_OF_ORDER_SEQUENCE_NUMBER, appends.InvalidProducerEpoch: Error.INVALID_PRODUCER_EPOCH,
    appends.InvalidTxnState: Error.INVALID_TXN_STATE,
}  # fmt: skip


class _Unreadable(Exception):
    """The bytes of a batch that a broker cannot read at all: it answers all partitions of the request with this error."""


class Unanswered(Exception):
    """A request to which a broker never answers."""


class PartitionLogs(Protocol):
    """The logs to which a request appends."""

    def log(self, topic: dict[str, Any], index: int) -> AbstractContextManager[UnifiedLog | Error]:
        """Hold the open log of a partition; `topic` has its `name` or `topicId`. Raises KafkalogError."""

    def check_transaction(self, transactional_id: str, batch: Batch, topic: dict[str, Any], index: int) -> Error:
        """Return NONE if the batch belongs to the open transaction of that id, which includes the partition."""


class Batch(NamedTuple):
    """The first batch of a partition's records."""

    size: int
    magic: int
    attributes: int
    producer_id: int
    producer_epoch: int


def _batches(records: memoryview) -> Iterator[Batch]:
    """Yield the whole batches at the start of `records`. Raises _Unreadable. Mirrors ByteBufferLogInputStream."""
    at = 0
    while len(records) - at >= LOG_OVERHEAD:
        size = int.from_bytes(records[at + 8 : at + 12], "big", signed=True)
        if size < _SMALLEST_BATCH:
            raise _Unreadable(f"Record size {size} is less than the minimum record overhead ({_SMALLEST_BATCH})")
        if len(records) - at < HEADER_SIZE_UP_TO_MAGIC:
            return
        magic = int.from_bytes(records[at + 16 : at + 17], "big", signed=True)
        if not 0 <= magic <= MAGIC_V2:
            raise _Unreadable(f"Invalid magic found in record: {magic}")
        if len(records) - at < LOG_OVERHEAD + size:
            return
        whole = records[at : at + LOG_OVERHEAD + size]
        if magic < MAGIC_V2 or len(whole) < _HEADER.size:
            yield Batch(len(whole), magic, 0, -1, -1)
        else:
            found = _HEADER.read(whole)
            yield Batch(len(whole), magic, found.attributes, found.producer_id, found.producer_epoch)
        at += len(whole)


def _checked(records: memoryview, version: int) -> Batch:
    """Return the only batch of a partition's records. Raises RefusedError, _Unreadable (ProduceRequest.validateRecords)."""
    batches = _batches(records)
    first = next(batches, None)
    if first is None or first.magic != MAGIC_V2:
        raise RefusedError(Error.INVALID_RECORD)
    if version < _FIRST_ZSTD and first.attributes & CODEC_MASK == Codec.ZSTD:
        raise RefusedError(Error.UNSUPPORTED_COMPRESSION_TYPE)
    if next(batches, None) is not None:
        raise RefusedError(Error.INVALID_RECORD)
    return first


class Producing:
    """Answers Produce requests.

    logs  finds the log of each partition
    """

    def __init__(self, logs: PartitionLogs) -> None:
        self._logs = logs

    def answer(self, version: int, body: dict[str, Any]) -> dict[str, Any]:
        """Append, and return the answer, also if the producer wants none. Raises Unanswered for records that are null."""
        if any(one["records"] is None for topic in body["topicData"] for one in topic["partitionData"]):
            raise Unanswered("its records are null: a broker never answers")
        name = "topicId" if version >= FIRST_TOPIC_IDS else "name"
        try:
            answers = self._answers(version, body, name)
        except _Unreadable as error:
            answers = {(topic[name], one["index"]): _part(one["index"], Error.CORRUPT_MESSAGE, message=str(error))
                       for topic in body["topicData"] for one in topic["partitionData"]}  # fmt: skip
        topics: dict[str, list[dict[str, Any]]] = {}
        for (topic, _), part in answers.items():
            topics.setdefault(topic, []).append(part)
        responses = [{name: topic, "partitionResponses": parts} for topic, parts in topics.items()]
        return {"responses": responses, "throttleTimeMs": 0}

    def _answers(self, version: int, body: dict[str, Any], name: str) -> dict[tuple[str, int], dict[str, Any]]:
        asked = {(topic[name], one["index"]): (topic, memoryview(one["records"]))
                 for topic in body["topicData"] for one in topic["partitionData"]}  # fmt: skip
        firsts = {key: next(_batches(records), None) for key, (_, records) in asked.items()}
        transactional = [one for one in firsts.values() if one is not None and one.attributes & TRANSACTIONAL_FLAG]
        if transactional and body["transactionalId"] is None:
            return {key: _part(key[1], Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED) for key in asked}
        answers = {}
        for key, (topic, records) in asked.items():
            answers[key] = self._append(version, body, topic, key[1], records)
        return answers

    def _append(
        self, version: int, body: dict[str, Any], topic: dict[str, Any], index: int, records: memoryview
    ) -> dict[str, Any]:  # fmt: skip
        """Append the records of one partition → its part of the answer."""
        try:
            with self._logs.log(topic, index) as log:
                if isinstance(log, Error):
                    return _part(index, log)
                return self._append_to(log, version, body, topic, index, records)
        except RefusedError as error:
            return _part(index, error.error)
        except KafkalogError:
            return _part(index, Error.KAFKA_STORAGE_ERROR)

    def _append_to(
        self, log: UnifiedLog, version: int, body: dict[str, Any], topic: dict[str, Any], index: int, records: memoryview
    ) -> dict[str, Any]:  # fmt: skip
        """As `_append`, to an open log. Raises RefusedError, KafkalogError."""
        batch = _checked(records, version)
        if body["acks"] not in _ACKS:
            return _part(index, Error.INVALID_REQUIRED_ACKS)
        transactional_id = body["transactionalId"]
        if transactional_id is not None and batch.attributes & TRANSACTIONAL_FLAG and batch.producer_id >= 0:
            error = self._logs.check_transaction(transactional_id, batch, topic, index)
            if error is not Error.NONE:
                return _part(index, error)
        try:
            info = append_as_leader(log, records[: batch.size], log.leader_epoch_cache.latest_epoch or 0)
        except KafkalogError as failure:
            return _refused(index, failure, log, version)
        return _accepted(index, info, log)


def _part(
    index: int, error: Error, *, message: str | None = None, log_start_offset: int = -1, base_offset: int = -1
) -> dict[str, Any]:  # fmt: skip
    return {
        "index": index, "errorCode": int(error), "baseOffset": base_offset, "logAppendTimeMs": -1,
        "logStartOffset": log_start_offset, "recordErrors": [], "errorMessage": message,
    }  # fmt: skip


def _accepted(index: int, info: LogAppendInfo, log: UnifiedLog) -> dict[str, Any]:
    part = _part(index, Error.NONE, base_offset=info.first_offset, log_start_offset=log.log_start_offset)
    return part | {"logAppendTimeMs": info.log_append_time}


def _refused(index: int, error: KafkalogError, log: UnifiedLog, version: int) -> dict[str, Any]:
    """The answer for a refused append. What no rule of Kafka foresees, such as broken compressed data, is a server's error."""
    if isinstance(error, appends.RecordValidationFailed):
        cause = error.cause
        part = _part(index, _CODES.get(type(cause), Error.UNKNOWN_SERVER_ERROR), log_start_offset=log.log_start_offset)
        if version >= _FIRST_ERRORS:
            part["errorMessage"] = str(cause)
            part["recordErrors"] = [{"batchIndex": at, "batchIndexErrorMessage": text} for at, text in error.records]
        return part
    if type(error) in _CODES_WITHOUT_LOG:
        return _part(index, _CODES_WITHOUT_LOG[type(error)])
    return _part(index, _CODES.get(type(error), Error.UNKNOWN_SERVER_ERROR), log_start_offset=log.log_start_offset)


def failed(answer: dict[str, Any]) -> bool:
    """Return whether a part of the answer is an error: with acks=0 a broker then ends the connection."""
    return any(one["errorCode"] for topic in answer["responses"] for one in topic["partitionResponses"])


def refused_produce(version: int, body: dict[str, Any]) -> dict[str, Any]:
    """Answer Produce of a read-only server: an error for each partition. Mirrors ProduceRequest.getErrorResponse."""
    name = "topicId" if version >= FIRST_TOPIC_IDS else "name"
    responses = [
        {name: topic[name], "partitionResponses": [
            _part(one["index"], Error.POLICY_VIOLATION, message="kafkalog serve is read-only")
            for one in topic["partitionData"]]}
        for topic in body["topicData"]
    ]  # fmt: skip
    return {"responses": responses, "throttleTimeMs": 0}

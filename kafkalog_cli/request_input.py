"""Produce requests as input of append: each gets the answer that the partition's leader would give."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from engine.discovery.names import partition_of
from engine.errors import KafkalogError
from engine.files import Files
from engine.formats import BATCH_HEADER, ControlType
from engine.log.append.frames import Appended, Outcome
from engine.log.append.intake import end_transaction
from engine.protocol.error_codes import Error
from engine.protocol.frames import FrameReader, decode_request, decode_request_header
from engine.protocol.messages import Api
from engine.record.assembly import BatchSpec
from engine.schema.wire import SchemaError
from engine.serve.catalogue import topic_id_of
from engine.serve.producing import Producing, Unanswered
from engine.serve.transactions import FIRST_WITH_OWN_EPOCH

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from engine.log.append.intake import Intake
    from engine.log.partition.unified_log import UnifiedLog
    from engine.protocol.frames import Request
    from engine.serve.producing import Batch

_LARGEST = 100 << 20  # bytes: socket.request.max.bytes

Answered = dict[str, Any]  # the answer for one partition, with the request's number and client


def answer_text(answer: Answered) -> str:
    """Return the answer to the producer, as a line."""
    where = f"request {answer['request']}, partition {answer['topic'] or answer['topic_id']}-{answer['index']}"
    if not answer["error_code"]:
        return f"{where}: accepted from offset {answer['base_offset']} on"
    errors = "".join(f"; record {one['record']}: {one['message']}" for one in answer["record_errors"])
    message = "" if answer["error_message"] is None else f": {answer['error_message']}"
    return f"{where}: refused with {answer['error']} ({answer['error_code']}){message}{errors}"


class RequestsInvalid(KafkalogError):
    """The input is not a file of requests."""

    code = "requests-invalid"


class _OneLog:
    """The log of one partition. See PartitionLogs."""

    def __init__(self, log: UnifiedLog) -> None:
        self._log = log
        self._partition = partition_of(Files().absolute(f"{log.directory}/x"))
        self._id = topic_id_of(Files(), log.directory)

    def log(self, topic: dict[str, Any], index: int) -> AbstractContextManager[UnifiedLog | Error]:
        """See PartitionLogs."""
        return nullcontext(self._find(topic, index))

    def _find(self, topic: dict[str, Any], index: int) -> UnifiedLog | Error:
        is_by_id, known = not topic.get("name"), self._partition
        if is_by_id and topic["topicId"] != self._id:
            return Error.UNKNOWN_TOPIC_ID
        if known is None or index != known.partition or (not is_by_id and topic["name"] != known.topic):
            return Error.UNKNOWN_TOPIC_OR_PARTITION
        return self._log

    def check_transaction(self, _transactional_id: str, _batch: Batch, _topic: dict[str, Any], _index: int) -> Error:
        """Return NONE: there is no coordinator, so every producer may use every transactional id."""
        return Error.NONE


class RequestAppender:
    """Appends the Produce requests of the input, and the markers that its EndTxn requests ask for. See Appender, Intake.

    answered  called with the answer for each partition of a request
    skipped   number of requests of other APIs
    """

    unit, parts = "record", "request"

    def __init__(self, log: UnifiedLog, answered: Callable[[Answered], object]) -> None:
        self.intake: Intake = self
        self.appended, self.skipped = Outcome(), 0
        self._log, self._answered = log, answered
        self._producing = Producing(_OneLog(log))
        self._frames, self._number = FrameReader(_LARGEST), 0

    def end_transaction(self, kind: str) -> Appended:
        """Not called: requests end their own transactions."""
        raise AssertionError(kind)

    def is_whole(self, _data: bytearray, seen: int, filled: int) -> bool:
        """See Intake: incomplete requests are taken too."""
        return filled > seen

    def take(self, data: bytearray, *, is_last: bool) -> int:
        """See Intake. Raises RequestsInvalid."""
        try:
            for frame in self._frames.feed(bytes(data)):
                self._take(frame.data)
            if is_last:
                self._frames.end()
        except SchemaError as error:
            what = f"request {self._number}: {error}"
            raise RequestsInvalid(what, "kafkalog requests FILE    # shows its messages") from error
        return len(data)

    def _take(self, frame: memoryview) -> None:
        header, _ = decode_request_header(frame)
        if header.api_key == Api.PRODUCE:
            self._produce(decode_request(frame))
        elif header.api_key == Api.END_TXN:
            self._end_txn(decode_request(frame))
        else:
            self.skipped += 1
        self._number += 1

    def _produce(self, request: Request) -> None:
        end = self._log.log_end_offset
        try:
            answer = self._producing.answer(request.header.api_version, request.body)
        except Unanswered as error:
            raise RequestsInvalid(f"request {self._number}: {error}") from error
        sent = {(topic.get("name") or topic["topicId"], part["index"]): part["records"]
                for topic in request.body["topicData"] for part in topic["partitionData"]}  # fmt: skip
        for topic in answer["responses"]:
            for part in topic["partitionResponses"]:
                self._note(part, end, sent[topic.get("name") or topic["topicId"], part["index"]])
                self._answered({
                    "request": self._number, "client_id": request.header.client_id, "topic": topic.get("name"),
                    "topic_id": topic.get("topicId"), "index": part["index"], "error_code": part["errorCode"],
                    "error": Error(part["errorCode"]).name, "base_offset": part["baseOffset"],
                    "log_append_time_ms": part["logAppendTimeMs"], "log_start_offset": part["logStartOffset"],
                    "error_message": part["errorMessage"],
                    "record_errors": [{"record": one["batchIndex"], "message": one["batchIndexErrorMessage"]}
                                      for one in part["recordErrors"]],
                })  # fmt: skip

    def _note(self, part: dict[str, Any], end: int, records: memoryview) -> None:
        """Note what was appended. `end`: the log end offset before. `records`: those that were sent."""
        first = part["baseOffset"]
        if part["errorCode"] == Error.NONE and first < end:
            self.appended.append(Appended(first, first + BATCH_HEADER.field("last_offset_delta", records), is_duplicate=True))
        elif part["errorCode"] == Error.NONE:
            self.appended.append(Appended(first, self._log.log_end_offset - 1))

    def _end_txn(self, request: Request) -> None:
        """Write a marker if the producer has an open transaction in this log."""
        body = request.body
        entry = self._log.producer_state.last_entry(body["producerId"])
        if entry is None or entry.current_txn_first_offset is None:
            return
        epoch = body["producerEpoch"] + (request.header.api_version >= FIRST_WITH_OWN_EPOCH)  # KIP-890
        spec = BatchSpec(transactional=True, producer_id=body["producerId"], producer_epoch=epoch)
        kind = ControlType.COMMIT if body["committed"] else ControlType.ABORT
        leader_epoch = self._log.leader_epoch_cache.latest_epoch or 0
        self.appended.append(end_transaction(self._log, kind, spec, coordinator_epoch=0, leader_epoch=leader_epoch))

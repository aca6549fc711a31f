"""Batches in the words of the Java side: descriptions for its builder, and its answers as values of ours."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from engine.formats import CODEC_NAMES
from engine.record.assembly import LOG_APPEND_TIME
from engine.record.builder import NewRecord

if TYPE_CHECKING:
    from pathlib import Path

    from tests.oracle.jvm import Kafka
    from tests.support.strategies import BatchCase

NAMES = {
    "magic": "magic",
    "level": "level",
    "base_offset": "baseOffset",
    "log_append_time": "logAppendTime",
    "producer_id": "producerId",
    "producer_epoch": "producerEpoch",
    "base_sequence": "baseSequence",
    "transactional": "transactional",
    "control": "control",
    "delete_horizon_ms": "deleteHorizonMs",
    "partition_leader_epoch": "partitionLeaderEpoch",
    "last_offset": "lastOffset",
}


def _text(field: bytes | None) -> str | None:
    return None if field is None else base64.b64encode(field).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def description(case: BatchCase) -> dict[str, Any]:
    """The case as a line for the command `batches`."""
    line: dict[str, Any] = {NAMES[name]: value for name, value in case.options.items() if name in NAMES}
    line["codec"] = CODEC_NAMES[case.options.get("codec", 0)]
    if case.options.get("timestamp_type") == LOG_APPEND_TIME:
        line["timestampType"] = "LogAppendTime"
    if "base_offset" not in case.options:
        line["baseOffset"] = case.records[0].offset
    line["records"] = [
        {
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": _text(record.key),
            "value": _text(record.value),
            "headers": [[key.decode(), _text(value)] for key, value in record.headers],
        }
        for record in case.records
    ]
    return line


def kafka_builds(kafka: Kafka, work: Path, line: dict[str, Any]) -> bytes:
    """Bytes that Kafka's own builder makes of a description."""
    source, target = work / "batches.jsonl", work / "batches.bin"
    source.write_text(json.dumps(line) + "\n")
    answer = kafka.engine("batches", target, "--input", source)
    assert "failed" not in answer, answer["failed"]
    return target.read_bytes()


def kafka_reads(kafka: Kafka, work: Path, data: bytes) -> list[dict[str, Any]]:
    """What Kafka reads from these bytes as a segment: one dict per batch."""
    log = work / "00000000000000000000.log"
    log.write_bytes(data)
    answer = kafka.engine("decode", log)
    assert "failed" not in answer, answer["failed"]
    return answer["lines"]


def records_of(line: dict[str, Any]) -> list[NewRecord]:
    """The records of one batch that Kafka read."""
    assert "error" not in line, line["error"]
    return [
        NewRecord(
            one["offset"],
            one["timestamp"],
            _bytes(one["key"]),
            _bytes(one["value"]),
            [(key.encode(), _bytes(value)) for key, value in one.get("headers", [])],
        )
        for one in line["records"]
    ]

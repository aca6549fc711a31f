"""Logs of Kafka 0.7 as JSON objects: their entries, and with deep iteration the messages in compressed sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.dump.json_pieces import put_large_field
from engine.dump.json_stream import bytes_field
from engine.dump.kernel_records import LARGE

if TYPE_CHECKING:
    from engine.dump.entries_07 import Entries07
    from engine.dump.json_stream import JsonStream
    from engine.dump.options import DumpOptions
    from engine.record.kafka07 import MessageAndOffset

_CODECS = ("none", "gzip", "snappy")


def put_entries(entries: Entries07, options: DumpOptions, stream: JsonStream) -> None:
    """Write one log's entries as objects. Payloads come with --print-data-log."""
    for message in entries:
        fields = {"position": entries.position(message), **_fields(message)}
        _put(stream, "entry-07", fields, message, with_payload=options.print_data)
        if options.iterates:
            for inner in entries.inside(message):
                _put(stream, "message-07", _fields(inner), inner, with_payload=options.print_data)


def _put(
    stream: JsonStream, kind: str, fields: dict[str, object], message: MessageAndOffset, *, with_payload: bool
) -> None:
    payload = message.payload
    if not with_payload:
        stream.put(kind, fields)
    elif payload is not None and (isinstance(payload, memoryview) or len(payload) >= LARGE):
        stream.put_open(kind, fields)
        put_large_field(stream.out, "payload", memoryview(payload), escape=stream.ascii)
        stream.close()
    else:
        stream.put(kind, {**fields, **bytes_field("payload", payload)})


def _fields(message: MessageAndOffset) -> dict[str, object]:
    codec = message.codec
    name = None if codec is None else _CODECS[codec] if codec < len(_CODECS) else f"unknown({codec})"
    return {
        "offset": message.offset, "next_offset": message.next_offset, "size": message.size,
        "magic": message.magic, "attributes": message.attributes, "compression": name, "crc": message.checksum,
        "is_valid": message.valid,
    }  # fmt: skip

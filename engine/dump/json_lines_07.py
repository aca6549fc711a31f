"""Logs of Kafka 0.7 as JSON objects: their entries, and with deep iteration the messages in compressed sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.dump.json_stream import bytes_field

if TYPE_CHECKING:
    from engine.dump.entries_07 import Entries07
    from engine.dump.json_stream import JsonStream
    from engine.dump.options import DumpOptions
    from engine.record.kafka07 import MessageAndOffset

_CODECS = ("none", "gzip", "snappy")


def put_entries(entries: Entries07, options: DumpOptions, stream: JsonStream) -> None:
    """Write one log's entries as objects. Payloads come with --print-data-log."""
    for message in entries:
        fields = _fields(message, with_payload=options.print_data)
        stream.put("entry-07", {"position": message.offset - entries.start, **fields})
        if options.iterates:
            for inner in entries.inside(message):
                stream.put("message-07", _fields(inner, with_payload=options.print_data))


def _fields(message: MessageAndOffset, *, with_payload: bool) -> dict[str, object]:
    codec = message.codec
    name = None if codec is None else _CODECS[codec] if codec < len(_CODECS) else f"unknown({codec})"
    fields: dict[str, object] = {
        "offset": message.offset, "next_offset": message.next_offset, "size": message.size,
        "magic": message.magic, "attributes": message.attributes, "compression": name, "crc": message.checksum,
        "is_valid": message.valid,
    }  # fmt: skip
    return {**fields, **bytes_field("payload", message.payload)} if with_payload else fields

"""JSON objects on their way out: one a line, or elements of one array. docs/json.md describes them."""

from __future__ import annotations

import json
from base64 import b64encode
from codecs import getincrementaldecoder
from collections import Counter
from json import dumps
from typing import TYPE_CHECKING

from engine.kernels.escapes import terminal_safe_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.dump.text_buffer import TextBuffer
    from engine.errors import KafkalogError
    from engine.findings import Finding


SCHEMA = "kafkalog/1"  # name and version of what kafkalog_cli/schema.json describes


class JsonStream:
    """Writes objects into `out`, each with its `type`, from `begin` to `end`, and counts those between.

    command  what `begin` says of them
    array    one document {"schema":…,"objects":[…]} instead of a document a line
    ascii    what is not ASCII is escaped: for terminals
    counts   objects by type; whoever lets kernels write into `out` counts those
    """

    def __init__(
        self, out: TextBuffer, command: str, *, array: bool = False, ascii: bool = False,  # noqa: A002  # its word
    ) -> None:
        self.out, self.array, self.ascii = out, array, ascii
        self.counts: Counter[str] = Counter()
        self._findings: Counter[str] = Counter()
        begin = self.text({"type": "begin", "schema": SCHEMA, "command": command}) + b"\n"
        out.put(b'{"schema":%b,"objects":[\n%b' % (self.text(SCHEMA), begin) if array else begin)

    def put(self, kind: str, fields: dict[str, object]) -> None:
        """Write one object."""
        self.put_open(kind, fields)
        self.close()

    def put_open(self, kind: str, fields: dict[str, object]) -> None:
        """Write one object, as `put` does, without its closing brace: fields written piece by piece, and `close`, follow."""
        self.counts[kind] += 1
        self.out.put((b"," if self.array else b"") + self.text({"type": kind, **fields})[:-1])

    def close(self) -> None:
        """End the object that was left open."""
        self.out.put(b"}\n")

    def text(self, value: object) -> bytes:
        """Any value as JSON."""
        return json_text(value, ascii=self.ascii)

    def finding(self, finding: Finding) -> None:
        """Write something wrong that was seen."""
        kind, where = finding.kind, finding.where
        self._findings[finding.severity.value] += 1
        self.put("finding", {
            "code": finding.code, "severity": finding.severity.value, **text_field("file", where.file),
            "position": where.position, "offset": where.offset, "what": sentence(finding.what), "why": kind.why,
            "do": finding.do,
        })  # fmt: skip

    def error(self, error: KafkalogError) -> None:
        """Write work that could not be done."""
        self.put("error", error_fields(error))

    def end(self, exit_status: int) -> None:
        """Write the last object. A stream without it was cut off."""
        counts = {name: count for name, count in sorted(self.counts.items()) if count}
        severities = {name: self._findings[name] for name in ("error", "warning", "info")}
        self.put("end", {"exit_status": exit_status, "objects": counts, "findings": severities})
        if self.array:
            self.out.put(b"]}\n")


def error_fields(error: KafkalogError) -> dict[str, object]:
    """The members of an object about work that failed."""
    do = None if error.do is None else sentence(error.do)
    path: dict[str, object] = {"path": None} if error.path is None else text_field("path", error.path)
    return {"code": error.code, **path, "message": sentence(str(error)), "do": do}


def json_text(value: object, *, ascii: bool = False) -> bytes:  # noqa: A002  # json's own word
    """`value` as compact JSON. Lone surrogates, which UTF-8 cannot hold, make it all ASCII."""
    if not ascii:
        try:
            return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        except UnicodeEncodeError:
            pass
    return json.dumps(value, separators=(",", ":")).encode()


def text_field(name: str, text: str) -> dict[str, object]:
    """A field for a file name: itself, or its bytes as `name_b64` where they are not UTF-8."""
    return bytes_field(name, text.encode("utf-8", "surrogateescape"))


def bytes_field(name: str, data: bytes | None) -> dict[str, object]:
    """A field for bytes: null, text where they are well-formed UTF-8, else base64 as `name_b64`."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_b64": b64encode(data).decode()}


def sentence(text: str) -> str:
    r"""A sentence that may name files: bytes that are not UTF-8 as \xff."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


_PIECE = 48 << 10  # a multiple of three, for base64


def put_large_field(out: TextBuffer, name: str, data: memoryview | None, *, escape: bool) -> None:
    r"""Write `,"name":"text"`, or `,"name_b64":"base64"` where the bytes are no well-formed UTF-8; None is null.

    escape  what a terminal would obey as \u202e
    """
    if data is None:
        out.put(f',"{name}":null')
    elif is_text(data):
        out.put(f',"{name}":"')
        for text in _texts(data):
            quoted = dumps(text, ensure_ascii=False)[1:-1]
            out.put(terminal_safe_json(quoted) if escape else quoted)
        out.put('"')
    else:
        out.put(f',"{name}_b64":"')
        for at in range(0, len(data), _PIECE):
            out.put(b64encode(data[at : at + _PIECE]))
        out.put('"')


def is_text(data: memoryview) -> bool:
    """Are these bytes well-formed UTF-8?"""
    try:
        for _ in _texts(data):
            pass
    except UnicodeDecodeError:
        return False
    return True


def _texts(data: memoryview) -> Iterator[str]:
    """The characters of `data`, piece by piece. Raises UnicodeDecodeError if it is no UTF-8."""
    decoder = getincrementaldecoder("utf-8")()
    for at in range(0, len(data), _PIECE):
        yield decoder.decode(bytes(data[at : at + _PIECE]), final=at + _PIECE >= len(data))

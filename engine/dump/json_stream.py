"""JSON output: one object a line, or one array of objects. docs/json.md describes the objects."""

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


SCHEMA = "kafkalog/1"  # name and version of the schema in kafkalog_cli/schema.json


class JsonStream:
    """Writes objects into `out`, each with its `type`, from `begin` to `end`, and counts those between.

    command  the command's name, in `begin`
    array    one document {"schema":…,"objects":[…]} instead of a document a line
    ascii    escape all characters other than ASCII, for terminals
    counts   objects by type; callers that let kernels write into `out` must add those
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
        """Write one object, as `put` does, without its closing brace: add fields in pieces, then call `close`."""
        self.counts[kind] += 1
        self.out.put((b"," if self.array else b"") + self.text({"type": kind, **fields})[:-1])

    def close(self) -> None:
        """End the unfinished object."""
        self.out.put(b"}\n")

    def text(self, value: object) -> bytes:
        """Return any value as JSON."""
        return json_text(value, ascii=self.ascii)

    def finding(self, finding: Finding) -> None:
        """Write a finding."""
        kind, where = finding.kind, finding.where
        self._findings[finding.severity.value] += 1
        self.put("finding", {
            "code": finding.code, "severity": finding.severity.value, **text_field("file", where.file),
            "position": where.position, "offset": where.offset, "what": sentence(finding.what), "why": kind.why,
            "do": finding.do,
        })  # fmt: skip

    def error(self, error: KafkalogError) -> None:
        """Write an error."""
        self.put("error", error_fields(error))

    def end(self, exit_status: int) -> None:
        """Write the last object. A stream without it is incomplete."""
        counts = {name: count for name, count in sorted(self.counts.items()) if count}
        severities = {name: self._findings[name] for name in ("error", "warning", "info")}
        self.put("end", {"exit_status": exit_status, "objects": counts, "findings": severities})
        if self.array:
            self.out.put(b"]}\n")


def error_fields(error: KafkalogError) -> dict[str, object]:
    """Return the members of an error object."""
    do = None if error.do is None else sentence(error.do)
    path: dict[str, object] = {"path": None} if error.path is None else text_field("path", error.path)
    return {"code": error.code, **path, "message": sentence(str(error)), "do": do}


def json_text(value: object, *, ascii: bool = False) -> bytes:  # noqa: A002  # json's own word
    """Return `value` as compact JSON. With lone surrogates, which UTF-8 cannot encode, all of it is ASCII."""
    if not ascii:
        try:
            return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        except UnicodeEncodeError:
            pass
    return json.dumps(value, separators=(",", ":")).encode()


def text_field(name: str, text: str) -> dict[str, object]:
    """Return a field for a file name: the name, or its bytes as `name_b64` if they are not UTF-8."""
    return bytes_field(name, text.encode("utf-8", "surrogateescape"))


def bytes_field(name: str, data: bytes | None) -> dict[str, object]:
    """Return a field for bytes: null, text if they are well-formed UTF-8, else base64 as `name_b64`."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_b64": b64encode(data).decode()}


def sentence(text: str) -> str:
    r"""Return a sentence that may contain file names, with bytes that are not UTF-8 as \xff."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


_PIECE = 48 << 10  # a multiple of three, for base64


def put_large_field(out: TextBuffer, name: str, data: memoryview | None, *, escape: bool) -> None:
    r"""Write `,"name":"text"`, or `,"name_b64":"base64"` if the bytes are not well-formed UTF-8; None is null.

    escape  write characters that control a terminal as \u202e
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
    """Return whether the bytes are well-formed UTF-8."""
    try:
        for _ in _texts(data):
            pass
    except UnicodeDecodeError:
        return False
    return True


def _texts(data: memoryview) -> Iterator[str]:
    """Decode `data` in pieces. Raises UnicodeDecodeError if it is not UTF-8."""
    decoder = getincrementaldecoder("utf-8")()
    for at in range(0, len(data), _PIECE):
        yield decoder.decode(bytes(data[at : at + _PIECE]), final=at + _PIECE >= len(data))

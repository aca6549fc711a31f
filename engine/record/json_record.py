"""Parse a record from a line of JSON, with all of JSON's syntax: for lines that the kernel does not parse.

docs/append.md describes the format.
"""

from __future__ import annotations

import json
import re
from binascii import Error as Base64Error
from binascii import a2b_base64
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from engine.errors import KafkalogError
from engine.formats import LONG_MAX
from engine.record.builder import wire_field

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_BLANKS = re.compile(r"[ \t\r\n]*")


# members that dump-log, fetch and export print for a record in addition to the record's own
_OTHER_MEMBERS = (
    "control", "crc", "decoded_key", "decoded_value", "is_valid", "key_size", "leader_epoch", "offset", "partition",
    "sequence", "timestamp_type", "topic", "topic_b64", "value_size",
    "codec", "decodedKey", "decodedValue", "directory", "isControl", "isTransactional", "keySize", "partitionLeaderEpoch",
    "position", "producerEpoch", "producerId", "segment", "timestampType", "valueSize",
)  # fmt: skip
_CONTENT = frozenset(("key", "value", "key_b64", "value_b64"))
_MEANINGFUL = _CONTENT.union(("headers", "timestamp", "type", "control"))
_MEMBERS = _MEANINGFUL.union(_OTHER_MEMBERS)
OTHER_NAMES = b"".join(bytes([len(name)]) + name.encode() for name in _OTHER_MEMBERS)  # for the kernel


class LineInvalid(KafkalogError):
    """A line that is not a record: not JSON, or with invalid members."""

    code = "line-invalid"


class ParsedLine(NamedTuple):
    """The record of a line. None is null; `timestamp` None: the line has none. `headers` is in wire form."""

    key: bytes | None
    value: bytes | None
    timestamp: int | None
    headers: bytes
    header_count: int

    def content(self) -> bytes:
        """Return key, value and headers, concatenated: never longer than the line."""
        return (self.key or b"") + (self.value or b"") + self.headers


_RECORDS = ('"record"', '"fetched-record"')  # of dump-log, of fetch


def parse_json_line(line: bytes, *, ignore_unknown: bool = False) -> ParsedLine | None:
    """Return the record in `line`; None: it is empty, or an object other than a data record. Raises LineInvalid.

    ignore_unknown  ignore members that records do not have; otherwise they are LineInvalid, since a misspelled name would be
                    lost
    """
    text = line.decode("utf-8", "surrogateescape")
    if not text.strip():
        return None
    try:
        members = _members(text, ignore_unknown=ignore_unknown)
    except RecursionError:
        raise LineInvalid("JSON nested too deeply") from None
    if "type" in members and members["type"] not in _RECORDS:
        return None
    if members.get("control", "null") != "null":
        return None  # a transaction marker: its transaction is not that of these records
    if not ignore_unknown:
        _check_names(members, _MEMBERS, "a record has no member")
    if _CONTENT.isdisjoint(members):
        raise LineInvalid("neither key nor value: write null for an absent one")
    headers, count = _headers(members.get("headers", "[]"), ignore_unknown=ignore_unknown)
    return ParsedLine(_content(members, "key"), _content(members, "value"), _timestamp(members), headers, count)


def _check_names(members: Iterable[str], known: Collection[str], what: str) -> None:
    """Raise LineInvalid for the first of `members` that is not `known`."""
    unknown = next((name for name in members if name not in known), None)
    if unknown is not None:
        raise LineInvalid(f"{what} {unknown!r}; --ignore-unknown skips such members")


def _refuse_twice(name: str, before: Collection[str], meaningful: Collection[str], *, ignore_unknown: bool) -> None:
    """Raise LineInvalid for a repeated member: one of the two would be lost."""
    if name in before and not (ignore_unknown and name not in meaningful):
        raise LineInvalid(f"the member {name!r} occurs twice")


def _members(text: str, *, ignore_unknown: bool) -> dict[str, str]:
    """Return the text of each member of an object, as JSON that is not checked yet."""
    members: dict[str, str] = {}
    at = _blanks(text, 0)
    if text[at : at + 1] != "{":
        raise LineInvalid("expected a JSON object")
    at = _blanks(text, at + 1)
    while text[at : at + 1] != "}" or members:
        name, end = _decode(text, at)
        if not isinstance(name, str):
            raise LineInvalid("a member of the object has no name")
        _refuse_twice(name, members, _MEANINGFUL, ignore_unknown=ignore_unknown)
        at = _blanks(text, end)
        if text[at : at + 1] != ":":
            raise LineInvalid(f"no value after the name {name!r}")
        start = _blanks(text, at + 1)
        _, end = _decode(text, start)
        members[name] = text[start:end]
        at = _blanks(text, end)
        if text[at : at + 1] != ",":
            break
        at = _blanks(text, at + 1)
    if text[at : at + 1] != "}" or _blanks(text, at + 1) != len(text):
        raise LineInvalid("not a JSON object: a comma or a brace is missing, or other text follows it")
    return members


def _blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    return at if found is None else found.end()


def _no_constant(name: str) -> NoReturn:
    raise LineInvalid(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


def _decode(text: str, at: int) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, at)
    except ValueError as error:
        raise LineInvalid(f"not JSON: {error}") from None


def _content(members: dict[str, str], name: str) -> bytes | None:
    """Return a key or value: the content of a string, the text of other JSON, or base64 from the member with suffix `_b64`."""
    if name + "_b64" in members:
        if name in members:
            raise LineInvalid(f"{name} and {name}_b64 in one line")
        return _base64(json.loads(members[name + "_b64"]), name)
    text = members.get(name, "null")
    if text == "null":
        return None
    return _encode(json.loads(text) if text.startswith('"') else text, name)


def _encode(text: str, name: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise LineInvalid(f"half a character in {name}") from None


def _base64(text: Any, name: str) -> bytes | None:
    if text is None:
        return None
    try:
        return a2b_base64(text, strict_mode=True)
    except (Base64Error, TypeError, ValueError):
        raise LineInvalid(f"{name}_b64 is not base64") from None


def _timestamp(members: dict[str, str]) -> int | None:
    timestamp = json.loads(members.get("timestamp", "null"))
    if timestamp is None:
        return None
    if type(timestamp) is not int or not -1 <= timestamp <= LONG_MAX:
        raise LineInvalid(f"{members['timestamp']} is not a timestamp: expected milliseconds since 1970")
    return timestamp


def _headers(text: str, *, ignore_unknown: bool) -> tuple[bytes, int]:
    """Return the wire form of [{"key": …, "value": …}, …], and the number of headers."""
    if text == "null":
        return b"", 0

    def header_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        header: dict[str, Any] = {}
        for name, value in pairs:
            _refuse_twice(name, header, _CONTENT, ignore_unknown=ignore_unknown)
            header[name] = value
        return header

    headers = json.loads(text, object_pairs_hook=header_of)
    if not isinstance(headers, list):
        raise LineInvalid("headers: expected a list")
    parts: list[bytes] = []
    for header in headers:
        if not isinstance(header, dict):
            raise LineInvalid('headers: expected {"key": …, "value": …}')
        if not ignore_unknown:
            _check_names(header, _CONTENT, "headers: a header has no member")
        key = _header_field(header, "key")
        if key is None:
            raise LineInvalid("headers: a header without a key")
        parts += (wire_field(key), wire_field(_header_field(header, "value")))
    return b"".join(parts), len(headers)


def _header_field(header: dict[str, Any], name: str) -> bytes | None:
    if name + "_b64" in header:
        return _base64(header[name + "_b64"], name)
    field = header.get(name)
    if field is None:
        return None
    if not isinstance(field, str):
        raise LineInvalid(f"headers: the {name} of a header must be a string")
    return _encode(field, name)

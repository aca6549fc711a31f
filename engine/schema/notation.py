"""The notation of the tables `table_*.py`, and the catalogue of their messages.

    message OffsetCommitValue value 1 versions 0-4 flexible 4+
      offset           int64
      leaderEpoch      int32     3+ = -1 ignorable
      topicId          uuid      4+ tag 0 ignorable
      members          []Member
        memberId       string
      owner            Owner?
      struct Owner
        name           string

A message's line has its role and id, its valid versions and the first flexible version (compact lengths and tagged fields). A
field's line has name, type (`[]` array, `?` nullable, `?7+` nullable in these versions), the versions that have it (default:
all), its tag, its default (default: zero or empty), whether writers may drop it without an error (`ignorable`), the message
inside its bytes, and `flexible none` for a string whose length is never compact. Fields indented below a field are its own
struct; a `struct` line begins a struct that several fields share. Kafka treats the two differently: only a field's own struct
is refused in versions above the newest (see `Struct.inline`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_VERSIONS = re.compile(r"(\d+)(?:(\+)|-(\d+))?")
_NEWEST = 32767  # `4+` ends at the largest int16


class Versions(NamedTuple):
    """A range of versions, both ends inclusive."""

    lowest: int
    highest: int

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Parse `2` (one version), `0-4` (a range) or `3+` (no end)."""
        match = _VERSIONS.fullmatch(text)
        if match is None:
            raise ValueError(f"no range of versions: {text!r}")
        low, plus, high = match.groups()
        return cls(int(low), _NEWEST if plus else int(high or low))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.lowest <= version <= self.highest


ALL_VERSIONS = Versions(0, _NEWEST)


class Field(NamedTuple):
    """One field. `type` is the name of a scalar type or of `struct`; for an array, of the element's type.

    `null_versions`: the versions in which a `nullable` field may be null. `compact`: flexible versions use compact lengths.
    """

    name: str
    type: str
    is_array: bool
    nullable: bool
    versions: Versions
    tag: int | None
    default: str | None
    ignorable: bool
    holds: str | None
    struct: Struct | None
    null_versions: Versions
    compact: bool


class Struct(NamedTuple):
    """A list of fields. `inline`: declared inside its only field; Kafka refuses to read such a struct in a version above the
    message's newest, while it reads messages and shared structs as their newest version.
    """

    name: str
    inline: bool
    fields: list[Field]


class Message(NamedTuple):
    """A message. `role`: key, value, record, control, request or response; None for a message inside bytes of another one, and
    for the headers of requests and responses. `id` is the API key of a request or response.
    """

    name: str
    role: str | None
    id: int
    versions: Versions
    flexible: Versions | None
    body: Struct

    def nearest(self, version: int) -> int:
        """Return the valid version that Kafka's generated readers use for a version that they do not know."""
        return max(self.versions.lowest, min(version, self.versions.highest))


SCALARS = frozenset({"bool", "int8", "int16", "uint16", "int32", "int64", "float64", "string", "bytes", "uuid", "records"})


def parse_message(text: str) -> Message:
    """Parse one block of the notation. Raises ValueError with the line that does not follow it."""
    head, *lines = [line for line in text.splitlines() if line.strip()]
    groups = list(_groups(lines))
    shared = {words[1]: Struct(words[1], inline=False, fields=[]) for words, _ in groups if words[0] == "struct"}
    for words, inner in groups:
        if words[0] == "struct":
            shared[words[1]].fields.extend(_parse_fields(inner, shared))
    message = _parse_head(head)
    own = [(words, inner) for words, inner in groups if words[0] != "struct"]
    message.body.fields.extend(_parse_field(words, inner, shared) for words, inner in own)
    return message


def _groups(lines: list[str]) -> Iterator[tuple[list[str], list[str]]]:
    """Return (words of a line, the lines indented below it) for each line."""
    at = 0
    while at < len(lines):
        end = at + 1
        while end < len(lines) and _indent(lines[end]) > _indent(lines[at]):
            end += 1
        yield lines[at].split(), lines[at + 1 : end]
        at = end


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _parse_head(line: str) -> Message:
    words = line.split()
    if words[0] != "message":
        raise ValueError(f"no message: {line!r}")
    name, rest = words[1], words[2:]
    role: str | None = None
    ident = -1
    if rest[0] != "versions":
        role, ident, rest = rest[0], int(rest[1]), rest[2:]
    facts = dict(zip(rest[::2], rest[1::2], strict=True))
    flexible = Versions.parse(facts["flexible"]) if "flexible" in facts else None
    body = Struct(name, inline=False, fields=[])
    return Message(name, role, ident, Versions.parse(facts["versions"]), flexible, body)


def _parse_fields(lines: list[str], shared: dict[str, Struct]) -> list[Field]:
    return [_parse_field(words, inner, shared) for words, inner in _groups(lines)]


def _parse_field(words: list[str], inner: list[str], shared: dict[str, Struct]) -> Field:
    """Parse a field from its line's words; `inner` are the lines of its own struct."""
    if len(words) < 2:
        raise ValueError(f"a field needs a type: {words}")
    name, kind, *facts = words
    element, nullable, nulls = kind.removeprefix("[]").partition("?")
    struct = Struct(element, inline=True, fields=_parse_fields(inner, shared)) if inner else shared.get(element)
    if struct is None and element not in SCALARS:
        raise ValueError(f"{name}: unknown type {element!r}")
    versions = Versions.parse(facts.pop(0)) if facts and _VERSIONS.fullmatch(facts[0]) else ALL_VERSIONS
    ignorable = "ignorable" in facts
    if ignorable:
        facts.remove("ignorable")
    if len(facts) % 2 or not set(facts[::2]) <= {"tag", "=", "holds", "flexible"}:
        raise ValueError(f"{name}: what is {facts}?")
    known = dict(zip(facts[::2], facts[1::2], strict=True))
    return Field(
        name=name, type=element, is_array=kind.startswith("[]"), nullable=bool(nullable), versions=versions,
        tag=int(known["tag"]) if "tag" in known else None, default=known.get("="), ignorable=ignorable,
        holds=known.get("holds"), struct=struct, null_versions=Versions.parse(nulls) if nulls else ALL_VERSIONS,
        compact=known.get("flexible") != "none",
    )


class Catalogue:
    """The messages of one table; a message is parsed on first use."""

    def __init__(self, text: str) -> None:
        blocks = [block for block in text.strip().split("\n\n") if block]
        self._blocks = {block.split(maxsplit=2)[1]: block for block in blocks}
        self._parsed: dict[str, Message] = {}
        self._ids: dict[tuple[str, int], str] = {}
        for name, block in self._blocks.items():
            role, ident = block.split(maxsplit=4)[2:4]
            if role != "versions":
                self._ids[role, int(ident)] = name

    def names(self) -> list[str]:
        """All names, in the table's order."""
        return list(self._blocks)

    def message(self, name: str) -> Message:
        """Return the message of that name. Raises KeyError."""
        if name not in self._parsed:
            self._parsed[name] = parse_message(self._blocks[name])
        return self._parsed[name]

    def find(self, role: str, ident: int) -> Message | None:
        """Return the message with that role and id; None if Kafka 4.3.1 has none."""
        name = self._ids.get((role, ident))
        return None if name is None else self.message(name)

"""The notation of the tables `table_*.py`, and the catalogue that finds a message in them.

    message OffsetCommitValue value 1 versions 0-4 flexible 4+
      offset           int64
      leaderEpoch      int32     3+ = -1 ignorable
      topicId          uuid      4+ tag 0 ignorable
      members          []Member
        memberId       string
      owner            Owner?
      struct Owner
        name           string

A message's line says its role and id, its valid versions and from which version on it is flexible (compact lengths and
tagged fields). A field's line says name, type (`[]` array, `?` nullable), the versions that have it (all unless said),
its tag, its default (zero, empty unless said), whether writers may drop it silently (`ignorable`) and which message its
bytes hold. Fields indented below a field are its own struct; a `struct` line begins one that several fields share. The
difference is visible in Kafka: only the former refuse versions above the newest (see `Struct.inline`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

_VERSIONS = re.compile(r"(\d+)(?:(\+)|-(\d+))?")
_NEWEST = 32767  # `4+` has no upper end but that of an int16


class Versions(NamedTuple):
    """A range of versions, both ends inclusive."""

    lowest: int
    highest: int

    @classmethod
    def parse(cls, text: str) -> Versions:
        """`2` is one version, `0-4` a range, `3+` has no end."""
        match = _VERSIONS.fullmatch(text)
        if match is None:
            raise ValueError(f"no range of versions: {text!r}")
        low, plus, high = match.groups()
        return cls(int(low), _NEWEST if plus else int(high or low))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.lowest <= version <= self.highest


ALL_VERSIONS = Versions(0, _NEWEST)


@dataclass(slots=True)
class Struct:
    """Fields that stand together. `inline`: declared inside its only field; Kafka refuses to read those in a version
    above the message's newest, while messages and shared structs are read as their newest version.
    """

    name: str
    inline: bool
    fields: list[Field] = field(default_factory=list)


@dataclass(slots=True)
class Field:
    """One field. `type` is a scalar's name, or that of `struct`; for an array it is the element's type."""

    name: str
    type: str
    is_array: bool = False
    nullable: bool = False
    versions: Versions = ALL_VERSIONS
    tag: int | None = None
    default: str | None = None
    ignorable: bool = False
    holds: str | None = None
    struct: Struct | None = None


@dataclass(slots=True)
class Message:
    """A message: `role` is key, value, record or control, or None for one that lives inside bytes of another."""

    name: str
    role: str | None
    id: int
    versions: Versions
    flexible: Versions | None
    body: Struct

    def nearest(self, version: int) -> int:
        """The valid version that Kafka's generated readers fall back to for a version they do not know."""
        return max(self.versions.lowest, min(version, self.versions.highest))


SCALARS = frozenset({"bool", "int8", "int16", "uint16", "int32", "int64", "float64", "string", "bytes", "uuid"})


def parse_message(text: str) -> Message:
    """Parse one block of the notation; ValueError names the line that does not follow it."""
    head, *lines = [line for line in text.splitlines() if line.strip()]
    message = _parse_head(head)
    shared = {line.split()[1]: Struct(line.split()[1], inline=False) for line in lines if line.split()[0] == "struct"}
    stack: list[tuple[int, Struct]] = [(0, message.body)]  # indentation of the fields, the struct they belong to
    above: Field | None = None
    for line in lines:
        indent = len(line) - len(line.lstrip())
        words = line.split()
        if words[0] == "struct":
            stack, above = [(indent, shared[words[1]])], None
            continue
        while above is not None and len(stack) > 1 and indent < stack[-1][0]:
            stack.pop()
        if above is not None and indent > stack[-1][0]:
            above.struct = Struct(above.type, inline=True)
            stack.append((indent, above.struct))
        elif above is None:
            stack[-1] = (indent, stack[-1][1])
        above = _parse_field(line, words)
        above.struct = shared.get(above.type)
        stack[-1][1].fields.append(above)
    _check_types(message.body)
    return message


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
    return Message(name, role, ident, Versions.parse(facts["versions"]), flexible, Struct(name, inline=False))


def _parse_field(line: str, words: list[str]) -> Field:
    if len(words) < 2:
        raise ValueError(f"a field needs a type: {line!r}")
    name, kind, *facts = words
    parsed = Field(name, kind.removeprefix("[]").removesuffix("?"), kind.startswith("[]"), kind.endswith("?"))
    if facts and _VERSIONS.fullmatch(facts[0]):
        parsed.versions = Versions.parse(facts.pop(0))
    while facts:
        fact = facts.pop(0)
        if fact == "tag":
            parsed.tag = int(facts.pop(0))
        elif fact == "=":
            parsed.default = facts.pop(0)
        elif fact == "holds":
            parsed.holds = facts.pop(0)
        elif fact == "ignorable":
            parsed.ignorable = True
        else:
            raise ValueError(f"what is {fact!r}? {line!r}")
    return parsed


def _check_types(struct: Struct) -> None:
    """Every type must be a scalar or a struct: a misspelt table fails here, not at a user's record."""
    for each in struct.fields:
        if each.struct is not None:
            _check_types(each.struct)
        elif each.type not in SCALARS:
            raise ValueError(f"{struct.name}.{each.name}: unknown type {each.type!r}")


class Catalogue:
    """The messages of one table: found by a look at the `message` lines, parsed when first asked for."""

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
        """The message of that name; KeyError if the table has none."""
        if name not in self._parsed:
            self._parsed[name] = parse_message(self._blocks[name])
        return self._parsed[name]

    def find(self, role: str, ident: int) -> Message | None:
        """The message with that role and id, or None if Kafka 4.3.1 knows none."""
        name = self._ids.get((role, ident))
        return None if name is None else self.message(name)

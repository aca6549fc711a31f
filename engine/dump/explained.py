"""Fields: what the bytes of a file mean. A module of its own because `explain` and `explain_log` both make them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.log.report import moment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from engine.formats import Layout

RAW = 1024  # bytes of a field that are kept to be shown


class Field(NamedTuple):
    """One field: `size` bytes from `at` on.

    unit      the name of the thing that it is part of, such as `batch` or `entry`, and the byte at which that begins
    name      within the unit, such as records[3].key
    kind      its type: int32, varint, text …; `bits` a part of the field before it, such as 0–2, whose bytes were counted
    raw       its first bytes, at most RAW                value    a number, or text; None: null, or bytes that are not shown
    note      what this value means                       meaning  what the field is for
    is_damaged   the value is wrong, or the bytes make no sense
    inflated     positions count in the decompressed bytes of the unit
    """

    unit: tuple[str, int]
    name: str
    at: int
    size: int
    kind: str
    raw: bytes
    value: int | str | bytes | None
    note: str = ""
    meaning: str = ""
    bits: str = ""
    is_damaged: bool = False
    inflated: bool = False


class Source(NamedTuple):
    """Bytes to explain. base: position of data[0] in the file or, if inflated, in the decompressed bytes of the unit."""

    data: memoryview
    base: int
    unit: tuple[str, int]
    inflated: bool = False

    def field(self, name: str, at: int, size: int, kind: str, value: int | str | bytes | None, **more: Any) -> Field:
        """Return the field data[at : at + size]."""
        raw = bytes(self.data[at : at + min(size, RAW)])
        return Field(self.unit, name, self.base + at, size, kind, raw, value, inflated=self.inflated, **more)

    def bytes_field(self, name: str, at: int, size: int, **more: Any) -> Field:
        """Return a field of key or value bytes; only its first RAW bytes are in the value."""
        return self.field(name, at, size, "bytes", bytes(self.data[at : at + min(size, RAW)]), **more)

    def damaged(self, name: str, at: int, end: int, note: str) -> Iterator[Field]:
        """Return the field for bytes that make no sense, if there are any."""
        if at < end:
            yield self.bytes_field(name, at, end - at, note=note, is_damaged=True)

    def layout(
        self, layout: Layout[Any], at: int, end: int, prefix: str = "",
        notes: Mapping[str, Callable[[int], tuple[str, bool]]] | None = None,
    ) -> Iterator[Field]:
        """Return the fields of a layout that begins at `at`, as far as they lie before `end`.

        notes  by field: from the value to (note, whether it is wrong)
        """
        for name, kind, meaning in described(layout):
            start, size = at + layout.positions[name], layout.fields[name].size
            if start + size > end:
                yield from self.damaged(f"{prefix}{name}", start, end, f"incomplete: {end - start} of {size} bytes")
                return
            value = layout.field(name, self.data, at)
            note, is_wrong = (notes or {}).get(name, _no_note)(value)
            about = "" if meaning == str(value) else meaning  # a field that always has this value
            yield self.field(f"{prefix}{name}", start, size, kind, value, note=note, meaning=about, is_damaged=is_wrong)


def _no_note(_value: int) -> tuple[str, bool]:
    return "", False


@cache
def described(layout: Layout[Any]) -> list[tuple[str, str, str]]:
    """Return (field, wire type, meaning) of a layout."""
    return [(name, kind, meaning) for _, name, kind, meaning in layout.described()]


def time_note(ms: int) -> tuple[str, bool]:
    """Return the note of a timestamp: ISO-8601 in UTC; −1 is none."""
    return "none" if ms == -1 else moment(ms).partition(" (")[0], False


def crc_note(crc: int, is_valid: bool, covered: str) -> str:  # the verdict itself
    """Return the note of a checksum."""
    return f"0x{crc:08x}, {'matches' if is_valid else 'does not match'} the {covered}"


def none_note(value: int) -> tuple[str, bool]:
    """Return the note of an id or epoch, of which −1 is none."""
    return ("none" if value == -1 else ""), False

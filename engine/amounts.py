"""Amounts for people: counts with their noun, sizes and lengths of time. JSON has the exact numbers."""

from __future__ import annotations

_SIZES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_SPANS = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"))  # ms
_SECOND = 1000
_LEAST = 2  # below this number of a unit, the next smaller unit is used


def count_of(count: int, noun: str) -> str:
    """1 segment, 2 segments, 3 index entries, 0 batches. `noun` is singular; its last word gets the plural."""
    return f"{count} {noun}" if count == 1 else f"{count} {_plural(noun)}"


def size_text(size: int) -> str:
    """Bytes in the largest unit that they fill: 1.2 GiB, 987 bytes."""
    for scale, unit in _SIZES:
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return count_of(size, "byte")


def exact_size(size: int) -> str:
    """Bytes for people, and exactly: 1.2 GiB (1288490188 bytes)."""
    text = size_text(size)
    return text if size < _SIZES[-1][0] else f"{text} ({size} bytes)"


def duration_text(ms: int) -> str:
    """A length of time, rounded down: 11 days, 26 hours, 0.4 s below two minutes, 12 ms below a tenth of a second."""
    for scale, unit in _SPANS:
        if ms >= _LEAST * scale:
            return count_of(ms // scale, unit)
    return f"{ms} ms" if 0 < ms < _SECOND // 10 else f"{ms / _SECOND:.1f} s"


def exact_duration(ms: int) -> str:
    """A length of time for people, and the ms to compare with a setting: 11 days (950400000 ms)."""
    text = duration_text(ms)
    return text if text == f"{ms} ms" else f"{text} ({ms} ms)"


def _plural(noun: str) -> str:
    if noun.endswith(("tch", "x", "s")):
        return noun + "es"
    return noun[:-1] + "ies" if noun.endswith("y") and noun[-2:-1] not in "aeiou" else noun + "s"

"""Counts, ranges of offsets, sizes, durations and times as text for people. JSON output has the exact numbers.

Parsed are sizes (1000, 64k, 16MiB, 10GB: kB, MB, GB and TB are powers of 1000, the others of 1024), durations (45s, 90m, 12h,
30d, 2w) and times (ISO-8601, UTC without a time zone; ms since 1970; `now`; `2h ago`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from engine.formats import LONG_MAX, LONG_MIN

if TYPE_CHECKING:
    from collections.abc import Iterable

_SIZES = ((1 << 60, "EiB"), (1 << 50, "PiB"), (1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_SPANS = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"))  # ms
_SECOND = 1000
_YEAR_9999_MS = 253_402_300_799_999
_LEAST = 2  # below this number of a unit, the next smaller unit is used
_NUMBER = re.compile(r"[+-]?[0-9]+")
_SIZE = re.compile(r"(\+?[0-9]+)\s*([kmgt]?)(i?b)?", re.IGNORECASE)
_DURATION = re.compile(r"([0-9]+)\s*([smhdw])", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}([.,]\d{1,6})?)?(Z|[+-]\d{2}:?\d{2})?)?")
_AGO = re.compile(r"(\d{1,9})\s*(ms|s|m|h|d|w)\s+ago")
_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PREFIXES = ("", "k", "m", "g", "t")
_DIGITS = 30  # a number with more digits is out of every range, and int() refuses very long text


def count_of(count: int, noun: str) -> str:
    """Return text such as 1 segment, 3 index entries. `noun` is singular; its last word gets the plural."""
    return f"{count} {noun}" if count == 1 else f"{count} {_plural(noun)}"


def part_of(count: int, total: int | None, noun: str) -> str:
    """Return text such as 1 of 50 partitions, 1 of 1 partition. `total` None: it is not known, and left out."""
    return count_of(count, noun) if total is None else f"{count} of {count_of(total, noun)}"


def offset_span(first: int, end: int) -> str:
    """Return the offsets from `first` to before `end` for people, both ends included: 35 to 41, 35, none."""
    if end <= first:
        return "none"
    return str(first) if end == first + 1 else f"{first} to {end - 1}"


def offsets_text(first: int, end: int | None) -> str:
    """Return `offset_span` with its noun: offsets 35 to 41, offset 35. Without an offset, or an unknown end: at offset 35."""
    if end is None or end <= first:
        return f"at offset {first}"
    return f"{'offset' if end == first + 1 else 'offsets'} {offset_span(first, end)}"


def size_text(size: int) -> str:
    """Return `size` bytes in the largest unit in which the value is at least 1: 1.2 GiB, 987 bytes."""
    for scale, unit in _SIZES:
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return count_of(size, "byte")


def exact_size(size: int) -> str:
    """Return `size` bytes in a readable unit and exactly: 1.2 GiB (1288490188 bytes)."""
    text = size_text(size)
    return text if size < _SIZES[-1][0] else f"{text} ({size} bytes)"


def duration_text(ms: int) -> str:
    """Return a duration, rounded down: 11 days, 26 hours, 0.4 s below two minutes, 12 ms below a tenth of a second."""
    for scale, unit in _SPANS:
        if ms >= _LEAST * scale:
            return count_of(ms // scale, unit)
    return f"{ms} ms" if 0 < ms < _SECOND // 10 else f"{ms / _SECOND:.1f} s"


def exact_duration(ms: int) -> str:
    """Return a duration in a readable unit and in ms: 11 days (950400000 ms)."""
    text = duration_text(ms)
    return text if text == f"{ms} ms" else f"{text} ({ms} ms)"


def time_text(ms: float) -> str:
    """Return a time in ms since 1970 as ISO-8601 in UTC with ms; outside of the years 1970 … 9999 the number: 7 ms."""
    from datetime import UTC, datetime  # slow to import

    if not 0 <= ms <= _YEAR_9999_MS:
        return f"{ms} ms"
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _plural(noun: str) -> str:
    if noun.endswith(("tch", "x", "s")):
        return noun + "es"
    return noun[:-1] + "ies" if noun.endswith("y") and noun[-2:-1] not in "aeiou" else noun + "s"


def whole_number(text: str) -> int | None:
    """Return the whole number in `text`, None for other text. A number of too many digits becomes a very large one."""
    if _NUMBER.fullmatch(text) is None:
        return None
    digits = text.lstrip("+-").lstrip("0") or "0"
    number = int(digits) if len(digits) <= _DIGITS else 10**_DIGITS
    return -number if text.startswith("-") else number


def parse_size(text: str) -> int | None:
    """Return the size in bytes, None if `text` is not a size."""
    match = _SIZE.fullmatch(text.strip())
    number = None if match is None else whole_number(match[1])
    if match is None or number is None:
        return None
    is_decimal = match[2] and (match[3] or "").lower() == "b"
    return number * int((1000 if is_decimal else 1024) ** _PREFIXES.index(match[2].lower()))


def parse_duration(text: str) -> int | None:
    """Return the duration in ms, None if `text` is not a duration."""
    match = _DURATION.fullmatch(text.strip())
    number = None if match is None else whole_number(match[1])
    return None if match is None or number is None else number * _MS[match[2].lower()]


def parse_time(text: str, now_ms: int) -> int | None:
    """Return the time in ms since the epoch, None if `text` is not a time. `now` and `90s ago` count from `now_ms`."""
    text = text.strip()
    number = None if text.startswith("+") else whole_number(text)
    if number is not None:
        return number if LONG_MIN <= number <= LONG_MAX else None
    if text == "now":
        return now_ms
    ago = _AGO.fullmatch(text)
    if ago:
        return now_ms - int(ago[1]) * _MS[ago[2]]
    return _parse_date(text) if _DATE.fullmatch(text) else None


def _parse_date(text: str) -> int | None:
    from datetime import UTC, datetime  # slow to import

    try:
        time = datetime.fromisoformat(text.replace(",", "."))
    except ValueError:
        return None
    since = (time if time.tzinfo else time.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000


def ranges_of(numbers: Iterable[int]) -> str:
    """Return numbers in words, ascending: 0…4,7."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}…{last}" for first, last in runs)

"""The options that select records, common to commands that print records, and their types."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from engine.amounts import parse_time, whole_number
from engine.files import now_ms
from engine.formats import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN
from kafkalog_cli.options import Time, Whole, check_milliseconds, check_range

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.record.patterns import Pattern
    from engine.record.selection import Selection

_HEADER_NAME, _ESCAPED = re.compile(rb"(?:\\[=\\]|[^=])*"), re.compile(rb"\\([=\\])")
NO_END = LONG_MAX + 1  # of a half-open range: larger than any offset and time
SELECTION = (
    "--offset", "--time", "--key", "--key-regex", "--header", "--producer-id", "--partition-leader-epoch",
    "--transactional-only", "--limit", "--tail",
)


EARLIEST, LATEST = "earliest", "latest"
_ENDS = {"earliest": EARLIEST, "beginning": EARLIEST, "latest": LATEST, "end": LATEST}


class OffsetRange(click.ParamType["tuple[int | str, int]"]):
    """A:B, from A to before B; either may be missing. A alone has no end.

    with_ends  A may be EARLIEST, LATEST, or negative: offsets counted from the end of the log
    """

    name = "offset range"

    def __init__(self, *, with_ends: bool = False) -> None:
        self._with_ends = with_ends

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int | str, int]:
        """Convert text to (first, end). Raises click.BadParameter."""
        left, colon, right = (part.strip() for part in str(value).partition(":"))
        first: int | str | None = _ENDS.get(left) if self._with_ends else None
        if first is None:
            first = LONG_MIN if colon and not left else whole_number(left)
        end = NO_END if not right else whole_number(right)
        if first is None or end is None:
            forms = "A, A:B, :B, earliest, latest, or -N for the last N" if self._with_ends else "A, A:B, A: or :B"
            self.fail(f"{value!r} is not a range of offsets: write {forms}", param, ctx)
        if isinstance(first, int):
            check_range(value, first, LONG_MIN, LONG_MAX, param, ctx)
        check_range(value, end, LONG_MIN, NO_END, param, ctx)
        if isinstance(first, int) and end < first:
            self.fail(f"{value!r} ends before it begins", param, ctx)
        return first, end


class Until(click.ParamType[tuple[int, int]]):
    """The end of reading: an offset, or a time in ISO-8601 or as `2h ago`."""

    name = "end"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        """Convert text to (end offset, end time in ms), one of which is NO_END. Raises click.BadParameter."""
        offset = whole_number(str(value).strip())
        if offset is not None:
            check_range(value, offset, 0, LONG_MAX, param, ctx)
            return offset, NO_END
        return NO_END, Time().convert(value, param, ctx)


class TimeRange(click.ParamType[tuple[int, int]]):
    """FROM:TO, half-open; either may be missing, FROM alone has no end. `..` may replace the colon."""

    name = "time range"

    def __init__(self, now_ms: int | None = None) -> None:
        self._now_ms = now_ms

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        """Convert text to (from_ms, to_ms). Raises click.BadParameter unless exactly one split gives two times."""
        now = now_ms() if self._now_ms is None else self._now_ms
        separator = ".." if ".." in value else ":"
        found: set[tuple[int, int]] = set()
        alone = parse_time(value, now)
        if alone is not None:
            found.add((alone, NO_END))
        at = value.find(separator)
        while at >= 0:
            left, right = value[:at], value[at + len(separator) :]
            start = parse_time(left, now) if left.strip() else LONG_MIN
            end = parse_time(right, now) if right.strip() else NO_END
            if start is not None and end is not None and start <= end:
                found.add((start, end))
            at = value.find(separator, at + 1)
        for side in value.split(separator):
            check_milliseconds(side, LONG_MIN, param, ctx)
        if len(found) != 1:
            why = "can be read in two ways: write FROM..TO" if found else "is not a range of times: write FROM:TO, FROM: or :TO"
            self.fail(f"{value!r} {why} (ISO-8601, milliseconds, or `2h ago`)", param, ctx)
        return found.pop()


class Regex(click.ParamType["Pattern"]):
    """A regular expression."""

    name = "regex"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Pattern:
        """Convert text to a pattern. Raises click.BadParameter."""
        return pattern_from(value, param, ctx)


def pattern_from(
    text: str, param: click.Parameter | None, ctx: click.Context | None, *, fixed: bool = False, ignore_case: bool = False
) -> Pattern:
    """Return the pattern for an argument. Raises click.BadParameter if it is not a regular expression."""
    from engine.record.patterns import Pattern

    try:
        return Pattern(text, fixed=fixed, ignore_case=ignore_case)
    except (re.error, OverflowError, RecursionError) as error:
        raise click.BadParameter(f"{text!r} is not a regular expression: {error}", ctx, param) from error


class Header(click.ParamType[tuple[bytes, bytes | None]]):
    r"""NAME or NAME=VALUE; in NAME `\=` is an equals sign and `\\` a backslash."""

    name = "header"

    def convert(
        self, value: Any, _param: click.Parameter | None, _ctx: click.Context | None
    ) -> tuple[bytes, bytes | None]:
        """Convert text to (name, value); value None: any. Other backslashes, and those in the value, are literal."""
        text = value.encode("utf-8", "surrogateescape")
        found = _HEADER_NAME.match(text)
        assert found is not None  # the pattern matches even an empty text
        wanted = text[found.end() + 1 :] if found.end() < len(text) else None
        return _ESCAPED.sub(rb"\1", found[0]), wanted


time_option = click.option(
    "--time", "times", type=TimeRange(), metavar="FROM:TO",
    help="Only timestamps from FROM up to, not including, TO: ISO-8601 (default zone UTC), ms, or `2h ago`. "
         "FROM alone has no end. With TO every batch is opened.",
)  # fmt: skip
isolation_option = click.option(
    "--isolation", type=click.Choice(["read_uncommitted", "read_committed"]), default="read_uncommitted", show_default=True,
    help="read_committed skips aborted transactions, and ends where one is open.",
)
_OPTIONS = (
    time_option,
    click.option("--key", "keys", multiple=True, help="Only records with this key; may be repeated."),
    click.option("--key-regex", type=Regex(), help="Only records whose key matches."),
    click.option("--header", "headers", type=Header(), multiple=True, metavar="NAME[=VALUE]",
                 help="Only records with this header; may be repeated, then all must be there. "
                      "In NAME write \\= for an equals sign, \\\\ for a backslash."),
    click.option("--partition-leader-epoch", type=Whole(INT_MIN, INT_MAX), metavar="N", help="Only batches of this epoch."),
    click.option("--transactional-only", is_flag=True, help="Only transactional batches."),
    click.option("--limit", type=Whole(0), metavar="N", help="Only the first N matches."),
    click.option("--tail", type=Whole(0), metavar="N", help="Only the last N matches."),
)
_PRODUCER = click.option("--producer-id", type=Whole(LONG_MIN + 1), metavar="ID", help="Only batches of this producer.")


def selection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add all of them except --offset, whose form differs by command."""
    return raw_selection_options(_PRODUCER(command))


def raw_selection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add all of them except --offset and --producer-id, which the command has with a wider meaning."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def selection_from(values: dict[str, Any], **more: Any) -> Selection:
    """Return the Selection for these options. Raises click.UsageError for options that exclude each other.

    more  fields of the Selection from the command itself; None: not selected by
    """
    from engine.record.selection import FieldPattern, Selection

    if values["limit"] is not None and values["tail"] is not None:
        raise click.UsageError("--limit and --tail exclude each other")
    given = {
        "keys": tuple(key.encode("utf-8", "surrogateescape") for key in values["keys"]),
        "patterns": None if values["key_regex"] is None else (FieldPattern(values["key_regex"], in_keys=True),),
        "headers": values["headers"],
        "producer_id": values["producer_id"],
        "leader_epoch": values["partition_leader_epoch"],
        "transactional": values["transactional_only"],
        "limit": values["limit"],
        "tail": values["tail"],
        **more,
    }
    if values["times"]:
        given["from_ms"], given["to_ms"] = values["times"]
    return Selection(**{name: value for name, value in given.items() if value is not None})

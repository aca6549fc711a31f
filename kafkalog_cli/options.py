"""Types and helpers for options of several commands."""

from __future__ import annotations

import math
import os
import sys
from typing import TYPE_CHECKING, Any, TypeVar

import click

from engine.amounts import count_of, parse_duration, parse_size, parse_time, size_text, whole_number
from engine.errors import EMPTY_PATH, UsageError
from engine.formats import LONG_MAX
from kafkalog_cli.help import DocumentedCommand

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from engine.files import ReadOnlyFiles

Command = TypeVar("Command", bound="Callable[..., Any] | click.Command")

_LARGEST = 1 << 60
_EXACT = "kafkalog.bytes"  # whether --bytes is given; a key in the context's meta
_SHOWN = 40  # characters of a value in a message about it
_OFF = ("false", "no", "off", "0")

class _PathType(click.Path):
    """A path that is not empty. Opening it reports other errors, with their own exit status.

    take  converts a URL, or raises UsageError
    """

    def __init__(self, take: Callable[[str], str]) -> None:
        super().__init__(readable=False)
        self._take = take

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        if not value:
            self.fail(EMPTY_PATH, parameter, context)
        try:
            return super().convert(self._take(value), parameter, context)
        except UsageError as error:
            self.fail(f"{error}: {error.do}" if error.do else str(error), parameter, context)


def files_for(paths: Iterable[str]) -> ReadOnlyFiles:
    """Return the files object that can read all of `paths`, which may be URLs, and the files next to them."""
    if any(map(_is_url, paths)):
        from engine.remote.url_files import UrlFiles

        return UrlFiles()
    from engine.files import ReadOnlyFiles

    return ReadOnlyFiles()


def _is_url(path: str) -> bool:
    from engine.discovery.names import is_url

    return is_url(path)


def _spelled(path: str) -> str:
    """Convert a path that may be a URL, see engine.remote.urls. Raises UsageError."""
    if not _is_url(path):
        return path
    from engine.remote.urls import spelled

    return spelled(path)


def refuse_url(path: str) -> str:
    """Return `path`. Raises UsageError for a URL, since URLs are read-only."""
    if _is_url(path):
        raise UsageError(f"{path}: only commands that change nothing read URLs; copy the directory to this machine first, and "
                         "name the copy", path=path)  # fmt: skip
    return path


def refuse_urls(paths: Iterable[str]) -> None:
    """Raise click.UsageError if one of `paths`, to be written to, is a URL."""
    try:
        for path in paths:
            refuse_url(path)
    except UsageError as error:
        raise click.UsageError(str(error)) from error


PATH = _PathType(refuse_url)
PATH_OR_URL = _PathType(_spelled)
STORE_PATH = _PathType(str)


def check_range(
    value: str, number: int, lowest: int, highest: int, param: click.Parameter | None, ctx: click.Context | None
) -> None:
    """Raise click.BadParameter if `number`, from the text `value`, is out of range."""
    if not lowest <= number <= highest:
        shown = repr(value if len(value) <= _SHOWN else value[:_SHOWN] + "…")
        bound = f"{lowest} or greater" if number < lowest else f"{highest} or less"
        raise click.BadParameter(f"must be {bound}, not {shown}", ctx, param)


class Size(click.ParamType[int]):
    """Bytes: 1000, 64kB, 16MiB; at least `least`."""

    name = "size"

    def __init__(self, least: int = 0) -> None:
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Convert text to bytes. Raises click.BadParameter."""
        if isinstance(value, int):
            return value
        size = parse_size(value)
        if size is None:
            self.fail(f"{value!r} is not a size: write 1000, 64kB or 16MiB", param, ctx)
        check_range(value, size, self._least, _LARGEST, param, ctx)
        return size


class Duration(click.ParamType[int]):
    """A duration in ms: 30d, 12h, 90m, 45s."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Convert text to ms. Raises click.BadParameter."""
        if isinstance(value, int):
            return value
        span = parse_duration(value)
        if span is None:
            self.fail(f"{value!r} is not a duration: write 30d, 12h, 90m or 45s", param, ctx)
        check_range(value, span, 0, LONG_MAX, param, ctx)
        return span


class Time(click.ParamType[int]):
    """A time: ISO-8601, milliseconds, or `2h ago`; at least `lowest` ms."""

    name = "time"

    def __init__(self, lowest: int = 0) -> None:
        self._lowest = lowest

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Convert text to ms since the epoch. Raises click.BadParameter."""
        if isinstance(value, int):
            return value
        from engine.files import now_ms  # --help does not need it

        check_milliseconds(value, self._lowest, param, ctx)
        found = parse_time(value, now_ms())
        if found is None:
            self.fail(f"{value!r} is not a time: write ISO-8601, milliseconds, or `2h ago`", param, ctx)
        if found < self._lowest:
            self.fail(f"{value!r} is before 1970", param, ctx)
        return found


def check_milliseconds(text: str, lowest: int, param: click.Parameter | None, ctx: click.Context | None) -> None:
    """Raise click.BadParameter for a number outside lowest … LONG_MAX; other text is valid here."""
    number = whole_number(text.strip())
    if number is not None:
        check_range(text, number, lowest, LONG_MAX, param, ctx)


class Whole(click.ParamType[int]):
    """A whole number between two bounds; the help leaves out bounds of its integer type."""

    name = "number"

    def __init__(self, lowest: int, highest: int = LONG_MAX) -> None:
        self._lowest, self._highest = lowest, highest

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Convert text to a number. Raises click.BadParameter."""
        if isinstance(value, int):
            return value
        number = whole_number(value.strip())
        if number is None:
            self.fail(f"{value!r} is not a whole number", param, ctx)
        check_range(value, number, self._lowest, self._highest, param, ctx)
        return number


class Ratio(click.ParamType[float]):
    """A number from 0 to 1; not `nan`, which compares as false."""

    name = "ratio"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Convert text to a number. Raises click.BadParameter."""
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if math.isnan(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        if not 0 <= number <= 1:
            self.fail(f"must be between 0 and 1, not {value!r}", param, ctx)
        return number


class FileList(click.ParamType[str]):
    """File names, separated by commas."""

    name = "files"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text with URLs normalised; Kafka's rules decide what an empty part means."""
        try:
            return ",".join(map(_spelled, str(value).split(",")))
        except UsageError as error:
            self.fail(f"{error}: {error.do}", param, ctx)


def _size_value(size: int) -> str:
    """Return bytes as an option accepts them: 5MiB, 2147483647."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size and size % scale == 0:
            return f"{size // scale}{unit}"
    return str(size)


def size_option(
    name: str, default: int | None, help: str, least: int = 0,  # noqa: A002  # click's own word
) -> Callable[[Command], Command]:  # fmt: skip
    """Return an option for bytes with units, at least `least`."""
    text = None if default is None else _size_value(default)
    return click.option(name, type=Size(least), default=text, show_default=default is not None, metavar="BYTES", help=help)


def bytes_option(function: Command) -> Command:
    """Add --bytes, for a command that prints sizes."""

    def remember(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
        context.meta[_EXACT] = value

    help_text = "In text, show exact sizes: 1288490188 bytes, not 1.2 GiB."
    return click.option("--bytes", is_flag=True, expose_value=False, callback=remember, help=help_text)(function)


def shown_size(size: int) -> str:
    """Return 1.2 GiB; with --bytes, and in the texts of JSON, 1288490188 bytes."""
    context = click.get_current_context(silent=True)
    is_exact = context is not None and (context.meta.get(_EXACT, False) or context.params.get("form", "text") != "text")
    return count_of(size, "byte") if is_exact else size_text(size)


def jobs_option(help: str) -> Callable[[Command], Command]:  # noqa: A002  # click's own word
    """Return --jobs, by default one for each processor, up to 8."""

    def by_processors(_ctx: click.Context, _parameter: click.Parameter, value: int | None) -> int:
        return min(8, os.cpu_count() or 1) if value is None else value

    return click.option("--jobs", "-j", type=Whole(1, 64), metavar="N", callback=by_processors, help=help)


class KafkaCommand(DocumentedCommand):
    """A command that parses options as Kafka's tools do: `-files` is valid, `--files` only once, a flag may have a value.

    kafka_options  those of Kafka's tool, by their long names
    """

    def __init__(self, *arguments: Any, kafka_options: Sequence[str] = (), **values: Any) -> None:
        super().__init__(*arguments, **values)
        self._kafka_options = frozenset(kafka_options)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Rewrite `-files` to `--files` and `--flag=x` to `--flag`, refuse a second `--files`, then parse as click does.

        joptsimple, which parses the options of Kafka's tools, sets a flag whatever its value is.
        """
        known = {name for parameter in self.params for name in parameter.opts if name.startswith("--")}
        flags = {name for parameter in self.params if getattr(parameter, "is_flag", False) for name in parameter.opts}
        seen: set[str] = set()
        rewritten: list[str] = []
        for index, word in enumerate(args):
            if word == "--":
                rewritten += args[index:]
                break
            name = word.partition("=")[0]
            double = "-" + name
            rewritten.append("-" + word if double in known else word)
            name, equals, value = rewritten[-1].partition("=")
            if equals and name in flags & self._kafka_options:
                rewritten[-1] = name
                if value.lower() in _OFF:
                    click.echo(f"{name}={value} sets {name}, as with kafka-dump-log: remove it instead", err=True)
            if name == "--files" and name in seen:
                raise click.UsageError("--files was given more than once; separate the files by commas", ctx)
            seen.add(name)
        return super().parse_args(ctx, rewritten)


def print_version(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    """Print the version for --version, and end. A callback for click."""
    if not value or ctx.resilient_parsing:
        return
    from importlib.metadata import PackageNotFoundError, version

    try:
        number = version("kafkalog")
    except PackageNotFoundError:
        number = "unknown"
    old = "" if _kernels_are_of_these_sources() else "kernels compiled from other sources: `make build` or pip install again, "
    click.echo(f"kafkalog {number} ({old}Python {sys.version.split()[0]})")
    ctx.exit()


def _kernels_are_of_these_sources() -> bool:
    """Return whether the kernels were compiled from the present sources. Raises ImportError if they are not compiled."""
    from importlib import import_module
    from importlib.resources import files

    from engine.kernels.build import STAMP, sources_digest

    present = {entry.name: entry.read_bytes() for entry in files("engine.kernels").iterdir() if not entry.is_dir()}
    try:
        return bool(sources_digest(present) == import_module(f"engine.kernels.{STAMP}").SOURCES)
    except ModuleNotFoundError:
        return False  # compiled before the stamp existed


format_option = click.option(
    "--format", "form", type=click.Choice(["text", "json", "jsonl"]), default="text", show_default=True,
    help="Text, one JSON document, or one JSON object a line.",
)  # fmt: skip
quiet_option = click.option("--quiet", "-q", is_flag=True, help="In text, show only problems.")
verbose_option = click.option(
    "--verbose", "-v", is_flag=True, help="In text, show every step and every finding, with its reason and what to do.",
)
now_option = click.option(
    "--now", type=Time(), metavar="TIME", help="The clock: ISO-8601, ms, or `2h ago`. Default: the machine's.",
)
yes_option = click.option("--yes", "-y", is_flag=True, help="At a terminal, do not ask before a change that cannot be undone.")
version_option = click.option(
    "--version", "-V", is_flag=True, is_eager=True, expose_value=False, callback=print_version, allow_from_autoenv=False,
    help="Show the version.",
)

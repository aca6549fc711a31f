"""What the options of several commands share."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

Command = TypeVar("Command", bound="Callable[..., Any] | click.Command")

EXIT_STATUS = (
    ("0", "nothing wrong"),
    ("1", "problems found and repaired"),
    ("2", "wrong usage"),
    ("4", "problems found and left"),
    ("8", "could not do the work"),
    ("130", "interrupted"),
)
_SIZE = re.compile(r"([0-9]+)\s*([kmgt]?)(i?b)?", re.IGNORECASE)
_LARGEST = 1 << 60
_SCALE = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


class Size(click.ParamType[int]):
    """Bytes: 1000, 64k, 16MiB. Units are powers of 1024."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Text → bytes; click.BadParameter for anything else."""
        if isinstance(value, int):
            return value
        match = _SIZE.fullmatch(value.strip())
        if match is None or len(value) > 24:
            self.fail(f"{value!r} is no size: write 1000, 64k or 16MiB", param, ctx)
        size = int(match[1]) * _SCALE[match[2].lower()]
        if size > _LARGEST:
            self.fail(f"{value!r} is more than any file can have", param, ctx)
        return size


def size_option(name: str, default: int, help: str) -> Callable[[Command], Command]:  # noqa: A002  # click's own word
    """An option that takes bytes, with units."""
    return click.option(name, type=Size(), default=default, show_default=str(default), metavar="BYTES", help=help)


class KafkaCommand(click.Command):
    """A command that takes its options as Kafka's tools do (`-files` too), and whose help ends with examples."""

    def __init__(self, *arguments: Any, examples: tuple[str, ...] = (), **values: Any) -> None:
        values.setdefault("context_settings", {})
        super().__init__(*arguments, **values)
        self.examples = examples

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Rewrite `-files` to `--files`, refuse a second `--files`, then parse as click does."""
        known = {name for parameter in self.params for name in parameter.opts if name.startswith("--")}
        seen: set[str] = set()
        rewritten: list[str] = []
        for index, word in enumerate(args):
            if word == "--":
                rewritten += args[index:]
                break
            name = word.partition("=")[0]
            double = "-" + name
            rewritten.append("-" + word if double in known else word)
            name = rewritten[-1].partition("=")[0]
            if name == "--files" and name in seen:
                raise click.UsageError("--files was given more than once; separate the files by commas", ctx)
            seen.add(name)
        return super().parse_args(ctx, rewritten)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Examples and exit status."""
        with formatter.section("EXAMPLES"):
            for example in self.examples:
                formatter.write_text(example)
        with formatter.section("EXIT STATUS"):
            formatter.write_dl(EXIT_STATUS)
        super().format_epilog(ctx, formatter)

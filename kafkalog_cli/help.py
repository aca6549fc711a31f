"""What `--help` shows beyond click's own: options in sections, examples that can be pasted, the exit status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

EXIT_STATUS = (
    ("0", "nothing wrong"),
    ("1", "problems found and repaired"),
    ("2", "wrong usage, or an offset to read from that the log does not have"),
    ("4", "problems found and left, or a change refused"),
    ("8", "could not do the work: unreadable, in use, no space"),
    ("129, 130, 143", "stopped by SIGHUP, Ctrl-C, SIGTERM"),
    ("141", "nobody reads the output any more"),
)
STATUS_NOTE = "Where several apply, the highest is returned."
OTHER_OPTIONS = "Other options"
_NAME_WIDTH = 32  # columns for the names of options, the same in every section


class Example(NamedTuple):
    """A command line that works when pasted, and what it is for."""

    purpose: str
    line: str


class Section(NamedTuple):
    """A heading in --help and the options under it, by their long names."""

    title: str
    options: tuple[str, ...]


class DocumentedCommand(click.Command):
    """A command whose help is a page: sections of options, EXAMPLES, EXIT STATUS. The man page has the same parts.

    sections  every option belongs to one; what no section names (--help) comes last
    writes    it changes files, so that status 1 can happen
    """

    def __init__(
        self, *arguments: Any, examples: Sequence[Example] = (), sections: Sequence[Section] = (), writes: bool = False,
        **values: Any,
    ) -> None:
        super().__init__(*arguments, **values)
        self.examples, self.sections, self.writes = tuple(examples), tuple(sections), writes

    @property
    def exit_status(self) -> tuple[tuple[str, str], ...]:
        """Status and meaning of every way this command can end."""
        return tuple(row for row in EXIT_STATUS if self.writes or row[0] != "1")

    def options_by_section(self, ctx: click.Context) -> list[tuple[str, list[click.Parameter]]]:
        """(title, its options) in the order of the sections; hidden options are left out."""
        shown: dict[str, click.Parameter] = {}
        for parameter in self.get_params(ctx):
            if isinstance(parameter, click.Option) and not parameter.hidden:
                shown[long_name(parameter)] = parameter
        found = [
            (section.title, [shown.pop(name) for name in section.options if name in shown]) for section in self.sections
        ]
        if shown:
            found.append((OTHER_OPTIONS if found else "Options", list(shown.values())))
        return found

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Options by section; a group's commands behind them."""
        sections = [
            (title, [row for row in (parameter.get_help_record(ctx) for parameter in parameters) if row])
            for title, parameters in self.options_by_section(ctx)
        ]
        width = min(_NAME_WIDTH, max(len(name) for _title, rows in sections for name, _help in rows))
        for title, rows in sections:
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, text in rows], col_max=_NAME_WIDTH)
        if isinstance(self, click.Group):
            self.format_commands(ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Examples, each line whole, and the exit status."""
        indent = " " * 4
        if self.examples:
            with formatter.section("EXAMPLES"):
                for purpose, line in self.examples:
                    formatter.write_text(purpose)
                    formatter.write(f"{indent}{line}\n")
        with formatter.section("EXIT STATUS"):
            formatter.write_dl(self.exit_status)
            formatter.write_text(STATUS_NOTE)
        super().format_epilog(ctx, formatter)


def long_name(parameter: click.Parameter) -> str:
    """`--files`: the name under which an option is documented."""
    return next((name for name in parameter.opts if name.startswith("--")), parameter.opts[0])

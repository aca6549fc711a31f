"""The `--help` of commands: options in sections, examples to paste, the exit status."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

EXIT_STATUS = (
    ("0", "no problem found"),
    ("1", "problems repaired"),
    ("2", "wrong usage, or an offset that the log does not have"),
    ("4", "problems that remain, or a change that was refused"),
    ("8", "failed: unreadable, in use, no space"),
    ("129, 130, 143", "stopped by SIGHUP, Ctrl-C, SIGTERM"),
    ("141", "the reader closed the output"),
)
STATUS_NOTE = "If several apply, the highest one is returned."
OTHER_OPTIONS = "Other options"
VARIABLES = "KAFKALOG_"  # prefix of environment variables
CONFIG_FILE_VARIABLE = f"{VARIABLES}CONFIG_FILE"  # for every command with --config-file
_NAME_WIDTH = 32  # columns for the names of options, in all sections
_LEAST, _NARROW = 20, 60  # columns of a terminal; below _NARROW, longer names have a line of their own
_WORDS = "kafkalog.words"
_INTRODUCTION = 11  # lines of the description in --help; the man page has all of them
_SHORT_EXAMPLES = 2


class HelpOption(click.Option):
    """-h prints a short help, --help a long one. No environment variable sets it."""

    def __init__(self, show: Callable[[click.Context, click.Parameter, str | None], None]) -> None:
        super().__init__(
            ["-h", "--help", "_help"], is_flag=True, flag_value="long", is_eager=True, expose_value=False, callback=show,
            allow_from_autoenv=False, help="Show the help; -h shows the main options only.",
        )

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:  # noqa: ARG002  # click's signature
        """Register each name with its own value."""
        for name, value in (("-h", "short"), ("--help", "long")):
            parser.add_option(obj=self, opts=[name], dest=self.name, action="store_const", const=value)


class Example(NamedTuple):
    """A command line to paste, and its purpose."""

    purpose: str
    line: str


class Section(NamedTuple):
    """A heading in --help and the options under it, by their long names."""

    title: str
    options: tuple[str, ...]


class _Formatter(click.HelpFormatter):
    """Click's formatter, which never uses less than 50 columns."""

    def __init__(self, indent_increment: int = 2, width: int | None = None, max_width: int | None = None) -> None:
        from shutil import get_terminal_size  # as in click: a command without --help does not need it

        columns = get_terminal_size().columns
        super().__init__(indent_increment, max(columns, _LEAST) if width is None and columns < _NARROW else width, max_width)


class _Context(click.Context):
    formatter_class = _Formatter


class DocumentedCommand(click.Command):
    """A command with a structured help: sections of options, EXAMPLES, EXIT STATUS. The man page has the same parts.

    sections  groups of options; options in no section (--help) are printed last
    main_options  options that -h prints, by their long names
    writes    the command changes files, so that its exit status can be 1
    statuses  what an exit status means here, where it is not what EXIT_STATUS says
    """

    context_class = _Context

    def __init__(
        self, *arguments: Any, examples: Sequence[Example] = (), sections: Sequence[Section] = (),
        main_options: Sequence[str] = (), writes: bool = False, statuses: Mapping[str, str] | None = None,
        **values: Any,
    ) -> None:
        super().__init__(*arguments, **values)
        self.examples, self.sections, self.main_options = tuple(examples), tuple(sections), tuple(main_options)
        self.writes, self._statuses = writes, statuses or {}
        self._own_help_option: HelpOption | None = None
        for option in self.params:
            if isinstance(option, click.Option) and option.allow_from_autoenv:
                others = [option.envvar] if isinstance(option.envvar, str) else []
                option.envvar = [self.variable_of(option), *others]

    def variable_of(self, option: click.Parameter) -> str:
        """Return the environment variable for `option`: as click's auto_envvar_prefix, but from the long name."""
        name = f"{self.name or ''}-{long_name(option).lstrip('-')}"
        return VARIABLES + name.replace("-", "_").upper()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the words of the command line, for `words_of`."""
        ctx.meta.setdefault(_WORDS, []).append(list(args))
        return super().parse_args(ctx, args)

    def get_help_option(self, ctx: click.Context) -> click.Option | None:  # noqa: ARG002  # click's signature
        """Return the option -h and --help, always the same object, as click requires."""
        if self._own_help_option is None:
            self._own_help_option = HelpOption(_show_help)
        return self._own_help_option

    def get_short_help(self, ctx: click.Context) -> str:
        """Return the help for -h: usage, the first sentence, the main options, two examples."""
        formatter = ctx.make_formatter()
        self.format_usage(ctx, formatter)
        formatter.write_paragraph()
        formatter.write_text(_paragraphs(self.help)[0])
        options = {long_name(option): option for option in self.get_params(ctx) if isinstance(option, click.Option)}
        rows = [row for row in (options[name].get_help_record(ctx) for name in self.main_options) if row]
        if rows:
            with formatter.section("Main options"):
                formatter.write_dl(rows, col_max=_name_width(formatter))
        if isinstance(self, click.Group):
            self.format_commands(ctx, formatter)
        self._format_examples(formatter, self.examples[:_SHORT_EXAMPLES])
        formatter.write_paragraph()
        formatter.write_text(f"All options: {ctx.command_path} --help")
        return formatter.getvalue().rstrip("\n")

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the paragraphs of the description that fit on part of a screen; the man page has all."""
        paragraphs = _paragraphs(self.help)
        shown = len(paragraphs)
        while shown > 1 and _lines_of(ctx, paragraphs[:shown]) > _INTRODUCTION:
            shown -= 1
        formatter.write_paragraph()
        for number, paragraph in enumerate(paragraphs[:shown]):
            if number:
                formatter.write_paragraph()
            formatter.write_text(paragraph)
        if shown < len(paragraphs):
            formatter.write_paragraph()
            formatter.write_text(f"Details: man {ctx.command_path.replace(' ', '-')}")

    @property
    def exit_status(self) -> tuple[tuple[str, str], ...]:
        """The possible exit statuses of this command, with their meaning."""
        rows = ((status, self._statuses.get(status, meaning)) for status, meaning in EXIT_STATUS)
        return tuple(row for row in rows if self.writes or row[0] != "1" or row[0] in self._statuses)

    def options_by_section(self, ctx: click.Context) -> list[tuple[str, list[click.Parameter]]]:
        """Return (title, options) of each section, without hidden options."""
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
        """Write the options by section, then the commands of a group."""
        sections = [
            (title, [row for row in (parameter.get_help_record(ctx) for parameter in parameters) if row])
            for title, parameters in self.options_by_section(ctx)
        ]
        limit = _name_width(formatter)
        width = min(limit, max(len(name) for _title, rows in sections for name, _help in rows))
        for title, rows in sections:
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, text in rows], col_max=limit)
        if isinstance(self, click.Group):
            self.format_commands(ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, each line unbroken, and the exit status."""
        self._format_examples(formatter, self.examples)
        with formatter.section("EXIT STATUS"):
            formatter.write_dl(self.exit_status)
            formatter.write_text(STATUS_NOTE)
        super().format_epilog(ctx, formatter)

    @staticmethod
    def _format_examples(formatter: click.HelpFormatter, examples: Sequence[Example]) -> None:
        if examples:
            with formatter.section("EXAMPLES"):
                for purpose, line in examples:
                    formatter.write_text(purpose)
                    formatter.write(f"    {line}\n")


def _show_help(ctx: click.Context, _parameter: click.Parameter, length: str | None) -> None:
    """Print the help for -h or --help, and end. A callback for click."""
    if length is None or ctx.resilient_parsing:
        return
    command = ctx.command
    if length == "short" and isinstance(command, DocumentedCommand):
        click.echo(command.get_short_help(ctx))
    else:
        click.echo(ctx.get_help())
    ctx.exit()


def _name_width(formatter: click.HelpFormatter) -> int:
    """Return the largest number of columns for the names of options."""
    return _NAME_WIDTH if formatter.width >= _NARROW else formatter.width // 3


def _paragraphs(text: str | None) -> list[str]:
    """Return the paragraphs of a docstring."""
    return [" ".join(part.split()) for part in (text or "").split("\n\n")]


def _lines_of(ctx: click.Context, paragraphs: Sequence[str]) -> int:
    """Return the number of lines of a description at the width of `ctx`."""
    formatter = ctx.make_formatter()
    with formatter.indentation():
        for paragraph in paragraphs:
            formatter.write_text(paragraph)
    return formatter.getvalue().count("\n") + len(paragraphs) - 1


def words_of(ctx: click.Context) -> list[str]:
    """Return the words that the user gave to the command."""
    return list(ctx.meta[_WORDS][-1])


def long_name(parameter: click.Parameter) -> str:
    """Return the documented name of an option, such as `--files`."""
    return next((name for name in parameter.opts if name.startswith("--")), parameter.opts[0])


class LazyGroup(DocumentedCommand, click.Group):
    """A group with a table of commands; only the command that runs is imported.

    table    name → (module, one line of help)
    aliases  another name → the name of the command
    """

    def __init__(
        self, *arguments: Any, table: Mapping[str, tuple[str, str]], aliases: Mapping[str, str] | None = None, **values: Any
    ) -> None:
        super().__init__(*arguments, **values)
        self.table, self.aliases = table, aliases or {}

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Return the names, sorted."""
        return sorted(self.table)

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        """Import and return the command of that name."""
        if name not in self.table:
            return None
        command: click.Command = import_module(self.table[name][0]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve as click does; for an unknown name, suggest the nearest one."""
        name = self.aliases.get(args[0], args[0])
        if name not in self.table and not name.startswith("-") and not ctx.resilient_parsing:
            from difflib import get_close_matches

            near = [known for known in self.table if known.startswith(name)] or get_close_matches(name, self.table)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(sorted(self.table))}"
            raise click.UsageError(f"no command {name!r}; {hint}", ctx)
        return super().resolve_command(ctx, [name, *args[1:]])

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.table[name][1]) for name in sorted(self.table)])


def show_short_help(ctx: click.Context) -> None:
    """Print the help of a group without a command."""
    if ctx.invoked_subcommand is None:
        assert isinstance(ctx.command, DocumentedCommand)
        click.echo(ctx.command.get_short_help(ctx))

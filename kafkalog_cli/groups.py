"""Groups of commands that load when they are used, so that --help stays fast."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from kafkalog_cli.help import DocumentedCommand

if TYPE_CHECKING:
    from collections.abc import Mapping


class LazyGroup(DocumentedCommand, click.Group):
    """Commands by a table; only the one that runs is imported.

    table    name → (module, one line of help)
    aliases  another name → the command
    """

    def __init__(
        self, *arguments: Any, table: Mapping[str, tuple[str, str]], aliases: Mapping[str, str] | None = None, **values: Any
    ) -> None:
        super().__init__(*arguments, **values)
        self.table, self.aliases = table, aliases or {}

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Names, sorted."""
        return sorted(self.table)

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        """The command of that name, imported now."""
        if name not in self.table:
            return None
        command: click.Command = import_module(self.table[name][0]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it; a name that is none of ours is met with the nearest one."""
        name = self.aliases.get(args[0], args[0])
        if name not in self.table and not name.startswith("-") and not ctx.resilient_parsing:
            from difflib import get_close_matches

            near = [known for known in self.table if known.startswith(name)] or get_close_matches(name, self.table)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(sorted(self.table))}"
            raise click.UsageError(f"no command {name!r}; {hint}", ctx)
        return super().resolve_command(ctx, [name, *args[1:]])

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in --help, without importing a command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.table[name][1]) for name in sorted(self.table)])


def show_short_help(ctx: click.Context) -> None:
    """What a group prints where no command is named."""
    if ctx.invoked_subcommand is None:
        assert isinstance(ctx.command, DocumentedCommand)
        click.echo(ctx.command.get_short_help(ctx))

"""kafkalog help."""

from __future__ import annotations

from contextlib import ExitStack

import click

from kafkalog_cli.help import DocumentedCommand, Example

_EXAMPLES = (
    Example("Everything about a command:", "kafkalog help recover"),
    Example("About a command of a group:", "kafkalog help remote list"),
)


@click.command("help", cls=DocumentedCommand, examples=_EXAMPLES)
@click.argument("names", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Show the help of a command.

    It is what COMMAND --help prints. Without COMMAND it lists all commands.
    """
    above = ctx.parent
    assert above is not None
    with ExitStack() as contexts:
        for word in names:
            if not isinstance(above.command, click.Group):
                raise click.UsageError(f"{above.command_path} has no commands of its own", ctx)
            name, found, _ = above.command.resolve_command(above, [word])
            assert found is not None
            above = contexts.enter_context(click.Context(found, parent=above, info_name=name))
        click.echo(above.get_help())

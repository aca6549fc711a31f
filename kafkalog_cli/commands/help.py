"""kafkalog help."""

from __future__ import annotations

import click

from kafkalog_cli.help import DocumentedCommand, Example

_EXAMPLES = (
    Example("Everything about a command:", "kafkalog help recover"),
)


@click.command("help", cls=DocumentedCommand, examples=_EXAMPLES)
@click.argument("name", required=False, metavar="[COMMAND]")
@click.pass_context
def command(ctx: click.Context, name: str | None) -> None:
    """Show the help of a command.

    It is what COMMAND --help prints. Without COMMAND it lists all commands.
    """
    above = ctx.parent
    assert above is not None
    assert isinstance(above.command, click.Group)
    if name is None:
        click.echo(above.get_help())
        return
    name, found, _ = above.command.resolve_command(above, [name])
    assert found is not None
    with click.Context(found, parent=above, info_name=name) as context:
        click.echo(context.get_help())

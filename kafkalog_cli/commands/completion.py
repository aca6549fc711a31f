"""kafkalog completion."""

from __future__ import annotations

import click

from kafkalog_cli.help import DocumentedCommand, Example

_EXAMPLES = (
    Example("The script for bash:", "kafkalog completion bash"),
    Example("The script for fish:", "kafkalog completion fish"),
)


@click.command("completion", cls=DocumentedCommand, examples=_EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of a shell.

    bash reads it from ~/.local/share/bash-completion/completions/kafkalog, fish from
    ~/.config/fish/completions/kafkalog.fish, zsh from a file _kafkalog in a directory of $fpath. The script holds all
    commands and options, so that no Python starts when TAB is pressed.
    """
    from kafkalog_cli.completions import scripts

    click.echo(scripts()[shell], nl=False)

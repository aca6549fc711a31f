"""kafkalog restore."""

from __future__ import annotations

from typing import Any

import click

from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.options import PATH, object_lines_option, version_option

_SECTIONS = (Section("What is done", ("--force", "--salvage", "--dry-run")), Section("Output", ("--format",)))
_EXAMPLES = (
    Example("Undo a recovery:", "kafkalog restore data.quarantine-20261121T120000Z"),
    Example("See what would be put back:", "kafkalog restore --dry-run data.quarantine-20261121T120000Z"),
)


@click.command("restore", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS, writes=True)
@click.argument("quarantine", type=PATH)
@click.option("--force", is_flag=True,
              help="Put the old state back even over files that changed or came meanwhile: a new quarantine keeps these.")
@click.option("--salvage", is_flag=True,
              help="Undo what can be undone, though the quarantine is damaged or its command was killed.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and change nothing.")
@object_lines_option("Text, or one JSON object a line.")
@version_option
def command(quarantine: str, **values: Any) -> int:
    """Undo what a command did, byte for byte, from its quarantine.

    What was cut, overwritten, renamed or removed is put back; files that the command made are removed. Checksums are
    compared first. It can be stopped at any time and called again. The quarantine itself is left where it is, and so
    is the lock file .lock, as Kafka leaves it. What is not as before in the end is named, with status 4.
    """
    from kafkalog_cli.restoring import run

    return run(quarantine, **values)

"""kafkalog restore."""

from __future__ import annotations

import click

from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.options import PATH, Duration, object_lines_option, version_option, yes_option

_SECTIONS = (
    Section("What is done", ("--list", "--prune", "--older-than", "--force", "--salvage", "--dry-run", "--yes")),
    Section("Output", ("--format",)),
)
_EXAMPLES = (
    Example("What can be undone beside a log dir, and how large is it?", "kafkalog restore --list data"),
    Example("Undo a recovery:", "kafkalog restore data.quarantine-20261121T120000Z"),
    Example("See what would be put back:", "kafkalog restore --dry-run data.quarantine-20261121T120000Z"),
    Example("Delete what nobody went back to for a month:", "kafkalog restore --prune --older-than 30d data"),
)


@click.command("restore", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS, writes=True)
@click.argument("paths", nargs=-1, type=PATH)
@click.option("--list", "lists", is_flag=True, help="Change nothing: show what can be undone, since when, and how large it is.")
@click.option("--prune", "prunes", is_flag=True, help="Delete quarantines; needs --older-than.")
@click.option("--older-than", "older_than_ms", type=Duration(), metavar="TIME",
              help="With --prune: only quarantines that were begun so long ago: 30d, 12h, 90m, 45s.")
@click.option("--force", is_flag=True,
              help="Put the old state back even over files that changed or came meanwhile: a new quarantine keeps these.")
@click.option("--salvage", is_flag=True,
              help="Undo what can be undone, though the quarantine is damaged or its command was killed.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and change nothing.")
@yes_option
@object_lines_option("Text, or one JSON object a line.")
@version_option
def command(
    paths: tuple[str, ...], lists: bool, prunes: bool, older_than_ms: int | None, force: bool, salvage: bool, dry_run: bool,
    yes: bool, form: str,
) -> int:
    """Undo what a command did, byte for byte, from its quarantine.

    PATHS are quarantines, and log dirs in which a write of Spark's sink was stopped in the middle of its commit. The file
    .kafkalog-sink.json in a log dir stands for the last completed write of the sink: what it appended is truncated, and
    kept in a quarantine, unless anything was written to these partitions since.

    What was cut, overwritten, renamed or removed is put back; files that the command made are removed. Checksums are
    compared first. It can be stopped at any time and called again. What needs no room on the disk is done first. The
    quarantine itself is left where it is, and so is the lock file .lock, as Kafka leaves it. What is not as before in the end
    is named, with status 4.

    With --list and --prune, PATHS are directories that hold quarantines, or log dirs with quarantines beside them; default:
    the working directory. Of a partition, --list shows the quarantines beside its log dir that hold something of it. --prune
    deletes only directories with a manifest of kafkalog's and nothing else in them. A quarantine from which restoring was begun
    stays until restoring is done.
    """
    from kafkalog_cli import restoring

    if lists and prunes:
        raise click.UsageError("--list and --prune exclude each other")
    if (lists or prunes) and (force or salvage):
        raise click.UsageError("--force and --salvage are for restoring")
    if prunes != (older_than_ms is not None):
        raise click.UsageError("--prune and --older-than belong together: --prune --older-than 30d")
    if lists:
        return restoring.show(paths, form)
    if older_than_ms is not None:
        return restoring.prune(paths, older_than_ms, form, dry_run=dry_run, yes=yes)
    return restoring.run(paths, force=force, salvage=salvage, dry_run=dry_run, yes=yes, form=form)

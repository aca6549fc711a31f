"""kafkalog verify-index."""

from __future__ import annotations

import click

from kafkalog_cli.engine_options import ConfigSetting, paths_from, quarantine_options, settings_from
from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.options import PATH, Whole, version_option, yes_option

_SECTIONS = (
    Section("Settings", ("--config", "--config-file")),
    Section("Repair", ("--rebuild", "--quarantine", "--no-quarantine", "--dry-run", "--yes", "--now")),
    Section("Output", ("--format", "--jobs")),
)
_EXAMPLES = (
    Example("All files of a partition against its log:", "kafkalog verify-index /var/lib/kafka/data/orders-7"),
    Example("All partitions of a log dir; what is wrong as JSON, one object a line:",
            "kafkalog verify-index --format jsonl /var/lib/kafka/data"),
    Example("What is broken, made anew from the logs of a stopped broker:", "kafkalog verify-index --rebuild data/orders-7"),
)


@click.command("verify-index", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS, writes=True)
@click.argument("paths", nargs=-1, type=PATH)
@click.option("--rebuild", is_flag=True, help="Make anew what is broken, from the log; a damaged log is left to `recover`.")
@quarantine_options
@yes_option
@click.option("--dry-run", is_flag=True, help="With --rebuild: change nothing, say what would be written.")
@click.option("--config", "settings", type=ConfigSetting(), multiple=True, metavar="NAME=VALUE",
              help="A topic setting, such as cleanup.policy, or index.interval.bytes with --rebuild; may be repeated. "
              "Overrides every other source.")
@click.option("--config-file", type=PATH, metavar="FILE",
              help="A broker's server.properties: settings of topics, and log.dirs where no PATHS are given.")
@click.option("--now", type=Whole(0), metavar="MS",
              help="With --rebuild: the clock by which producers expire, in ms since 1970. Default: the machine's.")
@click.option("--format", "form", type=click.Choice(["text", "json", "jsonl"]), default="text", show_default=True,
              help="A line for each partition, one JSON document, or one JSON object a line.")
@click.option("--jobs", type=Whole(1, 64), metavar="N", help="Read so many partitions side by side; default: one per core.")
@version_option
def command(
    paths: tuple[str, ...], rebuild: bool, dry_run: bool, settings: tuple[tuple[str, str], ...], config_file: str | None,
    now: int | None, form: str, jobs: int | None, quarantine: str | None, no_quarantine: bool, yes: bool,
) -> int:
    """Compare every index of a partition with its log.

    Each entry of offset, time and transaction indexes, of producer snapshots and of the leader epochs is held against
    the batches, which are read once, and their checksums are computed on the way. What is wrong is named together with
    whether it does harm; what older brokers wrote differently is not wrong. What no checksum covers is looked at too:
    offsets that run backwards, gaps between segments that no compaction explains, a log start behind the log's end.
    PATHS are partition directories, log directories, trees of them, quoted patterns, or a file of a partition. Without
    --rebuild nothing is ever written; with it, what is replaced or removed is kept in a quarantine, from which
    `kafkalog restore` puts it back. --rebuild locks the log dir of every partition named, also of those where nothing is to be
    rebuilt: no broker may run there.
    """
    from kafkalog_cli.verify import verify_all

    if not rebuild and (dry_run or now is not None or quarantine is not None or no_quarantine):
        raise click.UsageError("--dry-run, --now, --quarantine and --no-quarantine are for --rebuild")
    known = settings_from(config_file, settings)
    asked = None
    if rebuild:
        from engine.files import now_ms
        from kafkalog_cli.quarantining import quarantines_for
        from kafkalog_cli.rebuilding import Rebuild

        clock = now_ms() if now is None else now
        values = {"quarantine": quarantine, "no_quarantine": no_quarantine, "now": now, "form": form, "dry_run": dry_run}
        asked = Rebuild(clock, quarantines_for("verify-index --rebuild", values), dry_run=dry_run, asks=not yes)
    return verify_all(paths_from(paths, known), form, jobs, known, asked)

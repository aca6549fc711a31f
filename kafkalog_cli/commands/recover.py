"""kafkalog recover."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from engine.errors import UsageError, argument
from kafkalog_cli.engine_options import OUTPUT, RECOVERING, SETTINGS, WHICH, quarantine_options, recovering_options
from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.partitions import run as on_logs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.log.report import Report
    from engine.log.session import Session
    from kafkalog_cli.progress import Progress


_SECTIONS = (
    WHICH,
    Section("Action", ("--full", "--salvage", "--accept-metadata-loss", "--start-beyond-end", "--mark-clean",
                             "--keep-deleted", "--quarantine", "--no-quarantine")),
    RECOVERING, SETTINGS, OUTPUT,
)
_MAIN = ("--full", "--salvage", "--mark-clean", "--quarantine", "--dry-run")
_EXAMPLES = (
    Example("What would a broker drop at its next start?", "kafkalog recover --dry-run /var/lib/kafka/data"),
    Example("Repair a partition after a crash, as a broker would:", "kafkalog recover data/orders-7"),
    Example("All log dirs of a broker, so that it starts without recovering again:",
            "kafkalog recover --config-file server.properties --mark-clean"),
    Example("Keep the sound batches after damage:", "kafkalog recover --salvage data/orders-7"),
)


@click.command("recover", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS, main_options=_MAIN, writes=True)
@recovering_options
@quarantine_options
@click.option("--full", is_flag=True, help="Check all batches from the start of the log: short for --recovery-point 0.")
@click.option("--salvage", is_flag=True,
              help="As --full, and keep the sound batches after damage; consumers see a gap in the offsets.")
@click.option("--accept-metadata-loss", is_flag=True,
              help="Continue although the metadata log is damaged; the broker then loses its topics.")
@click.option("--start-beyond-end", type=click.Choice(["refuse", "keep", "delete"]), default="refuse", show_default=True,
              help="For a log that ends before its start in log-start-offset-checkpoint: leave it unchanged, keep it and "
              "correct the checkpoint, or delete all of it as a broker does.")
@click.option("--mark-clean", is_flag=True,
              help="Check all logs from their start, and mark log dirs as cleanly stopped if all logs are sound.")
def command(**values: Any) -> int:
    """Open partitions as a broker does after an unclean stop, and close them again.

    PATHS are partitions, log dirs or directories that hold log dirs; no broker may run on them. recover checks every batch from
    the recovery point on. At the first corrupt batch it truncates the log and deletes the segments after it, as the broker
    does. It rebuilds indexes, producer snapshots and leader epochs, and completes or removes the leftover files of interrupted
    deletions, compactions and splits.

    Small files that would stop a broker are rebuilt from other files on the disk, or removed, and reported in the broker's own
    words. If a broker's start would truncate the metadata log, and delete every topic with it, recover changes nothing.

    A log dir with a clean shutdown marker and without problems stays unchanged, with its marker.

    Batches below the recovery point are not checked; --full checks all. Problems that recover does not repair are reported with
    status 4: offsets that run backwards, or records that are missing according to checkpoints, epochs, snapshots and indexes.

    Truncated, replaced and removed data is kept in a quarantine; `kafkalog restore` puts it back.
    """
    return run(values)


def run(values: dict[str, Any]) -> int:
    """Recover the logs of PATHS, and return the exit status."""
    if values["mark_clean"] and values["clean_start"]:
        raise click.UsageError("--mark-clean needs a full check; remove --clean-start")
    if values["full"] and (values["clean_start"] or values["recovery_point"] is not None):
        raise click.UsageError("--full excludes --clean-start and --recovery-point")
    if values["full"]:
        values["recovery_point"] = 0

    def work(logs: Session, _progress: Progress) -> Iterator[Report]:
        from engine.log.operations.recover import RecoverOptions, recover

        part = next((log_dir for log_dir in logs.log_dirs if not log_dir.is_whole), None)
        if part is not None and values["mark_clean"]:
            what = f"{part.directories[0].path}: a partition; --mark-clean marks a whole log dir"
            raise UsageError(what, do=f"name the log dir: kafkalog recover --mark-clean {argument(part.path)}")
        asked = ("salvage", "accept_metadata_loss", "start_beyond_end", "mark_clean")
        return recover(logs.manager, RecoverOptions.of(logs.options, **{name: values[name] for name in asked}))

    return on_logs("recover", values, work, with_metadata=True)

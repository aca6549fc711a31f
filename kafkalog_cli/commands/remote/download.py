"""kafkalog remote download."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kafkalog_cli.app import printable
from kafkalog_cli.help import Example, Section
from kafkalog_cli.options import PATH
from kafkalog_cli.remote_output import OUTPUT, WHICH, RemoteCommand, log_dirs_and_settings, remote_options
from kafkalog_cli.remote_store import STORE, required_store, store_options
from kafkalog_cli.show import show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.config.server import Settings
    from engine.remote.access import StoreOptions
    from kafkalog_cli.show import Output

_EXAMPLES = (
    Example("Write a whole log into one directory:",
            "kafkalog remote download --topic orders --into /backups/orders --store s3://kafka-tiered /var/lib/kafka/data"),
    Example("See what would be written:",
            "kafkalog remote download --topic orders --into /backups/orders --store s3://kafka-tiered -n /var/lib/kafka/data"),
)  # fmt: skip


@click.command("remote-download", cls=RemoteCommand, examples=_EXAMPLES, main_options=("--into", "--store", "--topic"),
               sections=(WHICH, STORE, Section("What is done", ("--into", "--dry-run")), OUTPUT), writes=True)
@remote_options
@store_options
@click.option("--into", type=PATH, required=True, metavar="DIR",
              help="Write each partition into a directory of its own here; not a broker's log dir.")
@click.option("--dry-run", "-n", is_flag=True, help="Change nothing; show what would be written.")
def command(
    paths: tuple[str, ...], topics: tuple[str, ...], config_file: str | None, form: str, into: str, dry_run: bool, **values: Any
) -> int:
    """Write whole logs into a directory: the remote segments first, then the local ones.

    Each file of a remote segment is byte for byte what its broker had. The result is a log without remote storage: every
    command can read it, and a broker can, for a topic without remote storage. PATHS are log dirs with the partitions and with
    the logs of __remote_log_metadata; the command does not change them. You can stop it and run it again: complete segments
    are not fetched twice. At the end it verifies all files. It does not replace files that it did not write.
    """
    options = required_store(values, config_file)
    named, settings = log_dirs_and_settings(paths, config_file)
    return show(form, lambda output: _download(named, settings, topics, options, into, output, dry_run=dry_run))


def _download(
    named: Sequence[str], settings: Settings, topics: Sequence[str], options: StoreOptions, into: str, output: Output, *,
    dry_run: bool,
) -> None:  # fmt: skip
    from engine.errors import KafkalogError
    from engine.files import Files, now_ms
    from engine.log.report import Report
    from engine.overlay import OverlayFiles
    from engine.remote.download import Download, refuse_log_dir
    from engine.remote.partitions import TieredPartitions
    from kafkalog_cli.render_report import exit_status, report_fields, text_lines

    files = OverlayFiles(Files(), now_ms()) if dry_run else Files()
    refuse_log_dir(files, into)
    partitions = TieredPartitions(files, named, settings, topics, output.outcome.finding)
    layout = options.open(files)
    download = Download(files, layout, into)
    for directory in partitions.directories.values():
        report = Report(directory, "remote download")
        with partitions.open(directory) as log:
            if not log.is_tiered:
                continue
            try:
                download.run(log, report)
            except KafkalogError as error:
                report.failure = error
        if output.stream is not None:
            output.stream.put("report", report_fields(report, dry_run=dry_run))
        else:
            for line in text_lines(report):
                output.line(printable(line))
        output.outcome.at_least(exit_status(report))
        if report.failure is not None:
            output.outcome.error(report.failure)
    if dry_run and output.stream is None:
        output.line("dry run: nothing was changed")

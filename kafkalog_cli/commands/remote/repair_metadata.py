"""kafkalog remote repair-metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kafkalog_cli.commands.remote.restore import ABSENT_OPTIONS
from kafkalog_cli.engine_options import config_file_option, quarantine_options
from kafkalog_cli.help import Example, Section
from kafkalog_cli.options import PATH, Whole, format_option, quiet_option, verbose_option, version_option
from kafkalog_cli.remote_output import WHICH, RemoteCommand, topic_option
from kafkalog_cli.remote_store import STORE, required_store, store_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.log.report import Report
    from engine.log.session import Session
    from kafkalog_cli.progress import Progress

_SECTIONS = (
    WHICH._replace(options=(*WHICH.options, "--log-dir", "--metadata-partitions")), STORE,
    Section("Action", ("--replace-undecodable",)),
    Section("Output and work", ("--dry-run", "--quarantine", "--no-quarantine", "--quiet", "--verbose", "--format")),
)  # fmt: skip
_EXAMPLES = (
    Example("List the segments in the store that no record names:",
            "kafkalog remote repair-metadata -n --store s3://kafka-tiered /var/lib/kafka/data"),
    Example("Replace records that no broker can decode:",
            "kafkalog remote repair-metadata --replace-undecodable /var/lib/kafka/data"),
)  # fmt: skip


@click.command("remote-repair-metadata", cls=RemoteCommand, examples=_EXAMPLES, sections=_SECTIONS, writes=True,
               main_options=("--store", "--topic", "--dry-run"))
@click.argument("paths", nargs=-1, type=PATH, required=True)
@topic_option
@config_file_option("settings of topics")
@click.option("--log-dir", "log_dirs", type=PATH, multiple=True, metavar="DIR",
              help="A log dir of another broker with logs of __remote_log_metadata, which are only read; may be repeated.")
@click.option("--metadata-partitions", "metadata_count", type=Whole(1, 1_000_000), metavar="N",
              help="Number of partitions of __remote_log_metadata, if no log dir has the cluster's metadata.")
@store_options
@click.option("--replace-undecodable", is_flag=True,
              help="Append nothing: replace batches whose records no broker can decode with empty batches. Needs no store.")
@click.option("--dry-run", "-n", is_flag=True, help="Change nothing; show what would be appended.")
@quarantine_options
@format_option
@quiet_option
@verbose_option
@version_option
def command(
    topics: tuple[str, ...], log_dirs: tuple[str, ...], metadata_count: int | None, replace_undecodable: bool, **values: Any
) -> int:
    """Add records to __remote_log_metadata for segments that are in the store and that no record names.

    PATHS are all log dirs of a stopped broker. The command finds complete segments of its partitions in the store, and checks
    them against the leader epochs and the log start offset on the disk. For each segment that no record names, and that was not
    deleted, it appends the records of a complete copy to the broker's logs of __remote_log_metadata. Run it before you start a
    broker without these records: its leaders would move the log start offsets to the first local segments.

    A broker's consumer of the topic stops at the first record that it cannot decode, for example one that was sent to the
    topic by mistake. The command then appends nothing. With --replace-undecodable it replaces such batches in all logs of the
    topic in PATHS; all other offsets stay. Do this on each broker with a replica before you start one of them.
    """
    from kafkalog_cli.partitions import run

    if replace_undecodable:
        return run("remote-repair-metadata", {**ABSENT_OPTIONS, **values}, _replace, makes_partitions=True)
    options = required_store(values, values["config_file"])

    def work(session: Session, progress: Progress) -> Iterator[Report]:
        from engine.remote.repair import RepairMetadata

        layout = options.open(session.dirs.disk)
        report = progress.say
        return RepairMetadata(layout, topics, log_dirs, metadata_count, lambda one: report(str(one))).work(session)

    return run("remote-repair-metadata", {**ABSENT_OPTIONS, **values}, work, makes_partitions=True)


def _replace(session: Session, progress: Progress) -> Iterator[Report]:
    from engine.remote.undecodable import replace_undecodable

    report = progress.say
    return replace_undecodable(session, lambda one: report(str(one)))

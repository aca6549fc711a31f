"""kafkalog remote restore."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kafkalog_cli.engine_options import config_file_option, quarantine_options
from kafkalog_cli.help import Example, Section
from kafkalog_cli.options import PATH, Whole, format_option, quiet_option, verbose_option, version_option
from kafkalog_cli.remote_output import RemoteCommand
from kafkalog_cli.remote_store import STORE, required_store, store_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.log.report import Report
    from engine.log.session import Session
    from kafkalog_cli.progress import Progress

_SECTIONS = (
    Section("What is restored, and where", (
        "--into", "--log-dir", "--full", "--topic-id", "--metadata-partitions", "--config-file",
    )),
    STORE,
    Section("Output and work", ("--dry-run", "--quarantine", "--no-quarantine", "--quiet", "--verbose", "--format")),
)
_EXAMPLES = (
    Example("Show which segments of a topic are in a bucket, and what would be written:",
            "kafkalog remote restore orders --into /var/lib/kafka/data --store s3://kafka-tiered -n"),
    Example("Restore all topics:", "kafkalog remote restore '*' --into /var/lib/kafka/data --store s3://kafka-tiered"),
)  # fmt: skip
ABSENT_OPTIONS: dict[str, Any] = {
    "settings": (), "now": None, "clean_start": False, "recovery_point": None, "log_start_offset": None,
    "keep_deleted": False, "jobs": 1, "metrics_textfile": None, "yes": True,
}  # fmt: skip  # options of commands on logs that this command does not have


@click.command("remote-restore", cls=RemoteCommand, examples=_EXAMPLES, sections=_SECTIONS, writes=True,
               main_options=("--into", "--store", "--full", "--dry-run"))
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...")
@click.option("--into", "log_dir", type=PATH, required=True, metavar="LOGDIR",
              help="The log dir of the broker that will lead the partitions; no broker may run on it.")
@click.option("--log-dir", "log_dirs", type=PATH, multiple=True, metavar="DIR",
              help="Another remaining log dir of the cluster: of the same broker, or with logs of __remote_log_metadata; "
                   "may be repeated.")
@click.option("--full", "whole", is_flag=True, help="Write all segments, not only the end of each log.")
@click.option("--topic-id", metavar="ID", help="Restore the topic with this id, if a topic was created several times.")
@click.option("--metadata-partitions", "metadata_count", type=Whole(1, 1_000_000), metavar="N",
              help="Number of partitions of __remote_log_metadata, if the cluster's metadata is lost "
                   "(remote.log.metadata.topic.num.partitions). Default: from --config-file, or 50.")
@config_file_option("settings of topics")
@store_options
@click.option("--dry-run", "-n", is_flag=True, help="Change nothing; show what would be done.")
@quarantine_options
@format_option
@quiet_option
@verbose_option
@version_option
def command(topics: tuple[str, ...], log_dir: str, log_dirs: tuple[str, ...], **values: Any) -> int:
    """Restore topics that exist only in the store.

    TOPICS are names or quoted patterns. The command finds the complete segments of each partition in the store, and reads the
    leader epochs and the producers of the last one. It creates the partition directory with its topic id and an empty segment
    at the log end, adds lines to the checkpoints, and adds records to __remote_log_metadata that describe the segments. With
    --full it also writes all segments. A broker then serves every record, accepts new ones, and continues to copy.

    Records that were not copied before the loss are not in the store. Do not start a broker before this command has ended: a
    leader with an empty log deletes the remote segments that it knows. You can stop the command and run it again.
    """
    options = required_store(values, values["config_file"])
    from engine.remote.restore import RestoreOptions
    from kafkalog_cli.partitions import run

    chosen = RestoreOptions(
        topics=topics, topic_id=values.pop("topic_id"), log_dirs=log_dirs, metadata_count=values.pop("metadata_count"),
        whole=values.pop("whole"),
    )  # fmt: skip

    def work(session: Session, progress: Progress) -> Iterator[Report]:
        from engine.remote.restore import Restore

        layout = options.open(session.dirs.disk)
        return Restore(chosen, layout, lambda finding: progress.say(str(finding))).work(session)

    return run("remote-restore", {**ABSENT_OPTIONS, **values, "paths": (log_dir,)}, work, makes_partitions=True,
               more_log_dirs=lambda: of_one_broker(log_dir, log_dirs))


def of_one_broker(log_dir: str, others: tuple[str, ...]) -> list[str]:
    """Return the log dirs among `others` of the same broker as `log_dir`, to lock them together."""
    from engine.files import ReadOnlyFiles
    from engine.log.logdir.log_dirs import find_log_dirs
    from engine.log.logdir.startup import survey

    own, files = log_dir.rstrip("/"), ReadOnlyFiles()
    found = survey(files, find_log_dirs(files, [own, *others])).identities
    node_id = found[own].node_id if own in found else None
    return [path for path, identity in found.items() if path != own and node_id is not None and identity.node_id == node_id]

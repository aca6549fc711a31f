"""kafkalog remote: commands for tiered storage."""

from __future__ import annotations

import click

from kafkalog_cli.help import Example, LazyGroup, show_short_help
from kafkalog_cli.options import version_option

_TABLE = {
    "list": ("kafkalog_cli.commands.remote.list_segments", "List the remote segments of partitions, or their history."),
    "verify": ("kafkalog_cli.commands.remote.verify", "Compare the objects of a store with the metadata of remote segments."),
    "offsets": ("kafkalog_cli.commands.remote.offsets", "Show where logs begin and end, and what is not copied yet, and why."),
    "download": ("kafkalog_cli.commands.remote.download", "Write whole logs, with their remote segments, into a directory."),
    "repair-metadata": (
        "kafkalog_cli.commands.remote.repair_metadata", "Add metadata records for segments that no record names.",
    ),
    "upload": ("kafkalog_cli.commands.remote.upload", "Copy closed segments of a stopped broker into the store."),
    "orphans": ("kafkalog_cli.commands.remote.orphans", "List objects that no broker will delete, and delete them."),
    "cost": (
        "kafkalog_cli.commands.remote.cost", "Show how much each topic takes in a store, and how much of that no broker reads.",
    ),
    "restore": ("kafkalog_cli.commands.remote.restore", "Restore topics that exist only in the store."),
}
_EXAMPLES = (
    Example("List the remote segments:", "kafkalog remote list /var/lib/kafka/data"),
    Example("Show what is not copied yet, and why:", "kafkalog remote offsets /var/lib/kafka/data"),
    Example("Restore a topic when all brokers are lost:",
            "kafkalog remote restore orders --into /var/lib/kafka/data --store s3://kafka-tiered"),
)


@click.group("remote", cls=LazyGroup, table=_TABLE, examples=_EXAMPLES, invoke_without_command=True)
@version_option
@click.pass_context
def command(ctx: click.Context) -> None:
    """Inspect, verify, copy and restore segments in tiered storage (KIP-405).

    Brokers record their remote segments in the topic __remote_log_metadata. These commands read its logs in the log dirs
    that you name: name the log dirs of all brokers, or at least those that hold partitions of that topic.
    """
    show_short_help(ctx)

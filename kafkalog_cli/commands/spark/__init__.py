"""kafkalog spark: jobs over many log dirs."""

from __future__ import annotations

import click

from kafkalog_cli.help import Example, LazyGroup, show_short_help
from kafkalog_cli.options import version_option

_TABLE = {
    "verify": ("kafkalog_cli.commands.spark.verify", "Check every file of every partition, and compare replicas."),
    "stats": ("kafkalog_cli.commands.spark.stats", "Count records and bytes by topic, codec, producer, hour, header or key."),
    "export": ("kafkalog_cli.commands.spark.export", "Write records as a Parquet, ORC, Delta or Iceberg table."),
    "import": ("kafkalog_cli.commands.spark.import_", "Write a table of export back into partition directories."),
    "recover": ("kafkalog_cli.commands.spark.recover", "Recover the log dirs of many brokers, as `kafkalog recover` does."),
    "compact": ("kafkalog_cli.commands.spark.compact", "Compact the log dirs of many brokers, as `kafkalog compact` does."),
    "undo": ("kafkalog_cli.commands.restore", "The same as `kafkalog restore`: undo an import, or a write of the sink."),
}
_EXAMPLES = (
    Example("Every partition of many log dirs, replicas against each other:", "kafkalog spark verify /backups/broker-*"),
    Example("Two topics as Parquet:", "kafkalog spark export --topic orders --topic payments --to /lake/kafka /backups"),
    Example("On a cluster:", "kafkalog spark verify --master spark://head:7077 /backups"),
)


@click.group("spark", cls=LazyGroup, table=_TABLE, examples=_EXAMPLES, writes=True, invoke_without_command=True)
@version_option
@click.pass_context
def command(ctx: click.Context) -> None:
    """Run a job on Spark over many log dirs.

    PATHS of the jobs are partition directories, log directories, trees of them, or quoted patterns; for import, tables. verify,
    stats and export also take URLs (s3://, gs://, az://). Every executor must see all PATHS. Needs the extra `spark` and Java
    17 or 21.

    In Python the jobs are functions of the same names in kafkalog_spark.
    """
    show_short_help(ctx)

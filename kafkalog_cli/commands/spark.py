"""kafkalog spark."""

from __future__ import annotations

import click
from click.core import ParameterSource

from kafkalog_cli.engine_options import ConfigSetting
from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.options import PATH, Whole, object_lines_option, size_option, version_option

_SECTIONS = (
    Section("What is worked on", ("--topic", "--split-bytes", "--on-corruption")),
    Section("stats", ("--by", "--top")),
    Section("export and import", ("--to", "--mode", "--table")),
    Section("verify, recover, compact and import",
            ("--config", "--now", "--salvage", "--force", "--dedupe-buffer-size", "--shuffle")),
    Section("Spark", ("--master", "--conf")),
    Section("Output", ("--format",)),
)
_EXAMPLES = (
    Example("Every partition of many log dirs, replicas against each other:", "kafkalog spark verify /backups/broker-*"),
    Example("Where the bytes are:", "kafkalog spark stats --by topic /var/lib/kafka/data"),
    Example("Two topics as Parquet:", "kafkalog spark export --topic orders --topic payments --to /lake/kafka /backups"),
    Example("And back, into partition directories:", "kafkalog spark import --to /restored/data /lake/kafka"),
    Example("On a cluster:", "kafkalog spark verify --master spark://head:7077 /backups"),
    Example("What a write left that was killed in the middle:", "kafkalog spark undo /restored/data"),
    Example("Compact what is due, however many keys it has:",
            "kafkalog spark compact --dedupe-buffer-size 64m /var/lib/kafka/data"),
)

_ON_SPARK = ("verify", "stats", "export", "import", "recover", "compact")
_OF_JOBS = {  # options that not every job takes
    "topics": _ON_SPARK, "master": _ON_SPARK, "settings": _ON_SPARK, "form": _ON_SPARK,
    "split_bytes": ("verify", "stats", "export"),
    "on_corruption": ("stats", "export"), "by": ("stats",), "top": ("stats",), "to": ("export", "import"),
    "mode": ("export", "import"), "table": ("export", "import"), "config": ("verify", "import", "recover", "compact"),
    "now": ("recover", "compact"), "salvage": ("recover",), "force": ("compact",), "dedupe_buffer_size": ("compact",),
    "shuffle": ("compact",),
}  # fmt: skip


def _refuse_of_others(context: click.Context, job: str) -> None:
    """Raise UsageError for an option that `job` would pass over."""
    for parameter in context.command.params:
        name, jobs = parameter.name or "", _OF_JOBS.get(parameter.name or "", (job,))
        if job not in jobs and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{job} takes no {parameter.opts[0]}, which is of {', '.join(jobs)}")


@click.command("spark", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS, writes=True)
@click.argument("job", type=click.Choice([*_ON_SPARK, "undo"]))
@click.argument("paths", nargs=-1, required=True, type=PATH)
@click.option("--topic", "topics", multiple=True, metavar="NAME",
              help="Only this topic; may be repeated. recover, compact: as if its partition directories were the PATHS.")
@size_option("--split-bytes", default=None, least=1,
             help="Bytes of segments to a task, such as 64m. Default: 128m; of stats by topic, codec or producer 1g.")
@click.option("--on-corruption", type=click.Choice(["fail", "skip", "report"]), default="fail", show_default=True,
              help="stats, export: give up at damage, leave it out, or leave it out and write it to the executors' logs.")
@click.option("--by", type=click.Choice(["topic", "codec", "producer", "hour", "header", "key"]), default="topic",
              show_default=True, help="stats: what records and bytes are added up by.")
@click.option("--top", type=Whole(1), default=20, show_default=True, metavar="N", help="stats by key: so many of the largest.")
@click.option("--to", metavar="DIR", help="export: where the table goes. import: where partition directories go.")
@click.option("--mode", type=click.Choice(["error", "append", "overwrite"]), default="error", show_default=True,
              help="What to do where tables or partition directories are there already: give up, add to them, or replace them.")
@click.option("--table", type=click.Choice(["parquet", "delta", "iceberg"]), default="parquet", show_default=True,
              help="What kind of table it is; the last two need their packages in the session (spark.jars.packages).")
@click.option("--config", "config", type=ConfigSetting(), multiple=True, metavar="NAME=VALUE",
              help="A setting of all topics, over those of the metadata logs; may be repeated.")
@click.option("--now", type=Whole(0), metavar="MS",
              help="recover, compact: the clock of the job, in ms since 1970. Default: this machine's.")
@click.option("--salvage", is_flag=True, help="recover: keep the sound batches behind damage.")
@click.option("--force", is_flag=True, help="compact: also logs that are less dirty than their settings ask for.")
@size_option("--dedupe-buffer-size", default=96 << 20, help="compact: memory of a task for keys, 24 bytes each.")
@click.option("--shuffle", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True,
              help="compact: whether many tasks clean a partition together: where its keys may not fit one task's memory, "
                   "always, or never, which takes more rounds.")
@click.option("--master", metavar="URL", help="Where the job runs; default: as spark-submit says, else on all cores here.")
@click.option("--conf", "settings", type=ConfigSetting(), multiple=True, metavar="NAME=VALUE",
              help="A setting of Spark; may be repeated.")
@object_lines_option("Rows for people, or one JSON object a line.")
@version_option
@click.pass_context
def command(
    context: click.Context, job: str, paths: tuple[str, ...], topics: tuple[str, ...], split_bytes: int | None,
    on_corruption: str, by: str, top: int, to: str | None, mode: str, table: str, config: tuple[tuple[str, str], ...],
    now: int | None, salvage: bool, force: bool, dedupe_buffer_size: int, shuffle: str, master: str | None,
    settings: tuple[tuple[str, str], ...], form: str,
) -> int:
    """Work that outgrows one machine: a job on Spark over many log dirs.

    JOB is verify (every file of every partition, and replicas of one against each other), stats (records and bytes by
    topic, key and more), export (records as a table, a folder for each topic), import (such a table back into partition
    directories, offsets and timestamps kept), recover or compact (what the commands of that name do to log dirs, a task for
    some partitions; with their locks, and recover's quarantines). PATHS are partition directories, log directories, trees of
    them, or quoted patterns, of import tables; every executor must see them. Needs the extra `spark` and Java 17 or 21. From
    Python the same jobs are functions of kafkalog_spark.jobs. undo alone needs no Spark: it makes log directories what they
    were before a write of the sink, or import, that was stopped in the middle of its commit.
    """
    from kafkalog_cli.spark import Given, run_job, undo

    _refuse_of_others(context, job)
    if job == "undo":
        return undo(paths)
    if job in ("export", "import") and to is None:
        raise click.UsageError(f"{job} needs --to DIR")
    reading: dict[str, object] = {"onCorruption": on_corruption}
    if topics:
        reading["subscribe"] = ",".join(topics)
    if split_bytes is not None:
        reading["splitBytes"] = split_bytes
    given = Given(
        paths, topics, reading, form, by, top, to or "", mode, table, dict(config), now, salvage, force, dedupe_buffer_size,
        shuffle,
    )  # fmt: skip
    return run_job(job, given, master, settings)

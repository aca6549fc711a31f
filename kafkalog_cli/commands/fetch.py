"""kafkalog fetch."""

from __future__ import annotations

from typing import Any

import click

from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.options import PATH, Size, Whole, version_option
from kafkalog_cli.ranges import Instant, StartOffset

_SECTIONS = (
    Section("Where to begin and to end", (
        "--offset", "--timestamp", "--max-bytes", "--limit", "--isolation", "--open-transactions", "--log-dir", "--follow",
        "--log-start-offset", "--high-watermark",
    )),
    Section("Output", ("--template", "--format", "--raw", "--force")),
)
_EXAMPLES = (
    Example("Every value, one a line:", "kafkalog fetch data/orders-7"),
    Example("Key and value of what has the last ten offsets:",
            "kafkalog fetch --offset -10 -f '%o %k: %s\\n' data/orders-7"),
    Example("What was committed since noon, as JSON, one object a line:",
            "kafkalog fetch --timestamp 2026-11-21T12:00Z --isolation read_committed --format jsonl data/orders-7"),
    Example("Watch a partition while a broker writes it:", "kafkalog fetch --offset latest --follow data/orders-7"),
    Example("The batches as they are, for another tool:", "kafkalog fetch --raw --offset 4096 data/orders-7"),
)


@click.command("fetch", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS)
@click.argument("path", type=PATH)
@click.option("--offset", type=StartOffset(), metavar="N",
              help="Begin with this offset; earliest, latest, or -N: N offsets before the end. Default: earliest.")
@click.option("--timestamp", type=Instant(), metavar="TIME",
              help="Begin with the first record of this time or later: ISO-8601 (UTC unless it says), ms, or `2h ago`.")
@click.option("--max-bytes", type=Size(), metavar="BYTES",
              help="Read whole batches of so many bytes, at least one. Default: all.")
@click.option("--limit", type=Whole(0), metavar="N", help="Show the first N records only.")
@click.option("--isolation", type=click.Choice(["read_uncommitted", "read_committed"]), default="read_uncommitted",
              show_default=True, help="read_committed leaves out aborted transactions, and ends where one is open.")
@click.option("--open-transactions", type=click.Choice(["wait", "abort"]), metavar="wait|abort",
              help="With read_committed, where transactions are open at the end of a dead broker's log: end before them and "
              "report what they hold back, or read on as after the next start of their coordinators, which abort them "
              "(commit those that __transaction_state beside it says are decided). Default: wait.")
@click.option("--log-dir", "log_dirs", type=PATH, multiple=True, metavar="DIR",
              help="With --open-transactions abort: another log dir of the same cluster, whose __transaction_state is read as "
                   "well; may be repeated.")
@click.option("--follow", is_flag=True, help="Wait for more at the end, until Ctrl-C.")
@click.option("--log-start-offset", type=Whole(0), metavar="N",
              help="The log begins here: what lies below counts as deleted. Default: as the log dir's checkpoint says.")
@click.option("--high-watermark", type=Whole(0), metavar="N",
              help="Records from this offset on are not shown: not on all replicas. Default: the log end.")
@click.option("--template", "-f", metavar="FORMAT",
              help="Text for each record: %s %k value and key, %S %K their sizes, %o offset, %T timestamp, %h headers, "
                   "%t topic, %p partition, %R the size of the value in 4 bytes; \\n \\r \\t \\xHH. Default: '%s\\n'.")
@click.option("--format", "form", type=click.Choice(["text", "json", "jsonl"]), default="text", show_default=True,
              help="Text, one JSON document, or one JSON object a line.")
@click.option("--raw", is_flag=True, help="Write the batches as they stand in the log, whole ones, aborted ones too.")
@click.option("--force", is_flag=True, help="Write --raw, and a template with raw bytes (%R, \\xHH), to a terminal as well.")
@version_option
def command(path: str, **values: Any) -> int:
    """Read the records of a partition as a consumer does.

    Control records are left out, and with read_committed those of aborted transactions. Offsets and times are looked up
    through the indexes. PATH is the directory of a partition; a broker may be writing it meanwhile. Nothing is changed.
    """
    from kafkalog_cli.fetch import Wanted, fetch

    if values["offset"] is not None and values["timestamp"] is not None:
        raise click.UsageError("--offset and --timestamp exclude each other")
    if values["raw"] and (values["template"] is not None or values["form"] != "text" or values["limit"] is not None):
        raise click.UsageError("--raw knows no records: leave out --template, --format and --limit")
    if values["open_transactions"] is not None and values["isolation"] != "read_committed":
        raise click.UsageError("--open-transactions is for --isolation read_committed")
    if values["open_transactions"] == "abort" and values["follow"]:
        raise click.UsageError("--open-transactions abort is for the log of a dead broker, which nobody follows")
    if values["log_dirs"] and values["open_transactions"] != "abort":
        raise click.UsageError("--log-dir is for --open-transactions abort")
    if values["form"] != "text" and values["template"] is not None:
        raise click.UsageError("--template is for --format text")
    return fetch(path, Wanted(**values))

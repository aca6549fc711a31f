"""kafkalog append."""

from __future__ import annotations

from typing import Any

import click

from engine.formats import CODEC_NAMES, INT_MAX, INT_MIN
from kafkalog_cli.engine_options import OPENING, OUTPUT_OF_ONE, SETTINGS, one_log_options, quarantine_option
from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.options import PATH, Whole, size_option

_SECTIONS = (
    Section("Input", ("--input", "--input-format", "--ignore-unknown", "--separator", "--null", "--timestamp")),
    Section("Batches", ("--compression", "--compression-level", "--batch-size", "--leader-epoch", "--follower", "--magic")),
    Section("Producer", ("--producer-id", "--producer-epoch", "--sequence", "--transaction", "--coordinator-epoch")),
    Section("What is done", ("--create", "--topic-id", "--flush-messages", "--flush-ms", "--keep-deleted", "--quarantine")),
    OPENING, SETTINGS, OUTPUT_OF_ONE,
)  # fmt: skip
_EXAMPLES = (
    Example("Records as JSON, one a line:", "kafkalog append --input records.jsonl data/orders-7"),
    Example("Keys and values from a pipe, on the disk line by line:",
            "kafkalog append --input-format text --flush-messages 1 data/orders-7"),
    Example("The batches of a segment, offsets and all, into a new partition:",
            "kafkalog append --create --follower --input-format raw --input old/00000000000000000000.log data/orders-7"),
    Example("A transaction that is aborted:",
            "kafkalog append --producer-id 7 --transaction abort --input records.jsonl data/orders-7"),
)  # fmt: skip


@click.command("append", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS, writes=True)
@one_log_options
@quarantine_option
@click.option("--input", "source", type=PATH, default="-", metavar="FILE", help="Read this file. Default: stdin.")
@click.option("--input-format", "form_in", type=click.Choice(["json", "text", "raw"]), default="json", show_default=True,
              help="A JSON object a line; or key, separator and value; or batches as they lie in a .log.")
@click.option("--ignore-unknown", is_flag=True,
              help="Pass over members of JSON objects that a record does not have. Default: such a line is refused.")
@click.option("--separator", default=":", show_default=True, metavar="TEXT",
              help="Between key and value. A line without it, or an empty one: the line is a value without a key.")
@click.option("--null", default="", metavar="TEXT", help="In text, a key or value that is TEXT is null.")
@click.option("--timestamp", type=Whole(-1), metavar="MS", help="Of records without one, in ms; -1: none. Default: now.")
@click.option("--compression", type=click.Choice(CODEC_NAMES), default="none", show_default=True,
              help="What the producer compresses batches with. compression.type may have them compressed anew.")
@click.option("--compression-level", "level", type=Whole(INT_MIN), metavar="N", help="Default: Kafka's for the codec.")
@size_option("--batch-size", 16384,
             "Records go together up to this many bytes, as far as they are read together: 1 MiB of lines.", least=1)
@click.option("--leader-epoch", type=Whole(0, INT_MAX), metavar="N",
              help="Epoch of the leader that appends. Default: the latest of the log, or 0.")
@click.option("--follower", is_flag=True, help="Raw batches keep the offsets and epochs that they have.")
@click.option("--magic", type=click.Choice(["0", "1"]), help="Of messages for a log of Kafka 0.7. Default: 1.")
@click.option("--producer-id", type=Whole(0), default=-1, metavar="N", help="The records are those of an idempotent producer.")
@click.option("--producer-epoch", type=Whole(0, 2**15 - 1), metavar="N", help="Default: the producer's last one, or 0.")
@click.option("--sequence", type=Whole(0, INT_MAX), metavar="N",
              help="Of the first record. Default: the one behind the producer's last record, or 0.")
@click.option("--transaction", type=click.Choice(["commit", "abort", "open"]),
              help="The records are a transaction, which ends so, or stays open.")
@click.option("--coordinator-epoch", type=Whole(0, INT_MAX), default=0, metavar="N", help="Of the marker that ends it.")
@click.option("--create", is_flag=True, help="Make the partition directory if there is none.")
@click.option("--topic-id", metavar="ID",
              help="The id of the topic for partition.metadata, without which a broker sets the partition aside as stray. "
              "Default for a new one: as the metadata log of the same log dir has it, or another partition of the topic.")
@click.option("--flush-messages", type=Whole(1), metavar="N",
              help="Wait for the disk whenever this many records are not on it yet. Default: at the end.")
@click.option("--flush-ms", type=Whole(0), metavar="MS", help="Wait for the disk at least this often.")
def command(**values: Any) -> int:
    """Append records to a partition, as its leader does: checked, with offsets, timestamps and indexes of their own.

    PATH is the directory of a partition. Offsets are printed when their records are on the disk, not before. A log of Kafka
    0.7 takes values only, and its own entries as raw input.

    A log that would lose records when it is opened is refused, and so is one whose last batch is damaged: `kafkalog recover`
    comes first. With --quarantine DIR a log that has to be recovered is truncated at the damage, as a broker does, and records
    are appended there; `kafkalog restore` undoes both. The rest of a write that was cut off is truncated and reported.
    """
    from kafkalog_cli.appending import append

    return append(values)

"""kafkalog dump-log."""

from __future__ import annotations

from typing import Any

import click

from engine.formats import INT_MAX, INT_MIN, LONG_MIN
from kafkalog_cli.decoders import DecoderClass
from kafkalog_cli.help import Example, Section
from kafkalog_cli.options import PATH, FileList, KafkaCommand, Whole, size_option, version_option
from kafkalog_cli.ranges import Header, KeyRegex, OffsetRange, TimeRange

_SECTIONS = (
    Section("Options of kafka-dump-log", (
        "--files", "--print-data-log", "--deep-iteration", "--skip-record-metadata", "--verify-index-only",
        "--index-sanity-check", "--max-bytes", "--max-message-size", "--key-decoder-class", "--value-decoder-class",
        "--offsets-decoder", "--transaction-log-decoder", "--cluster-metadata-decoder", "--remote-log-metadata-decoder",
        "--share-group-state-decoder",
    )),
    Section("Selection", (
        "--offset", "--time", "--key", "--key-regex", "--header", "--producer-id", "--partition-leader-epoch",
        "--transactional-only", "--limit", "--tail", "--count",
    )),
    Section("Output", ("--format", "--decode")),
    Section("Damage and limits", ("--continue-on-corruption", "--max-decompressed-bytes", "--max-batch-bytes")),
)
_EXAMPLES = (
    Example("Every record of a segment, as kafka-dump-log prints it:",
            "kafkalog dump-log --print-data-log --files orders-7/00000000000000000000.log"),
    Example("The batches and index entries of a whole partition:", "kafkalog dump-log orders-7"),
    Example("A range of offsets; segments outside it are not read:",
            "kafkalog dump-log --print-data-log --offset 4000:4100 orders-7"),
    Example("What was written in the last two hours, one JSON object a line:",
            "kafkalog dump-log --print-data-log --time '2h ago:' --format jsonl orders-7"),
    Example("Who committed which offsets:",
            "kafkalog dump-log --print-data-log --decode auto __consumer_offsets-12"),
    Example("Does an index fit its log?",
            "kafkalog dump-log --verify-index-only orders-7/00000000000000000000.index"),
    Example("All that is left of a damaged log:",
            "kafkalog dump-log --print-data-log --continue-on-corruption orders-7"),
)


@click.command("dump-log", cls=KafkaCommand, examples=_EXAMPLES, sections=_SECTIONS, kafka_options=_SECTIONS[0].options)
@click.argument("paths", nargs=-1, type=PATH)
@click.option("--files", type=FileList(), metavar="FILE,…",
              help="Files with commas between them, as kafka-dump-log takes them.")
@click.option("--print-data-log", is_flag=True, help="Print every record with key and payload. Any decoder implies it.")
@click.option("--deep-iteration", is_flag=True, help="Print every record, without key and payload.")
@click.option("--verify-index-only", is_flag=True, help="Check indexes without printing their entries.")
@click.option("--index-sanity-check", is_flag=True, help="Only make the check that a broker makes when it opens an index.")
@size_option("--max-message-size", default=5 << 20, help="Read no more than this of a log to check an entry of its index.")
@size_option("--max-bytes", default=INT_MAX, help="Read no more than this of each log.")
@click.option("--skip-record-metadata", is_flag=True, help="Print only keys and payloads; control records become empty.")
@click.option("--key-decoder-class", is_flag=False, flag_value="org.apache.kafka.tools.api.StringDecoder",
              type=DecoderClass(), metavar="CLASS",
              help="A decoder class of Kafka's, or module:function of Python's, for keys.")
@click.option("--value-decoder-class", is_flag=False, flag_value="org.apache.kafka.tools.api.StringDecoder",
              type=DecoderClass(), metavar="CLASS", help="The same for payloads.")
@click.option("--offsets-decoder", is_flag=True, help="Decode records of __consumer_offsets.")
@click.option("--transaction-log-decoder", is_flag=True, help="Decode records of __transaction_state.")
@click.option("--cluster-metadata-decoder", is_flag=True, help="Decode records of __cluster_metadata.")
@click.option("--remote-log-metadata-decoder", is_flag=True, help="Decode records of __remote_log_metadata.")
@click.option("--share-group-state-decoder", is_flag=True, help="Decode records of __share_group_state.")
@click.option("--format", "form", type=click.Choice(["text", "json", "jsonl"]), default="text", show_default=True,
              help="Kafka's text, one JSON document, or one JSON object a line.")
@click.option("--decode", type=click.Choice(["auto"]), help="Choose the decoder by the topic's name, unless one is named.")
@click.option("--offset", "offsets", type=OffsetRange(), metavar="A:B", help="Only offsets from A up to, not including, B.")
@click.option("--time", "times", type=TimeRange(), metavar="FROM:TO",
              help="Only timestamps from FROM up to, not including, TO: ISO-8601 (UTC unless it says), ms, or `2h ago`. "
                   "With TO batches are opened, as with --deep-iteration.")
@click.option("--key", "keys", multiple=True, help="Only records with this key; may be repeated.")
@click.option("--key-regex", type=KeyRegex(), help="Only records whose key holds a match.")
@click.option("--header", "headers", type=Header(), multiple=True, metavar="NAME[=VALUE]",
              help="Only records with this header; may be repeated, then all must be there. "
                   "In NAME write \\= for an equals sign, \\\\ for a backslash.")
@click.option("--producer-id", type=Whole(LONG_MIN + 1), metavar="ID", help="Only batches of this producer.")
@click.option("--partition-leader-epoch", type=Whole(INT_MIN, INT_MAX), metavar="N",
              help="Only batches of this epoch.")
@click.option("--transactional-only", is_flag=True, help="Only transactional batches.")
@click.option("--limit", type=Whole(0), metavar="N", help="Show the first N matches only.")
@click.option("--tail", type=Whole(0), metavar="N", help="Show the last N matches only.")
@click.option("--count", is_flag=True, help="Show how many records and batches match, instead of them.")
@click.option("--continue-on-corruption", is_flag=True, help="Go on behind damage, at the next batch that is sound.")
@size_option("--max-decompressed-bytes", default=256 << 20, help="Inflate no batch beyond this.")
@size_option("--max-batch-bytes", default=64 << 20, help="Decode no batch larger than this.")
@version_option
def command(paths: tuple[str, ...], files: str | None, form: str, **values: Any) -> int:
    """Print Kafka's files: logs, indexes, producer snapshots, checkpoints.

    A drop-in for kafka-dump-log.sh 4.3.1: the same options, the same text on stdout. PATHS are files, partition
    directories, log directories, trees of them, or quoted patterns. Problems found go to stderr and decide the exit
    status. Nothing is ever written.
    """
    from engine.files import ReadOnlyFiles
    from kafkalog_cli.dump import dump_all
    from kafkalog_cli.dump_options import options_from, selection_from

    if files is None and not paths:
        raise click.UsageError("name files or directories, or use --files")
    return dump_all(ReadOnlyFiles(), paths, files, options_from(values), selection_from(values), form)

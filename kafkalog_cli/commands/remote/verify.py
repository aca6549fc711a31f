"""kafkalog remote verify."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from engine.amounts import count_of, size_text
from kafkalog_cli.help import Example, Section
from kafkalog_cli.options import Whole, files_for, quiet_option, verbose_option
from kafkalog_cli.remote_output import WHICH, RemoteCommand, log_dirs_and_settings, reading_options
from kafkalog_cli.remote_store import STORE, required_store, store_options
from kafkalog_cli.show import show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.remote.access import StoreOptions
    from kafkalog_cli.show import Output

_EXAMPLES = (
    Example("Check that all objects exist:", "kafkalog remote verify --store s3://kafka-tiered /var/lib/kafka/data"),
    Example("Read and check every object:", "kafkalog remote verify --deep --store s3://kafka-tiered /var/lib/kafka/data"),
)
_FAILURES = 3  # the most segments in a row that cannot be read: each request is repeated for up to a minute


@click.command("remote-verify", cls=RemoteCommand, examples=_EXAMPLES,
               sections=(WHICH, STORE, Section("How far", ("--deep", "--sample")),
                         Section("Output", ("--quiet", "--verbose", "--format"))),
               main_options=("--store", "--topic", "--deep", "--sample"))
@reading_options
@store_options
@click.option("--deep", is_flag=True,
              help="Read every object: batches, indexes, snapshots and leader epochs of all segments.")
@click.option("--sample", type=Whole(1), metavar="N", help="Read the objects of N segments only, spread evenly.")
@quiet_option
@verbose_option
def command(
    paths: tuple[str, ...], topics: tuple[str, ...], config_file: str | None, form: str, deep: bool, sample: int | None,
    **values: Any,
) -> int:
    """Compare the objects of a store with the metadata of remote segments.

    One listing of the store says which objects are missing, have another size, or belong to no segment. With --deep, or
    --sample for some segments, every part is read and compared with its log, and the log with the metadata: Kafka itself
    checks only the checksums of batches. The command first prints how much it will read.

    PATHS are log dirs with the logs of all partitions of __remote_log_metadata. Objects of segments without a record there
    are reported as unknown. PATHS may be URLs (s3://BUCKET/KEY, gs://, az://).
    """
    options = required_store(values, config_file)
    named, _settings = log_dirs_and_settings(paths, config_file)
    count = sample if sample or deep else 0
    work = partial(_verify, named, topics, options, count)
    return show(form, work, quiet=values["quiet"], verbose=values["verbose"])


def _verify(named: Sequence[str], topics: Sequence[str], options: StoreOptions, count: int | None, output: Output) -> None:
    """Verify; `count`: number of segments to read; None: all."""
    from engine.discovery.choice import is_chosen_topic
    from engine.errors import FileChangedWhileReading, UnreadableFile
    from engine.remote.metadata_log import MetadataLogs
    from engine.remote.ranged_file import LARGEST_PIECE
    from engine.remote.verify import DeepCheck, compare_with_listing, sample

    files, report = files_for(named), output.outcome.finding
    metadata = MetadataLogs(files, named, report).read()
    layout = options.open(files)
    partitions = [one for one in metadata.partitions() if is_chosen_topic(one.topic, topics)]
    prefix = options.prefix or ""
    listed = compare_with_listing(partitions, layout.store, layout, prefix, names_unknown=not topics, report=report)
    chosen = list(listed.sound) if count is None else sample(listed.sound, count)
    size = sum(segment.size for _, segment in chosen)
    if chosen and output.stream is None and not output.outcome.is_quiet:
        objects = 3 if layout.name == "aiven" else 6  # the indexes of Aiven's layout are one object
        requests = objects * len(chosen) + size // LARGEST_PIECE  # the objects of each segment, and the pieces of large logs
        output.line(f"reading {count_of(len(chosen), 'segment')}, {size_text(size)}, in about {count_of(requests, 'request')}")
        output.flush()
    check, read, failures = DeepCheck(report), [], 0
    for partition, segment in chosen:
        try:
            check.check(layout.parts(partition, segment), segment, partition)
        except (UnreadableFile, FileChangedWhileReading) as error:
            output.outcome.error(error)
            failures += 1
            if failures == _FAILURES:
                break
        else:
            read.append(segment)
            failures = 0
    check.finish()
    if output.stream is None and not output.outcome.is_quiet:
        unread = count_of(listed.segments - len(read), "segment")
        deep = "" if count is None else " (--deep reads all)"
        left = f"; NOT read: the objects of {unread}{deep}" if len(read) < listed.segments else "; all segments were read"
        amounts = f"{count_of(listed.segments, 'segment')}, {count_of(listed.objects, 'object')}, {size_text(listed.size)}"
        output.line(amounts + left)
    elif output.stream is not None:
        fields = {"segments": listed.segments, "objects": listed.objects, "size": listed.size}
        output.stream.put("remote-verification", {**fields, "read": len(read), "bytes_read": sum(one.size for one in read)})

"""kafkalog remote offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from engine.amounts import count_of, size_text
from kafkalog_cli.help import Example
from kafkalog_cli.options import files_for
from kafkalog_cli.remote_output import OUTPUT, WHICH, RemoteCommand, log_dirs_and_settings, reading_options
from kafkalog_cli.show import show
from kafkalog_cli.table import columns_of

if TYPE_CHECKING:
    from engine.remote.tiered_log import Lag, LogOffsets, TieredLog
    from kafkalog_cli.show import Output

_EXAMPLES = (
    Example("Show every partition with remote storage:", "kafkalog remote offsets /var/lib/kafka/data"),
    Example("Show one topic as JSON:", "kafkalog remote offsets --topic orders --format jsonl /var/lib/kafka/data"),
)
_COLUMNS = columns_of(("partition", "first", "first local", "last remote", "last stable", "end", "lag"), ("partition",))


@click.command("remote-offsets", cls=RemoteCommand, examples=_EXAMPLES, sections=(WHICH, OUTPUT),
               main_options=("--topic", "--format"))
@reading_options
def command(paths: tuple[str, ...], topics: tuple[str, ...], config_file: str | None, form: str) -> int:
    """Show where logs begin and end, and what is not copied yet, and why.

    The offsets are those that a leader answers: first offset, first local one, last one in remote storage, last stable one and
    the log end. The lag is the number of closed segments that are not in remote storage. The reason is
    remote.log.copy.disable, an open transaction, or that the next task of the leader will copy them.

    PATHS are log dirs, of all brokers that hold partitions of __remote_log_metadata. They may be URLs (s3://BUCKET/KEY, gs://,
    az://). The text leaves out partitions without remote storage; JSON has them all.
    """
    named, settings = log_dirs_and_settings(paths, config_file)

    def work(output: Output) -> None:
        from engine.errors import KafkalogError
        from engine.remote.partitions import TieredPartitions
        from engine.remote.tiered_log import copy_lag, log_offsets

        partitions = TieredPartitions(files_for(named), named, settings, topics, output.outcome.finding)
        rows, waits, late = [], [], []
        for directory in partitions.directories.values():
            try:
                with partitions.open(directory) as log:
                    offsets, lag = log_offsets(log), copy_lag(log)
                    if output.stream is not None:
                        output.stream.put("remote-offsets", _fields(log, offsets, lag))
                    elif log.is_tiered:
                        rows.append(_row(log, offsets, lag))
                        waits += _wait(log, lag)
                        late.append(lag)
            except KafkalogError as error:
                output.flush()
                output.outcome.error(error)
        if rows:
            output.table(_COLUMNS, rows)
        for line in waits:
            output.line(line)
        if len(rows) > 1:
            total = _not_copied(sum(lag.segments for lag in late), sum(lag.size for lag in late))
            output.line(f"{count_of(len(rows), 'partition')}: {total}")

    return show(form, work)


def _row(log: TieredLog, offsets: LogOffsets, lag: Lag) -> tuple[str, ...]:
    remote = log.highest_remote_offset
    numbers = (
        offsets.earliest.offset, offsets.earliest_local.offset, "-" if remote < 0 else remote, offsets.last_stable.offset,
        offsets.latest.offset, lag.segments,
    )  # fmt: skip
    return (f"{log.topic}-{log.partition}", *map(str, numbers))


def _wait(log: TieredLog, lag: Lag) -> list[str]:
    if lag.reason is None:
        return []
    return [f"{log.topic}-{log.partition}: {_not_copied(lag.segments, lag.size)}: {lag.reason.value}"]


def _not_copied(segments: int, size: int) -> str:
    return f"{count_of(segments, 'segment')}, {size_text(size)} not copied"


def _fields(log: TieredLog, offsets: LogOffsets, lag: Lag) -> dict[str, object]:
    reason = None if lag.reason is None else lag.reason.name.lower().replace("_", "-")
    return {
        "topic": log.topic, "partition": log.partition, "topic_id": log.topic_id, "is_tiered": log.is_tiered,
        **{name: found._asdict() for name, found in offsets._asdict().items()},
        "highest_remote_offset": log.highest_remote_offset, "lag_segments": lag.segments, "lag_bytes": lag.size,
        "lag_reason": reason,
    }  # fmt: skip

"""kafkalog remote list."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING

import click

from engine.amounts import count_of, size_text, time_text
from kafkalog_cli.help import Example, Section
from kafkalog_cli.options import files_for
from kafkalog_cli.remote_output import OUTPUT, WHICH, RemoteCommand, log_dirs_and_settings, reading_options
from kafkalog_cli.show import show
from kafkalog_cli.table import columns_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.remote.metadata import PartitionMetadata, RemoteSegment
    from engine.remote.metadata_log import Event, MetadataLogs
    from kafkalog_cli.show import Output

_SECTIONS = (WHICH, Section("What is shown", ("--events", "--segment")), OUTPUT)
_EXAMPLES = (
    Example("List the remote segments of every partition:", "kafkalog remote list /var/lib/kafka/data"),
    Example("List those of one topic as JSON, from log dirs of two brokers:",
            "kafkalog remote list --topic orders --format jsonl /backups/broker-1 /backups/broker-2"),
    Example("Show the history of a segment:",
            "kafkalog remote list --events --segment 1Fz8WDbCSqOkKmhTFIoZpw /var/lib/kafka/data"),
)  # fmt: skip
_STATES = ("copying", "copied", "deleting", "deleted")


@click.command("remote-list", cls=RemoteCommand, examples=_EXAMPLES, sections=_SECTIONS,
               main_options=("--topic", "--events", "--format"))
@reading_options
@click.option("--events", is_flag=True, help="List every change of every segment, in the order in which a broker reads them.")
@click.option("--segment", "segment_id", metavar="ID", help="Only this segment.")
def command(
    paths: tuple[str, ...], topics: tuple[str, ...], config_file: str | None, form: str, events: bool, segment_id: str | None
) -> int:
    """List the remote segments of partitions, or their history.

    These are the segments that a broker knows after it has read the topic __remote_log_metadata. PATHS are log dirs with the
    logs of that topic: name those of all brokers that hold partitions of it. If a log has several copies, the command reads the
    one that a leader would have. PATHS may be URLs (s3://BUCKET/KEY, gs://, az://).

    A record that cannot be decoded is reported and skipped; a broker stops reading at it.
    """
    named, _settings = log_dirs_and_settings(paths, config_file)

    def work(output: Output) -> None:
        from engine.remote.metadata_log import MetadataLogs

        logs = MetadataLogs(files_for(named), named, output.outcome.finding)
        (_events if events else _segments)(logs, topics, segment_id, output)

    return show(form, work)


def _segments(logs: MetadataLogs, topics: Sequence[str], segment_id: str | None, output: Output) -> None:
    from engine.discovery.choice import is_chosen_topic

    partitions = segments = size = 0
    for partition in logs.read().partitions():
        if not is_chosen_topic(partition.topic, topics):
            continue
        found = [segment for segment in partition.segments() if segment_id in (None, segment.name)]
        if segment_id is not None and not found:
            continue
        if output.stream is None:
            _print_partition(partition, found, output)
            partitions, segments, size = partitions + 1, segments + len(found), size + sum(one.size for one in found)
            continue
        output.stream.put("remote-partition", _partition_fields(partition))
        for segment in found:
            output.stream.put("remote-segment", {**_names(partition), **_segment_fields(segment)})
    if partitions > 1:
        output.line(f"{count_of(partitions, 'partition')}: {count_of(segments, 'remote segment')}, {size_text(size)}")


def _print_partition(partition: PartitionMetadata, segments: Sequence[RemoteSegment], output: Output) -> None:
    count = count_of(len(segments), "remote segment")
    output.line(f"{partition.name}: {count}, {size_text(sum(segment.size for segment in segments))}")
    output.line(f"  topic id {partition.topic_id}, records in __remote_log_metadata-{partition.metadata_partition}")
    if partition.refused:
        output.line(f"  {count_of(partition.refused, 'invalid change')} of the state of a segment, which brokers drop")
    if segments:
        rows = [
            (str(one.start_offset), str(one.end_offset), size_text(one.size), _epochs(one), _STATES[one.state], one.name)
            for one in segments
        ]
        output.table(columns_of(("first", "last", "size", "epochs", "state", "segment"), ("epochs", "state", "segment")), rows)


def _epochs(segment: RemoteSegment) -> str:
    first, last = segment.leader_epochs[0][0], segment.leader_epochs[-1][0]
    return str(first) if first == last else f"{first}-{last}"


def _names(partition: PartitionMetadata) -> dict[str, object]:
    return {"topic": partition.topic, "partition": partition.partition, "topic_id": partition.topic_id}


def _partition_fields(partition: PartitionMetadata) -> dict[str, object]:
    return {
        **_names(partition), "metadata_partition": partition.metadata_partition, "refused": partition.refused,
        "segments": len(partition),
        "by_epoch": {str(epoch): [one.name for one in partition.segments_of(epoch)] for epoch in partition.epochs()},
        "highest": {str(epoch): partition.highest_offset(epoch) for epoch in partition.epochs()},
    }  # fmt: skip


def _segment_fields(segment: RemoteSegment) -> dict[str, object]:
    return {
        "id": segment.name, "state": segment.state.name, "start_offset": segment.start_offset,
        "end_offset": segment.end_offset, "size": segment.size, "max_timestamp": segment.max_timestamp_ms,
        "broker": segment.broker_id, "event_timestamp": segment.event_timestamp_ms,
        "txn_index_empty": segment.txn_index_empty,
        "leader_epochs": {str(epoch): start for epoch, start in segment.leader_epochs},
        "custom": None if segment.custom is None else b64encode(segment.custom).decode(),
    }  # fmt: skip


# ---- the history of segments


def _events(logs: MetadataLogs, topics: Sequence[str], segment_id: str | None, output: Output) -> None:
    from engine.discovery.choice import is_chosen_topic
    from engine.remote.metadata import RemoteLogMetadata
    from engine.remote.records import PartitionRecord, uuid_text

    rows = []
    for event in logs.events(RemoteLogMetadata()):
        record = event.record
        segment = None if isinstance(record, PartitionRecord) else uuid_text(record.segment_id)
        if not is_chosen_topic(event.partition.topic, topics) or segment_id not in (None, segment):
            continue
        if output.stream is not None:
            output.stream.put("remote-event", _event_fields(event, segment))
        else:
            rows.append((str(event.offset), time_text(record.event_timestamp_ms), event.partition.name,
                         _event_state(event) + ("" if event.is_taken else " (dropped)"), segment or ""))  # fmt: skip
    if rows:
        words = ("time", "partition", "state", "segment")
        output.table(columns_of(("offset", *words), words), rows)


def _event_state(event: Event) -> str:
    from engine.remote.records import PartitionRecord, PartitionState

    if isinstance(event.record, PartitionRecord):
        return PartitionState(event.record.state).name
    return _STATES[event.record.state]


def _event_fields(event: Event, segment: str | None) -> dict[str, object]:
    from engine.remote.records import PartitionRecord, PartitionState, SegmentRecord, State

    record = event.record
    fields: dict[str, object] = {
        **_names(event.partition), "metadata_partition": event.metadata_partition, "offset": event.offset, "id": segment,
        "state": (PartitionState if isinstance(record, PartitionRecord) else State)(record.state).name,
        "broker": record.broker_id, "event_timestamp": record.event_timestamp_ms, "is_taken": event.is_taken,
    }  # fmt: skip
    if not isinstance(record, PartitionRecord):
        fields["custom"] = None if record.custom is None else b64encode(record.custom).decode()
    if isinstance(record, SegmentRecord):
        fields |= {
            "start_offset": record.start_offset, "end_offset": record.end_offset, "size": record.size,
            "max_timestamp": record.max_timestamp_ms, "txn_index_empty": record.txn_index_empty,
            "leader_epochs": {str(epoch): start for epoch, start in record.leader_epochs},
        }  # fmt: skip
    return fields

"""Append records to `__remote_log_metadata` for complete segments in a store whose records were lost.

Brokers treat segments without records as deleted: a leader moves the log start offset to its first local segment. Only segments
in the history of the local log get records (by its leader epochs and log end), and none that the records report as deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.discovery.choice import is_chosen_topic
from engine.discovery.names import FileKind
from engine.errors import FileChangedWhileReading, UnreadableFile
from engine.log.fetch.view import PartitionView
from engine.log.logdir.log_dirs import find_log_dirs
from engine.log.logdir.startup import survey
from engine.log.report import Action, Report
from engine.log.tiering import is_never_tiered
from engine.remote.aiven_manifest import CorruptObject
from engine.remote.inventory import PartitionName, describe, lacking_parts, list_store
from engine.remote.metadata import RemoteLogMetadata, records_of
from engine.remote.metadata_log import MetadataLogs, append_records
from engine.remote.records import State, UpdateRecord, encode_record, key_of, metadata_partition_of
from engine.remote.restore import Placement
from engine.remote.restored_log import NotRestored
from engine.remote.tiered_log import TieredLog
from engine.remote.undecodable import Undecodable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from engine.findings import Finding
    from engine.log.session import Session
    from engine.remote.inventory import StoredSegment
    from engine.remote.layouts import Layout
    from engine.remote.metadata import RemoteSegment

_COMMAND = "remote repair-metadata"


class RepairMetadata:
    """Appends records for segments in the store of `layout` to the logs of the broker whose log dirs a session has.

    topics          names or patterns; empty: all
    log_dirs        further log dirs with logs of __remote_log_metadata
    metadata_count  see RestoreOptions
    report          receives damage in these logs
    """

    def __init__(
        self, layout: Layout, topics: Sequence[str], log_dirs: Sequence[str], metadata_count: int | None,
        report: Callable[[Finding], None],
    ) -> None:  # fmt: skip
        self._layout, self._topics, self._log_dirs, self._count = layout, topics, log_dirs, metadata_count
        self._report = report
        self._deleted: set[bytes] = set()

    def work(self, session: Session) -> Iterator[Report]:
        """Plan all records, then append them → reports. Raises UsageError, UnreadableFile."""
        disk, target = session.dirs.disk, session.log_dirs[0]
        paths = list(dict.fromkeys((*(one.path for one in session.log_dirs), *self._log_dirs)))
        inventory = list_store(self._layout).by_partition()
        metadata = RemoteLogMetadata()
        undecodable = Undecodable(self._report)
        for event in MetadataLogs(disk, paths, undecodable.take, is_needed=False).events(metadata):
            if isinstance(event.record, UpdateRecord) and event.record.state == State.DELETE_SEGMENT_FINISHED:
                self._deleted.add(event.record.segment_id)
        undecodable.refuse([one.path for one in session.log_dirs])
        placement = Placement(session.manager, survey(disk, find_log_dirs(disk, paths)), target, self._count)
        values: dict[str, list[bytes]] = {}
        for log_dir in session.log_dirs:
            for replica in log_dir.partitions():
                if is_never_tiered(replica.name.topic) or not is_chosen_topic(replica.name.topic, self._topics):
                    continue
                report = Report(replica.path, _COMMAND)
                config, tiering = session.manager.config(replica.name.topic), session.manager.tiering(replica.name.topic)
                view = PartitionView(disk, replica.path, self._report, config=config)
                try:
                    log = TieredLog(disk, view, config, tiering, metadata)
                    name = None if log.topic_id is None else PartitionName(log.topic, log.topic_id, log.partition)
                    if name is not None and log.is_tiered and name in inventory:
                        found = self._unknown(log, inventory[name], report)
                        if found:
                            placement.check_records(name)
                            key = key_of(name.topic_id, name.partition)
                            number = metadata_partition_of(key, placement.metadata_count)
                            records = [encode_record(record) for one in found for record in records_of(
                                _with_time(one, placement.node_id, session.options.now), name.topic, key)]  # fmt: skip
                            values.setdefault(placement.metadata_log(number), []).extend(records)
                except (NotRestored, UnreadableFile, FileChangedWhileReading) as error:
                    report.failure = error
                finally:
                    view.close()
                if report.events or report.failure is not None:
                    yield report
        yield from append_records(session, _COMMAND, values)

    def _unknown(self, log: TieredLog, stored: Sequence[StoredSegment], report: Report) -> list[RemoteSegment]:
        """Return the complete segments of a log that no record names, in the order of their records."""
        known = {} if log.remote is None else {one.name: one for one in log.remote.segments()}
        found = []
        for one in stored:
            recorded = known.get(one.named.segment_id)
            if recorded is not None and recorded.state is not State.COPY_SEGMENT_STARTED:
                continue
            if lacking_parts(self._layout, one):
                continue  # `remote orphans` lists it
            try:
                segment, _ = describe(self._layout, one)
            except CorruptObject as error:
                report.add(Action.EXPLAINED, one.named.segment_id, f"left out: damaged: {error}")
                continue
            if segment.id in self._deleted:
                continue
            name, offsets = segment.name, (segment.start_offset, segment.end_offset + 1)
            if segment.end_offset < log.log_start_offset:
                why = f"left out: before the log start {log.log_start_offset} in {FileKind.LOG_START_CHECKPOINT.value}"
                report.add(Action.EXPLAINED, name, why, offsets=offsets)
            elif not log.lineage.has(segment):
                report.add(Action.EXPLAINED, name, "left out: of another history than the log", offsets=offsets)
            else:
                report.add(Action.CREATED, name, "becomes known again", offsets=offsets, size=segment.size)
                found.append(segment)
        return sorted(found, key=lambda one: (one.leader_epochs[-1][0], one.start_offset, one.end_offset))


def _with_time(segment: RemoteSegment, broker_id: int, now: int) -> RemoteSegment:
    """Add a broker and a time to a segment whose metadata comes from its log and lacks them."""
    return segment if segment.event_timestamp_ms else segment._replace(event_timestamp_ms=now, broker_id=broker_id)

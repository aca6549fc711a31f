"""Unclean leader elections by the metadata log: `metadata cat --unclean`, and why two replicas forked (`diff`).

A module of its own, because commands on logs of topics ask for it, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.image.image import Image
from engine.image.partition import RECOVERING
from engine.image.records import MetadataLog, committed
from engine.image.replay import apply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.files import ReadOnlyFiles
    from engine.findings import Finding
    from engine.image.records import MetadataRecord

TYPES = frozenset((2, 3, 5, 9, 23, 24, 25, 28))  # ids of the records about topics, partitions and transactions


class UncleanElection(NamedTuple):
    """The election of a leader that may lack acknowledged records; replicas that follow it truncate theirs.

    topic         its name at that time                     leader_epoch  of the partition, from this election on
    leader        broker id                                 previous_leader  −1: there was none
    previous_isr, previous_elr   broker ids before the election; the leader was in neither if the log shows them
    offset, epoch, time_ms       of the record in the metadata log; time None: only a snapshot at `offset` shows it
    """

    topic: str
    topic_id: str
    partition: int
    leader: int
    leader_epoch: int
    previous_leader: int
    previous_isr: tuple[int, ...]
    previous_elr: tuple[int, ...]
    offset: int
    epoch: int
    time_ms: int | None


def unclean_elections(files: ReadOnlyFiles, directory: str, report: Callable[[Finding], None]) -> Iterator[UncleanElection]:
    """Yield the unclean elections of all partitions that a metadata log still shows, in order. Use this also for `diff`.

    directory  __cluster_metadata-0: the oldest snapshot that the log begins with, then all records up to damage. Elections of
               which the log has lost the record are reported while the partition is RECOVERING.
    report     called with damage. Raises UnreadableFile.
    """
    log, image, start = MetadataLog(files, directory, report, TYPES), Image(), 0
    begin = log.logs[0][0] if log.logs else None
    for snapshot in log.snapshots:
        if begin is None or begin <= snapshot.end_offset:
            start = snapshot.end_offset
            for record in log.snapshot(snapshot.path):
                apply(image, record, report)
            yield from _recovering(image, snapshot.end_offset, snapshot.epoch)
            break
    for record in committed(log.records(start), report):
        election = _election(image, record)
        apply(image, record, report)
        if election is not None:
            yield election


def _election(image: Image, record: MetadataRecord) -> UncleanElection | None:
    """The unclean election that a record is, before it is applied."""
    data = record.data
    before = image.partition_of(data) if record.type == "PARTITION_CHANGE_RECORD" else None
    if before is None or not before.is_unclean(data):
        return None
    return UncleanElection(
        image.topics[data["topicId"]].name, data["topicId"], data["partitionId"], data["leader"], before.leader_epoch + 1,
        before.leader, before.isr, before.elr, record.offset, record.epoch, record.time_ms,
    )  # fmt: skip


def _recovering(image: Image, offset: int, epoch: int) -> Iterator[UncleanElection]:
    for topic in image.topics.values():
        for number, one in topic.partitions.items():
            if one.leader_recovery_state == RECOVERING:
                yield UncleanElection(
                    topic.name, topic.topic_id, number, one.leader, one.leader_epoch, -1, (), (), offset, epoch, None,
                )  # fmt: skip

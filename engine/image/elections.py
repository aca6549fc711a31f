"""Unclean leader elections by the metadata log: `metadata cat --unclean`, and why two replicas forked (`diff`).

A module of its own, because commands on logs of topics ask for it, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.findings import Finding, Where
from engine.image.image import Image
from engine.image.partition import RECOVERING
from engine.image.records import MetadataLog, committed
from engine.image.replay import apply, read_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.files import ReadOnlyFiles
    from engine.image.records import MetadataRecord, SnapshotFile

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


def unclean_elections(
    files: ReadOnlyFiles, directory: str, report: Callable[[Finding], None],
    unread: Callable[[int, int | None], None] = lambda _first, _end: None,
) -> Iterator[UncleanElection]:  # fmt: skip
    """Yield the unclean elections of all partitions that a metadata log still shows, in order. Use this also for `diff`.

    directory  __cluster_metadata-0: its records up to damage, then on from the next sound snapshot, and so on. Elections of
               which the log has lost the record are reported while the partition is RECOVERING.
    report     called with damage. Raises UnreadableFile.
    unread     called with the offsets that damage hides, from the first up to, not including, the second; None: no known end
    """
    reported: set[Finding] = set()

    def note(finding: Finding) -> None:  # a segment may be read twice
        if finding not in reported:
            reported.add(finding)
            report(finding)

    log, image, known = MetadataLog(files, directory, note, TYPES), Image(), 0
    begin = log.logs[0][0] if log.logs else 0
    bases = [one for one in log.snapshots if one.end_offset >= begin]
    if begin == 0 and not (bases and bases[0].end_offset == 0):
        yield from _replayed(log, image, 0, note)
        known = log.end_offset
    is_begun = begin == 0
    for base in bases:
        if base.end_offset < known or (base.end_offset == known > 0 and not log.is_damaged):
            continue  # the log has been read up to it
        found = read_snapshot(files, base, note, TYPES)
        if found is None:
            continue
        if is_begun and base.end_offset > known:
            unread(known, base.end_offset)
        yield from _recovering(found, base, image)
        log, image, is_begun = MetadataLog(files, directory, note, TYPES), found, True
        yield from _replayed(log, image, base.end_offset, note)
        known = max(base.end_offset, log.end_offset)
    if not is_begun:
        what = "the log begins here, and no sound snapshot joins it: it cannot be replayed"
        note(Finding("metadata-gap", Where(log.logs[0][1], 0, begin), what))
    if not is_begun or log.is_damaged or not log.logs:
        unread(max(begin, known), None)


def _replayed(log: MetadataLog, image: Image, start: int, report: Callable[[Finding], None]) -> Iterator[UncleanElection]:
    """Apply the records of the log from `start` on to the image, up to damage; yield the unclean elections."""
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


def _recovering(image: Image, base: SnapshotFile, before: Image) -> Iterator[UncleanElection]:
    """The elections that a snapshot shows, and the image before it does not."""
    for topic in image.topics.values():
        former = before.topics.get(topic.topic_id)
        for number, one in topic.partitions.items():
            same = None if former is None else former.partitions.get(number)
            if one.leader_recovery_state == RECOVERING and (same is None or same.leader_epoch < one.leader_epoch):
                yield UncleanElection(
                    topic.name, topic.topic_id, number, one.leader, one.leader_epoch, -1, (), (), base.end_offset, base.epoch,
                    None,
                )  # fmt: skip

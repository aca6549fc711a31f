"""Put segments that retention deleted back into their log, while their files are named .deleted.

Only segments that end where the log, or the next of them, begins. A .deleted segment at or after the start of the log holds
older versions of what the cleaner has rewritten, or records that a follower truncated: it belongs into no log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.checkpoint.checkpoints import EpochEntry
from engine.discovery.names import (
    DELETED,
    FileKind,
    PartitionDir,
    file_name,
    log_base_offsets,
    log_file_name,
    offset_index_file_name,
    parent_of,
)
from engine.errors import KafkalogError, argument
from engine.findings import Finding, Severity, Where
from engine.formats import MAGIC_V2, NO_PARTITION_LEADER_EPOCH
from engine.log.epochs.leader_epoch_cache import LeaderEpochFileCache
from engine.log.logdir.log_dirs import PartitionPath
from engine.log.logdir.log_manager import CheckpointOffsets
from engine.log.operations.sound_segments import COMMAND, read_sound
from engine.log.report import Action, Report
from engine.log.segment.batch_search import heads
from engine.log.verify.rebuild import Rebuilder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.files import Files
    from engine.log.operations.deleted import Deleted
    from engine.log.operations.sound_segments import SoundSegment
    from engine.log.session import Session


def rejoin(session: Session, deleted: Sequence[Deleted]) -> Iterator[Report]:
    """Put the deleted segments of each partition back → reports."""
    partitions: dict[str, list[Deleted]] = {}
    for one in deleted:
        partitions.setdefault(parent_of(one.path), []).append(one)
    for directory, segments in partitions.items():
        report = Report(directory, COMMAND)
        try:
            _rejoin(session, directory, segments, report)
        except KafkalogError as error:
            report.failure = error
        yield report


def why_apart(first_base: int | None, one: Deleted) -> str | None:
    """Return why a deleted segment cannot join its log, by its offsets; None: it may. `first_base`: where the log begins."""
    if first_base is None:
        return "its log has no segment"
    if (one.start or 0) >= first_base:
        return "it is not before the log: the cleaner has rewritten its records, or they were truncated"
    return None


def _rejoin(session: Session, directory: str, deleted: Sequence[Deleted], report: Report) -> None:
    log_dir, files = deleted[0].log_dir, session.manager.files_of(deleted[0].log_dir)
    place = PartitionPath(directory, log_dir, PartitionDir(deleted[0].topic or "", deleted[0].partition))
    session.manager.refuse_malformed_checkpoints(log_dir)
    bases = log_base_offsets(files.plain(directory))
    first = min(bases, default=None)
    joining: list[SoundSegment] = []
    for one in sorted(deleted, key=lambda one: -(one.start or 0)):
        why = why_apart(first, one)
        if why is None:
            begin = joining[-1].base_offset if joining else first
            (segment,) = read_sound(files, one)
            if segment.end == begin:
                joining.append(segment)
                continue
            why = f"it ends at offset {segment.end}, and the log begins at {begin}"
        do = f"kafkalog undelete --to DIR {argument(directory)}"
        report.add(Action.REFUSED, file_name(one.path), f"{why}; {do}", offsets=(one.start, one.end), size=one.size)
    if not joining:
        return
    if not session.options.dry_run:
        _put_back(session, files, place, joining)
    for segment in reversed(joining):
        report.add(
            Action.RENAMED,
            file_name(segment.path),
            "ends where the log begins; its indexes are rebuilt",
            offsets=(segment.base_offset, segment.end),
            records=segment.records,
            size=segment.size,
            to=log_file_name(segment.base_offset),
            severity=Severity.WARNING,
        )
    why = "retention deletes them again 30 s after a broker starts, unless its settings changed: keep a copy with --to DIR"
    report.add(Action.EXPLAINED, file_name(directory), why)


def _put_back(session: Session, files: Files, place: PartitionPath, joining: Sequence[SoundSegment]) -> None:
    """Epochs and the log start first: a log that begins after them is valid. Then the segments, the last one first."""
    base, directory = joining[-1].base_offset, place.path
    epochs = [entry for segment in reversed(joining) for entry in _epochs(files, segment)]
    known = [entry for entry in LeaderEpochFileCache(files, directory).entries if not epochs or entry.epoch > epochs[-1].epoch]
    LeaderEpochFileCache(files, directory, [*epochs, *known])
    manager, log_dir = session.manager, next(one for one in session.log_dirs if one.path == place.log_dir)
    if files.exists(f"{place.log_dir}/{FileKind.LOG_START_CHECKPOINT.value}"):
        manager.checkpoint_log_starts(log_dir, {place: CheckpointOffsets(base, base, base)})
    for segment in joining:
        name = log_file_name(segment.base_offset)
        files.rename(f"{directory}/{name}{DELETED}", f"{directory}/{name}")
        files.sync_directory(directory)
    indexes = [f"{directory}/{offset_index_file_name(one.base_offset)}" for one in joining]
    missing = [Finding("index-missing", Where(path), "its segment was put back") for path in indexes]
    Rebuilder(files, directory, manager.config(place.name.topic), missing, manager.now).run()


def _epochs(files: Files, segment: SoundSegment) -> Iterator[EpochEntry]:
    """Yield each leader epoch in the batches of a segment, with its first offset."""
    last = NO_PARTITION_LEADER_EPOCH
    with files.open(segment.path) as file:
        for head in heads(file, 0, segment.size):
            if head.magic >= MAGIC_V2 and head.leader_epoch > last:
                last = head.leader_epoch
                yield EpochEntry(last, head.base_offset)

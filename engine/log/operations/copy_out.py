"""Copy deleted partitions to a directory outside of the log dirs, also while a broker runs: nothing else is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.discovery.names import FileKind, PartitionDir, file_name, log_file_name, parent_of
from engine.discovery.paths import is_brokers_log_dir
from engine.errors import KafkalogError, UsageError, argument
from engine.findings import Severity
from engine.log.logdir.log_dirs import PartitionPath
from engine.log.operations.deleted import Deleted, Kind
from engine.log.operations.mending import write_topic_id
from engine.log.operations.sound_segments import COMMAND, copy_segment, read_segments
from engine.log.operations.undelete import rebuild
from engine.log.operations.undelete_target import NotUndeleted
from engine.log.report import Action, Report

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from engine.files import Files
    from engine.log.logdir.log_manager import LogManager
    from engine.log.operations.deleted import Segment
    from engine.log.operations.sound_segments import SoundSegment

_UNFINISHED = ".unfinished"


def copy_out(
    files: Files, manager: LogManager, deleted: Iterable[Deleted], directory: str, *, dry_run: bool = False
) -> Iterator[Report]:
    """Copy each deleted partition to a new directory TOPIC-PARTITION in `directory` → reports.

    The bytes of the logs are kept, with their leader epochs. Indexes are rebuilt if every batch is sound; a log with damage is
    copied as it is. Raises UsageError if `directory` is in a log dir, where brokers accept only partitions.
    """
    _refuse_log_dir(files, directory)
    top = files.absolute(directory).rstrip("/")
    for one in _grouped(deleted):
        name = f"{one.topic or one.prefix}-{one.partition}"
        target, report = f"{top}/{name}", Report(f"{directory.rstrip('/')}/{name}", COMMAND)
        try:
            _copy(files, manager, one, target, report, dry_run=dry_run)
        except KafkalogError as error:
            report.failure = error
        yield report


def _refuse_log_dir(files: Files, directory: str) -> None:
    path = files.absolute(directory)
    while path != "/":
        if files.exists(path) and is_brokers_log_dir(files, path):
            what = f"{directory}: in the log dir {path}, where a broker accepts only partitions"
            raise UsageError(what, "choose another place", path=directory)
        path = parent_of(path)


def _grouped(deleted: Iterable[Deleted]) -> Iterator[Deleted]:
    """Yield the directories, and the deleted segments of each partition together."""
    together: dict[str, Deleted] = {}
    for one in deleted:
        if one.kind is not Kind.DELETED_SEGMENT:
            yield one
            continue
        path = parent_of(one.path)
        known = together.setdefault(path, one)
        if known is not one:
            known.segments = sorted((*known.segments, *one.segments))
    yield from together.values()


def _copy(files: Files, manager: LogManager, one: Deleted, target: str, report: Report, *, dry_run: bool) -> None:
    aside = target + _UNFINISHED
    for path in (target, aside):
        if files.exists(path):
            shown = report.directory + path.removeprefix(target)
            what = f"{shown}: already exists{'' if path == target else ': an earlier copy was stopped'}; it is not replaced"
            do = f"choose another DIR{'' if path == target else f', or: rm -r {argument(shown)}'}"
            raise NotUndeleted(what, do, path=path)
    segments, fault = read_segments(files, one)
    size = sum(segment.size for segment in one.segments)
    free = files.space(_existing(files, parent_of(target))).free
    if size > free:
        raise NotUndeleted(f"{target}: {size} bytes are to be copied, and {free} are free", "choose a DIR on another disk")
    if not dry_run:
        if not files.exists(parent_of(target)):
            files.make_own_directory(parent_of(target))
        files.make_directory(aside)
        place = PartitionPath(aside, parent_of(aside), PartitionDir(one.topic or one.prefix, one.partition))
        _write(files, manager, one, segments, place, report, is_sound=fault is None)
        files.rename(aside, target)
        files.sync_directory(parent_of(target))
    if report.segments is None and fault is None:
        report.log_start_offset, report.log_end_offset = segments[0].base_offset, segments[-1].end
        report.segments, report.size = len(segments), sum(segment.size for segment in segments)
    for segment in segments:
        report.add(
            Action.CREATED,
            log_file_name(segment.base_offset),
            f"copied from {one.path}",
            offsets=(segment.base_offset, segment.end),
            records=segment.records,
            size=segment.size,
        )
    if fault is None:
        report.add(Action.REBUILT, file_name(target), "copied, with rebuilt indexes", severity=Severity.WARNING)
    else:
        do = f"kafkalog recover --salvage {argument(report.directory)}"
        report.add(Action.KEPT, file_name(target), f"copied with its damage: {fault}; next: {do}", severity=Severity.ERROR)
    if one.kind is Kind.OPEN_UNLINKED:
        why = (
            f"process {one.process} still accepts records for {one.name}: what it writes after this copy is lost when it "
            f"closes the files, at the next roll or its end; stop the producers, copy again to another DIR, stop the broker, "
            f"and: kafkalog undelete {argument(report.directory)} LOGDIR…"
        )
        report.add(Action.EXPLAINED, "", why)


def _write(
    files: Files,
    manager: LogManager,
    one: Deleted,
    segments: Sequence[SoundSegment],
    place: PartitionPath,
    report: Report,
    *,
    is_sound: bool,
) -> None:
    for known, segment in zip(one.segments, segments, strict=True):
        path = f"{place.path}/{log_file_name(segment.base_offset)}"
        if is_sound:
            copy_segment(files, segment, files, path, keeps=True)
        else:
            _copy_bytes(files, known, path)
    if one.topic_id is not None:
        write_topic_id(files, f"{place.path}/{FileKind.PARTITION_METADATA.value}", one.topic_id)
    if is_sound:
        rebuild(manager, place, segments, report)
    files.sync_directory(place.path)


def _copy_bytes(files: Files, segment: Segment, path: str) -> None:
    with files.open(segment.path) as file, files.open_writable(path, create=True) as to:
        files.copy(file, 0, segment.size, to, 0)
        to.sync()


def _existing(files: Files, path: str) -> str:
    while not files.exists(path):
        path = parent_of(path)
    return path

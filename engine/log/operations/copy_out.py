"""Copy deleted partitions to a directory outside of the log dirs, also while a broker runs: nothing else is changed.

A broker may remove the files at any moment. So the bytes of all partitions are copied first, and the copies are checked.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from engine.discovery.names import LOG_SWAP, FileKind, PartitionDir, file_name, log_file_name, parent_of
from engine.discovery.paths import is_brokers_log_dir
from engine.errors import KafkalogError, UsageError, argument
from engine.files import remove_tree
from engine.findings import Severity
from engine.log.logdir.log_dirs import PartitionPath
from engine.log.operations.deleted import DIRECTORIES, Deleted, Kind
from engine.log.operations.mending import write_topic_id
from engine.log.operations.sound_segments import COMMAND, read_segments
from engine.log.operations.undelete import rebuild
from engine.log.operations.undelete_target import NotUndeleted
from engine.log.report import Action, Report

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from engine.files import Files
    from engine.log.logdir.log_manager import LogManager
    from engine.log.operations.sound_segments import SoundSegment

_UNFINISHED = ".unfinished"


class _Copy(NamedTuple):
    """A deleted partition and its copy, which has the name `aside` until it is complete."""

    deleted: Deleted
    target: str
    report: Report

    @property
    def aside(self) -> str:
        return self.target + _UNFINISHED


def copy_out(
    files: Files, manager: LogManager, deleted: Iterable[Deleted], directory: str, *, dry_run: bool = False
) -> Iterator[Report]:
    """Copy each deleted partition to a new directory TOPIC-PARTITION in `directory` → reports.

    The bytes of the logs are kept, with their leader epochs. Indexes are rebuilt if every batch is sound; a log with damage is
    copied as it is. Raises UsageError if `directory` is in a log dir, where brokers accept only partitions.
    """
    _refuse_log_dir(files, directory)
    top = files.absolute(directory).rstrip("/")
    copies: list[_Copy] = []
    for one in _grouped(deleted):
        name = f"{one.topic or one.prefix}-{one.partition}"
        copy = _Copy(one, f"{top}/{name}", Report(f"{directory.rstrip('/')}/{name}", COMMAND))
        try:
            _refuse_existing(files, copy)
            if not dry_run:
                _copy_bytes(files, copy)
        except KafkalogError as error:
            copy.report.failure = error
            yield copy.report
        else:
            copies.append(copy)
    for copy in copies:
        try:
            _finish(files, manager, copy, dry_run=dry_run)
        except KafkalogError as error:
            copy.report.failure = error
        yield copy.report


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


def _refuse_existing(files: Files, copy: _Copy) -> None:
    for path in (copy.target, copy.aside):
        if files.exists(path):
            shown = copy.report.directory + path.removeprefix(copy.target)
            stopped = path == copy.aside
            what = f"{shown}: already exists{': an earlier copy was stopped' if stopped else ''}; it is not replaced"
            do = f"choose another DIR{f', or: rm -r {argument(shown)}' if stopped else ''}"
            raise NotUndeleted(what, do, path=path)
    size, place = copy.deleted.size, parent_of(copy.target)
    while not files.exists(place):
        place = parent_of(place)
    free = files.space(place).free
    if size > free:
        what = f"{copy.report.directory}: {size} bytes are to be copied, and {free} are free"
        raise NotUndeleted(what, "choose a DIR on another disk")


def _copy_bytes(files: Files, copy: _Copy) -> None:
    """Copy the logs and the topic's id. After an error nothing remains of the copy."""
    one, aside = copy.deleted, copy.aside
    top = parent_of(aside)
    if not files.exists(top) and not files.make_own_directory(top):
        files.sync_directory(parent_of(top))
    files.make_directory(aside)
    sources = [(segment.path, segment.size, log_file_name(segment.base_offset)) for segment in one.segments]
    if one.kind in DIRECTORIES:
        names = [name for name in files.plain(one.path) if name.endswith(LOG_SWAP)]
        sources += [(path, files.info(path).size, name) for name in names for path in [f"{one.path}/{name}"]]
    try:
        for path, size, name in sources:
            with files.open(path) as file, files.open_writable(f"{aside}/{name}", create=True) as to:
                files.copy(file, 0, size, to, 0)
                to.sync()
        if one.topic_id is not None:
            write_topic_id(files, f"{aside}/{FileKind.PARTITION_METADATA.value}", one.topic_id)
    except KafkalogError:
        with suppress(KafkalogError):
            remove_tree(files, aside)
        raise


def _finish(files: Files, manager: LogManager, copy: _Copy, *, dry_run: bool) -> None:
    """Check the copy, build its indexes if it is sound, and give it its name."""
    one, aside, report = copy.deleted, copy.aside, copy.report
    copied = [segment._replace(path=f"{aside}/{log_file_name(segment.base_offset)}") for segment in one.segments]
    segments, fault = read_segments(files, one if dry_run else replace(one, path=aside, segments=copied))
    if not dry_run:
        if fault is None:
            _truncate_to_last_batch(files, segments[-1])
            place = PartitionPath(aside, parent_of(aside), PartitionDir(one.topic or one.prefix, one.partition))
            rebuild(manager, place, segments, report)
        files.sync_directory(aside)
        files.rename(aside, copy.target)
        files.sync_directory(parent_of(copy.target))
    elif fault is None:
        report.log_start_offset, report.log_end_offset = segments[0].base_offset, segments[-1].end
        report.segments, report.size = len(segments), sum(segment.size for segment in segments)
    _describe(copy, segments, None if fault is None else fault.replace(aside, report.directory))


def _truncate_to_last_batch(files: Files, last: SoundSegment) -> None:
    """Leave out the batch that the broker was writing, and zeros that were never written."""
    with files.open_writable(last.path) as file:
        file.truncate(last.size)


def _describe(copy: _Copy, segments: Sequence[SoundSegment], fault: str | None) -> None:
    one, report = copy.deleted, copy.report
    for segment, source in zip(segments, one.segments, strict=True):
        name, why = log_file_name(segment.base_offset), f"copied from {one.path}"
        if fault is not None and segment.size != source.size:  # copied whole, and read up to its fault
            report.add(Action.CREATED, name, why, offsets=(segment.base_offset, None), size=source.size)
        else:
            offsets = segment.base_offset, segment.end
            report.add(Action.CREATED, name, why, offsets=offsets, records=segment.records, size=segment.size)
    name = file_name(copy.target)
    if fault is None:
        report.add(Action.REBUILT, name, "copied, with rebuilt indexes", severity=Severity.WARNING)
    else:
        do = f"kafkalog recover --salvage {argument(report.directory)}"
        report.add(Action.KEPT, name, f"copied with its damage: {fault}; next: {do}", severity=Severity.ERROR)
    if one.kind is Kind.OPEN_UNLINKED:
        why = (f"process {one.process} still accepts records for {one.name}: what it writes after this copy is lost when it "
               "closes the files, at the next roll or its end; stop the producers, copy again to another DIR, stop the broker, "
               f"and: kafkalog undelete {argument(report.directory)} LOGDIR…")
        report.add(Action.EXPLAINED, name, why)

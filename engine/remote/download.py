"""Write a whole log into a new directory: the remote segments, byte for byte those of their broker, then the local ones.

The directory must not be in a broker's log dir: a starting broker would count the remote segments twice, see `restore`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.amounts import offsets_text
from engine.checkpoint.checkpoints import PartitionOffset, encode_leader_epochs, encode_offset_checkpoint, known_offsets
from engine.discovery.names import FileKind, file_name, log_file_name, parent_of, producer_snapshot_file_name
from engine.discovery.paths import is_brokers_log_dir
from engine.errors import UsageError, argument
from engine.files import replace
from engine.log.report import Action
from engine.remote.layouts import INDEX_FILE_NAMES, MAX_INDEX_SIZE, IndexKind
from engine.remote.restored_log import NotRestored, WithoutEpoch, same_bytes, verify_written, write_segment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from engine.files import Files
    from engine.log.report import Report
    from engine.remote.layouts import Layout
    from engine.remote.metadata import RemoteSegment
    from engine.remote.tiered_log import TieredLog

_PIECE = 8 << 20  # bytes per read and write


def refuse_log_dir(files: Files, into: str) -> None:
    """Raise UsageError for a broker's log dir."""
    if files.exists(into) and is_brokers_log_dir(files, into):
        what = f"{into}: a broker's log dir: the broker would count local and remote segments together, and delete old ones"
        raise UsageError(what, "name another directory; then use the result for a topic without remote storage", path=into)


class Download:
    """Writes whole logs into the directory `into`, and verifies them there.

    An existing segment with the right size is not read from the store again. No file that another program wrote is replaced.
    """

    def __init__(self, files: Files, layout: Layout, into: str) -> None:
        self._files, self._layout, self._into = files, layout, into.rstrip("/")

    def run(self, log: TieredLog, report: Report) -> None:
        """Write one log. Raises NotRestored if its segments are not consecutive, or for files of others;
        UnreadableFile, UnwritableFile.
        """
        files, target = self._files, f"{self._into}/{file_name(log.directory)}"
        chain, local = list(remote_chain(log)), list(log.view.segments)
        self._starts()
        if files.exists(target):
            self._refuse_files_of_others(log, chain, target)
        if not files.exists(self._into):
            files.make_directory(self._into)
            files.sync_directory(parent_of(files.absolute(self._into)))
        files.make_directory(target)
        for segment in chain:
            self._fetch(log, segment, target, report)
        for one, following in zip(local, [*local[1:], None], strict=True):
            last = log.view.log_end_offset_metadata()
            end = last.message_offset if following is None else following.base_offset
            size = one.size if following is not None or last.position is None else last.position
            self._copy(log.directory, target, one.base_offset, size)
            offsets = (one.base_offset, end)
            report.add(Action.KEPT, log_file_name(one.base_offset), "copied from the log", offsets=offsets, size=size)
        self._copy_small(log.directory, target, producer_snapshot_file_name(log.view.log_end_offset))
        replace(files, f"{target}/{FileKind.LEADER_EPOCH_CHECKPOINT.value}", [encode_leader_epochs(log.lineage.entries)])
        self._copy_small(log.directory, target, FileKind.PARTITION_METADATA.value)
        self._add_start(log)
        files.sync_directory(target)
        report.log_start_offset, report.log_end_offset = log.log_start_offset, log.view.log_end_offset
        report.segments = len(chain) + len(local)
        report.size = sum(one.size for one in chain) + sum(one.size for one in local)
        verify_written(files, target, report)

    def _refuse_files_of_others(self, log: TieredLog, chain: Sequence[RemoteSegment], target: str) -> None:
        """Raise NotRestored for a file that an earlier run did not write, or would have written with other bytes.

        A segment of the right size is verified later. A local log may have grown since.
        """
        files = self._files
        expected: dict[str, bytes | None] = {FileKind.LEADER_EPOCH_CHECKPOINT.value: encode_leader_epochs(log.lineage.entries),
                                            **self._indexes_without_log(log, chain, target)}
        sizes = {log_file_name(one.start_offset): one.size for one in chain}
        names = {make(one.start_offset) for one in chain for make in INDEX_FILE_NAMES.values()}
        names |= {producer_snapshot_file_name(one.end_offset + 1) for one in chain}
        for name in sorted(files.list(target)):
            known, path, source = name.removesuffix(".tmp"), f"{target}/{name}", f"{log.directory}/{name.removesuffix('.tmp')}"
            is_ours = known in expected or known in sizes or known in names or files.exists(source)
            if is_ours and name == known:  # not a temporary file
                if known in expected:
                    is_ours = files.read(path, MAX_INDEX_SIZE) == expected[known]
                elif known in sizes:
                    is_ours = files.info(path).size == sizes[known]
                elif files.exists(source):
                    is_ours = self._begins(source, path)
            if not is_ours:
                what = f"{path}: the file already exists, and is not what this command would write"
                raise NotRestored(what, f"name another directory, or move {argument(path)} away", path=path)

    def _indexes_without_log(self, log: TieredLog, chain: Sequence[RemoteSegment], target: str) -> dict[str, bytes | None]:
        """Return the other files, by name, of segments whose log was not written yet, if one of these files exists."""
        found: dict[str, bytes | None] = {}
        for one in chain:
            makes = {kind: make(one.start_offset) for kind, make in INDEX_FILE_NAMES.items()}
            makes[IndexKind.PRODUCER_SNAPSHOT] = producer_snapshot_file_name(one.end_offset + 1)
            exist = [self._files.exists(f"{target}/{name}") for name in (log_file_name(one.start_offset), *makes.values())]
            if not exist[0] and any(exist):
                assert log.remote is not None  # it has this segment
                parts = self._layout.parts(log.remote, one)
                found |= {name: parts.index(kind) for kind, name in makes.items()}
        return found

    def _begins(self, source: str, path: str) -> bool:
        """Are the bytes of the file at `path` the first ones of `source`?"""
        with self._files.open(source) as file, self._files.open(path) as other:
            size = other.size()
            return size <= file.size() and same_bytes(file, other.read_exactly, size)

    def _fetch(self, log: TieredLog, segment: RemoteSegment, target: str, report: Report) -> None:
        name = log_file_name(segment.start_offset)
        offsets = (segment.start_offset, segment.end_offset + 1)
        path = f"{target}/{name}"
        if self._files.exists(path) and self._files.info(path).size == segment.size:
            report.add(Action.KEPT, name, "already exists", offsets=offsets, size=segment.size)
            return
        assert log.remote is not None  # it has this segment
        size = write_segment(self._files, target, self._layout.parts(log.remote, segment), segment)
        report.add(Action.CREATED, name, "copied from the store", offsets=offsets, size=size)

    def _copy(self, source: str, target: str, base_offset: int, size: int) -> None:
        """Copy a local segment of `size` bytes. If its log has grown, its indexes are left out, so that they are rebuilt."""
        is_unchanged = self._files.info(f"{source}/{log_file_name(base_offset)}").size == size
        for make in INDEX_FILE_NAMES.values() if is_unchanged else ():
            self._copy_small(source, target, make(base_offset))
        self._copy_small(source, target, producer_snapshot_file_name(base_offset))
        self._copy_file(f"{source}/{log_file_name(base_offset)}", f"{target}/{log_file_name(base_offset)}", size)

    def _copy_small(self, source: str, target: str, name: str) -> None:
        if self._files.exists(f"{source}/{name}"):
            self._copy_file(f"{source}/{name}", f"{target}/{name}", self._files.info(f"{source}/{name}").size)

    def _copy_file(self, source: str, target: str, size: int) -> None:
        files = self._files
        with files.open(source) as file, files.open_writable(f"{target}.tmp", create=True) as to:
            to.truncate(0)
            for at in range(0, size, _PIECE):
                to.write_at(at, file.read_exactly(at, min(_PIECE, size - at)))
            to.sync()
        files.rename(f"{target}.tmp", target, replaces=True)

    def _starts(self) -> dict[tuple[str, int], int]:
        """Return the lines of the checkpoint with log start offsets in `into`. Raises NotRestored if Kafka cannot read it."""
        path = f"{self._into}/{FileKind.LOG_START_CHECKPOINT.value}"
        known, fault = known_offsets(self._files, path) if self._files.exists(path) else ({}, None)
        if fault is not None:
            raise NotRestored(f"{path}: {fault}", f"name another directory, or move {argument(path)} away", path=path)
        return dict(known)

    def _add_start(self, log: TieredLog) -> None:
        """Write the log start offset to the checkpoint, because it may be within the first segment."""
        offsets = self._starts() | {(log.topic, log.partition): log.log_start_offset}
        lines = (PartitionOffset(*name, offset) for name, offset in offsets.items())
        replace(self._files, f"{self._into}/{FileKind.LOG_START_CHECKPOINT.value}", [encode_offset_checkpoint(lines)])


def remote_chain(log: TieredLog, report: Callable[[NotRestored], object] | None = None) -> Iterator[RemoteSegment]:
    """Yield the remote segments from which a leader reads the offsets before the first local segment.

    report  receives gaps, after which segments follow. Segments that overlap follow each other as consumers read them, and the
            last one may overlap local ones. None: raises NotRestored for a gap or an overlap
    """
    offset, first_local = log.log_start_offset, min(log.view.segments.base_offsets)
    while offset < first_local:
        segment = None if log.remote is None else log.lineage.segment(log.remote, offset)
        if segment is None:
            following = _next_readable(log, offset, first_local)
            error = _gap(log, offset, following - 1, first_local)
            if report is None:
                raise error
            report(error)
            offset = following
            continue
        if report is None and offset > log.log_start_offset and segment.start_offset != offset:
            raise _overlap(log, f"remote segments overlap at offset {offset}, as different leaders copied them")
        if report is None and segment.end_offset >= first_local:
            raise _overlap(log, f"the last remote segment ends at {segment.end_offset}, in the middle of the first local ones")
        yield segment
        offset = segment.end_offset + 1


def _gap(log: TieredLog, offset: int, last: int, first_local: int) -> NotRestored:
    if log.lineage.epoch_of(offset) is None:
        what = f"{log.directory}: no leader epoch has offset {offset}: brokers do not read the records up to {last} either"
        return WithoutEpoch(what, path=log.directory)
    what = f"{log.directory}: no remote segment has {offsets_text(offset, last + 1)}, and the first local one is {first_local}"
    return NotRestored(what, "name the log dirs with all logs of __remote_log_metadata", path=log.directory)


def _next_readable(log: TieredLog, offset: int, first_local: int) -> int:
    """Return the first offset after `offset` that a leader finds in a remote segment; `first_local`: there is none before."""
    if log.remote is None:
        return first_local
    starts = {start for segment in log.remote.segments() for _, start in segment.leader_epochs}
    starts |= {entry.start_offset for entry in log.lineage.entries}
    later = (start for start in sorted(starts) if offset < start < first_local)
    return next((start for start in later if log.lineage.segment(log.remote, start) is not None), first_local)


def _overlap(log: TieredLog, what: str) -> NotRestored:
    do = "kafkalog fetch --raw --store reads overlapping segments"
    return NotRestored(f"{log.directory}: {what}", do, path=log.directory)

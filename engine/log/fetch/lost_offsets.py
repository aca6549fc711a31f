"""Offsets that a reader passes although records were there: what `verify` reports about gaps, for commands that read records.

The module stands alone: `fetch`, `export`, `grep` and `dump-log` read a partition in different ways.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from engine.checkpoint.checkpoints import read_leader_epochs
from engine.discovery.names import FileKind, log_file_name, parse_file_name
from engine.errors import UnreadableFile
from engine.log.continuity.check import ContinuityCheck
from engine.log.continuity.cleaner_traces import was_cleaned
from engine.log.errors import CorruptRecord
from engine.log.fetch.segment_view import SegmentView
from engine.log.fetch.view import logs_in_use
from engine.record.columns import BatchColumns
from engine.record.heads import HeadWalk

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from engine.files import ReadOnlyFiles
    from engine.findings import Finding
    from engine.log.tiering import Policy


def lost_offsets(
    files: ReadOnlyFiles, directory: str, wanted: tuple[int, int], policy: Policy, gapped: Collection[str] = ()
) -> list[Finding]:
    """Return the findings about lost offsets among `wanted`, [first, end), of the partition in `directory`.

    gapped  paths of the segments in which the reader found batches whose offsets are not consecutive; without them, only gaps
            between segments are reported
    The ends of the segments are read. Only if one lacks offsets, or is `gapped`, are all headers of the log: see
    ContinuityCheck. Raises UnreadableFile, FileChangedWhileReading.
    """
    directory = directory.rstrip("/") or "/"
    names = files.list(directory)
    suffixes = logs_in_use(names)
    logs = {base: f"{directory}/{log_file_name(base, suffix)}" for base, suffix in suffixes.items()}
    try:
        inside = [path for path in logs.values() if path in gapped and not _was_cleaned(files, path)]
        if inside or any(
            _lacks_offsets(files, directory, base, suffixes[base], following)
            for base, following in pairwise(logs) if base < wanted[1] and wanted[0] < following
        ):  # fmt: skip
            return _found(files, directory, logs, wanted, policy, within=bool(inside))
    except UnreadableFile:
        if files.list(directory) == names:
            raise
        # a running broker has removed or replaced a segment: the offsets were there
    return []


def _was_cleaned(files: ReadOnlyFiles, path: str) -> bool:
    name = parse_file_name(path.rpartition("/")[2])
    return name is not None and was_cleaned(files, files.absolute(path), name)


def _lacks_offsets(files: ReadOnlyFiles, directory: str, base: int, suffix: str, following: int) -> bool:
    """Does the segment at `base` end before the next one, although the cleaner has not processed it?"""
    segment = SegmentView(files, directory, base, suffix, has_txn_index=False)
    try:
        end = segment.read_next_offset()
    except CorruptRecord:  # the headers decide
        return True
    finally:
        segment.close_handlers()
    return end < following and not _was_cleaned(files, f"{directory}/{log_file_name(end)}")


def _found(
    files: ReadOnlyFiles, directory: str, logs: Mapping[int, str], wanted: tuple[int, int], policy: Policy, *, within: bool
) -> list[Finding]:
    path = f"{directory}/{FileKind.LEADER_EPOCH_CHECKPOINT.value}"
    epochs = read_leader_epochs(files, path).entries if files.exists(path) else []
    found: list[Finding] = []
    check = ContinuityCheck(files, directory, found.append, [entry.start_offset for entry in epochs], policy)
    columns = BatchColumns()
    for base, log in logs.items():
        check.begin_segment(base, log)
        with files.open(log) as file:
            for window in HeadWalk(file, batches=columns):
                check.feed(window)
    check.finish()
    gaps = [finding for finding in found if finding.code == "offset-gap"]
    losses = iter(check.losses)  # of the findings that name an offset, in their order
    lost = [(finding, next(losses) if finding.where.offset is not None else wanted) for finding in gaps]
    return [
        finding for finding, (first, end) in lost
        if first < wanted[1] and wanted[0] < end and (within or finding.where.file == directory)
    ]  # fmt: skip

"""What a selection need not read: segments that lie outside it, and the beginning of a log, by its indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.dump.batch_heads import BatchHeads
from engine.dump.selection import FIRST, Selection
from engine.errors import UnreadableFile
from engine.index.offset import OffsetIndex
from engine.index.time import TimeIndex
from engine.layout import FileKind, FileName, file_name, parse_file_name

if TYPE_CHECKING:
    from engine.files import OpenFile, ReadOnlyFiles


def may_hold_matches(files: ReadOnlyFiles, path: str, name: FileName, selection: Selection) -> bool:
    """Can the segment at `path` hold an offset that fits? Its own name and that of the next segment decide."""
    if name.kind not in (FileKind.LOG, FileKind.LOG_07) or name.base_offset is None:
        return True
    if selection.end_offset <= name.base_offset:
        return False
    if selection.first_offset <= name.base_offset:
        return True
    _, following = segments_around(files, path, name)
    parsed = parse_file_name(file_name(following[0])) if following else None
    return parsed is None or parsed.base_offset is None or selection.first_offset < parsed.base_offset


def start_position(files: ReadOnlyFiles, path: str, name: FileName, log: OpenFile, selection: Selection) -> int:
    """A byte position where a batch begins and before which nothing fits; 0 where the indexes do not help.

    Indexes are only believed where a batch with fitting offsets really begins at the place they name.
    """
    if name.kind is not FileKind.LOG or name.base_offset is None or name.suffix:
        return 0
    stem = path.removesuffix(".log")
    first_offset = selection.first_offset
    try:
        if selection.from_ms > FIRST:
            before = TimeIndex.read(files, stem + ".timeindex", name.base_offset).lookup(selection.from_ms - 1)
            first_offset = max(first_offset, before.offset + 1 if before.timestamp >= 0 else FIRST)
        if first_offset <= name.base_offset:
            return 0
        position = OffsetIndex.read(files, stem + ".index", name.base_offset).lookup(first_offset).position
    except UnreadableFile:
        return 0
    batch = BatchHeads(log).at(position)
    return position if not isinstance(batch, str) and name.base_offset <= batch.base_offset <= first_offset else 0


def segments_around(files: ReadOnlyFiles, path: str, name: FileName) -> tuple[list[str], list[str]]:
    """Paths of the segments before and behind this one in its directory, in order."""
    if name.base_offset is None:
        return [], []
    prefix = path[: len(path) - len(file_name(path))]
    try:
        entries = files.list(prefix or ".")
    except UnreadableFile:
        return [], []
    paths = {}
    for entry in entries:
        other = parse_file_name(entry)
        if other and other.kind is name.kind and other.suffix == name.suffix and other.base_offset is not None:
            paths[other.base_offset] = prefix + entry
    bases = sorted(paths)
    return (
        [paths[base] for base in bases if base < name.base_offset],
        [paths[base] for base in bases if base > name.base_offset],
    )

"""Several copies of one partition: which of them a leader would have, and where another one diverges from it.

Replicas fetch a leader's batches byte for byte, so batches with the same offsets have the same epoch and checksum. After an
unclean election, or a crash that lost acknowledged records, they differ. Not a divergence: a shorter copy that only lags, one
that begins later because it was trimmed, and missing batches or records that the cleaner removed (it does not change the
batches' offsets).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import offset_span
from engine.discovery.names import FileKind, parse_file_name
from engine.errors import KafkalogError
from engine.findings import Finding, Where, ignore
from engine.formats import MAGIC_V2, BatchField
from engine.log.fetch.view import PartitionView
from engine.record.columns import BatchColumns
from engine.record.windows import LogWalk, Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.files import ReadOnlyFiles

_ROWS = 1024  # batches per window; the windows of two replicas are in memory


def best_replica(files: ReadOnlyFiles, directories: list[str]) -> str:
    """Of several copies the one with the latest leader epoch, then the longest one, then the one with the lowest first offset.

    The length is measured at the end of a copy: it ends before damage that is found there.
    """
    if len(directories) == 1:
        return directories[0]
    ranks = {directory: rank for directory in directories if (rank := _rank(files, directory)) is not None}
    return max(ranks, key=ranks.__getitem__, default=directories[0])


def best_first(files: ReadOnlyFiles, directories: list[str]) -> list[str]:
    """Return the directories of several copies, the best one first. See best_replica."""
    best = best_replica(files, directories)
    return [best, *(path for path in directories if path != best)]


def read_best_replica(files: ReadOnlyFiles, directories: list[str], report: Callable[[Finding], None]) -> str:
    """Return the best of several copies; `report` is called with the others, which are not read."""
    best = best_replica(files, directories)
    others = [path for path in directories if path != best]
    if others:
        report(Finding("replica-chosen", Where(best), f"read in place of {', '.join(others)}"))
    return best


def _rank(files: ReadOnlyFiles, directory: str) -> tuple[int, int, int] | None:
    """The key for comparing copies; None: no log, or unreadable (reading it reports the reason)."""
    try:
        view = PartitionView(files, directory, ignore)  # reading the best copy reports the findings
        try:
            epochs = view.leader_epoch_cache.entries
            return epochs[-1].epoch if epochs else -1, view.sound_end_offset, -view.log_start_offset
        finally:
            view.close()
    except KafkalogError:
        return None


class _Head(NamedTuple):
    path: str
    position: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    record_count: int
    crc: int
    magic: int


def find_divergence(files: ReadOnlyFiles, leading: str, other: str, report: Callable[[Finding], None]) -> bool:
    """Report where the copy in directory `other` diverges from the one in `leading`. Returns whether it does.

    One finding, at the first batch of `other` that contradicts its counterpart. Memory: a window of each copy.
    Raises UnreadableFile, FileChangedWhileReading.
    """
    ours, theirs = _heads(files, leading), _heads(files, other)
    one, two = next(ours, None), next(theirs, None)
    while one is not None and two is not None:
        what = _difference(one, two)
        if what is not None:
            report(Finding("replica-divergence", Where(two.path, two.position, two.base_offset), f"{what} in {one.path}"))
            return True
        if one.base_offset <= two.base_offset:
            two = next(theirs, None) if one.base_offset == two.base_offset else two
            one = next(ours, None)
        else:
            two = next(theirs, None)
    return False


def _difference(one: _Head, two: _Head) -> str | None:
    """How two batches contradict each other; None: they do not."""
    if one.base_offset != two.base_offset:
        first, second = sorted((one, two), key=lambda head: head.base_offset)
        if first.last_offset < second.base_offset or min(one.magic, two.magic) < MAGIC_V2:
            return None
        this, other = (offset_span(head.base_offset, head.last_offset + 1) for head in (two, one))
        return f"offsets {this}, against {other}"
    if one.leader_epoch != two.leader_epoch:
        return f"written in leader epoch {two.leader_epoch}, against {one.leader_epoch}"
    if one.last_offset != two.last_offset and one.magic == two.magic == MAGIC_V2:
        return f"the batch ends at offset {two.last_offset}, against {one.last_offset}"
    if one.crc != two.crc and one.record_count == two.record_count and one.magic == two.magic == MAGIC_V2:
        return "other records under the same offsets"
    return None


def _heads(files: ReadOnlyFiles, directory: str) -> Iterator[_Head]:
    """Yield the batches of a copy in order, up to the first unreadable one."""
    columns = BatchColumns(_ROWS)
    logs = ((parse_file_name(name), name) for name in files.list(directory))
    segments = sorted((parsed.base_offset, name) for parsed, name in logs if parsed is not None
                      and parsed.kind is FileKind.LOG and parsed.base_offset is not None and not parsed.suffix)  # fmt: skip
    for _, name in segments:
        path = f"{directory}/{name}"
        with files.open(path) as file:
            walk = LogWalk(file, batches=columns)
            for window in walk:
                table = window.batches.table
                for row in range(window.rows):
                    if not table[BatchField.VALID, row]:
                        return
                    yield _Head(
                        path, window.base + table[BatchField.POSITION, row], table[BatchField.BASE_OFFSET, row],
                        table[BatchField.LAST_OFFSET, row], table[BatchField.LEADER_EPOCH, row],
                        table[BatchField.COUNT, row], table[BatchField.CRC, row], table[BatchField.MAGIC, row],
                    )  # fmt: skip
            if walk.stop is not Stop.END:
                return

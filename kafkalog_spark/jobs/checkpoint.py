"""Incremental exports: which offsets are in the table, and which run may have been stopped.

Each run writes the new records into a directory of its own, `run=N` in the table. The checkpoint is written before a run, with
the offsets that the run will write, and after it. A run that was stopped between the two is repeated with the same offsets into
the same directory, unless its directory is complete. So no record is lost or written twice.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.errors import LogDirLocked
from engine.files import Files
from engine.log.commits.staging import make_directories
from engine.log.commits.state_files import read_kept, write_kept
from kafkalog_spark.errors import DataLossError, OptionError, as_log_dir_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalog_spark.table.partitions import Piece

    Splits = list[list[Piece]]

_NAME = "kafkalog-export.json"
_COMPLETE = "_SUCCESS"  # the file that Spark writes last


@dataclass
class ExportState:
    """The content of a checkpoint. Offsets are by "topic-partition".

    to     the table
    run    number of the last run
    next   offset after the last one that complete runs have written
    start, end  offsets of a run that may have been stopped; empty: all runs are complete
    """

    to: str
    run: int = 0
    next: dict[str, int] = field(default_factory=dict)
    start: dict[str, int] = field(default_factory=dict)
    end: dict[str, int] = field(default_factory=dict)


class ExportCheckpoint:
    """The checkpoint of an export in a directory, which this process has locked; see `opened_checkpoint`.

    local  path of the table on this machine; None: it is in a store
    """

    def __init__(self, files: Files, directory: str, to: str, local: str | None) -> None:
        self._files, self._path, self._local = files, f"{directory}/{_NAME}", local
        self.state = read_kept(files, self._path, ExportState) or ExportState(to)
        if self.state.to != to:
            raise OptionError(f"{directory}: is the checkpoint of an export to {self.state.to}, not to {to}")

    def begin(self, splits: Splits, *, fails_on_loss: bool) -> Splits:
        """Return the pieces of the splits that this run writes, and note it: those of a stopped run, else all new ones.

        Raises DataLossError for records that were deleted before they were exported, if `fails_on_loss`; OptionError if the
        directory of a new run exists.
        """
        state = self.state
        if fails_on_loss:
            self._check_loss(splits)
        if not state.end:
            wanted = _cut(splits, state.next, {})
            if not wanted:
                return []
            state.run += 1
            if self._local is not None and self._files.exists(self._local_run):
                what = "exists, and the checkpoint does not know it: name the table's own checkpoint, or another table"
                raise OptionError(f"{self._local_run}: {what}")
            for piece in (piece for split in wanted for piece in split):
                key = _key(piece)
                state.start[key] = min(piece.start, state.start.get(key, piece.start))
                state.end[key] = max(piece.end, state.end.get(key, piece.end))
            write_kept(self._files, self._path, state)
            return wanted
        return _cut(splits, state.start, state.end)

    def _check_loss(self, splits: Splits) -> None:
        """Raise DataLossError if a log no longer has the next offset to export, or all those of a stopped run."""
        ranges: dict[str, tuple[int, int]] = {}
        for piece in (piece for split in splits for piece in split):
            first, end = ranges.get(_key(piece), (piece.start, piece.end))
            ranges[_key(piece)] = min(first, piece.start), max(end, piece.end)
        for key, offset in (self.state.start or self.state.next).items():
            last = self.state.end.get(key, offset)
            first, end = ranges.get(key, (offset, offset))
            if not first <= offset <= last <= end:
                what = f"{key} has offsets {first} to {end - 1}, and offset {offset} is the next one to export."
                raise DataLossError(what)

    @property
    def run_directory(self) -> str:
        """The directory of the run."""
        return f"{self.state.to}/run={self.state.run}"

    @property
    def _local_run(self) -> str:
        return f"{self._local}/run={self.state.run}"

    @property
    def is_stopped(self) -> bool:
        """Is a run begun, and not noted as complete?"""
        return bool(self.state.end)

    def is_complete(self) -> bool:
        """Did a stopped run write its directory completely? False: it is in a store, which is not asked."""
        return self.is_stopped and self._local is not None and self._files.exists(f"{self._local_run}/{_COMPLETE}")

    def forget(self) -> None:
        """Note that the run wrote nothing."""
        state = self.state
        state.run -= 1
        state.start, state.end = {}, {}
        write_kept(self._files, self._path, state)

    def commit(self) -> None:
        """Note that the run is complete."""
        state = self.state
        state.next |= state.end
        state.start, state.end = {}, {}
        write_kept(self._files, self._path, state)


def _key(piece: Piece) -> str:
    return f"{piece.topic}-{piece.partition}"


def _cut(splits: Splits, start: Mapping[str, int], end: Mapping[str, int]) -> Splits:
    """Return the splits without offsets before `start`, and from `end` on unless it is empty. Empty splits are left out."""
    found: Splits = []
    for split in splits:
        pieces = [
            piece._replace(start=max(piece.start, start.get(_key(piece), 0)),
                           end=min(piece.end, end.get(_key(piece), 0)) if end else piece.end)
            for piece in split
        ]  # fmt: skip
        if some := [piece for piece in pieces if piece.start < piece.end]:
            found.append(some)
    return found


@contextmanager
def opened_checkpoint(directory: str, to: str, local: str | None) -> Iterator[ExportCheckpoint]:
    """Lock and read the checkpoint in a directory, which is made if it is missing. Raises OptionError, LogDirError.

    local  see ExportCheckpoint
    """
    files = Files()
    with as_log_dir_errors():
        make_directories(files, files.absolute(directory))
        try:
            lock = files.lock(f"{directory}/kafkalog-export.lock")
        except LogDirLocked:
            raise OptionError(f"{directory}: another export uses this checkpoint") from None
        try:
            yield ExportCheckpoint(files, directory, to, local)
        finally:
            lock.release()

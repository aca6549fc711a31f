"""Files that were renamed to `.deleted`: a broker removes them after file.delete.delay.ms, we when the log is closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.discovery.names import DELETED, file_name
from engine.log.report import Action

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.files import Files
    from engine.log.report import Report
    from engine.log.segment.log_segment import LogSegment

class DeferredDeletion:
    """Segments and single files that carry `.deleted` and wait for their removal."""

    def __init__(self, files: Files, directory: str, report: Report) -> None:
        self._files, self._directory, self._report = files, directory, report
        self._segments: list[LogSegment] = []
        self._waiting: set[LogSegment] = set()  # the same: a log of very many is asked for each
        self._paths: list[str] = []

    def mark_segments(self, segments: Iterable[LogSegment], *, newest_first: bool = False) -> None:
        """Rename all files of `segments` to `.deleted` and remember them. Mirrors LocalLog.deleteSegmentFiles.

        A deletion is synced before the next segment is deleted: after a power cut the log must not have a hole. From the
        oldest on where the log begins later from now on, `newest_first` where it ends earlier.
        Where one of the same name waits already, the later one, made since the log was opened, is removed at once.
        """
        marked = [segment for segment in segments if segment not in self._waiting]
        names = {segment.base_offset for segment in self._segments}
        for segment in reversed(marked) if newest_first else marked:
            if segment.suffix != DELETED and segment.base_offset in names:
                segment.delete_if_exists()
            elif segment.suffix != DELETED:
                segment.change_file_suffixes(segment.suffix, DELETED)
            self._files.sync_directory(self._directory)
        self._segments += [segment for segment in marked if segment.suffix == DELETED]
        self._waiting.update(marked)

    def goes_at_once(self, segment: LogSegment) -> bool:
        """Would marking `segment` remove it, as one of the same name waits already?"""
        return segment.suffix != DELETED and any(one.base_offset == segment.base_offset for one in self._segments)

    def add_path(self, path: str) -> None:
        """Remember a file that carries `.deleted` already."""
        self._paths.append(path)

    def run(self, *, keep: bool) -> None:
        """Remove what waits, or with `keep` only let go of it. Afterwards nothing waits."""
        if keep:
            for path in (*(segment.log_path for segment in self._segments), *self._paths):
                self._report.add(Action.MARKED, file_name(path), "kept for later use")
            self.release()
            return
        segments, paths = self._segments, self._paths
        self._forget()
        for segment in segments:
            segment.delete_if_exists()
        for path in paths:
            self._files.remove(path)
        if segments or paths:
            self._files.sync_directory(self._directory)

    def release(self) -> None:
        """Let go of what waits: it stays as it is."""
        for segment in self._segments:
            segment.close_handlers()
        self._forget()

    def _forget(self) -> None:
        self._segments, self._paths = [], []
        self._waiting.clear()

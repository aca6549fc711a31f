"""What an interrupted deletion, compaction or split left in a partition directory: finished or undone, by names alone.

`.deleted` goes. `.cleaned` was not whole yet and goes. `.swap` is whole and takes the place of all that it covers,
unless a `.cleaned` of a lower offset shows that a split had not come to its end. What we write aside ourselves goes, too.
Mirrors the first three passes of LogLoader.load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.findings import Severity
from engine.layout import ASIDE, FileKind, parse_long
from engine.log.errors import CorruptRecord
from engine.log.report import Action
from engine.log.segment.deferred import DELETED
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.splitting import CLEANED, SWAP

if TYPE_CHECKING:
    from engine.config import LogConfig
    from engine.files import Files
    from engine.log.report import Report

_KRAFT_DELETED = ".checkpoint" + DELETED  # snapshots of the metadata log: not ours to remove
_LOG = FileKind.LOG.value


def offset_of(name: str) -> int | None:
    """The offset before the first dot; None where there is none. Mirrors LogFileUtils.offsetFromFileName."""
    number, dot, _ = name.partition(".")
    return parse_long(number) if dot else None


class Leftovers:
    """The left-over files of one partition directory. `settle` does it all."""

    def __init__(self, files: Files, directory: str, config: LogConfig, now: int, report: Report) -> None:
        self._files, self._directory, self._config, self._now, self._report = files, directory, config, now, report
        self._changed = False

    def settle(self, names: list[str] | None = None) -> list[str]:
        """Remove and rename; returns the names of the plain files that are there afterwards.

        names  of those that are there before, if they are known
        """
        names = self._files.plain(self._directory) if names is None else names
        swaps = self._remove_temporary(names)
        if not self._changed and not swaps:
            return names
        covered = self._covered_range([name for name in swaps if name.endswith(_LOG + SWAP)])
        if covered is not None:
            self._remove_covered(*covered)
        self._sync()
        self._complete_swaps()
        self._sync()
        return self._files.plain(self._directory)

    def _remove_temporary(self, names: list[str]) -> list[str]:
        """Remove `.deleted`, `.cleaned` and the `.swap` of unfinished splits; returns the `.swap` that remain."""
        for name in names:
            if name.endswith(DELETED) and not name.endswith(_KRAFT_DELETED):
                self._remove(name, "its deletion was not finished")
            elif name.endswith(ASIDE):
                self._remove(name, "kafkalog was stopped while it wrote it")
        cleaned = [name for name in names if name.endswith(CLEANED) and self._offset(name) is not None]
        swaps = [name for name in names if name.endswith(SWAP) and self._offset(name) is not None]
        lowest = min((offset for name in cleaned if (offset := offset_of(name)) is not None), default=None)
        invalid = [name for name in swaps if lowest is not None and (offset_of(name) or 0) >= lowest]
        for name in invalid:
            self._remove(name, f"part of a split that was not finished: {lowest}{CLEANED} was still being written")
        for name in cleaned:
            self._remove(name, "a compaction or split that was not finished")
        return [name for name in swaps if name not in invalid]

    def _offset(self, name: str) -> int | None:
        offset = offset_of(name)
        if offset is None:
            self._report.add(Action.KEPT, name, "its name holds no offset: a broker would not start with this file here",
                             severity=Severity.WARNING)
        return offset

    def _covered_range(self, log_swaps: list[str]) -> tuple[int, int] | None:
        """The offsets [first, end) that the `.log.swap` files replace; None without any.

        As in Kafka, reading one makes an `.index.swap` where there is none.
        """
        bounds: list[tuple[int, int]] = []
        for name in log_swaps:
            segment = LogSegment(self._files, self._directory, offset_of(name) or 0, self._config, self._now, suffix=SWAP)
            try:
                end = segment.read_next_offset()
            except CorruptRecord:
                end = segment.scan().next_offset or segment.base_offset
            bounds.append((segment.base_offset, end))
            segment.close_handlers()
        return (min(first for first, _ in bounds), max(end for _, end in bounds)) if bounds else None

    def _remove_covered(self, first: int, end: int) -> None:
        for name in self._files.plain(self._directory):
            offset = None if name.endswith(SWAP) else offset_of(name)
            if offset is not None and first <= offset < end:
                self._remove(name, f"replaced by the {SWAP} files of offsets {first} to {end}")

    def _complete_swaps(self) -> None:
        """Rename every `.swap`, logs first: an index without suffix beside a `.log.swap` would be taken for an old one."""
        names = [name for name in self._files.plain(self._directory) if name.endswith(SWAP)]
        for name in sorted(names, key=lambda name: (not name.endswith(_LOG + SWAP), name)):
            if offset_of(name) is None:
                continue
            to = name.removesuffix(SWAP)
            self._files.rename(f"{self._directory}/{name}", f"{self._directory}/{to}")
            self._report.add(Action.RENAMED, name, "an interrupted replacement is completed", to=to,
                             severity=Severity.WARNING)
            self._changed = True

    def _remove(self, name: str, reason: str) -> None:
        path = f"{self._directory}/{name}"
        size = self._files.info(path).size
        self._files.remove(path)
        self._report.add(Action.REMOVED, name, reason, size=size, severity=Severity.WARNING)
        self._changed = True

    def _sync(self) -> None:
        if self._changed:
            self._files.sync_directory(self._directory)

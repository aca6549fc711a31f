"""What an interrupted deletion, compaction or split left in a partition directory: finished or undone, by names alone.

`.deleted` goes. `.cleaned` was not whole yet and goes. `.swap` is whole and takes the place of all that it covers,
unless a `.cleaned` of a lower offset shows that a split had not come to its end. What we write aside ourselves goes, too.
Mirrors the first three passes of LogLoader.load. What a `.swap` replaces is read first: batches that only the old segments
hold are reported, and whoever salvages keeps those segments instead.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from engine.findings import Severity
from engine.layout import ASIDE, FileKind, is_log_file_name, parse_long
from engine.log.errors import CorruptRecord
from engine.log.report import Action
from engine.log.scan.sound_runs import as_runs, sound_batches
from engine.log.segment.deferred import DELETED
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.splitting import CLEANED, SWAP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.config import LogConfig
    from engine.files import Files
    from engine.log.report import Report
    from engine.log.scan.sound_runs import Batch, Run

_KRAFT_DELETED = ".checkpoint" + DELETED  # snapshots of the metadata log: not ours to remove
_LOG, _TXN_INDEX = FileKind.LOG.value, FileKind.TRANSACTION_INDEX.value


def offset_of(name: str) -> int | None:
    """The offset before the first dot; None where there is none. Mirrors LogFileUtils.offsetFromFileName."""
    number, dot, _ = name.partition(".")
    return parse_long(number) if dot else None


def _is_held(batch: Batch, runs: list[Run]) -> bool:
    """Are the offsets of `batch` within one of the `runs`, sorted by offset?"""
    at = bisect_right(runs, batch.first_offset, key=lambda run: run.first_offset) - 1
    return at >= 0 and batch.end_offset <= runs[at].end_offset


class Leftovers:
    """The left-over files of one partition directory. `settle` does it all.

    keep_whole  a `.swap` is removed where the segments that it was to replace still hold all that it holds
    """

    def __init__(
        self, files: Files, directory: str, config: LogConfig, now: int, report: Report, *, keep_whole: bool = False
    ) -> None:
        self._files, self._directory, self._config, self._now, self._report = files, directory, config, now, report
        self._keep_whole = keep_whole
        self._changed = False

    def settle(self, names: list[str] | None = None) -> list[str]:
        """Remove and rename; returns the names of the plain files that are there afterwards.

        names  of those that are there before, if they are known
        """
        names = self._files.plain(self._directory) if names is None else names
        swaps = self._remove_temporary(names)
        if not self._changed and not swaps:
            return names
        log_swaps = [name for name in swaps if name.endswith(_LOG + SWAP)]
        if self._keep_whole and log_swaps and self._are_superfluous(log_swaps):
            for name in swaps:
                self._remove(name, "the segments that it was to replace still hold all of its sound batches: they are kept")
        elif log_swaps:
            self._remove_covered(log_swaps)
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

    def _covered_range(self, log_swaps: list[str]) -> tuple[int, int]:
        """The offsets [first, end) that the `.log.swap` files replace, as their last batches say.

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
        return min(first for first, _ in bounds), max(end for _, end in bounds)

    def _runs(self, names: list[str]) -> list[Run]:
        """The sound runs of the logs with these names."""
        return [run for name in names for run in as_runs(self._batches(name))]

    def _are_superfluous(self, log_swaps: list[str]) -> bool:
        """Do the segments without suffix hold all offsets of the sound batches in `log_swaps`?"""
        first = min(offset_of(name) or 0 for name in log_swaps)
        names = [name for name in self._files.plain(self._directory) if is_log_file_name(name)]
        begun = [name for name in names if int(name[:20]) <= first]
        old = sorted(self._runs(names[max(0, len(begun) - 1) :]), key=lambda run: run.first_offset)
        return all(_is_held(batch, old) for name in log_swaps for batch in self._batches(name))

    def _batches(self, name: str) -> Iterator[Batch]:
        with self._files.open(f"{self._directory}/{name}") as file:
            yield from sound_batches(file, lambda _: None)

    def _remove_covered(self, log_swaps: list[str]) -> None:
        """Remove what the `.log.swap` files replace, and what stands in their place."""
        first, end = self._covered_range(log_swaps)
        taken = {name.removesuffix(SWAP) for name in log_swaps}
        new: list[Run] | None = None
        for name in self._files.plain(self._directory):
            offset = None if name.endswith(SWAP) else offset_of(name)
            if offset is None or not (first <= offset < end or name in taken):
                continue
            reason = f"replaced by the {SWAP} files of offsets {first} to {end}"
            if is_log_file_name(name):
                new = self._runs(log_swaps) if new is None else new
                self._remove_log(name, reason, new, is_compaction=self._config.compact and self._are_whole(log_swaps))
            else:
                self._note_txn_index(name)
                self._remove(name, reason)

    def _are_whole(self, names: list[str]) -> bool:
        """Do the logs with these names hold nothing but sound batches? One that ends inside a batch proves nothing."""
        for name in names:
            end = 0
            for batch in self._batches(name):
                if batch.start != end:
                    return False
                end = batch.end
            if end != self._files.info(f"{self._directory}/{name}").size:
                return False
        return True

    def _remove_log(self, name: str, reason: str, new: list[Run], *, is_compaction: bool) -> None:
        """Remove a log that `new` replaces, and report the batches after or before all of that.

        is_compaction  `new` is what the cleaner kept: the records of the other batches have newer ones of their keys
        """
        start, end = min((run.first_offset for run in new), default=0), max((run.end_offset for run in new), default=0)
        lost = [run for run in self._runs([name]) if run.first_offset < start or run.end_offset > end]
        if not lost or is_compaction:
            self._remove(name, reason)
            return
        offsets = (min(run.first_offset if run.first_offset < start else max(end, run.first_offset) for run in lost),
                   max(run.end_offset if run.end_offset > end else start for run in lost))
        self._remove(name, reason)
        self._report.add(Action.MISSING, name, f"the {SWAP} files have none of these offsets, and a broker loses them: "
                         "--salvage keeps the segment instead; if the topic is compacted, --config cleanup.policy=compact "
                         "completes the replacement", offsets=offsets, severity=Severity.ERROR)

    def _note_txn_index(self, name: str) -> None:
        """Report a transaction index that goes and that no `.swap` replaces."""
        path = f"{self._directory}/{name}"
        if not name.endswith(_TXN_INDEX) or self._files.exists(path + SWAP) or not self._files.info(path).size:
            return
        self._report.add(Action.MISSING, name, "an interrupted replacement brought none with it, and a broker goes on without: "
                         "consumers that read committed records get those of aborted transactions; verify-index --rebuild "
                         "makes it again", severity=Severity.WARNING)

    def _complete_swaps(self) -> None:
        """Rename every `.swap`, logs first: an index without suffix beside a `.log.swap` would be taken for an old one."""
        names = [name for name in self._files.plain(self._directory) if name.endswith(SWAP)]
        for name in sorted(names, key=lambda name: (not name.endswith(_LOG + SWAP), name)):
            if offset_of(name) is None:
                continue
            to = name.removesuffix(SWAP)
            replaces = not name.endswith(_LOG + SWAP)  # an index, which says nothing that its log does not say
            self._files.rename(f"{self._directory}/{name}", f"{self._directory}/{to}", replaces=replaces)
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

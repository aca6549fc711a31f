"""Complete or undo an interrupted deletion, compaction or split: the files `.deleted`, `.cleaned` and `.swap` of a partition.

`.deleted` files are deleted. `.cleaned` files are incomplete and are deleted. `.swap` files are complete and replace all
segments with their offsets, unless a `.cleaned` with a lower offset shows that a split was interrupted. Temporary files of
kafkalog are deleted too. Mirrors the first three passes of LogLoader.load.

All logs are read before they are deleted, and batches that no other file has are reported as lost. With `keep_whole` such files
become segments instead, whose batches salvage puts in order.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from engine.discovery.names import ASIDE, CLEANED, DELETED, LOG_SWAP, SWAP, FileKind, is_log_file_name, log_file_name, offset_of
from engine.findings import Severity
from engine.log.loading.replacement import find_unfinished, free_base_offset, plan_replacement, read_doomed, read_runs
from engine.log.report import Action
from engine.log.segment.sound_runs import sound_batches
from engine.log.tiering import nothing_known

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.config.topic import LogConfig
    from engine.files import Files
    from engine.log.loading.replacement import Doomed, Offsets, Replacement, Unfinished
    from engine.log.report import Report
    from engine.log.segment.sound_runs import Batch, Run
    from engine.log.tiering import Policy

_KRAFT_DELETED = ".checkpoint" + DELETED  # snapshots of the metadata log: not ours to remove
_TXN_INDEX = FileKind.TRANSACTION_INDEX.value
_SUFFIXES = (DELETED, CLEANED, SWAP, ASIDE)


def _is_held(batch: Batch, runs: list[Run]) -> bool:
    """Are the offsets of `batch` within one of the `runs`, which are sorted by offset?"""
    at = bisect_right(runs, batch.first_offset, key=lambda run: run.first_offset) - 1
    return at >= 0 and batch.end_offset <= runs[at].end_offset


class Leftovers:
    """The leftover files of one partition directory. Call `resolve`.

    log_start_offset  records below it were deleted on purpose
    keep_whole  remove a `.swap` if the segments that it should replace still have all its batches. If neither has all, keep
                both: the `.swap` becomes a segment too, until salvage puts the batches in order
    policy      of the topic, in case its `config` does not say that it is compacted
    """

    def __init__(
        self, files: Files, directory: str, config: LogConfig, now: int, report: Report, *, log_start_offset: int = 0,
        keep_whole: bool = False, policy: Policy = nothing_known,
    ) -> None:
        self._files, self._directory, self._config, self._now, self._report = files, directory, config, now, report
        self._log_start_offset, self._keep_whole, self._policy = log_start_offset, keep_whole, policy
        self._changed = False

    def resolve(self, names: list[str] | None = None) -> list[str]:
        """Remove and rename leftover files. Returns the names of all plain files afterwards.

        names  of the plain files before, if they are known
        """
        names = self._files.plain(self._directory) if names is None else names
        if not any(name.endswith(_SUFFIXES) for name in names):
            return names
        found = self._remove_temporary(names)
        swaps, log_swaps = found.swaps, found.log_swaps
        if not self._changed and not swaps:
            return names
        if self._keep_whole and log_swaps and self._are_superfluous(log_swaps):
            for name in swaps:
                self._remove(name, "the segments that it should replace still have all of its sound batches: they are kept")
        elif log_swaps:
            plan = plan_replacement(self._files, self._directory, self._files.plain(self._directory), log_swaps, self._config,
                                    is_compacted=self._config.compact or self._policy().compacted)
            if self._keep_whole and self._drops_batches(plan):
                self._take_as_segments(plan)
            else:
                self._remove_covered(plan)
                self._note_overlap(plan)
        self._sync()
        self._complete_swaps()
        self._sync()
        return self._files.plain(self._directory)

    def _remove_temporary(self, names: list[str]) -> Unfinished:
        """Remove `.deleted`, `.cleaned` and the `.swap` of unfinished splits."""
        found = find_unfinished(names)
        doomed = read_doomed(self._files, self._directory, names, found, log_start_offset=self._log_start_offset,
                             is_compacted=lambda: self._config.compact or self._policy().compacted)
        kept = {name for name, one in doomed.items() if one.alone and self._keep_whole}
        for name in names:
            if name.endswith(DELETED) and not name.endswith(_KRAFT_DELETED) and name not in kept:
                self._remove(name, "its deletion was not finished", doomed.get(name))
            elif name.endswith(ASIDE):
                self._remove(name, "a leftover file of a kafkalog command that was stopped")
            elif name.endswith((CLEANED, SWAP)) and offset_of(name) is None:
                self._report.add(Action.KEPT, name, "its name contains no offset: a broker does not start with this file here",
                                 severity=Severity.WARNING)
        for name in found.invalid:
            if name not in kept:
                reason = f"part of a split that was not finished: {found.lowest}{CLEANED} was still being written"
                self._remove(name, reason, doomed.get(name))
        for name in sorted(kept):
            self._keep(doomed[name])
        if found.invalid:
            self._sync()  # without its `.cleaned`, such a `.swap` would count as complete and replace segments
        for name in found.cleaned:
            if name not in kept:
                self._remove(name, "a compaction or split that was not finished", doomed.get(name))
        return found

    def _note_only_copy(self, name: str, offsets: Offsets) -> None:
        is_old = name.endswith(DELETED)
        unless = "; if the topic is compacted, use --config cleanup.policy=compact to delete it" if is_old else ""
        self._report.add(Action.MISSING, log_file_name(offsets[0]), f"only {name} has these offsets, and a broker deletes it: "
                         f"--salvage restores it instead{unless}", offsets=offsets, severity=Severity.ERROR)

    def _keep(self, doomed: Doomed) -> None:
        """Rename the file to a segment. If that name is in use, it gets another one, and salvage puts its batches in order."""
        used = {int(name[:20]) for name in self._files.plain(self._directory) if is_log_file_name(name)}
        base = doomed.base_offset
        if base in used:
            base = free_base_offset(doomed.runs[0].first_offset, used)
        to = log_file_name(base)
        self._files.rename(f"{self._directory}/{doomed.name}", f"{self._directory}/{to}")
        offsets = doomed.alone[0][0], doomed.alone[-1][1]
        self._report.add(Action.RENAMED, doomed.name, "no other file has its offsets: restored as the segment", to=to,
                         offsets=offsets, severity=Severity.WARNING)
        self._changed = True

    def _are_superfluous(self, log_swaps: list[str]) -> bool:
        """Do the segments without a suffix have all offsets of the sound batches in `log_swaps`?"""
        first = min(offset_of(name) or 0 for name in log_swaps)
        names = [name for name in self._files.plain(self._directory) if is_log_file_name(name)]
        begun = [name for name in names if int(name[:20]) <= first]
        old = sorted((run for name in names[max(0, len(begun) - 1) :] for run in read_runs(self._files, self._directory, name)),
                     key=lambda run: run.first_offset)
        return all(_is_held(batch, old) for name in log_swaps for batch in self._batches(name))

    def _batches(self, name: str) -> Iterator[Batch]:
        with self._files.open(f"{self._directory}/{name}") as file:
            yield from sound_batches(file, lambda _: None)

    def _drops_batches(self, plan: Replacement) -> bool:
        """Do segments that `plan` replaces have batches that no `.log.swap` has and that no compaction removed?"""
        new = sorted((run for swap in plan.swaps for run in swap.runs), key=lambda run: run.first_offset)
        old = [name for name in plan.replaced if is_log_file_name(name)]
        if plan.lost or plan.is_compaction:
            return bool(plan.lost)
        return not all(_is_held(batch, new) for name in old for batch in self._batches(name))

    def _take_as_segments(self, plan: Replacement) -> None:
        """Rename the `.log.swap` files to unused names of segments. Their indexes are removed."""
        for name in find_unfinished(self._files.plain(self._directory)).swaps:
            if not name.endswith(LOG_SWAP):
                self._remove(name, "its log becomes a segment; indexes are rebuilt")
        self._sync()
        used = {int(name[:20]) for name in self._files.plain(self._directory) if is_log_file_name(name)}
        for swap in plan.swaps:
            if swap.runs:
                base = free_base_offset(swap.runs[0].first_offset, used)
                used.add(base)
                self._files.rename(f"{self._directory}/{swap.name}", f"{self._directory}/{log_file_name(base)}")
                self._report.add(Action.RENAMED, swap.name, "neither it nor the segments that it should replace have all sound "
                                 "batches: those of both are kept", to=log_file_name(base), severity=Severity.WARNING)
            else:
                self._remove(swap.name, "it contains no sound batch")
        self._changed = True

    def _remove_covered(self, plan: Replacement) -> None:
        """Remove the files that `.log.swap` files replace; report batches that no other file has."""
        is_compacted = self._config.compact or self._policy().compacted
        completes = ("" if is_compacted else
                     "; if the topic is compacted, --config cleanup.policy=compact completes the replacement")
        for name in plan.replaced:
            if not plan.is_compaction:
                self._note_txn_index(name)
            self._remove(name, f"replaced by {plan.what}")
            for offsets in plan.lost.get(name, ()):
                self._report.add(Action.MISSING, name, f"the {SWAP} files do not have these offsets, and a broker loses "
                                 f"them: --salvage keeps the segment instead{completes}", offsets=offsets,
                                 severity=Severity.ERROR)
        faulty = [] if plan.lost or self._keep_whole else [swap for swap in plan.swaps if swap.fault is not None]
        for swap in faulty:  # salvage reads these files and reports their losses itself
            self._report.add(Action.MISSING, swap.name, f"{swap.fault}: the file is incomplete, and a broker uses it "
                             "unchanged: --salvage keeps its sound batches", severity=Severity.ERROR)

    def _note_overlap(self, plan: Replacement) -> None:
        """Report batches of the segment before `plan` that reach into it: a broker keeps both, as only names count."""
        before = [name for name in self._files.plain(self._directory) if is_log_file_name(name) and int(name[:20]) < plan.first]
        runs = read_runs(self._files, self._directory, before[-1]) if before else []
        end = max((run.end_offset for run in runs), default=0)
        if end > plan.first and any(run.first_offset < end for swap in plan.swaps for run in swap.runs):
            what = (f"its batches reach offset {end - 1}, and {plan.what} hold the same offsets: a broker keeps both, and "
                    "consumers read offsets twice; --salvage keeps one batch of each offset")
            self._report.add(Action.KEPT, before[-1], what, offsets=(plan.first, end), severity=Severity.ERROR)

    def _note_txn_index(self, name: str) -> None:
        """Report a transaction index that is deleted without a `.swap` that replaces it."""
        path = f"{self._directory}/{name}"
        if not name.endswith(_TXN_INDEX) or self._files.exists(path + SWAP) or not self._files.info(path).size:
            return
        self._report.add(Action.MISSING, name, "an interrupted replacement did not include it, and a broker continues without "
                         "it: read_committed consumers get records of aborted transactions; verify --rebuild rebuilds "
                         "it", severity=Severity.WARNING)

    def _complete_swaps(self) -> None:
        """Rename every `.swap`, logs first: beside a `.log.swap`, an index without suffix would count as an old one."""
        names = [name for name in self._files.plain(self._directory) if name.endswith(SWAP)]
        for name in sorted(names, key=lambda name: (not name.endswith(LOG_SWAP), name)):
            if offset_of(name) is None:
                continue
            to = name.removesuffix(SWAP)
            replaces = not name.endswith(LOG_SWAP)  # an index, which contains nothing that its log does not
            self._files.rename(f"{self._directory}/{name}", f"{self._directory}/{to}", replaces=replaces)
            self._report.add(Action.RENAMED, name, "an interrupted replacement is completed", to=to,
                             severity=Severity.WARNING)
            self._changed = True

    def _remove(self, name: str, reason: str, doomed: Doomed | None = None) -> None:
        path = f"{self._directory}/{name}"
        size = self._files.info(path).size
        self._files.remove(path)
        runs = [] if doomed is None else doomed.runs
        offsets = (min(run.first_offset for run in runs), max(run.end_offset for run in runs)) if runs else (None, None)
        records = sum(run.records for run in runs) if runs else None
        self._report.add(Action.REMOVED, name, reason, offsets=offsets, records=records, size=size, severity=Severity.WARNING)
        for alone in () if doomed is None else doomed.alone:
            self._note_only_copy(name, alone)
        for truncated in () if doomed is None else doomed.truncated:
            why = (f"only {name} has these offsets after the log end: the log was truncated there, on purpose or after damage, "
                   "and a broker deletes the file")
            self._report.add(Action.MISSING, log_file_name(truncated[0]), why, offsets=truncated, severity=Severity.WARNING)
        self._changed = True

    def _sync(self) -> None:
        if self._changed:
            self._files.sync_directory(self._directory)

"""Rebuild a leader-epoch-checkpoint that stops a broker from the batches, which contain their leader's epoch."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING

from engine.amounts import offsets_text
from engine.checkpoint.checkpoints import EpochEntry, MalformedCheckpoint, checkpoint_fault, read_leader_epochs
from engine.discovery.names import FileKind, log_file_name, offset_of, parent_of
from engine.discovery.paths import is_brokers_log_dir
from engine.findings import Severity
from engine.formats import LONG_MIN, MAGIC_V2, BatchField
from engine.kernels.placement import next_invalid
from engine.kernels.verify import next_epoch_break
from engine.log.append_errors import IllegalArgument
from engine.log.epochs.leader_epoch_cache import LeaderEpochFileCache, within
from engine.log.epochs.runs import EpochRun, EpochRuns, add_epochs
from engine.log.errors import LogDamaged
from engine.log.report import Action
from engine.log.tiering import Tiering, read_starts
from engine.record.windows import LogWalk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.files import Files, ReadOnlyFiles
    from engine.log.loading.shared import Loading
    from engine.log.partition.unified_log import UnifiedLog
    from engine.log.report import Report
    from engine.log.segment.log_segment import LogSegment


_NAME = FileKind.LEADER_EPOCH_CHECKPOINT.value
_LOG = FileKind.LOG.value
_IN_FILE = f"; {_NAME} contains it, as after a recovery by a broker"


def open_leader_epochs(
    files: Files, directory: str, report: Report, tiering: Tiering, *, is_start_lost: bool = False
) -> LeaderEpochFileCache:
    """The epochs of the partition in `directory`. Raises LogDamaged.

    If Kafka cannot read the file, it is rebuilt; an empty file too, if the log has records in remote storage.
    is_start_lost  see rebuild_leader_epochs
    """
    path = f"{directory}/{_NAME}"
    is_new = not files.exists(path)  # it is made, empty
    try:
        epochs = LeaderEpochFileCache(files, directory)
    except (MalformedCheckpoint, IllegalArgument) as error:
        reason = f"a broker would not start: {error}"
    else:
        if epochs.entries or tiering is Tiering.UNTIERED:
            return epochs
        starts = read_starts(files, directory)
        if starts.line is None or starts.line >= starts.first_segment:
            return epochs
        local = epochs_in_logs(files, directory)
        if tiering is Tiering.TIERED and not _are_all_of_epoch_0(local):
            return epochs  # the loss is reported when the log is open
        reason = "the file has no entry, and no epoch is below 0: all records before the first segment have epoch 0"
    try:
        epochs = rebuild_leader_epochs(files, directory, tiering, is_start_lost=is_start_lost)
    except LogDamaged:
        if is_new:
            files.remove(path)
        raise
    report.add(Action.REBUILT, _NAME, reason, severity=Severity.WARNING)
    return epochs


def mend_contradicted_epochs(files: Files, log: UnifiedLog, report: Report, tiering: Tiering) -> None:
    """Rebuild the checkpoint of `log` from the batches, if `report` says that they contradict it, and it would change.

    A checkpoint that cannot be rebuilt is left, and reported.
    """
    contradicted = [event for event in report.find(Action.KEPT) if event.path == _NAME]
    if (not contradicted and not report.has_doubtful_epochs) or (log.is_tiered and _misses_remote(
            log.leader_epoch_cache, log.log_start_offset, log.segments.base_offsets[0])):
        return
    try:
        entries = within(_in_batches(files, log.directory, tiering), log.log_start_offset, log.log_end_offset)
    except LogDamaged as error:  # the log is repaired already
        report.add(Action.KEPT, _NAME, f"not rebuilt: {str(error).partition(': ')[2]}; {error.do}", severity=Severity.ERROR)
        return
    if entries == log.leader_epoch_cache.in_file:
        return
    report.drop(Action.KEPT, _NAME)
    report.events = [event._replace(reason=event.reason.removesuffix(_IN_FILE)) for event in report.events]
    log.leader_epoch_cache = LeaderEpochFileCache(files, log.directory, entries)
    what = contradicted[0].reason.partition(", and a broker")[0] if contradicted else "an epoch that most of them contradict"
    report.add(Action.REBUILT, _NAME, f"rebuilt from the batches: {what}", severity=Severity.WARNING)


def repair_epochs(log: Loading, end_offset: int) -> None:
    """Change the epochs of `log`, which ends at `end_offset`, until another start would not change them.

    Kafka adds epochs from batches before it truncates the log, and removes entries after the log end. If a log has no records,
    each start removes the entry at its end, or adds it again from the batches: then the entry is kept. Doubtful epochs are not
    added to such a log: no other entry contradicts them any more.
    """
    counts = [len(log.epochs.entries)]
    for _ in range(3):
        before = log.epochs.entries
        for base in log.segments.base_offsets:
            if base in log.epoch_runs:
                add_epochs(log.epochs, log.epoch_runs[base], refuses_doubtful=log.log_start_offset >= end_offset)
        _fit(log.epochs, log.log_start_offset, end_offset)
        counts.append(len(log.epochs.entries))
        if log.epochs.entries == before or (len(counts) > 2 and counts[-1] > counts[-2]):
            return


def _fit(epochs: LeaderEpochFileCache, start_offset: int, end_offset: int) -> None:
    """Truncate `epochs` to the start and end of the log, in Kafka's order."""
    epochs.truncate_from_end(end_offset)
    epochs.truncate_from_start(start_offset)


def rebuild_leader_epochs(
    files: Files, directory: str, tiering: Tiering, *, is_start_lost: bool = False
) -> LeaderEpochFileCache:
    """Replace the content of the file with the epochs in the batches. Raises UnreadableFile, UnwritableFile.

    The file changes in one step, after the whole log was read: a file without entries would be valid and never be repaired
    again. Entries below the first segment are kept: they belong to records in remote storage, and a leader deletes segments
    there whose epochs it does not know. Raises LogDamaged, with nothing changed, if the file has lost such entries.

    is_start_lost  the line of the log in log-start-offset-checkpoint could not be read
    """
    return LeaderEpochFileCache(files, directory, _in_batches(files, directory, tiering, is_start_lost=is_start_lost))


def _in_batches(files: Files, directory: str, tiering: Tiering, *, is_start_lost: bool = False) -> list[EpochEntry]:
    """The entries that rebuild_leader_epochs writes."""
    found = epochs_in_logs(files, directory)
    return [*_of_remote_records(files, directory, found, tiering, is_start_lost=is_start_lost), *found]


def _are_all_of_epoch_0(local: list[EpochEntry]) -> bool:
    """Do all records before the first local batch have epoch 0? Epochs never decrease, and none is below 0."""
    return bool(local) and local[0].epoch == 0


def _of_remote_records(
    files: Files, directory: str, local: list[EpochEntry], tiering: Tiering, *, is_start_lost: bool
) -> list[EpochEntry]:
    """The readable entries of the file below the first segment. `local`: the epochs in the batches.

    For a tiered log without a line in log-start-offset-checkpoint, a broker uses the log start offset 0.
    """
    path, starts = f"{directory}/{_NAME}", read_starts(files, directory)
    if starts.line is None and (tiering is Tiering.TIERED or is_start_lost or _has_lost_starts(files, directory)):
        starts = starts._replace(line=0)
    kept: list[EpochEntry] = []
    for entry in read_leader_epochs(files, path).entries if files.exists(path) else ():
        follows = not kept or (entry.epoch > kept[-1].epoch and entry.start_offset > kept[-1].start_offset)
        is_before = 0 <= entry.start_offset < starts.first_segment
        if follows and is_before and (not local or 0 <= entry.epoch <= local[0].epoch):
            kept.append(entry)
    is_below = starts.line is not None and starts.line < starts.first_segment and tiering is not Tiering.UNTIERED
    if is_below and not kept and _are_all_of_epoch_0(local):
        return [EpochEntry(0, starts.line or 0)]
    if is_below and _are_lost(kept[0] if kept else None, starts.line or 0):
        what = (f"{path}: no epochs of {offsets_text(starts.line or 0, starts.first_segment)} can be read. These may be in "
                "remote storage, where the next leader deletes segments whose epochs are not in the file")
        release = "; without remote storage: --config remote.storage.enable=false" if tiering is Tiering.UNKNOWN else ""
        do = f"copy {_NAME} from another replica of the partition before a broker starts{release}"
        raise LogDamaged(what, do=do, path=path)
    return kept


def _has_lost_starts(files: Files, directory: str) -> bool:
    """Is the log-start-offset-checkpoint of a broker's log dir missing or malformed? Then the log may have had a line."""
    log_dir = parent_of(files.absolute(directory))
    path = f"{log_dir}/{FileKind.LOG_START_CHECKPOINT.value}"
    return is_brokers_log_dir(files, log_dir) and (not files.exists(path) or checkpoint_fault(files, path) is not None)


def _are_lost(first: EpochEntry | None, start: int) -> bool:
    """Were there entries before the `first` one? No epoch is below 0; epoch 0 may begin after the log start offset."""
    return first is None or (first.start_offset > start and first.epoch > 0)


def _misses_remote(epochs: LeaderEpochFileCache, log_start_offset: int, first_base_offset: int) -> bool:
    """Has the checkpoint of a tiered log lost epochs of records in remote storage?"""
    return log_start_offset < first_base_offset and _are_lost(next(iter(epochs.entries), None), log_start_offset)


def note_lost_remote_epochs(log: Loading, log_start_offset: int, first_base_offset: int) -> None:
    """Report a tiered log's checkpoint that has lost epochs of records in remote storage. It cannot be repaired here."""
    if not _misses_remote(log.epochs, log_start_offset, first_base_offset):
        return
    first = next(iter(log.epochs.entries), None)
    end = first_base_offset if first is None else min(first.start_offset, first_base_offset)
    what = (f"it has no epoch for {offsets_text(log_start_offset, end)}, which may be in remote storage, where a leader "
            "deletes segments whose epochs it does not know - copy the file from another replica before a broker starts")
    log.report.add(Action.KEPT, _NAME, what, offsets=(log_start_offset, end), severity=Severity.WARNING)


def epochs_in_logs(files: ReadOnlyFiles, directory: str) -> list[EpochEntry]:
    """The start offset of each epoch that is above all earlier ones. Of a damaged log only the batches before the damage count.

    Epochs that other batches contradict are left out: no checksum covers epochs, nor base offsets, which may be negative.
    """
    logs = [(offset, name) for name in files.plain(directory)
            if name.endswith(_LOG) and (offset := offset_of(name)) is not None]
    runs, before, batches, last = EpochRuns(), 0, 0, -1
    for _, name in sorted(logs):
        with files.open(f"{directory}/{name}") as file:
            for window in LogWalk(file):
                table = window.batches.table
                rows = next_invalid(table, 0, window.rows)
                row = 0
                while (row := next_epoch_break(table, row, rows, runs.newest, LONG_MIN)) < rows:
                    position = before + window.base + table[BatchField.POSITION, row]
                    if table[BatchField.MAGIC, row] >= MAGIC_V2:
                        epoch, offset = table[BatchField.LEADER_EPOCH, row], table[BatchField.BASE_OFFSET, row]
                        runs.add(EpochRun(epoch, offset, position, batches + row))
                    row += 1
                batches += rows
                last = table[BatchField.LAST_OFFSET, rows - 1] if rows else last
                if rows < window.rows:
                    break
            before += file.size()
    runs.finish(last + 1)
    return [EpochEntry(run.epoch, run.first_offset) for run in runs.trusted if run.first_offset >= 0]


def note_doubts(log: Loading) -> None:
    """Report the first batch of each segment whose epoch others contradict. Call it when the file is final."""
    for base in log.segments.base_offsets:
        doubt = log.epoch_runs[base].doubt if base in log.epoch_runs else None
        if doubt is not None:
            is_in_file = EpochEntry(doubt.run.epoch, doubt.run.first_offset) in log.epochs.entries
            log.report.has_doubtful_epochs |= is_in_file
            log.report.add(Action.KEPT, log_file_name(base), f"at byte {doubt.run.position}: {doubt.text}"
                           f"{_IN_FILE if is_in_file else f'; {_NAME} is not changed'}",
                           offsets=(doubt.run.first_offset, None), severity=Severity.WARNING)


def note_epochs(log: Loading, end: int, *, is_contradictory: bool) -> None:
    """Report a checkpoint that contradicts the batches that were read. The log ends before offset `end`.

    If the batches contradict each other, that is reported already, and the right content of the file is not known.

    is_contradictory  entries in the file contradicted each other, so that later ones replaced earlier ones
    """
    first = log.epochs.entries[0].start_offset if log.epochs.entries else end
    start = max(log.log_start_offset, log.segments.base_offsets[0])
    is_forgotten = is_contradictory and start < min(first, end)
    if not is_forgotten and (not log.epoch_runs or any(runs.doubt is not None for runs in log.epoch_runs.values())):
        return
    if log.epochs.in_file != log.epochs.entries:
        what = "both epochs and offsets must increase"
    elif is_forgotten:
        what = (f"no entry is left for {offsets_text(start, min(first, end))}, because entries of the file contradicted "
                "each other")
    else:
        found = next(_contradictions(log, end), None)
        if found is None:
            return
        what = found
    log.report.add(Action.KEPT, _NAME, f"{what}: replicas may truncate at the wrong offset, and a broker does not "
                   "repair it - kafkalog verify --rebuild rebuilds it", severity=Severity.WARNING)


def _contradictions(log: Loading, end: int) -> Iterator[str]:
    entries = log.epochs.entries
    starts = [entry.start_offset for entry in entries]
    # an interrupted deletion may leave old segments below the first epoch; the next deletion removes them
    start = max(log.log_start_offset, starts[0]) if starts else log.log_start_offset
    for segment, following in pairwise([*log.segments, None]):
        assert segment is not None
        runs = log.epoch_runs.get(segment.base_offset)
        if runs is None:
            continue
        bound = end if following is None else following.base_offset
        for run, after in pairwise([*runs.trusted, None]):
            assert run is not None
            below = bound if after is None else after.first_offset
            first = max(run.first_offset, start)
            if not _reaches(segment, run, first, below):
                continue
            number = bisect_right(starts, first) - 1
            if number < 0:
                yield f"no entry for offset {first}, whose batch has epoch {run.epoch}"
            elif entries[number].epoch != run.epoch:
                yield f"offset {first} would have epoch {entries[number].epoch}, its batch has epoch {run.epoch}"
            between = entries[number + 1 : bisect_left(starts, below)]
            yield from (_too_early(entry, run) for entry in between
                        if entry.epoch != run.epoch and _reaches(segment, run, entry.start_offset, below))


def _too_early(entry: EpochEntry, run: EpochRun) -> str:
    return f"epoch {entry.epoch} would begin at offset {entry.start_offset}, where a batch has epoch {run.epoch}"


def _reaches(segment: LogSegment, run: EpochRun, offset: int, bound: int) -> bool:
    """Is there a batch of `run` at or after `offset`, before `bound`?"""
    if offset == run.first_offset:
        return offset < bound
    head = segment.translate_offset(offset) if offset < bound else None
    return head is not None and head.base_offset < bound

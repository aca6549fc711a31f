"""Losses that the disk proves: evidence in other files about where a log began and ended.

`verify` and `recover` read it before anything of the log is read or changed. Evidence in the batches themselves, which is gaps,
is in `continuity`.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import offsets_text
from engine.checkpoint.checkpoints import known_offsets, read_leader_epochs
from engine.checkpoint.producer_snapshot import ProducerSnapshot
from engine.discovery.names import (
    METADATA_TOPIC,
    FileKind,
    PartitionKind,
    is_log_file_name,
    log_file_name,
    offset_of,
    offset_of_brokers,
    partition_of,
)
from engine.discovery.paths import is_brokers_log_dir
from engine.findings import Finding, Severity, Where
from engine.formats import NO_TIMESTAMP, BatchField
from engine.log.segment.batch_search import end_by_headers, first_leader_epochs
from engine.log.segment.readable_segment import SegmentEnd, SegmentIndexes, find_segment_end
from engine.log.tiering import Starts, Tiering
from engine.record.windows import LogWalk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from engine.checkpoint.checkpoints import EpochEntry
    from engine.discovery.names import PartitionDir
    from engine.files import ReadOnlyFiles
    from engine.log.tiering import Policy

    Line = Callable[[FileKind], int | None]

_CHECKPOINTS = {
    FileKind.RECOVERY_POINT_CHECKPOINT: "its recovery point was {offset}: all earlier records were flushed",
    FileKind.REPLICATION_CHECKPOINT: "its high watermark was {offset}: all earlier records were acknowledged",
}
_DELETED = f"{FileKind.LOG.value}.deleted"
_LOG, _EPOCHS, _SNAPSHOT = FileKind.LOG.value, FileKind.LEADER_EPOCH_CHECKPOINT.value, FileKind.PRODUCER_SNAPSHOT.value
_SEARCHED = 1 << 20  # bytes of a segment that are searched for producers
_INDEXES = (FileKind.OFFSET_INDEX.value, FileKind.TIME_INDEX.value, FileKind.TRANSACTION_INDEX.value)
COMPARED = frozenset(("index-beyond-log", "timeindex-offset-not-found", "txnindex-mismatch"))  # codes about single entries
_WITH_LINES = (PartitionKind.PLAIN, PartitionKind.FUTURE)


class Claim(NamedTuple):
    """Evidence in the file at `path` that the log reached offset `end` (exclusive). `what`: in words, `code`: of its finding.

    records_end  offset after the last record that the file knows, if that may be lower
    """

    code: str
    path: str
    end: int
    what: str
    records_end: int | None = None

    def finding(self, log_end: int) -> Finding:
        """The finding that the log ends at `log_end`, which is lower."""
        what = f"{self.what}; the log ends before {log_end}: it lacks {offsets_text(log_end, self.end)}"
        return Finding(self.code, Where(self.path, None, self.end), what)


class Missing(NamedTuple):
    """Offsets [first, end) that are missing in the log, and the finding about them."""

    first: int
    end: int
    finding: Finding


class Evidence(NamedTuple):
    """What other files say about a log.

    directory   of the partition
    claims      about the end of the log
    log_start   the line of log-start-offset-checkpoint; None: there is none
    epochs      of leader-epoch-checkpoint, without unreliable ones
    deleted     offsets [first, end) of segments that are marked for deletion
    lacks_snapshots  segments before the last have batches of producers after the log start, but there is no producer snapshot:
                     brokers write one whenever a segment is full
    lacks_epochs     the first batch has a leader epoch, but leader-epoch-checkpoint has none; or a broker's log dir lacks it
    """

    directory: str
    claims: Sequence[Claim]
    log_start: int | None
    epochs: Sequence[EpochEntry]
    deleted: Sequence[tuple[int, int]]
    lacks_snapshots: bool = False
    lacks_epochs: bool = False

    def beyond(self, end: int) -> list[Claim]:
        """The claims that the log reached offsets after `end`, where it ends.

        A snapshot alone proves nothing if its producers have no records there: after a truncation to an offset within a batch
        there is a snapshot of that offset, and the log ends before the batch.
        """
        claims = [claim for claim in self.claims if claim.end > end]
        has_records = any(claim.records_end is None or claim.records_end > end for claim in claims)
        return claims if has_records or len(claims) > 1 else []

    def before(self, base_offset: int, policy: Policy) -> Missing | None:
        """Records that were lost before the first segment, which begins at `base_offset`.

        When the log start offset is raised, lower leader epochs are removed, so the first epoch shows where the log began.
        A line of log-start-offset-checkpoint shows it too, but may be older than the last deletion. With remote storage a log
        begins before its first local segment: then these offsets are not missing, but they were not checked.
        """
        epoch = self.epochs[0] if self.epochs else None
        starts = Starts(self.log_start, base_offset, None if epoch is None else epoch.start_offset)
        start = max(starts.first_epoch or 0, self.log_start or 0)
        if not starts.differ or start >= base_offset:
            return None
        first, end = self._left_by_deleted(start, base_offset, policy)
        if first >= end:
            return None
        offsets = offsets_text(first, end)
        if epoch is None:
            code, path = "start-before-log", f"{_log_dir_of(self.directory)}/{FileKind.LOG_START_CHECKPOINT.value}"
            began = f"the log start offset of {self.directory} is {start}, the first segment begins at {base_offset}"
        else:
            code, path = "epochs-before-log", f"{self.directory}/{FileKind.LEADER_EPOCH_CHECKPOINT.value}"
            began = f"epoch {epoch.epoch} began at offset {epoch.start_offset}, the first segment begins at {base_offset}"
        where = Where(path, None, first)
        tiering = policy().tiering
        if starts.are_of_tiered(tiering):
            known = "remote storage holds" if tiering is Tiering.TIERED else "remote storage may hold"
            what = f"{began}, and the log start offset is {start}: {known} {offsets}, not checked"
            return Missing(first, end, Finding("records-in-remote-storage", where, what, milder=Severity.INFO))
        what = f"{began}: the log lacks {offsets}, and the log start offset does not say that records were deleted"
        return Missing(first, end, Finding(code, where, what))

    def _left_by_deleted(self, first: int, end: int, policy: Policy) -> tuple[int, int]:
        """The part of offsets [first, end), before the log, that is not in segments marked for deletion: first to last offset.

        The cleaner may have removed the last offsets of a segment of a compacted topic.
        """
        deleted = sorted(self.deleted)
        if deleted and deleted[0][0] < end and policy().compacted:
            return end, end
        for begin, after in deleted:
            if begin <= first:
                first = max(first, after)
        for begin, after in reversed(deleted):
            if begin < end <= after:
                end = begin
        return first, end


class Opened(NamedTuple):
    """What is known from opening the log, if nothing on the disk was changed by that.

    end     of the log: evidence for lower offsets is not read
    epochs  in leader-epoch-checkpoint, if they were read and are reliable; else None
    last_indexed  the last offset in the indexes of the last segment, if they were read and are reliable; else None
    """

    end: int
    epochs: Sequence[EpochEntry] | None = None
    last_indexed: int | None = None


def read_evidence(
    files: ReadOnlyFiles, directory: str, line: Line | None = None, *, of_end_only: bool = False,
    names: Sequence[str] | None = None, opened: Opened | None = None,
) -> Evidence:
    """Read evidence in the files of the partition `directory` and the checkpoints of its log dir. Raises UnreadableFile.

    line  returns the line of the partition in a checkpoint of its log dir; default: the file is read
    of_end_only  only the end of the log: reads small files, and no batches before the end of the last segment
    names        of the plain files in the directory, sorted, if they were listed just before
    Unreliable files are not used; they have findings of their own.
    """
    directory = directory.rstrip("/") or "/"
    partition = partition_of(files.absolute(f"{directory}/x"))
    if partition is not None and partition.kind is PartitionKind.DELETE:
        return Evidence(directory, (), None, (), ())  # all segments are deleted
    claims: list[Claim] = []
    deleted: list[tuple[int, int]] = []
    names = files.plain(directory) if names is None else names
    logs = [name for name in names if name.endswith(_LOG) and is_log_file_name(name)]
    last_log = int(logs[-1][:20]) if logs else -1  # base offset
    opened = Opened(-1) if opened is None else opened
    epochs = opened.epochs
    for name in names:
        if name.endswith(_SNAPSHOT):
            offset = offset_of_brokers(name, _SNAPSHOT)
            if offset is not None and offset > opened.end:
                path, what = f"{directory}/{name}", f"the snapshot was taken at offset {offset}"
                records_end = _records_end(files, path) if offset > last_log else None
                claims.append(Claim("snapshot-beyond-log", path, offset, what, records_end))
        elif name == _EPOCHS:
            path = f"{directory}/{name}"
            epochs = _trusted(files, path) if epochs is None else epochs
            claims += [Claim("epochs-beyond-log", path, entry.start_offset,
                             f"epoch {entry.epoch} began at offset {entry.start_offset}") for entry in epochs]
        elif not of_end_only and name.endswith(_DELETED) and (base_offset := offset_of(name)) is not None:
            deleted.append((base_offset, _end_of(files, f"{directory}/{name}", base_offset)))
    tail = names[bisect_left(names, logs[-1][:20]) :] if logs else names  # from the files of the last segment on
    if opened.last_indexed is not None and opened.last_indexed < opened.end:
        tail = ()
    indexed = {offset_of_brokers(name, name[20:]) for name in tail if name.endswith(_INDEXES)}
    for base_offset in sorted(offset for offset in indexed if offset is not None):
        claims += _of_indexes(files, directory, base_offset, tail, opened.end)
    log_start, of_checkpoints = _of_checkpoints(files, directory, partition, line)
    full = (name for name, following in pairwise(logs) if int(following[:20]) > (log_start or 0))
    has_snapshots = any(name.endswith(_SNAPSHOT) for name in names)
    is_asked = not of_end_only and not has_snapshots
    lacks_snapshots = is_asked and any(_has_producers(files, f"{directory}/{name}") for name in full)
    return Evidence(directory, [*of_checkpoints, *claims], log_start, epochs or (), deleted, lacks_snapshots,
                    not epochs and not of_end_only and _lacks_epochs(files, directory, names, logs, log_start or 0))


def _lacks_epochs(
    files: ReadOnlyFiles, directory: str, names: Sequence[str], logs: Sequence[str], log_start: int
) -> bool:
    path = f"{directory}/{_EPOCHS}"
    if _EPOCHS in names:
        found = read_leader_epochs(files, path)
        is_missing = not found.entries and not found.findings
    else:
        is_missing = is_brokers_log_dir(files, _log_dir_of(files.absolute(directory)))
    filled = [name for name in logs if files.info(f"{directory}/{name}").size] if is_missing else []
    if not filled or _end_of(files, f"{directory}/{filled[-1]}", int(filled[-1][:20])) <= log_start:
        return False  # no epoch begins below the log start offset
    with files.open(f"{directory}/{filled[0]}") as file:
        return first_leader_epochs(file)[0] >= 0


def _trusted(files: ReadOnlyFiles, path: str) -> Sequence[EpochEntry]:
    """The epochs in a leader-epoch-checkpoint; empty if it is not reliable."""
    checkpoint = read_leader_epochs(files, path)
    return () if checkpoint.findings else checkpoint.entries


def _end_of(files: ReadOnlyFiles, path: str, base_offset: int) -> int:
    """The offset after the last batch of the log at `path`, from headers, up to damage."""
    with files.open(path) as file:
        return end_by_headers(file, 0, base_offset)


def _records_end(files: ReadOnlyFiles, path: str) -> int | None:
    """The offset after the last record of a producer in a snapshot; None: the snapshot is not reliable."""
    snapshot = ProducerSnapshot.read(files, path)
    return None if snapshot.sanity() else 1 + max((entry.last_offset for entry in snapshot), default=-1)


def _has_producers(files: ReadOnlyFiles, path: str) -> bool:
    """Is one of the first batches of a log from a producer with an id?"""
    with files.open(path) as file:
        window = next(iter(LogWalk(file, 0, min(file.size(), _SEARCHED))), None)
        return window is not None and any(window.batches.table[BatchField.PRODUCER_ID, row] >= 0 for row in range(window.rows))


def _of_indexes(
    files: ReadOnlyFiles, directory: str, base_offset: int, names: Sequence[str], log_end: int
) -> Iterator[Claim]:
    """Claims of the last segment's indexes. Losses in earlier segments are found as gaps, and when they are recovered.

    If its .log is missing, they count if the time index has an entry, which a broker adds when it closes a segment with
    batches. Otherwise they are leftover files, which a broker removes when it rolls.
    """
    indexes = SegmentIndexes.read(files, directory, base_offset, names)
    if indexes.end <= log_end:
        return
    name = log_file_name(base_offset)
    path = f"{directory}/{name}"
    if name in names:
        end = find_segment_end(files, path, base_offset, indexes.offsets)
    elif indexes.are_closed_with_batches:
        end = SegmentEnd(0, base_offset, NO_TIMESTAMP)
    else:
        return
    for one in indexes.beyond(files, path, end):
        yield Claim(one.code, one.path, one.end, one.what)


def _of_checkpoints(
    files: ReadOnlyFiles, directory: str, partition: PartitionDir | None, given: Line | None
) -> tuple[int | None, list[Claim]]:
    """The line of log-start-offset-checkpoint, and the claims of the log dir's other checkpoints."""
    log_dir = _log_dir_of(directory)
    if partition is None or partition.kind not in _WITH_LINES or partition.topic == METADATA_TOPIC:
        return None, []
    if partition.kind is PartitionKind.FUTURE and files.exists(f"{log_dir}/{partition.topic}-{partition.partition}"):
        return None, []  # the lines belong to the other directory
    line = partial(_line, files, log_dir, (partition.topic, partition.partition)) if given is None else given
    claims: list[Claim] = []
    for kind, what in _CHECKPOINTS.items():
        offset = line(kind)
        if offset is not None:
            evidence = f"{directory}: {what.format(offset=offset)}"
            claims.append(Claim("checkpoint-beyond-log", f"{log_dir}/{kind.value}", offset, evidence))
    return line(FileKind.LOG_START_CHECKPOINT), claims


def _log_dir_of(directory: str) -> str:
    return directory.rpartition("/")[0] if "/" in directory else "."


def _line(files: ReadOnlyFiles, log_dir: str, key: tuple[str, int], kind: FileKind) -> int | None:
    path = f"{log_dir}/{kind.value}"
    if not files.exists(path):
        return None
    known, fault = known_offsets(files, path)
    return None if fault is not None else known.get(key)

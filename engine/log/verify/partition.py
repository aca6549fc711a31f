"""Check every file of a partition against its logs: indexes, producer snapshots, leader epochs; leftovers. Writes nothing.

The logs are read once, from the first segment to the last. The other files are read before the log that they describe, so that
a running broker cannot add entries that the log as read does not have. Producer snapshots are read in pieces, the others whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import count_of
from engine.checkpoint.checkpoints import EpochEntry, known_offsets, read_leader_epochs
from engine.checkpoint.producer_snapshot import ProducerSnapshot
from engine.discovery.names import (
    CLEANED,
    DELETED,
    SWAP,
    FileKind,
    PartitionKind,
    canonical_name,
    file_name,
    parent_of,
    parse_file_name,
    partition_of,
    transaction_index_file_name,
)
from engine.errors import UnreadableFile
from engine.findings import LOSSES, Finding, Severity, Where
from engine.index.entries import IndexTooLarge
from engine.index.sparse import OffsetIndex, TimeIndex
from engine.index.transaction import TransactionIndex
from engine.log.continuity.check import ContinuityCheck
from engine.log.epochs.check import EpochCheck
from engine.log.finding_limits import FindingLimiter
from engine.log.producers.check import ProducerCheck
from engine.log.segment.readable_segment import SegmentIndexes
from engine.log.tiering import nothing_known
from engine.log.verify.indexes import OffsetCheck, TimeCheck
from engine.log.verify.losses import COMPARED, read_evidence
from engine.record.columns import BatchColumns
from engine.record.heads import HeadWalk
from engine.record.soundness import too_large, unsound_batches, unsound_end
from engine.record.windows import LogWalk, Stop

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.files import OpenFile, ReadOnlyFiles
    from engine.log.tiering import Policy
    from engine.log.verify.losses import Evidence
    from engine.record.windows import Window
    Report = Callable[[Finding], None]

MAX_BASE_OFFSET = 2**63 - 2**32  # kernels add 32-bit numbers to it
MAP_CELLS = 64  # parts of a log in a map of its damage
_LOGS = (FileKind.LOG.value, FileKind.LOG_07.value)
_INDEXES = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX)


class LogSpan(NamedTuple):
    """A log of which every byte was read.

    size     bytes     damaged  which of its MAP_CELLS equal parts have a damaged batch, or bytes that belong to no batch
    """

    size: int
    damaged: frozenset[int]


@dataclass
class Verification:
    """What was checked, and the worst severity that was found; None: no problem."""

    path: str
    segments: int = 0
    bytes: int = 0
    batches: int = 0
    offset_entries: int = 0
    time_entries: int = 0
    aborted_transactions: int = 0
    producer_snapshots: int = 0
    leader_epochs: int = 0
    worst: Severity | None = None
    is_log_damaged: bool = False  # is there an error in a log itself?
    is_broken: bool = False  # is there a problem other than missing offsets?
    is_partly_remote: bool = False  # are older records in remote storage, or may they be? Those were not checked
    logs: list[LogSpan] = field(default_factory=list)  # in the order of their offsets
    losses: list[tuple[int, int]] = field(default_factory=list)  # missing offsets [first, end) that compaction does not explain


def verify_partition(
    files: ReadOnlyFiles, directory: str, report: Report, go_on: Callable[[], bool] = lambda: True,
    policy: Policy = nothing_known, reads: Callable[[str], bool] = lambda _path: True,
    note_sound: Callable[[str], object] = lambda _path: None, watch: Callable[[str, Window], object] | None = None,
) -> Verification:
    """Check all files of the partition in `directory`. Returns what was checked; `report` is called with findings.

    policy returns what is known of its topic: whether the cleaner may have made gaps, and whether remote storage is used
    go_on  called repeatedly; False stops the check. The findings so far were reported
    reads  is the .log at this path read? Of others only the headers of batches are: checksums, producer snapshots and
           transaction indexes are not checked then
    note_sound  called with the path of each .log that was read and in which nothing is wrong
    watch  called with the path of each .log and every window of its batches, in their order

    Files with `.deleted`, `.cleaned`, `.swap` and similar suffixes are not part of the log. For `.cleaned` and `.swap` files
    the effect of a start is reported. Memory: one window, one index of each kind, the producers. The number of findings is
    limited by FindingLimiter. Raises UnreadableFile, and FileChangedWhileReading.
    """
    return _Partition(files, directory, report, go_on, policy, reads, note_sound, watch).run()


class _FindingRecorder:
    """Receives findings: updates the result and passes them through a FindingLimiter.

    The checks refer to this object, not to `_Partition`, which refers to them: a cycle would keep the columns of one
    partition after the other in memory until the garbage collector runs.
    """

    def __init__(self, result: Verification, report: Report) -> None:
        self._result, self._limiter = result, FindingLimiter(report)
        self.damaged: set[str] = set()  # files with a problem

    def __call__(self, finding: Finding) -> None:
        """Process one finding."""
        result = self._result
        order = (None, Severity.INFO, Severity.WARNING, Severity.ERROR)
        result.worst = max(result.worst, finding.severity, key=order.index)
        if finding.severity is Severity.ERROR and finding.where.file.endswith(_LOGS):
            result.is_log_damaged = True
        if finding.severity is not Severity.INFO:
            self.damaged.add(finding.where.file)
        if finding.severity is not Severity.INFO and finding.code not in LOSSES:
            result.is_broken = True
        result.is_partly_remote |= finding.code == "records-in-remote-storage"
        self._limiter(finding)

    def finish(self) -> None:
        """Report how many findings were not reported one by one."""
        self._limiter.finish()


class _Partition:
    def __init__(
        self, files: ReadOnlyFiles, directory: str, report: Report, go_on: Callable[[], bool], policy: Policy,
        reads: Callable[[str], bool], note_sound: Callable[[str], object], watch: Callable[[str, Window], object] | None,
    ) -> None:
        self._reads, self._note_sound, self._watch, self._reads_all = reads, note_sound, watch, True
        self._files, self._policy = files, policy
        self._prefix = directory if directory.endswith("/") else directory + "/"
        self._go_on = go_on
        self.result = Verification(directory)
        self._report = _FindingRecorder(self.result, report)
        self._paths: dict[tuple[FileKind, int | None], str] = {}
        self._links: set[FileKind] = set()  # indexes of the segment that are links to a target that does not exist
        self._unread_indexes: set[FileKind] = set()  # indexes that were deleted in between, or are too large
        self._columns = BatchColumns()
        self._partition = partition_of(files.absolute(self._prefix + "x"))
        self._log_dir = parent_of(files.absolute(self._prefix.rstrip("/")))

    def run(self) -> Verification:
        """See verify_partition."""
        evidence = read_evidence(self._files, self._prefix)
        bases = self._list()
        self._start_offset = self._log_start_offset()
        self._epochs = self._epoch_check()
        self._continuity = ContinuityCheck(self._files, self._prefix.rstrip("/") or "/", self._report, self._epochs.starts,
                                           self._policy)
        self._reads_all = all(self._reads(self._paths[FileKind.LOG, base]) for base in bases)
        self._producers = ProducerCheck(self._snapshots() if self._reads_all else [], self._report, self._start_offset or 0)
        for base in bases:
            if not self._segment(base, is_last=base == bases[-1]):
                break
        else:
            self._finish()
            self._compare_evidence(evidence, bases)
            self._check_leftovers()
        self._report.finish()
        return self.result

    def _finish(self) -> None:
        """Finish the checks after all logs were read."""
        for (kind, _), path in sorted(self._paths.items(), key=lambda item: item[1]):
            if kind is FileKind.LOG_07:
                self._log_07(path)
            elif kind is FileKind.KRAFT_SNAPSHOT and self._reads_all:
                self._metadata_snapshot(path)
        if self._reads_all:
            self._producers.finish()
        self._epochs.finish()
        self._continuity.finish()
        self.result.losses = self._continuity.losses
        self._check_start()

    def _compare_evidence(self, evidence: Evidence, bases: list[int]) -> None:
        """Report losses that other files prove."""
        end = self._continuity.log_end
        if end is None and any(name.endswith(_LOGS) for name in self._files.list(self._prefix)):
            return  # a log of Kafka 0.7, or files with names that no broker uses
        if end is None and not bases and self._kind in (PartitionKind.PLAIN, PartitionKind.FUTURE):
            what, step = "no segment: a broker begins an empty log", "compare with a replica of the partition"
            self._report(Finding("log-missing", Where(self.result.path), what, step=step))
        for claim in evidence.beyond(end or 0):
            if claim.code not in COMPARED:
                self._report(claim.finding(end or 0))
        if evidence.lacks_snapshots:
            what = "its segments have batches of producers, but there is no producer snapshot"
            self._report(Finding("snapshot-missing", Where(self.result.path), what))
        before = evidence.before(bases[0], self._policy) if bases else None
        if before is not None:
            self._report(before.finding)

    def _check_leftovers(self) -> None:
        """Report the effect of a start on files of an interrupted compaction or split. Few partitions have such files."""
        if any(name.endswith((CLEANED, DELETED, SWAP)) for name in self._files.list(self._prefix)):
            from engine.log.verify.leftovers import check_leftovers

            check_leftovers(self._files, self._prefix, self._policy, self._report, self._start_offset or 0)

    def _log_07(self, path: str) -> None:
        """Check a log of Kafka 0.7. It has no other files, so only its checksums are verified."""
        from engine.kafka07.file import valid_size

        with self._files.open(path) as file:
            part = valid_size(file)
            self.result.segments += 1
            self.result.bytes += file.size()
        if part.problem is not None:
            self._report(Finding(part.problem.code, Where(path, part.size), part.problem.what))

    def _metadata_snapshot(self, path: str) -> None:
        """Check the batches of a snapshot of the metadata log, also of one that is not the newest."""
        with self._files.open(path) as file:
            walk = LogWalk(file, 0, file.size(), batches=self._columns)
            for window in walk:
                for _, finding in unsound_batches(path, window, codecs=False):
                    self._report(finding)
            end = unsound_end(file, path, walk.stop, walk.position, walk.end)
        if end is not None:
            self._report(end)

    # ---- files

    @property
    def _kind(self) -> PartitionKind:
        return PartitionKind.PLAIN if self._partition is None else self._partition.kind

    def _list(self) -> list[int]:
        """Collect the paths of all files. Returns the base offsets of the logs, ascending."""
        bases: list[int] = []
        for name in self._files.list(self._prefix):
            parsed = parse_file_name(name)
            if parsed is None or parsed.suffix or parsed.remote_id is not None:
                continue
            if parsed.base_offset is None:
                if parsed.kind in (*_INDEXES, FileKind.LOG, FileKind.PRODUCER_SNAPSHOT):
                    what = "the file name contains no offset: not read; a broker does not start with such a file"
                    self._report(Finding("name-invalid", Where(self._prefix + name), what))
                self._paths[parsed.kind, None] = self._prefix + name
            elif parsed.kind is FileKind.LOG_07:
                self._paths[parsed.kind, parsed.base_offset] = self._prefix + name
            elif parsed.kind is FileKind.KRAFT_SNAPSHOT:
                self._paths[parsed.kind, len(self._paths)] = self._prefix + name  # two may have the same offset
            elif canonical_name(parsed) != name or not 0 <= parsed.base_offset < MAX_BASE_OFFSET:
                is_named_so = canonical_name(parsed) == name and parsed.base_offset > 0
                what = f"offsets from {MAX_BASE_OFFSET} on are not checked" if is_named_so else "not a file name of a broker"
                if parsed.kind is FileKind.LOG and parsed.base_offset >= 0 and canonical_name(parsed) != name:
                    what += f", which begins an empty segment at offset {parsed.base_offset}"
                self._report(Finding("name-invalid", Where(self._prefix + name), f"{what}: not read"))
            else:
                self._paths[parsed.kind, parsed.base_offset] = self._prefix + name
                if parsed.kind is FileKind.LOG:
                    bases.append(parsed.base_offset)
        for (kind, base), path in self._paths.items():
            if kind in _INDEXES and base is not None and base not in bases:
                end = SegmentIndexes.read(self._files, self._prefix.rstrip("/") or "/", base).end
                held = f"its segment held offsets up to {end - 1}; " if end > base else ""
                self._report(Finding("log-missing", Where(path, None, base), f"{held}a starting broker deletes it"))
        return sorted(bases)

    def _epoch_check(self) -> EpochCheck:
        """The check of leader epochs. A checkpoint that a broker refuses is not used."""
        path = self._paths.get((FileKind.LEADER_EPOCH_CHECKPOINT, None))
        entries: list[EpochEntry] | None = []
        if path is not None:
            checkpoint = read_leader_epochs(self._files, path)
            for finding in checkpoint.findings:
                self._report(finding)
            is_emptied = not checkpoint.entries and self._kind is PartitionKind.DELETE  # by the start of a broker
            entries = None if checkpoint.findings or is_emptied else checkpoint.entries
            self.result.leader_epochs = len(checkpoint.entries)
        return EpochCheck(entries, path or self._prefix + FileKind.LEADER_EPOCH_CHECKPOINT.value, self._start_offset,
                          self._report)

    def _log_start_offset(self) -> int | None:
        """The line of the log dir's checkpoint; 0: it has none for the partition; None: there is no checkpoint.

        A damaged checkpoint is not reported here, because it belongs to the log dir.
        """
        path = f"{self._log_dir.rstrip('/')}/{FileKind.LOG_START_CHECKPOINT.value}"
        if self._partition is None or not self._files.exists(path):
            return None
        known, _ = known_offsets(self._files, path)
        return known.get((self._partition.topic, self._partition.partition), 0)

    def _check_start(self) -> None:
        """Report a log that ends below its start, because the broker that opens it deletes it."""
        start, end = self._start_offset, self._continuity.log_end
        if start is not None and end is not None and end < start and self.result.bytes:
            path = f"{self._log_dir.rstrip('/')}/{FileKind.LOG_START_CHECKPOINT.value}"
            what = (f"the log of {self.result.path} has log start offset {start}, after the log end {end}: a broker deletes "
                    f"the whole log, {count_of(self.result.segments, 'segment')} with {count_of(self.result.bytes, 'byte')}")
            self._report(Finding("start-beyond-end", Where(path, None, start), what))

    def _snapshots(self) -> list[tuple[int, ProducerSnapshot]]:
        found: list[tuple[int, ProducerSnapshot]] = []
        for (kind, offset), path in self._paths.items():
            if kind is not FileKind.PRODUCER_SNAPSHOT or offset is None:
                continue
            snapshot = ProducerSnapshot.read(self._files, path)
            self.result.producer_snapshots += 1
            problems = snapshot.sanity()
            for finding in problems:
                self._report(finding)
            if not problems:
                found.append((offset, snapshot))
        return found

    # ---- one segment

    def _segment(self, base: int, *, is_last: bool) -> bool:
        """Check the segment that begins at `base`. Returns False if `go_on` stopped the check."""
        self._links.clear()
        self._unread_indexes.clear()
        offsets, times, aborted = (self._index(kind, base) for kind in _INDEXES)
        if self._reads_all:
            self._producers.begin_segment(base, aborted if isinstance(aborted, TransactionIndex) else None)
        path = self._paths[FileKind.LOG, base]
        if not self._files.exists(path):
            self._vanished(path)
            return True
        self._continuity.begin_segment(base, path)
        self._epochs.begin_segment(base)
        offset_check = OffsetCheck(offsets if isinstance(offsets, OffsetIndex) else OffsetIndex(b"", base, path), self._report)
        time_check = TimeCheck(times if isinstance(times, TimeIndex) else TimeIndex(b"", base, path), self._report)
        damaged: set[int] = set()
        with self._files.open(path) as file:
            walk = LogWalk(file, batches=self._columns) if self._reads(path) else HeadWalk(file, batches=self._columns)
            for window in walk:
                if not self._go_on():
                    return False
                self._check_batches(window, path, damaged, walk.end)
                offset_check.feed(window)
                time_check.feed(window)
                if self._reads_all:
                    self._producers.feed(window, path)
                self._epochs.feed(window, path)
                self._continuity.feed(window)
            if self._end_of_log(walk, file, is_last=is_last):
                damaged.update(range(walk.position * MAP_CELLS // walk.end, MAP_CELLS))
            if isinstance(walk, LogWalk):
                self.result.logs.append(LogSpan(walk.end, frozenset(damaged)))
        self._count(walk.end, offset_check.count, time_check.count, 0 if aborted is None else len(aborted))
        offset_check.finish(walk.position)
        if times is not None:
            in_use = is_last and isinstance(times, TimeIndex) and times.used_entries < len(times)
            time_check.finish(is_closed=not in_use)
        else:
            what = "a broker uses an empty one, and lookups by time skip the segment"
            self._missing(path, FileKind.TIME_INDEX, what, matters=time_check.largest_timestamp >= 0)
        if offsets is None:
            what = "a starting broker rebuilds it from the log"
            self._missing(path, FileKind.OFFSET_INDEX, what, matters=walk.end > 0)
        for index in (offsets, times):
            if index is not None and not isinstance(index, TransactionIndex):
                self._zero_tail(index, is_last=is_last)
        if self._reads_all:
            self._end_producers(aborted if isinstance(aborted, TransactionIndex) else None, base)
        if isinstance(walk, LogWalk) and path not in self._report.damaged:
            self._note_sound(path)
        return True

    def _end_producers(self, aborted: TransactionIndex | None, base: int) -> None:
        """Compare the transaction index of the segment at `base` with its batches."""
        is_known = self._producers.end_segment(aborted, self._prefix + transaction_index_file_name(base))
        if aborted is None and not is_known:
            path = self._paths[FileKind.LOG, base]
            self._missing(path, FileKind.TRANSACTION_INDEX, "the segment has no aborted transaction", matters=False)

    def _vanished(self, path: str) -> None:
        """Report the log at `path` as missing although the directory lists it."""
        if file_name(path) in self._files.list(self._prefix):
            what = "a symbolic link to a target that does not exist: the segment is missing"
            self._report(Finding("path-unreadable", Where(path), what))
        else:
            self._report(Finding("path-vanished", Where(path), "the segment existed a moment ago"))

    def _count(self, size: int, offset_entries: int, time_entries: int, aborted_transactions: int) -> None:
        """Add a segment to the result."""
        self.result.segments += 1
        self.result.bytes += size
        self.result.offset_entries += offset_entries
        self.result.time_entries += time_entries
        self.result.aborted_transactions += aborted_transactions

    def _index(self, kind: FileKind, base: int) -> OffsetIndex | TimeIndex | TransactionIndex | None:
        """The index of that kind; None: there is none, or it cannot be read."""
        path = self._paths.get((kind, base))
        if path is None:
            return None
        try:
            if kind is FileKind.OFFSET_INDEX:
                return OffsetIndex.read(self._files, path, base)
            if kind is FileKind.TIME_INDEX:
                return TimeIndex.read(self._files, path, base)
            return TransactionIndex.read(self._files, path, base)
        except IndexTooLarge as error:
            self._report(Finding("index-too-large", Where(path), str(error).removeprefix(f"{path}: ")))
            self._unread_indexes.add(kind)
            return None
        except UnreadableFile as error:
            if self._files.exists(path):
                raise
            if file_name(path) in self._files.list(self._prefix):
                self._links.add(kind)
            else:
                self._unread_indexes.add(kind)
                self._report(Finding("path-vanished", Where(path), str(error)))
            return None

    def _missing(self, log_path: str, kind: FileKind, what: str, *, matters: bool) -> None:
        """Report a missing index if that `matters`. A link to a target that does not exist is always reported, once."""
        path = log_path.removesuffix(FileKind.LOG.value) + kind.value
        if kind in self._links:
            self._report(Finding("index-missing", Where(path), f"a symbolic link to a target that does not exist; {what}"))
        elif matters and kind not in self._unread_indexes:
            self._report(Finding("index-missing", Where(path), what))

    def _zero_tail(self, index: OffsetIndex | TimeIndex, *, is_last: bool) -> None:
        """Report unused space, except where a broker expects it: in the last segment, while it runs or after a crash."""
        tail = index.zero_tail()
        if not tail:
            return
        if is_last and (not self._is_clean() or self._kind is PartitionKind.DELETE):
            self._report(tail[0])
            return
        why = "the log dir is marked as cleanly stopped" if is_last else "this is not the last segment"
        self._report(Finding("index-untrimmed", tail[0].where, f"{tail[0].what}, but {why}: not harmless"))

    # ---- the log

    def _check_batches(self, window: Window, path: str, damaged: set[int], end: int) -> None:
        """Report unknown magics and wrong checksums. All other header fields are valid here.

        damaged  receives the parts of the log with such batches, see LogSpan
        """
        self.result.batches += window.rows
        if self._watch is not None:
            self._watch(path, window)
        for _, finding in unsound_batches(path, window, codecs=False):
            damaged.add((finding.where.position or 0) * MAP_CELLS // end)
            self._report(finding)

    def _end_of_log(self, walk: LogWalk | HeadWalk, file: OpenFile, *, is_last: bool) -> bool:
        """Report what follows the last batch. Returns whether there are bytes that belong to no batch."""
        larger = too_large(file.path, file.size())
        if larger is not None:
            self._report(larger)
            if walk.stop is Stop.TORN:  # the walk may have ended before the end of the file
                return False
        finding = unsound_end(file, file.path, walk.stop, walk.position, walk.end)
        if finding is not None and walk.stop is Stop.BAD_SIZE and finding.code != "zero-tail":
            unread = f"{finding.what}; {count_of(walk.end - walk.position, 'byte')} from here on not read"
            finding = finding._replace(what=unread)
        if finding is not None and finding.code == "zero-tail":
            finding = finding._replace(what=f"{finding.what}: {self._fate_of_zeros(is_last=is_last)}")
        if finding is None:
            return False
        self._report(finding)
        return finding.severity is Severity.ERROR

    def _fate_of_zeros(self, *, is_last: bool) -> str:
        """What a starting broker does with zeros at the end of a segment."""
        if not is_last:
            return "a starting broker does not check them"
        if self._is_clean():
            return "the log dir is marked as cleanly stopped, so a broker does not truncate them and does not start"
        return "a broker truncates them when it starts"

    def _is_clean(self) -> bool:
        """Is the log dir marked as cleanly stopped?"""
        return self._files.exists(f"{self._log_dir.rstrip('/')}/{FileKind.CLEAN_SHUTDOWN.value}")

"""Verify metadata logs: can they be replayed, are their snapshots equal to the log, do controllers agree."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import count_of, offsets_text
from engine.checkpoint.identity import decode_quorum_state, read_identity
from engine.discovery.names import FileKind
from engine.findings import Finding, Where
from engine.image.image import Image
from engine.image.records import MetadataLog, committed
from engine.image.replay import apply, read_snapshot
from engine.image.tree import differences, nodes, path_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from engine.files import ReadOnlyFiles
    from engine.image.records import MetadataRecord, SnapshotFile

_NAMED = 3  # nodes in a finding


class Comparison(Enum):
    """What is known of a snapshot."""

    EQUAL = "equal"  # to the replay of the log up to its offset
    DIFFERENT = "different"
    NOT_COMPARABLE = "not-comparable"  # the log does not have the records from an older snapshot up to it
    DAMAGED = "damaged"


class VerifiedSnapshot(NamedTuple):
    """A snapshot, and why it could not be compared."""

    snapshot: SnapshotFile
    comparison: Comparison
    why: str = ""


class VerifiedLog(NamedTuple):
    """A metadata log.

    log_start, log_end, epoch   offsets of the records that could be read; epoch of the last one
    records   that were applied          is_sound   no damage in the log: no known record is missing
    is_replayable   there is a state to begin with, and a segment with the records after it
    zeros     bytes after the last batch that never were written
    """

    directory: str
    log_start: int
    log_end: int
    epoch: int
    records: int
    is_sound: bool
    is_replayable: bool
    zeros: int
    snapshots: tuple[VerifiedSnapshot, ...]

    @property
    def committed(self) -> int:
        """The offset before which all records are committed for certain: that of the newest snapshot."""
        return max((one.snapshot.end_offset for one in self.snapshots), default=0)


def verify_log(files: ReadOnlyFiles, directory: str, report: Callable[[Finding], None]) -> VerifiedLog:
    """Replay a metadata log from its start, and compare every snapshot with it. Raises UnreadableFile."""
    zeros: dict[str, int] = {}  # by path: where they begin

    def note(finding: Finding) -> None:
        if finding.code == "zero-tail" and finding.where.position is not None:
            zeros[finding.where.file] = finding.where.position
        report(finding)

    walk = _Walk(files, MetadataLog(files, directory, note), report)
    snapshots = tuple(walk.snapshots())
    walk.finish()
    log = walk.log
    begin = log.logs[0][0] if log.logs else 0
    last = log.logs[-1][1] if log.logs else ""
    zero = files.info(last).size - zeros[last] if last in zeros else 0
    is_short = bool(zero) and any(one.snapshot.end_offset > log.end_offset for one in snapshots)  # records were where zeros are
    is_sound = not log.is_damaged and not is_short and walk.is_replayable
    _check_quorum_state(files, directory, log.last_epoch, report)
    return VerifiedLog(
        directory, begin, max(begin, log.end_offset), log.last_epoch, walk.count, is_sound, walk.is_replayable, zero, snapshots,
    )  # fmt: skip


class _Walk:
    """One pass over the log, with a stop at the end offset of each snapshot. The image is None until there is a beginning."""

    def __init__(self, files: ReadOnlyFiles, log: MetadataLog, report: Callable[[Finding], None]) -> None:
        self._files, self.log, self._report = files, log, report
        self._begin = log.logs[0][0] if log.logs else None
        self._image = Image() if self._begin == 0 else None
        self._records: Iterator[MetadataRecord] = iter(())
        self._next: MetadataRecord | None = None
        self._epoch: int | None = None
        self._sound_before: int | None = None  # end offset of the newest sound snapshot so far
        self.count, self.is_replayable = 0, True

    def snapshots(self) -> Iterator[VerifiedSnapshot]:
        """Verify each snapshot, the oldest first."""
        if self._begin == 0:
            self._start_at(0)
        for snapshot in self.log.snapshots:
            found = read_snapshot(self._files, snapshot, self._report)
            if found is None:
                yield VerifiedSnapshot(snapshot, Comparison.DAMAGED)
            elif self._image is None or snapshot.end_offset == 0:
                yield VerifiedSnapshot(snapshot, Comparison.NOT_COMPARABLE, self._why_not(snapshot))
                self._sound_before = snapshot.end_offset
                if self._begin is not None and snapshot.end_offset >= self._begin:
                    self._image = found
                    if snapshot.end_offset:
                        self._start_at(snapshot.end_offset)
            else:
                yield self._compared(snapshot, found)

    def _why_not(self, snapshot: SnapshotFile) -> str:
        """Why there is no replay to compare a sound snapshot with."""
        if not self._begin or snapshot.end_offset <= self._begin:
            return "the log has no records before it"
        if self._sound_before is None:
            return f"the log begins at offset {self._begin}, and no sound snapshot has the state before that"
        lost = f"the log lacks {offsets_text(self._sound_before, self._begin)}"
        return f"{lost}, between the sound snapshot before it and its own begin"

    def _start_at(self, offset: int) -> None:
        self._records = committed(self.log.records(offset), self._report)
        self._advance()

    def _advance(self) -> None:
        self._next = next(self._records, None)

    def _apply_next(self) -> None:
        assert self._next is not None
        assert self._image is not None
        apply(self._image, self._next, self._report)
        self._epoch, self.count = self._next.epoch, self.count + 1
        self._advance()

    def _compared(self, snapshot: SnapshotFile, found: Image) -> VerifiedSnapshot:
        while self._next is not None and self._next.offset < snapshot.end_offset:
            self._apply_next()
        if self.log.end_offset < snapshot.end_offset:
            why = f"the log {'is damaged' if self.log.is_damaged else 'ends'} at offset {self.log.end_offset}"
            return VerifiedSnapshot(snapshot, Comparison.NOT_COMPARABLE, why)
        assert self._image is not None
        whats = []
        if self._epoch is not None and self._epoch != snapshot.epoch:
            whats.append(f"its name has epoch {snapshot.epoch}, the log before it {self._epoch}")
        different = list(differences(nodes(found), nodes(self._image)))
        if different:
            named = ", ".join(path_of(one.node) for one in different[:_NAMED]) + (", …" if len(different) > _NAMED else "")
            whats.append(f"{count_of(len(different), 'node')} not as in the log: {named}")
        if not whats:
            return VerifiedSnapshot(snapshot, Comparison.EQUAL)
        self._report(Finding("metadata-snapshot-mismatch", Where(snapshot.path, None, snapshot.end_offset), "; ".join(whats)))
        return VerifiedSnapshot(snapshot, Comparison.DIFFERENT, "; ".join(whats))

    def finish(self) -> None:
        """Apply the records after the last snapshot; without an image to begin with, read the log only."""
        if self._begin is None and self.log.snapshots:
            self.is_replayable = False
            newest = self.log.snapshots[-1]
            what = f"no segment is here: the records from offset {newest.end_offset} on, if there were any, are missing"
            self._report(Finding("metadata-gap", Where(newest.path, None, newest.end_offset), what))
        if self._image is None:
            if self._begin:
                self.is_replayable = False
                what = "the log begins here, and no sound snapshot joins it: it cannot be replayed"
                self._report(Finding("metadata-gap", Where(self.log.logs[0][1], 0, self._begin), what))
            for _ in self.log.records():
                pass
        while self._next is not None:
            self._apply_next()


def _check_quorum_state(files: ReadOnlyFiles, directory: str, epoch: int, report: Callable[[Finding], None]) -> None:
    """Compare the epoch of quorum-state with that of the log: it is written before the log gets records of an epoch."""
    path = f"{directory}/{FileKind.QUORUM_STATE.value}"
    if not files.exists(path):
        report(Finding("quorum-state-old", Where(path), "the file is missing"))
        return
    decoded = read_identity(files, path, decode_quorum_state)
    for finding in decoded.findings:
        report(finding)
    if decoded.value is not None and decoded.value.leader_epoch < epoch:
        what = f"leaderEpoch is {decoded.value.leader_epoch}, the last record of the log has epoch {epoch}"
        report(Finding("quorum-state-old", Where(path), what))


class _Batch(NamedTuple):
    """What two controllers have in common if they have the same batch."""

    base: int
    last: int
    epoch: int
    crc: int
    path: str
    position: int


def check_agreement(files: ReadOnlyFiles, logs: Sequence[VerifiedLog], report: Callable[[Finding], None]) -> int:
    """Compare the logs of controllers, batch by batch, with the one that has the latest epoch and then the largest end.

    A controller that was the leader of an older epoch may have records at its end that never were committed: it truncates them.
    Returns how many have no other batch, that one included. Raises UnreadableFile.
    """
    best = max(logs, key=lambda one: (one.epoch, one.log_end))
    return 1 + sum(_agrees(files, best, other, report) for other in logs if other is not best)


def _agrees(files: ReadOnlyFiles, best: VerifiedLog, other: VerifiedLog, report: Callable[[Finding], None]) -> bool:
    ours, theirs = _batches(files, best.directory), _batches(files, other.directory)
    one, two = next(ours, None), next(theirs, None)
    while one is not None and two is not None:
        if one.last < two.base:
            one = next(ours, None)
        elif two.last < one.base:
            two = next(theirs, None)
        elif one[:4] == two[:4]:
            one, two = next(ours, None), next(theirs, None)
        else:
            break
    else:
        return True
    where = Where(two.path, two.position, two.base)
    if two.epoch < one.epoch and two.base >= other.committed:
        what = (f"{count_of(other.log_end - two.base, 'record')} of epoch {two.epoch} that {best.directory} does not have: "
                "never committed; to be truncated when this controller follows")
        report(Finding("metadata-uncommitted", where, what))
    else:
        what = f"{best.directory} has another batch, of epoch {one.epoch}, at offset {one.base}"
        report(Finding("metadata-disagree", where, what))
    return False


def _batches(files: ReadOnlyFiles, directory: str) -> Iterator[_Batch]:
    from engine.record.batch import read_batches

    for _, path in MetadataLog(files, directory, _reported).logs:
        with files.open(path) as file:
            for one in read_batches(file, _reported):
                if not one.is_valid:
                    return
                yield _Batch(one.base_offset, one.last_offset, one.partition_leader_epoch, one.crc, path, one.position)


def _reported(_finding: Finding) -> None:
    """Ignore a finding: verify_log has reported it."""

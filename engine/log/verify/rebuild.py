"""Rebuild files that verification found damaged beside a sound log: indexes, producer snapshots, leader epochs.

The rebuilt files are those that a broker would write: indexes as from LogSegment.recover, snapshots from the batches before
their offset. The log itself is never changed; if it is damaged, it must be recovered first.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from engine.checkpoint.producer_snapshot import SnapshotFiles
from engine.discovery.names import FileKind, file_name, log_file_name, offset_of, parse_file_name, producer_snapshot_file_name
from engine.files import replace
from engine.findings import LOSSES, Severity
from engine.formats import INT_MAX
from engine.log.errors import LogDamaged, whole_recovery
from engine.log.loading.epoch_repair import rebuild_leader_epochs
from engine.log.logdir.log_manager import no_plain_file
from engine.log.producers.state_manager import ProducerStateManager, advance_producer_state, rebuild_producer_state
from engine.log.segment.log_segment import LogSegment, Partition
from engine.log.segment.log_segments import LogSegments
from engine.log.segment.readable_segment import refuse_too_large
from engine.log.tiering import Tiering
from engine.overlay import OverlayFiles

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.config.topic import LogConfig
    from engine.files import Files
    from engine.findings import Finding

_INDEXES = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX)
# findings despite which files are rebuilt: indexes from the existing batches, epochs from those that no others contradict
_NO_OBSTACLES = (
    *LOSSES, "log-missing", "name-invalid", "epoch-order", "sequence-order", "swap-loses-records", "leftover-only-copy",
)  # fmt: skip


class _KnownEpochs:
    """Stands in for the epoch cache and ignores all epochs: rebuilding a segment does not change the checkpoint."""

    latest_epoch = INT_MAX
    refuses_doubtful = True

    def knows_from(self, _offset: int) -> bool:
        """True: no epoch is new."""
        return True

    def assign(self, _epoch: int, _start_offset: int) -> None:
        """Ignore the epoch."""


class Rebuilder:
    """Rebuilds files of the partition in `directory`.

    findings  of `verify_partition` about it       now  ms, the clock by which producers expire
    tiering   are older segments in remote storage?
    Raises LogDamaged if the log must be recovered first, SegmentTooLarge if a log is larger than Kafka opens, NoLogOfBrokers if
    a symbolic link is in the place of such a file: nothing could put the link back.
    """

    def __init__(
        self, files: Files, directory: str, config: LogConfig, findings: Iterable[Finding], now: int,
        tiering: Tiering = Tiering.UNKNOWN,
    ) -> None:
        self._tiering = tiering
        self._files, self._directory, self._config, self._now = files, directory.rstrip("/") or "/", config, now
        self._bases: set[int] = set()  # base offsets of segments whose indexes are rebuilt
        self._snapshots: set[int] = set()
        self._epochs = False
        self._carried: tuple[ProducerStateManager, OverlayFiles] | None = None  # the last result of `_state_at`
        self._sort_out(findings)
        self._refuse_links()
        of_disk = SnapshotFiles.of_directory(files, self._directory)
        self._sound = [offset for offset in of_disk if offset not in self._snapshots]
        self.segments = self._open_segments()

    def _sort_out(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            name = parse_file_name(file_name(finding.where.file))
            if name is None or finding.severity is Severity.INFO or finding.code in _NO_OBSTACLES:
                continue
            if name.kind is FileKind.LOG:
                refuse_too_large(self._files, finding.where.file, self._files.info(finding.where.file).size)
                raise LogDamaged(f"{finding.where.file}: {finding.what}: nothing is rebuilt",
                                 do=whole_recovery(self._directory))
            if name.kind in _INDEXES and name.base_offset is not None:
                self._bases.add(name.base_offset)
            elif name.kind is FileKind.PRODUCER_SNAPSHOT and name.base_offset is not None:
                self._snapshots.add(name.base_offset)
            elif name.kind is FileKind.LEADER_EPOCH_CHECKPOINT:
                self._epochs = True

    def _refuse_links(self) -> None:
        special = self._files.special(self._directory)
        rebuilt = {FileKind.PRODUCER_SNAPSHOT: self._snapshots, **dict.fromkeys(_INDEXES, self._bases)}
        for name in sorted(special):
            parsed = parse_file_name(name)
            is_epochs = name == FileKind.LEADER_EPOCH_CHECKPOINT.value and self._epochs
            is_numbered = parsed is not None and not parsed.suffix and parsed.base_offset in rebuilt.get(parsed.kind, ())
            if is_epochs or is_numbered:
                raise no_plain_file(self._files, f"{self._directory}/{name}", special[name])

    def _open_segments(self) -> LogSegments:
        """All segments. Only those whose indexes are rebuilt are writable."""
        segments, partition = LogSegments(), Partition(self._files, self._directory, self._config, self._now)
        try:
            for name in self._files.plain(self._directory):
                base = offset_of(name)
                if base is not None and name == log_file_name(base):
                    writable = base in self._bases
                    segments.add(LogSegment(partition, base, writable=writable))
        except BaseException:
            segments.close_handlers()
            raise
        return segments

    def run(self) -> list[str]:
        """Rebuild the damaged files. Returns their names. Raises UnwritableFile and the errors of recovery.

        Closes all files, also after an error.
        """
        try:
            if not len(self.segments):
                return []  # without a batch nothing can be rebuilt
            done = [self._leader_epochs()] if self._epochs else []  # first: it may be refused
            done += [name for base in sorted(self._bases) for name in self._segment(base)]
            done += [self._snapshot(offset) for offset in sorted(self._snapshots)]
        finally:
            self.segments.close_handlers()
        if done:
            self._files.sync_directory(self._directory)
        return done

    def _segment(self, base: int) -> list[str]:
        """Rebuild all indexes of one segment. Call it in the order of the segments: earlier indexes must be valid."""
        segment = self.segments.get(base)
        if segment is None:
            return []
        state, _ = self._state_at(base)
        segment.recover(state, _KnownEpochs())
        segment.close()
        after = self.segments.higher_segment(base)
        if after is None:
            self._carried = None
        else:  # the state now includes all batches before `after`
            state.update_map_end_offset(after.base_offset)
        return [file_name(path) for path in segment.paths[1:] if self._files.exists(path)]

    def _state_at(self, offset: int) -> tuple[ProducerStateManager, OverlayFiles]:
        """The producer state after the batches before `offset`, and the files that it wrote, in memory only.

        Continues from the result of the last call, unless a valid snapshot is nearer to `offset`.
        """
        if self._carried is None or not self._leads_to(self._carried[0], offset):
            self._carried = self._new_state(offset)
            return self._carried
        state, overlay = self._carried
        for path in state.written:  # in memory; written by earlier calls
            overlay.remove(path)
        state.written.clear()
        advance_producer_state(state, self.segments, self.segments.base_offsets[0], offset)
        state.update_map_end_offset(offset)
        state.take_snapshot()
        return self._carried

    def _leads_to(self, state: ProducerStateManager, offset: int) -> bool:
        """Can `state` be brought to `offset` by loading only the batches in between?"""
        start = state.map_end_offset
        if start > offset or state.latest_snapshot_offset == offset:
            return False
        nearer = bisect_right(self._sound, start)
        return nearer == len(self._sound) or self._sound[nearer] > offset

    def _new_state(self, offset: int) -> tuple[ProducerStateManager, OverlayFiles]:
        overlay = OverlayFiles(self._files, now=self._now)
        for broken in self._snapshots:
            overlay.remove(f"{self._directory}/{producer_snapshot_file_name(broken)}")
        state = ProducerStateManager(overlay, self._directory, for_snapshots=True)
        first = self.segments.base_offsets[0]
        rebuild_producer_state(state, self.segments, first, offset, now=self._now, reload_from_clean_shutdown=False)
        return state, overlay

    def _snapshot(self, offset: int) -> str:
        """Write a snapshot from the next older valid one and the batches after it. Returns its name."""
        name = producer_snapshot_file_name(offset)
        path = f"{self._directory}/{name}"
        _, overlay = self._state_at(offset)
        if overlay.exists(path):
            replace(self._files, path, [overlay.read(path, overlay.info(path).size)])
        else:  # nothing was appended before that offset: a broker has no snapshot there
            self._files.remove(path)
        return name

    def _leader_epochs(self) -> str:
        """Write the leader epochs of the batches. Returns the name of the file."""
        name = FileKind.LEADER_EPOCH_CHECKPOINT.value
        rebuild_leader_epochs(self._files, self._directory, self._tiering)
        return name

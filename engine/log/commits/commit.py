"""Commit the segments that tasks wrote to the partitions, all or nothing.

A new partition is built in the staging directory and renamed to its final path. Rows for an existing partition are appended to
its log. The journal is written first, the manifest last (see staging).
"""

from __future__ import annotations

import base64
import logging
import uuid
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import offsets_text
from engine.checkpoint.identity import ZERO_UUID
from engine.config.server import Settings
from engine.discovery.names import FileKind, PartitionDir, file_name, log_file_name, parse_partition_dir
from engine.discovery.paths import STAGING, is_brokers_log_dir
from engine.errors import KafkalogError, argument
from engine.files import remove_tree
from engine.log.append.intake import FollowerIntake
from engine.log.append.log_end import adopt_segment, damage_at_end, move_batches, move_in_memory
from engine.log.commits import staging
from engine.log.commits.state_files import Journal, Manifest
from engine.log.commits.undoing import log_end
from engine.log.loading.loader import REPAIRABLE
from engine.log.logdir.log_dirs import LogDir, PartitionPath, list_log_dir
from engine.log.logdir.log_manager import CheckpointOffsets, LogManager, Marker, remove_marker, write_marker
from engine.log.logdir.startup import survey
from engine.log.operations.mending import find_topic_id, write_topic_id
from engine.log.operations.operation import Operation, operate
from engine.log.report import Action, leaves_doubt
from engine.log.session import OpenOptions
from engine.overlay import OverlayFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from engine.files import Files
    from engine.log.commits.staging import StagedPiece
    from engine.log.partition.unified_log import UnifiedLog
    from engine.log.report import Report

_MAX_COPIED = 16 << 20  # largest piece in bytes that is copied to the active segment, so that small writes make few segments
_PARALLEL = 4  # partitions in parallel: most of the time is spent waiting for the disk
_CLEAN = Marker(b'{"version":0,"brokerEpoch":-1}')
_ANY_ERROR = (Exception, KeyboardInterrupt, SystemExit)  # errors that may end a commit while the process continues
_LOG = logging.getLogger("kafkalog")
Key = tuple[str, int]


class _Append(Operation):
    """Calls `append` for each open log."""

    name = "append"
    for_snapshots = False

    def __init__(self, append: Callable[[UnifiedLog], None]) -> None:
        self._append = append

    def work(self, log: UnifiedLog) -> None:
        """Append to one open log."""
        self._append(log)


class OffsetsOverlap(KafkalogError):
    """With keepOffsets: an offset exists already, or two tasks wrote it."""

    code = "offsets-overlap"


class NotAppended(KafkalogError):
    """A log to which records cannot be appended: it is damaged, or its settings reject them."""

    code = "not-appended"


class NotUndone(KafkalogError):
    """A commit failed, and undoing it failed too: the next job that writes to the directory undoes it."""

    code = "not-undone"


class CommitOptions(NamedTuple):
    """How pieces become parts of logs.

    settings      topic settings of the new logs, as given
    keep_offsets  the offsets of the pieces are those of the log; else they follow its end
    replaced      topics whose existing partitions are removed
    """

    settings: tuple[tuple[str, str], ...] = ()
    keep_offsets: bool = False
    replaced: frozenset[str] = frozenset()


def commit(files: Files, job: staging.StagedJob, options: CommitOptions, pieces: Iterable[StagedPiece], now: int) -> None:
    """Publish `pieces`, in the order of their tasks. The caller holds the lock of the log dir, see staging.holding.

    Raises KafkalogError or any other error, after undoing the commit. If undoing fails too (NotUndone), or the process ends
    midway, the next job that writes to the directory undoes it from the journal: it deletes the new partitions, moves the
    replaced ones back, truncates the others to their previous end, and restores the files of the log dir.
    """
    staging.clear_leftovers(files, job.root, now, keep=(job.name,))
    _Commit(files, job, options, _by_partition(pieces), now).run(staging.read_manifest(files, job.root))
    try:
        staging.clean_up(files, job)
    except KafkalogError as error:  # the commit is complete; the next job removes the directory
        _LOG.warning("%s cannot be removed: %s", job.directory, error)


def _by_partition(pieces: Iterable[StagedPiece]) -> dict[Key, list[StagedPiece]]:
    found: dict[Key, list[StagedPiece]] = {}
    for piece in pieces:
        if piece.segments:
            found.setdefault((piece.topic, piece.partition), []).append(piece)
    return dict(sorted(found.items()))


class _Commit:
    """One commit, with the lock held."""

    def __init__(
        self, files: Files, job: staging.StagedJob, options: CommitOptions, pieces: dict[Key, list[StagedPiece]], now: int
    ) -> None:
        self._files, self._job, self._options, self._pieces, self._now = files, job, options, pieces, now
        self._root = list_log_dir(files, job.root)
        self._cluster = survey(files, [self._root])
        existing = {partition.key: partition for partition in self._root.partitions()}
        self._replaced = [partition for key, partition in existing.items() if key[0] in options.replaced]
        replaced = {partition.key for partition in self._replaced}
        self._appended = [existing[key] for key in pieces if key in existing and key not in replaced]
        appended = {partition.key for partition in self._appended}
        self._new = [self._partition_path(f"{job.directory}/{staging.NEW}", key) for key in pieces if key not in appended]
        self._is_fresh = not existing  # only partitions of this commit: all are closed cleanly

    def _partition_path(self, directory: str, key: Key) -> PartitionPath:
        name = PartitionDir(*key)
        return PartitionPath(f"{directory}/{name.topic}-{name.partition}", directory, name)

    def run(self, manifest: Manifest) -> None:
        """Prepare, publish, and write the manifest; undo everything if this fails."""
        files, job = self._files, self._job
        own = staging.own_files(files, job.root)
        is_clean = own[FileKind.CLEAN_SHUTDOWN.value] is not None
        ends = self._ends(clean=is_clean)
        offsets_left = self._build()
        journal = Journal(
            job.name, ends, [_name(one) for one in self._new], [_name(one) for one in self._replaced], own,
            dict(self._options.settings),
        )  # fmt: skip
        if not (ends or journal.new or journal.replaced):
            return
        staging.begin(files, job)
        staging.write_journal(files, job, journal)
        try:
            self._publish(offsets_left, is_clean=is_clean)
            written = self._written(journal)
            staging.write_manifest(files, job.root, Manifest(job.name, self._now, written, journal.replaced))
        except _ANY_ERROR as error:
            try:
                if staging.read_manifest(files, job.root).last == job.name:  # the new manifest is visible already
                    staging.write_manifest(files, job.root, manifest)
                staging.undo(files, job, self._now)
            except Exception as failure:  # noqa: BLE001  # any second error is reported with the first one
                what = f"{error or type(error).__name__}; it could not be undone: {failure or type(failure).__name__}"
                do = "the next job that writes there undoes it first; until then nothing else may write or read there"
                raise NotUndone(f"{job.root}: {what}; {do}") from error
            raise

    def _written(self, journal: Journal) -> dict[str, list[int]]:
        """Return the state of the written partitions that undoing the commit needs, see Manifest."""
        names = () if journal.replaced else (*journal.ends, *journal.new)
        return {name: [journal.ends.get(name, -1), *log_end(self._files, f"{self._root.path}/{name}")] for name in names}

    # ---- before anything is visible -------------------------------------------------------------------

    def _ends(self, *, clean: bool) -> dict[str, int]:
        """Return the log end offset of each partition to append to, after opening it. Raises OffsetsOverlap, KafkalogError."""
        for key, pieces in self._pieces.items():
            if self._options.keep_offsets:
                pieces.sort(key=lambda piece: piece.first_offset)
                for piece, following in pairwise(pieces):
                    if following.first_offset < piece.end_offset:
                        raise OffsetsOverlap(
                            f"{key[0]}-{key[1]}: two tasks wrote {offsets_text(piece.first_offset, piece.end_offset)} "
                            f"and from {following.first_offset} on: repartition by topic and partition, and sort by offset "
                            "within partitions"
                        )
        ends: dict[str, int] = {}

        def note(log: UnifiedLog) -> None:
            _refuse_damaged_end(log)
            ends[file_name(log.directory)] = log.log_end_offset

        if self._appended:  # over memory; a log that cannot be opened is found now, since undoing the commit would truncate it
            files = OverlayFiles(self._files, self._now)
            self._operate(LogDir(self._job.root, False, tuple(self._appended), (), ()), note, files, clean=clean)
        for partition in self._appended:
            first, end = self._pieces[partition.key][0].first_offset, ends[_name(partition)]
            if self._options.keep_offsets and first < end:
                what = f"{_name(partition)} ends before offset {end}: a row with offset {first} cannot be appended to it"
                raise OffsetsOverlap(what)
        return ends

    def _build(self) -> dict[Key, CheckpointOffsets]:
        """Build the new partitions in the staging directory. Returns their offsets for the checkpoints."""
        if not self._new:
            return {}
        files, directory = self._files, f"{self._job.directory}/{staging.NEW}"
        remove_tree(files, directory)
        staging.make_directories(files, directory)
        ids: dict[str, str] = {}
        for partition in self._new:
            files.make_directory(partition.path)
            topic = partition.name.topic
            if topic not in ids:
                ids[topic] = find_topic_id(files, self._cluster, partition)[0] or new_topic_id()
            write_topic_id(files, f"{partition.path}/{FileKind.PARTITION_METADATA.value}", ids[topic])
        log_dir = LogDir(directory, False, tuple(self._new), (), ())
        reports = self._operate(log_dir, self._append, files, clean=True)  # _publish syncs the directory after the renames
        return {
            new.key: CheckpointOffsets(report.log_start_offset or 0, report.log_start_offset or 0, report.recovery_point or 0)
            for new, report in zip(self._new, reports, strict=True)
        }

    # ---- what others see ------------------------------------------------------------------------------

    def _publish(self, offsets_left: Mapping[Key, CheckpointOffsets], *, is_clean: bool) -> None:
        files, job = self._files, self._job
        manager = self._manager(self._root, files)
        taken = remove_marker(manager, self._root)
        if self._replaced:
            staging.make_directories(files, f"{job.directory}/{staging.OLD}")
            for partition in self._replaced:  # no sync: a rename to a name is never on disk before the one that freed it
                files.rename(partition.path, f"{job.directory}/{staging.OLD}/{_name(partition)}")
        for partition in self._new:
            files.rename(partition.path, f"{job.root}/{_name(partition)}")
        files.sync_directory(job.root)
        if self._appended:
            log_dir = LogDir(job.root, False, tuple(self._appended), (), ())
            self._operate(log_dir, self._append, files, clean=is_clean)
        fresh = self._manager(self._root, files)  # reads the checkpoints again
        fresh.forget(self._root, {partition.key for partition in (*self._replaced, *self._new)})
        if self._new and (self._is_fresh or is_brokers_log_dir(files, job.root)):
            fresh.checkpoint(self._root, {self._partition_path(job.root, key): how for key, how in offsets_left.items()})
        if taken is not None or (self._is_fresh and self._new):
            write_marker(manager, self._root, _CLEAN if taken is None else taken)

    def _manager(self, log_dir: LogDir, files: Files) -> LogManager:
        settings = Settings(overrides=self._options.settings)
        cluster = self._cluster
        if log_dir is not self._root:
            cluster = replace(cluster, log_dirs=(log_dir,))
        return LogManager(lambda _path: files, cluster, settings, self._now)

    def _operate(
        self, log_dir: LogDir, work: Callable[[UnifiedLog], None], files: Files, *, clean: bool
    ) -> Sequence[Report]:
        options = OpenOptions(now=self._now, clean_start=clean, jobs=_PARALLEL)
        reports = list(operate(self._manager(log_dir, files), options, _Append(work)))
        for report in reports:
            if report.failure is not None:
                raise report.failure
        return reports

    def _append(self, log: UnifiedLog) -> None:
        """Append the pieces of this log's partition."""
        name = parse_partition_dir(file_name(log.directory))
        assert name is not None  # the log was found by this name
        epoch = log.leader_epoch_cache.latest_epoch or 0
        try:
            self._append_pieces(log, self._pieces[name.topic, name.partition], epoch)
        except REPAIRABLE as error:  # other operations recover the log and try again, but an append must not be repeated
            raise NotAppended(str(error), do=f"kafkalog recover --dry-run {argument(log.directory)}") from error
        log.flush()

    def _append_pieces(self, log: UnifiedLog, pieces: list[StagedPiece], epoch: int) -> None:
        for piece in pieces:
            shift = 0 if self._options.keep_offsets else log.log_end_offset
            if log.segments.active_segment.size and piece.size <= _MAX_COPIED:
                self._copy(log, piece, shift, epoch)
            else:
                self._adopt(log, piece, shift, epoch)

    def _staged(self, piece: StagedPiece) -> str:
        return f"{self._job.root}/{STAGING}/{piece.directory}"

    def _copy(self, log: UnifiedLog, piece: StagedPiece, shift: int, epoch: int) -> None:
        for base_offset, _ in piece.segments:
            path = f"{self._staged(piece)}/{log_file_name(base_offset)}"
            with self._files.open(path) as file:
                data = bytearray(file.read_exactly(0, file.size()))
            move_in_memory(data, shift, epoch)
            FollowerIntake(log).take(data, is_last=True)

    def _adopt(self, log: UnifiedLog, piece: StagedPiece, shift: int, epoch: int) -> None:
        directory = self._staged(piece)
        for base_offset, end_offset in piece.segments:
            if shift or epoch:
                move_batches(self._files, f"{directory}/{log_file_name(base_offset)}", shift, epoch)
            adopt_segment(log, directory, base_offset, base_offset + shift, end_offset + shift, epoch)


def _refuse_damaged_end(log: UnifiedLog) -> None:
    """Raise NotAppended if rows would be appended after damage, as a broker would do, or if opening the log truncated it.

    Records after damage cannot be read. Truncated bytes must be kept, which `recover` does.
    """
    segment = log.segments.active_segment
    name = log_file_name(segment.base_offset)
    why = ""
    for event in log.report.events:
        if event.action is Action.TRUNCATED or (event.path == name and leaves_doubt(event.action, event.severity)):
            name, why = event.path, event.reason.partition(". ")[0]
    why = why or damage_at_end(log) or ""
    if why:
        what = f"{log.directory}/{name}: {why}; kafkalog recover truncates it, and keeps the truncated bytes"
        raise NotAppended(what, do=f"kafkalog recover --dry-run {argument(log.directory)}")


def _name(partition: PartitionPath) -> str:
    return f"{partition.name.topic}-{partition.name.partition}"


def new_topic_id() -> str:
    """Return a random topic id: no reserved one, and none that begins with a dash (Uuid.randomUuid)."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-") and text != ZERO_UUID:
            return text

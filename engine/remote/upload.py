"""Copy closed segments from a disk into a store, as their leader would. Mirrors RLMCopyTask.

Writes the record that the copy begins, then the objects, then the record that the copy is complete. An interrupted upload
leaves the same objects as a broker that dies during a copy: no broker reads them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from engine.checkpoint.checkpoints import EpochEntry, encode_leader_epochs
from engine.discovery.choice import is_chosen_topic
from engine.discovery.names import FileKind, log_file_name, producer_snapshot_file_name
from engine.errors import KafkalogError, UsageError, argument
from engine.log.fetch.view import PartitionView
from engine.log.report import Action, Report
from engine.log.tiering import REMOTE_LOG_METADATA_TOPIC, Tiering, is_never_tiered
from engine.remote.layouts import INDEX_FILE_NAMES, MAX_INDEX_SIZE, IndexKind
from engine.remote.metadata import PartitionMetadata, RemoteSegment, records_of
from engine.remote.metadata_log import MetadataLogs, append_records
from engine.remote.records import State, encode_record, key_of, metadata_partition_of, random_id
from engine.remote.tiered_log import TieredLog
from engine.remote.verify import DeepCheck

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from engine.files import ReadOnlyFiles
    from engine.findings import Finding
    from engine.log.logdir.log_dirs import LogDir, PartitionPath
    from engine.log.session import Session
    from engine.remote.layouts import Layout
    from engine.remote.storage import WritableStore

_COMMAND = "remote upload"


class NotUploaded(KafkalogError):
    """A segment that is not copied. The segments after it are not copied either."""

    code = "not-uploaded"
    exit_status = 4


class LocalSegmentParts:
    """The parts of a closed segment on a disk, in the form that a leader gives to its RemoteStorageManager. See SegmentParts.

    next_offset  base offset of the next segment
    epochs       leader epochs of the log before `next_offset`
    """

    are_indexes_together = False

    def __init__(
        self, files: ReadOnlyFiles, directory: str, base_offset: int, next_offset: int, epochs: Sequence[EpochEntry]
    ) -> None:
        self._files, self._epochs = files, epochs
        names = {kind: make(base_offset) for kind, make in INDEX_FILE_NAMES.items()}
        names |= {
            IndexKind.PRODUCER_SNAPSHOT: producer_snapshot_file_name(next_offset),
            IndexKind.LEADER_EPOCH: FileKind.LEADER_EPOCH_CHECKPOINT.value,
        }
        self._paths: dict[IndexKind | None, str] = {kind: f"{directory}/{name}" for kind, name in names.items()}
        self._paths[None] = f"{directory}/{log_file_name(base_offset)}"

    def keys(self, segment: RemoteSegment) -> dict[str, int | None]:
        """See SegmentParts."""
        return {self._paths[None]: segment.size}

    def path(self, kind: IndexKind | None) -> str:
        """See SegmentParts."""
        return self._paths[kind]

    def log_size(self, position: int | None = None) -> int:  # noqa: ARG002  # needs no request
        """See SegmentParts."""
        return self._files.info(self._paths[None]).size

    def read_log(self, start: int, end: int) -> bytes:
        """See SegmentParts."""
        with self._files.open(self._paths[None]) as file:
            return file.read_exactly(start, end - start)

    def index(self, kind: IndexKind) -> bytes | None:
        """See SegmentParts."""
        if kind is IndexKind.LEADER_EPOCH:
            return encode_leader_epochs(self._epochs)
        path = self._paths[kind]
        return self._files.read(path, MAX_INDEX_SIZE) if self._files.exists(path) else None

    def described(self) -> None:
        """See SegmentParts."""
        return


class Candidate(NamedTuple):
    """A segment to be copied."""

    segment: RemoteSegment
    parts: LocalSegmentParts


def candidates(files: ReadOnlyFiles, log: TieredLog, high_watermark: int | None, broker_id: int, now: int) -> list[Candidate]:
    """Return the segments that the leader's next copy task would copy (candidateLogSegments).

    high_watermark  from a checkpoint; None: the log end
    now             in ms
    """
    stable = log.view.fetch_last_stable_offset_metadata().message_offset
    stable = stable if high_watermark is None else min(stable, high_watermark)
    first = max(log.highest_remote_offset + 1, log.log_start_offset)
    segments = list(log.view.segments)
    found = []
    for one, following in pairwise(segments):
        if following.base_offset <= first or following.base_offset > stable:
            continue
        end = following.base_offset
        before = [entry for entry in log.lineage.entries if entry.start_offset < end]
        at_start = [(entry.epoch, one.base_offset) for entry in before if entry.start_offset <= one.base_offset][-1:]
        within = [(entry.epoch, entry.start_offset) for entry in before if entry.start_offset > one.base_offset]
        parts = LocalSegmentParts(files, log.directory, one.base_offset, end, before)
        segment = RemoteSegment(
            random_id(), State.COPY_SEGMENT_STARTED, one.base_offset, end - 1, one.size, one.largest_timestamp, broker_id,
            now, not parts.index(IndexKind.TRANSACTION), (*at_start, *within), None,
        )  # fmt: skip
        found.append(Candidate(segment, parts))
    return found


class Upload:
    """Uploads the candidates of all partitions in a session's log dirs.

    topics  names or patterns; empty: all
    report  receives damage in logs of __remote_log_metadata
    """

    def __init__(
        self, store: WritableStore, layout: Layout, topics: Sequence[str], report: Callable[[Finding], None], *, dry_run: bool
    ) -> None:  # fmt: skip
        self._store, self._layout, self._topics, self._report, self._dry_run = store, layout, topics, report, dry_run

    def work(self, session: Session) -> Iterator[Report]:
        """Upload partition by partition → their reports. Raises UsageError, UnreadableFile."""
        for log_dir in session.log_dirs:
            _refuse_unclean(session.dirs.disk, log_dir)
        self._layout.refuse_new()
        logs = MetadataLogs(session.dirs.disk, [one.path for one in session.log_dirs], self._report)
        metadata, cluster = logs.read(), session.manager.cluster
        topic = None if cluster.metadata is None else cluster.metadata.by_name(REMOTE_LOG_METADATA_TOPIC)
        count = max(logs.directories) + 1 if topic is None else len(topic.replicas)
        for log_dir in session.log_dirs:
            for replica in log_dir.partitions():
                if not is_chosen_topic(replica.name.topic, self._topics) or is_never_tiered(replica.name.topic):
                    continue
                tiering = session.manager.tiering(replica.name.topic)
                if tiering is Tiering.UNTIERED:
                    continue
                report = Report(replica.path, _COMMAND)
                config = session.manager.config(replica.name.topic)
                view = PartitionView(session.dirs.disk, replica.path, self._report, config=config)
                try:
                    log = TieredLog(session.dirs.disk, view, config, tiering, metadata)
                    if log.is_tiered and not config.remote_log_copy_disable:
                        yield from self._upload(session, log, replica, logs, count, report)
                except KafkalogError as error:
                    report.failure = error
                    yield report
                finally:
                    view.close()

    def _upload(
        self, session: Session, log: TieredLog, replica: PartitionPath, logs: MetadataLogs, count: int, report: Report
    ) -> Iterator[Report]:
        node_id, mark = session.manager.cluster.node_id, session.manager.high_watermark(replica)
        due = candidates(session.dirs.disk, log, mark, -1 if node_id is None else node_id, session.options.now)
        if not due:
            return
        if log.topic_id is None:
            raise NotUploaded(f"{replica.path}: it has no partition.metadata with the topic's id", path=replica.path)
        key = key_of(log.topic_id, log.partition)
        number = metadata_partition_of(key, count)
        if number not in logs.directories:
            records = f"{REMOTE_LOG_METADATA_TOPIC}-{number}"
            what = f"{replica.path}: its records belong to {records}, which is in none of the log dirs"
            raise NotUploaded(what, "name a log dir that has it, or a copy of it", path=replica.path)
        partition = PartitionMetadata(log.topic, key, number)
        for one in due:
            self._check(one)
        pairs = [records_of(one.segment, log.topic, key) for one in due]
        directory = logs.directories[number]
        for begun in append_records(session, _COMMAND, {directory: [encode_record(started) for started, _ in pairs]}):
            yield begun
            if begun.failure is not None:
                return
        done: list[bytes] = []
        try:
            for one, (_, finished) in zip(due, pairs, strict=True):
                for put, size, parts in self._layout.objects(partition, one.segment, one.parts):
                    if not self._dry_run:
                        self._store.put(put, size, parts)
                done.append(encode_record(finished))
                offsets = (one.segment.start_offset, one.segment.end_offset + 1)
                name, why = log_file_name(one.segment.start_offset), f"copied to the store as {one.segment.name}"
                report.add(Action.CREATED, name, why, offsets=offsets, size=one.segment.size)
        except KafkalogError as error:
            report.failure = error
        yield report
        if done:
            yield from append_records(session, _COMMAND, {directory: done})

    def _check(self, one: Candidate) -> None:
        """Read and check a whole segment. Raises NotUploaded if it is damaged or lacks a file."""
        found: list[Finding] = []
        DeepCheck(found.append).check(one.parts, one.segment)
        needed = (IndexKind.OFFSET, IndexKind.TIMESTAMP, IndexKind.PRODUCER_SNAPSHOT)
        lacks = [kind for kind in needed if one.parts.index(kind) is None]
        if found or lacks:
            what = f"{found[0].where.file}: {found[0].what}" if found else f"{one.parts.path(lacks[0])}: the file is missing"
            raise NotUploaded(f"{what}; a broker would copy it", "kafkalog recover --full    # on the partition, then again")


def _refuse_unclean(files: ReadOnlyFiles, log_dir: LogDir) -> None:
    """Raise UsageError for a log dir without a clean shutdown: recovery may change its log ends and indexes."""
    path = f"{log_dir.path.rstrip('/')}/{FileKind.CLEAN_SHUTDOWN.value}"
    if not files.exists(path):
        what = f"{log_dir.path}: its broker was not stopped cleanly: recovery may still truncate its logs"
        raise UsageError(what, f"kafkalog recover --mark-clean {argument(log_dir.path)}", path=log_dir.path)

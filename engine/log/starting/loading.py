"""Load logs as a start does, in memory: which are recovered, truncated, deleted, and the error at which a broker stops."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from engine.amounts import count_of, offsets_text
from engine.checkpoint.checkpoints import MalformedCheckpoint
from engine.discovery.names import METADATA_TOPIC, FileKind, PartitionKind, file_name, log_file_name, offset_of
from engine.errors import KafkalogError, UnreadableFile
from engine.files import nameless_file
from engine.findings import Finding, Severity, Where
from engine.log.append_errors import AppendRefused
from engine.log.continuity.missing_segments import start_beyond_end
from engine.log.loading.loader import BROKER_STOPS
from engine.log.loading.shared import LoadOptions
from engine.log.logdir.log_manager import misnamed_logs
from engine.log.logdir.start_problems import Effect, StartProblem
from engine.log.report import Action, Report
from engine.log.starting.outcome import LoadedLog, StartAction
from engine.overlay import OverlayFiles
from engine.overlay.tree import Spill

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.log.logdir.log_dirs import PartitionPath
    from engine.log.logdir.log_manager import LogManager
    from engine.log.report import Event

OPERATION = "start"
_WORDS = {
    Action.RECOVERED: "recover", Action.TRUNCATED: "truncate", Action.REMOVED: "delete", Action.MARKED: "delete",
    Action.CREATED: "create-empty", Action.RENAMED: "rewrite", Action.SPLIT: "rewrite",
}
_INDEXES = (FileKind.OFFSET_INDEX.value, FileKind.TIME_INDEX.value, FileKind.TRANSACTION_INDEX.value)
_CLAIMS = (
    (FileKind.REPLICATION_CHECKPOINT, "high watermark"), (FileKind.RECOVERY_POINT_CHECKPOINT, "recovery point"),
)  # fmt: skip
_SNAPSHOT = FileKind.PRODUCER_SNAPSHOT.value


def load_log(manager: LogManager, partition: PartitionPath, *, is_clean: bool) -> LoadedLog:
    """Load the log at `partition` as a broker does, and forget all changes. An error of the broker becomes `report.failure`.

    is_clean  its log dir has a clean shutdown marker. The metadata log is always recovered
    Raises OutOfMemory and other errors that say nothing about the log.
    """
    report = Report(partition.path, OPERATION)
    is_recovered = not is_clean or partition.name.topic == METADATA_TOPIC
    with closing(Spill(nameless_file)) as spill:
        overlay = OverlayFiles(manager.files_of(partition.log_dir), manager.now, spill)
        try:
            log = manager.load(partition, report, LoadOptions(repairs=False), clean_start=is_clean, files=overlay)
        except (*BROKER_STOPS, MalformedCheckpoint, UnreadableFile) as error:
            report.failure = error
            return LoadedLog(partition.path, None, None, 0, is_recovered, report)
        found = LoadedLog(partition.path, log.log_start_offset, log.log_end_offset, len(log.segments), is_recovered, report)
        log.close_handlers()
    return found


def problem_of(partition: PartitionPath, failure: KafkalogError, *, is_metadata_dir: bool) -> StartProblem:
    """The problem for a start of a log that cannot be loaded. An exception that is not of I/O ends the start."""
    if isinstance(failure, BROKER_STOPS):
        effect, says = Effect.STOPS, failure.broker_says or str(failure)
    else:
        effect = Effect.STOPS if is_metadata_dir else Effect.OFFLINE
        says = f"Error while loading log dir {partition.log_dir}"
    do = failure.do if not isinstance(failure, AppendRefused) else None
    return StartProblem(effect, partition.log_dir, f"{file_name(partition.path)}/", says, str(failure), None, do)


def actions_of(log: LoadedLog) -> Iterator[StartAction]:
    """What loading the log does to its files, in order. Outdated producer snapshots and caches are left out."""
    for event in log.report.events:
        if event.path.endswith(_SNAPSHOT) or event.action not in (*_WORDS, Action.REBUILT):
            continue
        word = _WORDS.get(event.action) or _rebuilt(event.path)
        path = f"{log.path}/{event.path}" if event.path else log.path
        to = None if event.to is None else f"{log.path}/{event.to}"
        yield StartAction(word, path, to, event.first_offset, event.end_offset, event.size, _says(log, event))


def _rebuilt(name: str) -> str:
    """What rebuilding a file is called. A segment without an offset index is recovered, which makes all its indexes."""
    return "recover" if name.endswith(FileKind.LOG.value) else "rebuild-index" if name.endswith(_INDEXES) else "rewrite"


def _says(log: LoadedLog, event: Event) -> str | None:
    base = offset_of(event.path) if event.path else None
    if event.action is Action.TRUNCATED and base is not None:
        end = event.first_offset if event.first_offset is not None else log.log_end_offset
        return f"Corruption found in segment {base}, truncating to offset {end}"
    if event.action is Action.RECOVERED and base is not None:
        return f"Recovering unflushed segment {base}."
    return None


def findings_of(manager: LogManager, partition: PartitionPath, log: LoadedLog) -> Iterator[Finding]:
    """Problems of a log that a start finds, or makes worse. Raises UnreadableFile."""
    start = manager.offsets(partition.log_dir, FileKind.LOG_START_CHECKPOINT).get(partition.key, 0)
    files = manager.files_of(partition.log_dir)
    is_deleted = partition.name.kind is PartitionKind.DELETE
    beyond = start_beyond_end(files, partition.path, start) if start > 0 and not is_deleted else None
    if beyond is not None:
        first, end, size = beyond
        what = (f"the log of {partition.path} has log start offset {start}, after the log end {end}: a broker deletes the "
                f"whole log, {offsets_text(first, end)}, {count_of(size, 'byte')}; it says: Deleting all segments because "
                f"logEndOffset ({end}) is smaller than logStartOffset {start}.")
        checkpoint = f"{partition.log_dir}/{FileKind.LOG_START_CHECKPOINT.value}"
        yield Finding("start-beyond-end", Where(checkpoint, None, start), what)
        return
    for event in log.report.events:
        where = Where(f"{partition.path}/{event.path}" if event.path else partition.path, None, event.first_offset)
        if event.action is Action.TRUNCATED and event.severity is Severity.ERROR:
            yield Finding("start-truncates", where, f"a broker truncates {_bytes(event)} {event.reason}")
        elif event.action is Action.REMOVED and event.severity is Severity.ERROR:
            yield Finding("start-truncates", where, f"a broker deletes {_bytes(event)} {event.reason}")
        elif event.action is Action.KEPT and event.severity is not Severity.INFO and event.path.endswith(FileKind.LOG.value):
            yield Finding("torn-tail", where, event.reason)
        elif event.action is Action.MISSING:
            yield Finding("offset-gap", where, event.reason)
    for name, base in misnamed_logs(files.plain(partition.path)):
        what = f"not a file name of a broker, which begins an empty segment at offset {base}: not read"
        yield Finding("name-invalid", Where(f"{partition.path}/{name}"), what)
    if log.log_end_offset is not None and partition.name.kind in (PartitionKind.PLAIN, PartitionKind.FUTURE):
        yield from _beyond(manager, partition, log.log_end_offset)


def _bytes(event: Event) -> str:
    return count_of(event.size or 0, "byte")


def _beyond(manager: LogManager, partition: PartitionPath, end: int) -> Iterator[Finding]:
    """Checkpoints with an offset after the log end: a broker lowers them without a message."""
    for kind, name in _CLAIMS:
        offset = manager.offsets(partition.log_dir, kind).get(partition.key, 0)
        if offset > end and partition.name.topic != METADATA_TOPIC:
            what = f"{file_name(partition.path)} has {name} {offset}, and its log ends at {end}"
            yield Finding("checkpoint-beyond-log", Where(f"{partition.log_dir}/{kind.value}", None, offset), what)
            return


def fully_truncated(log: LoadedLog, snapshot_end: int) -> StartAction | None:
    """The deletion of a metadata log that ends before the newest snapshot. Mirrors KafkaRaftLog.truncateToLatestSnapshot."""
    if log.log_end_offset is None or log.log_end_offset >= snapshot_end:
        return None
    path = f"{log.path}/{log_file_name(log.log_start_offset or 0)}"
    says = "Deleting segments as part of log truncation"
    return StartAction("delete", path, None, log.log_start_offset, log.log_end_offset, None, says)

"""The metadata logs in PATHS, and up to which offset the controllers have certainly committed.

The module stands alone: engine.image does not know log dirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.checkpoint.identity import decode_quorum_state, read_identity
from engine.discovery.names import METADATA_TOPIC, FileKind, PartitionKind, file_name, parent_of, parse_file_name
from engine.errors import UsageError
from engine.image.records import MetadataLog
from engine.image.replay import snapshot_of
from engine.log.logdir.log_dirs import find_log_dirs
from engine.log.logdir.startup import cluster_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from engine.files import ReadOnlyFiles
    from engine.findings import Finding
    from engine.image.replay import ImageAt

_NOTHING: frozenset[int] = frozenset()  # types of records: none is decoded


def metadata_logs(files: ReadOnlyFiles, paths: Iterable[str], report: Callable[[Finding], None]) -> list[str]:
    """Return the directories __cluster_metadata-0 in log dirs and trees of them, each once. `report`: see find_log_dirs.

    Raises UsageError if there is none, or if they belong to several clusters, UnreadableFile.
    """
    named = list(paths)
    found = [partition.path for log_dir in find_log_dirs(files, named, report) for partition in log_dir.directories
             if partition.name.topic == METADATA_TOPIC and partition.name.kind is PartitionKind.PLAIN]  # fmt: skip
    found = [path for path in found if any(_is_of_metadata(name) for name in files.plain(path))]
    if not found:
        do = "name the log dir with __cluster_metadata-0: metadata.log.dir in server.properties, else the first of log.dirs"
        raise UsageError(f"no metadata log in {', '.join(named)}", do)
    clusters = {cluster: path for path in reversed(found) if (cluster := cluster_id(files, parent_of(path))) is not None}
    if len(clusters) > 1:
        (one, path), (other, second) = sorted(clusters.items(), key=lambda item: found.index(item[1]))[:2]
        what = f"metadata logs of several clusters: {path} belongs to {one}, {second} to {other}"
        raise UsageError(what, "name the log dirs of one cluster")
    return found


def _is_of_metadata(name: str) -> bool:
    """Is it a segment or a snapshot of a metadata log?"""
    parsed = parse_file_name(name)
    return parsed is not None and not parsed.suffix and parsed.kind in (FileKind.LOG, FileKind.KRAFT_SNAPSHOT)


def is_file_of_metadata(files: ReadOnlyFiles, path: str) -> bool:
    """Is it a snapshot, a bootstrap.checkpoint or a segment, not a directory?"""
    is_known = snapshot_of(path) is not None or _is_of_metadata(file_name(path))
    return is_known and file_name(path) in files.plain(parent_of(path))


def committed_before(files: ReadOnlyFiles, state: ImageAt, directories: Sequence[str]) -> int:
    """The offset before which all records of `state` are committed for certain, by the logs of controllers in `directories`.

    A quorum of one commits at once. A snapshot has committed records only. Records that a majority of the voters has in the
    latest epoch are committed. Raises UnreadableFile.
    """
    voters = _voters(files, state)
    if voters is None:
        return 0 if state.snapshot is None else min(state.snapshot.end_offset, state.end_offset)
    logs = [MetadataLog(files, directory, _unsaid, _NOTHING) for directory in directories]
    newest = max([0, *(one.end_offset for log in logs for one in log.snapshots)])
    majority = voters // 2 + 1
    if len(logs) >= majority:
        for log in logs:
            for _ in log.records():
                pass
        ends = sorted((log.end_offset for log in logs if log.last_epoch == state.epoch), reverse=True)
        newest = max([newest, *ends[majority - 1 : majority]])
    return min(newest, state.end_offset)


def _voters(files: ReadOnlyFiles, state: ImageAt) -> int | None:
    """The number of voters, by the metadata or, for a static quorum, by quorum-state; None: not known."""
    if state.image.voters is not None:
        return len(state.image.voters)
    path = f"{state.source}/{FileKind.QUORUM_STATE.value}"
    decoded = read_identity(files, path, decode_quorum_state) if files.exists(path) else None
    known = None if decoded is None or decoded.value is None else decoded.value.current_voters
    return len(known) if known else None


def _unsaid(_finding: Finding) -> None:
    """Ignore a finding: reading the image reports it."""

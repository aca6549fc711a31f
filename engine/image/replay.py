"""The image at an offset of a metadata log: the newest snapshot before it, then the records of the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.discovery.names import FileKind, file_name, parse_file_name
from engine.errors import KafkalogError, UsageError
from engine.findings import Finding, Where
from engine.image.image import Image, ReplayError
from engine.image.records import MetadataLog, Order, SnapshotFile, committed, read_metadata_records

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from engine.files import ReadOnlyFiles
    from engine.image.records import MetadataRecord


class NotReplayable(KafkalogError):
    """Records of a metadata log, or the snapshot that it continues, are missing or damaged: a command ends with status 4."""

    code = "metadata-not-replayable"
    exit_status = 4


class ImageAt(NamedTuple):
    """An image after all records before `end_offset`.

    source    the metadata log, or the snapshot that it was read from
    snapshot  with which the replay began; None: with an empty image at offset 0
    epoch, time_ms   of the last record; −1: there is none, None: it is not known
    """

    image: Image
    source: str
    snapshot: SnapshotFile | None
    end_offset: int
    epoch: int
    time_ms: int | None


def apply_all(image: Image, records: Iterable[MetadataRecord], report: Callable[[Finding], None]) -> MetadataRecord | None:
    """Apply records to `image`; one that does not fit is reported, and changes nothing. Returns the last record."""
    last = None
    for last in committed(records, report):
        apply(image, last, report)
    return last


def apply(image: Image, record: MetadataRecord, report: Callable[[Finding], None]) -> None:
    """Apply one record, or report that it does not fit."""
    try:
        image.apply(record)
    except ReplayError as error:
        report(Finding("metadata-record-invalid", record.where, str(error)))


def snapshot_of(path: str) -> SnapshotFile | None:
    """A snapshot, or bootstrap.checkpoint, by its name; None: it is another file."""
    parsed = parse_file_name(file_name(path))
    if parsed is None or parsed.suffix or parsed.kind not in (FileKind.KRAFT_SNAPSHOT, FileKind.BOOTSTRAP_CHECKPOINT):
        return None
    return SnapshotFile(parsed.base_offset or 0, parsed.epoch or 0, path)


def read_snapshot(
    files: ReadOnlyFiles, snapshot: SnapshotFile, report: Callable[[Finding], None], types: Container[int] | None = None
) -> Image | None:
    """The image in a snapshot; None: it is damaged, which is reported. `types` as for MetadataLog. Raises UnreadableFile."""
    found: list[Finding] = []
    image, last = Image(), None
    for last in read_metadata_records(files, snapshot.path, found.append, types, Order(0, snapshot.epoch)):
        apply(image, last, found.append)
    if not found and (last is None or last.type != "SNAPSHOT_FOOTER"):
        place = Where(snapshot.path) if last is None else last.where
        found.append(Finding("metadata-snapshot-incomplete", place, "the last record is not the footer of a snapshot"))
    for finding in found:
        report(finding)
    return None if found else image


def image_at(
    files: ReadOnlyFiles, source: str, report: Callable[[Finding], None], at: int | None = None, *, from_oldest: bool = False
) -> ImageAt:
    """The image of a metadata log after all records before the offset `at`; None: all. Of a snapshot: its image.

    source       __cluster_metadata-0, a snapshot, or a bootstrap.checkpoint
    report       called with damage: the image ends there, or begins with an older snapshot
    from_oldest  replay as much of the log as possible, so that `deleted` of the image has all topics that the log shows
    Raises UsageError if the records for that offset are not there, NotReplayable, UnreadableFile.
    """
    alone = snapshot_of(source)
    if alone is not None:
        image = read_snapshot(files, alone, report)
        if image is None:
            raise NotReplayable(f"{source} is damaged", "name the metadata log: it may have an older snapshot and the records")
        return ImageAt(image, source, alone, alone.end_offset, alone.epoch, None)
    log = MetadataLog(files, source, report)
    base = _base(files, log, report, at, from_oldest=from_oldest)
    image, snapshot = base if base is not None else (Image(), None)
    start = 0 if snapshot is None else snapshot.end_offset
    last = None
    if log.logs and log.logs[0][0] > start:
        if snapshot is None or (at is not None and at > start):
            raise _no_state(log, source, at)
        report(Finding("metadata-gap", Where(log.logs[0][1], 0, log.logs[0][0]), f"the newest sound snapshot ends at {start}"))
    else:
        last = apply_all(image, log.records(start, at), report)
    end = max(start, log.end_offset)
    if at is not None and end < at:
        raise UsageError(f"{source} ends at offset {end}, before {at}", "choose a lower offset")
    return ImageAt(image, source, snapshot, end, _epoch(log, snapshot), None if last is None else last.time_ms)


def _no_state(log: MetadataLog, source: str, at: int | None) -> KafkalogError:
    """The error for a log that begins after the newest sound snapshot before the offset `at`, or has none."""
    begin = log.logs[0][0]
    later = next((one.end_offset for one in log.snapshots if at is not None and one.end_offset >= max(at, begin)), None)
    if later is not None:  # as in every log whose older records were removed
        what = f"{source}: the log begins at offset {begin}: the state before offset {at} cannot be replayed"
        return UsageError(what, f"choose offset {later} or a later one, or read a copy of another controller")
    what = f"{source}: the log begins at offset {begin}, and no sound snapshot joins it: it cannot be replayed"
    return NotReplayable(what, "read a copy of another controller; kafkalog metadata verify lists the snapshots")


def _epoch(log: MetadataLog, snapshot: SnapshotFile | None) -> int:
    if log.end_offset:
        return log.last_epoch
    return -1 if snapshot is None else snapshot.epoch


def _base(
    files: ReadOnlyFiles, log: MetadataLog, report: Callable[[Finding], None], at: int | None, *, from_oldest: bool
) -> tuple[Image, SnapshotFile] | None:
    """The image of the newest sound snapshot up to `at`, or of the oldest that joins the log."""
    begin = log.logs[0][0] if log.logs else 0
    chosen = [one for one in log.snapshots if at is None or one.end_offset <= at]
    for snapshot in [one for one in chosen if one.end_offset >= begin] if from_oldest else reversed(chosen):
        image = read_snapshot(files, snapshot, report)
        if image is not None:
            return image, snapshot
    return None

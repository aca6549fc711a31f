"""Read the rows of a split for each level: records, batches, segments, index entries, findings.

Levels `records` and `batches` read the offsets that the options select. The other levels read whole directories, including all
replicas.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from engine.arrow.batches import BatchBuilder
from engine.arrow.columns import micros
from engine.arrow.heads import head_batches
from engine.arrow.rows import rows_as_batches
from engine.discovery.names import FileKind, parse_file_name
from engine.errors import KafkalogError, UnreadableFile
from engine.findings import Finding, Where
from engine.formats import LONG_MAX
from engine.log.errors import CorruptRecord
from engine.log.fetch.records import FetchColumns, FetchLimits, RecordFetcher
from engine.log.fetch.view import KnownEnd
from engine.log.finding_limits import FindingLimiter
from engine.log.verify.partition import verify_partition
from engine.record.selection import EVERYTHING, Selection
from kafkalog_spark.errors import (
    CORRUPTION_ADVICE,
    PREFIX,
    DataLossError,
    LogDirError,
    UnreadableLogError,
    escaped,
    failed,
    on_corruption,
)
from kafkalog_spark.table.options import Bounds
from kafkalog_spark.table.partitions import OpenPaths, Piece, forget_paths, log_size, paths_in_task, topic_and_partition
from kafkalog_spark.table.planning import check_names, leave_out, pack, plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from engine.files import ReadOnlyFiles
    from engine.log.fetch.records import Run
    from engine.log.fetch.view import PartitionView
    from kafkalog_spark.table.options import ReadOptions
    from kafkalog_spark.table.planning import Spread

_LOG = logging.getLogger("kafkalog")
EVERY_ROW = Bounds()


def plan_level(options: ReadOptions, bounds: Bounds, spread: Spread | None = None) -> list[list[Piece]]:
    """Return the splits of a query. Raises OptionError, LogDirError, DataLossError. spread: see `plan`."""
    if options.level in ("records", "batches"):
        return plan(options, bounds, spread)
    paths = OpenPaths(options)
    pieces = directories(options, paths, bounds)
    if options.level == "findings":
        pieces = with_policies(paths, pieces)
    return pack([[piece] for piece in pieces], options.split_bytes, options.min_partitions)


def with_policies(paths: OpenPaths, pieces: list[Piece]) -> list[Piece]:
    """Return the pieces with the policies of their topics; unchanged if a metadata log cannot be read. Raises LogDirError."""
    try:
        return [piece._replace(policy=paths.topics.policy(piece.directory)) for piece in pieces]
    except UnreadableFile as error:
        _LOG.warning("%s: which gaps are losses is judged without the settings of topics", error)
        return pieces
    except KafkalogError as error:
        raise failed(error) from None


def directories(options: ReadOptions, paths: OpenPaths, bounds: Bounds) -> list[Piece]:
    """Return every partition directory as a piece, including replicas. Raises OptionError, LogDirError."""
    found = ((partition.path, topic_and_partition(partition)) for partition in paths.partition_dirs())
    asked = [(path, key) for path, key in found if options.wants(*key)]
    check_names(options, {key for _, key in asked})
    if options.level == "findings":
        asked += [(path, ("", -1)) for path in paths.skipped]
    wanted = [(path, key) for path, key in asked if bounds.wants(*key)]
    sizes = paths.together(lambda one: log_size(paths.files, one[0]), wanted)
    return [Piece(path, *key, 0, LONG_MAX, size) for (path, key), size in zip(wanted, sizes, strict=True)]


@dataclass(slots=True)
class ReadCounts:
    """What the tasks of a query have read.

    bytes_read       of batches
    batches_skipped  by their headers, no record of them passes the filters by time
    """

    bytes_read: int = 0
    batches_skipped: int = 0


@dataclass(slots=True)
class Reading:
    """How the pieces of a split are read: only the records of `selection`; `columns` are reused; `counts` are added to."""

    selection: Selection = EVERYTHING
    columns: FetchColumns = field(default_factory=FetchColumns)
    counts: ReadCounts = field(default_factory=ReadCounts)


def log_counts(counts: ReadCounts) -> None:
    """Log what a task has read."""
    _LOG.info("%d bytes read, %d batches skipped by filters", counts.bytes_read, counts.batches_skipped)


def read_level(
    pieces: Iterable[Piece], schema: pa.Schema, options: ReadOptions, bounds: Bounds = EVERY_ROW,
    counted: Callable[[ReadCounts], None] = log_counts,
) -> Iterator[pa.RecordBatch]:
    """Read the rows of a split. Raises LogDirError; DataLossError for records and batches that were deleted after planning.

    bounds   of the records; other levels have only those of planning
    counted  receives what was read at the end
    """
    how = Reading(bounds.selection)
    try:
        for piece in pieces:
            try:
                yield from _rows(piece, schema, options, how)
            except UnreadableFile as error:
                leave_out(options, UnreadableLogError(str(failed(error)).removeprefix(PREFIX)))
            except UnreadableLogError as error:
                leave_out(options, error)
        if options.level == "records":
            counted(how.counts)
    except KafkalogError as error:
        forget_paths()
        raise failed(error) from None
    except (DataLossError, LogDirError):
        forget_paths()
        raise


def _rows(piece: Piece, schema: pa.Schema, options: ReadOptions, how: Reading) -> Iterator[pa.RecordBatch]:
    paths = paths_in_task(options)
    if options.level == "records":
        builder = BatchBuilder(schema.names, piece.topic, piece.partition, escaped(piece.directory))
        yield from builder.batches(_runs(paths, piece, options, how))
    elif options.level == "batches":
        yield from _heads(paths, piece, schema, options)
    else:
        yield from rows_as_batches(_READERS[options.level](paths, piece), schema)


def _heads(paths: OpenPaths, piece: Piece, schema: pa.Schema, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    view = open_piece(paths, piece, options)
    if view is None:
        return
    try:
        report, _ = on_corruption(options.on_corruption)
        plain = pa.schema([field.with_nullable(True) for field in schema])
        start, limit = first_existing_offset(view, piece, options), options.max_decompressed_bytes
        yield from head_batches(view, plain, _named(piece), start, piece.end, report, limit=limit)
    finally:
        view.close()


def _named(piece: Piece) -> dict[str, Any]:
    return {"topic": piece.topic, "partition": piece.partition, "directory": escaped(piece.directory)}


def finding_row(piece: Piece, finding: Finding) -> dict[str, Any]:
    """Return a finding as a row of level findings."""
    return _named(piece) | {
        "file": finding.where.file, "position": finding.where.position, "offset": finding.where.offset, "code": finding.code,
        "severity": finding.severity.value, "what": finding.what, "why": finding.kind.why,
        "do": finding.do,
    }  # fmt: skip


def limited_findings(piece: Piece, work: Callable[[Callable[[Finding], None]], object]) -> Iterator[dict[str, Any]]:
    """Yield the findings that `work` reports as rows; see FindingLimiter for many findings of one kind."""
    found: list[Finding] = []
    limiter = FindingLimiter(found.append)
    work(limiter)
    limiter.finish()
    yield from (finding_row(piece, finding) for finding in found)


def _findings(paths: OpenPaths, piece: Piece) -> Iterator[dict[str, Any]]:
    return limited_findings(piece, partial(check_directory, paths.files, piece))


def check_directory(files: ReadOnlyFiles, piece: Piece, report: Callable[[Finding], None]) -> bool:
    """Verify one copy of a partition. A file that cannot be read is a finding; returns whether all could be read."""
    try:
        verify_partition(files, piece.directory, report, policy=lambda: piece.policy)
    except KafkalogError as error:
        report_unreadable(piece, error, report)
        return False
    return True


def report_unreadable(piece: Piece, error: KafkalogError, report: Callable[[Finding], None]) -> None:
    """Report a file of a partition that cannot be read."""
    path = error.path or piece.directory
    report(Finding("path-unreadable", Where(path), str(error).removeprefix(f"{path}: ")))  # a finding prints its path anyway


def _segments(paths: OpenPaths, piece: Piece) -> Iterator[dict[str, Any]]:
    view = paths.view(piece.directory)
    try:
        for segment in view.segments:
            info, largest = view.files.info(segment.log_path), segment.largest_record_timestamp
            yield _named(piece) | {
                "segment": segment.log_path.rpartition("/")[2], "baseOffset": segment.base_offset, "sizeInBytes": info.size,
                "offsetIndexEntries": len(segment.offset_index), "timeIndexEntries": len(segment.time_index),
                "abortedTransactions": len(segment.txn_index), "largestTimestamp": None if largest is None else micros(largest),
                "modified": micros(info.modified_ms),
            }  # fmt: skip
    finally:
        view.close()


def _indexes(paths: OpenPaths, piece: Piece) -> Iterator[dict[str, Any]]:
    from engine.index.sparse import OffsetIndex, TimeIndex
    from engine.index.transaction import TransactionIndex

    files = paths.files
    for name in files.list(piece.directory):
        parsed = parse_file_name(name)
        if parsed is None or parsed.base_offset is None or parsed.suffix:
            continue
        path, base = f"{piece.directory}/{name}", parsed.base_offset
        row = _named(piece) | {"file": name}
        if parsed.kind is FileKind.OFFSET_INDEX:
            for number, entry in enumerate(OffsetIndex.read(files, path, base)):
                yield row | {"kind": "offset", "entry": number, "offset": entry.offset, "position": entry.position}
        elif parsed.kind is FileKind.TIME_INDEX:
            for number, at in enumerate(TimeIndex.read(files, path, base)):
                yield row | {"kind": "time", "entry": number, "offset": at.offset, "timestamp": micros(at.timestamp)}
        elif parsed.kind is FileKind.TRANSACTION_INDEX:
            for number, txn in enumerate(TransactionIndex.read(files, path, base)):
                yield row | {
                    "kind": "transaction", "entry": number, "producerId": txn.producer_id, "firstOffset": txn.first_offset,
                    "lastOffset": txn.last_offset, "lastStableOffset": txn.last_stable_offset,
                }  # fmt: skip


_READERS = {"findings": _findings, "segments": _segments, "indexes": _indexes}


def _runs(paths: OpenPaths, piece: Piece, options: ReadOptions, how: Reading) -> Iterator[Run]:
    """Yield the records of a piece; if the query skips files that cannot be read, those after such a file too."""
    report, only_sound = on_corruption(options.on_corruption)
    limits = FetchLimits(end=piece.end, only_sound=only_sound, max_decompressed_bytes=options.max_decompressed_bytes)
    rest: Piece | None = piece
    fetcher: RecordFetcher | None = None
    while rest is not None and (view := open_piece(paths, rest, options)) is not None:
        view.left_out = piece.left_out
        try:
            start = first_existing_offset(view, piece, options) if rest is piece else max(rest.start, view.log_start_offset)
            rest = None
            if start < piece.end:
                fetcher = RecordFetcher(
                    view, start, options.isolation, report, limits, columns=how.columns, selection=how.selection
                )
                yield from fetcher.runs()
        except CorruptRecord as error:  # damage before the first record, if onCorruption is `fail`
            raise LogDirError(f"{error}; {CORRUPTION_ADVICE}") from None
        except UnreadableFile as error:
            if fetcher is None or not paths.skip_in(view, error):
                raise
            rest = piece._replace(start=fetcher.offset, log_end=None)
        finally:
            view.close()
            if fetcher is not None:
                how.counts.bytes_read += fetcher.bytes_read
                how.counts.batches_skipped += fetcher.batches_skipped
                fetcher = None


def open_piece(paths: OpenPaths, piece: Piece, options: ReadOptions) -> PartitionView | None:
    """Open the partition of a piece; None: it was deleted after planning, and failOnDataLoss is false. Raises LogDirError."""
    try:
        known = None if piece.log_end is None else KnownEnd(piece.log_end, piece.end)
        return paths.view(piece.directory, known)
    except LogDirError:
        if options.fail_on_data_loss or paths.files.exists(piece.directory):
            raise
        return None


def first_existing_offset(view: PartitionView, piece: Piece, options: ReadOptions) -> int:
    """Return the first offset of a piece that still exists. Raises DataLossError if an end was deleted after planning."""
    if options.fail_on_data_loss and view.log_end_offset < piece.end:
        what = f"{piece.topic}-{piece.partition}: offset {piece.end - 1} is due, and the log ends at {view.log_end_offset}."
        raise DataLossError(what)
    if piece.start >= view.log_start_offset:
        return piece.start
    if options.fail_on_data_loss:
        what = f"{piece.topic}-{piece.partition}: offset {piece.start} is due, and the log begins at {view.log_start_offset}."
        raise DataLossError(what)
    return view.log_start_offset

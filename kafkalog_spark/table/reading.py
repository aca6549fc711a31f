"""Splits → Arrow batches, on an executor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.arrow.batches import BatchBuilder
from engine.errors import KafkalogError
from engine.files import ReadOnlyFiles
from engine.log.errors import CorruptRecord
from engine.log.fetch.records import FetchColumns, FetchLimits, RecordFetcher
from kafkalog_spark.errors import GO_ON_BEHIND_DAMAGE, DataLossError, LogDirError, escaped
from kafkalog_spark.table.damage import on_corruption
from kafkalog_spark.table.partitions import open_view

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from engine.log.fetch.view import PartitionView
    from kafkalog_spark.table.options import ReadOptions
    from kafkalog_spark.table.planning import Piece

def read_split(pieces: Iterable[Piece], columns: Sequence[str], options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """The records of a split, piece by piece. Raises LogDirError, also for damage where onCorruption is `fail`.

    Raises DataLossError for what has gone since the pieces were planned, unless failOnDataLoss is false.
    """
    shared = FetchColumns()
    for piece in pieces:
        view = open_piece(piece, options, last_stable_offset=piece.end)
        if view is None:
            continue
        view.left_out = piece.left_out
        try:
            start = first_left(view, piece, options)
            if start >= piece.end:
                continue
            report, only_sound = on_corruption(options.on_corruption)
            fetcher = RecordFetcher(
                view, start, options.isolation, report, FetchLimits(
                    end=piece.end, only_sound=only_sound, max_decompressed_bytes=options.max_decompressed_bytes,
                ), columns=shared,
            )  # fmt: skip
            builder = BatchBuilder(columns, piece.topic, piece.partition, escaped(piece.directory))
            yield from builder.batches(fetcher.runs())
        except CorruptRecord as error:  # in the way of the first record, where onCorruption is `fail`
            raise LogDirError(f"{error}; {GO_ON_BEHIND_DAMAGE}") from None
        except KafkalogError as error:
            raise LogDirError(str(error)) from None
        finally:
            view.close()


def open_piece(piece: Piece, options: ReadOptions, **known: Any) -> PartitionView | None:
    """The partition of a piece; None: it has gone since it was planned, and may. Raises LogDirError."""
    try:
        return open_view(piece.directory, **known)
    except LogDirError:
        if options.fail_on_data_loss or ReadOnlyFiles().exists(piece.directory):
            raise
        return None


def first_left(view: PartitionView, piece: Piece, options: ReadOptions) -> int:
    """Where a piece begins, of which something may have gone since it was planned, at either end. Raises DataLossError."""
    if options.fail_on_data_loss and view.log_end_offset < piece.end:
        what = f"{piece.topic}-{piece.partition}: offset {piece.end - 1} is due, and the log ends at {view.log_end_offset}."
        raise DataLossError(what)
    if piece.start >= view.log_start_offset:
        return piece.start
    if options.fail_on_data_loss:
        what = f"{piece.topic}-{piece.partition}: offset {piece.start} is due, and the log begins at {view.log_start_offset}."
        raise DataLossError(what)
    return view.log_start_offset

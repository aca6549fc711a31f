"""Verify partitions in Spark tasks: checksums, indexes, snapshots, epochs, and replicas against each other.

It stands alone, as every job does.
"""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa

from engine.arrow.rows import rows_as_batches
from engine.config.server import Settings
from engine.errors import KafkalogError
from engine.log.fetch.replicas import best_replica, find_divergence
from kafkalog_spark.table.columns import FINDING_TYPES
from kafkalog_spark.table.levels import check_directory, directories, limited_findings, report_unreadable, with_policies
from kafkalog_spark.table.options import Bounds
from kafkalog_spark.table.partitions import OpenPaths, paths_in_task
from kafkalog_spark.table.planning import pack
from kafkalog_spark.tasks import options_of, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from engine.files import ReadOnlyFiles
    from engine.findings import Finding
    from kafkalog_spark.table.options import ReadOptions
    from kafkalog_spark.table.partitions import Piece
    from kafkalog_spark.tasks import OnPlan

SCHEMA = pa.schema(list(FINDING_TYPES.items()))


def verify(
    spark: SparkSession, *paths: str, config: Mapping[str, str] | None = None, on_plan: OnPlan | None = None,
    **options: object,
) -> DataFrame:  # fmt: skip
    """Verify the partitions below `paths`. Returns a row for each finding, with the columns of level findings.

    All replicas of a partition are compared with the copy that a leader would have.

    config   topic settings that override those of the metadata logs; they decide whether gaps are losses
    on_plan  receives the splits before they are verified
    Raises OptionError, LogDirError; a directory that cannot be read is a finding.
    """
    asked = options_of(paths, options)
    splits = splits_of(asked, config)
    if on_plan is not None:
        on_plan(splits)
    return run(spark, splits, SCHEMA, partial(check_split, asked))


def splits_of(asked: ReadOptions, config: Mapping[str, str] | None = None) -> list[list[Piece]]:
    """Return the splits; all replicas of a partition are in one split. Raises OptionError, LogDirError."""
    paths = OpenPaths(asked, Settings(overrides=tuple((config or {}).items())))
    found = with_policies(paths, directories(asked, paths, Bounds()))
    pieces = sorted(found, key=lambda piece: (piece.topic, piece.partition, piece.directory))
    groups = [list(group) for _, group in groupby(pieces, key=lambda piece: (piece.topic, piece.partition))]
    return pack(groups, asked.split_bytes, asked.min_partitions)


def check_split(asked: ReadOptions, pieces: list[Piece]) -> Iterator[pa.RecordBatch]:
    """Verify the partitions of a split. Yields rows of SCHEMA."""
    paths = paths_in_task(asked)

    def rows() -> Iterator[dict[str, object]]:
        for _, group in groupby(pieces, key=lambda piece: (piece.topic, piece.partition)):
            yield from _verify_replicas(paths.files, list(group))

    yield from rows_as_batches(rows(), SCHEMA)


def _verify_replicas(files: ReadOnlyFiles, replicas: list[Piece]) -> Iterator[dict[str, object]]:
    leading = best_replica(files, [piece.directory for piece in replicas])
    for piece in replicas:
        yield from limited_findings(piece, partial(_check, files, piece, leading))


def _check(files: ReadOnlyFiles, piece: Piece, leading: str, report: Callable[[Finding], None]) -> None:
    """Verify one copy, then compare it with the leading one. A file that cannot be read is a finding; the job continues."""
    if check_directory(files, piece, report) and piece.directory != leading:
        try:
            find_divergence(files, leading, piece.directory, report)
        except KafkalogError as error:
            report_unreadable(piece, error, report)

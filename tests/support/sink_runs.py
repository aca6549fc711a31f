"""Writing as the sink does, without Spark: rows by task, staged and committed over any seam."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from engine.arrow.staged import TaskWriter
from engine.log.commits import staging as jobs
from engine.log.commits.commit import CommitOptions, commit
from engine.log.fetch.reading import FetchIsolation
from engine.log.fetch.records import RecordFetcher
from engine.log.fetch.view import PartitionView
from engine.log.logdir.log_dirs import list_log_dir
from engine.log.verify.partition import verify_partition
from kafkalog_spark.sink.options import read_sink_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from engine.files import Files
    from engine.log.commits.staging import StagedPiece

NOW = 1_700_000_000_000
TYPES = {
    "key": pa.binary(), "value": pa.binary(), "topic": pa.string(), "partition": pa.int32(), "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "headers": pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])),
}  # fmt: skip


def batch(**columns: list) -> pa.RecordBatch:
    """An Arrow batch with columns of ours."""
    return pa.record_batch({name: pa.array(values, TYPES[name]) for name, values in columns.items()})


class SinkRun:
    """One job over `files` that writes to `root`."""

    def __init__(self, files: Files, root: str, name: str = "job", **options: str) -> None:
        self.files = files
        self.options = read_sink_options({"path": root, **{key.replace("__", "."): value for key, value in options.items()}})
        self.job = jobs.StagedJob(root, name)

    def stage(self, *tasks: Iterable[pa.RecordBatch]) -> list[StagedPiece]:
        """What the tasks write, each given its batches."""
        pieces = []
        jobs.make_directories(self.files, self.job.root)
        for number, batches in enumerate(map(list, tasks)):
            jobs.begin(self.files, self.job)
            name = f"{self.job.name}/{number}-{number + 70}"
            directory = f"{self.job.root}/{jobs.STAGING}/{name}"
            jobs.make_directories(self.files, directory)
            columns = tuple(batches[0].schema.names) if batches else ()
            writer = TaskWriter(self.files, directory, name, self.options, columns, number=number, clock=lambda: NOW)
            pieces += writer.write(batches)
        return pieces

    def commit(self, pieces: list[StagedPiece], *, overwrite: bool = False) -> None:
        """Publish."""
        topics = {piece.topic for piece in pieces} | ({self.options.topic} if self.options.topic else set())
        how = CommitOptions(self.options.settings, self.options.keep_offsets, frozenset(topics if overwrite else ()))
        with jobs.holding(self.files, self.job.root):
            commit(self.files, self.job, how, pieces, NOW)

    def write(self, *tasks: Iterable[pa.RecordBatch], overwrite: bool = False) -> None:
        """Both."""
        self.commit(self.stage(*tasks), overwrite=overwrite)


def read(files: Files, root: str, *fields: str) -> Mapping[str, list]:
    """Partition directory → its records, as (offset, value) or with the fields that are named. Nothing may be wrong."""
    found = {}
    for place in list_log_dir(files, root).partitions():
        wrong: list = []
        verify_partition(files, place.path, wrong.append)
        assert wrong == [], place.path
        view = PartitionView(files, place.path, wrong.append)
        rows = [
            tuple(getattr(record, name) for name in (fields or ("offset", "value")))
            for run in RecordFetcher(view, view.log_start_offset, FetchIsolation.LOG_END, wrong.append).runs()
            for record in run.records()
        ]
        view.close()
        assert wrong == [], place.path
        found[place.path.rpartition("/")[2]] = rows
    return found

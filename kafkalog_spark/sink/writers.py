"""The writers of the data source. Spark makes one on the driver, and pickles it to every task and to the committing process."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from engine.discovery.paths import STAGING, DirectoryKind, directory_kind, half_commit
from engine.errors import KafkalogError, LogDirLocked
from engine.files import Files, now_ms
from engine.log.logdir.log_dirs import refuse_other_owner
from kafkalog_spark.errors import LogDirError
from kafkalog_spark.sink import staging
from kafkalog_spark.sink.commit import commit
from kafkalog_spark.sink.options import check_columns, read_sink_options
from kafkalog_spark.sink.owners import heartbeat, this_owner
from kafkalog_spark.sink.tasks import StagedPiece, TaskWriter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.types import StructType


_KILL_WAIT = 4.0  # seconds until Spark has ended the tasks of a failed job (spark.python.task.killTimeout: 2)
_AGAIN = 0.2  # seconds between two checks
_COMMIT_WAIT = 3  # seconds that a job waits at its start for the commit of another job
_QUERY_ID = "sql.streaming.queryId"


@dataclass
class Written(WriterCommitMessage):
    """The commit message of a task: the pieces that it wrote; `query`: the id of its stream."""

    pieces: list[StagedPiece]
    query: str | None = None


class Sink:
    """The shared code of both writers. Has only plain values, since it is pickled."""

    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        self.options = read_sink_options(options)
        self.columns = check_columns(schema, self.options)
        files = Files()
        root = self.options.path
        self.job = staging.StagedJob(root, _job_name(options), this_owner())
        try:
            if files.exists(root) and not files.info(root).is_directory:
                raise LogDirError(f"{root}: a file; name the directory for the partition directories")
            if files.exists(root) and directory_kind(files.list(root)) is DirectoryKind.PARTITION:
                raise LogDirError(f"{root}: a partition directory; name the directory that contains such directories")
            _refuse_other_owner(files, root)
            staging.make_directories(files, root)
            _clear_leftovers(files, root)
        except KafkalogError as error:
            raise LogDirError(str(error)) from None

    def write(self, batches: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of a task, on an executor. Raises LogDirError."""
        context = TaskContext.get()
        number, attempt = (0, 0) if context is None else (context.partitionId(), context.taskAttemptId())
        files, name = Files(), f"{self.job.name}/{number}-{attempt}"
        directory = f"{self.job.root}/{STAGING}/{name}"
        try:
            _refuse_other_owner(files, self.job.root)
            staging.begin(files, self.job)
            with heartbeat(files, self.job.directory):
                staging.make_directories(files, directory)
                writer = TaskWriter(files, directory, name, self.options, self.columns, number=number, clock=now_ms)
                pieces = writer.write(batches)
        except KafkalogError as error:
            raise LogDirError(str(error)) from None
        return Written(pieces, None if context is None else context.getLocalProperty(_QUERY_ID))

    def publish(self, messages: list[WriterCommitMessage | None], *, overwrite: bool, batch: int | None = None) -> None:
        """Commit what the tasks wrote. Raises LogDirError; the directory is then unchanged."""
        written = [one for one in messages if isinstance(one, Written)]
        pieces = [piece for one in written for piece in one.pieces]
        query = next((one.query for one in written if one.query), None)
        if batch is not None and query is None:
            if pieces:
                what = "no task knows the id of its stream, which distinguishes the streams"
                raise LogDirError(f"{self.job.root}: batch {batch} is not written: {what}")
            self.discard(messages)  # no rows: there is nothing to write twice
            return
        stream = None if batch is None or query is None else (query, batch)
        files = Files()
        try:
            _refuse_other_owner(files, self.job.root)
            commit(files, self.job, self.options, pieces, now_ms(), overwrite=overwrite, stream=stream)
        except KafkalogError as error:
            raise LogDirError(str(error)) from None

    def discard(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what the tasks wrote, unless it was committed; undo an incomplete commit.

        messages  of the tasks; None: the task failed, and other tasks may still run and start to write only now
        """
        self._drop()
        until = time.monotonic() + (_KILL_WAIT if None in messages else 0)
        while time.monotonic() < until:
            time.sleep(_AGAIN)
            if Files().exists(self.job.directory):
                self._drop()

    def _drop(self) -> None:
        files = Files()
        try:
            _refuse_other_owner(files, self.job.root)
            with staging.holding(files, self.job.root, patience=staging.PATIENCE):
                staging.drop(files, self.job, now_ms())
        except KafkalogError as error:
            raise LogDirError(str(error)) from None


class KafkaLogWriter(DataSourceArrowWriter):
    """The writer of a table; `overwrite`: replace the written topics."""

    def __init__(self, options: dict[str, str], schema: StructType, *, overwrite: bool) -> None:
        self._sink, self._overwrite = Sink(options, schema), overwrite

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """See Sink."""
        return self._sink.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit what the tasks wrote."""
        self._sink.publish(messages, overwrite=self._overwrite)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what the tasks wrote."""
        self._sink.discard(messages)


def _refuse_other_owner(files: Files, root: str) -> None:
    """Raise NotAllowed if this process runs as root and the directory or a partition in it belongs to another user."""
    refuse_other_owner(files, [root, *staging.partitions(files, root)])


def _clear_leftovers(files: Files, root: str) -> None:
    """Remove the leftovers of dead jobs; if another job commits now, our own commit does it later.

    Raises LogDirLocked if a broker runs.
    """
    try:
        with staging.holding(files, root, patience=_COMMIT_WAIT):
            staging.clear_leftovers(files, root, now_ms())
    except LogDirLocked:
        if half_commit(files, root) is None:
            raise


def _job_name(options: Mapping[str, str]) -> str:
    """Return a unique name. Spark makes two writers for a stream; both get the same name, from its checkpoint location."""
    checkpoint = next((text for name, text in options.items() if name.lower() == "checkpointlocation"), None)
    if checkpoint is None:
        return uuid.uuid4().hex
    return "stream-" + uuid.uuid5(uuid.NAMESPACE_URL, checkpoint).hex


class KafkaLogStreamWriter(DataSourceStreamArrowWriter):
    """The writer of a stream: appends each of its batches once."""

    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        self._sink = Sink(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """See Sink."""
        return self._sink.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        """Commit what the tasks wrote, unless this batch was committed before."""
        self._sink.publish(messages, overwrite=False, batch=batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803  # all batches share one directory
        """Remove what the tasks wrote."""
        self._sink.discard(messages)

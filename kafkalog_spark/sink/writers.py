"""The writers that Spark drives: one made on the driver, pickled to every task and to the process that commits."""

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
from kafkalog_spark.sink.owners import alive, this_owner
from kafkalog_spark.sink.tasks import StagedPiece, TaskWriter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.types import StructType


_LINGERING, _AGAIN = 4.0, 0.2  # seconds in which Spark ends what is left of a failed job (spark.python.task.killTimeout: 2)
_OTHERS = 3  # seconds that a job waits at its start for the commit of another one
_QUERY_ID = "sql.streaming.queryId"


@dataclass
class Written(WriterCommitMessage):
    """What a task wrote; `query`: the id of the stream that it belongs to."""

    pieces: list[StagedPiece]
    query: str | None = None


class Sink:
    """What both writers do. Plain values only."""

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
        """The rows of a task, on an executor. Raises LogDirError."""
        context = TaskContext.get()
        number, attempt = (0, 0) if context is None else (context.partitionId(), context.taskAttemptId())
        files, name = Files(), f"{self.job.name}/{number}-{attempt}"
        directory = f"{self.job.root}/{STAGING}/{name}"
        try:
            _refuse_other_owner(files, self.job.root)
            staging.begin(files, self.job)
            with alive(files, self.job.directory):
                staging.make_directories(files, directory)
                writer = TaskWriter(files, directory, name, self.options, self.columns, number=number, clock=now_ms)
                pieces = writer.write(batches)
        except KafkalogError as error:
            raise LogDirError(str(error)) from None
        return Written(pieces, None if context is None else context.getLocalProperty(_QUERY_ID))

    def publish(self, messages: list[WriterCommitMessage | None], *, overwrite: bool, batch: int | None = None) -> None:
        """Make what the tasks wrote part of the directory. Raises LogDirError; then nothing was changed."""
        written = [one for one in messages if isinstance(one, Written)]
        pieces = [piece for one in written for piece in one.pieces]
        query = next((one.query for one in written if one.query), None)
        if batch is not None and query is None:
            if pieces:
                what = "no task knows the id of its stream, which distinguishes the streams"
                raise LogDirError(f"{self.job.root}: batch {batch} is not written: {what}")
            self.forget(messages)  # nothing was written: nothing is to be written once
            return
        stream = None if batch is None or query is None else (query, batch)
        files = Files()
        try:
            _refuse_other_owner(files, self.job.root)
            commit(files, self.job, self.options, pieces, now_ms(), overwrite=overwrite, stream=stream)
        except KafkalogError as error:
            raise LogDirError(str(error)) from None

    def forget(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what the tasks wrote, unless it was committed; undo a commit that did not finish.

        messages  of the tasks: where one is None others may run on for a moment, and begin to stage only now
        """
        self._drop()
        until = time.monotonic() + (_LINGERING if None in messages else 0)
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
    """Writes a table; `overwrite`: in the place of the topics that it has."""

    def __init__(self, options: dict[str, str], schema: StructType, *, overwrite: bool) -> None:
        self._sink, self._overwrite = Sink(options, schema), overwrite

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """See Sink."""
        return self._sink.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish."""
        self._sink.publish(messages, overwrite=self._overwrite)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Leave nothing behind."""
        self._sink.forget(messages)


def _refuse_other_owner(files: Files, root: str) -> None:
    """Raise NotAllowed if root started this, and the directory or a partition in it is another user's."""
    refuse_other_owner(files, [root, *staging.partitions(files, root)])


def _clear_leftovers(files: Files, root: str) -> None:
    """Of jobs that died. Where another one commits just now, our own commit does it. Raises LogDirLocked: a broker runs."""
    try:
        with staging.holding(files, root, patience=_OTHERS):
            staging.clear_leftovers(files, root, now_ms())
    except LogDirLocked:
        if half_commit(files, root) is None:
            raise


def _job_name(options: Mapping[str, str]) -> str:
    """A name that no other job has. Spark makes two writers of a stream: by its checkpoint both come to the same."""
    checkpoint = next((text for name, text in options.items() if name.lower() == "checkpointlocation"), None)
    if checkpoint is None:
        return uuid.uuid4().hex
    return "stream-" + uuid.uuid5(uuid.NAMESPACE_URL, checkpoint).hex


class KafkaLogStreamWriter(DataSourceStreamArrowWriter):
    """Appends the batches of a stream, each once."""

    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        self._sink = Sink(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """See Sink."""
        return self._sink.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        """Publish, unless it was done before."""
        self._sink.publish(messages, overwrite=False, batch=batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803  # it is all in one directory
        """Leave nothing behind."""
        self._sink.forget(messages)

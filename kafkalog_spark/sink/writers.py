"""The writer of the data source. Spark makes one on the driver, and pickles it to every task and to the committing process."""

from __future__ import annotations

import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from engine.arrow.staged import TaskWriter
from engine.discovery.paths import STAGING, DirectoryKind, directory_kind, half_commit
from engine.errors import LogDirLocked
from engine.files import Files, now_ms
from engine.log.commits import staging
from engine.log.commits.commit import CommitOptions, commit
from engine.log.logdir.log_dirs import refuse_other_owner
from kafkalog_spark.errors import LogDirError, as_log_dir_errors
from kafkalog_spark.sink.options import check_columns, read_sink_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructType

_KILL_WAIT = 4.0  # seconds until Spark has ended the tasks of a failed job (spark.python.task.killTimeout: 2)
_AGAIN = 0.2  # seconds between two checks
_COMMIT_WAIT = 3  # seconds that a job waits at its start for the commit of another job
_PATIENCE = 60  # seconds that a commit waits for another one


@dataclass
class Written(WriterCommitMessage):
    """The commit message of a task: the pieces that it wrote."""

    pieces: list[staging.StagedPiece]


@contextmanager
def _held(files: Files, root: str, patience: float) -> Iterator[None]:
    """Lock the log dir. Raises LogDirLocked after `patience` seconds, NotAllowed if it belongs to another user than root."""
    refuse_other_owner(files, [root, *staging.partitions(files, root)])
    until = time.monotonic() + patience
    while True:
        lock = staging.holding(files, root)
        try:
            lock.__enter__()
            break
        except LogDirLocked:
            if time.monotonic() >= until:
                raise
            time.sleep(_AGAIN)
    try:
        yield
    finally:
        lock.__exit__(None, None, None)


class KafkaLogWriter(DataSourceArrowWriter):
    """Appends rows to partition directories; `overwrite`: replaces the topics that are written. Has only plain values.

    Raises OptionError, LogDirError.
    """

    def __init__(self, options: dict[str, str], schema: StructType, *, overwrite: bool) -> None:
        self.options, self.overwrite = read_sink_options(options), overwrite
        self.columns = check_columns(schema, self.options)
        self.job = staging.StagedJob(self.options.path, uuid.uuid4().hex)
        files, root = Files(), self.options.path
        with as_log_dir_errors():
            if files.exists(root) and not files.info(root).is_directory:
                raise LogDirError(f"{root}: a file; name the directory for the partition directories")
            if files.exists(root) and directory_kind(files.list(root)) is DirectoryKind.PARTITION:
                raise LogDirError(f"{root}: a partition directory; name the directory that contains such directories")
            refuse_other_owner(files, [root, *staging.partitions(files, root)])
            staging.make_directories(files, root)
            self._clear_leftovers(files)

    def _clear_leftovers(self, files: Files) -> None:
        """Remove the leftovers of dead jobs; if another job commits now, our own commit does it later.

        Raises LogDirLocked if a broker runs.
        """
        root = self.job.root
        try:
            with _held(files, root, _COMMIT_WAIT):
                staging.clear_leftovers(files, root, now_ms())
        except LogDirLocked:
            if half_commit(files, root) is None:
                raise

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of a task, on an executor. Raises LogDirError."""
        context = TaskContext.get()
        number, attempt = (0, 0) if context is None else (context.partitionId(), context.taskAttemptId())
        files, name = Files(), f"{self.job.name}/{number}-{attempt}"
        directory = f"{self.job.root}/{STAGING}/{name}"
        with as_log_dir_errors():
            refuse_other_owner(files, [self.job.root, *staging.partitions(files, self.job.root)])
            staging.begin(files, self.job)
            staging.make_directories(files, directory)
            writer = TaskWriter(files, directory, name, self.options, self.columns, number=number, clock=now_ms)
            return Written(writer.write(iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit what the tasks wrote. Raises LogDirError; the directory is then unchanged."""
        pieces = [piece for one in messages if isinstance(one, Written) for piece in one.pieces]
        topics = {piece.topic for piece in pieces} | ({self.options.topic} if self.options.topic else set())
        how = CommitOptions(
            self.options.settings, self.options.keep_offsets, frozenset(topics if self.overwrite else ())
        )
        files = Files()
        with as_log_dir_errors(), _held(files, self.job.root, _PATIENCE):
            commit(files, self.job, how, pieces, now_ms())

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
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
        with as_log_dir_errors(), _held(files, self.job.root, _PATIENCE):
            staging.drop(files, self.job, now_ms())

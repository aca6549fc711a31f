"""Undo writes of the sink that were stopped. It stands alone because it needs neither Spark nor pyarrow."""

from __future__ import annotations

from engine.errors import KafkalogError
from engine.files import Files, now_ms
from engine.log.commits.staging import clear_leftovers, holding
from engine.log.logdir.log_dirs import refuse_other_owner
from kafkalog_spark.errors import LogDirError


def undo(path: str) -> bool:
    """Undo an incomplete commit in the directory `path`, and remove what its jobs staged, as `kafkalog restore` does.

    Returns whether anything was there to undo. A job that still runs there fails, and changes nothing. The last complete commit
    is undone by `kafkalog restore <path>/.kafkalog-sink.json`. Raises LogDirError, also if a broker runs there.
    """
    files = Files()
    try:
        files.info(path)  # raises if it is missing
        refuse_other_owner(files, [path])
        with holding(files, path):
            return clear_leftovers(files, path, now_ms(), of_all=True) > 0
    except KafkalogError as error:
        raise LogDirError(str(error)) from None

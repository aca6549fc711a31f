"""Where tables may be written to: never where logs lie, which Spark would remove to make room."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.discovery.paths import DirectoryKind, directory_kind, is_brokers_log_dir
from engine.discovery.patterns import expand
from engine.errors import KafkalogError, UsageError
from engine.files import ReadOnlyFiles
from engine.log.logdir.log_dirs import find_log_dirs
from kafkalog_spark.errors import LogDirError, OptionError
from kafkalog_spark.table.options import local_path

if TYPE_CHECKING:
    from collections.abc import Iterable


def check_target(to: str, mode: str, sources: Iterable[str]) -> None:
    """Raise OptionError where a table at `to` would do harm to logs; other file systems than mounted ones are not looked at.

    mode     error, append or overwrite, as Spark means them: the last one removes whatever is there
    sources  what is to be read, patterns included
    Raises LogDirError for what cannot be looked into.
    """
    try:
        path = local_path(to)
    except OptionError:
        return
    files = ReadOnlyFiles()
    try:
        path = files.absolute(path.rstrip("/") or "/")
        around = path.rpartition("/")[0] or "/"
        if files.exists(path):
            path = files.resolve(path)
            _check_room(files, to, path, mode)
            if mode == "overwrite":
                _check_sources(files, to, path, sources)
            around = path.rpartition("/")[0] or "/"
        if files.exists(around) and (is_brokers_log_dir(files, around) or _is_partition(files, around)):
            raise OptionError(f"{to}: is in {around}, a log dir of a broker: name another directory")
    except KafkalogError as error:
        raise LogDirError(str(error)) from None


def _check_room(files: ReadOnlyFiles, to: str, path: str, mode: str) -> None:
    """Raise OptionError where `path`, which is there, has logs that would go or be buried."""
    if not files.info(path).is_directory:
        raise OptionError(f"{to}: a file; name the directory for the table")
    try:
        found = find_log_dirs(files, [path])
    except UsageError:  # there is none
        return
    for log_dir in found:
        place = log_dir.path if log_dir.is_whole else next(one.path for one in log_dir.places)
        if not (log_dir.is_whole or _is_partition(files, place)):
            continue  # a name like that of a partition, no more
        if mode == "overwrite":
            raise OptionError(f"{to}: it contains logs ({place}), which overwriting would delete: name another directory")
        if mode == "append" and place == path:
            raise OptionError(f"{to}: it contains logs: name another directory")


def _check_sources(files: ReadOnlyFiles, to: str, path: str, sources: Iterable[str]) -> None:
    """Raise OptionError where something that is to be read lies in `path`, however deep."""
    for source in (one for pattern in sources for one in expand(files, pattern)):
        if f"{files.resolve(source)}/".startswith(f"{path.rstrip('/')}/"):
            raise OptionError(f"{to}: {source} is in it, and overwriting would delete it: name another directory")


def _is_partition(files: ReadOnlyFiles, path: str) -> bool:
    return files.info(path).is_directory and directory_kind(files.list(path)) is DirectoryKind.PARTITION

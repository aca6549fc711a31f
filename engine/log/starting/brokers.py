"""Which log dirs belong to one broker: by its server.properties, or by the files in the log dirs that the user names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine.errors import UnreadableFile, UsageError
from engine.files import look
from engine.log.logdir.log_dirs import LogDir, find_log_dirs, list_log_dir
from engine.log.logdir.startup import by_broker

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.config.server import ServerConfig
    from engine.files import ReadOnlyFiles


@dataclass(frozen=True, slots=True)
class Broker:
    """The log dirs of a broker.

    log_dirs      in the order of its configuration; a missing directory has no content
    unlisted      by path of a log dir: why it could not be listed
    metadata_log_dir   of the configuration; None: the log dir that has a metadata log
    is_configured log_dirs are all that it has, according to its configuration
    """

    log_dirs: tuple[LogDir, ...]
    unlisted: dict[str, str]
    metadata_log_dir: str | None = None
    is_configured: bool = False


def configured_broker(files: ReadOnlyFiles, server: ServerConfig) -> Broker:
    """The broker with the configuration `server`. Log dirs that do not exist are part of it."""
    metadata = server.metadata_log_dir or server.log_dirs[0]
    paths = dict.fromkeys((*(path.rstrip("/") or "/" for path in server.log_dirs), metadata.rstrip("/") or "/"))
    unlisted: dict[str, str] = {}
    log_dirs = tuple(_listed(files, path, unlisted) for path in paths)
    return Broker(log_dirs, unlisted, metadata.rstrip("/") or "/", is_configured=True)


def named_brokers(files: ReadOnlyFiles, paths: Iterable[str]) -> tuple[list[Broker], list[LogDir]]:
    """The brokers whose log dirs are at or below `paths`; and the log dirs of which only partitions are named.

    A path that does not exist, or is an empty directory, is taken for a log dir of the others. Raises UsageError and
    UnreadableFile if nothing of Kafka's is at `paths`.
    """
    found: dict[str, LogDir] = {}
    unlisted: dict[str, str] = {}
    blank: list[LogDir] = []
    errors: list[UsageError | UnreadableFile] = []
    for path in paths:
        try:
            for one in find_log_dirs(files, [path]):
                known = found.get(one.path)
                found[one.path] = one if known is None else _together(known, one)
        except (UsageError, UnreadableFile) as error:
            if not _may_be_log_dir(files, path):
                raise
            errors.append(error)
            blank.append(_listed(files, path.rstrip("/") or "/", unlisted))
    whole = [one for one in found.values() if one.is_whole]
    if errors and not whole:
        raise errors[0]
    groups = by_broker(files, [*whole, *blank])
    brokers = [Broker(tuple(group), {one.path: unlisted[one.path] for one in group if one.path in unlisted})
               for group in groups]
    return brokers, [one for one in found.values() if not one.is_whole]


def _together(known: LogDir, more: LogDir) -> LogDir:
    """The log dir of which both are named: all of it if it is named as a whole, else the partitions of both."""
    if known.is_whole or more.is_whole:
        return known if known.is_whole else more
    return replace(known, directories=tuple(dict.fromkeys(known.directories + more.directories)))


def _may_be_log_dir(files: ReadOnlyFiles, path: str) -> bool:
    """May a log dir have been at `path`: is nothing there, or an empty directory?"""
    info = look(files, path) if path else None
    return bool(path) and (info is None or (info.is_directory and not files.list(path)))


def _listed(files: ReadOnlyFiles, path: str, unlisted: dict[str, str]) -> LogDir:
    try:
        return list_log_dir(files, path)
    except UnreadableFile as error:
        unlisted[path] = str(error)
        return LogDir(path, True, (), (), ())

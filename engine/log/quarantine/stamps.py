"""The state of the files in directories (name, size, modification time, mode), and the differences between two states."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.amounts import count_of
from engine.discovery.names import FileKind, parent_of
from engine.files import look

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.files import FileInfo, ReadOnlyFiles

_MISSING = "gone"
_NEW = "new"
_WRITTEN = "written to"
_MODE = "mode "  # start of the description if only the mode differs


class Stamp(NamedTuple):
    """The state of a file: see FileInfo."""

    size: int
    modified_ns: int
    mode: int


class Difference(NamedTuple):
    """A file that differs from its old state. `what`: how, in one clause; `is_new`: it did not exist."""

    path: str
    what: str
    is_new: bool = False


def list_files(files: ReadOnlyFiles, directory: str) -> dict[str, Stamp]:
    """The plain files in `directory` by name, without locks; empty if there is no such directory."""
    found: dict[str, Stamp] = {}
    info = look(files, directory)
    if info is None or not info.is_directory:
        return found
    for name in files.list(directory):
        path = f"{directory}/{name}"
        if is_lock(name) or not files.exists(path):
            continue
        info = files.info(path)
        if info.is_file:
            found[name] = stamp_of(info)
    return found


def stamp_of(info: FileInfo) -> Stamp:
    """The state of the file with this `info`."""
    return Stamp(info.size, info.modified_ns, info.mode)


def is_lock(name: str) -> bool:
    """Is it the name of a log dir's lock? Locks are never kept."""
    return name == FileKind.LOCK.value


def differences(files: ReadOnlyFiles, wanted: Mapping[str, Mapping[str, Stamp]]) -> list[Difference]:
    """Compare directories with the states in `wanted` (path → files). Raises UnreadableFile."""
    found: list[Difference] = []
    for directory, before in wanted.items():
        now = list_files(files, directory)
        for name in sorted(name for name in before.keys() | now.keys() if not is_lock(name)):
            what = _difference(before.get(name), now.get(name))
            if what is not None:
                found.append(Difference(f"{directory}/{name}", what, name not in before))
    return found


def changed_since(
    files: ReadOnlyFiles, left: Mapping[str, Stamp], directories: Mapping[str, object]
) -> list[Difference]:
    """The differences from `left`, the state by path in which a command left its files, and the new files in `directories`.

    Modes are not compared, because a changed mode loses nothing.
    """
    wanted: dict[str, dict[str, Stamp]] = {directory: {} for directory in directories if files.exists(directory)}
    single: list[Difference] = []
    for path, stamp in left.items():
        directory = parent_of(path)
        if directory in wanted:
            wanted[directory][path[len(directory) + 1 :]] = stamp
            continue
        info = files.info(path) if files.exists(path) else None
        what = _difference(stamp, None if info is None else stamp_of(info))
        if what is not None:
            single.append(Difference(path, what))
    return [one for one in (*differences(files, wanted), *single) if not one.what.startswith(_MODE)]


def _difference(before: Stamp | None, now: Stamp | None) -> str | None:
    if before == now:
        return None
    if now is None:
        return _MISSING
    if before is None:
        return _NEW
    if now.size != before.size:
        return f"{count_of(now.size, 'byte')} instead of {before.size}"
    return _WRITTEN if now.modified_ns != before.modified_ns else f"{_MODE}{now.mode:o} instead of {before.mode:o}"

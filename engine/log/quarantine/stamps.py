"""How the files of some directories stood, and what of it is different now: names, sizes and times of change."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.layout import JOB_LOCK, TASK_LOCK, FileKind, parent_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.files import ReadOnlyFiles

Stamp = tuple[int, int]  # size in bytes, time of change in ms
_GONE = "gone"
_NEW = "new"


class Difference(NamedTuple):
    """A file that is not as it was. `what` says how, one clause; `is_new`: it was not there."""

    path: str
    what: str
    is_new: bool = False


def list_files(files: ReadOnlyFiles, directory: str) -> dict[str, Stamp]:
    """By name, the plain files in `directory`; none where there is no such directory. Locks are no part of it."""
    found: dict[str, Stamp] = {}
    if not files.exists(directory):
        return found
    for name in files.list(directory):
        path = f"{directory}/{name}"
        if is_lock(name) or not files.exists(path):
            continue
        info = files.info(path)
        if info.is_file:
            found[name] = (info.size, info.modified_ms)
    return found


def is_lock(name: str) -> bool:
    """Is it the name of a lock of a log dir? It is never part of what is kept."""
    return name == FileKind.LOCK.value or name.startswith((JOB_LOCK, TASK_LOCK))


def differences(files: ReadOnlyFiles, wanted: Mapping[str, Mapping[str, Stamp]]) -> list[Difference]:
    """What is different in directories, of which `wanted` says by path how they stood. Raises UnreadableFile."""
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
    """What is different from how a command left it: of `left`, by path, and what is new in `directories`."""
    wanted: dict[str, dict[str, Stamp]] = {directory: {} for directory in directories if files.exists(directory)}
    single: list[Difference] = []
    for path, stamp in left.items():
        directory = parent_of(path)
        if directory in wanted:
            wanted[directory][path[len(directory) + 1 :]] = stamp
            continue
        info = files.info(path) if files.exists(path) else None
        what = _difference(stamp, None if info is None else (info.size, info.modified_ms))
        if what is not None:
            single.append(Difference(path, what))
    return [*differences(files, wanted), *single]


def _difference(before: Stamp | None, now: Stamp | None) -> str | None:
    if before == now:
        return None
    if now is None:
        return _GONE
    if before is None:
        return _NEW
    return f"{now[0]} bytes instead of {before[0]}" if now[0] != before[0] else "written to"

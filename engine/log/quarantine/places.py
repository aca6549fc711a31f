"""Whose files a quarantine may change: those below its log dirs, and nobody's but its owner's.

A manifest is a file like any other. Who restores as root must not be led to files that its writer could not have changed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from engine.advice import argument
from engine.discovery import is_log_dir
from engine.files import ROOT, is_root, look
from engine.layout import file_name, parent_of, parse_partition_dir
from engine.log.quarantine.manifest import MANIFEST, Do, QuarantineDamaged, read_manifest
from engine.log.quarantine.stamps import is_lock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.files import ReadOnlyFiles
    from engine.log.quarantine.manifest import Entry, Manifest

FORCED = ".forced"  # ends the name of the quarantine of what stood in the way of restoring another one, with a number or not
_OF_FORCED = re.compile(f"(.+){re.escape(FORCED)}(-[0-9]+)?")
_OUTSIDE = "it was not written by kafkalog, or changed since: look into it, and do not restore from it"
_TRUST = "chown -R {} {}    # if you trust its {}; or restore as the owner of the files"


class ForeignPath(QuarantineDamaged):
    """The manifest leads to files that are none of its business: nothing is put back."""

    code = "quarantine-foreign-path"


def read_trusted(files: ReadOnlyFiles, directory: str, *, salvage: bool = False) -> Manifest:
    """As `read_manifest`, of a manifest all of whose paths lie below its log dirs.

    As root, what would be changed must belong to the owner of the quarantine, or that to root. Raises ForeignPath as well.
    """
    manifest = read_manifest(files, directory, salvage=salvage)
    line = f"{directory}/{MANIFEST}"
    if files.resolve(line) != f"{files.resolve(directory)}/{MANIFEST}":
        raise ForeignPath(f"{line}: a link to {files.resolve(line)}", do=_OUTSIDE)
    for log_dir in manifest.log_dirs:
        if not log_dir.startswith("/"):
            raise ForeignPath(f"{line}: {log_dir!r} is no log dir", do=_OUTSIDE)
    log_dirs = {files.resolve(log_dir) for log_dir in (*manifest.log_dirs, *_restored(files, directory))}
    for log_dir in log_dirs:
        is_around = f"{files.resolve(directory)}/".startswith(f"{log_dir.rstrip('/')}/")
        if log_dir == "/" or (is_around and not is_log_dir(files, log_dir)):
            raise ForeignPath(f"{line}: {log_dir} is no log dir, and the quarantine lies in it", do=_OUTSIDE)
    owners = {files.info(directory).owner, files.info(line).owner} - {ROOT} if is_root() else set()
    around = {log_dir for log_dir in log_dirs if owners and files.info(log_dir).owner == ROOT}  # of root, with logs of others?
    for log_dir in sorted(log_dirs - around):
        _check_owner(files, directory, log_dir, log_dir, owners)
    checked: set[str] = set()
    for path in _changed(files, manifest):
        if not path.startswith("/") or file_name(path) in ("", ".", ".."):
            raise ForeignPath(f"{line}: {path!r} is no path of a file", do=_OUTSIDE)
        if is_lock(file_name(path)):
            raise ForeignPath(f"{line}: {path} is a lock, which no command changes", do=_OUTSIDE)
        parent = parent_of(path)
        if parent not in checked:
            checked.add(parent)
            real = _real(files, parent)
            if not _is_below(files, parent, real, log_dirs):
                where = " or ".join(manifest.log_dirs) or "any log dir"
                raise ForeignPath(f"{line}: {path} does not lie in {where}", do=_OUTSIDE)
            _check_owner(files, directory, path, real, owners)
            around.discard(parent_of(real))
    for log_dir in sorted(around):  # nothing in it belongs to the owner of the quarantine
        _check_owner(files, directory, log_dir, log_dir, owners)
    for entry in manifest.entries:
        link = None if entry is None else _followed(files, entry)
        if link is not None:
            raise ForeignPath(f"{line}: {link} is a link to {files.resolve(link)}", do=_OUTSIDE)
    return manifest


def partitions_in(files: ReadOnlyFiles, manifest: Manifest) -> list[str]:
    """The partition directories that restoring changes, as far as they are there."""
    parents = dict.fromkeys(parent_of(path) for path in _changed(files, manifest))
    return [one for one in parents if parse_partition_dir(file_name(one)) is not None and files.exists(one)]


def _restored(files: ReadOnlyFiles, directory: str) -> list[str]:
    """The quarantine from which was restored while `directory` came into being: its files went, too."""
    name = _OF_FORCED.fullmatch(files.absolute(directory))
    return [name[1]] if name is not None and files.exists(f"{name[1]}/{MANIFEST}") else []


def _changed(files: ReadOnlyFiles, manifest: Manifest) -> Iterator[str]:
    """Every path that restoring looks at; of a directory, one in it."""
    for entry in manifest.entries:
        if entry is not None:
            yield entry.path
        if entry is not None and entry.to is not None:
            yield entry.to
            info = look(files, entry.to)
            if info is not None and info.is_directory:
                yield f"{entry.to}/{MANIFEST}"
    yield from (f"{directory}/{MANIFEST}" for directory in manifest.before)  # new files there may be removed
    yield from manifest.left or ()


def _followed(files: ReadOnlyFiles, entry: Entry) -> str | None:
    """A link that the undoing of `entry` would follow, or move to where it leads elsewhere; None: there is none."""
    if entry.do is Do.TIME:
        path = entry.path
    elif entry.to is not None and parent_of(entry.path) != parent_of(entry.to):
        path = entry.to
    else:
        return None
    is_link = files.exists(path) and files.resolve(path) != f"{_real(files, parent_of(path)).rstrip('/')}/{file_name(path)}"
    return path if is_link else None


def _real(files: ReadOnlyFiles, directory: str) -> str:
    """`directory` with every link followed, as far as it is there."""
    gone: list[str] = []
    while not files.exists(directory):
        gone.append(file_name(directory))
        directory = parent_of(directory)
    if ".." in gone:
        return "/"  # nobody can tell where that would lead
    return "/".join((files.resolve(directory).rstrip("/"), *reversed(gone))) or "/"


def _is_below(files: ReadOnlyFiles, directory: str, real: str, log_dirs: set[str]) -> bool:
    """Is `directory`, which really is `real`, one of `log_dirs` or in one?

    A partition that is a link in a log dir counts if it belongs to the log dir's owner: disks are spread so.
    """
    if any(f"{real}/".startswith(f"{log_dir.rstrip('/')}/") for log_dir in log_dirs):
        return True
    around = _real(files, parent_of(directory))
    is_partition = around in log_dirs and parse_partition_dir(file_name(directory)) is not None
    return is_partition and files.exists(real) and files.info(real).owner == files.info(around).owner


def _check_owner(files: ReadOnlyFiles, quarantine: str, path: str, directory: str, owners: set[int]) -> None:
    """Raise ForeignPath if `directory`, where `path` is to be changed, belongs to another than `owners`, who are not root."""
    if not owners:
        return
    while not files.exists(directory):
        directory = parent_of(directory)
    owner = files.info(directory).owner
    if owners - {owner}:
        what = f"{quarantine}: belongs to user {min(owners - {owner})}, and {path} to user {owner}: root does not restore it"
        raise ForeignPath(what, do=_TRUST.format(owner, argument(quarantine), MANIFEST))

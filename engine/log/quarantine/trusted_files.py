"""Check which files a quarantine may change: Kafka's files in its log dirs that belong to its owner.

A manifest may have been changed by anyone who can write it. Root must not restore files that its writer could not change.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from engine.discovery.names import ASIDE, FileKind, file_name, is_at_or_below, parent_of, parse_file_name, parse_partition_dir
from engine.discovery.paths import MANIFEST as SINK_MANIFEST
from engine.discovery.paths import REMOTE_INDEX_CACHE, is_log_dir
from engine.files import ROOT, is_root, look, this_user
from engine.log.quarantine.manifest import MANIFEST, Do, QuarantineDamaged, read_manifest
from engine.log.quarantine.stamps import is_lock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.files import ReadOnlyFiles
    from engine.log.quarantine.manifest import Entry, Manifest


FORCED = ".forced"  # end of the name of a quarantine that `restore --force` writes, perhaps followed by a number
_OF_FORCED = re.compile(f"(.+){re.escape(FORCED)}(-[0-9]+)?")
_OUTSIDE = "kafkalog did not write it, or it was changed since: inspect it, and do not restore from it"
_ANY = "x"  # stands for any file in a directory


class ForeignPath(QuarantineDamaged):
    """The manifest contains paths that a quarantine must not change: nothing is restored."""

    code = "quarantine-foreign-path"


def read_trusted(files: ReadOnlyFiles, directory: str, *, salvage: bool = False) -> Manifest:
    """Read a manifest, as `read_manifest`, and check that it changes only Kafka's files in its log dirs.

    The quarantine must belong to the user of this process, or to root. For root, all files to be changed must belong to the
    owner of the quarantine, unless that is root. Raises ForeignPath too.
    """
    manifest = read_manifest(files, directory, salvage=salvage)
    line = f"{directory}/{MANIFEST}"
    if files.resolve(line) != f"{files.resolve(directory)}/{MANIFEST}":
        raise ForeignPath(f"{line}: a link to {files.resolve(line)}", do=_OUTSIDE)
    owners = {files.info(directory).owner, files.info(line).owner} - {ROOT}
    if not is_root() and owners - {this_user()}:
        other = min(owners - {this_user()})
        raise ForeignPath(f"{directory}: belongs to user {other}, and you are user {this_user()}", do=_trust(this_user()))
    owners = owners if is_root() else set()
    restored = _restored(files, directory)
    log_dirs = {files.resolve(_log_dir(files, line, log_dir)) for log_dir in manifest.log_dirs}
    allowed = log_dirs | restored
    around = {one for one in allowed if owners and files.info(one).owner == ROOT}  # may have partitions of others
    for allowed_dir in sorted(allowed - around):
        _check_owner(files, directory, allowed_dir, allowed_dir, owners)
    checked: dict[str, str] = {}  # directory → its path without links
    for path in (*_changed(files, manifest), *_compared(manifest)):
        if not path.startswith("/") or file_name(path) in ("", ".", ".."):
            raise ForeignPath(f"{line}: {path!r} is not the path of a file", do=_OUTSIDE)
        if is_lock(file_name(path)):
            raise ForeignPath(f"{line}: {path} is a lock, which no command changes", do=_OUTSIDE)
        parent = parent_of(path)
        if parent not in checked:
            checked[parent] = real = _real(files, parent)
            is_restored = any(is_at_or_below(real, allowed_dir) for allowed_dir in restored)
            if not is_restored and not _is_kafkas_directory(files, parent, real, log_dirs):
                where = " or ".join(manifest.log_dirs) or "any log dir"
                raise ForeignPath(f"{line}: {path} is not in {where} or a partition there", do=_OUTSIDE)
            _check_owner(files, directory, path, real, owners)
            around.discard(parent_of(real))
    for path in _changed(files, manifest):
        if checked[parent_of(path)] in log_dirs and not _is_kafkas_name(file_name(path)):
            raise ForeignPath(f"{line}: {path} is not one of Kafka's files", do=_OUTSIDE)
    for allowed_dir in sorted(around):  # no directory in it belongs to the owner of the quarantine
        _check_owner(files, directory, allowed_dir, allowed_dir, owners)
    for entry in manifest.entries:
        link = None if entry is None else _followed(files, entry)
        if link is not None:
            raise ForeignPath(f"{line}: {link} is a link to {files.resolve(link)}", do=_OUTSIDE)
    return manifest


def partitions_in(files: ReadOnlyFiles, manifest: Manifest) -> list[str]:
    """The existing partition directories that restoring changes."""
    parents = dict.fromkeys(parent_of(path) for path in (*_changed(files, manifest), *_compared(manifest)))
    return [one for one in parents if parse_partition_dir(file_name(one)) is not None and files.exists(one)]


def _restored(files: ReadOnlyFiles, directory: str) -> set[str]:
    """The quarantine from which files were restored when `directory` was written: its files may have changed too."""
    name = _OF_FORCED.fullmatch(files.absolute(directory))
    return {files.resolve(name[1])} if name is not None and files.exists(f"{name[1]}/{MANIFEST}") else set()


def _log_dir(files: ReadOnlyFiles, line: str, log_dir: str) -> str:
    """`log_dir` if it is one: it contains partitions, or the lock of a broker or command. Raises ForeignPath."""
    is_one = log_dir.startswith("/") and files.resolve(log_dir) != "/"
    if is_one and (files.exists(f"{log_dir}/{FileKind.LOCK.value}") or is_log_dir(files, log_dir)):
        return log_dir
    raise ForeignPath(f"{line}: {log_dir} is not a log dir", do=_OUTSIDE)


def _changed(files: ReadOnlyFiles, manifest: Manifest) -> Iterator[str]:
    """Yield every path that restoring changes, and for a renamed directory a path in it."""
    for entry in manifest.entries:
        if entry is not None:
            yield entry.path
        if entry is not None and entry.to is not None:
            yield entry.to
            info = look(files, entry.to)
            if info is not None and info.is_directory:
                yield f"{entry.to}/{_ANY}"


def _compared(manifest: Manifest) -> Iterator[str]:
    """Yield every path that restoring compares, and for a directory a path in it."""
    yield from (f"{directory}/{_ANY}" for directory in manifest.before)  # new files there may be removed
    yield from manifest.left or ()


def _followed(files: ReadOnlyFiles, entry: Entry) -> str | None:
    """A link that undoing `entry` would follow, or move to another directory; None: there is none."""
    if entry.do is Do.TIME:
        path = entry.path
    elif entry.to is not None and parent_of(entry.path) != parent_of(entry.to):
        path = entry.to
    else:
        return None
    is_link = files.exists(path) and files.resolve(path) != f"{_real(files, parent_of(path)).rstrip('/')}/{file_name(path)}"
    return path if is_link else None


def _real(files: ReadOnlyFiles, directory: str) -> str:
    """`directory` with every link in its existing part resolved."""
    missing: list[str] = []
    while not files.exists(directory):
        missing.append(file_name(directory))
        directory = parent_of(directory)
    if ".." in missing:
        return "/"  # not known where that leads
    return "/".join((files.resolve(directory).rstrip("/"), *reversed(missing))) or "/"


def _is_kafkas_directory(files: ReadOnlyFiles, directory: str, real: str, log_dirs: set[str]) -> bool:
    """Is `directory`, whose path without links is `real`, one of `log_dirs`, a partition in one, or inside a partition?

    A link in a log dir counts as a partition if its target belongs to the log dir's owner: partitions may be on other disks.
    """
    for log_dir in log_dirs:
        if is_at_or_below(real, log_dir):
            first = real[len(log_dir) :].strip("/").partition("/")[0]
            if not first or _is_of_partitions(first):
                return True
    around = _real(files, parent_of(directory))
    is_partition = around in log_dirs and parse_partition_dir(file_name(directory)) is not None
    return is_partition and files.exists(real) and files.info(real).owner == files.info(around).owner


def _is_of_partitions(name: str) -> bool:
    return parse_partition_dir(name) is not None or name == REMOTE_INDEX_CACHE


def _is_kafkas_name(name: str) -> bool:
    """Is it the name of a partition or a checkpoint in a log dir? Files inside a partition may have any name."""
    is_of_the_sink = name.removesuffix(".tmp") == SINK_MANIFEST
    return is_of_the_sink or _is_of_partitions(name) or parse_file_name(name.removesuffix(ASIDE)) is not None


def _check_owner(files: ReadOnlyFiles, quarantine: str, path: str, directory: str, owners: set[int]) -> None:
    """Raise ForeignPath if `directory`, where `path` would be changed, does not belong to one of `owners` (never root)."""
    if not owners:
        return
    while not files.exists(directory):
        directory = parent_of(directory)
    owner = files.info(directory).owner
    if owners - {owner}:
        what = f"{quarantine}: belongs to user {min(owners - {owner})}, but {path} to user {owner}: root does not restore it"
        raise ForeignPath(what, do=_trust(owner))


def _trust(user: int) -> str:
    return f"if you trust its {MANIFEST}: as user {user}, copy the quarantine, and restore the copy"


_LATEST = 253_402_300_799  # seconds since 1970: the end of the year 9999, after which there is no calendar


def quarantine_beside(files: ReadOnlyFiles, log_dir: str, now: int, of: str = "") -> str:
    """A free path for the quarantine of `log_dir`. Raises UnreadableFile.

    now  ms since 1970, any number        of  the part of the log dir that it is for, such as a partition; "": the whole log dir
    """
    when = datetime.fromtimestamp(min(now // 1000, _LATEST), UTC).strftime("%Y%m%dT%H%M%SZ")
    directory = first = f"{files.resolve(log_dir)}.quarantine-{when}" + (f"-{of}" if of else "")
    number = 1
    while files.exists(directory):
        number += 1
        directory = f"{first}-{number}"
    return directory


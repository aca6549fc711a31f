"""Paths that root follows to a directory to change: other users must not choose the directory with a symbolic link."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from engine.errors import argument
from engine.files.open_file import unreadable
from engine.files.owner import ROOT, NotAllowed, directories_around, is_root, user_name
from engine.files.pins import OPEN_DIRECTORY, at, path_of, pinned, spelled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_NAME = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC  # opens what has the name, a link too
_MAX_LINKS = 40  # on a path, as in Linux


class Walk(NamedTuple):
    """A directory that was opened from `/` step by step.

    links     users other than root who can change a link on the path → the first such link
    is_roots  only root can change a name on the path, or in the directory
    """

    descriptor: int
    links: dict[int, str]
    is_roots: bool


def walk(path: str) -> Walk:
    """Open the directory at `path`. Raises OSError, ValueError."""
    words, followed, is_roots = _words(path), 0, True
    links: dict[int, str] = {}
    with ExitStack() as stack:
        around = _opened("/", None, stack)
        while words:
            status = os.fstat(around)
            is_roots = is_roots and _is_roots_own(status)
            word = words.pop()
            found = _opened(word, around, stack)
            named = os.fstat(found)
            if not stat.S_ISLNK(named.st_mode):
                around = found
                continue
            followed += 1
            if followed > _MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            is_roots = is_roots and named.st_uid == ROOT
            for user in {named.st_uid, status.st_uid} - {ROOT}:
                links.setdefault(user, f"{path_of(around).rstrip('/')}/{word}")
            target = os.readlink("", dir_fd=found)
            words += _words(target)
            around = _opened("/", None, stack) if target.startswith("/") else around
        is_roots = is_roots and _is_roots_own(os.fstat(around))
        return Walk(os.open(".", OPEN_DIRECTORY, dir_fd=around), links, is_roots)


def _words(path: str) -> list[str]:
    """The names of a path, the last one first."""
    return [word for word in reversed(path.split("/")) if word not in ("", ".")]


def _opened(name: str, around: int | None, stack: ExitStack) -> int:
    descriptor = os.open(name, _NAME, dir_fd=around)
    stack.callback(os.close, descriptor)
    return descriptor


def _is_roots_own(status: os.stat_result) -> bool:
    open_to_all = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return status.st_uid == ROOT and (not open_to_all or bool(status.st_mode & stat.S_ISVTX))


def resolve_trusted(path: str) -> str:
    """Return the real path of the directory at `path`, checked as by `held_for_root`. Raises NotAllowed, UnreadableFile."""
    found = _trusted(spelled(path))
    try:
        return path_of(found.descriptor)
    finally:
        os.close(found.descriptor)


@contextmanager
def held_for_root(paths: Iterable[str]) -> Iterator[None]:
    """Let root work on the directories at `paths`, and on no others that users bring to these paths meanwhile.

    A symbolic link is followed if it, and the directory that contains it, belong to root or to the owner of the directory at
    the end of the path: other users could choose a directory that is not theirs. Not root: change nothing.
    Raises NotAllowed, UnreadableFile.
    """
    with ExitStack() as stack:
        for path in dict.fromkeys(map(spelled, paths)) if is_root() else ():
            if at(path)[1] is None:  # else it is held already
                _hold(path, stack)
        yield


def _hold(path: str, stack: ExitStack) -> None:
    found = _trusted(path)
    with ExitStack() as until_held:
        until_held.callback(os.close, found.descriptor)
        if found.is_roots:
            return
        try:
            real = path_of(found.descriptor)
            above = directories_around(path, real)
        except OSError as error:
            raise unreadable(path, error) from error
        for name in {path, real}:
            stack.enter_context(pinned(name, os.dup(found.descriptor), above))


def _trusted(path: str) -> Walk:
    """Open the directory at `path`. Raises NotAllowed for a link of another user than root and its owner, UnreadableFile."""
    try:
        found = walk(path)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    owner = os.fstat(found.descriptor).st_uid
    for user, link in found.links.items():
        if user != owner:
            real = path_of(found.descriptor)
            os.close(found.descriptor)
            what = (f"{path}: {link} is a symbolic link that user {user_name(user)} can change, and it leads to {real}, which "
                    f"belongs to user {user_name(owner)}: root does not follow it")
            raise NotAllowed(what, do=f"name {argument(real)} itself if the link is right; otherwise remove the link")
    return found

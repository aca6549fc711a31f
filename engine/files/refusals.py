"""Errors for what the operating system refused, and the words for what is no plain file."""

from __future__ import annotations

import errno
import os
import stat

from engine.errors import UnreadableFile, UnwritableFile

LINK = "a symbolic link"  # in the result of `ReadOnlyFiles.special`
_KINDS = (
    (stat.S_ISDIR, "a directory"), (stat.S_ISLNK, LINK), (stat.S_ISFIFO, "a FIFO"), (stat.S_ISSOCK, "a socket"),
)  # fmt: skip


def unreadable(path: str, error: OSError | ValueError) -> UnreadableFile:
    """The error to raise for what the operating system said about `path`."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    if isinstance(error, FileNotFoundError) and os.path.islink(path):
        reason = f"{reason}: {LINK} to a target that does not exist"
    if isinstance(error, OSError) and error.errno == errno.ENXIO:
        reason = "a socket or an absent device, not a file"
    return UnreadableFile(f"{path}: {reason}", path=path)


def unwritable(path: str, error: OSError | ValueError | OverflowError, do: str | None = None) -> UnwritableFile:
    """The error to raise where the operating system refused to change `path`."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return UnwritableFile(f"{path}: {reason}", do=do)


def taken(path: str) -> UnwritableFile:
    """The error to raise where a step that does not replace files would replace one; `path` names both."""
    cause = FileExistsError(errno.EEXIST, "a file of this name already exists and would be replaced")
    error = unwritable(path, cause)
    error.__cause__ = cause
    return error


def is_full(error: UnwritableFile) -> bool:
    """Was a change refused because the disk has no room, or the owner's quota none?"""
    return getattr(error.__cause__, "errno", None) in (errno.ENOSPC, errno.EDQUOT)


def kind_of(mode: int) -> str:
    """What a path is that has the mode `mode` (stat.st_mode) and leads to no plain file, as a word with its article."""
    for test, word in _KINDS:
        if test(mode):
            return word
    return "a device"

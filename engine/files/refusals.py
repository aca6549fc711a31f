"""Errors for calls that the operating system refused, and names for what is not a plain file."""

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
    """Return the error for a failed read of `path`."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    if isinstance(error, FileNotFoundError) and os.path.islink(path):
        reason = f"{reason}: {LINK} to a target that does not exist"
    if isinstance(error, OSError) and error.errno == errno.ENXIO:
        reason = "a socket or an absent device, not a file"
    return UnreadableFile(f"{path}: {reason}", path=path)


def unwritable(path: str, error: OSError | ValueError | OverflowError, do: str | None = None) -> UnwritableFile:
    """Return the error for a refused change of `path`."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return UnwritableFile(f"{path}: {reason}", do=do)


def taken(path: str) -> UnwritableFile:
    """Return the error for a step that would replace a file without meaning to; `path` names both files."""
    cause = FileExistsError(errno.EEXIST, "a file of this name already exists and would be replaced")
    error = unwritable(path, cause)
    error.__cause__ = cause
    return error


def is_full(error: UnwritableFile) -> bool:
    """Return whether a change was refused for lack of disk space or quota."""
    return getattr(error.__cause__, "errno", None) in (errno.ENOSPC, errno.EDQUOT)


def kind_of(mode: int) -> str:
    """Return the kind of a path with the mode `mode` (stat.st_mode) that is not a plain file, with its article."""
    for test, word in _KINDS:
        if test(mode):
            return word
    return "a device"

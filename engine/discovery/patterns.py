"""Globs that no shell expanded: `logs/*-0/0*.log` in quotes, in a cron table, in a configuration file."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from engine.discovery.names import file_order
from engine.errors import UnreadableFile

if TYPE_CHECKING:
    from engine.files import ReadOnlyFiles

_MAGIC = re.compile(r"[*?[]")


def expand(files: ReadOnlyFiles, pattern: str) -> list[str]:
    """Return the paths that match `pattern`, in order: `*`, `?` and `[…]` match within one name, never `/`.

    An existing path is returned unchanged, whatever its characters. A pattern without matches is returned unchanged, so that
    opening it reports the problem. For the same reason a directory that cannot be listed is returned itself, and a path after
    it unchecked. Names that begin with a dot match only a pattern that begins with one. Never raises.
    """
    if not _MAGIC.search(pattern) or _exists(files, pattern, unknown=False):
        return [pattern]
    found = [root := files.root(pattern)]
    for part in pattern[len(root) :].split("/"):
        if part:
            found = [path for base in found for path in _step(files, base, part)]
    return found or [pattern]


def _step(files: ReadOnlyFiles, base: str, part: str) -> list[str]:
    """Return the paths in the directory `base` that match `part`."""
    prefix = base if not base or base.endswith("/") else base + "/"
    if not _MAGIC.search(part):
        return [prefix + part] if _exists(files, prefix + part, unknown=True) else []
    try:
        names = files.list(base or ".")
    except UnreadableFile:
        return [base] if _may_be_directory(files, base) else []
    visible = (name for name in names if part.startswith(".") or not name.startswith("."))
    return [prefix + name for name in sorted(visible, key=file_order) if fnmatchcase(name, part)]


def _exists(files: ReadOnlyFiles, path: str, *, unknown: bool) -> bool:
    """Return whether `path` exists; `unknown` if that cannot be found out."""
    try:
        return files.exists(path)
    except UnreadableFile:
        return unknown


def _may_be_directory(files: ReadOnlyFiles, path: str) -> bool:
    """Return whether `path`, which cannot be listed, may be a directory."""
    try:
        return files.exists(path) and files.info(path).is_directory
    except UnreadableFile:
        return True

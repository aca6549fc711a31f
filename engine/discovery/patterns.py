"""Patterns that no shell has expanded: `logs/*-0/0*.log` in quotes, in a cron table, in a configuration file."""

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
    """The paths that `pattern` names, in order: `*`, `?` and `[…]` stand for a part of one name, never for `/`.

    A path that exists is itself, whatever its characters. A pattern that fits nothing comes back as it is, so that
    opening it says what is wrong; for the same reason a directory that is closed to us comes as itself, and a path after
    one as it would be. Names that begin with a dot need a pattern that does. Never raises.
    """
    if not _MAGIC.search(pattern) or _stands(files, pattern, unknown=False):
        return [pattern]
    found = [root := files.root(pattern)]
    for part in pattern[len(root) :].split("/"):
        if part:
            found = [path for base in found for path in _step(files, base, part)]
    return found or [pattern]


def _step(files: ReadOnlyFiles, base: str, part: str) -> list[str]:
    """Everything in the directory `base` that `part` names."""
    prefix = base if not base or base.endswith("/") else base + "/"
    if not _MAGIC.search(part):
        return [prefix + part] if _stands(files, prefix + part, unknown=True) else []
    try:
        names = files.list(base or ".")
    except UnreadableFile:
        return [base] if _is_closed(files, base) else []
    visible = (name for name in names if part.startswith(".") or not name.startswith("."))
    return [prefix + name for name in sorted(visible, key=file_order) if fnmatchcase(name, part)]


def _stands(files: ReadOnlyFiles, path: str, *, unknown: bool) -> bool:
    """Is there anything at `path`? `unknown` if that cannot be found out."""
    try:
        return files.exists(path)
    except UnreadableFile:
        return unknown


def _is_closed(files: ReadOnlyFiles, path: str) -> bool:
    """Is `path`, which cannot be listed, a directory as far as one can tell, and no file in which nothing fits?"""
    try:
        return files.exists(path) and files.info(path).is_directory
    except UnreadableFile:
        return True

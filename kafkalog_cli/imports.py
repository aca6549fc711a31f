"""Import lazily loaded modules early: a log dir's owner, whose rights root takes, may not be able to read root's Python."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from pkgutil import walk_packages
from typing import TYPE_CHECKING

from engine.files import ROOT, is_root, look

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.files import ReadOnlyFiles

_OURS = ("engine", "kafkalog_cli")
_NOT_OURS = (
    "base64", "concurrent.futures.thread", "cramjam", "ctypes", "datetime", "difflib", "grp", "hashlib", "lz4.block",
    "lz4.frame", "mmap", "prometheus_client", "pwd", "resource", "rich.progress", "shlex", "snappy", "tempfile", "zlib",
    "zstandard",
)  # fmt: skip


def load_everything(files: ReadOnlyFiles, directories: Iterable[str]) -> None:
    """Import all that a command may need, if root will take the rights of the owner of one of `directories`."""
    if not is_root() or all(info is None or info.owner == ROOT for info in (look(files, one) for one in directories)):
        return
    for name in _OURS:
        for module in walk_packages(import_module(name).__path__, f"{name}."):
            if not module.name.endswith("__main__"):
                _import_unless_optional(module.name)
    for name in _NOT_OURS:
        with suppress(ImportError):  # a package that is not installed is not needed
            import_module(name)


def _import_unless_optional(name: str) -> None:
    """Import one of our modules, unless it needs a package of an extra that is not installed."""
    try:
        import_module(name)
    except ImportError as error:
        if (error.name or name).partition(".")[0] in _OURS:
            raise

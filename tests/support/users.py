"""Directories that belong to somebody else, for tests that run as root."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

USER, GROUP = 3001, 3002  # neither is known to the system, as in a container
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def give(top: Path, user: int = USER, group: int = GROUP) -> None:
    """Let `top` and all below it belong to the user."""
    for path in (top, *top.rglob("*")):
        os.lchown(path, user, group)


@contextmanager
def public_directory() -> Iterator[Path]:
    """A new directory of root's that everybody can walk to; those of pytest are its user's only."""
    with tempfile.TemporaryDirectory(prefix="kafkalog-", dir="/tmp") as name:  # TMPDIR may be private
        Path(name).chmod(0o755)
        yield Path(name)


def state(top: Path) -> dict[str, tuple[object, ...]]:
    """By path, whose everything below `top` is, its mode, and what it holds or leads to."""
    found: dict[str, tuple[object, ...]] = {}
    for path in (top, *sorted(top.rglob("*"))):
        status = path.lstat()
        held: object = None
        if stat.S_ISREG(status.st_mode):
            held = path.read_bytes()
        elif stat.S_ISLNK(status.st_mode):
            held = os.readlink(path)
        found[str(path.relative_to(top))] = status.st_uid, status.st_gid, status.st_mode, held
    return found

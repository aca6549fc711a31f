"""The module os for engine.files, with a disk of limited size: a write that does not fit fails with ENOSPC.

    with full_disk(tmp_path, room=1000) as disk: ...    # 1000 bytes more than are used
"""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from engine.files import interface, open_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


class FullDisk:
    """Files below `top` use their bytes; names and directories use none. An empty file can always be made."""

    def __init__(self, top: Path, room: int) -> None:
        self._top = top
        self._capacity = self.held() + room

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def held(self) -> int:
        """Bytes of all files."""
        return sum(path.stat().st_size for path in self._top.rglob("*") if path.is_file())

    def free(self) -> int:
        return max(0, self._capacity - self.held())

    def statvfs(self, _place: object) -> SimpleNamespace:
        return SimpleNamespace(f_frsize=1, f_bavail=self.free(), f_bfree=self.free() + 999, f_blocks=1 << 40, f_flag=0)  # the difference is reserved for root

    fstatvfs = statvfs

    def pwritev(self, descriptor: int, parts: Sequence[memoryview], position: int) -> int:
        part = next(memoryview(part).cast("B") for part in parts if len(part))
        fitting = os.fstat(descriptor).st_size + self.free() - position
        if fitting <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.pwritev(descriptor, [part[:fitting]], position)


@contextmanager
def full_disk(top: Path, room: int) -> Iterator[FullDisk]:
    """Replace the module os in engine.files."""
    disk = FullDisk(top, room)
    with pytest.MonkeyPatch.context() as patch:
        for module in (interface, open_file):
            patch.setattr(module, "os", disk)
        yield disk

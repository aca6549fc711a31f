"""Files without permission, also for root: the process temporarily obeys file modes like other users."""

from __future__ import annotations

import ctypes
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_VERSION_3 = 0x20080522  # of Linux' capability sets: 64 of them in two words
_DAC_OVERRIDE, _DAC_READ_SEARCH = 1 << 1, 1 << 2


class _Header(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]  # as ctypes wants it


@contextmanager
def without_permission(path: Path, left: int = 0) -> Iterator[None]:
    """Set the mode of `path` to `left`, and drop the capability of this thread (and threads it starts) to ignore it."""
    mode = path.stat().st_mode
    path.chmod(left)
    try:
        with _obeying_modes():
            yield
    finally:
        path.chmod(mode)


@contextmanager
def _obeying_modes() -> Iterator[None]:
    if os.geteuid() != 0:
        yield
        return
    libc, header, sets = ctypes.CDLL(None, use_errno=True), _Header(_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    if libc.capget(ctypes.byref(header), sets):
        pytest.skip("root whose rights cannot be told")
    before = sets[0]  # the effective set; the permitted set stays, so that they can be restored
    try:
        sets[0] = before & ~(_DAC_OVERRIDE | _DAC_READ_SEARCH)
        assert libc.capset(ctypes.byref(header), sets) == 0
        yield
    finally:
        sets[0] = before
        assert libc.capset(ctypes.byref(header), sets) == 0

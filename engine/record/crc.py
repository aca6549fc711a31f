"""Checksums: CRC-32C from the extension module of the package crc32c; checksums of parts of files.

The package itself is not imported: it looks up its version in the installed metadata, a fifth of the time of a small dump.
"""

from __future__ import annotations

from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.files import OpenFile

    Crc = Callable[[bytes | bytearray | memoryview, int], int]

PIECE = 1 << 20  # bytes per read


def _extension() -> Crc:
    """Return the function of the extension module, or of the package if its extension has another name."""
    package = find_spec("crc32c")
    places = package.submodule_search_locations if package else None
    spec = PathFinder.find_spec("crc32c._crc32c", places) if places else None
    if spec is None or spec.loader is None:
        from crc32c import crc32c as whole

        return cast("Crc", whole)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    if not hasattr(module, "crc32c"):
        from crc32c import crc32c as whole

        return cast("Crc", whole)
    return cast("Crc", module.crc32c)


_crc = _extension()


def crc32c(data: bytes | bytearray | memoryview, before: int = 0) -> int:
    """Return the CRC-32C of `data`, unsigned; `before` is the checksum of the bytes before it."""
    return _crc(data, before)


def checksum_of(file: OpenFile, start: int, end: int, crc: Crc) -> int:
    """Return the checksum of bytes start … end − 1 of a file; `crc` is crc32c or zlib.crc32. Raises as read_exactly."""
    checksum = 0
    for at in range(start, end, PIECE):
        checksum = crc(file.read_exactly(at, min(PIECE, end - at)), checksum)
    return checksum

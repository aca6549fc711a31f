"""libzstd's functions, for kernels that decompress and compress many batches in one call (see engine.kernels.libzstd).

The functions are in the shared library of the `zstandard` package. The package's own module handles one frame per call, and
threads wait for each other between frames. If the library does not export its functions, or its version differs from the
module's, the module does the work, more slowly.
"""

from __future__ import annotations

import threading
import weakref
from array import array
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from engine.formats import Codec
from engine.kernels.frames import holds_codec
from engine.kernels.tables import ZSTD_WORDS, Zstd

if TYPE_CHECKING:
    from ctypes import CDLL

_MODULES = ("zstandard._cffi", "zstandard.backend_c")  # which of them exports its functions depends on the build
_LEVEL = 3  # Kafka's default
_COMPRESSION_LEVEL, _CONTENT_SIZE, _CHECKSUM = 100, 200, 201  # ZSTD_cParameter
_NOTHING = memoryview(array("Q"))


class _Functions(NamedTuple):
    """The functions that are used, with the signatures in zstd.h."""

    library: CDLL
    addresses: dict[Zstd, int]


class _Calls:
    """Functions with contexts of their own, which are freed with this object."""

    def __init__(self, functions: _Functions) -> None:
        library = functions.library
        decompression, compression = library.ZSTD_createDCtx(), library.ZSTD_createCCtx()
        free = weakref.finalize(self, _free, library, decompression, compression)
        free.atexit = False
        self.words = array("Q", bytes(8 * ZSTD_WORDS))
        if not decompression or not compression:
            raise MemoryError("no memory for the contexts of libzstd")
        for parameter, value in ((_COMPRESSION_LEVEL, _LEVEL), (_CONTENT_SIZE, 0), (_CHECKSUM, 0)):
            if library.ZSTD_isError(library.ZSTD_CCtx_setParameter(compression, parameter, value)):
                raise AssertionError(f"libzstd does not take {value} for its parameter {parameter}")
        for word, address in functions.addresses.items():
            self.words[word] = address
        self.words[Zstd.DECOMPRESSION], self.words[Zstd.COMPRESSION] = decompression, compression


class _OfThread(threading.local):
    calls: _Calls | None = None


_of_thread = _OfThread()


def calls_for(table: memoryview, row: int, end: int) -> memoryview:
    """Return the kernels' `library` argument for the batches row … end − 1: empty if none of them is zstd.

    It belongs to the calling thread. Also empty if the functions are not available.
    """
    if not holds_codec(table, row, end, Codec.ZSTD):
        return _NOTHING
    return calls()


def calls() -> memoryview:
    """As `calls_for`, for any batches."""
    functions = _functions()
    if functions is None:
        return _NOTHING
    if _of_thread.calls is None:
        _of_thread.calls = _Calls(functions)
    return memoryview(_of_thread.calls.words)


@cache
def _functions() -> _Functions | None:
    """Find the functions, once. None: no library of the package exports them."""
    from ctypes import CDLL, c_int, c_size_t, c_void_p, cast

    import zstandard

    for name in _MODULES:
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            continue
        try:
            library = CDLL(spec.origin)
            wanted = {
                Zstd.DECOMPRESS: library.ZSTD_decompressDCtx,
                Zstd.COMPRESS: library.ZSTD_compressStream2,
                Zstd.RESET: library.ZSTD_CCtx_reset,
            }
            for create in (library.ZSTD_createDCtx, library.ZSTD_createCCtx):
                create.restype = c_void_p
            for free in (library.ZSTD_freeDCtx, library.ZSTD_freeCCtx):
                free.argtypes = (c_void_p,)
            library.ZSTD_isError.argtypes = (c_size_t,)
            library.ZSTD_CCtx_setParameter.argtypes = (c_void_p, c_int, c_int)
            library.ZSTD_CCtx_setParameter.restype = c_size_t
            version = int(library.ZSTD_versionNumber())
        except (OSError, AttributeError):
            continue  # not loadable, or the functions are not exported
        major, minor, release = zstandard.ZSTD_VERSION
        if version == 10000 * major + 100 * minor + release:
            return _Functions(library, {word: cast(function, c_void_p).value or 0 for word, function in wanted.items()})
    return None


def _free(library: CDLL, decompression: int, compression: int) -> None:
    library.ZSTD_freeDCtx(decompression)
    library.ZSTD_freeCCtx(compression)

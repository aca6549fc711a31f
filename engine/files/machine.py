"""What else the engine asks of the operating system: memory, the clock."""

from __future__ import annotations

import time
from contextlib import suppress


def zeros(size: int) -> memoryview:
    """`size` bytes of memory, all zero, at least one: each page is taken when it is touched, all are given back at once.

    Where the operating system has large pages they are asked for: access here and there finds its way sooner.
    Raises MemoryError.
    """
    import mmap

    try:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError) as error:
        raise MemoryError(f"{size} bytes") from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel that was built without them
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(memory)


def now_ms() -> int:
    """The clock: milliseconds since the epoch. Only commands ask it; the engine takes times as arguments."""
    return time.time_ns() // 1_000_000

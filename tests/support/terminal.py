"""What a terminal gets to see: a pseudo-terminal, read to its end."""

from __future__ import annotations

import os


def all_said(ours: int) -> bytes:
    """All that comes to our end of a pseudo-terminal until nobody has the other end open; ours is closed then.

    One read is not enough: the system hands what was written on later, piece by piece, be the writer gone or not.
    """
    said = b""
    try:
        while piece := os.read(ours, 1 << 16):
            said += piece
    except OSError:  # Linux's way to say that the other end is closed
        pass
    finally:
        os.close(ours)
    return said

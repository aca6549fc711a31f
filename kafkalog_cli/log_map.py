"""A map of a log in one line of a terminal: which parts are sound, which are lost, and which were not read.

The module stands alone, beside `table`: two commands print maps, of offsets and of bytes.
"""

from __future__ import annotations

import locale
from typing import TYPE_CHECKING

from kafkalog_cli.table import terminal_width

if TYPE_CHECKING:
    from collections.abc import Iterable

_BLOCKS, _PLAIN = ("▇", "▁", "░"), ("#", "?", ".")  # sound, not read, lost
_MOST = 60  # cells
_INDENT = "  "


def map_line(lost: Iterable[tuple[int, int]], first: int, end: int, *, read_from: int | None = None) -> str | None:
    """Return the line for a log from `first` to `end`, of which the ranges `lost` are lost; ends are exclusive.

    read_from  what is before was not read; None: everything was read
    A cell is sound only if all of it was read and nothing in it is lost. None: there is nothing to show, or stdout is not a
    terminal.
    """
    width = terminal_width()
    cells = 0 if width is None else min(_MOST, width - len(_INDENT), end - first)
    if cells <= 0:
        return None
    sound, unread, gone = _BLOCKS if _has_blocks() else _PLAIN
    row = [sound] * cells
    before = [] if read_from is None or read_from <= first else [(first, read_from, unread)]
    for start, stop, cell in (*before, *((start, stop, gone) for start, stop in lost)):
        begin, last = (((at - first) * cells) // (end - first) for at in (max(start, first), min(stop, end) - 1))
        row[begin : last + 1] = cell * (last + 1 - begin)
    return _INDENT + "".join(row)


def _has_blocks() -> bool:
    """Return whether the encoding of the locale has blocks; Python's own is UTF-8 in any locale (see `start`)."""
    try:
        "".join(_BLOCKS).encode(locale.getencoding())
    except (LookupError, UnicodeEncodeError):
        return False
    return True

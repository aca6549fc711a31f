"""Tables of text that fit the terminal: the least important columns are left out, and names are shortened."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, NamedTuple

import click

from kafkalog_cli.app import printable
from kafkalog_cli.streams import colour_choice

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

_APART = "  "
_BLOCKS = "▏▎▍▌▋▊▉█"
_BAR = 8  # columns of a bar
_LEAST = 12  # columns that a shortened name keeps


class Column(NamedTuple):
    """A column of a table.

    rank     0: always shown; of the others the highest is left out first if the terminal is too narrow
    is_text  aligned to the left, others to the right
    shrinks  its text may be shortened, at the start (`-`) or at the end (`+`)
    colour   of its cells on a terminal
    """

    heading: str
    rank: int = 0
    is_text: bool = False
    shrinks: str = ""
    colour: str | None = None


def columns_of(headings: Sequence[str], words: Container[str]) -> tuple[Column, ...]:
    """Return columns that are always shown. Those with the headings `words` have text, the others numbers."""
    return tuple(Column(heading, is_text=heading in words) for heading in headings)


def bar(amount: int, most: int) -> str:
    """Return a bar for `amount`, with its full width for `most`."""
    eighths = 0 if most <= 0 else min(_BAR * 8, -(-amount * _BAR * 8 // most))
    return "█" * (eighths // 8) + (_BLOCKS[eighths % 8 - 1] if eighths % 8 else "")


def terminal_width() -> int | None:
    """Return the columns of the terminal that stdout is; None: it is not a terminal, and lines may have any length."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def table_lines(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None, indent: str = "") -> Iterator[str]:
    """Yield the heading and a line for each row, no longer than `width` columns; None: of any length, without colours.

    Columns in which every cell is empty are left out.
    """
    cells = [[printable(cell) for cell in row] for row in rows]
    wide = [max([len(column.heading), *(len(row[at]) for row in cells)]) for at, column in enumerate(columns)]
    kept = [at for at, _ in enumerate(columns) if not cells or any(row[at] for row in cells)]
    if width is not None:
        kept = _fitting(columns, wide, kept, width - len(indent))
    coloured = width is not None and colour_choice() is not False
    for number, row in enumerate([[column.heading for column in columns], *cells]):
        parts = [_cell(columns[at], row[at], wide[at], coloured=coloured and number > 0) for at in kept]
        yield (indent + _APART.join(parts)).rstrip()


def _cell(column: Column, text: str, wide: int, *, coloured: bool) -> str:
    """Return the text of a cell with `wide` columns."""
    if len(text) > wide:
        text = text[: wide - 1] + "…" if column.shrinks == "+" else "…" + text[len(text) - wide + 1 :]
    padded = f"{text:<{wide}}" if column.is_text else f"{text:>{wide}}"
    return click.style(padded, fg=column.colour) if coloured and column.colour is not None and text else padded


def _fitting(columns: Sequence[Column], wide: list[int], kept: list[int], width: int) -> list[int]:
    """Return the columns that fit; `wide`, the width of each, is reduced for those that shrink."""

    def used() -> int:
        return sum(wide[at] for at in kept) + len(_APART) * (len(kept) - 1)

    for at in sorted(kept, key=lambda at: -columns[at].rank):
        if used() <= width or not columns[at].rank:
            break
        kept = [one for one in kept if one != at]
    for at in kept:
        if columns[at].shrinks and used() > width:
            wide[at] = max(_LEAST, wide[at] - (used() - width))
    return kept

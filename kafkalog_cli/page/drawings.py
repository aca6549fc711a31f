"""Bars and lanes as SVG. Positions are percentages, so that text keeps its size at every width."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalog_cli.page.charts import time_ticks
from kafkalog_cli.page.elements import element

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from xml.etree.ElementTree import Element

_LEAST = 0.4  # percent of the width that is visible
_ROOM = 2.2  # percent for each character of a text inside


class Piece(NamedTuple):
    """A part of a lane, from `first` to `end` of its scale. `kind`: class of the style sheet; `text`: inside, if it fits."""

    first: float
    end: float
    kind: str
    title: str
    text: str = ""


class Scale(NamedTuple):
    """From values to percent of the width."""

    first: float
    end: float

    def at(self, value: float) -> float:
        """Return the position of a value, within the lane."""
        return min(100.0, max(0.0, 100 * (value - self.first) / max(self.end - self.first, 1)))


def lane(scale: Scale, pieces: Iterable[Piece], marks: Iterable[tuple[float, str, str]] = (), *, thin: bool = False) -> Element:
    """Return a lane. `marks`: vertical lines, as (value, class, title)."""
    drawn = [element("rect", class_="track", x="0", y="0", width="100%", height="100%")]
    for piece in pieces:
        left, right = scale.at(piece.first), scale.at(piece.end)
        wide = max(right - left, _LEAST)
        left = min(left, 100 - wide)
        shape = element("title", piece.title)
        drawn.append(element("rect", shape, class_=piece.kind, x=f"{left:.2f}%", y="0", width=f"{wide:.2f}%", height="100%"))
        if piece.text and wide > _ROOM * len(piece.text):
            drawn.append(element("text", piece.text, class_="inside", x=f"{left + 0.5:.2f}%", y="70%"))
    for value, kind, title in marks:
        place = f"{min(scale.at(value), 100 - _LEAST / 2):.2f}%"
        drawn.append(element("line", element("title", title), class_=kind, x1=place, x2=place, y1="0", y2="100%"))
    return element("svg", *drawn, class_="thin" if thin else None, role="img")


def bar(amounts: Sequence[tuple[int, str, str]], most: int) -> Element:
    """Return a bar of (amount, class, title) side by side; `most` has the whole width."""
    pieces, at = [], 0
    for amount, kind, title in amounts:
        if amount:
            pieces.append(Piece(at, at + amount, kind, title))
        at += amount
    return lane(Scale(0, most), pieces, thin=True)


def row(name: str, remark: str, drawn: Element) -> Element:
    """Return a lane with its name beside it."""
    label = element("span", name, element("small", remark) if remark else None, class_="name")
    return element("div", label, drawn, class_="lane")


def time_axis(scale: Scale) -> Element:
    """Return the row with the times of the lanes above it."""
    texts = []
    for time, text in time_ticks(int(scale.first), int(scale.end)).items():
        at = scale.at(time)
        side = "start" if at < 8 else "end" if at > 92 else "middle"
        texts.append(element("text", text, class_=side, x=f"{at:.2f}%", y="12"))
    return element("div", element("span", "UTC", class_="name soft"), element("svg", *texts), class_="lane axis-row")


def key(entries: Iterable[tuple[str, str]]) -> Element:
    """Return the meaning of colours: (class, text)."""
    squares = ((element("svg", element("rect", class_=kind, width="100%", height="100%")), text) for kind, text in entries)
    return element("ul", *(element("li", square, text) for square, text in squares), class_="key")

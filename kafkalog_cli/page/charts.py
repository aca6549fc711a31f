"""Charts of rates, drawn by pygal: its SVG without its scripts and style sheets."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, fromstring

from engine.amounts import count_of, size_text, time_text
from engine.errors import UsageError
from engine.overview.timeline import WIDTHS
from kafkalog_cli.page.elements import element

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.overview.timeline import Rates

_WIDTH, _HEIGHT = 440, 150
_TICKS = 5  # of an axis, about
_LEAST_BAR = 1.5  # width that is visible
_LEAST_SPAN = 30  # intervals of a chart
_DAY = 86_400_000
_LATEST = 253_402_300_799_999  # ms: the last one that datetime has
_STEPS = sorted((*WIDTHS, 10_000, 30_000, 120_000, 600_000, 1_800_000, 7_200_000, 2 * _DAY, 14 * _DAY, 91 * _DAY, 182 * _DAY))
_KEPT = frozenset(("x", "y", "width", "height", "d", "transform", "class", "viewBox"))  # attributes


def check_package() -> None:
    """Raise UsageError if the package that draws charts is not installed."""
    try:
        import pygal  # noqa: F401  # only whether it is there
    except ImportError as error:
        raise UsageError("reports need the package pygal", "pip install 'kafkalog[report]'") from error


def time_ticks(first: int, last: int) -> dict[int, str]:
    """Return times from `first` to `last` ms that are easy to read, with their texts in UTC."""
    last = min(last, _LATEST)
    step = next((step for step in _STEPS if (last - first) // step < _TICKS), _STEPS[-1])
    while (last - first) // step >= _TICKS:
        step *= 10
    ticks = list(range(-(-first // step) * step, last + 1, step)) or [first]
    days = {tick // _DAY for tick in ticks}
    shape = "%Y-%m-%d" if step >= _DAY else "%m-%d %H:%M" if len(days) > 1 else "%H:%M:%S" if step < 60_000 else "%H:%M"
    return {tick: datetime.fromtimestamp(tick / 1000, UTC).strftime(shape) for tick in ticks}


def value_ticks(largest: int) -> list[int]:
    """Return 0 and a few round values up to `largest`."""
    unit = 1
    while unit * 10 <= largest:
        unit *= 10
    step = next(step for step in (unit // 2, unit, 2 * unit, 5 * unit) if step and largest // step < _TICKS)
    return list(range(0, largest + 1, step))


def moment_text(time: int | None) -> str:
    """Return a time in UTC, to seconds; outside of the years 1970 to 9999 in ms. None: empty."""
    return "" if time is None else time_text(time).partition(".")[0].replace("T", " ")


def span_text(first: int, last: int) -> str:
    """Return a range of times in UTC, to seconds."""
    one, other = moment_text(first), moment_text(last)
    (day, _, _), (other_day, _, clock) = one.partition(" "), other.partition(" ")
    return f"{one} to {clock if day == other_day else other} UTC"


def rate_chart(rates: Rates, label: str) -> Element:
    """Return bars for the records of each interval. Where nothing was written, there is no bar."""
    import pygal

    width, numbers = rates.width, sorted(rates.amounts)
    bars = [(rates.amounts[at][0], at * width, (at + 1) * width) for at in numbers]
    first, last = bars[0][1], bars[-1][2]
    around = max(0, _LEAST_SPAN * width - (last - first)) // 2  # else a single interval would fill the chart
    first, last = max(0, first - around), last + around
    ticks, values = time_ticks(first, last), value_ticks(max(1, *(records for records, _, _ in bars)))
    chart = pygal.Histogram(
        width=_WIDTH, height=_HEIGHT, margin=4, margin_right=28, show_legend=False, explicit_size=False, js=[],
        css=[], no_prefix=True, show_x_guides=False, disable_xml_declaration=True, x_labels=list(ticks), xrange=(first, last),
        x_value_formatter=lambda at: ticks.get(round(at), ""), y_labels=values, value_formatter=lambda at: short(round(at)),
    )  # fmt: skip
    chart.add("", bars)
    titles = [f"{moment_text(first)}: {count_of(records, 'record')}, {size_text(rates.amounts[at][1])}"
              for at, (records, first, _) in zip(numbers, bars, strict=True)]  # fmt: skip
    drawn = _cleaned(fromstring(chart.render(is_unicode=True)), iter(titles))  # noqa: S314  # what pygal wrote of numbers
    drawn.set("class", "chart")
    drawn.set("role", "img")
    drawn.set("aria-label", label)
    return drawn


def short(value: int) -> str:
    """Return a number in few characters: 950, 1.5k, 20M."""
    for scale, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if value >= scale:
            return f"{value / scale:.1f}".removesuffix(".0") + unit
    return str(value)


def _cleaned(drawn: Element, titles: Iterator[str]) -> Element:
    """Return a copy with lines, bars and texts only. `titles`: those of the bars."""
    tag = drawn.tag.rpartition("}")[2]
    made = Element(tag, {name: _rounded(text) for name, text in drawn.items() if name in _KEPT and text})
    made.text = drawn.text if tag == "text" else None
    if tag == "rect" and "reactive" in made.get("class", ""):
        made.set("class", "rect")
        left, wide = float(made.get("x", 0)), float(made.get("width", 0))
        made.set("x", f"{left:.1f}")
        made.set("width", f"{max(wide, _LEAST_BAR):.1f}")
        made.append(element("title", next(titles)))
    for child in drawn:
        name, kind = str(child.tag).rpartition("}")[2], child.get("class", "")
        if name in ("g", "rect", "path", "text") and not kind.endswith("overlay") and kind != "titles":
            made.append(_cleaned(child, titles))
    return made


def _rounded(text: str) -> str:
    """Round a number; other text is unchanged."""
    try:
        return f"{float(text):.1f}".removesuffix(".0")
    except ValueError:
        return text

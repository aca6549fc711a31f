"""Filters that Spark pushes down, as far as names and indexes can answer them. Spark checks every row again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from engine.formats import LONG_MAX

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterable



@dataclass(frozen=True)
class Bounds:
    """What rows can pass the filters; None: any."""

    topics: frozenset[str] | None = None
    prefix: str = ""  # of topics
    partitions: frozenset[int] | None = None
    first_offset: int = 0
    end_offset: int = LONG_MAX  # exclusive
    from_ms: int | None = None

    def wants(self, topic: str, partition: int) -> bool:
        """Can rows of this partition pass?"""
        return (
            (self.topics is None or topic in self.topics)
            and topic.startswith(self.prefix)
            and (self.partitions is None or partition in self.partitions)
        )


def bounds_of(filters: Iterable[Any]) -> Bounds:
    """The bounds of Spark's pushed filters, all of which must hold; what names and indexes can't answer is passed over."""
    bounds = Bounds()
    for one in filters:
        attribute: tuple[str, ...] = getattr(one, "attribute", ())
        value = getattr(one, "value", None)
        if len(attribute) == 1 and value is not None:
            bounds = _narrowed(bounds, attribute[0].lower(), type(one).__name__, value)
    return bounds


def _narrowed(bounds: Bounds, column: str, kind: str, value: Any) -> Bounds:
    if column == "topic":
        if kind == "StringStartsWith":
            return replace(bounds, prefix=max(bounds.prefix, value, key=len))
        if kind in ("EqualTo", "EqualNullSafe", "In"):
            return replace(bounds, topics=_both(bounds.topics, frozenset(value if kind == "In" else (value,))))
    if column == "partition" and kind in ("EqualTo", "EqualNullSafe", "In"):
        return replace(bounds, partitions=_both(bounds.partitions, frozenset(value if kind == "In" else (value,))))
    if column == "offset":
        return _by_offset(bounds, kind, value)
    if column == "timestamp" and kind in ("EqualTo", "GreaterThan", "GreaterThanOrEqual"):
        return replace(bounds, from_ms=max(_milliseconds(value), bounds.from_ms or -LONG_MAX))
    return bounds


def _by_offset(bounds: Bounds, kind: str, value: Any) -> Bounds:
    if kind in ("EqualTo", "EqualNullSafe"):
        return replace(bounds, first_offset=max(bounds.first_offset, value), end_offset=min(bounds.end_offset, value + 1))
    if kind == "In":
        known = [one for one in value if one is not None]
        first, last = min(known, default=0), max(known, default=-1)
        return replace(bounds, first_offset=max(bounds.first_offset, first), end_offset=min(bounds.end_offset, last + 1))
    if kind in ("GreaterThan", "GreaterThanOrEqual"):
        return replace(bounds, first_offset=max(bounds.first_offset, value + (kind == "GreaterThan")))
    if kind in ("LessThan", "LessThanOrEqual"):
        return replace(bounds, end_offset=min(bounds.end_offset, value + (kind == "LessThanOrEqual")))
    return bounds


def _both(known: frozenset[Any] | None, others: frozenset[Any]) -> frozenset[Any]:
    return others if known is None else known & others


def _milliseconds(moment: dt.datetime) -> int:
    """The millisecond that `moment` lies in; earlier ones are surely before it."""
    import datetime as dt

    since = moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    return since // dt.timedelta(milliseconds=1)

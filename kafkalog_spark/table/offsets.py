"""The options for starting and ending offsets, with the JSON and error messages of Spark's Kafka source (JsonUtils)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.formats import LONG_MAX
from kafkalog_spark.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

LATEST, EARLIEST = -1, -2
TopicPartition = tuple[str, int]
_LONG = re.compile(r"[+-]?[0-9]+")

_OFFSETS_EXAMPLE = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_TIMES_EXAMPLE = '{"topicA": {"0": 123456789, "1": 123456789}, "topicB": {"0": 123456789}}'


@dataclass(frozen=True, slots=True)
class Limit:
    """The start or the end of the offsets to read. Exactly one field is given; the others are None.

    everywhere    EARLIEST or LATEST, for all partitions
    offsets       by partition; may be LATEST or EARLIEST
    timestamp     ms, for all partitions
    timestamps    ms, by partition
    """

    everywhere: int | None
    offsets: Mapping[TopicPartition, int] | None = None
    timestamp: int | None = None
    timestamps: Mapping[TopicPartition, int] | None = None

    @property
    def is_by_time(self) -> bool:
        """Is the limit given by timestamps?"""
        return self.timestamp is not None or self.timestamps is not None

    def of_time(self, key: TopicPartition) -> int | None:
        """Return the timestamp of a partition, ms; None: not given."""
        return (self.timestamps or {}).get(key) if self.timestamp is None else self.timestamp


def read_limit(options: Mapping[str, str], side: str, default: int) -> Limit:
    """Return the limit that the options set for `side`, "starting" or "ending". Raises OptionError.

    A timestamp for all partitions overrides timestamps by partition, which override offsets, as in Spark's Kafka source.
    """
    name = f"{side}Timestamp"
    if (text := options.get(name.lower())) is not None:
        return Limit(None, timestamp=_milliseconds(name, text))
    name = f"{side}OffsetsByTimestamp"
    if (text := options.get(name.lower())) is not None:
        return Limit(None, timestamps=by_partition(name, text, _TIMES_EXAMPLE))
    name = f"{side}Offsets"
    text = options.get(name.lower())
    if text is None:
        return Limit(default)
    if text.strip().lower() in ("earliest", "latest"):
        return Limit(EARLIEST if text.strip().lower() == "earliest" else LATEST)
    return Limit(None, offsets=by_partition(name, text, _OFFSETS_EXAMPLE))


def check_batch_limits(start: Limit, end: Limit) -> None:
    """Raise OptionError for limits that a batch query cannot have."""
    if start.everywhere == LATEST:
        raise OptionError("starting offset can't be latest for batch queries on Kafka")
    for (topic, partition), offset in (start.offsets or {}).items():
        if offset == LATEST:
            raise OptionError(f"startingOffsets for {topic}-{partition} can't be latest for batch queries on Kafka")
    if end.everywhere == EARLIEST:
        raise OptionError("ending offset can't be earliest for batch queries on Kafka")
    for (topic, partition), offset in (end.offsets or {}).items():
        if offset == EARLIEST:
            raise OptionError(f"ending offset for {topic}-{partition} can't be earliest for batch queries on Kafka")
    for first, last, what in ((start.offsets, end.offsets, "offset"), (start.timestamps, end.timestamps, "timestamp")):
        for (topic, partition), value in (first or {}).items():
            limit = (last or {}).get((topic, partition), LATEST)
            if 0 <= limit < value:
                said = f"The specified start {what} {value} is greater than the end {what} {limit}"
                raise OptionError(f"{said} for topic {topic} partition {partition}.")


def check_stream_limits(options: Mapping[str, str]) -> None:
    """Raise OptionError for ending options, which a stream cannot have."""
    for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
        if name.lower() in options:
            raise OptionError(f"ending {'offset' if name == 'endingOffsets' else 'timestamp'} not valid in streaming queries")


def by_partition(name: str, text: str, example: str = _OFFSETS_EXAMPLE) -> dict[TopicPartition, int]:
    """Parse numbers by partition from JSON: {"topic": {"0": 23}}. Raises OptionError."""
    try:
        topics = json.loads(text)
        return {
            (topic, _number(partition)): _number(value)
            for topic, partitions in topics.items() for partition, value in partitions.items()
        }  # fmt: skip
    except (ValueError, AttributeError, TypeError):
        raise OptionError(f"{name}: Expected e.g. {example}, got {text}") from None


def assigned(text: str) -> set[TopicPartition]:
    """Parse the partitions of the option `assign`: {"topic": [0, 1]}. Raises OptionError."""
    try:
        found = {(topic, _number(one)) for topic, partitions in json.loads(text).items() for one in _listed(partitions)}
    except (ValueError, AttributeError, TypeError):
        raise OptionError(f'assign: Expected e.g. {{"topicA":[0,1],"topicB":[0,1]}}, got {text}') from None
    if not found:
        raise OptionError(f"No topicpartitions to assign as specified value for option 'assign' is {text}")
    return found


def _listed(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(value)
    return value


def _number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError(value)
    return as_long(str(value))


def as_long(text: str) -> int:
    """Parse a 64-bit number as Java does. Raises ValueError."""
    value = int(text) if _LONG.fullmatch(text.strip()) else LONG_MAX + 1
    if not -LONG_MAX <= value <= LONG_MAX:
        raise ValueError(text)
    return value


def _milliseconds(name: str, text: str) -> int:
    try:
        value = as_long(text)
    except ValueError:
        value = -1
    if value < 0:
        raise OptionError(f"Expected a single long value of milliseconds in option {name}, got {text}")
    return value

"""The options of the data source: those of Spark's Kafka source, and our own. All are checked before work begins."""

from __future__ import annotations

import json
import re
import warnings
from collections import Counter
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from engine.amounts import parse_size
from engine.arrow.columns import LAST_MS
from engine.discovery.names import INTERNAL_TOPICS, METADATA_TOPIC
from engine.formats import LONG_MAX
from engine.log.fetch.reading import FetchIsolation
from engine.record.codecs.bounded import MAX_DECOMPRESSED_BYTES
from engine.record.selection import END, FIRST, Selection
from kafkalog_spark.errors import OptionError
from kafkalog_spark.table.columns import LEVELS, default_columns, types_for
from kafkalog_spark.table.offsets import (
    EARLIEST,
    LATEST,
    Limit,
    TopicPartition,
    assigned,
    check_batch_limits,
    check_stream_limits,
    read_limit,
)
from kafkalog_spark.table.places import read_path, remote_options

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Iterable, Mapping
    from typing import TypeVar

    from engine.remote.access import StoreOptions

    T = TypeVar("T")

ON_CORRUPTION = ("fail", "skip", "report")
SPLIT_BYTES = 128 << 20
_BATCHES_SPLIT_BYTES = 1 << 30  # of level batches, which reads only the headers

_KAFKA_SOURCE_OPTIONS = (
    "subscribe", "subscribePattern", "assign", "startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp",
    "startingOffsetsByTimestamp", "endingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy", "failOnDataLoss",
    "minPartitions", "maxRecordsPerPartition", "includeHeaders", "maxOffsetsPerTrigger", "minOffsetsPerTrigger",
    "maxTriggerDelay",
)  # fmt: skip
_OWN_OPTIONS = (
    "path", "paths", "level", "columns", "extraColumns", "splitBytes", "onCorruption", "maxDecompressedBytes",
    "openTransactions", "store", "storeLayout", "storePrefix", "storePrivateKeys", "configFile", "logDirs",
)  # fmt: skip
_INTERNAL = INTERNAL_TOPICS | {METADATA_TOPIC}  # topics that no pattern matches
_WITHOUT_EFFECT = re.compile(r"kafka\..*|groupidprefix|kafkaconsumer\..*|fetchoffset\..*")
_DURATION = re.compile(r"(\d+)\s*(us|ms|s|m|min|h|d)?")
_MICROSECONDS = {
    "us": 1, "ms": 1000, None: 1000, "s": 10**6, "m": 60 * 10**6, "min": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6,
}  # fmt: skip
_ALL_OPTIONS = _KAFKA_SOURCE_OPTIONS + _OWN_OPTIONS
_KNOWN = {name.lower() for name in _ALL_OPTIONS}
_REFUSED = {
    "kafka.auto.offset.reset": "Kafka option 'auto.offset.reset' is not supported; use the source option 'startingOffsets'",
    "kafka.key.deserializer": "Kafka option 'key.deserializer' is not supported as keys are given as byte arrays",
    "kafka.value.deserializer": "Kafka option 'value.deserializer' is not supported as values are given as byte arrays",
    "kafka.enable.auto.commit": "Kafka option 'enable.auto.commit' is not supported as this source commits no offsets",
    "kafka.interceptor.classes": "Kafka option 'interceptor.classes' is not supported as the source reads byte arrays",
}
_ISOLATIONS = {"read_uncommitted": FetchIsolation.HIGH_WATERMARK, "read_committed": FetchIsolation.READ_COMMITTED}


@dataclass(frozen=True)
class ReadOptions:
    """The checked options of a read; see docs/spark/reading.md."""

    paths: tuple[str, ...]
    level: str
    columns: tuple[str, ...]
    topics: frozenset[str] | None  # None: all
    pattern: re.Pattern[str] | None
    partitions: frozenset[TopicPartition] | None
    start: Limit
    end: Limit
    start_at_latest: bool  # start at the end, instead of failing, if no record is as late as the starting timestamp
    fail_on_data_loss: bool
    min_partitions: int
    split_bytes: int
    isolation: FetchIsolation
    ends_open_transactions: bool  # read_committed: end open transactions as their coordinator would after its broker died
    on_corruption: str
    max_decompressed_bytes: int
    max_records: int | None  # most offsets in a task
    max_offsets: int | None  # most offsets in a micro-batch
    min_offsets: int | None  # a micro-batch waits for this number of offsets
    max_delay: float  # seconds that it waits at most
    store: StoreOptions | None  # with the remote segments of tiered topics
    log_dirs: tuple[str, ...]  # more log dirs of the clusters
    query: str  # identifies the query: what is read about its paths is kept until the next one
    must_read: bool = False  # a file that cannot be read fails the query, whatever the other options say

    @property
    def skips_unreadable(self) -> bool:
        """Does the query go on without partitions and files that cannot be read?"""
        return not self.must_read and (self.on_corruption != "fail" or not self.fail_on_data_loss)

    def wants(self, topic: str, partition: int) -> bool:
        """Do the options select this partition?"""
        if self.partitions is not None:
            return (topic, partition) in self.partitions
        if self.topics is not None:
            return topic in self.topics
        return self.pattern is None or (topic not in _INTERNAL and self.pattern.search(topic) is not None)


def read_options(given: Mapping[str, str], *, streaming: bool | None = False) -> ReadOptions:
    """Check the options of a query; names are not case-sensitive. Raises OptionError.

    streaming  None: not known yet; limits that are valid for only one kind of query are accepted
    """
    options = {name.lower(): str(value) for name, value in given.items()}
    for name in options:
        if name in _REFUSED:
            raise OptionError(_REFUSED[name])
        if name not in _KNOWN and not _WITHOUT_EFFECT.fullmatch(name):
            raise OptionError(f"unknown option '{name}': the options are {', '.join(sorted(_ALL_OPTIONS))}")
    chosen = [name for name in ("assign", "subscribe", "subscribePattern") if name.lower() in options]
    if len(chosen) > 1:
        raise OptionError("Only one of the following options can be specified: subscribe, subscribePattern, assign")
    start = read_limit(options, "starting", LATEST if streaming else EARLIEST)
    end = read_limit(options, "ending", LATEST)
    if streaming is False:
        check_batch_limits(start, end)
    elif streaming:
        check_stream_limits(options)
    least, most = (number_option(options, f"{name}OffsetsPerTrigger", int) for name in ("min", "max"))
    if least is not None and most is not None and least > most:
        raise OptionError(f"The value of minOffsetPerTrigger({least}) is higher than the maxOffsetsPerTrigger({most}).")
    level = _level(options, streaming=streaming)
    store, log_dirs = remote_options(options)
    isolation = _ISOLATIONS[_one_of(options, "kafka.isolation.level", tuple(_ISOLATIONS), "read_uncommitted")]
    return ReadOptions(
        paths=_paths(options),
        level=level,
        columns=_columns(options, level),
        topics=_subscribed(options),
        pattern=_pattern(options),
        partitions=frozenset(assigned(options["assign"])) if "assign" in options else None,
        start=start,
        end=end,
        start_at_latest=_one_of(options, "startingOffsetsByTimestampStrategy", ("error", "latest"), "error") == "latest",
        fail_on_data_loss=flag_option(options, "failOnDataLoss", default=True),
        min_partitions=_positive(options, "minPartitions", 1),
        split_bytes=_positive(options, "splitBytes", _BATCHES_SPLIT_BYTES if level == "batches" else SPLIT_BYTES, _bytes),
        isolation=isolation,
        ends_open_transactions=_ends_open_transactions(options, isolation, streaming=streaming),
        on_corruption=_one_of(options, "onCorruption", ON_CORRUPTION, "fail"),
        max_decompressed_bytes=_positive(options, "maxDecompressedBytes", MAX_DECOMPRESSED_BYTES, _bytes),
        max_records=number_option(options, "maxRecordsPerPartition", int),
        max_offsets=most,
        min_offsets=least,
        max_delay=_seconds(options, "maxTriggerDelay", "15m"),
        store=store,
        log_dirs=log_dirs,
        query=token_hex(8),
    )


def _level(options: Mapping[str, str], *, streaming: bool | None) -> str:
    level = _one_of(options, "level", LEVELS, "records")
    if streaming and level != "records":
        raise OptionError(f"level is '{level}': streams are of records")
    if level != "records" and "maxrecordsperpartition" in options:
        raise OptionError(f"level is '{level}': maxRecordsPerPartition is of records")
    return level


def _ends_open_transactions(options: Mapping[str, str], isolation: FetchIsolation, *, streaming: bool | None) -> bool:
    if _one_of(options, "openTransactions", ("wait", "abort"), "wait") == "wait":
        return False
    if isolation is not FetchIsolation.READ_COMMITTED:
        raise OptionError("openTransactions is 'abort': it is for kafka.isolation.level read_committed")
    if streaming:
        raise OptionError("openTransactions is 'abort': it is for the log of a dead broker, which no stream follows")
    return True


def _paths(options: Mapping[str, str]) -> tuple[str, ...]:
    paths = _listed(options["paths"]) if "paths" in options else [options["path"]] if "path" in options else []
    if not paths or not all(paths):
        raise OptionError("no path: give load() a partition directory, a log dir, or a directory of log dirs")
    return tuple(read_path(path) for path in paths)


def _listed(text: str) -> list[str]:
    """Parse Spark's option `paths`, a JSON list. Raises OptionError."""
    try:
        paths = json.loads(text)
    except ValueError:
        paths = None
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise OptionError(f"paths is '{text}', expected a JSON list of paths: give load() one path or a list of them")
    return paths


def _columns(options: Mapping[str, str], level: str) -> tuple[str, ...]:
    known = {name.lower(): name for name in types_for(level)}
    given = options.get("columns")
    columns = default_columns(level) if given is None else _refuse_twice(list(_names("columns", given, known)))
    if flag_option(options, "includeHeaders", default=False) and "headers" in known.values() and "headers" not in columns:
        columns.append("headers")
    more = _names("extraColumns", options.get("extracolumns", ""), known)
    columns += [name for name in dict.fromkeys(more) if name not in columns]
    if not columns:
        raise OptionError(f"columns names no column: the columns are {', '.join(known.values())}")
    return tuple(columns)


def _names(option: str, text: str, known: Mapping[str, str]) -> Iterable[str]:
    for name in filter(None, (one.strip() for one in text.split(","))):
        if name.lower() not in known:
            raise OptionError(f"{option}: no column '{name}': the columns are {', '.join(known.values())}")
        yield known[name.lower()]


def _refuse_twice(columns: list[str]) -> list[str]:
    for name, count in Counter(columns).items():
        if count > 1:
            raise OptionError(f"columns names '{name}' {count} times")
    return columns


def _subscribed(options: Mapping[str, str]) -> frozenset[str] | None:
    if "subscribe" not in options:
        return None
    topics = frozenset(filter(None, (one.strip() for one in options["subscribe"].split(","))))
    if not topics:
        raise OptionError(f"No topics to subscribe to as specified value for option 'subscribe' is '{options['subscribe']}'")
    return topics


def _pattern(options: Mapping[str, str]) -> re.Pattern[str] | None:
    if "subscribepattern" not in options:
        return None
    text = options["subscribepattern"].strip()
    if not text:
        raise OptionError("Pattern to subscribe is empty as specified value for option 'subscribePattern' is ''")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a warning for nested brackets: Java's nested sets are not supported here
            return re.compile(text)
    except (re.error, Warning) as error:
        raise OptionError(f"subscribePattern: '{text}' is not a pattern: {error}") from None


def _one_of(options: Mapping[str, str], name: str, values: tuple[str, ...], default: str) -> str:
    value = options.get(name.lower(), default).strip().lower()
    if value not in values:
        raise OptionError(f"{name} is '{value}', expected one of {', '.join(values)}")
    return value


def flag_option(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Return the value of a boolean option. Raises OptionError."""
    return _one_of(options, name, ("true", "false"), str(default).lower()) == "true"


def _bytes(text: str) -> int:
    size = parse_size(text)
    if size is None:
        raise ValueError(text)
    return size


def _seconds(options: Mapping[str, str], name: str, default: str) -> float:
    """Parse a duration in Spark's syntax: milliseconds unless a unit is given. Raises OptionError."""
    text = options.get(name.lower(), default)
    parts = _DURATION.fullmatch(text.strip().lower())
    if parts is None:
        raise OptionError(f"{name} is '{text}', expected a time such as 15m")
    return int(parts[1]) * _MICROSECONDS[parts[2]] / 10**6


def _positive(options: Mapping[str, str], name: str, default: int, read: Callable[[str], int] = int) -> int:
    value = number_option(options, name, read)
    return default if value is None else value


def number_option(
    options: Mapping[str, str], name: str, read: Callable[[str], int], largest: int = LONG_MAX
) -> int | None:
    """Return the value of a numeric option from 1 to `largest`; None: not given. Raises OptionError."""
    text = options.get(name.lower())
    if text is None:
        return None
    try:
        value = read(text)
    except ValueError:
        value = 0
    if value <= 0:
        raise OptionError(f"{name} is '{text}', expected a positive number")
    if value > largest:
        raise OptionError(f"{name} is '{text}', which is more than {largest}")
    return value


@dataclass(frozen=True)
class Bounds:
    """The rows that pass the filters of a query; None: no bound. Ends are exclusive."""

    topics: frozenset[str] | None = None
    prefix: str = ""  # of topics
    partitions: frozenset[int] | None = None
    first_offset: int = 0
    end_offset: int = LONG_MAX
    from_ms: int | None = None
    to_ms: int | None = None

    def wants(self, topic: str, partition: int) -> bool:
        """Can rows of this partition pass the filters?"""
        return (
            (self.topics is None or topic in self.topics)
            and topic.startswith(self.prefix)
            and (self.partitions is None or partition in self.partitions)
        )

    @property
    def selection(self) -> Selection:
        """The records that pass the filters by time: planning applies the others exactly."""
        first, end = FIRST if self.from_ms is None else self.from_ms, END if self.to_ms is None else self.to_ms
        return Selection(from_ms=first, to_ms=end)


def bounds_of(filters: Iterable[Any], level: str = "records") -> tuple[Bounds, list[Any]]:
    """Return (bounds of Spark's pushed filters, which all must hold; the filters that Spark has to apply as well).

    Of the records, filters on topic, partition, offset and timestamp are applied exactly; of other levels those on topic and
    partition. Others are left to Spark; they may narrow the bounds.
    """
    bounds, left = Bounds(), list[Any]()
    for one in filters:
        attribute: tuple[str, ...] = getattr(one, "attribute", ())
        column, kind = attribute[0].lower() if len(attribute) == 1 else "", type(one).__name__
        bounds, is_exact = _applied(bounds, level, (column, kind, getattr(one, "value", None)))
        if not is_exact:
            left.append(one)
    return bounds, left


def _applied(bounds: Bounds, level: str, condition: tuple[str, str, Any]) -> tuple[Bounds, bool]:
    """Return (the bounds with a condition, do they express it exactly?)."""
    column, kind, value = condition
    if column not in _FILTERED[: None if level == "records" else 2]:
        return bounds, False
    if kind == "IsNotNull" and level == "records":
        return (_by_time(bounds, -LAST_MS, LAST_MS + 1) if column == "timestamp" else bounds), True
    found = None if value is None else _narrowed(bounds, column, kind, value)
    return found or bounds, found is not None and (column, kind) != ("offset", "In")


_FILTERED = ("topic", "partition", "offset", "timestamp")


def _narrowed(bounds: Bounds, column: str, kind: str, value: Any) -> Bounds | None:
    """Return the bounds with a filter that is not null; None: it cannot be expressed by bounds."""
    kind = "EqualTo" if kind == "EqualNullSafe" else kind
    if column == "topic" and kind == "StringStartsWith":
        shorter, longer = sorted((bounds.prefix, value), key=len)
        return replace(bounds, prefix=longer) if longer.startswith(shorter) else replace(bounds, topics=frozenset())
    if column == "topic" and kind in ("EqualTo", "In"):
        return replace(bounds, topics=_both(bounds.topics, frozenset(value if kind == "In" else (value,))))
    if column == "partition" and kind in ("EqualTo", "In"):
        return replace(bounds, partitions=_both(bounds.partitions, frozenset(value if kind == "In" else (value,))))
    if column == "offset":
        return _by_offset(bounds, kind, value)
    return _by_timestamp(bounds, kind, value) if column == "timestamp" else None


def _by_offset(bounds: Bounds, kind: str, value: Any) -> Bounds | None:
    first, end = bounds.first_offset, bounds.end_offset
    if kind == "In":
        known = [one for one in value if one is not None]
        return replace(bounds, first_offset=max(first, min(known, default=0)), end_offset=min(end, max(known, default=-1) + 1))
    if kind == "EqualTo":
        return replace(bounds, first_offset=max(first, value), end_offset=min(end, value + 1))
    if kind in ("GreaterThan", "GreaterThanOrEqual"):
        return replace(bounds, first_offset=max(first, value + (kind == "GreaterThan")))
    if kind in ("LessThan", "LessThanOrEqual"):
        return replace(bounds, end_offset=min(end, value + (kind == "LessThanOrEqual")))
    return None


def _by_timestamp(bounds: Bounds, kind: str, value: dt.datetime) -> Bounds | None:
    """Return the bounds with a filter by time, in µs; timestamps are whole ms, and those that do not fit are null."""
    import datetime as dt

    since = value - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    floor, rest = divmod(since, dt.timedelta(milliseconds=1))
    ceiling = floor + bool(rest)
    ranges = {
        "EqualTo": (ceiling, floor + 1), "GreaterThanOrEqual": (ceiling, LAST_MS + 1), "GreaterThan": (floor + 1, LAST_MS + 1),
        "LessThanOrEqual": (-LAST_MS, floor + 1), "LessThan": (-LAST_MS, ceiling),
    }  # fmt: skip
    return _by_time(bounds, *ranges[kind]) if kind in ranges else None


def _by_time(bounds: Bounds, from_ms: int, to_ms: int) -> Bounds:
    first = from_ms if bounds.from_ms is None else max(bounds.from_ms, from_ms)
    return replace(bounds, from_ms=first, to_ms=to_ms if bounds.to_ms is None else min(bounds.to_ms, to_ms))


def _both(known: frozenset[Any] | None, others: frozenset[Any]) -> frozenset[Any]:
    return others if known is None else known & others


_OPERATORS = {
    "=": "EqualTo", "==": "EqualTo", ">": "GreaterThan", ">=": "GreaterThanOrEqual", "<": "LessThan", "<=": "LessThanOrEqual",
    "in": "In",
}  # fmt: skip


def given_bounds(filters: Iterable[Any], level: str) -> Bounds:
    """Return the bounds of filters as pandas and PyArrow take them: (column, operator, value), which all must hold.

    Raises OptionError for one that cannot be applied exactly.
    """
    bounds = Bounds()
    for one in filters:
        try:
            column, operator, value = one
            kind = _OPERATORS[operator.strip().lower()]
            bounds, is_exact = _applied(bounds, level, (column.lower(), kind, list(value) if kind == "In" else value))
        except (ValueError, TypeError, LookupError, AttributeError):
            is_exact = False
        if not is_exact:
            what = "(column, operator, value) of topic, partition, offset or timestamp (a datetime with a time zone)"
            raise OptionError(f"filters: {one!r} is not {what}; operators are {', '.join(_OPERATORS)}")
    return bounds

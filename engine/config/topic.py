"""The topic settings that concern a log, under Kafka's names. Mirrors LogConfig, TopicConfig and ConfigDef.

Errors use Kafka's own words. One bound is wider: segment.bytes may be small, as in brokers before 4.0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from engine.errors import UsageError
from engine.formats import INT_MAX, LONG_MAX, LONG_MIN

if TYPE_CHECKING:
    from collections.abc import Mapping

_DAY_MS = 24 * 3600 * 1000
_COMMA = re.compile(r"\s*,\s*")
_WHOLE = re.compile(r"[+-]?[0-9]{1,40}")
_CODECS = ("uncompressed", "gzip", "snappy", "lz4", "zstd", "producer")
_POLICIES = ("compact", "delete")
_TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
_LOWEST_SEGMENT_SIZE = 14  # bytes: the smallest message of any format


def _setting(name: str, default: Any, low: float = 0, high: float = LONG_MAX, *, one_of: tuple[str, ...] = ()) -> Any:
    return field(default=default, metadata={"name": name, "low": low, "high": high, "one_of": one_of})


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Settings of one topic. Sizes in bytes, times in ms; LONG_MAX means never, −1 of retention means no limit.

    local_retention_ms, local_retention_size  of topics with remote storage; −2: the same as retention
    """

    segment_size: int = _setting("segment.bytes", 1 << 30, _LOWEST_SEGMENT_SIZE, INT_MAX)
    segment_ms: int = _setting("segment.ms", 7 * _DAY_MS, 1)
    segment_jitter_ms: int = _setting("segment.jitter.ms", 0)
    max_index_size: int = _setting("segment.index.bytes", 10 << 20, 4, INT_MAX)
    index_interval: int = _setting("index.interval.bytes", 4096, 0, INT_MAX)
    flush_messages: int = _setting("flush.messages", LONG_MAX, 1)
    flush_ms: int = _setting("flush.ms", LONG_MAX)
    retention_size: int = _setting("retention.bytes", -1, LONG_MIN)
    retention_ms: int = _setting("retention.ms", 7 * _DAY_MS, -1)
    max_message_size: int = _setting("max.message.bytes", (1 << 20) + 12, 0, INT_MAX)
    file_delete_delay_ms: int = _setting("file.delete.delay.ms", 60_000)
    delete_retention_ms: int = _setting("delete.retention.ms", _DAY_MS)
    min_compaction_lag_ms: int = _setting("min.compaction.lag.ms", 0)
    max_compaction_lag_ms: int = _setting("max.compaction.lag.ms", LONG_MAX, 1)
    min_cleanable_ratio: float = _setting("min.cleanable.dirty.ratio", 0.5, 0, 1)
    cleanup_policy: str = _setting("cleanup.policy", "delete", one_of=_POLICIES)
    compression_type: str = _setting("compression.type", "producer", one_of=_CODECS)
    gzip_level: int = _setting("compression.gzip.level", -1, -1, 9)
    lz4_level: int = _setting("compression.lz4.level", 9, 1, 17)
    zstd_level: int = _setting("compression.zstd.level", 3, -131072, 22)
    preallocate: bool = _setting("preallocate", False)
    message_timestamp_type: str = _setting("message.timestamp.type", "CreateTime", one_of=_TIMESTAMP_TYPES)
    message_timestamp_before_max_ms: int = _setting("message.timestamp.before.max.ms", LONG_MAX)
    message_timestamp_after_max_ms: int = _setting("message.timestamp.after.max.ms", 3_600_000)
    remote_storage_enable: bool = _setting("remote.storage.enable", False)
    remote_log_copy_disable: bool = _setting("remote.log.copy.disable", False)
    local_retention_ms: int = _setting("local.retention.ms", -2, -2)
    local_retention_size: int = _setting("local.retention.bytes", -2, -2)

    @property
    def max_segment_ms(self) -> int:
        """Return the largest time before a segment is rolled, ms (LogConfig.maxSegmentMs)."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compact else self.segment_ms

    @property
    def compact(self) -> bool:
        """Return whether the topic is compacted."""
        return "compact" in self.cleanup_policy.split(",")

    @property
    def delete(self) -> bool:
        """Return whether retention by time and size applies."""
        return "delete" in self.cleanup_policy.split(",")

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> LogConfig:
        """Return the defaults with `settings` (Kafka's names → text) applied. Raises UsageError."""
        return cls().with_settings(settings)

    def with_settings(self, settings: Mapping[str, str]) -> LogConfig:
        """Return a copy with `settings` (Kafka's names → text) applied. Raises UsageError.

        Topic settings that do not concern files are checked and ignored.
        """
        given: dict[str, Any] = {}
        for name, text in settings.items():
            setting = _SETTINGS.get(name)
            if setting is not None:
                given[setting.name] = _value(name, text, setting.default, setting.metadata)
            elif name == INTERNAL_SEGMENT_SIZE:
                continue
            elif name in _WITHOUT_BEARING:
                _value(name, text, *_WITHOUT_BEARING[name])
            else:
                raise UsageError(f"Unknown topic config name: {name}", do=_nearest(name))
        if INTERNAL_SEGMENT_SIZE in settings:  # overrides segment.bytes
            bounds = {"low": 1, "high": INT_MAX}
            given["segment_size"] = _value(INTERNAL_SEGMENT_SIZE, settings[INTERNAL_SEGMENT_SIZE], 0, bounds)
        config = replace(self, **given)
        config.check()
        return config

    def check(self) -> None:
        """Raise UsageError for settings that exclude each other. Mirrors LogConfig.validateValues."""
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise UsageError(
                f"conflict topic config setting min.compaction.lag.ms ({self.min_compaction_lag_ms}) > "
                f"max.compaction.lag.ms ({self.max_compaction_lag_ms})"
            )
        if self.remote_storage_enable and self.cleanup_policy not in ("", "delete"):
            raise UsageError(
                "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being an empty list."
            )


INTERNAL_SEGMENT_SIZE = "internal.segment.bytes"  # for Kafka's own tests: may be below the bound of segment.bytes
_SETTINGS = {setting.metadata["name"]: setting for setting in fields(LogConfig)}
_ANY_TEXT: tuple[Any, dict[str, Any]] = ("", {"one_of": None})
_ANY_FLAG: tuple[Any, dict[str, Any]] = (False, {})
_WITHOUT_BEARING: dict[str, tuple[Any, dict[str, Any]]] = {
    "unclean.leader.election.enable": _ANY_FLAG,
    "min.insync.replicas": (1, {"low": 1, "high": INT_MAX}),
    "leader.replication.throttled.replicas": _ANY_TEXT,
    "follower.replication.throttled.replicas": _ANY_TEXT,
    "remote.log.delete.on.disable": _ANY_FLAG,
}


def without_bearing() -> Mapping[str, tuple[Any, Mapping[str, Any]]]:
    """Return the default and the bounds of each topic setting that does not concern files."""
    return _WITHOUT_BEARING


def is_known(name: str) -> bool:
    """Return whether `name` is a topic setting of Kafka 4.3.1."""
    return name in _SETTINGS or name in _WITHOUT_BEARING or name == INTERNAL_SEGMENT_SIZE


def _nearest(name: str) -> str:
    """Return advice for an unknown name."""
    from difflib import get_close_matches

    near = get_close_matches(name, [*_SETTINGS, *_WITHOUT_BEARING], 1)
    return f"did you mean {near[0]}?" if near else "see `Topic Configs` in Kafka's documentation"


def _value(name: str, text: str, default: Any, bounds: Mapping[str, Any]) -> object:
    """Convert `text` to the type of `default`, within `bounds`. Raises UsageError. Mirrors ConfigDef.parseType."""
    text = text.strip()
    if isinstance(default, bool):
        if text.lower() not in ("true", "false"):
            raise _invalid(name, text, "Expected value to be either true or false")
        return text.lower() == "true"
    if isinstance(default, str):
        return _words(name, text, bounds["one_of"])
    try:
        if isinstance(default, int) and not _WHOLE.fullmatch(text):
            raise ValueError(text)  # noqa: TRY301  # int() accepts more than Integer.parseInt
        value = type(default)(text)
    except ValueError:
        kind = "DOUBLE" if isinstance(default, float) else "INT" if bounds["high"] == INT_MAX else "LONG"
        raise _invalid(name, text, f"Not a number of type {kind}") from None
    low, high = bounds["low"], bounds["high"]
    if name == "compression.gzip.level" and value == 0:
        raise _invalid(name, text, "Value must be between 1 and 9 or equal to -1")
    if not low <= value:
        raise _invalid(name, text, f"Value must be at least {low}")
    if not value <= high:
        raise _invalid(name, text, f"Value must be no more than {high}")
    return value


def _words(name: str, text: str, one_of: tuple[str, ...] | None) -> str:
    if one_of is None:
        return text
    if one_of is not _POLICIES:
        if text not in one_of:
            raise _invalid(name, text, f"String must be one of: {', '.join(one_of)}")
        return text
    words = _COMMA.split(text) if text else []
    for word in words:
        if word not in one_of:
            raise _invalid(name, word, f"String must be one of: {', '.join(one_of)}")
    if len(set(words)) < len(words):
        raise UsageError(f"Configuration '{name}' values must not be duplicated.")
    return ",".join(words)


def _invalid(name: str, text: str, why: str) -> UsageError:
    return UsageError(f"Invalid value {text} for configuration {name}: {why}")

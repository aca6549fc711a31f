"""The topic settings that a log obeys, under Kafka's names. Mirrors LogConfig and TopicConfig."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from engine.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

LONG_MAX = 2**63 - 1
INT_MAX = 2**31 - 1
_DAY_MS = 24 * 3600 * 1000


def _setting(name: str, default: object, low: float = 0, high: float = LONG_MAX) -> object:
    return field(default=default, metadata={"name": name, "low": low, "high": high})


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Settings of one topic. Sizes in bytes, times in ms; LONG_MAX stands for never, −1 of retention for no limit."""

    segment_size: int = _setting("segment.bytes", 1 << 30, 14, INT_MAX)  # type: ignore[assignment]
    segment_ms: int = _setting("segment.ms", 7 * _DAY_MS, 1)  # type: ignore[assignment]
    segment_jitter_ms: int = _setting("segment.jitter.ms", 0)  # type: ignore[assignment]
    max_index_size: int = _setting("segment.index.bytes", 10 << 20, 4, INT_MAX)  # type: ignore[assignment]
    index_interval: int = _setting("index.interval.bytes", 4096, 0, INT_MAX)  # type: ignore[assignment]
    flush_messages: int = _setting("flush.messages", LONG_MAX, 1)  # type: ignore[assignment]
    flush_ms: int = _setting("flush.ms", LONG_MAX)  # type: ignore[assignment]
    retention_size: int = _setting("retention.bytes", -1, -(2**63))  # type: ignore[assignment]
    retention_ms: int = _setting("retention.ms", 7 * _DAY_MS, -1)  # type: ignore[assignment]
    max_message_size: int = _setting("max.message.bytes", (1 << 20) + 12, 0, INT_MAX)  # type: ignore[assignment]
    file_delete_delay_ms: int = _setting("file.delete.delay.ms", 60_000)  # type: ignore[assignment]
    delete_retention_ms: int = _setting("delete.retention.ms", _DAY_MS)  # type: ignore[assignment]
    min_compaction_lag_ms: int = _setting("min.compaction.lag.ms", 0)  # type: ignore[assignment]
    max_compaction_lag_ms: int = _setting("max.compaction.lag.ms", LONG_MAX, 1)  # type: ignore[assignment]
    min_cleanable_ratio: float = _setting("min.cleanable.dirty.ratio", 0.5, 0, 1)  # type: ignore[assignment]
    cleanup_policy: str = _setting("cleanup.policy", "delete")  # type: ignore[assignment]
    compression_type: str = _setting("compression.type", "producer")  # type: ignore[assignment]
    gzip_level: int = _setting("compression.gzip.level", -1, -1, 9)  # type: ignore[assignment]
    lz4_level: int = _setting("compression.lz4.level", 9, 1, 17)  # type: ignore[assignment]
    zstd_level: int = _setting("compression.zstd.level", 3, -131072, 22)  # type: ignore[assignment]
    preallocate: bool = _setting("preallocate", False)  # type: ignore[assignment]
    message_timestamp_type: str = _setting("message.timestamp.type", "CreateTime")  # type: ignore[assignment]
    message_timestamp_before_max_ms: int = _setting("message.timestamp.before.max.ms", LONG_MAX)  # type: ignore[assignment]
    message_timestamp_after_max_ms: int = _setting("message.timestamp.after.max.ms", 3_600_000)  # type: ignore[assignment]

    @property
    def compact(self) -> bool:
        """Is the topic compacted?"""
        return "compact" in self.cleanup_policy.split(",")

    @property
    def delete(self) -> bool:
        """Does retention by time and size apply?"""
        return "delete" in self.cleanup_policy.split(",")

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> LogConfig:
        """The configuration with `settings` (Kafka's names → text) over the defaults. Raises UsageError."""
        known = {f.metadata["name"]: f for f in fields(cls)}
        given: dict[str, object] = {}
        for name, text in settings.items():
            if name not in known:
                raise UsageError(f"{name}: no topic setting of that name is known")
            given[known[name].name] = _value(known[name], text)
        return cls(**given)  # type: ignore[arg-type]


def _value(setting: object, text: str) -> object:
    default, metadata = setting.default, setting.metadata  # type: ignore[attr-defined]
    name = metadata["name"]
    if isinstance(default, str):
        return ",".join(word.strip() for word in text.split(","))
    if isinstance(default, bool):
        if text.lower() not in ("true", "false"):
            raise UsageError(f"{name}: true or false is wanted, not {text!r}")
        return text.lower() == "true"
    try:
        value = type(default)(text)
    except ValueError:
        raise UsageError(f"{name}: a number is wanted, not {text!r}") from None
    if not metadata["low"] <= value <= metadata["high"]:
        raise UsageError(f"{name}: {text} is not between {metadata['low']} and {metadata['high']}")
    return value

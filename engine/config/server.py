"""server.properties: the log dirs of a broker, and its defaults for topic settings; the text format of java.util.Properties.

All other settings of the file are ignored. meta.properties has the same format.
Mirrors KafkaConfig.extractLogConfigMap and ServerTopicConfigSynonyms.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from engine.config.topic import LogConfig
from engine.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.files import ReadOnlyFiles

MAX_SERVER_PROPERTIES_SIZE = 1 << 20  # bytes
_MINUTE_MS, _HOUR_MS = 60_000, 3_600_000
DEDUPE_BUFFER_SIZE = "log.cleaner.dedupe.buffer.size"
_LINE_END = re.compile(r"\r\n|\n|\r")
_BLANKS = " \t\f"
_KEY = re.compile(r"(?:[^\\=: \t\f]|\\.)*", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_COMMA = re.compile(r"\s*,\s*")

# topic setting → its broker settings, of which the first one that is set counts; factor to the topic's unit
SYNONYMS: dict[str, tuple[tuple[str, int], ...]] = {
    "segment.bytes": (("log.segment.bytes", 1),),
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", _HOUR_MS)),
    "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _HOUR_MS)),
    "segment.index.bytes": (("log.index.size.max.bytes", 1),),
    "flush.messages": (("log.flush.interval.messages", 1),),
    "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    "retention.bytes": (("log.retention.bytes", 1),),
    "retention.ms": (
        ("log.retention.ms", 1), ("log.retention.minutes", _MINUTE_MS), ("log.retention.hours", _HOUR_MS),
    ),
    "max.message.bytes": (("message.max.bytes", 1),),
    "index.interval.bytes": (("log.index.interval.bytes", 1),),
    "delete.retention.ms": (("log.cleaner.delete.retention.ms", 1),),
    "min.compaction.lag.ms": (("log.cleaner.min.compaction.lag.ms", 1),),
    "max.compaction.lag.ms": (("log.cleaner.max.compaction.lag.ms", 1),),
    "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
    "min.cleanable.dirty.ratio": (("log.cleaner.min.cleanable.ratio", 1),),
    "cleanup.policy": (("log.cleanup.policy", 1),),
    "unclean.leader.election.enable": (("unclean.leader.election.enable", 1),),
    "min.insync.replicas": (("min.insync.replicas", 1),),
    "compression.type": (("compression.type", 1),),
    "compression.gzip.level": (("compression.gzip.level", 1),),
    "compression.lz4.level": (("compression.lz4.level", 1),),
    "compression.zstd.level": (("compression.zstd.level", 1),),
    "preallocate": (("log.preallocate", 1),),
    "message.timestamp.type": (("log.message.timestamp.type", 1),),
    "message.timestamp.before.max.ms": (("log.message.timestamp.before.max.ms", 1),),
    "message.timestamp.after.max.ms": (("log.message.timestamp.after.max.ms", 1),),
    "local.retention.ms": (("log.local.retention.ms", 1),),
    "local.retention.bytes": (("log.local.retention.bytes", 1),),
}


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """The settings of a broker that concern its logs.

    log_dirs          as in the file; empty if it is not set
    topic_settings    defaults for topics, under the topics' names
    dedupe_buffer_size  bytes for the cleaner's keys; None: not set
    values            all settings of the file, as text
    """

    log_dirs: tuple[str, ...] = ()
    metadata_log_dir: str | None = None
    node_id: int | None = None
    topic_settings: tuple[tuple[str, str], ...] = ()
    metadata_settings: tuple[tuple[str, str], ...] = ()
    producer_id_expiration_ms: int = 86_400_000
    max_transaction_timeout_ms: int = 900_000
    dedupe_buffer_size: int | None = None
    values: tuple[tuple[str, str], ...] = ()

    @property
    def topics(self) -> LogConfig:
        """Return the configuration of a topic without settings of its own."""
        return LogConfig.of(dict(self.topic_settings))

    @property
    def metadata_log(self) -> LogConfig:
        """Return the configuration of the metadata log, which has its own settings. Mirrors KafkaRaftLog.createLog."""
        return LogConfig.of({
            "max.message.bytes": "8388608", "retention.ms": "-1", "retention.bytes": "-1", **dict(self.metadata_settings),
        })

    def check(self) -> None:
        """Raise UsageError for settings of topics or of the metadata log that are out of range."""
        _ = self.topics
        try:
            _ = self.metadata_log
        except UsageError as error:
            raise UsageError(f"metadata.log: {error}", error.do) from error


def read_server_config(files: ReadOnlyFiles, path: str) -> ServerConfig:
    """Read the settings in the file at `path`. Raises UnreadableFile, UsageError for values that a broker would refuse."""
    properties = decode_properties(files.read(path, MAX_SERVER_PROPERTIES_SIZE))
    if properties.faults:
        number, what = properties.faults[0]
        raise UsageError(f"{path}: line {number}: {what}")
    try:
        return server_config(properties.values)
    except UsageError as error:
        raise UsageError(f"{path}: {error}", error.do) from error


def server_config(values: Mapping[str, str]) -> ServerConfig:
    """Convert the settings `values` (name → text). Raises UsageError for values that a broker would refuse."""
    names = values.get("log.dirs", values.get("log.dir"))
    log_dirs = tuple(word for word in _COMMA.split(names.strip()) if word) if names is not None else ()
    if len(set(log_dirs)) < len(log_dirs):
        raise UsageError("Configuration 'log.dirs' values must not be duplicated.")
    node_id = values.get("node.id", values.get("broker.id"))
    metadata = {
        "segment.bytes": values.get("internal.metadata.log.segment.bytes", values.get("metadata.log.segment.bytes")),
        "segment.ms": values.get("metadata.log.segment.ms"),
    }
    dedupe_buffer_size = values.get(DEDUPE_BUFFER_SIZE)
    config = ServerConfig(
        log_dirs,
        values.get("metadata.log.dir"),
        None if node_id is None else _number("node.id", node_id),
        tuple(topic_settings(values).items()),
        tuple((name, value) for name, value in metadata.items() if value is not None),
        _number("producer.id.expiration.ms", values.get("producer.id.expiration.ms", "86400000")),
        _number("transaction.max.timeout.ms", values.get("transaction.max.timeout.ms", "900000")),
        None if dedupe_buffer_size is None else _number(DEDUPE_BUFFER_SIZE, dedupe_buffer_size),
        tuple(values.items()),
    )
    config.check()
    return config


def topic_settings(values: Mapping[str, str]) -> dict[str, str]:
    """Convert a broker's settings to topic settings. A topic setting among `values` overrides the broker's.

    A negative retention time means no limit, as for the broker. Raises UsageError for invalid numbers.
    """
    found: dict[str, str] = {}
    for name, synonyms in SYNONYMS.items():
        given = next(((server, factor) for server, factor in synonyms if server in values), None)
        if given is not None:
            server, factor = given
            text = values[server].strip()
            found[name] = text if factor == 1 else str(_number(server, text) * factor)
            if name == "retention.ms" and found[name].startswith("-"):
                found[name] = "-1"
    own = {name: text for name, text in values.items() if name in SYNONYMS and (name, 1) not in SYNONYMS[name]}
    return {**found, **own}


def _number(name: str, text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text.strip()):
        raise UsageError(f"Invalid value {text} for configuration {name}: Not a number of type LONG")
    return int(text)


@dataclass(frozen=True, slots=True)
class Settings:
    """The user's settings for topics: server.properties, and `overrides`, which override every other source."""

    server: ServerConfig = field(default_factory=ServerConfig)
    overrides: tuple[tuple[str, str], ...] = ()

    @property
    def config(self) -> LogConfig:
        """Return the configuration of a topic without settings of its own. Raises UsageError for invalid settings."""
        return self.server.topics.with_settings(dict(self.overrides))

    def check(self) -> None:
        """Raise UsageError for settings that are unknown or out of range."""
        _ = self.config


# ---- java.util.Properties


class Properties(NamedTuple):
    """Keys and values; the last one of equal keys counts. `faults`: what java.util.Properties would refuse, by line number."""

    values: dict[str, str]
    faults: list[tuple[int, str]]


def decode_properties(data: bytes) -> Properties:
    """Decode a properties file: Latin-1, with escapes for other characters, comments, continued lines.

    Never raises: a line with a broken escape is a fault and is left out. Mirrors java.util.Properties.load.
    """
    values: dict[str, str] = {}
    faults: list[tuple[int, str]] = []
    for number, line in _logical_lines(data.decode("latin-1")):
        found = _KEY.match(line)
        end = found.end() if found else 0
        key, value = _unescape(line[:end]), _unescape(_after_separator(line[end:]))
        if key is None or value is None:
            faults.append((number, "malformed \\uxxxx encoding"))
        else:
            values[key] = value
    return Properties(values, faults)


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Return (number of its first line, text) of each entry, continued lines joined, without comments and blank lines."""
    lines: list[tuple[int, str]] = []
    parts: list[str] = []
    first = 0
    for number, raw in enumerate(_LINE_END.split(text), 1):
        line = raw.lstrip(_BLANKS)
        if not any(parts):  # also after a line that is only a backslash
            parts.clear()
            if not line or line[0] in "#!":
                continue
            first = number
        continued = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        parts.append(line[:-1] if continued else line)
        if not continued:
            lines.append((first, "".join(parts)))
            parts = []
    if any(parts):
        lines.append((first, "".join(parts)))
    return lines


def _after_separator(rest: str) -> str:
    rest = rest.lstrip(_BLANKS)
    return rest[1:].lstrip(_BLANKS) if rest[:1] in ("=", ":") else rest


def _unescape(text: str) -> str | None:
    """Return `text` with escapes resolved; None for a Unicode escape without four hex digits."""
    if "\\" not in text:
        return text
    broken = False

    def resolve(found: re.Match[str]) -> str:
        nonlocal broken
        escape = found[1]
        if len(escape) > 1:
            return chr(int(escape[1:], 16))
        broken |= escape == "u"
        return _CONTROL.get(escape, escape)

    resolved = _ESCAPE.sub(resolve, text)
    # Java's characters are UTF-16 units: two escapes may be one character
    return None if broken else resolved.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

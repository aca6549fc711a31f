"""Names and suffixes of Kafka's files and directories.

Mirrors LogFileUtils, LocalLog.parseTopicPartitionName and Snapshots.parse. A name is no proof of a file's content.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from engine.formats import INT_MAX, LONG_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable

METADATA_TOPIC = "__cluster_metadata"  # of a KRaft cluster; it has one partition, which only controllers write
INTERNAL_TOPICS = frozenset(("__consumer_offsets", "__transaction_state", "__share_group_state"))  # Topic.INTERNAL_TOPICS
URL = re.compile(r"([a-z][a-z0-9+.-]*)://([^/]*)(.*)", re.DOTALL)
_TOPIC = re.compile("[a-zA-Z0-9._-]{1,249}")  # org.apache.kafka.common.internals.Topic


class FileKind(Enum):
    """The kind of a file according to its name. The value is the suffix or the whole name."""

    LOG = ".log"
    OFFSET_INDEX = ".index"
    TIME_INDEX = ".timeindex"
    TRANSACTION_INDEX = ".txnindex"
    PRODUCER_SNAPSHOT = ".snapshot"
    LOG_07 = ".kafka"  # Kafka 0.7, where the offset of a message is its byte position
    KRAFT_SNAPSHOT = ".checkpoint"  # <offset>-<epoch>.checkpoint, record batches inside
    BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"  # record batches too
    LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
    PARTITION_METADATA = "partition.metadata"
    QUORUM_STATE = "quorum-state"
    META_PROPERTIES = "meta.properties"
    RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
    REPLICATION_CHECKPOINT = "replication-offset-checkpoint"
    LOG_START_CHECKPOINT = "log-start-offset-checkpoint"
    CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
    CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
    LOCK = ".lock"


LOGS = (FileKind.LOG, FileKind.KRAFT_SNAPSHOT, FileKind.BOOTSTRAP_CHECKPOINT)  # kinds of files that hold record batches


class FileName(NamedTuple):
    """The parts of a file name.

    base_offset  the number before the first dot: base offset of a segment, end offset of a snapshot; None if the kind has
                 none, or if it is not a 64-bit number
    epoch        of a KRaft snapshot
    suffix       added by Kafka: "", ".deleted", ".cleaned", ".swap", ".part", ".tmp", or several of them
    remote_id    22 characters: a file of the remote index cache, <offset>_<id>.index
    """

    kind: FileKind
    base_offset: int | None = None
    epoch: int | None = None
    suffix: str = ""
    remote_id: str | None = None


class PartitionKind(Enum):
    """The state of a partition directory. The value is the suffix of its name."""

    PLAIN = ""
    DELETE = "-delete"  # its topic was deleted, or the copy in another log dir replaced it
    FUTURE = "-future"  # being copied from another log dir
    STRAY = "-stray"  # this broker is not a replica any more


class PartitionDir(NamedTuple):
    """The parts of the name of a partition directory. `unique_id`: 32 hex digits, None for a plain directory."""

    topic: str
    partition: int
    kind: PartitionKind = PartitionKind.PLAIN
    unique_id: str | None = None


# kinds whose names begin with a base offset
NUMBERED = (
    FileKind.LOG,
    FileKind.OFFSET_INDEX,
    FileKind.TIME_INDEX,
    FileKind.TRANSACTION_INDEX,
    FileKind.PRODUCER_SNAPSHOT,
    FileKind.LOG_07,
    FileKind.KRAFT_SNAPSHOT,
)
_BY_SUFFIX = {kind.value: kind for kind in NUMBERED}
_BY_NAME = {kind.value: kind for kind in FileKind if kind not in NUMBERED}
_ORDER = {kind: at for at, kind in enumerate(FileKind)}
DELETED = ".deleted"  # suffix of files that a broker will delete
CLEANED, SWAP = ".cleaned", ".swap"  # suffixes of new segments: not complete yet; complete, and about to replace others
LOG_SWAP = FileKind.LOG.value + SWAP
ASIDE = ".kafkalog"  # suffix of the new version of a file while it is written; Kafka ignores the name
_ADDED_SUFFIXES = ("", SWAP, CLEANED, DELETED, ".part", ".tmp")

_ADDED = re.compile(r"(?:\.(?:deleted|cleaned|swap|part|tmp))+\Z")
_LONG = re.compile(r"[+-]?[0-9]+")
_REMOTE = re.compile(r"([0-9]+)_([A-Za-z0-9_-]{22})")
_KRAFT = re.compile(r"([0-9]+)-([0-9]+)(?:-[0-9]+)?")  # the third number is in names of temporary files
_MARKED_DIR = re.compile(r"(.*)\.([^\s.]+)(-delete|-future|-stray)", re.DOTALL)


def file_name(path: str) -> str:
    """Return the last part of a path, as java.io.File.getName does."""
    return path.rstrip("/").rpartition("/")[2]


def parse_file_name(name: str) -> FileName | None:
    """Parse a name without directories; None for names that Kafka does not use.

    Accepts what Kafka's tools accept: `12.log`, `-5.index` and `2.foo.log` have a base offset, `abc.log` is a log without one.
    `canonical_name` returns the name that Kafka would write.
    """
    if name in _BY_NAME:
        return FileName(_BY_NAME[name])
    added = _ADDED.search(name)
    suffix = added.group() if added else ""
    stem = name[: len(name) - len(suffix)]
    if stem in _BY_NAME:
        return FileName(_BY_NAME[stem], suffix=suffix)
    dot = stem.rfind(".")
    kind = _BY_SUFFIX.get(stem[dot:]) if dot >= 0 else None
    if kind is None:
        return None
    number = stem[: stem.index(".")]
    if kind is FileKind.KRAFT_SNAPSHOT:
        found = _KRAFT.fullmatch(number)
        offset, epoch = (_bounded(found[1], LONG_MAX), _bounded(found[2], INT_MAX)) if found else (None, None)
        return FileName(kind, offset, epoch, suffix)
    remote = _REMOTE.fullmatch(number)
    if remote:
        return FileName(kind, _bounded(remote[1], LONG_MAX), None, suffix, remote[2])
    return FileName(kind, parse_long(number), None, suffix)


def parse_long(text: str) -> int | None:
    """Parse a decimal number of 64 bits; None for any other text. Mirrors Long.parseLong for ASCII."""
    is_number = (text.isdigit() and text.isascii()) or _LONG.fullmatch(text)  # the first test is faster and usually enough
    return _bounded(text, LONG_MAX) if is_number else None


def offset_of(name: str) -> int | None:
    """Return the offset before the first dot; None if there is none. Mirrors LogFileUtils.offsetFromFileName."""
    number, dot, _ = name.partition(".")
    return parse_long(number) if dot else None


def parse_int(text: str) -> int | None:
    """Parse a decimal number of 32 bits; None for any other text. Mirrors Integer.parseInt for ASCII."""
    return _bounded(text, INT_MAX) if _LONG.fullmatch(text) else None


def _bounded(digits: str, largest: int) -> int | None:
    if len(digits) > 64:  # leading zeros are valid, but int() is slow for very many digits
        return None
    number = int(digits)
    return number if -largest - 1 <= number <= largest else None


def canonical_name(name: FileName) -> str | None:
    """Return the name that Kafka would write; None if the offset is missing."""
    if name.kind not in NUMBERED:
        return name.kind.value + name.suffix
    if name.base_offset is None:
        return None
    stem = _digits(name.base_offset)
    if name.kind is FileKind.KRAFT_SNAPSHOT:
        if name.epoch is None:
            return None
        stem += f"-{name.epoch:010d}"
    if name.remote_id is not None:
        stem = f"{name.base_offset}_{name.remote_id}"
    return stem + name.kind.value + name.suffix


def _digits(offset: int) -> str:
    """Return 20 digits, after a sign if negative. Mirrors LogFileUtils.filenamePrefixFromOffset."""
    return f"-{-offset:020d}" if offset < 0 else f"{offset:020d}"


# constants: these functions run for every file of a log dir, and access to the value of an enum is slow
_LOG, _OFFSET_INDEX, _TIME_INDEX = FileKind.LOG.value, FileKind.OFFSET_INDEX.value, FileKind.TIME_INDEX.value
_TRANSACTION_INDEX, _PRODUCER_SNAPSHOT = FileKind.TRANSACTION_INDEX.value, FileKind.PRODUCER_SNAPSHOT.value


def is_topic_name(name: str) -> bool:
    """Return whether `name` is a valid topic name. Mirrors Topic.isValid."""
    return _TOPIC.fullmatch(name) is not None and name not in (".", "..")


def is_log_file_name(name: str) -> bool:
    """Return whether `name` is the name of a segment's .log as Kafka writes it."""
    return name[20:] == _LOG and name[:20].isascii() and name[:20].isdigit()


def offset_of_brokers(name: str, suffix: str) -> int | None:
    """Return the base offset of a name that Kafka writes and that ends with `suffix`; None for any other name."""
    digits = name[:20]
    return _bounded(digits, LONG_MAX) if name[20:] == suffix and digits.isascii() and digits.isdigit() else None


def log_file_name(base_offset: int, suffix: str = "") -> str:
    """Return the name of the log of a segment."""
    return _digits(base_offset) + _LOG + suffix


def offset_index_file_name(base_offset: int, suffix: str = "") -> str:
    """Return the name of the offset index of a segment."""
    return _digits(base_offset) + _OFFSET_INDEX + suffix


def time_index_file_name(base_offset: int, suffix: str = "") -> str:
    """Return the name of the time index of a segment."""
    return _digits(base_offset) + _TIME_INDEX + suffix


def transaction_index_file_name(base_offset: int, suffix: str = "") -> str:
    """Return the name of the transaction index of a segment."""
    return _digits(base_offset) + _TRANSACTION_INDEX + suffix


def producer_snapshot_file_name(offset: int, suffix: str = "") -> str:
    """Return the name of the producer snapshot taken at log end offset `offset`."""
    return _digits(offset) + _PRODUCER_SNAPSHOT + suffix


# the files of a segment, in the order of their deletion: without its .log the other files are not used
SEGMENT_FILE_NAMES = (
    log_file_name, offset_index_file_name, time_index_file_name, transaction_index_file_name, producer_snapshot_file_name,
)  # fmt: skip


def parse_partition_dir(name: str) -> PartitionDir | None:
    """Parse the name of a directory; None if it is not a partition's.

    The partition number follows the last dash: topic names may contain dots, dashes and underscores.
    Mirrors LocalLog.parseTopicPartitionName.
    """
    marked = _MARKED_DIR.fullmatch(name)
    if marked:
        plain, unique_id, kind = marked[1], marked[2], PartitionKind(marked[3])
    elif name.endswith(("-delete", "-future", "-stray")):
        return None
    else:
        plain, unique_id, kind = name, None, PartitionKind.PLAIN
    topic, dash, number = plain.rpartition("-")
    partition = parse_int(number)
    if not dash or not topic or partition is None:
        return None
    return PartitionDir(topic, partition, kind, unique_id)


def partition_of(path: str) -> PartitionDir | None:
    """Return the partition whose directory holds the file at `path` (absolute); None: not a partition directory."""
    return parse_partition_dir(file_name(parent_of(path)))


def parent_of(path: str) -> str:
    """Return the directory of `path`; `/` for a path in the root."""
    parent = path.rstrip("/").rpartition("/")[0]
    while parent.endswith("/."):
        parent = parent[:-2]
    return parent or "/"


def is_at_or_below(path: str, directory: str) -> bool:
    """Is `path` the path of `directory` or of something in it?"""
    return f"{path}/".startswith(f"{directory}/")


def file_order(name: str) -> tuple[int, int, int, str, int, str]:
    """Sort key: by base offset; files of a segment in the order log, index, timeindex, txnindex, snapshot, plain ones before
    `.swap`, `.cleaned` and `.deleted` ones; then files without offset; then names that are not Kafka's.
    """
    parsed = parse_file_name(name)
    if parsed is None:
        return 2, 0, 0, "", 0, name
    suffix_rank = _ADDED_SUFFIXES.index(parsed.suffix) if parsed.suffix in _ADDED_SUFFIXES else len(_ADDED_SUFFIXES)
    if parsed.base_offset is None:
        return 1, 0, suffix_rank, "", _ORDER[parsed.kind], name
    return 0, parsed.base_offset, suffix_rank, parsed.remote_id or "", _ORDER[parsed.kind], name


def directory_order(name: str) -> tuple[bool, str, int, str]:
    """Sort key: partitions by topic and number, then other directories by name."""
    parsed = parse_partition_dir(name)
    return (True, name, 0, "") if parsed is None else (False, parsed.topic, parsed.partition, name)


def log_base_offsets(names: Iterable[str], suffix: str = "") -> list[int]:
    """Return the base offsets of the logs with that suffix among `names`, ascending."""
    parsed = ((name, parse_file_name(name)) for name in names)
    return sorted(
        one.base_offset for name, one in parsed
        if one is not None and one.kind is FileKind.LOG and one.base_offset is not None and one.suffix == suffix
        and one.remote_id is None and canonical_name(one) == name
    )  # fmt: skip


def is_url(path: str) -> bool:
    """Does the path begin with a scheme (s3://BUCKET/KEY)?"""
    return URL.match(path) is not None

"""Where a RemoteStorageManager keeps the parts of a segment, and how a store is recognised."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from engine.discovery.names import offset_index_file_name, time_index_file_name, transaction_index_file_name
from engine.errors import UsageError
from engine.formats import INT_MAX, LONG_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.remote.metadata import PartitionMetadata, RemoteSegment
    from engine.remote.storage import Store

MAX_INDEX_SIZE = 64 << 20  # bytes; a broker's log.index.size.max.bytes is 10 MiB by default
_PIECE = 8 << 20  # bytes of a log that are read at once
_LOOKED_AT = 1000  # objects, to recognise a layout


class IndexKind(IntEnum):
    """Parts of a segment besides its log. Mirrors RemoteStorageManager.IndexType."""

    OFFSET = 0
    TIMESTAMP = 1
    PRODUCER_SNAPSHOT = 2
    TRANSACTION = 3
    LEADER_EPOCH = 4


# file names of the indexes that have the base offset of their segment
INDEX_FILE_NAMES = {
    IndexKind.OFFSET: offset_index_file_name, IndexKind.TIMESTAMP: time_index_file_name,
    IndexKind.TRANSACTION: transaction_index_file_name,
}  # fmt: skip


class SegmentParts(Protocol):
    """The parts of one remote segment. Raises UnreadableFile, FileChangedWhileReading; CorruptObject where one is damaged."""

    def keys(self, segment: RemoteSegment) -> dict[str, int | None]:
        """The keys of all objects of the segment, with the size by its metadata; None: unknown. −1: it may be missing."""
        ...

    def path(self, kind: IndexKind | None) -> str:
        """The object that holds a part as errors and findings name it; None: the log."""
        ...

    def log_size(self) -> int:
        """Bytes of the log."""
        ...

    def read_log(self, start: int, end: int) -> bytes | memoryview:
        """Bytes [start, end) of the log."""
        ...

    def index(self, kind: IndexKind) -> bytes | None:
        """The bytes of another part; None: there is none."""
        ...


def log_pieces(parts: SegmentParts, at_once: int = _PIECE) -> Iterator[bytes]:
    """The bytes of a log, one piece at a time."""
    size = parts.log_size()
    for at in range(0, size, at_once):
        yield bytes(parts.read_log(at, min(at + at_once, size)))


class Layout(Protocol):
    """How a RemoteStorageManager arranges objects in a store.

    name, prefix  see Recognised        store  where they are
    last_parts    what of a segment is written last: without one of these its upload, or its deletion, was cut off
    """

    name: str
    prefix: str
    store: Store
    last_parts: frozenset[str]

    def segment(self, named: ObjectName) -> tuple[RemoteSegment | None, SegmentParts]:
        """The segment that has objects of these names, as far as they say themselves what it is, and its parts.

        Raises CorruptObject, UnreadableFile.
        """
        ...

    def parts(self, partition: PartitionMetadata, segment: RemoteSegment) -> SegmentParts:
        """The parts of a segment; nothing is read yet."""
        ...

    def refuse_new(self) -> None:
        """Raise UsageError where a new segment would not be stored as the others are."""
        ...

    def objects(
        self, partition: PartitionMetadata, segment: RemoteSegment, parts: SegmentParts
    ) -> Iterator[tuple[str, int, Iterable[bytes]]]:
        """(key, size, bytes) of the objects that a new segment becomes, in the order in which they are written."""
        ...


class Recognised(NamedTuple):
    """What the keys of a store look like: `name` of the layout, prefix of its keys."""

    name: str
    prefix: str


class ObjectName(NamedTuple):
    """What a key says.

    stem  of the keys of all parts of the segment        part  what follows it
    """

    prefix: str
    topic: str
    topic_id: str
    partition: int
    base_offset: int
    segment_id: str
    stem: str
    part: str


_ID = r"[A-Za-z0-9_-]{22}"
_SEGMENT = rf"(?P<base_offset>\d{{20}})-(?P<segment_id>{_ID}))"
_BEFORE = r"(?P<prefix>(?:.*/)?)"
_NAME, _NUMBER = r"(?P<topic>[^/]+)", r"(?P<partition>\d{1,10})"
_PARTS = "log|index|timeindex|txnindex|snapshot|leader_epoch_checkpoint"
_KEYS = {
    "local": re.compile(rf"(?P<stem>{_BEFORE}{_NAME}-{_NUMBER}-(?P<topic_id>{_ID})/{_SEGMENT}\.(?P<part>{_PARTS})"),
    "aiven": re.compile(
        rf"(?P<stem>{_BEFORE}{_NAME}-(?P<topic_id>{_ID})/{_NUMBER}/{_SEGMENT}\.(?P<part>log|indexes|rsm-manifest)"
    ),
}  # by the name of the layout
_OTHERS = (
    (re.compile(r"(?:.*/)?\d{20}_\d+_v\d+\.[a-z-]+"), "Confluent Tiered Storage"),
    (re.compile(r"(?:.*/)?[0-9a-f]{8}/(?:meta/)?kafka/[^/]+/\d+_\d+/.+"), "Redpanda"),
)


def parse_key(layout: str, key: str, prefix: str = "") -> ObjectName | None:
    """What a key behind `prefix` says in the layout called `layout`; None: it is not of that layout."""
    match = _KEYS[layout].fullmatch(key[len(prefix) :])
    if match is None or int(match["partition"]) > INT_MAX or int(match["base_offset"]) > LONG_MAX:
        return None
    return ObjectName(
        prefix + match["prefix"], match["topic"], match["topic_id"], int(match["partition"]), int(match["base_offset"]),
        match["segment_id"], prefix + match["stem"], match["part"],
    )  # fmt: skip


def recognise(store: Store, prefix: str = "") -> Recognised:
    """The layout of the store, by its first keys below `prefix`. Raises UsageError where it is none that is known."""
    seen = ""
    for number, found in enumerate(store.list(prefix)):
        if number == _LOOKED_AT:
            break
        seen = seen or found.key
        for name in _KEYS:
            parsed = parse_key(name, found.key)
            if parsed is not None:
                return Recognised(name, prefix or parsed.prefix)
        for keys, owner in _OTHERS:
            if keys.fullmatch(found.key):
                what = f"{store.path(found.key)}: objects of {owner}, whose format is not that of Kafka's tiered storage"
                raise UsageError(what, "use the tools of that system")
    if not seen:
        raise UsageError(f"{store.path(prefix)}: it holds no object", "name the bucket or folder that holds the segments")
    what = f"{store.path(seen)}: not an object of LocalTieredStorage or of Aiven's RemoteStorageManager"
    raise UsageError(what, "name the store's folder or prefix, and the layout by --layout")

"""The layouts in which a RemoteStorageManager stores the parts of a segment, and their recognition by keys."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from engine.discovery.names import is_topic_name, offset_index_file_name, time_index_file_name, transaction_index_file_name
from engine.errors import UsageError
from engine.formats import INT_MAX, LONG_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.remote.metadata import PartitionMetadata, RemoteSegment
    from engine.remote.storage import Store

MAX_INDEX_SIZE = 64 << 20  # bytes; a broker's log.index.size.max.bytes is 10 MiB by default
_PIECE = 8 << 20  # bytes of a log that are read by one request
_MAX_EXAMINED = 1000  # objects, to recognise a layout


class IndexKind(IntEnum):
    """Parts of a segment besides its log. Mirrors RemoteStorageManager.IndexType."""

    OFFSET = 0
    TIMESTAMP = 1
    PRODUCER_SNAPSHOT = 2
    TRANSACTION = 3
    LEADER_EPOCH = 4


# of the indexes whose file name has the base offset of the segment
INDEX_FILE_NAMES = {
    IndexKind.OFFSET: offset_index_file_name, IndexKind.TIMESTAMP: time_index_file_name,
    IndexKind.TRANSACTION: transaction_index_file_name,
}  # fmt: skip


class SegmentParts(Protocol):
    """The parts of one remote segment. Raises UnreadableFile, FileChangedWhileReading; CorruptObject for a damaged part."""

    @property
    def are_indexes_together(self) -> bool:
        """Does one request read all parts besides the log?"""
        ...

    def keys(self, segment: RemoteSegment) -> dict[str, int | None]:
        """Return the size by key for all objects of the segment; None: the size is unknown, −1: the object may be missing."""
        ...

    def path(self, kind: IndexKind | None) -> str:
        """Return the name for errors and findings of the object that contains a part; `kind` None: the log."""
        ...

    def log_size(self, position: int | None = None) -> int:
        """Return the size of the log in bytes. `position`: the byte that is read next, so one request may get both."""
        ...

    def read_log(self, start: int, end: int) -> bytes | memoryview:
        """Read bytes [start, end) of the log."""
        ...

    def index(self, kind: IndexKind) -> bytes | None:
        """Read another part; None: the segment does not have it."""
        ...

    def described(self) -> tuple[str, RemoteSegment] | None:
        """Return (path, metadata) if an object contains the metadata of the segment, as when its copy began; else None."""
        ...


def log_pieces(parts: SegmentParts, at_once: int = _PIECE) -> Iterator[bytes]:
    """Read a log in pieces of at most `at_once` bytes."""
    size = parts.log_size()
    for at in range(0, size, at_once):
        yield bytes(parts.read_log(at, min(at + at_once, size)))


class Layout(Protocol):
    """How a RemoteStorageManager arranges objects in a store.

    name, prefix  see Recognised
    store         contains the objects
    last_parts    if one of these parts is missing, the upload or the deletion of the segment was interrupted
    """

    name: str
    prefix: str
    store: Store
    last_parts: frozenset[str]

    def segment(self, named: ObjectName) -> tuple[RemoteSegment | None, SegmentParts]:
        """Return (segment, parts) for a key. The segment comes from the objects; None: they do not contain its metadata.

        Raises CorruptObject, UnreadableFile.
        """
        ...

    def parts(self, partition: PartitionMetadata, segment: RemoteSegment) -> SegmentParts:
        """Return the parts of a segment; reads nothing yet."""
        ...

    def refuse_new(self) -> None:
        """Raise UsageError if a new segment cannot be stored in the same way as the newest one."""
        ...

    def objects(
        self, partition: PartitionMetadata, segment: RemoteSegment, parts: SegmentParts
    ) -> Iterator[tuple[str, int, Iterable[bytes]]]:
        """Return (key, size, bytes) of the objects of a new segment, in the order in which they are written."""
        ...


class Recognised(NamedTuple):
    """A recognised layout: its name, and the prefix of its keys."""

    name: str
    prefix: str


class ObjectName(NamedTuple):
    """The parsed key of an object.

    stem  the common start of the keys of all parts of the segment
    part  the rest of the key
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
    """Parse a key that begins with `prefix` in the layout named `layout`; None: the key does not match the layout."""
    match = _KEYS[layout].fullmatch(key[len(prefix) :])
    if match is None or not is_topic_name(match["topic"]):
        return None
    if int(match["partition"]) > INT_MAX or int(match["base_offset"]) > LONG_MAX:
        return None
    return ObjectName(
        prefix + match["prefix"], match["topic"], match["topic_id"], int(match["partition"]), int(match["base_offset"]),
        match["segment_id"], prefix + match["stem"], match["part"],
    )  # fmt: skip


def recognise(store: Store, prefix: str = "") -> Recognised:
    """Recognise the layout of the store by its first keys below `prefix`. Raises UsageError for an unknown layout."""
    seen = ""
    for number, found in enumerate(store.list(prefix)):
        if number == _MAX_EXAMINED:
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

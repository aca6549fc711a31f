"""The manifest of a segment in the layout of Aiven's RemoteStorageManager: chunks of the log, positions of the indexes."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.checkpoint.identity import is_uuid
from engine.discovery.names import is_topic_name
from engine.errors import KafkalogError
from engine.formats import INT_MAX, LONG_MAX, Codec
from engine.record.codecs.codecs import InflateStatus, inflate
from engine.remote.layouts import IndexKind
from engine.remote.metadata import RemoteSegment
from engine.remote.records import State
from engine.schema.json_text import uuid_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_MANIFEST_SIZE = 64 << 20  # bytes; at most 4 per chunk, in base64: 11 MiB for 2 GiB in chunks of 1 KiB
_MAX_CHUNKS = 1 << 22
_INDEXES = {
    "offset": IndexKind.OFFSET, "timestamp": IndexKind.TIMESTAMP, "producerSnapshot": IndexKind.PRODUCER_SNAPSHOT,
    "leaderEpoch": IndexKind.LEADER_EPOCH, "transaction": IndexKind.TRANSACTION,
}  # fmt: skip

STORED_ORDER = (
    IndexKind.OFFSET, IndexKind.TIMESTAMP, IndexKind.PRODUCER_SNAPSHOT, IndexKind.LEADER_EPOCH, IndexKind.TRANSACTION,
)  # fmt: skip  # of the indexes in their object
CHUNK_SIZE = 4 << 20  # bytes; default of chunk.size
_ZSTD_LEVEL = 3  # the default of zstd


class CorruptObject(KafkalogError):
    """An object of a store with content that its RemoteStorageManager does not write."""

    code = "corrupt-object"


class Chunk(NamedTuple):
    """Bytes [start, end) of the log, stored as bytes [at, stored_end) of the object."""

    start: int
    end: int
    at: int
    stored_end: int


class DescribedSegment(NamedTuple):
    """The segment in a manifest: (topic, topic id, partition), and Kafka's metadata at the start of the copy."""

    partition: tuple[str, str, int]
    metadata: RemoteSegment


class Manifest(NamedTuple):
    """A manifest. Mirrors SegmentManifestV1.

    original_size  bytes of the log
    chunk_size     bytes of each of its chunks except the last
    stored         position of each chunk in the object, and the end of the last one
    indexes        (position, stored size) of each existing index
    key            wrapped data key as `id:base64`; None: not encrypted
    aad            additional authenticated data; None: not encrypted
    segment        None: not in the manifest, which is older than September 2023
    """

    original_size: int
    chunk_size: int
    stored: Sequence[int]
    indexes: dict[IndexKind, tuple[int, int]]
    is_compressed: bool
    key: str | None
    aad: bytes | None
    segment: DescribedSegment | None

    def chunks(self, start: int, end: int) -> list[Chunk]:
        """Return the chunks that contain bytes [start, end) of the log."""
        if start >= end:
            return []
        size = self.chunk_size
        return [
            Chunk(number * size, min((number + 1) * size, self.original_size), self.stored[number], self.stored[number + 1])
            for number in range(start // size, (end - 1) // size + 1)
        ]


def parse_manifest(data: bytes, path: str) -> Manifest:
    """Parse a manifest; `path` names it in errors. Raises CorruptObject."""
    try:
        fields = json.loads(data)
        _refuse_unless(fields["version"] == "1", f"version {str(fields['version'])[:20]!r}, which is not known")
        chunk_index = fields["chunkIndex"]
        original, size = _size(chunk_index["originalFileSize"]), _size(chunk_index["originalChunkSize"])
        count = -(-original // size)
        sizes = _stored_sizes(chunk_index, count)
        indexes = {
            kind: (_size(extent["position"]), _size(extent["size"]))
            for name, kind in _INDEXES.items() if (extent := fields["segmentIndexes"][name]) is not None
        }
        encryption = fields.get("encryption")
        key = None if encryption is None else str(encryption["dataKey"])
        aad = None if encryption is None else b64decode(encryption["aad"], validate=True)
        stored = list(accumulate(sizes, initial=0))
        segment = _segment(fields.get("remoteLogSegmentMetadata"), original)
        return Manifest(original, size, stored, indexes, bool(fields["compression"]), key, aad, segment)
    except (ValueError, KeyError, TypeError, ZeroDivisionError, RecursionError, Base64Error) as error:
        raise CorruptObject(f"{path}: not a manifest of a segment: {_why(error)}", path=path) from error


class StoredChunks(NamedTuple):
    """The chunks of a log in its object.

    chunk_size  bytes of each chunk of the log except the last    sizes  stored sizes in bytes
    """

    chunk_size: int
    is_compressed: bool
    sizes: Sequence[int]


def encode_manifest(
    partition: tuple[str, str, int], segment: RemoteSegment, sizes: dict[IndexKind, int | None], chunks: StoredChunks,
    sealed: tuple[str, bytes] | None = None,
) -> bytes:  # fmt: skip
    """Encode the manifest of a segment.

    partition  (topic, topic id, number)
    sizes      stored size of each index, stored one after the other; None: the segment does not have it
    sealed     (wrapped key, additional authenticated data); None: not encrypted
    """
    topic, topic_id, number = partition
    extents: dict[str, dict[str, int] | None] = {}
    at = 0
    names = {kind: name for name, kind in _INDEXES.items()}
    for kind in STORED_ORDER:
        size = sizes[kind]
        extents[names[kind]] = None if size is None else {"position": at, "size": size}
        at += size or 0
    stored: dict[str, object] = {
        "type": "fixed", "originalChunkSize": chunks.chunk_size, "originalFileSize": segment.size,
        "transformedChunkSize": chunks.sizes[0], "finalTransformedChunkSize": chunks.sizes[-1],
    }  # fmt: skip
    if len(chunks.sizes) == 1 and not chunks.is_compressed:  # as if there were more
        stored["transformedChunkSize"] = chunks.chunk_size + chunks.sizes[0] - segment.size
    if chunks.is_compressed:
        stored = {
            "type": "variable", "originalChunkSize": chunks.chunk_size, "originalFileSize": segment.size,
            "transformedChunks": b64encode(encode_chunk_sizes(chunks.sizes)).decode(),
        }  # fmt: skip
    fields = {
        "version": "1",
        "chunkIndex": stored,
        "segmentIndexes": extents,
        "compression": chunks.is_compressed,
        **({} if sealed is None else {"encryption": {"dataKey": sealed[0], "aad": b64encode(sealed[1]).decode()}}),
        "remoteLogSegmentMetadata": {
            "remoteLogSegmentId": {
                "topicIdPartition": {"topicId": topic_id, "topicPartition": {"topic": topic, "partition": number}},
                "id": segment.name,
            },
            "startOffset": segment.start_offset, "endOffset": segment.end_offset, "maxTimestampMs": segment.max_timestamp_ms,
            "brokerId": segment.broker_id, "eventTimestampMs": segment.event_timestamp_ms,
            "segmentLeaderEpochs": {str(epoch): start for epoch, start in segment.leader_epochs},
            "txnIdxEmpty": segment.txn_index_empty,
        },
    }  # fmt: skip
    return json.dumps(fields, separators=(",", ":")).encode()


def _segment(fields: dict[str, Any] | None, size: int) -> DescribedSegment | None:
    if fields is None:
        return None
    ids = fields["remoteLogSegmentId"]
    ids_of_partition, topic = ids["topicIdPartition"], ids["topicIdPartition"]["topicPartition"]
    for text in (ids["id"], ids_of_partition["topicId"]):
        _refuse_unless(is_uuid(text), f"{str(text)[:30]!r} is not an id")
    name = topic["topic"]
    _refuse_unless(isinstance(name, str) and is_topic_name(name), f"{str(name)[:30]!r} is not the name of a topic")
    start, end = _long(fields["startOffset"]), _long(fields["endOffset"])
    of_epochs = fields["segmentLeaderEpochs"]
    _refuse_unless(isinstance(of_epochs, dict), "it has no leader epochs")
    epochs = sorted((_size(int(epoch)), _long(offset)) for epoch, offset in of_epochs.items())
    _refuse_unless(start <= end and bool(epochs), "its offsets or leader epochs are those of no segment")
    timestamp, broker = _number(fields["maxTimestampMs"], LONG_MAX), _number(fields["brokerId"], INT_MAX)
    segment = RemoteSegment(
        uuid_bytes(ids["id"]), State.COPY_SEGMENT_FINISHED, start, end, size, timestamp, broker,
        _long(fields["eventTimestampMs"]), bool(fields.get("txnIdxEmpty")), tuple(epochs), None,
    )  # fmt: skip
    return DescribedSegment((name, ids_of_partition["topicId"], _size(topic["partition"])), segment)


def _long(value: Any) -> int:
    _refuse_unless(isinstance(value, int) and 0 <= value <= LONG_MAX, f"{str(value)[:20]!r} is not an offset")
    return int(value)


def _number(value: Any, most: int) -> int:
    _refuse_unless(isinstance(value, int) and -most <= value <= most, f"{str(value)[:20]!r} is too large, or not a number")
    return int(value)


def _refuse_unless(is_right: bool, what: str) -> None:
    if not is_right:
        raise ValueError(what)


def _why(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def _size(value: Any) -> int:
    if not isinstance(value, int) or not 0 <= value <= INT_MAX:
        raise ValueError(f"{str(value)[:20]!r} is not a size")
    return value


def _stored_sizes(index: dict[str, Any], count: int) -> list[int]:
    """Return the stored size of each chunk in bytes. Mirrors FixedSizeChunkIndex, VariableSizeChunkIndex."""
    if count > _MAX_CHUNKS:
        raise ValueError(f"{count} chunks")
    if index["type"] == "fixed":
        last = [_size(index["finalTransformedChunkSize"])] if count else []
        return [_size(index["transformedChunkSize"])] * max(count - 1, 0) + last
    if index["type"] == "variable":
        return decode_chunk_sizes(b64decode(index["transformedChunks"], validate=True), count)
    raise ValueError(f"chunk index of type {str(index['type'])[:20]!r}")


def unpack_zstd(data: bytes, limit: int) -> bytes:
    """Decompress a zstd frame. Raises ValueError if it is damaged, or has more than `limit` bytes."""
    inflated = inflate(Codec.ZSTD, data, limit)
    if inflated.status is not InflateStatus.OK:
        raise ValueError("the zstd frame is damaged, or larger than it may be")
    return bytes(inflated.data)


def pack_zstd(data: bytes) -> bytes:
    """Compress data as Aiven's RemoteStorageManager does; the same version of libzstd gives the same bytes."""
    from zstandard import ZstdCompressor

    return ZstdCompressor(level=_ZSTD_LEVEL).compress(data)


def encode_chunk_sizes(sizes: Sequence[int]) -> bytes:
    """Encode the sizes of one or more chunks. See `decode_chunk_sizes`."""
    plain = len(sizes).to_bytes(4)
    if len(sizes) > 1:
        base = min(sizes[:-1])
        width = max((max(sizes[:-1]) - base).bit_length() + 7 >> 3, 1)
        plain += base.to_bytes(4) + width.to_bytes(1) + b"".join((size - base).to_bytes(width) for size in sizes[:-1])
    return pack_zstd(plain + sizes[-1].to_bytes(4))


def decode_chunk_sizes(data: bytes, count: int) -> list[int]:
    """Decode the sizes of `count` chunks. Mirrors ChunkSizesBinaryCodec. Raises ValueError.

    Format: the count (4 bytes); for one chunk its size (4 bytes). For more: the smallest size without the last chunk (4), the
    width of the differences in bytes (1), the difference of each size except the last to the smallest, the last size (4).
    """
    plain = unpack_zstd(data, 16 + 4 * count)
    if int.from_bytes(plain[:4]) != count or len(plain) < 4:
        raise ValueError(f"sizes of {int.from_bytes(plain[:4])} chunks, not of {count}")
    if count < 2:
        if len(plain) != 4 + 4 * count:
            raise ValueError("the sizes of chunks do not end where they should")
        return [_size(int.from_bytes(plain[4:8]))] * count
    base, width = int.from_bytes(plain[4:8]), plain[8] if len(plain) > 8 else 0
    end = 9 + width * (count - 1)
    if not 1 <= width <= 4 or len(plain) != end + 4:
        raise ValueError("the sizes of chunks do not end where they should")
    found = [base + int.from_bytes(plain[at : at + width]) for at in range(9, end, width)]
    return [_size(size) for size in [*found, int.from_bytes(plain[end:])]]

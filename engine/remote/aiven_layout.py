"""The layout of Aiven's RemoteStorageManager: a log in chunks, one object for all indexes, a manifest written last."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from engine.files import ReadOnlyFiles
from engine.formats import BATCH_HEADER, CODEC_MASK, HEADER_SIZE_UP_TO_MAGIC, MAGIC_V2
from engine.remote.aiven_manifest import (
    CHUNK_SIZE,
    MAX_MANIFEST_SIZE,
    STORED_ORDER,
    CorruptObject,
    Manifest,
    StoredChunks,
    encode_manifest,
    pack_zstd,
    parse_manifest,
    unpack_zstd,
)
from engine.remote.encryption import IV_SIZE, TAG_SIZE, PrivateKeys, decrypt_chunk
from engine.remote.layouts import MAX_INDEX_SIZE, IndexKind, log_pieces
from engine.remote.ranged_file import Pieces
from engine.remote.storage import changed, missing
from engine.schema.wire import SchemaError, compact_length, unsigned_varint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.remote.aiven_manifest import Chunk
    from engine.remote.layouts import ObjectName, SegmentParts
    from engine.remote.metadata import PartitionMetadata, RemoteSegment
    from engine.remote.storage import Object, Store

_PREFIX, _KEY = 1, 2  # fields of the custom metadata
_TOGETHER = 16 << 20  # bytes of the indexes of a segment that are read together
_LARGEST_KEPT, _KEPT = 64 << 20, 16 << 20  # bytes of one chunk, and of all chunks and indexes in memory; the last one is kept


class NewSegments(NamedTuple):
    """How the log of a new segment is stored.

    chunk_size  in bytes (chunk.size)    is_compressed  (compression.enabled)
    only_plain  logs whose first batch is compressed are not compressed again (compression.heuristic.enabled)
    key_pair    id of the key pair for encryption (encryption.key.pair.id); None: encrypted only if the newest segment is
    """

    chunk_size: int = CHUNK_SIZE
    is_compressed: bool = False
    only_plain: bool = False
    key_pair: str | None = None


def is_first_batch_compressed(parts: SegmentParts) -> bool:
    """Is the first batch of a log compressed?"""
    head = bytes(parts.read_log(0, min(parts.log_size(), BATCH_HEADER.size)))
    is_legacy = head[HEADER_SIZE_UP_TO_MAGIC - 1] < MAGIC_V2
    return bool((head[HEADER_SIZE_UP_TO_MAGIC] if is_legacy else BATCH_HEADER.field("attributes", head)) & CODEC_MASK)


class AivenLayout:
    """See Layout.

    private_keys  PEM files by the id of their key pair
    new           how new segments are stored; None: as the newest one
    """

    name = "aiven"
    last_parts = frozenset({"log", "rsm-manifest"})  # uploads end with the manifest; deletions may begin with the log

    def __init__(
        self, store: Store, prefix: str, private_keys: dict[str, str], new: NewSegments | None = None
    ) -> None:
        self.store, self.prefix, self._new = store, prefix, new
        self._keys = PrivateKeys(ReadOnlyFiles(), private_keys)
        self._pieces = Pieces(_LARGEST_KEPT, _KEPT)
        self._key_pair: str | None = None  # the id of the key pair for new segments

    def parts(self, partition: PartitionMetadata, segment: RemoteSegment) -> AivenParts:
        """See Layout."""
        custom = {} if segment.custom is None else custom_fields(segment.custom)
        name = f"{segment.start_offset:020d}-{segment.name}"
        key = custom.get(_KEY, f"{partition.topic}-{partition.topic_id}/{partition.partition}/{name}")
        return AivenParts(self.store, self._below_store(custom.get(_PREFIX, self.prefix) + key), self._keys, self._pieces)

    def segment(self, named: ObjectName) -> tuple[RemoteSegment | None, AivenParts]:
        """See Layout. Manifests since September 2023 contain Kafka's metadata."""
        parts = AivenParts(self.store, named.stem, self._keys, self._pieces)
        segment = parts.manifest.segment
        path = self.store.path(f"{named.stem}.rsm-manifest")
        if segment is None:
            return None, parts
        names = (named.topic, named.topic_id, named.partition, named.base_offset, named.segment_id)
        stored = (*segment.partition, segment.metadata.start_offset, segment.metadata.name)
        if names != stored:
            what = f"{path}: of the segment {stored[4]} of {stored[0]}-{stored[2]} ({stored[1]}) from offset {stored[3]}"
            raise CorruptObject(what, path=path)
        return segment.metadata, parts

    def objects(
        self, partition: PartitionMetadata, segment: RemoteSegment, parts: SegmentParts
    ) -> Iterator[tuple[str, int, Iterable[bytes]]]:
        """See Layout. The segment is encrypted if the newest one is, and without settings also compressed if that is."""
        new, seal = self._new or NewSegments(), None if self._key_pair is None else self._keys.new_seal(self._key_pair)
        folder = f"{self.prefix}{partition.topic}-{partition.topic_id}/{partition.partition}"
        stem = f"{folder}/{segment.start_offset:020d}-{segment.name}"
        is_compressed = new.is_compressed and not (new.only_plain and is_first_batch_compressed(parts))

        def pieces() -> Iterator[bytes]:
            found = log_pieces(parts, new.chunk_size)
            return map(pack_zstd, found) if is_compressed else found

        added, size = 0 if seal is None else IV_SIZE + TAG_SIZE, parts.log_size()
        if is_compressed:
            sizes = [len(piece) + added for piece in pieces()]  # compressed again below: only one chunk is in memory
        else:
            sizes = [min(new.chunk_size, size - at) + added for at in range(0, size, new.chunk_size)]
        chunks = StoredChunks(new.chunk_size, is_compressed, sizes)
        yield f"{stem}.log", sum(sizes), pieces() if seal is None else map(seal.encrypt, pieces())
        indexes = {kind: parts.index(kind) for kind in STORED_ORDER}
        if seal is not None:
            indexes = {kind: seal.encrypt(one) if one else one for kind, one in indexes.items()}
        data = b"".join(one or b"" for one in indexes.values())
        yield f"{stem}.indexes", len(data), (data,)
        extents = {kind: None if one is None else len(one) for kind, one in indexes.items()}
        sealed = None if seal is None else (seal.wrapped, seal.aad)
        text = encode_manifest((partition.topic, partition.topic_id, partition.partition), segment, extents, chunks, sealed)
        yield f"{stem}.rsm-manifest", len(text), (text,)

    def refuse_new(self) -> None:
        """See Layout. If the newest segment is encrypted, new ones are too, and its private key is required."""
        manifests = [one for one in self.store.list(self.prefix) if one.key.endswith(".rsm-manifest")]
        newest = max(manifests, key=lambda one: one.modified_ms, default=None)
        if newest is not None:
            manifest = parse_manifest(bytes(self.store.read(newest, 0, newest.size)), self.store.path(newest.key))
            self._new = self._new or NewSegments(manifest.chunk_size, manifest.is_compressed)
            if manifest.key is not None:
                self._key_pair = manifest.key.partition(":")[0]
        if self._new is not None and self._new.key_pair is not None:
            self._key_pair = self._new.key_pair
        if self._key_pair is not None:
            self._keys.new_seal(self._key_pair)

    def _below_store(self, key: str) -> str:
        """Return the key in the store for a key in the bucket: `t-ID/…` for `cold/t-ID/…` if the store is `s3://bucket/cold`."""
        if not (self.prefix and key.startswith(self.prefix)):
            for at in (match.start() for match in re.finditer("/", key)):
                if self.store.name.endswith(f"/{key[:at]}"):
                    return key[at + 1 :]
        return key


def custom_fields(custom: bytes) -> dict[int, str]:
    """Return the prefix and the key of a segment, by field number, from custom metadata (SegmentCustomMetadataSerde)."""
    found: dict[int, str] = {}
    try:
        count, at = unsigned_varint(custom, 0)
        for _ in range(count):
            tag, at = unsigned_varint(custom, at)
            size, at = unsigned_varint(custom, at)
            if tag in (_PREFIX, _KEY) and 0 < size <= len(custom) - at:
                length, start = compact_length(custom, at)
                found[tag] = custom[start : start + max(length, 0)].decode()
            at += max(size, 0)
    except (SchemaError, UnicodeDecodeError):
        return {}  # metadata of another RemoteStorageManager
    return found


class AivenParts:
    """See SegmentParts. `pieces`: a cache of small reads, which all segments of the store share."""

    def __init__(self, store: Store, stem: str, keys: PrivateKeys, pieces: Pieces) -> None:
        self._store, self._stem, self._keys, self._pieces = store, stem, keys, pieces
        self._objects: dict[str, Object] = {}
        self._manifest: Manifest | None = None

    def keys(self, segment: RemoteSegment) -> dict[str, int | None]:  # noqa: ARG002  # all segments have the same objects
        """See SegmentParts. Sizes are known after the manifest was read."""
        found: dict[str, int | None] = dict.fromkeys(("log", "indexes", "rsm-manifest"))
        if self._manifest is not None:
            found |= {"log": self._manifest.stored[-1], "indexes": self._indexes_end or -1}
        return {f"{self._stem}.{suffix}": size for suffix, size in found.items()}

    @property
    def are_indexes_together(self) -> bool:
        """See SegmentParts. Large indexes are read one by one."""
        return self._indexes_end <= _TOGETHER

    @property
    def _indexes_end(self) -> int:
        return max((at + size for at, size in self.manifest.indexes.values()), default=0)

    def path(self, kind: IndexKind | None) -> str:
        """See SegmentParts."""
        return self._store.path(f"{self._stem}.{'log' if kind is None else 'indexes'}")

    @property
    def manifest(self) -> Manifest:
        """The manifest; read at the first access."""
        if self._manifest is None:
            key = f"{self._stem}.rsm-manifest"
            path, data = self._store.path(key), self._store.read_whole(key, MAX_MANIFEST_SIZE)
            if data is None:
                raise missing(path)
            self._manifest = parse_manifest(data, path)
        return self._manifest

    def _read(self, suffix: str, start: int, end: int, size: int) -> bytes | memoryview:
        """Read bytes of an object in one request. Raises CorruptObject if it does not have `size` bytes, as in the manifest."""
        key, data = f"{self._stem}.{suffix}", None
        found = self._objects.get(suffix)
        if found is None:
            first = self._store.find_and_read(key, start, end)
            if first is None:
                raise missing(self._store.path(key))
            found, data = self._objects.setdefault(suffix, first[0]), first[1]  # of several threads the first one decides
            if found != first[0]:
                raise changed(self._store.path(key))
        if found.size != size:
            path = self._store.path(key)
            raise CorruptObject(f"{path}: {found.size} bytes, but {size} by its manifest", path=path)
        return self._store.read(found, start, end) if data is None else data

    def described(self) -> tuple[str, RemoteSegment] | None:
        """See SegmentParts."""
        found, path = self.manifest.segment, self._store.path(f"{self._stem}.rsm-manifest")
        if found is None:
            return None
        (topic, topic_id, partition), metadata = found
        name = f"{topic}-{topic_id}/{partition}/{metadata.start_offset:020d}-{metadata.name}"
        if f"/{self._stem}".endswith(f"/{name}") or self._stem.endswith(name):
            return path, metadata
        raise CorruptObject(f"{path}: of the segment {name}", path=path)

    def log_size(self, position: int | None = None) -> int:  # noqa: ARG002  # the manifest has it
        """See SegmentParts."""
        return self.manifest.original_size

    def read_log(self, start: int, end: int) -> bytes | memoryview:
        """See SegmentParts. Reads all chunks with these bytes in one request."""
        manifest = self.manifest
        chunks, size = manifest.chunks(start, end), manifest.stored[-1]
        if not chunks:
            return b""
        if not manifest.is_compressed and manifest.key is None:
            return self._read("log", start, end, size)

        def decoded() -> bytes:
            first = chunks[0].at
            stored = memoryview(self._read("log", first, chunks[-1].stored_end, size))
            return b"".join(self._decoded(chunk, stored[chunk.at - first : chunk.stored_end - first]) for chunk in chunks)

        is_small = len(chunks) == 1  # the next read may need the same chunk
        data = self._pieces.get(self.path(None), chunks[0].at, chunks[0].stored_end, decoded) if is_small else decoded()
        return data[start - chunks[0].start : end - chunks[0].start]

    def _decoded(self, chunk: Chunk, stored: memoryview) -> bytes:
        try:
            data = self._opened(bytes(stored))
            if self.manifest.is_compressed:
                data = unpack_zstd(data, chunk.end - chunk.start)
        except ValueError as error:
            what = f"{self.path(None)}: the chunk at byte {chunk.at} is damaged: {error}"
            raise CorruptObject(what, path=self.path(None)) from error
        if len(data) != chunk.end - chunk.start:
            what = f"{self.path(None)}: the chunk at byte {chunk.at} has {len(data)} bytes of {chunk.end - chunk.start}"
            raise CorruptObject(what, path=self.path(None))
        return data

    def _opened(self, data: bytes) -> bytes:
        """Decrypt data if the segment is encrypted. Raises ValueError."""
        manifest = self.manifest
        if manifest.key is None:
            return data
        key = self._keys.data_key(manifest.key, self._store.path(f"{self._stem}.rsm-manifest"))
        return decrypt_chunk(data, key, manifest.aad or b"")

    def index(self, kind: IndexKind) -> bytes | None:
        """See SegmentParts. An empty index has no bytes in the object. One request reads all indexes unless they are large."""
        extents, path = self.manifest.indexes, self.path(kind)
        if kind not in extents:
            return None
        position, size = extents[kind]
        if not size:
            return b""
        end = self._indexes_end
        if size > MAX_INDEX_SIZE:
            raise CorruptObject(f"{path}: an index of {size} bytes", path=path)
        start, stop = (0, end) if self.are_indexes_together else (position, position + size)
        data = self._pieces.get(path, start, stop, lambda: self._read("indexes", start, stop, end))
        try:
            return self._opened(bytes(data[position - start : position + size - start]))
        except ValueError as error:
            raise CorruptObject(f"{path}: the index at byte {position} is damaged: {error}", path=path) from error

"""The layout of LocalTieredStorage, which Kafka's own tests use: one folder per partition, one file per part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.remote.layouts import MAX_INDEX_SIZE, IndexKind, log_pieces
from engine.remote.ranged_file import FIRST_PIECE
from engine.remote.storage import missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.remote.layouts import ObjectName, SegmentParts
    from engine.remote.metadata import PartitionMetadata, RemoteSegment
    from engine.remote.storage import Object, Store

SUFFIXES = {
    None: "log", IndexKind.OFFSET: "index", IndexKind.TIMESTAMP: "timeindex", IndexKind.PRODUCER_SNAPSHOT: "snapshot",
    IndexKind.TRANSACTION: "txnindex", IndexKind.LEADER_EPOCH: "leader_epoch_checkpoint",
}  # fmt: skip


class LocalLayout:
    """See Layout. Mirrors RemoteLogSegmentFileset."""

    name = "local"
    last_parts = frozenset({"log", "index", "timeindex", "snapshot", "leader_epoch_checkpoint"})  # in any order of deletion

    def __init__(self, store: Store, prefix: str) -> None:
        self.store, self.prefix = store, prefix

    def segment(self, named: ObjectName) -> tuple[None, LocalParts]:
        """See Layout. The objects do not contain the metadata."""
        return None, LocalParts(self.store, named.stem)

    def parts(self, partition: PartitionMetadata, segment: RemoteSegment) -> LocalParts:
        """See Layout."""
        folder = f"{self.prefix}{partition.name}-{partition.topic_id}"
        return LocalParts(self.store, f"{folder}/{segment.start_offset:020d}-{segment.name}")

    def refuse_new(self) -> None:
        """See Layout. All segments are stored in the same way."""

    def objects(
        self, partition: PartitionMetadata, segment: RemoteSegment, parts: SegmentParts
    ) -> Iterator[tuple[str, int, Iterable[bytes]]]:
        """See Layout. The order is that of LocalTieredStorage."""
        own = self.parts(partition, segment)
        yield own.key(None), parts.log_size(), log_pieces(parts)
        for kind in (IndexKind.OFFSET, IndexKind.TIMESTAMP, IndexKind.TRANSACTION, IndexKind.LEADER_EPOCH,
                     IndexKind.PRODUCER_SNAPSHOT):  # fmt: skip
            data = parts.index(kind)
            if data is not None:
                yield own.key(kind), len(data), (data,)


class LocalParts:
    """See SegmentParts. `stem`: the common start of the keys of all parts."""

    are_indexes_together = False

    def __init__(self, store: Store, stem: str) -> None:
        self._store, self._stem = store, stem
        self._log: Object | None = None
        self._piece = 0, memoryview(b"")  # position and bytes that came with the size; read once

    def keys(self, segment: RemoteSegment) -> dict[str, int | None]:
        """See SegmentParts."""
        sizes: dict[IndexKind | None, int | None] = dict.fromkeys(SUFFIXES)
        sizes[None] = segment.size
        if segment.txn_index_empty:
            sizes[IndexKind.TRANSACTION] = -1
        return {self.key(kind): size for kind, size in sizes.items()}

    def key(self, kind: IndexKind | None) -> str:
        """Return the key of a part."""
        return f"{self._stem}.{SUFFIXES[kind]}"

    def path(self, kind: IndexKind | None) -> str:
        """See SegmentParts."""
        return self._store.path(self.key(kind))

    def log_size(self, position: int | None = None) -> int:
        """See SegmentParts."""
        if self._log is None:
            if position is None:
                self._log = self._store.find(self.key(None))
            elif (found := self._store.find_and_read(self.key(None), position, position + FIRST_PIECE)) is not None:
                self._log, self._piece = found[0], (position, memoryview(found[1]))
            if self._log is None:
                raise missing(self.path(None))
        return self._log.size

    def read_log(self, start: int, end: int) -> bytes | memoryview:
        """See SegmentParts."""
        self.log_size()
        assert self._log is not None  # its size is known
        at, piece = self._piece
        if at <= start < end <= at + len(piece):
            self._piece = 0, memoryview(b"")
            return piece[start - at : end - at]
        return self._store.read(self._log, start, end)

    def index(self, kind: IndexKind) -> bytes | None:
        """See SegmentParts."""
        return self._store.read_whole(self.key(kind), MAX_INDEX_SIZE)

    def described(self) -> None:
        """See SegmentParts."""
        return

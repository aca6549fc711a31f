"""What files other than logs hold: the entries of small files, read and checked by kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from engine.checkpoint.identity import (
    CleanShutdown,
    MetaProperties,
    PartitionMetadata,
    QuorumState,
    decode_clean_shutdown,
    decode_meta_properties,
    decode_partition_metadata,
    decode_quorum_state,
    read_identity,
)
from engine.checkpoint.leader_epochs import EpochEntry, read_leader_epochs
from engine.checkpoint.offsets import PartitionOffset, read_offset_checkpoint
from engine.formats import AbortedTxn, ProducerSnapshotEntry
from engine.index.offset import OffsetPosition
from engine.index.time import TimestampOffset
from engine.layout import FileKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.checkpoint.text import Decoded
    from engine.files import ReadOnlyFiles
    from engine.findings import Finding

    _Identity: TypeAlias = (
        Decoded[PartitionMetadata] | Decoded[MetaProperties] | Decoded[CleanShutdown] | Decoded[QuorumState]
    )

SmallEntry: TypeAlias = EpochEntry | PartitionOffset | PartitionMetadata | MetaProperties | CleanShutdown | QuorumState
Entry: TypeAlias = OffsetPosition | TimestampOffset | AbortedTxn | ProducerSnapshotEntry | SmallEntry

CHECKPOINTS = (
    FileKind.RECOVERY_POINT_CHECKPOINT,
    FileKind.REPLICATION_CHECKPOINT,
    FileKind.LOG_START_CHECKPOINT,
    FileKind.CLEANER_CHECKPOINT,
)
_IDENTITIES: dict[FileKind, Callable[[bytes, str], _Identity]] = {
    FileKind.PARTITION_METADATA: decode_partition_metadata,
    FileKind.META_PROPERTIES: decode_meta_properties,
    FileKind.CLEAN_SHUTDOWN: decode_clean_shutdown,
    FileKind.QUORUM_STATE: decode_quorum_state,
}
SMALL_FILES = frozenset((FileKind.LEADER_EPOCH_CHECKPOINT, *CHECKPOINTS, *_IDENTITIES))


def read_small_file(files: ReadOnlyFiles, path: str, kind: FileKind) -> tuple[list[SmallEntry], list[Finding]]:
    """The entries of a file of one of SMALL_FILES, and what is wrong with it. Raises UnreadableFile."""
    if kind is FileKind.LEADER_EPOCH_CHECKPOINT:
        epochs = read_leader_epochs(files, path)
        return list(epochs.entries), epochs.findings
    if kind in CHECKPOINTS:
        offsets = read_offset_checkpoint(files, path)
        return list(offsets.entries), offsets.findings
    decoded = _IDENTITIES[kind](read_identity(files, path), path)
    return [] if decoded.value is None else [decoded.value], decoded.findings

"""Interfaces of the output of a dump, which is text (`text`) or JSON (`json_objects`); options and small files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from engine.checkpoint.checkpoints import EpochEntry, PartitionOffset, read_leader_epochs, read_offset_checkpoint
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
from engine.discovery.names import FileKind, file_name
from engine.findings import Finding, Where
from engine.formats import INT_MAX, AbortedTxn, ProducerSnapshotEntry
from engine.record.codecs.bounded import MAX_DECOMPRESSED_BYTES
from engine.record.windows import MAX_BATCH_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.checkpoint.checkpoints import Decoded
    from engine.discovery.names import FileName, PartitionDir
    from engine.dump.selection import Selector
    from engine.dump.topic_decoders import TopicDecoders
    from engine.files import OpenFile, ReadOnlyFiles
    from engine.index.sparse import OffsetIndex, TimeIndex
    from engine.record.reader import Chunk
    from engine.record.windows import Window
    from engine.schema.decode import RecordDecoder


class DumpRenderer(Protocol):
    """Writes file after file. Problems of files are findings, which it does not write."""

    def file(self, path: str, name: FileName | None) -> None:
        """Begin a file. `name` None: the name is not one of Kafka's, and the file is not read."""

    def log(self, path: str, partition: PartitionDir | None) -> LogRenderer:
        """Return the renderer for the log at `path`; `partition` is from the name of its directory."""
        ...

    def log_07(self, file: OpenFile, path: str, selector: Selector | None) -> None:
        """Write the selected part of a log of 0.7 (None: all), and report its problems."""

    def entry(self, entry: Entry) -> None:
        """Write an entry of a transaction index, a snapshot, a checkpoint or another small file."""

    def index_entries(self, index: OffsetIndex | TimeIndex, number: int, end: int) -> None:
        """Write the entries number … end − 1 of an index."""

    def empty_index(self, path: str) -> None:
        """Write that the offset index at `path` has no entries."""

    def sound_index(self, path: str) -> None:
        """Write, for --index-sanity-check, that the index at `path` passes."""

    def count(self, path: str | None, records: int, batches: int) -> None:
        """Write, for --count, the number of matches in the log at `path`; None: in all logs."""

    def flush(self) -> None:
        """Write the output so far to the sink."""


class LogRenderer(Protocol):
    """Writes the content of one log."""

    def batches(self, window: Window, row: int, last_row: int) -> None:
        """Write batches row … last_row − 1 without their records (shallow iteration)."""

    def records(self, chunk: Chunk, base: int) -> None:
        """Write batches first_row … last_row − 1 of the chunk and its records, interleaved.

        base  file position of the window, from which the batches' positions count
        """

    def matches(self, chunk: Chunk, base: int, selector: Selector) -> None:
        """Write the selected batches and records."""

    def trailing(self, count: int) -> None:
        """Write that the log ends with `count` bytes that belong to no batch."""


SmallEntry: TypeAlias = EpochEntry | PartitionOffset | PartitionMetadata | MetaProperties | CleanShutdown | QuorumState
Entry: TypeAlias = AbortedTxn | ProducerSnapshotEntry | SmallEntry

CHECKPOINTS = (
    FileKind.RECOVERY_POINT_CHECKPOINT,
    FileKind.REPLICATION_CHECKPOINT,
    FileKind.LOG_START_CHECKPOINT,
    FileKind.CLEANER_CHECKPOINT,
)
_IDENTITIES: dict[FileKind, Callable[[bytes, str], Decoded[Any]]] = {
    FileKind.PARTITION_METADATA: decode_partition_metadata,
    FileKind.META_PROPERTIES: decode_meta_properties,
    FileKind.CLEAN_SHUTDOWN: decode_clean_shutdown,
    FileKind.QUORUM_STATE: decode_quorum_state,
}
SMALL_FILES = frozenset((FileKind.LEADER_EPOCH_CHECKPOINT, *CHECKPOINTS, *_IDENTITIES))


def read_small_file(files: ReadOnlyFiles, path: str, kind: FileKind) -> tuple[list[SmallEntry], list[Finding]]:
    """Return the entries of a file of one of SMALL_FILES, and its problems. Raises UnreadableFile."""
    if kind is FileKind.LEADER_EPOCH_CHECKPOINT:
        epochs = read_leader_epochs(files, path)
        return list(epochs.entries), epochs.findings
    if kind in CHECKPOINTS:
        offsets = read_offset_checkpoint(files, path)
        return list(offsets.entries), offsets.findings
    decoded = read_identity(files, path, _IDENTITIES[kind])
    return [] if decoded.value is None else [decoded.value], decoded.findings


def base_offset_of(path: str, name: FileName, report: Callable[[Finding], None]) -> int:
    """Return the offset in the file's name; 0 and a finding if there is none."""
    if name.base_offset is None:
        what = f"the name {file_name(path)!r} does not begin with an offset"
        report(Finding("name-invalid", Where(path), what))
        return 0
    return name.base_offset


def check_log_name(path: str, name: FileName, report: Callable[[Finding], None]) -> None:
    """Report a log, of any format, or a KRaft snapshot whose name is not as it should be."""
    if name.kind in (FileKind.LOG, FileKind.LOG_07):
        base_offset_of(path, name, report)
    elif name.kind is FileKind.KRAFT_SNAPSHOT and (name.base_offset is None or name.epoch is None):
        what = "a KRaft snapshot is named <20 digits>-<10 digits>.checkpoint"
        report(Finding("name-invalid", Where(path), what))


UNLIMITED = INT_MAX  # the default of --max-bytes
MAX_MESSAGE_SIZE = 5 << 20  # the default of --max-message-size


class DumpOptions(NamedTuple):
    """The options of kafka-dump-log, and kafkalog's own. Sizes in bytes.

    decoder            of all records; else `decoders` chooses one for each log
    key_decoder, value_decoder   bytes → bytes to print, for --key-decoder-class and --value-decoder-class
    escape             escape control characters in payloads, for terminals
    jobs               threads; with more than one the log is read ahead, and its time index is checked meanwhile
    """

    print_data: bool = False
    deep: bool = False
    skip_metadata: bool = False
    verify_only: bool = False
    sanity_only: bool = False
    max_message_size: int = MAX_MESSAGE_SIZE
    max_bytes: int = UNLIMITED
    decoder: RecordDecoder | None = None
    decoders: TopicDecoders | None = None
    key_decoder: Callable[[bytes], bytes] | None = None
    value_decoder: Callable[[bytes], bytes] | None = None
    continue_on_corruption: bool = False
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES
    max_batch_bytes: int = MAX_BATCH_BYTES
    escape: bool = False
    jobs: int = 1

    @property
    def iterates(self) -> bool:
        """Return whether iteration is deep, by option or because records are printed."""
        return self.deep or self.print_data

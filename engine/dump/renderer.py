"""What shows the files of a dump: as text (`text`) or as JSON (`json_objects`); `matches` only counts."""

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
from engine.index.offset import OffsetPosition
from engine.index.time import TimestampOffset
from engine.record.codecs.bounded import MAX_DECOMPRESSED_BYTES
from engine.record.windows import MAX_BATCH_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from engine.discovery.names import FileName, PartitionDir
    from engine.dump.selection import Selector
    from engine.files import OpenFile
    from engine.record.reader import Chunk
    from engine.record.windows import Window
    from engine.schema.decode import RecordDecoder


class DumpRenderer(Protocol):
    """Shows file after file. What is wrong with a file is not its business; see `findings`."""

    def file(self, path: str, name: FileName | None) -> None:
        """A file begins. None: its name is none of Kafka's, and it is not read."""

    def log(self, path: str, partition: PartitionDir | None) -> LogRenderer:
        """What shows the batches of the log at `path`; `partition` is what the name of its directory says."""
        ...

    def log_07(self, file: OpenFile, path: str, selector: Selector | None) -> None:
        """Show what is selected of a log of 0.7 (None: all), and report what is wrong with it."""

    def entry(self, entry: Entry) -> None:
        """An entry of an index, a snapshot, a checkpoint or another small file."""

    def entries(self, entries: Iterable[Entry]) -> None:
        """Entries of one file, one after the other."""

    def empty_index(self, path: str) -> None:
        """The offset index at `path` has no entries."""

    def sound_index(self, path: str) -> None:
        """--index-sanity-check: the index at `path` passes."""

    def count(self, path: str | None, records: int, batches: int) -> None:
        """--count: the number of matches in the log at `path`; None: in all of them."""

    def flush(self) -> None:
        """Hand out what was shown up to here."""


class LogRenderer(Protocol):
    """Shows what one log holds."""

    def batches(self, window: Window, row: int, last_row: int) -> None:
        """Batches row … last_row − 1 without their records (shallow iteration)."""

    def records(self, chunk: Chunk, base: int) -> None:
        """Batches first_row … last_row − 1 of the chunk and its records, interleaved.

        base  file position of the window that the batches' positions count from
        """

    def matches(self, chunk: Chunk, base: int, selector: Selector) -> None:
        """What the selection wants of the same."""

    def trailing(self, count: int) -> None:
        """`count` bytes at the end of the log belong to no batch."""


if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.checkpoint.checkpoints import Decoded
    from engine.files import ReadOnlyFiles

SmallEntry: TypeAlias = EpochEntry | PartitionOffset | PartitionMetadata | MetaProperties | CleanShutdown | QuorumState
Entry: TypeAlias = OffsetPosition | TimestampOffset | AbortedTxn | ProducerSnapshotEntry | SmallEntry

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
    """The entries of a file of one of SMALL_FILES, and what is wrong with it. Raises UnreadableFile."""
    if kind is FileKind.LEADER_EPOCH_CHECKPOINT:
        epochs = read_leader_epochs(files, path)
        return list(epochs.entries), epochs.findings
    if kind in CHECKPOINTS:
        offsets = read_offset_checkpoint(files, path)
        return list(offsets.entries), offsets.findings
    decoded = read_identity(files, path, _IDENTITIES[kind])
    return [] if decoded.value is None else [decoded.value], decoded.findings


def base_offset_of(path: str, name: FileName, report: Callable[[Finding], None]) -> int:
    """The offset in the file's name; 0 and a finding if there is none."""
    if name.base_offset is None:
        what = f"the name {file_name(path)!r} does not begin with an offset"
        report(Finding("name-invalid", Where(path), what))
        return 0
    return name.base_offset


def check_log_name(path: str, name: FileName, report: Callable[[Finding], None]) -> None:
    """A finding where the name of a log, of any format, or of a KRaft snapshot does not say what it should."""
    if name.kind in (FileKind.LOG, FileKind.LOG_07):
        base_offset_of(path, name, report)
    elif name.kind is FileKind.KRAFT_SNAPSHOT and (name.base_offset is None or name.epoch is None):
        what = "a KRaft snapshot is named <20 digits>-<10 digits>.checkpoint"
        report(Finding("name-invalid", Where(path), what))


UNLIMITED = INT_MAX  # the default of --max-bytes
MAX_MESSAGE_SIZE = 5 << 20  # the default of --max-message-size


class DumpOptions(NamedTuple):
    """The options of kafka-dump-log, and ours. Sizes in bytes.

    decoder            of an internal topic's records; `auto_decode` picks it by the topic's name
    key_decoder, value_decoder   bytes → what is printed, for --key-decoder-class and --value-decoder-class
    escape             control characters in payloads are shown escaped: for terminals
    """

    print_data: bool = False
    deep: bool = False
    skip_metadata: bool = False
    verify_only: bool = False
    sanity_only: bool = False
    max_message_size: int = MAX_MESSAGE_SIZE
    max_bytes: int = UNLIMITED
    decoder: RecordDecoder | None = None
    auto_decode: bool = False
    key_decoder: Callable[[bytes], bytes] | None = None
    value_decoder: Callable[[bytes], bytes] | None = None
    continue_on_corruption: bool = False
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES
    max_batch_bytes: int = MAX_BATCH_BYTES
    escape: bool = False

    @property
    def iterates(self) -> bool:
        """Deep iteration, asked for or implied by printing."""
        return self.deep or self.print_data

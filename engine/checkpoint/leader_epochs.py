"""leader-epoch-checkpoint: where each leader's records begin. The file part of LeaderEpochFileCache (KIP-101)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.checkpoint.text import (
    MAX_CHECKPOINT_SIZE,
    Checkpoint,
    Faults,
    decode_checkpoint,
    encode_checkpoint,
)
from engine.discovery.names import parse_int, parse_long
from engine.errors import KafkalogError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.files import ReadOnlyFiles


class MalformedCheckpoint(KafkalogError):
    """A checkpoint file that Kafka cannot read: a broker would not load the log (KafkaStorageException)."""

    code = "malformed-checkpoint"


class EpochEntry(NamedTuple):
    """A line: the first offset that the leader of `epoch` wrote."""

    epoch: int
    start_offset: int


def read_leader_epochs(files: ReadOnlyFiles, path: str) -> Checkpoint[EpochEntry]:
    """Read the file at `path`. Raises UnreadableFile, also for more than MAX_CHECKPOINT_SIZE bytes."""
    return decode_leader_epochs(files.read(path, MAX_CHECKPOINT_SIZE), path)


def decode_leader_epochs(data: bytes, path: str) -> Checkpoint[EpochEntry]:
    """The epochs in the bytes of a leader-epoch-checkpoint, in file order. Never raises."""
    return decode_checkpoint(data, path, _parse, doubt=_doubt)


def parse_leader_epochs(data: bytes, path: str) -> list[EpochEntry]:
    """The epochs in the bytes of a leader-epoch-checkpoint as Kafka reads them: all lines, or MalformedCheckpoint.

    A file that ends before the number of entries has none. Mirrors CheckpointFile.CheckpointReadBuffer.
    """
    checkpoint = decode_checkpoint(data, path, _parse)
    if checkpoint.fault is not None:
        raise MalformedCheckpoint(f"{path}: {checkpoint.fault}", do="kafkalog recover rebuilds it from the log")
    return checkpoint.entries


def _parse(words: list[str]) -> EpochEntry | None:
    if len(words) != 2:
        return None
    epoch, start_offset = parse_int(words[0]), parse_long(words[1])
    return None if epoch is None or start_offset is None else EpochEntry(epoch, start_offset)


def _doubt(entries: list[EpochEntry], faults: Faults) -> None:
    last: EpochEntry | None = None
    for entry in entries:
        what = f"epoch {entry.epoch} at offset {entry.start_offset}"
        if entry.epoch < 0 or entry.start_offset < 0:
            faults.add(f"{what}: neither may be negative", offset=entry.start_offset)
        elif last and (entry.epoch <= last.epoch or entry.start_offset <= last.start_offset):
            faults.add(f"{what} after epoch {last.epoch} at {last.start_offset}: both must grow", offset=entry.start_offset)
        last = entry


def encode_leader_epochs(entries: Iterable[EpochEntry]) -> bytes:
    """The bytes of a leader-epoch-checkpoint."""
    return encode_checkpoint(f"{epoch} {start_offset}" for epoch, start_offset in entries)

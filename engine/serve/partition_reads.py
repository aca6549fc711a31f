"""One partition, read for a client: its part of the answer to Fetch. Mirrors Partition and ReplicaManager.readFromLog.

Requests and answers are dicts with the names of Kafka's JSON. Records are slices of files (FileSlice), never read here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.errors import KafkalogError
from engine.formats import BATCH_HEADER, HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD
from engine.log.errors import CorruptRecord, OffsetOutOfRange
from engine.log.fetch.reading import read
from engine.protocol.error_codes import Error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from engine.files import OpenFile
    from engine.log.fetch.reading import FetchData, FetchIsolation, ReadableLog
    from engine.serve.catalogue import Partition

_MOST_IN_MEMORY = 1 << 20  # bytes


class FileSlice:
    """Records: `size` bytes of a file from byte `position` on. Close it after the answer is sent.

    failed  called if the file cannot be read, or became shorter
    """

    __slots__ = ("_failed", "_file", "position", "size")

    def __init__(self, file: OpenFile, position: int, size: int, failed: Callable[[KafkalogError], object]) -> None:
        self._file, self.position, self.size, self._failed = file, position, size, failed

    def __len__(self) -> int:
        return self.size

    def send(self, descriptor: int) -> None:
        """Write the bytes to a socket. See OpenFile.send."""
        try:
            self._file.send(descriptor, self.position, self.size)
        except KafkalogError as error:
            self._failed(error)
            raise

    def close(self) -> None:
        """Release the file."""
        self._file.close()


def close_slices(parts: Iterable[dict[str, Any]]) -> None:
    """Release the files of the records in parts of an answer."""
    for part in parts:
        if isinstance(part["records"], FileSlice):
            part["records"].close()


def epoch_error(partition: Partition, epoch: int) -> Error:
    """Compare the leader epoch that a client knows with ours (Partition.checkCurrentLeaderEpoch); −1: it knows none."""
    if epoch < 0 or epoch == partition.leader_epoch:
        return Error.NONE
    return Error.FENCED_LEADER_EPOCH if epoch < partition.leader_epoch else Error.UNKNOWN_LEADER_EPOCH


def error_of(error: KafkalogError) -> Error:
    """Return the code with which a broker answers an error of a read."""
    if isinstance(error, OffsetOutOfRange):
        return Error.OFFSET_OUT_OF_RANGE
    return Error.CORRUPT_MESSAGE if isinstance(error, CorruptRecord) else Error.KAFKA_STORAGE_ERROR


def failed(index: int, error: Error, *, was_read: bool) -> dict[str, Any]:
    """Return the answer for a partition without data. `was_read`: the error came from the log, not from looking it up."""
    return {
        "partitionIndex": index, "errorCode": int(error), "highWatermark": -1, "lastStableOffset": -1, "logStartOffset": -1,
        "abortedTransactions": None if was_read else [], "preferredReadReplica": -1, "records": b"",
    }  # fmt: skip


def end_of_epoch(log: ReadableLog, leader_epoch: int, epoch: int) -> tuple[int, int]:
    """Return (the largest epoch up to `epoch`, its end offset); (−1, −1): unknown. Mirrors endOffsetFor.

    leader_epoch  that clients know: it begins at the log end, if the log has no records of it
    """
    entries = [(entry.epoch, entry.start_offset) for entry in log.leader_epoch_cache.entries]
    if not entries or entries[-1][0] < leader_epoch:
        entries.append((leader_epoch, log.log_end_offset))
    if epoch == entries[-1][0]:
        return epoch, log.log_end_offset
    earlier = [entry for entry in entries if entry[0] <= epoch]
    later = entries[len(earlier) :]
    if not later:
        return -1, -1
    return earlier[-1][0] if earlier else epoch, later[0][1]


def _diverging(log: ReadableLog, leader_epoch: int, epoch: int, offset: int) -> dict[str, int] | None:
    """Return where the log of a follower that read `epoch` before `offset` diverges from ours; None: nowhere."""
    found, end = end_of_epoch(log, leader_epoch, epoch)
    if found == end == -1:
        raise OffsetOutOfRange(f"no end offset is known of leader epoch {epoch}")
    if found < epoch or end < offset:
        return {"epoch": found, "endOffset": end}
    return None


def read_partition(
    partition: Partition, asked: dict[str, Any], limit: int, isolation: FetchIsolation, *, whole: bool
) -> dict[str, Any]:
    """Read one partition → its part of the answer. `whole`: return the first batch completely, whatever the limit."""
    index = asked["partition"]
    try:
        error = epoch_error(partition, asked.get("currentLeaderEpoch", -1))
        if error is not Error.NONE:
            return failed(index, error, was_read=True)
        with partition.log() as log:
            answer = {
                "partitionIndex": index, "errorCode": 0,
                "highWatermark": log.fetch_high_watermark_metadata().message_offset,
                "lastStableOffset": log.fetch_last_stable_offset_metadata().message_offset,
                "logStartOffset": log.log_start_offset, "abortedTransactions": None, "preferredReadReplica": -1,
                "records": b"",
            }  # fmt: skip
            if asked.get("lastFetchedEpoch", -1) >= 0:
                diverging = _diverging(log, partition.leader_epoch, asked["lastFetchedEpoch"], asked["fetchOffset"])
                if diverging is not None:
                    answer["divergingEpoch"] = diverging
                    return answer
            found = read(log, asked["fetchOffset"], limit, isolation, min_one_message=whole)
            _put_records(partition, answer, found)
            partition.note_read(found.segment)
            return answer
    except KafkalogError as failure:
        partition.note(failure)
        return failed(index, error_of(failure), was_read=True)


def _put_records(partition: Partition, answer: dict[str, Any], found: FetchData) -> None:
    if found.aborted is not None:
        answer["abortedTransactions"] = [
            {"producerId": one.producer_id, "firstOffset": one.first_offset} for one in found.aborted
        ]
    file = found.file
    if file is not None and not found.first_entry_incomplete:
        own, position, size = file.duplicate(), found.place.position or 0, found.size
        answer["records"] = _in_memory(file, position, size) if own is None else FileSlice(own, position, size, partition.note)


def _in_memory(file: OpenFile, position: int, size: int) -> bytes:
    """Read records that are not in a file of this machine: at least the first batch, and no more than 1 MiB of others."""
    first = LOG_OVERHEAD + BATCH_HEADER.field("batch_length", file.read_exactly(position, HEADER_SIZE_UP_TO_MAGIC))
    return file.read_exactly(position, min(size, max(first, _MOST_IN_MEMORY)))

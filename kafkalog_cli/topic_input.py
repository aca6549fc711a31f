"""Input of `kafkalog append --topic`: a producer packs records into batches, which wait in a temporary file."""

from __future__ import annotations

import os
import random
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any

from engine.discovery.names import file_name, parse_partition_dir
from engine.errors import KafkalogError, UsageError
from engine.files import Files, now_ms
from engine.formats import CODEC_NAMES, Codec
from engine.log.append.frames import LineEnds
from engine.producer.config import ROUND_ROBIN, ProducerConfig
from engine.producer.failures import ProducerError
from engine.producer.offline import OfflineProducer
from engine.record.assembly import BatchSpec
from engine.record.columns import RecordColumns
from engine.record.lines import JsonLines, TextLines
from kafkalog_cli.interruption import INTERRUPTION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.record.lines import LineReader

AS_BATCHES = {"form_in": "raw", "ignore_unknown": False}  # values of the options for the batches of a Spool
_CHUNK = 1 << 20  # bytes that are read at once
_MOST_PARTITIONS = 100_000


class Refused(KafkalogError):
    """Input that a producer refuses, or that cannot be read."""

    code = "input-refused"


class Spool:
    """Batches of partitions in one unnamed temporary file, in the order in which they were put there."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._end = file, 0
        self._ranges: dict[int, list[tuple[int, int]]] = {}

    def put(self, batches: Iterable[tuple[int, bytes]]) -> None:
        """Add batches with their partitions."""
        for partition, batch in batches:
            self._file.write(batch)
            ranges = self._ranges.setdefault(partition, [])
            if ranges and sum(ranges[-1]) == self._end:
                ranges[-1] = (ranges[-1][0], ranges[-1][1] + len(batch))
            else:
                ranges.append((self._end, len(batch)))
            self._end += len(batch)

    @property
    def partitions(self) -> set[int]:
        """The partitions that have batches."""
        return set(self._ranges)

    @contextmanager
    def opened(self, directory: str) -> Iterator[int]:
        """Return the descriptor of a file with the batches of the partition in `directory`, at its start."""
        named = parse_partition_dir(file_name(directory))
        partition = -1 if named is None else named.partition
        self._file.flush()
        with TemporaryFile(prefix="kafkalog-") as copy:
            for position, size in self._ranges.get(partition, ()):
                for at in range(position, position + size, _CHUNK):
                    copy.write(os.pread(self._file.fileno(), min(_CHUNK, position + size - at), at))
            copy.flush()
            os.lseek(copy.fileno(), 0, os.SEEK_SET)
            yield copy.fileno()


def partition_count(values: dict[str, Any]) -> int:
    """Return the number of partitions of the topic: --partitions, or those in the log dir. Raises UsageError."""
    files, directory, topic = Files(), values["path"], values["topic"]
    if not files.exists(directory):
        raise UsageError(f"{directory}: the log directory does not exist")
    named = [parse_partition_dir(name) for name in files.list(directory)]
    there = [one.partition for one in named if one is not None and one.topic == topic]
    known, wanted = max(there, default=-1) + 1, values["partitions"]
    if wanted is None and not known:
        raise UsageError(f"{directory}: has no partition of topic {topic}", "add --partitions N --create")
    if known > _MOST_PARTITIONS:
        what = f"{directory}: topic {topic} has partition {known - 1}; --topic supports {_MOST_PARTITIONS} partitions"
        raise UsageError(what)
    if wanted is not None and wanted < known:
        raise UsageError(f"{directory}: topic {topic} has partition {known - 1}, so --partitions {wanted} is too few")
    return known if wanted is None else int(wanted)


def partition_paths(values: dict[str, Any], count: int, spool: Spool) -> list[str]:
    """Return the partition directories that get batches or do not exist yet; if there are none, all of the topic."""
    directory = values["path"].rstrip("/") or values["path"]
    paths = [f"{directory}/{values['topic']}-{one}" for one in range(count)]
    return [path for one, path in enumerate(paths) if one in spool.partitions or not Files().exists(path)] or paths


@contextmanager
def spooled(values: dict[str, Any], descriptor: int, count: int) -> Iterator[Spool]:
    """Read the whole input, and return the batches into which a producer packs it. Writes nothing into the log dir.

    Raises LineInvalid, UnbuildableBatch, Refused, UsageError for a level that the codec lacks.
    """
    with TemporaryFile(prefix="kafkalog-") as file:
        spool = Spool(file)
        _Partitioning(values, count, spool).run(descriptor)
        yield spool


class _Partitioning:
    """Passes the records of the input to a producer, and its batches to a spool."""

    def __init__(self, values: dict[str, Any], count: int, spool: Spool) -> None:
        self._values, self._spool = values, spool
        self._reader: LineReader = (
            TextLines(os.fsencode(values["separator"]), os.fsencode(values["null"])) if values["form_in"] == "text"
            else JsonLines(ignore_unknown=values["ignore_unknown"])
        )  # fmt: skip
        rng = random.Random(values["seed"])  # noqa: S311  # no secret
        spec = BatchSpec(codec=Codec(CODEC_NAMES.index(values["compression"])), level=values["level"])
        partitioner = values["partitioner"] or "default"
        config = ProducerConfig(
            batch_size=values["batch_size"], idempotence=False, spec=spec, ignore_keys=partitioner == "sticky",
            partitioner_class=ROUND_ROBIN if partitioner == "round-robin" else None,
        )  # fmt: skip
        self._producer = OfflineProducer(
            config, values["topic"], count, lambda: rng.getrandbits(31), rng.random, linger_ms=values["linger"],
        )  # fmt: skip
        self._columns = RecordColumns()
        self._ends = LineEnds(self._reader, config.buffer_memory, is_compressed=spec.codec != Codec.NONE)

    def run(self, descriptor: int) -> None:
        """Read the input to its end."""
        buffer, is_last = bytearray(), False
        while not is_last:
            with INTERRUPTION.at_once():
                piece = self._read(descriptor)
            seen = len(buffer)
            buffer += piece
            is_last = not piece
            if is_last or self._ends.is_whole(buffer, seen, len(buffer)):
                end = len(buffer) if is_last else buffer.rfind(b"\n") + 1
                self._take(memoryview(buffer[:end]))
                del buffer[:end]
        self._spool.put(self._producer.flush())

    def _read(self, descriptor: int) -> bytes:
        try:
            return os.read(descriptor, _CHUNK)
        except OSError as error:
            raise Refused(f"{self._values['source']}: {error.strerror}") from error

    def _take(self, view: memoryview) -> None:
        at, done = 0, not len(view)
        given = self._values["timestamp"] if self._values["timestamp"] is not None else self._values["now"]
        timestamp = now_ms() if given is None else given
        while not done:
            filled, at, done = self._reader.read(view, at, len(view), timestamp, self._columns)
            try:
                self._spool.put(self._producer.send(view, self._columns, filled))
            except ProducerError as error:
                raise Refused(f"input before line {self._reader.line}: a producer refuses a record: {error}") from error

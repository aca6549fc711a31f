"""Records as Arrow or Parquet. Needs pyarrow (extra `arrow`)."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from engine.arrow.batches import BatchBuilder
from engine.arrow.columns import schema_of
from engine.background import Background
from engine.dump.json_stream import json_text
from engine.errors import UnreadableFile
from engine.export.rows import DECODED
from engine.findings import Finding, Where

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from engine.export.rows import ExportedPartition
    from engine.export.target import Destination
    from engine.files import OpenFile
    from engine.log.fetch.records import Run
    from engine.schema.decode import RecordDecoder

GROUP_ROWS = 128 << 10
GROUP_BYTES = 64 << 20  # of keys and values in a row group, and the same of headers; a larger record has a group of its own
RANGES = "kafkalog.ranges"  # metadata of a Parquet file: JSON, the offsets of each partition in it
_DICTIONARIES = ["topic", "partition", "timestampType", "codec", "segment", "directory", "producerId", "producerEpoch",
                 "partitionLeaderEpoch", "isTransactional", "isControl"]  # fmt: skip
_RISING = ("offset", "timestamp", "position")  # columns whose differences take less room
_NEEDED = ("key", "value", "offset")  # columns that decoding needs


class TableFile:
    """A rows.Sink of record batches, or of row groups of GROUP_ROWS.

    form   arrow (a file), stream (Arrow's format for pipes) or parquet
    ahead  write a group in a thread while the next one is built, which takes the memory of a second one
    """

    def __init__(self, form: str, columns: Sequence[str], to: Destination, *, ahead: bool = False) -> None:
        self._columns = [name for name in columns if name not in DECODED]
        self._decodes = len(self._columns) < len(columns)
        self._to = to
        decoded = [pa.field(name, pa.string()) for name in columns if name in DECODED]
        self.schema = pa.schema([*schema_of(self._columns), *decoded])
        self._file = pa.PythonFile(to, mode="w")
        self._writer = self._opened(form)
        self._thread: Background[None] | None = Background("export") if ahead else None

    def _opened(self, form: str) -> Any:
        if form == "parquet":
            names = [name for name in self.schema.names if name in _DICTIONARIES]
            return pq.ParquetWriter(
                self._file, self.schema, compression="zstd", use_dictionary=names or False,
                column_encoding={name: "DELTA_BINARY_PACKED" for name in self.schema.names if name in _RISING} or None,
                write_statistics=[name for name in self.schema.names if name not in ("key", "value", "headers", *DECODED)],
            )  # fmt: skip
        return (pa.ipc.new_stream if form == "stream" else pa.ipc.new_file)(self._file, self.schema)

    def take_over(self, former: OpenFile) -> None:
        """Copy all rows of a complete file of the same form and columns. Raises UnreadableFile."""
        try:
            for batch in _content_of(former, is_parquet=isinstance(self._writer, pq.ParquetWriter)):
                self._writer.write(batch.cast(self.schema))
        except (pa.ArrowException, ValueError) as error:
            raise UnreadableFile(f"{former.path}: {str(error).partition(chr(10))[0]}", path=former.path) from None

    def begin(self, source: ExportedPartition) -> None:
        """Begin a partition."""
        names = list(dict.fromkeys((*self._columns, *_NEEDED))) if self._decodes else self._columns
        self._source = source
        self._builder = BatchBuilder(
            names, source.topic, source.partition, source.directory, rows=GROUP_ROWS, room=GROUP_BYTES
        )

    def run(self, run: Run) -> None:
        """Add all records of a run, and write the groups that became full."""
        for batch in self._builder.add(run):
            self._write(batch)

    def end(self) -> None:
        """End the partition: write the last group."""
        for batch in self._builder.batches(()):
            self._write(batch)
        self._wait()

    def close(self, ranges: list[dict[str, object]]) -> None:
        """Complete the file."""
        if isinstance(self._writer, pq.ParquetWriter):
            self._writer.add_key_value_metadata({RANGES: json.dumps(ranges)})
        self._writer.close()
        if self._thread is not None:
            self._thread.close()

    def abandon(self) -> None:
        """Release everything; what pyarrow still writes then is dropped."""
        self._to.give_up()
        if self._thread is not None:
            with suppress(Exception):
                self._wait()
            self._thread.close()
        with suppress(Exception):
            self._writer.close()

    def _write(self, batch: pa.RecordBatch) -> None:
        if self._decodes:
            batch = self._with_decoded(batch)
        self._wait()
        if self._thread is None:
            self._writer.write(batch)
        else:
            self._thread.begin(lambda: self._writer.write(batch))

    def _wait(self) -> None:
        if self._thread is not None and self._thread.is_busy:
            self._thread.wait()

    def _with_decoded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        source = self._source

        def report(offset: int, problem: str) -> None:
            source.report(Finding("record-undecodable", Where(source.path, None, offset), problem))

        return with_decoded(batch, self.schema, source.decoder, report)


def with_decoded(
    batch: pa.RecordBatch, schema: pa.Schema, decoder: RecordDecoder | None, report: Callable[[int, str], None]
) -> pa.RecordBatch:
    """Return the columns of `schema`, of which those in DECODED are decoded from the columns offset, key and value.

    decoder  None: nothing is decoded, the columns are null
    report   receives the offset of a record that cannot be decoded, and the reason
    """
    texts = {name: list[str | None]() for name in DECODED}
    for offset, key, value in zip(*(batch.column(name).to_pylist() for name in ("offset", "key", "value")), strict=True):
        data: dict[str, object] = {"key": None, "value": None, "problem": None}
        if decoder is not None:
            data = decoder.data(offset, key, value)
        if data["problem"] is not None:
            report(offset, str(data["problem"]))
        for name, part in zip(DECODED, ("key", "value"), strict=True):
            texts[name].append(None if data[part] is None else json_text(data[part]).decode())
    columns = [pa.array(texts[name], pa.string()) if name in DECODED else batch.column(name) for name in schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _content_of(former: OpenFile, *, is_parquet: bool) -> Iterator[Any]:
    """Yield the row groups or record batches of a file, one in memory at a time. Raises pa.ArrowException."""
    file = pa.PythonFile(_Readable(former), mode="r")
    if is_parquet:
        parquet = pq.ParquetFile(file)
        for number in range(parquet.num_row_groups):
            yield parquet.read_row_group(number)
    else:
        reader = pa.ipc.open_file(file)
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)


class _Readable:
    """An open file as pyarrow reads it."""

    closed = False

    def __init__(self, file: OpenFile) -> None:
        self._file, self._at, self._size = file, 0, file.size()

    def read(self, size: int = -1) -> bytes:
        """Read up to `size` bytes; negative: the rest."""
        left = self._size - self._at
        data = self._file.read(self._at, left if size < 0 else min(size, left))
        self._at += len(data)
        return data

    def seek(self, position: int, whence: int = 0) -> int:
        """Move to a byte, from the start (0), here (1) or the end (2)."""
        self._at = position + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        """Return the present byte."""
        return self._at

    def close(self) -> None:
        """Do nothing: the owner closes the file."""

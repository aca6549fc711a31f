"""A process of its own: the records of a log into columns, nothing else. Prints one JSON line.

`bestMs`: reads, scans, inflates and decodes as the engine does, but checks no checksum of large batches, since Kafka's
iteration checks none. `kernelsMs`: only the kernels, over bytes that are in memory; None for compressed logs. The first
run comes cold, the best counts.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

from engine.files import ReadOnlyFiles
from engine.formats import CODEC_MASK, BatchField, RecordField, Status
from engine.kernels.checksum import CASTAGNOLI, IEEE, make_tables
from engine.kernels.decode import decode_records
from engine.kernels.scan import scan_batches
from engine.record.columns import BatchColumns, RecordColumns
from engine.record.reader import ChunkReader
from engine.record.windows import WINDOW_SIZE, Window

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.files import OpenFile
    from engine.record.reader import Chunk

TABLES = make_tables(CASTAGNOLI), make_tables(IEEE)
SUMMED = (RecordField.OFFSET, RecordField.TIMESTAMP, RecordField.KEY_SIZE, RecordField.VALUE_SIZE)


def chunks(file: OpenFile, path: str) -> Iterator[Chunk]:
    """All records of a log, as columns."""
    problems: list[object] = []
    buffer, batches, reader = bytearray(WINDOW_SIZE), BatchColumns(), ChunkReader(path, problems.append)
    position, size = 0, file.size()
    while position < size:
        data = memoryview(buffer)[: min(len(buffer), size - position)]
        file.read_into(data, position)
        rows, at, _ = scan_batches(data, 0, len(data), batches.table, *TABLES)
        if not rows:
            raise SystemExit(f"no batch at byte {position}")
        yield from reader.chunks(Window(data.toreadonly(), position, batches, rows))
        position += at
    if problems:
        raise SystemExit(str(problems[0]))


def checksum(file: OpenFile, path: str) -> int:
    """What `iterate` of the Java side sums up, in 64 bits."""
    total = sum(sum(chunk.records.field(field)[: chunk.end]) for chunk in chunks(file, path) for field in SUMMED)
    return (total + 2**63) % 2**64 - 2**63


def kernels(data: bytes, batches: BatchColumns, columns: RecordColumns) -> int | None:
    """scan_batches and decode_records over a whole log, columns used again and again → records."""
    records, start = 0, 0
    while start < len(data):
        rows, start, _ = scan_batches(data, start, min(len(data), start + WINDOW_SIZE), batches.table, *TABLES)
        if batches.table[BatchField.ATTRIBUTES, 0] & CODEC_MASK:
            return None
        row, at, done, status = 0, 0, 0, int(Status.FULL)
        while status == Status.FULL:
            count, row, at, done, status = decode_records(data, batches.table, row, rows, at, done, columns.table, 0)
            records += count
        if status != Status.END:
            raise SystemExit(f"status {status} before byte {start}")
    return records


def kernels_ms(data: bytes, repeats: int) -> float | None:
    """The best of `repeats` runs of `kernels`."""
    batches, columns, runs = BatchColumns(), RecordColumns(), []
    for _ in range(repeats):
        start = time.perf_counter()
        if kernels(data, batches, columns) is None:
            return None
        runs.append((time.perf_counter() - start) * 1000)
    return min(runs)


def main(path: str, repeats: int) -> None:
    """Time `repeats` runs over the log at `path`."""
    file = ReadOnlyFiles().open(path)
    runs, records = [], 0
    for _ in range(repeats):
        start, records = time.perf_counter(), 0
        for chunk in chunks(file, path):
            records += chunk.end - chunk.first
        runs.append((time.perf_counter() - start) * 1000)
    alone = kernels_ms(file.read(0, file.size()), repeats)
    answer = {"bestMs": min(runs), "kernelsMs": alone, "records": records, "checksum": checksum(file, path)}
    print(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

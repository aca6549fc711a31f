"""A process of its own: the records of a log into columns, nothing else. Prints one JSON line.

Reads, scans, inflates and decodes as the engine does, but checks no checksum of large batches, since Kafka's iteration
checks none. The first run comes cold, the best counts.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

from engine.files import ReadOnlyFiles
from engine.formats import RecordField
from engine.kernels.checksum import CASTAGNOLI, IEEE, make_tables
from engine.kernels.scan import scan_batches
from engine.record.columns import BatchColumns
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


def main(path: str, repeats: int) -> None:
    """Time `repeats` runs over the log at `path`."""
    file = ReadOnlyFiles().open(path)
    runs, records = [], 0
    for _ in range(repeats):
        start, records = time.perf_counter(), 0
        for chunk in chunks(file, path):
            records += chunk.end - chunk.first
        runs.append((time.perf_counter() - start) * 1000)
    print(json.dumps({"runsMs": runs, "bestMs": min(runs), "records": records, "checksum": checksum(file, path)}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

"""Write the records that only one replica has, in the two forms that `append` takes: whole batches, and JSON lines."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from engine.dump.json_stream import bytes_field, json_text
from engine.errors import KafkalogError, UsageError
from engine.files import look
from engine.log.fetch.reading import FetchIsolation
from engine.log.fetch.records import FetchLimits, RecordFetcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.compare.result import Comparison, Side
    from engine.files import Files, WritableFile
    from engine.findings import Finding
    from engine.record.batch import Record

_BATCHES, _LINES, _UNFINISHED = ".batches", ".jsonl", ".tmp"
_FULL = 1 << 20  # bytes of lines that are written at once


class Exported(NamedTuple):
    """A file that was written, and the number of batches or records in it."""

    path: str
    entries: int
    size: int


class Export:
    """Writes into `directory`, which may not exist yet. No file is replaced. Raises UnwritableFile, UsageError."""

    def __init__(self, files: Files, directory: str, report: Callable[[Finding], None]) -> None:
        self._files, self._report = files, report
        self._directory = directory.rstrip("/") or "/"
        files.make_directory(self._directory)

    def write(self, name: str, compared: Comparison) -> Iterator[Exported]:
        """Write what only one side has: `NAME.SIDE.batches`, unchanged, and `NAME.SIDE.jsonl`, as committed readers get it.

        name  of the partition
        The lines are without transaction markers, and without the records of aborted and open transactions.
        """
        for side in compared.sides:
            ranges = [*side.gaps, *([] if side.after is None else [(compared.common_end, side.after.end)])]
            if not ranges:
                continue
            path = f"{self._directory}/{name}.{side.replica.name.replace('/', '_')}"
            for suffix in (_BATCHES, _LINES):
                if look(self._files, path + suffix) is not None:
                    what = f"{path}{suffix}: it exists already"
                    raise UsageError(what, "name another directory for --export", path=path + suffix)
            yield self._written(path + _BATCHES, partial(self._write_batches, side, ranges))
            yield self._written(path + _LINES, partial(self._write_lines, side, ranges))
        self._files.sync_directory(self._directory)

    def _written(self, path: str, write: Callable[[WritableFile], int]) -> Exported:
        aside = path + _UNFINISHED
        opened = self._files.open_writable(aside, create=True)
        try:
            with opened as file:
                file.truncate(0)
                count = write(file)
                file.sync()
                size = file.size()
            self._files.rename(aside, path)
        except BaseException:
            with suppress(KafkalogError):
                self._files.remove(aside)
            raise
        return Exported(path, count, size)

    def _write_batches(self, side: Side, ranges: list[tuple[int, int]], file: WritableFile) -> int:
        count = position = 0
        for batch in side.replica.batches_in(ranges):
            with self._files.open(batch.segment.log_path) as log:
                self._files.copy(log, batch.position, batch.position + batch.size, file, position)
            position += batch.size
            count += 1
        return count

    def _write_lines(self, side: Side, ranges: list[tuple[int, int]], file: WritableFile) -> int:
        view = side.replica.view
        view.end_transactions(list(view.open_transactions().items()))
        count, position, lines = 0, 0, bytearray()
        for first, end in ranges:
            limits = FetchLimits(end=end, only_sound=True)
            for record in RecordFetcher(view, first, FetchIsolation.READ_COMMITTED, self._report, limits):
                if record.offset >= first:
                    lines += json_text(_fields(record)) + b"\n"
                    count += 1
                if len(lines) >= _FULL:
                    file.write_at(position, lines)
                    position, lines = position + len(lines), bytearray()
        file.write_at(position, lines)
        return count


def _fields(record: Record) -> dict[str, object]:
    """A line of `append`: what fetch prints for a record, as far as a new log takes it over."""
    headers = [{**bytes_field("key", key), **bytes_field("value", value)} for key, value in record.headers]
    return {"offset": record.offset, "timestamp": record.timestamp, **bytes_field("key", record.key),
            **bytes_field("value", record.value), "headers": headers}  # fmt: skip

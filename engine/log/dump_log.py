"""Walk a .log or .checkpoint file for a dump: its batches and records to a renderer, what is wrong to findings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from engine.findings import Finding, Where
from engine.formats import BATCH_HEADER, CODEC_MASK, MAGIC_V2, BatchField, Codec
from engine.log.dump_options import UNLIMITED
from engine.record.reader import Chunk, ChunkReader
from engine.record.windows import LogWalk, Stop, Window

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.files import OpenFile
    from engine.log.dump_options import DumpOptions
    from engine.log.gaps import Gaps

_CHUNK = 1 << 20


class LogRenderer(Protocol):
    """Shows what a log holds, as text or as JSON."""

    def batches(self, window: Window, row: int, last_row: int) -> None:
        """Batches row … last_row − 1 without their records (shallow iteration)."""

    def records(self, chunk: Chunk, base: int) -> None:
        """Batches first_row … last_row − 1 of the chunk and its records, interleaved.

        base  file position of the window that the batches' positions count from
        """

    def trailing(self, count: int) -> None:
        """`count` bytes at the end of the log belong to no batch."""


class LogDump:
    """Dumps one open log.

    path    as the user named it        gaps   takes the offsets that do not follow one another
    report  takes everything else that is wrong
    """

    def __init__(
        self, file: OpenFile, path: str, options: DumpOptions, renderer: LogRenderer, report: Callable[[Finding], None],
        gaps: Gaps,
    ) -> None:
        self._file, self._path, self._options, self._renderer = file, path, options, renderer
        self._report, self._gaps = report, gaps
        self._reader = ChunkReader(path, report, options.max_decompressed_bytes)
        self._finished = False  # a selection has all it wants

    def run(self) -> None:
        """Print everything."""
        options = self._options
        size = self._file.size()
        end = min(size, options.max_bytes)
        walk = LogWalk(self._file, self._start(), end, max_batch_bytes=options.max_batch_bytes)
        while True:
            for window in walk:
                self._window(window)
                if self._finished:
                    return
            self._after(walk, size)
            if walk.stop == Stop.END or not options.continue_on_corruption:
                return
            damaged = walk.position
            found = walk.resynchronise()
            skipped = (end if found is None else found) - damaged
            where = Where(self._path, damaged)
            behind = "the end of the file" if found is None else f"a sound batch at byte {found}"
            self._report(Finding("skipped-bytes", where, f"{skipped} bytes skipped up to {behind}"))
            if found is None:
                return

    def _start(self) -> int:
        """Byte position to begin at: an index may let a selection skip what is before it."""
        return 0

    def _window(self, window: Window) -> None:
        rows = window.rows
        valid = window.batches.field(BatchField.VALID)[:rows].tolist()
        if 0 in valid:
            for row in range(rows):
                if not valid[row]:
                    self._bad_checksum(window, row)
        if any(attributes & CODEC_MASK > Codec.ZSTD for attributes in set(window.batches.field(BatchField.ATTRIBUTES)[:rows])):
            self._unknown_codecs(window)
        if self._options.iterates:
            for chunk in self._reader.chunks(window):
                self._gaps.feed(chunk, window.base)
                self._renderer.records(chunk, window.base)
        else:
            self._renderer.batches(window, 0, rows)

    def _unknown_codecs(self, window: Window) -> None:
        """Findings for codecs that nobody knows; a deep iteration finds them by itself."""
        if self._options.iterates:
            return
        table = window.batches.table
        for row in range(window.rows):
            codec = table[BatchField.ATTRIBUTES, row] & CODEC_MASK
            if codec > Codec.ZSTD:
                where = Where(self._path, window.base + table[BatchField.POSITION, row], table[BatchField.BASE_OFFSET, row])
                self._report(Finding("unknown-codec", where, f"codec {codec}"))

    def _bad_checksum(self, window: Window, row: int) -> None:
        table = window.batches.table
        position, size = table[BatchField.POSITION, row], table[BatchField.SIZE, row]
        where = Where(self._path, window.base + position, table[BatchField.BASE_OFFSET, row])
        magic = table[BatchField.MAGIC, row]
        name = "CRC-32C" if magic >= MAGIC_V2 else "CRC-32"
        what = f"stored {name} {table[BatchField.CRC, row]:08x} does not fit the {size} bytes of the batch"
        if magic >= MAGIC_V2 and size < BATCH_HEADER.size:
            self._report(Finding("batch-size-invalid", where, f"{size} bytes, a batch has at least {BATCH_HEADER.size}"))
            return
        self._report(Finding("crc-mismatch", where, what))
        if not 0 <= magic <= MAGIC_V2:
            self._report(Finding("unknown-magic", where, f"magic {magic}"))

    def _after(self, walk: LogWalk, size: int) -> None:
        """What is behind the last batch: Kafka's line on stdout, and a finding."""
        left = size - walk.position
        limited = self._options.max_bytes != UNLIMITED
        if walk.stop == Stop.END or (limited and walk.end < size):
            return
        where = Where(self._path, walk.position)
        if walk.stop == Stop.BAD_SIZE:
            stored = int.from_bytes(self._file.read(walk.position + 8, 4), "big", signed=True)
            if self._only_zeros(walk.position, size):
                self._report(Finding("zero-tail", where, f"{left} zero bytes behind the last batch"))
            else:
                self._report(Finding("batch-size-invalid", where, f"size field {stored}, the smallest legal one is 14"))
            return
        if not limited:
            self._renderer.trailing(left)
        if self._only_zeros(walk.position, size):
            self._report(Finding("zero-tail", where, f"{left} zero bytes behind the last batch"))
        else:
            self._report(Finding("torn-tail", where, f"{left} bytes at the end are no whole batch"))

    def _only_zeros(self, start: int, end: int) -> bool:
        return all(not self._file.read(at, min(_CHUNK, end - at)).strip(b"\x00") for at in range(start, end, _CHUNK))

"""Search the records of logs: only batches that may hold a match are decoded, several parts of a file at a time.

The answer is exact: the search for byte strings (`Selection.literals`) only leaves out batches that cannot match.
"""

from __future__ import annotations

from collections import deque
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from engine.background import Background
from engine.dump.renderer import check_log_name
from engine.dump.selection import Selector, start_position
from engine.findings import Finding, Where, ignore
from engine.formats import BatchField
from engine.kernels.select import next_unsound
from engine.log.fetch.records import Run
from engine.record.codecs.bounded import MAX_DECOMPRESSED_BYTES
from engine.record.columns import BatchColumns
from engine.record.reader import ChunkReader
from engine.record.selection import END, RecordMatcher
from engine.record.soundness import resume_after_damage, too_large, unsound_batches
from engine.record.windows import MAX_BATCH_BYTES, LogWalk, Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from engine.discovery.names import FileName
    from engine.files import OpenFile, ReadOnlyFiles
    from engine.record.batch import Record
    from engine.record.patterns import Literals
    from engine.record.reader import Chunk
    from engine.record.selection import Selection
    from engine.record.windows import Window
    from engine.schema.decode import RecordDecoder

PIECE = 16 << 20  # bytes of a log that a thread searches at a time


class SearchOptions(NamedTuple):
    """How logs are searched.

    before, after  records around each match that are returned too    jobs  threads
    """

    before: int = 0
    after: int = 0
    jobs: int = 1
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES
    max_batch_bytes: int = MAX_BATCH_BYTES


class Search:
    """Searches one log after the other for the records that `selection` selects; its limit and tail are applied elsewhere.

    report  receives problems of the batches that are read. After damage the search continues with the next sound batch.
    Control records are not searched. Raises UnreadableFile, FileChangedWhileReading.
    """

    def __init__(
        self, files: ReadOnlyFiles, selection: Selection, report: Callable[[Finding], None], options: SearchOptions
    ) -> None:
        self._files, self._selection, self._report, self._options = files, selection, report, options
        self._literals = selection.literals()
        self._matcher = RecordMatcher(selection)

    def count(self, path: str, name: FileName, decoder: RecordDecoder | None = None, most: int | None = None) -> int:
        """Return the number of matches in the log at `path`, counted up to at least `most`."""
        found = 0
        sizes = (run.end - run.first for run in self.runs(path, name)) if decoder is None else (
            int(matches) for _, matches in self.records(path, name, decoder)
        )
        for size in sizes:
            found += size
            if most is not None and found >= most:
                break
        return found

    def runs(self, path: str, name: FileName, most: int | None = None) -> Iterator[Run]:
        """Return the matches in the log at `path`, in order; the first `most`, None: all."""
        with self._files.open(path) as file:
            reader = self._reader(path, self._literals)
            parts = self._parts(file, self._start(file, path, name))
            for chunk, window in self._chunks(file, reader, parts):
                end = self._matcher.pack(chunk)
                if end:
                    yield Run(chunk, 0, end, window.base, path).at_most(most)
                if most is not None:
                    most -= end
                    if most <= 0:
                        return

    def records(
        self, path: str, name: FileName, decoder: RecordDecoder | None = None, most: int | None = None
    ) -> Iterator[tuple[Record, bool]]:
        """Return the first `most` matches (None: all) and the records around them, as (record, whether it matches).

        decoder  of the records: patterns match the decoded key and value, which replace those of the record; problems are
                 reported
        """
        has_around = self._options.before > 0 or self._options.after > 0
        reader = self._reader(path, self._literals if decoder is None and not has_around else ())
        matcher = self._matcher if decoder is None else RecordMatcher(self._selection._replace(patterns=()))
        before: deque[Record] = deque(maxlen=self._options.before)
        due = 0  # records to return after the last match
        with self._files.open(path) as file:
            parts = iter([(self._start(file, path, name), _end_of(file))])
            for chunk, window in self._chunks(file, reader, parts):
                mask = bytes(matcher.mask(chunk)[: chunk.end])
                for at in range(chunk.end) if decoder is not None else self._near(mask, due):
                    (record,) = Run(chunk, at, at + 1, window.base, path).records()
                    matches = (decoder is None or self._decode(record, decoder, path)) and bool(mask[at])
                    if most is not None and most <= 0 and (matches or not due):
                        return
                    if matches:
                        yield from ((other, False) for other in before)
                        before.clear()
                        due = self._options.after
                        most = None if most is None else most - 1
                        yield record, True
                    elif due:
                        due -= 1
                        yield record, False
                    else:
                        before.append(record)
                if most is not None and most <= 0 and not due:
                    return

    def _near(self, matches: bytes, due: int) -> Iterator[int]:
        """Return the records of a chunk that match or are near a match of this chunk or the last one (`due`), or may be near
        one of the next chunk.
        """
        before, after, at = self._options.before, self._options.after, min(due, len(matches))
        yield from range(at)
        found = matches.find(1)
        while found >= 0:
            yield from range(max(found - before, at), min(found + after + 1, len(matches)))
            at = max(at, min(found + after + 1, len(matches)))
            found = matches.find(1, found + 1)
        yield from range(max(len(matches) - before, at), len(matches))

    def _decode(self, record: Record, decoder: RecordDecoder, path: str) -> bool:
        """Replace key and value by their text; return whether all patterns match."""
        problem = decode_fields(record, decoder)
        if problem is not None:
            where = Where(path, record.batch.position, record.offset)
            self._report(Finding("record-undecodable", where, problem))
        return all(one.matches_fields(record.key, record.value, record.headers) for one in self._selection.patterns)

    def _start(self, file: OpenFile, path: str, name: FileName) -> int:
        check_log_name(path, name, self._report)
        larger = too_large(path, file.size())
        if larger is not None:
            self._report(larger)
        return start_position(self._files, path, name, file, self._selection)

    def _reader(self, path: str, literals: Sequence[Literals]) -> ChunkReader:
        return ChunkReader(
            path, self._report, self._options.max_decompressed_bytes, literals=literals,
            on_remark=lambda remark, _kind: self._report(remark),
        )  # fmt: skip

    def _chunks(
        self, file: OpenFile, reader: ChunkReader, parts: Iterator[tuple[int, int]]
    ) -> Iterator[tuple[Chunk, Window]]:
        """Return the chunks of data records in these parts of the file, (start, end), except those that cannot match."""
        selector = Selector(self._selection)
        for start, end in parts:
            walk, resumes = LogWalk(file, start, end, max_batch_bytes=self._options.max_batch_bytes), True
            while resumes:
                for window in walk:
                    for _, finding in unsound_batches(file.path, window, codecs=False):
                        self._report(finding)
                    for row, last_row in selector.runs(window):
                        for chunk in reader.chunks(window, row, last_row):
                            if not chunk.control:
                                yield chunk, window
                    if selector.is_past(window):
                        return
                resumes, findings = resume_after_damage(walk)
                for finding in findings:
                    self._report(finding)

    # ---- several threads

    def _parts(self, file: OpenFile, start: int) -> Iterator[tuple[int, int]]:
        """Return the parts of the file that are to be read, (start, end) in order: all of it, or the batches that may match.

        With several threads the file is divided at sound batches. If the batches between two of them are damaged, the rest of
        the file is one part, so that damage is reported as by one thread.
        """
        end, jobs = _end_of(file), self._options.jobs
        if jobs == 1 or not self._literals or end - start < 2 * PIECE or self._selection.end_offset != END:
            yield start, end
            return
        pieces = _pieces(file, start, end)
        with ExitStack() as stack:
            busy: deque[tuple[Background[list[tuple[int, int]] | None], int]] = deque()
            for number in range(jobs):
                thread: Background[list[tuple[int, int]] | None] = stack.enter_context(Background(f"search-{number}"))
                self._begin(thread, pieces, file, busy)
            while busy:
                thread, first = busy.popleft()
                found = thread.wait()
                if found is None:
                    yield first, end
                    return
                self._begin(thread, pieces, file, busy)
                yield from found

    def _begin(
        self, thread: Background[list[tuple[int, int]] | None], pieces: Iterator[tuple[int, int]], file: OpenFile,
        busy: deque[tuple[Background[list[tuple[int, int]] | None], int]],
    ) -> None:
        """Begin to search the next piece in a thread, if there is one."""
        piece = next(pieces, None)
        if piece is not None:
            thread.begin(partial(self._sift, file, *piece))
            busy.append((thread, piece[0]))

    def _sift(self, file: OpenFile, start: int, end: int) -> list[tuple[int, int]] | None:
        """Return the batches between two bytes that may match or are unsound, as ranges of bytes; None: there is damage."""
        found: list[tuple[int, int]] = []
        # the batch is read again, and then reported
        reader = ChunkReader(file.path, ignore, self._options.max_decompressed_bytes, literals=self._literals)
        walk = LogWalk(file, start, end, max_batch_bytes=self._options.max_batch_bytes)
        for window in walk:
            table = window.batches.table
            rows = {row for run in self._selection.runs(window, 0, window.rows) for row in reader.candidates(window, *run)}
            unsound = next_unsound(table, 0, window.rows)
            while unsound < window.rows:
                rows.add(unsound)
                unsound = next_unsound(table, unsound + 1, window.rows)
            for row in sorted(rows):
                at = window.base + table[BatchField.POSITION, row]
                after = at + table[BatchField.SIZE, row]
                if found and found[-1][1] == at:
                    found[-1] = found[-1][0], after
                else:
                    found.append((at, after))
        return found if walk.stop is Stop.END and walk.position == end else None


def decode_fields(record: Record, decoder: RecordDecoder) -> str | None:
    """Replace key and value of a record by their text; return why that is not possible, or None."""
    key, value, problem = decoder.text(record.offset, record.key, record.value)
    record.key = key.encode("utf-8", "replace") if isinstance(key, str) else key
    record.value = value.encode("utf-8", "replace") if isinstance(value, str) else value
    return problem


def _end_of(file: OpenFile) -> int:
    return LogWalk(file, window_size=1).end


def _pieces(file: OpenFile, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Divide start … end − 1 at sound batches into pieces of about PIECE bytes; returns (start, end) of each."""
    batches = BatchColumns(1)
    while start < end:
        following = None
        if end - start >= 2 * PIECE:
            following = LogWalk(file, start + PIECE - 1, end, batches=batches, window_size=1).resynchronise()
        yield start, end if following is None else following
        start = end if following is None else following

"""Problems of the batches of a log according to their headers, and of the bytes after the last batch.

All readers of logs use this classification: the same damage has the same code and text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.amounts import count_of
from engine.findings import Finding, Where
from engine.formats import BATCH_HEADER, CODEC_MASK, LOG_OVERHEAD, MAGIC_V2, MIN_RECORD_SIZE, BatchField, Codec
from engine.kernels.select import next_unsound
from engine.record.damage import Problem, unknown_codec
from engine.record.windows import MAX_LOG_SIZE, Stop, only_zeros

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.files import OpenFile
    from engine.record.heads import HeadWalk
    from engine.record.windows import LogWalk, Window

_BLOCK = 1 << 16  # bytes: holes of a file begin at block boundaries of the file system


def unsound_batches(path: str, window: Window, *, codecs: bool) -> Iterator[tuple[int, Finding]]:
    """Return the problems of the headers of a window as (row, finding), by row; a row may occur more than once.

    path    file name for findings
    codecs  also report unknown codecs, which decompression would find
    """
    table, rows = window.batches.table, window.rows
    row = next_unsound(table, 0, rows)
    while row < rows:
        where = Where(path, window.base + table[BatchField.POSITION, row], table[BatchField.BASE_OFFSET, row])
        magic, codec = table[BatchField.MAGIC, row], table[BatchField.ATTRIBUTES, row] & CODEC_MASK
        if not 0 <= magic <= MAGIC_V2:
            yield row, Finding("unknown-magic", where, f"magic {magic}")
        if codecs and codec > Codec.ZSTD:
            problem = unknown_codec(codec)
            yield row, Finding(problem.code, where, problem.what)
        if not table[BatchField.VALID, row]:
            yield row, _bad_checksum(where, table, row)
        row = next_unsound(table, row + 1, rows)


def sound_rows(path: str, window: Window, report: Callable[[Finding], None]) -> Iterator[tuple[int, int]]:
    """Yield (first row, row after the last) of batches between unsound ones, which are reported."""
    first = 0
    for row, finding in unsound_batches(path, window, codecs=False):
        report(finding)
        if row >= first:
            yield first, row
            first = row + 1
    yield first, window.rows


def _bad_checksum(where: Where, table: memoryview, row: int) -> Finding:
    size, magic = table[BatchField.SIZE, row], table[BatchField.MAGIC, row]
    if magic >= MAGIC_V2 and size < BATCH_HEADER.size:
        return Finding("batch-size-invalid", where, f"{size} bytes, a batch has at least {BATCH_HEADER.size}")
    name = "CRC-32C" if magic >= MAGIC_V2 else "CRC-32"
    what = f"stored {name} {table[BatchField.CRC, row]:08x} does not match the {size} bytes of the batch"
    return Finding("crc-mismatch", where, what)


def too_large(path: str, size: int) -> Finding | None:
    """Return the finding for a .log with more bytes than a walk reads; None: it is not larger. `path` is for the finding."""
    if size <= MAX_LOG_SIZE:
        return None
    what = f"{size} bytes; those from byte {MAX_LOG_SIZE} on were not read"
    return Finding("segment-too-large", Where(path, MAX_LOG_SIZE), what)


def unsound_end(file: OpenFile, path: str, stop: Stop, position: int, end: int) -> Finding | None:
    """Return the finding for the bytes after the last batch of a walk that ended at `position` of `end`; None: no bytes.

    path  file name for findings               stop  why the walk ended
    """
    if stop is Stop.END:
        return None
    where = Where(path, position)
    if only_zeros(file, position, end):
        is_hole = end - position > _BLOCK and file.next_data(position + _BLOCK, end) == end
        hole = ", in a hole of the file: never written" if is_hole else ""
        return Finding("zero-tail", where, f"{end - position} zero bytes after the last batch{hole}")
    if stop is Stop.TORN:
        return Finding("torn-tail", where, f"incomplete batch at the end: {count_of(end - position, 'byte')}")
    what = f"size field {_size_field(file, position)}, the minimum is {MIN_RECORD_SIZE}"
    return Finding("batch-size-invalid", where, what)


def _skip_findings(file: OpenFile, path: str, position: int, found: int, offset: int | None = None) -> Iterator[Finding]:
    """Return the findings for a walk that ended at `position` and continues with the sound batch at `found`.

    path  file name for findings   offset  of the batch at `position`, if known
    """
    where = Where(path, position, offset)
    if found > position:
        yield Finding("batch-size-invalid", where, f"size field {_size_field(file, position)}, but sound batches follow")
        what = f"{count_of(found - position, 'byte')} skipped up to a sound batch at byte {found}"
        yield Finding("skipped-bytes", where, what)
    else:
        what = f"a sound batch begins at byte {found}, inside one with a wrong checksum"
        yield Finding("batch-size-invalid", where, what)


def resume_after_damage(
    walk: LogWalk | HeadWalk, first_offset: int | None = None, offset: int | None = None, *, search: bool = True,
    is_cut: bool = False,
) -> tuple[bool, list[Finding]]:
    """Continue a walk after damage, at the next sound batch; returns (whether it continues, findings where it ended).

    At the end of the log: (False, []). Damage that reaches the end of the file is a torn tail.
    first_offset  see LogWalk.resynchronise    offset  of the batch at the damage, if known
    search        False: do not search for sound batches; the walk ends here
    is_cut        the walk was to end before the file does, perhaps inside a batch, which is then not torn
    """
    if walk.stop is Stop.END:
        return False, []
    file, path, position, stop = walk.file, walk.file.path, walk.position, walk.stop
    found = walk.resynchronise(first_offset) if search else None
    if found is not None:
        return True, list(_skip_findings(file, path, position, found, offset))
    end = None if is_cut and stop is Stop.TORN else unsound_end(file, path, stop, position, walk.end)
    findings = [] if end is None else [end._replace(where=end.where._replace(offset=offset))]
    if walk.gave_up is not None:
        code, what, *_ = search_ended(walk.gave_up, walk.end)
        findings.append(Finding(code, Where(path, walk.gave_up), what))
    return False, findings


def search_ended(position: int, end: int) -> Problem:
    """Return the problem that a search for sound batches or entries stopped at `position`."""
    what = f"the search for sound batches stopped at its work limit: the {end - position} bytes from here on were not checked"
    return Problem("search-cut-short", what)


def searched_up_to(position: int | None) -> str:
    """Return the addition to a text about the sound bytes after damage; None: the search was complete."""
    return "" if position is None else (f"; the search for sound batches stopped at its work limit at byte {position}: there "
                                        "may be more")


def _size_field(file: OpenFile, position: int) -> int:
    """Return the size field of the batch at `position`; offset and size must be within the file."""
    return BATCH_HEADER.field("batch_length", file.read_exactly(position, LOG_OVERHEAD))

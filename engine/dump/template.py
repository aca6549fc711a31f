"""Lines of records by a template, written by a kernel. It stands alone for `fetch`, `grep` and `export`."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from engine.formats import Status
from engine.kernels import templates
from engine.kernels.decoded import Decoded
from engine.kernels.tables import PIECE_FIELDS, Piece, Shown
from engine.record.columns import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.dump.text_buffer import TextBuffer
    from engine.log.fetch.records import Run
    from engine.record.batch import Record


class Template:
    """The parts of a line for kernels: constants and fields, in order.

    guard  of cells of CSV: put a ' before what a spreadsheet could take for a formula
    """

    def __init__(self, pieces: list[bytes | Shown], *, guard: bool = False) -> None:
        table = Table(PIECE_FIELDS, len(pieces) + 1).table  # the last one is empty, so that the table never is
        at = 0
        for column, piece in enumerate(pieces):
            if isinstance(piece, bytes):
                table[Piece.START, column], table[Piece.SIZE, column] = at, len(piece)
                at += len(piece)
            else:
                table[Piece.KIND, column] = piece
        constants = b"".join(piece for piece in pieces if isinstance(piece, bytes))
        self._template = templates.Template(table, constants, guard)

    def put(self, out: TextBuffer, run: Run, put_large: Callable[[Record], None]) -> None:
        """Print a run of records; `put_large` prints a record for which an empty buffer has no room."""
        size = run.end - run.first
        count = out.shares(size)
        cuts = [run.first + size * number // count for number in range(count + 1)]
        parts = [run._replace(first=first, end=end) for first, end in pairwise(cuts)]
        out.put_parts(parts, self._fill, lambda part: self._finish(out, part, put_large))

    def _finish(self, out: TextBuffer, run: Run, put_large: Callable[[Record], None]) -> None:
        while (run := self._fill(out, run)).first < run.end:
            if out.at:
                out.flush()
            else:
                for large in run._replace(end=run.first + 1).records():
                    put_large(large)
                run = run._replace(first=run.first + 1)

    def _fill(self, out: TextBuffer, run: Run) -> Run:
        """Print as many records as fit, and return the others."""
        chunk = run.chunk
        decoded = Decoded(chunk.data, chunk.batches.table, chunk.records.table)
        out.at, record, status = templates.put_by_template(out.data, out.at, decoded, run.first, run.end, self._template)
        if status not in (Status.END, Status.FULL):
            raise AssertionError("records, batches and bytes do not match")
        return run._replace(first=record)

"""Run a function that only reads, and print its result: text with tables, or JSON; findings, errors and the exit status."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from engine.amounts import time_text
from kafkalog_cli.app import Outcome, printable
from kafkalog_cli.output import json_stream
from kafkalog_cli.table import table_lines, terminal_width

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.dump.text_buffer import TextBuffer
    from kafkalog_cli.table import Column


def given(number: int | None) -> int | None:
    """Return `number`; None if it is negative, which is how Kafka stores an unknown number."""
    return None if number is None or number < 0 else number


def number_cell(number: int | None) -> str:
    """Return the cell of a number in a table, empty for None."""
    return "" if number is None else str(number)


def time_cell(ms: int | None) -> str:
    """Return the cell of a time in a table, empty for None."""
    return "" if ms is None else time_text(ms)


def time_fields(name: str, ms: int | None) -> dict[str, object]:
    """Return the fields of a time in JSON: ms as `name`, ISO-8601 as `name_iso`."""
    return {name: ms, f"{name}_iso": None if ms is None else time_text(ms)}


class Output:
    """The destination of objects, lines and findings. `stream`: None for text."""

    def __init__(self, out: TextBuffer, form: str) -> None:
        self._out = out
        self.stream = json_stream(form, out)
        self.outcome = Outcome(stream=self.stream)

    def line(self, text: str = "") -> None:
        """Print a line of text."""
        self._out.put(printable(text) + "\n")

    def raw(self, text: str) -> None:
        """Print text that another program reads, unchanged."""
        self._out.put(text)

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[str]], notes: Sequence[Sequence[str]] = ()) -> None:
        """Print indented rows below the headings of their columns; on a terminal no wider than it is.

        notes  for each row, lines that are printed below it
        """
        heading, *lines = table_lines(columns, rows, terminal_width(), "  ")
        self._out.put(heading + "\n")
        for line, below in zip_longest(lines, notes, fillvalue=()):
            self._out.put(f"{line}\n")
            for note in below:
                self.line(f"      {note}")

    def flush(self) -> None:
        """Write the output so far."""
        self._out.flush()


def show(form: str, work: Callable[[Output], None]) -> int:
    """Run a function that prints to stdout, and report its error → exit status."""
    from engine.dump.text_buffer import TextBuffer
    from engine.errors import KafkalogError
    from kafkalog_cli.output import raw_stdout

    with TextBuffer(raw_stdout()) as out:
        output = Output(out, form)
        try:
            work(output)
        except KafkalogError as error:
            output.flush()
            output.outcome.error(error)
        status = output.outcome.finish()
        output.flush()
    return status

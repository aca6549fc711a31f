"""What shows the files of a dump: as text (`text`) or as JSON (`json_objects`); `matches` only counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from engine.dump.entries import Entry
    from engine.dump.selection import Selector
    from engine.files import OpenFile
    from engine.layout import FileName, PartitionDir
    from engine.record.reader import Chunk
    from engine.record.windows import Window


class DumpRenderer(Protocol):
    """Shows file after file. What is wrong with a file is not its business; see `findings`."""

    def file(self, path: str, name: FileName | None) -> None:
        """A file begins. None: its name is none of Kafka's, and it is not read."""

    def log(self, path: str, partition: PartitionDir | None) -> LogRenderer:
        """What shows the batches of the log at `path`; `partition` is what the name of its directory says."""
        ...

    def log_07(self, file: OpenFile, path: str, selector: Selector | None) -> None:
        """Show what is selected of a log of 0.7 (None: all), and report what is wrong with it."""

    def entry(self, entry: Entry) -> None:
        """An entry of an index, a snapshot, a checkpoint or another small file."""

    def empty_index(self, path: str) -> None:
        """The offset index at `path` has no entries."""

    def sound_index(self, path: str) -> None:
        """--index-sanity-check: the index at `path` passes."""

    def count(self, path: str | None, records: int, batches: int) -> None:
        """--count: so many fit in the log at `path`; None: in all of them."""

    def flush(self) -> None:
        """Hand out what was shown up to here."""


class LogRenderer(Protocol):
    """Shows what one log holds."""

    def batches(self, window: Window, row: int, last_row: int) -> None:
        """Batches row … last_row − 1 without their records (shallow iteration)."""

    def records(self, chunk: Chunk, base: int) -> None:
        """Batches first_row … last_row − 1 of the chunk and its records, interleaved.

        base  file position of the window that the batches' positions count from
        """

    def trailing(self, count: int) -> None:
        """`count` bytes at the end of the log belong to no batch."""

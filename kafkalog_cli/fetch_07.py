"""Read a log of Kafka 0.7 for fetch. It stands alone because only these logs need its imports."""

from __future__ import annotations

import sys
from itertools import islice
from typing import TYPE_CHECKING

from engine.errors import UsageError
from engine.files import now_ms
from engine.formats import LONG_MAX
from engine.kafka07.log import open_log_07
from engine.kafka07.reader import Reader07
from engine.kafka07.segment import Config07
from engine.overlay import OverlayFiles
from kafkalog_cli.fetch_output import send
from kafkalog_cli.selecting import EARLIEST, LATEST

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.files import ReadOnlyFiles
    from engine.findings import Finding
    from kafkalog_cli.fetch_output import Limit, Renderer, Wanted


class Log07:
    """A log of Kafka 0.7 for reading. Its messages have no key, time or batch; their offsets are positions of entries.

    Raises UsageError for options that do not apply, OffsetOutOfRange07, and Refused07 for a log that does not open.
    """

    def __init__(
        self, below: ReadOnlyFiles, path: str, wanted: Wanted, report: Callable[[Finding], None], start: int | None = None
    ) -> None:
        _refuse_unknown_to_07(path, wanted)
        files, self._wanted = OverlayFiles(below, now_ms()), wanted  # opening creates missing files: in memory only
        self.log = open_log_07(files, path.rstrip("/"), Config07(), now=now_ms(), need_recovery=False)
        self._reader = Reader07(files, self.log, report, wanted.max_bytes)
        self._unlimited = Reader07(files, self.log, lambda _finding: None)
        self._skip = 0
        try:
            self.start = self._start() if start is None else start
        except BaseException:
            self.close()
            raise

    def _start(self) -> int:
        start = self._wanted.start
        if start == EARLIEST:
            return self.log.log_start_offset
        if start == LATEST:
            return self.log.log_end_offset
        offset = int(start)
        if offset < 0:  # a number of messages before the end; offsets are bytes here
            offset, found = self._unlimited.last_messages(self.log.log_start_offset, LONG_MAX, -offset)
            self._skip = max(0, found + int(start))
        else:
            self._unlimited.check_offset(offset)
        return offset

    def show(self, renderer: Renderer, shown: Limit) -> None:
        """Print the wanted messages."""
        for message in islice(self._reader.messages(self.start), self._skip, None):
            if message.offset >= self._wanted.selection.end_offset:
                break
            shown.show_record(renderer, message)
            if shown.is_done():
                break

    def copy(self) -> None:
        """Copy whole entries to stdout, unchanged."""
        sys.stdout.flush()
        self._reader.copy(self.start, send)

    def last_matches(self, count: int) -> tuple[int, int]:
        """Return (offset, number of messages from that offset on) for the last `count` messages."""
        return self._unlimited.last_messages(self.start, self._wanted.selection.end_offset, count)

    def close(self) -> None:
        """Close all files."""
        self.log.close()


def _refuse_unknown_to_07(path: str, wanted: Wanted) -> None:
    """Raise UsageError for options that do not apply to a log of 0.7."""
    given = {
        "--open-transactions": wanted.open_transactions is not None,
        "--follow": wanted.follow, "--merge": wanted.merge,
        "--log-start-offset": wanted.log_start_offset is not None, "--high-watermark": wanted.high_watermark is not None,
        "--offset -N with --raw": wanted.raw and isinstance(wanted.start, int) and wanted.start < 0,
        **dict.fromkeys(wanted.selection.unknown_to_07(), True),
    }  # fmt: skip
    unknown = [option for option, is_given in given.items() if is_given]
    if unknown:
        raise UsageError(f"{path}: a log of Kafka 0.7 does not support {', '.join(unknown)}", path=path)

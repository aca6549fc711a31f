"""Walk a .log or .checkpoint file for a dump: its batches and records to a renderer, what is wrong to findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.dump.renderer import UNLIMITED
from engine.record.reader import ChunkReader
from engine.record.soundness import go_on, too_large, unsound_batches
from engine.record.windows import MAX_LOG_SIZE, LogWalk, Stop

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.dump.gaps import Gaps
    from engine.dump.renderer import DumpOptions, LogRenderer
    from engine.dump.selection import Selector
    from engine.files import OpenFile
    from engine.findings import Finding
    from engine.record.windows import Window


class LogDump:
    """Dumps one open log.

    path      as the user named it        gaps   takes the offsets that do not follow one another
    report    takes everything else that is wrong
    selector  decides what is shown; None: everything
    """

    def __init__(
        self, file: OpenFile, path: str, options: DumpOptions, renderer: LogRenderer, report: Callable[[Finding], None],
        gaps: Gaps, selector: Selector | None = None,
    ) -> None:
        self._file, self._path, self._options, self._renderer = file, path, options, renderer
        self._report, self._gaps = report, gaps
        self._reader = ChunkReader(path, report, options.max_decompressed_bytes, on_remark=lambda remark, _kind: report(remark),
                                   with_overlong=True)  # fmt: skip
        self._selector = selector

    def run(self, start: int = 0) -> None:
        """Walk the log from byte `start` on, where a batch begins."""
        options = self._options
        size = self._file.size()
        readable = min(size, MAX_LOG_SIZE)
        end = readable if options.max_bytes == UNLIMITED else min(readable, options.max_bytes)
        larger = too_large(self._path, size)
        if larger is not None:
            self._report(larger)
        if start:
            self._gaps.begin_anywhere()
        walk = LogWalk(self._file, start, end, max_batch_bytes=options.max_batch_bytes)
        goes_on = True
        while goes_on:
            for window in walk:
                self._check_headers(window)
                if self._selector is None:
                    self._show(window)
                    continue
                self._gaps.feed_batches(window)
                self._select(self._selector, window)
                if self._selector.is_past(window) or self._selector.finished:
                    return
            goes_on, findings = go_on(walk, search=options.continue_on_corruption, is_cut=end < size)
            if not goes_on and walk.stop is Stop.TORN and options.max_bytes == UNLIMITED:
                self._renderer.trailing(size - walk.position)
            for finding in findings:
                self._report(finding)

    def _show(self, window: Window) -> None:
        """Everything that a window holds."""
        if not self._options.iterates:
            self._gaps.feed_batches(window)
            self._renderer.batches(window, 0, window.rows)
            return
        for chunk in self._reader.chunks(window):
            self._gaps.feed(chunk.without_records() if chunk.is_overlong else chunk, window.base)
            self._renderer.records(chunk, window.base)

    def _select(self, selector: Selector, window: Window) -> None:
        """What the selection wants of a window."""
        for row, last_row in selector.runs(window):
            if selector.finished:
                return
            if not self._options.iterates:
                self._renderer.batches(window, *selector.batches(row, last_row))
                continue
            for chunk in self._reader.chunks(window, row, last_row):
                if chunk.is_overlong:
                    continue  # who selects asks for records
                self._renderer.matches(chunk, window.base, selector)

    def _check_headers(self, window: Window) -> None:
        for _, finding in unsound_batches(self._path, window, codecs=not self._options.iterates):
            self._report(finding)

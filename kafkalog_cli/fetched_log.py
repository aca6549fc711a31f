"""A log that `fetch` or `export` reads: its view, the first offset, and what holds back records at its end."""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from engine.discovery.names import parent_of
from engine.discovery.paths import is_log_07
from engine.errors import KafkalogError, UnreadableFile, UsageError, argument
from engine.files import now_ms
from engine.formats import INT_MAX, LONG_MAX
from engine.log.errors import RecordsInRemoteStorage
from engine.log.fetch.lost_offsets import lost_offsets
from engine.log.fetch.reading import FetchIsolation, out_of_range, read
from engine.log.fetch.records import FetchLimits, RecordFetcher, last_matches
from engine.log.fetch.view import BEING_WRITTEN, PartitionView
from engine.log.logdir.log_dirs import find_log_dirs
from engine.log.logdir.topics import not_read, policy_beside, remote_log_start
from engine.log.verify.losses import read_evidence
from engine.overview.log_losses import proven_losses
from kafkalog_cli.fetch_output import Limit, send
from kafkalog_cli.selecting import EARLIEST, LATEST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.files import ReadOnlyFiles
    from engine.findings import Finding
    from engine.log.fetch.open_transactions import HeldBack
    from engine.log.fetch.records import Run
    from engine.remote.access import RemoteAccess
    from engine.remote.reading import TieredView
    from kafkalog_cli.fetch_07 import Log07
    from kafkalog_cli.fetch_output import Output, ReadTally, Renderer, Wanted

ISOLATIONS = {"read_uncommitted": FetchIsolation.HIGH_WATERMARK, "read_committed": FetchIsolation.READ_COMMITTED}
_WAIT = 0.2  # seconds between two checks of a followed log
_PATIENCE = 10  # seconds: a broker writes a batch faster
_LARGEST_FETCH = INT_MAX


class Source(NamedTuple):
    """The source of logs. `remote`: access to their remote segments; None: those are not read."""

    files: ReadOnlyFiles
    remote: RemoteAccess | None


class Log:
    """A partition that is being read: its view, the next offset, and open transactions at its end.

    report  receives damage and records that are left out
    start   the first offset; None: from `wanted`
    """

    def __init__(
        self, path: str, wanted: Wanted, report: Callable[[Finding], None], source: Source, start: int | None = None
    ) -> None:
        files, remote = source
        self.path, self.report = path, report
        self.view = _view(files, path, wanted, report)
        self.log: PartitionView | TieredView = self.view
        try:
            if remote is not None:
                self.log = remote.open(self.view, wanted.log_start_offset, report) or self.view
            self.held = None
            if wanted.isolation == "read_committed" and not wanted.follow:
                self.held = self._held_back(files, wanted)
            self.start = _start(self.view, self.log, wanted) if start is None else start
            if remote is None:
                _check_remote(files, self.view, wanted, report)
        except BaseException:
            self.view.close()
            raise
        self.fetcher = RecordFetcher(
            self.log, self.start, ISOLATIONS[wanted.isolation], report, FetchLimits(max_bytes=wanted.max_bytes),
            selection=wanted.selection,
        )
        self._wanted, self._waited, self._tail = wanted, 0.0, self.view.tail
        self._reported: Finding | None = None
        self._is_checked = False

    def show(self, renderer: Renderer, shown: Limit) -> None:
        """Print the wanted records, and report what was lost among them, and what open transactions hold back."""
        for run in self.fetcher.runs():
            shown.show(renderer, run)
            if shown.is_done():
                break
        self.report_losses(self.fetcher.offset)
        report_held_back(self, self.fetcher.offset, self._wanted)

    def copy(self) -> None:
        """Copy whole batches to stdout, unchanged, and report the same."""
        reached = _copy_batches(self, self._wanted)
        self.report_losses(reached)
        report_held_back(self, reached, self._wanted)

    def report_losses(self, reached: int) -> None:
        """Report lost offsets from the start up to `reached`, where reading ended. Does nothing when it is called again."""
        if self._is_checked:
            return
        self._is_checked = True
        files, directory = self.view.files, self.view.directory
        policy = partial(policy_beside, files, directory)
        for finding in lost_offsets(files, directory, (self.start, reached), policy, self.fetcher.gapped):
            self.report(finding)
        end = self.view.log_end_offset
        if reached >= end and read_evidence(files, directory, of_end_only=True).beyond(end):
            for finding in proven_losses(files, [directory], None):  # measures the end again: a broker may append
                self.report(finding)

    def last_matches(self, count: int) -> tuple[int, int]:
        """See engine.log.fetch.records.last_matches."""
        return last_matches(self.log, self.start, ISOLATIONS[self._wanted.isolation], self._wanted.selection, count)

    def close(self) -> None:
        """Close all files."""
        if self.log is not self.view:
            self.log.close()
        self.view.close()

    def _held_back(self, files: ReadOnlyFiles, wanted: Wanted) -> HeldBack | None:
        from engine.log.fetch.open_transactions import TransactionStates, end_as_coordinator, held_back
        from engine.log.logdir.startup import of_one_cluster

        held = held_back(self.view)
        if held is not None and wanted.open_transactions == "abort":
            log_dirs = of_one_cluster(files, parent_of(files.absolute(self.view.directory)), wanted.log_dirs)
            states = TransactionStates(files, log_dirs, self.report)
            end_as_coordinator(self.view, held, states)
        return held

    def runs(self, output: Output, tally: ReadTally) -> Iterator[Run]:
        """Return the records from the next offset on. An error ends the records of this log only."""
        try:
            yield from self.fetcher.runs()
        except KafkalogError as error:
            tally.failed(self.path)
            output.flush()
            output.outcome.error(error)

    def has_more(self) -> bool:
        """Check again whether the log has more records.

        An incomplete batch at its end is being written; if it stays unchanged for long, it is reported once.
        """
        is_longer = self.view.refresh()
        if is_longer or self.view.tail != self._tail:
            self._waited, self._tail = 0.0, self.view.tail
            return is_longer
        tail, self._waited = self._tail, self._waited + _WAIT
        if tail is not None and tail.code in BEING_WRITTEN and self._waited >= _PATIENCE and tail != self._reported:
            self.report(tail._replace(what=f"{tail.what}, unchanged for {_PATIENCE} s: not read"))
            self._reported = tail
        return False


def open_log(
    path: str, wanted: Wanted, report: Callable[[Finding], None], source: Source, start: int | None = None
) -> Log | Log07:
    """Open the log at `path`, of any version of Kafka."""
    if is_log_07(source.files, path):
        from kafkalog_cli.fetch_07 import Log07

        return Log07(source.files, path, wanted, report, start)
    return Log(path, wanted, report, source, start)


def rounds(logs: list[Log], wanted: Wanted) -> Iterator[None]:
    """Yield once; with --follow, again whenever a log has more records."""
    yield
    while wanted.follow and now_ms() < wanted.selection.to_ms:
        if all(log.fetcher.offset >= wanted.selection.end_offset for log in logs):
            return
        looks = [log.has_more() for log in logs]
        if any(looks):
            yield
        else:
            time.sleep(_WAIT)


def _view(files: ReadOnlyFiles, path: str, wanted: Wanted, report: Callable[[Finding], None]) -> PartitionView:
    """Open the partition at `path`. Raises UsageError if `path` is a log dir, UnreadableFile if it does not exist."""
    try:
        return PartitionView(
            files, path, report, log_start_offset=wanted.log_start_offset, high_watermark=wanted.high_watermark,
            is_followed=wanted.follow,
        )
    except UnreadableFile:
        if files.exists(path) and files.info(path).is_directory and any(one.is_whole for one in find_log_dirs(files, [path])):
            do = f"kafkalog fetch --topic NAME {argument(path)}    # or name the directory of a partition"
            raise UsageError(f"{path}: a log dir, or a directory of log dirs, not a partition", do, path=path) from None
        raise


def report_held_back(log: Log, reached: int, wanted: Wanted) -> None:
    """Report open transactions at which reading ended, if it got that far."""
    if log.held is None or reached < log.held.offset:
        return
    from engine.log.fetch.open_transactions import findings_of_ends, findings_of_wait

    is_ended = wanted.open_transactions == "abort"
    for finding in findings_of_ends(log.path, log.held) if is_ended else findings_of_wait(log.view.files, log.path, log.held):
        log.report(finding)


def _start(view: PartitionView, log: PartitionView | TieredView, wanted: Wanted) -> int:
    """Return the first offset. `log`: with its remote segments, if they are read."""
    offset = log.log_start_offset
    if wanted.start == LATEST:
        offset = _end(view, wanted)
    elif wanted.start != EARLIEST:
        offset = int(wanted.start)
        offset = max(log.log_start_offset, _end(view, wanted) + offset) if offset < 0 else offset
    from_ms = wanted.selection.from_ms
    if from_ms < 0:  # before 1970 the number would be one of the lookup's special times
        return offset
    found = log.offset_by_timestamp(from_ms)
    return max(offset, view.log_end_offset if found is None else found.offset)


def _check_remote(files: ReadOnlyFiles, view: PartitionView, wanted: Wanted, report: Callable[[Finding], None]) -> None:
    """Report wanted records of a tiered log that are only in remote storage.

    Raises RecordsInRemoteStorage if the requested offset is one of them, OffsetOutOfRange below them.
    """
    first, offset = view.log_start_offset, -1
    if wanted.start != EARLIEST:
        offset = _end(view, wanted) if wanted.start == LATEST else int(wanted.start)
        if offset >= first or (offset < 0 and _end(view, wanted) + offset >= first):
            return
    remote = remote_log_start(files, view.directory) if wanted.log_start_offset is None else None
    if remote is None or remote >= first:
        return
    missing = not_read(view.directory, remote, first)
    if 0 <= offset < remote:
        raise out_of_range(view, offset, f"starting from offset: {remote}")
    if offset >= remote:
        do = f"kafkalog fetch --offset {first} {argument(view.directory)}    # begins with the first local record"
        what = f"{view.directory}: offset {offset}: {missing.what}; the local log begins at offset {first}"
        raise RecordsInRemoteStorage(what, do, path=view.directory)
    report(missing)


def _end(view: PartitionView, wanted: Wanted) -> int:
    if wanted.isolation == "read_committed":
        return view.fetch_last_stable_offset_metadata().message_offset
    return view.high_watermark


def _copy_batches(log: Log, wanted: Wanted) -> int:
    """Copy whole batches to stdout, from the one that contains `log.start` on; returns the offset after the last one."""
    from engine.log.segment.batch_search import last_head

    sys.stdout.flush()
    view, offset, left = log.log, log.start, wanted.max_bytes
    is_first = True
    sent = (-1, 0)  # (segment, byte position) of the end of what was sent: offsets that run backwards must not lead back
    for _ in rounds([log], wanted):
        while left is None or left > 0 or is_first:
            limit = _LARGEST_FETCH if left is None else min(left, _LARGEST_FETCH)
            data = read(view, offset, limit, ISOLATIONS[wanted.isolation], min_one_message=is_first)
            segment, position = data.segment, data.place.position or 0
            if segment is None or not data.size:
                break
            end = position + data.size
            if segment.base_offset == sent[0]:
                position = max(position, sent[1])
            near_end = segment.position_before(LONG_MAX) if end == segment.size else position
            last = last_head(segment.log_file, max(position, near_end), end) if position < end else None
            if last is None:
                following = view.segments.higher_segment(segment.base_offset)
                if following is None or (left is not None and position < end):
                    break
                offset = following.base_offset
                continue
            end = last.position + last.size
            send(segment.log_file, position, end - position)
            offset, is_first, sent = last.next_offset, False, (segment.base_offset, end)
            if left is not None:
                left -= data.size  # includes the rest after the last whole batch, into which the next one does not fit
    return offset

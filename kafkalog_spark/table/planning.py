"""Plan the tasks of a query: ranges of offsets by the options, pieces of segments by the offset index, splits by bytes.

Planning happens on the driver, from file names, indexes and the last batches of each log. For read_committed it also reads the
batch headers after the last producer snapshot, or of the whole log if there is no snapshot.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from contextlib import contextmanager, suppress
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from engine.errors import KafkalogError, UnreadableFile
from engine.log.errors import CorruptRecord
from engine.log.fetch.open_transactions import end_as_coordinator, findings_of_ends, findings_of_wait, held_back
from engine.log.fetch.reading import FetchIsolation, fetch_offset_by_timestamp
from engine.log.fetch.view import BEING_WRITTEN
from kafkalog_spark.errors import (
    MISSING_DATA_ADVICE,
    PREFIX,
    DataLossError,
    OptionError,
    UnreadableLogError,
    failed,
    on_corruption,
    report_finding,
)
from kafkalog_spark.table.offsets import EARLIEST, LATEST
from kafkalog_spark.table.partitions import OpenPaths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from engine.log.fetch.open_transactions import HeldBack
    from engine.log.fetch.view import PartitionView
    from engine.log.segment.batch_search import BatchHead
    from engine.log.segment.readable_segment import ReadableSegment
    from kafkalog_spark.table.offsets import Limit, TopicPartition
    from kafkalog_spark.table.options import Bounds, ReadOptions
    from kafkalog_spark.table.partitions import Piece, Replicas

    Spread = Callable[[OpenPaths, Bounds, Sequence[Replicas]], Iterable["Planned | None"]]  # see `pieces_of`

_LOG = logging.getLogger("kafkalog")
T = TypeVar("T")
_MANY = 500  # partitions that tasks plan sooner than the driver
_OPENING = 1 << 20  # cost of opening a partition, as bytes that could be read meanwhile
_MOST_TASKS = 100_000  # most tasks of a query: a driver has no memory for many more


def plan(options: ReadOptions, bounds: Bounds, spread: Spread | None = None) -> list[list[Piece]]:
    """Return the splits of a batch query, one list of pieces for each task. Raises OptionError, LogDirError, DataLossError.

    spread  plans many partitions elsewhere; None: all are planned here
    """
    paths = OpenPaths(options)
    replicas = paths.replicas()
    check_partitions(options, replicas)
    wanted = [one for one in replicas if bounds.wants(one.topic, one.partition)]
    if spread is not None and len(wanted) >= _MANY:
        found = spread(paths, bounds, wanted)
    else:
        found = paths.together(partial(pieces_of, paths, bounds), wanted)
    planned = [one for one in found if one is not None]
    if len(planned) < len(wanted):
        _LOG.warning("%d of %d partitions are left out, because they cannot be read", len(wanted) - len(planned), len(wanted))
    pieces = [piece for one in planned for piece in one.pieces]
    _LOG.info("%d bytes to read in %d of %d partitions, %d segments skipped", sum(one.size for one in pieces),
              len({one.directory for one in pieces}), len(replicas), sum(one.skipped for one in planned))  # fmt: skip
    return into_splits(options, paths, pieces)


class Planned(NamedTuple):
    """The pieces of a partition, and the number of segments without a wanted offset."""

    pieces: list[Piece]
    skipped: int


def pieces_of(paths: OpenPaths, bounds: Bounds, replicas: Replicas) -> Planned | None:
    """Return the pieces of one partition; None: it cannot be read, and is skipped.

    Raises OptionError, LogDirError, DataLossError.
    """
    try:
        source = paths.best(replicas)
        return _with_readable(lambda: _pieces_of(paths, bounds, source))
    except UnreadableLogError as error:
        leave_out(paths.options, error)
        return None


def leave_out(options: ReadOptions, error: UnreadableLogError) -> None:
    """Log that something is left out because it cannot be read, or raise the error if the query does not go on without it."""
    if not options.skips_unreadable:
        raise error from None
    _LOG.warning("%s: left out", str(error).removeprefix(PREFIX))


class _FileSkipped(Exception):  # no error: the work is done again
    """A file could not be read, and is left out from now on."""


def _with_readable(work: Callable[[], T]) -> T:
    """Return the result of `work`, which is done again without each file that cannot be read, if the query skips them."""
    while True:
        with suppress(_FileSkipped):
            return work()


def _pieces_of(paths: OpenPaths, bounds: Bounds, source: Piece) -> Planned:
    options = paths.options
    with opened(paths, source, again=True) as view:
        held = held_back(view) if options.isolation is FetchIsolation.READ_COMMITTED else None
        left_out: tuple[tuple[int, int], ...] = ()
        if held is not None and options.ends_open_transactions:
            left_out = end_as_coordinator(view, held, paths.transaction_states(source.directory))
        wanted = range_of(options, bounds, source, view, paths)._replace(left_out=left_out)
        if held is not None and wanted.end >= held.offset:
            _report_held(options, view, held)
        if wanted.end >= view.log_end_offset:
            report_tail(options, view)
        used = [one for one in view.segments.values(wanted.start) if one.base_offset < wanted.end > wanted.start]
        pieces = list(split_range(wanted, view, options.split_bytes, by_index=options.level == "batches"))
        return Planned(pieces, len(view.segments) - len(used))


def _report_held(options: ReadOptions, view: PartitionView, held: HeldBack) -> None:
    """Log how open transactions are read, or that their records are held back."""
    is_ended = options.ends_open_transactions
    for finding in findings_of_ends(view.directory, held) if is_ended else findings_of_wait(view.files, view.directory, held):
        report_finding(finding)


def into_splits(options: ReadOptions, paths: OpenPaths, pieces: list[Piece]) -> list[list[Piece]]:
    """Divide ordered pieces of records or batches as the options require, and pack them into splits.

    Raises OptionError, LogDirError.
    """
    by_index = options.level == "batches"  # a batch must not be in two pieces
    step = -(-sum(piece.size for piece in pieces) // options.min_partitions)
    if step < options.split_bytes:
        pieces = [smaller for piece in pieces for smaller in _split_further(paths, piece, step, by_index=by_index)]
    if options.max_records is not None:
        offsets = sum(piece.end - piece.start for piece in pieces)
        if offsets // options.max_records > _MOST_TASKS:
            raise OptionError(
                f"maxRecordsPerPartition is {options.max_records}, and {offsets} offsets are wanted: more than {_MOST_TASKS} "
                f"tasks; name at least {-(-offsets // _MOST_TASKS)}, or fewer offsets"
            )
        pieces = [smaller for piece in pieces for smaller in _split_by_offsets(piece, options.max_records)]
    return pack([[piece] for piece in pieces], options.split_bytes, options.min_partitions, options.max_records)


@contextmanager
def opened(paths: OpenPaths, source: Piece, *, again: bool = False) -> Iterator[PartitionView]:
    """Open a partition for reading, and close it at the end. Raises LogDirError for any KafkalogError.

    again  the block is repeated by `_with_readable`
    """
    view = paths.view(source.directory)
    try:
        yield view
    except UnreadableFile as error:
        if again and paths.skip_in(view, error):
            raise _FileSkipped from None
        raise failed(error) from None
    except KafkalogError as error:
        raise failed(error) from None
    finally:
        view.close()


def report_tail(options: ReadOptions, view: PartitionView) -> None:
    """Report damage after the last batch, which no task will read. Raises LogDirError, see onCorruption.

    An incomplete batch or zeros at the end are not reported: a running broker may be writing there.
    """
    if view.tail is not None and view.tail.code not in BEING_WRITTEN:
        report, _ = on_corruption(options.on_corruption)
        report(view.tail)


def _split_further(paths: OpenPaths, piece: Piece, step: int, *, by_index: bool) -> list[Piece]:
    if piece.size <= step:
        return [piece]

    def divided() -> list[Piece]:
        with opened(paths, piece, again=True) as view:
            return list(split_range(piece, view, step, by_index=by_index))

    return _with_readable(divided)


def _split_by_offsets(piece: Piece, most: int) -> Iterator[Piece]:
    """Divide a piece into parts of at most `most` offsets, about equal; they may begin inside a batch."""
    parts = -(-(piece.end - piece.start) // most)
    points = [piece.start + (piece.end - piece.start) * number // parts for number in range(parts + 1)]
    for start, end in pairwise(points):
        yield piece._replace(start=start, end=end, size=piece.size // parts)


def check_partitions(options: ReadOptions, sources: Sequence[Piece | Replicas]) -> None:
    """Raise OptionError if the options name other partitions than those that exist."""
    there = {(source.topic, source.partition) for source in sources}
    check_names(options, there)
    for name, limit in (("starting", options.start), ("ending", options.end)):
        if limit.offsets is not None and set(limit.offsets) != there:
            raise OptionError(
                f"If {name}Offsets contains specific offsets, you must specify all TopicPartitions. Use -1 for latest, -2 for "
                f"earliest, if you don't care. Specified: {_shown(limit.offsets)} Assigned: {_shown(there)}"
            )
        if limit.timestamps is not None and set(limit.timestamps) != there:
            raise OptionError(
                f"If {name}OffsetsByTimestamp contains specific offsets, you must specify all topics. "
                f"Specified: {_shown(limit.timestamps)} Assigned: {_shown(there)}"
            )


def check_names(options: ReadOptions, there: set[TopicPartition]) -> None:
    """Raise OptionError if a named topic or partition is not `there`, unless failOnDataLoss is false."""
    missing = [f"{topic}-{partition}" for topic, partition in sorted((options.partitions or frozenset()) - there)]
    names = missing + sorted((options.topics or frozenset()) - {topic for topic, _ in there})
    if names and options.fail_on_data_loss:
        raise OptionError(f"no such topic or partition: {', '.join(names)}{MISSING_DATA_ADVICE}")


def _shown(partitions: Mapping[TopicPartition, int] | set[TopicPartition]) -> str:
    return "{" + ", ".join(f"{topic}-{partition}" for topic, partition in sorted(partitions)) + "}"


def range_of(options: ReadOptions, bounds: Bounds, source: Piece, view: PartitionView, paths: OpenPaths) -> Piece:
    """Return the offsets of `source` that options and filters select. Raises OptionError, DataLossError, KafkalogError.

    Logs a warning if selected records are in remote storage.
    """
    stable = options.isolation is FetchIsolation.READ_COMMITTED
    last = (view.fetch_last_stable_offset_metadata() if stable else view.fetch_high_watermark_metadata()).message_offset
    start = start_of(options, source, view, last)
    end = _offset_of(options.end, source, view, last)
    end = last if end is None else end
    if start < view.log_start_offset or start > view.log_end_offset or end > view.log_end_offset:
        if options.fail_on_data_loss:
            asked, has = f"[{start}, {end})", f"[{view.log_start_offset}, {view.log_end_offset})"
            what = f"{source.topic}-{source.partition}: offsets {asked} are requested, but the log has {has}"
            raise DataLossError(f"{what}{paths.remote_suffix(view)}.")
        start = max(start, view.log_start_offset)
    if max(start, bounds.first_offset) <= view.log_start_offset or options.start.is_by_time:
        paths.report_remote(view)
    start, end = max(start, bounds.first_offset), min(end, last, bounds.end_offset)
    if bounds.from_ms is not None and start < end:
        start = max(start, _first_offset_since(view, bounds.from_ms, end))
    return source._replace(start=start, end=max(start, end))


def _first_offset_since(view: PartitionView, timestamp: int, end: int) -> int:
    """Return an offset at or before every record with at least this timestamp; `end` if the indexes exclude such records.

    Unlike ListOffsets, no timestamp is special, and a segment without a usable time index is assumed to have such records.
    """
    for segment in view.segments:
        largest = segment.largest_record_timestamp
        if largest is None:
            return segment.base_offset
        if largest >= timestamp:
            found = segment.find_offset_by_timestamp(timestamp, view.log_start_offset)
            if found is not None:
                return found.offset
    return end


def start_of(options: ReadOptions, source: Piece, view: PartitionView, last: int) -> int:
    """Return the first offset to read, by the starting options. Raises OptionError, KafkalogError."""
    offset = _offset_of(options.start, source, view, last)
    if offset is None and not options.start_at_latest:
        timestamp = options.start.of_time((source.topic, source.partition))
        asked = f"topic-partition {source.topic}-{source.partition} and timestamp {timestamp}"
        raise OptionError(f"No offset matched from request of {asked}.")
    return last if offset is None else offset


def _offset_of(limit: Limit, source: Piece, view: PartitionView, last: int) -> int | None:
    """Return the offset of a limit; `last` is that of the end. None: no record is as late."""
    key = (source.topic, source.partition)
    if limit.is_by_time:
        timestamp = limit.of_time(key)
        return None if timestamp is None else _by_time(view, timestamp, last)
    offset = limit.everywhere if limit.offsets is None else limit.offsets.get(key)
    if offset is None or offset == LATEST:
        return last
    return view.log_start_offset if offset == EARLIEST else offset


def _by_time(view: PartitionView, timestamp: int, last: int) -> int | None:
    if timestamp in (EARLIEST, LATEST):
        return view.log_start_offset if timestamp == EARLIEST else last
    if timestamp >= 0 and any(one.largest_record_timestamp is None for one in view.segments):  # a copy without time indexes
        found = (segment.find_offset_by_timestamp(timestamp, view.log_start_offset) for segment in view.segments)
        return next((one.offset for one in found if one is not None), None)
    known = fetch_offset_by_timestamp(view, timestamp)
    return None if known is None else known.offset


def split_range(wanted: Piece, view: PartitionView, step: int, *, by_index: bool = True) -> Iterator[Piece]:
    """Divide a range into pieces of about `step` bytes, each in one segment.

    by_index  pieces begin where batches begin, as the offset index says. False: a segment in a store, whose index would take
              requests, is divided as if all its records had the same size
    """
    start = wanted.start
    if start >= wanted.end:
        return
    whole = wanted._replace(log_end=view.log_end_offset_metadata())
    segments = [one for one in view.segments.values(start) if one.base_offset < wanted.end]
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        end = wanted.end if following is None else min(wanted.end, following.base_offset)
        if segment.needs_requests and not by_index:
            after = view.log_end_offset if following is None else following.base_offset
            points = _even_points(segment, (start, end), after, step)
        else:
            first = 0 if start <= segment.base_offset else _position(segment, start)
            is_whole = following is not None or end >= view.log_end_offset
            last = segment.size if is_whole else _position(segment, end)
            points = [(start, first), *_split_points(segment, start, end, step), (end, last)]
        for (one, at), (other, stop) in pairwise(points):
            if one < other:
                yield whole._replace(start=one, end=other, size=max(0, stop - at))
        start = max(start, end)


def _even_points(segment: ReadableSegment, wanted: tuple[int, int], after: int, step: int) -> list[tuple[int, int]]:
    """Return (offset, estimated position) where pieces of a segment of offsets up to `after` begin, and the end."""
    start, end = max(wanted[0], segment.base_offset), wanted[1]
    offsets = max(1, after - segment.base_offset)
    parts = max(1, -(-segment.size * (end - start) // offsets // step))
    points = (start + (end - start) * number // parts for number in range(parts + 1))
    return [(offset, segment.size * (offset - segment.base_offset) // offsets) for offset in points]


def _position(segment: ReadableSegment, offset: int) -> int:
    """Return the position of the batch with `offset`; the segment size if there is none, or damage hides it."""
    head = _head(segment, offset)
    return segment.size if head is None else head.position


def _head(segment: ReadableSegment, offset: int) -> BatchHead | None:
    """Return the batch with `offset`; None: not found, or after damage, which the reading task reports (onCorruption)."""
    try:
        return segment.translate_offset(offset)
    except CorruptRecord:
        return None


def _split_points(segment: ReadableSegment, start: int, end: int, step: int) -> Iterator[tuple[int, int]]:
    """Yield (base offset, position) of batches between start and end, about every `step` bytes, by the offset index."""
    target = step
    while target < segment.size:
        index = segment.offset_index
        number = bisect_left(range(len(index)), target, key=lambda one: index.entry(one).position)
        if number == len(index):
            return
        entry = index.entry(number)
        head = _head(segment, entry.offset)  # an entry names the last offset of a batch
        if head is not None and start < head.base_offset < end:
            yield head.base_offset, head.position
            start = head.base_offset  # with an index out of order, no record must be read twice
        target = max(target, entry.position) + step


def pack(
    groups: Sequence[Sequence[Piece]], split_bytes: int, parts: int = 1, most: int | None = None
) -> list[list[Piece]]:
    """Pack groups of pieces, in order, into splits of about `split_bytes`; into at least `parts` if there are enough groups.

    most  most offsets in a split, if no group has more; None: no limit
    """
    sizes = [sum(piece.size + _OPENING for piece in group) for group in groups]
    room = min(split_bytes + _OPENING, -(-sum(sizes) // parts))
    splits: list[list[Piece]] = []
    filled, offsets = room, 0
    for group, size in zip(groups, sizes, strict=True):
        more = sum(piece.end - piece.start for piece in group)
        if not splits or (filled and filled + size > room) or (most is not None and offsets + more > most):
            splits.append([])
            filled = offsets = 0
        splits[-1] += group
        filled += size
        offsets += more
    return [_joined(split) for split in splits]


def _joined(pieces: list[Piece]) -> list[Piece]:
    """Join adjacent pieces of a partition, since opening a partition is expensive."""
    joined: list[Piece] = []
    for piece in pieces:
        before = joined[-1] if joined else None
        if before is not None and (before.directory, before.end) == (piece.directory, piece.start):
            joined[-1] = before._replace(end=piece.end, size=before.size + piece.size)
        else:
            joined.append(piece)
    return joined

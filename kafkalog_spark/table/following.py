"""Plan the micro-batches of a stream over growing partitions.

Stream offsets have the form of Spark's Kafka source: {"topic": {"0": next offset to read}}. No state is kept between calls, so
a query continues from its checkpoint even if segments were rolled or deleted meanwhile.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from engine.log.fetch.reading import FetchIsolation
from kafkalog_spark.errors import DataLossError, UnreadableLogError
from kafkalog_spark.table.partitions import OpenPaths
from kafkalog_spark.table.planning import check_partitions, into_splits, leave_out, opened, report_tail, split_range, start_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from engine.log.fetch.view import PartitionView
    from kafkalog_spark.table.offsets import TopicPartition
    from kafkalog_spark.table.options import ReadOptions
    from kafkalog_spark.table.partitions import Piece

    Offsets = dict[TopicPartition, int]
    StreamOffset = dict[str, dict[str, int]]  # the form in Spark's checkpoints


def to_stream(offsets: Mapping[TopicPartition, int]) -> StreamOffset:
    """Convert offsets to the form in Spark's checkpoints."""
    topics: StreamOffset = {}
    for (topic, partition), offset in sorted(offsets.items()):
        topics.setdefault(topic, {})[str(partition)] = offset
    return topics


def from_stream(offset: StreamOffset) -> Offsets:
    """Convert offsets from the form in Spark's checkpoints."""
    return {(topic, int(partition)): one for topic, partitions in offset.items() for partition, one in partitions.items()}


def first_offsets(options: ReadOptions) -> Offsets:
    """Return the offsets at which a new query begins, by its starting options. Raises OptionError, LogDirError."""
    paths = OpenPaths(options)
    sources = paths.sources()
    check_partitions(options, sources)
    found: Offsets = {}
    for source in sources:
        with _goes_on(options), opened(paths, source) as view:
            start = start_of(options, source, view, _end(options, view))
            if start <= view.log_start_offset or options.start.is_by_time:
                paths.report_remote(view)
            found[source.topic, source.partition] = start
    return found


def last_offsets(options: ReadOptions, start: Offsets) -> tuple[Offsets, Offsets]:
    """Return (end of every partition, offset to continue from). Partitions that are not in `start` begin at their log start.

    Raises DataLossError if partitions or offsets of `start` no longer exist and failOnDataLoss is true; otherwise skips them.
    A missing partition keeps its offset in both results: reading continues there if the partition comes back.
    """
    paths = OpenPaths(options)
    sources = {(source.topic, source.partition): source for source in paths.sources()}
    _check_deleted(options, start, sources)
    begins, ends = dict(start), dict(start)
    for key, source in sources.items():
        with _goes_on(options), opened(paths, source) as view:
            end = _end(options, view)
            if options.on_corruption == "fail":  # other choices are reported by `plan_between`, once for each micro-batch
                report_tail(options, view)
            begin = start.get(key, view.log_start_offset)
            if begin < view.log_start_offset or begin > view.log_end_offset:
                if options.fail_on_data_loss:
                    there = f"[{view.log_start_offset}, {view.log_end_offset})"
                    remote = paths.remote_suffix(view)
                    raise DataLossError(f"{key[0]}-{key[1]}: offset {begin} is due, but the log has {there}{remote}.")
                begin = min(max(begin, view.log_start_offset), end)
            begins[key], ends[key] = begin, max(begin, end)
    return ends, begins


@contextmanager
def _goes_on(options: ReadOptions) -> Iterator[None]:
    """Leave out a partition that cannot be read, if the query goes on without it: it is as one that does not exist."""
    try:
        yield
    except UnreadableLogError as error:
        leave_out(options, error)


def _check_deleted(options: ReadOptions, known: Iterable[TopicPartition], there: Container[TopicPartition]) -> None:
    missing = sorted(f"{topic}-{partition}" for topic, partition in known if (topic, partition) not in there)
    if missing and options.fail_on_data_loss:
        raise DataLossError(f"no longer in the log dirs: {', '.join(missing)}.")


def _end(options: ReadOptions, view: PartitionView) -> int:
    if options.isolation is FetchIsolation.READ_COMMITTED:
        return view.fetch_last_stable_offset_metadata().message_offset
    return view.fetch_high_watermark_metadata().message_offset


def limited(begins: Offsets, ends: Offsets, most: int) -> Offsets:
    """Return the ends of a micro-batch of at most `most` offsets, in proportion to the backlog of each partition.

    Shares are rounded down. The remaining offsets are given one by one to partitions whose share is below one offset, in turns,
    then to those that lost most by rounding. Spark's Kafka source gives one offset to every partition with a share below one,
    and so exceeds the limit (KafkaMicroBatchStream.rateLimit).
    """
    due = {key: ends[key] - begins[key] for key in sorted(ends) if ends[key] > begins[key]}
    total = sum(due.values())
    if total <= most:
        return dict(ends)
    shares = {key: most * lag // total for key, lag in due.items()}
    turn = sum(begins[key] for key in ends) // most % len(due)  # advances by one with each micro-batch, without state
    in_turns = [*due][turn:] + [*due][:turn]
    tiny = [key for key in in_turns if not shares[key]]
    others = sorted((key for key in in_turns if shares[key]), key=lambda key: most * due[key] % total, reverse=True)
    for key in (tiny + others)[: most - sum(shares.values())]:
        shares[key] += 1
    return {key: begins[key] + shares.get(key, 0) for key in ends}


def plan_between(options: ReadOptions, start: Offsets, end: Offsets) -> list[list[Piece]]:
    """Return the splits of a micro-batch between two stream offsets. Raises LogDirError, DataLossError.

    After the micro-batch, Spark considers everything before its end as read: offsets that are missing now are never read.
    """
    pieces: list[Piece] = []
    paths = OpenPaths(options)
    sources = paths.sources()
    _check_deleted(options, {*start, *end}, {(source.topic, source.partition) for source in sources})
    for source in sources:
        key = (source.topic, source.partition)
        if key not in end:
            continue
        with _goes_on(options), opened(paths, source) as view:
            begin = start.get(key, view.log_start_offset)
            if not view.log_start_offset <= begin <= end[key] <= view.log_end_offset:
                if options.fail_on_data_loss:
                    there = f"[{view.log_start_offset}, {view.log_end_offset})"
                    remote = paths.remote_suffix(view)
                    asked = f"offsets [{begin}, {end[key]})"
                    raise DataLossError(f"{key[0]}-{key[1]}: {asked} are due, but the log has {there}{remote}.")
                begin = max(begin, view.log_start_offset)
            stop = min(end[key], view.log_end_offset)
            if stop == view.log_end_offset:
                report_tail(options, view)
            pieces += split_range(source._replace(start=begin, end=max(begin, stop)), view, options.split_bytes, by_index=False)
    return into_splits(options, paths, pieces)


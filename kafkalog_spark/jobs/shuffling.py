"""A round of cleaning of one partition, spread over tasks: for keys that do not fit one task's offset map.

Digests of keys and their offsets are shuffled, no key and no value. Three steps: transactions are resolved from the headers of
all segments; the last offset of each digest becomes a bit for each record that stays; each group of segments is written anew
by the engine's second pass, into a directory that no other attempt uses. Nothing of the log is changed by it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import KafkalogError
from engine.files import Files
from engine.formats import LONG_MAX
from engine.log.cleaner.offset_map import SkimpyOffsetMap
from engine.log.cleaner.pieces import Changed, KeyReader, transaction_events, write_planned
from engine.log.cleaner.round_plan import resolve_transactions
from engine.log.cleaner.stats import CleanerStats
from engine.log.cleaner.survivor_bits import PART_BYTES, PART_SHIFT, GroupBits, OffsetBits, parts_of
from engine.log.cleaner.uncleanable import Uncleanable
from kafkalog_spark.jobs.bit_rows import BITS, COUNT, FAILED, GROUP, BitRows, note_row
from kafkalog_spark.jobs.holds import JobIsOver
from kafkalog_spark.schema import ddl_of
from kafkalog_spark.table.columns import column, rows_as_batches
from kafkalog_spark.tasks import packed, run, unpacked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, Row, SparkSession

    from engine.log.cleaner.offset_map import Survivors
    from engine.log.cleaner.round_plan import ResolvedTransactions, RoundPlan, SegmentToClean
    from engine.log.cleaner.survivor_bits import BitPart
    from engine.log.cleaner.transactions import PackedTransactions

_TASK_BYTES = 64 << 20  # of segments
_BITS_MEMORY = 64 << 20  # bytes of a task
_ROWS_BYTES = 2 << 20  # of a batch of bits
_EVENTS = pa.schema([("segment", pa.int64()), ("events", pa.binary()), ("problem", pa.string())])
_TO_READ = pa.schema([("token", pa.int64()), ("segments", pa.binary())])
_KEYS = pa.schema([("one", pa.int64()), ("other", pa.int64()), ("at", pa.int64())])
_SURVIVING = pa.schema([("at", pa.int64())])
_WRITTEN = pa.schema([("group", pa.int64()), ("directory", pa.string()), ("stats", pa.string()), ("problem", pa.string())])
_TROUBLES = (  # an offset of LONG_MAX − n says: a task has met the n-th of these
    (JobIsOver, "the job that one of its tasks belongs to has ended"),
    (Changed, "its segments have changed since they were read"),
    (KafkalogError, "its records are damaged, out of order, or can not be read"),
)
_LEAST_TROUBLE = LONG_MAX - len(_TROUBLES) + 1


class Unsuited(Exception):
    """The partition can not be cleaned in this way; why is the message. Nothing was changed."""


class Step(NamedTuple):
    """What every task of both later steps knows. `secret` and `memory`: see SkimpyOffsetMap.

    plan       without transactions: of those each task is told what concerns its segments
    directory  where attempts write        check  raises JobIsOver where the job has ended
    """

    plan: RoundPlan
    secret: tuple[int, int]
    memory: int
    directory: str
    check: Callable[[], None]


@dataclass(frozen=True)
class WrittenGroups:
    """New segments: a directory for each, by the base offset of its group, and what the round did in sum."""

    directories: dict[int, str]
    stats: CleanerStats


def clean_by_shuffle(
    spark: SparkSession, plan: RoundPlan, secret: tuple[int, int], memory: int, directory: str, check: Callable[[], None]
) -> WrittenGroups:
    """Write all groups of `plan` anew, each into a directory of its own in `directory`, which is there and empty.

    memory  bytes of a task for an offset map, which brings records of one key together before the shuffle
    check   raises JobIsOver in a task whose job has ended
    Raises Unsuited, and what Spark raises where a task fails for good.
    """
    step = Step(plan.without_transactions, secret, memory, directory, check)
    splits = _splits(step.plan.segments)
    try:
        transactions = resolve_transactions(plan, _events(spark, step, splits))
    except Uncleanable as error:
        raise Unsuited(str(error)) from error
    of_splits, tokens = _tokens(spark, len(splits), len(plan.groups))
    to_read = [(token, _to_read(split, transactions)) for token, split in zip(of_splits, splits, strict=True)]
    to_write = [(token, GROUP, _to_write(group, transactions), 0) for token, group in zip(tokens, plan.groups, strict=True)]
    rows = (
        _surviving_bits(spark, _last_offsets(spark, step, to_read), step.plan, tokens)
        .union(spark.createDataFrame(to_write, ddl_of(BITS)))
        .repartition(len(tokens), "token")
        .mapInArrow(lambda batches: rows_as_batches(_write(batches, step, tokens), _WRITTEN), ddl_of(_WRITTEN))
        .collect()
    )
    problems = sorted(row["problem"] for row in rows if row["problem"] is not None)
    if problems:
        raise Unsuited(problems[0])
    return WrittenGroups({row["group"]: row["directory"] for row in rows}, _sum(rows))


def _to_read(segments: Sequence[SegmentToClean], known: ResolvedTransactions) -> bytes:
    """What a task of the second step is told of its segments, packed: a list of what KeyReader.read takes."""
    return packed([(segment, known.of_keys.get(segment.base_offset)) for segment in segments])


def _to_write(group: Sequence[SegmentToClean], known: ResolvedTransactions) -> bytes:
    """What a task of the third step is told of a group, packed: its segments, and what write_planned takes."""
    return packed((group, known.of_groups[group[0].base_offset]))


def _sum(rows: Sequence[Row]) -> CleanerStats:
    in_order = sorted(rows, key=lambda row: row["group"])
    return sum((CleanerStats(**json.loads(row["stats"])) for row in in_order), start=CleanerStats())


def _splits(segments: Sequence[SegmentToClean]) -> list[list[SegmentToClean]]:
    """Segments for each task, neighbours together."""
    splits: list[list[SegmentToClean]] = []
    size = 0
    for segment in segments:  # the first one may be empty, as compaction leaves it
        if not splits or size + segment.size > _TASK_BYTES:
            splits.append([])
            size = 0
        splits[-1].append(segment)
        size += segment.size
    return splits


def _tokens(spark: SparkSession, *counts: int) -> list[list[int]]:
    """For each count so many numbers, such that Spark's shuffle gives each of them a task of its own."""
    from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

    end = 16 * max(counts)
    hashes = [row[0] for row in spark.range(0, end, 1, 1).select(F.hash("id")).collect()]
    tokens = []
    for count in counts:
        of_task: dict[int, int] = {}
        for number, value in enumerate(hashes[: 16 * count]):
            of_task.setdefault(value % count, number)
        tokens.append([of_task.get(task, end + task) for task in range(count)])
    return tokens


# the first step


def _events(spark: SparkSession, step: Step, splits: list[list[SegmentToClean]]) -> dict[int, bytearray]:
    """Transactional and control batches by base offset of their segment, see `transaction_events`. Raises Unsuited."""

    def task(segments: list[SegmentToClean]) -> Iterator[pa.RecordBatch]:
        yield from rows_as_batches(_event_rows(step, segments), _EVENTS)

    events: dict[int, bytearray] = {}
    for row in run(spark, splits, _EVENTS, task).collect():
        if row["problem"] is not None:
            raise Unsuited(row["problem"])
        events.setdefault(row["segment"], bytearray()).extend(row["events"])
    return events


def _event_rows(step: Step, segments: list[SegmentToClean]) -> Iterator[dict[str, Any]]:
    """Rows of _EVENTS, each with many events of a segment."""
    files = Files()
    try:
        for segment in segments:
            step.check()
            for some in transaction_events(files, step.plan, segment):
                yield {"segment": segment.base_offset, "events": some}
    except KafkalogError as error:
        yield {"problem": str(error)}


# the second step


def _surviving_bits(
    spark: SparkSession, last: DataFrame, plan: RoundPlan, tokens: list[int], memory: int = _BITS_MEMORY
) -> DataFrame:
    """The offsets that survive: rows of BITS.

    Digests come to tasks in random order. Where the bits of all offsets fit the `memory` of a task, each gathers bits anywhere.
    Else offsets are shuffled once more and come part by part: a part takes as much memory for one offset as for all of its own.
    """
    from pyspark.sql import functions as F  # noqa: N812

    ddl = ddl_of(BITS)
    parts = len(parts_of(plan.groups[0][0].base_offset, plan.first_uncleanable_offset))
    if parts * PART_BYTES <= memory:
        return last.mapInArrow(lambda batches: _bits(map(_survivors, batches), plan, tokens, memory), ddl)
    part = F.shiftright(F.when(F.col("at") < 0, -1 - F.col("at")).otherwise(F.col("at")), PART_SHIFT)
    wanted = spark.conf.get("spark.sql.shuffle.partitions") or ""  # some platforms have a word there
    tasks = min(parts, max(int(wanted) if wanted.isdecimal() else 1, parts * PART_BYTES // memory + 1))
    return (
        last.mapInArrow(lambda batches: map(_as_column, map(_survivors, batches)), ddl_of(_SURVIVING))
        .repartition(tasks, part)
        .sortWithinPartitions(part)
        .mapInArrow(lambda batches: _bits(map(_of_column, batches), plan, tokens, memory), ddl)
    )


class _Survivors(NamedTuple):
    """Offsets that survive, and of how many keys they are the last ones; the others only asked.

    trouble  not 0: a task has met a problem, see _TROUBLES
    """

    offsets: tuple[pa.Array, ...]
    keys: int
    trouble: int = 0


def _survivors(batch: pa.RecordBatch) -> _Survivors:
    """What survives of rows of `_last_offsets`."""
    last = batch.column(0)
    put = last.filter(pc.greater_equal(last, 0))
    if trouble := _trouble(put):
        return _Survivors((), 0, trouble)
    return _Survivors((put,) if batch.num_columns == 1 else (put, _still_asking(last, batch.column(1))), len(put))


def _trouble(offsets: pa.Array) -> int:
    most: int = pc.max(offsets).as_py() if len(offsets) else 0
    return most if most >= _LEAST_TROUBLE else 0


def _as_column(found: _Survivors) -> pa.RecordBatch:
    """Rows of _SURVIVING: those that ask are −1 − offset."""
    if found.trouble:
        at = column([found.trouble], pa.int64())
    else:
        put, *asking = found.offsets
        at = pa.concat_arrays([put, *(pc.subtract(-1, one) for one in asking)])
    return pa.RecordBatch.from_arrays([at], schema=_SURVIVING)


def _of_column(batch: pa.RecordBatch) -> _Survivors:
    at = batch.column(0)
    if trouble := _trouble(at):
        return _Survivors((), 0, trouble)
    asks = pc.less(at, 0)
    return _Survivors((pc.if_else(asks, pc.subtract(-1, at), at),), len(at) - (pc.sum(asks).as_py() or 0))


def _last_offsets(spark: SparkSession, step: Step, to_read: list[tuple[int, bytes]]) -> DataFrame:
    """For each digest `last`, the last offset that was put; and `asking`, offsets that were not and ask for it.

    to_read  tokens and what each task is told
    last     negative: none was put
    """
    from pyspark.sql import functions as F  # noqa: N812

    def mapped(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for todo in batch.column(1).to_pylist():
                yield from _key_batches(step, unpacked(todo))

    keys = (
        spark.createDataFrame(to_read, ddl_of(_TO_READ))
        .repartition(len(to_read), "token")
        .mapInArrow(mapped, ddl_of(_KEYS))
    )
    last = F.max("at").alias("last")
    if not step.plan.some_only_ask:
        return keys.groupBy("one", "other").agg(last).select("last")
    asking = F.collect_list(F.when(F.col("at") < 0, -1 - F.col("at"))).alias("asking")
    return keys.groupBy("one", "other").agg(last, asking).select("last", "asking")


def _key_batches(
    step: Step, segments: list[tuple[SegmentToClean, PackedTransactions | None]]
) -> Iterator[pa.RecordBatch]:
    """Rows of _KEYS of some segments, each with what KeyReader.read takes."""
    offset_map = SkimpyOffsetMap(step.memory, step.secret)
    offset_map.clear(sum(segment.end_offset - segment.base_offset for segment, _ in segments))
    reader = KeyReader(Files(), step.plan, offset_map)
    try:
        for segment, known in segments:
            step.check()
            for columns in reader.read(segment, known):
                yield _batch(columns)
        for columns in reader.take():
            yield _batch(columns)
    except KafkalogError as error:
        trouble = LONG_MAX - next(number for number, (kind, _) in enumerate(_TROUBLES) if isinstance(error, kind))
        yield pa.RecordBatch.from_arrays([column([number], pa.int64()) for number in (0, 0, trouble)], schema=_KEYS)


def _batch(columns: Sequence[memoryview]) -> pa.RecordBatch:
    arrays = [pa.Array.from_buffers(pa.int64(), len(column), [None, pa.py_buffer(bytes(column))]) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=_KEYS)


def _bits(found: Iterable[_Survivors], plan: RoundPlan, tokens: list[int], memory: int) -> Iterator[pa.RecordBatch]:
    """Offsets that survive, for each group that they concern: rows of BITS."""
    rows, keys = BitRows(plan.groups, tokens), 0
    bits = OffsetBits(plan.groups[0][0].base_offset, plan.first_uncleanable_offset, memory)
    for survivors in found:
        if survivors.trouble:
            rows.fail(_TROUBLES[LONG_MAX - survivors.trouble][1])
        keys += survivors.keys
        for one in survivors.offsets:
            yield from _filled(rows, bits.add(_view(one)))
    yield from _filled(rows, bits.take())
    rows.count(keys)
    yield rows.take()


def _filled(rows: BitRows, parts: Iterable[BitPart]) -> Iterator[pa.RecordBatch]:
    for part in parts:
        rows.add(part)
        if rows.size >= _ROWS_BYTES:
            yield rows.take()


def _still_asking(last: pa.Array, asking: pa.Array) -> pa.Array:
    """Those of the asking offsets that no later one of their key was put for."""
    offsets = pc.list_flatten(asking)
    return offsets.filter(pc.greater(offsets, last.take(pc.list_parent_indices(asking))))


def _view(offsets: pa.Array) -> memoryview:
    if not len(offsets):
        return memoryview(b"").cast("q")
    return memoryview(offsets.buffers()[1]).cast("B").cast("q")[offsets.offset : offsets.offset + len(offsets)]


# the third step


def _write(batches: Iterable[pa.RecordBatch], step: Step, tokens: list[int]) -> Iterator[dict[str, Any]]:
    """Write the groups whose tokens come, with the parts that come for them → rows of _WRITTEN."""
    group_of = {token: number for number, token in enumerate(tokens)}
    bits_of: dict[int, GroupBits] = {}
    told: dict[int, bytes] = {}
    keys = 0
    for batch in batches:
        tokens_, firsts, bits, more = batch.columns
        for at, (token, first, count) in enumerate(zip(tokens_.to_pylist(), firsts.to_pylist(), more.to_pylist(), strict=True)):
            if first == FAILED:
                yield {"problem": bits[at].as_py().decode()}
                return
            number = group_of[token]
            group = step.plan.groups[number]
            if number not in bits_of:
                bits_of[number] = GroupBits(group[0].base_offset, group[-1].end_offset)
            keys += count
            if first == GROUP:
                told[number] = bits[at].as_py()
            elif first != COUNT:
                note_row(bits_of[number], group[0].base_offset, first, memoryview(bits[at].as_buffer()))
    for number in sorted(bits_of):
        try:
            group, known = unpacked(told[number])
            row = _write_group(step, group, known, bits_of.pop(number).survivors)
        except KafkalogError as error:
            yield {"problem": str(error)}
            return
        row["stats"]["map_entries"], keys = keys, 0
        yield {**row, "stats": json.dumps(row["stats"])}


def _write_group(
    step: Step, group: Sequence[SegmentToClean], known: PackedTransactions, survivors: Survivors
) -> dict[str, Any]:
    step.check()
    files, base_offset = Files(), group[0].base_offset
    directory = f"{step.directory}/{base_offset}-{uuid4().hex}"
    files.make_directory(directory)
    stats = write_planned(files, step.plan, group, known, survivors, directory)
    return {"group": base_offset, "directory": directory, "stats": asdict(stats)}

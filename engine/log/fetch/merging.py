"""The records of several logs as one sequence, in the order of their timestamps."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from engine.formats import LONG_MIN, RecordField
from engine.kernels.select import largest_timestamp

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.log.fetch.records import Run


def by_time(logs: Sequence[Iterator[Run]]) -> Iterator[tuple[int, Run]]:
    """The runs of `logs`, cut and interleaved so that timestamps grow → (which log, run).

    The records of one log keep the order of their offsets: one whose timestamp is smaller than that of a record before it
    comes directly after that record. Equal timestamps come in the order of `logs`. Each log needs columns of its own.
    """
    heads: list[tuple[int, int, Run]] = []  # (timestamp that the next record counts with, which log, what is left of its run)

    def follow(log: int, before: int, run: Run | None) -> None:
        if run is None:
            run = next(logs[log], None)
        if run is not None:
            heappush(heads, (max(before, run.chunk.records.table[RecordField.TIMESTAMP, run.first]), log, run))

    for log in range(len(logs)):
        follow(log, LONG_MIN, None)
    while heads:
        time, log, run = heappop(heads)
        end = run.end
        if heads:
            times, end = run.chunk.records.field(RecordField.TIMESTAMP), run.first
            while end < run.end and (max(time, times[end]), log) < heads[0][:2]:
                time, end = max(time, times[end]), end + 1
        else:
            time = max(time, largest_timestamp(run.chunk.records.table, run.first, run.end))
        yield log, run._replace(end=end)
        follow(log, time, run._replace(first=end) if end < run.end else None)

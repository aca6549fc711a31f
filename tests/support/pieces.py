"""A round of cleaning as a cluster does it, one piece after the other."""

from __future__ import annotations

from array import array
from random import Random
from typing import TYPE_CHECKING

from engine.log.cleaner.offset_map import SkimpyOffsetMap
from engine.log.cleaner.pieces import KeyReader, put_planned, transaction_events, write_planned
from engine.log.cleaner.round_plan import resolve_transactions
from engine.log.cleaner.stats import CleanerStats
from engine.log.cleaner.survivor_bits import GroupBits, OffsetBits, offsets_of, parts_of

if TYPE_CHECKING:
    from engine.files import Files
    from engine.log.cleaner.round_plan import RoundPlan
    from engine.log.partition.unified_log import UnifiedLog


def clean_in_pieces(files: Files, log: UnifiedLog, plan: RoundPlan, top: str, memory: int) -> CleanerStats:
    """Clean `log`; new segments are written in directories of `top`, which is there. → stats in sum."""
    events = {segment.base_offset: b"".join(transaction_events(files, plan, segment)) for segment in plan.segments}
    transactions = resolve_transactions(plan, events)
    last: dict[tuple[int, int], int] = {}
    asking = []
    for segment in plan.segments:  # each by a task of its own
        reader = KeyReader(files, plan, SkimpyOffsetMap(memory, (1, 2)))
        for found in (reader.read(segment, transactions.of_keys.get(segment.base_offset)), reader.take()):
            for columns in found:
                for one, other, at in zip(*columns, strict=True):
                    if at >> 63:
                        asking.append((one, other, ~at & (2**64 - 1)))
                    else:
                        last[one, other] = max(at, last.get((one, other), -1))
    survivors = [*last.values(), *(at for one, other, at in asking if at > last.get((one, other), -1))]
    Random(7).shuffle(survivors)
    bits = OffsetBits(plan.segments[0].base_offset, plan.first_uncleanable_offset, 1)
    parts = [*bits.add(memoryview(array("q", survivors))), *bits.take()]
    written, total = {}, CleanerStats(map_entries=len(last))
    for group in reversed(plan.groups):
        base_offset = group[0].base_offset
        directory = written[base_offset] = f"{top}/{base_offset}"
        files.make_directory(directory)
        known = transactions.of_groups[base_offset]
        mine = GroupBits(base_offset, group[-1].end_offset)
        for part in parts:
            if part.number in parts_of(base_offset, group[-1].end_offset):
                mine.add(offsets_of(part.number).start, part.bits)
        total += write_planned(files, plan, group, known, mine.survivors, directory)
    put_planned(log, plan, written)
    return total

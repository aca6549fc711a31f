"""A round of cleaning that others carry out in pieces: all that they must know of the log, without the log."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from engine.discovery.names import log_file_name
from engine.kernels.tables import EVENT_WORDS, TxnEvent
from engine.log.cleaner.cleaner import legacy_delete_horizon, with_ends
from engine.log.cleaner.groups import group_segments_by_size
from engine.log.cleaner.transactions import (
    AbortedTransactions,
    CleanedTransactionMetadata,
    LastRecords,
    PackedTransactions,
    aborted_transactions,
    segments_with_aborted,
)
from engine.log.cleaner.uncleanable import untold_abort

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.config.topic import LogConfig
    from engine.log.partition.unified_log import UnifiedLog

_MOST_OFFSETS = 1 << 28  # of a group: 32 MiB of bits
_NONE = AbortedTransactions()


class SegmentToClean(NamedTuple):
    """A segment with offsets base_offset … end_offset − 1.

    key_position  byte from which the first pass reads its keys; None: it is clean, and only asks for later offsets
    aborted       aborted transactions that the second pass meets from here on
    """

    base_offset: int
    end_offset: int
    size: int
    key_position: int | None
    aborted: AbortedTransactions


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """A round of cleaning of the log in `directory`: see Cleaner.clean and Round.

    groups          of segments that become one each, in order
    aborted         aborted transactions that the first pass meets
    some_only_ask   are there records that may be superseded and supersede nothing? Clean ones, or of transactions like aborted
                    ones
    """

    directory: str
    config: LogConfig
    now: int
    first_dirty_offset: int
    first_uncleanable_offset: int
    legacy_delete_horizon: int
    groups: tuple[tuple[SegmentToClean, ...], ...]
    aborted: AbortedTransactions
    last_records: LastRecords
    some_only_ask: bool

    @property
    def segments(self) -> list[SegmentToClean]:
        """All segments, in order."""
        return [segment for group in self.groups for segment in group]

    @property
    def without_transactions(self) -> RoundPlan:
        """The same without the aborted transactions, of which there may be very many."""
        groups = tuple(tuple(segment._replace(aborted=_NONE) for segment in group) for group in self.groups)
        return replace(self, groups=groups, aborted=_NONE)

    @property
    def fits_bits(self) -> bool:
        """Is no group of segments too wide for a bit for each of its offsets?"""
        return all(group[-1].end_offset - group[0].base_offset <= _MOST_OFFSETS for group in self.groups)


class ResolvedTransactions(NamedTuple):
    """What a pass knows of transactions where it reaches a segment, by base offset: the first pass, and the second one.

    Of those ahead only what concerns that segment, or that group.
    """

    of_keys: dict[int, PackedTransactions]
    of_groups: dict[int, PackedTransactions]


def plan_round(log: UnifiedLog, first_dirty_offset: int, first_uncleanable_offset: int) -> RoundPlan:
    """The round that Cleaner.clean would do with an offset map that holds all keys."""
    config = log.config
    dirty = {segment.base_offset for segment in log.segments.values(first_dirty_offset, first_uncleanable_offset)}
    segments = log.segments.values(0, first_uncleanable_offset)
    bases = [*(segment.base_offset for segment in segments[1:]), first_uncleanable_offset]
    behind = dict(zip((segment.base_offset for segment in segments), bases, strict=True))
    indexed = segments_with_aborted(log, log.segments.base_offsets[0])
    groups = tuple(
        tuple(
            SegmentToClean(
                segment.base_offset, behind[segment.base_offset], segment.size,
                segment.position_before(first_dirty_offset) if segment.base_offset in dirty else None,
                AbortedTransactions(aborted_transactions(log, segment.base_offset, following, indexed)),
            )
            for segment, following in with_ends(group)
        )
        for group in group_segments_by_size(segments, config.segment_size, config.max_index_size, first_uncleanable_offset)
    )  # fmt: skip
    aborted = AbortedTransactions(aborted_transactions(log, first_dirty_offset, first_uncleanable_offset))
    return RoundPlan(
        log.directory, config, log.now, first_dirty_offset, first_uncleanable_offset,
        legacy_delete_horizon(log, first_dirty_offset), groups, aborted,
        LastRecords(log.producer_state.producers.values(), first_uncleanable_offset - 1),
        some_only_ask=len(aborted) > 0 or groups[0][0].base_offset < first_dirty_offset,
    )  # fmt: skip


def resolve_transactions(plan: RoundPlan, events: Mapping[int, bytes] | Mapping[int, bytearray]) -> ResolvedTransactions:
    """What each pass knows of transactions where it reaches a segment.

    events  of all segments by base offset, see pieces.transaction_events
    Raises Uncleanable where a transaction was aborted that no transaction index knows.
    """
    resolved = ResolvedTransactions({}, {})
    keys, filtering = CleanedTransactionMetadata(concerned_from=plan.first_dirty_offset), CleanedTransactionMetadata()
    keys.add_aborted_transactions(plan.aborted)
    for group in plan.groups:
        words = [memoryview(events.get(segment.base_offset, b"")).cast("q") for segment in group]
        ends = [max(segment.end_offset, _behind(here)) for segment, here in zip(group, words, strict=True)]
        resolved.of_groups[group[0].base_offset] = filtering.pack(max(ends))
        for segment, here, end in zip(group, words, ends, strict=True):
            filtering.add_aborted_transactions(segment.aborted)
            filtering.on_events_read(here)
            if segment.key_position is not None:
                resolved.of_keys[segment.base_offset] = keys.pack(end)
                last_offsets = here[TxnEvent.LAST_OFFSET :: EVENT_WORDS].tolist()
                first = bisect_left(here[TxnEvent.POSITION :: EVENT_WORDS], segment.key_position)
                keys.on_events_read(here[EVENT_WORDS * first :])
                if keys.untold >= plan.first_dirty_offset:
                    at = last_offsets.index(keys.untold, first)
                    position = here[EVENT_WORDS * at + TxnEvent.POSITION]
                    raise untold_abort(f"{plan.directory}/{log_file_name(segment.base_offset)}", position, keys.untold)
    return resolved


def _behind(events: memoryview) -> int:
    """The offset behind all that they tell of."""
    return max(events[TxnEvent.LAST_OFFSET :: EVENT_WORDS], default=-1) + 1

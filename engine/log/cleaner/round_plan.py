"""A round of cleaning that others carry out in pieces: all that they must know of the log, without the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from engine.formats import AbortedTxn, ControlType
from engine.layout import log_file_name
from engine.log.cleaner.cleaner import legacy_delete_horizon, with_ends
from engine.log.cleaner.groups import group_segments_by_size
from engine.log.cleaner.last_records import LastRecords
from engine.log.cleaner.transactions import CleanedTransactionMetadata
from engine.log.cleaner.walk import aborted_transactions, segments_with_aborted, untold_abort

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.config import LogConfig
    from engine.log.partition.unified_log import UnifiedLog

_MOST_OFFSETS = 1 << 28  # of a group: 32 MiB of bits
DATA, WITHOUT_RECORD = -1, -2  # of TransactionEvent.control: no control batch; one that an earlier cleaning emptied


class SegmentToClean(NamedTuple):
    """A segment with offsets base_offset … end_offset − 1.

    key_position  byte from which the first pass reads its keys; None: it is clean, and only asks for later offsets
    aborted       aborted transactions that the second pass meets from here on
    """

    base_offset: int
    end_offset: int
    size: int
    key_position: int | None
    aborted: tuple[AbortedTxn, ...]


class TransactionEvent(NamedTuple):
    """A transactional batch or a control batch (`control`: a ControlType, DATA or WITHOUT_RECORD), as both passes meet it."""

    position: int
    producer_id: int
    last_offset: int
    control: int


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """A round of cleaning of the log in `directory`: see Cleaner.clean and Round.

    groups   of segments that become one each, in order
    aborted  aborted transactions that the first pass meets
    """

    directory: str
    config: LogConfig
    now: int
    first_dirty_offset: int
    first_uncleanable_offset: int
    legacy_delete_horizon: int
    groups: tuple[tuple[SegmentToClean, ...], ...]
    aborted: tuple[AbortedTxn, ...]
    last_records: LastRecords

    @property
    def segments(self) -> list[SegmentToClean]:
        """All segments, in order."""
        return [segment for group in self.groups for segment in group]

    @property
    def some_only_ask(self) -> bool:
        """Are there records that may be superseded and supersede nothing? Clean ones, or of transactions like aborted ones."""
        return bool(self.aborted) or self.segments[0].base_offset < self.first_dirty_offset

    @property
    def fits_bits(self) -> bool:
        """Is no group of segments too wide for a bit for each of its offsets?"""
        return all(group[-1].end_offset - group[0].base_offset <= _MOST_OFFSETS for group in self.groups)


class ResolvedTransactions(NamedTuple):
    """What a pass knows of transactions where it reaches a segment, by base offset: the first pass, and the second one."""

    of_keys: dict[int, CleanedTransactionMetadata]
    of_groups: dict[int, CleanedTransactionMetadata]


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
                tuple(aborted_transactions(log, segment.base_offset, following, indexed)),
            )
            for segment, following in with_ends(group)
        )
        for group in group_segments_by_size(segments, config.segment_size, config.max_index_size, first_uncleanable_offset)
    )  # fmt: skip
    return RoundPlan(
        log.directory, config, log.now, first_dirty_offset, first_uncleanable_offset,
        legacy_delete_horizon(log, first_dirty_offset), groups,
        tuple(aborted_transactions(log, first_dirty_offset, first_uncleanable_offset)),
        LastRecords(log.producer_state.producers.values(), first_uncleanable_offset - 1),
    )  # fmt: skip


def resolve_transactions(plan: RoundPlan, events: Mapping[int, Sequence[TransactionEvent]]) -> ResolvedTransactions:
    """What each pass knows of transactions where it reaches a segment, from the events of all segments by base offset.

    Raises Uncleanable where a transaction was aborted that no transaction index knows.
    """
    resolved = ResolvedTransactions({}, {})
    keys, filtering = CleanedTransactionMetadata(), CleanedTransactionMetadata()
    keys.add_aborted_transactions(plan.aborted)
    for group in plan.groups:
        resolved.of_groups[group[0].base_offset] = filtering.copy()
        for segment in group:
            here = events.get(segment.base_offset, ())
            filtering.add_aborted_transactions(segment.aborted)
            _follow(filtering, here)
            if segment.key_position is not None:
                resolved.of_keys[segment.base_offset] = keys.copy()
                mine = [event for event in here if event.position >= segment.key_position]
                _follow(keys, mine)
                if keys.untold >= plan.first_dirty_offset:
                    position = next(event.position for event in mine if event.last_offset == keys.untold)
                    raise untold_abort(f"{plan.directory}/{log_file_name(segment.base_offset)}", position, keys.untold)
    return resolved


def _follow(transactions: CleanedTransactionMetadata, events: Sequence[TransactionEvent]) -> None:
    for _, producer_id, last_offset, control in events:
        if control == DATA:
            transactions.on_data_read(producer_id, last_offset)
        else:
            kind = None if control == WITHOUT_RECORD else ControlType(control)
            transactions.on_control_batch_read(producer_id, last_offset, kind)

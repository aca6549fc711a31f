"""Reads of one segment: where an offset lies, what a fetch gets, which record a timestamp means. Mirrors LogSegment."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.log.scan.batch_search import (
    BatchHead,
    TimestampAndOffset,
    count_records,
    last_head,
    search_for_offset,
    search_for_timestamp,
)
from engine.log.segment.segment_files import SegmentFiles

if TYPE_CHECKING:
    from engine.index.offset import OffsetPosition
    from engine.index.transaction import AbortedTxns


class FetchSlice(NamedTuple):
    """Bytes [position, position + size) of the .log, from the batch that begins with `base_offset` on.

    first_entry_incomplete  the first batch has more bytes than were asked for
    """

    base_offset: int
    position: int
    size: int
    first_entry_incomplete: bool = False


class ReadableSegment(SegmentFiles):
    """The files of a segment, searched by its indexes. What writes them is LogSegment."""

    def translate_offset(self, offset: int, starting_position: int = 0) -> BatchHead | None:
        """The batch that holds `offset`, else the first one above it; None: neither is here.

        Mirrors LogSegment.translateOffset.
        """
        position = max(self.offset_index.lookup(offset).position, starting_position)
        return search_for_offset(self.log_file, offset, position, self.size) if position < self.size else None

    def read(
        self, start_offset: int, max_size: int, max_position: int | None, *, min_one_message: bool = False
    ) -> FetchSlice | None:
        """Where to read from `start_offset` on, at most `max_size` bytes and not behind byte `max_position`.

        max_position     None: nothing may be read yet, but where it would begin is told
        min_one_message  the first batch is read in full whatever `max_size` says
        Returns None where nothing at or above `start_offset` is here. Mirrors LogSegment.read.
        """
        head = self.translate_offset(start_offset)
        if head is None:
            return None
        size = max(max_size, head.size) if min_one_message else max_size
        if size == 0 or max_position is None:
            return FetchSlice(head.base_offset, head.position, 0)
        size_here = max(0, min(max_position - head.position, size, self.size - head.position))
        return FetchSlice(head.base_offset, head.position, size_here, size < head.size)

    def fetch_upper_bound_offset(self, start: OffsetPosition, fetch_size: int) -> int | None:
        """Offset of an index entry at least `fetch_size` bytes behind `start`; None: there is none."""
        entry = self.offset_index.fetch_upper_bound(start, fetch_size)
        return None if entry is None else entry.offset

    def find_offset_by_timestamp(self, timestamp: int, starting_offset: int) -> TimestampAndOffset | None:
        """First record with at least this timestamp and offset; None: there is none."""
        entry = self.time_index.lookup(timestamp)
        position = self.offset_index.lookup(max(entry.offset, starting_offset)).position
        return search_for_timestamp(self.log_file, timestamp, position, starting_offset, self.size)

    def read_next_offset(self) -> int:
        """Behind the last batch; the base offset without one. Read from the last index entry on."""
        head = self.translate_offset(self.offset_index.last_offset)
        last = None if head is None else last_head(self.log_file, head.position, self.size)
        return self.base_offset if last is None else last.next_offset

    def behind(self, offset: int) -> tuple[BatchHead, int | None] | None:
        """The first batch whose last offset is `offset` or larger; records from there on, as `count_records` counts them."""
        head = self.translate_offset(offset)
        return None if head is None else (head, count_records(self.log_file, head.position, self.size))

    @property
    def aborted_are_unknown(self) -> bool:
        """Can the transaction index not be believed? Opening a log for writing makes lost ones anew."""
        return False

    def collect_aborted_txns(self, fetch_offset: int, upper_bound_offset: int) -> AbortedTxns:
        """The aborted transactions that a reader of these offsets must know, as far as this segment tells."""
        return self.txn_index.collect_aborted_txns(fetch_offset, upper_bound_offset)

"""What a round of cleaning did, in Kafka's terms. Mirrors CleanerStats."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class CleanerStats:
    """What a round did. Mirrors CleanerStats."""

    map_messages_read: int = 0
    map_entries: int = 0
    messages_read: int = 0
    messages_written: int = 0
    messages_discarded: int = 0  # of aborted transactions, and markers that nothing needs: Kafka does not count them as read
    bytes_read: int = 0
    bytes_written: int = 0
    invalid_messages_read: int = 0  # without a key
    tombstones_removed: int = 0  # the last record of their key, and their time was over
    segments_before: int = 0
    segments_after: int = 0
    buffer_utilization: float = 0.0
    seconds: float = 0.0
    sets_cut_off: int = 0  # compressed sets of formats 0 and 1 that end inside a message, of which the rest stays
    first_cut_off: str = ""  # which was the first, and how

    @property
    def messages_met(self) -> int:
        """All records that were there."""
        return self.messages_read + self.messages_discarded

    @property
    def messages_gone(self) -> int:
        """Those of them that are left out."""
        return self.messages_met - self.messages_written

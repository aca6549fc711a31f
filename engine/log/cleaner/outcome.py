"""What a round of cleaning did, in Kafka's terms, or why it left the partition as it was. Mirrors CleanerStats."""

from __future__ import annotations

from dataclasses import dataclass

from engine.discovery.names import parent_of
from engine.errors import KafkalogError, argument
from engine.findings import Finding, Where
from engine.log.errors import whole_recovery


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


class Uncleanable(KafkalogError):
    """A partition that cannot be cleaned: a batch in it is damaged, or inflates to more than a walk takes. Its segment and
    those after it are as they were.

    cleaned_below  segments below this offset were cleaned by the same round; None: it changed nothing. A round looks for damage
                   before it changes anything: only what nobody foresaw is met so late
    """

    code = "uncleanable"

    def __init__(self, finding: Finding, do: str | None = None) -> None:
        where = finding.where
        place = f"{where.file} at byte {where.position}, offset {where.offset}"
        super().__init__(f"{place}: {finding.what}", do=do or whole_recovery(parent_of(where.file)))
        self.finding = finding
        self.cleaned_below: int | None = None


def unlisted_abort_error(path: str, position: int, offset: int) -> Uncleanable:
    """The marker at `position` aborts a transaction that no transaction index knows, so that its records would count."""
    what = ("this marker aborts a transaction that is missing from the transaction index: its records would be kept as the "
            "latest of their keys, and the committed records would be deleted")
    do = f"kafkalog verify --rebuild {argument(parent_of(path))}    # rebuilds the transaction index"
    return Uncleanable(Finding("txnindex-incomplete", Where(path, position, offset), what), do)

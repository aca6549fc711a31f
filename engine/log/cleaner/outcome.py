"""The result of a round of cleaning, in Kafka's terms, or why it could not clean. Mirrors CleanerStats."""

from __future__ import annotations

from dataclasses import dataclass

from engine.discovery.names import parent_of
from engine.errors import KafkalogError, argument
from engine.findings import Finding, Where
from engine.log.errors import whole_recovery


@dataclass
class CleanerStats:
    """Statistics of a round. Mirrors CleanerStats."""

    map_messages_read: int = 0
    map_entries: int = 0
    messages_read: int = 0
    messages_written: int = 0
    messages_discarded: int = 0  # of aborted transactions, and markers no longer needed: Kafka does not count them as read
    bytes_read: int = 0
    bytes_written: int = 0
    invalid_messages_read: int = 0  # records without a key
    tombstones_removed: int = 0  # tombstones that are the last record of their key and whose delete horizon has passed
    segments_before: int = 0
    segments_after: int = 0
    buffer_utilization: float = 0.0
    seconds: float = 0.0
    sets_cut_off: int = 0  # compressed sets of formats 0 and 1 that end inside a message; their whole messages are kept
    first_cut_off: str = ""  # description of the first such set

    @property
    def messages_met(self) -> int:
        """All records that were read."""
        return self.messages_read + self.messages_discarded

    @property
    def messages_deleted(self) -> int:
        """The records that were not written."""
        return self.messages_met - self.messages_written


class Uncleanable(KafkalogError):
    """A log that cannot be cleaned: a batch is damaged, or larger than the limit when decompressed. Its segment and all
    later ones are unchanged.

    cleaned_below  segments below this offset were cleaned by the same round; None: it changed nothing. Rounds check for
                   damage before they change anything, so this is None except for unforeseen errors
    """

    code = "uncleanable"

    def __init__(self, finding: Finding, do: str | None = None) -> None:
        where = finding.where
        position = f"{where.file} at byte {where.position}, offset {where.offset}"
        super().__init__(f"{position}: {finding.what}", do=do or whole_recovery(parent_of(where.file)))
        self.finding = finding
        self.cleaned_below: int | None = None


def unlisted_abort_error(path: str, position: int, offset: int) -> Uncleanable:
    """The marker at `position` aborts a transaction that no transaction index lists: its records would be retained."""
    what = ("this marker aborts a transaction that is missing from the transaction index: its records would be kept as the "
            "latest of their keys, and the committed records would be deleted")
    do = f"kafkalog verify --rebuild {argument(parent_of(path))}    # rebuilds the transaction index"
    return Uncleanable(Finding("txnindex-incomplete", Where(path, position, offset), what), do)

"""Entries of indexes, snapshots and small files as lines of text: Kafka's, or `name: value` where its tool has none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.checkpoint.producer_snapshot import producer_text
from engine.formats import AbortedTxn, ProducerSnapshotEntry
from engine.index.offset import OffsetPosition
from engine.index.time import TimestampOffset
from engine.index.transaction import aborted_txn_text
from engine.kernels.escapes import terminal_safe

if TYPE_CHECKING:
    from engine.dump.entries import Entry, SmallEntry


def entry_text(entry: Entry) -> str:
    """The line of any entry, without its end."""
    if isinstance(entry, (OffsetPosition, TimestampOffset)):
        return entry.text()
    if isinstance(entry, AbortedTxn):
        return aborted_txn_text(entry)
    if isinstance(entry, ProducerSnapshotEntry):
        return producer_text(entry)
    return small_entry_text(entry)


def small_entry_text(entry: SmallEntry) -> str:
    """`name: value` for every field that is there, in Kafka's spelling: `epoch: 3 startOffset: 120`."""
    parts: list[str] = []
    for name, value in entry._asdict().items():
        first, *others = name.split("_")
        label = first + "".join(word.capitalize() for word in others)
        if isinstance(value, dict):
            parts += [f"{key}: {text}" for key, text in value.items()]
        elif isinstance(value, tuple):
            parts.append(f"{label}: [{','.join(map(str, value))}]")
        elif value is not None:
            parts.append(f"{label}: {value}")
    return terminal_safe(" ".join(parts))

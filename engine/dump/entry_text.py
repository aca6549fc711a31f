"""Entries of indexes, snapshots and small files as lines of text: Kafka's, or `name: value` where its tool has none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.checkpoint.producer_snapshot import producer_text
from engine.formats import AbortedTxn, ProducerSnapshotEntry
from engine.index.offset import OffsetPosition
from engine.index.time import TimestampOffset
from engine.index.transaction import aborted_txn_text
from engine.kernels.escapes import terminal_safe

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.dump.entries import Entry, SmallEntry

_TEXTS: dict[type, Callable[[Any], str]] = {
    OffsetPosition: OffsetPosition.text,
    TimestampOffset: TimestampOffset.text,
    AbortedTxn: aborted_txn_text,
    ProducerSnapshotEntry: producer_text,
}


def entry_text(entry: Entry) -> str:
    """The line of any entry, without its end."""
    return _TEXTS.get(type(entry), small_entry_text)(entry)


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

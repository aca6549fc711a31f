"""The public interface of the package: decoders for the records of Kafka's internal topics."""

from __future__ import annotations

from functools import cache
from typing import Protocol

from engine.schema import tables
from engine.schema.metadata import control_data, control_text
from engine.schema.wire import SchemaError

__all__ = [
    "DECODERS",
    "RecordDecoder",
    "SchemaError",
    "control_data",
    "control_text",
    "decoder",
    "internal_topic_decoder",
]


class RecordDecoder(Protocol):
    """Decodes the records of one topic. Never raises for bad bytes."""

    def text(
        self, offset: int, key: bytes | None, value: bytes | None
    ) -> tuple[str | bytes | None, str | bytes | None, str | None]:
        """Return (key text, payload text, problem): what DumpLogSegments prints after ` key: ` and ` payload: `.

        A text is None if it is not printed, and bytes if key or value are shown as they are. `problem` is None, or one line on
        why the record could not be decoded. Kafka's own message is in the texts, unless its tool stops there: then both are
        None.
        """
        ...

    def data(self, offset: int, key: bytes | None, value: bytes | None) -> dict[str, object]:
        """Return {"key": …, "value": …, "problem": …}: the same as values for JSON, each None if absent."""
        ...


DECODERS = ("offsets", "transaction-log", "cluster-metadata", "remote-log-metadata", "share-group-state")
_TOPICS = {
    "__consumer_offsets": "offsets",
    "__transaction_state": "transaction-log",
    "__cluster_metadata": "cluster-metadata",
    "__remote_log_metadata": "remote-log-metadata",
    "__share_group_state": "share-group-state",
}


@cache
def decoder(name: str) -> RecordDecoder:
    """Return the decoder `name`, one of DECODERS. Raises KeyError for any other."""
    if name in {"offsets", "transaction-log", "share-group-state"}:
        from engine.schema.coordinator import CoordinatorDecoder

        if name == "offsets":
            return CoordinatorDecoder(tables.offsets(), embedded=True)
        return CoordinatorDecoder(tables.transactions() if name == "transaction-log" else tables.share_group_state())
    if name == "cluster-metadata":
        from engine.schema.metadata import ClusterMetadataDecoder

        return ClusterMetadataDecoder(tables.cluster_metadata())
    if name == "remote-log-metadata":
        from engine.schema.remote import RemoteLogMetadataDecoder

        return RemoteLogMetadataDecoder(tables.remote_log_metadata())
    raise KeyError(name)


def internal_topic_decoder(topic: str) -> RecordDecoder | None:
    """Return the decoder for an internal topic's records; None for any other topic."""
    name = _TOPICS.get(topic)
    return None if name is None else decoder(name)

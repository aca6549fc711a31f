"""Control records: keys and values. Mirrors ControlRecordType and EndTransactionMarker.

A key is version (int16) and type (int16). The value of a marker is version (int16) and coordinator epoch (int32).
Versions above the known ones are read as the highest known one, since later ones may only add fields at the end.
"""

from __future__ import annotations

from engine.amounts import count_of
from engine.formats import CONTROL_KEY, END_TXN_MARKER, INT_MAX, NO_SEQUENCE, ControlKey, ControlType, EndTxnMarker, to_int

MARKERS = (ControlType.ABORT, ControlType.COMMIT)


class ControlRecordInvalid(ValueError):
    """The key or value of a control record does not follow its schema; the message is the reason."""


def encode_control_key(kind: ControlType) -> bytes:
    """Return the key of a control record of this type."""
    return CONTROL_KEY.pack(ControlKey(0, kind))


def control_type(key: bytes | memoryview | None) -> int:
    """Return the type id in a control record's key, known (see ControlType) or not.

    Raises ControlRecordInvalid: null key, fewer than 4 bytes, negative version. Mirrors ControlRecordType.parseTypeId.
    """
    if key is None:
        raise ControlRecordInvalid("the control record has no key")
    if len(key) < CONTROL_KEY.size:
        raise ControlRecordInvalid(f"the control record's key has {count_of(len(key), 'byte')}, expected {CONTROL_KEY.size}")
    version, kind = CONTROL_KEY.read(key)
    if version < 0:
        raise ControlRecordInvalid(f"the control record's key has version {version}")
    return kind


def known_control_type(kind: int) -> ControlType | None:
    """Return the type with this id; None: unknown, to be skipped. Mirrors ControlRecordType.fromTypeId."""
    return ControlType(kind) if ControlType.ABORT <= kind <= ControlType.KRAFT_VOTERS else None


def encode_end_txn_marker(coordinator_epoch: int) -> bytes:
    """Return the value of an abort or commit marker."""
    return END_TXN_MARKER.pack(EndTxnMarker(0, coordinator_epoch))


def end_txn_marker(value: bytes | memoryview | None) -> int:
    """Return the coordinator epoch in the value of an abort or commit marker.

    Raises ControlRecordInvalid: null value, fewer than 6 bytes, negative version.
    Mirrors EndTransactionMarker.deserializeValue.
    """
    if value is None:
        raise ControlRecordInvalid("the transaction marker has no value")
    if len(value) < END_TXN_MARKER.size:
        size = END_TXN_MARKER.size
        raise ControlRecordInvalid(f"the transaction marker's value has {count_of(len(value), 'byte')}, expected {size}")
    version, coordinator_epoch = END_TXN_MARKER.read(value)
    if version < 0:
        raise ControlRecordInvalid(f"the transaction marker's value has version {version}")
    return coordinator_epoch


def increment_sequence(sequence: int, increment: int) -> int:
    """Return the sequence `increment` records later."""
    if sequence > to_int(INT_MAX - increment):
        return to_int(increment - (INT_MAX - sequence) - 1)
    return to_int(sequence + increment)


def decrement_sequence(sequence: int, decrement: int) -> int:
    """Return the sequence `decrement` records earlier."""
    if sequence < decrement:
        return to_int(INT_MAX - to_int(decrement - sequence) + 1)
    return to_int(sequence - decrement)


def last_sequence(base_sequence: int, last_offset_delta: int) -> int:
    """Return the sequence of the last record of a batch; NO_SEQUENCE if it has none (DefaultRecordBatch.lastSequence)."""
    return NO_SEQUENCE if base_sequence == NO_SEQUENCE else increment_sequence(base_sequence, last_offset_delta)

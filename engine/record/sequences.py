"""Arithmetic of sequence numbers: 32 bits, going on with 0 behind 2147483647. Mirrors DefaultRecordBatch."""

from __future__ import annotations

from engine.formats import INT_MAX, NO_SEQUENCE, to_int


def increment_sequence(sequence: int, increment: int) -> int:
    """The sequence `increment` records later."""
    if sequence > to_int(INT_MAX - increment):
        return to_int(increment - (INT_MAX - sequence) - 1)
    return to_int(sequence + increment)


def decrement_sequence(sequence: int, decrement: int) -> int:
    """The sequence `decrement` records earlier."""
    if sequence < decrement:
        return to_int(INT_MAX - to_int(decrement - sequence) + 1)
    return to_int(sequence - decrement)


def last_sequence(base_sequence: int, last_offset_delta: int) -> int:
    """Sequence of the last record of a batch; NO_SEQUENCE where the batch has none (DefaultRecordBatch.lastSequence)."""
    return NO_SEQUENCE if base_sequence == NO_SEQUENCE else increment_sequence(base_sequence, last_offset_delta)

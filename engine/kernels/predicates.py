"""What a batch is, by its columns: the questions that several kernels ask, each answered in one place.

Compiled kernels take these from predicates.pxd, to have them inlined; these are for the other build. There is a batch
`row`. The bits of format 2 are read as they stand, also in formats 0 and 1, where none of them has a meaning.
"""

from engine.formats import (
    CODEC_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    MAGIC_V2,
    NO_PRODUCER_ID,
    TRANSACTIONAL_FLAG,
    BatchField,
    Codec,
)

_MAGIC, _ATTRIBUTES = int(BatchField.MAGIC), int(BatchField.ATTRIBUTES)
_VALID, _PRODUCER_ID = int(BatchField.VALID), int(BatchField.PRODUCER_ID)
_LAST_CODEC = int(max(Codec))


def is_legacy(batches: memoryview, row: int) -> bool:
    """Has it format 0 or 1, or what is taken for it?"""
    return batches[_MAGIC, row] < MAGIC_V2


def is_compressed(batches: memoryview, row: int) -> bool:
    """Has it a codec, be it one that does not exist?"""
    return batches[_ATTRIBUTES, row] & CODEC_MASK != 0


def is_transactional(batches: memoryview, row: int) -> bool:
    """Is it part of a transaction, its end included?"""
    return batches[_ATTRIBUTES, row] & TRANSACTIONAL_FLAG != 0


def is_control(batches: memoryview, row: int) -> bool:
    """Are its records for brokers, not for consumers?"""
    return batches[_ATTRIBUTES, row] & CONTROL_FLAG != 0


def is_transactional_or_control(batches: memoryview, row: int) -> bool:
    """Is it one of both?"""
    return batches[_ATTRIBUTES, row] & (TRANSACTIONAL_FLAG | CONTROL_FLAG) != 0


def has_delete_horizon(batches: memoryview, row: int) -> bool:
    """Does its base timestamp say until when its tombstones stay?"""
    return batches[_ATTRIBUTES, row] & DELETE_HORIZON_FLAG != 0


def has_producer(batches: memoryview, row: int) -> bool:
    """Did an idempotent producer write it, or a coordinator for one?"""
    return batches[_PRODUCER_ID, row] > NO_PRODUCER_ID


def is_whole(batches: memoryview, row: int) -> bool:
    """Is its checksum known to be right?"""
    return batches[_VALID, row] == 1


def is_damaged(batches: memoryview, row: int) -> bool:
    """Is its checksum known to be wrong?"""
    return batches[_VALID, row] == 0


def is_known(batches: memoryview, row: int) -> bool:
    """Are there such a format and such a codec?"""
    return 0 <= batches[_MAGIC, row] <= MAGIC_V2 and batches[_ATTRIBUTES, row] & CODEC_MASK <= _LAST_CODEC

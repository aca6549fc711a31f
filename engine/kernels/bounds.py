"""Whether columns of records can be believed: kernels ask before they read what columns point to.

Compiled kernels take these from bounds.pxd; these are for the other build, and what those are tested against. The caller
has made sure that there are rows first … end − 1.
"""

from engine.formats import RecordField
from engine.kernels.numbers import Bytes, capacity_of

BLOCK = 512  # records that are looked at together, before the first of them is used


def batches_are_there(records: memoryview, first: int, end: int, rows: int) -> bool:
    """Is each of the records first … end − 1 of one of the batches 0 … rows − 1?"""
    return all(0 <= row < rows for row in _part(records, RecordField.BATCH, first, end))


def contents_are_there(data: Bytes, records: memoryview, first: int, end: int) -> bool:
    """Do keys and values of the records first … end − 1 lie in `data`? Those of a size below 0, nulls, have a position too."""
    room = len(data)
    for position, sizes in (
        (RecordField.KEY_POSITION, RecordField.KEY_SIZE), (RecordField.VALUE_POSITION, RecordField.VALUE_SIZE),
    ):  # fmt: skip
        for at, size in zip(_part(records, position, first, end), _part(records, sizes, first, end), strict=True):
            if not (0 <= at <= room and size <= room - at):
                return False
    return True


def _part(table: memoryview, field: int, first: int, end: int) -> list[int]:
    capacity = capacity_of(table)
    return table.cast("B").cast("q")[field * capacity + first : field * capacity + max(first, end)].tolist()

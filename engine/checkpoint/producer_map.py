"""Producers by id, in the order in which Java's HashMap<Long, …> hands them out: snapshots are written in it.

A HashMap has buckets, a power of two of them; a key's bucket follows from its hash, and within a bucket keys stand as
they came. It doubles when three quarters as many keys are in it, or, below 64 buckets, when a ninth key comes into one
bucket; it never shrinks. Buckets of more than eight keys in larger tables, which Java turns into trees with an order of
their own, keep the order of their keys' coming here: ids given out in sequence never fill one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

_FIRST_CAPACITY = 16
_SMALLEST_WITH_TREES = 64
_LONGEST_CHAIN = 8

Value = TypeVar("Value")


class ProducerMap(Generic[Value]):
    """A mapping of producer ids; iteration and `values` are in HashMap's order, and cost a sort."""

    def __init__(self) -> None:
        self._values: dict[int, Value] = {}
        self._capacity = _FIRST_CAPACITY

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, producer_id: int) -> bool:
        return producer_id in self._values

    def __getitem__(self, producer_id: int) -> Value:
        return self._values[producer_id]

    def get(self, producer_id: int) -> Value | None:
        """The value of `producer_id`, None where there is none."""
        return self._values.get(producer_id)

    def __setitem__(self, producer_id: int, value: Value) -> None:
        is_new = producer_id not in self._values
        self._values[producer_id] = value
        if is_new:
            self._grow(producer_id)

    def __delitem__(self, producer_id: int) -> None:
        del self._values[producer_id]

    def clear(self) -> None:
        """Forget every producer. The buckets stay."""
        self._values.clear()

    def __iter__(self) -> Iterator[int]:
        mask = self._capacity - 1
        return iter(sorted(self._values, key=lambda key: _hash(key) & mask))  # stable: within a bucket as they came

    def values(self) -> list[Value]:
        """The values, in the order of iteration."""
        return [self._values[key] for key in self]

    def _grow(self, producer_id: int) -> None:
        if self._capacity < _SMALLEST_WITH_TREES:
            mask = self._capacity - 1
            bucket = _hash(producer_id) & mask
            if sum(_hash(key) & mask == bucket for key in self._values) > _LONGEST_CHAIN:
                self._capacity *= 2
        if len(self._values) > self._capacity * 3 // 4:
            self._capacity *= 2


def _hash(key: int) -> int:
    """HashMap.hash(Long): both halves of the key, with their upper bits spread over the lower ones."""
    folded = (key ^ (key >> 32)) & 0xFFFFFFFF
    return folded ^ (folded >> 16)

"""The order in which Java's hash maps return their keys, where it decides what Kafka prints, sends or answers."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Hashed = TypeVar("Hashed")
_LEAST_TABLE = 16  # HashMap.DEFAULT_INITIAL_CAPACITY


class GrowingOrder(Generic[Hashed]):
    """The keys of a CopyOnWriteMap in its order, which copies its HashMap with every new key."""

    def __init__(self, hash_of: Callable[[Hashed], int]) -> None:
        self.keys: list[Hashed] = []
        self._hash_of, self._table = hash_of, _LEAST_TABLE

    def add(self, key: Hashed) -> None:
        """Add a new key."""
        table = _copied_table(len(self.keys))
        if table == self._table:
            self.keys.insert(bisect_right(self.keys, self._bucket(key), key=self._bucket), key)
        else:
            self._table = table
            self.keys.append(key)
            self.keys.sort(key=self._bucket)

    def _bucket(self, key: Hashed) -> int:
        return _bucket(self._hash_of(key), self._table)


def hash_order(keys: Iterable[Hashed], hash_of: Callable[[Hashed], int], table: int = _LEAST_TABLE) -> list[Hashed]:
    """Return keys in the order of a HashMap into which they were put one after the other.

    table  the size of its table at first. Buckets are lists: a HashMap with eight keys in one bucket is not mirrored.
    """
    listed = list(dict.fromkeys(keys))
    while len(listed) > table * 3 // 4:
        table *= 2
    return sorted(listed, key=lambda one: _bucket(hash_of(one), table))


def _bucket(number: int, table: int) -> int:
    bits = number & 0xFFFFFFFF
    return (bits ^ bits >> 16) & (table - 1)


def table_for(size: int) -> int:
    """Return the size of the table of a HashMap with this initial capacity (HashMap.tableSizeFor)."""
    return 1 << max(0, size - 1).bit_length()


def _copied_table(size: int) -> int:
    """Return the size of the table after one key was put into a copy of a HashMap of `size` keys."""
    if size == 0:
        return _LEAST_TABLE
    table = table_for(int(size / 0.75 + 1.0))
    return table if size + 1 <= table * 3 // 4 else 2 * table


def hash_of_text(text: str) -> int:
    """Return String.hashCode, as 32 unsigned bits."""
    number = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        number = (31 * number + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return number

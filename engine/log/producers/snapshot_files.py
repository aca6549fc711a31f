"""Which producer snapshots a partition has, by offset, in order: there may be one for each of very many segments."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING

from engine.layout import parse_long

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.files import Files

_SUFFIX = ".snapshot"


class SnapshotFiles:
    """A sorted map from offset to path. Knows of files what it is told: nothing is made or removed by it.

    aside    by offset, those that a recovery has forgotten while their files stay: most are written anew with the same bytes
    written  paths of those that were made, or made anew: their names may not be on the disk
    """

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._paths: dict[int, str] = {}
        self.aside: dict[int, str] = {}
        self.written: set[str] = set()

    @classmethod
    def of_directory(cls, files: Files, directory: str) -> SnapshotFiles:
        """Those in `directory`. A name that begins with no offset, at which Kafka fails, is nobody's."""
        return cls.of_names(directory, files.plain(directory) if files.exists(directory) else ())

    @classmethod
    def of_names(cls, directory: str, names: Iterable[str]) -> SnapshotFiles:
        """Those among the `names` of the plain files in `directory`."""
        found = cls()
        for name in names:
            if name.endswith(_SUFFIX) and (offset := parse_long(name.partition(".")[0])) is not None:
                found._paths[offset] = f"{directory}/{name}"
        found._offsets = sorted(found._paths)
        return found

    def __iter__(self) -> Iterator[int]:
        """The offsets, ascending, over a copy."""
        return iter(list(self._offsets))

    def __getitem__(self, offset: int) -> str:
        return self._paths[offset]

    @property
    def paths(self) -> frozenset[str]:
        """Where they are."""
        return frozenset(self._paths.values())

    @property
    def last(self) -> int | None:
        """The highest offset."""
        return self._offsets[-1] if self._offsets else None

    def outside(self, first: int, last: int) -> list[int]:
        """The offsets below `first` and those above `last`, ascending."""
        low = bisect_left(self._offsets, first)
        return self._offsets[:low] + self._offsets[max(low, bisect_right(self._offsets, last)) :]

    def add(self, offset: int, path: str) -> None:
        """There is one at `offset` now."""
        if offset not in self._paths:
            insort(self._offsets, offset)
        self._paths[offset] = path

    def pop(self, offset: int) -> str | None:
        """Forget the one at `offset`; its path, None where there is none."""
        path = self._paths.pop(offset, None)
        if path is not None:
            del self._offsets[bisect_left(self._offsets, offset)]
        return path

    def set_aside(self, offset: int) -> None:
        """Forget the one at `offset`, whose file stays for now."""
        path = self.pop(offset)
        if path is not None:
            self.aside[offset] = path

"""What was asked of an overlay, in order, and what all its files share while they note it."""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from engine.overlay.content import Spill
    from engine.overlay.tree import File


class Operation(NamedTuple):
    """One change that was asked for, in the words of `Files`. Writes that follow each other in a file are one."""

    name: str
    path: str
    to: str | None = None
    position: int | None = None
    size: int | None = None


class Changes:
    """The operations so far.

    now    ms since the epoch: the time of change of what is changed here
    lock   held while names, contents or notes change
    spill  takes written bytes that are too many for memory; None: all stay there
    """

    __slots__ = ("lock", "now", "operations", "spill")

    def __init__(self, now: int, spill: Spill | None) -> None:
        self.now, self.spill = now, spill
        self.operations: list[Operation] = []
        self.lock = RLock()

    def note(self, operation: Operation, node: File | None = None, *, modifies: bool = True) -> None:
        """Keep `operation`; `node` is the file that it changed."""
        with self.lock:
            self.operations.append(operation)
            if node is not None:
                node.last_write = None
                if modifies:
                    node.modified_ns = self.now * 1_000_000

    def note_write(self, node: File, path: str, position: int, size: int) -> None:
        """Keep a write, as a part of the file's last one if it continues that."""
        with self.lock:
            node.modified_ns = self.now * 1_000_000
            last = None if node.last_write is None else self.operations[node.last_write]
            if node.last_write is not None and last is not None and (last.position or 0) + (last.size or 0) == position:
                self.operations[node.last_write] = last._replace(size=(last.size or 0) + size)
                return
            node.last_write = len(self.operations)
            self.operations.append(Operation("write", path, position=position, size=size))

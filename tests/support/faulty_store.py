"""Object stores in which a call fails, is incomplete, or is the last one before a stop."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from engine.errors import UnreadableFile, UnwritableFile
from engine.remote import access
from engine.remote.storage import WritableFolderStore

if TYPE_CHECKING:
    from collections.abc import Iterator


class Stopped(BaseException):
    """The process has ended: no code of it may continue."""


class Faults:
    """The fault at call number `at`, from 0; `count`: number of calls so far.

    fail  the call and every retry fail        stop  the process ends before the call, or (tear) in the middle of a write
    """

    def __init__(self, kind: str, at: int) -> None:
        self.kind, self.at, self.count = kind, at, 0
        self.is_over = False

    def pass_by(self, what: str, *, writes: bool) -> bool:
        """Count a call. True: its write must be incomplete."""
        if self.is_over:
            raise Stopped
        number, self.count = self.count, self.count + 1
        if number != self.at:
            return False
        if self.kind == "fail":
            raise (UnwritableFile if writes else UnreadableFile)(f"{what}: 503 Slow Down")
        self.is_over = True
        if self.kind == "tear" and writes:
            return True
        raise Stopped


class FaultyStore(WritableFolderStore):
    """See WritableStore; `faults` of all of them."""

    faults: Faults

    def list(self, prefix: str = "") -> Iterator:
        """See Store."""
        self.faults.pass_by(self.name, writes=False)
        return super().list(prefix)

    def find(self, key: str):
        """See Store."""
        self.faults.pass_by(self.path(key), writes=False)
        return super().find(key)

    def read(self, found, start: int, end: int) -> bytes:
        """See Store. The check that it is still the same object is part of the call."""
        self.faults.pass_by(self.path(found.key), writes=False)
        return WritableFolderStore(self._changing, self.name).read(found, start, end)

    def read_whole(self, key: str, limit: int):
        """See Store. One call."""
        self.faults.pass_by(self.path(key), writes=False)
        return WritableFolderStore(self._changing, self.name).read_whole(key, limit)

    def put(self, key: str, size: int, parts) -> None:
        """See WritableStore. An incomplete write leaves half an object under its name, as a mounted bucket may."""
        is_torn = self.faults.pass_by(self.path(key), writes=True)
        below = WritableFolderStore(self._changing, self.name)
        if is_torn:
            data = b"".join(parts)
            below.put(key, size // 2, (data[: size // 2],))
            raise Stopped
        below.put(key, size, parts)

    def delete(self, found) -> None:
        """See WritableStore."""
        if self.faults.pass_by(self.path(found.key), writes=True):
            WritableFolderStore(self._changing, self.name).delete(found)
            raise Stopped
        WritableFolderStore(self._changing, self.name).delete(found)


@contextmanager
def faulty_stores(kind: str, at: int) -> Iterator[Faults]:
    """Give the fault to every folder store that is opened in this context."""
    faults = FaultyStore.faults = Faults(kind, at)
    before = access.FolderStore, access.WritableFolderStore
    access.FolderStore = access.WritableFolderStore = FaultyStore  # type: ignore[misc]  # replaced for a test
    try:
        yield faults
    finally:
        access.FolderStore, access.WritableFolderStore = before  # type: ignore[misc]  # replaced for a test

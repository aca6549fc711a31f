"""A file that is open for writing under a quarantine: its old bytes are kept before they change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.files import WritableFile

if TYPE_CHECKING:
    from engine.files import Buffer
    from engine.log.quarantine.seam import QuarantiningFiles


class FileState:
    """What became of a file that was opened for writing.

    path     where it is now
    intact   so many of its first bytes are the old ones, and in place; None until it is changed
    is_new   nothing of it needs to be kept: it was made here, or is kept already
    is_kept  it lies in the quarantine: what is still written to it is dropped
    """

    __slots__ = ("intact", "is_kept", "is_new", "path")

    def __init__(self, path: str, *, is_new: bool) -> None:
        self.path, self.is_new = path, is_new
        self.intact: int | None = None
        self.is_kept = False


class QuarantinedFile(WritableFile):
    """A file open for reading and writing, whose old bytes are kept before they change."""

    __slots__ = ("_files", "_state", "below")

    def __init__(self, files: QuarantiningFiles, below: WritableFile, state: FileState) -> None:
        super().__init__(below.path, -1)
        self._files, self.below, self._state = files, below, state

    def close(self) -> None:
        """Release the descriptor. A second call does nothing."""
        self.below.close()

    def size(self) -> int:
        """Bytes in the file at this moment."""
        return self.below.size()

    def read_into(self, buffer: memoryview, position: int) -> int:
        """Fill `buffer` from byte `position`; returns how many bytes came."""
        return self.below.read_into(buffer, position)

    def write_at(self, position: int, *parts: Buffer) -> None:
        """Write all of `parts`, one behind the other, from byte `position` on. Raises UnwritableFile."""
        if self.prepare(position):
            self.below.write_at(position, *parts)

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes, or lengthen it with zeros. Raises UnwritableFile."""
        if size != self.below.size() and self.prepare(size):
            self.below.truncate(size)

    def sync(self) -> None:
        """Wait until the file's bytes and size are on the disk. Raises UnwritableFile."""
        self.below.sync()

    def prepare(self, position: int) -> bool:
        """Keep the old bytes from `position` on, which are about to change. False: the change has no object any more."""
        state = self._state
        if not state.is_new and position >= 0:
            self._files.keep(self.below, state, position)
        return not state.is_kept

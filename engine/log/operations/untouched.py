"""A seam that lets nothing be changed until it is told to: a log that opens without any change has lost nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.files_above import FilesAbove

if TYPE_CHECKING:
    from engine.files import Files, Lock, OpenFile, WritableFile


class Touched(Exception):  # an answer, no error
    """Something was about to be changed."""


class UntouchedFiles(FilesAbove):
    """`below`, of which nothing is changed before `release`: what would do so raises Touched.

    Methods are those of Files.
    """

    def __init__(self, below: Files) -> None:
        super().__init__(below)
        self._is_released = False

    def release(self) -> None:
        """Let everything through from now on."""
        self._is_released = True

    @property
    def _changing(self) -> Files:
        if not self._is_released:
            raise Touched
        return self._below

    def open_writable(self, path: str, *, create: bool = False) -> WritableFile:
        """As Files does."""
        return self._changing.open_writable(path, create=create)

    def rename(self, path: str, to: str) -> None:
        """As Files does."""
        self._changing.rename(path, to)

    def remove(self, path: str) -> None:
        """As Files does."""
        self._changing.remove(path)

    def make_directory(self, path: str) -> None:
        """As Files does."""
        self._changing.make_directory(path)

    def remove_directory(self, path: str) -> None:
        """As Files does."""
        self._changing.remove_directory(path)

    def sync_directory(self, path: str) -> None:
        """As Files does."""
        self._changing.sync_directory(path)

    def set_modified(self, path: str, modified_ms: int) -> None:
        """As Files does."""
        self._changing.set_modified(path, modified_ms)

    def copy(self, file: OpenFile, start: int, end: int, to: WritableFile, position: int) -> None:
        """As Files does."""
        self._changing.copy(file, start, end, to, position)

    def lock(self, path: str) -> Lock:
        """As Files does."""
        return self._changing.lock(path)

"""Files without those that cannot be read, for queries that go on without them (onCorruption, failOnDataLoss).

It stands alone because it implements the file system interface; only queries that skip damage use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.discovery.names import file_name, parent_of
from engine.errors import UnreadableFile
from engine.files.layered import ReadOnlyFilesAbove

if TYPE_CHECKING:
    from engine.files import FileInfo, OpenFile, ReadOnlyFiles


class ReadableFiles(ReadOnlyFilesAbove):
    """The files of `below` without those that `hide` names. See ReadOnlyFiles. Safe for several threads."""

    def __init__(self, below: ReadOnlyFiles) -> None:
        super().__init__(below)
        self._hidden: dict[str, frozenset[str]] = {}  # by directory: names

    def hide(self, path: str) -> bool:
        """Hide a file. Returns False if no such file is listed in its directory."""
        directory, name = parent_of(path), file_name(path)
        if name not in self.list(directory):
            return False
        self._hidden[directory] = self._hidden.get(directory, frozenset()) | {name}
        return True

    def _is_hidden(self, path: str) -> bool:
        return bool(self._hidden) and file_name(path) in self._hidden.get(parent_of(path), ())

    def plain(self, directory: str) -> list[str]:
        """See ReadOnlyFiles."""
        hidden = self._hidden.get(directory.rstrip("/"), ())
        return [name for name in self._below.plain(directory) if name not in hidden]

    def list(self, directory: str) -> list[str]:
        """See ReadOnlyFiles."""
        hidden = self._hidden.get(directory.rstrip("/"), ())
        return [name for name in self._below.list(directory) if name not in hidden]

    def exists(self, path: str) -> bool:
        """See ReadOnlyFiles."""
        return not self._is_hidden(path) and self._below.exists(path)

    def info(self, path: str) -> FileInfo:
        """See ReadOnlyFiles."""
        self._refuse(path)
        return self._below.info(path)

    def open(self, path: str) -> OpenFile:
        """See ReadOnlyFiles."""
        self._refuse(path)
        return self._below.open(path)

    def _refuse(self, path: str) -> None:
        if self._is_hidden(path):
            raise UnreadableFile(f"{path}: No such file or directory", path=path)
